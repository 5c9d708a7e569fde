//! Processes of the front end that move to a node: what takes the place of one is its ghost.
//!
//! This daemon is the old node's agent for them. The ghost relays what were the standard streams of the process: the new node dials the channel before
//! it is there, so that is kept until it asks for it.
//!
//! | step | next |
//! |---|---|
//! | Carrying: its mover sends the image, and it runs | it is ready: as on a node; the mover gives up: over, it stays |
//! | Carrying | the mover has bound it: Bound, and its ghost is to take its place |
//! | Bound: it may run on the node | the ghost is there, or it has been killed here: over here |

use crate::connection::{Connection, Token};
use crate::foreign::is_of_another_space;
use crate::front::Front;
use crate::move_states::Change;
use crate::persons;
use crate::runs::{Asker, Run};
use ghost::{Command as Tell, Happened, Name};
use kern::faultpoint::reach;
use kern::proc::PROC;
use kern::sock;
use link::beat::{channel_patience_ms, Agreed};
use mover::{Order, Out, Place, Remain, Said};
use space::Event;
use std::collections::{HashMap, HashSet};
use std::os::fd::{AsFd, OwnedFd};
use tracing::{info, warn};
use vocab::{Exit, Fault, NodeId, Pid, Result, Sig, SigSet};
use wire::ask::{self, Answer};
use wire::node::{ChannelTo, ToNode};
use wire::run::{Caller, Program};

/// One that leaves, until its ghost relays.
#[derive(Debug)]
pub(crate) struct Leaving {
    /// `None`: a daemon before this one knew ([`crate::departed`]).
    pub(crate) to: Option<NodeId>,
    token: [u8; 16],
    key: [u8; 32],
    /// The new node has dialled.
    channel: Option<OwnedFd>,
    pub(crate) mover: Option<Token>,
    pub(crate) bound: bool,
    /// Its ghost relays.
    pub(crate) stood: bool,
    /// Its mover has said that it has left.
    left: bool,
    /// What is in its place was seen to be stopped before that: as it was, or by a SIGSTOP that has come since.
    seen_stopped: bool,
    /// A daemon before this one has begun it.
    pub(crate) again: bool,
    /// So its ghost waits until it is known where it is.
    pub(crate) asks: Option<Asker>,
    /// So does that it is stopped.
    pub(crate) sleeps: bool,
}

impl Leaving {
    /// # Errors
    /// `Sys` when the kernel gives no random bytes.
    pub(crate) fn new(to: Option<NodeId>) -> Result<Leaving> {
        let (token, key) = (link::random()?, link::random()?);
        let (mover, bound, stood, left, seen_stopped) = (None, false, false, false, false);
        Ok(Leaving {
            to,
            token,
            key,
            channel: None,
            mover,
            bound,
            stood,
            left,
            seen_stopped,
            again: false,
            asks: None,
            sleeps: false,
        })
    }
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Aways {
    pub(crate) all: HashMap<Pid, Leaving>,
    /// What ghosts have told of themselves before they are known to be ones.
    early: HashMap<Pid, Vec<Happened>>,
    /// Channels that nodes are to dial anew, until they do.
    pub(crate) redials: HashMap<Pid, (NodeId, ChannelTo)>,
    /// Those that a daemon before this one was to have leave, and that have not.
    pub(crate) stayed: HashSet<Pid>,
}

/// In the run directory: where movers wait for a successor of this daemon.
pub(crate) const AWAYS: &str = "aways";

impl Aways {
    /// Is it too early for what this ghost tells? Then it is kept.
    pub(crate) fn keeps(&mut self, happened: &Happened) -> bool {
        let early = self.early.get_mut(&happened.pid());
        early.map(|kept| kept.push(happened.clone())).is_some()
    }

    /// Is it what it was, and has its mover yet to look which signals have come? Those go after it, and ours would. When its ghost holds it is seen to that this runs.
    pub(crate) fn is_yet_to_leave(&self, pid: Pid) -> bool {
        self.all.get(&pid).is_some_and(|one| one.bound && !one.left)
    }

    /// Has its mover yet to say whether it was stopped? Then that it is now means nothing before.
    pub(crate) fn sees_stopped(&mut self, pid: Pid) -> bool {
        let one = self.all.get_mut(&pid).filter(|one| one.bound && !one.left);
        one.map(|one| one.seen_stopped = true).is_some()
    }

    /// How the new node reaches who will relay the streams of this one.
    pub(crate) fn channel(&self, pid: Pid) -> Option<ChannelTo> {
        let one = self.all.get(&pid)?;
        let (token, key) = (one.token.to_vec(), one.key.to_vec());
        Some(ChannelTo { address: String::new(), token, key, program: true, terminal: false, waits: true })
    }

    /// Has it left, and is what takes its place yet to stand up?
    pub(crate) fn has_no_ghost_yet(&self, pid: Pid) -> bool {
        self.all.get(&pid).is_some_and(|one| one.bound && !one.stood)
    }

    /// Has a daemon before this one had it leave, and has no node said yet that it has it?
    pub(crate) fn is_nowhere_yet(&self, pid: Pid) -> bool {
        self.all.get(&pid).is_some_and(|one| one.again && one.bound && one.to.is_none())
    }

    /// Keeps a channel that was dialled with this token, if it is for one of these; else gives it back.
    pub(crate) fn keep(&mut self, token: &[u8; 16], fd: OwnedFd) -> Option<OwnedFd> {
        match self.all.values_mut().find(|one| one.token == *token && one.channel.is_none() && !one.stood) {
            Some(one) => {
                one.channel = Some(fd);
                None
            }
            None => Some(fd),
        }
    }
}

impl Front {
    /// May this caller move a process of the front end, which is nobody's ghost? The rest its mover says.
    ///
    /// # Errors
    /// `Gone`; `Refused` with the reason; `Changed` for one that may pass.
    pub(crate) fn may_leave_front(&self, caller: &Caller, pid: Pid) -> Result<()> {
        let gone = || Fault::gone(format!("{pid} is no process of the space"));
        let person = persons::process(&self.proc, pid).filter(|_| !self.ghosts.has(pid)).ok_or_else(gone)?;
        if is_of_another_space(&self.proc, pid) {
            return Err(Fault::refused(format!("{pid} is a process of another space")));
        }
        if !caller.may_move(&person.creds) {
            return Err(Fault::refused(format!("{pid} is another user's, or has rights that you have not")));
        }
        if pid == Pid::INIT {
            return Err(Fault::refused("1 is the front end's own, to which orphans go"));
        }
        let no = |why: &str| Err(Fault::refused(why.to_owned()));
        let exe = |of: &str| std::fs::read_link(format!("{PROC}/{of}/exe"));
        match (exe(&pid.to_string()), exe("self")) {
            (Err(_), _) => return no("it is none of a program: the kernel's, or its program cannot be known"),
            (Ok(its), Ok(ours)) if its == ours => return no("it is one of shoal's own"),
            _ => {}
        }
        let ended = |child: &Pid| self.proc.status(*child).is_ok_and(|status| status.ended());
        match self.children_here(pid).into_iter().find(ended) {
            None => Ok(()),
            // Mostly it is about to: one that moves itself has a helper made by a child, for which it waits.
            Some(child) => Err(Fault::changed(format!("it has yet to wait for its child {child}, which has ended"))),
        }
    }

    /// Those that are no ghosts.
    pub(crate) fn children_here(&self, pid: Pid) -> Vec<Pid> {
        let threads = self.proc.tasks(pid).unwrap_or_default();
        let all = threads.into_iter().flat_map(|tid| self.proc.children(tid).unwrap_or_default());
        all.filter(|child| !self.ghosts.has(*child)).collect()
    }

    /// It, its kin and its children are known to the space from now on, as they are.
    pub(crate) fn know_native(&mut self, pid: Pid) {
        let Ok(person) = persons::read(&self.proc, pid) else { return };
        let line = self.ancestors(pid);
        let mut known = persons::kin(&self.proc, &person, &line, |pid| !self.ghosts.has(pid));
        known.push(person);
        known.extend(self.children_here(pid).into_iter().filter_map(|child| persons::read(&self.proc, child).ok()));
        self.events.extend([Event::Ancestors { line }, Event::Natives { persons: known }]);
        self.settle();
    }

    /// Of one that is to leave.
    pub(crate) fn begin_away(&mut self, pid: Pid, to: NodeId) -> Result<()> {
        self.aways.all.insert(pid, Leaving::new(Some(to))?);
        self.know_native(pid);
        Ok(())
    }

    /// What the agent of the old node would be told.
    pub(crate) fn tell_away(&mut self, message: &ToNode) {
        match message {
            ToNode::Depart { pid, address, key, progress, user, executes, .. } => {
                let (pid, address, key, progress, user) = (*pid, address.clone(), key.clone(), *progress, user.clone());
                let executes = executes.clone();
                self.depart(Out { pid, address, key, progress, user, executes, ..Out::default() });
            }
            ToNode::Leave { pid, children } => {
                reach("source is to leave");
                let mut children = children.clone();
                children.sort_unstable();
                self.order_away(*pid, &Order::Leave(children));
            }
            ToNode::Stay { pid } => match self.aways.all.get(pid) {
                Some(one) if one.mover.is_some() => self.order_away(*pid, &Order::Stay),
                _ => drop(self.aways.all.remove(pid)),
            },
            other => self.ask_here(other),
        }
    }

    fn depart(&mut self, wanted: Out) {
        reach("source is told");
        let pid = wanted.pid;
        let order = self.out(pid).and_then(|Out { remains, home, .. }| {
            let heirs = Some(self.heirs(AWAYS, pid)?);
            Ok(Out { remains, place: Place::Needed, home, heirs, ..wanted })
        });
        match order.and_then(|order| self.start_mover(pid, &Order::Out(order))) {
            Ok(mover) => {
                if let Some(one) = self.aways.all.get_mut(&pid) {
                    info!(%pid, "away: Carrying");
                    one.mover = Some(mover);
                }
            }
            Err(fault) => self.move_changes(NodeId::FRONT, pid, Change::NotLeft, fault),
        }
    }

    /// Its ghost is to take its place.
    pub(crate) fn remain(&self, pid: Pid) -> Result<Remain> {
        let hold = self.config.run_dir.to_string_lossy().into_owned();
        let ghost = Some(self.config.run_dir.join("shoal.sock").to_string_lossy().into_owned());
        Ok(Remain { pid, hold, programs: self.programs()?, ghost })
    }

    fn order_away(&mut self, pid: Pid, order: &Order) {
        let Some(token) = self.aways.all.get(&pid).and_then(|one| one.mover) else { return };
        if let Some(Connection::Mover(mover)) = self.connections.get_mut(&token) {
            // One that is gone is told by its line.
            let _ = mover.line.send(order).and_then(|()| mover.line.flush());
        }
    }

    /// Is this the mover of one that leaves?
    pub(crate) fn is_away(&self, pid: Pid, mover: Token) -> bool {
        self.aways.all.get(&pid).is_some_and(|one| one.mover == Some(mover))
    }

    pub(crate) fn away_said(&mut self, pid: Pid, said: Said) {
        match said {
            Said::Ready => {
                reach("source asks");
                self.know_native(pid);
                self.move_changes(NodeId::FRONT, pid, Change::Ready, Fault::bug("ready"));
            }
            Said::Bound => self.is_bound(pid),
            Said::Left { come, stopped } if self.is_away_again(pid) => self.departed(pid, come, stopped),
            // It has a way of its own to tell whoever relays.
            Said::Left { .. } if !self.is_moving(pid) => self.end_away(pid),
            Said::Left { come, stopped } => {
                reach("source has ended it");
                if stopped {
                    self.is_roused(pid);
                }
                self.end_away(pid);
                if stopped {
                    self.events.push_back(Event::Sleeps { pid });
                }
                self.left(NodeId::FRONT, pid, come, false);
            }
            Said::Failed(fault) => self.away_fails(pid, fault),
            Said::Moving(progress) => self.move_goes_on(NodeId::FRONT, pid, progress),
            other => warn!(%pid, ?other, "a mover says what it has not been asked"),
        }
    }

    pub(crate) fn is_bound(&mut self, pid: Pid) {
        let Some(one) = self.aways.all.get_mut(&pid) else { return };
        info!(%pid, "away: Carrying -> Bound");
        one.bound = true;
        reach("source has bound it");
        self.ghosts.expect_in_place(pid);
        // The new node may have been heard first.
        if self.space.get(pid).is_some_and(|view| view.node.is_front()) {
            self.aways.early.insert(pid, Vec::new());
        }
        if let Some(person) = self.space.get(pid).map(|view| view.person.clone()) {
            self.ghosts.command(pid, Tell::Ids { uid: person.creds.uid, gid: person.creds.gid });
            self.ghosts.command(pid, Tell::Name(Name::new(&person.name)));
            self.reports.begins_with(pid, 2);
        }
        self.hand_over_children(pid);
        match self.remain(pid) {
            Ok(remain) => self.order_away(pid, &Order::Remain(remain)),
            Err(fault) => warn!(%pid, %fault, "no ghost can take its place"),
        }
    }

    /// Its mover has failed, or has ended.
    pub(crate) fn away_fails(&mut self, pid: Pid, fault: Fault) {
        let Some(one) = self.aways.all.get(&pid) else { return };
        let bound = one.bound;
        self.end_away(pid);
        if self.is_away_again(pid) {
            return self.departed_or_not(pid);
        }
        match bound {
            // It ends with its mover.
            true => self.left(NodeId::FRONT, pid, Vec::new(), false),
            false => {
                self.aways.all.remove(&pid);
                self.move_changes(NodeId::FRONT, pid, Change::NotLeft, fault);
            }
        }
    }

    pub(crate) fn end_away(&mut self, pid: Pid) {
        let one = self.aways.all.get_mut(&pid);
        let seen_stopped = one.is_some_and(|one| {
            one.left = one.bound;
            std::mem::take(&mut one.seen_stopped)
        });
        if seen_stopped && !self.sleepers.knows_stop(pid) {
            // By a SIGSTOP of its own.
            self.events.push_back(Event::Pending { pid, set: SigSet(Sig::STOP.bit()) });
        }
        if let Some(token) = self.aways.all.get_mut(&pid).and_then(|one| one.mover.take()) {
            self.close(token);
        }
        self.forget_away(pid);
    }

    /// It is known that what stands here for it is its ghost.
    pub(crate) fn hear_ghost(&mut self, pid: Pid) {
        self.settle();
        for happened in self.aways.early.remove(&pid).unwrap_or_default() {
            self.on_ghost(happened);
        }
        self.settle();
    }

    /// Nothing more is to come of it: it has not left, or it has and its ghost relays.
    pub(crate) fn forget_away(&mut self, pid: Pid) {
        let over = |one: &Leaving| one.mover.is_none() && (!one.bound || one.stood && one.left);
        if self.aways.all.get(&pid).is_some_and(over) {
            self.aways.all.remove(&pid);
        }
    }

    /// What has taken its place wants to relay.
    ///
    /// # Errors
    /// `Refused` when it is not known to have left.
    pub(crate) fn on_stand(&mut self, asker: Asker, caller: &Caller) -> Result<()> {
        let pid = caller.pid;
        let unknown = || Fault::refused(format!("{pid} has not moved to a node"));
        if self.is_away_again(pid) {
            self.has_departed(pid);
        }
        let one = self.aways.all.get_mut(&pid).filter(|one| one.bound && !one.stood).ok_or_else(unknown)?;
        if one.to.is_none() && self.settle_at_us.is_some() {
            one.asks = Some(asker);
            return Ok(());
        }
        self.stand_here(asker, pid)
    }

    /// As [`Front::on_stand`], when it is known where it is.
    pub(crate) fn stand_here(&mut self, asker: Asker, pid: Pid) -> Result<()> {
        let unknown = || Fault::refused(format!("{pid} is not known to be on any node"));
        let Asker::Local(client) = asker else { return Err(unknown()) };
        let one = self.aways.all.get_mut(&pid).ok_or_else(unknown)?;
        let to = one.to.ok_or_else(unknown)?;
        reach("front has its ghost relay");
        one.stood = true;
        let (token, key, channel, again) = (one.token, one.key, one.channel.take(), one.again);
        self.forget_away(pid);
        // Only that it has pipes is asked for of one that runs already.
        let run = Run { asker, program: Program::default(), address: String::new(), copies: Vec::new(), alive: 0 };
        self.runs.follow(pid, to, (token, key), run);
        let copies = vec![ask::Copy { node: to, key: key.to_vec(), token: token.to_vec() }];
        let hold = self.hold_file().to_string_lossy().into_owned();
        self.answer(asker, Answer::Granted { hold, copies }, false);
        if let (Some(fd), Some(Connection::Client { link, .. })) = (channel, self.connections.get_mut(&client)) {
            sock::tcp_tune(fd.as_fd(), channel_patience_ms(Agreed::within(self.config.lost_after).life_us))?;
            link.send_with(&Answer::Channel { copy: 0, further: None }, fd)?;
            self.dirty.insert(client);
        }
        // It may have ended before it had a relay.
        let ended = self.space.get(pid).map_or(Some(Exit::NodeLost), |view| view.ended);
        if let Some(exit) = ended {
            self.runs.ended(pid);
            self.answer(asker, Answer::Ended { copy: 0, exit }, true);
        }
        if again {
            self.redial(pid, to, (token, key));
        }
        Ok(())
    }
}
