//! What C programs call: `include/shoal.h` says what each does. Here is what C wants of it: errno, and words that live as long as a thread.

mod bproc;
mod helper;
mod itself;
mod said;
mod told;

use said::{called, why};
use std::ffi::{c_char, c_int};
use vocab::{Fault, NodeId, Pid, Result};

/// As `shoal.h` says.
#[no_mangle]
pub extern "C" fn shoal_move(pid: libc::pid_t, node: c_int) -> c_int {
    called(|| move_to(Pid(pid), NodeId(node)).map(|()| 0).map_err(Into::into))
}

/// As `shoal.h` says.
#[no_mangle]
pub extern "C" fn shoal_error() -> *const c_char {
    why()
}

fn move_to(pid: Pid, node: NodeId) -> Result<()> {
    if pid.0 < 0 || node.0 < 0 {
        return Err(Fault::sys(libc::EINVAL, format!("move process {pid} to node {node}")));
    }
    match pid.0 == 0 || pid.0 == std::process::id() as i32 {
        true => itself::move_to(node),
        false => {
            let mut daemon = local::Local::connect(&local::socket_path())?;
            local::moves::move_to(&mut daemon, pid, node, false, None)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use said::number;
    use std::ffi::CStr;
    use vocab::Kind;

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
