//! One copy of the program, as the relay knows it.

use super::branch::{Branch, Serial};
use super::delivery::Delivery;
use super::feed::Feed;
use super::home::Home;
use std::collections::BTreeMap;
use vocab::{Fault, NodeId};

/// One copy of the program.
pub(crate) struct Copy {
    /// Where the program was started.
    first: NodeId,
    pub(crate) key: [u8; 32],
    /// The first channel has come.
    pub(super) begun: bool,
    pub(super) branches: Vec<Branch>,
    /// The next one's.
    pub(super) serial: Serial,
    /// Branches that are to come, by their moves: who has left for them has said so.
    pub(super) awaited: BTreeMap<u64, Serial>,
    /// Branches of descendants that come to where this is; how many of our streams have yet to pass what they have written before.
    pub(super) alongside: BTreeMap<u64, u8>,
    /// The program's end is known, with all that was written before it; or nothing more can come.
    pub(crate) over: bool,
    /// The first of the two.
    pub(super) whole: bool,
    /// The program's channel has broken, and the daemon has yet to say why the program is over.
    pub(super) broken: Option<Fault>,
    /// The daemon has said that the program has ended by itself.
    pub(super) ended: bool,
    /// Input that no branch has been given.
    pub(super) feed: Feed,
    pub(super) delivery: Delivery,
    /// Output and errors: the end has come of all branches.
    pub(super) closed: [bool; 2],
    /// It is to come to where this is, or has.
    pub(super) home: Option<Home>,
}

impl Copy {
    pub(super) fn new(node: NodeId, key: [u8; 32]) -> Copy {
        Copy {
            first: node,
            key,
            begun: false,
            branches: Vec::new(),
            serial: 1,
            awaited: BTreeMap::new(),
            alongside: BTreeMap::new(),
            over: false,
            whole: false,
            broken: None,
            ended: false,
            feed: Feed::new(),
            delivery: Delivery::default(),
            closed: [false; 2],
            home: None,
        }
    }

    /// For another branch.
    pub(super) fn next_serial(&mut self) -> Serial {
        self.serial += 1;
        self.serial - 1
    }

    pub(super) fn branch(&mut self, serial: Serial) -> Option<&mut Branch> {
        self.branches.iter_mut().find(|branch| branch.serial == serial)
    }

    /// Where the program is, as far as the daemon or its channels have said so.
    pub(super) fn newest_node(&self) -> NodeId {
        self.branches.iter().rfind(|branch| branch.program).map_or(self.first, |branch| branch.node)
    }

    /// Will there be a branch of which nothing is known yet?
    pub(super) fn waits(&self) -> bool {
        !self.begun || !self.awaited.is_empty() || self.branches.iter().any(|branch| !branch.turn)
    }

    /// Somebody of it takes input, as far as we know.
    pub(super) fn input(&self) -> bool {
        self.waits() || self.branches.iter().any(|branch| branch.input)
    }

    /// Is what is to be read one's that another one may have been given, or may want?
    pub(super) fn is_shared(&self) -> bool {
        let concerned = |branch: &&Branch| branch.takes() || branch.flow.is_out();
        self.branches.iter().filter(concerned).count() > 1
    }

    /// How much input may be read for it now, in bytes.
    pub(super) fn room(&self) -> usize {
        if !self.feed.is_empty() {
            return 0;
        }
        let takes = |branch: &&Branch| branch.takes();
        match self.is_shared() {
            false => self.branches.iter().find(takes).map_or(0, |branch| branch.flow.room()),
            true => self.branches.iter().filter(takes).find(|branch| branch.wants).map_or(0, |branch| {
                let others = self.branches.iter().any(|other| other.serial != branch.serial && other.flow.is_out());
                if others {
                    0
                } else {
                    branch.flow.room()
                }
            }),
        }
    }
}
