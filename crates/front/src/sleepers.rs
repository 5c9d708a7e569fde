//! Ghosts of processes that were stopped when they left the front end: they run by the leave of their movers, until they hold, and are stopped in earnest then.

use crate::connection::{Connection, Token};
use crate::front::Front;
use ghost::{Command as Tell, Happened};
use link::beat::Agreed;
use mover::Order;
use space::Event;
use std::collections::HashMap;
use tracing::info;
use vocab::{Pid, Sig};

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Sleepers {
    all: HashMap<Pid, Sleeper>,
}

/// One of them.
#[derive(Debug)]
struct Sleeper {
    mover: Token,
    /// Since when it holds (monotonic).
    holds_us: Option<u64>,
    /// SIGCONT has come to it, and it has not stopped as it was told since.
    continued: bool,
    /// Since when its node says that it runs (monotonic).
    runs_us: Option<u64>,
}

impl Sleeper {
    /// Is its process not going to stop? Its node says so, or has not said anything in time.
    fn runs(&self, holds_us: u64, now: u64, agreed: Agreed) -> bool {
        let said = self.runs_us.is_some_and(|since| now >= since.max(holds_us) + STOPS_US);
        said || now >= holds_us + agreed.lost_us
    }
}

/// What becomes of one that holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Next {
    /// It stops now, as its process is.
    Sleeps,
    /// Its process runs, and so does it.
    Runs,
    /// SIGCONT has come to it, or there is nobody any more for whom it would stop.
    Over,
}

/// A process that was stopped where it was, and runs where it is, stops there within this many microseconds, or does not.
const STOPS_US: u64 = 1_000_000;

impl Sleepers {
    /// What this ghost tells, if it is one.
    pub(crate) fn hears(&mut self, happened: &Happened) {
        let continued = match happened {
            Happened::Signal { info, .. } if info.sig == Sig::CONT => true,
            // It goes on all the same, by the leave of its mover.
            Happened::Done { outcome, .. } if matches!(outcome.command, Tell::Stop(_)) && outcome.ret == 0 => false,
            _ => return,
        };
        self.all.get_mut(&happened.pid()).into_iter().for_each(|one| one.continued = continued);
    }

    /// Its node says whether this process is stopped.
    pub(crate) fn state_is(&mut self, pid: Pid, stopped: bool, now: u64) {
        if let Some(one) = self.all.get_mut(&pid) {
            one.runs_us = (!stopped).then(|| one.runs_us.unwrap_or(now));
        }
    }

    /// Is it known that this ghost is stopped, until it is continued?
    pub(crate) fn knows_stop(&self, pid: Pid) -> bool {
        self.all.get(&pid).is_some_and(|one| !one.continued)
    }

    /// Is any ghost to be looked after?
    pub(crate) fn any(&self) -> bool {
        !self.all.is_empty()
    }
}

impl Front {
    /// Its ghost is stopped: its mover has it run until it holds.
    pub(crate) fn is_roused(&mut self, pid: Pid) {
        if let Some(mover) = self.aways.all.get_mut(&pid).and_then(|one| one.mover.take()) {
            self.sleepers.all.insert(pid, Sleeper { mover, holds_us: None, continued: false, runs_us: None });
        }
    }

    /// Ghosts that hold are stopped in earnest now, or run if their processes do.
    pub(crate) fn roused_go_on(&mut self, now: u64) {
        let mut done = Vec::new();
        let agreed = Agreed::within(self.config.lost_after);
        for (pid, one) in &mut self.sleepers.all {
            if self.ghosts.has(*pid) && !self.ghosts.holds_idle(*pid) {
                continue;
            }
            let since = *one.holds_us.get_or_insert(now);
            let view = self.space.get(*pid);
            let stopped = view.as_ref().is_some_and(|view| view.stopped.is_some());
            let ended = !self.ghosts.has(*pid) || view.is_none_or(|view| view.ended.is_some());
            if ended || one.continued {
                // Taken for stopped, it would be woken when its process is said to go on: a SIGSTOP that has come since would be lost by that.
                done.push((*pid, Next::Over));
            } else if stopped {
                done.push((*pid, Next::Sleeps));
            } else if one.runs(since, now, agreed) {
                done.push((*pid, Next::Runs));
            }
        }
        for (pid, next) in done {
            info!(%pid, ?next, "away: its ghost holds");
            if next == Next::Sleeps {
                self.events.push_back(Event::Sleeps { pid });
                self.settle();
            }
            if let Some(one) = self.sleepers.all.remove(&pid) {
                self.let_sleep(one.mover);
            }
            if next == Next::Runs {
                self.events.push_back(Event::NotStopped { pid });
                self.settle();
                self.wake_ghost(pid);
            }
        }
    }

    /// Its ghost runs by the leave of this mover no more.
    fn let_sleep(&mut self, mover: Token) {
        match self.connections.get_mut(&mover) {
            Some(Connection::Mover(one)) if one.is_inherited() => {
                // One that is gone is told by its line.
                let _ = one.line.send(&Order::Go).and_then(|()| one.line.flush());
            }
            _ => self.close(mover),
        }
    }

    /// The mover of such a ghost is gone. One that was killed before it held tells nothing itself.
    pub(crate) fn rouser_gone(&mut self, mover: Token) {
        let its: Vec<Pid> =
            self.sleepers.all.iter().filter(|(_, one)| one.mover == mover).map(|(pid, _)| *pid).collect();
        for pid in its {
            self.sleepers.all.remove(&pid);
            if self.proc.status(pid).map_or(true, |status| status.ended()) && self.ghosts.unexpect(pid) {
                info!(%pid, "away: its ghost was killed before it held");
                self.events.push_back(Event::Gone { pid });
                self.settle();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn one_that_stops_as_it_was_told_after_it_was_continued_is_stopped() {
        let pid = Pid(7);
        let mut sleepers = Sleepers::default();
        sleepers.all.insert(pid, Sleeper { mover: 1, holds_us: None, continued: false, runs_us: None });
        let continued = Happened::Signal { pid, info: vocab::SigInfo::kill(Sig::CONT, Pid(1), 0) };
        let told =
            |ret| Happened::Done { pid, outcome: ghost::Outcome { command: Tell::Stop(Sig::STOP), ret, out: [0; 4] } };
        sleepers.hears(&continued);
        assert!(!sleepers.knows_stop(pid));
        sleepers.hears(&told(i64::from(-vocab::errno::EAGAIN)));
        assert!(!sleepers.knows_stop(pid), "it has not stopped");
        sleepers.hears(&told(0));
        assert!(sleepers.knows_stop(pid));
    }

    #[test]
    fn its_node_is_waited_for_to_say_whether_it_is_stopped() {
        let agreed = Agreed::within(Duration::from_secs(5));
        let holds_us = 1_000_000;
        let mut one = Sleeper { mover: 1, holds_us: Some(holds_us), continued: false, runs_us: None };
        let late = holds_us + agreed.lost_us;
        assert!(!one.runs(holds_us, late - 1, agreed), "its link may be cut, and it stopped");
        assert!(one.runs(holds_us, late, agreed));
        // Said before it has stopped.
        one.runs_us = Some(holds_us + 10);
        assert!(!one.runs(holds_us, holds_us + 9 + STOPS_US, agreed));
        assert!(one.runs(holds_us, holds_us + 10 + STOPS_US, agreed));
    }
}
