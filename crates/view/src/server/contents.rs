//! Opening, reading and writing.

use super::call::{Call, Opened, Reply};
use super::calls::{errno, path_of, Errno};
use super::counts::add;
use super::inodes::{Holder, Inode};
use super::restrict::is_noexec;
use super::session::Handle;
use super::trails::Use;
use crate::fuse::{
    name, opened, take, CopyIn, CreateIn, FallocateIn, FsyncIn, LseekIn, OpenIn, OpenOut, ReadIn, WriteIn, WriteOut,
    OPEN_KILL_SUIDGID,
};
use crate::line::lock;
use rustix::fs::{Access, AtFlags, FallocateFlags, Mode, OFlags, SeekFrom};
use std::fs::File;
use std::os::fd::AsFd;
use std::sync::Arc;
use vocab::errno::{EACCES, EAGAIN, EINVAL, EIO};
use wire::view::Stored;
use zerocopy::IntoBytes;

/// In the flags of open for execve(2) (linux: __FMODE_EXEC): who may execute a file need not be allowed to read it.
const FOR_EXEC: u32 = 0x20;
/// Data and hole of lseek(2).
const SEEK_DATA: u32 = 3;
const SEEK_HOLE: u32 = 4;
/// Bytes of a file whose content goes with the answer to OPEN, at most.
const SMALL: u64 = *wire::view::KEPT.start() - 1;
/// A program of so many bytes at most is read for its checksums before it is executed.
const PROGRAM: i64 = 64 << 20;

/// What of a program's flags is for the front end too: how its bytes are written. The rest, O_DIRECT say, is for the node's kernel.
fn flags(given: u32) -> OFlags {
    let writes = OFlags::APPEND | OFlags::SYNC | OFlags::DSYNC | OFlags::TRUNC | OFlags::NOATIME;
    OFlags::from_bits_retain(given) & (OFlags::ACCMODE | writes)
}

fn writes(flags: OFlags) -> bool {
    flags & OFlags::ACCMODE != OFlags::RDONLY || flags.contains(OFlags::TRUNC)
}

impl Call<'_> {
    pub(crate) fn open(&mut self, body: &[u8]) -> Errno<Reply> {
        let (head, _): (OpenIn, _) = take(body)?;
        let inode = self.inode()?;
        if inode.closed || !inode.is_file() {
            return Err(EACCES);
        }
        let flags = flags(head.flags);
        let noexec = is_noexec(self.fd(&inode)?.as_fd());
        if noexec && head.flags & FOR_EXEC != 0 {
            return Err(EACCES);
        }
        if writes(flags) {
            self.coherence.recall(&inode);
        }
        self.as_caller()?;
        let file = match self.coherence.inodes.open(&inode, flags) {
            Err(EACCES) if head.flags & FOR_EXEC != 0 && !writes(flags) => self.open_to_execute(&inode)?,
            file => file?,
        };
        if head.open_flags & OPEN_KILL_SUIDGID != 0 && flags.contains(OFlags::TRUNC) {
            self.coherence.attributes_changed(&inode, Some(self.session.who));
        }
        let changes = lock(&inode.state).changes;
        let (out, keeps) = self.handle_of(&inode, file, flags)?;
        // Else the node would not ask before it executes it.
        let keeps = keeps && !noexec;
        let executes = head.flags & FOR_EXEC != 0;
        let opened = if keeps { self.opened(&inode, &out, executes) } else { None };
        match executes {
            true => self.executes(&inode),
            false if !writes(flags) => self.note(&inode, None, Use::Read),
            false => {}
        }
        Ok(Reply { keeps, opened, as_of: Some((inode, changes)), ..Reply::of(out) })
    }

    /// The next answers about a file that the node may keep.
    fn opened(&self, inode: &Arc<Inode>, out: &OpenOut, executes: bool) -> Option<Opened> {
        // The node has no page of the file yet.
        let file = (out.flags & opened::KEEP_CACHE == 0).then(|| self.session.handle(out.handle));
        let file = file.transpose().ok()?.map(|handle| handle.file.clone());
        self.company(inode, file.as_deref(), executes)
    }

    /// The same, with the content of a small file if it is open here.
    pub(crate) fn company(&self, inode: &Arc<Inode>, file: Option<&File>, executes: bool) -> Option<Opened> {
        let stat = self.coherence.inodes.stat(inode).ok()?;
        let mut content = None;
        if let Some(file) = file.filter(|_| u64::try_from(stat.st_size).is_ok_and(|size| size <= SMALL)) {
            let mut room = vec![0; stat.st_size as usize];
            let filled = rustix::io::pread(file, &mut room, 0).unwrap_or(0);
            if filled == room.len() {
                add(&self.session.counts.read, filled);
                content = Some(room);
            }
        }
        let stored = self.stored(inode, &stat, executes && stat.st_size <= PROGRAM);
        Some(Opened { attributes: Some(self.attributes_to_keep(inode)?), content, stored })
    }

    /// What the content of a file that the node has read is known by.
    pub(crate) fn sums(&mut self) -> Errno<Reply> {
        let changes = lock(&self.inode()?.state).changes;
        // The node has the right to read it, or else there is an error.
        let inode = self.reader()?.inode.clone();
        let stat = self.coherence.inodes.stat(&inode)?;
        let opened = Opened { stored: self.stored(&inode, &stat, true), ..Opened::default() };
        Ok(Reply { keeps: true, opened: Some(opened), as_of: Some((inode, changes)), ..Reply::default() })
    }

    /// What the content of a file on which there is a lease is known by, for a node that keeps contents. Where that is not known the file is read for it, if `reads`: not for
    /// each that is opened, since a program may look at the head of many.
    fn stored(&self, inode: &Arc<Inode>, stat: &rustix::fs::Stat, reads: bool) -> Option<Stored> {
        self.session.keeps_contents().then_some(())?;
        let lease = lock(&inode.state).lease.clone()?;
        let objects = &self.coherence.objects;
        let content = objects.content(inode, stat, reads.then_some(&*lease))?;
        let sources = self.coherence.addresses(objects.join(content.name(), self.session.who));
        Some(Stored { size: content.size(), sums: content.sums().into(), sources })
    }

    /// Who may execute it is served as root would be.
    fn open_to_execute(&mut self, inode: &Arc<Inode>) -> Errno<File> {
        let path = self.path(inode)?;
        let may = rustix::fs::accessat(rustix::fs::CWD, path.text(), Access::EXEC_OK, AtFlags::EACCESS);
        may.map_err(errno)?;
        self.acting.become_root();
        self.coherence.inodes.open(inode, OFlags::RDONLY)
    }

    /// A new handle. What is only read the node's kernel may keep as long as nobody can write it, and open again by itself.
    fn handle_of(&mut self, inode: &Arc<Inode>, file: File, flags: OFlags) -> Errno<(OpenOut, bool)> {
        let writes = writes(flags);
        let kept = if writes {
            lock(&inode.state).writers += 1;
            self.coherence.attributes_changed(inode, Some(self.session.who));
            None
        } else {
            self.acting.become_root();
            let had = self.coherence.keeps(inode, self.session.who);
            let unasked = |holder: &mut Holder| std::mem::take(&mut holder.unasked);
            had.map(|had| had & !lock(&inode.state).holders.get_mut(&self.session.who).is_some_and(unasked))
        };
        let handle = Handle {
            file: Arc::new(file),
            inode: inode.clone(),
            cached: kept.is_some(),
            writes,
            uid: self.header.uid,
            reading: Default::default(),
        };
        let flags = match kept {
            Some(true) => opened::KEEP_CACHE,
            Some(false) => 0,
            None => opened::DIRECT_IO | opened::PARALLEL_DIRECT_WRITES,
        };
        Ok((OpenOut { handle: self.session.add(handle)?, flags, padding: 0 }, kept.is_some()))
    }

    pub(crate) fn create(&mut self, body: &[u8]) -> Errno<Reply> {
        let (head, rest): (CreateIn, _) = take(body)?;
        let (name, _) = name(rest)?;
        let (directory, _) = self.directory()?;
        if directory.closed {
            return Err(EACCES);
        }
        let flags = flags(head.flags);
        let exclusive = OFlags::from_bits_retain(head.flags) & OFlags::EXCL;
        let how = flags | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC | exclusive;
        let fd = self.fd(&directory)?;
        self.as_caller()?;
        self.acting.umask(head.umask);
        let opened = |how| rustix::fs::openat(&*fd, name, how, Mode::from_raw_mode(head.mode & 0o7777)).map_err(errno);
        let file = match opened(how) {
            // It was there, and nodes keep pages of it: they are being told.
            Err(EAGAIN) => opened(how.difference(OFlags::NONBLOCK)),
            file => file,
        };
        self.acting.umask(0);
        let file = File::from(file?);
        self.created(&directory, name, file, flags)
    }

    pub(crate) fn temporary(&mut self, body: &[u8]) -> Errno<Reply> {
        let (head, _): (CreateIn, _) = take(body)?;
        let directory = self.inode()?;
        if directory.closed {
            return Err(EACCES);
        }
        let flags = flags(head.flags);
        let exclusive = OFlags::from_bits_retain(head.flags) & OFlags::EXCL;
        let how = flags | OFlags::TMPFILE | OFlags::CLOEXEC | exclusive;
        self.as_caller()?;
        self.acting.umask(head.umask);
        let file = rustix::fs::openat(&*self.fd(&directory)?, ".", how, Mode::from_raw_mode(head.mode & 0o7777));
        self.acting.umask(0);
        let file = File::from(file.map_err(errno)?);
        let fd = reopened(&file)?;
        let inodes = &self.coherence.inodes;
        let (inode, stat) = inodes.take(fd, &directory, self.session.who)?;
        let entry =
            crate::fuse::EntryOut { node: inode.id, attr: inodes.attributes(&inode, &stat), ..Default::default() };
        let (out, _) = self.handle_of(&inode, file, flags)?;
        Ok(Reply { data: [entry.as_bytes(), out.as_bytes()].concat(), ..Reply::default() })
    }

    fn created(&mut self, directory: &Arc<Inode>, name: &[u8], file: File, flags: OFlags) -> Errno<Reply> {
        self.acting.become_root();
        self.coherence.name_changed(directory, name, Some(self.session.who));
        let fd = reopened(&file)?;
        let before = lock(&directory.state).changes;
        let mut found = self.entry(fd, directory, name)?;
        let (entry, inode) = (found.out, found.inode.clone());
        if !inode.is_file() {
            return Err(EINVAL);
        }
        let (out, _) = self.handle_of(&inode, file, flags)?;
        let plain = OFlags::APPEND | OFlags::SYNC | OFlags::DSYNC;
        if self.session.takes_grants && entry.attr.size == 0 && writes(flags) && !flags.intersects(plain) {
            let handle = self.session.handle(out.handle)?;
            self.coherence.write_behind(&inode, self.session.who, &handle);
        }
        let data = [entry.as_bytes(), out.as_bytes()].concat();
        // To open it for writing was one.
        found.changes += u64::from(writes(flags));
        let children = vec![(0, found)];
        let reply = Reply { data, entries: vec![0], children, ..Reply::default() };
        Ok(self.of_directory(directory, before, reply))
    }

    pub(crate) fn read(&mut self, body: &[u8]) -> Errno<Reply> {
        let (head, _): (ReadIn, _) = take(body)?;
        let handle = self.handle(head.handle)?;
        let mut data = vec![0u8; head.size.min(wire::view::MOST) as usize];
        let mut filled = 0;
        while filled < data.len() {
            match rustix::io::pread(&handle.file, &mut data[filled..], head.offset + filled as u64) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(rustix::io::Errno::INTR) => {}
                Err(_) if filled > 0 => break,
                Err(error) => return Err(errno(error)),
            }
        }
        data.truncate(filled);
        add(&self.session.counts.read, filled);
        self.acting.become_root();
        let may_stay = !handle.cached || self.coherence.keeps(&handle.inode, self.session.who).is_some();
        let drops = (!may_stay).then(|| handle.inode.clone());
        Ok(Reply { data, drops, ..Reply::default() })
    }

    pub(crate) fn write(&mut self, body: &[u8]) -> Errno<Reply> {
        let (head, rest): (WriteIn, _) = take(body)?;
        let handle = self.handle(head.handle)?;
        let bytes = rest.get(..head.size as usize).ok_or(EIO)?;
        // Of the caller's quota, and of what is left for ordinary users; who may not keep a set-user-ID bit loses it.
        self.as_caller()?;
        let mut written = 0;
        while written < bytes.len() {
            match rustix::io::pwrite(&handle.file, &bytes[written..], head.offset + written as u64) {
                Ok(0) => break,
                Ok(count) => written += count,
                Err(rustix::io::Errno::INTR) => {}
                Err(_) if written > 0 => break,
                Err(error) => return Err(errno(error)),
            }
        }
        add(&self.session.counts.written, written);
        self.coherence.attributes_changed(&handle.inode, Some(self.session.who));
        Ok(Reply::of(WriteOut { size: written as u32, padding: 0 }))
    }

    pub(crate) fn sync(&mut self, body: &[u8]) -> Errno<Reply> {
        let (head, _): (FsyncIn, _) = take(body)?;
        let handle = self.handle(head.handle)?;
        let data_only = head.flags & 1 != 0;
        let done = if data_only { rustix::fs::fdatasync(&handle.file) } else { rustix::fs::fsync(&handle.file) };
        done.map_err(errno).map(|()| Reply::default())
    }

    pub(crate) fn allocate(&mut self, body: &[u8]) -> Errno<Reply> {
        let (head, _): (FallocateIn, _) = take(body)?;
        let handle = self.handle(head.handle)?;
        self.as_caller()?;
        let flags = FallocateFlags::from_bits(head.mode).ok_or(EINVAL)?;
        rustix::fs::fallocate(&handle.file, flags, head.offset, head.length).map_err(errno)?;
        self.coherence.attributes_changed(&handle.inode, Some(self.session.who));
        Ok(Reply::default())
    }

    pub(crate) fn seek(&mut self, body: &[u8]) -> Errno<Reply> {
        let (head, _): (LseekIn, _) = take(body)?;
        let handle = self.handle(head.handle)?;
        let to = match head.whence {
            SEEK_DATA => SeekFrom::Data(head.offset),
            SEEK_HOLE => SeekFrom::Hole(head.offset),
            _ => return Err(EINVAL),
        };
        rustix::fs::seek(&handle.file, to).map_err(errno).map(Reply::of)
    }

    /// Without the bytes on the way.
    pub(crate) fn copy(&mut self, body: &[u8]) -> Errno<Reply> {
        let (head, _): (CopyIn, _) = take(body)?;
        let from = self.handle(head.handle)?;
        let to = self.session.handle(head.to_handle)?;
        let (mut read, mut written) = (head.offset, head.to_offset);
        let length = usize::try_from(head.length.min(1 << 30)).map_err(|_| EINVAL)?;
        self.as_caller()?;
        let copied = rustix::fs::copy_file_range(&from.file, Some(&mut read), &to.file, Some(&mut written), length);
        let copied = copied.map_err(errno)?;
        self.coherence.attributes_changed(&to.inode, Some(self.session.who));
        Ok(Reply::of(WriteOut { size: copied as u32, padding: 0 }))
    }
}

/// The file that is open, to be named.
fn reopened(file: &File) -> Errno<std::os::fd::OwnedFd> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    rustix::fs::open(path_of(file.as_fd()), flags, Mode::empty()).map_err(errno)
}
