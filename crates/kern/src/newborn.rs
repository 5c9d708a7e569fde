//! A child that does nothing: what a process is made from that was somewhere else before.

use crate::standin::raw::{self, CloneArgs};
use std::ffi::CString;
use std::os::fd::{AsRawFd, BorrowedFd};
use vocab::Pid;

/// The errno of a number that is in use.
pub use libc::EEXIST as IN_USE;

/// Forks a child that waits for its tracer with all signals blocked, and does nothing else. With `pid` it gets that number
/// (clone3(2), set_tid; wants CAP_CHECKPOINT_RESTORE over the PID namespace).
///
/// # Errors
/// EEXIST when the number is in use, EPERM without the capability, EAGAIN.
pub fn newborn(pid: Option<Pid>) -> std::result::Result<Pid, i32> {
    let number = pid.unwrap_or(Pid::NONE).0;
    let args = CloneArgs {
        exit_signal: libc::SIGCHLD as u64,
        set_tid: pid.map_or(0, |_| &raw const number as u64),
        set_tid_size: u64::from(pid.is_some()),
        ..CloneArgs::default()
    };
    let all = !0u64;
    let mut before = 0u64;
    let set = libc::SIG_SETMASK as u64;
    // SAFETY: the masks and the arguments live through the calls. The child has a copy of this memory; it goes on behind the call on a
    // copy of this stack, and only makes calls that take no memory until its tracer has taken it over.
    let made = unsafe {
        raw::call(libc::SYS_rt_sigprocmask, [set, &raw const all as u64, &raw mut before as u64, 8, 0, 0]);
        let made = raw::call(libc::SYS_clone3, [&raw const args as u64, size_of::<CloneArgs>() as u64, 0, 0, 0, 0]);
        if made == 0 {
            loop {
                raw::call(libc::SYS_pause, [0; 6]);
            }
        }
        raw::call(libc::SYS_rt_sigprocmask, [set, &raw const before as u64, 0, 8, 0, 0]);
        made
    };
    if made < 0 {
        return Err(-made as i32);
    }
    Ok(Pid(made as i32))
}

/// Forks a child with this number that executes a program with this standard input; the mask is as before in both. Of a process with one thread.
///
/// # Errors
/// As [`newborn`]. If the program cannot be executed, the child says so and ends with 127.
pub fn execute_as(pid: Pid, argv: &[CString], input: BorrowedFd<'_>) -> std::result::Result<(), i32> {
    let number = pid.0;
    let args = CloneArgs {
        exit_signal: libc::SIGCHLD as u64,
        set_tid: &raw const number as u64,
        set_tid_size: 1,
        ..CloneArgs::default()
    };
    // SAFETY: the arguments live through the call. The child has a copy of this memory and the only thread, which goes on behind the call.
    let made =
        unsafe { raw::call(libc::SYS_clone3, [&raw const args as u64, size_of::<CloneArgs>() as u64, 0, 0, 0, 0]) };
    match made {
        0 => {
            // SAFETY: numbers only.
            let taken = unsafe { libc::dup2(input.as_raw_fd(), 0) };
            let errno = if taken == 0 { crate::own::exec(argv) } else { libc::EBADF };
            let name = argv.first().map(|name| name.to_string_lossy()).unwrap_or_default();
            crate::own::complain(format!("execute {name}: {}", std::io::Error::from_raw_os_error(errno)));
            crate::ns::exit(127)
        }
        failed if failed < 0 => Err(-failed as i32),
        _ => Ok(()),
    }
}

/// Does nothing, for good: what a process is made from that was executed, not forked.
pub fn wait_for_tracer() -> ! {
    loop {
        // SAFETY: takes nothing and touches no memory; it returns when a signal was handled.
        unsafe { raw::call(libc::SYS_pause, [0; 6]) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ptrace::{self, Halt};
    use vocab::{Exit, Sig};

    #[test]
    fn a_newborn_has_the_number_it_was_given_and_waits() {
        let child = newborn(None).expect("a fork");
        ptrace::seize(child, false, true).expect("a child");
        ptrace::interrupt(child).expect("seized");
        assert_eq!(ptrace::wait(child), Ok(Halt::Trap));
        assert_eq!(newborn(Some(child)), Err(libc::EEXIST));
        let fd = crate::pidfd::open(child).expect("a child");
        crate::pidfd::kill(std::os::fd::AsFd::as_fd(&fd), Sig::KILL).expect("a child");
        let ended = loop {
            match ptrace::wait(child).expect("a child") {
                Halt::Exiting => ptrace::detach(child, None).unwrap_or(()),
                Halt::Ended(exit) => break exit,
                _ => {}
            }
        };
        assert_eq!(ended, Exit::Killed { sig: Sig::KILL, core: false });
        let again = newborn(Some(child)).expect("the number is free");
        assert_eq!(again, child);
        let fd = crate::pidfd::open(again).expect("a child");
        crate::pidfd::kill(std::os::fd::AsFd::as_fd(&fd), Sig::KILL).expect("a child");
        assert!(crate::wait::ended(again).is_ok());
    }
}
