//! Stand-ins that share one address space, and which of its slots are taken.

/// One address space: that of a `shoal run`, or of a node's agent.
#[derive(Debug, Default)]
pub(crate) struct Family {
    /// Slots that were used and are free again.
    free: Vec<u32>,
    /// Slots from here on were never used. 0 belongs to the first member.
    fresh: u32,
    count: u32,
    /// Its memory is this process's.
    ours: bool,
}

impl Family {
    /// `count` slots, the first of them taken.
    pub(crate) fn new(count: u32) -> Family {
        Family { free: Vec::new(), fresh: 1, count, ours: false }
    }

    /// The same, in our own memory.
    pub(crate) fn ours(count: u32) -> Family {
        Family { ours: true, ..Family::new(count) }
    }

    pub(crate) fn is_ours(&self) -> bool {
        self.ours
    }

    /// A member tells how many slots there are, and the highest that was ever used: a daemon before this one may have given those.
    pub(crate) fn told(&mut self, count: u32, top: u32) {
        self.count = self.count.max(count);
        self.fresh = self.fresh.max(top.saturating_add(1));
    }

    /// `None` when all are taken.
    pub(crate) fn take(&mut self) -> Option<u32> {
        if let Some(slot) = self.free.pop() {
            return Some(slot);
        }
        (self.fresh < self.count).then(|| {
            self.fresh += 1;
            self.fresh - 1
        })
    }

    /// Has the first member its memory for itself?
    pub(crate) fn is_first_alone(&self) -> bool {
        !self.ours && self.free.len() + 1 == self.fresh as usize
    }

    pub(crate) fn give_back(&mut self, slot: u32) {
        if slot != 0 {
            self.free.push(slot);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_daemon_before_has_given_is_not_given_again() {
        let mut family = Family::new(1);
        family.told(6, 3);
        assert_eq!(std::iter::from_fn(|| family.take()).collect::<Vec<_>>(), [4, 5]);
        family.give_back(2);
        assert_eq!(family.take(), Some(2));
    }

    #[test]
    fn the_first_is_alone_when_all_slots_were_given_back() {
        let mut family = Family::new(4);
        assert!(family.is_first_alone() && !Family::ours(4).is_first_alone());
        let slot = family.take().expect("three are free");
        assert!(!family.is_first_alone());
        family.give_back(slot);
        assert!(family.is_first_alone());
        // Of those that a daemon before has given nobody knows.
        family.told(4, 3);
        assert!(!family.is_first_alone());
    }

    #[test]
    fn no_slot_is_given_to_two() {
        let mut family = Family::new(4);
        let mut taken: Vec<_> = std::iter::from_fn(|| family.take()).collect();
        assert_eq!(taken, [1, 2, 3]);
        family.give_back(2);
        family.give_back(0);
        taken = std::iter::from_fn(|| family.take()).collect();
        assert_eq!(taken, [2]);
    }
}
