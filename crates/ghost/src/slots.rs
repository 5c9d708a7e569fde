//! Where light stand-ins have their places in the memory that they share: whose is in use, after they are none as well.

use crate::table::Ghosts;
use vocab::Pid;

/// The place of one that is a stand-in no more and is there still ([`Ghosts::keep_slot`]).
#[derive(Debug)]
pub struct KeptSlot {
    family: u64,
    slot: u32,
}

impl Ghosts {
    /// Its slot is in use after it is a stand-in no more, until [`Ghosts::give_back_kept`].
    pub fn keep_slot(&mut self, pid: Pid) -> Option<KeptSlot> {
        let ghost = self.ghosts.get_mut(&pid)?;
        ghost.slot.take().map(|slot| KeptSlot { family: ghost.family, slot })
    }

    pub fn give_back_kept(&mut self, kept: KeptSlot) {
        self.give_back(kept.family, Some(kept.slot));
    }

    pub(crate) fn give_back(&mut self, family: u64, slot: Option<u32>) {
        if let (Some(family), Some(slot)) = (self.families.get_mut(&family), slot) {
            family.give_back(slot);
        }
    }
}
