//! Children here that end in the moment in which their parent ends elsewhere: that has not heard of it, and who takes its orphans is to be told.
//!
//! What stands here for a parent waits for its children as soon as they end, so that its process can be told. Has that ended before, the front end says of which
//! children it has not heard ([`wire::node::ToNode::Adopt`] of what is here), before it says that it has ended. From then on:
//!
//! | the child | |
//! |---|---|
//! | lives, or has not been waited for | its parent's stand-in waits for it no more; it ends, and this kernel gives the child to who takes its orphans |
//! | is being waited for | the end of the stand-in waits for the outcome |
//! | has been waited for | it is made once more for who takes it, and ends as it did ([`crate::adopting`]) |

use std::collections::{HashMap, VecDeque};
use vocab::{Exit, Pid};
use wire::event::Usage;
use wire::node::Kin;

/// For so long, in microseconds, it is known of which children stand-ins have told the ends: some round trips to the front end, on a busy machine.
const KNOWN_US: u64 = 10_000_000;
/// And of so many at most.
const KNOWN: usize = 4096;

/// A child for which a stand-in has waited.
#[derive(Debug)]
struct Waited {
    at_us: u64,
    child: Pid,
    by: Pid,
    end: (Exit, Usage),
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Unheard {
    waited: VecDeque<Waited>,
    /// By its number: an orphan, its former parent, and other kin.
    spared: HashMap<Pid, (Kin, Pid, Vec<Kin>)>,
}

impl Unheard {
    /// What stands for `by` has waited for `child`.
    pub(crate) fn waited(&mut self, by: Pid, child: Pid, end: (Exit, Usage), now_us: u64) {
        let is_old = |one: &Waited| one.at_us + KNOWN_US < now_us;
        while self.waited.len() >= KNOWN || self.waited.front().is_some_and(is_old) {
            self.waited.pop_front();
        }
        self.waited.push_back(Waited { at_us: now_us, child, by, end });
    }

    /// So has `child` ended, if what stands for `by` has waited for it.
    pub(crate) fn end(&mut self, by: Pid, child: Pid) -> Option<(Exit, Usage)> {
        let at = self.waited.iter().rposition(|one| one.child == child && one.by == by)?;
        self.waited.remove(at).map(|one| one.end)
    }

    /// What stands for `from` is not to wait for this one any more.
    pub(crate) fn spare(&mut self, kin: Kin, from: Pid, others: Vec<Kin>) {
        self.spared.insert(kin.person.pid, (kin, from, others));
    }

    pub(crate) fn is_spared(&self, child: Pid) -> bool {
        self.spared.contains_key(&child)
    }

    /// Is there a child for which what stands for `from` is not to wait?
    pub(crate) fn spares(&self, from: Pid) -> bool {
        self.spared.values().any(|(_, of, _)| *of == from)
    }

    /// It has been waited for all the same.
    pub(crate) fn take_spared(&mut self, child: Pid) -> Option<(Kin, Pid, Vec<Kin>)> {
        self.spared.remove(&child)
    }

    /// What stood for `from` is gone.
    pub(crate) fn is_gone(&mut self, from: Pid) {
        self.spared.retain(|_, (_, of, _)| *of != from);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vocab::{Creds, NodeId};
    use wire::event::Person;

    const S: Pid = Pid(10);

    #[test]
    fn the_newest_end_under_a_number_counts_and_is_known_for_a_while() {
        let mut unheard = Unheard::default();
        let end = |code| (Exit::Code(code), Usage::default());
        unheard.waited(S, Pid(11), end(1), 0);
        unheard.waited(S, Pid(11), end(2), 5);
        unheard.waited(Pid(20), Pid(12), end(3), KNOWN_US + 3);
        assert_eq!(unheard.end(S, Pid(12)), None);
        assert_eq!(unheard.end(S, Pid(11)), Some(end(2)));
        assert_eq!(unheard.end(S, Pid(11)), None, "the first is too old");
        assert_eq!(unheard.end(Pid(20), Pid(12)), Some(end(3)));
        (0..2 * KNOWN as i32).for_each(|pid| unheard.waited(S, Pid(100 + pid), end(0), 2 * KNOWN_US));
        assert_eq!((unheard.waited.len(), unheard.end(S, Pid(100))), (KNOWN, None));
    }

    #[test]
    fn children_are_spared_until_their_parent_is_gone_or_they_have_been_waited_for() {
        let mut unheard = Unheard::default();
        let of = |pid| {
            let creds = Creds::default();
            let person = Person { pid: Pid(pid), ppid: Pid(5), pgid: Pid(5), sid: Pid(5), creds, name: Vec::new() };
            Kin { person, node: NodeId(0) }
        };
        [11, 12].into_iter().for_each(|pid| unheard.spare(of(pid), S, Vec::new()));
        unheard.spare(of(21), Pid(20), Vec::new());
        assert!(unheard.spares(S) && unheard.is_spared(Pid(12)));
        assert!(unheard.take_spared(Pid(11)).is_some_and(|(_, from, _)| from == S));
        assert!(unheard.spares(S) && !unheard.is_spared(Pid(11)));
        unheard.is_gone(S);
        assert!(!unheard.spares(S) && !unheard.is_spared(Pid(12)) && unheard.spares(Pid(20)));
    }
}
