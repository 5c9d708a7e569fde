//! Questions to nodes that are not answered, and what is known of each node.

use crate::tables::{Key, Tables};
use std::sync::{Arc, Condvar, Mutex};
use vocab::{NodeId, Pid};
use wire::entry::Found;
use wire::frame;

/// A node.
#[derive(Debug, Default)]
pub(crate) struct Machine {
    pub(crate) state: Mutex<State>,
    pub(crate) answered: Condvar,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) tables: Tables,
    /// When it said something last.
    pub(crate) heard_us: u64,
    pub(crate) quiet_until_us: u64,
    /// When it was asked for what is read next unasked.
    pub(crate) ahead_us: u64,
    /// Who was looked at alone last, and when.
    pub(crate) alone: (Pid, u64),
    /// The round in which it was asked before anybody came to it; 0: none, or somebody has.
    pub(crate) round: u64,
}

impl State {
    pub(crate) fn is_quiet(&self, now_us: u64) -> bool {
        now_us < self.quiet_until_us
    }

    pub(crate) fn hears(&mut self, now_us: u64) {
        (self.heard_us, self.quiet_until_us) = (now_us, 0);
    }
}

pub(crate) type Answer = std::result::Result<Option<Found>, i32>;

/// Where the answer to a question for one process comes.
#[derive(Debug, Default)]
pub(crate) struct Slot {
    pub(crate) answer: Mutex<Option<Answer>>,
    pub(crate) came: Condvar,
}

#[derive(Debug)]
pub(crate) enum What {
    All(Vec<Key>),
    One(Pid, Arc<Slot>),
}

/// A question that is not answered.
#[derive(Debug)]
pub(crate) struct Open {
    pub(crate) node: NodeId,
    pub(crate) machine: Arc<Machine>,
    pub(crate) what: What,
    pub(crate) at_us: u64,
    /// Of the answer, what is not whole.
    pub(crate) piece: Vec<u8>,
}

/// What is whole of it, and how many bytes that is.
pub(crate) fn decode(bytes: &[u8]) -> (Vec<Found>, usize) {
    let (mut all, mut used) = (Vec::new(), 0);
    while let Ok(Some((body, length))) = frame::split(&bytes[used..]) {
        all.extend(frame::decode::<Found>(body));
        used += length;
    }
    (all, used)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use wire::entry::{Content, Entry};

    /// What a node finds of this process.
    pub(crate) fn found(pid: i32, path: &str) -> Found {
        let entry = Entry { path: path.into(), mode: 0, content: Content::Text(b"7 (x) S".to_vec()) };
        Found { pid: Pid(pid), uid: 1, gid: 2, entries: vec![entry] }
    }

    /// As it says so.
    pub(crate) fn bytes(all: &[Found]) -> Vec<u8> {
        let mut bytes = Vec::new();
        all.iter().for_each(|found| frame::encode(found, &mut bytes).expect("short"));
        bytes
    }

    #[test]
    fn what_is_whole_is_taken_and_what_is_not_is_left() {
        let all = [found(7, "stat"), found(8, "stat")];
        let bytes = bytes(&all);
        assert_eq!(decode(&bytes), (all.to_vec(), bytes.len()));
        assert_eq!(decode(&bytes[..bytes.len() - 1]), (all[..1].to_vec(), bytes.len() / 2));
        assert_eq!(decode(&[0xff; 9]), (Vec::new(), 0));
    }
}
