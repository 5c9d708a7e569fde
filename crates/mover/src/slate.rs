//! What the agent is to know before anything that follows from it, and need not act on at once.
//!
//! Whoever says something to the agent wakes it, and it runs first: while a process stands still that is time. So this is noted in a pipe, which the agent reads before
//! it reads anything else that could tell of it: what movers say, that they have ended, and what processes do.

use rustix::io::Errno;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Note {
    /// As [`super::Said::Bound`].
    Bound,
    /// As [`super::Said::Rebuilt`].
    Rebuilt,
    /// As [`super::Said::Runs`].
    Runs,
}

impl Note {
    /// As it is written.
    fn byte(self) -> u8 {
        match self {
            Note::Bound => b'B',
            Note::Rebuilt => b'W',
            Note::Runs => b'R',
        }
    }

    /// As it was written.
    pub fn of(byte: u8) -> Option<Note> {
        [Note::Bound, Note::Rebuilt, Note::Runs].into_iter().find(|note| note.byte() == byte)
    }

    /// `false`: nobody is there who would read it.
    pub(super) fn write(self) -> bool {
        rustix::io::retry_on_intr(|| rustix::io::write(rustix::stdio::stdout(), &[self.byte()]))
            == Ok::<usize, Errno>(1)
    }
}
