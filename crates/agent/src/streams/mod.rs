//! The node's side of standard streams: pipes or a terminal for each program that `shoal run` starts, relayed over its
//! channel by one thread of the agent. Nothing here makes the agent's main loop wait.

mod again;
mod channel;
mod dial;
mod ends;
mod held;
mod input;
mod leaving;
mod output;
mod relay;
mod terminal;
#[cfg(test)]
mod tests;
mod watch;

pub use ends::ChildEnds;

use crate::looking::Looker;
use crate::order::Order;
use dial::{Line, TIMES};
use ends::OurEnds;
use kern::epoll::Waker;
use kern::perf::Unread;
use leaving::Leaving;
use relay::Relay;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{channel, Sender};
use std::sync::Arc;
pub(crate) use terminal::Sides;
use vocab::{Fault, Result};
use wire::run::Stdio;

/// Names the streams of one program within this agent.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct StreamsId(u64);

/// Where the relay of `shoal run` is.
#[derive(Debug)]
pub enum To {
    /// Dial it, and send the preamble: `S` and the token.
    Dial { address: SocketAddr, token: [u8; 16] },
    /// A connected TCP socket, over which the preamble has gone.
    Connected(OwnedFd),
}

/// What is to be opened for one program.
pub struct Open {
    pub to: To,
    /// The key of the channel's handshake.
    pub key: [u8; 32],
    pub stdio: Stdio,
    /// If it breaks before its handshake is done, it is dialled again ([`Streams::redial`]).
    pub waits: bool,
}

/// The thread's other end.
#[derive(Debug)]
pub struct Streams {
    jobs: Sender<Job>,
    waker: Arc<Waker>,
    next: AtomicU64,
    leaving: Arc<Leaving>,
}

enum Job {
    Open { id: u64, line: Line, ends: OurEnds, waits: bool },
    Redial { id: u64, token: [u8; 16], line: Line },
    InVain(u64),
    Ended(u64),
    Left { id: u64, branch: u64 },
    Stays(u64),
    Typed { id: u64, bytes: Vec<u8> },
}

impl Streams {
    /// Starts the thread for programs of which nothing else can be seen; see [`Streams::ordered`].
    ///
    /// # Errors
    /// `Sys` when there is no thread or descriptor to be had.
    pub fn start() -> Result<Streams> {
        Streams::ordered(Arc::new(Order::new(Unread::none())?), Looker::within()?)
    }

    /// Starts the thread; it ends when this value is dropped, with all streams cut off. Output goes when `order` lets it, and `looker` says
    /// who waits for input.
    ///
    /// # Errors
    /// `Sys` when there is no thread or descriptor to be had.
    pub(crate) fn ordered(order: Arc<Order>, looker: Looker) -> Result<Streams> {
        let (jobs, taken) = channel();
        let waker = Arc::new(Waker::new()?);
        let leaving = Arc::new(Leaving::default());
        let relay = Relay::new(taken, waker.clone(), order, looker, leaving.clone())?;
        let thread = std::thread::Builder::new().name("streams".into()).spawn(move || relay.run());
        thread.map_err(|e| Fault::io(&e, "start the thread of streams"))?;
        Ok(Streams { jobs, waker, next: AtomicU64::new(0), leaving })
    }

    /// Makes descriptors 0, 1 and 2 of a program, and begins to relay them. The caller closes its copies as soon as the program has them:
    /// as long as they are open here, the program's input has a reader and its output a writer. Of a program that cannot be started they are all that
    /// is closed: the relay, which is told why by another way, closes the channel when it has heard that.
    ///
    /// # Errors
    /// `Sys` when no descriptors are to be had, or the relay is known at once to be out of reach. That this turns out later is no error here: the
    /// program gets EOF and EPIPE.
    pub fn open(&self, open: Open) -> Result<ChildEnds> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (ends, ours) = ends::make(StreamsId(id), &open.stdio)?;
        // Of one that waits the front end says where to dial again.
        let line = Line::begin(open.to, open.key, if open.waits { 1 } else { TIMES })?;
        ours.pipes()?.into_iter().for_each(|pipes| self.leaving.has_pipes(id, pipes));
        ours.terminal().into_iter().for_each(|terminal| self.leaving.has_terminal(id, terminal));
        if open.waits {
            self.leaving.waits(id);
        }
        self.tell(Job::Open { id, line, ends: ours, waits: open.waits });
        Ok(ends)
    }

    /// Dials anew for these streams, unless the handshake of their channel has been done.
    ///
    /// # Errors
    /// As [`Streams::open`].
    pub(crate) fn redial(&self, id: StreamsId, (address, token): (SocketAddr, [u8; 16]), key: [u8; 32]) -> Result<()> {
        let line = Line::begin(To::Dial { address, token }, key, 1)?;
        self.tell(Job::Redial { id: id.0, token, line });
        Ok(())
    }

    /// May they be dialled again, since their channel has not been there yet?
    pub(crate) fn is_waiting(&self, id: StreamsId) -> bool {
        self.leaving.is_waiting(id.0)
    }

    /// Descriptors 0, 1 and 2 of a program whose standard streams lead nowhere.
    ///
    /// # Errors
    /// `Sys` when /dev/null cannot be opened.
    pub fn nowhere(&self) -> Result<ChildEnds> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let null = || {
            let file = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null");
            file.map(OwnedFd::from).map_err(|e| Fault::io(&e, "open /dev/null"))
        };
        Ok(ChildEnds { id: StreamsId(id), stdin: null()?, stdout: null()?, stderr: null()?, terminal: false })
    }

    /// The program has ended: what it has written is sent, then the end. What its descendants write is still relayed.
    pub fn ended(&self, id: StreamsId) {
        self.tell(Job::Ended(id.0));
    }

    /// A process that has these streams goes on elsewhere, over a channel that the relay knows by `branch`. What it has written is sent, and then the relay
    /// is told; nothing is told of an end of these streams before that.
    ///
    /// To be called when the process is frozen for good, before it is killed.
    pub fn left(&self, id: StreamsId, branch: u64) {
        self.leaving.add(id.0);
        self.leaving.terminal(id.0).into_iter().for_each(|terminal| terminal.drain());
        self.tell(Job::Left { id: id.0, branch });
    }

    /// The terminal that these are, if so.
    pub(crate) fn sides(&self, id: StreamsId) -> Option<Sides> {
        self.leaving.terminal(id.0)?.sides()
    }

    /// A process that has these streams may leave: if they are a terminal, nothing is read or written there from now on.
    pub(crate) fn may_leave(&self, id: StreamsId) {
        self.leaving.terminal(id.0).into_iter().for_each(|terminal| terminal.hold(true));
    }

    /// It has not.
    pub(crate) fn stays(&self, id: StreamsId) {
        if let Some(terminal) = self.leaving.terminal(id.0) {
            terminal.hold(false);
            self.tell(Job::Stays(id.0));
        }
    }

    /// This was typed where a process that has these streams has been, and did not fit into its terminal here.
    pub(crate) fn typed(&self, id: StreamsId, bytes: Vec<u8>) {
        self.tell(Job::Typed { id: id.0, bytes });
    }

    /// The process for which these were made does not come: they are open only as long as what was to become it has them.
    pub(crate) fn in_vain(&self, id: StreamsId) {
        self.tell(Job::InVain(id.0));
        self.leaving.terminal(id.0).into_iter().for_each(|terminal| terminal.ended());
    }

    /// Whose standard streams this pipe is, if it is one, by the number of its file.
    pub fn of_pipe(&self, inode: u64) -> Option<StreamsId> {
        self.leaving.of_pipe(inode).map(StreamsId)
    }

    /// The numbers of the files that are these, in their order; `None` of a terminal.
    pub fn pipes(&self, id: StreamsId) -> Option<[u64; 3]> {
        self.leaving.pipes(id.0)
    }

    /// Output that waits for the order may go.
    pub(crate) fn granted(&self) {
        self.waker.wake();
    }

    fn tell(&self, job: Job) {
        if self.jobs.send(job).is_err() {
            tracing::error!("the thread of streams is gone");
        }
        self.waker.wake();
    }
}

impl Drop for Streams {
    fn drop(&mut self) {
        // The thread finds the sender gone when it is woken.
        let (dead, _) = channel();
        self.jobs = dead;
        self.waker.wake();
    }
}
