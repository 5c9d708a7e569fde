//! A stream of bytes from one machine to many, along a tree: each machine passes on what it has while more comes (docs/decisions/spreading.md).
//!
//! The tree is arithmetic: who knows the [`Plan`] knows whom to ask. Whoever gets nothing from its parent asks the parent's parent for the rest, up to where the
//! stream begins, so that a machine that dies or hangs on the way costs only its own place, and nobody has to notice that.
#![forbid(unsafe_code)]

mod fetch;
mod line;
mod plan;
mod roll;
mod serve;
mod spool;
mod tree;

pub use fetch::fetch;
pub use line::{Line, PATIENCE};
pub use plan::{Hop, Plan};
pub use roll::{join, tell, Roll, Told};
pub use serve::{each, listen, serve, Listener};
pub use spool::{Spool, Sum};
pub use tree::fan_out;

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{IpAddr, SocketAddr};
    use std::path::Path;
    use std::sync::Arc;

    const KEY: [u8; 32] = [5; 32];
    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn bytes() -> Vec<u8> {
        (0..3_000_000u32).map(|n| (n / 7) as u8).collect()
    }

    fn spool() -> Arc<Spool> {
        Spool::new(Path::new("/tmp")).expect("a file")
    }

    /// As many machines as there are listeners, in a chain behind the origin.
    fn chain(origin: &Listener, machines: &[Listener]) -> Plan {
        let hop =
            |(token, one): (u64, &Listener)| Hop { token, address: SocketAddr::new(HERE, one.port), origin: HERE };
        let hops = (1..).zip(machines).map(hop).collect();
        Plan { key: KEY, children: 1, port: origin.port, hops }
    }

    fn came(spool: &Arc<Spool>) -> Vec<u8> {
        let mut all = Vec::new();
        std::io::Read::read_to_end(&mut spool.reader(), &mut all).expect("the stream");
        all
    }

    /// One listens and never answers, one has another key, one is gone: those behind them have all of it.
    #[test]
    fn a_stream_comes_past_those_who_pass_nothing_on() {
        let origin = listen().expect("a port");
        let mut machines: Vec<Listener> = (0..6).map(|_| listen().expect("a port")).collect();
        let plan = chain(&origin, &machines);
        let begins = spool();
        serve(origin, KEY, begins.clone()).expect("a thread");
        let last = machines.pop().expect("six");
        let fifth = machines.pop().expect("five");
        drop(machines.pop());
        serve(machines.pop().expect("three"), [6; 32], spool()).expect("a thread");
        let ends: Vec<_> = [(5, fifth), (6, last)]
            .into_iter()
            .map(|(token, listener)| {
                let (own, plan) = (spool(), plan.clone());
                serve(listener, KEY, own.clone()).expect("a thread");
                std::thread::spawn(move || (fetch(&plan, token, &own), own))
            })
            .collect();
        for piece in bytes().chunks(100_000) {
            begins.append(piece).expect("room");
        }
        begins.finish(None).expect("no sum is expected");
        let from = ends.into_iter().map(|end| {
            let (from, own) = end.join().expect("a thread");
            assert!(came(&own) == bytes());
            from.expect("it came")
        });
        assert_eq!(from.collect::<Vec<_>>(), [0, 5]);
    }

    #[test]
    fn a_stream_that_is_cut_off_or_damaged_is_told_so() {
        let (origin, one) = (listen().expect("a port"), listen().expect("a port"));
        let plan = chain(&origin, &[one]);
        let (begins, own) = (spool(), spool());
        serve(origin, KEY, begins.clone()).expect("a thread");
        begins.append(b"some").expect("room");
        begins.fail(vocab::Fault::gone("its reader has died"));
        let told = fetch(&plan, 1, &own).expect_err("it is cut off").to_string();
        assert!(told.contains("its reader has died"), "{told}");
        own.append(b"other").expect("room");
        assert!(own.finish(Some(1)).is_err_and(|fault| fault.to_string().contains("checksum")));
        assert!(fetch(&plan, 9, &spool()).is_err());
    }
}
