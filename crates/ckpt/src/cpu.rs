//! May a process of another machine go on with this one's processor?
//!
//! It asked cpuid when it began, and has chosen its code by the answer (glibc's memcpy does): so all that it could have found there must
//! be here. That this machine has more does not matter, since nobody asks again.

use image::cpu::{Cpu, Place};
use std::sync::OnceLock;
use vocab::{Fault, Kind, Result};

/// This machine's. It is looked at once: in a virtual machine each cpuid leaves it, and all of them take 0.1 ms. Who lets a process
/// stand still asks before that.
pub fn here() -> Cpu {
    static HERE: OnceLock<Cpu> = OnceLock::new();
    HERE.get_or_init(look).clone()
}

fn look() -> Cpu {
    let states = kern::cpu::states();
    let places = (2..63).filter(|number| states >> number & 1 == 1).map(|number| {
        let (offset, size) = kern::cpu::place_of_state(number);
        Place { number, offset, size }
    });
    let features = kern::cpu::features().into_iter().map(str::to_owned).collect();
    Cpu { features, states, places: places.collect() }
}

/// What whoever saves registers itself saves of what the processor has: glibc, around the search for a symbol at its first call, all of these, into as much
/// room as the processor had when the program began (glibc: STATE_SAVE_MASK, `_dl_runtime_resolve_xsave`). Tiles are never among them.
const SAVED_BY_PROGRAMS: u64 = 0xee | 1 << 19;

/// What the process may use and `here` does not have, or has more of than the process has room for, in words; nothing when it can go on here.
pub fn missing(of: &Cpu, here: &Cpu) -> Vec<String> {
    let features = of.features.iter().filter(|feature| !here.features.contains(feature)).cloned();
    let states = (0..64).filter(|number| of.states & !here.states & 1 << number != 0);
    let states = states.map(|number| format!("the register state {}", name(number)));
    let more = (0..64).filter(|number| here.states & !of.states & SAVED_BY_PROGRAMS & 1 << number != 0);
    let more = more.map(|number| format!("room for the register state {}, which it saves here", name(number)));
    // Who has asked where a state is in an area.
    let places = of.places.iter().filter_map(|place| {
        let other = here.places.iter().find(|other| other.number == place.number)?;
        (place != other).then(|| format!("the register state {} at the same place in XSAVE areas", name(place.number)))
    });
    features.chain(states).chain(more).chain(places).collect()
}

/// # Errors
/// `Unsupported`, with all that `here` does not have.
pub fn check(of: &Cpu, here: &Cpu) -> Result<()> {
    match &missing(of, here)[..] {
        [] => Ok(()),
        all => {
            let what = "this processor is not as the process has found its own";
            Err(Fault::new(Kind::Unsupported, format!("{what}: {}", all.join(", "))))
        }
    }
}

fn name(state: u32) -> String {
    match state {
        0 => "x87".into(),
        1 => "SSE".into(),
        2 => "AVX".into(),
        3 | 4 => "MPX".into(),
        5..=7 => format!("AVX-512 (part {})", state - 4),
        9 => "PKRU (protection keys)".into(),
        17 | 18 => format!("AMX (part {})", state - 16),
        19 => "APX".into(),
        other => format!("number {other}"),
    }
}

/// The tiles of AMX, in masks of states.
pub(crate) const XTILEDATA: u64 = 1 << 18;

/// Does a thread's state have something in the tiles? (XSTATE_BV, after the legacy region of 512 bytes.)
pub(crate) fn has_tiles(state: &[u8]) -> bool {
    let used = state.get(512..520).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes);
    used & XTILEDATA != 0
}

/// A thread's state as a machine takes it whose areas have `length` bytes: the parts that are not in the image are as at a program's
/// beginning (XSTATE_BV, Intel SDM 1, 13.4.2, says that they were not saved).
pub(crate) fn fitted(state: &[u8], length: usize) -> Vec<u8> {
    let mut area = state.to_vec();
    area.resize(length.max(state.len()), 0);
    area
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cpu(features: &[&str], states: u64, places: &[(u32, u32, u32)]) -> Cpu {
        let places = places.iter().map(|&(number, offset, size)| Place { number, offset, size }).collect();
        Cpu { features: features.iter().map(|name| name.to_string()).collect(), states, places }
    }

    #[test]
    fn what_is_missing_is_named() {
        let avx512 = [(2, 576, 256), (5, 832, 64), (6, 896, 512)];
        let old = cpu(&["sse2", "avx"], 7, &avx512[..1]);
        let new = cpu(&["sse2", "avx", "avx512f", "unheard_of"], 0x67, &avx512);
        let wider = cpu(&["sse2", "avx", "more"], 7 | 3 << 17, &avx512[..1]);
        assert_eq!(missing(&old, &wider), [""; 0]);
        let more = [
            "room for the register state AVX-512 (part 1), which it saves here",
            "room for the register state AVX-512 (part 2), which it saves here",
        ];
        assert_eq!(missing(&old, &new), more);
        assert_eq!(missing(&new, &new), [""; 0]);
        let states = ["the register state AVX-512 (part 1)", "the register state AVX-512 (part 2)"];
        assert_eq!(missing(&new, &old), [&["avx512f", "unheard_of"][..], &states].concat());
        assert_eq!(check(&old, &wider), Ok(()));
        assert!(check(&new, &old).is_err_and(|fault| fault.to_string().contains("avx512f, unheard_of, the register")));
    }

    /// The same registers in areas of another layout (Intel's AVX-512 begins at 1088, where AMD never had MPX).
    #[test]
    fn another_layout_is_refused() {
        let one = cpu(&[], 0x27, &[(2, 576, 256), (5, 832, 64)]);
        let other = cpu(&[], 0x27, &[(2, 576, 256), (5, 1088, 64)]);
        assert_eq!(missing(&one, &other), ["the register state AVX-512 (part 1) at the same place in XSAVE areas"]);
    }

    #[test]
    fn this_machine_is_as_good_as_itself() {
        let here = here();
        assert!(here.features.iter().any(|feature| feature == "sse2"));
        assert_eq!(missing(&here, &here), [""; 0]);
    }

    #[test]
    fn tiles_are_told_by_the_header() {
        let mut state = vec![0; 11008];
        assert!(!has_tiles(&state) && !has_tiles(&[]));
        state[514] = 4;
        assert!(has_tiles(&state));
    }

    #[test]
    fn a_smaller_state_is_filled_up() {
        assert_eq!(fitted(&[1, 2], 4), [1, 2, 0, 0]);
    }
}
