//! What is in memory, out of a process and into one.

use crate::by_turns;
use crate::early::{run, Early};
use crate::keys;
use crate::runs::{either, without};
use crate::together::Together;
use image::memory::Area as Saved;
use image::{Pages, Piece, Raw, Reader, Record, Writer};
use kern::areas::{Area, AreaFlags};
use kern::huge::{self, HUGE};
use kern::missing::{Brought, Missing};
use kern::pagemap::{PageMap, Run, PAGE};
use kern::remote_memory::RemoteMemory;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use vocab::{Fault, Pid, Result};

/// Bytes for which a second thread would cost more than it saves.
const LITTLE: u64 = 4 * 1024 * 1024;

/// A piece of memory to be copied, at most as much as a [`Piece`] holds.
#[derive(Clone, Copy)]
pub(crate) struct Part {
    start: u64,
    length: usize,
    /// May the process itself read it?
    readable: bool,
}

impl Part {
    pub(crate) fn run(&self) -> Run {
        Run { start: self.start, end: self.start + self.length as u64 }
    }

    /// What of it is in this run, which is within it.
    pub(crate) fn only(&self, run: Run) -> Part {
        Part { start: run.start, length: (run.end - run.start) as usize, ..*self }
    }

    #[cfg(test)]
    pub(crate) fn of(run: Run) -> Part {
        Part { start: run.start, length: (run.end - run.start) as usize, readable: true }
    }
}

/// May it have pages that no file holds? What is shared is in its file, or in an object of the image.
pub(crate) fn has_own(area: &Area) -> bool {
    !area.is_kernels() && !area.shared
}

/// All pages that no file holds.
pub(crate) fn all(pid: Pid, areas: &[Area]) -> Result<Vec<Part>> {
    let map = PageMap::open(pid)?;
    let mut parts = Vec::new();
    for area in areas.iter().filter(|area| has_own(area)) {
        for run in map.own_pages(area.start, area.end, area.shared)? {
            cut(run, area, &mut parts);
        }
    }
    Ok(parts)
}

/// The same but for what stays `behind`; of that only the pages at the addresses `first`.
pub(crate) fn but(pid: Pid, areas: &[Area], behind: &[Run], first: &[u64]) -> Result<Vec<Part>> {
    let map = PageMap::open(pid)?;
    let mut parts = Vec::new();
    for area in areas.iter().filter(|area| has_own(area)) {
        for run in without(&[Run { start: area.start, end: area.end }], behind) {
            for run in map.own_pages(run.start, run.end, area.shared)? {
                cut(run, area, &mut parts);
            }
        }
        let within = first.iter().filter(|at| (area.start..area.end).contains(*at));
        within.for_each(|at| cut(Run { start: *at, end: at + PAGE }, area, &mut parts));
    }
    Ok(parts)
}

/// Cuts where huge pages begin, so that a restore can make whole ones.
pub(crate) fn cut(run: Run, area: &Area, parts: &mut Vec<Part>) {
    let readable = area.protection & libc::PROT_READ as u32 != 0;
    parts.extend(pieces(run).map(|(start, length)| Part { start, length, readable }));
}

pub(crate) fn pieces(run: Run) -> impl Iterator<Item = (u64, usize)> {
    const { assert!(Piece::MOST as u64 == HUGE) };
    let mut from = run.start;
    std::iter::from_fn(move || {
        let (start, end) = (from, run.end.min((from + 1).next_multiple_of(HUGE)));
        from = end;
        (start < end).then_some((start, (end - start) as usize))
    })
}

/// Copies pages of a process that runs, and tells which: what it takes away meanwhile is left out, and what stands behind that.
pub(crate) fn copy_early(memory: &RemoteMemory, runs: &[Run], out: &mut Writer<impl Write>) -> Result<Vec<Run>> {
    let (mut piece, mut copied) = (Piece::new(), Vec::new());
    for (start, length) in runs.iter().flat_map(|run| pieces(*run)) {
        let got = memory.read_running(start, piece.room(length))?;
        let got = got - got % PAGE as usize;
        if got > 0 {
            piece.room(got);
            out.pages(&mut piece, start, true)?;
            copied.push(Run { start, end: start + got as u64 });
        }
    }
    Ok(copied)
}

/// Copies these pages of a process that stands still.
pub(crate) fn copy(memory: &RemoteMemory, parts: &[Part], out: &mut Writer<impl Write>) -> Result<()> {
    let mut piece = Piece::new();
    parts.iter().try_for_each(|part| {
        read(memory, part, &mut piece)?;
        out.pages(&mut piece, part.start, false)
    })
}

/// The same, where these are all of them. What goes over a link is sealed and sent by one thread, which takes longer than all else.
pub(crate) fn copy_all(
    memory: &RemoteMemory,
    parts: &[Part],
    out: &mut Writer<impl Write + Send>,
    together: &Together,
) -> Result<()> {
    if !out.sealer().sums() || parts.iter().map(|part| part.length as u64).sum::<u64>() <= LITTLE {
        return copy(memory, parts, out);
    }
    let starts: Vec<u64> = parts.iter().map(|part| part.start).collect();
    by_turns::write(&starts, |at, piece| read(memory, &parts[at], piece), out, together)
}

fn read(memory: &RemoteMemory, part: &Part, piece: &mut Piece) -> Result<()> {
    let into = piece.room(part.length);
    if !part.readable || memory.read_ranges(&[(part.start, part.length)], into)? != part.length {
        memory.read(part.start, into)?;
    }
    Ok(())
}

/// Puts the pages of an image, of which `first` is the first record or the end, where they were. Which have come now.
pub(crate) fn fill(
    pid: Pid,
    memory: &RemoteMemory,
    areas: &[Saved],
    reader: &mut Reader<impl Read + Send>,
    first: Record,
    early: &Early,
    (missing, together): (Option<(&Missing, &[Run])>, &Together),
) -> Result<Vec<Run>> {
    let filler = Filler { pid, memory, areas, huge: OnceLock::new(), missing };
    early.pages.iter().try_for_each(|pages| filler.put_kept(pages, &early.kept))?;
    if !early.guessed.placed {
        let there = early.guessed.there();
        early.guessed.pages.iter().try_for_each(|pages| filler.put_kept(pages, &there))?;
    }
    let came = Mutex::new(Vec::new());
    let put = |pages: &Pages| {
        noted(&came, run(pages));
        filler.put(pages)
    };
    let last = put_all(
        put,
        reader,
        first,
        |record| match record {
            Record::Pages(pages) => Sorted::Wanted(pages),
            other => Sorted::Other(other),
        },
        Raw::is_pages,
        Some(together),
    );
    let came = came.into_inner().unwrap_or_else(PoisonError::into_inner);
    match last? {
        Record::End => Ok(either(&came, &[])),
        _ => Err(Fault::wire("a record that is not of pages between records of pages")),
    }
}

/// Reads the pages of an image, of which `first` is the first record or the end, and does nothing with them.
pub(crate) fn pass_over(reader: &mut Reader<impl Read>, first: Record) -> Result<()> {
    let mut next = first;
    while let Record::Pages(pages) = next {
        reader.recycle(pages);
        next = following(reader)?;
    }
    match next {
        Record::End => Ok(()),
        _ => Err(Fault::wire("a record that is not of pages between records of pages")),
    }
}

/// Puts pages that come early into mappings that are there already. Which, and the record behind them.
pub(crate) fn place(
    pid: Pid,
    memory: &RemoteMemory,
    areas: &[Saved],
    reader: &mut Reader<impl Read + Send>,
) -> Result<(Vec<Run>, Record)> {
    let filler = Filler { pid, memory, areas, huge: OnceLock::new(), missing: None };
    let placed = Mutex::new(Vec::new());
    let first = following(reader)?;
    let put = |pages: &Pages| {
        noted(&placed, run(pages));
        filler.put(pages)
    };
    let next = put_all(
        put,
        reader,
        first,
        |record| match record {
            Record::Early(pages) => Sorted::Wanted(pages),
            other => Sorted::Other(other),
        },
        Raw::is_early,
        None,
    )?;
    let placed = placed.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok((either(&[], &placed), next))
}

/// Puts these into mappings that are there already.
pub(crate) fn put(pid: Pid, memory: &RemoteMemory, areas: &[Saved], pages: &Pages) -> Result<()> {
    Filler { pid, memory, areas, huge: OnceLock::new(), missing: None }.put(pages)
}

fn noted(all: &Mutex<Vec<Run>>, run: Run) {
    all.lock().unwrap_or_else(PoisonError::into_inner).push(run);
}

pub(crate) fn following(reader: &mut Reader<impl Read>) -> Result<Record> {
    reader.next_record()?.ok_or_else(|| Fault::wire("an image without an end"))
}

/// A record of pages of the kind that is wanted, or another record.
enum Sorted {
    Wanted(Pages),
    Other(Record),
}

/// Puts the pages of records of one kind, of which `first` may be one, where they were; the first record of another kind. `together`: who keeps the process still,
/// where they may be of a file.
fn put_all(
    put: impl Fn(&Pages) -> Result<()> + Sync,
    reader: &mut Reader<impl Read + Send>,
    first: Record,
    sort: fn(Record) -> Sorted,
    wanted: fn(&Raw) -> bool,
    together: Option<&Together>,
) -> Result<Record> {
    let (mut next, mut bytes) = (sort(first), 0);
    loop {
        match next {
            Sorted::Other(other) => return Ok(other),
            Sorted::Wanted(pages) => {
                bytes += pages.bytes().len() as u64;
                put(&pages)?;
                reader.recycle(pages);
                if bytes > LITTLE {
                    return match together.filter(|_| reader.sums()) {
                        Some(together) => by_turns::read(put, reader, wanted, together),
                        None => by_turns::hand_on(put, reader, wanted),
                    };
                }
                next = sort(following(reader)?);
            }
        }
    }
}

struct Filler<'a> {
    pid: Pid,
    memory: &'a RemoteMemory,
    /// In the order of their addresses.
    areas: &'a [Saved],
    /// Asked for when the first could be used.
    huge: OnceLock<HugePages>,
    /// What is not all there, and where.
    missing: Option<(&'a Missing, &'a [Run])>,
}

impl Filler<'_> {
    /// Puts the bytes of a record of pages where they were.
    fn put(&self, pages: &Pages) -> Result<()> {
        self.put_bytes(pages.start(), pages.bytes())
    }

    /// Of early pages those that are kept.
    fn put_kept(&self, pages: &Pages, kept: &[Run]) -> Result<()> {
        let (start, bytes) = (pages.start(), pages.bytes());
        let end = start.checked_add(bytes.len() as u64).ok_or_else(|| Fault::wire("pages behind all addresses"))?;
        let first = kept.partition_point(|run| run.end <= start);
        for run in kept[first..].iter().take_while(|run| run.start < end) {
            let (from, to) = (run.start.max(start), run.end.min(end));
            self.put_bytes(from, &bytes[(from - start) as usize..(to - start) as usize])?;
        }
        Ok(())
    }

    /// Pages that came early may have come from one mapping that is several by now.
    fn put_bytes(&self, mut start: u64, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            let behind = self.areas.partition_point(|area| area.start <= start);
            let area = self.areas[..behind].last().filter(|area| start < area.end);
            let area = area.ok_or_else(|| Fault::wire(format!("pages at {start:#x} that no mapping has")))?;
            let (here, further) = bytes.split_at(bytes.len().min((area.end - start) as usize));
            self.put_into(area, start, here)?;
            (start, bytes) = (start + here.len() as u64, further);
        }
        Ok(())
    }

    fn put_into(&self, area: &Saved, start: u64, bytes: &[u8]) -> Result<()> {
        // One that is written otherwise would wait for itself, or bring a huge page of zeroes along.
        if let Some((missing, _)) =
            self.missing.filter(|(_, runs)| runs.iter().any(|run| (run.start..run.end).contains(&start)))
        {
            return match missing.copy(start, bytes)? {
                Brought::There => Ok(()),
                other => Err(Fault::bug(format!("a page at {start:#x} of what is not all there is {other:?}"))),
            };
        }
        if keys::at_first(area) & libc::PROT_WRITE as u32 == 0 {
            return self.memory.write(start, bytes);
        }
        let wanted = !AreaFlags::from_bits_retain(area.flags).contains(AreaFlags::NOHUGEPAGE);
        let private = !area.shared && area.file.is_none() && area.page == 0;
        if start.next_multiple_of(HUGE) == start && bytes.len() as u64 == HUGE && private && wanted {
            self.memory.fill(start, &bytes[..PAGE as usize])?;
            self.huge.get_or_init(|| HugePages::of(self.pid)).put_under(start);
        }
        self.memory.fill(start, bytes)
    }
}

/// Memory that is full gets huge pages, as far as there are some: a fault for each small page takes longer than all the rest.
struct HugePages {
    handle: Option<OwnedFd>,
    /// How many may be taken still.
    left: AtomicU64,
}

impl HugePages {
    /// Half of what is free: the kernel should not have to move others' pages for these.
    fn of(pid: Pid) -> HugePages {
        HugePages { handle: kern::pidfd::open(pid).ok(), left: AtomicU64::new(huge::free_blocks() / 2) }
    }

    /// The first refusal is the last attempt: small pages do as well, only slower.
    fn put_under(&self, start: u64) {
        let take = |left: u64| left.checked_sub(1);
        let taken = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok();
        let Some(handle) = self.handle.as_ref().filter(|_| taken) else { return };
        if huge::collapse(handle.as_fd(), start, HUGE).is_err() {
            self.left.store(0, Ordering::Relaxed);
        }
    }
}
