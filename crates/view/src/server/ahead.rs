//! Answers that a node will ask for next are sent before: the names of a directory in which it looks something up. It may answer for all of them, and for those that are not
//! there, by itself: changes of the directory are told to it, whatever the name.

use super::call::Call;
use super::calls::errno;
use super::counts::add;
use super::inodes::{Inode, Listing};
use super::names::Entry;
use super::trails::Use;
use crate::fuse::ROOT;
use crate::line::lock;
use rustix::fs::{OFlags, RawDir};
use std::collections::VecDeque;
use std::mem::MaybeUninit;
use std::sync::Arc;
use wire::view::{Ahead, ToNode};
use zerocopy::IntoBytes;

/// Directories of so many names are sent, and what the names lead to where there are no more than so many.
const MOST: usize = 4096;
const MOST_ENTRIES: usize = 128;
const ROOM: usize = 32 * 1024;
/// Names and links of a path that are followed.
const MOST_STEPS: usize = 40;
/// Lookups in a directory that has been sent already, after which it is sent again.
const AGAIN: u32 = 64;

impl Call<'_> {
    /// Sends the names of a directory, unless the node has them, or there are too many.
    pub(crate) fn send_names(&mut self, directory: &Arc<Inode>) {
        self.acting.become_root();
        if !directory.is_directory() || !self.coherence.inodes.mark(directory) || !self.is_wanted(directory) {
            return;
        }
        let changes = lock(&directory.state).changes;
        let Some(names) = self.all_names(directory) else { return };
        let with_entries = names.len() <= MOST_ENTRIES;
        let mut all = Vec::new();
        for name in names {
            let fd = if with_entries { self.open_at(directory, &name).ok() } else { None };
            let entry = fd.and_then(|fd| self.entry(fd, directory, &name).ok());
            all.push((name, entry));
        }
        let _as_it_was = self.send_ahead(directory, changes, all, true);
    }

    /// Sends what the rest of the path leads to that begins with a name in a directory, which leads to `first`. Names are looked up as who asks would.
    /// Returns the file at its end, if that is known.
    pub(crate) fn send_path(
        &mut self,
        directory: &Arc<Inode>,
        first: &Arc<Inode>,
        link: Option<&[u8]>,
    ) -> Option<Arc<Inode>> {
        let parts = |path: &[u8]| -> Vec<Vec<u8>> {
            let parts = path.split(|byte| *byte == b'/').filter(|part| !part.is_empty() && *part != b".");
            parts.map(<[u8]>::to_vec).collect()
        };
        if self.hint.path.is_empty() && self.hint.intent == 0 {
            return None;
        }
        let mut rest: VecDeque<Vec<u8>> = parts(&self.hint.path).into();
        let (mut at, mut found, mut link) = (directory.clone(), first.clone(), link.map(<[u8]>::to_vec));
        for _ in 0..MOST_STEPS {
            if let Some(target) = link {
                parts(&target).into_iter().rev().for_each(|part| rest.push_front(part));
                if target.first() == Some(&b'/') {
                    at = self.coherence.inodes.get(ROOT).ok()?;
                }
            } else {
                at = found;
            }
            let Some(name) = rest.pop_front() else { return Some(at) };
            if name == b".." {
                return None;
            }
            self.note(&at, Some(&name), Use::Look);
            found = self.step(&at, &name)?;
            link = self.target_of(&found);
        }
        None
    }

    pub(crate) fn step(&mut self, directory: &Arc<Inode>, name: &[u8]) -> Option<Arc<Inode>> {
        if directory.closed || !directory.is_directory() {
            return None;
        }
        self.acting.become_root();
        let marked = self.coherence.inodes.mark(directory);
        let changes = lock(&directory.state).changes;
        self.as_caller().ok()?;
        let fd = self.open_at(directory, name);
        self.acting.become_root();
        let entry = fd.and_then(|fd| self.entry(fd, directory, name)).ok()?;
        let found = entry.inode.clone();
        let sent = marked && self.send_ahead(directory, changes, vec![(name.to_vec(), Some(entry))], false);
        sent.then_some(found)
    }

    /// Sends names of a directory with what they lead to, as of so many changes. False: it has changed since, and nothing is sent.
    pub(crate) fn send_ahead(
        &self,
        directory: &Arc<Inode>,
        changes: u64,
        all: Vec<(Vec<u8>, Option<Entry>)>,
        whole: bool,
    ) -> bool {
        let (mut names, mut children) = (Vec::new(), Vec::new());
        for (name, entry) in all {
            let link = entry.as_ref().and_then(|entry| self.target_of(&entry.inode)).map(Into::into);
            names.push(Ahead { name: name.into(), entry: Vec::new().into(), link });
            children.push(entry);
        }
        let mut state = lock(&directory.state);
        let (mut current, mut plain) = (Vec::new(), Vec::new());
        for (one, child) in names.iter_mut().zip(&children) {
            let Some(Entry { out, inode, changes, plain: is_plain }) = child else { continue };
            let mut out = *out;
            // As long as they are locked nobody tells that they have changed. Another order of locks would be somebody's: not to be waited for.
            match inode.state.try_lock() {
                Ok(state) if state.changes == *changes => {
                    current.push(state);
                    plain.extend(is_plain.then_some(inode.id));
                }
                _ => (out.attr_valid, out.nsec[1]) = (0, 0),
            }
            one.entry = out.as_bytes().to_vec().into();
        }
        if state.changes == changes {
            if whole {
                state.listings.insert(self.session.who, Listing::Sent(0));
            }
            add(&self.session.counts.ahead, names.len());
            self.session.say_soon(&ToNode::Ahead { directory: directory.id, whole, names, plain });
            return true;
        }
        drop((current, state));
        for child in children.iter().flatten() {
            self.coherence.inodes.forget(child.inode.id, self.session.who, Some(1));
        }
        false
    }

    fn is_wanted(&self, directory: &Inode) -> bool {
        let mut state = lock(&directory.state);
        match state.listings.get_mut(&self.session.who) {
            None => true,
            Some(Listing::TooMany) => false,
            Some(Listing::Sent(asked)) => {
                *asked += 1;
                let again = *asked >= AGAIN;
                *asked %= AGAIN;
                again
            }
        }
    }

    /// All names; `None` if there are too many.
    pub(crate) fn all_names(&self, directory: &Arc<Inode>) -> Option<Vec<Vec<u8>>> {
        let file = self.coherence.inodes.open(directory, OFlags::RDONLY | OFlags::DIRECTORY).ok()?;
        let mut buffer = vec![MaybeUninit::uninit(); ROOM];
        let mut names = RawDir::new(&file, &mut buffer[..]);
        let mut all = Vec::new();
        while let Some(one) = names.next() {
            let name = one.map_err(errno).ok()?.file_name().to_bytes().to_vec();
            if name != b"." && name != b".." {
                all.push(name);
            }
            if all.len() > MOST {
                lock(&directory.state).listings.insert(self.session.who, Listing::TooMany);
                return None;
            }
        }
        Some(all)
    }
}
