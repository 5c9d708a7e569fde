//! Reading directories, with what is known of each name where that is welcome.

use super::call::{Call, Reply};
use super::calls::{errno, Errno};
use super::inodes::Inode;
use super::session::Handle;
use super::trails::Use;
use crate::fuse::{opened, take, DirentHead, EntryOut, OpenOut, ReadIn};
use crate::line::lock;
use rustix::fs::{OFlags, RawDir, SeekFrom};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use vocab::errno::{EACCES, EIO};
use zerocopy::IntoBytes;

/// Bytes of names that are read at once.
const ROOM: usize = 32 * 1024;

impl Call<'_> {
    pub(crate) fn open_directory(&mut self) -> Errno<Reply> {
        let inode = self.inode()?;
        if inode.closed {
            return Err(EACCES);
        }
        self.as_caller()?;
        let file = self.coherence.inodes.open(&inode, OFlags::RDONLY | OFlags::DIRECTORY)?;
        self.acting.become_root();
        // The node may go on with what it has read of it, and open it by itself, until a name or an attribute there changes.
        let kept = self.coherence.inodes.mark(&inode);
        let (changes, had) = {
            let mut state = lock(&inode.state);
            let changes = state.changes;
            let had = kept && {
                let holder = state.holders.entry(self.session.who).or_default();
                holder.granted = true;
                std::mem::replace(&mut holder.content, true) && !std::mem::take(&mut holder.unasked)
            };
            (changes, had)
        };
        let handle = Handle {
            file: Arc::new(file),
            inode: inode.clone(),
            cached: false,
            writes: false,
            uid: self.header.uid,
            reading: Default::default(),
        };
        let flags = match (kept, had) {
            (true, true) => opened::CACHE_DIR | opened::KEEP_CACHE,
            (true, false) => opened::CACHE_DIR,
            _ => 0,
        };
        let out = OpenOut { handle: self.session.add(handle)?, flags, padding: 0 };
        self.note(&inode, None, Use::List);
        self.send_listing(&inode);
        Ok(Reply { keeps: kept, as_of: Some((inode, changes)), ..Reply::of(out) })
    }

    /// The names behind an offset, as many as there is room for. `whole`: with what they lead to, each of which counts as looked up.
    pub(crate) fn read_directory(&mut self, body: &[u8], whole: bool) -> Errno<Reply> {
        let (head, _): (ReadIn, _) = take(body)?;
        let handle = self.handle(head.handle)?;
        let (directory, changes) = self.directory()?;
        if !directory.is_directory() {
            return Err(EIO);
        }
        let room = head.size.min(wire::view::MOST) as usize;
        let _alone = lock(&handle.reading);
        rustix::fs::seek(&handle.file, SeekFrom::Start(head.offset)).map_err(errno)?;
        self.as_caller()?;
        let names = self.names(&handle, &directory, (room, whole));
        self.acting.become_root();
        let (mut data, mut entries, mut children) = (Vec::new(), Vec::new(), Vec::new());
        for one in names? {
            let start = data.len();
            let mut ino = one.ino;
            if whole {
                // Node 0: nothing is said of it (linux: fuse_direntplus_link).
                let found = one.fd.map(|fd| self.entry(fd, &directory, &one.name));
                let mut entry = EntryOut::default();
                if let Some(Ok(found)) = found {
                    entry = found.out;
                    ino = entry.attr.ino;
                    children.push((start, found));
                }
                entries.push(start);
                data.extend(entry.as_bytes());
            }
            let length = one.name.len() as u32;
            data.extend(DirentHead { ino, offset: one.offset, length, kind: one.kind }.as_bytes());
            data.extend(&one.name);
            data.resize(start + padded(&one.name, whole), 0);
        }
        Ok(Reply { data, as_of: Some((directory, changes)), entries, children, ..Reply::default() })
    }

    /// As many names as there is room for, with what they lead to, which the caller may look up.
    fn names(&self, handle: &Handle, directory: &Arc<Inode>, (room, whole): (usize, bool)) -> Errno<Vec<Found>> {
        let mut buffer = vec![MaybeUninit::uninit(); ROOM.min(room.max(4096))];
        let mut names = RawDir::new(&handle.file, &mut buffer[..]);
        let (mut found, mut used) = (Vec::new(), 0);
        while let Some(one) = names.next() {
            let one = match one {
                Ok(one) => one,
                Err(_) if !found.is_empty() => break,
                Err(error) => return Err(errno(error)),
            };
            let name = one.file_name().to_bytes();
            used += padded(name, whole);
            if used > room {
                break;
            }
            let is_itself = name == b"." || name == b"..";
            let fd = if whole && !is_itself { self.open_at(directory, name).ok() } else { None };
            found.push(Found {
                name: name.to_vec(),
                ino: one.ino(),
                offset: one.next_entry_cookie(),
                kind: one.file_type().as_raw_mode() >> 12,
                fd,
            });
        }
        Ok(found)
    }
}

/// Bytes of an entry.
fn padded(name: &[u8], whole: bool) -> usize {
    let before = if whole { size_of::<EntryOut>() } else { 0 };
    (before + size_of::<DirentHead>() + name.len()).next_multiple_of(8)
}

/// A name in a directory.
struct Found {
    name: Vec<u8>,
    ino: u64,
    /// Of what follows.
    offset: u64,
    /// Bits of S_IFMT, moved to the right by 12.
    kind: u32,
    fd: Option<OwnedFd>,
}
