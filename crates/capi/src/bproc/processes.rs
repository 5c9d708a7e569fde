//! Which processes there are, and where.

use super::nodes::{all, daemon, find, meant, odd};
use super::text::null;
use super::types::{ProcInfo, NODE_ANY};
use super::words;
use crate::said::{called, Done, Failed};
use std::ffi::c_int;
use vocab::{Kind, Pid};
use wire::ask::{Answer, Ask};

/// The node of a process; -1 of one that is not elsewhere.
#[no_mangle]
pub(super) extern "C" fn bproc_pidnode(pid: c_int) -> c_int {
    let node = || {
        if pid <= 0 {
            return Err(Failed::new(words::INVALID_PROC, format!("no process has the number {pid}")));
        }
        match daemon()?.ask(&Ask::Where { pid: Pid(pid) }) {
            Ok(Answer::Where { node, .. }) => Ok(node.0),
            Ok(other) => Err(odd("Where", &other)),
            Err(fault) if fault.kind == Kind::Gone => Err(Failed::new(words::INVALID_PROC, fault.to_string())),
            Err(fault) => Err(fault.into()),
        }
    };
    called(node)
}

/// How many processes there are on a node, or on all (BPROC_NODE_ANY).
#[no_mangle]
pub(super) extern "C" fn bproc_proclist(node: c_int, list: *mut *mut ProcInfo) -> c_int {
    let told = || {
        // SAFETY: null, or the caller's.
        let Some(list) = (unsafe { list.as_mut() }) else { return Err(null("bproc_proclist")) };
        let found = processes(node)?;
        // One byte more: for none it is not null either.
        // SAFETY: a size that is not 0.
        let room = unsafe { libc::malloc(found.len() * size_of::<ProcInfo>() + 1) }.cast::<ProcInfo>();
        if room.is_null() {
            return Err(Failed::new(libc::ENOMEM, format!("room for {} processes", found.len())));
        }
        // SAFETY: there is room for that many.
        unsafe { std::ptr::copy_nonoverlapping(found.as_ptr(), room, found.len()) };
        *list = room;
        Ok(found.len() as c_int)
    };
    called(told)
}

fn processes(node: c_int) -> Done<Vec<ProcInfo>> {
    let wanted = match node {
        NODE_ANY => None,
        node => Some(meant(node)?),
    };
    if let Some(node) = wanted {
        find(&all()?, node)?;
    }
    match daemon()?.ask(&Ask::Ps)? {
        Answer::Ps { rows, .. } => {
            let there = rows.iter().filter(|row| wanted.is_none_or(|node| row.node == node));
            Ok(there.map(|row| ProcInfo { pid: row.pid.0, node: row.node.0 }).collect())
        }
        other => Err(odd("Ps", &other)),
    }
}
