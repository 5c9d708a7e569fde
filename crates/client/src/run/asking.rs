//! The client's end of the local socket: one question, answers with descriptors.

use kern::poll::{poll, Ready};
use kern::signal;
use kern::sock::{peer_credentials, receive_with, send, unix_connect};
use local::daemon::NO_DAEMON;
use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use vocab::errno::EPIPE;
use vocab::{Fault, Kind, Result, SigSet};
use wire::ask::{Answer, Ask};
use wire::frame;

/// Longest wait for the daemon to take the connection, in microseconds.
const CONNECT_US: u64 = 5_000_000;

/// The daemon answers in less, in milliseconds, unless something is wrong with it or with the node.
const PATIENCE_MS: i32 = 500;

/// Bytes asked of the kernel at once; an answer may be longer.
const TURN: usize = 16 * 1024;

/// A connection to the daemon on this machine.
#[derive(Debug)]
pub(crate) struct Asking {
    socket: OwnedFd,
    arrived: Vec<u8>,
    /// Came with answers that have not been taken yet, in order.
    descriptors: VecDeque<OwnedFd>,
    /// Taken, and to be heard by somebody else.
    ahead: VecDeque<Answered>,
    /// Once all signals are blocked: which were before.
    mask: Option<SigSet>,
}

/// An answer, and the descriptor that belongs to it ([`Answer::Channel`]).
pub(crate) type Answered = (Answer, Option<OwnedFd>);

impl Asking {
    /// # Errors
    /// `Gone` when no daemon listens at `path`; `Refused` when who listens is not root, and this program may more than its user.
    pub(crate) fn connect(path: &Path) -> Result<Asking> {
        let socket = unix_connect(path, CONNECT_US).map_err(|fault| match fault.kind {
            Kind::Gone => fault.doing(NO_DAEMON),
            _ => fault.doing(format!("reach the daemon at {}", path.display())),
        })?;
        // What it says is done with a right that the caller does not have.
        let listens = peer_credentials(socket.as_fd())?.uid;
        if listens != 0 && kern::own::is_favoured() {
            let what = format!("obey the daemon at {}: user {listens} runs it, not root", path.display());
            return Err(Fault::refused(what));
        }
        Ok(Asking { socket, arrived: Vec::new(), descriptors: VecDeque::new(), ahead: VecDeque::new(), mask: None })
    }

    /// Blocks all signals; who waits for the daemon longer than [`PATIENCE_MS`] is hit by them all the same. Returns which were blocked before.
    pub(crate) fn block_signals(&mut self) -> Result<SigSet> {
        let before = signal::block_all()?;
        self.mask = Some(before);
        Ok(before)
    }

    /// Sends a question whole, however long the daemon takes to read it. That it has closed the connection [`Asking::answer`] tells.
    pub(crate) fn ask(&mut self, ask: &Ask) -> Result<()> {
        let mut bytes = Vec::new();
        frame::encode(ask, &mut bytes)?;
        let mut left = bytes.as_slice();
        while !left.is_empty() {
            match send(self.socket.as_fd(), left) {
                Ok(n) => left = &left[n..],
                Err(kern::poll::EINTR) => {}
                Err(kern::poll::EAGAIN) => self.wait(Ready::WRITE)?,
                // It may have said why before it closed the connection.
                Err(EPIPE) => break,
                Err(errno) => return Err(Fault::sys(errno, "ask the daemon")),
            }
        }
        Ok(())
    }

    /// The next answer, waited for as long as it takes: the user's Ctrl-C ends a long wait.
    pub(crate) fn answer(&mut self) -> Result<Answered> {
        loop {
            // It may have come together with the one before.
            if let Some(answered) = self.next()? {
                return Ok(answered);
            }
            self.wait(Ready::READ)?;
            // The end may come together with the last answers.
            let received = self.receive();
            if let Some(answered) = self.next()? {
                return Ok(answered);
            }
            received?;
        }
    }

    /// Takes what has come, without waiting.
    ///
    /// # Errors
    /// `Gone` at the end: what came before it can still be taken by [`Asking::next`].
    pub(crate) fn receive(&mut self) -> Result<()> {
        let mut buffer = [0; TURN];
        while let Some(received) = receive_with(self.socket.as_fd(), &mut buffer)? {
            if received.bytes == 0 {
                return Err(Fault::gone("the daemon closed the connection"));
            }
            self.arrived.extend_from_slice(&buffer[..received.bytes]);
            self.descriptors.extend(received.descriptors);
        }
        Ok(())
    }

    /// The next whole answer that has come.
    pub(crate) fn next(&mut self) -> Result<Option<Answered>> {
        match self.ahead.pop_front() {
            None => self.come(),
            answered => Ok(answered),
        }
    }

    /// An answer that was taken is to be heard by whoever listens from now on, after those that were given back before.
    pub(crate) fn give_back(&mut self, answered: Answered) {
        self.ahead.push_back(answered);
    }

    fn come(&mut self) -> Result<Option<Answered>> {
        let Some((body, used)) = frame::split(&self.arrived)? else { return Ok(None) };
        let answer = frame::decode::<Answer>(body);
        self.arrived.drain(..used);
        let answer = answer?;
        let descriptor = match answer {
            Answer::Channel { .. } => {
                Some(self.descriptors.pop_front().ok_or_else(|| Fault::wire("a channel came without its descriptor"))?)
            }
            _ => None,
        };
        Ok(Some((answer, descriptor)))
    }

    fn wait(&self, what: Ready) -> Result<()> {
        let wait = |timeout_ms| match poll(&[(self.socket.as_fd(), what)], timeout_ms) {
            Ok(ready) => Ok(ready[0] != Ready::default()),
            Err(kern::poll::EINTR) => Ok(false),
            Err(errno) => Err(Fault::sys(errno, "wait for the daemon")),
        };
        let Some(mask) = self.mask else { return wait(-1).map(drop) };
        if !wait(PATIENCE_MS)? {
            signal::set_mask(mask)?;
            wait(-1)?;
            signal::block_all()?;
        }
        Ok(())
    }
}

impl AsFd for Asking {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
