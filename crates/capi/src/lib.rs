//! What C programs call: `include/shoal.h` says what each does. Here is what C wants of it: errno, and words that live as long as a thread.

mod helper;
mod itself;
mod told;

use std::cell::RefCell;
use std::ffi::{c_char, c_int, CString};
use vocab::{Fault, Kind, NodeId, Pid, Result};

thread_local! {
    /// Why the last call of this thread that failed did.
    static WHY: RefCell<CString> = RefCell::default();
}

/// As `shoal.h` says.
#[no_mangle]
pub extern "C" fn shoal_move(pid: libc::pid_t, node: c_int) -> c_int {
    answer(move_to(Pid(pid), NodeId(node)))
}

/// As `shoal.h` says.
#[no_mangle]
pub extern "C" fn shoal_error() -> *const c_char {
    WHY.with_borrow(|why| why.as_ptr())
}

fn move_to(pid: Pid, node: NodeId) -> Result<()> {
    if pid.0 < 0 || node.0 < 0 {
        return Err(Fault::sys(libc::EINVAL, format!("move process {pid} to node {node}")));
    }
    match pid.0 == 0 || pid.0 == std::process::id() as i32 {
        true => itself::move_to(node),
        false => {
            let mut daemon = client::Local::connect(&client::socket_path())?;
            client::moves::move_to(&mut daemon, pid, node, false, None)
        }
    }
}

fn answer(done: Result<()>) -> c_int {
    let Err(fault) = done else { return 0 };
    let text: Vec<u8> = fault.to_string().bytes().filter(|byte| *byte != 0).collect();
    WHY.with_borrow_mut(|why| *why = CString::new(text).unwrap_or_default());
    // SAFETY: the address is this thread's own errno.
    unsafe { *libc::__errno_location() = number(&fault) };
    -1
}

/// Which errno says this; as in `shoal.h`.
fn number(fault: &Fault) -> c_int {
    match fault.kind {
        Kind::Gone => libc::ESRCH,
        Kind::Refused => libc::EPERM,
        Kind::Unsupported => libc::EOPNOTSUPP,
        Kind::Changed => libc::EAGAIN,
        Kind::Sys if fault.errno != 0 => fault.errno,
        Kind::Sys | Kind::Wire | Kind::Bug => libc::EPROTO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CStr;

    fn said() -> (c_int, String) {
        let errno = std::io::Error::last_os_error().raw_os_error().unwrap_or(0);
        // SAFETY: it lives until this thread's next call.
        let why = unsafe { CStr::from_ptr(shoal_error()) };
        (errno, why.to_string_lossy().into_owned())
    }

    #[test]
    fn errors_are_a_threads_own() {
        assert_eq!(shoal_move(-1, 0), -1);
        let (errno, why) = said();
        assert_eq!(errno, libc::EINVAL);
        assert!(why.contains("move process -1 to node n0"), "{why}");
        let other = std::thread::spawn(|| said().1).join().expect("it ends");
        assert_eq!(other, "");
        assert_eq!(said().1, why);
    }

    #[test]
    fn the_header_names_each_errno_that_there_is() {
        let header = include_str!("../include/shoal.h");
        let kinds = [(Kind::Gone, "ESRCH"), (Kind::Refused, "EPERM"), (Kind::Unsupported, "EOPNOTSUPP")];
        let numbers = [libc::ESRCH, libc::EPERM, libc::EOPNOTSUPP];
        for ((kind, name), expected) in kinds.into_iter().zip(numbers) {
            assert_eq!(number(&Fault::new(kind, "x")), expected);
            assert!(header.contains(&format!(" *   {name} ")), "{name}");
        }
        assert_eq!(number(&Fault::sys(libc::ENOSPC, "x")), libc::ENOSPC);
    }
}
