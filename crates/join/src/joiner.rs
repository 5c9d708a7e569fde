//! The side of the machine that joins.

use crate::{Token, PATIENCE_MS};
use kern::clock::monotonic_us;
use kern::poll::{poll, Ready};
use kern::sock;
use link::preamble::Preamble;
use link::Secure;
use std::net::ToSocketAddrs;
use std::os::fd::{AsFd, OwnedFd};
use vocab::{Fault, Kind, NodeId, Result};
use wire::join::{JoinAnswer, JoinAsk};
use wire::node::VERSION;

/// The front end's answer: key, number and name.
#[derive(Clone, PartialEq, Eq)]
pub struct Given {
    pub key: [u8; 32],
    pub number: Option<NodeId>,
    pub name: Option<String>,
}

/// Asks the front end for the key; `keep` brings it to the disk, and then the front end is told.
///
/// # Errors
/// `Refused` when the token is not good, `Sys` or `Gone` when the front end cannot be reached, what `keep` returns, and EACCES for who is not root.
pub fn join(token: &Token, host: &str, keep: impl FnOnce(&Given) -> Result<()>) -> Result<()> {
    let fd = dial(&token.front)?;
    Preamble::Join(token.name()).send(fd.as_fd())?;
    let mut link = Secure::channel_dialler(fd, &token.key())?;
    link.send(&JoinAsk::Key { version: VERSION, host: host.to_owned() })?;
    let given = match answer(&mut link) {
        Ok(JoinAnswer::Key { key, number, name }) => {
            let key = key.try_into().map_err(|_| Fault::wire("the front end gives a key that is not 32 bytes long"))?;
            Given { key, number, name }
        }
        Ok(JoinAnswer::Failed(fault)) => return Err(fault.doing(format!("the front end {} gives no key", token.front))),
        Err(fault) if !link.established() && fault.kind == Kind::Refused => return Err(refused(&token.front, fault)),
        Err(fault) => return Err(fault.doing(format!("join by the front end {}", token.front))),
    };
    keep(&given)?;
    // The front end has nothing more to do but to say in its log that all went well.
    let _ = link.send(&JoinAsk::Kept).and_then(|()| link.flush());
    Ok(())
}

/// A front end closes the connection without a word when nobody waits there, so that strangers learn nothing of tokens.
fn refused(front: &str, cause: Fault) -> Fault {
    let why = format!(
        "{front} does not know this token: it is wrong, was used, has expired or was withdrawn (`shoal key invite` on the front end makes another)"
    );
    Fault { cause: Some(Box::new(cause)), ..Fault::refused(why) }
}

fn dial(front: &str) -> Result<OwnedFd> {
    let doing = || format!("find the front end {front}");
    let addresses = front.to_socket_addrs().map_err(|e| Fault::io(&e, doing()))?;
    let mut last = Fault::gone(format!("{}: it has no address", doing()));
    for address in addresses {
        let deadline_us = monotonic_us() + PATIENCE_MS * 1000;
        match sock::tcp_begin_as_root(address).and_then(|fd| sock::tcp_await(fd, address, deadline_us)) {
            Ok(fd) => return Ok(fd),
            Err(fault) => last = fault,
        }
    }
    Err(last.doing(format!("reach the front end {front}")))
}

fn answer(link: &mut Secure) -> Result<JoinAnswer> {
    let until_us = monotonic_us() + PATIENCE_MS * 1000;
    loop {
        link.flush()?;
        let received = link.receive();
        if let Some(answer) = link.next::<JoinAnswer>()? {
            return Ok(answer);
        }
        received?;
        let now = monotonic_us();
        if now >= until_us {
            return Err(Fault::gone(format!("no answer for {} s", PATIENCE_MS / 1000)));
        }
        let wanted = Ready { readable: true, writable: link.wants_write(), over: false };
        // Interrupted, it is asked again.
        let _ = poll(&[(link.fd(), wanted)], ((until_us - now) / 1000 + 1) as i32);
    }
}
