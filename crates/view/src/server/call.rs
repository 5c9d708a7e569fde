//! A request: who asks for what, and the answer.

use super::busy::Hint;
use super::calls::{path_of, Errno};
use super::coherence::Coherence;
use super::inodes::Inode;
use super::names::Entry;
use super::session::{Handle, Said, Session};
use crate::fuse::{op, take, AttrOut, BatchForgetIn, EntryOut, FlushIn, ForgetIn, ForgetOne, ReleaseIn};
use crate::line::lock;
use kern::acting::{Acting, Identity, Waiter};
use kern::fuse::raw::Header;
use rustix::fs::OFlags;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use vocab::errno::{EBADF, EIO, ENOSYS};
use wire::view::{Stored, SUMS};
use zerocopy::{FromBytes, IntoBytes};

/// Seconds for which a node's kernel may keep what it will be told of when it changes.
pub(crate) const KEEP: u64 = 86_400;
/// The same for attributes of what is no directory: of what is done by another name of a file, or by a mapping, nobody tells.
pub(crate) const KEEP_OF_FILES: u64 = 1;
/// So many names of a directory are told for longer than a call, and so many that lead nowhere.
pub(crate) const MOST_NAMES: usize = 200_000;
pub(crate) const MOST_NOTHINGS: usize = 4096;

pub(crate) struct Call<'a> {
    pub(crate) coherence: &'a Coherence,
    pub(crate) session: &'a Session,
    pub(crate) acting: &'a mut Acting,
    pub(crate) header: Header,
    pub(crate) groups: Vec<u32>,
    pub(crate) hint: Hint,
}

/// A path that leads to an open file, which it keeps open.
pub(crate) struct Path(Arc<OwnedFd>);

impl Path {
    pub(crate) fn text(&self) -> String {
        path_of(self.0.as_fd())
    }
}

/// An answer.
#[derive(Debug, Default)]
pub(crate) struct Reply {
    pub(crate) data: Vec<u8>,
    /// Names or attributes in it are of so many changes of this file; after another change nobody may keep them.
    pub(crate) as_of: Option<(Arc<Inode>, u64)>,
    /// Where in the data there are entries, or attributes.
    pub(crate) entries: Vec<usize>,
    /// Files whose attributes are in the entry there, as of so many changes of theirs.
    pub(crate) children: Vec<(usize, Entry)>,
    pub(crate) attributes: bool,
    /// 0: none.
    pub(crate) errno: i32,
    /// As [`wire::view::ToNode::Answer`] has it.
    pub(crate) keeps: bool,
    pub(crate) long: bool,
    /// With `keeps`.
    pub(crate) opened: Option<Opened>,
    /// Names of this directory are to be sent after it.
    pub(crate) ahead: Option<Arc<Inode>>,
    /// The node is to drop what it has read of this.
    pub(crate) drops: Option<Arc<Inode>>,
}

/// Company of an answer, for the questions that follow: attributes of the file that the request is about, and the content of a small one.
#[derive(Debug, Default)]
pub(crate) struct Opened {
    pub(crate) attributes: Option<AttrOut>,
    pub(crate) content: Option<Vec<u8>>,
    pub(crate) stored: Option<Stored>,
}

impl Reply {
    pub(crate) fn of(data: impl IntoBytes + zerocopy::Immutable) -> Reply {
        Reply { data: data.as_bytes().to_vec(), ..Reply::default() }
    }

    /// Sends it. Who tells of changes waits until it is sent, so that what it tells comes behind it.
    fn send(mut self, number: u64, call: &mut Call<'_>) {
        let (drops, ahead) = (self.drops.take(), self.ahead.take());
        match self.as_of.take() {
            Some((inode, changes)) => {
                let state = lock(&inode.state);
                if state.changes != changes {
                    self.outdate();
                }
                let children = std::mem::take(&mut self.children);
                let mut current = Vec::new();
                let mut plain = Vec::new();
                let mut behind = false;
                for (at, child) in &children {
                    // Another order of locks would be somebody's: not to be waited for.
                    match child.inode.state.try_lock() {
                        Ok(state) if state.changes == child.changes => {
                            behind = state.behind(call.session.who);
                            current.push(state);
                            plain.extend(child.plain.then_some(child.inode.id));
                        }
                        _ => self.outdate_attributes(*at),
                    }
                }
                let behind = behind && call.header.opcode == op::CREATE;
                call.session.answer(number, Said { plain, behind, ..self.said() });
            }
            None => {
                self.keeps = false;
                call.session.answer(number, self.said());
            }
        }
        if let Some(inode) = drops {
            call.coherence.drop_pages(&inode, call.session.who);
        }
        if let Some(directory) = ahead {
            call.send_names(&directory);
        }
    }

    fn outdate_attributes(&mut self, at: usize) {
        if let Some(Ok(entry)) = self.data.get_mut(at..at + size_of::<EntryOut>()).map(EntryOut::mut_from_bytes) {
            (entry.attr_valid, entry.nsec[1]) = (0, 0);
        }
    }

    fn said(self) -> Said {
        let opened = self.opened.filter(|_| self.keeps);
        let Opened { attributes, content, stored } = opened.unwrap_or_default();
        let attributes = attributes.map(|known| known.as_bytes().to_vec());
        let (keeps, long) = (self.keeps, self.keeps && self.long);
        Said { errno: self.errno, data: self.data, keeps, long, attributes, content, stored, ..Said::default() }
    }

    /// Nobody may keep it.
    fn outdate(&mut self) {
        self.keeps = false;
        for at in &self.entries {
            let Some(bytes) = self.data.get_mut(*at..at + size_of::<EntryOut>()) else { continue };
            if let Ok(entry) = EntryOut::mut_from_bytes(bytes) {
                (entry.entry_valid, entry.attr_valid, entry.nsec) = (0, 0, [0; 2]);
            }
        }
        if self.attributes {
            if let Ok((out, _)) = AttrOut::mut_from_prefix(&mut self.data) {
                (out.valid, out.nsec) = (0, 0);
            }
        }
    }
}

impl Call<'_> {
    /// Does what is asked, and answers.
    pub(crate) fn serve(mut self, number: u64, body: &[u8], silent: bool) {
        if silent {
            let _nobody_hears_of_an_error = self.answer(body);
            return self.session.answer_silently(number);
        }
        // Whatever it waits for, it can be called away: who has asked may have been killed.
        let unique = self.header.unique;
        lock(&self.session.waiting).insert(unique, Waiter::here());
        let answer = self.answer(body);
        lock(&self.session.waiting).remove(&unique);
        match answer {
            Ok(reply) => reply.send(number, &mut self),
            Err(errno) => self.session.answer(number, Said::errno(errno)),
        }
    }

    fn answer(&mut self, body: &[u8]) -> Errno<Reply> {
        // The thread may have acted as somebody for the request before.
        self.acting.become_root();
        match self.header.opcode {
            op::LOOKUP => self.look_up(body),
            op::FORGET => {
                let forget: ForgetIn = take(body)?.0;
                self.coherence.inodes.forget(self.header.node, self.session.who, Some(forget.lookups));
                Ok(Reply::default())
            }
            op::BATCH_FORGET => self.forget(body),
            op::GETATTR => self.get_attributes(body),
            op::SETATTR => self.set_attributes(body),
            op::READLINK => self.read_link(),
            op::SYMLINK => self.symlink(body),
            op::MKNOD => self.make_node(body),
            op::MKDIR => self.make_directory(body),
            op::UNLINK => self.unlink(body, false),
            op::RMDIR => self.unlink(body, true),
            op::RENAME | op::RENAME2 => self.rename(body),
            op::LINK => self.link(body),
            op::OPEN => self.open(body),
            op::CREATE => self.create(body),
            op::TMPFILE => self.temporary(body),
            op::READ => self.read(body),
            op::WRITE => self.write(body),
            op::STATFS => self.statfs(),
            op::RELEASE | op::RELEASEDIR => {
                let release: ReleaseIn = take(body)?.0;
                self.release(&release)
            }
            op::FSYNC | op::FSYNCDIR => self.sync(body),
            op::SETXATTR => self.set_value(body),
            op::GETXATTR => self.get_value(body),
            op::LISTXATTR => self.list_values(body),
            op::REMOVEXATTR => self.remove_value(body),
            op::FLUSH => {
                let flush: FlushIn = take(body)?.0;
                self.unlock_all(flush.lock_owner)
            }
            op::OPENDIR => self.open_directory(),
            op::READDIR => self.read_directory(body, false),
            op::READDIRPLUS => self.read_directory(body, true),
            op::GETLK => self.get_lock(body),
            op::SETLK => self.set_lock(body, false),
            op::SETLKW => self.set_lock(body, true),
            op::FALLOCATE => self.allocate(body),
            op::LSEEK => self.seek(body),
            op::COPY_FILE_RANGE => self.copy(body),
            op::SYNCFS => self.sync_all(),
            SUMS => self.sums(),
            _ => Err(ENOSYS),
        }
    }

    fn forget(&self, body: &[u8]) -> Errno<Reply> {
        let (head, mut rest): (BatchForgetIn, _) = take(body)?;
        for _ in 0..head.count {
            let (one, behind): (ForgetOne, _) = take(rest)?;
            self.coherence.inodes.forget(one.node, self.session.who, Some(one.lookups));
            rest = behind;
        }
        Ok(Reply::default())
    }

    /// What the thread does from now on counts as done by who has asked, until [`Acting::become_root`].
    pub(crate) fn as_caller(&mut self) -> Errno<()> {
        let (uid, gid) = (self.header.uid, self.header.gid);
        let groups = if uid == 0 { Vec::new() } else { self.groups.clone() };
        let became = self.acting.become_one(&Identity { uid, gid, groups });
        became.map_err(|fault| fault.root_errno())
    }

    /// The file that the request is about.
    pub(crate) fn inode(&self) -> Errno<Arc<Inode>> {
        self.coherence.inodes.get(self.header.node)
    }

    /// An answer after a change in this directory, as of so many changes, whose attributes go with it. The thread acts as root.
    pub(crate) fn of_directory(&self, directory: &Arc<Inode>, changes: u64, reply: Reply) -> Reply {
        let opened = self
            .attributes_to_keep(directory)
            .map(|attributes| Opened { attributes: Some(attributes), ..Opened::default() });
        Reply { keeps: opened.is_some(), opened, as_of: Some((directory.clone(), changes)), ..reply }
    }

    /// Attributes that count until a notice comes, if they can be told.
    pub(crate) fn attributes_to_keep(&self, inode: &Arc<Inode>) -> Option<AttrOut> {
        let stat = self.coherence.inodes.stat(inode).ok()?;
        let (valid, stat) = self.validity(inode, stat).ok().filter(|(valid, _)| *valid == KEEP)?;
        Some(AttrOut { valid, attr: self.coherence.inodes.attributes(inode, &stat), ..AttrOut::default() })
    }

    /// A file that the node has opened by itself, which it had the right to.
    pub(crate) fn reader(&mut self) -> Errno<Arc<Handle>> {
        self.acting.become_root();
        let inode = self.inode()?;
        let lease = {
            let state = lock(&inode.state);
            if !state.holders.get(&self.session.who).is_some_and(|holder| holder.granted) {
                return Err(EBADF);
            }
            state.lease.clone()
        };
        let file = match lease {
            Some(file) => file,
            None => Arc::new(self.coherence.inodes.open(&inode, OFlags::RDONLY)?),
        };
        Ok(Arc::new(Handle {
            file,
            inode,
            cached: true,
            writes: false,
            uid: self.header.uid,
            reading: Default::default(),
        }))
    }

    pub(crate) fn fd(&self, inode: &Arc<Inode>) -> Errno<Arc<OwnedFd>> {
        self.coherence.inodes.fd(inode)
    }

    /// The path by which calls reach it, as long as this lives.
    pub(crate) fn path(&self, inode: &Arc<Inode>) -> Errno<Path> {
        self.fd(inode).map(Path)
    }

    pub(crate) fn handle(&mut self, number: u64) -> Errno<Arc<Handle>> {
        if number == 0 {
            return self.reader();
        }
        let handle = self.session.handle(number)?;
        // A handle is of the file that it was opened for.
        if handle.inode.id == self.header.node {
            Ok(handle)
        } else {
            Err(EIO)
        }
    }
}
