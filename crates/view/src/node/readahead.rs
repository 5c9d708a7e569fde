//! How much the kernel reads ahead of who reads a file: the protocol only lets a server lower it, so it is raised where the kernel shows it.

use rustix::fs::{Mode, OFlags};
use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, Ordering};

/// In KiB; a request has no more.
const MOST: u32 = wire::view::MOST / 1024;

/// So many processes are looked at: the first do not have the view as their root yet.
const TRIES: u32 = 64;

/// Raised once, when there is a process that sees the view. Processes that were looked at for that.
#[derive(Debug, Default)]
pub(super) struct Readahead(AtomicU32);

impl Readahead {
    /// `thread` sees the view; `proc` is where its number is known.
    pub(super) fn raise(&self, proc: &OwnedFd, thread: u32) {
        if thread == 0 || self.0.fetch_add(1, Ordering::Relaxed) >= TRIES {
            return;
        }
        // Without it files are read in smaller pieces.
        let device = mounts(proc, thread).as_deref().and_then(device);
        if let Some(device) = device {
            self.0.store(TRIES, Ordering::Relaxed);
            let _ = std::fs::write(format!("/sys/class/bdi/{device}/read_ahead_kb"), MOST.to_string());
        }
    }
}

fn mounts(proc: &OwnedFd, thread: u32) -> Option<String> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let fd = rustix::fs::openat(proc, format!("{thread}/mountinfo"), flags, Mode::empty()).ok()?;
    let mut text = String::new();
    File::from(fd).read_to_string(&mut text).ok()?;
    Some(text)
}

/// The device number of the root, if it is a view.
fn device(mounts: &str) -> Option<String> {
    mounts.lines().find_map(|line| {
        let words: Vec<&str> = line.split(' ').collect();
        let is_view = words.get(3..5) == Some(&["/", "/"]) && line.contains(" - fuse shoal-view ");
        is_view.then(|| words[2].to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_device_of_a_view() {
        let text = "185 157 0:62 / / rw,nodev - fuse shoal-view rw,user_id=0\n186 185 0:5 / /dev rw - devtmpfs x rw\n";
        assert_eq!(device(text).as_deref(), Some("0:62"));
        assert_eq!(device("185 157 0:62 / / rw - ext4 /dev/vda rw\n"), None);
    }
}
