//! The process that goes ahead of who goes through many processes ([`crate::ahead`]).
//!
//! It is a process, not a thread, for the reason that those who bind are ([`crate::binder`]): it waits for who serves.

use crate::binder::{forked, said_within};
use kern::fuse::ahead;
use kern::ns::{self, Child};
use kern::poll::{poll_for, Ready};
use kern::sock::{self, Kind};
use kern::{own, pidfd, sys, wait};
use std::collections::HashMap;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};
use tracing::debug;
use vocab::{Fault, Pid, Result, Sig};

/// How long directories stay open for the next one who looks.
const OPEN: Duration = Duration::from_secs(30);
/// No node is waited for as long.
const PATIENCE: Duration = Duration::from_secs(4);

/// As who tells it where to go knows it.
#[derive(Debug)]
pub(crate) struct Walker {
    line: OwnedFd,
    child: Child,
    /// The number of what it was told last, which it says when it is through.
    last: AtomicU8,
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
            Some(child) => Ok(Walker { line, child, last: AtomicU8::new(0) }),
        }
    }

    pub(crate) fn pid(&self) -> Pid {
        self.child.pid
    }

    /// Goes through the directories of these, each with its node, 0 if the kernel knows none; the missing names are asked for too. False: it does not get on.
    pub(crate) fn goes_through(&self, directories: &[(Pid, u64)], missing: &[Vec<u8>]) -> bool {
        let turn = self.last.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        let numbers = directories.iter().flat_map(|(pid, node)| [pid.0 as u64, *node]).flat_map(u64::to_ne_bytes);
        let names = missing.iter().flat_map(|name| name.iter().copied().chain([0]));
        let packet: Vec<u8> = [turn, directories.len() as u8].into_iter().chain(numbers).chain(names).collect();
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
        let came = poll_for(&[(line.as_fd(), Ready::READ)], (!directories.open.is_empty()).then_some(OPEN));
        if came.is_ok_and(|came| !came[0].readable && !came[0].over) {
            directories.open.clear();
            continue;
        }
        let Ok(length @ 2..) = sys::read(line.as_fd(), &mut packet) else { return };
        let (numbers, names) = packet[2..length].split_at((16 * usize::from(packet[1])).min(length - 2));
        let names: Vec<&[u8]> = names.split(|byte| *byte == 0).filter(|name| !name.is_empty()).collect();
        for pair in numbers.chunks_exact(16) {
            let [pid, node] = [0, 8].map(|at| pair[at..at + 8].try_into().map_or(0, u64::from_ne_bytes));
            // One that is gone is no loss.
            let _ = directories.visit(Pid(pid as i32), node, &names);
        }
        directories.are_read();
        if sock::send(line.as_fd(), &packet[..1]).is_err() {
            return;
        }
        directories.sweep();
    }
}

/// Those in which it has been. They stay open for a while: to open one would be one of two requests.
struct Directories<'a> {
    at: &'a Path,
    /// The root of the tree, once there was need of it.
    root: Option<File>,
    /// Each with its node, and when it was there last.
    open: HashMap<Pid, (File, u64, Instant)>,
    swept: Instant,
}

impl Directories<'_> {
    fn new(at: &Path) -> Directories<'_> {
        Directories { at, root: None, open: HashMap::new(), swept: Instant::now() }
    }

    /// Has the kernel ask for what is known of the names in the directory of this process, which is this node; the first time for those too that are not there.
    fn visit(&mut self, pid: Pid, node: u64, missing: &[&[u8]]) -> Result<()> {
        if let Some((open, _, used)) = self.open.get_mut(&pid).filter(|(_, of, _)| *of == node || node == 0) {
            *used = Instant::now();
            if ahead::names(open.as_fd()).is_ok() {
                return Ok(());
            }
        }
        // That of another one of this number is no use any more.
        self.open.remove(&pid);
        let new = self.opened(pid, node)?;
        ahead::names(new.as_fd()).map_err(|errno| Fault::sys(errno, "ask for the names of a process"))?;
        missing.iter().try_for_each(|name| ahead::name(new.as_fd(), name))?;
        self.open.insert(pid, (new, node, Instant::now()));
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

    /// Nobody comes to those that have ended any more, also if there is always one who looks.
    fn sweep(&mut self) {
        if self.swept.elapsed() >= OPEN {
            self.open.retain(|_, (_, _, used)| used.elapsed() < OPEN);
            self.swept = Instant::now();
        }
    }
}
