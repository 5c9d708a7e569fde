//! A stand-in in the place of a process: `shoal stand`, which comes to all capabilities by those of its file, since the process may have none.
//!
//! So the file lies where only root may enter; the process gets it as a descriptor.

use super::orders::Remain;
use ckpt::remain::Remains;
use kern::capability::{has, CHECKPOINT_RESTORE};
use kern::mount::permit_all_capabilities;
use kern::proc::PROC;
use rustix::fs::{open, Mode, OFlags};
use std::fs::{self, File, Permissions};
use std::io::{ErrorKind, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use vocab::{Fault, Pid, Result};

/// What a stand-in is executed with.
pub(super) struct Ready {
    nothing: OwnedFd,
    program: OwnedFd,
    place: OwnedFd,
}

impl Ready {
    /// Makes the program where it is not there yet.
    pub(super) fn new(order: &Remain) -> Result<Ready> {
        Ready::within(&order.programs, &order.hold)
    }

    /// The same, with `programs` and `hold` as in [`Remain`].
    pub(super) fn within(programs: &str, hold: &str) -> Result<Ready> {
        let at = Path::new(programs).join("shoal");
        if !at.exists() {
            make(&at, write_own)?;
        }
        let nothing = Path::new(programs).join("nothing");
        if !nothing.exists() {
            make(&nothing, write_nothing)?;
        }
        let path = |path: &Path, flags: OFlags| {
            let found = open(path, flags | OFlags::CLOEXEC, Mode::empty());
            found.map_err(|e| Fault::sys(e.raw_os_error(), format!("open {}", path.display())))
        };
        let place = path(Path::new(hold), OFlags::PATH)?;
        Ok(Ready { nothing: path(&nothing, OFlags::PATH)?, program: path(&at, OFlags::PATH)?, place })
    }

    /// Another program of shoal's, with these streams.
    pub(super) fn program<'a>(&'a self, arguments: &'a [&'a str], streams: [BorrowedFd<'a>; 3]) -> Remains<'a> {
        Remains { arguments, streams: Some(streams), ..self.remains() }
    }

    pub(super) fn remains(&self) -> Remains<'_> {
        let (nothing, program, place) = (self.nothing.as_fd(), self.program.as_fd(), self.place.as_fd());
        Remains { nothing, program, arguments: &["shoal", "stand"], place, streams: None }
    }
}

/// It is there when it is whole: another mover may make the same at the same time.
fn make(at: &Path, write: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    let new = at.with_extension(std::process::id().to_string());
    let doing = |e: std::io::Error| Fault::io(&e, format!("make {}", new.display()));
    let made = write(&new).and_then(|()| fs::rename(&new, at).map_err(doing));
    // What there was no room for has some.
    made.inspect_err(|_| drop(fs::remove_file(&new)))
}

/// Executable for all, readable for root: who executes it is not dumpable (linux: `would_dump`), so that no ordinary user comes to its memory.
const UNREADABLE: u32 = 0o711;

/// The smallest program (elf(5)), with one instruction, which is never executed: `ud2`.
fn nothing() -> Vec<u8> {
    const BASE: u64 = 0x40_0000;
    const LENGTH: u64 = 64 + 56 + 2;
    // 64 bits, little-endian; ET_EXEC, x86-64; entry, program headers, none of sections; sizes and counts of headers.
    let half = |low: u64, high: u64| low | high << 32;
    let quarter = |words: [u64; 4]| words.iter().rev().fold(0, |sum, word| sum << 16 | word);
    let head = [u64::from_le_bytes(*b"\x7fELF\x02\x01\x01\0"), 0, half(quarter([2, 62, 0, 0]), 1), BASE + 64 + 56];
    let rest = [64, 0, half(0, quarter([64, 56, 0, 0])), quarter([1, 0, 0, 0])];
    // PT_LOAD, readable and executable; all of the file.
    let load = [half(1, 5), 0, BASE, BASE, LENGTH, LENGTH, 4096];
    let words = head.into_iter().chain(rest).chain(load);
    words.flat_map(u64::to_le_bytes).chain([0x0f, 0x0b]).collect()
}

fn write_nothing(new: &Path) -> Result<()> {
    let made = fs::write(new, nothing()).and_then(|()| fs::set_permissions(new, Permissions::from_mode(UNREADABLE)));
    made.map_err(|e| Fault::io(&e, format!("make {}", new.display())))
}

fn write_own(new: &Path) -> Result<()> {
    let own = &format!("{PROC}/self/exe");
    let doing = |e: std::io::Error| Fault::io(&e, format!("make {}", new.display()));
    let length = loaded(own)?;
    let from = File::open(own).map_err(|e| Fault::io(&e, format!("open {own}")))?;
    let mut to = File::create(new).map_err(doing)?;
    std::io::copy(&mut from.take(length), &mut to).map_err(doing)?;
    drop(to);
    fs::set_permissions(new, Permissions::from_mode(UNREADABLE)).map_err(doing)?;
    permit_all_capabilities(new)
}

/// Where in a program file that ends which is ever in memory: names and lines for debuggers follow it (elf(5)).
fn loaded(path: &str) -> Result<u64> {
    const LOAD: u64 = 1;
    let bytes = {
        let mut bytes = vec![0; 4096];
        let got = File::open(path).and_then(|mut file| file.read(&mut bytes));
        bytes.truncate(got.map_err(|e| Fault::io(&e, format!("read {path}")))?);
        bytes
    };
    let word = |at: usize, length: usize| {
        let word = bytes.get(at..at + length).ok_or_else(|| Fault::refused(format!("{path} is no program")))?;
        Ok::<u64, Fault>(word.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
    };
    let (table, entry, count) = (word(0x20, 8)?, word(0x36, 2)?, word(0x38, 2)?);
    let mut end = 0;
    for at in (0..count).map(|i| (table + i * entry) as usize) {
        if word(at, 4)? == LOAD {
            end = end.max(word(at + 8, 8)? + word(at + 32, 8)?);
        }
    }
    Ok(end)
}

/// Why a program of shoal's that executes in the place of this process, if so, would not have the capabilities that it needs: what the process does, in words. Called by the mover,
/// and by the agent before it is asked for more than is needed.
///
/// # Errors
/// `Gone` when it has ended; else what reading `/proc/PID/status` says.
pub fn in_the_way(pid: Pid) -> Result<Option<String>> {
    let path = format!("{PROC}/{pid}/status");
    let status = fs::read_to_string(&path).map_err(|e| match e.kind() {
        ErrorKind::NotFound => Fault::gone(format!("process {pid} has ended")),
        _ => Fault::io(&e, format!("read {path}")),
    })?;
    let namespace = |of: &str| fs::read_link(format!("{PROC}/{of}/ns/mnt")).ok();
    let left = |line: &str| u64::from_str_radix(line.strip_prefix("CapBnd:")?.trim(), 16).ok();
    // By which a stand-in makes the children that its process has made.
    let can_fork = status.lines().find_map(left).is_none_or(|left| has(left, CHECKPOINT_RESTORE));
    let effective = |line: &str| line.strip_prefix("Uid:")?.split_whitespace().nth(1)?.parse().ok();
    let why = match () {
        () if !can_fork => "has given up CAP_CHECKPOINT_RESTORE for good",
        () if status.contains("\nNoNewPrivs:\t1") => "has no_new_privs set",
        () if namespace(&pid.to_string()) != namespace("self") => "lives in a mount namespace of its own",
        () => return status.lines().find_map(effective).map_or(Ok(None), open_to_its_user),
    };
    Ok(Some(why.to_owned()))
}

/// Why a user would come to the memory of a program of shoal's in the place of a process of theirs, though they may not read its file: what the machine
/// lets them, in words (proc_sys_fs(5); linux: `would_dump`). `uid`: the effective one of the process. Called by the agent before anything is to arrive.
///
/// # Errors
/// What reading the setting says.
pub fn open_to_its_user(uid: u32) -> Result<Option<String>> {
    const ROOT: u32 = 0;
    let setting = format!("{PROC}/sys/fs/suid_dumpable");
    let value = fs::read_to_string(&setting).map_err(|e| Fault::io(&e, format!("read {setting}")))?;
    // Root could look into it in any case.
    let is_open = value.trim() == "1" && uid != ROOT;
    Ok(is_open.then(|| "could be looked into by its user, as fs.suid_dumpable is 1".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    #[test]
    fn the_program_that_does_nothing_is_one() {
        let at = std::env::temp_dir().join(format!("nothing.{}", std::process::id()));
        make(&at, write_nothing).expect("room");
        let ended = std::process::Command::new(&at).status().expect("it is executed");
        // SIGILL.
        assert_eq!(ended.signal(), vocab::Sig::new(4).map(|ill| ill.number().into()));
        assert_eq!(fs::metadata(&at).expect("there").permissions().mode() & 0o777, UNREADABLE);
        fs::remove_file(&at).expect("there");
    }

    #[test]
    fn nothing_is_left_of_one_that_could_not_be_made() {
        let within = std::env::temp_dir().join(format!("programs.{}", std::process::id()));
        // A file cannot take the place of a directory.
        let at = within.join("nothing");
        fs::create_dir_all(&at).expect("room");
        make(&at, write_nothing).expect_err("a directory is there");
        assert_eq!(fs::read_dir(&within).expect("there").count(), 1);
        fs::remove_dir_all(&within).expect("there");
    }

    #[test]
    fn what_is_loaded_of_a_program_is_less_than_the_file_and_executes() {
        let own = std::env::current_exe().expect("a test is a program");
        let all = fs::metadata(&own).expect("it is there").len();
        let length = loaded(own.to_str().expect("a name")).expect("it is one of these programs");
        assert!(length > 4096 && length <= all, "{length} of {all}");
        assert!(loaded("/etc/passwd").is_err());
    }
}
