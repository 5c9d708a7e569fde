//! inotify(7): watches, whose files are found again by their names. Nobody can look at events without taking them.

use super::{All, Seen, Verdict};
use crate::file_id;
use crate::places::{self, Opener, Place};
use image::files::{Kind, Watched};
use kern::proc::PROC;
use kern::{file_handle, inotify};
use rustix::fs::inotify::{CreateFlags, WatchFlags};
use rustix::fs::{Mode, OFlags};
use std::ffi::OsStr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::rc::Rc;
use vocab::{Fault, Kind as Failure, Result};

pub(super) fn look(seen: &Seen, _: &All) -> Result<Verdict> {
    if seen.link != b"anon_inode:inotify" {
        return Ok(Verdict::Other);
    }
    let waiting = rustix::io::ioctl_fionread(super::copy(seen)?);
    if waiting.map_err(|e| Fault::sys(e.raw_os_error(), "ask how much is in an inotify instance"))? != 0 {
        return Ok(Verdict::Refused(seen.obstacle("has events that were not read")));
    }
    let mut watches = Vec::new();
    for line in seen.info.lines().filter_map(|line| line.strip_prefix("inotify ")) {
        let watch = parse(line).ok_or_else(|| seen.strange("inotify"))?;
        match path(seen, &watch) {
            Some((path, file)) => {
                let id = Some(file_id::of(&file)?);
                watches.push(Watched { number: watch.number, mask: watch.mask, path: path.into(), id });
            }
            None => {
                let why = format!("watches a file (inode {}) whose name cannot be found", watch.inode);
                return Ok(Verdict::Refused(seen.obstacle(&why)));
            }
        }
    }
    watches.sort_by_key(|watch| watch.number);
    Ok(Verdict::Carried(Kind::Inotify { watches }))
}

/// A line of fdinfo.
#[derive(PartialEq, Eq, Debug)]
struct Watch {
    number: i32,
    mask: u32,
    inode: u64,
    /// Major and minor number.
    device: (u32, u32),
    /// Kind and bytes (name_to_handle_at(2)).
    handle: (i32, Vec<u8>),
}

/// `wd:3 ino:9e7e sdev:800013 mask:800afce ignored_mask:0 fhandle-bytes:8 fhandle-type:1 f_handle:7e9e0000640d1b6d`
fn parse(line: &str) -> Option<Watch> {
    let field = |name: &str| line.split_whitespace().find_map(|word| word.strip_prefix(name)?.strip_prefix(':'));
    let number = |name| u64::from_str_radix(field(name)?, 16).ok();
    // 20 bits of the minor number (linux: MINORBITS).
    let device = number("sdev")?;
    let digits = field("f_handle").unwrap_or_default().as_bytes();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    Some(Watch {
        number: number("wd")? as i32,
        mask: number("mask")? as u32,
        inode: number("ino")?,
        device: ((device >> 20) as u32, (device & 0xf_ffff) as u32),
        handle: (number("fhandle-type").unwrap_or(0) as i32, digits.chunks(2).map(byte).collect::<Option<_>>()?),
    })
}

/// A name by which the watched file can be found, and that file.
fn path(seen: &Seen, watch: &Watch) -> Option<(Vec<u8>, OwnedFd)> {
    let mounts = std::fs::read_to_string(format!("{PROC}/{}/mountinfo", seen.pid)).ok()?;
    let device = format!("{}:{}", watch.device.0, watch.device.1);
    let mut points = mounts.lines().filter_map(|line| {
        let mut fields = line.split(' ');
        (fields.nth(2)? == device).then(|| fields.nth(1))?
    });
    points.find_map(|point| {
        let file = by_handle(point, watch)?;
        let link = format!("{PROC}/self/fd/{}", file.as_raw_fd());
        let path = std::fs::read_link(&link).ok()?.into_os_string().into_vec();
        let named = std::fs::symlink_metadata(OsStr::from_bytes(&path)).ok()?;
        let watched = rustix::fs::fstat(&file).ok()?;
        ((named.dev(), named.ino()) == (watched.st_dev, watched.st_ino)).then_some((path, file))
    })
}

/// By a mount of its file system. A directory is not opened: its mount point may be watched too, and then the process would be told of us, whose events nobody can take back.
fn by_handle(point: &str, watch: &Watch) -> Option<OwnedFd> {
    let (kind, bytes) = (watch.handle.0, &watch.handle.1[..]);
    let on = rustix::fs::open(point, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok()?;
    match file_handle::open_below(on.as_fd(), kind, bytes) {
        Err(libc::ENOTDIR) => {
            let on =
                rustix::fs::open(point, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty()).ok()?;
            file_handle::open(on.as_fd(), kind, bytes).ok()
        }
        opened => opened.ok(),
    }
}

/// A watch that says nothing yet: nobody could tell what those do who make the process from what others do.
#[derive(Debug)]
pub(crate) struct Quiet {
    instance: Rc<OwnedFd>,
    /// Pinned.
    file: OwnedFd,
    number: i32,
    mask: WatchFlags,
}

/// A mask that the kernel takes, and by which it says only that the file system was unmounted.
const NOTHING: WatchFlags = WatchFlags::from_bits_retain(libc::IN_IGNORED);

/// Each takes a descriptor of who makes the process. A process with more watches may be told of that.
const MOST_QUIET: usize = 4096;

impl Quiet {
    /// As add_watch, which sets another mask where there is a watch already.
    fn set(&self, mask: WatchFlags) -> rustix::io::Result<i32> {
        // The link of /proc is followed, and none behind it.
        let at = format!("{PROC}/self/fd/{}", self.file.as_raw_fd());
        rustix::fs::inotify::add_watch(&*self.instance, at, mask - WatchFlags::DONT_FOLLOW)
    }

    /// The process runs from now on. Whoever has deleted the file since has taken the watch away, and the process is told.
    pub(crate) fn speaks(&self) {
        if self.set(self.mask).is_ok_and(|now| now != self.number) {
            let _none = rustix::fs::inotify::remove_watch(&*self.instance, self.number);
        }
    }
}

pub(super) fn reopen(watches: &[Watched], flags: u32, opener: &Opener, quiet: &mut Vec<Quiet>) -> Result<OwnedFd> {
    let mut how = CreateFlags::CLOEXEC;
    how.set(CreateFlags::NONBLOCK, flags & libc::O_NONBLOCK as u32 != 0);
    let fd = rustix::fs::inotify::init(how).map_err(|e| Fault::sys(e.raw_os_error(), "make an inotify instance"))?;
    let again = rustix::io::fcntl_dupfd_cloexec(&fd, 0);
    let instance = Rc::new(again.map_err(|e| Fault::sys(e.raw_os_error(), "duplicate a descriptor"))?);
    for Watched { number, mask, path, id } in watches {
        let name = String::from_utf8_lossy(&path.0);
        inotify::set_next_watch(fd.as_fd(), *number)
            .map_err(|errno| Fault::sys(errno, format!("choose number {number} for the watch on {name}")))?;
        let file = places::readable(Place::new(path, id.as_ref()), opener)?;
        let (instance, mask) = (Rc::clone(&instance), WatchFlags::from_bits_retain(*mask));
        let watch = Quiet { instance, file, number: *number, mask };
        let says = if quiet.len() < MOST_QUIET { NOTHING } else { mask };
        let got = watch.set(says).map_err(|e| Fault::sys(e.raw_os_error(), format!("watch {name}")))?;
        if got != *number {
            let what = format!("the watch on {name} has number {got} instead of {number}");
            return Err(Fault::new(Failure::Refused, what));
        }
        if says == NOTHING {
            quiet.push(watch);
        }
    }
    Ok(fd)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_fdinfo() {
        let line =
            "wd:1a ino:9e7e sdev:800013 mask:800afce ignored_mask:0 fhandle-bytes:8 fhandle-type:1 f_handle:7e9e00ff";
        let handle = (1, vec![0x7e, 0x9e, 0, 0xff]);
        let watch = Watch { number: 26, mask: 0x800afce, inode: 0x9e7e, device: (8, 0x13), handle };
        assert_eq!(parse(line), Some(watch));
        assert_eq!(parse("wd:1 ino:2 sdev:3 mask:4 ignored_mask:0").map(|watch| watch.handle), Some((0, Vec::new())));
        assert_eq!(parse("wd:1"), None);
    }
}
