//! Children on several nodes at once: of one image where that is sooner ([`super::copies`]), else each by a move of its own.

use super::copies::{pipe, poll, Begun, Origin, FEWEST};
use super::fork::{arrive, check_flags, end, fork, moved, Gate, Side, LOST};
use super::io::{self, Plan};
use super::nodes::{all, enterable, find, here, meant};
use super::text::{null, size};
use super::types::{Io, DUMP_DEFAULT};
use super::words;
use crate::said::{called, Done, Failed};
use std::ffi::c_int;
use std::os::fd::AsRawFd;
use vocab::NodeId;
use wire::nodes::NodeInfo;

/// So many children of root's are on their way at a time: each needs a connection to the daemon.
const AT_A_TIME: usize = 48;
/// The daemon lets a user have no more (`front`, `may_move_more`).
const AT_A_TIME_OF_A_USER: usize = 16;

/// In which a child closes what it has open, in milliseconds.
const CLOSES_MS: c_int = 1000;

/// A child that is to be.
type Wanted = (usize, NodeId);

/// Where each is to go, or why not.
pub(super) fn destinations(nodes: &[c_int]) -> Done<Vec<(usize, Done<NodeId>)>> {
    destinations_among(nodes, &all()?)
}

fn destinations_among(nodes: &[c_int], known: &[NodeInfo]) -> Done<Vec<(usize, Done<NodeId>)>> {
    let from = here()?;
    let of = |&node: &c_int| match meant(node)? {
        to if to == from => Err(Failed::new(words::SAME_NODE, format!("it is on node {to}"))),
        to => enterable(known, to).map(|()| to),
    };
    Ok(nodes.iter().map(of).enumerate().collect())
}

/// Child i returns i, the parent `nodes.len()`. `executes`: the file that the children will execute, which may be on the front end only.
pub(super) fn vrfork(
    nodes: &[c_int],
    pids: &mut [c_int],
    (plan, flags): (&Plan, c_int),
    executes: &[u8],
) -> Done<c_int> {
    check_flags(flags)?;
    let known = all()?;
    let mut wanted: Vec<Wanted> = Vec::new();
    for (rank, to) in destinations_among(nodes, &known)? {
        match to {
            Ok(to) => wanted.push((rank, to)),
            Err(failed) => pids[rank] = -failed.errno,
        }
    }
    let mut rest = wanted;
    if rest.len() >= FEWEST && executes.is_empty() && rest.iter().all(|(_, to)| !to.is_front()) {
        match of_one_image(&known, rest, pids, plan)? {
            Came::Child(rank) => return Ok(rank as c_int),
            // Whatever was in the way is found out, in a number that programs know, where each is moved by itself.
            Came::Parent(left) => rest = left,
        }
    }
    match one_by_one(&rest, pids, plan, executes)? {
        Came::Child(rank) => Ok(rank as c_int),
        Came::Parent(_) => Ok(nodes.len() as c_int),
    }
}

/// The one that returns from a fork.
enum Came {
    Child(usize),
    /// Children that are yet to be.
    Parent(Vec<Wanted>),
}

/// Each is moved by itself, many at a time.
fn one_by_one(wanted: &[Wanted], pids: &mut [c_int], plan: &Plan, executes: &[u8]) -> Done<Came> {
    let gate = Gate::close()?;
    let mut children: Vec<(usize, (c_int, NodeId))> = Vec::new();
    for &(rank, to) in wanted {
        match fork() {
            Err(failed) => pids[rank] = -failed.errno,
            Ok(Side::Child) => {
                arrive(gate, to, plan);
                return Ok(Came::Child(rank));
            }
            Ok(Side::Parent(pid)) => children.push((rank, (pid, to))),
        }
    }
    // SAFETY: it takes nothing.
    let at_a_time = if unsafe { libc::geteuid() } == 0 { AT_A_TIME } else { AT_A_TIME_OF_A_USER };
    for some in children.chunks(at_a_time) {
        let asked: Vec<(c_int, NodeId)> = some.iter().map(|(_, child)| *child).collect();
        for ((rank, (pid, _)), done) in some.iter().zip(moved(&asked, executes)) {
            pids[*rank] = match done {
                Ok(()) => *pid,
                Err(failed) => {
                    end(*pid);
                    -failed.errno
                }
            };
        }
    }
    Ok(Came::Parent(Vec::new()))
}

/// The first is forked, written and moved, and the others are copies of it.
fn of_one_image(known: &[NodeInfo], wanted: Vec<Wanted>, pids: &mut [c_int], plan: &Plan) -> Done<Came> {
    let Some((&(first, at), others)) = wanted.split_first() else { return Ok(Came::Parent(wanted)) };
    let (Some(number), Ok(mut origin)) = (OwnNumber::of_this_thread(), Origin::start(others.len())) else {
        return Ok(Came::Parent(wanted));
    };
    let (gate, (waits, open)) = (Gate::close()?, pipe()?);
    let (mut begun, mut left) = (Vec::new(), Vec::new());
    for &(rank, to) in others {
        match find(known, to).and_then(|node| origin.begin(rank, node, plan)) {
            Ok(pid) => begun.push(Begun { rank, pid, to }),
            Err(_) => left.push((rank, to)),
        }
    }
    let pid = match fork() {
        Ok(Side::Child) => {
            // All that is open is closed by its number.
            std::mem::forget((origin, waits, open));
            return Ok(Came::Child(who_came(gate, (first, at), &begun, &number, plan)));
        }
        Ok(Side::Parent(pid)) => pid,
        Err(failed) => {
            begun.iter().for_each(|one| end(one.pid));
            return Err(failed);
        }
    };
    // When it has nothing open any more it is about to wait. (A child of another thread may have the other end too.)
    drop(open);
    poll(std::iter::once(waits.as_raw_fd()), CLOSES_MS);
    let written = origin.write(pid);
    pids[first] = match moved(&[(pid, at)], &[]).pop() {
        Some(Err(failed)) => {
            end(pid);
            -failed.errno
        }
        _ => pid,
    };
    if written.is_err() {
        begun.iter().for_each(|one| end(one.pid));
        left.extend(begun.iter().map(|one| (one.rank, one.to)));
        return Ok(Came::Parent(left));
    }
    for (one, done) in origin.settle(begun) {
        match done {
            Ok(()) => pids[one.rank] = one.pid,
            Err(_) => {
                end(one.pid);
                left.push((one.rank, one.to));
            }
        }
    }
    Ok(Came::Parent(left))
}

/// In the first child, and in its copies, which differ from it in their number: which of all it is. It ends here, unless it has come to its node.
fn who_came(gate: Gate, (first, at): Wanted, copies: &[Begun], number: &OwnNumber, plan: &Plan) -> usize {
    // SAFETY: it takes nothing.
    let own = || unsafe { libc::getpid() };
    let before = own();
    let come = gate.wait(plan).is_ok();
    number.set();
    let (rank, to) = match own() {
        pid if pid == before => (first, at),
        pid => copies.iter().find(|one| one.pid == pid).map_or((usize::MAX, NodeId::FRONT), |one| (one.rank, one.to)),
    };
    if !come || rank == usize::MAX || !here().is_ok_and(|node| node == to) || io::carry_out(plan).is_err() {
        // SAFETY: it ends at once, and runs nothing of the program's.
        unsafe { libc::_exit(LOST) };
    }
    rank
}

/// Where the C library keeps the number of the calling thread, for locks and signals: the kernel clears it there when the thread ends (glibc: `tid` of struct pthread; set_tid_address(2)).
struct OwnNumber(*mut c_int);

impl OwnNumber {
    /// `None` where a library keeps it elsewhere, or a kernel does not say.
    fn of_this_thread() -> Option<OwnNumber> {
        let mut place: *mut c_int = std::ptr::null_mut();
        // SAFETY: room for the address that the kernel tells.
        let told = unsafe { libc::prctl(libc::PR_GET_TID_ADDRESS, &raw mut place) } == 0 && !place.is_null();
        // SAFETY: the place is a number of this thread's, which the kernel writes too.
        (told && unsafe { place.read() == libc::gettid() }).then_some(OwnNumber(place))
    }

    /// A copy has another number than who was written.
    fn set(&self) {
        // SAFETY: as above; there is no other thread.
        unsafe { self.0.write(libc::gettid()) };
    }
}

/// The caller's lists of nodes and of room for PIDs.
///
/// # Safety
/// Both have `n` entries, or are null.
pub(super) unsafe fn lists<'a>(n: c_int, nodes: *mut c_int, pids: *mut c_int) -> Done<(Vec<c_int>, &'a mut [c_int])> {
    let n = size(n, "a list of nodes")?;
    if n > 0 && (nodes.is_null() || pids.is_null()) {
        return Err(null("a list of nodes or of PIDs"));
    }
    if n == 0 {
        return Ok((Vec::new(), &mut []));
    }
    // SAFETY: as is asked for above.
    unsafe { Ok((std::slice::from_raw_parts(nodes, n).to_vec(), std::slice::from_raw_parts_mut(pids, n))) }
}

/// # Safety
/// `nodes` and `pids` have `n` entries, `io` has `iolen`, or they are null.
#[no_mangle]
pub(super) unsafe extern "C" fn _bproc_vrfork_io(
    n: c_int,
    nodes: *mut c_int,
    pids: *mut c_int,
    io: *mut Io,
    iolen: c_int,
    flags: c_int,
) -> c_int {
    let done = || {
        // SAFETY: as is asked for above.
        let ((nodes, pids), plan) = unsafe { (lists(n, nodes, pids)?, io::plan(io, iolen)?) };
        vrfork(&nodes, pids, (&plan, flags), &[])
    };
    called(done)
}

/// # Safety
/// As of [`_bproc_vrfork_io`].
#[no_mangle]
pub(super) unsafe extern "C" fn bproc_vrfork_io(
    n: c_int,
    nodes: *mut c_int,
    pids: *mut c_int,
    io: *mut Io,
    iolen: c_int,
) -> c_int {
    // SAFETY: as is asked for above.
    unsafe { _bproc_vrfork_io(n, nodes, pids, io, iolen, DUMP_DEFAULT) }
}

/// # Safety
/// As of [`_bproc_vrfork_io`].
#[no_mangle]
pub(super) unsafe extern "C" fn _bproc_vrfork(n: c_int, nodes: *mut c_int, pids: *mut c_int, flags: c_int) -> c_int {
    // SAFETY: as is asked for above.
    unsafe { _bproc_vrfork_io(n, nodes, pids, std::ptr::null_mut(), -1, flags) }
}

/// # Safety
/// As of [`_bproc_vrfork_io`].
#[no_mangle]
pub(super) unsafe extern "C" fn bproc_vrfork(n: c_int, nodes: *mut c_int, pids: *mut c_int) -> c_int {
    // SAFETY: as is asked for above.
    unsafe { _bproc_vrfork(n, nodes, pids, DUMP_DEFAULT) }
}
