//! The side of the front end: waits for the one machine that has the token.

use crate::{socket, Token, PATIENCE_MS};
use kern::clock::monotonic_us;
use kern::poll::{poll, Ready};
use kern::sock;
use link::rarely::{Rarely, Refusals};
use link::Secure;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use tracing::{info, warn};
use vocab::{Fault, NodeId, Result};
use wire::join::{JoinAnswer, JoinAsk, HOST};
use wire::node::VERSION;

/// Connections that have not shown the secret, at most; the oldest one goes when another comes.
const MOST: usize = 32;
/// Milliseconds between looks whether the invitation was withdrawn.
const LOOK_MS: u64 = 1_000;
/// Milliseconds in which a machine that was given the key has to say that it has kept the key.
const KEEPING_MS: u64 = 60_000;

/// The machine that may have the key, and its number and name.
#[derive(Clone, Debug, Default)]
pub struct Invited {
    pub number: Option<NodeId>,
    pub name: Option<String>,
    /// The only address from which the machine may come; `None`: any.
    pub from: Option<IpAddr>,
    /// The machine need not show by its port that root is asking ([`sock::is_port_of_root`]).
    pub any_port: bool,
}

/// How an invitation ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The machine has key and configuration on its disk.
    Joined {
        host: String,
        from: SocketAddr,
    },
    /// The key was given, and nothing was heard of the machine after that.
    Unconfirmed {
        host: String,
        from: SocketAddr,
    },
    Expired,
    Withdrawn,
}

/// See the module.
pub struct Inviter {
    listener: Option<OwnedFd>,
    path: PathBuf,
    key: [u8; 32],
    cluster: [u8; 32],
    invited: Invited,
    peers: Vec<Peer>,
    attempts: Rarely,
    lines: Refusals,
}

struct Peer {
    link: Secure,
    from: SocketAddr,
    until_us: u64,
}

/// The outcome of a look at a peer.
enum Step {
    Waits,
    /// The key is on its way: the token is used up.
    Given(String),
    Kept,
}

impl Inviter {
    /// Takes connections that name `token` from the daemon with this run directory, from now on.
    ///
    /// # Errors
    /// `Sys` as bind(2), for who may not write into the run directory, or where there is none.
    pub fn open(run_dir: &Path, token: &Token, cluster: [u8; 32], invited: Invited) -> Result<Inviter> {
        let path = socket(run_dir, &token.name());
        let listener = Some(sock::unix_listen_for_descriptors(&path)?);
        let (peers, attempts, lines) = (Vec::new(), Rarely::default(), Refusals::default());
        Ok(Inviter { listener, path, key: token.key(), cluster, invited, peers, attempts, lines })
    }

    /// Waits for the machine, at most until the monotonic moment `until_us`.
    ///
    /// # Errors
    /// `Sys` as poll(2).
    pub fn wait(&mut self, until_us: u64) -> Result<Outcome> {
        loop {
            let now = monotonic_us();
            if now >= until_us {
                return Ok(Outcome::Expired);
            }
            if std::fs::symlink_metadata(&self.path).is_err() {
                return Ok(Outcome::Withdrawn);
            }
            self.peers.retain(|peer| now < peer.until_us);
            let last = self.peers.iter().map(|peer| peer.until_us).fold(until_us, u64::min);
            let ready = self.ready(last)?;
            if let Some((at, host)) = self.serve(&ready[1..]) {
                return Ok(self.given(at, host));
            }
            if ready[0].readable {
                self.take();
            }
        }
    }

    /// The states of the descriptors: the listener's first, then those of the peers.
    fn ready(&self, until_us: u64) -> Result<Vec<Ready>> {
        let wanted = |link: &Secure| Ready { readable: true, writable: link.wants_write(), over: false };
        let listener: Option<BorrowedFd<'_>> = self.listener.as_ref().map(AsFd::as_fd);
        let mut all: Vec<(BorrowedFd<'_>, Ready)> = listener.map(|fd| (fd, Ready::READ)).into_iter().collect();
        all.extend(self.peers.iter().map(|peer| (peer.link.fd(), wanted(&peer.link))));
        let timeout_ms = (until_us.saturating_sub(monotonic_us()) / 1000 + 1).min(LOOK_MS);
        match poll(&all, timeout_ms as i32) {
            Ok(ready) => Ok(ready),
            Err(kern::poll::EINTR) => Ok(vec![Ready::default(); all.len()]),
            Err(errno) => Err(Fault::sys(errno, "wait for a machine that joins")),
        }
    }

    /// Serves peers; the place of the one that has been given the key, and its host's name.
    fn serve(&mut self, ready: &[Ready]) -> Option<(usize, String)> {
        let mut gone = Vec::new();
        let mut given = None;
        for (at, state) in ready.iter().enumerate() {
            if given.is_some() || *state == Ready::default() {
                continue;
            }
            match self.step(at) {
                Ok(Step::Given(host)) => given = Some((at, host)),
                Ok(Step::Waits | Step::Kept) => {}
                Err(fault) => {
                    let from = self.peers[at].from;
                    if let Some(dropped) = self.lines.may_about(from.ip(), &fault, monotonic_us()) {
                        warn!(%from, dropped, "a machine that would join is refused: {fault}");
                    }
                    gone.push(at);
                }
            }
        }
        if given.is_none() {
            gone.into_iter().rev().for_each(|at| drop(self.peers.remove(at)));
        }
        given
    }

    fn step(&mut self, at: usize) -> Result<Step> {
        let refusal = |version, peer: &Peer| self.invited.refusal(version, peer.from);
        let Some(peer) = self.peers.get_mut(at) else { return Ok(Step::Waits) };
        // A message that came before the peer closed the connection counts.
        let received = peer.link.receive();
        // A message is opened with the key of this very connection: who sent it has the secret.
        let step = match peer.link.next::<JoinAsk>()? {
            Some(JoinAsk::Key { version, host }) => match refusal(version, peer) {
                Some(fault) => {
                    peer.link.send(&JoinAnswer::Failed(fault.clone()))?;
                    peer.link.flush()?;
                    return Err(fault);
                }
                None => {
                    let Invited { number, name, .. } = self.invited.clone();
                    peer.link.send(&JoinAnswer::Key { key: self.cluster.to_vec(), number, name })?;
                    Step::Given(host)
                }
            },
            Some(JoinAsk::Kept) => Step::Kept,
            None => {
                received?;
                Step::Waits
            }
        };
        peer.link.flush()?;
        Ok(step)
    }

    /// The key has gone to this peer: nobody else gets it. Waits until the machine has kept it.
    fn given(&mut self, at: usize, host: String) -> Outcome {
        self.close();
        let peer = self.peers.swap_remove(at);
        self.peers.clear();
        let from = peer.from;
        let host = kern::own::plain(&host.chars().take(HOST).collect::<String>());
        info!(%from, host, "a machine was given the cluster key; the token is used up");
        self.peers.push(peer);
        let until_us = monotonic_us() + KEEPING_MS * 1000;
        while monotonic_us() < until_us {
            match self.ready(until_us).and_then(|_| self.step(0)) {
                Ok(Step::Kept) => return Outcome::Joined { host, from },
                Ok(_) => {}
                Err(_) => break,
            }
        }
        Outcome::Unconfirmed { host, from }
    }

    /// The daemon hands over a connection.
    fn take(&mut self) {
        let taken = self.try_take().unwrap_or_else(|fault| {
            if self.lines.may(monotonic_us()).is_some() {
                warn!("a connection of a machine that would join: {fault}");
            }
            None
        });
        if let Some(peer) = taken {
            if self.peers.len() >= MOST {
                self.peers.remove(0);
            }
            self.peers.push(peer);
        }
    }

    fn try_take(&mut self) -> Result<Option<Peer>> {
        let Some(listener) = &self.listener else { return Ok(None) };
        let Some(from) = sock::accept(listener.as_fd())? else { return Ok(None) };
        // Only root can connect: the daemon sends at once.
        let _ = poll(&[(from.as_fd(), Ready::READ)], LOOK_MS as i32);
        let Some(received) = sock::receive_with(from.as_fd(), &mut [0; 1])? else { return Ok(None) };
        let Some(fd) = received.descriptors.into_iter().next() else { return Ok(None) };
        let (now, from) = (monotonic_us(), sock::peer_address(fd.as_fd())?);
        if self.attempts.may(now).is_none() {
            return Err(Fault::refused(format!("{from}: too many attempts in this second")));
        }
        sock::tcp_tune(fd.as_fd(), PATIENCE_MS as u32)?;
        let link = Secure::channel_taker(fd, &self.key)?;
        Ok(Some(Peer { link, from, until_us: now + PATIENCE_MS * 1000 }))
    }

    /// Takes nobody any more.
    fn close(&mut self) {
        if self.listener.take().is_some() {
            // Withdrawn, it is gone already.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

impl Drop for Inviter {
    fn drop(&mut self) {
        self.close();
    }
}

impl Invited {
    /// Why a machine that has the secret is not given the key; the token stays good.
    fn refusal(&self, version: u32, from: SocketAddr) -> Option<Fault> {
        if version != VERSION {
            let why = format!("the machine speaks version {version}, the front end version {VERSION}");
            return Some(Fault::refused(why));
        }
        if self.from.is_some_and(|only| only != from.ip()) {
            let why = format!("the token is not for {}: it names the address from which it may be used", from.ip());
            return Some(Fault::refused(why));
        }
        if !self.any_port && !sock::is_port_of_root(from.port()) {
            let why = format!(
                "port {} of {} is not root's: is the way translated (shoal key invite --any-port)?",
                from.port(),
                from.ip()
            );
            return Some(Fault::refused(why));
        }
        None
    }
}
