//! The process that goes ahead of who goes through many processes ([`crate::ahead`]).
//!
//! It is a process, not a thread, for the reason that those who bind are ([`crate::binder`]): it waits for who serves.

use crate::binder::{forked, said_within};
use crate::guide::IDLE;
use kern::fuse::ahead;
use kern::ns::{self, Child};
use kern::others::{scheduling, set_scheduling, Scheduling};
use kern::poll::{poll_for, Ready};
use kern::sock::{self, Kind};
use kern::{own, pidfd, sys, wait};
use std::collections::HashMap;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::{Duration, Instant};
use tracing::debug;
use vocab::{Fault, Pid, Result, Sig};

/// How long directories stay open for the next one who looks.
const OPEN: Duration = Duration::from_secs(30);
/// No node is waited for as long.
const PATIENCE: Duration = Duration::from_secs(4);

/// Bytes of a packet before the numbers.
const HEAD: usize = 3;
/// What it is told, in the second byte of a packet: the directories of these are to be read, are to be read once and stay open, or are not to be open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Errand {
    Reads,
    Learns,
    Leaves,
}
const LEARNS: u8 = Errand::Learns as u8;
const LEAVES: u8 = Errand::Leaves as u8;

/// As who tells it where to go knows it.
#[derive(Debug)]
pub(crate) struct Walker {
    line: OwnedFd,
    child: Child,
    /// The number of what it was told last, which it says when it is through.
    last: AtomicU8,
    /// How it is scheduled as it begins, and whether it has nothing to do but what can wait.
    ordinary: Scheduling,
    waits: AtomicBool,
}

impl Walker {
    /// Starts it, for the tree that will be mounted at `at`, from a process that has one thread, and no tree.
    ///
    /// # Errors
    /// As [`ns::fork`].
    pub(crate) fn start(at: &Path) -> Result<Walker> {
        let (line, its) = sock::socketpair(Kind::SeqPacket)?;
        match forked("shoal:ahead")? {
            None => {
                drop(line);
                walk(&its, at);
                ns::exit(0);
            }
            Some(child) => {
                let ordinary = scheduling(child.pid).unwrap_or_default();
                Ok(Walker { line, child, last: AtomicU8::new(0), ordinary, waits: AtomicBool::new(false) })
            }
        }
    }

    pub(crate) fn pid(&self) -> Pid {
        self.child.pid
    }

    /// What it does can wait, or cannot any longer.
    pub(crate) fn may_wait(&self, may: bool) {
        if self.waits.swap(may, Ordering::Relaxed) != may {
            // If it has ended there is nothing to be scheduled.
            let _ = set_scheduling(self.child.pid, if may { IDLE } else { self.ordinary });
        }
    }

    /// Goes through the directories of these, each with its node, 0 if the kernel knows none; the missing names are asked for too. False: it does not get on.
    pub(crate) fn goes_through(&self, errand: Errand, directories: &[(Pid, u64)], missing: &[Vec<u8>]) -> bool {
        let turn = self.last.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        let numbers = directories.iter().flat_map(|(pid, node)| [pid.0 as u64, *node]).flat_map(u64::to_ne_bytes);
        let names = missing.iter().flat_map(|name| name.iter().copied().chain([0]));
        let packet: Vec<u8> =
            [turn, errand as u8, directories.len() as u8].into_iter().chain(numbers).chain(names).collect();
        if sock::send(self.line.as_fd(), &packet).is_err() {
            return false;
        }
        loop {
            match said_within(self.line.as_fd(), &mut [0], PATIENCE) {
                Ok([said]) if *said == turn => return true,
                // Of one before, for which nobody has waited any longer.
                Ok(_) => {}
                Err(_) => return false,
            }
        }
    }

    /// Ends it, while somebody serves the tree still.
    pub(crate) fn end(&self) {
        // Ended already is as good.
        let _ = pidfd::kill(self.child.pidfd.as_fd(), Sig::KILL);
        let _ = wait::ended(self.child.pid);
    }
}

/// Goes where it is told to until nobody tells it any more.
fn walk(line: &OwnedFd, at: &Path) {
    if let Err(fault) = own::raise_files() {
        debug!(%fault, "few directories stay open");
    }
    let (mut packet, mut directories) = ([0; 4096], Directories::new(at));
    loop {
        let came = poll_for(&[(line.as_fd(), Ready::READ)], directories.passing.then_some(OPEN));
        if came.is_ok_and(|came| !came[0].readable && !came[0].over) {
            directories.sweep(Duration::ZERO);
            continue;
        }
        let Ok(length @ HEAD..) = sys::read(line.as_fd(), &mut packet) else { return };
        let (numbers, names) = packet[HEAD..length].split_at((16 * usize::from(packet[2])).min(length - HEAD));
        let names: Vec<&[u8]> = names.split(|byte| *byte == 0).filter(|name| !name.is_empty()).collect();
        for pair in numbers.chunks_exact(16) {
            let [pid, node] = [0, 8].map(|at| pair[at..at + 8].try_into().map_or(0, u64::from_ne_bytes));
            let pid = Pid(pid as i32);
            match packet[1] {
                LEAVES => drop(directories.open.remove(&pid)),
                // One that is gone is no loss.
                kind => drop(directories.visit(pid, node, &names, kind == LEARNS)),
            }
        }
        if packet[1] != LEAVES {
            directories.are_read();
        }
        if sock::send(line.as_fd(), &packet[..1]).is_err() {
            return;
        }
        if directories.swept.elapsed() >= OPEN {
            directories.sweep(OPEN);
        }
    }
}

/// Those in which it has been. They stay open for a while, or until it is told that they are not needed: to open one would be one of two requests.
struct Directories<'a> {
    at: &'a Path,
    /// The root of the tree, once there was need of it.
    root: Option<File>,
    open: HashMap<Pid, Open>,
    /// There may be some that do not stay.
    passing: bool,
    swept: Instant,
}

/// One of them, which is this node; when it was there last.
struct Open {
    file: File,
    node: u64,
    used: Instant,
    stays: bool,
}

impl Directories<'_> {
    fn new(at: &Path) -> Directories<'_> {
        Directories { at, root: None, open: HashMap::new(), passing: false, swept: Instant::now() }
    }

    /// Has the kernel ask for what is known of the names in the directory of this process, which is this node; the first time for those too that are not there.
    fn visit(&mut self, pid: Pid, node: u64, missing: &[&[u8]], learns: bool) -> Result<()> {
        if let Some(open) = self.open.get_mut(&pid).filter(|open| open.node == node || node == 0) {
            (open.used, open.stays) = (Instant::now(), open.stays || learns);
            if learns || ahead::names(open.file.as_fd()).is_ok() {
                return Ok(());
            }
        }
        // That of another one of this number is no use any more.
        self.open.remove(&pid);
        let file = self.opened(pid, node)?;
        ahead::names(file.as_fd()).map_err(|errno| Fault::sys(errno, "ask for the names of a process"))?;
        missing.iter().try_for_each(|name| ahead::name(file.as_fd(), name))?;
        self.passing |= !learns;
        self.open.insert(pid, Open { file, node, used: Instant::now(), stays: learns });
        Ok(())
    }

    fn opened(&mut self, pid: Pid, node: u64) -> Result<File> {
        let opened = |path: &Path| File::open(path).map_err(|e| Fault::io(&e, "open a directory of the tree"));
        if node == 0 {
            return opened(&self.at.join(pid.to_string()));
        }
        let root = match self.root.take() {
            Some(root) => root,
            None => opened(self.at)?,
        };
        ahead::open_node(self.root.insert(root).as_fd(), node)
    }

    /// That a directory was read has changed its attributes (linux: `fuse_invalidate_atime`): the kernel asks for those of all to which it went, in one request.
    fn are_read(&self) {
        let _ = self.root.as_ref().map(|root| ahead::names(root.as_fd()));
    }

    /// Those in which it has not been for so long are closed, unless they stay: nobody comes to those that have ended any more.
    fn sweep(&mut self, unused: Duration) {
        self.open.retain(|_, open| open.stays || open.used.elapsed() < unused);
        self.passing = self.open.values().any(|open| !open.stays);
        self.swept = Instant::now();
    }
}
