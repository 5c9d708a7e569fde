//! Batch jobs: what `shoal job` asks of the batch system, over a socket of its own, and the answers.

use crate::run::Program;
use minicbor::{Decode, Encode};
use vocab::{Exit, Fault, NodeId};

/// The name of that socket, beside the daemon's.
pub const SOCKET: &str = "jobs.sock";
/// The most bytes of a job's name.
pub const NAME: usize = 64;

/// One question. The asker's identity is what the kernel says of the connection.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub enum JobAsk {
    #[n(0)]
    Submit(#[n(0)] Box<Submission>),
    /// The jobs that are not over; with `all` also the last ones that are.
    #[n(1)]
    List {
        #[n(0)]
        all: bool,
    },
    /// Of root, and of the job's user.
    #[n(2)]
    Cancel {
        #[n(0)]
        id: u64,
    },
}

/// The answer to a [`JobAsk`].
#[derive(Clone, PartialEq, Debug, Encode, Decode)]
pub enum JobAnswer {
    #[n(0)]
    Failed(#[n(0)] Fault),
    #[n(1)]
    Submitted {
        #[n(0)]
        id: u64,
    },
    /// In the order of their numbers.
    #[n(2)]
    Jobs(#[n(0)] Vec<JobRow>),
    /// The job is over, or is being ended.
    #[n(3)]
    Cancelled,
}

/// A job that a user wants run.
#[derive(Clone, PartialEq, Eq, Default, Debug, Encode, Decode)]
pub struct Submission {
    /// The command, with the surroundings of who submits it. Limits, niceness and capabilities above the submitter's own are cut down to those.
    #[n(0)]
    pub program: Program,
    /// How many nodes the job needs, 1 or more.
    #[n(1)]
    pub nodes: u32,
    /// The requested time: the job is ended when it has run for so long.
    #[n(2)]
    pub seconds: u64,
    /// Printable characters of ASCII without blanks, at most [`NAME`] bytes.
    #[n(3)]
    pub name: String,
    /// The file of its output, by a path that is absolute or begins in the program's working directory; empty: `shoal-job.NUMBER` there.
    #[n(4)]
    #[cbor(with = "minicbor::bytes")]
    pub output: Vec<u8>,
}

/// A line of `shoal job list`. Times are in seconds since 1970.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub struct JobRow {
    #[n(0)]
    pub id: u64,
    #[n(1)]
    pub uid: u32,
    #[n(2)]
    pub name: String,
    /// `waiting`, `starting`, `running`, `ending` or `over`.
    #[n(3)]
    pub state: String,
    /// As [`Submission::nodes`].
    #[n(4)]
    pub count: u32,
    /// The nodes that the job has, or had.
    #[n(5)]
    pub nodes: Vec<NodeId>,
    /// As [`Submission::seconds`].
    #[n(6)]
    pub seconds: u64,
    #[n(7)]
    pub submitted: i64,
    /// `None`: not yet.
    #[n(8)]
    pub started: Option<i64>,
    #[n(9)]
    pub ended: Option<i64>,
    /// How its command has ended, if it was started and has.
    #[n(10)]
    pub exit: Option<Exit>,
    /// Why the job was ended, or why it waits; empty: nobody has ended it, and it is its turn when there is room.
    #[n(11)]
    pub why: String,
}
