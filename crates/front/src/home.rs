//! Processes that come from a node to the front end: what stood for one becomes it.
//!
//! Its mover, a process of its own as on nodes, keeps the whole image until the old node has said that nothing of the process is left there; until
//! then the ghost is a ghost. From then on it is the process, which does not run yet.
//!
//! | step | next |
//! |---|---|
//! | Taking: the image comes | the old node has ended its own, and the mover knows: Settling; anything fails: over, it stays, or is lost if the old node has ended its own |
//! | Settling: the ghost does what it was told before | it has: it is told to become the process: Closing |
//! | Closing: it writes out what has come of its output, and closes the hold file | it has: Becoming, and it is a native process for everybody |
//! | Becoming: the mover makes it what the image says | it runs: over |
//! | Taking, Settling, Closing | killed: as closed, when it is there |
//! | Settling, Closing, Becoming | the mover fails: the process is killed |
//!
//! A ghost that is stopped, as its process is, does all of this while its mover traces it: stopped for everybody else, it becomes one that is.

use crate::connection::{Connection, Token};
use crate::front::Front;
use crate::move_states::Change;
use crate::runs::Asker;
use ghost::{Command as Tell, Happened, KeptSlot};
use kern::faultpoint::reach;
use kern::{mount, pidfd};
use mover::{Home, In, Order, Said, Stood};
use space::{BodyEvent, Event};
use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use tracing::{debug, info, warn};
use vocab::{Creds, Exit, Fault, NodeId, Pid, Result, Sig, SigInfo};
use wire::ask::Answer;
use wire::node::ToNode;

/// See the module.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    Taking,
    Settling,
    Closing,
    Becoming,
}

/// One that comes.
#[derive(Debug)]
struct Coming {
    mover: Token,
    step: Step,
    /// Who relays its standard streams, and what that was told of its coming.
    relay: Option<(Asker, Answer)>,
    /// Who relays what it has written before has yet to say that it is out ([`wire::ask::Ask::Passed`]), for this branch.
    awaited: Option<(Asker, u64)>,
    /// Its place among the ghosts, which it leaves when it is made.
    slot: Option<KeptSlot>,
    /// By this SIGCONT it has gone on since the image of it was made.
    went_on: Option<SigInfo>,
    /// Its ghost was continued to obey, not by anybody's signal.
    woken: bool,
}

/// In the run directory: where movers wait for a successor of this daemon.
const HOMES: &str = "homes";

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Homes {
    all: HashMap<Pid, Coming>,
}

impl Homes {
    /// Does its ghost become it? What that tells is ours to hear.
    pub(crate) fn becomes(&self, pid: Pid) -> bool {
        self.all.get(&pid).is_some_and(|one| matches!(one.step, Step::Settling | Step::Closing))
    }
}

impl Front {
    /// Why this process of a node cannot come to the front end, if so. What else is in the way its mover says, before it takes anything.
    pub(crate) fn not_to_come_home(&self, pid: Pid, lazy: bool) -> Option<String> {
        let why = match () {
            () if lazy => "its memory comes with it: --lazy is between nodes only",
            () if self.runs.is_by_itself(pid) => return None,
            () if self.runs.relays(pid) => {
                "it is none that `shoal run` has started from here for one node, and without a terminal of its own"
            }
            () if self.relayed_with(pid).is_some_and(|program| !self.runs.is_by_itself(program)) => {
                "it has the streams of one that `shoal run` has not started from here for one node, or with a terminal of its own"
            }
            () => return None,
        };
        Some(why.into())
    }

    /// Starts to take one; the old node is to send it as soon as the mover listens.
    pub(crate) fn begin_home(&mut self, pid: Pid, key: Vec<u8>, user: Option<Creds>) -> Result<Option<u64>> {
        reach("destination is told");
        let light = !self.runs.is_by_itself(pid);
        let program = self.relayed_with(pid).filter(|_| light);
        let told = match (light, program) {
            (false, _) => Some(self.runs.home(pid)?),
            (true, Some(program)) => Some(self.runs.alongside(program, pid)?),
            (true, None) => None,
        };
        let (relay, branch) = told.unzip();
        let process = In { pid, key, remain: None, user, may_see_node: true };
        let (heirs, programs) = (self.heirs(HOMES, pid)?, self.programs()?);
        let order = Home { process, heirs, light, relay: program, programs };
        let mover = self.start_mover(pid, &Order::Home(order))?;
        relay.iter().for_each(|(asker, told)| self.answer(*asker, told.clone(), false));
        let awaited = relay.as_ref().filter(|_| light).map(|(asker, _)| *asker).zip(branch);
        let relay = relay.filter(|_| !light);
        self.homes
            .all
            .insert(pid, Coming { mover, step: Step::Taking, relay, awaited, slot: None, went_on: None, woken: false });
        info!(%pid, light, "home: Taking");
        Ok(branch)
    }

    /// Movers of a daemon before this one, which have all of their processes. They say how far they are before anybody else is heard.
    pub(crate) fn recover_homes(&mut self) {
        for (pid, mover) in self.movers_left(HOMES) {
            info!(%pid, "home: its mover waits");
            self.homes.all.insert(
                pid,
                Coming {
                    mover,
                    step: Step::Taking,
                    relay: None,
                    awaited: None,
                    slot: None,
                    went_on: None,
                    woken: false,
                },
            );
        }
    }

    /// What its mover is to know; one that is gone is told by its line.
    pub(crate) fn order_home(&mut self, pid: Pid, order: &Order) {
        let Some(token) = self.homes.all.get(&pid).map(|one| one.mover) else { return };
        if let Some(Connection::Mover(mover)) = self.connections.get_mut(&token) {
            let _ = mover.line.send(order).and_then(|()| mover.line.flush());
        }
    }

    /// What a node would be told of one that comes there.
    pub(crate) fn tell_home(&mut self, message: &ToNode) {
        match message {
            ToNode::Go { person } => self.order_home(person.pid, &Order::Go),
            ToNode::Abandon { pid } => self.forget_home(*pid),
            other => self.tell_away(other),
        }
    }

    pub(crate) fn on_mover(&mut self, token: Token) {
        let Some(Connection::Mover(mover)) = self.connections.get_mut(&token) else { return };
        let whom = mover.whom;
        let received = mover.line.receive();
        loop {
            let Some(Connection::Mover(mover)) = self.connections.get_mut(&token) else { return };
            match mover.line.next::<Said>() {
                Ok(Some(said)) if self.looker_said(token, Some(said.clone())) => return,
                Ok(Some(said)) if self.is_away(whom, token) => self.away_said(whom, said),
                // A late word of the mover of an earlier move.
                Ok(Some(said)) if self.has_another_mover(whom, token) => debug!(%whom, ?said, "home: not its mover"),
                Ok(Some(said)) => self.mover_said(whom, said),
                Ok(None) => break,
                Err(fault) => return self.mover_gone(token, whom, fault),
            }
        }
        if let Err(fault) = received {
            self.mover_gone(token, whom, fault);
        }
    }

    fn has_another_mover(&self, pid: Pid, token: Token) -> bool {
        self.homes.all.get(&pid).is_some_and(|one| one.mover != token)
    }

    fn mover_said(&mut self, pid: Pid, said: Said) {
        let change = |front: &mut Front, change| {
            front.move_changes(NodeId::FRONT, pid, change, Fault::bug("the front end's mover"));
        };
        match said {
            Said::Listening(port) => {
                reach("destination listens");
                self.arriving(NodeId::FRONT, pid, port);
            }
            Said::Rebuilt if self.is_moving(pid) => {
                reach("destination has it");
                change(self, Change::Arrived);
            }
            Said::Runs if self.is_moving(pid) => change(self, Change::Runs),
            // Of a move that a daemon before this one had begun.
            Said::Rebuilt => self.arrived_in_doubt(NodeId::FRONT, pid),
            Said::Runs => {
                self.here_in_doubt(pid);
                self.come_home(pid);
            }
            Said::IsHome(stops) => {
                info!(%pid, ?stops, "home: it runs");
                self.let_go_at_home(pid, stops);
                self.forget_home(pid);
                self.move_ends(pid, Ok(NodeId::FRONT));
            }
            Said::Failed(fault) => self.home_fails(pid, fault),
            other => warn!(%pid, ?other, "a mover says what it has not been asked"),
        }
    }

    fn mover_gone(&mut self, token: Token, pid: Pid, fault: Fault) {
        if self.looker_said(token, None) {
            return;
        }
        if self.is_away(pid, token) {
            return self.away_fails(pid, fault);
        }
        self.close(token);
        self.rouser_gone(token);
        if self.homes.all.get(&pid).is_some_and(|one| one.mover == token) {
            self.home_fails(pid, fault);
        }
    }

    /// Has it a mover that makes it what it is to be here?
    pub(crate) fn is_coming_home(&self, pid: Pid) -> bool {
        self.homes.all.contains_key(&pid)
    }

    /// Its mover is of no use any more.
    pub(crate) fn forget_home(&mut self, pid: Pid) {
        self.order_home(pid, &Order::Off);
        if let Some(one) = self.homes.all.remove(&pid) {
            self.close(one.mover);
            one.slot.into_iter().for_each(|slot| self.ghosts.give_back_kept(slot));
        }
    }

    /// Nothing came of it; from the moment at which the old node may have ended its own the process is lost.
    fn home_fails(&mut self, pid: Pid, fault: Fault) {
        let Some(step) = self.homes.all.get(&pid).map(|one| one.step) else { return };
        warn!(%pid, ?step, %fault, "home: failed");
        match step {
            Step::Taking if self.moves.get(&pid).is_some_and(|one| one.state.is_bound()) => {
                self.forget_home(pid);
                self.lost_home(pid, fault);
            }
            Step::Taking => {
                self.forget_home(pid);
                // Where the old node alone decides, its mover finds the connection broken.
                self.move_changes(NodeId::FRONT, pid, Change::NotArrived, fault);
            }
            Step::Settling => {
                self.forget_home(pid);
                self.lost_home(pid, fault);
            }
            Step::Closing => {
                self.forget_home(pid);
                self.lost_home(pid, fault);
                // It waits for its mover, and hears nothing more that it is told.
                pidfd::end(pid);
            }
            Step::Becoming => {
                self.forget_home(pid);
                // The mover has done so, unless it was killed itself.
                pidfd::end(pid);
                self.move_ends(pid, Err(fault));
            }
        }
    }

    /// The old node has ended it, and it cannot be made here.
    fn lost_home(&mut self, pid: Pid, fault: Fault) {
        let from = self.moves.get(&pid).map_or(NodeId::FRONT, |one| one.from);
        let event = BodyEvent::Exited { pid, exit: Exit::NodeLost, usage: Default::default() };
        self.events.push_back(Event::Stays { pid });
        self.events.push_back(Event::Body { node: from, event });
        self.settle();
        self.is_home(pid);
        self.move_ends(pid, Err(fault));
    }

    /// One of the two has said that nothing of it is left on the old node: its mover is to know, if it lives.
    pub(crate) fn goes_home(&mut self, pid: Pid) {
        match self.homes.all.contains_key(&pid) {
            true => self.order_home(pid, &Order::Go),
            false => self.lost_home(pid, Fault::gone("its mover on the front end has ended")),
        }
    }

    /// The old node has ended it, and the mover knows: what stands here is it from now on.
    pub(crate) fn come_home(&mut self, pid: Pid) {
        match self.homes.all.get_mut(&pid) {
            Some(one) if one.step == Step::Taking => {
                info!(%pid, "home: Taking -> Settling");
                one.step = Step::Settling;
                self.events.push_back(Event::Lands { pid });
                self.settle();
                if self.space.is_to_stop(pid) {
                    self.order_home(pid, &Order::Rouse);
                }
            }
            // It has been, by the word of its mover to this daemon, which follows another one.
            Some(_) => self.is_home(pid),
            None => {
                self.is_home(pid);
                self.move_ends(pid, Ok(NodeId::FRONT));
            }
        }
        self.homes_go_on();
    }

    /// Those whose ghosts have done all that they were told become processes.
    pub(crate) fn homes_go_on(&mut self) {
        for one in self.homes.all.values_mut() {
            // Of a relay that is gone nothing comes any more.
            one.awaited
                .take_if(|(asker, _)| matches!(asker, Asker::Local(token) if !self.connections.contains_key(token)));
        }
        let awaited = |pid: &Pid| self.homes.all.get(pid).is_some_and(|one| one.awaited.is_some());
        let settled = |pid: &Pid| self.space.is_settled(*pid) && !awaited(pid);
        let due = self.homes.all.iter().filter(|(pid, one)| one.step == Step::Settling && settled(pid));
        for pid in due.map(|(pid, _)| *pid).collect::<Vec<_>>() {
            let Some(one) = self.homes.all.get_mut(&pid) else { continue };
            info!(%pid, "home: Settling -> Closing");
            one.step = Step::Closing;
            let relay = one.relay.take();
            reach("destination is to go");
            if let Some((asker, certain)) = relay {
                self.answer(asker, certain, false);
            }
            // It was told so by a daemon before this one; or it was stopped, and killed before it came here.
            if !self.ghosts.has(pid) || self.ghosts.is_dying(pid) {
                self.has_closed(pid);
                continue;
            }
            self.ghosts.command(pid, Tell::Home);
            // One that a SIGKILL waits for dies of it now.
            self.ghosts.interrupt(pid);
            // And one that has been stopped since it was looked at last does nothing before it is made to.
            if kern::pending::read(pid).is_some_and(|now| now.state == b'T') {
                self.order_home(pid, &Order::Rouse);
            }
        }
    }

    /// [`wire::ask::Ask::Passed`].
    pub(crate) fn on_passed(&mut self, asker: Asker, branch: u64) {
        for one in self.homes.all.values_mut() {
            one.awaited.take_if(|awaited| *awaited == (asker, branch));
        }
        self.homes_go_on();
    }

    /// It has kept none of the streams of its program.
    pub(crate) fn has_no_streams(&mut self, pid: Pid) {
        if let Some(one) = self.homes.all.get_mut(&pid) {
            one.awaited = None;
        }
    }

    /// A ghost that becomes its process tells something.
    pub(crate) fn on_homing(&mut self, happened: Happened) {
        match happened {
            Happened::Signal { .. } => self.on_ghost_of_space(happened),
            // It had a signal to hand over first.
            Happened::Done { pid, outcome } if outcome.command == Tell::Home => self.ghosts.command(pid, Tell::Home),
            Happened::Done { .. } | Happened::Held { .. } => self.on_ghost_of_space(happened),
            Happened::Caught { pid, signals } => {
                if signals.has(Sig::STOP) {
                    self.order_home(pid, &Order::Rouse);
                }
                self.ghosts.interrupt(pid);
            }
            // While it was not held: on its way to its mover, say.
            Happened::StoppedItself { pid } => self.order_home(pid, &Order::Rouse),
            Happened::Gone { .. } => {}
            Happened::Dying { pid } => self.has_closed(pid),
        }
    }

    /// It holds no more: it waits for its mover, or is dead.
    fn has_closed(&mut self, pid: Pid) {
        let mut gone = Vec::new();
        let slot = self.ghosts.keep_slot(pid);
        self.ghosts.release(pid, &mut gone);
        self.reports.forget(pid);
        self.deliveries.forget(pid);
        self.runs.ended(pid);
        if let Some(program) = self.moves.get(&pid).and_then(|one| one.streams).filter(|program| *program != pid) {
            self.runs.moved(program, pid, NodeId::FRONT);
        }
        let Some(one) = self.homes.all.get_mut(&pid) else { return };
        info!(%pid, "home: {:?} -> Becoming", one.step);
        (one.step, one.slot) = (Step::Becoming, slot);
        let stopped = self.space.get(pid).and_then(|view| view.stopped);
        let asleep = !one.woken && self.space.is_asleep_as_its_process(pid);
        self.events.push_back(Event::Moved { pid, to: NodeId::FRONT });
        self.settle();
        self.watch_as_a_child(pid, stopped);
        self.is_home(pid);
        let went_on = self.homes.all.get_mut(&pid).and_then(|one| one.went_on.take());
        self.order_home(pid, &Order::Become(Stood { went_on, asleep }));
    }

    /// SIGCONT is sent to its ghost, and is nobody's.
    pub(crate) fn is_woken(&mut self, pid: Pid) {
        self.homes.all.get_mut(&pid).into_iter().for_each(|one| one.woken = true);
    }

    pub(crate) fn has_gone_on(&mut self, pid: Pid, by: SigInfo) {
        if let Some(one) = self.homes.all.get_mut(&pid) {
            one.went_on = Some(by);
        }
    }

    /// A directory that only root may enter, for a program with capabilities: these count where it is not mounted nosuid, as /run is.
    pub(crate) fn programs(&self) -> Result<String> {
        let at = mount::directory(&mount_point(&self.config.run_dir))?;
        let device = |path: &Path| std::fs::metadata(path).map(|found| found.dev()).ok();
        if device(&at) == device(&self.config.run_dir) {
            mount::mount("tmpfs", &at, mount::Flags::NODEV, "mode=0700")?;
        }
        Ok(at.to_string_lossy().into_owned())
    }
}

/// Where programs with capabilities are, if any are.
pub(crate) fn mount_point(run_dir: &Path) -> PathBuf {
    run_dir.join("programs")
}
