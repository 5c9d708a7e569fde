//! What is known of nodes, and a descriptor that tells when that changes.

use super::text::{null, put, size, text};
use super::types::{NodeInfo, NodeSet, NODE_SELF, STATE, X_OK};
use super::words;
use crate::said::{self, called, Done, Failed};
use local::{socket_path, Local};
use std::ffi::{c_char, c_int, c_void};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, IntoRawFd};
use vocab::{Fault, NodeId, Pid};
use wire::ask::{Answer, Ask};
use wire::nodes::{NodeInfo as Known, ADDRESS_NAME, STATE_NAME, UNAVAILABLE, UP};

pub(super) fn daemon() -> Done<Local> {
    Ok(Local::connect(&socket_path())?)
}

/// An answer of another kind than the question.
pub(super) fn odd(asked: &str, answer: &Answer) -> Failed {
    Fault::wire(format!("the daemon answered {asked} with {answer:?}")).into()
}

/// The front end, and all nodes by number.
pub(super) fn all() -> Done<Vec<Known>> {
    match daemon()?.ask(&Ask::NodeInfos)? {
        Answer::NodeInfos(all) => Ok(all),
        other => Err(odd("NodeInfos", &other)),
    }
}

/// Where the caller runs.
pub(super) fn here() -> Done<NodeId> {
    match daemon()?.ask(&Ask::Where { pid: Pid::NONE })? {
        Answer::Where { node, .. } => Ok(node),
        other => Err(odd("Where", &other)),
    }
}

/// The node that a program means by this number.
pub(super) fn meant(node: c_int) -> Done<NodeId> {
    if node == NODE_SELF {
        return here();
    }
    Ok(NodeId(node))
}

pub(super) fn unknown(node: NodeId) -> Failed {
    Failed::new(words::INVALID_NODE, format!("there is no node {node}"))
}

pub(super) fn find(all: &[Known], node: NodeId) -> Done<&Known> {
    all.iter().find(|known| known.node == node).ok_or_else(|| unknown(node))
}

fn known(node: c_int) -> Done<Known> {
    let node = meant(node)?;
    find(&all()?, node).cloned()
}

/// May the caller start programs there, or move there? The daemon asks the same, whatever is found here; this finds the errno that programs know.
pub(super) fn may_enter(known: &Known) -> Done<()> {
    // SAFETY: they take nothing.
    let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
    let groups = groups()?;
    let bit = match () {
        () if user == known.uid => 0o100,
        () if group == known.gid || groups.contains(&known.gid) => 0o010,
        () => 0o001,
    };
    let Known { node, mode, .. } = known;
    if user != 0 && mode & bit == 0 {
        return Err(Failed::new(libc::EACCES, format!("node {node} has mode {mode:03o}, which does not let you in")));
    }
    Ok(())
}

/// The supplementary ones of the caller.
fn groups() -> Done<Vec<libc::gid_t>> {
    // SAFETY: with a size of 0 it only counts.
    let count = unsafe { libc::getgroups(0, std::ptr::null_mut()) };
    let mut groups = vec![0; usize::try_from(count).unwrap_or(0)];
    // SAFETY: the array is as long as is said.
    match unsafe { libc::getgroups(groups.len() as c_int, groups.as_mut_ptr()) } {
        got if got >= 0 => {
            groups.truncate(got as usize);
            Ok(groups)
        }
        _ => Err(Failed::last("read one's groups")),
    }
}

/// Is it up, and may the caller enter it?
pub(super) fn enterable(all: &[Known], node: NodeId) -> Done<()> {
    let known = find(all, node)?;
    // One that says nothing for a moment may well take what comes: whoever goes there learns that.
    if !node.is_front() && known.state != UP && known.state != UNAVAILABLE {
        return Err(Failed::new(words::NODE_DOWN, format!("node {node} is {}", known.state)));
    }
    may_enter(known)
}

/// Number of bytes, 0 for an address that C has no room for here.
fn socket_address(address: &str) -> (libc::sockaddr_storage, usize) {
    // SAFETY: an address of no family, which is all zeroes.
    let mut storage: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
    let Ok(parsed) = address.parse::<SocketAddr>() else { return (storage, size_of::<libc::sockaddr>()) };
    match parsed {
        SocketAddr::V4(v4) => {
            // SAFETY: the storage has room for addresses of all families, and alignment for all.
            let at = unsafe { &mut *(&raw mut storage).cast::<libc::sockaddr_in>() };
            at.sin_family = libc::AF_INET as libc::sa_family_t;
            at.sin_port = v4.port().to_be();
            at.sin_addr.s_addr = u32::from_ne_bytes(v4.ip().octets());
            (storage, size_of::<libc::sockaddr_in>())
        }
        SocketAddr::V6(v6) => {
            // SAFETY: as above.
            let at = unsafe { &mut *(&raw mut storage).cast::<libc::sockaddr_in6>() };
            at.sin6_family = libc::AF_INET6 as libc::sa_family_t;
            at.sin6_port = v6.port().to_be();
            at.sin6_addr.s6_addr = v6.ip().octets();
            (storage, size_of::<libc::sockaddr_in6>())
        }
    }
}

/// As C has it. An address of IPv6 has no room in it: its family is AF_UNSPEC, and bproc_nodeaddr has it.
pub(super) fn in_c(known: &Known) -> NodeInfo {
    let mut status = [0; STATE];
    put(&mut status, &known.state);
    let (storage, length) = socket_address(&known.address);
    let fits = length <= size_of::<libc::sockaddr>();
    // SAFETY: an address of no family is all zeroes; the storage is larger, and any bytes are an address.
    let addr = unsafe {
        if fits {
            std::mem::transmute_copy(&storage)
        } else {
            std::mem::zeroed()
        }
    };
    NodeInfo {
        node: known.node.0,
        status,
        mode: known.mode,
        user: known.uid,
        group: known.gid,
        addr,
        atime: known.atime,
        mtime: known.mtime,
    }
}

/// Without the front end.
pub(super) fn nodes_alone() -> Done<Vec<NodeInfo>> {
    Ok(all()?.iter().filter(|known| !known.node.is_front()).map(in_c).collect())
}

#[no_mangle]
pub(super) extern "C" fn bproc_numnodes() -> c_int {
    called(|| nodes_alone().map(|nodes| nodes.len() as c_int))
}

/// -1 is the front end; so is a failure, with errno.
#[no_mangle]
pub(super) extern "C" fn bproc_currnode() -> c_int {
    said::undisturbed(|| here().map(|node| node.0))
}

/// # Safety
/// `status` has room for `len` bytes, or is null.
#[no_mangle]
pub(super) unsafe extern "C" fn bproc_nodestatus(node: c_int, status: *mut c_char, len: c_int) -> c_int {
    let told = || {
        let room = size(len, "bproc_nodestatus")?;
        if status.is_null() || room == 0 {
            return Err(null("bproc_nodestatus"));
        }
        let known = known(node)?;
        // SAFETY: the caller's, with that much room.
        put(unsafe { std::slice::from_raw_parts_mut(status, room) }, &known.state);
        Ok(0)
    };
    called(told)
}

/// # Safety
/// `addr` has room for `*size` bytes; or one of them is null.
#[no_mangle]
pub(super) unsafe extern "C" fn bproc_nodeaddr(node: c_int, addr: *mut libc::sockaddr, length: *mut c_int) -> c_int {
    let told = || {
        // SAFETY: null, or the caller's.
        let Some(length) = (unsafe { length.as_mut() }) else { return Err(null("bproc_nodeaddr")) };
        if addr.is_null() {
            return Err(null("bproc_nodeaddr"));
        }
        let room = size(*length, "bproc_nodeaddr")?;
        let (storage, whole) = socket_address(&known(node)?.address);
        // SAFETY: the caller's, with that much room; the storage is longer.
        unsafe { std::ptr::copy_nonoverlapping((&raw const storage).cast::<u8>(), addr.cast::<u8>(), room.min(whole)) };
        *length = whole as c_int;
        Ok(0)
    };
    called(told)
}

#[no_mangle]
pub(super) extern "C" fn bproc_nodeinfo(node: c_int, info: *mut NodeInfo) -> c_int {
    let told = || {
        // SAFETY: null, or the caller's.
        let Some(info) = (unsafe { info.as_mut() }) else { return Err(null("bproc_nodeinfo")) };
        *info = in_c(&known(node)?);
        Ok(0)
    };
    called(told)
}

fn list(nodes: *mut NodeSet) -> Done<c_int> {
    // SAFETY: null, or the caller's; what was in it before does not count.
    let Some(set) = (unsafe { nodes.as_mut() }) else { return Err(null("bproc_nodelist")) };
    let all = nodes_alone()?;
    set.begin(all.len())?;
    set.extend(&all)?;
    Ok(set.size)
}

#[no_mangle]
pub(super) extern "C" fn bproc_nodelist(nodes: *mut NodeSet) -> c_int {
    called(|| list(nodes))
}

/// `fd` is a descriptor of [`bproc_notifier`].
#[no_mangle]
pub(super) extern "C" fn bproc_nodelist_(nodes: *mut NodeSet, fd: c_int) -> c_int {
    called(|| heard(fd).and_then(|()| list(nodes)))
}

/// How long the value is; with a size of 0 nothing is written.
///
/// # Safety
/// `name` is a text, `value` has room for `room` bytes; or one of them is null.
#[no_mangle]
pub(super) unsafe extern "C" fn bproc_getnodeattr(
    node: c_int,
    name: *mut c_char,
    value: *mut c_void,
    room: c_int,
) -> c_int {
    let told = || {
        let room = size(room, "bproc_getnodeattr")?;
        // SAFETY: a text, or null.
        let name = unsafe { text(name, "bproc_getnodeattr") }?;
        let known = known(node)?;
        let found = match name {
            STATE_NAME => Some(known.state.as_bytes()),
            ADDRESS_NAME => Some(known.address.as_bytes()),
            _ => known.attributes.iter().find(|(had, _)| had == name).map(|(_, value)| &value[..]),
        };
        let none = || Failed::new(libc::ENODATA, format!("node {} has no attribute {name}", known.node));
        let found = found.ok_or_else(none)?;
        match room {
            0 => {}
            _ if value.is_null() => return Err(null("bproc_getnodeattr")),
            room if room < found.len() => {
                return Err(Failed::new(libc::ERANGE, format!("{name} has {} bytes, more than {room}", found.len())))
            }
            // SAFETY: the caller's, with at least that much room.
            _ => unsafe { std::ptr::copy_nonoverlapping(found.as_ptr(), value.cast::<u8>(), found.len()) },
        }
        Ok(found.len() as c_int)
    };
    called(told)
}

#[no_mangle]
pub(super) extern "C" fn bproc_access(node: c_int, mode: c_int) -> c_int {
    let told = || match (mode, known(node)?) {
        (0, _) => Ok(0),
        (X_OK, known) => may_enter(&known).map(|()| 0),
        _ => Err(Failed::new(libc::EINVAL, format!("bproc_access: a mode of {mode}"))),
    };
    called(told)
}

/// A connection to the daemon, on which that tells of each change.
#[no_mangle]
pub(super) extern "C" fn bproc_notifier() -> c_int {
    called(|| notifier().map(IntoRawFd::into_raw_fd))
}

fn notifier() -> Done<std::os::fd::OwnedFd> {
    let mut daemon = daemon()?;
    match daemon.ask(&Ask::Feed)? {
        Answer::Feed(wire::feed::Happening::Listening) => Ok(daemon.into()),
        other => Err(odd("Feed", &other)),
    }
}

/// Takes all that it has told by now. One that the daemon has closed, since nobody has heard it for long or since the daemon was started anew, is connected again.
fn heard(fd: c_int) -> Done<()> {
    let mut piece = [0u8; 16 * 1024];
    loop {
        // SAFETY: the array is as long as is said.
        let got = unsafe { libc::recv(fd, piece.as_mut_ptr().cast(), piece.len(), libc::MSG_DONTWAIT) };
        match got {
            1.. => {}
            0 => return connected_again(fd),
            _ => match Failed::last(format!("hear the notifier {fd}")) {
                Failed { errno: libc::EAGAIN, .. } => return Ok(()),
                Failed { errno: libc::EINTR, .. } => {}
                Failed { errno: libc::ECONNRESET, .. } => return connected_again(fd),
                failed => return Err(failed),
            },
        }
    }
}

fn connected_again(fd: c_int) -> Done<()> {
    let new = notifier()?;
    // SAFETY: numbers of descriptors.
    match unsafe { libc::dup3(new.as_raw_fd(), fd, libc::O_CLOEXEC) } {
        -1 => Err(Failed::last("connect the notifier again")),
        _ => Ok(()),
    }
}
