//! What nodes keep of files, and how it is called back before somebody else sees another state.
//!
//! Content: as long as nodes keep pages of a file the server has a read lease on it (`kern::file_lease`), so a local process that opens the file for writing waits until
//! every node's kernel has let its pages go. Names and attributes: directories that nodes have looked into are marked (`kern::fanotify`), and what changes there is told, in the
//! order of the changes, behind what was answered before. What nodes change is told by who serves them.

use super::counts::add;
use super::inodes::{Inode, Inodes, Listing, State, Who};
use super::objects::Objects;
use super::session::Session;
use super::trails::Trails;
use crate::fuse::{notice, InvalEntry, InvalInode};
use crate::line::lock;
use kern::fanotify::{Event, Watch};
use kern::file_lease::{self, Break, Breaks};
use rustix::fs::OFlags;
use std::collections::{HashMap, HashSet, VecDeque};
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};
use tracing::{info, warn};
use vocab::Pid;
use zerocopy::IntoBytes;

/// By their descriptors, and in the order in which they were taken; some in the order are let go already.
#[derive(Debug, Default)]
struct Leases {
    by_fd: HashMap<RawFd, Weak<Inode>>,
    order: VecDeque<Weak<Inode>>,
    /// A thread lets go of the oldest.
    trimmed: bool,
}

impl Leases {
    fn add(&mut self, fd: RawFd, inode: &Arc<Inode>) {
        self.by_fd.insert(fd, Arc::downgrade(inode));
        self.order.push_back(Arc::downgrade(inode));
        if self.order.len() > 2 * self.by_fd.len() + 1024 {
            let mut there: HashSet<*const Inode> = self.by_fd.values().map(Weak::as_ptr).collect();
            self.order.retain(|inode| there.remove(&inode.as_ptr()));
        }
    }
}

/// Sessions by number, and the leases that there are.
pub(crate) struct Coherence {
    /// For threads.
    own: Weak<Coherence>,
    pub(crate) inodes: Inodes,
    pub(crate) objects: Objects,
    pub(crate) trails: Trails,
    sessions: Mutex<HashMap<Who, Arc<Session>>>,
    leases: Mutex<Leases>,
    /// A node has so long to let go of what it keeps; after that it is lost.
    patience: Duration,
}

/// After changes that this process has made itself, so long passes before others are looked for.
const PAUSE: Duration = Duration::from_micros(300);

/// A notice that somebody may have to wait for.
type Told = (Arc<Session>, u64);

impl Coherence {
    pub(crate) fn new(inodes: Inodes, patience: Duration) -> Arc<Coherence> {
        let (objects, sessions, leases) = (Objects::default(), Mutex::default(), Mutex::default());
        let trails = Trails::default();
        Arc::new_cyclic(|own| Coherence { own: own.clone(), inodes, objects, trails, sessions, leases, patience })
    }

    pub(crate) fn join(&self, session: &Arc<Session>) {
        lock(&self.sessions).insert(session.who, session.clone());
    }

    /// A node knows nothing any more, and has nothing open or locked.
    pub(crate) fn leave(&self, session: &Session) {
        lock(&self.sessions).remove(&session.who);
        self.objects.leave(session.who);
        session.close_all();
        for inode in self.inodes.all() {
            let dropped: Vec<_> = {
                let mut state = lock(&inode.state);
                state.names.values_mut().for_each(|named| {
                    named.told.remove(&session.who);
                });
                if let Some(writing) = state.writing.take_if(|writing| writing.who == session.who) {
                    self.forget_lease(writing.file.as_raw_fd());
                    file_lease::let_go(writing.file.as_fd());
                }
                let locks = std::mem::take(&mut state.locks);
                let (gone, stay) = locks.into_iter().partition(|(locker, _)| locker.who == session.who);
                state.locks = stay;
                HashMap::into_values(gone).collect()
            };
            drop(dropped);
            self.inodes.forget(inode.id, session.who, None);
        }
    }

    pub(crate) fn everybody(&self) -> Vec<Arc<Session>> {
        lock(&self.sessions).values().cloned().collect()
    }

    pub(super) fn patience(&self) -> Duration {
        self.patience
    }

    pub(super) fn has_room_for_leases(&self) -> bool {
        lock(&self.leases).by_fd.len() < self.inodes.most_leases()
    }

    pub(super) fn know_lease(&self, fd: RawFd, inode: &Arc<Inode>) {
        lock(&self.leases).add(fd, inode);
    }

    pub(super) fn forget_lease(&self, fd: RawFd) {
        lock(&self.leases).by_fd.remove(&fd);
    }

    pub(super) fn session(&self, who: Who) -> Option<Arc<Session>> {
        lock(&self.sessions).get(&who).cloned()
    }

    fn sessions(&self, all: impl IntoIterator<Item = Who>) -> Vec<Arc<Session>> {
        let sessions = lock(&self.sessions);
        all.into_iter().filter_map(|who| sessions.get(&who).cloned()).collect()
    }

    /// Where these nodes are asked for contents.
    pub(crate) fn addresses(&self, all: Vec<Who>) -> Vec<String> {
        let addresses = self.sessions(all).into_iter().filter_map(|session| session.contents);
        addresses.map(|address| address.to_string()).collect()
    }

    /// May `who` keep pages of this file? If so, whether it may go on with those that it has.
    pub(crate) fn keeps(&self, inode: &Arc<Inode>, who: Who) -> Option<bool> {
        // Attributes may change in spite of a lease, which is told as of now.
        self.inodes.mark_file(inode);
        let mut state = lock(&inode.state);
        self.lease(inode, &mut state)?;
        let holder = state.holders.entry(who).or_default();
        holder.granted = true;
        Some(std::mem::replace(&mut holder.content, true))
    }

    /// Has a lease on a file whose attributes are asked for again and again, so that they count for longer, if there is room for it.
    pub(crate) fn lease_for_attributes(&self, inode: &Arc<Inode>) {
        if !inode.is_file() || inode.closed || lock(&self.leases).by_fd.len() >= self.inodes.most_leases() / 2 {
            return;
        }
        self.inodes.mark_file(inode);
        let _if_nobody_writes = self.lease(inode, &mut lock(&inode.state));
    }

    fn lease(&self, inode: &Arc<Inode>, state: &mut State) -> Option<()> {
        if state.lease.is_some() {
            return Some(());
        }
        if state.writers > 0 || inode.unkept {
            return None;
        }
        if lock(&self.leases).by_fd.len() >= self.inodes.most_leases() {
            self.trim();
            return None;
        }
        let file = Arc::new(self.inodes.open(inode, OFlags::RDONLY | OFlags::NONBLOCK).ok()?);
        if !file_lease::take(file.as_fd()) {
            return None;
        }
        lock(&self.leases).add(file.as_raw_fd(), inode);
        state.lease = Some(file);
        Some(())
    }

    /// Lets go of the oldest leases, by a thread: each has a descriptor, and nodes may take their time.
    fn trim(&self) {
        let Some(coherence) = self.own.upgrade() else { return };
        if std::mem::replace(&mut lock(&self.leases).trimmed, true) {
            return;
        }
        let trim = move || {
            let least = coherence.inodes.most_leases() / 4 * 3;
            let oldest = || {
                let mut leases = lock(&coherence.leases);
                if leases.by_fd.len() > least {
                    leases.order.pop_front()
                } else {
                    None
                }
            };
            while let Some(inode) = oldest() {
                inode.upgrade().iter().for_each(|inode| coherence.recall(inode));
            }
            lock(&coherence.leases).trimmed = false;
        };
        if let Err(error) = std::thread::Builder::new().name("leases".into()).spawn(trim) {
            info!(%error, "view: a thread");
            lock(&self.leases).trimmed = false;
        }
    }

    /// Has every node let go of the pages of this file, and then whoever waits to open it for writing.
    pub(crate) fn recall(&self, inode: &Inode) {
        self.write_back(inode);
        let (lease, holders) = {
            let mut state = lock(&inode.state);
            state.changes += 1;
            let Some(lease) = state.lease.take() else { return };
            lock(&self.leases).by_fd.remove(&lease.as_raw_fd());
            let mut holders = Vec::new();
            for (who, holder) in &mut state.holders {
                let (content, attributes) =
                    (std::mem::take(&mut holder.content), std::mem::take(&mut holder.attributes));
                if content || attributes {
                    // Of the attributes alone: from before the beginning.
                    holders.push((*who, if content { 0 } else { -1 }));
                }
            }
            (lease, holders)
        };
        let tell = |(who, offset): (Who, i64)| {
            let session = self.session(who)?;
            let body = InvalInode { node: inode.id, offset, length: 0 };
            add(&session.counts.recalls, usize::from(offset == 0));
            let number = session.notify(notice::INVAL_INODE, body.as_bytes());
            Some((session, number))
        };
        let told: Vec<Told> = holders.into_iter().filter_map(tell).collect();
        self.wait(&told);
        file_lease::let_go(lease.as_fd());
    }

    fn wait(&self, told: &[Told]) {
        let until = Instant::now() + self.patience;
        for (session, number) in told {
            if !session.wait(*number, until) {
                warn!(node = %session.node, "view: a node does not let go of what it keeps, and counts as lost");
                self.leave(session);
            }
        }
    }

    /// Has a node drop the pages of a file that it must not keep.
    pub(crate) fn drop_pages(&self, inode: &Inode, who: Who) {
        if let Some(session) = self.session(who) {
            let body = InvalInode { node: inode.id, offset: 0, length: 0 };
            session.notify(notice::INVAL_INODE, body.as_bytes());
        }
    }

    /// Attributes of a file have changed; returns when every node but `by` knows that.
    pub(crate) fn attributes_changed(&self, inode: &Inode, by: Option<Who>) {
        let mut told = self.tell_attributes(&mut lock(&inode.state), inode.id, by);
        if let Some(first) = self.first(inode) {
            told.extend(self.tell_attributes(&mut lock(&first.state), first.id, None));
        }
        self.wait(&told);
    }

    /// The same file in the mount in which it became known first, if that is another one.
    fn first(&self, inode: &Inode) -> Option<Arc<Inode>> {
        inode.unkept.then(|| self.inodes.known(inode.key)).flatten().filter(|first| first.id != inode.id)
    }

    fn tell_attributes(&self, state: &mut State, id: u64, by: Option<Who>) -> Vec<Told> {
        state.changes += 1;
        let mut holders = Vec::new();
        // Of a directory, also what was read of it, since it is as its names are.
        let is_directory = state.marked;
        for (who, holder) in &mut state.holders {
            if Some(*who) == by {
                continue;
            }
            let content = is_directory && std::mem::take(&mut holder.content);
            if std::mem::take(&mut holder.attributes) || content {
                // From before the beginning: attributes only (linux: fuse_reverse_inval_inode).
                holders.push((*who, if content { 0 } else { -1 }));
            }
        }
        let tell = |(who, offset): (Who, i64)| {
            let session = self.session(who)?;
            let body = InvalInode { node: id, offset, length: 0 };
            let number = session.notify(notice::INVAL_INODE, body.as_bytes());
            Some((session, number))
        };
        holders.into_iter().filter_map(tell).collect()
    }

    /// A name leads to something else, or nowhere. Nodes other than `by` are told, which nobody waits for: a node's kernel may have to wait for its own answer first.
    pub(crate) fn name_changed(&self, directory: &Inode, name: &[u8], by: Option<Who>) {
        if let Some(first) = self.first(directory) {
            self.name_changed(&first, name, None);
        }
        let mut state = lock(&directory.state);
        let named = state.names.remove(name);
        let child = named.as_ref().map_or(0, |named| named.node);
        let listed = state.listings.iter().filter(|(_, listing)| matches!(listing, Listing::Sent(_)));
        let mut told: HashSet<Who> = listed.map(|(who, _)| *who).collect();
        told.extend(named.into_iter().flat_map(|named| named.told));
        told.retain(|who| Some(*who) != by);
        let head = InvalEntry { parent: directory.id, length: name.len() as u32, flags: 0 };
        let body = [head.as_bytes(), name, &[0]].concat();
        for session in self.sessions(told) {
            session.notify(notice::INVAL_ENTRY, &body);
        }
        self.tell_attributes(&mut state, directory.id, by);
        drop(state);
        if let Ok(child) = self.inodes.get(child) {
            let mut state = lock(&child.state);
            state.watched = false;
            self.tell_attributes(&mut state, child.id, by);
        }
    }

    /// A node has given a file this name, and knows that. It is told when that changes; where it cannot be, it has to look again.
    pub(crate) fn is_called(&self, directory: &Inode, name: &[u8], child: u64, by: &Session) {
        let child = self.inodes.get(child).ok();
        let mut state = lock(&directory.state);
        if let (true, Some(child)) = (state.marked, &child) {
            let named = state.names.entry(name.to_vec()).or_default();
            named.node = child.id;
            named.told.insert(by.who);
            drop(state);
            lock(&child.state).watched = true;
            return;
        }
        drop(state);
        let head = InvalEntry { parent: directory.id, length: name.len() as u32, flags: 0 };
        by.notify(notice::INVAL_ENTRY, &[head.as_bytes(), name, &[0]].concat());
        if let Some(child) = child {
            let body = InvalInode { node: child.id, offset: -1, length: 0 };
            by.notify(notice::INVAL_INODE, body.as_bytes());
        }
    }

    /// Passes on what local processes do.
    fn happened(&self, event: Event, own: Pid) {
        match event {
            Event::Name { by, .. } | Event::Content { by, .. } if by == own => {}
            Event::Name { directory, name, .. } => {
                if let Some(directory) = self.inodes.directory(&directory) {
                    self.name_changed(&directory, &name, None);
                }
            }
            Event::Content { directory, name, .. } => {
                // Or a file of its own, without a name.
                let Some(directory) = self.inodes.directory(&directory) else { return };
                if name.is_empty() {
                    return drop(self.tell_attributes(&mut lock(&directory.state), directory.id, None));
                }
                let child = {
                    let mut state = lock(&directory.state);
                    state.changes += 1;
                    state.names.get(&name).map_or(0, |named| named.node)
                };
                if let Ok(child) = self.inodes.get(child) {
                    self.tell_attributes(&mut lock(&child.state), child.id, None);
                }
            }
            Event::Lost => {
                warn!("view: the kernel had no room for what has changed; nodes forget all names");
                for inode in self.inodes.all() {
                    let names: Vec<Vec<u8>> = lock(&inode.state).names.keys().cloned().collect();
                    names.iter().for_each(|name| self.name_changed(&inode, name, None));
                    self.tell_attributes(&mut lock(&inode.state), inode.id, None);
                }
            }
        }
    }

    /// Hears of changes until the process ends.
    pub(crate) fn watch(&self, watch: &Watch) {
        let own = Pid(std::process::id() as i32);
        loop {
            match watch.next() {
                Ok(events) => {
                    let only_own = events.iter().all(|event| event.by() == Some(own));
                    let sessions = if only_own { Vec::new() } else { self.everybody() };
                    sessions.iter().for_each(|session| session.cork(true));
                    events.into_iter().for_each(|event| self.happened(event, own));
                    sessions.iter().for_each(|session| session.cork(false));
                    if only_own {
                        // Changes by this process are no news: not every call of it is to wake this thread.
                        let _ = kern::poll::poll_for(&[], Some(PAUSE));
                    }
                }
                Err(fault) => return warn!(%fault, "view: what changes is not told any more"),
            }
        }
    }

    /// Lets go of leases that are broken, each by a thread of its own, since nodes may take their time.
    pub(crate) fn let_go(self: &Arc<Self>, breaks: &Breaks) {
        loop {
            let broken = match breaks.next() {
                Ok(Break::Of(fd)) => lock(&self.leases).by_fd.get(&fd).and_then(Weak::upgrade).into_iter().collect(),
                Ok(Break::Some) => self.broken(),
                Err(fault) => return warn!(%fault, "view: leases are not let go any more"),
            };
            for inode in broken {
                let coherence = self.clone();
                let recall = move || coherence.recall(&inode);
                if let Err(error) = std::thread::Builder::new().name("recall".into()).spawn(recall) {
                    info!(%error, "view: a thread");
                }
            }
        }
    }

    fn broken(&self) -> Vec<Arc<Inode>> {
        let all: Vec<Arc<Inode>> = lock(&self.leases).by_fd.values().filter_map(Weak::upgrade).collect();
        let is_broken = |inode: &Arc<Inode>| {
            let state = lock(&inode.state);
            let alone = state.writing.as_ref().is_some_and(|one| file_lease::is_broken_alone(one.file.as_fd()));
            alone || state.lease.as_ref().is_some_and(|lease| file_lease::is_broken(lease.as_fd()))
        };
        all.into_iter().filter(is_broken).collect()
    }
}
