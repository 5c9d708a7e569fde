//! Memory that stays behind when a process goes: it stands still where it was, and what is in its large mappings is sent when it is wanted, and all of it in the end.

use crate::precopy::{is_large, SMALL};
use crate::registers;
use crate::runs::{both, bytes};
use crate::survey::Survey;
use image::thread::Thread;
use kern::areas::{Area, AreaFlags};
use kern::pagemap::{PageMap, Run, PAGE};
use kern::remote_memory::RemoteMemory;
use std::collections::{BTreeSet, VecDeque};
use vocab::{Pid, Result};

/// Bytes that go together: who wants a page will soon want those beside it.
const BLOCK: u64 = 64 * 1024;
/// Bytes whose tables are looked at together: nobody should wait long for that.
const LOOK: u64 = 32 * 1024 * 1024;

/// Mappings of a running process whose pages can stay behind.
pub struct Behind {
    areas: Vec<Area>,
}

/// Those that can, if they are worth it. What is locked into memory, is to be empty in a child, or has guards goes at once.
///
/// # Errors
/// `Gone`.
pub fn behind(pid: Pid, seen: &Survey) -> Result<Option<Behind>> {
    let map = PageMap::open(pid)?;
    let mut areas = Vec::new();
    let mut all = 0;
    for area in seen.areas.iter().filter(|area| can_stay(area)) {
        if map.guards(area.start, area.end)?.is_empty() {
            all += bytes(&map.own_pages(area.start, area.end, false)?);
            areas.push(area.clone());
        }
    }
    Ok((all >= SMALL).then_some(Behind { areas }))
}

fn can_stay(area: &Area) -> bool {
    let not = AreaFlags::LOCKED | AreaFlags::WIPEONFORK | AreaFlags::DROPPABLE | AreaFlags::USERFAULT;
    is_large(area) && !area.flags.intersects(not)
}

impl Behind {
    /// These, in order.
    pub fn mappings(&self) -> Vec<Run> {
        self.areas.iter().map(|area| Run { start: area.start, end: area.end }).collect()
    }

    /// What of these mappings stays, when the process stands still.
    pub(crate) fn runs(&self, areas: &[Area]) -> Vec<Run> {
        let mut runs = Vec::new();
        for area in areas.iter().filter(|area| can_stay(area)) {
            let alike = self.areas.iter().filter(|was| was.flags == area.flags && was.path == area.path);
            let alike: Vec<Run> = alike.map(|was| Run { start: was.start, end: was.end }).collect();
            runs.extend(both(&[Run { start: area.start, end: area.end }], &alike));
        }
        runs
    }
}

/// Pages of these runs that are wanted before the process runs there, or at once: what registers and the kernel point to. While it is made
/// again nobody could bring them.
pub(crate) fn first(threads: &[Thread], runs: &[Run]) -> Result<Vec<u64>> {
    /// What a call that waits may read: `struct pollfd` and the like.
    const NEAR: u64 = 2 * PAGE;
    /// Below the stack, a note ([`crate::waits`]).
    const NOTE: u64 = 256;
    let mut pages = BTreeSet::new();
    let mut add = |from: u64, length: u64| {
        let to = from.saturating_add(length.max(1));
        for run in both(runs, &[Run { start: from & !(PAGE - 1), end: to.next_multiple_of(PAGE) }]) {
            pages.extend((run.start..run.end).step_by(PAGE as usize));
        }
    };
    for thread in threads {
        let regs = registers::of(thread)?;
        thread.regs.iter().filter(|at| **at < 1 << 47).for_each(|at| add(*at, NEAR));
        add(regs.rsp.saturating_sub(NOTE), NOTE);
        if regs.orig_rax as i64 == libc::SYS_poll
            || thread.waits.is_some_and(|waits| waits.call as i64 == libc::SYS_poll)
        {
            add(regs.rdi, (regs.rsi & 0xf_ffff) * 8);
        }
        add(thread.rseq.address, thread.rseq.size.into());
        add(thread.robust.0, thread.robust.1);
        add(thread.clear_tid, 4);
    }
    Ok(pages.into_iter().collect())
}

/// The memory of a process that stands still, block by block.
pub struct Keeper {
    memory: RemoteMemory,
    map: PageMap,
    runs: Vec<Run>,
    /// Not looked at yet.
    rest: VecDeque<Run>,
    /// Looked at, and not sent.
    found: VecDeque<Run>,
    /// Blocks of which all has been sent.
    sent: BTreeSet<u64>,
}

impl Keeper {
    /// # Errors
    /// `Gone`.
    pub(crate) fn of(pid: Pid, runs: Vec<Run>) -> Result<Keeper> {
        let mut rest = VecDeque::new();
        for run in &runs {
            let slices = (run.start..run.end).step_by(LOOK as usize);
            rest.extend(slices.map(|start| Run { start, end: run.end.min(start + LOOK) }));
        }
        let (memory, map) = (RemoteMemory::open(pid)?, PageMap::open(pid)?);
        Ok(Keeper { memory, map, runs, rest, found: VecDeque::new(), sent: BTreeSet::new() })
    }

    /// The page at this address, with those beside it that have not been sent; nothing where nothing has stayed.
    ///
    /// # Errors
    /// `Sys` when the process was killed.
    pub fn wanted(&mut self, at: u64) -> Result<Vec<(u64, Vec<u8>)>> {
        let block = at / BLOCK * BLOCK;
        let wanted = match self.sent.insert(block) {
            true => Run { start: block, end: block + BLOCK },
            false => Run { start: at & !(PAGE - 1), end: (at & !(PAGE - 1)) + PAGE },
        };
        both(&self.runs, &[wanted]).into_iter().map(|run| self.read(run)).collect()
    }

    /// The next that nobody has asked for; `None` when all has been sent.
    ///
    /// # Errors
    /// As [`Keeper::wanted`].
    pub fn another(&mut self) -> Result<Option<(u64, Vec<u8>)>> {
        loop {
            let Some(run) = self.found.pop_front() else {
                let Some(slice) = self.rest.pop_front() else { return Ok(None) };
                self.found.extend(self.map.own_pages(slice.start, slice.end, false)?);
                continue;
            };
            let block = run.start / BLOCK * BLOCK;
            let end = run.end.min(block + BLOCK);
            if end < run.end {
                self.found.push_front(Run { start: end, end: run.end });
            }
            if !self.sent.contains(&block) {
                return self.read(Run { start: run.start, end }).map(Some);
            }
        }
    }

    fn read(&self, run: Run) -> Result<(u64, Vec<u8>)> {
        let mut bytes = vec![0; (run.end - run.start) as usize];
        if self.memory.read_ranges(&[(run.start, bytes.len())], &mut bytes)? != bytes.len() {
            self.memory.read(run.start, &mut bytes)?;
        }
        Ok((run.start, bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_registers_and_the_kernel_point_to_goes_at_once() {
        let runs = [Run { start: 0x10_0000, end: 0x20_0000 }];
        let mut thread = Thread { regs: vec![0; size_of::<kern::ptrace::Regs>() / 8], ..Thread::default() };
        assert_eq!(first(&[thread.clone()], &runs).expect("registers"), [0u64; 0]);
        thread.regs[0] = 0x10_0ff8;
        thread.rseq.address = 0x1f_f000;
        thread.rseq.size = 32;
        let pages = first(&[thread], &runs).expect("registers");
        assert_eq!(pages, [0x10_0000, 0x10_1000, 0x10_2000, 0x1f_f000]);
    }
}
