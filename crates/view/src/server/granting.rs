//! What a process is going to open is sent before it asks: the right to open a file by itself, with what the file says; the names of a directory; and the files that a program looks for when it starts.
//!
//! Each is opened with the rights of who asks: a node is sent nothing that its user may not have.

use super::call::Call;
use super::calls::{errno, path_of};
use super::inodes::Inode;
use super::restrict::is_noexec;
use super::trails::Use;
use crate::fuse::{DirentHead, ROOT};
use crate::line::lock;
use rustix::fs::{Access, AtFlags, OFlags, RawDir};
use std::collections::HashMap;
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::sync::Arc;
use wire::view::{intent, ToNode};
use zerocopy::IntoBytes;

/// Bytes of contents that go with one trail.
const TRAIL_MOST: usize = 8 << 20;
/// Bytes of the names of a directory that are sent, at most; and so many, since what each leads to may be asked for then.
const NAMES_MOST: usize = 256 * 1024;
const ROOM: usize = 32 * 1024;
/// Of a directory that was listed so many names are looked up ahead.
const EACH_MOST: usize = 4096;

impl Call<'_> {
    /// A process is going to use the file at the end of the path that it has given.
    pub(crate) fn send_intended(&mut self, directory: &Arc<Inode>, end: Option<Arc<Inode>>) {
        if !self.session.takes_grants {
            return;
        }
        match (self.hint.intent, end) {
            (intent::EACH, _) => self.send_each(directory),
            (intent::READ, Some(end)) => {
                self.note(&end, None, Use::Read);
                self.send_open(&end, false);
            }
            (intent::LIST, Some(end)) => {
                self.note(&end, None, Use::List);
                self.send_listing(&end);
            }
            (intent::EXECUTE, Some(end)) => {
                self.send_open(&end, true);
                self.executes(&end);
            }
            _ => {}
        }
        self.acting.become_root();
    }

    /// The caller executes this file: what others have asked for then is sent.
    pub(crate) fn executes(&mut self, inode: &Arc<Inode>) {
        if !self.session.takes_grants || !inode.is_file() || inode.unkept || self.header.pid == 0 {
            return;
        }
        self.acting.become_root();
        let process = (self.session.who, self.header.pid);
        if self.coherence.trails.watches(process) && self.is_loader(inode) {
            return self.note(inode, None, Use::Read);
        }
        // The node's own OPEN has to come, so that its trail goes with that.
        self.note(inode, None, Use::Look);
        let steps = self.coherence.trails.begin(process, inode.key);
        let mut walked = HashMap::new();
        let mut bytes = 0;
        for (path, what) in steps {
            let found = self.walk(&path, &mut walked);
            match (found, what) {
                (Some(found), Use::Read) if bytes < TRAIL_MOST => bytes += self.send_open(&found, false),
                (Some(found), Use::List) => self.send_listing(&found),
                _ => {}
            }
        }
        self.acting.become_root();
    }

    /// The dynamic loader is part of each program that needs it.
    fn is_loader(&self, inode: &Arc<Inode>) -> bool {
        let name = self.where_is(inode).unwrap_or_default();
        let name = name.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        name.starts_with(b"ld-") || name.starts_with(b"ld.")
    }

    /// Notes what the caller asks for, if it is a program that has just begun.
    pub(crate) fn note(&self, inode: &Arc<Inode>, name: Option<&[u8]>, what: Use) {
        let process = (self.session.who, self.header.pid);
        if inode.unkept || inode.closed || !self.coherence.trails.watches(process) {
            return;
        }
        let Some(mut path) = self.where_is(inode) else { return };
        if let Some(name) = name {
            if path != b"/" {
                path.push(b'/');
            }
            path.extend(name);
        }
        self.coherence.trails.note(process, path, what);
    }

    fn where_is(&self, inode: &Arc<Inode>) -> Option<Vec<u8>> {
        let fd = self.fd(inode).ok()?;
        let path = rustix::fs::readlinkat(rustix::fs::CWD, path_of(fd.as_fd()), Vec::new()).ok()?;
        Some(path.into_bytes())
    }

    /// Sends what the names of this path lead to, where the node does not know that, if the caller may walk there. The path is one without links, but for its last name.
    fn walk(&mut self, path: &[u8], walked: &mut HashMap<Vec<u8>, Option<Arc<Inode>>>) -> Option<Arc<Inode>> {
        if let Some(known) = walked.get(path) {
            return known.clone();
        }
        let found = match path {
            b"/" => self.coherence.inodes.get(ROOT).ok(),
            _ => {
                let cut = path.iter().rposition(|byte| *byte == b'/')?;
                let (above, name) = (&path[..cut.max(1)], &path[cut + 1..]);
                let directory = self.walk(above, walked).filter(|directory| self.may_walk(directory));
                directory.and_then(|directory| {
                    self.send_names(&directory);
                    self.known(&directory, name).or_else(|| self.step(&directory, name))
                })
            }
        };
        walked.insert(path.to_vec(), found.clone());
        found
    }

    fn may_walk(&mut self, directory: &Arc<Inode>) -> bool {
        let Ok(path) = self.path(directory) else { return false };
        let walks = directory.is_directory() && !directory.closed && !directory.unkept && self.as_caller().is_ok();
        let may = walks && {
            let may = rustix::fs::accessat(rustix::fs::CWD, path.text(), Access::EXEC_OK, AtFlags::EACCESS);
            may.is_ok()
        };
        self.acting.become_root();
        may
    }

    /// The file to which this name leads, if the node has been told that.
    fn known(&self, directory: &Arc<Inode>, name: &[u8]) -> Option<Arc<Inode>> {
        let id = {
            let state = lock(&directory.state);
            state.names.get(name).filter(|named| named.told.contains(&self.session.who)).map(|named| named.node)?
        };
        self.coherence.inodes.get(id).ok().filter(|inode| self.is_known(inode))
    }

    fn is_known(&self, inode: &Inode) -> bool {
        lock(&inode.state).holders.get(&self.session.who).is_some_and(|holder| holder.lookups > 0)
    }

    /// Sends the right to open a file for reading, unless the node has it. Returns how many bytes of its content go with that.
    pub(crate) fn send_open(&mut self, inode: &Arc<Inode>, executes: bool) -> usize {
        if !inode.is_file() || inode.closed || inode.unkept || !self.is_known(inode) {
            return 0;
        }
        self.acting.become_root();
        let changes = {
            let state = lock(&inode.state);
            if state.lease.is_some()
                && state.holders.get(&self.session.who).is_some_and(|holder| holder.granted && holder.content)
            {
                return 0;
            }
            state.changes
        };
        let noexec = self.fd(inode).map_or(true, |fd| is_noexec(fd.as_fd()));
        if noexec || self.as_caller().is_err() {
            return 0;
        }
        let file = self.coherence.inodes.open(inode, OFlags::RDONLY | OFlags::NONBLOCK);
        self.acting.become_root();
        let Ok(file) = file else { return 0 };
        let Some(had) = self.coherence.keeps(inode, self.session.who) else { return 0 };
        let company = self.company(inode, (!had).then_some(&file), executes);
        let mut state = lock(&inode.state);
        match company {
            Some(company) if state.changes == changes => {
                let bytes = company.content.as_ref().map_or(0, Vec::len);
                let attributes = company.attributes.unwrap_or_default().as_bytes().to_vec().into();
                let (content, stored) = (company.content.map(Into::into), company.stored);
                if let Some(holder) = state.holders.get_mut(&self.session.who) {
                    holder.unasked |= !had;
                }
                let granted = ToNode::Granted { node: inode.id, fresh: !had, attributes, content, stored };
                self.session.say_soon(&granted);
                bytes
            }
            _ => {
                if let Some(holder) = state.holders.get_mut(&self.session.who) {
                    holder.content &= had;
                }
                0
            }
        }
    }

    /// Sends all that can be read of a directory, unless that is too much, or the caller may not read it.
    pub(crate) fn send_listing(&mut self, directory: &Arc<Inode>) {
        if !self.session.takes_grants || !directory.is_directory() || directory.closed || directory.unkept {
            return;
        }
        self.acting.become_root();
        if !self.is_known(directory) && directory.id != ROOT || !self.coherence.inodes.mark(directory) {
            return;
        }
        let changes = lock(&directory.state).changes;
        if self.as_caller().is_err() {
            return;
        }
        let names = self.listing(directory);
        self.acting.become_root();
        let Some(names) = names else { return };
        let mut state = lock(&directory.state);
        if state.changes != changes {
            return;
        }
        let holder = state.holders.entry(self.session.who).or_default();
        holder.granted = true;
        let had = std::mem::replace(&mut holder.content, true);
        holder.unasked |= !had;
        // Any name that changes makes it void.
        self.session.say_soon(&ToNode::Listing { node: directory.id, fresh: !had, names: names.into() });
    }

    fn listing(&self, directory: &Arc<Inode>) -> Option<Vec<u8>> {
        let file = self.coherence.inodes.open(directory, OFlags::RDONLY | OFlags::DIRECTORY).ok()?;
        let mut buffer = vec![MaybeUninit::uninit(); ROOM];
        let mut names = RawDir::new(&file, &mut buffer[..]);
        let (mut all, mut count) = (Vec::new(), 0);
        while let Some(one) = names.next() {
            let one = one.map_err(errno).ok()?;
            let name = one.file_name().to_bytes();
            let kind = one.file_type().as_raw_mode() >> 12;
            let head = DirentHead { ino: one.ino(), offset: one.next_entry_cookie(), length: name.len() as u32, kind };
            all.extend(head.as_bytes());
            all.extend(name);
            all.resize(all.len().next_multiple_of(8), 0);
            count += 1;
            if all.len() > NAMES_MOST || count > EACH_MOST {
                return None;
            }
        }
        Some(all)
    }

    /// Sends what all names of a directory lead to, those that the caller may look up.
    fn send_each(&mut self, directory: &Arc<Inode>) {
        self.acting.become_root();
        if !directory.is_directory() || !self.coherence.inodes.mark(directory) {
            return;
        }
        let changes = lock(&directory.state).changes;
        let Some(names) = self.all_names(directory).filter(|names| names.len() <= EACH_MOST) else { return };
        if self.as_caller().is_err() {
            return;
        }
        let opened: Vec<_> = names.iter().map(|name| self.open_at(directory, name).ok()).collect();
        self.acting.become_root();
        let with_entries = |(name, fd): (Vec<u8>, Option<std::os::fd::OwnedFd>)| {
            let entry = fd.and_then(|fd| self.entry(fd, directory, &name).ok());
            (name, entry)
        };
        let all = names.into_iter().zip(opened).map(with_entries).collect();
        let _as_it_was = self.send_ahead(directory, changes, all, true);
    }
}
