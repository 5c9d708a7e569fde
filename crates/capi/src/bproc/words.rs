//! Failures and the version in words.

use super::text::{null, put};
use super::types::Version;
use crate::said::returned;
use std::cell::RefCell;
use std::ffi::{c_char, c_int, CStr};

pub(super) const BASE: c_int = 300;
pub(super) const INVALID_NODE: c_int = BASE;
pub(super) const NODE_DOWN: c_int = BASE + 1;
pub(super) const SAME_NODE: c_int = BASE + 2;
pub(super) const SLAVE_DIED: c_int = BASE + 3;
pub(super) const INVALID_PROC: c_int = BASE + 4;

/// In the order of their numbers.
const OWN: [&CStr; 5] =
    [c"Invalid node number", c"Node is down", c"Move to same node", c"Slave node died", c"Invalid process ID"];

thread_local! {
    /// The words of the system for the last number that this thread has asked for.
    static WORDS: RefCell<[c_char; 128]> = const { RefCell::new([0; 128]) };
}

/// The words for an errno, BProc's or the system's; a number below 0, as `pids` has them, means the same. They live until the thread's next call.
#[no_mangle]
pub(super) extern "C" fn bproc_strerror(number: c_int) -> *const c_char {
    let number = number.wrapping_abs();
    let own = number.checked_sub(BASE).and_then(|place| usize::try_from(place).ok()).and_then(|place| OWN.get(place));
    if let Some(words) = own {
        return words.as_ptr();
    }
    WORDS.with(|words| {
        // A handler of a signal may have interrupted this very call.
        let Ok(mut words) = words.try_borrow_mut() else { return c"Unknown error".as_ptr() };
        // SAFETY: the buffer is as long as is said; the call ends it with a zero, also for a number that is no errno.
        unsafe { libc::strerror_r(number, words.as_mut_ptr(), words.len()) };
        words.as_ptr()
    })
}

/// Of this library: `bproc_magic` is "BPr", the number is that of the programming interface.
#[no_mangle]
pub(super) extern "C" fn bproc_version(version: *mut Version) -> c_int {
    // SAFETY: null, or the caller's.
    let Some(version) = (unsafe { version.as_mut() }) else { return returned(Err(null("bproc_version"))) };
    version.magic = b"BPr".map(|byte| byte as c_char);
    (version.arch, version.number) = (3, 4);
    put(&mut version.text, concat!("shoal ", env!("CARGO_PKG_VERSION")));
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(number: c_int) -> String {
        // SAFETY: it lives until this thread's next call.
        unsafe { CStr::from_ptr(bproc_strerror(number)) }.to_string_lossy().into_owned()
    }

    #[test]
    fn numbers_have_words_and_their_negatives_too() {
        assert_eq!(words(INVALID_PROC), "Invalid process ID");
        assert_eq!(words(-NODE_DOWN), "Node is down");
        assert_eq!(words(libc::EACCES), "Permission denied");
        for number in [INVALID_PROC + 1, c_int::MIN, c_int::MAX, BASE - 1] {
            assert!(words(number).starts_with("Unknown error"), "{number}");
        }
    }
}
