//! Where the front end is: its name is looked up without keeping the node waiting, which has a lease of life to see to.

use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::mpsc::{channel, Receiver};
use tracing::warn;
use vocab::{Fault, Result};

/// Asks the resolver, for as long as that takes.
///
/// # Errors
/// As getaddrinfo(3).
pub(crate) fn look_up(name: &str) -> Result<Vec<SocketAddr>> {
    let found = name.to_socket_addrs().map_err(|e| Fault::io(&e, format!("look up the front end {name}")))?;
    Ok(found.collect())
}

/// The addresses of a name as they were known last. Once [`Names::wait_no_more`] was called they are looked up by a thread, for the next time.
pub(crate) struct Names {
    name: String,
    ask: fn(&str) -> Result<Vec<SocketAddr>>,
    known: Vec<SocketAddr>,
    waits: bool,
    asked: Option<Receiver<Result<Vec<SocketAddr>>>>,
}

impl Names {
    pub(crate) fn new(name: String, ask: fn(&str) -> Result<Vec<SocketAddr>>) -> Names {
        Names { name, ask, known: Vec::new(), waits: true, asked: None }
    }

    /// From now on threads may be made, and nothing may wait.
    pub(crate) fn wait_no_more(&mut self) {
        self.waits = false;
    }

    /// # Errors
    /// As `ask`, while it is waited for.
    pub(crate) fn addresses(&mut self) -> Result<&[SocketAddr]> {
        if self.waits {
            self.known = (self.ask)(&self.name)?;
        } else if self.name.parse::<SocketAddr>().is_err() {
            self.take();
            self.begin();
        }
        Ok(&self.known)
    }

    fn take(&mut self) {
        match self.asked.as_ref().map(Receiver::try_recv) {
            Some(Ok(Ok(found))) if !found.is_empty() => self.known = found,
            Some(Ok(Ok(_))) | None => {}
            Some(Ok(Err(fault))) => warn!(%fault, known = ?self.known, "link: the addresses of before are used"),
            Some(Err(std::sync::mpsc::TryRecvError::Empty)) => return,
            Some(Err(std::sync::mpsc::TryRecvError::Disconnected)) => {}
        }
        self.asked = None;
    }

    fn begin(&mut self) {
        if self.asked.is_some() {
            return;
        }
        let (answer, asked) = channel();
        let (name, ask) = (self.name.clone(), self.ask);
        let thread = std::thread::Builder::new().name("resolver".into());
        match thread.spawn(move || answer.send(ask(&name))) {
            Ok(_) => self.asked = Some(asked),
            Err(error) => warn!(%error, "link: the front end is not looked up"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU16, Ordering};
    use std::sync::{Condvar, Mutex};

    /// The port that the resolver says; while it is 0 it does not answer.
    static PORT: Mutex<u16> = Mutex::new(1);
    static CHANGED: Condvar = Condvar::new();
    static ANSWERED: AtomicU16 = AtomicU16::new(0);

    fn slow(_name: &str) -> Result<Vec<SocketAddr>> {
        let port = CHANGED.wait_while(PORT.lock().expect("whole"), |port| *port == 0).expect("whole");
        ANSWERED.fetch_add(1, Ordering::SeqCst);
        Ok(vec![SocketAddr::from(([127, 0, 0, 1], *port))])
    }

    #[test]
    fn a_resolver_that_does_not_answer_keeps_nobody_waiting() {
        let mut names = Names::new("front".into(), slow);
        let first = |names: &mut Names| names.addresses().expect("known")[0].port();
        assert_eq!(first(&mut names), 1);
        names.wait_no_more();
        *PORT.lock().expect("whole") = 0;
        assert_eq!((first(&mut names), first(&mut names)), (1, 1));
        *PORT.lock().expect("whole") = 2;
        CHANGED.notify_all();
        while first(&mut names) != 2 {
            std::thread::yield_now();
        }
        assert!(ANSWERED.load(Ordering::SeqCst) >= 2);
    }
}
