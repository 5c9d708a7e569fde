//! What a ghost is as a process of this machine: its kin and its terminal, which are those of the space. Of one that nothing stands for here
//! ([`crate::ghosts::Ghosts::apart`]) its body says so: kin have the same numbers on every machine.

use crate::ghosts::Ghost;
use kern::clock::monotonic_us;
use kern::proc::{group_and_session, root, Proc, PROC};
use std::os::unix::fs::MetadataExt;
use std::sync::{OnceLock, PoisonError};
use vocab::errno::{EIO, ESRCH};
use vocab::Pid;
use wire::entry::SHORT;

/// For so long it is as it was, in microseconds: whoever looks at a process reads several of its files.
const KEPT_US: u64 = 100_000;
/// The terminal of one that has one may put another group into the foreground.
const TERMINAL_US: u64 = 1_000_000;

/// See above.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Here {
    pub(crate) ppid: Pid,
    pub(crate) pgid: Pid,
    pub(crate) sid: Pid,
    pub(crate) tail: Tail,
    at_us: u64,
    tail_us: u64,
}

/// What only stat(5) tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Tail {
    /// The terminal's number, and the group in its foreground.
    pub(crate) terminal: i64,
    pub(crate) foreground: i64,
    /// In clock ticks after boot.
    pub(crate) start: u64,
}

/// The native one.
pub(crate) fn proc() -> std::result::Result<&'static Proc, i32> {
    static OPEN: OnceLock<Option<Proc>> = OnceLock::new();
    OPEN.get_or_init(|| Proc::open(root()).ok()).as_ref().ok_or(EIO)
}

impl Ghost {
    /// As it is now, or was a moment ago.
    ///
    /// # Errors
    /// ESRCH when it is gone.
    pub(crate) fn here(&self) -> std::result::Result<Here, i32> {
        let now = monotonic_us();
        let old = *self.here.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(old) = old.filter(|old| now < old.at_us + KEPT_US) {
            return Ok(old);
        }
        let here = match old.filter(|old| old.tail.terminal == 0 || now < old.tail_us + TERMINAL_US) {
            Some(Here { tail, tail_us, .. }) => {
                let ppid = proc()?.parent(self.pid)?;
                let (pgid, sid) = group_and_session(self.pid).ok_or(ESRCH)?;
                Here { ppid, pgid, sid, tail, at_us: now, tail_us }
            }
            None => Here { at_us: now, tail_us: now, ..self.stat()? },
        };
        *self.here.lock().unwrap_or_else(PoisonError::into_inner) = Some(here);
        match self.is_dead() {
            true => Err(ESRCH),
            false => Ok(here),
        }
    }

    /// Is nothing more to be said of it? Of one that has ended there is until it has been waited for: it has no memory, and nobody has its number.
    pub(crate) fn is_dead(&self) -> bool {
        let is_zombie =
            || !self.apart && proc().and_then(|proc| proc.status(self.pid)).is_ok_and(|status| status.ended());
        self.is_gone() && !is_zombie()
    }

    /// Though nobody stands for it on this node but for kin: is what does so to be shown to thread `asker`? It has ended and waits to be waited for, or asks itself.
    pub(crate) fn is_for_itself(&self, asker: Pid) -> bool {
        let native = |pid: Pid| proc().and_then(|proc| proc.status(pid));
        let Some(here) = self.apart.then(|| native(self.pid).ok()).flatten() else { return false };
        here.ended() || asker == self.pid || native(asker).is_ok_and(|asker| asker.tgid == self.pid)
    }

    /// Whose process it is.
    ///
    /// # Errors
    /// As [`Ghost::here`].
    pub(crate) fn owner_here(&self) -> std::result::Result<(u32, u32), i32> {
        let owner = proc()?.owner(self.pid, "")?;
        if self.is_dead() {
            Err(ESRCH)
        } else {
            Ok(owner)
        }
    }

    /// Whose its own files are that only those may read who may trace it.
    ///
    /// # Errors
    /// As [`Ghost::here`].
    pub(crate) fn files_here(&self) -> std::result::Result<(u32, u32), i32> {
        let owner = proc()?.owner(self.pid, "stat")?;
        if self.is_dead() {
            Err(ESRCH)
        } else {
            Ok(owner)
        }
    }

    /// Does it execute this program, by which its memory is only its own?
    pub(crate) fn is_a_shoal_run(&self) -> bool {
        if self.apart {
            return false;
        }
        let exe = |of: &str| std::fs::metadata(format!("{PROC}/{of}/exe")).map(|file| (file.dev(), file.ino())).ok();
        let own = exe("self");
        own.is_some() && exe(&self.pid.to_string()) == own && !self.is_dead()
    }

    /// It is not as it was.
    pub(crate) fn stirs(&self) {
        if let Some(here) = self.here.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            here.at_us = 0;
            // A group or session of its own may be in the foreground, or have no terminal.
            here.tail_us = 0;
        }
    }

    /// All of it at once, which takes longer. Of a process that executes a program it may not be readable for as long as its user likes, but this one is held by the
    /// daemon, or gone.
    fn stat(&self) -> std::result::Result<Here, i32> {
        if self.is_dead() {
            return Err(ESRCH);
        }
        let mut text = [0; SHORT];
        Here::of_stat(proc()?.read_record(self.pid, "stat", &mut text)?).ok_or(EIO)
    }
}

impl Here {
    /// As the stat of a ghost says, or of a body.
    pub(crate) fn of_stat(stat: &[u8]) -> Option<Here> {
        let close = stat.iter().rposition(|byte| *byte == b')')?;
        let rest = std::str::from_utf8(stat.get(close + 2..)?).ok()?;
        let mut kin = rest.split_ascii_whitespace().skip(1).map(|field| field.parse().map(Pid));
        let mut next = || kin.next()?.ok();
        Some(Here { ppid: next()?, pgid: next()?, sid: next()?, tail: Tail::of(stat)?, ..Here::default() })
    }
}

impl Tail {
    fn of(stat: &[u8]) -> Option<Tail> {
        let close = stat.iter().rposition(|byte| *byte == b')')?;
        let rest = std::str::from_utf8(stat.get(close + 2..)?).ok()?;
        // They are counted from 1 (proc_pid_stat(5)), and the first here is the third.
        let mut fields = rest.split_ascii_whitespace().skip(4);
        let (terminal, foreground) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
        let start = fields.nth(13)?.parse().ok()?;
        Some(Tail { terminal, foreground, start })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ghosts::Ghosts;
    use vocab::NodeId;

    #[test]
    fn kin_and_start_are_the_processes() {
        let (ghosts, me) = (Ghosts::default(), Pid(std::process::id() as i32));
        ghosts.stand(me, NodeId(0));
        let ghost = ghosts.get(me).expect("it stands");
        let stat = Proc::open("/proc").expect("procfs").stat(me).expect("I live");
        let here = ghost.here().expect("I live");
        assert_eq!((here.ppid, here.pgid, here.sid, here.tail.start), (stat.ppid, stat.pgid, stat.sid, stat.start));
        assert_eq!(ghost.owner_here(), Proc::open("/proc").expect("procfs").owner(me, "stat"));
        ghosts.gone(me);
        ghost.stirs();
        assert_eq!(ghost.here().map(|_| ()), Err(ESRCH));
    }

    #[test]
    fn one_that_has_ended_is_there_until_it_was_waited_for() {
        let mut child = std::process::Command::new("true").spawn().expect("true");
        let (ghosts, pid) = (Ghosts::default(), Pid(child.id() as i32));
        ghosts.stand(pid, NodeId(0));
        let ghost = ghosts.gone(pid).expect("it stood");
        while !Proc::open("/proc").expect("procfs").status(pid).expect("a child").ended() {
            std::thread::yield_now();
        }
        assert!(!ghost.is_dead() && ghost.here().is_ok());
        child.wait().expect("a child");
        assert!(ghost.is_dead());
    }

    #[test]
    fn the_end_of_a_stat_is_read() {
        let stat = b"12 (a) b) S 2 12 13 34816 77 4194304 1 0 0 0 7 8 0 0 20 -5 6 0 55 1000 12\n";
        assert_eq!(Tail::of(stat), Some(Tail { terminal: 34816, foreground: 77, start: 55 }));
        let body = Here::of_stat(stat).expect("whole");
        assert_eq!((body.ppid, body.pgid, body.sid, body.tail.start), (Pid(2), Pid(12), Pid(13), 55));
        assert_eq!(Tail::of(b"12 (a) S 2"), None);
    }
}
