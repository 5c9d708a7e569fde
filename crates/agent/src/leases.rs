//! The ranges of PIDs this node may use, and where the kernel's cursor is to be (docs/mechanisms.md, "Numbers").

use std::ops::Range;
use vocab::Pid;
use wire::node::Lease;

/// What has to be done after the kernel has given out a number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    Nothing,
    /// Half of the newest lease is used: ask for the next.
    Ask,
    /// Let the next fork take the first free number from here on.
    Move(Pid),
    /// The last move may be lost: make it again if the next fork would not take a number of the current range.
    Check,
    /// There is no other range that is not used yet: look which one to go on with ([`Leases::choose`]), while there is time.
    Look,
    /// The range ends soon, and nothing is known to go on with: look again, now ([`Leases::turn`]).
    Turn,
}

/// The leases of this node, oldest first; the kernel's cursor is in one of them.
///
/// | left in the current range | there is one that was never used | there is none |
/// |---|---|---|
/// | less than half | | the front end is asked for one |
/// | less than a quarter | the cursor goes there; what is left is used in later rounds | it is looked where most is free |
/// | less than the margin | | the cursor goes there, or no fork takes a number any more |
#[derive(Debug)]
pub(crate) struct Leases {
    all: Vec<Lease>,
    /// The one that the cursor is in.
    current: usize,
    /// From here on they have not been used.
    fresh: usize,
    /// The newest number given out in the current one.
    newest: Option<Pid>,
    asked: bool,
    looked: bool,
    /// Which one is next, where that had to be looked for.
    then: Option<usize>,
    /// Numbers that may have been given out and are not known here.
    unknown: i32,
}

/// Numbers left over at the end of a range when the cursor leaves it, beside those that records may keep to themselves: what can be forked until the
/// agent has read that. It reads within 36 us (docs/mechanisms.md, "Events"), a fork takes 10 us on each processor; but its loop may be busy for milliseconds.
const MARGIN: i32 = 1024;

fn size(lease: Lease) -> i32 {
    lease.last.0 - lease.first.0 + 1
}

impl Leases {
    /// None yet. So many forks may have happened before anybody is told ([`kern::perf::Records::untold`]).
    pub(crate) fn new(untold: usize) -> Leases {
        let unknown = i32::try_from(untold).unwrap_or(i32::MAX / 2);
        let (asked, looked) = (false, false);
        Leases { all: Vec::new(), current: 0, fresh: 0, newest: None, asked, looked, then: None, unknown }
    }

    fn margin(&self, lease: Lease) -> i32 {
        (MARGIN + self.unknown).min(size(lease) / 4)
    }

    pub(crate) fn all(&self) -> &[Lease] {
        &self.all
    }

    /// The numbers of all, oldest first; neighbours that follow each other are one range.
    pub(crate) fn ranges(&self) -> Vec<Range<i32>> {
        let mut ranges: Vec<Range<i32>> = Vec::new();
        for lease in &self.all {
            let (start, end) = (lease.first.0, lease.last.0 + 1);
            match ranges.last_mut().filter(|last| last.end == start) {
                Some(last) => last.end = end,
                None => ranges.push(start..end),
            }
        }
        ranges
    }

    /// Is this number one of ours to give out?
    pub(crate) fn has(&self, pid: Pid) -> bool {
        self.all.iter().any(|lease| lease.has(pid))
    }

    /// Takes over what a Welcome says, in place of all before. Where the cursor has to go, when the range that it is in is
    /// no longer ours.
    pub(crate) fn replace(&mut self, leases: Vec<Lease>) -> Option<Pid> {
        let at = self.all.get(self.current).copied();
        let used: Vec<Lease> = self.all.drain(..).take(self.fresh).collect();
        let (old, new): (Vec<Lease>, Vec<Lease>) = leases.into_iter().partition(|lease| used.contains(lease));
        (self.fresh, self.asked, self.then) = (old.len(), false, None);
        self.all = [old, new].concat();
        match at.and_then(|at| self.all.iter().position(|lease| *lease == at)) {
            Some(current) => {
                self.current = current;
                None
            }
            None => {
                self.enter(self.fresh.min(self.all.len().saturating_sub(1)));
                self.start()
            }
        }
    }

    /// Another lease has come.
    pub(crate) fn add(&mut self, lease: Lease) {
        self.asked = false;
        if !self.all.contains(&lease) {
            self.all.push(lease);
        }
    }

    /// Where the cursor begins, or goes on: numbers that were given out just now are not to come again so soon.
    pub(crate) fn start(&self) -> Option<Pid> {
        let lease = self.all.get(self.current)?;
        Some(self.newest.map_or(lease.first, |newest| Pid(newest.0 + 1)))
    }

    /// Does the number after `last` belong to the current range?
    pub(crate) fn goes_on_after(&self, last: Pid) -> bool {
        self.all.get(self.current).is_some_and(|lease| lease.has(Pid(last.0 + 1)))
    }

    fn enter(&mut self, current: usize) {
        self.current = current;
        self.fresh = self.fresh.max(current + 1);
        (self.newest, self.asked, self.looked, self.then) = (None, false, false, None);
    }

    fn go_to(&mut self, next: usize) -> Step {
        self.enter(next);
        self.all.get(next).map_or(Step::Turn, |lease| Step::Move(lease.first))
    }

    /// The kernel has given out `number` by itself. One at the end of another range was given out before the cursor was moved, or the move
    /// is lost ([`kern::proc::set_last_pid`]). Other numbers outside of the current range change nothing.
    pub(crate) fn given(&mut self, number: Pid) -> Step {
        let Some(&lease) = self.all.get(self.current) else { return Step::Nothing };
        if !lease.has(number) {
            let ends = |lease: &Lease| lease.has(number) && lease.last.0 - number.0 < size(*lease) / 4;
            return if self.all.iter().any(ends) { Step::Check } else { Step::Nothing };
        }
        self.newest = self.newest.max(Some(number));
        let (left, is_fresh) = (lease.last.0 - number.0, self.fresh < self.all.len());
        match () {
            () if left < size(lease) / 4 && is_fresh => self.go_to(self.fresh),
            () if left < self.margin(lease) => self.then.map_or(Step::Turn, |then| self.go_to(then)),
            () if left < size(lease) / 4 && !std::mem::replace(&mut self.looked, true) => Step::Look,
            () if left < size(lease) / 2 && !is_fresh && !std::mem::replace(&mut self.asked, true) => Step::Ask,
            () => Step::Nothing,
        }
    }

    /// The range with the most free numbers, of which so many are free that it is worth going there.
    fn freest(&self, used: &[Pid]) -> Option<usize> {
        let free = |lease: &Lease| size(*lease) - used.iter().filter(|pid| lease.has(**pid)).count() as i32;
        let (at, lease) = self.all.iter().enumerate().max_by_key(|(_, lease)| free(lease))?;
        (free(lease) > 2 * self.margin(*lease)).then_some(at)
    }

    /// Every range has been gone through once: notes where to go on when the current one ends. `used` are all numbers in use.
    pub(crate) fn choose(&mut self, used: &[Pid]) {
        self.then = self.freest(used);
    }

    /// The current range ends: goes on in the one with the most free numbers. `None`: none has enough, so no fork may take a number until
    /// one has, or a new lease comes.
    pub(crate) fn turn(&mut self, used: &[Pid]) -> Option<Pid> {
        let at = self.freest(used)?;
        self.enter(at);
        self.start()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(first: i32, last: i32) -> Lease {
        Lease { first: Pid(first), last: Pid(last) }
    }

    fn of(all: &[(i32, i32)]) -> Leases {
        let mut leases = Leases::new(0);
        leases.replace(all.iter().map(|(first, last)| lease(*first, *last)).collect());
        leases
    }

    #[test]
    fn the_next_lease_is_asked_for_once_at_half_and_used_when_a_quarter_is_left() {
        let mut leases = of(&[(1000, 1999)]);
        assert_eq!(leases.start(), Some(Pid(1000)));
        assert_eq!(leases.given(Pid(1499)), Step::Nothing);
        assert_eq!(leases.given(Pid(1500)), Step::Ask);
        assert_eq!(leases.given(Pid(1501)), Step::Nothing);
        assert_eq!(leases.given(Pid(77)), Step::Nothing);
        leases.add(lease(5000, 5999));
        assert_eq!(leases.given(Pid(1600)), Step::Nothing);
        assert_eq!(leases.given(Pid(1751)), Step::Move(Pid(5000)));
        assert_eq!(leases.given(Pid(1700)), Step::Nothing);
        assert_eq!(leases.given(Pid(1752)), Step::Check, "given out before the cursor was moved, or the move is lost");
        assert!(leases.goes_on_after(Pid(4999)) && !leases.goes_on_after(Pid(1753)));
        assert_eq!(leases.given(Pid(5003)), Step::Nothing);
        assert_eq!(leases.start(), Some(Pid(5004)), "5000 may have ended and is not to come again at once");
        assert_eq!(leases.given(Pid(5500)), Step::Ask);
        assert!(leases.has(Pid(1000)) && leases.has(Pid(5999)) && !leases.has(Pid(6000)));
    }

    #[test]
    fn leases_that_follow_each_other_are_one_range() {
        assert_eq!(
            of(&[(1000, 1999), (5000, 5999), (6000, 6999), (2000, 2999)]).ranges(),
            [1000..2000, 5000..7000, 2000..3000]
        );
    }

    #[test]
    fn without_a_next_lease_it_is_looked_in_time_where_most_is_free_and_nothing_is_entered_that_is_full() {
        let mut leases = of(&[(10_000, 19_999), (30_000, 39_999), (50_000, 59_999)]);
        assert_eq!(leases.given(Pid(17_501)), Step::Move(Pid(30_000)));
        assert_eq!(leases.given(Pid(37_501)), Step::Move(Pid(50_000)));
        assert_eq!([55_001, 57_501, 57_502].map(|n| leases.given(Pid(n))), [Step::Ask, Step::Look, Step::Nothing]);
        // The second is full: the cursor would leave it at once, for a number of somebody else's.
        let used: Vec<Pid> = (30_000..40_000).chain(50_000..58_000).map(Pid).collect();
        leases.choose(&used);
        assert_eq!(leases.given(Pid(58_975)), Step::Nothing);
        assert_eq!(leases.given(Pid(58_976)), Step::Move(Pid(10_000)));
        // Used before: no other is gone to unseen.
        assert_eq!([15_001, 17_501].map(|n| leases.given(Pid(n))), [Step::Ask, Step::Look]);
        leases.choose(&(10_000..60_000).map(Pid).collect::<Vec<_>>());
        assert_eq!(leases.given(Pid(18_976)), Step::Turn);
        leases.add(lease(70_000, 79_999));
        assert_eq!(leases.given(Pid(18_977)), Step::Move(Pid(70_000)));
    }

    #[test]
    fn it_goes_round_where_most_is_free_and_stops_when_nothing_is() {
        let mut leases = of(&[(1000, 1099), (2000, 2099)]);
        assert_eq!(leases.given(Pid(1080)), Step::Move(Pid(2000)));
        assert_eq!(leases.given(Pid(2050)), Step::Ask);
        assert_eq!(leases.given(Pid(2080)), Step::Turn);
        let used: Vec<Pid> = (2000..2090).chain(1000..1040).map(Pid).collect();
        assert_eq!(leases.turn(&used), Some(Pid(1000)));
        let used: Vec<Pid> = (2000..2090).chain(1000..1060).map(Pid).collect();
        assert_eq!(leases.turn(&used), None);
    }

    #[test]
    fn what_records_may_keep_to_themselves_is_left_over_too() {
        let mut leases = Leases::new(500);
        leases.replace(vec![lease(10_000, 19_999)]);
        assert_eq!([15_001, 18_000].map(|n| leases.given(Pid(n))), [Step::Ask, Step::Look]);
        assert_eq!(leases.given(Pid(18_475)), Step::Nothing);
        assert_eq!(leases.given(Pid(18_476)), Step::Turn);
    }

    #[test]
    fn a_reconnect_with_the_same_leases_changes_nothing_and_with_others_moves_the_cursor() {
        let mut leases = Leases::new(0);
        let both = || vec![lease(3000, 3999), lease(1000, 1999)];
        assert_eq!(leases.replace(both()), Some(Pid(3000)));
        assert_eq!(leases.given(Pid(3990)), Step::Move(Pid(1000)));
        let sorted = || vec![lease(1000, 1999), lease(3000, 3999)];
        assert_eq!(leases.replace(sorted()), None);
        assert_eq!(leases.given(Pid(1500)), Step::Ask, "both have been used");
        assert_eq!(leases.replace(vec![lease(3000, 3999), lease(7000, 7999)]), Some(Pid(7000)));
    }
}
