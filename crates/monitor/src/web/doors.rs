//! Who is in: so many connections at a time, so that whoever is slow to ask, or to take the answer, is in nobody's way.

use std::collections::BTreeMap;

/// Those that are open, by number: the oldest has the lowest.
#[derive(Debug)]
pub(super) struct Doors<S> {
    open: BTreeMap<u64, Open<S>>,
    most: usize,
}

#[derive(Debug)]
struct Open<S> {
    connection: S,
    /// Its request is here, and what it asks for is being done.
    asked: bool,
}

/// What becomes of one that comes.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Entry<S> {
    Enters,
    /// This one, which has yet to ask or to take its answer, has to go for it.
    InPlaceOf(S),
    /// For all of them something is being done.
    Full,
}

impl<S> Doors<S> {
    pub(super) fn new(most: usize) -> Doors<S> {
        Doors { open: BTreeMap::new(), most }
    }

    pub(super) fn enter(&mut self, number: u64, connection: S) -> Entry<S> {
        let mut entry = Entry::Enters;
        if self.open.len() >= self.most {
            let slow = self.open.iter().find(|(_, one)| !one.asked).map(|(number, _)| *number);
            match slow.and_then(|slow| self.open.remove(&slow)) {
                Some(slow) => entry = Entry::InPlaceOf(slow.connection),
                None => return Entry::Full,
            }
        }
        self.open.insert(number, Open { connection, asked: false });
        entry
    }

    /// Its request is here.
    pub(super) fn asked(&mut self, number: u64) {
        if let Some(one) = self.open.get_mut(&number) {
            one.asked = true;
        }
    }

    /// What it has asked for is done, and its answer on the way: how long that takes is up to the client.
    pub(super) fn told(&mut self, number: u64) {
        if let Some(one) = self.open.get_mut(&number) {
            one.asked = false;
        }
    }

    pub(super) fn leave(&mut self, number: u64) {
        self.open.remove(&number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_asked_is_not_put_out() {
        let mut doors = Doors::new(2);
        assert_eq!([doors.enter(0, 'a'), doors.enter(1, 'b')], [Entry::Enters, Entry::Enters]);
        doors.asked(0);
        assert_eq!(doors.enter(2, 'c'), Entry::InPlaceOf('b'));
        doors.asked(2);
        assert_eq!(doors.enter(3, 'd'), Entry::Full);
        doors.leave(0);
        assert_eq!(doors.enter(4, 'e'), Entry::Enters);
        doors.asked(1);
        assert_eq!(doors.enter(5, 'f'), Entry::InPlaceOf('e'));
    }

    #[test]
    fn who_takes_no_answer_keeps_nobody_out() {
        let mut doors = Doors::new(2);
        for (number, who) in [(0, 'a'), (1, 'b')] {
            doors.enter(number, who);
            doors.asked(number);
        }
        assert_eq!(doors.enter(2, 'c'), Entry::Full);
        doors.told(1);
        assert_eq!(doors.enter(3, 'd'), Entry::InPlaceOf('b'));
        doors.told(1);
        doors.asked(3);
        assert_eq!(doors.enter(4, 'e'), Entry::Full, "who has gone is told nothing");
    }
}
