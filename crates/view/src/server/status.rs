//! Counts of requests and of files that nodes keep, for askers at the socket of the run directory.

use super::coherence::Coherence;
use crate::line::lock;
use kern::poll::{poll, Ready};
use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering;
use vocab::{Fault, Result};
use wire::view::{NodeStatus, Status};

/// An asker has so long to take the answer, and the server for giving it.
const TIME_MS: i32 = 5000;
const ROOM: usize = 64 * 1024;

impl Coherence {
    pub(crate) fn status(&self) -> Status {
        let inodes = self.inodes.all();
        let mut kept: HashMap<u32, (u64, u64)> = HashMap::new();
        let mut leases = 0;
        for inode in &inodes {
            let state = lock(&inode.state);
            leases += u64::from(state.lease.is_some());
            for (who, holder) in &state.holders {
                let (files, contents) = kept.entry(*who).or_default();
                *files += 1;
                *contents += u64::from(holder.content);
            }
        }
        let mut nodes: Vec<NodeStatus> = Vec::new();
        for session in self.everybody() {
            let (connected, open) = session.state();
            let (files, contents) = kept.get(&session.who).copied().unwrap_or_default();
            let count = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
            let counts = &session.counts;
            let [on_disk, from_disk, from_nodes] = [0, 1, 2].map(|at| count(&counts.kept[at]));
            nodes.push(NodeStatus {
                node: session.node,
                connected,
                open: open as u64,
                files,
                contents,
                own: count(&counts.own),
                requests: counts.requests(),
                read: count(&counts.read),
                written: count(&counts.written),
                ahead: count(&counts.ahead),
                notices: count(&counts.notices),
                recalls: count(&counts.recalls),
                kept: on_disk,
                from_disk,
                from_nodes,
            });
        }
        nodes.sort_by_key(|one| one.node);
        Status { files: inodes.len() as u64, leases, nodes }
    }
}

/// Says it and closes.
pub(crate) fn say(to: &OwnedFd, status: &Status) -> Result<()> {
    let bytes = minicbor::to_vec(status).map_err(|e| Fault::bug(format!("encode a status: {e}")))?;
    let mut rest = &bytes[..];
    while !rest.is_empty() {
        let writable = Ready { readable: false, writable: true, over: false };
        let _ = poll(&[(to.as_fd(), writable)], TIME_MS);
        let count = kern::sys::write(to.as_fd(), rest).map_err(|errno| Fault::sys(errno, "say a status"))?;
        rest = &rest[count..];
    }
    Ok(())
}

/// Hears what [`say`] says.
pub(crate) fn hear(from: &OwnedFd) -> Result<Status> {
    let (mut bytes, mut room) = (Vec::new(), vec![0; ROOM]);
    loop {
        let _ = poll(&[(from.as_fd(), Ready::READ)], TIME_MS);
        match kern::sys::read(from.as_fd(), &mut room) {
            Ok(0) => break,
            Ok(count) => bytes.extend(&room[..count]),
            Err(errno) => return Err(Fault::sys(errno, "hear what nodes have asked for")),
        }
    }
    minicbor::decode(&bytes).map_err(|e| Fault::wire(format!("the server of files says something else: {e}")))
}
