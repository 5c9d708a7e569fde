//! What [`Space`](crate::Space) wants done. Effects are to be begun in the order in which they come.

use crate::person::{KillTarget, Kin, Person, Usage};
use std::fmt;
use vocab::{Creds, Exit, NodeId, Pid, Sig, SigInfo};

/// One act of the front daemon.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Effect {
    /// Give a ghost that holds a command. Per ghost they are carried out in order. Each but Exit and Die is answered by [`Event::Done`](crate::Event::Done).
    Ghost { pid: Pid, command: Command },
    /// Answer the interrupted hold (EINTR), so that the pending SIGKILL or SIGSTOP takes the ghost.
    Interrupt { pid: Pid },
    /// Answer the ghost's FLUSH: let it end.
    Release { pid: Pid },
    /// The body runs again: so shall the ghost. A SIGCONT that is marked so that the ghost does not report it, and again if
    /// the ghost is found stopped later by a Stop that was given before this.
    Wake { pid: Pid },

    /// Start a program as `person`; `kin` are the stand-ins that it needs, outermost first. `copy` is its place in `RunMany::to`
    /// (the caller is then `person.ppid`), and `None` for `Run` (the caller is `person.pid`).
    Start { node: NodeId, person: Person, kin: Vec<Kin>, copy: Option<u32> },
    /// The node does not know of this program that it was to start, or has failed to: whoever asked is to know.
    NotStarted { node: NodeId, pid: Pid },
    /// Make what is to become `person` there, with the stand-ins that it needs. Its `children` are there, or among these.
    Arrive { node: NodeId, person: Person, kin: Vec<Kin>, children: Vec<Pid> },
    /// To be kept over a restart of the front daemon until the ghost `parent` is gone: it is the parent of copies, and `worst` is the
    /// worst end among those that have ended. Told again when that changes, and when all have been cloned: `copies` are those that have
    /// not ended, and `None` before.
    Copies { parent: Pid, worst: Exit, copies: Option<Vec<Pid>> },
    /// The ghost of copy `copy` could not be made: this copy is not started.
    NotCloned { parent: Pid, copy: u32, errno: i32 },
    /// The process `pid` on `node` is from now on the stand-in of its program on another node.
    BecomeStandIn { node: NodeId, pid: Pid, creds: Creds },
    /// Answer to StandInWanted: let it stand there.
    StandIn { node: NodeId, kin: Kin, others: Vec<Kin> },
    /// Answer to StandInWanted: it cannot (ESRCH).
    NoStandIn { node: NodeId, pid: Pid, errno: i32 },
    /// The body has changed group, session, credentials or name: so shall its stand-in on `node`. Answered by
    /// [`Event::StandInFollowed`](crate::Event::StandInFollowed).
    StandInIs { node: NodeId, person: Person },
    /// The process takes orphans, or no more: so shall its stand-in on `node`, if one is there or comes.
    Subreaper { node: NodeId, pid: Pid, on: bool },
    /// `from` ends, and stands on `node`; its child `kin` goes to the subreaper `kin.person.ppid`, whose body is there. Comes before the
    /// EndStandIn of `from`, whose stand-in makes that of the child: so the kernel there gives it to the subreaper. Of a `kin` that is on `node` itself `from` has heard no end.
    Adopt { node: NodeId, kin: Kin, from: Pid, others: Vec<Kin> },
    /// The body ended: its stand-in on `node` ends likewise.
    EndStandIn { node: NodeId, pid: Pid, exit: Exit, usage: Usage },
    /// The body is stopped, so shall its stand-in be, unless that has sent a signal that stops or continues after `turn`.
    StopStandIn { node: NodeId, pid: Pid, sig: Sig, turn: Option<u64> },
    /// The same of one that is not stopped.
    ContinueStandIn { node: NodeId, pid: Pid, turn: Option<u64> },

    /// Deliver a signal to a body on `node`; permission has been checked.
    Signal {
        node: NodeId,
        target: Pid,
        info: SigInfo,
        thread: Option<Pid>,
        /// For one that stops or continues: what the node tells of the body's state after it has this turn, or a later one.
        turn: Option<u64>,
    },
    /// A process of the front end that has no ghost is sent what stops or continues it, and its stand-in waits for that: tell with NativeStopped what comes of it.
    WatchStop { pid: Pid },
    /// Send it to a process of the front end that has no ghost; permission has been checked.
    SignalNative { target: Pid, info: SigInfo },
    /// It comes home, and this SIGCONT, which what stood for it there has taken, came after it was written: who makes it the process is to know that.
    HasGoneOn { pid: Pid, info: SigInfo },
    /// `sender` signals the native processes in group `pgid` on the front end (those that are no ghosts) but those in `but`, as far as it may, or
    /// (`info` is `None`) asks only. Then KillAsked is answered: by 0 if it may signal one of them; else by `errno`, or EPERM where that says that
    /// there is nobody and there is; `left` as in `KillDone`.
    SignalNatives {
        node: NodeId,
        id: u64,
        pgid: Pid,
        but: Vec<Pid>,
        sender: Person,
        info: Option<SigInfo>,
        errno: i32,
        left: Vec<Pid>,
    },
    /// Answer to KillAsked. Members of a group that are left to the node: what it has of them it signals, and it asks for the others one by one.
    KillDone { node: NodeId, id: u64, errno: i32, left: Vec<Pid> },

    /// Tell with NativeEnded when this process of the front end ends (a pidfd).
    WatchNative { pid: Pid },
    /// The program under `pid` has ended; whoever asked for it may want to know.
    Ended { pid: Pid, exit: Exit },
    /// One line for the log.
    Transition(Transition),
}

/// What a ghost is to do to itself. The words are the system calls'.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Command {
    /// Clone a ghost under `pid` ([`Pid::NONE`]: any number, told by Done). With `orphan` its parent is not the cloner: an
    /// intermediate process clones it and ends at once.
    Clone {
        pid: Pid,
        orphan: bool,
    },
    Exit(u8),
    /// Die of this signal, with the core bit if `core`.
    Die {
        sig: Sig,
        core: bool,
    },
    Stop(Sig),
    Setsid,
    /// setpgid(0, pgid).
    Setpgid(Pid),
    Ids(Creds),
    Name(Vec<u8>),
    /// wait4 for this child, which has ended.
    Reap(Pid),
    /// kill or tgkill. `sig` 0 asks only.
    Kill {
        target: KillTarget,
        sig: u8,
    },
    Subreaper(bool),
}

/// [`Transition::what`] of a body that may not live, since the kernel makes no ghost for it: the number is the errno.
pub const NO_GHOST: &str = "no ghost could be made: killed, errno";

/// A change of state worth a line in the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Transition {
    pub pid: Pid,
    pub node: NodeId,
    pub what: &'static str,
    /// An errno or signal number, 0 where there is none.
    pub number: i32,
}

impl fmt::Display for Transition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {}: {}", self.pid, self.node, self.what)?;
        if self.number != 0 {
            write!(f, " {}", self.number)?;
        }
        Ok(())
    }
}
