//! Input of one copy on its way to the program.

use std::collections::VecDeque;
use vocab::{Fault, Result};
use wire::stream::{Chunk, Stream, CREDIT, PIECE, RETURNED};

/// What is to be sent, what may be, and, when the program has moved, what comes back.
#[derive(Debug)]
pub(super) struct Feed {
    /// Was read and is not sent.
    waiting: VecDeque<Vec<u8>>,
    /// Nothing will follow what waits; the node knows.
    ended: bool,
    told: bool,
    /// Over the present channel: what may still be sent and what has been, in bytes.
    credit: u32,
    sent: u64,
    /// What has come back over it, and how much must before the program's next channel gets any.
    returned: VecDeque<Vec<u8>>,
    came_back: u64,
    due: Option<u64>,
}

impl Feed {
    pub(super) fn new() -> Feed {
        Feed {
            waiting: VecDeque::new(),
            ended: false,
            told: false,
            credit: CREDIT,
            sent: 0,
            returned: VecDeque::new(),
            came_back: 0,
            due: None,
        }
    }

    /// How much may be read for it, in bytes.
    pub(super) fn room(&self) -> usize {
        match self.waiting.is_empty() && self.due.is_none() {
            true => self.credit as usize,
            false => 0,
        }
    }

    pub(super) fn push(&mut self, bytes: Vec<u8>) {
        self.waiting.push_back(bytes);
    }

    /// No more will be pushed.
    pub(super) fn end(&mut self) {
        self.ended = true;
    }

    /// The program takes no more.
    pub(super) fn drop_all(&mut self) {
        self.waiting.clear();
    }

    pub(super) fn allow(&mut self, bytes: u32) {
        self.credit = self.credit.saturating_add(bytes);
    }

    /// What is to be sent now.
    pub(super) fn next(&mut self) -> Option<Chunk> {
        if self.due.is_some() {
            return None;
        }
        let Some(first) = self.waiting.front_mut() else {
            let end = self.ended && !std::mem::replace(&mut self.told, self.ended);
            return end.then_some(Chunk::End { stream: Stream::In });
        };
        let most = PIECE.min(self.credit as usize);
        let bytes = match first.len() {
            _ if most == 0 => return None,
            length if length <= most => self.waiting.pop_front()?,
            _ => first.drain(..most).collect(),
        };
        self.credit -= bytes.len() as u32;
        self.sent += bytes.len() as u64;
        Some(Chunk::Data { stream: Stream::In, bytes })
    }

    /// The program has not read this where it was.
    ///
    /// # Errors
    /// `Wire` when it is more than was sent, or more than can have waited there.
    pub(super) fn give_back(&mut self, bytes: Vec<u8>) -> Result<()> {
        self.came_back += bytes.len() as u64;
        if self.came_back > self.due.unwrap_or(self.sent).min(RETURNED as u64) {
            return Err(Fault::wire("more input came back than the program can have left"));
        }
        if !bytes.is_empty() {
            self.returned.push_back(bytes);
        }
        Ok(())
    }

    /// The program has left, when `received` bytes had reached its node: of these it has read what has not come back by now, and of the
    /// others nothing.
    ///
    /// # Errors
    /// `Wire` when they are more than were sent, or it was said before.
    pub(super) fn left(&mut self, received: u64) -> Result<()> {
        let under_way = self.sent.checked_sub(received).filter(|_| self.due.is_none());
        let under_way =
            under_way.ok_or_else(|| Fault::wire("a program that has moved is said to have had other input"))?;
        self.due = Some(self.came_back + under_way);
        Ok(())
    }

    /// All that must come back has.
    pub(super) fn is_back(&self) -> bool {
        self.due == Some(self.came_back)
    }

    /// Begins again over another channel.
    pub(super) fn again(&mut self) {
        let mut waiting = std::mem::take(&mut self.returned);
        waiting.append(&mut self.waiting);
        *self = Feed { waiting, ended: self.ended, ..Feed::new() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn data(bytes: &[u8]) -> Option<Chunk> {
        Some(Chunk::Data { stream: Stream::In, bytes: bytes.to_vec() })
    }

    #[test]
    fn the_end_comes_after_all_that_waits_and_once_for_each_channel() {
        let mut feed = Feed::new();
        feed.push(b"abc".to_vec());
        feed.end();
        assert_eq!(feed.next(), data(b"abc"));
        assert_eq!(feed.next(), Some(Chunk::End { stream: Stream::In }));
        assert_eq!(feed.next(), None);
        feed.give_back(b"c".to_vec()).expect("it was sent");
        feed.left(3).expect("they were sent");
        assert!(feed.is_back());
        feed.again();
        assert_eq!(feed.next(), data(b"c"));
        assert_eq!(feed.next(), Some(Chunk::End { stream: Stream::In }));
        assert_eq!(feed.next(), None);
    }

    #[test]
    fn what_was_under_way_comes_back_before_the_copy_goes_on() {
        let mut feed = Feed::new();
        feed.push(b"abcdef".to_vec());
        assert_eq!(feed.next(), data(b"abcdef"));
        feed.give_back(b"c".to_vec()).expect("it was sent");
        feed.left(3).expect("they were sent");
        feed.push(b"ghi".to_vec());
        assert_eq!((feed.next(), feed.is_back(), feed.room()), (None, false, 0));
        feed.give_back(b"def".to_vec()).expect("it was sent");
        assert!(feed.is_back());
        feed.again();
        assert_eq!(
            [feed.next(), feed.next(), feed.next(), feed.next()],
            [data(b"c"), data(b"def"), data(b"ghi"), None]
        );
        assert_eq!(feed.room(), CREDIT as usize - 7);
    }

    #[test]
    fn a_node_gives_back_no_more_than_it_got() {
        let mut feed = Feed::new();
        feed.push(b"abc".to_vec());
        feed.next();
        assert!(feed.give_back(b"abcd".to_vec()).is_err());
        let mut feed = Feed::new();
        assert!(feed.left(1).is_err());
        feed.left(0).expect("nothing was sent");
        assert!(feed.left(0).is_err());
        assert!(feed.give_back(b"a".to_vec()).is_err());
        let mut feed = Feed::new();
        for _ in 0..RETURNED / PIECE {
            feed.push(vec![0; PIECE]);
            feed.allow(PIECE as u32);
            feed.next();
            feed.give_back(vec![0; PIECE]).expect("it fits a pipe");
        }
        feed.push(vec![0; PIECE]);
        feed.next();
        assert!(feed.give_back(vec![0; PIECE]).is_err());
    }

    /// What happens to a program that reads its input, and to its node. The numbers are bytes.
    #[derive(Clone, Debug)]
    enum Act {
        Typed(usize),
        Sent,
        Arrived,
        Credit(u32),
        Read(usize),
        Moved,
    }

    fn act() -> impl Strategy<Value = Act> {
        prop_oneof![
            (1..3000usize).prop_map(Act::Typed),
            Just(Act::Sent),
            Just(Act::Arrived),
            (1..5000u32).prop_map(Act::Credit),
            (1..4000usize).prop_map(Act::Read),
            Just(Act::Moved),
        ]
    }

    /// A node, and what is on the way to it.
    #[derive(Default)]
    struct Node {
        under_way: VecDeque<Vec<u8>>,
        received: u64,
        unread: VecDeque<u8>,
    }

    impl Node {
        fn arrived(&mut self) {
            if let Some(bytes) = self.under_way.pop_front() {
                self.received += bytes.len() as u64;
                self.unread.extend(bytes);
            }
        }
    }

    proptest! {
        #[test]
        fn a_program_reads_what_was_typed_wherever_it_is(acts in proptest::collection::vec(act(), 0..200)) {
            let (mut feed, mut node) = (Feed::new(), Node::default());
            feed.credit = 4000;
            let (mut typed, mut read) = (Vec::new(), Vec::new());
            let done = [Act::Credit(1 << 30), Act::Sent, Act::Moved, Act::Credit(1 << 30), Act::Sent];
            for act in acts.into_iter().chain(done) {
                match act {
                    Act::Typed(n) if n <= feed.room() => {
                        let bytes: Vec<u8> = (typed.len()..typed.len() + n).map(|n| (n % 251) as u8).collect();
                        typed.extend(&bytes);
                        feed.push(bytes);
                    }
                    Act::Typed(_) => {}
                    Act::Sent => while let Some(Chunk::Data { bytes, .. }) = feed.next() {
                        node.under_way.push_back(bytes);
                    },
                    Act::Arrived => node.arrived(),
                    Act::Credit(n) => feed.allow(n),
                    Act::Read(n) => read.extend(node.unread.drain(..n.min(node.unread.len()))),
                    Act::Moved => {
                        let unread = node.unread.drain(..).collect();
                        feed.give_back(unread).expect("it was sent");
                        feed.left(node.received).expect("it was sent");
                        while let Some(bytes) = node.under_way.pop_front() {
                            prop_assert!(!feed.is_back());
                            feed.give_back(bytes).expect("it was sent");
                        }
                        prop_assert!(feed.is_back());
                        feed.again();
                        node = Node::default();
                    }
                }
            }
            while !node.under_way.is_empty() {
                node.arrived();
            }
            read.extend(node.unread);
            prop_assert!(read == typed, "{} bytes of {}", read.len(), typed.len());
        }
    }
}
