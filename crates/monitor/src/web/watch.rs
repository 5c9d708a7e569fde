//! What the page shows: kept by two threads that ask the daemon, one for samples and one for what happens.

use crate::people;
use crate::picture::{Picture, Process, Sample};
use crate::source::{self, Told};
use crate::tree::forest;
use client::Local;
use kern::poll::poll_for;
use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use wire::feed::Happening;

/// Between two samples.
const INTERVAL: Duration = Duration::from_secs(1);
/// The same while nobody has looked for some time: who looks after that waits for no more than the daemon's answer.
const SELDOM: Duration = Duration::from_secs(10);
/// So many things that have happened are kept.
const KEPT: usize = 100;
/// So many processes are shown; a page of more is of no use. Those that use most are among them.
pub(crate) const SHOWN: usize = 1000;

/// Something that has happened, and when (milliseconds since 1970).
#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) number: u64,
    pub(crate) at_ms: u64,
    pub(crate) what: Happening,
    /// The command of the process, as far as it is known.
    pub(crate) command: String,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) picture: Picture,
    pub(crate) events: VecDeque<Event>,
    pub(crate) moved: u64,
    pub(crate) stayed: u64,
    pub(crate) away: Option<String>,
    pub(crate) people: HashMap<u32, String>,
    last_event: u64,
    looked: Option<Instant>,
}

/// What all threads share.
#[derive(Clone)]
pub(crate) struct Watch {
    seen: Arc<Mutex<Seen>>,
    wake: Sender<()>,
}

impl Watch {
    /// Asks the daemon at `socket` from now on.
    pub(crate) fn begin(socket: PathBuf) -> Watch {
        let (wake, woken) = channel();
        let seen = Seen { people: people::here(), ..Seen::default() };
        let watch = Watch { seen: Arc::new(Mutex::new(seen)), wake };
        let (samples, happenings, feed) = (watch.clone(), watch.clone(), socket.clone());
        thread::spawn(move || samples.sample_for_ever(&socket, &woken));
        thread::spawn(move || happenings.listen_for_ever(&feed));
        watch
    }

    /// What is seen; whoever has it lets go of it soon.
    pub(crate) fn seen(&self) -> MutexGuard<'_, Seen> {
        // A thread that has panicked has ended the process.
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Somebody looks: samples are taken more often.
    pub(crate) fn looked(&self) {
        let idle = self.seen().looked.replace(Instant::now()).is_none_or(|last| last.elapsed() > SELDOM);
        if idle {
            let _ = self.wake.send(());
        }
    }

    fn sample_for_ever(&self, socket: &Path, woken: &Receiver<()>) {
        let seldom = || match self.seen().looked {
            Some(last) if last.elapsed() <= SELDOM => INTERVAL,
            _ => SELDOM,
        };
        source::ask_for_ever(socket, seldom, woken, |told| {
            let mut seen = self.seen();
            match told {
                Told::Sample(sample) => seen.take(sample),
                Told::Away(fault) => seen.away = Some(fault.to_string()),
            }
            true
        });
    }

    fn listen_for_ever(&self, socket: &Path) {
        loop {
            if let Ok(mut feed) = Local::connect(socket).and_then(Local::feed) {
                while let Ok(what) = feed.hear() {
                    self.seen().note(what);
                }
            }
            // Interrupted, it is tried earlier.
            let _ = poll_for(&[], Some(INTERVAL));
        }
    }
}

impl Seen {
    fn take(&mut self, sample: Sample) {
        self.away = None;
        self.picture.take(sample);
    }

    fn note(&mut self, what: Happening) {
        let pid = match &what {
            Happening::Listening => return,
            Happening::Begun { pid, .. } => Some(*pid),
            Happening::Moved { pid, .. } => {
                self.moved += 1;
                Some(*pid)
            }
            Happening::Stayed { pid, .. } => {
                self.stayed += 1;
                Some(*pid)
            }
            Happening::Node { .. } => None,
        };
        let known = pid.and_then(|pid| self.picture.processes.iter().find(|one| one.row.pid == pid));
        let command = known.map_or_else(String::new, |one| one.row.command.clone());
        if self.events.len() == KEPT {
            self.events.pop_front();
        }
        self.last_event += 1;
        self.events.push_back(Event { number: self.last_event, at_ms: now_ms(), what, command });
    }

    /// The processes that are shown, as a tree, and how many are not.
    pub(crate) fn shown(&self) -> (Vec<(usize, Process)>, usize) {
        let mut all = self.picture.processes.clone();
        let more = all.len().saturating_sub(SHOWN);
        if more > 0 {
            all.sort_by(|one, other| {
                other.cpu.total_cmp(&one.cpu).then(Reverse(one.row.rss_kb).cmp(&Reverse(other.row.rss_kb)))
            });
            all.truncate(SHOWN);
        }
        all.sort_unstable_by_key(|one| one.row.pid);
        (forest(all, |one| (one.row.pid, one.row.ppid)), more)
    }
}

/// Milliseconds since 1970.
pub(crate) fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis() as u64)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::picture::tests::{node, row};
    use vocab::{NodeId, Pid};

    pub(crate) fn seen(processes: i32) -> Seen {
        let mut seen = Seen::default();
        let rows = (1..=processes).map(|pid| row(pid, 0, 0)).collect();
        seen.take(Sample { at_ms: 0, nodes: vec![node(0, 0.5), node(1, 1.5)], rows, missing: vec![NodeId(1)] });
        seen
    }

    #[test]
    fn what_has_happened_is_kept_and_counted() {
        let mut seen = seen(5);
        let (pid, from, to) = (Pid(3), NodeId(0), NodeId(1));
        seen.note(Happening::Listening);
        seen.note(Happening::Begun { pid, from, to });
        seen.note(Happening::Moved { pid, from, to });
        seen.note(Happening::Stayed { pid, from, to, why: "x".into() });
        assert_eq!((seen.events.len(), seen.moved, seen.stayed, seen.events[0].command.as_str()), (3, 1, 1, "c3"));
        (0..200).for_each(|_| seen.note(Happening::Node { node: to, state: "up".into() }));
        assert_eq!((seen.events.len(), seen.events.back().map(|one| one.number)), (KEPT, Some(203)));
    }

    #[test]
    fn only_so_many_processes_are_shown() {
        assert_eq!((seen(10).shown().0.len(), seen(10).shown().1), (10, 0));
        let (shown, more) = seen(SHOWN as i32 + 7).shown();
        assert_eq!((shown.len(), more), (SHOWN, 7));
    }
}
