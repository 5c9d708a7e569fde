//! Sending a signal in the name of a process that is not on this machine, so that the receiver's siginfo has the right
//! sender (sigaction(2), `si_pid` and `si_uid`).
//!
//! The kernel takes the sender of a kill from who calls, for everybody. So a short-lived child takes the sender's number
//! (clone3(2), set_tid) and real user id, calls, and is gone: about 40 us.

use crate::sched::with_children_as_first;
use crate::standin::raw::{self, CloneArgs};
use vocab::{Pid, Sig};

/// What the child is told; it shares our memory while we wait for it.
#[repr(C)]
struct Order {
    uid: u64,
    pid: u64,
    /// 0: to the whole process.
    tid: u64,
    sig: u64,
    ret: i64,
}

const STACK: usize = 16 * 1024;

/// Sends `sig` to process `pid`, or to its thread `tid`, as kill(2) or tgkill(2) of process `sender` with real user id `uid` would.
///
/// The child keeps the caller's rights: whoever calls has checked permission. Blocks until it is done.
///
/// # Errors
/// The errno: EEXIST when the sender's number is in use on this machine, ESRCH when there is no such target; EPERM without CAP_CHECKPOINT_RESTORE.
pub fn send_as(sender: Pid, uid: u32, pid: Pid, tid: Option<Pid>, sig: Sig) -> Result<(), i32> {
    let mut order = Order {
        uid: uid.into(),
        pid: pid.0 as u64,
        tid: tid.map_or(0, |tid| tid.0 as u64),
        sig: sig.number().into(),
        ret: 0,
    };
    let mut stack = vec![0u128; STACK / 16];
    let number = sender.0;
    let args = CloneArgs {
        flags: libc::CLONE_VM as u64 | libc::CLONE_VFORK as u64 | libc::CLONE_FILES as u64 | libc::CLONE_FS as u64,
        // No SIGCHLD: the caller's loop must not wait for it.
        exit_signal: 0,
        stack: stack.as_mut_ptr() as u64,
        stack_size: STACK as u64,
        set_tid: (&raw const number) as u64,
        set_tid_size: 1,
        ..CloneArgs::default()
    };
    let mask = !0u64;
    let mut before = 0u64;
    let how = libc::SIG_SETMASK as u64;
    // SAFETY: live words for the masks and a live number; the child runs `child` on a stack that nothing else uses, and this
    // thread is suspended until it has exited (CLONE_VFORK), so `order` is the child's alone meanwhile. No signal handler can run on
    // that stack, since all signals are blocked.
    let made = unsafe {
        raw::call(libc::SYS_rt_sigprocmask, [how, (&raw const mask) as u64, (&raw mut before) as u64, 8, 0, 0]);
        let made = with_children_as_first(|| raw::clone(&args, child, (&raw mut order) as u64));
        raw::call(libc::SYS_rt_sigprocmask, [how, (&raw const before) as u64, 0, 8, 0, 0]);
        made
    };
    if made < 0 {
        return Err(-made as i32);
    }
    // SAFETY: waits for the child made above, which has exited or is about to; no status is asked for.
    let waited = unsafe { raw::call(libc::SYS_wait4, [made as u64, 0, libc::__WALL as u64, 0, 0, 0]) };
    debug_assert_eq!(waited, made);
    // SAFETY: written by the child, which is gone.
    match unsafe { (&raw const order.ret).read_volatile() } {
        0 => Ok(()),
        ret => Err(-ret as i32),
    }
}

extern "C" fn child(order: u64) -> ! {
    let order = order as *mut Order;
    // SAFETY: the order is this child's alone until it exits; the calls take numbers.
    unsafe {
        let keep = u64::from(u32::MAX);
        let (uid, pid, tid, sig) = ((*order).uid, (*order).pid, (*order).tid, (*order).sig);
        let mut ret = raw::call(libc::SYS_setresuid, [uid, keep, keep, 0, 0, 0]);
        if ret == 0 {
            ret = match tid {
                0 => raw::call(libc::SYS_kill, [pid, sig, 0, 0, 0, 0]),
                tid => raw::call(libc::SYS_tgkill, [pid, tid, sig, 0, 0, 0]),
            };
        }
        (&raw mut (*order).ret).write_volatile(ret);
        loop {
            raw::call(libc::SYS_exit, [0; 6]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::in_namespace;
    use std::io::Read;
    use std::process::{Command, Stdio};

    #[test]
    fn the_receiver_sees_the_sender_that_was_meant() {
        in_namespace(|proc| {
            crate::proc::set_pid_max(proc, 4_194_304).expect("root");
            let script = "import signal as s\ns.pthread_sigmask(s.SIG_BLOCK,{10,12})\nprint('r',flush=True)\n\
                          for i in (1,2):\n i=s.sigwaitinfo({10,12});print(i.si_signo,i.si_code,i.si_pid,i.si_uid,flush=True)";
            let command = Command::new("python3").args(["-c", script]).stdout(Stdio::piped()).spawn();
            let Ok(mut python) = command else { return };
            let mut out = python.stdout.take().expect("piped");
            out.read_exact(&mut [0; 2]).expect("it says that it is ready");
            let target = Pid(python.id() as i32);
            send_as(Pid(3_000_000), 1234, target, None, Sig::USR1).expect("the number is free");
            send_as(Pid(3_000_000), 0, target, Some(target), Sig::USR2).expect("the number is free again");
            let mut text = String::new();
            out.read_to_string(&mut text).expect("its lines");
            let mut lines: Vec<&str> = text.lines().collect();
            lines.sort_unstable();
            // libc makes SI_USER of SI_TKILL there.
            assert_eq!(lines, ["10 0 3000000 1234", "12 0 3000000 0"]);
            python.wait().expect("my child");
            assert_eq!(send_as(Pid(3_000_000), 0, target, None, Sig::USR1), Err(libc::ESRCH));
            assert_eq!(send_as(Pid(1), 0, target, None, Sig::USR1), Err(libc::EEXIST));
        });
    }
}
