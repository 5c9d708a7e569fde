//! The control link between a node's agent and the front end.

use crate::ask::{Ask, ProcRow};
pub use crate::channel::ChannelTo;
pub use crate::event::Kin;
use crate::event::{BodyEvent, Person};
pub use crate::lease::Lease;
pub use crate::load::Load;
use crate::log::LogPiece;
use crate::look::{Look, Progress};
use crate::run::Caller;
pub use crate::to_node::ToNode;
use crate::way::Way;
use minicbor::{Decode, Encode};
use vocab::{Fault, NodeId, Pid, SigInfo};

/// The version of this protocol; a peer of another one is refused with both numbers.
pub const VERSION: u32 = 24;

/// Which processes a kill(2) from a node means.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Encode, Decode)]
pub enum KillTarget {
    #[n(0)]
    Process(#[n(0)] Pid),
    /// tgkill: thread `tid` of process `pid`.
    #[n(1)]
    Thread {
        #[n(0)]
        pid: Pid,
        #[n(1)]
        tid: Pid,
    },
    #[n(2)]
    Group(#[n(0)] Pid),
    /// kill(-1): every process of the space that the sender may signal, but itself.
    #[n(3)]
    All,
}

/// From a node's agent to the front end.
#[derive(Clone, PartialEq, Debug, Encode, Decode)]
pub enum ToFront {
    /// The first message on a link, or messages.
    #[n(0)]
    Hello {
        #[n(0)]
        version: u32,
        /// The number it was configured with; none: the front end gives it the number that it had, or the next free one.
        #[n(1)]
        number: Option<NodeId>,
        #[n(2)]
        load: Load,
        /// After a reconnect: the leases it holds.
        #[n(3)]
        leases: Vec<Lease>,
        /// After a reconnect: every body on it.
        #[n(4)]
        bodies: Vec<Person>,
        /// After a reconnect: every PID that stands on it for a body elsewhere.
        #[n(5)]
        stand_ins: Vec<Pid>,
        /// The port on which it takes channels from other nodes.
        #[n(6)]
        channel_port: u16,
        /// After a reconnect: those of `bodies` that take the orphans among their descendants ([`BodyEvent::Subreaper`]).
        #[n(7)]
        subreapers: Vec<Pid>,
        /// After a reconnect: programs of [`ToNode::Start`] that it has neither begun nor refused. What else was to be started went with the link.
        #[n(8)]
        #[cbor(skip_if = "Vec::is_empty")]
        starting: Vec<Pid>,
        /// After a reconnect: every process that is on its way from or to this node.
        #[n(9)]
        #[cbor(default, skip_if = "Vec::is_empty")]
        ways: Vec<Way>,
        /// Not all: further ones follow, whose lists go behind these ([`crate::hello::Hello`]).
        #[n(10)]
        #[cbor(default, skip_if = "crate::hello::is_last")]
        more: bool,
        /// After a reconnect: numbers of the front end's of which [`ToFront::PassesNoMore`] has yet to be said.
        #[n(11)]
        #[cbor(default, skip_if = "Vec::is_empty")]
        passes: Vec<Pid>,
        /// The node's machine and run directory as a number that is the same after a restart; 0: unknown. By it a node that was configured with no number
        /// gets the number that it had.
        #[n(12)]
        #[cbor(default, skip_if = "crate::hello::is_unknown")]
        identity: u64,
        /// What the node is called beside its number; empty: nothing. The first part says so for all.
        #[n(13)]
        #[cbor(default, skip_if = "String::is_empty")]
        name: String,
        /// The users and `@groups` whose programs the node takes; `None`: everybody's. The first part says so for all.
        #[n(14)]
        #[cbor(default, skip_if = "Option::is_none")]
        allow: Option<Vec<String>>,
    },
    /// I live; `sent_us` is the sender's monotonic clock and comes back in [`ToNode::Beat`].
    #[n(1)]
    Beat {
        #[n(0)]
        sent_us: u64,
        #[n(1)]
        load: Load,
    },
    /// What happened, in order. Acknowledged by [`ToNode::EventsDone`], which is also the brake on storms.
    #[n(2)]
    Events {
        #[n(0)]
        batch: u64,
        #[n(1)]
        events: Vec<BodyEvent>,
    },
    /// [`ToNode::Start`] failed before the program ran; nothing of it is left on the node.
    #[n(3)]
    NotStarted {
        #[n(0)]
        pid: Pid,
        #[n(1)]
        fault: Fault,
        /// What a shell would exit with: 127 not found, 126 otherwise.
        #[n(2)]
        status: u8,
    },
    /// A stand-in on this node was signalled: its body is elsewhere and must get it.
    #[n(4)]
    Signal {
        #[n(0)]
        target: Pid,
        #[n(1)]
        info: SigInfo,
        /// Numbers the signals that stop or continue; comes back in [`ToNode::Stopped`] and [`ToNode::Continued`].
        #[n(2)]
        turn: Option<u64>,
    },
    /// A body called kill or its like for something that is not on its node; answered by [`ToNode::KillDone`].
    #[n(5)]
    Kill {
        #[n(0)]
        id: u64,
        #[n(1)]
        sender: Pid,
        #[n(2)]
        target: KillTarget,
        /// Signal number; 0 asks only whether it could be sent.
        #[n(3)]
        sig: u8,
        // 4 was, in version 1, what sigqueue says, which goes by way of a stand-in ([`ToFront::StandInWanted`]).
    },
    /// A client on the node asks something that the front end must answer.
    #[n(6)]
    Ask {
        #[n(0)]
        id: u64,
        #[n(1)]
        caller: Caller,
        #[n(2)]
        ask: Ask,
    },
    /// The last kin of `pid` on this node is gone, and its stand-in with it.
    #[n(7)]
    StandInGone {
        #[n(0)]
        pid: Pid,
    },
    /// Half of the newest lease is used.
    #[n(8)]
    LeaseWanted,
    #[n(9)]
    PsDone {
        #[n(0)]
        id: u64,
        #[n(1)]
        rows: Vec<ProcRow>,
    },
    /// The answer to [`ToNode::StandIn`]; or it stands again, as kin of one that was sent before [`ToFront::StandInGone`] had come there.
    #[n(10)]
    StandInDone {
        #[n(0)]
        pid: Pid,
        #[n(1)]
        errno: i32,
    },
    /// pidfd_open or rt_sigqueueinfo of a process that is not on the node: please let it stand there ([`ToNode::StandIn`] or an errno).
    #[n(11)]
    StandInWanted {
        #[n(0)]
        pid: Pid,
    },
    /// The stand-in is what the oldest [`ToNode::StandInIs`] for it that was not answered says.
    #[n(12)]
    StandInFollowed {
        #[n(0)]
        pid: Pid,
    },
    /// To [`ToNode::Arrive`]: there is a process that is to become this one, and its image is taken at this TCP port.
    #[n(13)]
    Arriving {
        #[n(0)]
        pid: Pid,
        #[n(1)]
        port: u16,
    },
    /// The process of [`ToNode::Arrive`] is what its image says and stands still: it needs only [`ToNode::Go`].
    #[n(14)]
    Arrived {
        #[n(0)]
        pid: Pid,
    },
    /// To [`ToNode::Arrive`], instead: it could not be made, and nothing of it is left on the node.
    #[n(15)]
    NotArrived {
        #[n(0)]
        pid: Pid,
        #[n(1)]
        fault: Fault,
    },
    /// To [`ToNode::Leave`]: it is no more on this node, and these signals go after it. The node remembers it until [`ToNode::Forget`].
    #[n(16)]
    Left {
        #[n(0)]
        pid: Pid,
        #[n(1)]
        #[cbor(default, skip_if = "Vec::is_empty")]
        signals: Vec<SigInfo>,
        /// It stands there from now on, where it was.
        #[n(2)]
        #[cbor(default, skip_if = "crate::way::is_not")]
        stands: bool,
    },
    /// To [`ToNode::Depart`] or [`ToNode::Leave`]: it stays, and runs on, if it has not ended.
    #[n(17)]
    NotLeft {
        #[n(0)]
        pid: Pid,
        #[n(1)]
        fault: Fault,
    },
    /// It runs, or has ended: the old node has let it, or [`ToNode::Go`] has.
    #[n(18)]
    Runs {
        #[n(0)]
        pid: Pid,
    },
    /// To [`ToNode::Depart`]: what can be sent while it runs is sent, and it is to stand still as soon as [`ToNode::Leave`] comes.
    #[n(19)]
    Ready {
        #[n(0)]
        pid: Pid,
        /// It has relayed standard streams: the branch is needed ([`ToNode::Depart`]).
        #[n(1)]
        #[cbor(default, skip_if = "crate::way::is_not")]
        streams: bool,
    },
    /// To [`ToNode::Barrier`].
    #[n(20)]
    Barrier {
        #[n(0)]
        id: u64,
    },
    /// To [`ToNode::Look`].
    #[n(21)]
    Looked {
        #[n(0)]
        id: u64,
        #[n(1)]
        look: Box<Look>,
    },
    /// To [`ToNode::Suits`]: what is in the way here.
    #[n(22)]
    Suited {
        #[n(0)]
        id: u64,
        #[n(1)]
        obstacles: Vec<String>,
    },
    /// How far a process is that leaves, if [`ToNode::Depart`] wants to know.
    #[n(23)]
    Moving {
        #[n(0)]
        pid: Pid,
        #[n(1)]
        progress: Progress,
    },
    /// Nobody waits for the answer to this question ([`ToFront::Ask`]) any more.
    #[n(24)]
    AskerGone {
        #[n(0)]
        id: u64,
    },
    /// There were processes here that came from a program whose number was this, one of the front end's: calls of theirs about it were not asked
    /// about. There are no more.
    #[n(25)]
    PassesNoMore {
        #[n(0)]
        pid: Pid,
    },
    /// Whoever relays the streams has the channel of this branch ([`ToNode::Branch`]).
    #[n(26)]
    Branched {
        #[n(0)]
        branch: u64,
    },
    /// To [`ToNode::Entries`]: a piece of the answer.
    #[n(27)]
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
    },
    /// To [`ToNode::Ps`], where the answer takes a while: it is heard and being seen to.
    #[n(28)]
    PsBegun {
        #[n(0)]
        id: u64,
    },
    /// Nothing is to come any more of the memory of a process that came lazily ([`ToNode::Arrive`]), and runs. Told again after a reconnect, until
    /// [`ToNode::Forget`]. Of one that has ended before, its end is told instead.
    #[n(29)]
    Whole {
        #[n(0)]
        pid: Pid,
    },
    /// To [`ToNode::Administer`]: the node has done so, or is about to.
    #[n(30)]
    Administered {
        #[n(0)]
        id: u64,
        /// Why not.
        #[n(1)]
        fault: Option<Fault>,
    },
    /// To [`ToNode::Log`].
    #[n(31)]
    Log {
        #[n(0)]
        id: u64,
        #[n(1)]
        piece: LogPiece,
        /// Why there is none.
        #[n(2)]
        fault: Option<Fault>,
    },
}
