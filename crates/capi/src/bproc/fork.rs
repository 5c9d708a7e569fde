//! Children that go on elsewhere. A child is forked here, waits in a call that holds nothing open, and is moved from there: what it returns from is that call, on the other node.
//!
//! The call waits for a lock on /dev/null that the parent has. Elsewhere the same call begins anew, where nobody has that lock.

use super::io::{self, Plan};
use super::nodes::{all, daemon, enterable, here, meant};
use super::types::{Io, DUMP_ALL, DUMP_DEFAULT};
use super::words;
use crate::helper::lock;
use crate::said::{called, guarded, Done, Failed};
use std::ffi::c_int;
use std::fs::File;
use std::os::fd::AsRawFd;
use vocab::{Fault, Kind, NodeId, Pid};
use wire::ask::{Answer, Ask};

/// What a child ends with that has not come to its node, which nobody hears of but who waits for it.
pub(super) const LOST: c_int = 127;

/// The lock that children wait for.
pub(super) struct Gate {
    null: File,
    place: i64,
}

impl Gate {
    pub(super) fn close() -> Done<Gate> {
        let null = File::options().read(true).write(true).open("/dev/null");
        let null = null.map_err(|e| Fault::io(&e, "open /dev/null"))?;
        let gate = Gate { null, place: crate::told::new_place()? };
        let lock = lock(libc::F_WRLCK, gate.place);
        // SAFETY: the lock is live.
        match unsafe { libc::fcntl(gate.null.as_raw_fd(), libc::F_OFD_SETLK, &raw const lock) } {
            0 => Ok(gate),
            _ => Err(Failed::last("lock a byte of /dev/null")),
        }
    }

    /// In the child: nothing else is open, and then it waits.
    pub(super) fn wait(self, plan: &Plan) -> Done<()> {
        let lock = lock(libc::F_RDLCK, self.place);
        // All is closed at once, this too, whose number is somebody else's then.
        std::mem::forget(self.null);
        plan.place_streams()?;
        let null = io::only_null()?;
        loop {
            // SAFETY: the lock is live for the call, which only reads it.
            if unsafe { libc::fcntl(null, libc::F_OFD_SETLKW, &raw const lock) } == 0 {
                break;
            }
            match Failed::last("wait to be moved") {
                Failed { errno: libc::EINTR, .. } => {}
                failed => return Err(failed),
            }
        }
        // SAFETY: its own descriptor, which nobody else knows.
        unsafe { libc::close(null) };
        Ok(())
    }
}

/// What goes along is for the machines to find out: whatever they can have from files of their own does not travel.
pub(super) fn check_flags(flags: c_int) -> Done<()> {
    match flags & !DUMP_ALL {
        0 => Ok(()),
        _ => {
            Err(Failed::new(libc::EINVAL, format!("dump flags {flags:#x}, of which only {DUMP_ALL:#x} mean something")))
        }
    }
}

/// May the caller go there, and is that another node?
pub(super) fn destination(node: c_int) -> Done<NodeId> {
    let to = meant(node)?;
    if to == here()? {
        return Err(Failed::new(words::SAME_NODE, format!("it is on node {to}")));
    }
    enterable(&all()?, to)?;
    Ok(to)
}

/// Why a move to `to` has failed, in a number that programs know.
pub(super) fn why_not(to: NodeId, fault: Fault) -> Failed {
    let down = || all().and_then(|all| enterable(&all, to)).err().filter(|failed| failed.errno >= words::BASE);
    match fault.kind {
        Kind::Gone | Kind::Sys | Kind::Refused => match down() {
            Some(_) => Failed::new(words::SLAVE_DIED, fault.to_string()),
            None => fault.into(),
        },
        _ => fault.into(),
    }
}

/// The parent's and the child's side of a fork.
pub(super) enum Side {
    Parent(c_int),
    Child,
}

pub(super) fn fork() -> Done<Side> {
    // SAFETY: fork(2) of the C library, which has its own locks in order in the child.
    match unsafe { libc::fork() } {
        -1 => Err(Failed::last("fork")),
        0 => Ok(Side::Child),
        pid => Ok(Side::Parent(pid)),
    }
}

/// The child ends here, unless it has come to the node.
pub(super) fn arrive(gate: Gate, to: NodeId, plan: &Plan) {
    let come = gate.wait(plan).is_ok() && here().is_ok_and(|node| node == to);
    if !come || io::carry_out(plan).is_err() {
        // SAFETY: it ends at once, and runs nothing of the program's.
        unsafe { libc::_exit(LOST) };
    }
}

/// Kills a child and waits for it; one that has ended is only waited for.
pub(super) fn end(pid: c_int) {
    // SAFETY: a child of this process that waits; its status is of no interest.
    unsafe {
        libc::kill(pid, libc::SIGKILL);
        while libc::waitpid(pid, std::ptr::null_mut(), libc::__WALL) == -1 && *libc::__errno_location() == libc::EINTR {
        }
    }
}

/// Has the daemon move each of these children to its node, all at a time. `executes`: the file that they will execute there, if any.
pub(super) fn moved(children: &[(c_int, NodeId)], executes: &[u8]) -> Vec<Done<()>> {
    let ask = |&(pid, to): &(c_int, NodeId)| {
        let mut daemon = daemon()?;
        daemon.begin(&Ask::Move { pid: Pid(pid), to, progress: false, lazy: false, executes: executes.to_vec() })?;
        Ok(daemon)
    };
    let asked: Vec<Done<local::Local>> = children.iter().map(ask).collect();
    let answered = |(asked, &(pid, to)): (Done<local::Local>, &(c_int, NodeId))| {
        let mut daemon = asked?;
        match daemon.finish() {
            Ok(Answer::Moved { .. }) => Ok(()),
            Ok(other) => Err(super::nodes::odd("Move", &other)),
            // What a child does before it waits is in the way only for a moment.
            Err(fault) if fault.kind == Kind::Changed => {
                local::moves::move_to_execute(&mut daemon, Pid(pid), to, executes).map_err(|fault| why_not(to, fault))
            }
            Err(fault) => Err(why_not(to, fault)),
        }
    };
    asked.into_iter().zip(children).map(answered).collect()
}

fn rfork(node: c_int, plan: &Plan, flags: c_int) -> Done<c_int> {
    check_flags(flags)?;
    let to = destination(node)?;
    let gate = Gate::close()?;
    let pid = match fork()? {
        Side::Child => {
            arrive(gate, to, plan);
            return Ok(0);
        }
        Side::Parent(pid) => pid,
    };
    let done = moved(&[(pid, to)], &[]).pop().unwrap_or(Ok(()));
    done.inspect_err(|_| end(pid)).map(|()| pid)
}

/// What the caller's language does around a fork.
type Hook = Option<extern "C" fn()>;

/// As `shoal.h` says.
///
/// # Safety
/// `streams` has three entries, or is null.
#[no_mangle]
pub(super) unsafe extern "C" fn shoal_rfork(node: c_int, streams: *const c_int) -> c_int {
    // SAFETY: as is asked for above.
    unsafe { shoal_rfork_calling(node, streams, None, None, None) }
}

/// As `shoal.h` says.
///
/// # Safety
/// `streams` has three entries, or is null.
#[no_mangle]
pub(super) unsafe extern "C" fn shoal_rfork_calling(
    node: c_int,
    streams: *const c_int,
    before: Hook,
    parent: Hook,
    child: Hook,
) -> c_int {
    let call = |hook: Hook| hook.map_or((), |hook| hook());
    call(before);
    // SAFETY: as is asked for above.
    let done = guarded(|| unsafe { with_streams(node, streams) });
    call(if done == Ok(0) { child } else { parent });
    called(|| done)
}

/// # Safety
/// `streams` has three entries, or is null.
unsafe fn with_streams(node: c_int, streams: *const c_int) -> Done<c_int> {
    if streams.is_null() {
        return rfork(node, &Plan::Forwarded, DUMP_DEFAULT);
    }
    // SAFETY: as is asked for above.
    let streams = unsafe { *streams.cast::<[c_int; 3]>() };
    // SAFETY: a number of a descriptor, or what is none.
    let closed = |fd: &&c_int| **fd >= 0 && unsafe { libc::fcntl(**fd, libc::F_GETFD) } == -1;
    if let Some(fd) = streams.iter().find(closed) {
        return Err(Failed::new(libc::EBADF, format!("descriptor {fd} is not open")));
    }
    rfork(node, &Plan::Streams(streams), DUMP_DEFAULT)
}

/// # Safety
/// `io` has `iolen` entries, or is null.
#[no_mangle]
pub(super) unsafe extern "C" fn _bproc_rfork_io(node: c_int, io: *mut Io, iolen: c_int, flags: c_int) -> c_int {
    // SAFETY: as is asked for above.
    called(|| unsafe { io::plan(io, iolen) }.and_then(|plan| rfork(node, &plan, flags)))
}

/// # Safety
/// `io` has `iolen` entries, or is null.
#[no_mangle]
pub(super) unsafe extern "C" fn bproc_rfork_io(node: c_int, io: *mut Io, iolen: c_int) -> c_int {
    // SAFETY: as is asked for above.
    unsafe { _bproc_rfork_io(node, io, iolen, DUMP_DEFAULT) }
}

#[no_mangle]
pub(super) extern "C" fn _bproc_rfork(node: c_int, flags: c_int) -> c_int {
    called(|| rfork(node, &Plan::Forwarded, flags))
}

#[no_mangle]
pub(super) extern "C" fn bproc_rfork(node: c_int) -> c_int {
    _bproc_rfork(node, DUMP_DEFAULT)
}
