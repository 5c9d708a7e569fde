//! Other programs on other nodes, in place of the caller or as its children; and the caller itself on another node.
//!
//! What takes the caller's place, if nothing is said about descriptors, is `shoal run`: it is the stand-in of what runs elsewhere. Else the caller goes there, makes the descriptors, and executes the
//! program.
//!
//! A program of `bproc_execmove` and `bproc_execve` is the front end's. Where the node has a file of its name it is executed from there, else with the front end's files.

use super::command::{Command, Given, Whose};
use super::fork::{check_flags, destination, why_not};
use super::io::{self, Plan};
use super::nodes::here;
use super::types::{Io, DUMP_DEFAULT};
use super::vrfork::{destinations, lists, vrfork};
use crate::said::{called, Done, Failed};
use std::ffi::{c_char, c_int};
use vocab::NodeId;

/// What a child ends with that could not become what it was to be, as of env(1).
const NOT_EXECUTED: c_int = 126;

/// Where a move is refused nothing has changed; what cannot be made afterwards is missing there.
fn go(to: NodeId, plan: &Plan, executes: &[u8]) -> Done<c_int> {
    crate::itself::move_to_execute(to, executes).map_err(|fault| why_not(to, fault))?;
    io::carry_out(plan)?;
    Ok(0)
}

fn rexec(node: c_int, plan: &Plan, given: &Given<'_>, whose: Whose) -> Done<c_int> {
    let to = destination(node)?;
    if *plan == Plan::Forwarded {
        return Err(Command::on(to, given, whose)?.execute());
    }
    let command = Command::here(given)?;
    let executes = if whose == Whose::Node { Vec::new() } else { given.file()? };
    go(to, plan, &executes)?;
    Err(command.execute())
}

/// The node's file; without one the process goes to the front end, and the program starts from there on the node where it was.
fn execve(given: &Given<'_>) -> Done<c_int> {
    let failed = Command::here(given)?.execute();
    let at = here()?;
    if failed.errno != libc::ENOENT || at.is_front() {
        return Err(failed);
    }
    let command = Command::on(at, given, Whose::Front)?;
    match crate::itself::move_to(NodeId::FRONT) {
        Ok(()) => Err(command.execute()),
        Err(fault) => Err(Failed::new(failed.errno, format!("{}; and from the front end: {fault}", failed.why))),
    }
}

fn vexecmove(nodes: &[c_int], pids: &mut [c_int], plan: &Plan, given: &Given<'_>) -> Done<c_int> {
    if *plan == Plan::Forwarded {
        for ((_, to), pid) in destinations(nodes)?.into_iter().zip(pids) {
            let started = to.and_then(|to| Command::on(to, given, Whose::Either)?.start());
            *pid = started.unwrap_or_else(|failed| -failed.errno);
        }
        return Ok(nodes.len() as c_int);
    }
    let (command, all) = (Command::here(given)?, nodes.len() as c_int);
    let rank = vrfork(nodes, pids, (plan, DUMP_DEFAULT), &given.file()?)?;
    if rank < all {
        command.execute();
        // SAFETY: a child that ends at once, and runs nothing of the caller's.
        unsafe { libc::_exit(NOT_EXECUTED) };
    }
    Ok(all)
}

/// # Safety
/// `cmd` is a text, `argv` and `envp` lists of texts that end with a null, `io` has `iolen` entries; or they are null.
#[no_mangle]
pub(super) unsafe extern "C" fn bproc_rexec_io(
    node: c_int,
    io: *mut Io,
    iolen: c_int,
    cmd: *const c_char,
    argv: *const *mut c_char,
    envp: *const *mut c_char,
) -> c_int {
    // SAFETY: as is asked for above.
    let done = || unsafe { rexec(node, &io::plan(io, iolen)?, &Given::new(cmd, argv, envp)?, Whose::Node) };
    called(done)
}

/// # Safety
/// As of [`bproc_rexec_io`].
#[no_mangle]
pub(super) unsafe extern "C" fn bproc_rexec(
    node: c_int,
    cmd: *const c_char,
    argv: *const *mut c_char,
    envp: *const *mut c_char,
) -> c_int {
    // SAFETY: as is asked for above.
    unsafe { bproc_rexec_io(node, std::ptr::null_mut(), -1, cmd, argv, envp) }
}

/// # Safety
/// As of [`bproc_rexec_io`].
#[no_mangle]
pub(super) unsafe extern "C" fn bproc_execmove_io(
    node: c_int,
    io: *mut Io,
    iolen: c_int,
    cmd: *const c_char,
    argv: *const *mut c_char,
    envp: *const *mut c_char,
) -> c_int {
    // SAFETY: as is asked for above.
    let done = || unsafe { rexec(node, &io::plan(io, iolen)?, &Given::new(cmd, argv, envp)?, Whose::Either) };
    called(done)
}

/// # Safety
/// As of [`bproc_rexec_io`].
#[no_mangle]
pub(super) unsafe extern "C" fn bproc_execmove(
    node: c_int,
    cmd: *const c_char,
    argv: *const *mut c_char,
    envp: *const *mut c_char,
) -> c_int {
    // SAFETY: as is asked for above.
    unsafe { bproc_execmove_io(node, std::ptr::null_mut(), -1, cmd, argv, envp) }
}

/// # Safety
/// As of [`bproc_rexec_io`]; `nodes` and `pids` have `n` entries, or are null.
#[no_mangle]
pub(super) unsafe extern "C" fn bproc_vexecmove_io(
    n: c_int,
    nodes: *mut c_int,
    pids: *mut c_int,
    io: *mut Io,
    iolen: c_int,
    cmd: *const c_char,
    argv: *const *mut c_char,
    envp: *const *mut c_char,
) -> c_int {
    let done = || {
        // SAFETY: as is asked for above.
        let ((nodes, pids), plan, given) =
            unsafe { (lists(n, nodes, pids)?, io::plan(io, iolen)?, Given::new(cmd, argv, envp)?) };
        vexecmove(&nodes, pids, &plan, &given)
    };
    called(done)
}

/// # Safety
/// As of [`bproc_vexecmove_io`].
#[no_mangle]
pub(super) unsafe extern "C" fn bproc_vexecmove(
    n: c_int,
    nodes: *mut c_int,
    pids: *mut c_int,
    cmd: *const c_char,
    argv: *const *mut c_char,
    envp: *const *mut c_char,
) -> c_int {
    // SAFETY: as is asked for above.
    unsafe { bproc_vexecmove_io(n, nodes, pids, std::ptr::null_mut(), -1, cmd, argv, envp) }
}

/// # Safety
/// `cmd` is a text, `argv` and `envp` lists of texts that end with a null; or they are null.
#[no_mangle]
pub(super) unsafe extern "C" fn bproc_execve(
    cmd: *const c_char,
    argv: *const *mut c_char,
    envp: *const *mut c_char,
) -> c_int {
    // SAFETY: as is asked for above.
    let done = || execve(&unsafe { Given::new(cmd, argv, envp) }?);
    called(done)
}

/// # Safety
/// `io` has `iolen` entries, or is null.
#[no_mangle]
pub(super) unsafe extern "C" fn _bproc_move_io(node: c_int, io: *mut Io, iolen: c_int, flags: c_int) -> c_int {
    let done = || {
        check_flags(flags)?;
        // SAFETY: as is asked for above.
        let plan = unsafe { io::plan(io, iolen) }?;
        go(destination(node)?, &plan, &[])
    };
    called(done)
}

/// # Safety
/// As of [`_bproc_move_io`].
#[no_mangle]
pub(super) unsafe extern "C" fn bproc_move_io(node: c_int, io: *mut Io, iolen: c_int) -> c_int {
    // SAFETY: as is asked for above.
    unsafe { _bproc_move_io(node, io, iolen, DUMP_DEFAULT) }
}

#[no_mangle]
pub(super) extern "C" fn _bproc_move(node: c_int, flags: c_int) -> c_int {
    // SAFETY: no list.
    unsafe { _bproc_move_io(node, std::ptr::null_mut(), -1, flags) }
}

#[no_mangle]
pub(super) extern "C" fn bproc_move(node: c_int) -> c_int {
    _bproc_move(node, DUMP_DEFAULT)
}
