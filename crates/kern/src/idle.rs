//! Threads that do nothing but have a number, so that nobody else on this machine gets it as long as this process is there.

use crate::standin::raw::{self, CloneArgs};
use vocab::Pid;

/// The errno of a number that is in use.
pub use libc::EEXIST as IN_USE;

/// Bytes of a stack: the thread calls one function, which makes one system call.
const STACK: usize = 4096;

/// Makes a thread with this number (clone3(2), set_tid; wants CAP_CHECKPOINT_RESTORE over the PID namespace). It takes no signals, and ends with the process, or
/// when that executes another program. libc does not know of it.
///
/// # Errors
/// EEXIST when the number is in use, EPERM without the capability, EAGAIN.
pub fn idle(number: Pid) -> Result<(), i32> {
    const FLAGS: i32 = libc::CLONE_VM
        | libc::CLONE_FS
        | libc::CLONE_FILES
        | libc::CLONE_SIGHAND
        | libc::CLONE_THREAD
        | libc::CLONE_SYSVSEM;
    // Its own for as long as the process has its memory.
    let stack = Box::leak(Box::new([0u8; STACK])).as_mut_ptr();
    let bottom = (stack as u64).next_multiple_of(16);
    let args = CloneArgs {
        flags: FLAGS as u64,
        stack: bottom,
        stack_size: (STACK as u64 - 16) & !15,
        set_tid: &raw const number.0 as u64,
        set_tid_size: 1,
        ..CloneArgs::default()
    };
    let (all, mut before, set) = (!0u64, 0u64, libc::SIG_SETMASK as u64);
    // SAFETY: the masks and the arguments live through the calls, the stack for good and for this thread alone; `waits` is code that needs no thread-local storage.
    let made = unsafe {
        raw::call(libc::SYS_rt_sigprocmask, [set, &raw const all as u64, &raw mut before as u64, 8, 0, 0]);
        let made = raw::clone(&args, waits, 0);
        raw::call(libc::SYS_rt_sigprocmask, [set, &raw const before as u64, 0, 8, 0, 0]);
        made
    };
    match made {
        failed if failed < 0 => {
            // SAFETY: what was leaked above, and nobody has got it.
            drop(unsafe { Box::from_raw(stack.cast::<[u8; STACK]>()) });
            Err(-failed as i32)
        }
        _ => Ok(()),
    }
}

extern "C" fn waits(_: u64) -> ! {
    loop {
        // SAFETY: takes nothing and touches no memory.
        unsafe { raw::call(libc::SYS_pause, [0; 6]) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proc::{exists, thread_of};

    fn own_tid() -> i32 {
        // SAFETY: takes nothing.
        unsafe { libc::gettid() }
    }

    #[test]
    fn a_number_is_had_once() {
        // One that was free just now: others may take it meanwhile, and then another one is.
        let taken = (0..100).find_map(|_| {
            let number = Pid(std::thread::spawn(own_tid).join().ok()?);
            idle(number).ok().map(|()| number)
        });
        let number = taken.expect("a free number");
        let own = Pid(std::process::id() as i32);
        assert!(exists(number) && thread_of(own, number) && !thread_of(Pid::INIT, number));
        assert_eq!(idle(number), Err(IN_USE));
    }
}
