//! What changes in directories (fanotify(7), with names): who has done it is told too, so that a server's own changes are no news to it.

use crate::sys;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use vocab::{Fault, Pid, Result};
use zerocopy::{FromBytes, Immutable, KnownLayout};

const UNLIMITED: u32 = 0x10 | 0x20; // FAN_UNLIMITED_QUEUE, FAN_UNLIMITED_MARKS
const WITH_NAMES: u32 = 0x0000_0400 | 0x0000_0800; // FAN_REPORT_DIR_FID, FAN_REPORT_NAME
const OF_FILES: u32 = 0x0000_0200; // FAN_REPORT_FID
const CLOEXEC: u32 = 1;
const ADD: u32 = 1;
const ADD_DIRECTORY: u32 = 1 | 8; // FAN_MARK_ADD, FAN_MARK_ONLYDIR
const REMOVE: u32 = 2;
const MODIFY: u64 = 0x2;
const ATTRIB: u64 = 0x4;
const MOVED: u64 = 0x40 | 0x80;
const MOVED_ITSELF: u64 = 0x800;
const CREATE: u64 = 0x100;
const DELETE: u64 = 0x200;
const OVERFLOW: u64 = 0x4000;
const ON_CHILD: u64 = 0x0800_0000;
const ON_DIRECTORY: u64 = 0x4000_0000;
const WATCHED: u64 = MODIFY | ATTRIB | MOVED | CREATE | DELETE | ON_CHILD | ON_DIRECTORY;
/// FAN_EVENT_INFO_TYPE_FID (of a watch of files), FAN_EVENT_INFO_TYPE_DFID_NAME and FAN_EVENT_INFO_TYPE_DFID.
const NAMED: [u8; 3] = [1, 2, 3];
const ROOM: usize = 64 * 1024;

/// A directory as the events call it: the file system and the handle in it ([`crate::file_handle::of`]).
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Directory {
    pub file_system: [i32; 2],
    pub kind: i32,
    pub handle: Vec<u8>,
}

/// A change.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// `name` leads to something else than before, or nowhere.
    Name { directory: Directory, name: Vec<u8>, by: Pid },
    /// The content or the attributes of what `name` leads to are others; no name: the directory's own.
    Content { directory: Directory, name: Vec<u8>, by: Pid },
    /// The kernel had no room to tell all.
    Lost,
}

impl Event {
    /// The process that has made the change; `None`: nobody knows.
    pub fn by(&self) -> Option<Pid> {
        match self {
            Event::Name { by, .. } | Event::Content { by, .. } => Some(*by),
            Event::Lost => None,
        }
    }
}

#[repr(C)]
#[derive(FromBytes, Immutable, KnownLayout, Clone, Copy)]
struct Metadata {
    length: u32,
    version: u8,
    reserved: u8,
    own: u16,
    mask: u64,
    fd: i32,
    pid: i32,
}

/// Tells of the directories that are marked.
#[derive(Debug)]
pub struct Watch(OwnedFd);

/// How the events call an open directory. `None` where its file system has no handles.
pub fn directory(fd: BorrowedFd<'_>) -> Option<Directory> {
    let (kind, handle) = crate::file_handle::of(fd)?;
    // SAFETY: an all-zero structure is valid, and the call fills it.
    let mut found: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: as above.
    sys::check(unsafe { libc::fstatfs(fd.as_raw_fd(), &raw mut found) }.into()).ok()?;
    // SAFETY: fsid_t is two ints (statfs(2)), whose names the C library hides.
    let file_system = unsafe { std::mem::transmute::<libc::fsid_t, [i32; 2]>(found.f_fsid) };
    Some(Directory { file_system, kind, handle })
}

impl Watch {
    /// # Errors
    /// `Sys` as fanotify_init(2): EPERM for who is not root, EINVAL before Linux 5.9.
    pub fn new() -> Result<Watch> {
        // SAFETY: numbers.
        let fd = unsafe { libc::fanotify_init(CLOEXEC | UNLIMITED | WITH_NAMES, libc::O_RDONLY as u32) };
        sys::own(fd.into(), || "watch directories".into()).map(Watch)
    }

    /// One that tells of files, whatever they are called: their attributes have changed, the number of their names too. Such an event is [`Event::Content`] without a name.
    ///
    /// # Errors
    /// As [`Watch::new`].
    pub fn of_files() -> Result<Watch> {
        // SAFETY: numbers.
        let fd = unsafe { libc::fanotify_init(CLOEXEC | UNLIMITED | OF_FILES, libc::O_RDONLY as u32) };
        sys::own(fd.into(), || "watch files".into()).map(Watch)
    }

    /// Tells of this file, which may be open with O_PATH, from now on; for [`Watch::of_files`].
    ///
    /// # Errors
    /// As [`Watch::mark`].
    pub fn mark_file(&self, file: BorrowedFd<'_>) -> std::result::Result<(), i32> {
        self.change(ADD, ATTRIB | MOVED_ITSELF, file)
    }

    /// Tells of it no more.
    pub fn unmark_file(&self, file: BorrowedFd<'_>) {
        // One that has gone was unmarked by the kernel.
        let _ = self.change(REMOVE, ATTRIB | MOVED_ITSELF, file);
    }

    /// Tells of this directory, which may be open with O_PATH, from now on.
    ///
    /// # Errors
    /// As fanotify_mark(2): EOPNOTSUPP or ENODEV where the file system has no numbers to tell files by.
    pub fn mark(&self, directory: BorrowedFd<'_>) -> std::result::Result<(), i32> {
        self.change(ADD_DIRECTORY, WATCHED, directory)
    }

    /// Tells of it no more.
    pub fn unmark(&self, directory: BorrowedFd<'_>) {
        // One that has gone was unmarked by the kernel.
        let _ = self.change(REMOVE, WATCHED, directory);
    }

    fn change(&self, how: u32, what: u64, directory: BorrowedFd<'_>) -> std::result::Result<(), i32> {
        let path = sys::cstring(format!("{}/self/fd/{}", crate::proc::PROC, directory.as_raw_fd()))
            .map_err(|_| libc::EINVAL)?;
        // SAFETY: a live C string, and numbers.
        let ret = unsafe { libc::fanotify_mark(self.0.as_raw_fd(), how, what, libc::AT_FDCWD, path.as_ptr()) };
        sys::check(ret.into()).map(drop)
    }

    /// Waits until something has happened.
    ///
    /// # Errors
    /// `Sys` as read(2).
    pub fn next(&self) -> Result<Vec<Event>> {
        let mut room = vec![0u8; ROOM];
        loop {
            match sys::read(self.0.as_fd(), &mut room) {
                Ok(count) => return Ok(events(&room[..count])),
                Err(libc::EINTR) => {}
                Err(errno) => return Err(Fault::sys(errno, "read what has changed in directories")),
            }
        }
    }
}

fn events(mut bytes: &[u8]) -> Vec<Event> {
    let mut all = Vec::new();
    while let Ok((head, _)) = Metadata::read_from_prefix(bytes) {
        let Some((one, rest)) = bytes.split_at_checked(head.length as usize) else { break };
        if head.length == 0 {
            break;
        }
        bytes = rest;
        if head.mask & OVERFLOW != 0 {
            all.push(Event::Lost);
            continue;
        }
        let Some((directory, name)) = one.get(head.own.into()..).and_then(named) else { continue };
        let by = Pid(head.pid);
        if head.mask & (CREATE | DELETE | MOVED) != 0 {
            all.push(Event::Name { directory: directory.clone(), name: name.clone(), by });
        }
        if head.mask & (MODIFY | ATTRIB | MOVED_ITSELF) != 0 {
            all.push(Event::Content { directory, name, by });
        }
    }
    all
}

/// The first record that names a directory (fanotify(7), struct fanotify_event_info_fid).
fn named(mut records: &[u8]) -> Option<(Directory, Vec<u8>)> {
    loop {
        let head: &[u8; 4] = records.first_chunk()?;
        let length = usize::from(u16::from_ne_bytes([head[2], head[3]]));
        let (record, rest) = records.split_at_checked(length.max(4))?;
        records = rest;
        if !NAMED.contains(&head[0]) {
            continue;
        }
        let word = |at: usize| Some(i32::from_ne_bytes(*record.get(at..)?.first_chunk()?));
        let size = word(12)? as usize;
        let handle = record.get(20..20usize.checked_add(size)?)?.to_vec();
        let name = record.get(20 + size..)?.split(|byte| *byte == 0).next().unwrap_or_default();
        let name = if name == b"." { Vec::new() } else { name.to_vec() };
        return Some((Directory { file_system: [word(4)?, word(8)?], kind: word(16)?, handle }, name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn attributes_of_a_file_are_told_whatever_it_is_called() {
        let path = std::env::temp_dir().join(format!("shoal-fanotify-file.{}", std::process::id()));
        std::fs::write(&path, "text").expect("written");
        let open = File::open(&path).expect("there");
        let Some(own) = directory(open.as_fd()) else { return };
        let watch = Watch::of_files().expect("root");
        watch.mark_file(open.as_fd()).expect("a mark");
        let by = Pid(std::process::id() as i32);
        let told = Event::Content { directory: own, name: Vec::new(), by };
        let other = path.with_extension("other");
        std::fs::hard_link(&path, &other).expect("a second name");
        assert!(watch.next().expect("events").contains(&told));
        std::fs::set_permissions(&other, std::fs::Permissions::from_mode(0o600)).expect("changed");
        assert!(watch.next().expect("events").contains(&told));
        std::fs::remove_file(&other).expect("there");
        assert!(watch.next().expect("events").contains(&told));
        std::fs::rename(&path, &other).expect("renamed");
        assert!(watch.next().expect("events").contains(&told));
        std::fs::remove_file(&other).expect("there");
    }

    #[test]
    fn names_and_contents_are_told_with_who_did_it() {
        let path = std::env::temp_dir().join(format!("shoal-fanotify.{}", std::process::id()));
        std::fs::create_dir(&path).expect("a directory");
        let open = File::open(&path).expect("there");
        let Some(own) = directory(open.as_fd()) else { return };
        let watch = Watch::new().expect("root");
        watch.mark(open.as_fd()).expect("a mark");
        let file = path.join("some");
        std::fs::write(&file, "text").expect("written");
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).expect("changed");
        std::fs::remove_file(&file).expect("there");
        let by = Pid(std::process::id() as i32);
        let mut wanted = vec![
            Event::Name { directory: own.clone(), name: b"some".to_vec(), by },
            Event::Content { directory: own, name: b"some".to_vec(), by },
        ];
        // Things that happen one after the other may be told as one event.
        while !wanted.is_empty() {
            let come = watch.next().expect("events");
            wanted.retain(|event| !come.contains(event));
        }
        std::fs::remove_dir(&path).expect("there");
    }
}
