//! Descriptors of files that nodes know of: as many as the process may have, and those that were not used for long are opened again when they are.

use super::calls::{path_of, Errno, DIRECTORY, FORMAT};
use crate::line::lock;
use kern::file_handle;
use rustix::fs::{Mode, OFlags};
use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use vocab::errno::ESTALE;

/// By what a file is opened again.
#[derive(Debug)]
struct Again {
    /// Any file of its mount.
    on: Arc<File>,
    kind: i32,
    handle: Vec<u8>,
}

/// The descriptor of one file (O_PATH).
#[derive(Debug)]
pub(crate) struct Slot {
    open: Mutex<Option<Arc<OwnedFd>>>,
    used: AtomicBool,
    /// None: its file system has no handles, and it stays open.
    again: Option<Again>,
}

#[derive(Debug)]
pub(crate) struct Descriptors {
    most: usize,
    open: Mutex<VecDeque<Weak<Slot>>>,
    /// A file that is open of each mount, by number.
    systems: Mutex<HashMap<u64, Arc<File>>>,
}

impl Descriptors {
    /// So many at most, beside those of file systems without handles.
    pub(crate) fn new(most: usize) -> Descriptors {
        Descriptors { most, open: Mutex::default(), systems: Mutex::default() }
    }

    /// For what is open with O_PATH, in this mount.
    pub(crate) fn slot(&self, fd: OwnedFd, mount: u64) -> Arc<Slot> {
        let again = file_handle::to_open(fd.as_fd()).zip(self.system(&fd, mount));
        let again = again.map(|((kind, handle), on)| Again { on, kind, handle });
        Arc::new(Slot { open: Mutex::new(Some(Arc::new(fd))), used: AtomicBool::new(true), again })
    }

    /// Is the file of this slot the one that is open here, of the same device and number? As long as it is open itself, it is.
    pub(crate) fn is_of(&self, slot: &Slot, fd: BorrowedFd<'_>) -> bool {
        let Some(again) = &slot.again else { return true };
        lock(&slot.open).is_some() || file_handle::to_open(fd) == Some((again.kind, again.handle.clone()))
    }

    fn system(&self, fd: &OwnedFd, mount: u64) -> Option<Arc<File>> {
        if let Some(known) = lock(&self.systems).get(&mount) {
            return Some(known.clone());
        }
        // Root's, whoever the calling thread acts as.
        let kind = rustix::fs::fstat(fd).ok()?.st_mode & FORMAT;
        if kind != DIRECTORY {
            return None;
        }
        let path = path_of(fd.as_fd());
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = Arc::new(File::from(rustix::fs::open(path, flags, Mode::empty()).ok()?));
        lock(&self.systems).insert(mount, opened.clone());
        Some(opened)
    }

    /// Lets go of file systems of which no file is known.
    pub(crate) fn prune(&self) {
        lock(&self.systems).retain(|_, file| Arc::strong_count(file) > 1);
    }

    /// It counts from now on.
    pub(crate) fn count(&self, slot: &Arc<Slot>) {
        if slot.again.is_none() {
            return;
        }
        let mut open = lock(&self.open);
        open.push_back(Arc::downgrade(slot));
        let mut tries = 2 * open.len();
        while open.len() > self.most && tries > 0 {
            tries -= 1;
            let Some(oldest) = open.pop_front() else { return };
            let Some(slot) = oldest.upgrade() else { continue };
            if slot.used.swap(false, Ordering::Relaxed) {
                open.push_back(oldest);
            } else {
                lock(&slot.open).take();
            }
        }
    }

    /// The descriptor, opened again if need be.
    ///
    /// # Errors
    /// ESTALE: the file is gone; ENFILE.
    pub(crate) fn of(&self, slot: &Arc<Slot>) -> Errno<Arc<OwnedFd>> {
        slot.used.store(true, Ordering::Relaxed);
        let mut open = lock(&slot.open);
        if let Some(fd) = &*open {
            return Ok(fd.clone());
        }
        let again = slot.again.as_ref().ok_or(ESTALE)?;
        let fd = kern::acting::open_by_handle(again.on.as_fd(), again.kind, &again.handle)?;
        let fd = Arc::new(fd);
        *open = Some(fd.clone());
        drop(open);
        self.count(slot);
        Ok(fd)
    }
}

/// How many the process may have open.
pub(crate) fn most() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    // The rest is for what programs have open.
    limit.current.map_or(1 << 20, |most| usize::try_from(most).unwrap_or(1 << 20)) / 2
}
