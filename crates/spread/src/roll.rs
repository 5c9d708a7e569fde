//! Who takes part, where that is not known before the stream begins: each machine joins as it comes, and is told whom to ask.
//!
//! A machine's place in the tree is its number, whoever else has come, so that the same machines ask each other each time: a machine that has spoken with many others is asked for all their
//! addresses (ARP), and forgets those of some (`gc_thresh3` of neigh: 1024, in all namespaces together). Who asks for a place where nobody has come asks the place above. What became of the stream on a
//! machine is told to where it begins too.

use crate::line::{Line, PATIENCE};
use crate::plan::{Hop, Plan};
use crate::serve::Listener;
use crate::spool::Spool;
use crate::tree::{ancestors, fan_out};
use kern::clock::monotonic_us;
use kern::sock;
use minicbor::{Decode, Encode};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;
use vocab::{Fault, Result};

/// A machine reaches where the stream begins within this, in microseconds.
const CONNECTED_US: u64 = 3_000_000;
/// How often whoever is connected hears that the other end is there.
const OFTEN: Duration = Duration::from_millis(PATIENCE.as_millis() as u64 / 4);

/// The machine's word, once on each connection.
#[derive(Encode, Decode, PartialEq, Eq, Debug)]
enum Says {
    /// The machine takes part, and is asked there. `place`: its number, from 1 on.
    #[n(0)]
    Joins {
        #[n(0)]
        place: u64,
        #[n(1)]
        address: String,
        /// Where it has found the origin.
        #[n(2)]
        origin: String,
    },
    /// What has become of it there.
    #[n(1)]
    Tells {
        #[n(0)]
        place: u64,
        #[cbor(n(1), with = "minicbor::bytes")]
        what: Vec<u8>,
    },
}

#[derive(Encode, Decode, PartialEq, Eq, Debug)]
enum Answers {
    #[n(0)]
    Alive,
    /// Whom to ask, and how many bytes there are.
    #[n(1)]
    Plan(#[n(0)] String, #[n(1)] u64),
}

/// The list, where the stream begins.
pub struct Roll {
    pub key: [u8; 32],
    /// Where the stream is asked for.
    pub port: u16,
    pub spool: Arc<Spool>,
    /// So many will come, about.
    pub machines: usize,
    /// Read-locked while somebody is told, and answered: whoever ends this process when it has been told all writes to it first.
    pub answering: Arc<RwLock<()>>,
    hops: Mutex<BTreeMap<u64, Hop>>,
}

impl Roll {
    pub fn new(key: [u8; 32], port: u16, spool: Arc<Spool>, machines: usize) -> Roll {
        Roll { key, port, spool, machines, answering: Arc::default(), hops: Mutex::default() }
    }

    /// Takes all who come, as long as the process lives. `told`: what has become of the machine at this place, in a thread of its own.
    ///
    /// # Errors
    /// `Sys` where no thread can be made.
    pub fn call(self, listener: Listener, told: impl Fn(u64, Vec<u8>) + Send + Sync + 'static) -> Result<()> {
        crate::each(listener, self.key, move |line| match line.hear()? {
            Says::Joins { place, address, origin } => {
                let parsed = address.parse().ok().zip(origin.parse().ok());
                let (address, origin) =
                    parsed.ok_or_else(|| Fault::wire(format!("{address:?} and {origin:?} are no addresses")))?;
                // The tree follows the stream's length.
                while !self.spool.ended_within(OFTEN) {
                    line.say(&Answers::Alive)?;
                }
                let plan = self.enter(Hop { token: place, address, origin }).to_string();
                line.say(&Answers::Plan(plan, self.spool.length()))
            }
            Says::Tells { place, what } => {
                let answering = self.answering.read().unwrap_or_else(PoisonError::into_inner);
                told(place, what);
                line.say(&Answers::Alive)?;
                drop(answering);
                // The machine may be asked as long as this end is there.
                loop {
                    line.say(&Answers::Alive)?;
                    line.stays(OFTEN)?;
                }
            }
        })
    }

    /// A plan of those that are above it, each of which asks the one before.
    fn enter(&self, hop: Hop) -> Plan {
        let mut all = self.hops.lock().unwrap_or_else(PoisonError::into_inner);
        let children = fan_out(self.spool.length(), self.machines);
        let above = ancestors(usize::try_from(hop.token).unwrap_or(0), children);
        let mut hops: Vec<Hop> = above.filter_map(|place| all.get(&(place as u64)).cloned()).collect();
        hops.reverse();
        hops.push(hop.clone());
        all.insert(hop.token, hop);
        Plan { key: self.key, children: 1, port: self.port, hops }
    }
}

/// A machine takes part, which is asked at `port`; whom it asks itself, and for how many bytes. `at`: where the [`Roll`] is.
///
/// # Errors
/// `Gone`, `Sys` when the origin cannot be reached.
pub fn join(at: SocketAddr, key: &[u8; 32], place: u64, port: u16) -> Result<(Plan, u64)> {
    let fd = sock::tcp_connect(at, monotonic_us() + CONNECTED_US)?;
    let own = sock::local_address(fd.as_fd())?.ip();
    let mut line = Line::dialled(fd, key)?;
    let (address, origin) = (SocketAddr::new(own, port).to_string(), at.ip().to_string());
    line.say(&Says::Joins { place, address, origin })?;
    loop {
        match line.hear()? {
            Answers::Alive => {}
            Answers::Plan(plan, length) => return Ok((plan.parse()?, length)),
        }
    }
}

/// The origin has been told what has become of a machine.
pub struct Told(Line);

impl Told {
    /// Returns when nobody needs this machine any more.
    pub fn stays(mut self) {
        while let Ok(Answers::Alive) = self.0.hear() {}
    }
}

/// Tells the origin what has become of a machine, and returns when that has been heard.
///
/// # Errors
/// As [`join`]; nobody may have heard it then.
pub fn tell(at: SocketAddr, key: &[u8; 32], place: u64, what: Vec<u8>) -> Result<Told> {
    let mut line = Line::dialled(sock::tcp_connect(at, monotonic_us() + CONNECTED_US)?, key)?;
    line.say(&Says::Tells { place, what })?;
    match line.hear()? {
        Answers::Alive => Ok(Told(line)),
        other @ Answers::Plan(..) => Err(Fault::wire(format!("{other:?} is no answer to what was told"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{fetch, listen, serve};
    use std::path::Path;

    const KEY: [u8; 32] = [9; 32];

    /// Machines come before and after the stream is whole, each has it from somebody, and what each says is heard.
    #[test]
    fn who_comes_is_told_whom_to_ask() {
        let (stream, roll) = (listen().expect("a port"), listen().expect("a port"));
        let spool = Spool::new(Path::new("/tmp")).expect("a file");
        let at = SocketAddr::new([127, 0, 0, 1].into(), roll.port);
        let (says, heard) = std::sync::mpsc::channel();
        let says = Mutex::new(says);
        let list = Roll::new(KEY, stream.port, spool.clone(), 9);
        serve(stream, KEY, spool.clone()).expect("a thread");
        list.call(roll, move |place, what| says.lock().expect("mine").send((place, what)).expect("heard"))
            .expect("a thread");
        let bytes: Vec<u8> = (0..700_000u32).map(|n| (n / 3) as u8).collect();
        let come = |place: u64| {
            let bytes = bytes.clone();
            std::thread::spawn(move || {
                let (listener, own) = (listen().expect("a port"), Spool::new(Path::new("/tmp")).expect("a file"));
                let (plan, length) = join(at, &KEY, place, listener.port).expect("it is told");
                assert_eq!(length, bytes.len() as u64);
                serve(listener, KEY, own.clone()).expect("a thread");
                fetch(&plan, place, &own).expect("it comes");
                let mut all = Vec::new();
                std::io::Read::read_to_end(&mut own.reader(), &mut all).expect("whole");
                assert!(all == bytes);
                // Until the test ends.
                tell(at, &KEY, place, vec![place as u8]).expect("heard").stays();
            })
        };
        (1..6).for_each(|place| drop(come(place)));
        spool.append(&bytes).expect("room");
        spool.finish(None).expect("no sum is expected");
        (6..10).for_each(|place| drop(come(place)));
        let mut all: Vec<_> = (0..9).map(|_| heard.recv_timeout(Duration::from_secs(20)).expect("said")).collect();
        all.sort();
        assert_eq!(all, (1..10).map(|place: u64| (place, vec![place as u8])).collect::<Vec<_>>());
        assert!(join(at, &[1; 32], 1, 1).is_err(), "without the key nobody is told");
    }
}
