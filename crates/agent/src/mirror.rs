//! Stand-ins that stop and go on as their bodies do.
//!
//! | stance | what is known |
//! |---|---|
//! | Runs | |
//! | Asleep | a SIGSTOP of its own has stopped it |
//! | Stops | it was told to stop, and reports that when it runs again |
//! | Wakes | it was told to stop, and was woken until it reports that ([`ghost::Ghosts::wake`]); then it stops once more if so said |
//!
//! The front end tells what the body is after the signals that it has had from here. When more are on their way it will tell again, so what is
//! told before counts for nothing: a stand-in that somebody here has continued does not stop by what came before, nor the other way round.

use crate::agent::Agent;
use crate::stands::{Held, Later, Stand};
use ghost::Command;
use tracing::debug;
use vocab::{Pid, Sig, SigInfo, SigSet};

/// See the module.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stance {
    Runs,
    Asleep,
    Stops,
    Wakes(Option<Sig>),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Input {
    /// Its body is stopped, or is not.
    Body(Option<Sig>),
    /// A stop that it was told is over; or did not come about, because SIGCONT was waiting for it.
    Over,
    NotDone(Sig),
    /// Such a stop is reported by the leave of a mover: it is stopped yet.
    SleepsOn,
    /// Somebody's SIGCONT has woken it.
    Woken,
    /// A SIGSTOP of its own takes it.
    Sleeps,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Act {
    Nothing,
    Stop(Sig),
    Wake,
}

fn next(stance: Stance, input: Input) -> (Stance, Act) {
    use Stance as S;
    match (stance, input) {
        (S::Runs, Input::Body(Some(sig))) => (S::Stops, Act::Stop(sig)),
        (S::Asleep, Input::Body(None)) => (S::Runs, Act::Wake),
        (S::Stops, Input::Body(None)) => (S::Wakes(None), Act::Wake),
        (S::Wakes(_), Input::Body(stopped)) => (S::Wakes(stopped), Act::Nothing),
        // Whose SIGCONT it was is not known. If it was somebody's, that is on its way to the body now.
        (S::Stops, Input::NotDone(sig)) | (S::Wakes(Some(sig)), Input::Over | Input::NotDone(_)) => {
            (S::Stops, Act::Stop(sig))
        }
        (S::Runs | S::Stops, Input::SleepsOn) => (S::Asleep, Act::Nothing),
        (S::Stops | S::Wakes(_), Input::Over | Input::NotDone(_)) => (S::Runs, Act::Nothing),
        (S::Asleep, Input::Woken) => (S::Runs, Act::Nothing),
        (S::Runs, Input::Sleeps) => (S::Asleep, Act::Nothing),
        // Before it has reported.
        (S::Wakes(_), Input::Sleeps) => (S::Stops, Act::Nothing),
        (same, _) => (same, Act::Nothing),
    }
}

impl Stand {
    /// Is it stopped, or will be?
    pub(crate) fn runs(&self) -> bool {
        self.stance == Stance::Runs
    }
}

impl Agent {
    fn turn_stance(&mut self, pid: Pid, input: Input) {
        let Some(stand) = self.stands.get_mut(pid) else { return };
        let (stance, act) = next(stand.stance, input);
        debug!(%pid, "stance: {:?} -> {input:?} -> {stance:?}", stand.stance);
        stand.stance = stance;
        // The process that is its parent here may end before it is woken.
        if matches!(stance, Stance::Stops | Stance::Asleep) && self.moving.departs_now(stand.native_parent()) {
            stand.orphaned = Stand::HUNG_UP;
        }
        match act {
            Act::Nothing => {}
            Act::Stop(sig) => self.ghosts.command(pid, Command::Stop(sig)),
            Act::Wake => self.wake(pid),
        }
    }

    /// By a SIGCONT of ours, which takes away what stops and waits (linux: `prepare_signal`). That came after what had stopped it, or its body: so it is passed on.
    fn wake(&mut self, pid: Pid) {
        let known = self.stands.get(pid).is_some_and(|stand| stand.held == Held::Caught);
        let before = self.ghosts.wake(pid).filter(|_| !known);
        let mut waits = before.map(|before| before.shared).unwrap_or_default();
        let told = self.stands.get(pid).is_some_and(|stand| matches!(stand.stance, Stance::Wakes(_)));
        if told && before.is_some_and(|before| before.state == b'T' && !before.stops_as_told()) {
            waits = SigSet(waits.0 | Sig::STOP.bit());
        }
        for sig in [Sig::STOP, Sig::TSTP, Sig::TTIN, Sig::TTOU].into_iter().filter(|sig| waits.has(*sig)) {
            self.signalled(pid, &SigInfo::kill(sig, Pid::NONE, 0));
        }
    }

    /// The body of a process that stands here is stopped, or (`None`) is not. `turn` as in [`wire::node::ToNode::Stopped`].
    pub(crate) fn body_stopped(&mut self, pid: Pid, stopped: Option<Sig>, turn: Option<u64>) {
        if self.adopting.stops(pid, stopped) || self.starts.is_later(pid, Later::Stops(stopped)) {
            return;
        }
        if self.stands.get(pid).is_some_and(|stand| turn >= stand.turn) {
            self.mirror(pid, stopped);
        }
    }

    /// Lets a stand-in be as its body.
    pub(crate) fn mirror(&mut self, pid: Pid, stopped: Option<Sig>) {
        let Some(stand) = self.stands.get_mut(pid) else { return };
        stand.body_stopped = stopped;
        let (held, told) = (stand.held, matches!(stand.stance, Stance::Stops));
        // Then it is as its body again.
        if self.is_busy(pid) {
            return;
        }
        if matches!(held, Held::Killed | Held::Dying) {
            return;
        }
        if stopped.is_some() {
            self.stops_sending(pid);
        }
        if (stopped.is_none() || held == Held::Caught) && told {
            self.take_back_stop(pid);
        }
        if held == Held::Caught {
            self.held(pid, Held::Free);
            if stopped.is_none() {
                self.ghosts.wake(pid);
            }
            let runs_on = self.ghosts.interrupt(pid);
            if stopped.is_some() && !runs_on {
                return self.turn_stance(pid, Input::Sleeps);
            }
        }
        self.turn_stance(pid, Input::Body(stopped));
        if stopped.is_none() {
            self.is_hung_up_no_more(pid);
        }
    }

    /// It has been woken: if its parent here has not ended before, the kernel does not hang it up for that. If it has, that is on its way.
    fn is_hung_up_no_more(&mut self, pid: Pid) {
        let Some(stand) = self.stands.get_mut(pid).filter(|stand| stand.orphaned != SigSet(0)) else { return };
        let lives = |parent| kern::pending::read(parent).is_some_and(|now| !matches!(now.state, b'Z' | b'X'));
        if stand.native_parent() != Pid::INIT && lives(stand.native_parent()) {
            stand.orphaned = SigSet(0);
        }
    }

    fn take_back_stop(&mut self, pid: Pid) {
        if self.ghosts.take_back(pid, |command| matches!(command, Command::Stop(_))) {
            self.turn_stance(pid, Input::Over);
        }
    }

    /// It has taken the place of a process that was stopped, and has not run since.
    pub(crate) fn sleeps_in_place(&mut self, pid: Pid) {
        if let Some(stand) = self.stands.get_mut(pid) {
            stand.body_stopped = Some(Sig::STOP);
        }
        self.take_back_stop(pid);
        self.turn_stance(pid, Input::Sleeps);
        self.wakes_to_end(pid);
    }

    /// It is stopped: should it be to end, that is not to keep it from it.
    pub(crate) fn wakes_to_end(&mut self, pid: Pid) {
        if !self.end_goes_on(pid) && self.stands.get(pid).is_some_and(|stand| stand.ending) {
            self.rouse(pid);
        }
    }

    /// Must it run, whatever its body does: to become a process, or to make somebody or be made?
    fn is_busy(&self, pid: Pid) -> bool {
        self.moving.arrives(pid) || self.starts.awaits(pid)
    }

    /// It has done what it was to do for a start.
    pub(crate) fn no_more_busy(&mut self, pid: Pid) {
        let stopped = self.stands.get(pid).and_then(|stand| stand.body_stopped);
        if stopped.is_some() && !self.is_busy(pid) {
            self.mirror(pid, stopped);
        }
    }

    /// SIGSTOP waits for it, or has taken it, as it is for its body that has been told. It stops again, with that, when it has done what it is to do.
    pub(crate) fn rouse_if_busy(&mut self, pid: Pid) {
        if self.is_busy(pid) {
            self.rouse(pid);
        }
    }

    /// It has stopped. If it is to become a process that arrives, it does that all the same, and its parent is not to be told that it goes on; once it is told to
    /// become it that is seen to.
    pub(crate) fn has_stopped(&mut self, pid: Pid) {
        match self.moving.arrives(pid) {
            true if self.starts.in_place(pid) && !self.moving.is_roused(pid) => self.rouse_to_become(pid),
            true if self.starts.waits_to_become(pid) => self.next_start(),
            true => {}
            false => self.rouse_if_busy(pid),
        }
    }

    /// It is to do something for a start.
    pub(crate) fn rouse_to_obey(&mut self, pid: Pid) {
        if self.stands.get(pid).is_some_and(|stand| !stand.runs() || stand.held == Held::Caught) {
            self.rouse(pid);
        }
    }

    /// A stand-in reports the stop that it was told: it runs again, or has not stopped.
    pub(crate) fn stop_reported(&mut self, pid: Pid, sig: Sig, ret: i64) {
        let told = self.stands.get(pid).is_some_and(|stand| stand.stance == Stance::Stops);
        let input = match ret {
            ret if ret == -EAGAIN => Input::NotDone(sig),
            _ if told && self.moving.sleeps_on(pid) => Input::SleepsOn,
            _ => Input::Over,
        };
        self.turn_stance(pid, input);
    }

    /// It was stopped when it began to become a process that has not come, and is stopped as soon as its mover lets it go.
    pub(crate) fn sleeps_on(&mut self, pid: Pid) {
        self.turn_stance(pid, Input::SleepsOn);
    }

    /// Is it stopped, and its parent knows? A stop that it has not begun is taken back.
    pub(crate) fn sleeps(&mut self, pid: Pid) -> bool {
        if self.stands.get(pid).is_some_and(|stand| stand.stance == Stance::Stops) {
            self.take_back_stop(pid);
        }
        let stand = self.stands.get(pid).filter(|stand| stand.held == Held::Free);
        let sleeps = |stand: &Stand| matches!(stand.stance, Stance::Asleep | Stance::Stops);
        stand.is_some_and(sleeps) || stand.is_some() && kern::pending::read(pid).is_some_and(|now| now.state == b'T')
    }

    /// It must obey whatever it was told before. (Its parent may be told that it goes on.)
    pub(crate) fn rouse(&mut self, pid: Pid) {
        let ran = self.stands.get(pid).is_some_and(|stand| stand.runs() && stand.held == Held::Free);
        if self.stands.get(pid).is_some_and(|stand| stand.stance == Stance::Stops) {
            self.take_back_stop(pid);
        }
        if self.stands.get(pid).is_some_and(|stand| stand.held == Held::Caught) {
            // SIGCONT takes the SIGSTOP that waits away, before its hold is interrupted.
            self.held(pid, Held::Free);
            self.ghosts.wake(pid);
            self.ghosts.interrupt(pid);
        }
        self.turn_stance(pid, Input::Body(None));
        // Also one of which we do not know that it is stopped.
        if kern::pending::read(pid).is_some_and(|now| now.state == b'T') {
            self.wake(pid);
            if ran {
                self.signalled(pid, &SigInfo::kill(Sig::STOP, Pid::NONE, 0));
            }
        }
    }

    /// SIGSTOP waits for it, or has taken it: its body is to stop. It ran until then.
    pub(crate) fn stops_itself(&mut self, pid: Pid, taken: bool) {
        let asleep = self.stands.get(pid).is_some_and(|stand| stand.stance == Stance::Asleep);
        if taken && (asleep || self.moving.departs_now(pid)) {
            // It has taken the place of a process that was stopped.
            return self.turn_stance(pid, Input::Sleeps);
        }
        self.turn_stance(pid, if taken { Input::Sleeps } else { Input::Woken });
        self.signalled(pid, &SigInfo::kill(Sig::STOP, Pid::NONE, 0));
    }

    /// Is this the hangup of one that has lost its parent here, when it was stopped? Then it stops again, if its body is stopped yet.
    pub(crate) fn is_of_orphan(&mut self, pid: Pid, info: &SigInfo) -> bool {
        let by_kernel = info.code == SigInfo::SI_KERNEL;
        let Some(stand) = self.stands.get_mut(pid).filter(|stand| by_kernel && stand.orphaned.has(info.sig)) else {
            return false;
        };
        stand.orphaned.0 &= !info.sig.bit();
        let stopped = stand.body_stopped;
        if info.sig == Sig::CONT {
            self.turn_stance(pid, Input::Woken);
            self.turn_stance(pid, Input::Body(None));
            if stopped.is_some() {
                self.turn_stance(pid, Input::Body(stopped));
            }
        }
        true
    }

    /// It hands over a signal that stops or continues: so it runs.
    pub(crate) fn ran(&mut self, pid: Pid, sig: Sig) {
        self.turn_stance(pid, Input::Woken);
        self.was_woken(pid);
        let Some(stand) = self.stands.get_mut(pid) else { return };
        if stand.body_stopped.take().is_some() && sig != Sig::CONT && stand.runs() {
            // It was stopped. The SIGCONT that has woken it was discarded by this one (linux: `prepare_signal`).
            self.signalled(pid, &SigInfo::kill(Sig::CONT, Pid::NONE, 0));
        }
    }

    /// On a new link: what was sent on the old one may be lost, and is not answered then.
    pub(crate) fn stops_again(&mut self) {
        for pid in self.stands.pids() {
            let Some(stand) = self.stands.get_mut(pid) else { continue };
            stand.turn = None;
            if stand.held == Held::Caught {
                self.signalled(pid, &SigInfo::kill(Sig::STOP, Pid::NONE, 0));
            }
        }
    }
}

const EAGAIN: i64 = 11;

#[cfg(test)]
mod tests {
    use super::*;

    const STANCES: [Stance; 5] =
        [Stance::Runs, Stance::Asleep, Stance::Stops, Stance::Wakes(None), Stance::Wakes(Some(Sig::TSTP))];
    const STOP: Input = Input::Body(Some(Sig::STOP));
    const GO: Input = Input::Body(None);

    #[test]
    fn it_ends_up_as_its_body_is_whatever_it_was() {
        for stance in STANCES {
            let (stopped, _) = next(stance, STOP);
            let stopped = if matches!(stopped, Stance::Wakes(_)) { next(stopped, Input::Over).0 } else { stopped };
            assert!(matches!(stopped, Stance::Stops | Stance::Asleep), "{stance:?}");
            let (runs, _) = next(stance, GO);
            assert!(matches!(runs, Stance::Runs | Stance::Wakes(None)), "{stance:?}");
            assert_eq!(next(next(runs, Input::Over).0, Input::Over), (Stance::Runs, Act::Nothing), "{stance:?}");
        }
    }

    #[test]
    fn one_stop_is_under_way_at_a_time() {
        for stance in STANCES {
            let reports = [Input::Over, Input::NotDone(Sig::STOP), Input::SleepsOn];
            for input in [STOP, GO, Input::Woken, Input::Sleeps].into_iter().chain(reports) {
                let (after, act) = next(stance, input);
                let given = matches!(act, Act::Stop(_));
                let reported = matches!(input, Input::Over | Input::NotDone(_));
                assert!(!given || after == Stance::Stops, "{stance:?} {input:?}");
                assert!(!given || stance == Stance::Runs || reported, "{stance:?} {input:?}");
            }
        }
    }

    #[test]
    fn what_reports_its_stop_by_the_leave_of_a_mover_is_stopped_yet() {
        let (asleep, act) = next(Stance::Stops, Input::SleepsOn);
        assert_eq!((asleep, act), (Stance::Asleep, Act::Nothing));
        assert_eq!(next(asleep, STOP), (Stance::Asleep, Act::Nothing));
        assert_eq!(next(asleep, GO), (Stance::Runs, Act::Wake));
        assert_eq!(next(Stance::Wakes(None), Input::SleepsOn).1, Act::Nothing);
    }

    #[test]
    fn it_is_woken_only_when_it_is_stopped_or_will_be() {
        for stance in STANCES {
            let wakes = next(stance, GO).1 == Act::Wake;
            assert_eq!(wakes, matches!(stance, Stance::Asleep | Stance::Stops), "{stance:?}");
        }
    }
}
