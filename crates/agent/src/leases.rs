//! The ranges of PIDs this node may use, and where the kernel's cursor is to be (DESIGN 4.1).

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
    /// The range ends soon, and there is no other: look which numbers are free again ([`Leases::turn`]).
    Turn,
}

/// The leases of this node, oldest first; the kernel's cursor is in one of them.
#[derive(Debug, Default)]
pub(crate) struct Leases {
    all: Vec<Lease>,
    /// The one that the cursor is in.
    current: usize,
    /// The newest number given out there.
    newest: Option<Pid>,
    asked: bool,
}

/// Numbers left over at the end of a range when the cursor leaves it: what can be forked until the agent has read that. It reads within
/// 36 us (GHOSTS.md, "Events"), a fork takes 10 us on each processor.
const MARGIN: i32 = 1024;

fn size(lease: Lease) -> i32 {
    lease.last.0 - lease.first.0 + 1
}

fn margin(lease: Lease) -> i32 {
    MARGIN.min(size(lease) / 4)
}

impl Leases {
    pub(crate) fn all(&self) -> &[Lease] {
        &self.all
    }

    /// Is this number one of ours to give out?
    pub(crate) fn has(&self, pid: Pid) -> bool {
        self.all.iter().any(|lease| lease.has(pid))
    }

    /// Takes over what a Welcome says, in place of all before. Where the cursor has to go, when the range that it is in is
    /// no longer ours.
    pub(crate) fn replace(&mut self, leases: Vec<Lease>) -> Option<Pid> {
        let at = self.all.get(self.current).copied();
        self.all = leases;
        self.asked = false;
        match at.and_then(|at| self.all.iter().position(|lease| *lease == at)) {
            Some(current) => {
                self.current = current;
                None
            }
            None => {
                self.enter(0);
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
        self.newest = None;
    }

    /// The kernel has given out `number` by itself. One at the end of another range was given out before the cursor was moved, or the move
    /// is lost ([`kern::proc::set_last_pid`]). Other numbers outside of the current range change nothing.
    pub(crate) fn given(&mut self, number: Pid) -> Step {
        let Some(&lease) = self.all.get(self.current) else { return Step::Nothing };
        let ends = |lease: &Lease| lease.has(number) && lease.last.0 - number.0 < margin(*lease);
        if !lease.has(number) {
            return if self.all.iter().any(ends) { Step::Check } else { Step::Nothing };
        }
        self.newest = self.newest.max(Some(number));
        if ends(&lease) {
            return match self.all.get(self.current + 1) {
                Some(next) => {
                    let first = next.first;
                    self.enter(self.current + 1);
                    Step::Move(first)
                }
                None => Step::Turn,
            };
        }
        let newest = self.current + 1 == self.all.len();
        if newest && !self.asked && number.0 - lease.first.0 >= size(lease) / 2 {
            self.asked = true;
            return Step::Ask;
        }
        Step::Nothing
    }

    /// Every range has been gone through once: goes on in the one with the most free numbers. `used` are all numbers in use. `None`: none has more
    /// free than its margin, so no fork may take a number until one has, or a new lease comes.
    pub(crate) fn turn(&mut self, used: &[Pid]) -> Option<Pid> {
        let free = |lease: &Lease| size(*lease) - used.iter().filter(|pid| lease.has(**pid)).count() as i32;
        let (at, lease) = self.all.iter().enumerate().max_by_key(|(_, lease)| free(lease))?;
        if free(lease) <= 2 * margin(*lease) {
            return None;
        }
        let first = lease.first;
        self.enter(at);
        Some(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(first: i32, last: i32) -> Lease {
        Lease { first: Pid(first), last: Pid(last) }
    }

    #[test]
    fn the_next_lease_is_asked_for_once_at_half_and_used_before_the_end() {
        let mut leases = Leases::default();
        leases.replace(vec![lease(1000, 1999)]);
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
    fn without_a_next_lease_it_goes_round_where_most_is_free_and_stops_when_nothing_is() {
        let mut leases = Leases::default();
        leases.replace(vec![lease(1000, 1099), lease(2000, 2099)]);
        assert_eq!(leases.given(Pid(1080)), Step::Move(Pid(2000)));
        leases.given(Pid(2050));
        assert_eq!(leases.given(Pid(2080)), Step::Turn);
        let used: Vec<Pid> = (2000..2090).chain(1000..1040).map(Pid).collect();
        assert_eq!(leases.turn(&used), Some(Pid(1000)));
        let used: Vec<Pid> = (2000..2090).chain(1000..1060).map(Pid).collect();
        assert_eq!(leases.turn(&used), None);
    }

    #[test]
    fn a_reconnect_with_the_same_leases_changes_nothing_and_with_others_moves_the_cursor() {
        let mut leases = Leases::default();
        assert_eq!(leases.replace(vec![lease(1000, 1999), lease(3000, 3999)]), Some(Pid(1000)));
        assert_eq!(leases.given(Pid(1990)), Step::Move(Pid(3000)));
        assert_eq!(leases.replace(vec![lease(1000, 1999), lease(3000, 3999)]), None);
        assert_eq!(leases.given(Pid(3500)), Step::Ask);
        assert_eq!(leases.replace(vec![lease(7000, 7999)]), Some(Pid(7000)));
    }
}
