//! Signal masks and dispositions of the own process, as kernel sets: bit `n - 1` is signal `n`.
//!
//! All by raw calls: the C library keeps 32 and 33 for itself and hides them from its own functions.

use crate::sys::{check, checked};
use std::sync::atomic::{AtomicBool, Ordering};
use vocab::{Pid, Result, Sig, SigSet};

/// Bytes of a kernel signal set.
const SET: usize = 8;

/// Highest signal number.
const LAST: u8 = 64;

/// Was SIGPIPE ignored when this program was exec'd? Rust's runtime ignores it before main, so it is noted before that.
static PIPE_IGNORED: AtomicBool = AtomicBool::new(false);

#[used]
#[link_section = ".init_array"]
static NOTE_SIGPIPE: extern "C" fn() = note_sigpipe;

extern "C" fn note_sigpipe() {
    PIPE_IGNORED.store(disposition_is_ignore(Sig::PIPE.number()), Ordering::Relaxed);
}

/// The kernel's struct sigaction (not the C library's).
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Action {
    handler: usize,
    flags: u64,
    restorer: usize,
    mask: u64,
}

fn action_of(sig: u8) -> Option<Action> {
    let mut action = Action::default();
    // SAFETY: `action` has the kernel's layout and lives through the call; nothing is set.
    let ret = unsafe { libc::syscall(libc::SYS_rt_sigaction, i32::from(sig), 0usize, &mut action, SET) };
    check(ret).ok().map(|_| action)
}

fn disposition_is_ignore(sig: u8) -> bool {
    action_of(sig).is_some_and(|a| a.handler == libc::SIG_IGN)
}

/// The signals that whoever started us had ignored: what a program we start must ignore too (execve(2)).
pub fn inherited_ignored() -> SigSet {
    let others = (1..=LAST).filter(|&s| s != Sig::PIPE.number() && disposition_is_ignore(s));
    let mut set = others.fold(0, |set, s| set | 1u64 << (s - 1));
    if PIPE_IGNORED.load(Ordering::Relaxed) {
        set |= Sig::PIPE.bit();
    }
    SigSet(set)
}

fn change_mask(how: i32, set: SigSet) -> Result<SigSet> {
    let mut old = 0u64;
    // SAFETY: both sets are 8 bytes that live through the call, and the call is told so.
    let ret = unsafe { libc::syscall(libc::SYS_rt_sigprocmask, how, &set.0, &mut old, SET) };
    checked(ret, || "change the signal mask".into()).map(|_| SigSet(old))
}

/// The signals blocked in the calling thread.
pub fn blocked() -> Result<SigSet> {
    change_mask(libc::SIG_BLOCK, SigSet(0))
}

/// Blocks every signal in the calling thread, and so in the threads it will make; the mask before it is returned.
pub fn block_all() -> Result<SigSet> {
    change_mask(libc::SIG_SETMASK, SigSet(u64::MAX))
}

/// Blocks these in the calling thread, and so in the threads it will make.
pub fn block(set: SigSet) -> Result<()> {
    change_mask(libc::SIG_BLOCK, set).map(drop)
}

/// Lets these through to the calling thread.
pub fn unblock(set: SigSet) -> Result<()> {
    change_mask(libc::SIG_UNBLOCK, set).map(drop)
}

/// Sets the calling thread's mask.
pub fn set_mask(set: SigSet) -> Result<()> {
    change_mask(libc::SIG_SETMASK, set).map(drop)
}

/// Gives a signal its default action.
pub fn set_default(sig: Sig) -> Result<()> {
    let action = Action::default();
    // SAFETY: `action` has the kernel's layout and is only read; SIG_DFL needs no restorer.
    let ret = unsafe { libc::syscall(libc::SYS_rt_sigaction, i32::from(sig.number()), &action, 0usize, SET) };
    checked(ret, || format!("set {sig} to its default")).map(drop)
}

/// kill(2) to the one process `pid`.
///
/// # Errors
/// The errno: ESRCH for no such process, or for a number that means several.
pub fn send(pid: Pid, sig: Sig) -> std::result::Result<(), i32> {
    if pid.0 <= 0 {
        return Err(libc::ESRCH);
    }
    // SAFETY: takes two numbers.
    check(unsafe { libc::kill(pid.0, i32::from(sig.number())) }.into()).map(drop)
}

/// Is this number a thread's of process `pid`? (tgkill(2) with no signal; of another user's that is not told.)
pub fn is_thread(pid: Pid, tid: Pid) -> bool {
    // SAFETY: takes numbers.
    check(unsafe { libc::syscall(libc::SYS_tgkill, pid.0, tid.0, 0) }).is_ok()
}

/// tkill(2), to a thread that the caller traces and that stands still: its number is nobody else's.
///
/// # Errors
/// ESRCH when it was killed.
pub fn send_to_traced(tid: Pid, sig: Sig) -> std::result::Result<(), i32> {
    // SAFETY: numbers.
    check(unsafe { libc::syscall(libc::SYS_tkill, tid.0, i32::from(sig.number())) }).map(drop)
}

/// tgkill(2) to the main thread of process `pid`, which takes it even if `sig` is pending for the process already.
///
/// # Errors
/// As [`send`].
pub fn send_to_main_thread(pid: Pid, sig: Sig) -> std::result::Result<(), i32> {
    if pid.0 <= 0 {
        return Err(libc::ESRCH);
    }
    // SAFETY: takes three numbers.
    check(unsafe { libc::syscall(libc::SYS_tgkill, pid.0, pid.0, i32::from(sig.number())) }).map(drop)
}

/// Does to the own process what `sig` does by default: stops it, or ends it without a core.
///
/// Returns when the process was continued, or at once where the kernel ignores the signal (a terminal's stop
/// signals in an orphaned group). The mask and the disposition are as before then.
pub fn suffer(sig: Sig) -> Result<()> {
    let before = action_of(sig.number()).unwrap_or_default();
    let mask = block_all()?;
    if !sig.stops() {
        no_core();
    }
    if sig != Sig::KILL && sig != Sig::STOP {
        set_default(sig)?;
    }
    // SAFETY: numbers only; the thread signals itself.
    let ret = unsafe {
        libc::syscall(libc::SYS_tgkill, libc::getpid(), libc::syscall(libc::SYS_gettid), i32::from(sig.number()))
    };
    checked(ret, || format!("raise {sig}"))?;
    unblock(SigSet(sig.bit()))?;
    block_all()?;
    // SAFETY: `before` is what the kernel gave for this signal; on failure the default stays, which is harmless.
    unsafe { libc::syscall(libc::SYS_rt_sigaction, i32::from(sig.number()), &before, 0usize, SET) };
    set_mask(mask)
}

/// The end of a stand-in leaves no core: whatever dumped one, it was not this process.
fn no_core() {
    let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `none` lives through the call; PR_SET_DUMPABLE takes a number.
    unsafe {
        libc::setrlimit(libc::RLIMIT_CORE, &none);
        libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0);
    }
}

/// A descriptor from which the signals of `mask` are read that wait for the reader (signalfd(2)), close-on-exec.
pub fn descriptor(mask: u64, nonblocking: bool) -> Result<std::os::fd::OwnedFd> {
    let flags = libc::SFD_CLOEXEC | if nonblocking { libc::SFD_NONBLOCK } else { 0 };
    let size = size_of::<u64>();
    // SAFETY: the mask is live and of the size that is given; -1: a new descriptor.
    let fd = unsafe { libc::syscall(libc::SYS_signalfd4, -1, &raw const mask, size, flags) };
    crate::sys::own(fd, || "make a signalfd".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mask_is_the_threads_own() {
        let before = blocked().expect("the mask can be read");
        std::thread::spawn(|| {
            block_all().expect("the mask can be set");
            let now = blocked().expect("the mask can be read");
            assert!(now.has(Sig::TERM) && now.has(Sig::TTIN) && !now.has(Sig::KILL));
            unblock(SigSet(Sig::TTIN.bit())).expect("the mask can be set");
            assert!(!blocked().expect("the mask can be read").has(Sig::TTIN));
        })
        .join()
        .expect("no panic");
        assert_eq!(blocked().expect("the mask can be read"), before);
    }

    #[test]
    fn sigpipe_is_told_as_it_was_before_the_runtime() {
        assert!(disposition_is_ignore(Sig::PIPE.number()), "Rust's runtime ignores it");
        let at_exec = std::process::Command::new("sh").args(["-c", "true"]).status();
        assert!(at_exec.is_ok());
        assert_eq!(inherited_ignored().has(Sig::PIPE), PIPE_IGNORED.load(Ordering::Relaxed));
    }
}
