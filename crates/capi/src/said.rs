//! What C wants of a failure: -1, errno, and words that live until the thread's next call.

use std::cell::{Cell, RefCell};
use std::ffi::{c_char, c_int, CString};
use vocab::{Fault, Kind};

thread_local! {
    /// Why the last call of this thread that failed did.
    static WHY: RefCell<CString> = RefCell::default();
}

/// A failure with the errno that tells of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Failed {
    pub(crate) errno: c_int,
    pub(crate) why: String,
}

pub(crate) type Done<T> = Result<T, Failed>;

impl Failed {
    pub(crate) fn new(errno: c_int, why: impl Into<String>) -> Failed {
        Failed { errno, why: why.into() }
    }

    /// The system call that has just failed, of the C library, which has left its errno.
    pub(crate) fn last(doing: impl Into<String>) -> Failed {
        Failed::from(Fault::io(&std::io::Error::last_os_error(), doing))
    }
}

impl From<Fault> for Failed {
    fn from(fault: Fault) -> Failed {
        Failed { errno: number(&fault), why: fault.to_string() }
    }
}

thread_local! {
    /// Is this thread in a call of the library?
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// A call, as C has it. A handler of a signal that has interrupted another call of its thread gets EDEADLK: the locks and the memory that it would need may be the other's.
/// Nothing is said in words then, for the same reason.
pub(crate) fn called(call: impl FnOnce() -> Done<c_int>) -> c_int {
    if INSIDE.replace(true) {
        // SAFETY: the address is this thread's own errno.
        unsafe { *libc::__errno_location() = libc::EDEADLK };
        return -1;
    }
    let value = returned(call());
    INSIDE.set(false);
    value
}

/// A part of a call around which others' code runs, which may call this library.
pub(crate) fn guarded<T>(call: impl FnOnce() -> Done<T>) -> Done<T> {
    if INSIDE.replace(true) {
        return Err(Failed { errno: libc::EDEADLK, why: String::new() });
    }
    let done = call();
    INSIDE.set(false);
    done
}

/// What a call returns: the number, or -1 with errno and words set.
pub(crate) fn returned(done: Done<c_int>) -> c_int {
    let Failed { errno, why } = match done {
        Ok(value) => return value,
        Err(failed) => failed,
    };
    let text: Vec<u8> = why.bytes().filter(|byte| *byte != 0).collect();
    WHY.with_borrow_mut(|why| *why = CString::new(text).unwrap_or_default());
    // SAFETY: the address is this thread's own errno.
    unsafe { *libc::__errno_location() = errno };
    -1
}

/// As [`returned`], of a call whose -1 may be no failure: errno is what it was then, whatever was tried on the way.
pub(crate) fn undisturbed(call: impl FnOnce() -> Done<c_int>) -> c_int {
    // SAFETY: the address is this thread's own errno.
    let before = unsafe { *libc::__errno_location() };
    let mut succeeded = false;
    let value = called(|| call().inspect(|_| succeeded = true));
    if succeeded {
        // SAFETY: as above.
        unsafe { *libc::__errno_location() = before };
    }
    value
}

/// The words of this thread's last failure.
pub(crate) fn why() -> *const c_char {
    WHY.with(|why| why.try_borrow().map_or(c"".as_ptr(), |why| why.as_ptr()))
}

/// Which errno says this; as in `shoal.h`.
pub(crate) fn number(fault: &Fault) -> c_int {
    match fault.kind {
        Kind::Gone => libc::ESRCH,
        Kind::Refused => libc::EPERM,
        Kind::Unsupported => libc::EOPNOTSUPP,
        Kind::Changed => libc::EAGAIN,
        Kind::Sys if fault.errno != 0 => fault.errno,
        Kind::Sys | Kind::Wire | Kind::Bug => libc::EPROTO,
    }
}
