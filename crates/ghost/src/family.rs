//! Stand-ins that share one address space, and which of its slots are taken.

/// One address space: that of a `shoal run`, or of a node's agent.
#[derive(Debug, Default)]
pub(crate) struct Family {
    /// Slots that were used and are free again.
    free: Vec<u32>,
    /// Slots from here on were never used. 0 belongs to the first member.
    fresh: u32,
    count: u32,
}

impl Family {
    /// `count` slots, the first of them taken.
    pub(crate) fn new(count: u32) -> Family {
        Family { free: Vec::new(), fresh: 1, count }
    }

    /// Says how many slots there are, once the first member has told.
    pub(crate) fn resize(&mut self, count: u32) {
        self.count = self.count.max(count);
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
