//! Input on its way to the programs: what waits for a copy, and what is out over one of its channels.

use std::collections::VecDeque;
use vocab::{Fault, Result};
use wire::stream::{Chunk, Stream, CREDIT, PIECE, RETURNED};

/// What has been read for a copy and not been sent, or has come back.
#[derive(Debug)]
pub(super) struct Feed {
    waiting: VecDeque<Vec<u8>>,
    /// Nothing will follow what waits.
    ended: bool,
}

impl Feed {
    pub(super) fn new() -> Feed {
        Feed { waiting: VecDeque::new(), ended: false }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// All of it has been sent.
    pub(super) fn is_over(&self) -> bool {
        self.ended && self.waiting.is_empty()
    }

    pub(super) fn push(&mut self, bytes: Vec<u8>) {
        self.waiting.push_back(bytes);
    }

    /// No more will be pushed.
    pub(super) fn end(&mut self) {
        self.ended = true;
    }

    /// All that waits.
    pub(super) fn take_all(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.waiting).into_iter().flatten().collect()
    }

    /// The program takes no more.
    pub(super) fn drop_all(&mut self) {
        self.waiting.clear();
    }

    /// What was sent before all of this, and was not read.
    pub(super) fn is_back(&mut self, mut pieces: VecDeque<Vec<u8>>) {
        pieces.append(&mut self.waiting);
        self.waiting = pieces;
    }

    fn take(&mut self, most: usize) -> Option<Vec<u8>> {
        let first = self.waiting.front_mut()?;
        match first.len() {
            _ if most == 0 => None,
            length if length <= most => self.waiting.pop_front(),
            _ => Some(first.drain(..most).collect()),
        }
    }
}

/// What may be sent over one channel, and what has come back of it.
#[derive(Debug)]

pub(super) struct Flow {
    /// What may still be sent and what has been, in bytes.
    credit: u32,
    sent: u64,
    /// It is asked to give back what has not been read.
    recalled: bool,
    /// What has come back, and how much must before it is all.
    returned: VecDeque<Vec<u8>>,
    came_back: u64,
    due: Option<u64>,
    /// What follows is sent anew, of which the node knows nothing yet.
    again: bool,
    /// The end of the input has been told.
    told: bool,
}

impl Flow {
    pub(super) fn new() -> Flow {
        Flow {
            credit: CREDIT,
            sent: 0,
            recalled: false,
            returned: VecDeque::new(),
            came_back: 0,
            due: None,
            again: false,
            told: false,
        }
    }

    /// How much may be sent, in bytes.
    pub(super) fn room(&self) -> usize {
        if self.is_coming_back() {
            0
        } else {
            self.credit as usize
        }
    }

    pub(super) fn allow(&mut self, bytes: u32) {
        self.credit = self.credit.saturating_add(bytes);
    }

    /// Something was sent that may not have been read.
    pub(super) fn is_out(&self) -> bool {
        self.sent > 0 || self.is_coming_back()
    }

    pub(super) fn is_coming_back(&self) -> bool {
        self.recalled || self.due.is_some()
    }

    pub(super) fn is_told(&self) -> bool {
        self.told
    }

    /// What is to be sent now.
    pub(super) fn next(&mut self, feed: &mut Feed) -> Option<Chunk> {
        if self.told || self.is_coming_back() {
            return None;
        }
        let most = PIECE.min(self.credit as usize);
        // The end too: what comes before this goes back.
        if self.again && (feed.is_over() || most > 0 && !feed.is_empty()) {
            self.again = false;
            return Some(Chunk::Again);
        }
        if feed.is_over() {
            self.told = true;
            return Some(Chunk::End { stream: Stream::In });
        }
        let bytes = feed.take(most)?;
        self.credit -= bytes.len() as u32;
        self.sent += bytes.len() as u64;
        Some(Chunk::Data { stream: Stream::In, bytes })
    }

    /// What has not been read is to come back.
    pub(super) fn recall(&mut self) -> Option<Chunk> {
        let once = self.sent > 0 && !self.is_coming_back();
        self.recalled |= once;
        once.then_some(Chunk::Recall)
    }

    /// Nobody has read this where it was.
    ///
    /// # Errors
    /// `Wire` when it is more than was sent, or more than can have waited there.
    pub(super) fn give_back(&mut self, bytes: Vec<u8>) -> Result<()> {
        self.came_back += bytes.len() as u64;
        if self.came_back > self.due.unwrap_or(self.sent).min(RETURNED as u64) {
            return Err(Fault::wire("more input came back than can have been left"));
        }
        if !bytes.is_empty() {
            self.returned.push_back(bytes);
        }
        Ok(())
    }

    /// Of what was sent `received` bytes had reached the node: of these all has been read that has not come back by now, and of the others nothing.
    ///
    /// # Errors
    /// `Wire` when they are more than were sent, or it was said before.
    pub(super) fn back(&mut self, received: u64) -> Result<()> {
        let under_way = self.sent.checked_sub(received).filter(|_| self.due.is_none());
        let under_way = under_way.ok_or_else(|| Fault::wire("other input is said to come back than was sent"))?;
        self.due = Some(self.came_back + under_way);
        Ok(())
    }

    /// All that has come back, when that is all; then it is as if nothing had been sent, not the end either. But where nothing was left to come back behind
    /// the end, that has been read.
    pub(super) fn take_back(&mut self) -> Option<VecDeque<Vec<u8>>> {
        if self.due != Some(self.came_back) {
            return None;
        }
        let returned = std::mem::take(&mut self.returned);
        *self = Flow { told: self.told && returned.is_empty(), again: true, ..Flow::new() };
        Some(returned)
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
    fn the_end_comes_after_all_that_waits_and_once() {
        let (mut feed, mut flow) = (Feed::new(), Flow::new());
        feed.push(b"abc".to_vec());
        feed.end();
        assert_eq!(flow.next(&mut feed), data(b"abc"));
        assert_eq!(flow.next(&mut feed), Some(Chunk::End { stream: Stream::In }));
        assert_eq!(flow.next(&mut feed), None);
        flow.give_back(b"c".to_vec()).expect("it was sent");
        flow.back(3).expect("they were sent");
        feed.is_back(flow.take_back().expect("all is back"));
        let mut other = Flow::new();
        assert_eq!(other.next(&mut feed), data(b"c"));
        assert_eq!(other.next(&mut feed), Some(Chunk::End { stream: Stream::In }));
        // Its readers had not come to the end, and wait for it again.
        assert_eq!(flow.next(&mut feed), Some(Chunk::Again));
        assert_eq!(flow.next(&mut feed), Some(Chunk::End { stream: Stream::In }));
        assert_eq!(flow.next(&mut feed), None);
        // These had.
        assert_eq!(other.recall(), Some(Chunk::Recall));
        other.back(1).expect("it was sent");
        feed.is_back(other.take_back().expect("all is back"));
        assert_eq!(other.next(&mut feed), None);
    }

    #[test]
    fn what_was_under_way_comes_back_before_anything_else_is_sent() {
        let (mut feed, mut flow) = (Feed::new(), Flow::new());
        feed.push(b"abcdef".to_vec());
        assert_eq!(flow.next(&mut feed), data(b"abcdef"));
        assert_eq!((flow.recall(), flow.recall()), (Some(Chunk::Recall), None));
        flow.give_back(b"c".to_vec()).expect("it was sent");
        flow.back(3).expect("they were sent");
        feed.push(b"ghi".to_vec());
        assert_eq!((flow.next(&mut feed), flow.room()), (None, 0));
        assert!(flow.take_back().is_none());
        flow.give_back(b"def".to_vec()).expect("it was sent");
        feed.is_back(flow.take_back().expect("all is back"));
        let mut next = || flow.next(&mut feed);
        assert_eq!(
            [next(), next(), next(), next(), next()],
            [Some(Chunk::Again), data(b"c"), data(b"def"), data(b"ghi"), None]
        );
        assert_eq!(flow.room(), CREDIT as usize - 7);
    }

    #[test]
    fn a_node_gives_back_no_more_than_it_got() {
        let sent = |bytes: &[u8]| {
            let (mut feed, mut flow) = (Feed::new(), Flow::new());
            feed.push(bytes.to_vec());
            flow.next(&mut feed);
            flow
        };
        assert!(sent(b"abc").give_back(b"abcd".to_vec()).is_err());
        let mut flow = Flow::new();
        assert!(flow.back(1).is_err());
        flow.back(0).expect("nothing was sent");
        assert!(flow.back(0).is_err());
        assert!(flow.give_back(b"a".to_vec()).is_err());
        let mut flow = Flow::new();
        let mut feed = Feed::new();
        for _ in 0..RETURNED / PIECE {
            feed.push(vec![0; PIECE]);
            flow.allow(PIECE as u32);
            flow.next(&mut feed);
            flow.give_back(vec![0; PIECE]).expect("it fits a pipe");
        }
        feed.push(vec![0; PIECE]);
        flow.next(&mut feed);
        assert!(flow.give_back(vec![0; PIECE]).is_err());
    }

    /// What happens to a program that reads its input in two places. The numbers are bytes.
    #[derive(Clone, Debug)]
    enum Act {
        Typed(usize),
        Sent,
        Arrived,
        Credit(u32),
        Read(usize),
        /// The other one wants to read.
        Turn,
    }

    fn act() -> impl Strategy<Value = Act> {
        prop_oneof![
            (1..3000usize).prop_map(Act::Typed),
            Just(Act::Sent),
            Just(Act::Arrived),
            (1..5000u32).prop_map(Act::Credit),
            (1..4000usize).prop_map(Act::Read),
            Just(Act::Turn),
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
        fn what_was_typed_is_read_once_and_in_order_wherever(acts in proptest::collection::vec(act(), 0..200)) {
            let (mut feed, mut flows) = (Feed::new(), [Flow::new(), Flow::new()]);
            let (mut nodes, mut now) = ([Node::default(), Node::default()], 0);
            flows.iter_mut().for_each(|flow| flow.credit = 4000);
            let (mut typed, mut read) = (Vec::new(), Vec::new());
            let done = [Act::Credit(1 << 30), Act::Sent, Act::Turn, Act::Credit(1 << 30), Act::Sent];
            for act in acts.into_iter().chain(done) {
                let (flow, node) = (&mut flows[now], &mut nodes[now]);
                match act {
                    Act::Typed(n) if n <= flow.room() => {
                        let bytes: Vec<u8> = (typed.len()..typed.len() + n).map(|n| (n % 251) as u8).collect();
                        typed.extend(&bytes);
                        feed.push(bytes);
                    }
                    Act::Typed(_) => {}
                    Act::Sent => while let Some(chunk) = flow.next(&mut feed) {
                        match chunk {
                            Chunk::Data { bytes, .. } => node.under_way.push_back(bytes),
                            Chunk::Again => node.received = 0,
                            other => prop_assert!(false, "{other:?}"),
                        }
                    },
                    Act::Arrived => node.arrived(),
                    Act::Credit(n) => flow.allow(n),
                    Act::Read(n) => read.extend(node.unread.drain(..n.min(node.unread.len()))),
                    Act::Turn => {
                        if flow.recall().is_some() {
                            let unread = node.unread.drain(..).collect();
                            flow.give_back(unread).expect("it was sent");
                            flow.back(node.received).expect("it was sent");
                            while let Some(bytes) = node.under_way.pop_front() {
                                prop_assert!(flow.take_back().is_none());
                                flow.give_back(bytes).expect("it was sent");
                            }
                            feed.is_back(flow.take_back().expect("all is back"));
                        }
                        now = 1 - now;
                    }
                }
            }
            let node = &mut nodes[now];
            while !node.under_way.is_empty() {
                node.arrived();
            }
            read.extend(node.unread.drain(..));
            prop_assert!(read == typed, "{} bytes of {}", read.len(), typed.len());
        }
    }
}
