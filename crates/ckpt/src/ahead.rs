//! A process that runs before its memory is there: pages are brought when it needs them, and what it does meanwhile to memory that is not there (fork,
//! mremap, munmap, madvise) is done to what will come.

use kern::missing::{Brought, Event, Missing};
use kern::pagemap::Run;
use std::os::fd::{AsFd, BorrowedFd};
use vocab::Result;

/// Addresses `start..end` are to have what was at `from` and behind where it comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Segment {
    start: u64,
    end: u64,
    from: u64,
}

/// What is to be where.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Layout {
    segments: Vec<Segment>,
    /// Where memory was before it moved: the kernel tells that it is unmapped there afterwards, and something else may be there by then.
    moved: Vec<(u64, u64)>,
}

impl Layout {
    fn of(runs: &[Run]) -> Layout {
        let same = |run: &Run| Segment { start: run.start, end: run.end, from: run.start };
        Layout { segments: runs.iter().map(same).collect(), moved: Vec::new() }
    }

    /// Takes out what is between these addresses.
    fn take(&mut self, start: u64, end: u64) -> Vec<Segment> {
        let (mut stay, mut taken) = (Vec::new(), Vec::new());
        for one in std::mem::take(&mut self.segments) {
            let part = |from: u64, to: u64| Segment { start: from, end: to, from: one.from + (from - one.start) };
            let (from, to) = (one.start.max(start), one.end.min(end));
            if from >= to {
                stay.push(one);
                continue;
            }
            taken.push(part(from, to));
            stay.extend((one.start < from).then(|| part(one.start, from)));
            stay.extend((to < one.end).then(|| part(to, one.end)));
        }
        self.segments = stay;
        taken
    }

    fn remap(&mut self, from: u64, to: u64, length: u64) {
        let there = self.take(from, from + length);
        self.take(to, to + length);
        let shifted = there.into_iter().map(|one| Segment {
            start: one.start - from + to,
            end: one.end - from + to,
            from: one.from,
        });
        self.segments.extend(shifted);
        self.moved.push((from, from + length));
    }

    fn unmap(&mut self, start: u64, end: u64) {
        match self.moved.iter().position(|one| *one == (start, end)) {
            Some(at) => drop(self.moved.remove(at)),
            None => drop(self.take(start, end)),
        }
    }

    /// What belongs at this address; `None`: zeroes.
    fn source(&self, at: u64) -> Option<u64> {
        let one = self.segments.iter().find(|one| (one.start..one.end).contains(&at))?;
        Some(one.from + (at - one.start))
    }

    /// Where bytes belong that were at `from`: address, and which of them.
    fn places(&self, from: u64, length: u64) -> Vec<(u64, std::ops::Range<usize>)> {
        let place = |one: &Segment| {
            let (start, end) = (one.from.max(from), (one.from + (one.end - one.start)).min(from + length));
            (start < end).then(|| (one.start + (start - one.from), (start - from) as usize..(end - from) as usize))
        };
        self.segments.iter().filter_map(place).collect()
    }
}

/// The memory of one process.
struct Space {
    missing: Missing,
    layout: Layout,
    /// Addresses at which it waits for zeroes.
    waiting: Vec<u64>,
    /// What could not be brought yet, and where it comes from.
    later: Vec<(u64, Vec<u8>)>,
    gone: bool,
}

impl Space {
    fn brings(&mut self, from: u64, bytes: &[u8]) -> Result<()> {
        for (at, which) in self.layout.places(from, bytes.len() as u64) {
            match self.missing.copy(at, &bytes[which.clone()])? {
                Brought::There | Brought::NotWanted => {}
                Brought::Later => self.later.push((from + which.start as u64, bytes[which].to_vec())),
                Brought::Gone => self.gone = true,
            }
        }
        Ok(())
    }

    fn again(&mut self) -> Result<()> {
        for (from, bytes) in std::mem::take(&mut self.later) {
            self.brings(from, &bytes)?;
        }
        Ok(())
    }
}

/// A process that is not all there, with the children that it has forked since.
pub struct Ahead {
    spaces: Vec<Space>,
    /// All that there is has come: what is missing yet is zeroes.
    all: bool,
}

impl Ahead {
    pub(crate) fn new(missing: Missing, runs: &[Run]) -> Ahead {
        let layout = Layout::of(runs);
        Ahead {
            spaces: vec![Space { missing, layout, waiting: Vec::new(), later: Vec::new(), gone: false }],
            all: false,
        }
    }

    /// Readable when something is to be looked at.
    pub fn bells(&self) -> Vec<BorrowedFd<'_>> {
        self.spaces.iter().map(|space| space.missing.as_fd()).collect()
    }

    /// The descriptor of the process itself.
    pub fn bell(&self) -> Option<BorrowedFd<'_>> {
        self.spaces.first().map(|space| space.missing.as_fd())
    }

    /// Looks at what has happened, and does what can be done at once; which pages are wanted, by their addresses there.
    ///
    /// # Errors
    /// As ioctl_userfaultfd(2).
    pub fn look(&mut self) -> Result<Vec<u64>> {
        let (mut wanted, mut children) = (Vec::new(), Vec::new());
        for space in &mut self.spaces {
            while let Some(event) = space.missing.told()? {
                match event {
                    Event::Fault(at) => space.waiting.push(at),
                    Event::Remap { from, to, length } => space.layout.remap(from, to, length),
                    Event::Remove(start, end) => drop(space.layout.take(start, end)),
                    Event::Unmap(start, end) => space.layout.unmap(start, end),
                    Event::Fork(missing) => children.push(Space {
                        missing,
                        layout: space.layout.clone(),
                        waiting: Vec::new(),
                        later: space.later.clone(),
                        gone: false,
                    }),
                }
            }
            space.again()?;
            for at in std::mem::take(&mut space.waiting) {
                match space.layout.source(at) {
                    Some(from) if !self.all => wanted.push(from),
                    _ => match space.missing.zero(at)? {
                        Brought::There | Brought::NotWanted => {}
                        Brought::Later => space.waiting.push(at),
                        Brought::Gone => space.gone = true,
                    },
                }
            }
        }
        self.spaces.append(&mut children);
        self.spaces.retain(|space| !space.gone);
        Ok(wanted)
    }

    /// These bytes were at this address there.
    ///
    /// # Errors
    /// As [`Ahead::look`].
    pub fn put(&mut self, from: u64, bytes: &[u8]) -> Result<()> {
        self.spaces.iter_mut().try_for_each(|space| space.brings(from, bytes))?;
        self.spaces.retain(|space| !space.gone);
        Ok(())
    }

    /// All that there is has come.
    pub fn has_all(&mut self) {
        self.all = true;
    }

    /// Is there something that could not be done at once, and of which nobody tells when it can?
    pub fn is_late(&self) -> bool {
        self.spaces.iter().any(|space| !space.later.is_empty() || !space.waiting.is_empty())
    }

    /// Nobody waits for anything any more: all has come, or all have ended.
    pub fn is_over(&self) -> bool {
        self.spaces.is_empty() || self.all && !self.is_late()
    }

    /// Has a process this as missing memory, of those whose mappings with a userfaultfd these are?
    pub fn has(&self, mappings: &[Run]) -> bool {
        let meets = |run: &Run| {
            let segments = self.spaces.iter().flat_map(|space| &space.layout.segments);
            segments.into_iter().any(|one| one.start < run.end && run.start < one.end)
        };
        mappings.iter().any(meets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout() -> Layout {
        Layout::of(&[Run { start: 100, end: 200 }, Run { start: 300, end: 400 }])
    }

    #[test]
    fn what_is_removed_is_zeroes_and_the_rest_stays() {
        let mut one = layout();
        one.take(120, 130);
        assert_eq!((one.source(119), one.source(120), one.source(130)), (Some(119), None, Some(130)));
        assert_eq!(one.places(110, 30), [(110, 0..10), (130, 20..30)]);
        assert_eq!(one.source(250), None);
    }

    #[test]
    fn what_moves_is_looked_for_where_it_was() {
        let mut one = layout();
        one.remap(150, 1000, 50);
        assert_eq!((one.source(1010), one.source(160)), (Some(160), None));
        assert_eq!(one.places(190, 5), [(1040, 0..5)]);
        // Something else comes to where it was before that is told to be unmapped.
        one.remap(300, 150, 20);
        one.unmap(150, 200);
        assert_eq!(one.source(155), Some(305));
        one.unmap(150, 160);
        assert_eq!((one.source(155), one.source(165)), (None, Some(315)));
        // It takes the place of what was there.
        one.remap(1000, 100, 50);
        assert_eq!((one.source(100), one.source(149)), (Some(150), Some(199)));
    }
}
