//! A signal for a whole group, as Ctrl-C, of which each process is told apart. Most will end; those that end before their parent does are looked
//! at when it has ended too, or has not in time: then our wait tells of them, which costs a tenth of a look into /proc.

use std::collections::BTreeSet;
use vocab::{Pid, Sig};

/// So many that have ended make it worth while.
const MANY: usize = 32;
/// So long after the last of the group was signalled, in microseconds.
const PATIENCE_US: u64 = 1_000_000;

/// The last group that was signalled, and its processes that have ended before their parents.
#[derive(Debug, Default)]
pub(crate) struct Volley {
    group: Pid,
    until_us: u64,
    waiting: BTreeSet<Pid>,
}

impl Volley {
    /// The kernel of the front end has sent `sig` to a process of `group`.
    pub(crate) fn hit(&mut self, group: Pid, sig: Sig, now_us: u64) {
        if [Sig::INT, Sig::QUIT, Sig::HUP].contains(&sig) {
            (self.group, self.until_us) = (group, now_us + PATIENCE_US);
        }
    }

    /// The group whose ended processes wait for their parents, when `count` more have ended.
    pub(crate) fn waits(&self, count: usize, now_us: u64) -> Option<Pid> {
        (count + self.waiting.len() >= MANY && now_us < self.until_us).then_some(self.group)
    }

    pub(crate) fn add(&mut self, pid: Pid) {
        self.waiting.insert(pid);
    }

    /// It waits no more. Did it?
    pub(crate) fn remove(&mut self, pid: Pid) -> bool {
        self.waiting.remove(&pid)
    }

    /// When [`Volley::over`] is to be called at the latest.
    pub(crate) fn due_us(&self) -> Option<u64> {
        (!self.waiting.is_empty()).then_some(self.until_us)
    }

    /// Nobody waits any more: those that did.
    pub(crate) fn over(&mut self) -> BTreeSet<Pid> {
        std::mem::take(self).waiting
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_of_the_group_wait_and_not_for_ever() {
        let mut volley = Volley::default();
        assert_eq!(volley.waits(MANY, 0), None);
        volley.hit(Pid(7), Sig::TERM, 10);
        assert_eq!(volley.waits(MANY, 10), None);
        volley.hit(Pid(7), Sig::INT, 10);
        assert_eq!(volley.waits(MANY - 1, 10), None);
        assert_eq!(volley.waits(MANY, 9 + PATIENCE_US), Some(Pid(7)));
        assert_eq!(volley.waits(MANY, 10 + PATIENCE_US), None);
        assert_eq!(volley.due_us(), None);
        volley.add(Pid(8));
        assert_eq!(volley.waits(MANY - 1, 10), Some(Pid(7)));
        assert_eq!(volley.due_us(), Some(10 + PATIENCE_US));
        assert_eq!(volley.over(), [Pid(8)].into());
        assert_eq!(volley.waits(MANY, 10), None);
    }
}
