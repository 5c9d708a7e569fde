//! What the agent and a mover say to each other.

use minicbor::{Decode, Encode};
use vocab::{Creds, Fault, Pid, Sig, SigInfo};
use wire::look::{Look, Needs, Progress};

/// From the agent. The first is [`Order::Out`] or [`Order::In`].
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub enum Order {
    #[n(0)]
    Out(#[n(0)] Out),
    #[n(1)]
    In(#[n(0)] In),
    /// To Out, which is [`Said::Ready`]: it may leave if these are the children that it has not waited for.
    #[n(2)]
    Leave(#[n(0)] Vec<Pid>),
    /// To Out: it is not to leave, unless it has ([`Said::Bound`]).
    #[n(3)]
    Stay,
    /// To In, which waits for that: its process is a vessel, and is taken. Then: it runs.
    #[n(4)]
    Go,
    /// The link is cut. To Out, which may not leave yet: it runs on. To In: it is over, unless it has said to the other mover that all is there.
    #[n(5)]
    Off,
    /// To Out that is bound: it is to end.
    #[n(6)]
    End,
    /// To Out that is bound, to In, or first: a stand-in takes its place.
    #[n(7)]
    Remain(#[n(0)] Remain),
    /// First: only look at it, as for [`Order::Out`].
    #[n(8)]
    Look(#[n(0)] Out),
    /// First: what of this is not here?
    #[n(9)]
    Suits(#[n(0)] Needs),
    /// First: take an image, of a process that comes to the front end.
    #[n(10)]
    Home(#[n(0)] Home),
    /// To Home, and to In before the first Go: what stands for the process is stopped, or may be, and is to do all the same what it is told before it becomes it.
    #[n(12)]
    Rouse,
    /// To Home: what has stood for the process waits for its tracer, and is to become it.
    #[n(11)]
    Become(#[n(0)] Stood),
    /// To In that has it run though it is stopped: its parent has continued it. If it is stopped now, that is by another signal.
    #[n(13)]
    Woken,
}

/// What has come to what stood for a process, as far as that has told.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Encode, Decode)]
pub struct Stood {
    /// It has taken this SIGCONT since the process was written, and may have stopped again since.
    #[n(0)]
    pub went_on: Option<SigInfo>,
    /// It is stopped only since the process was: it goes on if that did.
    #[n(1)]
    pub asleep: bool,
}

/// Stop this process, and send its image.
#[derive(Clone, PartialEq, Eq, Debug, Default, Encode, Decode)]
pub struct Out {
    #[n(0)]
    pub pid: Pid,
    /// `address:port` of who takes it, and the key of the connection.
    #[n(1)]
    pub address: String,
    #[n(2)]
    #[cbor(with = "minicbor::bytes")]
    pub key: Vec<u8>,
    /// How many seccomp filters it has from us.
    #[n(3)]
    pub filters: u64,
    /// Pipes that are relayed standard streams, in their order, by the numbers of their files: they go along, others may have them too.
    #[n(4)]
    pub streams: Option<[u64; 3]>,
    /// A stand-in is to take its place, or may have to: what that takes is opened before the process is given up.
    #[n(5)]
    pub remains: Option<Remain>,
    /// As far as is known when it is looked at.
    #[n(14)]
    #[cbor(default)]
    pub place: Place,
    /// [`Said::Moving`] is wanted.
    #[n(6)]
    pub progress: bool,
    /// What is large of its memory comes after it.
    #[n(7)]
    pub lazy: bool,
    /// Over which the streams go on; of no concern to the mover.
    #[n(8)]
    pub branch: Option<u64>,
    /// What takes its place relays its standard streams, whatever they are: it is [`Remain::ghost`], whatever becomes of the agent.
    #[n(9)]
    #[cbor(default)]
    pub home: bool,
    /// It goes along.
    #[n(10)]
    pub terminal: Option<Sides>,
    /// Who follows the daemon is told as well.
    #[n(11)]
    pub heirs: Option<Heirs>,
    /// As [`Out::streams`], but they cannot go along: nobody knows who relays them.
    #[n(12)]
    pub relayed: Option<[u64; 3]>,
    /// The user who asks for the move, if not root: the process must be this user's altogether.
    #[n(13)]
    pub user: Option<Creds>,
    /// A file that a process of the front end will execute where it goes: if there is none of that name, it sees the front end's files.
    #[n(15)]
    #[cbor(with = "minicbor::bytes", default, skip_if = "Vec::is_empty")]
    pub executes: Vec<u8>,
}

/// The place of a process that leaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Encode, Decode)]
pub enum Place {
    #[default]
    #[n(0)]
    Empty,
    /// Other processes there need something in that place.
    #[n(1)]
    Needed,
}

impl Place {
    pub fn needed_if(needed: bool) -> Place {
        if needed {
            Place::Needed
        } else {
            Place::Empty
        }
    }
}

/// Successors of the daemon, to a mover of the front end.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub struct Heirs {
    /// Where one finds the mover from when the process may not be here any more: a socket.
    #[n(0)]
    pub socket: String,
    /// How long one is waited for, in microseconds.
    #[n(1)]
    pub patience_us: u64,
}

/// The two sides of a terminal, by the agent's descriptors.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Encode, Decode)]
pub struct Sides {
    #[n(0)]
    pub master: i32,
    #[n(1)]
    pub slave: i32,
}

/// What the agent keeps open.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Encode, Decode)]
pub struct Held {
    /// Of the mover's descriptor.
    #[n(0)]
    pub number: i32,
}

/// A stand-in takes the place of this process.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub struct Remain {
    #[n(0)]
    pub pid: Pid,
    /// The directory of the hold file.
    #[n(1)]
    pub hold: String,
    /// The directory for its program, which only root may enter.
    #[n(2)]
    pub programs: String,
    /// It relays the standard streams of the process, and finds the daemon at this socket.
    #[n(3)]
    pub ghost: Option<String>,
}

/// Take an image and make this process what it says.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub struct In {
    #[n(0)]
    pub pid: Pid,
    #[n(1)]
    #[cbor(with = "minicbor::bytes")]
    pub key: Vec<u8>,
    /// By which it stands there again if it does not come: opened before it is given up.
    #[n(2)]
    pub remain: Option<Remain>,
    /// As [`Out::user`].
    #[n(3)]
    pub user: Option<Creds>,
    /// The process may see the node's own files, if it did where it comes from.
    #[n(4)]
    #[cbor(default)]
    pub may_see_node: bool,
}

/// Take an image, and keep it until what stands for this process can become it.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub struct Home {
    #[n(0)]
    pub process: In,
    #[n(1)]
    pub heirs: Heirs,
    /// What stands for it shares its memory with others of its program, and relays nothing.
    #[n(3)]
    pub light: bool,
    /// The `shoal run` of whose program it has the standard streams.
    #[n(4)]
    pub relay: Option<Pid>,
    /// As [`Remain::programs`].
    #[n(5)]
    pub programs: String,
}

/// To the agent.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub enum Said {
    /// It is over, and (Out) the process runs on or (In) is killed.
    #[n(0)]
    Failed(#[n(0)] Fault),
    /// In: the image is taken at this TCP port.
    #[n(1)]
    Listening(#[n(0)] u16),
    /// In: the process is what the image says, and stands still. Home: all of it is there, and can be made.
    #[n(2)]
    Rebuilt,
    /// Out: it has ended, or a stand-in has taken its place, and these signals had come since it was written. The stand-in is stopped as it was; one that relays is
    /// [roused](Order::Rouse) until the mover ends.
    #[n(3)]
    Left {
        #[n(0)]
        come: Vec<SigInfo>,
        #[n(1)]
        stopped: bool,
    },
    /// Out: it will not run here any more; if the mover ends, it is killed.
    #[n(4)]
    Bound,
    /// Out: it is to stand still from now on.
    #[n(5)]
    Ready,
    /// In: the other mover says that it may run, and it does as soon as this is said. Home: it says so, or the daemon has, and nothing else can have it any more.
    #[n(6)]
    Runs,
    /// In, behind Runs: it has been let go, and stops at once by this, or does not.
    #[n(14)]
    Goes(#[n(0)] Option<Sig>),
    /// To [`Order::Look`].
    #[n(7)]
    Looked(#[n(0)] Look),
    /// To [`Order::Suits`], in words.
    #[n(8)]
    Suited(#[n(0)] Vec<String>),
    /// In, before Rebuilt: of its memory some is to come yet, and the agent keeps a copy of this descriptor until [`Said::Whole`], or until it is killed.
    #[n(10)]
    Hold(#[n(0)] Held),
    /// In, before Rebuilt: this was typed at its terminal, and is to follow what that has taken.
    #[n(15)]
    Typed(
        #[n(0)]
        #[cbor(with = "minicbor::bytes")]
        Vec<u8>,
    ),
    /// In, before Rebuilt: the process takes the orphans among its descendants.
    #[n(16)]
    TakesOrphans,
    /// In: the process needs the front end's files, and there is nothing yet that shows them.
    #[n(17)]
    WantsFront,
    /// In: all of it has come.
    #[n(11)]
    Whole,
    /// In: that cannot come any more, neither for it nor for these.
    #[n(12)]
    Lost {
        #[n(0)]
        fault: Fault,
        #[n(1)]
        with: Vec<Pid>,
    },
    /// Home: it has been let go, and runs, or stops at once by this.
    #[n(13)]
    IsHome(#[n(0)] Option<Sig>),
    /// Out: how far it is.
    #[n(9)]
    Moving(#[n(0)] Progress),
}

impl Said {
    /// Is this said before anything is noted ([`super::Note`])?
    pub fn is_before_notes(&self) -> bool {
        match self {
            Said::Listening(_) | Said::Ready | Said::Moving(_) | Said::Hold(_) | Said::Looked(_) | Said::Suited(_) => {
                true
            }
            Said::Typed(_) | Said::TakesOrphans | Said::WantsFront => true,
            Said::Failed(_) | Said::Rebuilt | Said::Left { .. } | Said::Bound | Said::Runs | Said::Goes(_) => false,
            Said::Whole | Said::Lost { .. } | Said::IsHome(_) => false,
        }
    }
}
