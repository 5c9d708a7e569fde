//! Changes of nodes through their files: each is asked for by a child of the server's that has become the user who makes it, so the daemon learns from the kernel whose it is.
//!
//! The child says how it went, and has nothing else of the server's open: its user may stop it, kill it, and (where fs.suid_dumpable is 1) have it do what they like.

use crate::daemon::connect;
use client::Local;
use kern::clock::monotonic_us;
use kern::ns::{self, Child, Forked, Namespaces};
use kern::proc::Proc;
use kern::{own, pidfd, sched, sys, wait};
use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use vocab::errno::{EAGAIN, EIO, EPERM, ETIMEDOUT};
use vocab::{Fault, Kind, NodeId, Pid, Result, Sig};
use wire::ask::{Answer, Ask};
use wire::nodes::NodeChange;

/// A child has so long, in microseconds; more than the daemon has to answer.
const PATIENCE_US: u64 = 8_000_000;
/// So many of one user are under way at most, and of all.
const MOST_OF_A_USER: usize = 16;
const MOST: usize = 256;

/// The user of a request, as the kernel has it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Asker {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) groups: Vec<u32>,
}

impl Asker {
    /// The thread `tid` has sent the request with these ids, and waits for the answer: nobody else has that number, and its groups are what they were.
    pub(crate) fn of(proc: &Proc, tid: Pid, uid: u32, gid: u32) -> Asker {
        let status = if tid == Pid::NONE { None } else { proc.status(tid).ok() };
        // A request with other ids than the thread's own (io_uring(7), access(2)) gets no groups.
        let creds = status.map(|status| status.creds).filter(|creds| creds.uid.fs == uid && creds.gid.fs == gid);
        Asker { uid, gid, groups: creds.map_or_else(Vec::new, |creds| creds.groups) }
    }
}

/// A change that a user wants of one node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Job {
    pub(crate) unique: u64,
    pub(crate) node: NodeId,
    pub(crate) changes: Vec<NodeChange>,
    /// The request is answered by what the node is then.
    pub(crate) shows: bool,
}

struct Going {
    job: Job,
    uid: u32,
    child: Child,
    /// From the child: the errno, 0 when all is done.
    said: OwnedFd,
    until_us: u64,
}

/// All that are under way, by PID.
#[derive(Default)]
pub(crate) struct Changes {
    all: BTreeMap<Pid, Going>,
}

impl Changes {
    /// # Errors
    /// EAGAIN when so many are under way, or there is no process to be had.
    pub(crate) fn begin(&mut self, socket: &Path, asker: &Asker, job: Job) -> std::result::Result<(), i32> {
        let of_user = self.all.values().filter(|going| going.uid == asker.uid).count();
        if asker.uid != 0 && of_user >= MOST_OF_A_USER || self.all.len() >= MOST {
            return Err(EAGAIN);
        }
        let forked = sys::pipe().and_then(|(said, says)| Ok((said, says, ns::fork(Namespaces::empty())?)));
        match forked {
            Ok((said, _, Forked::Parent(child))) => {
                let until_us = monotonic_us() + PATIENCE_US;
                self.all.insert(child.pid, Going { job, uid: asker.uid, child, said, until_us });
                Ok(())
            }
            Ok((_, says, Forked::Child)) => {
                let errno = change(&says, socket, asker, &job).map_or_else(|fault| errno(&fault), |()| 0);
                // The server takes it for EIO where this does not come.
                let _ = sys::write(says.as_fd(), &errno.to_ne_bytes());
                ns::exit(0)
            }
            Err(fault) => {
                tracing::warn!("{fault}");
                Err(EAGAIN)
            }
        }
    }

    /// Jobs that are over, and their errno; children that have not ended in time are killed.
    pub(crate) fn over(&mut self) -> Vec<(Job, i32)> {
        let mut over = Vec::new();
        while let Ok(Some(waited)) = wait::any() {
            let is_end = matches!(waited.change, wait::Change::Ended(_));
            let Some(going) = is_end.then(|| self.all.remove(&waited.pid)).flatten() else { continue };
            let mut errno = [0; 4];
            // A child that has ended has written all that it ever will.
            let errno = match sys::read(going.said.as_fd(), &mut errno) {
                Ok(4) => i32::from_ne_bytes(errno),
                _ if going.until_us == u64::MAX => ETIMEDOUT,
                _ => EIO,
            };
            over.push((going.job, errno.clamp(0, MOST_ERRNO)));
        }
        let now_us = monotonic_us();
        for going in self.all.values_mut().filter(|going| going.until_us <= now_us) {
            let _ = pidfd::kill(going.child.pidfd.as_fd(), Sig::KILL);
            going.until_us = u64::MAX;
        }
        over
    }

    /// When to look after them at the latest (monotonic).
    pub(crate) fn due_us(&self) -> Option<u64> {
        self.all.values().map(|going| going.until_us).filter(|until_us| *until_us != u64::MAX).min()
    }
}

/// The kernel takes no other from a server (linux: `fuse_dev_do_write`).
const MOST_ERRNO: i32 = 511;

/// In the child.
fn change(says: &OwnedFd, socket: &Path, asker: &Asker, job: &Job) -> Result<()> {
    own::unshare_descriptors([says.as_fd(); 2], false)?;
    become_asker(asker)?;
    sched::set_not_dumpable()?;
    let mut daemon = connect(socket)?;
    job.changes.iter().try_for_each(|change| make(&mut daemon, job.node, change))
}

fn become_asker(asker: &Asker) -> Result<()> {
    match asker.uid {
        0 => Ok(()),
        uid => kern::view::become_user(uid, asker.gid, &asker.groups),
    }
}

fn make(daemon: &mut Local, node: NodeId, change: &NodeChange) -> Result<()> {
    match daemon.ask(&Ask::ChangeNodes { nodes: vec![node], change: change.clone() })? {
        Answer::NodesChanged => Ok(()),
        other => Err(Fault::wire(format!("the daemon answered ChangeNodes with {other:?}"))),
    }
}

fn errno(fault: &Fault) -> i32 {
    match (fault.root_errno(), fault.kind) {
        (0, Kind::Refused) => EPERM,
        (0, _) => EIO,
        (errno, _) => errno,
    }
}
