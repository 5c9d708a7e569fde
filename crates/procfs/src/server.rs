//! Answers what is asked of the tree.

use crate::ahead::Ahead;
use crate::contents::Looker;
use crate::counts::Counts;
use crate::crew::Crew;
use crate::directories::Directories;
use crate::ghosts::{Ghost, Ghosts};
use crate::guide::Guide;
use crate::homecoming::{looked_for, Homecoming};
use crate::inodes::{Inode, Inodes, Told};
use crate::machines::Machines;
use crate::names::{Place, FOREVER_US};
use crate::natives::Natives;
use crate::passes::Passes;
use crate::whole::Whole;
use kern::clock::monotonic_us;
use kern::fuse::tree::{Asked, Named, Shown, Tree, What, ROOT};
use std::sync::Arc;
use vocab::errno::ENOENT;
use vocab::Pid;

type Result<T> = std::result::Result<T, i32>;

/// What all threads that serve share.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) tree: Arc<Tree>,
    pub(crate) ghosts: Arc<Ghosts>,
    pub(crate) machines: Arc<Machines>,
    pub(crate) crew: Arc<Crew>,
    pub(crate) guide: Arc<Guide>,
    /// Processes are for their users and those of this group, as they are in /proc without ghosts (hidepid, proc(5)).
    pub(crate) hidden_from_all_but: Option<u32>,
    /// Of a view that is all of /proc.
    pub(crate) natives: Option<Natives>,
    pub(crate) whole: Whole,
    pub(crate) inodes: Inodes,
    passes: Passes,
    open: Directories,
    pub(crate) ahead: Arc<Ahead>,
    pub(crate) counts: Counts,
    pub(crate) homecoming: Homecoming,
}

impl Server {
    pub(crate) fn new(
        tree: Arc<Tree>,
        ghosts: Arc<Ghosts>,
        machines: Arc<Machines>,
        crew: Arc<Crew>,
        hidden_from_all_but: Option<u32>,
        natives: Option<Natives>,
        ahead: Ahead,
    ) -> Server {
        let (inodes, passes, open) = (Inodes::default(), Passes::default(), Directories::default());
        let (guide, whole, ahead) = (Arc::default(), Whole::default(), Arc::new(ahead));
        Server {
            tree,
            ghosts,
            machines,
            crew,
            guide,
            hidden_from_all_but,
            natives,
            whole,
            inodes,
            passes,
            open,
            ahead,
            counts: Counts::default(),
            homecoming: Homecoming::default(),
        }
    }

    /// Serves until the tree is not mounted any more, as one thread of several.
    pub(crate) fn serve(&self, thread: usize) {
        crate::run_first();
        self.guide.joins();
        let mut room = Tree::room();
        self.crew.begin();
        while let Ok(asked) = self.tree.next_request(&mut room) {
            let (unique, node) = (asked.unique, looked_for(&asked));
            self.crew.takes(thread);
            if self.ahead.whom().is_none() || self.ahead.is(asked.pid) {
                self.guide.sees(asked.pid);
            }
            self.counts.counts(&asked);
            let been = self.ahead.has_been(asked.pid);
            if let Err(errno) = self.answer(asked) {
                self.tree.fail(unique, self.told_again(errno, node));
            }
            if let Some(pid) = been {
                self.store(pid);
            }
            self.crew.is_done(thread);
            self.crew.go_on();
        }
    }

    /// A ghost is not as it was: neither this nor the kernel takes for true any longer what was told. `other`: what is guarded is another user's, perhaps.
    /// Not for a thread that serves.
    pub(crate) fn outdate(&self, pid: Pid, other: bool) {
        let all = if other { self.inodes.of(pid) } else { self.inodes.common(pid) };
        for inode in all {
            if !inode.is_current() {
                self.tree.remove(inode.parent, &inode.name());
            }
            self.forget(&inode);
        }
    }

    /// What was told of it counts no longer.
    pub(crate) fn forget(&self, inode: &Inode) {
        if let Some(told) = inode.told().as_mut() {
            told.until_us = 0;
        }
        self.tree.outdate(inode.number);
    }

    /// What is kept of what nobody needs any more is forgotten.
    pub(crate) fn purge(&self) {
        self.counts.told(|| self.inodes.purge(monotonic_us()));
        self.machines.purge();
    }

    fn answer(&self, asked: Asked) -> Result<()> {
        let unique = asked.unique;
        if self.whole.is_asked(&asked) {
            if let Some(names) = self.whole.answer(&asked, &self.tree, &self.machines)? {
                self.tree.opened(unique, self.open.add(names));
            }
            return Ok(());
        }
        match &asked.what {
            What::Nothing => {}
            What::Forget(nodes) => nodes.iter().for_each(|(node, times)| self.inodes.forget(*node, *times)),
            What::CloseDirectory { handle } => {
                self.open.close(*handle);
            }
            What::Lookup(name) => match self.look_up(&asked, name)? {
                Some(shown) => self.tree.found(unique, &shown),
                None => self.tree.nothing(unique, FOREVER_US),
            },
            What::Attributes if asked.node == ROOT => {
                let kept_us = FOREVER_US;
                self.tree.attributes(unique, &Shown { node: ROOT, mode: 0o040_555, kept_us, ..Shown::default() });
            }
            What::Attributes => match self.natives.as_ref().and_then(|natives| natives.show(asked.node)) {
                Some(link) => self.tree.attributes(unique, &link),
                None => self.tree.attributes(unique, &self.show(&*self.inode(&asked)?, &asked)?),
            },
            What::Link => match self.natives.as_ref().and_then(|natives| natives.target(asked.node, asked.pid)) {
                Some(to) => self.tree.data(unique, &to),
                None => self.tree.data(unique, &self.link(&*self.inode(&asked)?, &asked)?),
            },
            What::OpenDirectory => {
                // What is in it for that one is not always the same.
                let names = if self.ahead.is(asked.pid) { Vec::new() } else { self.names(&asked)? };
                self.tree.opened(unique, self.open.add(names));
            }
            What::Names { handle, from, room, whole } => {
                let ahead = self.ahead.is(asked.pid);
                // It is to let go of one that has ended.
                let process = (ahead && asked.node != ROOT).then(|| self.inode(&asked)).transpose()?;
                let names = match &process {
                    Some(_) => Arc::new(self.ahead.names()),
                    None if ahead => Arc::new(self.ahead.directories()),
                    None => self.open.names(*handle),
                };
                let learns = process.as_ref().filter(|_| self.ahead.learns());
                let known = |one: &Named| match learns {
                    Some(directory) => self.name(directory, one),
                    None if ahead => self.look_up(&asked, &one.name).ok().flatten(),
                    None => None,
                };
                match (&process, learns) {
                    // What lasts of what is told of a ghost by itself is known then too.
                    (Some(process), Some(_)) => drop(process.ghost.here()),
                    (Some(process), None) => self.ahead.is_in(process.ghost.pid),
                    (None, _) => {}
                }
                self.tree.names(unique, &names, (*from, *room, *whole), known);
            }
            What::Read { from, most } => {
                let text = self.read(&*self.inode(&asked)?, &asked)?;
                let from = usize::try_from(*from).unwrap_or(usize::MAX).min(text.len());
                self.tree.data(unique, &text[from..text.len().min(from.saturating_add(*most))]);
            }
            What::Write { data } => self.write(&*self.inode(&asked)?, &asked, data)?,
        }
        Ok(())
    }

    /// What the kernel has just been told of these files of a process it is to have read too, so that nobody need ask for it.
    fn store(&self, pid: Pid) {
        let names = self.ahead.names();
        // The kernel waits for who reads a file, whom another thread is to answer.
        let _waits = self.crew.waits();
        for inode in self.inodes.files(pid, names.iter().map(|one| &one.name[..])) {
            // Nothing else is told of it meanwhile, or what the kernel has of two texts would be mixed.
            let Ok(_alone) = inode.changes.try_write() else { continue };
            let told = inode.told().clone();
            let Some(Told { text: Some(text), time_ns, .. }) = told else { continue };
            if inode.is_current() && inode.has(time_ns) != time_ns {
                self.tree.store(inode.number, &text);
            }
        }
    }

    /// The node of this process's directory; 0: the kernel knows none.
    pub(crate) fn node_of(&self, pid: Pid) -> u64 {
        self.inodes.directory(pid).map_or(0, |directory| directory.number)
    }

    pub(crate) fn looker(&self, asked: &Asked, ghost: &Ghost) -> Looker {
        let now = monotonic_us();
        let pass = match self.ahead.is(asked.pid) {
            // It looks for him, and goes ahead of one after the other without a pause.
            true => self.passes.of(self.ahead.whom().unwrap_or(Pid::NONE), now),
            false => self.passes.looks(asked.pid, ghost.pid, || self.ghosts.place(ghost.pid), now),
        };
        Looker { uid: asked.uid, pass }
    }

    /// Of what is asked, if it is not another one's by now.
    pub(crate) fn inode(&self, asked: &Asked) -> Result<Arc<Inode>> {
        let inode = self.inodes.get(asked.node).ok_or(ENOENT)?;
        self.current(&inode)?;
        match &asked.what {
            What::Lookup(name) if inode.place == Some(Place::Process) => {
                self.ahead.sees(asked.pid, inode.ghost.pid, name);
            }
            What::Attributes | What::Read { .. } if inode.is_of_process() => {
                self.ahead.sees(asked.pid, inode.ghost.pid, &inode.path);
            }
            _ => {}
        }
        Ok(inode)
    }
}
