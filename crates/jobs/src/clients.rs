//! Connections to the socket of the batch system, and the questions that come on them.

use kern::clock::monotonic_us;
use kern::poll::Ready;
use kern::proc::Proc;
use kern::sock::{self, Peer};
use link::guests::Guests;
use link::Plain;
use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use vocab::{Creds, Fault, Result};
use wire::jobs::{JobAnswer, JobAsk};

/// Connections that are taken in one turn.
const TAKEN: usize = 32;
/// How long nobody is let in when there is no descriptor for them, in microseconds.
const DEAF_US: u64 = 100_000;

/// Names a connection.
pub(crate) type Token = u64;

struct Client {
    link: Plain,
    peer: Peer,
}

/// See the module.
pub(crate) struct Clients {
    listener: OwnedFd,
    all: BTreeMap<Token, Client>,
    guests: Guests<Token>,
    last: Token,
    /// No descriptor was to be had for who waits: nobody is let in until this time (monotonic).
    deaf_until_us: Option<u64>,
}

/// The asker, as the kernel has it.
pub(crate) struct Caller {
    pub(crate) creds: Creds,
    pub(crate) token: Token,
}

impl Clients {
    /// Listens at `path`, where every user of the machine can connect.
    ///
    /// # Errors
    /// As [`sock::unix_listen`].
    pub(crate) fn listen(path: &Path) -> Result<Clients> {
        let listener = sock::unix_listen(path, 0o666)?;
        Ok(Clients { listener, all: BTreeMap::new(), guests: Guests::default(), last: 0, deaf_until_us: None })
    }

    /// Descriptors to wait for.
    pub(crate) fn wanted(&self) -> Vec<(BorrowedFd<'_>, Ready)> {
        // A client that does not read its answers asks nothing more.
        let of = |client: &Client| if client.link.wants_write() { Ready::WRITE } else { Ready::READ };
        let listener = self.deaf_until_us.is_none().then(|| (self.listener.as_fd(), Ready::READ));
        let each = self.all.values().map(|client| (client.link.fd(), of(client)));
        listener.into_iter().chain(each).collect()
    }

    /// When to take again at the latest (monotonic).
    pub(crate) fn due_us(&self) -> Option<u64> {
        self.deaf_until_us
    }

    /// Takes new connections, and what has come on all: questions, each with who asks. If there is one, there may be more.
    pub(crate) fn take(&mut self) -> Vec<(Token, JobAsk)> {
        if self.deaf_until_us.is_none_or(|until_us| until_us <= monotonic_us()) {
            self.deaf_until_us = None;
            self.accept();
        }
        let (mut asks, mut over) = (Vec::new(), Vec::new());
        for (token, client) in &mut self.all {
            let said = said(&mut client.link).and_then(|ask| {
                self.guests.keeps(*token, client.link.kept())?;
                Ok(ask)
            });
            match said {
                Ok(ask) => asks.extend(ask.map(|ask| (*token, ask))),
                Err(_) => over.push(*token),
            }
        }
        over.into_iter().for_each(|token| self.leave(token));
        asks
    }

    fn accept(&mut self) {
        for _ in 0..TAKEN {
            match sock::accept(self.listener.as_fd()) {
                Ok(Some(fd)) => self.enter(fd),
                Ok(None) => return,
                Err(fault) => {
                    tracing::warn!("{fault}");
                    self.deaf_until_us = Some(monotonic_us() + DEAF_US);
                    return;
                }
            }
        }
    }

    fn enter(&mut self, fd: OwnedFd) {
        let Ok(peer) = Peer::of(fd.as_fd()) else { return };
        self.last += 1;
        let (token, mut link) = (self.last, Plain::new(fd).in_slices());
        match self.guests.enter(token, peer.creds().uid) {
            Ok(()) => drop(self.all.insert(token, Client { link, peer })),
            // A client that does not read the refusal has lost it.
            Err(fault) => drop(link.send(&JobAnswer::Failed(fault)).and_then(|()| link.flush())),
        }
    }

    fn leave(&mut self, token: Token) {
        self.all.remove(&token);
        self.guests.leave(token);
    }

    pub(crate) fn answer(&mut self, token: Token, answer: &JobAnswer) {
        let Some(client) = self.all.get_mut(&token) else { return };
        let sent = client.link.send(answer).and_then(|()| client.link.flush());
        let kept = sent.and_then(|()| self.guests.keeps(token, client.link.kept()));
        if kept.is_err() {
            self.leave(token);
        }
    }

    /// The process at the other end of a connection.
    ///
    /// # Errors
    /// `Gone` when its process is.
    pub(crate) fn caller(&self, token: Token, proc: &Proc) -> Result<Caller> {
        let gone = || Fault::gone("the caller is gone");
        let client = self.all.get(&token).ok_or_else(gone)?;
        let now = proc.status(client.peer.creds().pid).map_err(|_| gone())?.creds;
        client.peer.pid(client.link.fd()).ok_or_else(gone)?;
        Ok(Caller { creds: sock::peer_identity(client.link.fd(), &now)?, token })
    }

    /// Cuts a submission down to what its submitter may have: capabilities, limits, niceness.
    ///
    /// # Errors
    /// `Gone` when the process is; `Refused` for a process of another user namespace, whose rights are not those of its user here.
    pub(crate) fn restrict(&self, caller: &Caller, program: &mut wire::run::Program, proc: &Proc) -> Result<()> {
        let gone = || Fault::gone("the caller is gone");
        let client = self.all.get(&caller.token).ok_or_else(gone)?;
        let pid = client.peer.creds().pid;
        let capabilities = proc.status(pid).map_err(|_| gone())?.capabilities;
        let (limits, nice) = (proc.limits(pid).map_err(|_| gone())?, kern::own::nice_of(pid)?);
        let same = kern::view::is_of_same_users(pid);
        // All of it was read by its number, which has to be its own still.
        client.peer.pid(client.link.fd()).ok_or_else(gone)?;
        if !same {
            return Err(Fault::refused("a job cannot be submitted from another user namespace"));
        }
        program.capabilities = Some(capabilities);
        program.restrict(&limits, nice);
        Ok(())
    }
}

/// The next question, if one has come whole.
fn said(link: &mut Plain) -> Result<Option<JobAsk>> {
    if link.wants_write() {
        link.flush()?;
        return Ok(None);
    }
    if let Some(ask) = link.next()? {
        return Ok(Some(ask));
    }
    let received = link.receive();
    match link.next()? {
        Some(ask) => Ok(Some(ask)),
        None => received.map(|_| None),
    }
}
