//! The plan that every machine is told before it asks: a line of text.

use crate::tree::ancestors;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use vocab::{Fault, Result};

/// Ancestors that are asked before the one where the stream begins: in a chain there are as many as machines.
const ASKED: usize = 6;

/// A machine that takes part.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hop {
    /// By which a machine knows which of these it is: of its own choice, unlike all others'.
    pub token: u64,
    /// Where it is asked.
    pub address: SocketAddr,
    /// Where it finds the machine at which the stream begins.
    pub origin: IpAddr,
}

/// The tree, and the key of all its connections.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    pub key: [u8; 32],
    /// Children of each place; at least 1.
    pub children: usize,
    /// At which port the stream begins.
    pub port: u16,
    pub hops: Vec<Hop>,
}

impl Plan {
    /// Whom the machine with this token asks, with the number of the place. One that the plan does not know asks where the stream begins.
    pub(crate) fn sources(&self, token: u64) -> Vec<(usize, SocketAddr)> {
        let own = self.hops.iter().position(|hop| hop.token == token);
        let Some((own, hop)) = own.and_then(|at| Some((at + 1, self.hops.get(at)?))) else { return Vec::new() };
        let nearest = ancestors(own, self.children).filter(|place| *place != 0).take(ASKED);
        let others = nearest.filter_map(|place| Some((place, self.hops.get(place - 1)?.address)));
        others.chain([(0, SocketAddr::new(hop.origin, self.port))]).collect()
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "plan ")?;
        self.key.iter().try_for_each(|byte| write!(to, "{byte:02x}"))?;
        write!(to, " {} {}", self.children, self.port)?;
        let mut hops = self.hops.iter();
        hops.try_for_each(|Hop { token, address, origin }| write!(to, " {token:x}@{address}@{origin}"))
    }
}

impl FromStr for Plan {
    type Err = Fault;

    fn from_str(line: &str) -> Result<Plan> {
        parse(line).ok_or_else(|| Fault::wire(format!("a line of {} bytes is no plan", line.len())))
    }
}

fn parse(line: &str) -> Option<Plan> {
    let mut words = line.split(' ');
    let (Some("plan"), Some(key)) = (words.next(), words.next()) else { return None };
    let mut bytes = [0; 32];
    if key.len() != 64 || !key.is_ascii() {
        return None;
    }
    for (byte, at) in bytes.iter_mut().zip((0..).step_by(2)) {
        *byte = u8::from_str_radix(&key[at..at + 2], 16).ok()?;
    }
    let children = words.next()?.parse().ok().filter(|children| *children > 0)?;
    let port = words.next()?.parse().ok()?;
    let hop = |word: &str| {
        let mut parts = word.split('@');
        let token = u64::from_str_radix(parts.next()?, 16).ok()?;
        let hop = Hop { token, address: parts.next()?.parse().ok()?, origin: parts.next()?.parse().ok()? };
        parts.next().is_none().then_some(hop)
    };
    let hops = words.map(hop).collect::<Option<Vec<Hop>>>()?;
    Some(Plan { key: bytes, children, port, hops })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn plan(machines: u64, children: usize) -> Plan {
        let hop = |n: u64| Hop {
            token: n,
            address: SocketAddr::new([10, 0, 0, n as u8].into(), 1000 + n as u16),
            origin: if n.is_multiple_of(2) {
                [10, 0, 0, 0].into()
            } else {
                IpAddr::V6([0xfd00, 0, 0, 0, 0, 0, 0, 1].into())
            },
        };
        Plan { key: [7; 32], children, port: 99, hops: (1..=machines).map(hop).collect() }
    }

    #[test]
    fn a_line_says_it_all() {
        let plan = plan(3, 2);
        assert_eq!(plan.to_string().parse::<Plan>().expect("a plan"), plan);
        for bad in ["", "plan", "plan 00 1 1", &plan.to_string().replace(" 2 ", " 0 "), &format!("{plan} x@y")] {
            assert!(bad.parse::<Plan>().is_err(), "{bad}");
        }
    }

    #[test]
    fn the_last_that_is_asked_is_where_it_begins() {
        let asked = |token| plan(100, 1).sources(token).into_iter().map(|(place, _)| place).collect::<Vec<_>>();
        assert_eq!(asked(50), [49, 48, 47, 46, 45, 44, 0]);
        assert_eq!(asked(1), [0]);
        assert!(asked(1000).is_empty());
    }

    proptest! {
        #[test]
        fn no_line_is_too_much(line in ".{0,200}") {
            let _any = line.parse::<Plan>();
        }
    }
}
