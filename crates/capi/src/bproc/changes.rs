//! What owners and root change about nodes. Who may is the daemon's to say.

use super::nodes::{daemon, meant, odd, unknown};
use super::text::{bytes, size, text};
use super::types::STATE;
use crate::said::{called, Done, Failed};
use std::ffi::{c_char, c_int, c_void};
use std::time::{Duration, Instant};
use vocab::NodeId;
use wire::ask::{Answer, Ask};
use wire::feed::Happening;
use wire::nodes::{NodeChange, Power, DOWN};

/// How long a node that is to go down may take.
const DOWNWARD: Duration = Duration::from_secs(120);

fn change(node: NodeId, change: NodeChange) -> Done<c_int> {
    match daemon()?.ask(&Ask::ChangeNodes { nodes: vec![node], change }) {
        Ok(Answer::NodesChanged) => Ok(0),
        Ok(other) => Err(odd("ChangeNodes", &other)),
        Err(_) if super::nodes::find(&super::nodes::all()?, node).is_err() => Err(unknown(node)),
        Err(fault) => Err(fault.into()),
    }
}

#[no_mangle]
pub(super) extern "C" fn bproc_chmod(node: c_int, mode: c_int) -> c_int {
    called(|| meant(node).and_then(|node| change(node, NodeChange::Mode(mode as u32))))
}

#[no_mangle]
pub(super) extern "C" fn bproc_chown(node: c_int, user: c_int) -> c_int {
    called(|| meant(node).and_then(|node| change(node, NodeChange::Owner(user as u32))))
}

#[no_mangle]
pub(super) extern "C" fn bproc_chgrp(node: c_int, group: c_int) -> c_int {
    called(|| meant(node).and_then(|node| change(node, NodeChange::Group(group as u32))))
}

/// # Safety
/// `status` is a text, or null.
#[no_mangle]
pub(super) unsafe extern "C" fn bproc_nodesetstatus(node: c_int, status: *mut c_char) -> c_int {
    let done = || {
        // SAFETY: a text, or null.
        let word = unsafe { text(status, "bproc_nodesetstatus") }?;
        if !wire::nodes::is_state(word) {
            let most = STATE - 1;
            return Err(Failed::new(
                libc::EINVAL,
                format!("{word:?} is no state: a letter, then letters, digits and _, {most} at most"),
            ));
        }
        change(meant(node)?, NodeChange::State(word.to_owned()))
    };
    called(done)
}

/// With a null pointer and a size of 0 the node has that attribute no more.
///
/// # Safety
/// `name` is a text, `value` has `length` bytes; or one of them is null.
#[no_mangle]
pub(super) unsafe extern "C" fn bproc_setnodeattr(
    node: c_int,
    name: *mut c_char,
    value: *mut c_void,
    length: c_int,
) -> c_int {
    let done = || {
        // SAFETY: a text, or null.
        let name = unsafe { text(name, "bproc_setnodeattr") }?.to_owned();
        let length = size(length, "bproc_setnodeattr")?;
        let value = match (value.is_null(), length) {
            (true, 0) => None,
            (true, _) => return Err(super::text::null("bproc_setnodeattr")),
            // SAFETY: the caller's, with that many bytes.
            _ => Some(unsafe { std::slice::from_raw_parts(value.cast::<u8>(), length) }.to_vec().into()),
        };
        change(meant(node)?, NodeChange::Attribute { name, value })
    };
    called(done)
}

/// # Safety
/// `path` is a text, or null.
#[no_mangle]
pub(super) unsafe extern "C" fn bproc_nodechroot(node: c_int, path: *mut c_char) -> c_int {
    let done = || {
        // SAFETY: a text, or null.
        let path = unsafe { bytes(path, "bproc_nodechroot") }?.to_vec();
        change(meant(node)?, NodeChange::Chroot(path))
    };
    called(done)
}

/// Returns when the node is down, if `waits`.
fn power(node: c_int, what: Power, waits: bool) -> Done<c_int> {
    let node = meant(node)?;
    let told = waits.then(|| daemon().and_then(|daemon| Ok(daemon.feed_within(DOWNWARD)?))).transpose()?;
    change(node, NodeChange::Power(what))?;
    let (Some(mut told), begun) = (told, Instant::now()) else { return Ok(0) };
    let late = || Failed::new(libc::ETIMEDOUT, format!("node {node} is not down after {} s", DOWNWARD.as_secs()));
    loop {
        match told.hear() {
            Ok(Happening::Node { node: which, state }) if which == node && state == DOWN => return Ok(0),
            Ok(_) if begun.elapsed() > DOWNWARD => return Err(late()),
            Ok(_) => {}
            Err(_) => return Err(late()),
        }
    }
}

#[no_mangle]
pub(super) extern "C" fn bproc_nodereboot(node: c_int) -> c_int {
    called(|| power(node, Power::Reboot, true))
}

#[no_mangle]
pub(super) extern "C" fn bproc_nodehalt(node: c_int) -> c_int {
    called(|| power(node, Power::Halt, true))
}

#[no_mangle]
pub(super) extern "C" fn bproc_nodepwroff(node: c_int) -> c_int {
    called(|| power(node, Power::PowerOff, true))
}

#[no_mangle]
pub(super) extern "C" fn bproc_nodereboot_async(node: c_int) -> c_int {
    called(|| power(node, Power::Reboot, false))
}

#[no_mangle]
pub(super) extern "C" fn bproc_nodehalt_async(node: c_int) -> c_int {
    called(|| power(node, Power::Halt, false))
}

#[no_mangle]
pub(super) extern "C" fn bproc_nodepwroff_async(node: c_int) -> c_int {
    called(|| power(node, Power::PowerOff, false))
}

/// Nodes connect by themselves here: there is nothing that a caller could have them do.
#[no_mangle]
pub(super) extern "C" fn bproc_nodereconnect(
    _node: c_int,
    _rem: *mut libc::sockaddr,
    _remlen: c_int,
    _loc: *mut libc::sockaddr,
    _loclen: c_int,
) -> c_int {
    called(|| {
        Err(Failed::new(
            libc::EOPNOTSUPP,
            "bproc_nodereconnect: nodes of shoal find another way to the front end by themselves",
        ))
    })
}
