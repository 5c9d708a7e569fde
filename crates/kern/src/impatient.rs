//! A system call that is given up after a while, also one that the kernel would begin again after every signal (ERESTARTNOINTR), so that a
//! signal alone does not end it.

use crate::sys;
use std::arch::global_asm;
use std::cell::RefCell;

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

/// By which a thread is sent SIGALRM again and again.
struct Timer {
    id: libc::timer_t,
    /// A child of its process has a thread-local of the same content, and no timer (fork(2)).
    thread: libc::pid_t,
}

fn this_thread() -> libc::pid_t {
    // SAFETY: takes nothing.
    unsafe { libc::gettid() }
}

thread_local! {
    /// Made once: a process that is moved stands still while this is done for each of its threads.
    static TIMER: RefCell<Option<Timer>> = const { RefCell::new(None) };
}

impl Timer {
    /// # Errors
    /// EAGAIN.
    fn new() -> Result<Timer, i32> {
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
            event.sigev_notify_thread_id = this_thread();
            let mut id: libc::timer_t = std::mem::zeroed();
            sys::check(libc::timer_create(libc::CLOCK_MONOTONIC, &mut event, &mut id).into())?;
            Ok(Timer { id, thread: this_thread() })
        }
    }

    /// Every so many microseconds, since the first may come before what it is to end has begun; 0: not any more.
    fn set(&self, us: u64) -> Result<(), i32> {
        let every = libc::timespec { tv_sec: 0, tv_nsec: us as libc::c_long * 1000 };
        let times = libc::itimerspec { it_interval: every, it_value: every };
        // SAFETY: a timer of this thread's, and a live time.
        sys::check(unsafe { libc::timer_settime(self.id, 0, &times, std::ptr::null_mut()) }.into()).map(drop)
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        if self.thread == this_thread() {
            // SAFETY: a timer of this thread's.
            unsafe { libc::timer_delete(self.id) };
        }
    }
}

/// Does system call `number`, and gives it up after `us` microseconds (1 to 999,999). Uses SIGALRM, from the first call on.
///
/// # Errors
/// The call's errno; EINTR when it was given up, EAGAIN without a timer.
///
/// # Safety
/// As the call itself.
pub(crate) unsafe fn call(number: i64, [a, b, c, d]: [u64; 4], us: u64) -> Result<i64, i32> {
    TIMER.with_borrow_mut(|kept| {
        let timer = match kept.take().filter(|timer| timer.thread == this_thread()) {
            Some(timer) => kept.insert(timer),
            None => kept.insert(Timer::new()?),
        };
        timer.set(us)?;
        // SAFETY: the caller's.
        let ret = unsafe { shoal_impatient_call(number, a, b, c, d) };
        timer.set(0)?;
        match ret {
            0.. => Ok(ret),
            _ => Err(-ret as i32),
        }
    })
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
