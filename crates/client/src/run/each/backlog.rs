//! Input that has been read and that not every copy has taken yet.

use std::collections::VecDeque;

/// The most bytes of it. When so much waits for the slowest copy, none gets more: nothing is dropped, and memory has a bound.
pub(super) const MOST: usize = wire::stream::CREDIT as usize;

/// One queue for all copies, each at its own place in it.
#[derive(Debug)]
pub(super) struct Backlog {
    bytes: VecDeque<u8>,
    /// How many bytes were taken by all before the first of these.
    before: u64,
    /// Nothing will be added.
    ended: bool,
    /// How far each copy has come, counted from the beginning of the input; `None`: it takes no more.
    places: Vec<Option<u64>>,
}

/// What one copy is to get.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Next<'b> {
    /// These bytes, as many as it takes of them.
    Bytes(&'b [u8]),
    /// It has all that was read so far.
    Wait,
    /// It has all.
    End,
}

impl Backlog {
    pub(super) fn new(copies: usize) -> Backlog {
        Backlog { bytes: VecDeque::new(), before: 0, ended: false, places: vec![Some(0); copies] }
    }

    /// How many bytes may be added now; `None`: nobody takes any.
    pub(super) fn room(&self) -> Option<usize> {
        self.places.iter().any(Option::is_some).then(|| MOST.saturating_sub(self.bytes.len()))
    }

    pub(super) fn add(&mut self, bytes: &[u8]) {
        self.bytes.extend(bytes);
        self.forget();
    }

    /// The input has ended.
    pub(super) fn end(&mut self) {
        self.ended = true;
    }

    pub(super) fn next(&self, copy: usize) -> Next<'_> {
        let Some(&Some(place)) = self.places.get(copy) else { return Next::End };
        let (first, second) = self.bytes.as_slices();
        let skip = (place - self.before) as usize;
        match (first.get(skip..), second.get(skip.saturating_sub(first.len())..)) {
            (Some(bytes @ [_, ..]), _) | (_, Some(bytes @ [_, ..])) => Next::Bytes(bytes),
            _ if self.ended => Next::End,
            _ => Next::Wait,
        }
    }

    /// `copy` has taken this many bytes.
    pub(super) fn taken(&mut self, copy: usize, bytes: usize) {
        if let Some(Some(place)) = self.places.get_mut(copy) {
            *place += bytes as u64;
        }
        self.forget();
    }

    /// `copy` takes no more.
    pub(super) fn leave(&mut self, copy: usize) {
        if let Some(place) = self.places.get_mut(copy) {
            *place = None;
        }
        self.forget();
    }

    fn forget(&mut self) {
        let end = self.before + self.bytes.len() as u64;
        let slowest = self.places.iter().flatten().min().copied().unwrap_or(end);
        self.bytes.drain(..(slowest - self.before) as usize);
        self.before = slowest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All that `copy` can have, `most` bytes at a time.
    fn take(backlog: &mut Backlog, copy: usize, most: usize) -> Vec<u8> {
        let mut all = Vec::new();
        while let Next::Bytes(bytes) = backlog.next(copy) {
            let bytes = bytes[..bytes.len().min(most)].to_vec();
            backlog.taken(copy, bytes.len());
            all.extend(bytes);
        }
        all
    }

    #[test]
    fn every_copy_gets_everything_at_its_own_pace() {
        let mut backlog = Backlog::new(3);
        let (mut whole, mut got) = (Vec::new(), [Vec::new(), Vec::new(), Vec::new()]);
        for round in 0..5000usize {
            let Some(room) = backlog.room() else { panic!("all take input") };
            let bytes: Vec<u8> = (0..room.min(round % 997)).map(|n| (round + n) as u8).collect();
            backlog.add(&bytes);
            whole.extend(bytes);
            let copy = round % 7 % 3;
            let some = take(&mut backlog, copy, 1 + round % 89);
            got[copy].extend(some);
            assert!(backlog.bytes.len() <= MOST);
        }
        backlog.end();
        for (copy, mut got) in got.into_iter().enumerate() {
            got.extend(take(&mut backlog, copy, 1000));
            assert!(got == whole, "copy {copy} has {} bytes of {}", got.len(), whole.len());
            assert_eq!(backlog.next(copy), Next::End);
        }
        assert!(backlog.bytes.is_empty());
    }

    #[test]
    fn the_slowest_copy_holds_back_the_others_at_the_bound_and_until_it_leaves() {
        let mut backlog = Backlog::new(2);
        backlog.add(&vec![1; MOST - 1]);
        assert_eq!(take(&mut backlog, 0, 4096).len(), MOST - 1);
        assert_eq!(backlog.next(0), Next::Wait);
        assert_eq!(backlog.room(), Some(1));
        backlog.taken(1, 10);
        assert_eq!(backlog.room(), Some(11));
        backlog.leave(1);
        assert_eq!((backlog.room(), backlog.next(1)), (Some(MOST), Next::End));
        backlog.add(&[2]);
        assert_eq!(take(&mut backlog, 0, 10), [2]);
        backlog.leave(0);
        assert_eq!(backlog.room(), None);
    }
}
