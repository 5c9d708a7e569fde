//! What somebody writes into a file of a process, whose ghost's it is where they do. The agent writes it: neither the process nor its user can make that wait.

use super::at_hand::answer;
use kern::proc::root;
use kern::rights::Rights;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use vocab::errno::{EACCES, EIO};
use vocab::Pid;
use wire::entry::{Content, Found};

/// A group that may do what everybody may.
const NO_GROUP: u32 = 65534;

/// Who writes, as far as a file of /proc asks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Writer {
    pub(crate) uid: u32,
    /// Bit n for capability n; of root's, since those of others may count in a namespace of their own only.
    pub(crate) capabilities: u64,
}

/// How it went, as the entry that was written. `None`: the process is gone.
pub(crate) fn write(proc: &kern::proc::Proc, pid: Pid, path: &[u8], text: &[u8], who: Writer) -> Option<Found> {
    let capabilities = if who.uid == 0 { who.capabilities } else { 0 };
    let rights = Rights { uid: who.uid, gid: NO_GROUP, groups: Vec::new(), capabilities };
    let file = Path::new(root()).join(pid.to_string()).join(std::ffi::OsStr::from_bytes(path));
    let written = match is_written(path) {
        true => rights.lent(|| std::fs::OpenOptions::new().write(true).open(&file).and_then(|file| whole(&file, text))),
        false => Ok(Err(std::io::Error::from_raw_os_error(EACCES))),
    };
    let content = match written {
        Ok(Ok(())) => Content::Text(Vec::new()),
        Ok(Err(e)) => Content::Failed(e.raw_os_error().unwrap_or(EIO)),
        Err(fault) => Content::Failed(fault.errno),
    };
    answer(proc, pid, path, content)
}

/// In one call, as it was written.
fn whole(mut file: &std::fs::File, text: &[u8]) -> std::io::Result<()> {
    std::io::Write::write(&mut file, text).map(drop)
}

/// Of what others may write natively that alone is which is of the process, and no work.
fn is_written(path: &[u8]) -> bool {
    let names: Vec<&[u8]> = path.split(|byte| *byte == b'/').collect();
    match &names[..] {
        [b"oom_score_adj"] => true,
        [b"task", thread, b"oom_score_adj"] => !thread.is_empty() && thread.iter().all(u8::is_ascii_digit),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kern::proc::Proc;
    use kern::rights::effective;
    use vocab::errno::EINVAL;

    #[test]
    fn what_is_written_is_so_with_the_rights_of_who_writes() {
        let proc = Proc::open("/proc").expect("procfs");
        let mut child = std::process::Command::new("sleep").args(["100"]).spawn().expect("sleep");
        let pid = Pid(child.id() as i32);
        let root = Writer { uid: 0, capabilities: !0 };
        let says = |who, text: &str| {
            let found = write(&proc, pid, b"oom_score_adj", text.as_bytes(), who).expect("it is there");
            found.entries[0].content.clone()
        };
        let now = || std::fs::read_to_string(format!("/proc/{pid}/oom_score_adj")).expect("it is there");
        assert_eq!((says(root, "300\n"), now().trim()), (Content::Text(Vec::new()), "300"));
        // Below what it began with it is for who has CAP_SYS_RESOURCE, as this test may have.
        assert_eq!(says(Writer { uid: 0, capabilities: 0 }, "-5"), Content::Failed(EACCES));
        let may = effective(Pid(std::process::id() as i32)).expect("I live");
        let may = kern::capability::has(may, kern::capability::SYS_RESOURCE);
        assert_eq!(says(root, "-5"), if may { Content::Text(Vec::new()) } else { Content::Failed(EACCES) });
        assert_eq!(says(root, "300"), Content::Text(Vec::new()));
        assert_eq!(says(Writer { uid: 61001, capabilities: !0 }, "400"), Content::Failed(EACCES));
        assert_eq!((says(root, "2000"), says(root, "x")), (Content::Failed(EINVAL), Content::Failed(EINVAL)));
        assert_eq!(now().trim(), "300");
        for other in ["comm", "task/../oom_score_adj", "task//oom_score_adj", "fd/1"] {
            let found = write(&proc, pid, other.as_bytes(), b"1", root).expect("it is there");
            assert_eq!(found.entries[0].content, Content::Failed(EACCES), "{other}");
        }
        child.kill().and_then(|()| child.wait()).expect("it was there");
    }
}
