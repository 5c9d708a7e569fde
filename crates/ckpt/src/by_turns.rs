//! Two threads take turns at one stream of pages: each carries a piece all the way, while what it has just read is in the cache of its processor. One that reads for
//! another that writes is slower: every byte goes from one processor's cache into the other's. So it is with files; at a link there is one that does nothing else ([`hand_on`]).
//!
//! | what a thread does | of a stream that is written | of one that is read |
//! |---|---|---|
//! | in its turn | writes the piece | reads the piece |
//! | beside the other | copies it from the process, and sums it up | looks at its sum, and copies it into the process |

use crate::together::Together;
use image::{Pages, Piece, Raw, Reader, Record, Writer};
use kern::pagemap::Run;
use std::io::{Read, Write};
use std::sync::mpsc::{channel, sync_channel};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, Scope, ScopedJoinHandle};
use vocab::{Fault, Result};

/// Threads.
const TWO: usize = 2;
/// Pieces under way between two threads of which one reads and the other writes.
const UNDER_WAY: usize = 4;

/// A stream, and who is to have it next.
struct Turns<S> {
    shared: Mutex<S>,
    changed: Condvar,
}

impl<S> Turns<S> {
    fn new(shared: S) -> Turns<S> {
        Turns { shared: Mutex::new(shared), changed: Condvar::new() }
    }

    fn take(&self) -> MutexGuard<'_, S> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until it is as wanted.
    fn take_when(&self, wanted: impl Fn(&S) -> bool) -> MutexGuard<'_, S> {
        self.changed.wait_while(self.take(), |shared| !wanted(shared)).unwrap_or_else(PoisonError::into_inner)
    }

    fn over(self) -> S {
        self.shared.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    fn release(&self, shared: MutexGuard<'_, S>) {
        drop(shared);
        self.changed.notify_all();
    }
}

/// A thread that helps; `None` where there may be no more of them (RLIMIT_NPROC, cgroups): whoever asks does all of it then.
fn another<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    work: impl FnOnce() -> T + Send + 'scope,
) -> Option<ScopedJoinHandle<'scope, T>> {
    Builder::new().spawn_scoped(scope, work).ok()
}

/// What is written.
struct Outward<'a, W: Write> {
    out: &'a mut Writer<W>,
    /// The piece that is to be written next, of all.
    next: usize,
    failed: Option<Fault>,
}

/// Writes as many pieces as there are `starts`, in their order; `copy` puts one of them into its place.
pub(crate) fn write(
    starts: &[u64],
    copy: impl Fn(usize, &mut Piece) -> Result<()> + Sync,
    out: &mut Writer<impl Write + Send>,
    together: &Together,
) -> Result<()> {
    let sealer = out.sealer();
    let turns = Turns::new(Outward { out, next: 0, failed: None });
    let work = |first: usize, step: usize| {
        let mut piece = Piece::new();
        for at in (first..starts.len()).step_by(step) {
            let copied = copy(at, &mut piece).map(|()| sealer.seal(&mut piece, starts[at], false));
            let mut its = turns.take_when(|its| its.next == at || its.failed.is_some());
            if its.failed.is_none() {
                let written = copied.and_then(|()| its.out.sealed(&piece));
                its.failed = written.err();
            }
            its.next += 1;
            let failed = its.failed.is_some();
            turns.release(its);
            if failed {
                return;
            }
        }
    };
    std::thread::scope(|scope| {
        let second = another(scope, || {
            together.lets_go();
            work(1, TWO);
        });
        work(0, if second.is_some() { TWO } else { 1 });
    });
    turns.over().failed.map_or(Ok(()), Err)
}

/// What is read.
struct Inward<'a, R: Read> {
    reader: &'a mut Reader<R>,
    /// Pieces so far.
    count: usize,
    /// What each thread has in hand: which piece that is, and where it goes.
    in_hand: [Option<(usize, Run)>; TWO],
    /// What comes behind the pages, or why there is nothing.
    last: Option<Result<Record>>,
}

impl<R: Read> Inward<'_, R> {
    /// The next piece, if it is one of pages that are `wanted`.
    fn next(&mut self, me: usize, wanted: fn(&Raw) -> bool) -> Option<Raw> {
        while self.last.is_none() {
            match self.reader.next_raw() {
                Ok(Some(raw)) if wanted(&raw) => {
                    let start = raw.start();
                    self.in_hand[me] = Some((self.count, Run { start, end: start.saturating_add(raw.length()) }));
                    self.count += 1;
                    return Some(raw);
                }
                Ok(Some(raw)) => self.last = raw.checked().transpose(),
                Ok(None) => self.last = Some(Err(Fault::wire("an image without an end"))),
                Err(fault) => self.last = Some(Err(fault)),
            }
        }
        None
    }

    /// Has the other thread an older piece in hand for the same place? Of two the younger one holds.
    fn must_wait(&self, me: usize) -> bool {
        let (Some((mine, here)), Some((other, there))) = (self.in_hand[me], self.in_hand[1 - me]) else { return false };
        other < mine && here.start < there.end && there.start < here.end
    }
}

/// Puts the pages that are `wanted`, of a file, where they were; the first record of another kind.
pub(crate) fn read(
    put: impl Fn(&Pages) -> Result<()> + Sync,
    reader: &mut Reader<impl Read + Send>,
    wanted: fn(&Raw) -> bool,
    together: &Together,
) -> Result<Record> {
    let turns = Turns::new(Inward { reader, count: 0, in_hand: [None; TWO], last: None });
    let work = |me: usize| {
        let mut its = turns.take();
        while let Some(raw) = its.next(me, wanted) {
            if its.must_wait(me) {
                drop(its);
                its = turns.take_when(|its| !its.must_wait(me));
            }
            drop(its);
            let pages = raw.pages();
            let done = pages.and_then(|pages| put(&pages).map(|()| pages));
            its = turns.take();
            its.in_hand[me] = None;
            match done {
                Ok(pages) => its.reader.recycle(pages),
                // Also where the other one has found the end.
                Err(fault) => its.last = Some(Err(fault)),
            }
            turns.changed.notify_all();
        }
    };
    std::thread::scope(|scope| {
        let _second = another(scope, || {
            together.lets_go();
            work(1);
        });
        work(0);
    });
    turns.over().last.unwrap_or_else(|| Err(Fault::bug("pages without an end")))
}

/// The same of a link, at which one thread stays: whoever sends must not wait until both have put what they have.
pub(crate) fn hand_on(
    put: impl Fn(&Pages) -> Result<()> + Sync,
    reader: &mut Reader<impl Read + Send>,
    wanted: fn(&Raw) -> bool,
) -> Result<Record> {
    let mut its = Inward { reader, count: 0, in_hand: [None; TWO], last: None };
    std::thread::scope(|scope| {
        let ((to_put, coming), (done, back)) = (sync_channel::<Pages>(UNDER_WAY), channel());
        let put = &put;
        let putting = another(scope, move || {
            coming.into_iter().try_for_each(|pages| {
                put(&pages)?;
                // The reader may have read all.
                let _taken = done.send(pages);
                Ok(())
            })
        });
        let Some(putting) = putting else {
            while let Some(raw) = its.next(0, wanted) {
                let pages = raw.pages()?;
                put(&pages)?;
                its.reader.recycle(pages);
            }
            return Ok(());
        };
        while let Some(raw) = its.next(0, wanted) {
            match raw.pages().map(|pages| to_put.send(pages)) {
                Ok(Ok(())) => back.try_iter().for_each(|pages| its.reader.recycle(pages)),
                // It tells why.
                Ok(Err(_)) => break,
                Err(fault) => its.last = Some(Err(fault)),
            }
        }
        drop(to_put);
        putting.join().map_err(|_| Fault::bug("the thread that fills memory has failed"))?
    })?;
    its.last.unwrap_or_else(|| Err(Fault::bug("pages without an end")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PAGE: usize = 4096;

    /// An image of these early pages (first page, pages): each has its place in the order as its bytes.
    fn early(pieces: &[(u8, u8)], vouched: bool) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut out = if vouched { Writer::vouched(&mut bytes) } else { Writer::new(&mut bytes) }.expect("memory");
        let mut piece = Piece::new();
        for (at, (start, pages)) in pieces.iter().enumerate() {
            piece.room(usize::from(*pages) * PAGE).fill(at as u8);
            out.pages(&mut piece, u64::from(*start) * PAGE as u64, true).expect("memory");
        }
        out.end().expect("memory");
        bytes
    }

    /// What is in memory when all is read.
    fn placed(image: &[u8], failing: Option<u8>) -> Result<Vec<u8>> {
        let memory = Mutex::new(vec![255; 512 * PAGE]);
        let put = |pages: &Pages| {
            if failing == Some(pages.bytes()[0]) {
                return Err(Fault::gone("a page"));
            }
            // Page by page, so that another thread could come in between.
            for (at, page) in pages.bytes().chunks(PAGE).enumerate() {
                let start = pages.start() as usize + at * PAGE;
                memory.lock().expect("no panic")[start..start + PAGE].copy_from_slice(page);
                std::thread::yield_now();
            }
            Ok(())
        };
        let mut reader = Reader::vouched(image)?;
        let last = match reader.sums() {
            true => read(put, &mut reader, Raw::is_early, &Together::here())?,
            false => hand_on(put, &mut reader, Raw::is_early)?,
        };
        assert_eq!(last, Record::End);
        Ok(memory.into_inner().expect("no panic"))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn what_comes_later_holds(pieces in proptest::collection::vec((0u8..40, 1u8..30), 1..60)) {
            let mut expected = vec![255; 512 * PAGE];
            for (at, (start, pages)) in pieces.iter().enumerate() {
                let (start, length) = (usize::from(*start) * PAGE, usize::from(*pages) * PAGE);
                expected[start..start + length].fill(at as u8);
            }
            for vouched in [false, true] {
                prop_assert!(placed(&early(&pieces, vouched), None).expect("whole") == expected);
            }
        }

        #[test]
        fn what_fails_ends_all_of_it(pieces in proptest::collection::vec((0u8..40, 1u8..3), 1..60), at in any::<prop::sample::Index>()) {
            for vouched in [false, true] {
                let image = early(&pieces, vouched);
                let fails = Some(at.index(pieces.len()) as u8);
                prop_assert_eq!(placed(&image, fails).map_err(|fault| fault.kind), Err(vocab::Kind::Gone));
                prop_assert!(placed(&image[..at.index(image.len())], None).is_err());
            }
            let image = early(&pieces, false);
            let mut changed = image.clone();
            // Behind the first bytes, and not among the last: those that are passed over are zeroes of the last head.
            let last = image.len() - 24;
            let at = 16 + at.index(last - 16);
            changed[at] ^= 1;
            prop_assert!(placed(&changed, None).is_err());
        }

        #[test]
        fn pieces_are_written_in_their_order(count in 0usize..50, failing in 0usize..80) {
            let together = Together::here();
            let starts: Vec<u64> = (0..count as u64).map(|at| at * 0x10000).collect();
            let mut bytes = Vec::new();
            let mut out = Writer::new(&mut bytes).expect("memory");
            let copy = |at: usize, piece: &mut Piece| {
                piece.room(1 + at * 7).fill(at as u8);
                if at == failing { Err(Fault::gone("it")) } else { Ok(()) }
            };
            let done = write(&starts, copy, &mut out, &together);
            prop_assert_eq!(done.is_err(), failing < count);
            out.end().expect("memory");
            let mut reader = Reader::new(&bytes[..]).expect("an image");
            for at in 0..count.min(failing) {
                let Some(Record::Pages(pages)) = reader.next_record().expect("whole") else { panic!("no pages") };
                prop_assert_eq!((pages.start(), pages.bytes().len()), (at as u64 * 0x10000, 1 + at * 7));
                prop_assert!(pages.bytes().iter().all(|byte| *byte == at as u8));
            }
            prop_assert_eq!(reader.next_record().expect("whole"), Some(Record::End));
        }
    }
}
