//! A signal for a group, as Ctrl-C, reaches each of its processes here apart. Natively all have it at one moment: a shell that waits for its command,
//! and handles the signal, never sees the command's death before its own signal. So a parent gets it first, and its children when it has.

use std::collections::{HashMap, VecDeque};
use vocab::{Pid, Sig, SigInfo};

/// How long a child's signal waits for its parent's, in microseconds. One of kill(2) may be for the child alone, and then waits for nothing; but the
/// parent's stand-in tells of its own when a processor runs it, which takes 20 ms where they are busy.
const PATIENCE_US: u64 = 50_000;

/// A parent of so many does not wait for one of them as a shell does for its command, and theirs would be much work: children that end before
/// their parents are less ([`crate::volley`]).
pub(crate) const MANY_CHILDREN: usize = 32;

/// Who has had a signal so long ago, in microseconds, has had another one.
const LATELY_US: u64 = 100_000;

/// A ghost that was made in time has the signal too; what it brings so soon after, in microseconds, is the same one.
const SAME_US: u64 = 100_000;

/// From a fork, and from when the front end shows it, until its ghost has surely been there for any signal that comes, in microseconds.
const NEW_US: u64 = 100_000;

/// The signals that end programs which do not handle them, and that are sent to groups.
const ENDING: [Sig; 4] = kern::relay::ENDING;

/// Is it one for a group that hit a ghost while that was being forked? The kernel leaves such a one pending in the child without saying who sent it (linux:
/// `copy_process`, `delayed.signal`).
pub(crate) fn is_left_by_fork(info: &SigInfo) -> bool {
    info.code == SigInfo::SI_USER
        && info.pid == Pid::NONE
        && [Sig::HUP, Sig::INT, Sig::QUIT, Sig::TSTP].contains(&info.sig)
}

/// Who has had which of them lately.
#[derive(Debug, Default)]
pub(crate) struct Elders {
    /// [`SigInfo::count`] of the newest signal that came for each.
    pub(crate) counts: HashMap<Pid, u32>,
    had: HashMap<(Pid, Sig), u64>,
    /// The same by time.
    order: VecDeque<(u64, Pid, Sig)>,
    /// Children whose turn it is.
    pub(crate) next: Vec<Pid>,
    pub(crate) reached: Reached,
    /// Who has had a terminal's.
    pub(crate) struck: Reached,
    pub(crate) births: Births,
}

impl Elders {
    /// `pid` has been given `sig`.
    pub(crate) fn given(&mut self, pid: Pid, sig: Sig, now_us: u64) {
        if !ENDING.contains(&sig) {
            return;
        }
        while let Some((at, pid, sig)) = self.order.front().copied().filter(|(at, ..)| at + LATELY_US < now_us) {
            self.order.pop_front();
            if self.had.get(&(pid, sig)) == Some(&at) {
                self.had.remove(&(pid, sig));
            }
        }
        self.had.insert((pid, sig), now_us);
        self.order.push_back((now_us, pid, sig));
    }

    /// Has it been given that lately?
    pub(crate) fn has_had(&self, pid: Pid, sig: Sig, now_us: u64) -> bool {
        self.had.get(&(pid, sig)).is_some_and(|at| at + LATELY_US >= now_us)
    }

    /// How long this signal for a child waits for its `parent`, of the same group; `None`: not at all.
    pub(crate) fn patience_us(&self, parent: Pid, info: &SigInfo, now_us: u64) -> Option<u64> {
        let may_be_a_groups = [SigInfo::SI_KERNEL, SigInfo::SI_USER].contains(&info.code) && ENDING.contains(&info.sig);
        (may_be_a_groups && !self.has_had(parent, info.sig, now_us)).then_some(PATIENCE_US)
    }
}

/// Who has had which signal with its parent, and when.
#[derive(Debug, Default)]
pub(crate) struct Reached {
    had: HashMap<(Pid, Sig), u64>,
    /// When what is over is thrown away next.
    clean_us: u64,
}

impl Reached {
    pub(crate) fn note(&mut self, pid: Pid, sig: Sig, now_us: u64) {
        if now_us >= self.clean_us {
            self.had.retain(|_, at| *at + SAME_US >= now_us);
            self.clean_us = now_us + SAME_US;
        }
        self.had.insert((pid, sig), now_us);
    }

    /// Those of [`ENDING`] that it has had.
    pub(crate) fn all(&self, pid: Pid, now_us: u64) -> Vec<Sig> {
        if self.had.is_empty() {
            return Vec::new();
        }
        let lately = |sig: &Sig| self.had.get(&(pid, *sig)).is_some_and(|at| at + SAME_US >= now_us);
        ENDING.into_iter().filter(lately).collect()
    }

    /// Has it had what comes now? Once.
    pub(crate) fn has(&mut self, pid: Pid, sig: Sig, now_us: u64) -> bool {
        !self.had.is_empty() && self.had.remove(&(pid, sig)).is_some_and(|at| at + SAME_US >= now_us)
    }
}

/// Who has forked whom lately, whatever has become of either since: an orphan is found by the parent that has ended.
#[derive(Debug, Default)]
pub(crate) struct Births {
    /// By forker: its group then, and its children.
    forks: HashMap<Pid, (Pid, Vec<Birth>)>,
    /// When what is over is thrown away next.
    clean_us: u64,
    /// When the front end has shown how many changes, oldest first; and how many of them long ago.
    shown: VecDeque<(u64, u64)>,
    shown_long: u64,
}

#[derive(Clone, Copy, Debug)]
struct Birth {
    at_us: u64,
    child: Pid,
    /// Which of the changes that are told ([`crate::events`]) it is, or a later one.
    change: u64,
}

impl Birth {
    fn is_new(&self, shown_long: u64, now_us: u64) -> bool {
        self.at_us + NEW_US >= now_us || self.change > shown_long
    }
}

impl Births {
    /// `change`: how many changes there are, with this one.
    pub(crate) fn note(&mut self, forker: Pid, group: Pid, child: Pid, change: u64, now_us: u64) {
        if now_us >= self.clean_us {
            let shown_long = self.shown_long(now_us);
            self.forks.retain(|_, (_, children)| {
                children.retain(|birth| birth.is_new(shown_long, now_us));
                !children.is_empty()
            });
            self.clean_us = now_us + NEW_US;
        }
        let (before, children) = self.forks.entry(forker).or_default();
        *before = group;
        children.push(Birth { at_us: now_us, child, change });
    }

    /// The front end shows so many changes by now.
    pub(crate) fn are_shown(&mut self, changes: u64, now_us: u64) {
        self.shown_long(now_us);
        self.shown.push_back((now_us, changes));
    }

    fn shown_long(&mut self, now_us: u64) -> u64 {
        while let Some((_, changes)) = self.shown.pop_front_if(|(at, _)| *at + NEW_US < now_us) {
            self.shown_long = changes;
        }
        self.shown_long
    }

    /// Whom it has forked lately.
    pub(crate) fn of(&mut self, forker: Pid, now_us: u64) -> Vec<Pid> {
        let shown_long = self.shown_long(now_us);
        let Some((_, children)) = self.forks.get(&forker) else { return Vec::new() };
        children.iter().filter(|birth| birth.is_new(shown_long, now_us)).map(|birth| birth.child).collect()
    }

    /// The group that it was in when it forked lately; `NONE` if it has not.
    pub(crate) fn group(&self, forker: Pid) -> Pid {
        self.forks.get(&forker).map_or(Pid::NONE, |(group, _)| *group)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const P: Pid = Pid(7);

    fn info(sig: Sig, code: i32) -> SigInfo {
        SigInfo { code, ..SigInfo::kill(sig, Pid(1), 0) }
    }

    #[test]
    fn a_signal_waits_for_the_parents_and_not_for_one_that_it_has() {
        let mut elders = Elders::default();
        let ctrl_c = info(Sig::INT, SigInfo::SI_KERNEL);
        assert_eq!(elders.patience_us(P, &ctrl_c, 0), Some(PATIENCE_US));
        let left = SigInfo { pid: Pid::NONE, ..info(Sig::INT, SigInfo::SI_USER) };
        assert_eq!(elders.patience_us(P, &left, 0), Some(PATIENCE_US), "a group's, too");
        elders.given(P, Sig::INT, 0);
        assert_eq!(elders.patience_us(P, &ctrl_c, LATELY_US), None);
        assert_eq!(elders.patience_us(P, &info(Sig::TERM, SigInfo::SI_USER), 0), Some(PATIENCE_US));
        assert_eq!(elders.patience_us(P, &ctrl_c, LATELY_US + 1), Some(PATIENCE_US));
        elders.given(P, Sig::INT, LATELY_US + 1);
        assert_eq!((elders.had.len(), elders.order.len()), (1, 1), "what is old is forgotten");
    }

    #[test]
    fn what_is_for_one_process_alone_waits_for_nobody() {
        let elders = Elders::default();
        for (sig, code) in [
            (Sig::KILL, SigInfo::SI_USER),
            (Sig::USR1, SigInfo::SI_USER),
            (Sig::INT, SigInfo::SI_QUEUE),
            (Sig::INT, SigInfo::SI_TKILL),
        ] {
            assert_eq!(elders.patience_us(P, &info(sig, code), 0), None);
        }
    }

    #[test]
    fn what_came_with_the_parents_is_given_once() {
        let mut reached = Reached::default();
        reached.note(Pid(7), Sig::INT, 10);
        assert_eq!((reached.all(Pid(7), 20), reached.all(Pid(8), 20)), (vec![Sig::INT], vec![]));
        assert!(reached.all(Pid(7), 11 + SAME_US).is_empty());
        assert!(!reached.has(Pid(7), Sig::QUIT, 20) && !reached.has(Pid(8), Sig::INT, 20));
        assert!(reached.has(Pid(7), Sig::INT, 20));
        assert!(!reached.has(Pid(7), Sig::INT, 30), "another one");
        reached.note(Pid(7), Sig::INT, 10);
        assert!(!reached.has(Pid(7), Sig::INT, 11 + SAME_US), "that is over");
    }

    #[test]
    fn who_is_not_shown_yet_is_new_however_long_that_takes() {
        let mut births = Births::default();
        births.note(P, P, Pid(8), 1, 0);
        births.note(P, P, Pid(9), 2, 0);
        assert_eq!(births.of(P, 10 * NEW_US), [Pid(8), Pid(9)]);
        births.are_shown(1, 10 * NEW_US);
        assert_eq!(births.of(P, 11 * NEW_US), [Pid(8), Pid(9)], "a signal may be under way");
        assert_eq!(births.of(P, 11 * NEW_US + 1), [Pid(9)]);
        births.are_shown(2, 12 * NEW_US);
        births.note(P, P, Pid(10), 3, 14 * NEW_US);
        assert_eq!(births.of(P, 14 * NEW_US), [Pid(10)]);
    }
}
