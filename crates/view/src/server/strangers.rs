//! Connections that have not shown the cluster key yet. Who opens many and says nothing closes their own.

use crate::line::lock;
use kern::sock;
use link::crowd::Crowd;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Shutdown, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Mutex;
use vocab::{Fault, Result};

/// Each has a thread: so many at once, and so many from one address. A node dials one.
const MOST: usize = 256;
const MOST_OF_ONE: usize = 32;

struct Waiting {
    crowd: Crowd<u64>,
    sockets: HashMap<u64, TcpStream>,
    last: u64,
}

pub(crate) struct Strangers(Mutex<Waiting>);

impl Default for Strangers {
    fn default() -> Strangers {
        let crowd = Crowd::of(MOST, MOST_OF_ONE);
        Strangers(Mutex::new(Waiting { crowd, sockets: HashMap::new(), last: 0 }))
    }
}

impl Strangers {
    /// Another one, which has a thread that waits for what it says. Its number is for [`Strangers::leave`].
    ///
    /// # Errors
    /// `Sys` where there are no descriptors.
    pub(crate) fn enter(&self, fd: &OwnedFd) -> Result<u64> {
        let socket = fd.try_clone().map_err(|e| Fault::io(&e, "share a connection"))?;
        let from = sock::peer_address(fd.as_fd()).map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |address| address.ip());
        let mut waiting = lock(&self.0);
        waiting.last += 1;
        let number = waiting.last;
        waiting.sockets.insert(number, socket.into());
        if let Some(gone) = waiting.crowd.enter(number, from) {
            // Its thread hears of it.
            if let Some(socket) = waiting.sockets.remove(&gone) {
                let _ = socket.shutdown(Shutdown::Both);
            }
        }
        Ok(number)
    }

    /// It has shown the key, or has gone.
    pub(crate) fn leave(&self, number: u64) {
        let mut waiting = lock(&self.0);
        waiting.crowd.leave(number);
        waiting.sockets.remove(&number);
    }
}
