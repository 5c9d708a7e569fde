//! The clients of a daemon's local socket, which every user of the machine may open: how many of a user's it serves, and how much of what they
//! say, or do not read, it keeps. So one user cannot use up a daemon's descriptors and memory.

use kern::proc::Proc;
use std::collections::HashMap;
use std::hash::Hash;
use vocab::{Fault, Result};
use wire::ask::Ask;
use wire::run::Caller;

/// Connections of one user, and of all: a `shoal run` has one for its whole life.
const MOST_OF_ONE: usize = 2048;
const MOST: usize = 8192;
/// Bytes of one user's that are kept: questions that have not come whole, and answers that are not read.
const MOST_BYTES: usize = 8 * wire::frame::MOST;

/// Nobody asks for more than they might do themselves: capabilities that they have lost for good, and, but for root, higher limits and a
/// better priority. `lives`: the caller's number is still its own, which counts once all has been read by that number.
///
/// # Errors
/// `Gone` when the process is.
pub fn restrict(ask: &mut Ask, caller: &Caller, proc: &Proc, lives: impl FnOnce() -> bool) -> Result<()> {
    let Ask::Run { program, .. } = ask else { return Ok(()) };
    let gone = |errno| Fault { errno, ..Fault::gone(format!("look at process {}", caller.pid)) };
    let capabilities = program.capabilities.insert(proc.status(caller.pid).map_err(gone)?.capabilities);
    if caller.creds.uid.effective != 0 {
        // /proc tells them also of one that has them in a user namespace of its own only (user_namespaces(7)).
        capabilities.inheritable = 0;
        program.restrict(&proc.limits(caller.pid).map_err(gone)?, kern::own::nice_of(caller.pid)?);
    }
    if lives() {
        Ok(())
    } else {
        Err(gone(0))
    }
}

/// Those clients, by whatever names them. Root is counted and never refused.
#[derive(Debug)]
pub struct Guests<K> {
    users: HashMap<u32, Uses>,
    guests: HashMap<K, (u32, usize)>,
}

/// What a user has here.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Uses {
    connections: usize,
    bytes: usize,
}

impl<K> Default for Guests<K> {
    fn default() -> Guests<K> {
        Guests { users: HashMap::new(), guests: HashMap::new() }
    }
}

impl<K: Copy + Eq + Hash> Guests<K> {
    /// Another connection, of `uid`.
    ///
    /// # Errors
    /// `Refused` when there are too many; it is not counted then.
    pub fn enter(&mut self, key: K, uid: u32) -> Result<()> {
        let connections = self.users.get(&uid).map_or(0, |uses| uses.connections);
        if uid != 0 && (connections >= MOST_OF_ONE || self.guests.len() >= MOST) {
            return Err(Fault::refused(format!(
                "serve another connection of user {uid}, who has {connections} open already"
            )));
        }
        self.users.entry(uid).or_default().connections += 1;
        self.guests.insert(key, (uid, 0));
        Ok(())
    }

    /// Of this connection so many bytes are kept now.
    ///
    /// # Errors
    /// `Refused` when they are more than a user may leave here: the connection is best closed.
    pub fn keeps(&mut self, key: K, bytes: usize) -> Result<()> {
        let Some((uid, before)) = self.guests.get_mut(&key) else { return Ok(()) };
        let Some(uses) = self.users.get_mut(uid) else { return Ok(()) };
        uses.bytes = uses.bytes - *before + bytes;
        *before = bytes;
        match *uid != 0 && bytes > 0 && uses.bytes > MOST_BYTES {
            true => Err(Fault::refused(format!("keep {} bytes for the connections of user {uid}", uses.bytes))),
            false => Ok(()),
        }
    }

    /// One is closed.
    pub fn leave(&mut self, key: K) {
        let Some((uid, bytes)) = self.guests.remove(&key) else { return };
        if let Some(uses) = self.users.get_mut(&uid) {
            uses.connections -= 1;
            uses.bytes -= bytes;
            if uses.connections == 0 {
                self.users.remove(&uid);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_user_is_refused_and_nobody_else() {
        let mut guests = Guests::default();
        (0..MOST_OF_ONE).for_each(|key| guests.enter(key, 7).expect("few"));
        assert!(guests.enter(9000, 7).is_err() && guests.enter(9001, 8).is_ok());
        guests.leave(5);
        assert!(guests.enter(9000, 7).is_ok());
        (10_000..20_000).for_each(|key| guests.enter(key, 0).expect("root"));
        assert!(guests.enter(9002, 8).is_err() && guests.enter(9003, 11).is_err());
        assert!(!guests.users.contains_key(&11), "who was never let in is not remembered");
        (0..20_000).for_each(|key| guests.leave(key));
        assert!(guests.users.is_empty() && guests.guests.is_empty());
    }

    #[test]
    fn bytes_are_counted_for_the_user_as_they_come_and_go() {
        let mut guests = Guests::default();
        for (key, uid) in [(1, 7), (2, 7), (3, 8), (4, 0)] {
            guests.enter(key, uid).expect("few");
        }
        assert!(guests.keeps(1, MOST_BYTES).is_ok() && guests.keeps(2, 1).is_err());
        assert!(guests.keeps(3, MOST_BYTES).is_ok() && guests.keeps(4, 2 * MOST_BYTES).is_ok());
        assert!(guests.keeps(2, 0).is_ok());
        guests.leave(1);
        assert!(guests.keeps(2, MOST_BYTES).is_ok());
        assert!(guests.keeps(99, MOST_BYTES).is_ok(), "nobody");
    }
}
