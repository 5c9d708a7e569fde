//! The requests of ptrace(2) for a thread that was seized, and what a stop of it means.
//!
//! Only the thread of the tracer that has seized may ask: anybody else gets ESRCH (linux: `ptrace_check_attach`).

use crate::{impatient, sys};
use vocab::{Exit, Pid, Sig};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Callers of these decide by the errno.
type Errno<T> = std::result::Result<T, i32>;

/// The general registers, in the kernel's order (`struct user_regs_struct`, sys/user.h).
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, FromBytes, IntoBytes, Immutable)]
pub struct Regs {
    pub r15: u64,
    pub r14: u64,
    pub r13: u64,
    pub r12: u64,
    pub rbp: u64,
    pub rbx: u64,
    pub r11: u64,
    pub r10: u64,
    pub r9: u64,
    pub r8: u64,
    pub rax: u64,
    pub rcx: u64,
    pub rdx: u64,
    pub rsi: u64,
    pub rdi: u64,
    /// The call in which the thread is, or -1.
    pub orig_rax: u64,
    pub rip: u64,
    pub cs: u64,
    pub eflags: u64,
    pub rsp: u64,
    pub ss: u64,
    pub fs_base: u64,
    pub gs_base: u64,
    pub ds: u64,
    pub es: u64,
    pub fs: u64,
    pub gs: u64,
}

/// The code segment of a 64-bit program (linux: `__USER_CS`).
pub const USER_CS: u64 = 0x33;

/// What wait(2) told of a traced thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Halt {
    /// It is about to take this signal, which is its tracer's now: it is lost unless it is given back.
    Signal(Sig),
    /// It stands still with its process, which this signal has stopped.
    Group(Sig),
    /// It was interrupted, or is a new thread of one that is traced.
    Trap,
    /// It is going to end; the value is its exit status as in wait(2).
    Exiting,
    /// Another event of ptrace(2), by its number.
    Event(i32),
    Ended(Exit),
}

/// PTRACE_EVENT_STOP: after PTRACE_INTERRUPT (with SIGTRAP), and of group-stops (with the signal).
pub(crate) const EVENT_STOP: i32 = 128;

impl Halt {
    /// From the status word of wait4(2); `None` for what no kernel makes.
    pub fn from_status(status: i32) -> Option<Halt> {
        if status & 0xff != 0x7f {
            return Exit::from_status(status).map(Halt::Ended);
        }
        let sig = Sig::new((status >> 8) as u8 & 0x7f)?;
        Some(match status >> 16 {
            0 => Halt::Signal(sig),
            EVENT_STOP if sig.stops() => Halt::Group(sig),
            EVENT_STOP => Halt::Trap,
            libc::PTRACE_EVENT_EXIT => Halt::Exiting,
            event => Halt::Event(event),
        })
    }
}

/// Becomes the tracer of thread `tid` without stopping it. Threads that it makes are traced too if `follow`;
/// it is killed when the tracer ends if `kill`.
///
/// # Errors
/// EPERM when somebody else traces it or it may not be traced, ESRCH when it is gone.
pub fn seize(tid: Pid, follow: bool, kill: bool) -> Errno<()> {
    request(libc::PTRACE_SEIZE, tid, 0, options(follow, kill) as u64)
}

/// As [`seize`] with neither, for at most so many microseconds (up to 999,999). One that executes a program keeps its process from being traced (linux: `ptrace_attach`,
/// cred_guard_mutex): until its file has come, which may be never, and the other threads have ended, which wait for their tracer to hear that. Uses SIGALRM.
///
/// # Errors
/// As [`seize`]; EINTR when it takes longer.
pub fn seize_within(tid: Pid, us: u64) -> Errno<()> {
    let args = [libc::PTRACE_SEIZE.into(), tid.0 as u64, 0, libc::PTRACE_O_TRACEEXIT as u64];
    // SAFETY: numbers.
    unsafe { impatient::call(libc::SYS_ptrace, args, us) }.map(drop)
}

/// From now on a thread that stands still is killed, and with it its process, when its tracer ends. With `follow` the threads that it makes are traced too.
pub fn die_with_tracer(tid: Pid, follow: bool) -> Errno<()> {
    request(libc::PTRACE_SETOPTIONS, tid, 0, options(follow, true) as u64)
}

fn options(follow: bool, kill: bool) -> i32 {
    let follow = if follow { libc::PTRACE_O_TRACECLONE } else { 0 };
    let kill = if kill { libc::PTRACE_O_EXITKILL } else { 0 };
    libc::PTRACE_O_TRACEEXIT | follow | kill
}

/// From now on a thread that stands still stops in front of a new program that it executes ([`EXECUTED`]); it is killed when its tracer ends.
pub fn stop_after_exec(tid: Pid) -> Errno<()> {
    let options = libc::PTRACE_O_TRACEEXIT | libc::PTRACE_O_EXITKILL | libc::PTRACE_O_TRACEEXEC;
    request(libc::PTRACE_SETOPTIONS, tid, 0, options as u64)
}

/// The event of [`stop_after_exec`].
pub const EXECUTED: Halt = Halt::Event(libc::PTRACE_EVENT_EXEC);

/// Stops a traced thread that runs.
pub fn interrupt(tid: Pid) -> Errno<()> {
    request(libc::PTRACE_INTERRUPT, tid, 0, 0)
}

/// Lets a stopped thread go on, with a signal delivered.
pub fn go_on(tid: Pid, sig: Option<Sig>) -> Errno<()> {
    request(libc::PTRACE_CONT, tid, 0, number(sig))
}

/// Lets a stopped thread execute one instruction; a system call counts as one, and may block.
pub fn step(tid: Pid) -> Errno<()> {
    request(libc::PTRACE_SINGLESTEP, tid, 0, 0)
}

/// Lets a stopped thread go on to where it enters or leaves a system call; it stops there with SIGTRAP.
pub fn to_call(tid: Pid) -> Errno<()> {
    request(libc::PTRACE_SYSCALL, tid, 0, 0)
}

/// Gives a stopped thread up, with a signal delivered. If its process is stopped, so is it.
pub fn detach(tid: Pid, sig: Option<Sig>) -> Errno<()> {
    request(libc::PTRACE_DETACH, tid, 0, number(sig))
}

/// From now on stops in front of and behind a call are told apart from all others ([`call`]), or no more. Every other option of the trace but to be told of ends is off then.
pub fn tell_calls(tid: Pid, on: bool) -> Errno<()> {
    let calls = if on { libc::PTRACE_O_TRACESYSGOOD } else { 0 };
    request(libc::PTRACE_SETOPTIONS, tid, 0, (libc::PTRACE_O_TRACEEXIT | calls) as u64)
}

/// Where in a system call a thread stands still, by the kernel's own word: nothing in the thread's memory or registers can make believe it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Call {
    /// In front of the call.
    Enters {
        number: u64,
        args: [u64; 6],
    },
    /// Behind it.
    Leaves {
        result: i64,
    },
    Elsewhere,
}

/// See [`tell_calls`].
pub fn call(tid: Pid) -> Errno<Call> {
    const GET_SYSCALL_INFO: u32 = 0x420e;
    // struct ptrace_syscall_info: the kind and three bytes, the architecture; instruction, stack; number and arguments, or the result.
    let mut info = [0u64; 11];
    request(GET_SYSCALL_INFO, tid, size_of_val(&info) as u64, info.as_mut_ptr() as u64)?;
    let [kind, _, _, first, args @ ..] = info;
    Ok(match kind & 0xff {
        1 => Call::Enters { number: first, args: [args[0], args[1], args[2], args[3], args[4], args[5]] },
        2 => Call::Leaves { result: first as i64 },
        _ => Call::Elsewhere,
    })
}

/// Does a stopped thread take its system calls itself (prctl(2), PR_SET_SYSCALL_USER_DISPATCH)? False on kernels that do not tell (before 6.4).
pub fn dispatches_calls(tid: Pid) -> Errno<bool> {
    const GET_SYSCALL_USER_DISPATCH: u32 = 0x4211;
    // struct ptrace_sud_config: whether it is on, and where.
    let mut config = [0u64; 4];
    let told = request(GET_SYSCALL_USER_DISPATCH, tid, size_of_val(&config) as u64, config.as_mut_ptr() as u64);
    match told {
        Err(libc::EIO | libc::EINVAL) => Ok(false),
        told => told.map(|()| config[0] != 0),
    }
}

fn number(sig: Option<Sig>) -> u64 {
    sig.map_or(0, |sig| sig.number().into())
}

/// Blocks until thread `tid`, which is traced, has stopped or ended.
///
/// # Errors
/// ECHILD when it is neither traced nor a child.
pub fn wait(tid: Pid) -> Errno<Halt> {
    let mut status = 0;
    loop {
        // SAFETY: the pointer is to a live int; a null rusage is allowed.
        match sys::check(unsafe { libc::waitpid(tid.0, &mut status, libc::__WALL) }.into()) {
            Err(libc::EINTR) => continue,
            Err(errno) => return Err(errno),
            Ok(_) => return Halt::from_status(status).ok_or(libc::EIO),
        }
    }
}

/// Blocks until something has become of a thread that the calling thread traces, or of a child of it: which one. It is still to be waited for.
///
/// # Errors
/// ECHILD when there is none.
pub fn anybody() -> Errno<Pid> {
    // SAFETY: all zeroes are a value of this structure.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let options = libc::WEXITED | libc::WSTOPPED | libc::WNOWAIT | libc::__WALL | libc::__WNOTHREAD;
    loop {
        // SAFETY: the pointer is to a live structure.
        match sys::check(unsafe { libc::waitid(libc::P_ALL, 0, &mut info, options) }.into()) {
            Err(libc::EINTR) => continue,
            Err(errno) => return Err(errno),
            // SAFETY: waitid has filled in what it tells of a child.
            Ok(_) => return Ok(Pid(unsafe { info.si_pid() })),
        }
    }
}

/// Does this traced thread stand still to tell that it ends (PTRACE_O_TRACEEXIT)? It tells it again.
pub fn tells_its_end(tid: Pid) -> bool {
    let how = libc::WSTOPPED | libc::WNOHANG | libc::WNOWAIT | libc::__WALL;
    // SAFETY: all zeroes are a siginfo_t, which the call may write.
    let (ret, info) = unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        (libc::waitid(libc::P_PID, tid.0 as libc::id_t, &mut info, how), info)
    };
    // SAFETY: what waitid(2) has written has these fields; and zeroes they are else.
    let (pid, status) = unsafe { (info.si_pid(), info.si_status()) };
    ret == 0 && pid == tid.0 && status >> 8 == libc::PTRACE_EVENT_EXIT
}

/// [`wait`] without blocking: `None` if it has not yet.
///
/// # Errors
/// As [`wait`].
pub fn look(tid: Pid) -> Errno<Option<Halt>> {
    let mut status = 0;
    loop {
        // SAFETY: as in `wait`.
        match sys::check(unsafe { libc::waitpid(tid.0, &mut status, libc::__WALL | libc::WNOHANG) }.into()) {
            Err(libc::EINTR) => continue,
            Err(errno) => return Err(errno),
            Ok(0) => return Ok(None),
            Ok(_) => return Halt::from_status(status).ok_or(libc::EIO).map(Some),
        }
    }
}

/// The next traced thread or child that has stopped or ended, if one has; does not block.
///
/// # Errors
/// ECHILD when there is none that could.
pub fn wait_any() -> Errno<Option<(Pid, Halt)>> {
    let mut status = 0;
    loop {
        // SAFETY: as in `wait`.
        match sys::check(unsafe { libc::waitpid(-1, &mut status, libc::__WALL | libc::WNOHANG) }.into()) {
            Err(libc::EINTR) => continue,
            Err(errno) => return Err(errno),
            Ok(0) => return Ok(None),
            Ok(tid) => return Ok(Some((Pid(tid as i32), Halt::from_status(status).ok_or(libc::EIO)?))),
        }
    }
}

pub fn regs(tid: Pid) -> Errno<Regs> {
    let mut regs = Regs::default();
    request(libc::PTRACE_GETREGS, tid, 0, &raw mut regs as u64)?;
    Ok(regs)
}

pub fn set_regs(tid: Pid, regs: &Regs) -> Errno<()> {
    request(libc::PTRACE_SETREGS, tid, 0, &raw const *regs as u64)
}

/// The extended state in the layout of XSAVE (NT_X86_XSTATE): x87, SSE, AVX and what else the processor has in use.
/// ENODEV on a machine without XSAVE.
pub fn xstate(tid: Pid) -> Errno<Vec<u8>> {
    let mut area = vec![0u8; MOST_XSTATE];
    let length = register_set(libc::PTRACE_GETREGSET, tid, &mut area)?;
    area.truncate(length);
    Ok(area)
}

/// # Errors
/// EINVAL for a state with features that this machine does not have, or of another size than it uses.
pub fn set_xstate(tid: Pid, area: &[u8]) -> Errno<()> {
    register_set(libc::PTRACE_SETREGSET, tid, &mut area.to_vec()).map(drop)
}

/// Larger than the state of any processor (AMX has 8 KiB of tiles, 11 KiB in all).
const MOST_XSTATE: usize = 32 * 1024;
const NT_X86_XSTATE: u64 = 0x202;

fn register_set(number: u32, tid: Pid, area: &mut [u8]) -> Errno<usize> {
    let mut piece = libc::iovec { iov_base: area.as_mut_ptr().cast(), iov_len: area.len() };
    request(number, tid, NT_X86_XSTATE, &raw mut piece as u64)?;
    Ok(piece.iov_len)
}

/// The signals that the thread blocks.
pub fn sigmask(tid: Pid) -> Errno<u64> {
    let mut mask = 0u64;
    request(PTRACE_GETSIGMASK, tid, size_of::<u64>() as u64, &raw mut mask as u64)?;
    Ok(mask)
}

/// Blocks these signals and no others (SIGKILL and SIGSTOP cannot be).
pub fn set_sigmask(tid: Pid, mask: u64) -> Errno<()> {
    request(PTRACE_SETSIGMASK, tid, size_of::<u64>() as u64, &raw const mask as u64)
}

const PTRACE_PEEKSIGINFO: u32 = 0x4209;
const PTRACE_GETSIGMASK: u32 = 0x420a;
const PTRACE_SETSIGMASK: u32 = 0x420b;
const PTRACE_GET_RSEQ_CONFIGURATION: u32 = 0x420f;

/// The siginfo of a queued signal, as the kernel has it.
pub type RawInfo = [u64; 16];

/// Which queue of signals.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Queue {
    /// Those for this thread.
    Thread,
    /// Those for the whole process.
    Process,
}

/// The signals that wait in a queue of the thread, in their order.
pub fn queued(tid: Pid, queue: Queue) -> Errno<Vec<RawInfo>> {
    /// `struct __ptrace_peeksiginfo_args`.
    #[repr(C)]
    struct Args {
        offset: u64,
        flags: u32,
        count: i32,
    }
    let mut infos: Vec<RawInfo> = Vec::new();
    loop {
        let mut some = [RawInfo::default(); 32];
        let flags = u32::from(queue == Queue::Process);
        let args = Args { offset: infos.len() as u64, flags, count: some.len() as i32 };
        // SAFETY: the arguments are live, and the array has room for as many infos as they say.
        let got = unsafe { libc::ptrace(PTRACE_PEEKSIGINFO, tid.0, &raw const args, &raw mut some) };
        match sys::check(got)? {
            0 => return Ok(infos),
            got => infos.extend_from_slice(&some[..got as usize]),
        }
    }
}

/// The signal in front of which the thread stands still ([`Halt::Signal`]).
///
/// # Errors
/// EINVAL for a thread that has stopped otherwise.
pub fn about_to_take(tid: Pid) -> Errno<RawInfo> {
    let mut info = RawInfo::default();
    // SAFETY: the kernel writes a siginfo, which is as long as the array.
    sys::check(unsafe { libc::ptrace(libc::PTRACE_GETSIGINFO, tid.0, 0, &raw mut info) })?;
    Ok(info)
}

/// Has an instruction of the thread caused this signal? (linux: `SYNCHRONOUS_MASK`, `dequeue_synchronous_signal`; a thread may queue itself one that looks the same)
pub fn is_caused(info: &RawInfo) -> bool {
    const CAUSED: [i32; 6] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGTRAP, libc::SIGFPE, libc::SIGSYS];
    // `si_signo` and `si_code` (siginfo, sigaction(2)).
    CAUSED.contains(&(info[0] as i32)) && info[1] as i32 > libc::SI_USER
}

/// Does a thread that stands still after [`interrupt`] have to take a signal next that an instruction of it has caused?
///
/// ODDITY(faults-while-traced): it stops with such a signal in its queue, since a stop comes before signals (linux: `get_signal`). Of two the older is taken first, though
/// it is blocked and only the other one is not (linux: `dequeue_synchronous_signal`). A blocked one that its tracer gives back is queued again (linux:
/// `ptrace_signal`). prog: tests/prog/odd_faults_while_traced.c
pub fn takes_a_fault(tid: Pid) -> Errno<bool> {
    let caused: Vec<RawInfo> = queued(tid, Queue::Thread)?.into_iter().filter(is_caused).collect();
    if caused.is_empty() {
        return Ok(false);
    }
    let mask = sigmask(tid)?;
    Ok(caused.iter().any(|info| mask >> (info[0] - 1) & 1 == 0))
}

/// What the thread has told the kernel of its restartable sequences (rseq(2)): address 0 when nothing.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Rseq {
    pub address: u64,
    pub size: u32,
    pub signature: u32,
    pub flags: u32,
    pub pad: u32,
}

/// EIO on a kernel without rseq.
pub fn rseq(tid: Pid) -> Errno<Rseq> {
    let mut rseq = Rseq::default();
    request(PTRACE_GET_RSEQ_CONFIGURATION, tid, size_of::<Rseq>() as u64, &raw mut rseq as u64)?;
    Ok(rseq)
}

/// The list of robust futexes of a thread: (address, length) (get_robust_list(2)).
pub fn robust_list(tid: Pid) -> Errno<(u64, u64)> {
    let (mut head, mut length) = (0u64, 0u64);
    // SAFETY: both pointers are to live variables.
    sys::check(unsafe { libc::syscall(libc::SYS_get_robust_list, tid.0, &raw mut head, &raw mut length) })?;
    Ok((head, length))
}

pub(crate) fn request(number: u32, tid: Pid, address: u64, data: u64) -> Errno<()> {
    // SAFETY: `address` and `data` are numbers, or the address of a live variable of the type that the request fills or reads;
    // those who call it pair them.
    sys::check(unsafe { libc::ptrace(number, tid.0, address, data) }).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_halt_is_told_apart() {
        let stopped = |sig: i32, event: i32| Halt::from_status(0x7f | sig << 8 | event << 16);
        assert_eq!(stopped(libc::SIGTRAP, 0), Sig::new(5).map(Halt::Signal));
        assert_eq!(stopped(libc::SIGSTOP, 0), Some(Halt::Signal(Sig::STOP)));
        assert_eq!(stopped(libc::SIGSTOP, EVENT_STOP), Some(Halt::Group(Sig::STOP)));
        assert_eq!(stopped(libc::SIGTRAP, EVENT_STOP), Some(Halt::Trap));
        assert_eq!(stopped(libc::SIGTRAP, libc::PTRACE_EVENT_EXIT), Some(Halt::Exiting));
        assert_eq!(stopped(libc::SIGTRAP, libc::PTRACE_EVENT_CLONE), Some(Halt::Event(libc::PTRACE_EVENT_CLONE)));
        assert_eq!(Halt::from_status(9), Some(Halt::Ended(Exit::Killed { sig: Sig::KILL, core: false })));
        assert_eq!(Halt::from_status(0x007f), None);
    }

    #[test]
    #[expect(clippy::zombie_processes, reason = "this module waits for it")]
    fn a_seized_thread_stops_shows_its_state_and_goes_on() {
        let child = std::process::Command::new("sleep").arg("60").spawn().expect("sleep(1)");
        let tid = Pid(child.id() as i32);
        seize(tid, false, true).expect("a child");
        interrupt(tid).expect("seized");
        assert_eq!(wait(tid), Ok(Halt::Trap));
        let before = regs(tid).expect("stopped");
        assert!(before.rip != 0 && before.rsp != 0);
        set_regs(tid, &Regs { rbx: 77, ..before }).expect("stopped");
        assert_eq!(regs(tid).expect("stopped"), Regs { rbx: 77, ..before });
        set_regs(tid, &before).expect("stopped");
        let area = xstate(tid).expect("stopped");
        assert!(area.len() >= 576);
        set_xstate(tid, &area).expect("its own");
        assert_eq!(sigmask(tid), Ok(0));
        set_sigmask(tid, !0).expect("stopped");
        crate::pidfd::open(tid)
            .and_then(|fd| crate::pidfd::kill(std::os::fd::AsFd::as_fd(&fd), Sig::USR1))
            .expect("mine");
        let queue = queued(tid, Queue::Process).expect("stopped");
        assert_eq!(queue.len(), 1);
        assert_eq!(queue[0][0] as i32, libc::SIGUSR1);
        assert_eq!(queued(tid, Queue::Thread), Ok(Vec::new()));
        set_sigmask(tid, 0).expect("stopped");
        go_on(tid, None).expect("stopped");
        assert_eq!(wait(tid), Ok(Halt::Signal(Sig::USR1)));
        go_on(tid, Some(Sig::USR1)).expect("stopped");
        assert_eq!(wait(tid), Ok(Halt::Exiting));
        detach(tid, None).expect("stopped");
        assert_eq!(wait(tid), Ok(Halt::Ended(Exit::Killed { sig: Sig::USR1, core: false })));
    }
}
