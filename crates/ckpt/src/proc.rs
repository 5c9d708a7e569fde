//! Small texts of /proc/PID.

use kern::proc::{whole, PROC};
use vocab::{Fault, Pid, Result};

/// The lines `Name: value` of a file of /proc, of which few are ever asked for.
pub(crate) struct Fields {
    path: String,
    lines: String,
}

impl Fields {
    pub(crate) fn read(path: String) -> Result<Fields> {
        let text = whole(&path).map_err(|e| Fault::io(&e, format!("read {path}")))?;
        let lines = String::from_utf8_lossy(&text).into_owned();
        Ok(Fields { path, lines })
    }

    pub(crate) fn text(&self, name: &str) -> Result<&str> {
        let value = self.lines.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        value.map(str::trim).ok_or_else(|| Fault::bug(format!("{} has no line {name}", self.path)))
    }

    /// Numbers of this base, separated by blanks.
    pub(crate) fn numbers(&self, name: &str, base: u32) -> Result<Vec<u64>> {
        let parse = |word: &str| u64::from_str_radix(word, base).ok();
        let numbers: Option<Vec<u64>> = self.text(name)?.split_whitespace().map(parse).collect();
        numbers.ok_or_else(|| Fault::bug(format!("{}: {name} has something else than numbers", self.path)))
    }

    pub(crate) fn number(&self, name: &str, base: u32) -> Result<u64> {
        let numbers = self.numbers(name, base)?;
        numbers.first().copied().ok_or_else(|| Fault::bug(format!("{}: {name} is empty", self.path)))
    }
}

/// What proc_pid_status(5) tells.
pub(crate) fn status(pid: Pid) -> Result<Fields> {
    Fields::read(format!("{PROC}/{pid}/status"))
}

/// The fields of /proc/PID/stat behind the name, of which the first is number 3 in proc_pid_stat(5).
pub(crate) fn stat_fields(pid: Pid) -> Result<Vec<String>> {
    let path = format!("{PROC}/{pid}/stat");
    let text = whole(&path).map_err(|e| Fault::io(&e, format!("read {path}")))?;
    let text = String::from_utf8_lossy(&text).into_owned();
    let behind =
        text.rsplit_once(')').map(|(_, behind)| behind).ok_or_else(|| Fault::bug(format!("{path}: no name")))?;
    Ok(behind.split_whitespace().map(str::to_owned).collect())
}

/// The number of a field of [`stat_fields`], counted as in proc_pid_stat(5).
pub(crate) fn stat_number(fields: &[String], index: usize) -> Result<u64> {
    let number = fields.get(index - 3).and_then(|field| field.parse::<i128>().ok());
    number.map(|number| number as u64).ok_or_else(|| Fault::bug(format!("field {index} of stat is no number")))
}

/// Where a link of /proc/PID leads.
pub(crate) fn link(pid: Pid, name: &str) -> Result<Vec<u8>> {
    let path = format!("{PROC}/{pid}/{name}");
    let to = std::fs::read_link(&path).map_err(|e| Fault::io(&e, format!("read the link {path}")))?;
    Ok(std::os::unix::ffi::OsStringExt::into_vec(to.into_os_string()))
}

/// What stands for a path that no call takes, and that the kernel does not tell: with its NUL it must fit into PATH_MAX bytes.
pub(crate) const TOO_LONG: &[u8] = b"a path of more than 4095 bytes";

/// The same, or [`TOO_LONG`].
pub(crate) fn name(pid: Pid, name: &str) -> Result<Vec<u8>> {
    match link(pid, name) {
        Err(fault) if fault.errno == libc::ENAMETOOLONG => Ok(TOO_LONG.to_vec()),
        read => read,
    }
}

/// Would the kernel tell this path by a link of /proc?
pub(crate) fn is_told(path: &[u8]) -> bool {
    path.len() < libc::PATH_MAX as usize
}

/// The bytes of a file of /proc/PID.
pub(crate) fn file(pid: Pid, name: &str) -> Result<Vec<u8>> {
    let path = format!("{PROC}/{pid}/{name}");
    whole(&path).map_err(|e| Fault::io(&e, format!("read {path}")))
}

/// The numbers in the names of a directory of /proc/PID, in order.
pub(crate) fn numbers_in(pid: Pid, directory: &str) -> Result<Vec<i32>> {
    let path = format!("{PROC}/{pid}/{directory}");
    let failed = |e: std::io::Error| Fault::io(&e, format!("read {path}"));
    let mut numbers = Vec::new();
    for entry in std::fs::read_dir(&path).map_err(failed)? {
        numbers.extend(entry.map_err(failed)?.file_name().to_str().and_then(|name| name.parse::<i32>().ok()));
    }
    numbers.sort_unstable();
    Ok(numbers)
}

/// A path of a process as this one must say it: links of /proc tell paths below the root of who reads them, unless the process has other mounts.
pub(crate) fn seen_from_here(pid: Pid, path: &[u8]) -> Vec<u8> {
    let mounts = |who: &str| std::fs::read_link(format!("{PROC}/{who}/ns/mnt"));
    match (mounts("self"), mounts(&pid.to_string())) {
        (Ok(own), Ok(its)) if own == its => path.to_owned(),
        _ => [format!("{PROC}/{pid}/root").as_bytes(), path].concat(),
    }
}
