//! The process that goes ahead of who goes through many processes ([`crate::ahead`]).
//!
//! It is a process, not a thread, for the reason that those who bind are ([`crate::binder`]): it waits for who serves.

use crate::binder::{forked, said_within};
use kern::fuse::tree::ask_for_names;
use kern::ns::{self, Child};
use kern::poll::{poll_for, Ready};
use kern::sock::{self, Kind};
use kern::{own, pidfd, sys, wait};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};
use tracing::debug;
use vocab::{Pid, Result, Sig};

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

    /// Goes through these, of which the missing names are asked for too; false: it does not get on.
    pub(crate) fn goes_through(&self, pids: &[Pid], missing: &[Vec<u8>]) -> bool {
        let turn = self.last.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        let numbers = pids.iter().flat_map(|pid| pid.0.to_ne_bytes());
        let names = missing.iter().flat_map(|name| name.iter().copied().chain([0]));
        let packet: Vec<u8> = [turn, pids.len() as u8].into_iter().chain(numbers).chain(names).collect();
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

/// Goes where it is told to until nobody tells it any more. The directories stay open for a while: to open and close them would be two of three requests.
fn walk(line: &OwnedFd, at: &Path) {
    let (mut packet, mut open, mut swept) = ([0; 4096], HashMap::new(), Instant::now());
    if let Err(fault) = own::raise_files() {
        debug!(%fault, "few directories stay open");
    }
    loop {
        let came = poll_for(&[(line.as_fd(), Ready::READ)], (!open.is_empty()).then_some(OPEN));
        if came.is_ok_and(|came| !came[0].readable && !came[0].over) {
            open.clear();
            continue;
        }
        let Ok(length @ 2..) = sys::read(line.as_fd(), &mut packet) else { return };
        let (numbers, names) = packet[2..length].split_at((4 * usize::from(packet[1])).min(length - 2));
        for number in numbers.chunks_exact(4) {
            let pid = i32::from_ne_bytes([number[0], number[1], number[2], number[3]]);
            let directory = at.join(pid.to_string());
            // That of another one of this number is no use any more.
            let asks = |(open, used): &mut (File, Instant)| {
                *used = Instant::now();
                ask_for_names(open.as_fd()).is_err()
            };
            if open.get_mut(&pid).is_none_or(asks) {
                open.remove(&pid);
                // One that is gone is no loss.
                let Ok(new) = File::open(&directory) else { continue };
                if ask_for_names(new.as_fd()).is_err() {
                    continue;
                }
                open.insert(pid, (new, Instant::now()));
                for name in names.split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
                    let _ = std::fs::symlink_metadata(directory.join(OsStr::from_bytes(name)));
                }
            }
        }
        if sock::send(line.as_fd(), &packet[..1]).is_err() {
            return;
        }
        // Nobody comes to those that have ended any more, also if there is always one who looks.
        if swept.elapsed() >= OPEN {
            open.retain(|_, (_, used)| used.elapsed() < OPEN);
            swept = Instant::now();
        }
    }
}
