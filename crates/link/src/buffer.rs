//! Bytes that come in at the end and leave at the front.

/// An empty buffer gives memory above this back, so that a burst does not stay with an idle connection.
const KEPT: usize = 256 * 1024;
/// But not that of a connection which is there for much: to ask for it again each time takes longer than what it is for.
const KEPT_FOR_MUCH: usize = 2 * 1024 * 1024;

/// A queue of bytes in one piece.
pub(crate) struct Buffer {
    /// Bytes outside of `start..end` are room.
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    kept: usize,
}

impl Default for Buffer {
    fn default() -> Buffer {
        Buffer { bytes: Vec::new(), start: 0, end: 0, kept: KEPT }
    }
}

impl Buffer {
    /// It is there for much, from now on.
    pub(crate) fn keep_much(&mut self) {
        self.kept = KEPT_FOR_MUCH;
    }

    pub(crate) fn filled(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    pub(crate) fn len(&self) -> usize {
        self.end - self.start
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Lets `fill` write into `room` bytes at the end; it returns how many of them it used.
    pub(crate) fn fill<E>(
        &mut self,
        room: usize,
        fill: impl FnOnce(&mut [u8]) -> Result<usize, E>,
    ) -> Result<usize, E> {
        self.close_up(room);
        if self.bytes.len() < self.end + room {
            self.bytes.resize(self.end + room, 0);
        }
        let used = fill(&mut self.bytes[self.end..self.end + room]);
        self.end += used.as_ref().map_or(0, |used| (*used).min(room));
        used
    }

    /// Lets `append` add to a vector that ends where this does.
    pub(crate) fn append<T>(&mut self, append: impl FnOnce(&mut Vec<u8>) -> T) -> T {
        self.close_up(0);
        self.bytes.truncate(self.end);
        let done = append(&mut self.bytes);
        self.end = self.bytes.len();
        done
    }

    /// Takes `count` bytes from the front.
    pub(crate) fn consume(&mut self, count: usize) {
        self.start = (self.start + count).min(self.end);
        if self.is_empty() {
            (self.start, self.end) = (0, 0);
            if self.bytes.capacity() > self.kept {
                self.bytes = Vec::new();
            }
        }
    }

    /// Moves what is left to the front when that is cheap (less is left than has left), or saves growing for `room`
    /// more bytes.
    fn close_up(&mut self, room: usize) {
        let grows = self.bytes.capacity() - self.end < room;
        if self.start > 0 && (self.len() <= self.start / 2 || (grows && self.len() <= self.start)) {
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_out_as_they_went_in() {
        let mut buffer = Buffer::default();
        let (mut next_in, mut next_out) = (0u8, 0u8);
        for turn in 0..2000usize {
            let room = turn % 97;
            let used = buffer.fill(room, |space| {
                space.iter_mut().for_each(|byte| {
                    *byte = next_in;
                    next_in = next_in.wrapping_add(1);
                });
                Ok::<_, ()>(space.len())
            });
            assert_eq!(used, Ok(room));
            let take = (turn * 31 % 101).min(buffer.len());
            for byte in &buffer.filled()[..take] {
                assert_eq!(*byte, next_out);
                next_out = next_out.wrapping_add(1);
            }
            buffer.consume(take);
        }
        assert!(buffer.bytes.capacity() < 16 * 1024);
    }

    #[test]
    fn a_failed_fill_leaves_nothing_and_a_burst_is_given_back() {
        let mut buffer = Buffer::default();
        assert_eq!(buffer.fill(10, |_| Err(())), Err(()));
        assert!(buffer.is_empty());
        buffer.append(|bytes| bytes.extend_from_slice(&vec![1; 2 * KEPT]));
        buffer.consume(2 * KEPT);
        assert_eq!(buffer.bytes.capacity(), 0);
    }
}
