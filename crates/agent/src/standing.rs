//! What happens to stand-ins, and what the front end tells of those they stand for.

use crate::agent::Agent;
use crate::bodies::Life;
use crate::checks::What;
use crate::stands::{Held, Memory, Stand, Why};
use ghost::{Command, Happened, Name, Outcome};
use kern::clock::monotonic_us;
use kern::epoll::Interest;
use kern::proc::exists;
use kern::wait::{Change, Usage};
use tracing::{debug, error, warn};
use vocab::{Exit, Pid, Sig, SigInfo};
use wire::event::{BodyEvent, Person};
use wire::node::ToFront;

/// Children that are looked at because one has stopped.
const MOST_LOOKS: usize = 32;

/// Requests taken from the kernel before other work gets its turn.
const TURN: usize = 512;

const WNOHANG: i32 = 1;
const WSTOPPED: i32 = 2;
const WNOWAIT: i32 = 0x0100_0000;

/// Waits for the end of any child of the stand-in. A stop and a continuation stay for the process for which it stands: should that come here before it was told of them, nobody
/// else can tell it.
pub(crate) const WAIT: Command = Command::Wait { pid: Pid(-1), options: WNOHANG | kern::wait::WALL };

/// A siginfo of SIGCHLD about a stop or a continuation has one of these codes (sigaction(2)).
const CLD_STOPS: std::ops::RangeInclusive<i32> = 4..=6;

impl Agent {
    /// Takes what the kernel has of stand-ins. `Err` when the mount is gone, and all of them with it.
    pub(crate) fn serve_ghosts(&mut self) -> vocab::Result<()> {
        let mut happened = std::mem::take(&mut self.happened);
        self.ghosts.read(TURN, &mut happened)?;
        self.ghosts.look_after(monotonic_us(), &mut happened);
        for one in happened.drain(..) {
            self.happened_to(one);
        }
        self.happened = happened;
        Ok(())
    }

    fn happened_to(&mut self, happened: Happened) {
        match happened {
            Happened::Held { .. } => {}
            Happened::Signal { pid, info } if info.sig == Sig::CHLD && info.code > 0 => {
                self.orphans_are_known();
                self.child_changed(pid);
                if CLD_STOPS.contains(&info.code) {
                    self.child_stopped(pid, info.pid);
                }
            }
            Happened::Signal { pid, info } if self.is_of_orphan(pid, &info) => {}
            Happened::Signal { pid, info } => {
                // The front end's ghosts count for themselves.
                let info = SigInfo { count: None, ..info };
                if info.pid != Pid::INIT && (info.sig.stops() || info.sig == Sig::CONT) {
                    self.ran(pid, info.sig);
                }
                self.signalled(pid, &info);
            }
            Happened::Caught { pid, signals } => {
                if signals.has(Sig::KILL) {
                    self.held(pid, Held::Killed);
                    self.signalled(pid, &SigInfo::kill(Sig::KILL, Pid::NONE, 0));
                } else {
                    self.held(pid, Held::Caught);
                    self.stops_itself(pid, false);
                    self.rouse_if_busy(pid);
                }
                self.next_start(); // which may have waited for what this one does no more
                self.end_goes_on(pid);
                if self.stands.get(pid).is_none_or(|stand| stand.ending) {
                    self.ghosts.interrupt(pid);
                }
            }
            Happened::StoppedItself { pid } => {
                self.stops_itself(pid, true);
                self.has_stopped(pid);
                self.wakes_to_end(pid);
            }
            Happened::Dying { pid } => self.dying(pid),
            Happened::Done { pid, outcome } => self.done(pid, &outcome),
            Happened::Gone { pid } => self.gone(pid),
        }
    }

    pub(crate) fn held(&mut self, pid: Pid, held: Held) {
        if let Some(stand) = self.stands.get_mut(pid) {
            stand.held = held;
        }
    }

    /// A stand-in was signalled: its body must get it. What comes from init is our own doing.
    pub(crate) fn signalled(&mut self, pid: Pid, info: &SigInfo) {
        let known = self.stands.get(pid).is_some_and(|stand| stand.why != Why::Husk && !stand.ending);
        if known && info.pid != Pid::INIT {
            if self.bodies.has(info.pid) {
                self.tell_all(info.pid); // who it is now
            }
            let turn = (info.sig.stops() || info.sig == Sig::CONT).then(|| {
                self.turns += 1;
                self.turns
            });
            debug!(%pid, sig = info.sig.number(), by = %info.pid, "a stand-in hands over a signal");
            if let Some(stand) = self.stands.get_mut(pid).filter(|_| turn.is_some()) {
                stand.turn = turn;
            }
            self.tell_signal(pid, *info, turn);
        }
    }

    /// Something that was no command of ours kills it. The real one decides; nobody else's end is waited for.
    fn dying(&mut self, pid: Pid) {
        if pid == self.nursery {
            let status = self.proc.stat_of_ended(pid).ok().flatten().map(|stat| stat.exit_status);
            error!(?status, "the first stand-in dies, and no other can be made: this agent ends");
            std::process::exit(1);
        }
        self.held(pid, Held::Dying);
        self.sends_no_more(pid);
        self.next_start();
        if self.end_goes_on(pid) {
            return;
        }
        match self.stands.get(pid) {
            Some(stand) if !stand.ending && stand.why != Why::Husk => {
                self.signalled(pid, &SigInfo::kill(Sig::KILL, Pid::NONE, 0));
            }
            _ => self.release(pid),
        }
    }

    pub(crate) fn release(&mut self, pid: Pid) {
        let mut happened = Vec::new();
        self.ghosts.release(pid, &mut happened);
        for one in happened {
            if let Happened::Gone { pid } = one {
                self.gone(pid);
            }
        }
    }

    /// Its process ends now; whoever is its parent here has to wait for it.
    fn gone(&mut self, pid: Pid) {
        self.idle.remove(&pid);
        self.sends_no_more(pid);
        if self.usages.writer == Some(pid) {
            self.writer_gone();
        }
        let Some(stand) = self.stands.get_mut(pid) else { return };
        let told = stand.ending && stand.why != Why::Husk;
        stand.ending = true;
        let (parent, why) = (stand.native_parent(), stand.why);
        debug!(%pid, told, "stand-in gone");
        self.arrival_goes_on(parent);
        self.maker_gone(pid);
        self.adopted_here(pid);
        if why.a_body_waits() || self.bodies.has(parent) {
            // Its parent is a body, which waits for it by itself; nobody else sees that it has.
            self.leaving.remove(&pid);
            self.handle(pid, Interest::empty());
        } else if self.stands.has(parent) && !self.waits_for(parent, pid) {
            self.child_changed(parent);
        }
    }

    /// Has `pid`, which a body waits for (a `shoal run`, a child of one of this node), been told to end as its process elsewhere has?
    pub(crate) fn is_ending_runner(&self, pid: Pid) -> bool {
        let waits = |stand: &Stand| stand.why.a_body_waits() || self.bodies.has(stand.native_parent());
        self.stands.get(pid).is_some_and(|stand| stand.ending && waits(stand))
    }

    /// Will the end of this stand-in reach us by another one's wait4?
    pub(crate) fn stand_in_waits(&self, pid: Pid) -> bool {
        self.stands.get(pid).is_some_and(|stand| self.stands.has(stand.native_parent()))
    }

    /// A stand-in's process has been waited for by its parent here.
    pub(crate) fn stand_in_reaped(&mut self, pid: Pid, exit: Option<Exit>) {
        if let Some(stand) = self.stands.remove(pid) {
            if !stand.ending {
                warn!(%pid, "a stand-in has ended before its process");
                self.end_program(pid, exit);
            }
            if self.bodies.has(stand.native_parent()) {
                self.usages.charge(stand.native_parent(), pid, stand.usage);
            }
            self.ghosts.unexpect(pid);
            self.ends_no_more(pid);
            // What it has waited for, and told nobody.
            self.leaving.extend(self.stands.children(pid).into_iter().filter(|child| !exists(*child)));
            self.reparent_children(pid);
            self.unheard.is_gone(pid);
            // A program of ours that called `shoal run` for another node has its streams here until now.
            self.program_ended(pid);
            self.did_not_become(pid);
            self.switches_go_on(pid);
            self.next_start();
        }
    }

    pub(crate) fn child_changed(&mut self, pid: Pid) {
        // One that becomes a process waits for its children itself.
        let becomes = self.moving.arrives(pid) && !self.starts.waits_to_become(pid);
        if !becomes && !self.unheard.spares(pid) && self.stands.get(pid).is_some_and(|stand| !stand.ending) {
            self.ghosts.command(pid, WAIT);
        }
    }

    /// SIGCHLD tells a stand-in that a child has stopped or gone on. One tells of several; where the kernel has no tracepoints of that, the others are looked at too.
    fn child_stopped(&mut self, parent: Pid, child: Pid) {
        let mut changed = vec![child];
        if self.stops.is_none() {
            changed.extend(self.bodies.children(parent).into_iter().take(MOST_LOOKS));
        }
        changed.retain(|pid| self.bodies.person(*pid).is_some_and(|one| one.ppid == parent));
        for pid in changed {
            self.checks.again(pid, What::State, monotonic_us());
            self.look_at_state(pid, false);
        }
    }

    /// By what this body is stopped its parent, which is a stand-in here, is asked, and takes nothing from the one for whom it stands.
    pub(crate) fn ask_by_what(&mut self, pid: Pid) {
        let Some(parent) = self.bodies.person(pid).map(|person| person.ppid) else { return };
        if self.stands.get(parent).is_some_and(|stand| !stand.ending) {
            let options = WSTOPPED | WNOHANG | WNOWAIT | kern::wait::WALL;
            self.ghosts.command(parent, Command::Wait { pid, options });
        }
    }

    fn done(&mut self, pid: Pid, outcome: &Outcome) {
        match outcome.command {
            Command::Wait { options, .. } if options & WNOWAIT != 0 => {
                let child = Pid(outcome.ret.max(0) as i32);
                if let (Some(Change::Stopped(sig)), true) = (
                    Change::from_status(outcome.out[0] as i32),
                    self.bodies.has(child) && self.may_wait_for(pid, child),
                ) {
                    self.waited_stop(child, Some(sig));
                }
            }
            Command::Wait { .. } if outcome.ret > 0 => {
                let [status, user_us, system_us, max_rss_kb] = outcome.out;
                let used =
                    Usage { user_us: user_us as u64, system_us: system_us as u64, max_rss_kb: max_rss_kb as u64 };
                let child = Pid(outcome.ret as i32);
                if self.may_wait_for(pid, child) {
                    self.stands.was_waited_for(child, pid);
                }
                self.orphans_are_known(); // and the record of its exec was read
                match Change::from_status(status as i32) {
                    Some(change) if self.may_wait_for(pid, child) => {
                        self.changed(pid, child, change, crate::settle::usage(used));
                    }
                    _ => warn!(%pid, %child, "a stand-in says that it has waited for what is not its child"),
                }
                self.child_changed(pid);
            }
            Command::Wait { .. } => drop(self.end_goes_on(pid)),
            Command::Setsid
            | Command::Setpgid { .. }
            | Command::Ids { .. }
            | Command::Groups { .. }
            | Command::Name(_) => {
                self.changed_itself(pid, outcome);
            }
            Command::Clone { .. } => self.made(pid, outcome),
            Command::Stop(sig) => self.stop_reported(pid, sig, outcome.ret),
            Command::Open { .. } | Command::Close { .. } | Command::Peek { .. } | Command::Poke { .. } => {
                self.result_done(outcome)
            }
            Command::Map { child, .. } => self.mapped(pid, child, outcome.ret),
            Command::Fill { child, bytes, .. } => self.filled(pid, child, bytes, outcome.ret),
            Command::Spawn(address) => self.spawned(pid, address, outcome),
            Command::Exec(address) => self.becomes_later(pid, address),
            Command::Kill { target, .. } | Command::Tgkill { pid: target, .. } => self.sent(pid, target),
            command if outcome.ret < 0 => warn!(%pid, ?command, errno = -outcome.ret, "a stand-in could not"),
            _ => {}
        }
    }

    /// May `by` have waited for `child`? What it says is its user's word, unless its memory is ours: it must name no child of somebody else.
    fn may_wait_for(&self, by: Pid, child: Pid) -> bool {
        if !self.stands.get(by).is_some_and(Stand::apart) {
            return true;
        }
        let parent = self.bodies.person(child).map(|person| person.ppid);
        let parent = parent.or_else(|| self.stands.get(child).map(|stand| stand.native_parent()));
        parent.map_or_else(|| !exists(child), |parent| parent == by)
    }

    /// A process of this node is from now on the stand-in of its program on another.
    pub(crate) fn become_stand_in(&mut self, pid: Pid) {
        match self.bodies.get(pid).map(|body| body.life) {
            None if self.stands.has(pid) => return,
            // It was killed while it asked. Its end has been told, which counted for nothing: the program was to be elsewhere by then.
            None | Some(Life::Ended) => return self.end_program(pid, None),
            Some(Life::Live | Life::Leaving) => {}
        }
        let Some(body) = self.bodies.remove(pid) else { return };
        self.usages.left(pid, None);
        self.stopping.forget(pid);
        self.elders.counts.remove(&pid);
        self.drop_handle(pid);
        if body.life == Life::Leaving {
            self.leaving.insert(pid);
        }
        let parent = body.person.ppid;
        self.stands.add(body.person, Why::Runner, None, parent);
        self.ghosts.expect(pid);
    }

    /// The `shoal run` of this program is dead, and was not held: so ends the program, as that did where this is known and has not been told.
    pub(crate) fn end_program(&mut self, pid: Pid, exit: Option<Exit>) {
        if let Some(exit) = exit {
            self.events.push(BodyEvent::Exited { pid, exit, usage: Default::default() });
        }
        self.tell_now();
        debug!(%pid, ?exit, "what stood for a program has ended: so does that");
        let info = SigInfo::kill(Sig::KILL, Pid::NONE, 0);
        self.tell_signal(pid, info, None);
    }

    /// A `shoal run` that has ended, and nobody told it to. `true` when it was one.
    pub(crate) fn runner_lost(&mut self, pid: Pid, exit: Option<Exit>) -> bool {
        let unheld = |stand: &&mut Stand| stand.why == Why::Runner || stand.memory == Memory::Apart;
        let Some(stand) = self.stands.get_mut(pid).filter(|stand| unheld(stand) && !stand.ending) else {
            return false;
        };
        stand.ending = true;
        self.ghosts.unexpect(pid);
        self.adopted_here(pid);
        self.end_program(pid, exit);
        true
    }

    /// The body of a process that stands here has changed: so does its stand-in, and then the front end is told that it has.
    pub(crate) fn stand_in_is(&mut self, person: Person) {
        let pid = person.pid;
        let Some(stand) = self.stands.get_mut(pid).filter(|stand| !stand.ending) else {
            self.starts.kin_is(&person);
            let here = self.bodies.has(pid) || self.moving.arrives(pid);
            if !here && !self.starts.is_to_stand(pid) {
                // It was to be, and could not.
                self.uplink.send(&ToFront::StandInGone { pid });
            }
            return self.uplink.send(&ToFront::StandInFollowed { pid });
        };
        let apart = stand.apart();
        let before = stand.person.clone();
        // Who leads a session does so for good (setsid(2), setpgid(2): EPERM), also of a terminal that only this node knows of.
        let person = match before.sid == pid {
            true => Person { pgid: before.pgid, sid: pid, ..person },
            false => person,
        };
        stand.person = person.clone();
        let mut commands = Vec::new();
        if person.sid != before.sid && person.sid == pid {
            commands.push(Command::Setsid);
        } else if person.pgid != before.pgid {
            // Of a group that is not here it could only be the leader, so it stays where it is (setpgid(2), EPERM).
            commands.push(Command::Setpgid { pid: Pid::NONE, pgid: person.pgid });
        }
        if person.creds != before.creds {
            let creds = person.creds;
            if !apart {
                let groups: Box<[u32]> = creds.groups.into();
                commands.push(Command::Groups { list: groups.as_ptr() as u64, count: groups.len() as u64 });
                stand.groups.push(groups);
            }
            commands.push(Command::Ids { uid: creds.uid, gid: creds.gid });
        }
        if person.name != before.name {
            commands.push(Command::Name(Name::new(&person.name)));
        }
        match commands.len() as u32 {
            0 => self.uplink.send(&ToFront::StandInFollowed { pid }),
            count => stand.follows.push_back(count),
        }
        for command in commands {
            self.ghosts.command(pid, command);
        }
    }

    /// A stand-in has done one of the commands of [`Agent::stand_in_is`], or of those with which it begins.
    fn changed_itself(&mut self, pid: Pid, outcome: &Outcome) {
        let stand = self.stands.get_mut(pid).filter(|_| !self.starts.dresses(pid));
        let Some(left) = stand.and_then(|stand| stand.follows.front_mut()) else {
            if !matches!(outcome.command, Command::Groups { .. } | Command::Name(_)) {
                self.made(pid, outcome);
            }
            return;
        };
        *left -= 1;
        if *left == 0 {
            if let Some(stand) = self.stands.get_mut(pid) {
                stand.follows.pop_front();
            }
            self.uplink.send(&ToFront::StandInFollowed { pid });
        }
    }

    /// This one stands here now. Should the front end have heard after it asked for it that it stands here no more, it is to know.
    pub(crate) fn stands_again(&mut self, pid: Pid) {
        let known = self.stands.get(pid).is_some_and(|stand| stand.why != Why::Husk);
        if self.told_gone.remove(&pid).is_some() && known {
            self.uplink.send(&ToFront::StandInDone { pid, errno: 0 });
        }
    }

    /// A stand-in or process is to end here, and the process lives on elsewhere: what the kernel sends its stopped children for that, and others of the group of what was a process, is
    /// nothing to their bodies.
    pub(crate) fn lets_children_go(&mut self, pid: Pid) {
        let group = self.bodies.person(pid).map(|person| person.pgid);
        self.stands.lose_parent(pid, group, |child| self.moving.departs_now(child));
    }
}
