//! What is known of one move.

use crate::move_states::State;
use crate::runs::Asker;
use space::Person;
use vocab::{Creds, Fault, NodeId, Pid};

/// One process on its way.
#[derive(Debug)]
pub(crate) struct Move {
    pub(crate) state: State,
    /// `None`: who asked is not known any more.
    pub(crate) asker: Option<Asker>,
    pub(crate) from: NodeId,
    pub(crate) to: NodeId,
    /// As it was when the new node was told of it.
    pub(crate) person: Option<Person>,
    /// Those that it had not waited for then.
    pub(crate) children: Vec<Pid>,
    pub(crate) key: [u8; 32],
    /// The program whose relayed standard streams it has, and the branch over which they go on.
    pub(crate) streams: Option<Pid>,
    pub(crate) branch: Option<u64>,
    /// Who asked wants to know how far it is.
    pub(crate) progress: bool,
    pub(crate) lazy: bool,
    /// The user who asked, if not root: the process must be this user's altogether.
    pub(crate) user: Option<Creds>,
    /// A file that a process of the front end will execute there.
    pub(crate) executes: Vec<u8>,
    /// What was to come of its memory could not.
    pub(crate) lost: bool,
    /// The new node was lost while the old one was to end it.
    pub(crate) nowhere: bool,
    /// Why the new node could not, when the old one may let it leave already.
    pub(crate) why: Option<Fault>,
    /// It stands on the old node.
    pub(crate) stays: bool,
    /// The old node would stop it, and its streams are not connected yet: until when that is waited for (monotonic, microseconds).
    pub(crate) branch_until_us: Option<u64>,
}

impl Move {
    /// One that a daemon before this one has decided on; `landed`: it runs.
    pub(crate) fn decided(from: NodeId, to: NodeId, landed: bool) -> Move {
        Move {
            state: if landed { State::Landed } else { State::Leaving },
            asker: None,
            from,
            to,
            person: None,
            children: Vec::new(),
            key: [0; 32],
            streams: None,
            branch: None,
            progress: false,
            lazy: false,
            user: None,
            executes: Vec::new(),
            lost: false,
            nowhere: false,
            why: None,
            stays: false,
            branch_until_us: None,
        }
    }
}
