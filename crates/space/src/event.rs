//! What [`Space`](crate::Space) is told. Order is what happened first, first; nothing else is assumed of time.

use crate::person::{KillTarget, Person, Usage};
use vocab::{Creds, Exit, NodeId, Pid, Sig, SigInfo, SigSet};

/// One thing that happened, from a client, a node, a ghost or a native process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// A node has joined with nothing on it.
    NodeUp { node: NodeId },
    /// The agreed time is over: the node has killed every body, so they have ended.
    NodeLost { node: NodeId },
    /// A node is back within the agreed time (or after a restart of the front daemon). `bodies` holds every process of the
    /// space whose end the front end has not acknowledged yet, zombies included; later events may repeat what it says. `natives` are
    /// those among `stand_ins` that are native processes of the front end, `subreapers` those among `bodies` that take orphans, `starting` programs
    /// that it was told to start and has yet to.
    NodeBack {
        node: NodeId,
        bodies: Vec<Person>,
        stand_ins: Vec<Pid>,
        natives: Vec<Person>,
        subreapers: Vec<Pid>,
        starting: Vec<Pid>,
    },

    /// `person` (the process that called `shoal run`) asks for a program on `to` under its own PID. On the front end
    /// (`at` is [`NodeId::FRONT`]) it is the ghost; on a node its process becomes the stand-in there.
    /// `kin` are its parent, group leader and session leader, as far as they live and are native to the front end.
    Run { person: Person, at: NodeId, to: NodeId, kin: Vec<Person> },
    /// The ancestors on the front end of a process that will ask next, its parent first, as far as they are native to it; and whether each of them is
    /// a subreaper by now.
    Ancestors { line: Vec<(Person, bool)> },
    /// `parent` (on the front end) asks for one copy on each of `to`; it clones a ghost for each and ends after all of them.
    RunMany { parent: Person, to: Vec<NodeId>, kin: Vec<Person> },
    /// What [`Effect::Start`](crate::Effect::Start) asked for failed; `status` is 126 or 127.
    NotStarted { node: NodeId, pid: Pid, status: u8 },

    /// These processes of the front end, who may be kin of bodies or are to be ones, are as they are now.
    Natives { persons: Vec<Person> },
    /// What is to become `pid`, which runs elsewhere, is to be made on `to`. Answered by [`Effect::Arrive`](crate::Effect::Arrive), or by
    /// nothing when there is no such body.
    Arrive { pid: Pid, to: NodeId },
    /// Its node has been told to end it, since another one has it: signals wait.
    Leaves { pid: Pid },
    /// Nothing of it is on its node any more, and it is about to be a process of the front end ([`Event::Moved`]): what becomes of that node is nothing to it.
    Lands { pid: Pid },
    /// It could not leave: it runs on where it was.
    Stays { pid: Pid },
    /// It is on `to` from now on, and nowhere else.
    Moved { pid: Pid, to: NodeId },
    /// The node from which it has moved has told all that it did there.
    Left { pid: Pid },
    /// It has left `node`, and stands there since. Comes before or after what follows from that it runs elsewhere, also after its end.
    Stands { pid: Pid, node: NodeId },

    /// A node tells of one of its bodies.
    Body { node: NodeId, event: BodyEvent },

    /// The ghost `pid` exists and holds: it obeys.
    Held { pid: Pid },
    /// The ghost has carried out the oldest command that it had not reported yet, in the order in which they were given.
    /// Exit and Die are not reported (Gone is), Stop when the ghost runs again. `Ok` holds a PID for Clone, else 0; `Err` the errno.
    Done { pid: Pid, result: std::result::Result<i32, i32> },
    /// The ghost was signalled and hands over the siginfo. Not told for the SIGCONT of [`Effect::Wake`](crate::Effect::Wake).
    Signalled { pid: Pid, info: SigInfo },
    /// The ghost's hold is interrupted with SIGKILL or SIGSTOP among its pending signals. Answered by
    /// [`Effect::Interrupt`](crate::Effect::Interrupt) once the body has died or stopped.
    Pending { pid: Pid, set: SigSet },
    /// The ghost's hold was interrupted as told, and it runs on: SIGCONT of [`Effect::Wake`](crate::Effect::Wake) had taken back the SIGSTOP.
    NotStopped { pid: Pid },
    /// The ghost is stopped without a command: it has taken the place of a process that was.
    Sleeps { pid: Pid },
    /// The ghost is in the exit gate. Answered by [`Effect::Release`](crate::Effect::Release), at once where space has let it end.
    /// Commands that it had not reported will not be carried out.
    Dying { pid: Pid },
    /// The ghost has ended; it is a zombie or reaped.
    Gone { pid: Pid },

    /// A native process that space let the daemon watch has ended. Of its children (ghosts too) `unwaited` have not been waited for.
    NativeEnded { pid: Pid, exit: Option<Exit>, unwaited: Vec<Pid> },
    /// A native process whose parent is on a node has been stopped by this signal, or (`None`) goes on.
    NativeStopped { pid: Pid, sig: Option<Sig> },

    /// A process that came to the front end is what it was, and runs there.
    IsHome { pid: Pid },
    /// A process that leaves `node`, or has left it, had been sent these there after it was written.
    Follows { node: NodeId, target: Pid, signals: Vec<SigInfo> },
    /// A stand-in on `node` was signalled there; what happens must happen to the real one.
    StandInSignalled { node: NodeId, target: Pid, info: SigInfo, turn: Option<u64> },
    /// The stand-in of `pid` on `node` is gone, with the last of its kin there.
    StandInGone { node: NodeId, pid: Pid },
    /// The stand-in of `pid` on `node` is what the oldest [`Effect::StandInIs`](crate::Effect::StandInIs) not yet answered says.
    StandInFollowed { node: NodeId, pid: Pid },
    /// Somebody on `node` wants `pid` to stand there (pidfd_open, rt_sigqueueinfo). `native`: what it is, when the front end has it and no
    /// ghost is it.
    StandInWanted { node: NodeId, pid: Pid, native: Option<Person> },
    /// `sender` on `node` called kill or its like. For a group the node has itself signalled what is on it, stand-ins included, and
    /// means the rest. `sig` 0 only asks. Answered by [`Effect::KillDone`](crate::Effect::KillDone).
    KillAsked { node: NodeId, id: u64, sender: Pid, target: KillTarget, sig: u8 },

    /// After a restart of the front daemon: this ghost holds. `person` as /proc of the front end has it.
    GhostFound { person: Person, stopped: bool },
    /// After a restart of the front daemon, when all ghosts were found: `parent` is the parent of copies, and what was kept of it
    /// ([`Effect::Copies`](crate::Effect::Copies)) is `worst` and `copies`, of which those that were found are left.
    CopiesFound { parent: Pid, worst: Exit, copies: Option<Vec<Pid>> },
    /// The time for nodes to come back after a restart is over: ghosts that no node has claimed end.
    Settled,
}

/// What happened to a body: `wire::event::BodyEvent`, word for word.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BodyEvent {
    Started { pid: Pid },
    Forked { parent: Pid, child: Pid },
    Named { pid: Pid, name: Vec<u8> },
    Credentials { pid: Pid, creds: Creds },
    Group { pid: Pid, pgid: Pid },
    Session { pid: Pid },
    Stopped { pid: Pid, sig: Sig, turn: Option<u64> },
    Continued { pid: Pid, turn: Option<u64> },
    Exited { pid: Pid, exit: Exit, usage: Usage },
    Reaped { pid: Pid },
    Adopted { pid: Pid, ppid: Pid },
    Subreaper { pid: Pid, on: bool },
}

impl BodyEvent {
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
