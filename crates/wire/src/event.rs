//! What happens to the bodies on a node, as the node tells the front end, in the order in which it happened.

use minicbor::{Decode, Encode};
use vocab::{Creds, Exit, NodeId, Pid, Sig};

/// CPU time and memory of an ended process, as wait4 gives them (getrusage(2)).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Encode, Decode)]
pub struct Usage {
    /// User time in microseconds.
    #[n(0)]
    pub user_us: u64,
    /// System time in microseconds.
    #[n(1)]
    pub system_us: u64,
    /// Largest resident set in KiB.
    #[n(2)]
    pub max_rss_kb: u64,
}

/// One process, whole: what a node tells of a body after a reconnect, and of one it first sees by a rescan.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub struct Person {
    #[n(0)]
    pub pid: Pid,
    #[n(1)]
    pub ppid: Pid,
    #[n(2)]
    pub pgid: Pid,
    #[n(3)]
    pub sid: Pid,
    #[n(4)]
    pub creds: Creds,
    /// The kernel's comm: at most 15 bytes, any bytes but NUL.
    #[n(5)]
    #[cbor(with = "minicbor::bytes")]
    pub name: Vec<u8>,
}

/// At most so many bytes has a message for a person or an event, without the name and the supplementary groups.
const FIXED: usize = 96;
/// Bytes of a group id, at most.
const GROUP: usize = 5;

impl Person {
    /// How many bytes it has in a message, at most.
    pub fn bytes(&self) -> usize {
        FIXED + self.name.len() + GROUP * self.creds.groups.len()
    }
}

/// A process of the space that has kin on the node and must stand there.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub struct Kin {
    #[n(0)]
    pub person: Person,
    /// Where its body is ([`NodeId::FRONT`] for a process of the front end).
    #[n(1)]
    pub node: NodeId,
}

/// One thing that happened to a body.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub enum BodyEvent {
    /// `shoal run`'s program has been exec'd under `pid`.
    #[n(0)]
    Started {
        #[n(0)]
        pid: Pid,
    },
    /// A body forked. `parent` is the new process's parent as the kernel has it (not always the forker: CLONE_PARENT).
    #[n(1)]
    Forked {
        #[n(0)]
        parent: Pid,
        #[n(1)]
        child: Pid,
    },
    /// The name changed, by exec or prctl.
    #[n(2)]
    Named {
        #[n(0)]
        pid: Pid,
        #[n(1)]
        #[cbor(with = "minicbor::bytes")]
        name: Vec<u8>,
    },
    /// The credentials changed, by a set*id call or the exec of a setuid program.
    #[n(3)]
    Credentials {
        #[n(0)]
        pid: Pid,
        #[n(1)]
        creds: Creds,
    },
    /// The process group changed.
    #[n(4)]
    Group {
        #[n(0)]
        pid: Pid,
        #[n(1)]
        pgid: Pid,
    },
    /// The process made a session: its group and session numbers are now its own.
    #[n(5)]
    Session {
        #[n(0)]
        pid: Pid,
    },
    /// The process is stopped.
    #[n(6)]
    Stopped {
        #[n(0)]
        pid: Pid,
        #[n(1)]
        sig: Sig,
        /// The newest [`ToNode::Signal`](crate::node::ToNode::Signal) with a turn that it had been given when this was seen.
        #[n(2)]
        turn: Option<u64>,
    },
    /// The process is not stopped.
    #[n(7)]
    Continued {
        #[n(0)]
        pid: Pid,
        /// As in [`BodyEvent::Stopped`].
        #[n(1)]
        turn: Option<u64>,
    },
    /// The body has ended; it may still be a zombie on the node.
    #[n(8)]
    Exited {
        #[n(0)]
        pid: Pid,
        #[n(1)]
        exit: Exit,
        #[n(2)]
        usage: Usage,
    },
    /// Its parent on this node, a body or the node's init, has waited for `pid`. Of what waits there in the place of a parent elsewhere nothing is told.
    #[n(9)]
    Reaped {
        #[n(0)]
        pid: Pid,
    },
    /// The parent died and the kernel gave the process to `ppid`.
    #[n(10)]
    Adopted {
        #[n(0)]
        pid: Pid,
        #[n(1)]
        ppid: Pid,
    },
    /// The process takes (or gives up) the orphans among its descendants: PR_SET_CHILD_SUBREAPER.
    #[n(11)]
    Subreaper {
        #[n(0)]
        pid: Pid,
        #[n(1)]
        on: bool,
    },
}

impl BodyEvent {
    /// How many bytes it has in a message, at most.
    pub fn bytes(&self) -> usize {
        match self {
            BodyEvent::Named { name, .. } => FIXED + name.len(),
            BodyEvent::Credentials { creds, .. } => FIXED + GROUP * creds.groups.len(),
            _ => FIXED,
        }
    }

    /// The process that it is about; for a fork the child.
    pub fn pid(&self) -> Pid {
        match *self {
            BodyEvent::Forked { child, .. } => child,
            BodyEvent::Started { pid }
            | BodyEvent::Named { pid, .. }
            | BodyEvent::Credentials { pid, .. }
            | BodyEvent::Group { pid, .. }
            | BodyEvent::Session { pid }
            | BodyEvent::Stopped { pid, .. }
            | BodyEvent::Continued { pid, .. }
            | BodyEvent::Exited { pid, .. }
            | BodyEvent::Reaped { pid }
            | BodyEvent::Adopted { pid, .. }
            | BodyEvent::Subreaper { pid, .. } => pid,
        }
    }
}
