//! The control link between a node's agent and the front end.

use crate::ask::{Answer, Ask, ProcRow};
pub use crate::channel::ChannelTo;
use crate::event::{BodyEvent, Person};
pub use crate::lease::Lease;
pub use crate::load::Load;
use crate::run::{Caller, Program};
use crate::way::Way;
use minicbor::{Decode, Encode};
use vocab::{Creds, Exit, Fault, NodeId, Pid, SigInfo};

/// The version of this protocol; a peer of another one is refused with both numbers.
pub const VERSION: u32 = 8;

/// A process of the space that has kin on the node and must stand there.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub struct Kin {
    #[n(0)]
    pub person: Person,
    /// Where its body is ([`NodeId::FRONT`] for a process of the front end).
    #[n(1)]
    pub node: NodeId,
}

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
        /// The number it was configured with; none: the front end gives it the next free one.
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
    /// The answer to [`ToNode::StandIn`].
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
    },
    /// To [`ToNode::Barrier`].
    #[n(20)]
    Barrier {
        #[n(0)]
        id: u64,
    },
}

/// From the front end to a node's agent.
#[derive(Clone, PartialEq, Debug, Encode, Decode)]
pub enum ToNode {
    /// The answer to Hello.
    #[n(0)]
    Welcome {
        #[n(0)]
        number: NodeId,
        #[n(1)]
        leases: Vec<Lease>,
        /// Microseconds between beats.
        #[n(2)]
        beat_us: u64,
        /// The node kills its bodies when the newest beat that came back was sent longer ago than this.
        #[n(3)]
        life_us: u64,
        /// PIDs below this are the front end's own.
        #[n(4)]
        front_top: Pid,
    },
    #[n(1)]
    Refused(#[n(0)] Fault),
    #[n(2)]
    Beat {
        #[n(0)]
        sent_us: u64,
    },
    #[n(3)]
    EventsDone {
        #[n(0)]
        batch: u64,
    },
    /// Start `program` as `person`, child of `person.ppid`, with the kin it needs.
    #[n(4)]
    Start {
        #[n(0)]
        person: Person,
        #[n(1)]
        program: Program,
        /// Parent, session leader and group leader, as far as they are alive, outermost first.
        #[n(2)]
        kin: Vec<Kin>,
        #[n(3)]
        channel: ChannelTo,
    },
    /// Deliver to a body on this node. The front end has checked permission.
    #[n(5)]
    Signal {
        #[n(0)]
        target: Pid,
        #[n(1)]
        info: SigInfo,
        /// For tgkill: the thread, if not the whole process.
        #[n(2)]
        thread: Option<Pid>,
        /// Numbers the signals to a body that stop or continue it. Each is answered by [`BodyEvent::Stopped`] or [`BodyEvent::Continued`] with this
        /// turn or a later one.
        #[n(3)]
        turn: Option<u64>,
    },
    #[n(6)]
    KillDone {
        #[n(0)]
        id: u64,
        #[n(1)]
        errno: i32,
    },
    #[n(7)]
    Answer {
        #[n(0)]
        id: u64,
        #[n(1)]
        answer: Answer,
        /// No more answers to this question.
        #[n(2)]
        last: bool,
    },
    /// The body of a process that stands on this node ended: its stand-in ends likewise.
    #[n(8)]
    Ended {
        #[n(0)]
        pid: Pid,
        #[n(1)]
        exit: Exit,
        #[n(2)]
        usage: crate::event::Usage,
    },
    /// The body of a process that stands on this node is stopped, and no signal that was sent to it can change that.
    #[n(9)]
    Stopped {
        #[n(0)]
        pid: Pid,
        #[n(1)]
        sig: vocab::Sig,
        /// The newest [`ToFront::Signal`] with a turn that had come from this node for it.
        #[n(2)]
        turn: Option<u64>,
    },
    /// The same of one that is not stopped.
    #[n(10)]
    Continued {
        #[n(0)]
        pid: Pid,
        /// As in [`ToNode::Stopped`].
        #[n(1)]
        turn: Option<u64>,
    },
    #[n(11)]
    Lease(#[n(0)] Lease),
    #[n(12)]
    Ps {
        #[n(0)]
        id: u64,
    },
    /// Let this process stand on the node (pidfd_open from there).
    #[n(13)]
    StandIn {
        #[n(0)]
        kin: Kin,
    },
    /// There is no such process: the answer to [`ToFront::StandInWanted`].
    #[n(14)]
    NoStandIn {
        #[n(0)]
        pid: Pid,
        #[n(1)]
        errno: i32,
    },
    /// A process on this node is from now on the stand-in of a program on another node (`shoal run` on a node).
    #[n(15)]
    BecomeStandIn {
        #[n(0)]
        pid: Pid,
        #[n(1)]
        creds: Creds,
    },
    /// The body of a process that stands on this node has changed group, session, credentials or name: so shall its stand-in.
    #[n(16)]
    StandInIs {
        #[n(0)]
        person: Person,
    },
    /// Whatever the batches up to this one have told is to be seen on the front end (and where its processes stand for others); ends and
    /// stops of programs that `shoal run` started are not waited for.
    #[n(17)]
    EventsShown {
        #[n(0)]
        batch: u64,
    },
    /// The process takes (or gives up) the orphans among its descendants: so shall its stand-in on the node, now and whenever there is one.
    #[n(18)]
    Subreaper {
        #[n(0)]
        pid: Pid,
        #[n(1)]
        on: bool,
    },
    /// `from`, which stands on the node and whose end is told next, leaves the child `kin` to the subreaper `kin.person.ppid`, which runs there:
    /// the stand-in of `from` is to make the child's before it ends.
    #[n(19)]
    Adopt {
        #[n(0)]
        kin: Kin,
        #[n(1)]
        from: Pid,
    },
    /// Make a process that is to become `person`, with the kin it needs, and take its image; `key` is that of the connection over which it comes.
    #[n(20)]
    Arrive {
        #[n(0)]
        person: Person,
        #[n(1)]
        kin: Vec<Kin>,
        /// Where its standard streams lead, if they are relayed.
        #[n(2)]
        channel: Option<ChannelTo>,
        #[n(3)]
        #[cbor(with = "minicbor::bytes")]
        key: Vec<u8>,
        /// Those that have not been waited for: they are here, or among `kin`.
        #[n(4)]
        #[cbor(default, skip_if = "Vec::is_empty")]
        children: Vec<Pid>,
    },
    /// Send the image of this body to `address` (`address:port`), and keep it still until [`ToNode::Leave`] or [`ToNode::Stay`].
    #[n(21)]
    Depart {
        #[n(0)]
        pid: Pid,
        #[n(1)]
        address: String,
        #[n(2)]
        #[cbor(with = "minicbor::bytes")]
        key: Vec<u8>,
        /// Its standard streams are relayed, and go along.
        #[n(3)]
        streams: bool,
    },
    /// Another node has the process: it is to end here.
    #[n(22)]
    Leave {
        #[n(0)]
        pid: Pid,
        /// Those that have not been waited for. If it has others by now, it stays ([`ToFront::NotLeft`]).
        #[n(1)]
        #[cbor(default, skip_if = "Vec::is_empty")]
        children: Vec<Pid>,
    },
    /// It is not to leave: it runs on.
    #[n(23)]
    Stay {
        #[n(0)]
        pid: Pid,
    },
    /// What has arrived is the process from now on, and runs.
    #[n(24)]
    Go {
        #[n(0)]
        person: Person,
    },
    /// What has arrived, or was to, is not wanted.
    #[n(25)]
    Abandon {
        #[n(0)]
        pid: Pid,
    },
    /// What has become of a process that has left is known: the node need not remember it.
    #[n(26)]
    Forget {
        #[n(0)]
        pid: Pid,
    },
    /// Answered when every [`ToNode::Signal`] before it for `pid` has been given to it.
    #[n(27)]
    Barrier {
        #[n(0)]
        id: u64,
        #[n(1)]
        pid: Pid,
    },
}
