//! Connections that have not shown yet who they are: how many a daemon keeps, and which one goes when another comes.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;

/// At most so many at once, and so many from one address: a node dials one for each copy of a program that it starts.
const MOST: usize = 8192;
const MOST_OF_ONE: usize = 2048;

/// Those connections, oldest first, by whatever names them.
#[derive(Debug)]
pub struct Crowd<K> {
    waiting: VecDeque<(K, IpAddr)>,
    most: usize,
    most_of_one: usize,
}

impl<K> Default for Crowd<K> {
    fn default() -> Crowd<K> {
        Crowd::of(MOST, MOST_OF_ONE)
    }
}

impl<K> Crowd<K> {
    /// So many at once, and so many from one address.
    pub fn of(most: usize, most_of_one: usize) -> Crowd<K> {
        Crowd { waiting: VecDeque::new(), most, most_of_one }
    }
}

impl<K: Copy + PartialEq> Crowd<K> {
    /// Another one from this address; the caller drops the one that is returned. That is the oldest of an address that has too many, so who
    /// opens connections and says nothing closes their own: those who know what to say do so at once.
    pub fn enter(&mut self, key: K, from: IpAddr) -> Option<K> {
        self.waiting.push_back((key, from));
        let of_this = self.waiting.iter().filter(|(_, address)| *address == from).count();
        let whose = match () {
            () if of_this > self.most_of_one => from,
            () if self.waiting.len() > self.most => self.largest()?,
            () => return None,
        };
        let at = self.waiting.iter().position(|(_, address)| *address == whose)?;
        self.waiting.remove(at).map(|(key, _)| key)
    }

    /// One has shown who it is, or is closed.
    pub fn leave(&mut self, key: K) {
        self.waiting.retain(|(waiting, _)| *waiting != key);
    }

    /// The address that has the most.
    fn largest(&self) -> Option<IpAddr> {
        let mut counts = HashMap::new();
        for (_, address) in &self.waiting {
            *counts.entry(*address).or_insert(0usize) += 1;
        }
        counts.into_iter().max_by_key(|(_, count)| *count).map(|(address, _)| address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(n: u32) -> IpAddr {
        IpAddr::from(n.to_be_bytes())
    }

    #[test]
    fn one_address_drives_out_itself_only() {
        let mut crowd = Crowd::default();
        assert_eq!(crowd.enter(0, host(1)), None);
        let gone: Vec<usize> = (1..=5000).filter_map(|key| crowd.enter(key, host(2))).collect();
        assert_eq!(gone, (1..=5000 - MOST_OF_ONE).collect::<Vec<_>>());
        crowd.leave(5000);
        assert_eq!(crowd.enter(5001, host(2)), None);
    }

    #[test]
    fn of_many_addresses_those_that_have_most_lose_their_oldest() {
        let mut crowd = Crowd::default();
        (0..MOST).for_each(|key| assert_eq!(crowd.enter(key, host(key as u32 % 10)), None));
        let one = crowd.enter(MOST, host(99));
        assert!(one.is_some_and(|key| key < 10), "{one:?}");
        assert!((0..500).all(|n| crowd.enter(MOST + 1 + n, host(1)) != Some(MOST)));
    }
}
