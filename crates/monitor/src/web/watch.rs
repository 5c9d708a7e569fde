//! What the page shows: kept by two threads that ask the daemon, one for samples and one for what happens.

use crate::people;
use crate::picture::{History, Picture, Process};
use crate::source::{self, Told};
use crate::tree::forest;
use client::Local;
use kern::poll::poll_for;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use vocab::{Fault, NodeId, Pid, Result};
use wire::ask::{Answer, Ask, NodeRow};
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

/// What was known at one time, made once and shown to all: whoever looks needs no lock for it.
#[derive(Debug, Default)]
pub(crate) struct View {
    pub(crate) nodes: Vec<NodeRow>,
    pub(crate) history: BTreeMap<NodeId, History>,
    /// By number.
    pub(crate) processes: Vec<Process>,
    /// Those that are shown, as a tree: depth and place.
    pub(crate) shown: Vec<(usize, usize)>,
    /// Of each node: processes, and their resident memory in KiB.
    pub(crate) totals: HashMap<NodeId, (u64, u64)>,
    taken: Option<Instant>,
}

impl View {
    fn of(picture: &mut Picture) -> View {
        let mut processes = std::mem::take(&mut picture.processes);
        processes.sort_unstable_by_key(|one| one.row.pid);
        let mut totals: HashMap<NodeId, (u64, u64)> = HashMap::new();
        for one in &processes {
            let total = totals.entry(one.row.node).or_default();
            *total = (total.0 + 1, total.1 + one.row.rss_kb);
        }
        let mut places: Vec<usize> = (0..processes.len()).collect();
        if places.len() > SHOWN {
            let busy = |place: &usize| {
                let one = &processes[*place];
                (Reverse((one.cpu * 100.0) as u64), Reverse(one.row.rss_kb), one.row.pid)
            };
            places.select_nth_unstable_by_key(SHOWN, busy);
            places.truncate(SHOWN);
            places.sort_unstable();
        }
        let shown = forest(places, |place| (processes[*place].row.pid, processes[*place].row.ppid));
        let (nodes, history) = (picture.nodes.clone(), picture.history.clone());
        View { nodes, history, processes, shown, totals, taken: Some(Instant::now()) }
    }

    pub(crate) fn process(&self, pid: Pid) -> Option<&Process> {
        self.processes.binary_search_by_key(&pid, |one| one.row.pid).ok().map(|at| &self.processes[at])
    }

    /// Processes that are not shown.
    pub(crate) fn more(&self) -> usize {
        self.processes.len() - self.shown.len()
    }

    /// How long ago that was; `None`: nothing is known yet.
    pub(crate) fn age(&self) -> Option<Duration> {
        self.taken.map(|taken| taken.elapsed())
    }
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) view: Arc<View>,
    pub(crate) events: VecDeque<Event>,
    pub(crate) moved: u64,
    pub(crate) stayed: u64,
    pub(crate) away: Option<String>,
    /// The states of nodes that were told last.
    states: HashMap<NodeId, String>,
    last_event: u64,
    looked: Option<Instant>,
}

/// What all threads share.
#[derive(Clone)]
pub(crate) struct Watch {
    pub(crate) people: Arc<HashMap<u32, String>>,
    seen: Arc<Mutex<Seen>>,
    wake: Sender<()>,
}

impl Watch {
    /// Asks the daemon at `socket` from now on.
    pub(crate) fn begin(socket: PathBuf) -> Watch {
        let (wake, woken) = channel();
        let watch = Watch { people: Arc::new(people::here()), seen: Arc::default(), wake };
        let (samples, happenings, feed) = (watch.clone(), watch.clone(), socket.clone());
        thread::spawn(move || samples.sample_for_ever(&socket, &woken));
        thread::spawn(move || happenings.listen_for_ever(&feed));
        watch
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        // A thread that has panicked has ended the process.
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is seen now.
    pub(crate) fn seen(&self) -> Seen {
        self.lock().clone()
    }

    /// Somebody looks: samples are taken more often.
    pub(crate) fn looked(&self) {
        let idle = self.lock().looked.replace(Instant::now()).is_none_or(|last| last.elapsed() > SELDOM);
        if idle {
            let _ = self.wake.send(());
        }
    }

    fn sample_for_ever(&self, socket: &Path, woken: &Receiver<()>) {
        let mut picture = Picture::default();
        source::ask_for_ever(
            socket,
            || self.lock().interval(),
            woken,
            |told| {
                match told {
                    Told::Sample(sample) => {
                        picture.take(sample);
                        let view = Arc::new(View::of(&mut picture));
                        let mut seen = self.lock();
                        (seen.view, seen.away) = (view, None);
                    }
                    Told::Away(fault) => self.lock().away = Some(fault.to_string()),
                }
                true
            },
        );
    }

    fn listen_for_ever(&self, socket: &Path) {
        loop {
            let known = Local::connect_within(socket, source::PATIENCE).and_then(|mut daemon| nodes(&mut daemon));
            if let Ok(rows) = known {
                self.lock().know(&rows);
                if let Ok(mut feed) = Local::connect(socket).and_then(Local::feed) {
                    while let Ok(what) = feed.hear() {
                        self.lock().note(what);
                    }
                }
            }
            // Interrupted, it is tried earlier.
            let _ = poll_for(&[], Some(INTERVAL));
        }
    }
}

fn nodes(daemon: &mut Local) -> Result<Vec<NodeRow>> {
    match daemon.ask(&Ask::Nodes)? {
        Answer::Nodes(rows) => Ok(rows),
        other => Err(Fault::wire(format!("the daemon answered Nodes with {other:?}"))),
    }
}

impl Seen {
    fn interval(&self) -> Duration {
        match self.looked {
            Some(last) if last.elapsed() <= SELDOM => INTERVAL,
            _ => SELDOM,
        }
    }

    /// Is what is shown no more what is so?
    pub(crate) fn is_old(&self) -> bool {
        self.away.is_some() || self.view.age().is_none_or(|age| age > self.interval() * 3 + source::PATIENCE)
    }

    /// What nodes there are before anything is told of them: a feed begins with them all.
    fn know(&mut self, rows: &[NodeRow]) {
        for row in rows {
            match self.states.get(&row.node) {
                Some(_) => self.note(Happening::Node { node: row.node, state: row.state.clone() }),
                None => drop(self.states.insert(row.node, row.state.clone())),
            }
        }
    }

    fn note(&mut self, what: Happening) {
        let pid = match &what {
            // The page asks for all nodes again and again.
            Happening::Listening | Happening::Changed { .. } => return,
            Happening::Begun { pid, .. } => Some(*pid),
            Happening::Moved { pid, .. } => {
                self.moved += 1;
                Some(*pid)
            }
            Happening::Stayed { pid, .. } => {
                self.stayed += 1;
                Some(*pid)
            }
            Happening::Node { node, state } => {
                if self.states.insert(*node, state.clone()).as_ref() == Some(state) {
                    return;
                }
                None
            }
        };
        let known = pid.and_then(|pid| self.view.process(pid));
        let command = known.map_or_else(String::new, |one| one.row.command.clone());
        if self.events.len() == KEPT {
            self.events.pop_front();
        }
        self.last_event += 1;
        self.events.push_back(Event { number: self.last_event, at_ms: now_ms(), what, command });
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
    use crate::picture::Sample;

    pub(crate) fn seen(processes: i32) -> Seen {
        seen_of((1..=processes).map(|pid| row(pid, 0, 0)).collect())
    }

    pub(crate) fn seen_of(rows: Vec<wire::ask::ProcRow>) -> Seen {
        let mut picture = Picture::default();
        picture.take(Sample { at_ms: 0, nodes: vec![node(0, 0.5), node(1, 1.5)], rows, missing: vec![NodeId(1)] });
        Seen { view: Arc::new(View::of(&mut picture)), ..Seen::default() }
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
        let state = |n: i32| if n % 2 == 0 { "up".to_string() } else { "silent".into() };
        (0..200).for_each(|n| seen.note(Happening::Node { node: to, state: state(n) }));
        assert_eq!((seen.events.len(), seen.events.back().map(|one| one.number)), (KEPT, Some(203)));
    }

    #[test]
    fn a_state_is_news_once() {
        let mut seen = seen(1);
        let told = |seen: &mut Seen, node: i32, state: &str| {
            seen.note(Happening::Node { node: NodeId(node), state: state.into() });
            seen.events.len()
        };
        seen.know(&[node(0, 0.5), node(1, 0.5)]);
        assert_eq!((told(&mut seen, 0, "up"), told(&mut seen, 1, "up")), (0, 0), "a feed begins with all");
        assert_eq!((told(&mut seen, 0, "down"), told(&mut seen, 0, "down"), told(&mut seen, 2, "up")), (1, 1, 2));
        seen.know(&[node(0, 0.5), node(1, 0.5)]);
        assert_eq!(seen.events.len(), 3, "what has changed while nobody listened is told");
    }

    #[test]
    fn only_so_many_processes_are_shown() {
        let (few, many) = (seen(10).view, seen(SHOWN as i32 + 7).view);
        assert_eq!((few.shown.len(), few.more(), many.shown.len(), many.more()), (10, 0, SHOWN, 7));
        assert_eq!(many.totals[&NodeId(0)], (SHOWN as u64 + 7, 100 * (SHOWN as u64 + 7)));
        assert!(many.process(Pid(5)).is_some() && many.process(Pid(SHOWN as i32 + 8)).is_none());
    }

    #[test]
    fn what_is_old_is_told_so() {
        let mut seen = seen(1);
        assert!(!seen.is_old());
        seen.away = Some("gone".into());
        assert!(seen.is_old());
        assert!(Seen::default().is_old(), "nothing is known yet");
    }
}
