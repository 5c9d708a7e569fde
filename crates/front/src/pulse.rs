//! Sees to it that the daemon gets a processor in time: a thread that runs before all ordinary ones looks whether the loop goes round, and
//! lets the loop run first too for as long as it would be starved (docs/decisions/daemons-run-first.md).

use kern::others::{scheduling, set_scheduling, Scheduling};
use kern::ran::Share;
use kern::sched;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError, Sender};
use std::sync::Arc;
use std::time::Duration;
use tracing::warn;
use vocab::{Fault, Pid, Result};

/// Between two looks. A front end that is busy with thousands of stand-ins waits its turn for up to 0.3 s, and to run first would double its
/// work: it would take up each message alone.
const TICK: Duration = Duration::from_millis(500);
/// Of a processor, with which the loop was at work, and not waiting, since the last look.
const AT_WORK: Duration = Duration::from_millis(20);
/// Looks for which the loop runs first once it was starved.
const FIRST_FOR: u32 = 4;

/// The rounds of the loop. The thread ends with it.
pub(crate) struct Pulse {
    rounds: Arc<AtomicU64>,
    _until: Sender<()>,
}

impl Pulse {
    /// Looks after the calling thread, which is the process's first.
    ///
    /// # Errors
    /// No right to run before others (CAP_SYS_NICE), or no thread.
    pub(crate) fn start() -> Result<Pulse> {
        let rounds = Arc::new(AtomicU64::new(0));
        let watch = Watch::new(Arc::clone(&rounds))?;
        let (until, over) = channel();
        let (say, said) = channel();
        let body = move || {
            let first = sched::set_fifo();
            let may = first.is_ok();
            // Who started it waits for this.
            let _ = say.send(first);
            if may {
                watch.run(&over);
            }
        };
        let thread = std::thread::Builder::new().name("pulse".into()).spawn(body);
        thread.map_err(|e| Fault::io(&e, "start the thread that watches over the loop"))?;
        said.recv().map_err(|_| Fault::bug("the thread that watches over the loop has ended"))??;
        Ok(Pulse { rounds, _until: until })
    }

    /// The loop goes round.
    pub(crate) fn round(&self) {
        self.rounds.fetch_add(1, Ordering::Relaxed);
    }
}

struct Watch {
    rounds: Arc<AtomicU64>,
    pid: Pid,
    ordinary: Scheduling,
    standing: Standing,
    share: Share,
}

/// How the loop is scheduled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Standing {
    /// It had gone round this often at the last look.
    Ordinary { rounds: u64 },
    /// For so many looks more.
    First { looks: u32 },
}

impl Standing {
    /// What becomes of it at a look, at which the loop has gone round `rounds` times and waits for a processor or not.
    fn next(self, rounds: u64, waiting: bool) -> Standing {
        match self {
            Standing::Ordinary { rounds: before } if before == rounds && waiting => {
                Standing::First { looks: FIRST_FOR }
            }
            Standing::Ordinary { .. } | Standing::First { looks: 0 } => Standing::Ordinary { rounds },
            Standing::First { looks } => Standing::First { looks: looks - 1 },
        }
    }
}

impl Watch {
    fn new(rounds: Arc<AtomicU64>) -> Result<Watch> {
        let pid = Pid(std::process::id() as i32);
        let ordinary = scheduling(pid).map_err(|errno| Fault::sys(errno, "read how the daemon is scheduled"))?;
        let standing = Standing::Ordinary { rounds: u64::MAX };
        Ok(Watch { rounds, pid, ordinary, standing, share: Share::new(pid) })
    }

    fn run(mut self, over: &Receiver<()>) {
        while over.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
            let rounds = self.rounds.load(Ordering::Relaxed);
            let waiting = self.share.starves(AT_WORK);
            let next = self.standing.next(rounds, waiting);
            let done = match (self.standing, next) {
                (Standing::Ordinary { .. }, Standing::First { .. }) => {
                    warn!("Ordinary -> First: ordinary threads wait for {TICK:?} and more on this machine");
                    set_scheduling(self.pid, sched::first(self.ordinary.nice))
                }
                (Standing::First { .. }, Standing::Ordinary { .. }) => set_scheduling(self.pid, self.ordinary),
                _ => Ok(()),
            };
            if let Err(errno) = done {
                warn!(errno, "cannot change how the loop is scheduled");
            }
            self.standing = next;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_runs_first_from_a_look_at_which_it_waited_all_the_time_on() {
        let start = Standing::Ordinary { rounds: 7 };
        assert_eq!(start.next(7, false), start);
        assert_eq!(start.next(8, true), Standing::Ordinary { rounds: 8 });
        assert_eq!(start.next(7, true), Standing::First { looks: FIRST_FOR });
    }

    #[test]
    fn it_is_ordinary_again_after_some_looks() {
        let mut standing = Standing::First { looks: FIRST_FOR };
        for looks in (0..FIRST_FOR).rev() {
            standing = standing.next(9, true);
            assert_eq!(standing, Standing::First { looks });
        }
        assert_eq!(standing.next(9, true), Standing::Ordinary { rounds: 9 });
    }
}
