//! A system call that is given up after a while, also one that the kernel would begin again after every signal (ERESTARTNOINTR), so that a
//! signal alone does not end it.

use crate::sys;
use std::arch::global_asm;

// The call of its first argument's number, with the next four as its own. `shoal_impatient_at` is where it is begun again.
global_asm!(
    ".globl shoal_impatient_call",
    ".globl shoal_impatient_at",
    "shoal_impatient_call:",
    "mov rax, rdi",
    "mov rdi, rsi",
    "mov rsi, rdx",
    "mov rdx, rcx",
    "mov r10, r8",
    "shoal_impatient_at:",
    "syscall",
    "ret",
);

extern "C" {
    fn shoal_impatient_call(number: i64, a: u64, b: u64, c: u64, d: u64) -> i64;
    fn shoal_impatient_at();
}

/// Bytes of the instruction `syscall`.
const LENGTH: i64 = 2;

/// Before a handler runs the kernel has put the instruction pointer back to the call: here it goes on behind it, with EINTR.
extern "C" fn over(_: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel gives a handler with SA_SIGINFO a live ucontext (sigaction(2)).
    let registers = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
    let at: unsafe extern "C" fn() = shoal_impatient_at;
    if registers[libc::REG_RIP as usize] == at as usize as i64 {
        registers[libc::REG_RIP as usize] += LENGTH;
        registers[libc::REG_RAX as usize] = -i64::from(libc::EINTR);
    }
}

/// Does system call `number`, and gives it up after `us` microseconds (1 to 999,999). Uses SIGALRM.
///
/// # Errors
/// The call's errno; EINTR when it was given up, EAGAIN without a timer.
///
/// # Safety
/// As the call itself.
pub(crate) unsafe fn call(number: i64, [a, b, c, d]: [u64; 4], us: u64) -> Result<i64, i32> {
    // SAFETY: zero is a value of all of these; every pointer below is to one of them, which live to the end.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        let handler: extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void) = over;
        action.sa_sigaction = handler as usize;
        action.sa_flags = libc::SA_SIGINFO;
        libc::sigaction(libc::SIGALRM, &action, std::ptr::null_mut());
        let mut alarm: libc::sigset_t = std::mem::zeroed();
        libc::sigaddset(&mut alarm, libc::SIGALRM);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &alarm, std::ptr::null_mut());
        let mut event: libc::sigevent = std::mem::zeroed();
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_signo = libc::SIGALRM;
        event.sigev_notify_thread_id = libc::gettid();
        let mut timer: libc::timer_t = std::mem::zeroed();
        sys::check(libc::timer_create(libc::CLOCK_MONOTONIC, &mut event, &mut timer).into())?;
        // Again and again: the first may come before the call has begun.
        let every = libc::timespec { tv_sec: 0, tv_nsec: us as libc::c_long * 1000 };
        let times = libc::itimerspec { it_interval: every, it_value: every };
        libc::timer_settime(timer, 0, &times, std::ptr::null_mut());
        let ret = shoal_impatient_call(number, a, b, c, d);
        libc::timer_delete(timer);
        match ret {
            0.. => Ok(ret),
            _ => Err(-ret as i32),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    #[test]
    fn a_call_that_waits_is_given_up_and_others_are_done() {
        let (from, to) = sys::pipe().expect("pipe");
        let mut byte = [0u8; 1];
        // SAFETY: a live buffer of one byte.
        let mut read =
            || unsafe { call(libc::SYS_read, [from.as_raw_fd() as u64, byte.as_mut_ptr() as u64, 1, 0], 20_000) };
        assert_eq!(read(), Err(libc::EINTR));
        sys::write(std::os::fd::AsFd::as_fd(&to), b"x").expect("room");
        assert_eq!(read(), Ok(1));
    }
}
