//! Stand-ins that were answered, made or expected, and do not come to hold: SIGSTOP took them on the way, or they ended without the hold file.
//!
//! One that is told to stop is away by our will, until [`Ghosts::wake`]. A SIGCONT takes away also a SIGSTOP that comes for what was done after (linux:
//! `prepare_signal`), so it gets no more of them than it needs: one when it was stopped, and then all is over that it was told; else, should it stop by
//! what it was told all the same, one more. Any other stop is news.

use crate::command::Command;
use crate::life::State;
use crate::table::{Ghost, Ghosts, Happened};
use kern::pending::Pending;
use kern::standin::Hold;
use std::collections::BTreeSet;
use tracing::{debug, trace};
use vocab::{Pid, Sig, SigInfo};

/// A stand-in that was answered and is not back after this many microseconds may have stopped without telling.
const LATE_US: u64 = 5_000;
/// One that is still away is looked at again when it has been away twice as long, but after this many microseconds at the latest.
const PATIENCE_US: u64 = 500_000;
/// So many are looked at in one go. When thousands are late the machine is busy, and most of them are back by the time it is their turn.
const LOOKS: usize = 32;

/// Who is to be looked at when (monotonic, in microseconds), and since when it has been away.
#[derive(Debug, Default)]
pub(crate) struct Late(BTreeSet<(u64, Pid, u64)>);

impl Late {
    /// `pid` is away since `now_us`.
    pub(crate) fn went(&mut self, pid: Pid, now_us: u64) {
        self.0.insert((now_us + LATE_US, pid, now_us));
    }

    fn still_away(&mut self, pid: Pid, since_us: u64, now_us: u64) {
        self.0.insert((now_us + now_us.saturating_sub(since_us).clamp(LATE_US, PATIENCE_US), pid, since_us));
    }

    fn next_due(&mut self, now_us: u64) -> Option<(Pid, u64)> {
        let (due, ..) = self.0.first()?;
        (*due <= now_us).then(|| self.0.pop_first())?.map(|(_, pid, since_us)| (pid, since_us))
    }
}

/// Is one to wake from the [`Command::Stop`] that it does?
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wakes {
    No,
    /// It was not stopped when SIGCONT was sent: it may be yet, and is continued again then.
    Will,
    /// It was, and was continued.
    Has,
}

/// What a look at one that is stopped, and is away, means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Sleep {
    /// It does what it was told, and is not to any more.
    Stale,
    /// A SIGSTOP of its own.
    Own,
}

impl Wakes {
    fn sleep(self, now: &Pending) -> Sleep {
        match self {
            Wakes::Will if now.stops_as_told() => Sleep::Stale,
            Wakes::No | Wakes::Will | Wakes::Has => Sleep::Own,
        }
    }
}

impl Ghosts {
    /// By a SIGCONT of ours, to the thread: one of somebody else that waits for the process is not taken for it. Says what there was before.
    pub fn wake(&mut self, pid: Pid) -> Option<Pending> {
        let before = kern::pending::read(pid);
        if let Err(errno) = kern::signal::send_to_main_thread(pid, Sig::CONT) {
            debug!(%pid, errno, "a stand-in cannot be continued");
        }
        let stopped = before.is_some_and(|now| now.state == b'T');
        trace!(%pid, ?before, "woken");
        if let Some(ghost) = self.ghosts.get_mut(&pid).filter(|ghost| ghost.state == State::Away) {
            if ghost.is_to_stop() {
                ghost.wakes = if stopped { Wakes::Has } else { Wakes::Will };
            }
            // Also if it was seen to be stopped: it may stop again before it holds.
            self.went_away(pid);
        }
        before
    }

    /// It has stopped after it was woken, as it had been told before. What waits for it came since.
    fn wake_again(&mut self, pid: Pid, happened: &mut Vec<Happened>) {
        let waits = self.wake(pid).map(|before| before.shared).unwrap_or_default();
        for sig in [Sig::STOP, Sig::TSTP, Sig::TTIN, Sig::TTOU].into_iter().filter(|sig| waits.has(*sig)) {
            happened.push(Happened::Signal { pid, info: SigInfo::kill(sig, Pid::NONE, 0) });
        }
    }

    /// Looks after stand-ins that were answered, or made, and do not hold yet; to be called at [`Ghosts::late_at`], or up to a few
    /// milliseconds later, so that many are looked after at once.
    pub fn look_after(&mut self, now_us: u64, happened: &mut Vec<Happened>) {
        let mut looks = 0;
        while looks < LOOKS {
            let Some((pid, since_us)) = self.late.next_due(now_us) else { return };
            let Some(ghost) = self.ghosts.get_mut(&pid).filter(|ghost| ghost.is_late(since_us)) else { continue };
            looks += 1;
            let now = kern::pending::read(pid);
            match now.map(|now| (now.state, ghost.wakes.sleep(&now))) {
                Some((b'T', Sleep::Stale)) => self.wake_again(pid, happened),
                Some((b'T', Sleep::Own)) => {
                    if std::mem::replace(&mut ghost.state, State::Away) == State::Coming {
                        ghost.stopped_early = !ghost.blocks;
                        happened.push(Happened::Held { pid });
                    }
                    happened.push(Happened::StoppedItself { pid });
                }
                // A daemon that has no descriptor left for a moment cannot read how it is.
                None if kern::proc::exists(pid) => self.late.still_away(pid, since_us, now_us),
                // The kernel ends nobody in the exit gate before we have answered.
                None | Some((b'Z' | b'X', _)) => self.ended_unseen(pid, happened),
                _ => self.late.still_away(pid, since_us, now_us),
            }
        }
    }

    /// It holds. If it stopped on the way to its first hold, somebody has continued it since, and the kernel may have discarded that SIGCONT
    /// (linux: `sig_ignored`, kernel/signal.c): one that waits will be handed over, or is with this hold. Behind another signal there may be one yet.
    pub(crate) fn runs_again(&mut self, pid: Pid, hold: &Hold, happened: &mut Vec<Happened>) {
        let Some(ghost) = self.ghosts.get_mut(&pid).filter(|ghost| ghost.stopped_early) else { return };
        let with = ghost.news(hold).map(|info| info.sig);
        let waits = self.pending.read(pid);
        if with.is_none() && waits.is_some_and(|now| now.traced) {
            // It runs by the leave of its mover, and is stopped for everybody else.
            return;
        }
        ghost.stopped_early = with.is_some_and(|sig| sig != Sig::CONT);
        if with.is_none() && !waits.is_some_and(|now| now.signals.has(Sig::CONT)) {
            happened.push(Happened::Signal { pid, info: SigInfo::kill(Sig::CONT, Pid::NONE, 0) });
        }
    }

    /// When [`Ghosts::look_after`] has something to do next (monotonic, in microseconds).
    pub fn late_at(&self) -> Option<u64> {
        self.late.0.first().map(|(due_us, ..)| *due_us)
    }
}

impl Ghost {
    fn is_to_stop(&self) -> bool {
        matches!(self.working, Some((_, Command::Stop(_), _)))
    }

    /// Is it away since then, and not because it is told to stop?
    fn is_late(&self, since_us: u64) -> bool {
        let told = self.is_to_stop() && self.wakes == Wakes::No;
        matches!(self.state, State::Coming | State::Away) && self.away_since_us == since_us && !told && !self.drains()
    }

    /// Has it been told to end, and may wait until its program's output is out? If its terminal or a user stops it, it is theirs to continue.
    /// (Only the first of an address space relays. SIGKILL has stopped waiting.)
    fn drains(&self) -> bool {
        let ends = match self.working {
            Some((_, Command::Exit(_), _)) => true,
            Some((_, Command::Die { sig, .. }, _)) => sig != Sig::KILL,
            _ => false,
        };
        ends && self.slot == Some(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kern::standin::RawInfo;
    use std::process::{Child, Command as Program};
    use zerocopy::FromZeros;

    /// One that `ghosts` were told of as cloned by a stand-in 1 of ours, and that has not held.
    fn cloned(ghosts: &mut Ghosts) -> (Child, Pid) {
        let child = Program::new("sleep").arg("100").spawn().expect("sleep(1)");
        let (maker, pid) = (Pid::INIT, Pid(child.id() as i32));
        ghosts.families.insert(1, crate::family::Family::ours(8));
        let clone = Command::Clone { pid, sibling: false, name: crate::command::Name::default() };
        ghosts.ghosts.insert(pid, Ghost::coming(1, None));
        let mut makes = Ghost::coming(1, Some(0));
        makes.working = Some((7, clone, Some(1)));
        ghosts.ghosts.insert(maker, makes);
        let mut happened = Vec::new();
        ghosts.note_done(maker, &Hold { done: 7, ret: pid.0.into(), ..Hold::new_zeroed() }, &mut happened);
        assert!(matches!(happened[..], [Happened::Done { .. }]), "{happened:?}");
        (child, pid)
    }

    fn stop(pid: Pid) {
        kern::signal::send(pid, vocab::Sig::STOP).expect("my child");
        let until = kern::pending::now_us() + 5_000_000;
        while kern::pending::read(pid).map(|p| p.state) != Some(b'T') {
            assert!(kern::pending::now_us() < until, "it stops");
        }
    }

    #[test]
    fn one_that_stops_before_its_first_hold_is_found_whenever_it_does() {
        for looks_before in [0, 3] {
            let mut ghosts = Ghosts::adopt(kern::sys::memory_file(b"").expect("a descriptor"));
            let (mut child, pid) = cloned(&mut ghosts);
            let mut happened = Vec::new();
            for _ in 0..looks_before {
                let due = ghosts.late_at().expect("it has not held");
                ghosts.look_after(due, &mut happened);
                assert!(happened.is_empty() && ghosts.late_at().is_some_and(|next| next > due), "{happened:?}");
            }
            stop(pid);
            let due = ghosts.late_at().expect("it has not held");
            ghosts.look_after(due - 1, &mut happened);
            assert!(happened.is_empty(), "{happened:?}");
            ghosts.look_after(due, &mut happened);
            assert!(
                matches!(happened[..], [Happened::Held { pid: a }, Happened::StoppedItself { pid: b }] if a == pid && b == pid),
                "{happened:?}"
            );
            assert_eq!(ghosts.late_at(), None);
            child.kill().and_then(|()| child.wait()).expect("my child");
        }
    }

    /// Whether the kernel has discarded the SIGCONT, or it comes with the first hold, or behind another signal.
    #[test]
    fn one_that_is_continued_before_its_first_hold_is_told_as_continued_once() {
        let handed: [(&[Sig], &[Sig]); 4] = [
            (&[], &[Sig::CONT]),
            (&[Sig::CONT], &[Sig::CONT]),
            (&[Sig::USR1], &[Sig::USR1, Sig::CONT]),
            (&[Sig::USR1, Sig::CONT], &[Sig::USR1, Sig::CONT]),
        ];
        for (over, expected) in handed {
            let mut ghosts = Ghosts::adopt(kern::sys::memory_file(b"").expect("a descriptor"));
            let (mut child, pid) = cloned(&mut ghosts);
            stop(pid);
            let mut happened = Vec::new();
            ghosts.look_after(ghosts.late_at().expect("it has not held"), &mut happened);
            kern::signal::send(pid, Sig::CONT).expect("my child");
            happened.clear();
            for at in 0..over.len() + 2 {
                let mut hold = Hold { slot: 1, slots: 8, ..Hold::new_zeroed() };
                if let Some(sig) = over.get(at) {
                    (hold.signals, hold.seq) = (Hold::OPEN, at as u32 + 1);
                    hold.info = RawInfo { signo: i32::from(sig.number()), pid: 1, ..RawInfo::new_zeroed() };
                }
                ghosts.holds(2 * at as u64 + 2, pid, 1, &hold, &mut happened);
            }
            let told = |one: &Happened| match one {
                Happened::Signal { info, .. } => Some(info.sig),
                _ => None,
            };
            assert_eq!(happened.iter().filter_map(told).collect::<Vec<_>>(), expected, "{over:?}");
            child.kill().and_then(|()| child.wait()).expect("my child");
        }
    }

    /// As its mover has it run, it is traced.
    #[test]
    fn one_that_runs_by_the_leave_of_a_tracer_is_not_told_as_continued() {
        let mut ghosts = Ghosts::adopt(kern::sys::memory_file(b"").expect("a descriptor"));
        let (mut child, pid) = cloned(&mut ghosts);
        stop(pid);
        let mut happened = Vec::new();
        ghosts.look_after(ghosts.late_at().expect("it has not held"), &mut happened);
        happened.clear();
        let hold = Hold { slot: 1, slots: 8, ..Hold::new_zeroed() };
        std::thread::scope(|scope| {
            let ((tell, told), (done, over)) = (std::sync::mpsc::channel(), std::sync::mpsc::channel::<()>());
            scope.spawn(move || {
                kern::ptrace::seize(pid, false, false).expect("my child");
                tell.send(()).expect("it is waited for");
                over.recv().expect_err("the other end goes");
            });
            told.recv().expect("it is traced");
            ghosts.holds(2, pid, 1, &hold, &mut happened);
            drop(done);
        });
        assert!(!happened.iter().any(|one| matches!(one, Happened::Signal { .. })), "{happened:?}");
        child.kill().and_then(|()| child.wait()).expect("my child");
    }

    #[test]
    fn one_that_stops_on_its_way_out_is_left_alone_unless_it_was_killed() {
        let exit = |sig: Option<Sig>| sig.map_or(Command::Exit(0), |sig| Command::Die { sig, core: false });
        for (sig, slot, left) in
            [(None, 0, true), (Some(Sig::TERM), 0, true), (Some(Sig::KILL), 0, false), (None, 1, false)]
        {
            let mut ghost = Ghost::coming(1, Some(slot));
            (ghost.state, ghost.working) = (State::Away, Some((7, exit(sig), None)));
            assert_eq!(ghost.is_late(ghost.away_since_us), !left, "{sig:?} {slot}");
        }
    }

    /// It gets SIGCONT when it is told to wake, and once more if it was not stopped then and stops as it was told.
    #[test]
    fn a_stop_after_it_was_woken_is_its_own_unless_it_was_told_that_before() {
        let told = [(true, true, true), (false, false, true), (false, true, false)].map(|case| (true, case));
        for (is_told, (was_stopped, blocks, own)) in told.into_iter().chain([(false, (true, false, true))]) {
            let mut ghosts = Ghosts::adopt(kern::sys::memory_file(b"").expect("a descriptor"));
            let mut program = Program::new("env");
            program.args(if blocks { &["--block-signal=HUP"][..] } else { &[] });
            let mut child = program.args(["sleep", "100"]).spawn().expect("env(1)");
            let pid = Pid(child.id() as i32);
            let blocked = || kern::pending::read(pid).is_some_and(|now| now.stops_as_told());
            let until = kern::pending::now_us() + 5_000_000;
            while blocked() != blocks {
                assert!(kern::pending::now_us() < until, "it begins");
            }
            let mut ghost = Ghost::coming(1, Some(1));
            ghost.state = State::Away;
            ghost.working = is_told.then_some((7, Command::Stop(Sig::STOP), None));
            ghosts.ghosts.insert(pid, ghost);
            if was_stopped {
                stop(pid);
            }
            ghosts.wake(pid);
            stop(pid);
            let mut happened = Vec::new();
            ghosts.look_after(ghosts.late_at().expect("it is to wake"), &mut happened);
            let told = matches!(happened[..], [Happened::StoppedItself { pid: who }] if who == pid);
            assert_eq!(told, own, "{was_stopped} {blocks} {happened:?}");
            assert_eq!(kern::pending::read(pid).map(|now| now.state) == Some(b'T'), own, "{was_stopped} {blocks}");
            assert_eq!(ghosts.late_at().is_none(), own, "whether it wakes is seen");
            child.kill().and_then(|()| child.wait()).expect("my child");
        }
    }

    #[test]
    fn one_that_ends_before_it_holds_dies_like_one_that_has() {
        for expected in [false, true] {
            let mut ghosts = Ghosts::adopt(kern::sys::memory_file(b"").expect("a descriptor"));
            let (mut child, pid) = match expected {
                false => cloned(&mut ghosts),
                true => {
                    let child = Program::new("sleep").arg("100").spawn().expect("sleep(1)");
                    let pid = Pid(child.id() as i32);
                    ghosts.expect(pid);
                    (child, pid)
                }
            };
            child.kill().and_then(|()| child.wait()).expect("my child");
            let mut happened = Vec::new();
            ghosts.look_after(kern::pending::now_us() + LATE_US, &mut happened);
            assert!(matches!(happened[..], [Happened::Dying { pid: dying }] if dying == pid), "{happened:?}");
            happened.clear();
            ghosts.release(pid, &mut happened);
            assert!(matches!(happened[..], [Happened::Gone { .. }]) && !ghosts.has(pid), "{happened:?}");
        }
    }

    #[test]
    fn one_that_is_long_away_is_looked_at_ever_less_often_but_always_again() {
        let mut late = Late::default();
        late.went(Pid(7), 1_000_000);
        let mut waits = Vec::new();
        let mut now = 1_000_000;
        for _ in 0..10 {
            let due = late.0.first().expect("it is away").0;
            waits.push(due - now);
            now = due;
            assert_eq!(late.next_due(now - 1), None);
            let (pid, since_us) = late.next_due(now).expect("it is due");
            late.still_away(pid, since_us, now);
        }
        assert_eq!(waits, [5, 5, 10, 20, 40, 80, 160, 320, 500, 500].map(|ms| ms * 1000));
    }
}
