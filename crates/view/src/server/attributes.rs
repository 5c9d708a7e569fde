//! Attributes of files: stat, chmod, chown, times, truncation, extended attributes.

use super::call::{Call, Reply, KEEP};
use super::calls::{errno, Errno};
use super::inodes::Inode;
use crate::fuse::{set, take, text, AttrOut, GetxattrIn, SetattrIn, SetxattrIn, StatfsOut};
use crate::line::lock;
use rustix::fs::{Access, AtFlags, Gid, Mode, OFlags, Timespec, Timestamps, Uid, XattrFlags, UTIME_NOW, UTIME_OMIT};
use std::sync::Arc;
use vocab::errno::{EACCES, EIO, ENODATA, ERANGE};

/// The most bytes of an extended attribute, and of a list of them (XATTR_SIZE_MAX, XATTR_LIST_MAX).
const VALUE_MOST: usize = 65_536;

impl Call<'_> {
    pub(crate) fn get_attributes(&mut self, _body: &[u8]) -> Errno<Reply> {
        let inode = self.inode()?;
        self.coherence.lease_for_attributes(&inode);
        self.attributes_of(&inode)
    }

    fn attributes_of(&mut self, inode: &Arc<Inode>) -> Errno<Reply> {
        let changes = lock(&inode.state).changes;
        let (valid, stat) = self.validity(inode, self.coherence.inodes.stat(inode)?)?;
        let attr = self.coherence.inodes.attributes(inode, &stat);
        let reply = Reply::of(AttrOut { valid, attr, ..AttrOut::default() });
        let keeps = valid == KEEP;
        Ok(Reply { as_of: Some((inode.clone(), changes)), attributes: true, keeps, long: keeps, ..reply })
    }

    pub(crate) fn set_attributes(&mut self, body: &[u8]) -> Errno<Reply> {
        let (head, _): (SetattrIn, _) = take(body)?;
        let inode = self.inode()?;
        if inode.closed {
            return Err(EACCES);
        }
        self.as_caller()?;
        let is = |bit: u32| head.valid & bit != 0;
        if is(set::SIZE) {
            self.truncate(&inode, &head)?;
        }
        if is(set::UID | set::GID) {
            let uid = is(set::UID).then(|| Uid::from_raw(head.uid));
            let gid = is(set::GID).then(|| Gid::from_raw(head.gid));
            rustix::fs::chownat(&*self.fd(&inode)?, "", uid, gid, AtFlags::EMPTY_PATH).map_err(errno)?;
        }
        if is(set::MODE) {
            let mode = Mode::from_raw_mode(head.mode & 0o7777);
            rustix::fs::chmodat(rustix::fs::CWD, self.path(&inode)?.text(), mode, AtFlags::empty()).map_err(errno)?;
        }
        if is(set::ATIME | set::MTIME | set::ATIME_NOW | set::MTIME_NOW) {
            let time = |given: u32, now: u32, seconds: u64, ns: u32| match (is(given), is(now)) {
                (_, true) => Timespec { tv_sec: 0, tv_nsec: UTIME_NOW },
                (true, _) => Timespec { tv_sec: seconds as i64, tv_nsec: ns.into() },
                _ => Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
            };
            let times = Timestamps {
                last_access: time(set::ATIME, set::ATIME_NOW, head.atime, head.nsec[0]),
                last_modification: time(set::MTIME, set::MTIME_NOW, head.mtime, head.nsec[1]),
            };
            rustix::fs::utimensat(&*self.fd(&inode)?, "", &times, AtFlags::EMPTY_PATH).map_err(errno)?;
        }
        self.coherence.attributes_changed(&inode, Some(self.session.who));
        self.acting.become_root();
        self.attributes_of(&inode)
    }

    fn truncate(&mut self, inode: &Arc<Inode>, head: &SetattrIn) -> Errno<()> {
        if head.valid & set::HANDLE != 0 {
            if let Ok(handle) = self.handle(head.handle) {
                return rustix::fs::ftruncate(&handle.file, head.size).map_err(errno);
            }
        }
        if !inode.is_file() {
            return Err(EIO);
        }
        self.coherence.recall(inode);
        let file = self.coherence.inodes.open(inode, OFlags::WRONLY)?;
        rustix::fs::ftruncate(&file, head.size).map_err(errno)
    }

    pub(crate) fn set_value(&mut self, body: &[u8]) -> Errno<Reply> {
        let (head, rest): (SetxattrIn, _) = take(body)?;
        let (name, value) = text(rest)?;
        let value = value.get(..head.size as usize).ok_or(EIO)?;
        let inode = self.inode()?;
        if inode.closed {
            return Err(EACCES);
        }
        self.as_caller()?;
        let flags = XattrFlags::from_bits_truncate(head.flags);
        rustix::fs::setxattr(self.path(&inode)?.text(), name, value, flags).map_err(errno)?;
        self.coherence.attributes_changed(&inode, Some(self.session.who));
        Ok(Reply::default())
    }

    pub(crate) fn get_value(&mut self, body: &[u8]) -> Errno<Reply> {
        let (head, rest): (GetxattrIn, _) = take(body)?;
        let (name, _) = text(rest)?;
        let inode = self.inode()?;
        self.as_caller()?;
        let changes = lock(&inode.state).changes;
        let mut room = vec![0u8; VALUE_MOST];
        match rustix::fs::getxattr(self.path(&inode)?.text(), name, &mut room[..]) {
            Ok(length) => {
                room.truncate(length);
                value(room, head.size)
            }
            // As long as the attributes stay what they are.
            Err(rustix::io::Errno::NODATA) => {
                self.acting.become_root();
                let (valid, _) = self.validity(&inode, self.coherence.inodes.stat(&inode)?)?;
                let as_of = Some((inode, changes));
                Ok(Reply { errno: ENODATA, keeps: valid > 0, long: valid == KEEP, as_of, ..Reply::default() })
            }
            Err(error) => Err(errno(error)),
        }
    }

    pub(crate) fn list_values(&mut self, body: &[u8]) -> Errno<Reply> {
        let (head, _): (GetxattrIn, _) = take(body)?;
        let inode = self.inode()?;
        self.as_caller()?;
        let mut room = vec![0u8; VALUE_MOST];
        let length = rustix::fs::listxattr(self.path(&inode)?.text(), &mut room[..]).map_err(errno)?;
        room.truncate(length);
        value(room, head.size)
    }

    pub(crate) fn remove_value(&mut self, body: &[u8]) -> Errno<Reply> {
        let (name, _) = text(body)?;
        let inode = self.inode()?;
        if inode.closed {
            return Err(EACCES);
        }
        self.as_caller()?;
        if name == b"security.capability" && self.header.uid != 0 {
            // Whoever writes a file takes its capabilities away, and the node's kernel says so by this.
            let path = self.path(&inode)?;
            let may = rustix::fs::accessat(rustix::fs::CWD, path.text(), Access::WRITE_OK, AtFlags::EACCESS);
            may.map_err(errno)?;
            self.acting.become_root();
        }
        rustix::fs::removexattr(self.path(&inode)?.text(), name).map_err(errno)?;
        self.coherence.attributes_changed(&inode, Some(self.session.who));
        Ok(Reply::default())
    }

    pub(crate) fn statfs(&mut self) -> Errno<Reply> {
        let found = rustix::fs::statfs(self.path(&self.inode()?)?.text()).map_err(errno)?;
        Ok(Reply::of(StatfsOut {
            counts: [found.f_blocks, found.f_bfree, found.f_bavail, found.f_files, found.f_ffree],
            bsize: found.f_bsize as u32,
            namelen: found.f_namelen as u32,
            frsize: found.f_frsize as u32,
            ..StatfsOut::default()
        }))
    }

    pub(crate) fn sync_all(&mut self) -> Errno<Reply> {
        let root = self.coherence.inodes.open(&self.inode()?, OFlags::RDONLY | OFlags::DIRECTORY)?;
        rustix::fs::syncfs(&root).map_err(errno)?;
        Ok(Reply::default())
    }
}

/// The value, or how long it is for who has no room (getxattr(2)).
fn value(value: Vec<u8>, room: u32) -> Errno<Reply> {
    match room as usize {
        0 => Ok(Reply::of([value.len() as u32, 0])),
        room if room < value.len() => Err(ERANGE),
        _ => Ok(Reply { data: value, ..Reply::default() }),
    }
}
