//! Streams of a process that moves, when `shoal run` was called on a node: that node takes the new channel for it, and says that it has.

use crate::front::Front;
use vocab::Fault;

/// So long the old node is kept waiting for that, in microseconds; the process runs meanwhile.
pub(crate) const BRANCH_US: u64 = 5_000_000;

impl Front {
    /// Whoever relays the streams has the channel of this branch.
    pub(crate) fn branched(&mut self, branch: u64) {
        let Some(pid) = self.runs.branched(branch) else { return };
        if self.moves.get_mut(&pid).is_some_and(|one| one.branch_until_us.take().is_some()) {
            self.settle();
            self.leave(pid);
        }
    }

    /// A channel that the new node could not open never comes.
    pub(crate) fn branches_late(&mut self, now: u64) {
        let late = self.moves.iter().filter(|(_, one)| one.branch_until_us.is_some_and(|until| until <= now));
        for pid in late.map(|(pid, _)| *pid).collect::<Vec<_>>() {
            self.move_fails(pid, Fault::gone("connect its streams to the node that relays them"));
        }
    }
}
