//! A process that a signal has stopped, or is about to, and that has something to do all the same: traced, it runs, and is stopped for everybody else.
//!
//! Its parent is not told that it goes on, since it does not: the kernel has it down as stopped (linux: SIGNAL_STOP_STOPPED), whatever its threads do by the leave of a
//! tracer (ptrace(2), "Group-stop"). Whatever stops it meanwhile is told to its parent as ever, and SIGCONT continues it as ever.

use crate::freeze::Frozen;
use kern::proc::PROC;
use kern::ptrace::{self, Halt};
use puppet::{Running, Stopped};
use std::collections::BTreeMap;
use std::path::Path;
use vocab::{Fault, Kind, Pid, Result};

/// See the module. Dropped, it is stopped if it is.
pub struct Roused {
    pid: Pid,
    threads: BTreeMap<Pid, Running>,
    stop: Stop,
}

/// What has become of the stop from which it was roused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stop {
    /// It was not seen stopped.
    Unseen,
    Holds,
    /// A SIGCONT has ended it. That may be gone since: a SIGSTOP throws it out of the queue (linux: `prepare_signal`).
    Over,
    /// Something has stopped it anew, whether or not a SIGCONT came before that.
    Anew,
}

impl Stop {
    /// The table.
    fn next(self, halt: Seen) -> Stop {
        match (self, halt) {
            (_, Seen::Continued) => Stop::Over,
            (Stop::Unseen, Seen::Stopped) => Stop::Holds,
            (Stop::Unseen | Stop::Holds, Seen::Stops) => Stop::Anew,
            (same, _) => same,
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Seen {
    /// It takes a signal that stops it.
    Stops,
    /// It is. One that is stopped begins with this.
    Stopped,
    Continued,
}

/// From now on all threads of the process run, and those that they make. [`Roused::attend`] is to be called whenever SIGCHLD comes.
///
/// # Errors
/// EPERM for who may not trace it or when it is traced already; `Gone`.
pub fn rouse(pid: Pid) -> Result<Roused> {
    let mut roused = Roused { pid, threads: BTreeMap::new(), stop: Stop::Unseen };
    loop {
        let all = crate::proc::numbers_in(pid, "task")?;
        let new: Vec<Pid> = all.into_iter().map(Pid).filter(|tid| !roused.threads.contains_key(tid)).collect();
        if new.is_empty() {
            return Ok(roused);
        }
        for tid in new {
            match Running::seize(tid, true, false) {
                Ok(thread) => drop(roused.threads.insert(tid, thread)),
                // One that was made by one that is traced is traced; of one that has ended there is no trace.
                Err(_) if tid != pid && (traced(tid) || !roused.has(tid)) => {
                    roused.threads.insert(tid, Running::known(tid));
                }
                // It ends, and is gone soon.
                Err(fault) if tid != pid && fault.kind == Kind::Changed => {}
                Err(fault) => return Err(fault),
            }
        }
    }
}

/// By this process.
fn traced(tid: Pid) -> bool {
    let status = std::fs::read_to_string(format!("{PROC}/{tid}/status")).unwrap_or_default();
    let tracer = status.lines().find_map(|line| line.strip_prefix("TracerPid:")?.trim().parse().ok());
    tracer == Some(std::process::id())
}

impl Roused {
    fn has(&self, tid: Pid) -> bool {
        Path::new(&format!("{PROC}/{}/task/{tid}", self.pid)).exists()
    }

    /// Lets those go on that have stopped since the last call.
    pub fn attend(&mut self) {
        while let Ok(Some((tid, halt))) = ptrace::wait_any() {
            let sig = match halt {
                Halt::Signal(sig) => {
                    self.stop = if sig.stops() { self.stop.next(Seen::Stops) } else { self.stop };
                    Some(sig)
                }
                Halt::Group(_) => {
                    self.stop = self.stop.next(Seen::Stopped);
                    None
                }
                // The notice of a SIGCONT, which comes before the next signal is taken (linux: `ptrace_trap_notify`); a new thread begins with one, too.
                Halt::Trap => {
                    self.stop = if tid == self.pid { self.stop.next(Seen::Continued) } else { self.stop };
                    None
                }
                Halt::Event(_) => None,
                // Its parent is to be told by the kernel, and not after us.
                Halt::Exiting => {
                    self.threads.remove(&tid);
                    let _ends_anyway = ptrace::detach(tid, None);
                    continue;
                }
                Halt::Ended(_) => {
                    self.threads.remove(&tid);
                    continue;
                }
            };
            // What it has forked in a way that is traced is its own.
            let done = match self.threads.contains_key(&tid) || self.has(tid) {
                true => ptrace::go_on(tid, sig),
                false => ptrace::detach(tid, sig),
            };
            if done.is_ok() && self.has(tid) {
                self.threads.entry(tid).or_insert_with(|| Running::known(tid));
            }
        }
    }

    /// It was continued, perhaps before this process traced it.
    pub fn went_on(&mut self) {
        self.stop = self.stop.next(Seen::Continued);
    }

    /// It has ended.
    pub fn is_over(&self) -> bool {
        self.threads.is_empty()
    }

    /// All of them stand still.
    ///
    /// # Errors
    /// As [`crate::freeze::freeze`].
    pub fn freeze(self) -> Result<Frozen> {
        self.freeze_as_it_is().map(|(frozen, _)| frozen)
    }

    /// The same; and what has become of its stop.
    ///
    /// # Errors
    /// As [`Roused::freeze`].
    pub fn freeze_as_it_is(mut self) -> Result<(Frozen, Stop)> {
        self.attend();
        let stop = self.stop;
        Frozen::of(self.pid, std::mem::take(&mut self.threads).into_values()).map(|frozen| (frozen, stop))
    }

    /// What is left of it, which has one thread, is to be a vessel: that, and has it been stopped all the while?
    ///
    /// # Errors
    /// `Gone`.
    pub(crate) fn into_vessel(mut self) -> Result<(Stopped, bool)> {
        self.attend();
        let leader = self
            .threads
            .remove(&self.pid)
            .ok_or_else(|| Fault::new(Kind::Gone, format!("process {} has ended", self.pid)))?;
        leader.interrupt()?;
        let leader = leader.stopped()?;
        leader.die_with_tracer(true)?;
        Ok((leader, self.stop == Stop::Holds))
    }

    /// Nobody traces it any more: it is stopped, if it is.
    ///
    /// # Errors
    /// As [`Roused::freeze`].
    pub fn let_go(self) -> Result<()> {
        self.freeze()?.thaw(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stop_holds_until_a_signal_ends_it_or_another_stops_it_anew() {
        for stop in [Stop::Unseen, Stop::Holds, Stop::Over, Stop::Anew] {
            assert_eq!(stop.next(Seen::Continued), Stop::Over);
            assert_eq!(stop.next(Seen::Stopped) == Stop::Holds, matches!(stop, Stop::Unseen | Stop::Holds), "{stop:?}");
            assert_eq!(stop.next(Seen::Stops), if stop == Stop::Over { stop } else { Stop::Anew });
        }
    }
}
