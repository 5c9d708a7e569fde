//! Names: what they lead to, making and removing them.

use super::call::{Call, Opened, Reply, KEEP, KEEP_OF_FILES, MOST_NAMES, MOST_NOTHINGS};
use super::calls::{errno, no_room, Errno, LINK};
use super::inodes::Inode;
use super::trails::Use;
use crate::fuse::{name, take, text, EntryOut, LinkIn, MkdirIn, MknodIn, Rename2In, RenameIn};
use crate::line::lock;
use kern::fuse::raw::Header;
use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags, Stat};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use vocab::errno::{EACCES, EINVAL, ENOENT};
use zerocopy::IntoBytes;

/// The file to which a name leads.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) out: EntryOut,
    pub(crate) inode: Arc<Inode>,
    /// Changes of the file when its attributes were read.
    pub(crate) changes: u64,
    /// No extended attribute is set.
    pub(crate) plain: bool,
}

impl Entry {
    /// The answer that it is.
    fn reply(self) -> Reply {
        let data = self.out.as_bytes().to_vec();
        Reply { data, entries: vec![0], children: vec![(0, self)], ..Reply::default() }
    }
}

impl Call<'_> {
    /// A directory in which names may be asked for, and how often it has changed by now.
    pub(crate) fn directory(&self) -> Errno<(Arc<Inode>, u64)> {
        let directory = self.inode()?;
        self.coherence.inodes.mark(&directory);
        let changes = lock(&directory.state).changes;
        Ok((directory, changes))
    }

    /// The same, to change something there.
    fn changeable(&self) -> Errno<Arc<Inode>> {
        let directory = self.inode()?;
        if directory.closed {
            Err(EACCES)
        } else {
            Ok(directory)
        }
    }

    pub(crate) fn look_up(&mut self, body: &[u8]) -> Errno<Reply> {
        let (name, _) = name(body)?;
        let (directory, changes) = self.directory()?;
        if directory.closed {
            return Err(ENOENT);
        }
        self.as_caller()?;
        let found = self.open_at(&directory, name);
        self.acting.become_root();
        match found {
            Ok(fd) => {
                let entry = self.entry(fd, &directory, name)?;
                let link = self.target_of(&entry.inode);
                self.note(&directory, Some(name), Use::Look);
                let end = self.send_path(&directory, &entry.inode, link.as_deref());
                self.send_intended(&directory, end);
                let ahead = Some(directory.clone());
                let as_of = Some((directory, changes));
                let opened = link.map(|link| Opened { content: Some(link), ..Opened::default() });
                Ok(Reply { as_of, ahead, keeps: opened.is_some(), opened, ..entry.reply() })
            }
            Err(ENOENT) => {
                self.note(&directory, Some(name), Use::Look);
                let mut state = lock(&directory.state);
                if !state.marked || state.names.len() >= MOST_NOTHINGS {
                    return Err(ENOENT);
                }
                let named = state.names.entry(name.to_vec()).or_default();
                named.node = 0;
                named.told.insert(self.session.who);
                drop(state);
                let entry = EntryOut { entry_valid: KEEP, ..EntryOut::default() };
                let ahead = Some(directory.clone());
                let as_of = Some((directory, changes));
                Ok(Reply { data: entry.as_bytes().to_vec(), as_of, entries: vec![0], ahead, ..Reply::default() })
            }
            Err(errno) => Err(errno),
        }
    }

    /// What is answered about something that a name leads to, as far as the node may keep it. The thread acts as root.
    pub(crate) fn entry(&self, fd: OwnedFd, directory: &Arc<Inode>, name: &[u8]) -> Errno<Entry> {
        let inodes = &self.coherence.inodes;
        let (inode, stat) = inodes.take(fd, directory, self.session.who)?;
        let marked = {
            let mut state = lock(&directory.state);
            let tells = state.marked && state.names.len() < MOST_NAMES;
            if tells {
                let named = state.names.entry(name.to_vec()).or_default();
                named.node = inode.id;
                named.told.insert(self.session.who);
            }
            tells
        };
        if marked {
            lock(&inode.state).watched = true;
        }
        let changes = lock(&inode.state).changes;
        let (attr_valid, stat) = self.validity(&inode, stat)?;
        let entry_valid = if marked { KEEP } else { 0 };
        let out = EntryOut {
            node: inode.id,
            entry_valid,
            attr_valid,
            attr: inodes.attributes(&inode, &stat),
            ..EntryOut::default()
        };
        let path = self.path(&inode)?;
        let plain = inode.is_file() && rustix::fs::listxattr_query(path.text()) == Ok(0);
        Ok(Entry { out, inode, changes, plain })
    }

    /// How long attributes of this file may be kept, and the attributes.
    pub(crate) fn validity(&self, inode: &Arc<Inode>, stat: Stat) -> Errno<(u64, Stat)> {
        if inode.unkept {
            return Ok((0, stat));
        }
        let told = if inode.is_directory() { self.coherence.inodes.mark(inode) } else { stat.st_nlink == 1 };
        let keep = {
            let mut state = lock(&inode.state);
            // Nobody writes it, and the rest is told whatever the file is called.
            let is_leased = state.told && state.lease.is_some();
            // The size is known to who writes it.
            if state.writing.is_some() {
                return Ok((0, stat));
            }
            if !(is_leased || told && state.watched) {
                return Ok((0, stat));
            }
            state.holders.entry(self.session.who).or_default().attributes = true;
            if is_leased || inode.is_directory() {
                KEEP
            } else {
                KEEP_OF_FILES
            }
        };
        // Anew, since what happens from now on is told.
        self.coherence.inodes.stat(inode).map(|stat| (keep, stat))
    }

    /// The answer about a file that was made under that name.
    fn made(&mut self, directory: &Arc<Inode>, name: &[u8]) -> Errno<Reply> {
        let fd = self.open_at(directory, name);
        // Marks are root's to set.
        self.acting.become_root();
        let fd = fd?;
        self.coherence.inodes.mark(directory);
        let changes = lock(&directory.state).changes;
        let entry = self.entry(fd, directory, name)?;
        // A directory that was made: it is empty, as far as is known.
        let ahead = entry.inode.is_directory().then(|| entry.inode.clone());
        Ok(self.of_directory(directory, changes, Reply { ahead, ..entry.reply() }))
    }

    fn changed(&self, directory: &Inode, name: &[u8]) {
        self.coherence.name_changed(directory, name, Some(self.session.who));
    }

    pub(crate) fn make_node(&mut self, body: &[u8]) -> Errno<Reply> {
        let (head, rest): (MknodIn, _) = take(body)?;
        let (name, _) = name(rest)?;
        let directory = self.changeable()?;
        self.as_caller()?;
        self.acting.umask(head.umask);
        let kind = rustix::fs::FileType::from_raw_mode(head.mode);
        // new_decode_dev (linux/kdev_t.h)
        let (major, minor) = ((head.rdev >> 8) & 0xfff, head.rdev & 0xff | (head.rdev >> 12) & 0xf_ff00);
        let device = rustix::fs::makedev(major, minor);
        let mode = Mode::from_raw_mode(head.mode);
        let made = rustix::fs::mknodat(&*self.fd(&directory)?, name, kind, mode, device).map_err(errno);
        self.acting.umask(0);
        made?;
        self.changed(&directory, name);
        self.made(&directory, name)
    }

    pub(crate) fn make_directory(&mut self, body: &[u8]) -> Errno<Reply> {
        let (head, rest): (MkdirIn, _) = take(body)?;
        let (name, _) = name(rest)?;
        let directory = self.changeable()?;
        self.as_caller()?;
        self.acting.umask(head.umask);
        let made = rustix::fs::mkdirat(&*self.fd(&directory)?, name, Mode::from_raw_mode(head.mode)).map_err(errno);
        self.acting.umask(0);
        made?;
        self.changed(&directory, name);
        self.made(&directory, name)
    }

    pub(crate) fn symlink(&mut self, body: &[u8]) -> Errno<Reply> {
        let (name, rest) = name(body)?;
        let (target, _) = text(rest)?;
        let directory = self.changeable()?;
        self.as_caller()?;
        rustix::fs::symlinkat(target, &*self.fd(&directory)?, name).map_err(errno)?;
        self.changed(&directory, name);
        self.made(&directory, name)
    }

    pub(crate) fn link(&mut self, body: &[u8]) -> Errno<Reply> {
        let (head, rest): (LinkIn, _) = take(body)?;
        let (name, _) = name(rest)?;
        let directory = self.changeable()?;
        let source = self.coherence.inodes.get(head.node)?;
        self.as_caller()?;
        let (follow, from) = (AtFlags::SYMLINK_FOLLOW, self.path(&source)?);
        rustix::fs::linkat(rustix::fs::CWD, from.text(), &*self.fd(&directory)?, name, follow).map_err(errno)?;
        self.changed(&directory, name);
        self.coherence.attributes_changed(&source, Some(self.session.who));
        self.made(&directory, name)
    }

    pub(crate) fn unlink(&mut self, body: &[u8], is_directory: bool) -> Errno<Reply> {
        let (name, _) = name(body)?;
        let directory = self.changeable()?;
        self.as_caller()?;
        let how = if is_directory { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        rustix::fs::unlinkat(&*self.fd(&directory)?, name, how).map_err(errno)?;
        self.changed(&directory, name);
        self.acting.become_root();
        let changes = lock(&directory.state).changes;
        Ok(self.of_directory(&directory, changes, Reply::default()))
    }

    pub(crate) fn rename(&mut self, body: &[u8]) -> Errno<Reply> {
        let Header { opcode, .. } = self.header;
        let (directory, flags, rest) = match opcode {
            crate::fuse::op::RENAME => {
                let (head, rest): (RenameIn, _) = take(body)?;
                (head.directory, 0, rest)
            }
            _ => {
                let (head, rest): (Rename2In, _) = take(body)?;
                (head.directory, head.flags, rest)
            }
        };
        let (old, rest) = name(rest)?;
        let (new, _) = name(rest)?;
        let from = self.changeable()?;
        let to = self.coherence.inodes.get(directory)?;
        if to.closed {
            return Err(EACCES);
        }
        let flags = RenameFlags::from_bits(flags).ok_or(EINVAL)?;
        self.as_caller()?;
        rustix::fs::renameat_with(&*self.fd(&from)?, old, &*self.fd(&to)?, new, flags).map_err(errno)?;
        let moved =
            |directory: &Inode, name: &[u8]| lock(&directory.state).names.get(name).map_or(0, |named| named.node);
        let (there, back) = (moved(&from, old), moved(&to, new));
        self.changed(&from, old);
        self.changed(&to, new);
        // The node's kernel calls them so by now, without asking.
        self.coherence.is_called(&to, new, there, self.session);
        if flags.contains(RenameFlags::EXCHANGE) {
            self.coherence.is_called(&from, old, back, self.session);
        }
        self.acting.become_root();
        let changes = lock(&from.state).changes;
        Ok(self.of_directory(&from, changes, Reply::default()))
    }

    /// Opens the file that a name leads to, itself if it is a link.
    pub(crate) fn open_at(&self, directory: &Arc<Inode>, name: &[u8]) -> Errno<OwnedFd> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = self.fd(directory)?;
        rustix::fs::openat(&*fd, name, flags, Mode::empty()).map_err(no_room)
    }

    pub(crate) fn read_link(&mut self) -> Errno<Reply> {
        let inode = self.inode()?;
        if inode.closed {
            return Err(EACCES);
        }
        Ok(Reply { data: self.target(&inode)?, ..Reply::default() })
    }

    fn target(&self, inode: &Arc<Inode>) -> Errno<Vec<u8>> {
        rustix::fs::readlinkat(&*self.fd(inode)?, "", Vec::new()).map(|target| target.into_bytes()).map_err(errno)
    }

    /// The target of a symbolic link, which never changes.
    pub(crate) fn target_of(&self, inode: &Arc<Inode>) -> Option<Vec<u8>> {
        (inode.kind == LINK && !inode.closed).then(|| self.target(inode).ok()).flatten()
    }
}
