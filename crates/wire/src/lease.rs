//! PIDs that a node may give to its own forks without asking.

use minicbor::{Decode, Encode};
use vocab::Pid;

/// A range of PIDs a node may give to its own forks: `first ..= last`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Encode, Decode)]
pub struct Lease {
    #[n(0)]
    pub first: Pid,
    #[n(1)]
    pub last: Pid,
}

impl Lease {
    pub fn has(self, pid: Pid) -> bool {
        self.first <= pid && pid <= self.last
    }
}
