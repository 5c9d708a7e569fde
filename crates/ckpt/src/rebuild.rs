//! The memory of a new process: everything that it has inherited goes, everything of the image comes.

use crate::memory;
use image::memory::{Area as Saved, Memory};
use kern::areas::{areas, Area};
use kern::pagemap::PAGE;
use kern::ptrace;
use kern::remote_memory::RemoteMemory;
use puppet::{Arena, Loan, Script, Stopped};
use vocab::{Fault, Kind, Pid, Result};

/// Where a program may have mappings: the kernel's own begin here (linux: `TASK_SIZE_MAX`).
const TOP: u64 = 0x7fff_ffff_f000;
/// The lowest address that is used for our own: below, mmap_min_addr may forbid it.
const BOTTOM: u64 = 0x10_0000;

/// Mappings that no process can have would lead a restore astray before the kernel refuses them.
pub(crate) fn check(image: &Memory) -> Result<()> {
    let areas = image.areas.iter().map(|area| (area.start, area.end));
    let mut from = 0;
    for (start, end) in areas {
        if start < from || end <= start || end > TOP || start % PAGE != 0 || end % PAGE != 0 {
            return Err(Fault::wire(format!("a mapping at {start:#x}-{end:#x} that no process can have")));
        }
        from = end;
    }
    match image.vdso.0.checked_add(image.vdso.1) {
        Some(end) if end <= TOP => Ok(()),
        _ => Err(Fault::wire("a vdso where no process can have it")),
    }
}

/// Empties the process but for the kernel's pages, which go where the image has them, and an arena, whose address neither the process nor
/// the image uses. Returns the arena, and where the `syscall` instruction of the vdso is then.
pub(crate) fn clear<'a>(
    thread: &'a Stopped,
    remote: &'a RemoteMemory,
    image: &Memory,
    pid: Pid,
) -> Result<(Loan<'a>, Arena)> {
    let now = areas(pid, false)?;
    let kernels: Vec<&Area> = now.iter().filter(|area| memory::is_vdso(area)).collect();
    let (Some(first), Some(last)) = (kernels.first(), kernels.last()) else {
        return Err(Fault::new(Kind::Unsupported, "this kernel gives processes no vdso"));
    };
    let (start, length) = (first.start, last.end - first.start);
    if image.vdso.1 != 0 && image.vdso.1 != length {
        let what = format!("the image is of a kernel whose vdso has {} bytes, here it has {length}", image.vdso.1);
        return Err(Fault::new(Kind::Unsupported, what));
    }
    let base = gap(&now, image, Arena::LENGTH + length)?;
    let mut loan = Loan::take(thread, remote, &now)?;
    leave_rseq(&mut loan, thread.tid())?;
    let arena = loan.map_arena(Some(base))?;
    let mut script = arena.script();
    move_all(&mut script, &kernels, start, arena.end());
    script.call("unmap what was inherited", libc::SYS_munmap, &[0, base]);
    script.call("unmap what was inherited", libc::SYS_munmap, &[arena.end() + length, TOP - arena.end() - length]);
    let home = if image.vdso.1 == 0 { start } else { image.vdso.0 };
    let parked: Vec<Area> = kernels.iter().map(|area| moved(area, start, arena.end())).collect();
    move_all(&mut script, &parked.iter().collect::<Vec<_>>(), arena.end(), home);
    let gate = loan.gate() - start + home;
    loan.run(arena, script)?;
    loan.set_gate(gate);
    Ok((loan, arena))
}

fn moved(area: &Area, from: u64, to: u64) -> Area {
    let by = |address: u64| address - from + to;
    Area { start: by(area.start), end: by(area.end), ..area.clone() }
}

/// Moves mappings that begin at `from` to `to`, each at its distance from the first.
fn move_all(script: &mut Script, areas: &[&Area], from: u64, to: u64) {
    let how = (libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED) as u64;
    for area in areas {
        let args = [area.start, area.length(), area.length(), how, area.start - from + to];
        script.call("move the kernel's pages", libc::SYS_mremap, &args);
    }
}

/// The restorer's registration was inherited with its memory, which goes.
fn leave_rseq(loan: &mut Loan<'_>, tid: Pid) -> Result<()> {
    const UNREGISTER: u64 = 1;
    let rseq = match ptrace::rseq(tid) {
        Ok(rseq) if rseq.address != 0 => rseq,
        _ => return Ok(()),
    };
    let args = [rseq.address, rseq.size.into(), UNREGISTER, rseq.signature.into()];
    loan.must("leave the restartable sequence", libc::SYS_rseq, &args).map(drop)
}

/// An address range that is free both in the process as it is and in the image, stacks' room to grow included.
fn gap(now: &[Area], image: &Memory, length: u64) -> Result<u64> {
    /// Kept below each mapping, for a stack that grows and its guard.
    const ROOM: u64 = 16 * 1024 * 1024;
    let mut taken: Vec<(u64, u64)> = now.iter().map(|area| (area.start, area.end)).collect();
    taken.extend(image.areas.iter().map(|area| (area.start, area.end)));
    taken.push((image.vdso.0, image.vdso.0 + image.vdso.1));
    taken.sort_unstable();
    let mut from = BOTTOM;
    for (start, end) in taken.into_iter().filter(|(start, end)| end > start && *start < TOP) {
        if start >= from + length + ROOM {
            return Ok(from);
        }
        from = from.max(end.next_multiple_of(4096));
    }
    match TOP.checked_sub(from + length) {
        Some(_) => Ok(from),
        None => Err(Fault::refused("the image leaves no address range that a restore could work in")),
    }
}

/// Maps the areas of the image, some hundred with each script.
pub(crate) fn map(loan: &mut Loan<'_>, arena: Arena, areas: &[Saved], files: &[Option<i32>]) -> Result<()> {
    const AT_ONCE: usize = 256;
    for (areas, files) in areas.chunks(AT_ONCE).zip(files.chunks(AT_ONCE)) {
        let mut script = arena.script();
        memory::map(&mut script, areas, files);
        loan.run(arena, script)?;
    }
    Ok(())
}
