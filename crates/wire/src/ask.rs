//! What a client asks of its local daemon over the unix socket, and the answers.
//!
//! The front end answers; a node's agent passes on what it cannot answer itself ([`crate::node`]).

use crate::entry::Wanted;
use crate::feed::Happening;
use crate::frame;
use crate::log::{LogPiece, LogWanted};
use crate::look::{Explained, Progress};
use crate::nodes::{NodeChange, NodeInfo, DOWN};
use crate::run::{Program, Target};
use minicbor::{Decode, Encode};
use vocab::{Exit, Fault, NodeId, Pid};

/// One question. The caller's identity is what the socket's kernel says of it.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub enum Ask {
    /// Start a program; the caller becomes its stand-in (or, for several nodes, the parent of the stand-ins).
    #[n(0)]
    Run {
        #[n(0)]
        target: Target,
        #[n(1)]
        program: Box<Program>,
    },
    #[n(1)]
    Nodes,
    #[n(2)]
    Ps,
    /// On which node a process is; [`Pid::NONE`]: the one that asks.
    #[n(3)]
    Where {
        #[n(0)]
        pid: Pid,
    },
    /// Move a process of the caller's to another node; answered when it runs there.
    #[n(4)]
    Move {
        #[n(0)]
        pid: Pid,
        #[n(1)]
        to: NodeId,
        /// [`Answer::Moving`] is wanted on the way.
        #[n(2)]
        #[cbor(default, skip_if = "crate::way::is_not")]
        progress: bool,
        /// It runs there before what is large of its memory has come.
        #[n(3)]
        #[cbor(default, skip_if = "crate::way::is_not")]
        lazy: bool,
        /// A file that a process of the front end will execute there: if the node has none of that name, the process sees the front end's files. Empty: it will not.
        #[n(4)]
        #[cbor(with = "minicbor::bytes", default, skip_if = "Vec::is_empty")]
        executes: Vec<u8>,
    },
    /// Answered when every signal that the stand-ins of copy `copy` have had by now has been given to it: what the relay learnt after those, it may tell
    /// the program then. `pid` called `shoal run`.
    #[n(5)]
    Delivered {
        #[n(0)]
        pid: Pid,
        #[n(1)]
        copy: u32,
    },
    /// All is written that had come when a process said [`crate::stream::Chunk::Left`] for this branch, which comes to where the caller is
    /// ([`Answer::Alongside`]). Not answered.
    #[n(12)]
    Passed {
        #[n(0)]
        branch: u64,
    },
    /// The caller is in the place of a process that has moved to a node, and is to be its stand-in; answered as `Run`.
    #[n(7)]
    Stand,
    /// How a process of the caller's would move to another node, and what is in the way.
    #[n(6)]
    Explain {
        #[n(0)]
        pid: Pid,
        #[n(1)]
        to: NodeId,
    },
    /// What happens in the space from now on, until the connection is closed: an [`Answer::Feed`] for each. Who does not
    /// read them is dropped.
    #[n(10)]
    Feed,
    /// Of root: which processes stand on the front end for others, now and from now on; asked on a node, which are on other nodes ([`Answer::Ghosts`]).
    #[n(8)]
    Ghosts,
    /// Of whoever has asked for [`Ask::Ghosts`]: what /proc shows of bodies of this node ([`Answer::Entries`]).
    #[n(9)]
    Entries {
        /// Comes back.
        #[n(0)]
        id: u64,
        #[n(1)]
        node: NodeId,
        #[n(2)]
        wanted: Wanted,
    },
    /// Of the same, all the time: it serves who looks. No answer; who does not say it is replaced.
    #[n(11)]
    Serves,
    /// Of root: these nodes, which are down, are no nodes of the space any more; answered by [`Answer::Nodes`].
    #[n(13)]
    Forget(#[n(0)] Vec<NodeId>),
    /// The nodes and the front end, with state, owner, group, mode and attributes.
    #[n(14)]
    NodeInfos,
    /// One change of all these nodes, if the caller may make the change on each of them; else no node changes.
    #[n(15)]
    ChangeNodes {
        #[n(0)]
        nodes: Vec<NodeId>,
        #[n(1)]
        change: NodeChange,
    },
    /// Of root, and of who may read the system's journal: lines of the log of a node's daemon, or of the front end's.
    #[n(16)]
    Log {
        #[n(0)]
        node: NodeId,
        #[n(1)]
        wanted: LogWanted,
    },
}

/// An answer, or one of several in a row for [`Ask::Run`].
#[derive(Clone, PartialEq, Debug, Encode, Decode)]
pub enum Answer {
    #[n(0)]
    Failed(#[n(0)] Fault),
    #[n(1)]
    Nodes(#[n(0)] Vec<NodeRow>),
    #[n(2)]
    Ps {
        #[n(0)]
        rows: Vec<ProcRow>,
        /// Nodes that are not down and have not told in time: of them `rows` has what they said last, if they ever did.
        #[n(1)]
        #[cbor(skip_if = "Vec::is_empty")]
        missing: Vec<NodeId>,
    },
    #[n(3)]
    Where {
        #[n(0)]
        pid: Pid,
        #[n(1)]
        node: NodeId,
        /// As [`ProcRow::birth`].
        #[n(2)]
        #[cbor(default, skip_if = "is_none")]
        birth: u64,
    },
    /// To `Run`: it is under way. Open `hold`, and hold; a channel for each copy will follow.
    #[n(4)]
    Granted {
        /// The stand-in file on this machine (docs/mechanisms.md, "The hold").
        #[n(0)]
        hold: String,
        /// One for each copy, in order.
        #[n(1)]
        copies: Vec<Copy>,
    },
    /// To `Run`: the channel of copy `copy`; its socket comes along as a descriptor (SCM_RIGHTS).
    #[n(5)]
    Channel {
        #[n(0)]
        copy: u32,
        /// It is not the copy's first.
        #[n(1)]
        further: Option<Further>,
    },
    /// To `Run`: copy `copy` could not be started; `status` is what a shell would exit with (126 or 127).
    #[n(6)]
    NotStarted {
        #[n(0)]
        copy: u32,
        #[n(1)]
        fault: Fault,
        #[n(2)]
        status: u8,
    },
    /// To `Run`: copy `copy` has ended.
    #[n(7)]
    Ended {
        #[n(0)]
        copy: u32,
        #[n(1)]
        exit: Exit,
    },
    /// To `Run` on a node, for that same node: the caller needs no stand-in, it is to exec the program itself.
    #[n(8)]
    Here,
    /// To `Run` for several nodes, called on a node: the caller is to start a child for each of these, in this order.
    #[n(9)]
    Each(#[n(0)] Vec<NodeId>),
    /// To `Run`: a process of copy `copy` stays where it is: this further channel ([`Further::branch`]), which came for it, is not needed.
    #[n(10)]
    Stays {
        #[n(0)]
        copy: u32,
        #[n(1)]
        branch: u64,
    },
    /// To `Move`: it runs on that node.
    #[n(11)]
    Moved {
        #[n(0)]
        pid: Pid,
        #[n(1)]
        node: NodeId,
    },
    /// To [`Ask::Delivered`].
    #[n(12)]
    Delivered {
        #[n(0)]
        copy: u32,
    },
    /// To [`Ask::Explain`].
    #[n(13)]
    Explained(#[n(0)] Box<Explained>),
    /// To `Move`: it is on its way; further answers follow.
    #[n(14)]
    Moving(#[n(0)] Progress),
    /// To `Run`: this node is lost, and with it what was under way on channels from there. Of a machine that is gone no connection tells.
    #[n(15)]
    NodeLost(#[n(0)] NodeId),
    /// To `Run`: a process of copy `copy` comes to where this is, if it does not stay. It says [`crate::stream::Chunk::Left`] for this branch, for which no
    /// channel comes.
    #[n(16)]
    Home {
        #[n(0)]
        copy: u32,
        #[n(1)]
        branch: u64,
    },
    /// To `Run`: a descendant of copy `copy` comes to where this is, and the program does not. It says [`crate::stream::Chunk::Left`] for this branch, for which no
    /// channel comes; answered by [`Ask::Passed`].
    #[n(20)]
    Alongside {
        #[n(0)]
        copy: u32,
        #[n(1)]
        branch: u64,
    },
    /// To [`Ask::Feed`]; more follow.
    #[n(19)]
    Feed(#[n(0)] Happening),
    /// To [`Ask::Ghosts`], again and again.
    #[n(17)]
    Ghosts {
        /// They stand for a process of this node from now on; of one that did already: it has become something else.
        #[n(0)]
        #[cbor(default, skip_if = "Vec::is_empty")]
        stand: Vec<(Pid, NodeId)>,
        /// They do no more.
        #[n(1)]
        #[cbor(default, skip_if = "Vec::is_empty")]
        gone: Vec<Pid>,
        /// Of those that stand already: another program runs there now, or another user's.
        #[n(2)]
        #[cbor(default, skip_if = "Vec::is_empty")]
        others: Vec<Pid>,
    },
    /// To [`Ask::Entries`]: a piece of the answer.
    #[n(18)]
    Entries {
        #[n(0)]
        id: u64,
        /// See [`crate::entry`].
        #[n(1)]
        #[cbor(with = "minicbor::bytes")]
        found: Vec<u8>,
        /// That was all of it.
        #[n(2)]
        last: bool,
        /// Not 0: why it is not all that was wanted.
        #[n(3)]
        errno: i32,
        /// Who says so.
        #[n(4)]
        node: NodeId,
    },
    /// To [`Ask::NodeInfos`]: the front end first, then all nodes by number.
    #[n(21)]
    NodeInfos(#[n(0)] Vec<NodeInfo>),
    /// To [`Ask::ChangeNodes`]: all of them have changed.
    #[n(22)]
    NodesChanged,
    /// To [`Ask::Log`].
    #[n(23)]
    Log(#[n(0)] LogPiece),
}

/// A channel over which the streams of a process of a copy go on after [`crate::stream::Chunk::Left`] has come over the one before it.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub struct Further {
    /// Where the process is from then on.
    #[n(0)]
    pub node: NodeId,
    /// The key of this channel's Noise handshake, 32 bytes.
    #[n(1)]
    #[cbor(with = "minicbor::bytes")]
    pub key: Vec<u8>,
    /// Names it, for [`crate::stream::Chunk::Left`]; never 0.
    #[n(2)]
    pub branch: u64,
    /// It is for the program itself, and not for one that has the program's streams from it.
    #[n(3)]
    pub program: bool,
    /// Where the process is until then: if nothing comes from there any more, that word does not either.
    #[n(4)]
    pub from: NodeId,
}

/// One copy of the program that `Run` starts.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub struct Copy {
    #[n(0)]
    pub node: NodeId,
    /// Secret of the channel between the caller's relay and the node: the key of its Noise handshake, 32 bytes.
    #[n(1)]
    #[cbor(with = "minicbor::bytes")]
    pub key: Vec<u8>,
    /// Names the channel in the clear ([`crate::node::ChannelTo`]), 16 bytes: by it the daemon that takes the connection finds the caller.
    #[n(2)]
    #[cbor(with = "minicbor::bytes")]
    pub token: Vec<u8>,
}

/// A line of `shoal nodes`.
#[derive(Clone, PartialEq, Debug, Encode, Decode)]
pub struct NodeRow {
    #[n(0)]
    pub node: NodeId,
    /// A word, as [`NodeInfo::state`]; but `silent` where that is `unavailable`.
    #[n(1)]
    pub state: String,
    #[n(2)]
    pub address: String,
    /// Bodies on it.
    #[n(3)]
    pub processes: u32,
    #[n(4)]
    pub cores: u32,
    /// Bytes.
    #[n(5)]
    pub memory: u64,
    /// Bytes.
    #[n(6)]
    pub memory_free: u64,
    /// One-minute load average.
    #[n(7)]
    pub load: f32,
    #[n(8)]
    #[cbor(default, skip_if = "is_zero")]
    pub uid: u32,
    #[n(9)]
    #[cbor(default, skip_if = "is_zero")]
    pub gid: u32,
    /// Bits of [`crate::nodes::MODE`].
    #[n(10)]
    #[cbor(default, skip_if = "is_zero")]
    pub mode: u32,
    /// As [`NodeInfo::name`].
    #[n(11)]
    #[cbor(default, skip_if = "String::is_empty")]
    pub name: String,
}

impl NodeRow {
    /// Is the node linked, and beats?
    pub fn is_linked(&self) -> bool {
        self.state != DOWN && self.state != "silent"
    }
}

/// A line of `shoal ps`: a body.
#[derive(Clone, PartialEq, Debug, Encode, Decode)]
pub struct ProcRow {
    #[n(0)]
    pub pid: Pid,
    #[n(1)]
    pub node: NodeId,
    #[n(2)]
    pub uid: u32,
    /// The state letter of `/proc/PID/stat`.
    #[n(3)]
    pub state: char,
    /// CPU time used, in milliseconds.
    #[n(4)]
    pub cpu_ms: u64,
    /// Resident set in KiB.
    #[n(5)]
    pub rss_kb: u64,
    /// The command line with spaces, or `[comm]` where there is none.
    #[n(6)]
    pub command: String,
    #[n(7)]
    pub ppid: Pid,
    /// By it one process is told from a later one with its number, wherever it moves; 0 where that is not known. The front end's: nodes leave it out.
    #[n(8)]
    #[cbor(default, skip_if = "is_none")]
    pub birth: u64,
}

fn is_none(number: &u64) -> bool {
    *number == 0
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// The most bytes of a row without its command, and of a message without its rows.
const ROW: usize = 64;
const MESSAGE: usize = 64 * 1024;

/// Cuts long commands where all rows together would not fit into a frame; each keeps at least its share.
pub fn shorten(rows: &mut [ProcRow]) {
    let room = frame::MOST - MESSAGE;
    let whole: usize = rows.iter().map(|row| ROW + row.command.len()).sum();
    if whole <= room {
        return;
    }
    let share = (room / rows.len()).saturating_sub(ROW);
    for row in rows.iter_mut().filter(|row| row.command.len() > share) {
        let end = (0..=share).rev().find(|end| row.command.is_char_boundary(*end));
        row.command.truncate(end.unwrap_or(0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(command: String) -> ProcRow {
        let (pid, node, uid) = (Pid(i32::MAX), NodeId(i32::MIN), u32::MAX);
        ProcRow {
            pid,
            node,
            uid,
            state: char::MAX,
            cpu_ms: u64::MAX,
            rss_kb: u64::MAX,
            command,
            ppid: pid,
            birth: u64::MAX,
        }
    }

    #[test]
    fn a_table_fits_into_a_frame_whatever_processes_are_called() {
        for (count, length) in [(10, 1000), (4000, 3000), (100_000, 3000)] {
            let mut rows = vec![row("\u{fffd}".repeat(length / 3)); count];
            rows[0] = row("short".into());
            shorten(&mut rows);
            assert_eq!(rows[0].command, "short");
            assert_eq!(rows[1].command.len() == length / 3 * 3, count == 10);
            let mut bytes = Vec::new();
            frame::encode(&Answer::Ps { rows, missing: vec![NodeId(7); 1000] }, &mut bytes).expect("it fits");
        }
    }
}
