//! For tests: a child in a PID and mount namespace of its own.

use crate::proc::Proc;
use crate::wait;
use vocab::{Exit, Pid};

/// Runs `body` as PID 1 of a new PID namespace with its own /proc, and fails as it fails. Everything it leaves dies with it.
pub(crate) fn in_namespace(body: impl FnOnce(&Proc)) {
    // SAFETY: the child runs nothing but `outer`, which does not return; libc's fork keeps the allocator usable.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "fork");
    if child == 0 {
        outer(body);
    }
    let end = wait::ended(Pid(child)).expect("my child");
    assert_eq!(end.change, wait::Change::Ended(Exit::Code(0)), "the test in the namespace failed");
}

fn outer(body: impl FnOnce(&Proc)) -> ! {
    // SAFETY: numbers only; the process has one thread.
    let made = unsafe { libc::unshare(libc::CLONE_NEWPID | libc::CLONE_NEWNS) };
    // SAFETY: as above; the child becomes PID 1 of the namespace.
    let init = if made == 0 { unsafe { libc::fork() } } else { -1 };
    let code = match init {
        -1 => 2,
        0 => {
            // SAFETY: numbers only.
            unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
            let ran = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| body(&own_proc())));
            i32::from(ran.is_err())
        }
        pid => match wait::ended(Pid(pid)).expect("my child").change {
            wait::Change::Ended(exit) => exit.shell_number(),
            _ => 3,
        },
    };
    // SAFETY: ends this process, which has nothing to clean up.
    unsafe { libc::_exit(code) }
}

fn own_proc() -> Proc {
    // SAFETY: the strings are constants that end in NUL; null is allowed for the rest (mount(2)).
    unsafe {
        let private = libc::MS_REC | libc::MS_PRIVATE;
        assert_eq!(libc::mount(c"none".as_ptr(), c"/".as_ptr(), std::ptr::null(), private, std::ptr::null()), 0);
        assert_eq!(libc::mount(c"proc".as_ptr(), c"/proc".as_ptr(), c"proc".as_ptr(), 0, std::ptr::null()), 0);
    }
    Proc::open("/proc").expect("mounted just now")
}
