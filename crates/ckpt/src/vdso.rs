//! The kernel's code in a process (vdso(7)), which another kernel has otherwise: other functions at other places, with other pages of data.
//!
//! A program finds the functions once and keeps their addresses, so they stay where they are. On another kernel what was there is made again,
//! for who reads its tables, but each function begins with a jump to the one of the same name of the kernel that is there, or with the system call that
//! it stands for. Another kernel still finds that as memory of the process like any other.

use image::thread::Thread;
use kern::areas::areas;
use kern::remote_memory::read_own;
use object::{Object, ObjectSymbol, SymbolKind};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::OnceLock;
use vocab::{Fault, Kind, Pid, Result};

/// What this kernel gives every process, as this one has it.
///
/// # Errors
/// `Unsupported` where it gives none.
pub fn here() -> Result<&'static [u8]> {
    static HERE: OnceLock<Vec<u8>> = OnceLock::new();
    if let Some(code) = HERE.get() {
        return Ok(code);
    }
    let own = Pid(std::process::id() as i32);
    let none = || Fault::new(Kind::Unsupported, "this kernel gives processes no vdso");
    let area = areas(own, false)?.into_iter().find(|area| area.path == b"[vdso]").ok_or_else(none)?;
    let mut code = vec![0; area.length() as usize];
    read_own(area.start, &mut code)?;
    Ok(HERE.get_or_init(|| code))
}

/// A system call that the functions of these names are.
const CALLS: [(&str, i64); 6] = [
    ("clock_gettime", libc::SYS_clock_gettime),
    ("clock_getres", libc::SYS_clock_getres),
    ("gettimeofday", libc::SYS_gettimeofday),
    ("time", libc::SYS_time),
    ("getcpu", libc::SYS_getcpu),
    ("getrandom", libc::SYS_getrandom),
];

/// The code `old` as it is to be where it was, on a kernel with the code `new` at the address `at`.
///
/// # Errors
/// `Wire` for what is no vdso; `Unsupported` for a function that is too short for a jump.
pub(crate) fn bridged(old: &[u8], new: &[u8], at: u64) -> Result<Vec<u8>> {
    let (functions, now) = (functions(old)?, functions(new)?);
    let by_name: BTreeMap<&str, u64> =
        now.iter().flat_map(|(at, of)| of.names.iter().map(|name| (*name, *at))).collect();
    let mut code = old.to_vec();
    for (start, Function { names, length }) in &functions {
        let jump = match names.iter().find_map(|name| by_name.get(name)) {
            Some(target) => jump_to(at + target),
            None => match names.iter().find_map(|name| call_of(name)) {
                Some(number) => call(number),
                // Whoever calls it asked this kernel's hardware or the like for it.
                None => vec![0xcc],
            },
        };
        let room = code.get_mut(*start as usize..).and_then(|rest| rest.get_mut(..jump.len()));
        match room.filter(|_| jump.len() as u64 <= *length) {
            Some(room) => room.copy_from_slice(&jump),
            None => {
                let what = format!("{names:?} of the image's vdso is too short to lead to another kernel's");
                return Err(Fault::new(Kind::Unsupported, what));
            }
        }
    }
    Ok(code)
}

struct Function<'a> {
    names: BTreeSet<&'a str>,
    /// Bytes of its code.
    length: u64,
}

/// The functions by their offsets, which are addresses too: the first byte has address 0.
fn functions(code: &[u8]) -> Result<BTreeMap<u64, Function<'_>>> {
    let file = object::File::parse(code).map_err(|e| Fault::wire(format!("the vdso of an image: {e}")))?;
    let mut all: BTreeMap<u64, Function<'_>> = BTreeMap::new();
    for symbol in file.dynamic_symbols().filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.is_definition()) {
        let name = symbol.name().map_err(|e| Fault::wire(format!("the vdso of an image: {e}")))?;
        let one = all.entry(symbol.address()).or_insert(Function { names: BTreeSet::new(), length: u64::MAX });
        one.names.insert(name.trim_start_matches("__vdso_"));
        one.length = one.length.min(symbol.size());
    }
    match all.is_empty() {
        true => Err(Fault::wire("the vdso of an image has no functions")),
        false => Ok(all),
    }
}

/// `jmp [rip]`, and the address behind it: no register is another's after it.
fn jump_to(target: u64) -> Vec<u8> {
    [&[0xff, 0x25, 0, 0, 0, 0][..], &target.to_le_bytes()].concat()
}

fn call_of(name: &str) -> Option<i64> {
    CALLS.iter().find(|(of, _)| *of == name).map(|(_, number)| *number)
}

/// `mov eax, number; syscall; ret`
fn call(number: i64) -> Vec<u8> {
    [&[0xb8][..], &(number as u32).to_le_bytes(), &[0x0f, 0x05, 0xc3]].concat()
}

/// # Errors
/// `Refused` when one of the threads is in the code that is another's here.
pub(crate) fn nobody_inside(code: &Range<u64>, threads: &[Thread]) -> Result<()> {
    for thread in threads {
        let rip = crate::registers::of(thread)?.rip;
        if code.contains(&rip) {
            let what = format!("thread {} is in the vdso, which is another one here: take the image again", thread.tid);
            return Err(Fault::refused(what));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_kernels_functions_are_found() {
        let functions = functions(here().expect("a vdso")).expect("ELF");
        let names: Vec<&str> = functions.values().flat_map(|one| one.names.iter().copied()).collect();
        assert!(names.contains(&"clock_gettime") && names.contains(&"getcpu"), "{names:?}");
        assert!(functions.values().all(|one| one.length > 16));
    }

    #[test]
    fn a_bridge_leads_to_the_same_names_or_to_calls() {
        let code = here().expect("a vdso");
        let at = 0x7000_0000_0000;
        let bridge = bridged(code, code, at).expect("it is one");
        for (start, one) in functions(code).expect("ELF") {
            let jump = jump_to(at + start);
            assert_eq!(bridge[start as usize..][..jump.len()], jump, "{:?}", one.names);
        }
        let names: Vec<_> = functions(&bridge).expect("still ELF").into_values().map(|one| one.names).collect();
        assert_eq!(names.len(), functions(code).expect("ELF").len());
        assert_eq!(call(318), [0xb8, 0x3e, 1, 0, 0, 0x0f, 5, 0xc3]);
        assert_eq!(call_of("getrandom"), Some(318));
        assert_eq!(call_of("sgx_enter_enclave"), None);
    }

    #[test]
    fn what_is_no_vdso_is_refused() {
        for wrong in [&b""[..], b"\x7fELF", &[0; 8192]] {
            assert_eq!(bridged(wrong, here().expect("a vdso"), 0).map_err(|fault| fault.kind), Err(Kind::Wire));
        }
        let mut cut = here().expect("a vdso").to_vec();
        cut.truncate(1024);
        assert!(bridged(&cut, here().expect("a vdso"), 0).is_err());
    }
}
