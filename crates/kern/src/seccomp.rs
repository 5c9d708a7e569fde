//! The gate: a seccomp filter that hands over the calls about process identity which the node's kernel cannot answer
//! alone (docs/mechanisms.md, "The gate"), and the listener at which they arrive (seccomp_unotify(2)).

use crate::sys;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use vocab::{Fault, Kind, Pid, Result};

pub(crate) mod program;
pub use program::{Loadable, Program};

/// What passes the gate without asking.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Passes {
    /// PIDs that are right on this node, whatever they are (`first..end`).
    pub own: Vec<Range<i32>>,
    /// Addresses of the code of stand-ins, whose calls are ours.
    pub code: Range<u64>,
}

/// A call that waits at a gate.
#[derive(Debug)]
pub struct Notice {
    pub held: Held,
    /// The thread that calls, in the numbers of the listener's PID namespace.
    pub tid: Pid,
    pub call: Call,
}

/// Which call it is. Numbers are as the caller gave them, unchecked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Call {
    Kill {
        pid: i32,
        sig: i32,
    },
    /// tkill has no `tgid`.
    ThreadKill {
        tgid: Option<i32>,
        tid: i32,
        sig: i32,
    },
    /// rt_sigqueueinfo.
    Queue {
        pid: i32,
        sig: i32,
    },
    /// rt_tgsigqueueinfo.
    ThreadQueue {
        tgid: i32,
        tid: i32,
        sig: i32,
    },
    PidfdOpen {
        pid: i32,
        flags: u32,
    },
    SetPgid {
        pid: i32,
        pgid: i32,
    },
    SetSid,
    /// Any of the calls that change user, group or supplementary groups.
    SetIds,
    /// A call that fills in the usage of children, at the address `at` (0: nowhere).
    Reads {
        of: Reads,
        at: u64,
    },
    /// PR_SET_CHILD_SUBREAPER.
    Subreaper {
        on: bool,
    },
    /// Not one of the filter's: let it go on.
    Other {
        number: i32,
    },
}

/// What is filled in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reads {
    /// wait4 with a struct rusage.
    Wait4,
    /// waitid with a struct rusage; `info` is the address of its siginfo_t, or 0.
    Waitid { info: u64 },
    /// getrusage(RUSAGE_CHILDREN): a struct rusage.
    Children,
    /// times: a struct tms.
    Times,
}

/// The listener's end of a gate. When the last one is closed every later call at the gate fails with ENOSYS.
#[derive(Clone, Debug)]
pub struct Listener {
    fd: Arc<OwnedFd>,
}

/// A call that is held at a gate until it is answered.
#[derive(Debug)]
pub struct Held {
    gate: Listener,
    id: u64,
}

const SET_MODE_FILTER: u64 = 1;
const FLAG_SPEC_ALLOW: u64 = 1 << 2;
const FLAG_NEW_LISTENER: u64 = 1 << 3;
/// Once a notice was received only a deadly signal ends the wait, so that no call is done twice (Linux 5.19).
///
/// ODDITY(notice-interrupted): before it is received a signal with a handler ends the call, which returns EINTR without SA_RESTART, also where it never does by itself. linux:
/// `seccomp_do_user_notification`. prog: tests/prog/odd_notice_interrupted.c
const FLAG_WAIT_KILLABLE_RECV: u64 = 1 << 5;

const NOTIF_RECV: u64 = 0xc050_2100;
const NOTIF_SEND: u64 = 0xc018_2101;
const NOTIF_ID_VALID: u64 = 0x4008_2102;
const NOTIF_ADDFD: u64 = 0x4018_2103;
const ADDFD_FLAG_SEND: u32 = 1 << 1;
const NOTIF_SET_FLAGS: u64 = 0x4008_2104;
const FD_SYNC_WAKE_UP: u64 = 1;
const RESPONSE_CONTINUE: u32 = 1;

/// struct seccomp_notif.
#[repr(C)]
#[derive(Default)]
struct Notification {
    id: u64,
    pid: u32,
    flags: u32,
    number: i32,
    arch: u32,
    instruction_pointer: u64,
    args: [u64; 6],
}

/// struct seccomp_notif_resp.
#[repr(C)]
struct Response {
    id: u64,
    value: i64,
    error: i32,
    flags: u32,
}

/// struct seccomp_notif_addfd.
#[repr(C)]
struct AddFd {
    id: u64,
    flags: u32,
    source: u32,
    number: u32,
    number_flags: u32,
}

/// Flags for whoever installs the program by another way than [`install`] (seccomp(2), SECCOMP_SET_MODE_FILTER).
pub const INSTALL_FLAGS: u64 = FLAG_SPEC_ALLOW | FLAG_NEW_LISTENER | FLAG_WAIT_KILLABLE_RECV;

/// Puts `program` before every later system call of the calling thread and of all it clones from now on.
///
/// # Errors
/// `Sys`: EACCES without CAP_SYS_ADMIN in the user namespace, EBUSY when a filter with a listener is there already.
pub fn install(program: &Program) -> Result<Listener> {
    let loadable = program.loadable();
    // SAFETY: the sock_fprog at this address and the instructions it points to live through the call, which copies them.
    let fd = unsafe { libc::syscall(libc::SYS_seccomp, SET_MODE_FILTER, INSTALL_FLAGS, loadable.address()) };
    Ok(Listener::from_fd(sys::own(fd, || "install the gate's filter".into())?))
}

impl Listener {
    /// From a descriptor that seccomp(2) returned, here or in another process.
    pub fn from_fd(fd: OwnedFd) -> Listener {
        // An optimisation for callers on the reader's own CPU; older kernels refuse it.
        // SAFETY: the request takes a number.
        unsafe { libc::ioctl(fd.as_raw_fd(), NOTIF_SET_FLAGS, FD_SYNC_WAKE_UP) };
        Listener { fd: Arc::new(fd) }
    }

    /// The descriptor to poll: readable when a call waits, hung up when no process with the filter is left.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// The next waiting call; `None` when there is none. Never blocks.
    ///
    /// # Errors
    /// `Sys` for what the kernel should not answer.
    pub fn receive(&self) -> Result<Option<Notice>> {
        // The kernel's read blocks whatever O_NONBLOCK says, so only what poll has shown is fetched.
        let mut poll = libc::pollfd { fd: self.fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one pollfd, as the count says.
        if unsafe { libc::poll(&mut poll, 1, 0) } != 1 || poll.revents & libc::POLLIN == 0 {
            return Ok(None);
        }
        let mut raw = Notification::default();
        // SAFETY: `raw` is a zeroed seccomp_notif of the size that the request number says.
        match sys::check(unsafe { libc::ioctl(self.fd.as_raw_fd(), NOTIF_RECV, &mut raw) }.into()) {
            Ok(_) => Ok(Some(Notice {
                held: Held { gate: self.clone(), id: raw.id },
                tid: Pid(raw.pid as i32),
                call: program::call(raw.arch, raw.number, &raw.args),
            })),
            Err(libc::ENOENT | libc::EINTR | libc::EAGAIN) => Ok(None), // the caller was killed meanwhile
            Err(errno) => Err(Fault::sys(errno, "receive from the gate")),
        }
    }
}

impl Held {
    /// Is the call still waiting (and so is what was read of its process really its own)?
    pub fn waits(&self) -> bool {
        // SAFETY: the request takes a pointer to the id.
        unsafe { libc::ioctl(self.fd(), NOTIF_ID_VALID, &self.id) == 0 }
    }

    /// Lets the kernel do the call. `false` when the caller is gone.
    pub fn proceed(&self) -> bool {
        self.respond(Response { id: self.id, value: 0, error: 0, flags: RESPONSE_CONTINUE })
    }

    /// Lets the call return 0 (for an `errno` of 0) or fail. `false` when the caller is gone.
    pub fn answer(&self, errno: i32) -> bool {
        self.respond(Response { id: self.id, value: 0, error: -errno, flags: 0 })
    }

    /// Lets the call return a new descriptor of the caller's that is a copy of `fd`. `false` when the caller is gone.
    pub fn give(&self, fd: BorrowedFd<'_>) -> bool {
        let source = fd.as_raw_fd() as u32;
        let add = AddFd { id: self.id, flags: ADDFD_FLAG_SEND, source, number: 0, number_flags: 0 };
        // SAFETY: `add` is a seccomp_notif_addfd of the size that the request number says.
        unsafe { libc::ioctl(self.fd(), NOTIF_ADDFD, &add) >= 0 }
    }

    fn fd(&self) -> i32 {
        self.gate.fd.as_raw_fd()
    }

    fn respond(&self, response: Response) -> bool {
        // SAFETY: `response` is a seccomp_notif_resp of the size that the request number says.
        unsafe { libc::ioctl(self.fd(), NOTIF_SEND, &response) == 0 }
    }
}

/// Does this kernel have what the gate needs? For `shoal check`.
///
/// # Errors
/// `Unsupported` with the reason.
pub fn supported() -> Result<()> {
    const GET_NOTIF_SIZES: u64 = 3;
    let mut sizes = [0u16; 3];
    // SAFETY: three 16-bit sizes, as struct seccomp_notif_sizes has them.
    let got = sys::check(unsafe { libc::syscall(libc::SYS_seccomp, GET_NOTIF_SIZES, 0, &mut sizes) });
    match got {
        Ok(_) if sizes == [80, 24, 64] => Ok(()),
        Ok(_) => Err(Fault::new(Kind::Unsupported, format!("seccomp notifications have sizes {sizes:?}"))),
        Err(errno) => Err(Fault { errno, ..Fault::new(Kind::Unsupported, "seccomp user notification") }),
    }
}

#[cfg(test)]
mod tests;
