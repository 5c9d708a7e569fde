//! What is little of a process goes to its new node before it stands still, as it is then. Most of it is the same afterwards: only what is not goes again.
//!
//! What was sent is kept, and compared. Nothing need be done to the process for that, as it must be for what is large ([`crate::precopy`]): to follow its
//! writes would take longer than to read a few MiB of it again.

use crate::pages::{self, has_own, Part};
use crate::runs::{either, without};
use crate::survey::Survey;
use image::memory::Kept;
use image::{Piece, Writer};
use kern::areas::AreaFlags;
use kern::pagemap::{PageMap, Run, PAGE};
use kern::remote_memory::RemoteMemory;
use std::cell::RefCell;
use std::io::Write;
use vocab::{Fault, Pid, Result};

/// Bytes at most: the more there are, the longer it takes to read them again, beside to send them.
const MOST: usize = 8 * 1024 * 1024;
/// Bytes that are read and compared together: they stay in the processor's cache meanwhile.
const AT_ONCE: usize = 256 * 1024;

/// Pages as they were sent, in the order of their addresses.
pub struct Guess {
    memory: RemoteMemory,
    pieces: Vec<(u64, Vec<u8>)>,
    /// For what they are compared with: fresh memory would cost a fault for each page, while the process stands still.
    room: RefCell<Vec<u8>>,
}

/// Sends what the running process has in memory of its own, but for what is `left` to others.
///
/// # Errors
/// `Gone`; what keeps it from being written.
pub fn guess(pid: Pid, seen: &Survey, left: &[Run], out: &mut Writer<impl Write>) -> Result<Guess> {
    let (map, memory) = (PageMap::open(pid)?, RemoteMemory::open(pid)?);
    let (mut pieces, mut piece, mut all) = (Vec::new(), Piece::new(), 0);
    let can = |flags: AreaFlags| !flags.intersects(AreaFlags::HUGETLB | AreaFlags::DROPPABLE);
    let readable = |protection: u32| protection & libc::PROT_READ as u32 != 0;
    for area in seen.areas.iter().filter(|area| has_own(area) && readable(area.protection) && can(area.flags)) {
        for run in without(&[Run { start: area.start, end: area.end }], left) {
            for run in map.own_pages(run.start, run.end, area.shared)? {
                for (start, length) in pages::pieces(run) {
                    all += length;
                    if all > MOST {
                        return Ok(Guess::of(memory, pieces));
                    }
                    // What it takes away meanwhile is left out.
                    let got = memory.read_running(start, piece.room(length))?;
                    let got = got - got % PAGE as usize;
                    if got > 0 {
                        pieces.push((start, piece.room(got).to_vec()));
                        out.pages(&mut piece, start, true)?;
                    }
                }
            }
        }
    }
    Ok(Guess::of(memory, pieces))
}

/// Some bytes of a piece, at this address.
struct Guessed<'a> {
    start: u64,
    bytes: &'a [u8],
}

impl Guess {
    fn of(memory: RemoteMemory, pieces: Vec<(u64, Vec<u8>)>) -> Guess {
        let all: usize = pieces.iter().map(|(_, bytes)| bytes.len()).sum();
        // Not of zeroes, which would be pages that are not there yet.
        Guess { memory, pieces, room: RefCell::new(vec![1; all.min(AT_ONCE)]) }
    }

    fn runs(&self) -> Vec<Run> {
        let runs: Vec<Run> = self.pieces.iter().map(|(start, bytes)| run(*start, bytes.len())).collect();
        either(&runs, &[])
    }

    /// What of these bytes was guessed.
    fn within(&self, part: Run) -> impl Iterator<Item = Guessed<'_>> {
        let first = self.pieces.partition_point(|(start, bytes)| start + bytes.len() as u64 <= part.start);
        self.pieces[first..].iter().take_while(move |(start, _)| *start < part.end).map(move |(start, bytes)| {
            let (from, to) = (part.start.max(*start), part.end.min(start + bytes.len() as u64));
            Guessed { start: from, bytes: &bytes[(from - start) as usize..(to - start) as usize] }
        })
    }

    /// Writes what of these parts, all that the process has of its own, is not as it was guessed.
    ///
    /// # Errors
    /// `Gone`; `Changed` when the guess was at the memory of another program; what keeps it from being written.
    pub(crate) fn settle(&self, memory: &RemoteMemory, parts: &[Part], out: &mut Writer<impl Write>) -> Result<()> {
        if self.memory.is_current()? == Some(false) {
            return Err(Fault::changed("it has executed another program meanwhile"));
        }
        let guessed = self.runs();
        let all: Vec<Run> = either(&parts.iter().map(Part::run).collect::<Vec<_>>(), &[]);
        let gone = without(&guessed, &all);
        if !gone.is_empty() {
            out.gone(&Kept { runs: gone.iter().map(|run| (run.start, run.end)).collect() })?;
        }
        let (mut news, mut olds) = (Vec::new(), Vec::new());
        for part in parts {
            let fresh = without(&[part.run()], &guessed);
            news.extend(fresh.into_iter().map(|run| part.only(run)));
            olds.extend(self.within(part.run()).flat_map(Guessed::pieces));
        }
        self.send_changed(memory, &olds, out)?;
        pages::copy(memory, &news, out)
    }

    fn send_changed(&self, memory: &RemoteMemory, olds: &[Guessed<'_>], out: &mut Writer<impl Write>) -> Result<()> {
        let (mut now, mut piece) = (self.room.borrow_mut(), Piece::new());
        for some in together(olds) {
            let ranges: Vec<(u64, usize)> = some.iter().map(|one| (one.start, one.bytes.len())).collect();
            let length = ranges.iter().map(|(_, length)| length).sum();
            let now = &mut now[..length];
            if memory.read_ranges(&ranges, now)? != length {
                // Of one of them it is not as it was that it may be read.
                let mut at = 0;
                for (start, length) in ranges {
                    memory.read(start, &mut now[at..at + length])?;
                    at += length;
                }
            }
            let mut rest = &*now;
            for one in some {
                let (new, behind) = rest.split_at(one.bytes.len());
                for (from, to) in changed(one.bytes, new) {
                    piece.room(to - from).copy_from_slice(&new[from..to]);
                    out.pages(&mut piece, one.start + from as u64, false)?;
                }
                rest = behind;
            }
        }
        Ok(())
    }
}

impl<'a> Guessed<'a> {
    fn pieces(self) -> impl Iterator<Item = Guessed<'a>> {
        let at = (self.start..).step_by(AT_ONCE);
        at.zip(self.bytes.chunks(AT_ONCE)).map(|(start, bytes)| Guessed { start, bytes })
    }
}

/// As many of them as are read at once.
fn together<'a, 'b>(mut rest: &'a [Guessed<'b>]) -> impl Iterator<Item = &'a [Guessed<'b>]> {
    /// The most ranges of one call (linux: UIO_MAXIOV).
    const RANGES: usize = 1024;
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let fits = rest.iter().take(RANGES).take_while(|one| {
            bytes += one.bytes.len();
            bytes <= AT_ONCE
        });
        let (some, others) = rest.split_at(fits.count());
        rest = others;
        (!some.is_empty()).then_some(some)
    })
}

/// From where to where these differ, in whole pages.
fn changed(old: &[u8], new: &[u8]) -> Vec<(usize, usize)> {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for (number, (old, new)) in old.chunks(PAGE as usize).zip(new.chunks(PAGE as usize)).enumerate() {
        let from = number * PAGE as usize;
        match runs.last_mut() {
            _ if old == new => {}
            Some(last) if last.1 == from => last.1 = from + new.len(),
            _ => runs.push((from, from + new.len())),
        }
    }
    runs
}

fn run(start: u64, length: usize) -> Run {
    Run { start, end: start.saturating_add(length as u64) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use image::{Reader, Record};
    use kern::shared_memory::anonymous;

    #[test]
    fn only_pages_that_differ_go_again() {
        let (old, page) = (vec![1; 5 * PAGE as usize], PAGE as usize);
        let mut new = old.clone();
        assert_eq!(changed(&old, &new), []);
        (new[0], new[page], new[4 * page + 7]) = (2, 2, 2);
        assert_eq!(changed(&old, &new), [(0, 2 * page), (4 * page, 5 * page)]);
    }

    #[test]
    fn no_more_is_read_at_once_than_there_is_room_for() {
        let bytes = vec![0; AT_ONCE * 2 + 4096];
        let all: Vec<Guessed<'_>> = Guessed { start: 0x1000, bytes: &bytes }.pieces().collect();
        assert_eq!(all.iter().map(|one| one.bytes.len()).collect::<Vec<_>>(), [AT_ONCE, AT_ONCE, 4096]);
        assert_eq!(all[2].start, 0x1000 + 2 * AT_ONCE as u64);
        assert_eq!(together(&all).map(<[_]>::len).collect::<Vec<_>>(), [1, 1, 1]);
        let many: Vec<Guessed<'_>> = (0..3000).map(|n| Guessed { start: n, bytes: &bytes[..1] }).collect();
        assert_eq!(together(&many).map(<[_]>::len).collect::<Vec<_>>(), [1024, 1024, 952]);
    }

    /// Of this process: one page as it was, one written since, one that is new, one that is gone.
    #[test]
    fn what_is_not_as_it_was_goes_again() {
        let _other = anonymous(1, true, 0);
        let length = PAGE as usize;
        let memory = vec![5_u8; 8 * length];
        let start = (memory.as_ptr() as u64).next_multiple_of(PAGE);
        let own = Pid(std::process::id() as i32);
        let memory_now = || RemoteMemory::open(own).expect("own");
        let pieces = vec![(start - 2 * PAGE, vec![0; length]), (start, [vec![5; length], vec![6; length]].concat())];
        let guess = Guess::of(memory_now(), pieces);
        let parts: Vec<Part> = vec![Part::of(Run { start, end: start + 3 * PAGE })];
        let mut bytes = Vec::new();
        let mut out = Writer::new(&mut bytes).expect("memory");
        guess.settle(&memory_now(), &parts, &mut out).expect("own memory");
        out.end().expect("memory");
        let mut reader = Reader::new(&bytes[..]).expect("whole");
        let mut next = || reader.next_record().expect("whole").expect("more");
        assert_eq!(next(), Record::Gone(Kept { runs: vec![(start - 2 * PAGE, start - PAGE)] }));
        for at in [start + PAGE, start + 2 * PAGE] {
            let Record::Pages(pages) = next() else { panic!("no pages") };
            assert_eq!((pages.start(), pages.bytes()), (at, &vec![5; length][..]));
        }
        assert_eq!(next(), Record::End);
    }
}
