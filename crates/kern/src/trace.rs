//! Looking at one thread when a system call of it returns (ptrace(2), PTRACE_SEIZE): what the call has put into memory can be changed
//! before the program sees it.
//!
//! A thread that waits in a seccomp notification can be seized and interrupted there: it goes on waiting until it is answered, and
//! stops when the call is over or is to be restarted.

use crate::impatient;
use crate::ptrace::{self, request, EVENT_STOP};
use crate::seccomp::{program, Call};
use vocab::Pid;

/// Where a traced thread has stopped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stop {
    /// Before a system call.
    Before,
    /// Behind this call. Without a result it was interrupted, and begins again when the thread goes on.
    Behind { call: Call, compat: bool, result: Option<i64> },
    /// For something else: a signal that is to be delivered, or (0) a stop of its whole process.
    Other { signal: i32 },
}

/// What PTRACE_O_TRACESYSGOOD adds to SIGTRAP for a stop at a system call.
const AT_CALL: i32 = 0x80;
const CALL_INFO_ENTRY: u8 = 1;
/// ERESTARTSYS, ERESTARTNOINTR, ERESTARTNOHAND, ERESTART_RESTARTBLOCK (linux: include/linux/errno.h).
const RESTARTS: [i64; 4] = [-512, -513, -514, -516];

/// Microseconds for which others may keep a process from being traced.
const PATIENCE_US: u64 = 5_000;

/// Traces thread `tid` from now on, and stops it as soon as it is not in a call any more, or can be interrupted in it.
///
/// The kernel waits for another thread that executes a program, until it has read that (linux: `ptrace_attach`, cred_guard_mutex), and whose file
/// system that is need not answer.
///
/// # Errors
/// EPERM when somebody else traces it, ESRCH when it is gone, EINTR when another thread of its process executes a program and is not done soon.
pub fn seize(tid: Pid) -> Result<(), i32> {
    let options = libc::PTRACE_O_TRACESYSGOOD | libc::PTRACE_O_TRACEEXEC;
    let args = [u64::from(libc::PTRACE_SEIZE), tid.0 as u64, 0, options as u64];
    // SAFETY: numbers.
    unsafe { impatient::call(libc::SYS_ptrace, args, PATIENCE_US) }?;
    ptrace::interrupt(tid)
}

/// What the status of wait4(2) means for a traced thread; `None` when it has ended.
pub fn stop(tid: Pid, status: i32) -> Option<Stop> {
    if status & 0xff != 0x7f {
        return None;
    }
    let (signal, event) = (status >> 8 & 0xff, status >> 16);
    let at_call = signal == libc::SIGTRAP | AT_CALL;
    let asked = event == EVENT_STOP && signal == libc::SIGTRAP;
    if !(at_call || asked) {
        return Some(Stop::Other { signal: if event == 0 { signal } else { 0 } });
    }
    if at_call && info(tid).is_ok_and(|(op, _)| op == CALL_INFO_ENTRY) {
        return Some(Stop::Before);
    }
    let compat = info(tid).is_ok_and(|(_, arch)| arch == program::ARCH_I386);
    let regs = ptrace::regs(tid).ok()?;
    let result = if compat { i64::from(regs.rax as i32) } else { regs.rax as i64 };
    let (arch, args) = match compat {
        true => (program::ARCH_I386, [regs.rbx, regs.rcx, regs.rdx, regs.rsi, regs.rdi, regs.rbp]),
        false => (program::ARCH_X86_64, [regs.rdi, regs.rsi, regs.rdx, regs.r10, regs.r8, regs.r9]),
    };
    let call = program::call(arch, regs.orig_rax as i32, &args);
    Some(Stop::Behind { call, compat, result: (!RESTARTS.contains(&result)).then_some(result) })
}

/// The number that a traced thread had when it executed the program in front of which it has stopped with this status; `None` for any other status. The
/// thread has its process's number now; the thread that had this number before is gone, and its tracer is not told.
pub fn executed(tid: Pid, status: i32) -> Option<Pid> {
    if status & 0xff != 0x7f || status >> 16 != libc::PTRACE_EVENT_EXEC {
        return None;
    }
    let mut former = 0u64;
    let asked = request(libc::PTRACE_GETEVENTMSG, tid, 0, &raw mut former as u64);
    Some(asked.map_or(tid, |()| Pid(former as i32)))
}

/// Does traced thread `tid` still stand where it stopped with this status?
///
/// ODDITY(exec-takes-number): a thread that executes a program gets the number of its process's first thread, which is dead by then, traced or not, and its
/// tracer is told nothing. A file of the memory that was opened before (/proc/TID/mem) is that of the old program: reads and writes give 0 when nobody
/// else has that. linux: `de_thread`, `mem_rw`. prog: tests/prog/odd_exec_takes_number.c
pub fn is_still(tid: Pid, status: i32) -> bool {
    let mut info = [0i32; 32];
    // Of a siginfo the third word is si_code: of a stop for its tracer the kernel puts there what wait(2) tells of it.
    const CODE: usize = 2;
    let asked = request(libc::PTRACE_GETSIGINFO, tid, 0, &raw mut info as u64);
    asked.is_ok() && info[CODE] == status >> 8
}

/// The kind of a stop at a call, and the architecture of the thread (struct ptrace_syscall_info).
fn info(tid: Pid) -> Result<(u8, u32), i32> {
    let mut info = [0u64; 11];
    request(libc::PTRACE_GET_SYSCALL_INFO, tid, size_of_val(&info) as u64, &raw mut info as u64)?;
    Ok((info[0] as u8, (info[0] >> 32) as u32))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seccomp::{install, Passes, Program, Reads};
    use std::os::fd::AsFd;
    use vocab::Sig;

    /// A thread asks for its usage and waits for a child behind a gate; all of what it is given is ten seconds more.
    #[test]
    fn what_a_call_has_filled_in_can_be_changed_before_it_is_seen() {
        crate::testing::in_namespace(|_| {
            // SAFETY: the child makes a few calls and never returns into the test.
            let child = unsafe { libc::fork() };
            if child == 0 {
                asks_behind_a_gate();
            }
            let tid = Pid(child);
            let fd = loop {
                let pidfd = crate::pidfd::open(tid).expect("my child");
                match crate::pidfd::getfd(pidfd.as_fd(), 100) {
                    Ok(fd) => break fd,
                    Err(_) => std::thread::yield_now(),
                }
            };
            let gate = crate::seccomp::Listener::from_fd(fd);
            let mut traced = false;
            let exit = loop {
                if let Ok(Some(notice)) = gate.receive() {
                    if !traced {
                        seize(tid).expect("root may");
                        traced = true;
                    }
                    notice.held.proceed();
                }
                let Ok(Some(waited)) = crate::wait::try_one(tid) else {
                    std::thread::yield_now();
                    continue;
                };
                match stop(tid, waited.status) {
                    None => break waited.change,
                    Some(Stop::Behind { call: Call::Reads { at, .. }, result: Some(_), compat: false }) => {
                        let memory = std::fs::OpenOptions::new().write(true).open(format!("/proc/{tid}/mem"));
                        let ten = 10i64.to_ne_bytes();
                        std::os::unix::fs::FileExt::write_all_at(&memory.expect("root may"), &ten, at)
                            .expect("a place");
                        traced = false;
                        ptrace::detach(tid, None).expect("stopped");
                    }
                    Some(Stop::Other { signal }) => {
                        traced = false;
                        ptrace::detach(tid, Sig::new(signal as u8)).expect("stopped");
                    }
                    Some(_) => ptrace::to_call(tid).expect("stopped"),
                }
            };
            assert_eq!(exit, crate::wait::Change::Ended(vocab::Exit::Code(0)));
        });
    }

    /// A thread that is not the first of its process, and a program that ends at once.
    const EXECUTES: &str = "import os, sys, threading
def executes():
    print(threading.get_native_id(), flush=True); os.read(0, 1); os.execv('/bin/true', ['true'])
threading.Thread(target=executes).start()";

    #[test]
    fn who_executes_is_told_with_its_former_number_and_stands_elsewhere() {
        use std::io::{BufRead, BufReader, Write};
        use std::process::{Command, Stdio};
        let mut python = Command::new("python3");
        python.args(["-S", "-c", EXECUTES]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = python.spawn().expect("python3");
        let (pid, mut line) = (Pid(child.id() as i32), String::new());
        BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("it runs");
        let tid = Pid(line.trim().parse().expect("a number"));
        let next = |whom: Pid| loop {
            match crate::wait::try_one(whom) {
                Ok(Some(waited)) => break waited.status,
                _ => std::thread::yield_now(),
            }
        };
        seize(tid).expect("a child's");
        let stopped = next(tid);
        assert!(is_still(tid, stopped) && executed(tid, stopped).is_none());
        ptrace::go_on(tid, None).expect("it stands still");
        child.stdin.take().expect("piped").write_all(b"x").expect("it reads");
        let status = next(pid);
        assert_eq!(executed(pid, status), Some(tid));
        assert!(!is_still(pid, stopped) && !is_still(tid, stopped));
        ptrace::detach(pid, None).expect("it stands still");
        assert!(child.wait().expect("a child").success());
    }

    fn asks_behind_a_gate() -> ! {
        let gate = install(&Program::new(&Passes::default())).expect("root may");
        // SAFETY: calls with live results, forks whose children end at once, and a handler that does nothing.
        unsafe {
            let nothing = {
                extern "C" fn nothing(_: i32) {}
                nothing as extern "C" fn(i32) as usize
            };
            libc::dup2(std::os::fd::AsRawFd::as_raw_fd(&gate.fd()), 100);
            libc::signal(libc::SIGUSR1, nothing);
            let mut usage: libc::rusage = std::mem::zeroed();
            let mut status = 0;
            let mut right = libc::getrusage(libc::RUSAGE_CHILDREN, &mut usage) == 0 && usage.ru_utime.tv_sec == 10;
            for interrupted in [false, true] {
                usage.ru_utime.tv_sec = 0;
                let child = libc::fork();
                if child == 0 {
                    libc::usleep(20_000);
                    if interrupted {
                        libc::kill(libc::getppid(), libc::SIGUSR1);
                        libc::usleep(20_000);
                    }
                    libc::_exit(3);
                }
                right &= libc::wait4(child, &mut status, 0, &mut usage) == child && status == 3 << 8;
                right &= usage.ru_utime.tv_sec == 10;
            }
            libc::_exit(i32::from(!right));
        }
    }

    #[test]
    fn calls_that_read_usage_are_told_with_their_places() {
        let call = |number: i64, args| program::call(program::ARCH_X86_64, number as i32, &args);
        let children = libc::RUSAGE_CHILDREN as u32 as u64;
        let reads = |of, at| Call::Reads { of, at };
        assert_eq!(call(libc::SYS_wait4, [1, 2, 3, 4, 5, 6]), reads(Reads::Wait4, 4));
        assert_eq!(call(libc::SYS_waitid, [1, 2, 3, 4, 5, 6]), reads(Reads::Waitid { info: 3 }, 5));
        assert_eq!(call(libc::SYS_getrusage, [children, 2, 0, 0, 0, 0]), reads(Reads::Children, 2));
        assert_eq!(call(libc::SYS_times, [1, 2, 3, 4, 5, 6]), reads(Reads::Times, 1));
        assert_eq!(call(libc::SYS_getrusage, [0; 6]), Call::Other { number: libc::SYS_getrusage as i32 });
    }
}
