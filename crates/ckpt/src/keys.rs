//! Protection keys (pkeys(7)): which of them a process has, and which mappings have one. What a thread may do by each is in its registers (PKRU).

use image::memory::{Area as Saved, Memory};
use kern::pagemap::PAGE;
use puppet::{Arena, Loan, Script};
use vocab::{Fault, Kind, Result};

/// Where a program may have mappings: the kernel's own begin here (linux: `TASK_SIZE_MAX`).
pub(crate) const TOP: u64 = 0x7fff_ffff_f000;
/// The most that a process can have; key 0, which all other memory has, is everybody's.
const LAST: u32 = 15;
const EXECUTE: u32 = libc::PROT_EXEC as u32;
const READ: u32 = libc::PROT_READ as u32;
const WRITE: u32 = libc::PROT_WRITE as u32;

fn has(keys: u16, key: u32) -> bool {
    key <= LAST && keys >> key & 1 == 1
}

/// The keys that the process of the lent thread has allocated, a bit for each.
pub(crate) fn ask(loan: &mut Loan<'_>, arena: Arena) -> Result<u16> {
    if kern::cpu::place_of_key_rights().is_none() {
        return Ok(0);
    }
    let mut script = arena.script();
    // Where there is no memory: a key that is the process's to use is found first (linux: `do_mprotect_pkey`).
    let asked = (1..=LAST).map(|key| script.attempt(libc::SYS_pkey_mprotect, &[TOP, PAGE, 0, key.into()]));
    let asked: Vec<_> = asked.collect();
    let outcome = loan.run(arena, script)?;
    let there = |call| outcome.result(call) == -i64::from(libc::ENOMEM);
    Ok((1..=LAST).zip(asked).fold(0, |keys, (key, call)| keys | u16::from(there(call)) << key))
}

/// The key of memory that may only be executed, which the kernel gives away itself (linux: `execute_only_pkey`), and which does not count as allocated.
fn of_the_kernel(memory: &Memory) -> Option<u32> {
    let given = |area: &&Saved| area.key != 0 && area.protection == EXECUTE && !has(memory.keys, area.key);
    memory.areas.iter().find(given).map(|area| area.key)
}

fn uses_keys(memory: &Memory) -> bool {
    memory.keys != 0 || memory.areas.iter().any(|area| area.key != 0)
}

/// # Errors
/// `Unsupported` where the process has keys and this processor none; `Wire` for keys that there cannot be.
pub(crate) fn check(memory: &Memory) -> Result<()> {
    if has(memory.keys, 0) || memory.areas.iter().any(|area| area.key > LAST) {
        return Err(Fault::wire("a protection key that no process can have"));
    }
    match uses_keys(memory) && kern::cpu::place_of_key_rights().is_none() {
        true => Err(Fault::new(Kind::Unsupported, "the process has protection keys, and this processor has none")),
        false => Ok(()),
    }
}

/// How a mapping is protected until all that is in it has come. For memory that may only be executed the kernel would take a key; nobody can write into huge pages
/// past their protection.
pub(crate) fn at_first(area: &Saved) -> u32 {
    match area.protection {
        EXECUTE => READ | EXECUTE,
        other if area.page != 0 => other | READ | WRITE,
        other => other,
    }
}

/// Allocates the keys of a process that has none yet, and gives each mapping its protection and its own.
pub(crate) fn set(script: &mut Script, memory: &Memory) {
    let protect = |script: &mut Script, area: &Saved| {
        let args = [area.start, area.end - area.start, area.protection.into()];
        script.call(format!("protect the mapping at {:#x}", area.start), libc::SYS_mprotect, &args);
    };
    let late = |area: &&Saved| at_first(area) != area.protection;
    if !uses_keys(memory) {
        memory.areas.iter().filter(late).for_each(|area| protect(script, area));
        return;
    }
    // All of them: then the kernel finds none for memory that may only be executed and that had none, and a mapping may have one that was given up.
    for key in 1..=LAST {
        script.call(format!("allocate protection key {key}"), libc::SYS_pkey_alloc, &[0, 0]);
    }
    let kernels = of_the_kernel(memory);
    let is_kernels = |area: &Saved| area.protection == EXECUTE && Some(area.key) == kernels;
    for area in memory.areas.iter().filter(|area| !is_kernels(area)) {
        if area.key != 0 {
            let args = [area.start, area.end - area.start, area.protection.into(), area.key.into()];
            script.call(format!("give the mapping at {:#x} its key", area.start), libc::SYS_pkey_mprotect, &args);
        } else if late(&area) {
            protect(script, area);
        }
    }
    let free = |script: &mut Script, key: u32| {
        script.call(format!("free protection key {key}"), libc::SYS_pkey_free, &[key.into()]);
    };
    // The only one that is free is the one that the kernel takes.
    kernels.into_iter().for_each(|key| free(script, key));
    memory.areas.iter().filter(|area| is_kernels(area)).for_each(|area| protect(script, area));
    (1..=LAST).filter(|key| !has(memory.keys, *key) && Some(*key) != kernels).for_each(|key| free(script, key));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn area(protection: u32, key: u32) -> Saved {
        Saved { protection, key, ..Saved::default() }
    }

    #[test]
    fn the_kernels_own_key_is_told_from_those_of_programs() {
        let memory = |keys, areas: &[Saved]| Memory { keys, areas: areas.to_vec(), ..Memory::default() };
        assert_eq!(of_the_kernel(&memory(0, &[area(READ, 0), area(EXECUTE, 2)])), Some(2));
        assert_eq!(of_the_kernel(&memory(1 << 2, &[area(EXECUTE, 2)])), None);
        assert_eq!(of_the_kernel(&memory(0, &[area(READ, 2), area(EXECUTE, 0)])), None);
    }

    #[test]
    fn keys_that_there_cannot_be_are_refused() {
        let bad = |keys, key| check(&Memory { keys, areas: vec![area(READ, key)], ..Memory::default() });
        assert!(bad(1, 0).is_err_and(|fault| fault.kind == Kind::Wire));
        assert!(bad(0, 16).is_err_and(|fault| fault.kind == Kind::Wire));
        assert_eq!(bad(0, 0), Ok(()));
        let here = kern::cpu::place_of_key_rights().is_some();
        assert_eq!(bad(1 << 3, 3).is_ok(), here);
    }

    #[test]
    fn what_is_to_be_filled_can_be() {
        assert_eq!(at_first(&area(EXECUTE, 0)), READ | EXECUTE);
        assert_eq!(at_first(&area(READ, 0)), READ);
        assert_eq!(at_first(&Saved { page: 2 << 20, ..area(0, 0) }), READ | WRITE);
    }
}
