//! What the front end tells a node ([`crate::node`]).

use crate::ask::{Answer, Further};
use crate::channel::ChannelTo;
use crate::entry::Wanted;
use crate::event::{Kin, Person};
use crate::lease::Lease;
use crate::log::LogWanted;
use crate::look::Needs;
use crate::nodes::Chore;
use crate::run::Program;
use minicbor::{Decode, Encode};
use vocab::{Creds, Exit, Fault, NodeId, Pid, SigInfo};

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
        /// Numbers the signals to a body that stop or continue it. Each is answered by [`BodyEvent::Stopped`](crate::event::BodyEvent::Stopped) or [`BodyEvent::Continued`](crate::event::BodyEvent::Continued) with this
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
        /// Members of the group that it was for, which are or stand on this node as far as is known, or have until now: they have not been signalled.
        #[n(2)]
        left: Vec<Pid>,
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
        /// The newest [`ToFront::Signal`](crate::node::ToFront::Signal) with a turn that had come from this node for it.
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
        /// Its ancestors and leaders that are not on the node themselves.
        #[n(1)]
        others: Vec<Kin>,
    },
    /// There is no such process: the answer to [`ToFront::StandInWanted`](crate::node::ToFront::StandInWanted).
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
    /// the stand-in of `from` is to make the child's before it ends. A child that is on the node itself lives there, or has ended there so lately that `from` was not told.
    #[n(19)]
    Adopt {
        #[n(0)]
        kin: Kin,
        #[n(1)]
        from: Pid,
        /// As in [`ToNode::StandIn`].
        #[n(2)]
        others: Vec<Kin>,
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
        /// Memory may come behind it: [`ToFront::Whole`](crate::node::ToFront::Whole) is wanted.
        #[n(5)]
        #[cbor(default, skip_if = "crate::way::is_not")]
        lazy: bool,
        /// The user who asks for the move, if not root: the process must be this user's altogether.
        #[n(6)]
        user: Option<Creds>,
        /// What the process's user is called on the front end, if that is known ([`Program::user`]).
        #[n(7)]
        #[cbor(default, skip_if = "Option::is_none")]
        name: Option<String>,
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
        /// Its standard streams are relayed, and this is the branch over which they go on ([`crate::stream::Chunk::Left`]).
        #[n(3)]
        streams: Option<u64>,
        /// [`ToFront::Moving`](crate::node::ToFront::Moving) is wanted.
        #[n(4)]
        #[cbor(default, skip_if = "crate::way::is_not")]
        progress: bool,
        /// What is large of its memory stays behind, and comes when it is needed.
        #[n(5)]
        #[cbor(default, skip_if = "crate::way::is_not")]
        lazy: bool,
        /// As in [`ToNode::Arrive`].
        #[n(6)]
        user: Option<Creds>,
        /// As in [`Ask::Move`](crate::ask::Ask::Move).
        #[n(7)]
        #[cbor(with = "minicbor::bytes", default, skip_if = "Vec::is_empty")]
        executes: Vec<u8>,
    },
    /// Another node has the process: it is to end here.
    #[n(22)]
    Leave {
        #[n(0)]
        pid: Pid,
        /// Those that have not been waited for. If it has others by now, it stays ([`ToFront::NotLeft`](crate::node::ToFront::NotLeft)).
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
    /// What has become of a process that has left, or that all of one is there that has come, is known: the node need not remember it.
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
    /// How would this body leave, and what is in the way?
    #[n(28)]
    Look {
        #[n(0)]
        id: u64,
        #[n(1)]
        pid: Pid,
        /// Its standard streams are relayed.
        #[n(2)]
        streams: bool,
        /// As in [`ToNode::Arrive`].
        #[n(3)]
        user: Option<Creds>,
    },
    /// Could a process of another node come here that needs this?
    #[n(29)]
    Suits {
        #[n(0)]
        id: u64,
        #[n(1)]
        pid: Pid,
        #[n(2)]
        needs: Needs,
    },
    /// The node is lost that had what is to come of this one's memory (`shoal move --lazy`), or the one to which it was to come, and perhaps nobody ever says so on the
    /// connection to it.
    #[n(30)]
    RestLost {
        #[n(0)]
        pid: Pid,
    },
    /// Whoever asked `id` relays streams of a process that moves: the channel with this token is for them ([`Answer::Channel`]), and as soon as they have it
    /// [`ToFront::Branched`](crate::node::ToFront::Branched) is wanted. An [`Answer::Stays`] takes it back.
    #[n(31)]
    Branch {
        #[n(0)]
        id: u64,
        #[n(1)]
        #[cbor(with = "minicbor::bytes")]
        token: Vec<u8>,
        #[n(2)]
        copy: u32,
        #[n(3)]
        further: Further,
    },
    /// What does /proc show of these bodies? [`ToFront::Entries`](crate::node::ToFront::Entries)
    #[n(32)]
    Entries {
        #[n(0)]
        id: u64,
        #[n(1)]
        wanted: Wanted,
    },
    /// The channel of this process, or of what is to become it, was lost with the daemon that had it ([`ChannelTo::waits`]): this is to be dialled instead, unless its
    /// handshake has been done.
    #[n(33)]
    Redial {
        #[n(0)]
        pid: Pid,
        #[n(1)]
        channel: ChannelTo,
    },
    /// The node is to do this about itself; answered by [`crate::node::ToFront::Administered`].
    #[n(34)]
    Administer {
        #[n(0)]
        id: u64,
        #[n(1)]
        chore: Chore,
    },
    /// Lines of the log of the node's daemon; answered by [`crate::node::ToFront::Log`].
    #[n(35)]
    Log {
        #[n(0)]
        id: u64,
        #[n(1)]
        wanted: LogWanted,
    },
}
