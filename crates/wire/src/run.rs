//! What is to be started: the program and everything it takes along.

use crate::files::{Place, View};
use minicbor::{Decode, Encode};
use vocab::{Capabilities, Creds, NodeId, Pid};

/// By this name ps shows, and the front end knows, what is left of a `shoal run` that relays for the descendants of its program. It is in the program's group, and not of the job: a signal to that
/// is for the descendants.
pub const LATE_RELAY: &str = "shoal:late";

/// Variables of a program's environment: the number of its node, and the node's name.
pub const NODE: &str = "SHOAL_NODE";
pub const NODE_NAME: &str = "SHOAL_NODENAME";
/// Which of the copies of one `shoal run` the program is, from 0 on, and how many there are.
pub const COPY: &str = "SHOAL_COPY";
pub const COPIES: &str = "SHOAL_COPIES";

/// Where the program is to run.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub enum Target {
    /// The least loaded node that is up, round robin among equals.
    #[n(0)]
    Any,
    /// This many nodes, chosen likewise, each once; more than there are nodes goes round again.
    #[n(1)]
    Count(#[n(0)] u32),
    /// All nodes that are up.
    #[n(2)]
    All,
    /// These; one that is unknown or down is an error.
    #[n(3)]
    Nodes(#[n(0)] Vec<NodeId>),
}

/// A resource limit (getrlimit(2)); `u64::MAX` is RLIM_INFINITY.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Encode, Decode)]
pub struct Limit {
    #[n(0)]
    pub resource: u32,
    #[n(1)]
    pub soft: u64,
    #[n(2)]
    pub hard: u64,
}

/// The window of a terminal (TIOCGWINSZ), in characters.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Encode, Decode)]
pub struct Window {
    #[n(0)]
    pub rows: u16,
    #[n(1)]
    pub columns: u16,
}

/// What descriptors 0, 1 and 2 of the program are.
#[derive(Clone, PartialEq, Eq, Default, Debug, Encode, Decode)]
pub enum Stdio {
    /// Three pipes, relayed over the channel.
    #[n(0)]
    #[default]
    Pipes,
    /// A terminal of its own (`-t`), with `term` as the terminal's modes (struct termios, as bytes) where known.
    #[n(1)]
    Terminal {
        #[n(0)]
        window: Window,
        #[n(1)]
        #[cbor(with = "minicbor::bytes")]
        term: Vec<u8>,
    },
}

/// A program with its surroundings. Byte strings are the kernel's: no NUL inside, any other byte allowed.
#[derive(Clone, PartialEq, Eq, Default, Debug, Encode, Decode)]
pub struct Program {
    /// As typed: looked up in the program's own PATH on the node when it has no slash (execvp(3)).
    #[n(0)]
    #[cbor(with = "minicbor::bytes")]
    pub file: Vec<u8>,
    #[n(1)]
    pub argv: Vec<minicbor::bytes::ByteVec>,
    #[n(2)]
    pub env: Vec<minicbor::bytes::ByteVec>,
    /// Empty: a deleted directory.
    #[n(3)]
    #[cbor(with = "minicbor::bytes")]
    pub cwd: Vec<u8>,
    #[n(4)]
    pub umask: u32,
    #[n(5)]
    pub limits: Vec<Limit>,
    /// -20 to 19.
    #[n(6)]
    pub nice: i32,
    /// Signals that are ignored across exec, as a kernel set (what `nohup` and `trap ''` do).
    #[n(7)]
    pub ignored: u64,
    #[n(8)]
    pub stdio: Stdio,
    /// Signals that are blocked across exec, as a kernel set.
    #[n(9)]
    pub blocked: u64,
    /// What of root's powers it has on the node at most. Never the caller's word: the daemon that is asked fills it in
    /// (`link::guests::restrict`). Without it, what the node's daemon has.
    #[n(10)]
    pub capabilities: Option<Capabilities>,
    /// How it executes (personality(2)). Without it, as the node's daemon does.
    #[n(11)]
    pub personality: Option<u32>,
    /// Of threads that it makes, but for its first: whoever asks keeps these numbers free on the front end.
    #[n(12)]
    #[cbor(default, skip_if = "Vec::is_empty")]
    pub numbers: Vec<Pid>,
    /// The name of its user on the front end, if that is known: the node says if it is another there. Never the caller's word: the front end fills it in.
    #[n(13)]
    #[cbor(default, skip_if = "Option::is_none")]
    pub user: Option<String>,
    /// Without it what is usual on the node.
    #[n(14)]
    #[cbor(default, skip_if = "Option::is_none")]
    pub view: Option<View>,
    /// In this order, each in what those before have made.
    #[n(15)]
    #[cbor(default, skip_if = "Vec::is_empty")]
    pub places: Vec<Place>,
}

impl Program {
    /// Sets a variable of its environment, also where that has several of the name. The order of all others stays.
    pub fn set_variable(&mut self, name: &[u8], value: &[u8]) {
        let is_it = |entry: &[u8]| entry.strip_prefix(name).is_some_and(|rest| rest.starts_with(b"="));
        self.env.retain(|entry| !is_it(entry));
        self.env.push([name, b"=", value].concat().into());
    }

    /// Says in its environment on which node it starts.
    pub fn set_node(&mut self, node: NodeId) {
        self.set_variable(NODE.as_bytes(), node.0.to_string().as_bytes());
        self.set_variable(NODE_NAME.as_bytes(), node.to_string().as_bytes());
    }

    /// Leaves it no resource limit above `limits` (resource, soft, hard), those of whoever asks, and no lower niceness than theirs: what they
    /// might not do themselves (setrlimit(2), setpriority(2)).
    pub fn restrict(&mut self, limits: &[(u32, u64, u64)], nice: i32) {
        let asked = std::mem::take(&mut self.limits);
        let restricted = |&(resource, soft, most): &(u32, u64, u64)| {
            let asked = asked.iter().find(|limit| limit.resource == resource);
            let (soft, hard) = asked.map_or((soft, most), |limit| (limit.soft.min(most), limit.hard.min(most)));
            Limit { resource, soft, hard }
        };
        self.limits = limits.iter().map(restricted).collect();
        self.nice = self.nice.max(nice);
    }
}

/// Who asked, as the daemon read it from its kernel (never as the caller says).
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub struct Caller {
    #[n(0)]
    pub pid: vocab::Pid,
    #[n(1)]
    pub creds: Creds,
    #[n(2)]
    pub ppid: vocab::Pid,
    #[n(3)]
    pub pgid: vocab::Pid,
    #[n(4)]
    pub sid: vocab::Pid,
}

impl Caller {
    /// The user whose processes alone this caller may have moved; `None` for root.
    pub fn ordinary(&self) -> Option<Creds> {
        (self.creds.uid.effective != 0).then(|| self.creds.clone())
    }

    /// May this caller have a process with these ids moved? Who carries it looks again when it stands still, and at what it may do besides.
    pub fn may_move(&self, its: &Creds) -> bool {
        let ids = |ids: &vocab::Ids| [ids.real, ids.effective, ids.saved, ids.fs];
        let groups = ids(&its.gid).into_iter().chain(its.groups.iter().copied());
        let has = |group| group == self.creds.gid.effective || self.creds.groups.contains(&group);
        let own = self.creds.uid.effective;
        own == 0 || ids(&its.uid) == [own; 4] && groups.into_iter().all(has)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_gets_more_than_they_have() {
        let limit = |resource, soft, hard| Limit { resource, soft, hard };
        let mut program = Program {
            file: vec![],
            argv: vec![],
            env: vec![],
            cwd: vec![],
            umask: 0,
            limits: vec![limit(7, u64::MAX, u64::MAX), limit(3, 5, 8), limit(99, 1, 1)],
            nice: -20,
            ignored: 0,
            stdio: Stdio::Pipes,
            blocked: 0,
            capabilities: None,
            personality: None,
            numbers: vec![],
            user: None,
            view: None,
            places: vec![],
        };
        program.restrict(&[(3, 10, 20), (7, 10, 20), (8, 10, 20)], 5);
        assert_eq!(program.limits, [limit(3, 5, 8), limit(7, 20, 20), limit(8, 10, 20)]);
        assert_eq!(program.nice, 5);
        program.restrict(&[], 0);
        assert_eq!(program.nice, 5);
    }
}
