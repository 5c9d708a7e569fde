//! What is mounted where, and when that changes (proc_pid_mountinfo(5)).

use crate::poll::{poll, Ready};
use crate::proc::PROC;
use std::collections::HashSet;
use std::ffi::OsString;
use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use vocab::{Fault, Result};

/// A mount.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Mount {
    /// No other one has it as long as this is there.
    pub number: u64,
    pub at: PathBuf,
    /// Of the mount alone, as `rw,nosuid`.
    pub options: Vec<u8>,
}

/// The mounts of this process's namespace.
#[derive(Debug)]
pub struct Mounts(File);

impl Mounts {
    /// # Errors
    /// `Sys` as open(2).
    pub fn open() -> Result<Mounts> {
        let path = format!("{PROC}/self/mountinfo");
        File::open(&path).map(Mounts).map_err(|e| Fault::io(&e, format!("open {path}")))
    }

    /// Until something has been mounted or unmounted since the last call; the first returns at once if that was so since [`Mounts::open`].
    pub fn wait(&self) {
        // A change is an error and priority data (linux: mounts_poll).
        let _interrupted = poll(&[(self.0.as_fd(), Ready::OVER)], -1);
    }

    /// All that there are, but those below `but`.
    ///
    /// # Errors
    /// `Sys` as read(2).
    pub fn all(&self, but: &str) -> Result<HashSet<Mount>> {
        let path = format!("{PROC}/self/mountinfo");
        let text = std::fs::read(&path).map_err(|e| Fault::io(&e, format!("read {path}")))?;
        let lines = text.split(|byte| *byte == b'\n').filter_map(mount);
        Ok(lines.filter(|mount| !mount.at.starts_with(but)).collect())
    }
}

fn mount(line: &[u8]) -> Option<Mount> {
    let mut words = line.split(|byte| *byte == b' ');
    let number = std::str::from_utf8(words.next()?).ok()?.parse().ok()?;
    let at = unescaped(words.nth(3)?);
    Some(Mount { number, at, options: words.next()?.to_vec() })
}

/// Blanks and their like are `\` and three octal digits (linux: mangle).
fn unescaped(word: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(word.len());
    let mut rest = word;
    while let [first, more @ ..] = rest {
        let digits = more.get(..3).filter(|digits| *first == b'\\' && digits.iter().all(|d| (b'0'..b'8').contains(d)));
        match digits {
            Some(digits) => {
                bytes.push(digits.iter().fold(0, |byte: u8, digit| byte.wrapping_mul(8) + (digit - b'0')));
                rest = &more[3..];
            }
            None => {
                bytes.push(*first);
                rest = more;
            }
        }
    }
    OsString::from_vec(bytes).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_mountinfo() {
        let line = b"36 35 98:0 /mnt1 /a\\040b\\134c rw,noatime master:1 - ext3 /dev/root rw";
        let options = b"rw,noatime".to_vec();
        assert_eq!(mount(line), Some(Mount { number: 36, at: "/a b\\c".into(), options }));
        assert_eq!(mount(b""), None);
        assert_eq!(unescaped(b"\\9\\01"), PathBuf::from("\\9\\01"));
    }

    #[test]
    fn the_root_is_mounted() {
        let mounts = Mounts::open().expect("/proc");
        let all = mounts.all("/proc").expect("/proc");
        assert!(all.iter().any(|one| one.at.as_os_str() == "/") && all.iter().all(|one| !one.at.starts_with("/proc")));
    }
}
