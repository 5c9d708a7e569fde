//! Locks of files: those of nodes and of local processes are in each other's way as on one machine.
//!
//! A process of a node that locks parts of a file has an open file of its own here (F_OFD_SETLK), which is closed when it closes the file. Deadlocks among such locks are not
//! detected.

use super::call::{Call, Reply};
use super::calls::{errno, Errno};
use super::inodes::Locker;
use super::session::Handle;
use crate::fuse::{take, FileLock, LockIn, ReleaseIn, LK_FLOCK};
use crate::line::lock;
use kern::lock::{conflict, set_record, Record};
use rustix::fs::{FlockOperation, OFlags};
use std::fs::File;
use std::os::fd::AsFd;
use std::sync::Arc;
use vocab::errno::{EBADF, EINVAL};

/// F_RDLCK, F_WRLCK, F_UNLCK.
const READ: u32 = 0;
const WRITE: u32 = 1;
const NONE: u32 = 2;

fn record(lock: &FileLock) -> Record {
    let length = if lock.end >= i64::MAX as u64 { 0 } else { (lock.end + 1).saturating_sub(lock.start) };
    Record { kind: lock.kind as i32, start: lock.start, length, pid: 0 }
}

impl Call<'_> {
    /// The open file that stands for an owner of locks.
    fn owners(&mut self, handle: &Handle, (owner, whole): (u64, bool)) -> Errno<Arc<File>> {
        let (inode, key) = (&handle.inode, Locker { who: self.session.who, owner, whole });
        if let Some(file) = lock(&inode.state).locks.get(&key) {
            return Ok(file.clone());
        }
        self.acting.become_root();
        let inodes = &self.coherence.inodes;
        if whole || !handle.writes {
            // For who may not write it nothing is open for writing, which would keep others from executing it.
            let file = Arc::new(inodes.open(inode, OFlags::RDONLY)?);
            return Ok(lock(&inode.state).locks.entry(key).or_insert(file).clone());
        }
        let file = match inodes.open(inode, OFlags::RDWR | OFlags::NONBLOCK) {
            Ok(file) => file,
            Err(_) => {
                self.coherence.recall(inode);
                inodes.open(inode, OFlags::RDWR).or_else(|_| inodes.open(inode, OFlags::RDONLY))?
            }
        };
        Ok(lock(&inode.state).locks.entry(key).or_insert_with(|| Arc::new(file)).clone())
    }

    pub(crate) fn get_lock(&mut self, body: &[u8]) -> Errno<Reply> {
        let (head, _): (LockIn, _) = take(body)?;
        let handle = self.handle(head.handle)?;
        let file = self.owners(&handle, (head.owner, false))?;
        let found = conflict(file.as_fd(), record(&head.lock))?;
        let end = if found.length == 0 { i64::MAX as u64 } else { found.start + found.length - 1 };
        // A PID of the front end, or nobody's that this machine knows.
        let pid = u32::try_from(found.pid).unwrap_or(0);
        Ok(Reply::of(FileLock { start: found.start, end, kind: found.kind as u32, pid }))
    }

    pub(crate) fn set_lock(&mut self, body: &[u8], waits: bool) -> Errno<Reply> {
        let (head, _): (LockIn, _) = take(body)?;
        let handle = self.handle(head.handle)?;
        if head.flags & LK_FLOCK != 0 {
            let operation = match (head.lock.kind, waits) {
                (READ, true) => FlockOperation::LockShared,
                (READ, false) => FlockOperation::NonBlockingLockShared,
                (WRITE, true) => FlockOperation::LockExclusive,
                (WRITE, false) => FlockOperation::NonBlockingLockExclusive,
                (NONE, _) => FlockOperation::Unlock,
                _ => return Err(EINVAL),
            };
            // What the node has opened by itself is not open here.
            let file = match head.handle {
                0 => self.owners(&handle, (head.owner, true))?,
                _ => handle.file.clone(),
            };
            return rustix::fs::flock(&*file, operation).map_err(errno).map(|()| Reply::default());
        }
        let record = record(&head.lock);
        let locker = Locker { who: self.session.who, owner: head.owner, whole: false };
        if head.lock.kind == NONE && !lock(&handle.inode.state).locks.contains_key(&locker) {
            return Ok(Reply::default());
        }
        let access = rustix::fs::fcntl_getfl(&handle.file).map_err(errno)? & OFlags::ACCMODE;
        match head.lock.kind {
            READ if access == OFlags::WRONLY => return Err(EBADF),
            WRITE if access == OFlags::RDONLY => return Err(EBADF),
            _ => {}
        }
        let file = self.owners(&handle, (head.owner, false))?;
        match set_record(file.as_fd(), record, waits) {
            // It has locked by a file that it only reads before: what it has locked so far goes.
            Err(EBADF) if handle.writes => {
                drop(lock(&handle.inode.state).locks.remove(&locker));
                let file = self.owners(&handle, (head.owner, false))?;
                set_record(file.as_fd(), record, waits).map(|()| Reply::default())
            }
            done => done.map(|()| Reply::default()),
        }
    }

    /// This owner has closed the file.
    pub(crate) fn unlock_all(&mut self, owner: u64) -> Errno<Reply> {
        self.unlock(owner, false)
    }

    fn unlock(&self, owner: u64, whole: bool) -> Errno<Reply> {
        let inode = self.inode()?;
        let dropped = lock(&inode.state).locks.remove(&Locker { who: self.session.who, owner, whole });
        drop(dropped);
        Ok(Reply::default())
    }

    pub(crate) fn release(&mut self, release: &ReleaseIn) -> Errno<Reply> {
        if release.handle == 0 {
            return self.unlock(release.lock_owner, true);
        }
        if let Ok(handle) = self.session.handle(release.handle) {
            self.coherence.written(&handle);
        }
        self.session.close(release.handle);
        Ok(Reply::default())
    }
}
