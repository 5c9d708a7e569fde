//! What a stand-in does when told: one function for each command that is more than one call.

use super::raw::{self, CloneArgs};
use super::taking::{block, disposition, on_signal, top};
use super::{caps, dump, home, setup, Op, Slot};
use crate::relay::{Relay, ENDING};
use vocab::Sig;

const ENOSYS: i64 = -38;
const EAGAIN: i64 = -11;
const ALL: u64 = !0;

/// The loop in which a stand-in lives, given its slot.
type Life = extern "C" fn(u64) -> !;

/// Does the command in the slot's hold and leaves the result there. A child that it makes lives in `life`.
///
/// # Safety
/// Only from the loop of the stand-in whose slot it is.
pub(super) unsafe fn act(slot: *mut Slot, life: Life) {
    // SAFETY: the slot is the caller's own; the daemon's arguments are numbers, or addresses that it made for this purpose.
    unsafe {
        let hold = &raw mut (*slot).hold;
        let arg = (*hold).arg;
        let a: [u64; 6] = arg.map(|n| n as u64);
        let simple = |number: i64, args: [u64; 6]| raw::call(number, args);
        let op = (*hold).op;
        let ret = match op {
            n if n == Op::Clone as u32 => clone(slot, a, life),
            n if n == Op::Exit as u32 => exit(slot, a[0]),
            n if n == Op::Die as u32 => die(slot, a[0], a[1] != 0),
            n if n == Op::Stop as u32 => stop(slot, a[0]),
            n if n == Op::Setsid as u32 => simple(libc::SYS_setsid, [0; 6]),
            n if n == Op::Setpgid as u32 => simple(libc::SYS_setpgid, a),
            n if n == Op::Ids as u32 => ids(a),
            n if n == Op::Name as u32 => {
                simple(libc::SYS_prctl, [libc::PR_SET_NAME as u64, (&raw const (*hold).name) as u64, 0, 0, 0, 0])
            }
            n if n == Op::Wait as u32 => wait(slot, a),
            n if n == Op::Kill as u32 => simple(libc::SYS_kill, a),
            n if n == Op::Queue as u32 => queue(a),
            n if n == Op::Tgkill as u32 => simple(libc::SYS_tgkill, a),
            n if n == Op::Capabilities as u32 => capabilities(a[0]),
            n if n == Op::Spawn as u32 => {
                let ret = setup::spawn(a[0] as *mut setup::Setup);
                (*hold).out[0] = (&raw const (*(a[0] as *const setup::Setup)).stage).read_volatile() as i64;
                ret
            }
            n if n == Op::Map as u32 => {
                let access = (libc::PROT_READ | libc::PROT_WRITE) as u64;
                let kind = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64;
                simple(libc::SYS_mmap, [0, a[0], access, kind, u64::MAX, 0])
            }
            n if n == Op::Fill as u32 => fill(a[0], a[1]),
            n if n == Op::Unmap as u32 => simple(libc::SYS_munmap, [a[0], a[1], 0, 0, 0, 0]),
            n if n == Op::Exec as u32 => match (&raw const (*slot).taken).read_volatile() {
                0 => setup::become_program(a[0] as *mut setup::Setup),
                _ => EAGAIN,
            },
            n if n == Op::Children as u32 => {
                (&raw mut (*slot).children).write_volatile(a[0] as u32);
                disposition(libc::SIGCHLD as u64, on_signal as *const () as u64)
            }
            n if n == Op::Subreaper as u32 => {
                simple(libc::SYS_prctl, [libc::PR_SET_CHILD_SUBREAPER as u64, a[0], 0, 0, 0, 0])
            }
            n if n == Op::DeathSignal as u32 => {
                simple(libc::SYS_prctl, [libc::PR_SET_PDEATHSIG as u64, a[0], 0, 0, 0, 0])
            }
            n if n == Op::Groups as u32 => groups(a),
            n if n == Op::Peek as u32 => piece(libc::SYS_pread64, a[0], a[1], (&raw mut (*hold).out) as u64),
            n if n == Op::Poke as u32 => piece(libc::SYS_pwrite64, a[0], a[1], (&raw const a[2]) as u64),
            n if n == Op::Open as u32 => {
                let how = (libc::O_RDWR | libc::O_CLOEXEC) as u64;
                simple(libc::SYS_openat, [libc::AT_FDCWD as u64, a[0], how, 0, 0, 0])
            }
            n if n == Op::Close as u32 => simple(libc::SYS_close, [a[0], 0, 0, 0, 0, 0]),
            n if n == Op::Home as u32 => match (&raw const (*slot).taken).read_volatile() {
                0 => home::come(slot),
                _ => EAGAIN,
            },
            _ => ENOSYS,
        };
        (*hold).done = (*hold).tag;
        (*hold).ret = ret;
    }
}

/// A child stand-in in the slot that the daemon names; it starts with all signals blocked and its hold empty.
// SAFETY: (of a call) `slot` is the calling stand-in's own.
unsafe fn clone(slot: *mut Slot, [pid, index, flags, ..]: [u64; 6], life: Life) -> i64 {
    // SAFETY: the daemon gives each slot to one stand-in at a time, and again only after that one's exit gate.
    unsafe {
        let room = (*slot).room;
        let Some(child) = room.slot(index) else { return -i64::from(libc::ENOMEM) };
        child.write_bytes(0, 1);
        (*child).fd = (*slot).fd;
        (*child).room = room;
        (*child).name = (*slot).hold.name;
        (*child).index = index as u32;
        top(&room).fetch_max(index as u32, std::sync::atomic::Ordering::SeqCst);
        let tid = pid as i32;
        let parent = flags & libc::CLONE_PARENT as u64 != 0;
        let (stack, stack_size) = room.small_stack(index);
        let args = CloneArgs {
            flags: libc::CLONE_VM as u64 | libc::CLONE_FS as u64 | flags,
            // ODDITY(clone-parent-exit-signal): clone3 refuses CLONE_PARENT with an exit signal (EINVAL); the
            // child takes over the cloner's. linux: copy_process. prog: tests/prog/odd_clone_parent.c
            exit_signal: if parent { 0 } else { libc::SIGCHLD as u64 },
            stack,
            stack_size,
            set_tid: if pid != 0 { (&raw const tid) as u64 } else { 0 },
            set_tid_size: u64::from(pid != 0),
            ..CloneArgs::default()
        };
        raw::clone(&args, life, child as u64)
    }
}

/// Reads what a program starts with into memory of its own. The daemon writes nothing into a process that may be a user's.
// SAFETY: (of a call) the memory is the caller's, from [`Op::Map`].
unsafe fn fill(address: u64, bytes: u64) -> i64 {
    // SAFETY: calls that take numbers; the kernel checks the memory.
    unsafe {
        let fd = raw::call(libc::SYS_pidfd_open, [setup::IMAGE as i64 as u64, 0, 0, 0, 0, 0]);
        if fd < 0 {
            return fd;
        }
        let mut done = 0;
        while done < bytes {
            let got = raw::call(libc::SYS_pread64, [fd as u64, address + done, bytes - done, done, 0, 0]);
            if got <= 0 {
                break;
            }
            done += got as u64;
        }
        raw::call(libc::SYS_close, [fd as u64, 0, 0, 0, 0, 0]);
        done as i64
    }
}

/// The relay of this stand-in, if it has one.
// SAFETY: (of a call) `slot` is the calling stand-in's own.
unsafe fn relay(slot: *mut Slot) -> Option<&'static Relay> {
    // SAFETY: 0 or the address of a static.
    unsafe { ((*slot).relay as *const Relay).as_ref() }
}

/// Waits until the relay threads have written out all output. The signals that end programs come through meanwhile, and those by which a terminal
/// stops its jobs stop it: there is no program any more to be stopped first. Not where the terminal is in raw modes, in which a stop would leave it.
// SAFETY: (of a call) `slot` is the calling stand-in's own.
unsafe fn drain(slot: *mut Slot) {
    // SAFETY: the slot is the caller's own.
    if let Some(relay) = unsafe { relay(slot) } {
        let stopping = if relay.wants_raw() { &[][..] } else { &[Sig::TSTP, Sig::TTIN, Sig::TTOU] };
        for sig in stopping {
            disposition(sig.number().into(), 0);
        }
        block(ALL & !ENDING.iter().chain(stopping).fold(0, |set, sig| set | sig.bit()));
        relay.before_end();
        block(ALL);
    }
}

/// Ends with `code` when all output is out.
// SAFETY: (of a call) `slot` is the calling stand-in's own.
unsafe fn exit(slot: *mut Slot, code: u64) -> i64 {
    // SAFETY: ends this process.
    unsafe {
        drain(slot);
        let code = relay(slot).map_or(code, |relay| relay.code(code));
        raw::call(libc::SYS_exit_group, [code, 0, 0, 0, 0, 0])
    }
}

/// Nobody will tell this stand-in any more how its program ended: the nodes have killed that, so it ends as killed. Its relay has
/// nothing to wait for.
// SAFETY: (of a call) `slot` is the calling stand-in's own.
pub(super) unsafe fn abandoned(slot: *mut Slot) -> ! {
    // SAFETY: ends this process.
    unsafe {
        if let Some(relay) = relay(slot) {
            relay.before_stop();
        }
        Myself::get().send(libc::SIGKILL as u64);
        loop {
            raw::call(libc::SYS_exit_group, [128 + libc::SIGKILL as u64, 0, 0, 0, 0, 0]);
        }
    }
}

/// Dies of `sig`, and dumps a core that goes nowhere if `core`, else none.
// SAFETY: (of a call) `slot` is the calling stand-in's own.
unsafe fn die(slot: *mut Slot, sig: u64, core: bool) -> i64 {
    // SAFETY: the slot is the caller's own; the rest takes numbers.
    unsafe {
        drain(slot);
        if !(core && dump::will_dump((*slot).fd)) {
            dump::will_not_dump();
        }
        disposition(sig, 0);
        Myself::get().send(sig);
        block(ALL & !(1 << (sig - 1)));
        // Still here: the default action of this signal is not to die. The status must come out all the same.
        raw::call(libc::SYS_exit_group, [128 + sig, 0, 0, 0, 0, 0])
    }
}

/// Stops by `sig` and comes back after SIGCONT; in an orphaned group the kernel ignores all but SIGSTOP. EAGAIN, and no stop, when a signal is
/// to be handed over or SIGCONT waits: that came after what is to stop it here, and a stop would take it back (linux: `prepare_signal`). One is overlooked only when it is
/// sent while the kernel is about to carry out the stop, within some 0.1 us.
// SAFETY: (of a call) `slot` is the calling stand-in's own.
unsafe fn stop(slot: *mut Slot, sig: u64) -> i64 {
    // SAFETY: the slot is the caller's own.
    let relay = unsafe { relay(slot) };
    if let Some(relay) = relay {
        relay.before_stop();
    }
    disposition(sig, 0);
    let myself = Myself::get();
    // One that waits is taken now.
    block(ALL & !(1 << (sig - 1)) & !Sig::CONT.bit());
    // SAFETY: the slot is the caller's own.
    let ret = unsafe { raw::stop(myself.pid, myself.tid, sig, &raw const (*slot).taken) };
    block(ALL);
    disposition(sig, on_signal as *const () as u64);
    if let Some(relay) = relay {
        relay.after_stop();
    }
    ret
}

/// The calling thread, for signals to itself.
struct Myself {
    pid: u64,
    tid: u64,
}

impl Myself {
    fn get() -> Myself {
        // SAFETY: calls that take and give numbers.
        unsafe {
            let pid = raw::call(libc::SYS_getpid, [0; 6]) as u64;
            Myself { pid, tid: raw::call(libc::SYS_gettid, [0; 6]) as u64 }
        }
    }

    fn send(&self, sig: u64) {
        // SAFETY: a call that takes numbers.
        unsafe { raw::call(libc::SYS_tgkill, [self.pid, self.tid, sig, 0, 0, 0]) };
    }
}

/// Takes on ids. The capabilities stay permitted; in effect are all of them for root, and for others the one that a
/// clone with a chosen PID needs: what a stand-in does in its body's name (kill above all) is the kernel's to allow or not.
// SAFETY: (of a call) only a stand-in may do this to itself.
unsafe fn ids([ruid, euid, suid, rgid, egid, sgid]: [u64; 6]) -> i64 {
    // SAFETY: calls that take numbers.
    unsafe {
        caps::raise();
        raw::call(libc::SYS_prctl, [libc::PR_SET_KEEPCAPS as u64, 1, 0, 0, 0, 0]);
        let mut ret = raw::call(libc::SYS_setresgid, [rgid, egid, sgid, 0, 0, 0]);
        if ret == 0 {
            ret = raw::call(libc::SYS_setresuid, [ruid, euid, suid, 0, 0, 0]);
        }
        // The kernel has made the memory, which is the agent's, what fs.suid_dumpable says (linux: `commit_creds`).
        raw::call(libc::SYS_prctl, [libc::PR_SET_DUMPABLE as u64, 0, 0, 0, 0, 0]);
        caps::lower();
        ret
    }
}

/// setgroups, which the ids of the body may not allow.
// SAFETY: (of a call) only a stand-in may do this to itself, with a live list.
unsafe fn groups([list, count, ..]: [u64; 6]) -> i64 {
    // SAFETY: by the caller's promise.
    unsafe {
        caps::raise();
        let ret = raw::call(libc::SYS_setgroups, [count, list, 0, 0, 0, 0]);
        caps::lower();
        ret
    }
}

/// Copies bytes between `there` in a file and `here`. The file may be a memory that is served by its own user, who need not answer.
// SAFETY: (of a call) `here` is live and has 32 bytes.
unsafe fn piece(number: i64, file_and_bytes: u64, there: u64, here: u64) -> i64 {
    let (file, bytes) = (file_and_bytes & 0xffff_ffff, (file_and_bytes >> 32).min(32));
    // SAFETY: by the caller's promise.
    unsafe { raw::call(number, [file, here, bytes, there, 0, 0]) }
}

// SAFETY: (of a call) only a stand-in may do this to itself.
unsafe fn capabilities(set: u64) -> i64 {
    let (low, high) = (set as u32, (set >> 32) as u32);
    let caps = [[low, low, 0], [high, high, 0]];
    let head = [0x2008_0522u32, 0];
    // SAFETY: capset with live structs of version 3.
    unsafe { raw::call(libc::SYS_capset, [(&raw const head) as u64, (&raw const caps) as u64, 0, 0, 0, 0]) }
}

/// wait4 with usage: status, user and system microseconds, largest resident KiB in `out`. With WNOWAIT, which wait4 has not: by what the child is stopped, if its parent has
/// not been told that yet, and it stays to be told.
// SAFETY: (of a call) `slot` is the calling stand-in's own.
unsafe fn wait(slot: *mut Slot, [pid, options, ..]: [u64; 6]) -> i64 {
    if options & libc::WNOWAIT as u64 != 0 {
        // Of a siginfo: the number of the child, its user, the signal.
        const PID: usize = 4;
        const STATUS: usize = 6;
        let mut info = [0i32; 32];
        // SAFETY: the siginfo is live and has the kernel's 128 bytes; the slot is the caller's own.
        unsafe {
            let ret = raw::call(libc::SYS_waitid, [libc::P_PID.into(), pid, (&raw mut info) as u64, options, 0, 0]);
            (*slot).hold.out = [i64::from(info[STATUS] << 8 | 0x7f), 0, 0, 0];
            return if ret < 0 { ret } else { info[PID].into() };
        }
    }
    let mut status = 0i32;
    let mut usage = [0i64; 18];
    // SAFETY: both results are live and of the kernel's size (struct rusage: 18 words).
    unsafe {
        let to = [pid, (&raw mut status) as u64, options, (&raw mut usage) as u64, 0, 0];
        let ret = raw::call(libc::SYS_wait4, to);
        (*slot).hold.out = [status.into(), usage[0] * 1_000_000 + usage[1], usage[2] * 1_000_000 + usage[3], usage[4]];
        ret
    }
}

// SAFETY: (of a call) only a stand-in may do this to itself.
unsafe fn queue([pid, sig, code, value, ..]: [u64; 6]) -> i64 {
    // SAFETY: the siginfo is live and has the kernel's 128 bytes.
    unsafe {
        let me = raw::call(libc::SYS_getpid, [0; 6]) as u64;
        let uid = raw::call(libc::SYS_getuid, [0; 6]) as u64;
        let mut info = [0u64; 16];
        info[0] = sig;
        info[1] = code & 0xffff_ffff;
        info[2] = me | uid << 32;
        info[3] = value;
        raw::call(libc::SYS_rt_sigqueueinfo, [pid, sig, (&raw const info) as u64, 0, 0, 0])
    }
}
