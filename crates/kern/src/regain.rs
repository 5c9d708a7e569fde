//! What the kernel takes from a program that gets rights by its file (execve(2), secure-execution mode), and that can be had back.

use crate::own::{is_secure, limit, set_limit};
use crate::proc::root;
use vocab::{Pid, Result};

/// What the kernel lets a process have of a soft limit of the stack that gets rights by its file (linux: `begin_new_exec`, _STK_LIM).
const SECURE_STACK: u64 = 8 << 20;

/// In a process that has got rights by its file a higher soft limit of the stack has been lowered to 8 MiB, which the programs that we start are not to
/// feel. What it was is to be seen at the parent, if that is of the same user: what it has it gives to its children, unless it says otherwise.
///
/// # Errors
/// `Sys` when a limit cannot be read or set.
pub fn stack() -> Result<()> {
    let (_, soft, hard) = limit(libc::RLIMIT_STACK)?;
    if !is_secure() || soft != SECURE_STACK || hard == soft {
        return Ok(());
    }
    // SAFETY: both take nothing.
    let (parent, user) = unsafe { (Pid(libc::getppid()), libc::getuid()) };
    let proc = crate::proc::Proc::open(root())?;
    let is_ours = proc.status(parent).is_ok_and(|status| status.creds.uid.real == user);
    let theirs = proc.limits(parent).ok().filter(|_| is_ours);
    let before = theirs.and_then(|all| all.get(libc::RLIMIT_STACK as usize).map(|limit| limit.1));
    match before.map(|before| before.min(hard)).filter(|before| *before > soft) {
        Some(before) => set_limit(libc::RLIMIT_STACK, before, hard),
        None => Ok(()),
    }
}
