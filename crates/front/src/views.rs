//! What /proc of this machine shows of ghosts, which is what their bodies do: a process of its own shows it (crate `procfs`), and this is how it hears of
//! ghosts, and of what nodes say. Nothing here waits for it; should it end, another one is started.
//!
//! The daemon itself, and what it starts, looks at a procfs of its own, which shows the ghosts ([`kern::proc::PROC`]).

use crate::config::Proc;
use crate::connection::{Connection, Token};
use crate::front::Front;
use crate::runs::Asker;
use kern::clock::monotonic_us;
use kern::mount;
use kern::poll::poll;
use kern::proc::descriptor;
use space::{BodyEvent, Event};
use std::collections::{BTreeSet, HashMap};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tracing::{info, warn};
use vocab::errno::{EAGAIN, ENOTCONN};
use vocab::{Fault, NodeId, Pid};
use wire::ask::Answer;
use wire::entry::Wanted;
use wire::node::ToNode;
use wire::run::Caller;

/// One that ended is started again this long after it was started, in microseconds.
const AGAIN_US: u64 = 200_000;
/// One that says nothing for so long is stuck, in microseconds: once it has asked for ghosts, and before.
const STUCK_US: u64 = 2_000_000;
const STARTS_US: u64 = 10_000_000;
/// How long one may take to take away what it has mounted, when the daemon ends, and to end when it is killed, in milliseconds.
const END_MS: u32 = 2_000;
const KILL_MS: u32 = 1_000;
/// So many bytes wait for it at most; what nodes say beyond that it is not told.
const FULL: usize = 16 * 1024 * 1024;
/// Ghosts that are told of in a message.
const AT_ONCE: usize = 8192;

/// Who shows it, and what is told.
#[derive(Debug, Default)]
pub(crate) struct Views {
    child: Option<Child>,
    /// When it said last that it serves, or was started (monotonic).
    serves_us: u64,
    /// Its connection, once it has asked for ghosts.
    line: Option<Token>,
    /// When one was started last (monotonic).
    started_us: u64,
    /// As it has been told.
    told: HashMap<Pid, NodeId>,
    /// Perhaps they are other than that.
    changed: BTreeSet<Pid>,
    /// Those of them that are to be told of again in any case.
    stirred: BTreeSet<Pid>,
    /// Those of them whose body may be another program's or user's.
    others: BTreeSet<Pid>,
}

impl Views {
    fn forget_changes(&mut self) {
        self.changed.clear();
        self.stirred.clear();
        self.others.clear();
    }

    /// The space is about to hear of this.
    pub(crate) fn about(&mut self, event: &Event) {
        match event {
            Event::Held { pid } | Event::Gone { pid } | Event::Moved { pid, .. } | Event::Leaves { pid } => {
                self.changed.insert(*pid);
            }
            Event::Body { event: BodyEvent::Forked { .. } | BodyEvent::Reaped { .. }, .. } => {}
            // What has stood here since a daemon before this one has a body again.
            Event::NodeBack { bodies, .. } => self.changed.extend(bodies.iter().map(|person| person.pid)),
            // The body has become something else, and then its ghost has.
            Event::Body { event, .. } => {
                let other = matches!(event, BodyEvent::Named { .. } | BodyEvent::Credentials { .. });
                self.stirs(event.pid(), other);
            }
            Event::Done { pid, .. } => self.stirs(*pid, false),
            _ => {}
        }
    }

    /// What it was is shown no longer.
    fn stirs(&mut self, pid: Pid, other: bool) {
        if self.told.contains_key(&pid) {
            self.changed.insert(pid);
            self.stirred.insert(pid);
            if other {
                self.others.insert(pid);
            }
        }
    }

    /// It says nothing, and should.
    fn is_stuck(&self, now_us: u64) -> bool {
        let most = if self.line.is_some() { STUCK_US } else { STARTS_US };
        now_us >= self.serves_us + most
    }

    /// Kills it, and lets everybody go who waits for it: it may be that it cannot end as long as they wait, or is one of them. True: it has ended.
    fn kill(&mut self, at: &Path) -> bool {
        let Some(child) = &mut self.child else { return true };
        // It may have ended.
        let _ = child.kill();
        if let Err(fault) = mount::abort(at) {
            tracing::debug!(%fault, "nothing was mounted");
        }
        !matches!(child.try_wait(), Ok(None))
    }
}

impl Front {
    pub(crate) fn start_views(&mut self, now_us: u64) {
        if self.config.proc == Proc::Nobodys {
            return;
        }
        (self.views.started_us, self.views.serves_us) = (now_us, now_us);
        // That the one before is gone may have been seen before its connection has.
        self.views.line = None;
        let mut command = Command::new("/proc/self/exe");
        command.arg0("shoal").arg("procfs").arg("--run-dir").arg(&self.config.run_dir);
        command.args(["--fresh-ms", &self.config.proc_fresh_ms.to_string()]);
        command.args((self.config.proc == Proc::Private).then_some("--private"));
        command.args(descriptor().iter().flat_map(|fd| ["--proc-fd", fd]));
        match command.current_dir("/").stdin(Stdio::null()).stdout(Stdio::null()).spawn() {
            Ok(child) => self.views.child = Some(child),
            Err(e) => warn!("/proc does not show what processes do elsewhere: {e}"),
        }
    }

    /// Where the tree is mounted.
    fn view_point(&self) -> PathBuf {
        self.config.run_dir.join("proc")
    }

    pub(crate) fn views_serve(&mut self, asker: Asker) {
        if matches!(asker, Asker::Local(token) if self.views.line == Some(token)) {
            self.views.serves_us = monotonic_us();
        }
    }

    /// Has it ended, or is it stuck?
    pub(crate) fn look_after_views(&mut self, now_us: u64) {
        if let Some(child) = &mut self.views.child {
            let going = matches!(child.try_wait(), Ok(None));
            if going && !self.views.is_stuck(now_us) {
                return;
            }
            if going {
                warn!("who shows in /proc what processes do elsewhere is stuck");
                let line = self.views.line.take();
                let connection = line.and_then(|line| self.take(line));
                drop(connection);
                self.views.serves_us = 0;
                if !self.views.kill(&self.view_point()) {
                    return;
                }
            }
            warn!("who shows in /proc what processes do elsewhere has ended");
            self.views.child = None;
        }
        if now_us >= self.views.started_us + AGAIN_US {
            self.start_views(now_us);
        }
    }

    /// One that does not speak with us any more is of no use.
    pub(crate) fn views_gone(&mut self, token: Token) {
        if self.views.line != Some(token) {
            return;
        }
        self.views.line = None;
        let at = self.view_point();
        self.views.kill(&at);
        // That it ends is seen in time.
        self.views.serves_us = 0;
        self.look_after_views(monotonic_us());
    }

    /// It takes away what it has mounted as it sees its connection end. Not waited for for ever.
    pub(crate) fn end_views(&mut self) {
        if let Some(line) = self.views.line.take() {
            self.take(line);
        }
        let at = self.view_point();
        for waited_ms in 0..END_MS + KILL_MS {
            let going = self.views.child.as_mut().is_some_and(|child| matches!(child.try_wait(), Ok(None)));
            if !going || (waited_ms >= END_MS && self.views.kill(&at)) {
                return;
            }
            let _ = poll(&[], 1);
        }
    }

    pub(crate) fn on_ghosts_wanted(&mut self, asker: Asker, caller: &Caller) {
        let line = match asker {
            Asker::Local(token) if caller.creds.uid.effective == 0 => token,
            _ => {
                let refused = Fault::refused("tell of ghosts: that is for root, and on the front end");
                return self.answer(asker, Answer::Failed(refused), true);
            }
        };
        info!("/proc shows what processes do elsewhere");
        self.views.line = Some(line);
        self.views.serves_us = monotonic_us();
        self.views.told.clear();
        self.views.changed = self.space.iter().map(|view| view.person.pid).collect();
    }

    pub(crate) fn on_entries_wanted(&mut self, asker: Asker, id: u64, node: NodeId, wanted: Wanted) {
        let is_it = matches!(asker, Asker::Local(token) if self.views.line == Some(token));
        if !is_it {
            let refused = Fault::refused("tell what is in /proc: that is for whoever has asked for ghosts");
            return self.answer(asker, Answer::Failed(refused), true);
        }
        let linked = self.nodes.get_mut(node).is_some_and(|node| node.link.is_some());
        match linked && !node.is_front() {
            true => self.send(node, &ToNode::Entries { id, wanted }),
            false => self.on_entries(node, id, Vec::new(), true, ENOTCONN),
        }
    }

    pub(crate) fn on_entries(&mut self, node: NodeId, id: u64, found: Vec<u8>, last: bool, errno: i32) {
        let Some(line) = self.views.line else { return };
        let full = matches!(self.connections.get(&line), Some(Connection::Client { link, .. }) if link.queued() > FULL);
        let (found, errno) = if full && !found.is_empty() { (Vec::new(), EAGAIN) } else { (found, errno) };
        self.answer(Asker::Local(line), Answer::Entries { id, found, last, errno, node }, last);
    }

    /// Tells of the ghosts that have come, gone, or stand for a process of another node now.
    pub(crate) fn tell_views(&mut self) {
        let Some(line) = self.views.line else { return self.views.forget_changes() };
        while !self.views.changed.is_empty() {
            let (mut stand, mut gone, mut others) = (Vec::new(), Vec::new(), Vec::new());
            while stand.len() + gone.len() < AT_ONCE {
                let Some(pid) = self.views.changed.pop_first() else { break };
                let node = self.space.get(pid).map(|view| view.node);
                let node = node.filter(|node| !node.is_front() && self.ghosts.has(pid));
                match (node, self.views.told.get(&pid)) {
                    (Some(node), told) if self.views.stirred.remove(&pid) || told != Some(&node) => {
                        self.views.told.insert(pid, node);
                        stand.push((pid, node));
                        others.extend(self.views.others.remove(&pid).then_some(pid));
                    }
                    (None, Some(_)) => {
                        self.views.told.remove(&pid);
                        gone.push(pid);
                    }
                    _ => {}
                }
            }
            if !stand.is_empty() || !gone.is_empty() {
                self.answer(Asker::Local(line), Answer::Ghosts { stand, gone, others }, false);
            }
        }
    }
}
