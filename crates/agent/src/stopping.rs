//! Whether bodies are stopped, and what of that is told.
//!
//! A look at /proc tells: it is made in the thread that gives bodies their signals, so what it says holds after the newest of them. What a wait
//! says may be older than that, so a wait only leads to a look. By what a process is stopped the kernel tells by its tracepoints of signals, where it has them,
//! and a wait: /proc/PID/stat would too, but is not read (ODDITY stat-waits-for-exec: its user can let it execute a program just then).

use crate::agent::Agent;
use crate::checks::What;
use kern::clock::monotonic_us;
use kern::perf::{stops, Stops};
use std::collections::HashMap;
use tracing::debug;
use vocab::{Pid, Sig};
use wire::event::BodyEvent;

/// So many bodies that were told as stopped are looked at again with each beat.
const LOOKS: usize = 32;

/// Neither a turn nor none.
const NOT_TOLD: Option<u64> = Some(u64::MAX);

/// What was told of one body.
#[derive(Clone, Copy, Default, Debug)]
struct Seen {
    /// Of the newest signal that it was given and that stops or continues.
    turn: Option<u64>,
    /// That one stops, and has not yet been seen to.
    to_stop: bool,
    /// It was traced while it was stopped, and stops again in a moment (linux: `__ptrace_unlink`).
    let_go: bool,
    /// The newest signal that stops and that it was given: probably by that one.
    given: Option<Sig>,
    /// By what it is stopped, as a wait has said.
    by: Option<Sig>,
    /// Its parent's stand-in was asked by what.
    asked: bool,
    /// Stopped or not, and after which turn.
    told: (bool, Option<u64>),
}

/// What a look has found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Runs,
    /// By this signal, if that is known.
    Stopped(Option<Sig>),
}

/// Bodies that were stopped or continued, or that were sent a signal that does.
#[derive(Default, Debug)]
pub(crate) struct Stopping {
    table: HashMap<Pid, Seen>,
    /// Up to which number those that are stopped have been looked at in this round.
    looked_at: Pid,
}

impl Stopping {
    pub(crate) fn forget(&mut self, pid: Pid) {
        self.table.remove(&pid);
    }

    /// The front end knows it as it was somewhere else: its state is told whatever it is. It is about to stop if it was stopped there.
    pub(crate) fn arrives(&mut self, pid: Pid) {
        let by = self.table.get(&pid).and_then(|seen| seen.by);
        self.table.insert(pid, Seen { to_stop: true, told: (false, NOT_TOLD), by, ..Seen::default() });
    }

    /// It does not after all.
    fn will_not_stop(&mut self, pid: Pid) {
        if let Some(seen) = self.table.get_mut(&pid).filter(|seen| seen.told.1 == NOT_TOLD) {
            seen.to_stop = false;
        }
    }

    /// A body was given `sig`.
    fn given(&mut self, pid: Pid, sig: Sig, turn: Option<u64>) {
        let seen = self.table.entry(pid).or_default();
        (seen.turn, seen.to_stop) = (turn.or(seen.turn), sig.stops());
        seen.let_go = false;
        seen.given = Some(sig).filter(|_| seen.to_stop).or(seen.given);
        if sig == Sig::CONT {
            // It ran, though perhaps no look has seen that: what stops it next is not known.
            seen.by = None;
        }
    }

    /// The kernel has told that it takes a signal that stops, or goes on.
    fn seen(&mut self, pid: Pid, what: stops::Seen) {
        let seen = self.table.entry(pid).or_default();
        match what {
            stops::Seen::Takes(sig) => seen.by = Some(sig),
            stops::Seen::GoesOn => {
                // One that arrived to stop, did, and was continued by a signal that came with it: it does not stop any more.
                let as_it_arrived = seen.told.1 == NOT_TOLD && seen.given.is_none();
                seen.to_stop &= !(as_it_arrived && seen.by.is_some());
                (seen.by, seen.let_go) = (None, false);
            }
        }
    }

    /// Is it stopped, as was told, and has nothing continued it since that is known?
    fn is_stopped(&self, pid: Pid) -> bool {
        self.table.get(&pid).is_some_and(|seen| seen.told.0 && seen.by.is_some())
    }

    /// Nobody traces it any more, or soon.
    pub(crate) fn is_let_go(&mut self, pid: Pid) {
        if let Some(seen) = self.table.get_mut(&pid) {
            seen.let_go = seen.told.0 && seen.by.is_some();
        }
    }

    /// A wait says by what it is stopped.
    fn stopped_by(&mut self, pid: Pid, sig: Sig) {
        self.table.entry(pid).or_default().by = Some(sig);
    }

    /// What is to be told of a body that is in this state. While there may be more to know it is waited for, unless this is the `last` look: by what
    /// it is stopped, where the kernel or a wait of ours has said that or will (`is_said`); and a stop that has been given, and may be taken back, or
    /// not stop this process.
    fn found(&mut self, pid: Pid, state: State, is_said: bool, last: bool) -> Option<BodyEvent> {
        let seen = self.table.entry(pid).or_default();
        match state {
            State::Runs if (seen.to_stop || seen.let_go) && !last => return None,
            State::Runs => (seen.by, seen.asked) = (None, false),
            State::Stopped(sig) => seen.by = sig.or(seen.by),
        }
        let stopped = matches!(state, State::Stopped(_));
        if stopped && seen.by.is_none() && is_said && !last {
            return None;
        }
        (seen.to_stop, seen.let_go) = (false, false);
        let (turn, now) = (seen.turn, (stopped, seen.turn));
        if std::mem::replace(&mut seen.told, now) == now {
            return None;
        }
        Some(match stopped {
            true => BodyEvent::Stopped { pid, sig: seen.by.or(seen.given).unwrap_or(Sig::STOP), turn },
            false => BodyEvent::Continued { pid, turn },
        })
    }

    /// Is it stopped, and is it yet to be asked by what?
    fn is_to_ask(&mut self, pid: Pid) -> bool {
        let Some(seen) = self.table.get_mut(&pid).filter(|seen| seen.by.is_none()) else { return false };
        !std::mem::replace(&mut seen.asked, true)
    }

    /// The next few that were told as stopped.
    fn next_stopped(&mut self) -> Vec<Pid> {
        let last = self.looked_at;
        let stopped = self.table.iter().filter(|(pid, seen)| seen.told.0 && **pid > last);
        let mut next: Vec<Pid> = stopped.map(|(pid, _)| *pid).collect();
        self.looked_at = Pid::NONE;
        if next.len() > LOOKS {
            next.select_nth_unstable(LOOKS);
            next.truncate(LOOKS);
            self.looked_at = next.iter().copied().max().unwrap_or(Pid::NONE);
        }
        next
    }
}

impl Agent {
    /// A body was given a signal; its state is looked at if that may have changed it.
    pub(crate) fn given(&mut self, pid: Pid, sig: Sig, turn: Option<u64>) {
        if sig.stops() || sig == Sig::CONT {
            self.stopping.given(pid, sig, turn);
            self.checks.add(pid, What::State, None, monotonic_us());
        }
    }

    /// What has arrived runs from now on, or stops by this in a moment.
    pub(crate) fn arrived_as(&mut self, pid: Pid, stops: Option<Sig>) {
        match stops {
            Some(sig) => self.stopping.stopped_by(pid, sig),
            None => self.stopping.will_not_stop(pid),
        }
        self.look_at_state(pid, false);
    }

    /// Somebody stops in a moment, or has gone on.
    pub(crate) fn serve_stops(&mut self) {
        let seen = self.stops.as_mut().map_or(Some(Vec::new()), Stops::drain);
        self.watch(); // the forks of those
        let Some(seen) = seen else {
            let all: Vec<Pid> = self.bodies.iter().map(|body| body.person.pid).collect();
            return all.into_iter().for_each(|pid| self.checks.again(pid, What::State, monotonic_us()));
        };
        for (pid, what) in seen {
            if self.bodies.has(pid) || self.moving.arrives(pid) {
                debug!(%pid, ?what, "the kernel tells");
                self.stopping.seen(pid, what);
            }
            if self.bodies.has(pid) {
                self.checks.again(pid, What::State, monotonic_us());
            }
        }
    }

    /// Looks whether a body is stopped, and tells. `false` when there is nothing to tell, as yet.
    pub(crate) fn look_at_state(&mut self, pid: Pid, last: bool) -> bool {
        let Some(pending) = kern::pending::read(pid).filter(|_| self.bodies.has(pid)) else {
            self.stopping.forget(pid);
            return true;
        };
        let state = match pending.state {
            b'T' => State::Stopped(None),
            // Its mover has it, and lets it execute some calls: whether it is stopped below that cannot be seen.
            _ if pending.traced && self.moving.has_a_mover(pid) => return false,
            // So may anybody else, who makes a checkpoint of it, say. That it goes on the kernel tells.
            _ if pending.traced && self.stops.is_some() && self.stopping.is_stopped(pid) => {
                self.stopping.is_let_go(pid);
                return false;
            }
            // Which has just let it go, or will have: it stops again before it does anything.
            _ if self.stops.is_some() && self.stopping.is_stopped(pid) && self.moving.has_a_mover(pid) => return false,
            // It ends, and goes on elsewhere as it was.
            _ if self.moving.has_bound(pid) => return false,
            _ => State::Runs,
        };
        self.state_is(pid, state, last)
    }

    /// A wait of ours says that a body has stopped, or has gone on.
    pub(crate) fn waited_stop(&mut self, pid: Pid, stopped: Option<Sig>) {
        if let Some(sig) = stopped {
            self.stopping.stopped_by(pid, sig);
        }
        // When its first thread has ended, /proc says only that.
        if kern::pending::read(pid).is_some_and(|pending| pending.state == b'Z') {
            self.state_is(pid, stopped.map_or(State::Runs, |sig| State::Stopped(Some(sig))), true);
        } else {
            self.look_at_state(pid, false);
        }
    }

    fn state_is(&mut self, pid: Pid, state: State, last: bool) -> bool {
        let waited = self.waited_by_us(pid);
        let is_said = waited || self.stops.is_some();
        let event = self.stopping.found(pid, state, is_said, last);
        if waited && matches!(state, State::Stopped(None)) && self.stopping.is_to_ask(pid) {
            self.ask_by_what(pid);
        }
        let told = event.is_some();
        if let Some(event) = event {
            self.pace.hurry();
            self.events.push(event);
        }
        told
    }

    /// With each beat: somebody may have continued those, and no tracepoint tells when their parent does not want to know.
    pub(crate) fn look_at_stopped(&mut self) {
        for pid in self.stopping.next_stopped() {
            self.look_at_state(pid, false);
        }
    }

    /// On a new link: what was told on the old one may be lost.
    pub(crate) fn tell_states_again(&mut self) {
        for pid in self.stopping.table.keys().copied().collect::<Vec<_>>() {
            if let Some(seen) = self.stopping.table.get_mut(&pid) {
                seen.told.1 = NOT_TOLD;
            }
            self.look_at_state(pid, false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const P: Pid = Pid(7);
    const STOPPED: State = State::Stopped(Some(Sig::TSTP));

    fn stopped(turn: Option<u64>) -> Option<BodyEvent> {
        Some(BodyEvent::Stopped { pid: P, sig: Sig::TSTP, turn })
    }

    fn runs(turn: Option<u64>) -> Option<BodyEvent> {
        Some(BodyEvent::Continued { pid: P, turn })
    }

    #[test]
    fn each_state_is_told_once() {
        let mut stopping = Stopping::default();
        let mut found = |state| stopping.found(P, state, false, false);
        let all = [State::Runs, STOPPED, STOPPED, State::Runs, State::Runs].map(&mut found);
        assert_eq!(all, [None, stopped(None), None, runs(None), None]);
    }

    #[test]
    fn every_turn_is_answered_and_a_stop_that_is_to_come_is_waited_for() {
        let mut stopping = Stopping::default();
        let mut given = |sig, turn, state, last| {
            stopping.given(P, sig, Some(turn));
            stopping.found(P, state, false, last)
        };
        assert_eq!(given(Sig::TSTP, 1, State::Runs, false), None);
        assert_eq!(given(Sig::TSTP, 2, STOPPED, false), stopped(Some(2)));
        // One more, which changes nothing.
        assert_eq!(given(Sig::TSTP, 3, STOPPED, false), stopped(Some(3)));
        assert_eq!(given(Sig::CONT, 4, State::Runs, false), runs(Some(4)));
        // One that it handles.
        assert_eq!(given(Sig::TSTP, 5, State::Runs, true), runs(Some(5)));
    }

    #[test]
    fn the_signal_is_known_before_it_is_told_where_somebody_will_say_it() {
        let mut stopping = Stopping::default();
        assert_eq!(stopping.found(P, State::Stopped(None), true, false), None);
        stopping.stopped_by(P, Sig::TSTP);
        assert_eq!(stopping.found(P, State::Stopped(None), true, false), stopped(None));
        assert_eq!(stopping.found(P, State::Runs, true, false), runs(None));
        let unknown = Some(BodyEvent::Stopped { pid: P, sig: Sig::STOP, turn: None });
        assert_eq!(stopping.found(P, State::Stopped(None), false, false), unknown);
        // Nobody has said it in time: by what it was given.
        stopping.given(P, Sig::TTIN, Some(1));
        assert_eq!(stopping.found(P, State::Stopped(None), true, false), None);
        let given = Some(BodyEvent::Stopped { pid: P, sig: Sig::TTIN, turn: Some(1) });
        assert_eq!(stopping.found(P, State::Stopped(None), true, true), given);
    }

    #[test]
    fn what_stopped_it_before_it_was_continued_is_not_told_of_the_next_stop() {
        let mut stopping = Stopping::default();
        stopping.stopped_by(P, Sig::TTIN);
        assert!(stopping.found(P, State::Stopped(None), true, false).is_some());
        stopping.given(P, Sig::CONT, Some(1));
        stopping.given(P, Sig::TSTP, Some(2));
        assert_eq!(stopping.found(P, State::Stopped(None), true, false), None);
        stopping.stopped_by(P, Sig::TSTP);
        assert_eq!(stopping.found(P, State::Stopped(None), true, false), stopped(Some(2)));
    }

    #[test]
    fn what_stops_as_it_arrives_and_is_continued_at_once_is_told_at_once() {
        let mut stopping = Stopping::default();
        stopping.arrives(P);
        assert_eq!(stopping.found(P, State::Runs, true, false), None);
        stopping.seen(P, stops::Seen::GoesOn);
        assert_eq!(stopping.found(P, State::Runs, true, false), None, "it has not stopped yet");
        stopping.seen(P, stops::Seen::Takes(Sig::STOP));
        stopping.seen(P, stops::Seen::GoesOn);
        assert_eq!(stopping.found(P, State::Runs, true, false), runs(None));
    }

    #[test]
    fn what_was_traced_while_it_was_stopped_stops_again_and_nobody_is_told() {
        let mut stopping = Stopping::default();
        stopping.seen(P, stops::Seen::Takes(Sig::TSTP));
        assert_eq!(stopping.found(P, State::Stopped(None), true, false), stopped(None));
        assert!(stopping.is_stopped(P), "whatever it does while it is traced");
        stopping.is_let_go(P);
        assert_eq!(stopping.found(P, State::Runs, true, false), None, "it is about to stop");
        assert_eq!(stopping.found(P, State::Stopped(None), true, false), None, "as it was");
        // Continued meanwhile it does not stop.
        stopping.seen(P, stops::Seen::GoesOn);
        assert!(!stopping.is_stopped(P));
        stopping.is_let_go(P);
        assert_eq!(stopping.found(P, State::Runs, true, false), runs(None));
    }

    #[test]
    fn what_is_continued_as_it_is_let_go_is_told_at_once() {
        let mut stopping = Stopping::default();
        stopping.seen(P, stops::Seen::Takes(Sig::TSTP));
        assert_eq!(stopping.found(P, State::Stopped(None), true, false), stopped(None));
        stopping.is_let_go(P);
        stopping.seen(P, stops::Seen::GoesOn);
        assert_eq!(stopping.found(P, State::Runs, true, false), runs(None));
    }

    #[test]
    fn all_that_are_stopped_get_their_turn() {
        let mut stopping = Stopping::default();
        for pid in 1..=LOOKS as i32 + 3 {
            stopping.found(Pid(pid), STOPPED, false, false);
        }
        stopping.found(Pid(900), STOPPED, false, false);
        stopping.found(Pid(900), State::Runs, false, false);
        let rounds: Vec<usize> = (0..3).map(|_| stopping.next_stopped().len()).collect();
        assert_eq!(rounds, [LOOKS, 3, LOOKS]);
    }
}
