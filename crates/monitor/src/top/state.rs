//! What `shoal top` shows and what keys do to it, without a terminal.

use super::keys::Key;
use super::order::{Order, Sort};
use crate::people::name_of;
use crate::picture::{Picture, Process, Sample, Who};
use std::collections::HashMap;
use std::time::Duration;
use vocab::{NodeId, NodeSet, Pid, Sig};
use wire::ask::NodeRow;

/// Signals that are offered, the usual one first.
pub(crate) const SIGNALS: [Sig; 9] =
    [Sig::TERM, Sig::KILL, Sig::INT, Sig::HUP, Sig::QUIT, Sig::STOP, Sig::CONT, Sig::USR1, Sig::USR2];

/// What is asked for in the last line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wanted {
    Text,
    Nodes,
    User,
    /// Where this process is to go.
    Goal(Who),
}

/// Who gets the keys.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) enum Mode {
    #[default]
    Table,
    Help,
    Line {
        wanted: Wanted,
        text: String,
    },
    Signal {
        who: Who,
        /// The place in [`SIGNALS`].
        at: usize,
    },
}

/// What a key has asked for that is not done here.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Act {
    Quit,
    Suspend,
    Redraw,
    Signal(Who, Sig),
    Move(Who, NodeId),
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) picture: Picture,
    pub(crate) people: HashMap<u32, String>,
    pub(crate) order: Order,
    pub(crate) mode: Mode,
    /// What is shown, with depths.
    pub(crate) shown: Vec<(usize, Process)>,
    pub(crate) selected: Option<Pid>,
    /// The place of the selected one.
    pub(crate) at: usize,
    /// The first line of processes on the screen, and how many fit.
    pub(crate) top: usize,
    pub(crate) page: usize,
    /// The first node on the screen.
    pub(crate) first_node: usize,
    /// What came of something, until the next key.
    pub(crate) notice: String,
    /// Why the daemon cannot be asked.
    pub(crate) away: Option<String>,
    /// Between two samples.
    pub(crate) interval: Duration,
}

impl State {
    pub(crate) fn new(people: HashMap<u32, String>, interval: Duration) -> State {
        State { people, page: 1, interval, ..State::default() }
    }

    pub(crate) fn take(&mut self, sample: Sample) {
        self.away = None;
        self.picture.take(sample);
        self.arrange();
    }

    /// Anew, as the order and the filter want it; the same process stays selected.
    fn arrange(&mut self) {
        self.shown = self.order.of(&self.picture.processes, &self.people);
        if let Some(at) = self.shown.iter().position(|(_, one)| Some(one.row.pid) == self.selected) {
            self.at = at;
        }
        self.select(self.at);
    }

    fn select(&mut self, at: usize) {
        self.at = at.min(self.shown.len().saturating_sub(1));
        self.selected = self.shown.get(self.at).map(|(_, one)| one.row.pid);
    }

    /// So many lines of processes fit: the selected one is among them.
    pub(crate) fn fit(&mut self, page: usize) {
        self.page = page.max(1);
        let last_top = self.shown.len().saturating_sub(self.page);
        self.top = self.top.min(last_top).min(self.at).max((self.at + 1).saturating_sub(self.page));
    }

    pub(crate) fn press(&mut self, key: Key) -> Option<Act> {
        match key {
            Key::Interrupt => return Some(Act::Quit),
            Key::Suspend => return Some(Act::Suspend),
            Key::Redraw => return Some(Act::Redraw),
            _ => self.notice.clear(),
        }
        match std::mem::take(&mut self.mode) {
            Mode::Table => self.in_table(key),
            Mode::Help => None,
            Mode::Line { wanted, text } => self.in_line(wanted, text, key),
            Mode::Signal { who, at } => self.in_signals(who, at, key),
        }
    }

    fn in_table(&mut self, key: Key) -> Option<Act> {
        match key {
            Key::Char('q') => return Some(Act::Quit),
            Key::Char('h' | '?') => self.mode = Mode::Help,
            Key::Up => self.select(self.at.saturating_sub(1)),
            Key::Down => self.select(self.at + 1),
            Key::PageUp => self.select(self.at.saturating_sub(self.page)),
            Key::PageDown | Key::Char(' ') => self.select(self.at + self.page),
            Key::Home => self.select(0),
            Key::End => self.select(usize::MAX),
            Key::Char('[') => self.first_node = self.first_node.saturating_sub(1),
            Key::Char(']') => self.first_node = (self.first_node + 1).min(self.picture.nodes.len().saturating_sub(1)),
            Key::Char('k') => match self.chosen() {
                Some(who) => self.mode = Mode::Signal { who, at: 0 },
                None => self.notice = "no process is selected".into(),
            },
            Key::Char('m') => match self.chosen() {
                Some(who) => self.ask(Wanted::Goal(who)),
                None => self.notice = "no process is selected".into(),
            },
            Key::Char('/') => self.ask(Wanted::Text),
            Key::Char('n') => self.ask(Wanted::Nodes),
            Key::Char('u') => self.ask(Wanted::User),
            Key::Escape => {
                self.order.filter = Default::default();
                self.arrange();
            }
            other => self.reorder(other),
        }
        None
    }

    fn reorder(&mut self, key: Key) {
        let order = &mut self.order;
        let sort = match key {
            Key::Char('P') => Some(Sort::Cpu),
            Key::Char('M') => Some(Sort::Memory),
            Key::Char('T') => Some(Sort::Time),
            Key::Char('p') => Some(Sort::Pid),
            Key::Char('N') => Some(Sort::Node),
            Key::Char('U') => Some(Sort::User),
            Key::Char('s') => Some(order.sort.after()),
            _ => None,
        };
        match key {
            _ if sort.is_some() => {
                order.reverse = false;
                order.sort = sort.unwrap_or_default();
            }
            Key::Char('R') => order.reverse = !order.reverse,
            Key::Char('t') => order.tree = !order.tree,
            _ => return,
        }
        self.arrange();
    }

    fn ask(&mut self, wanted: Wanted) {
        let text = if wanted == Wanted::Text { self.order.filter.text.clone() } else { String::new() };
        self.mode = Mode::Line { wanted, text };
    }

    fn in_line(&mut self, wanted: Wanted, mut text: String, key: Key) -> Option<Act> {
        /// More is no name of anything.
        const LONGEST: usize = 64;
        match key {
            Key::Escape => return None,
            Key::Enter => return self.entered(wanted, &text),
            Key::Backspace => drop(text.pop()),
            Key::Char(c) if text.chars().count() < LONGEST => text.push(c),
            _ => {}
        }
        if wanted == Wanted::Text {
            self.order.filter.text.clone_from(&text);
            self.arrange();
        }
        self.mode = Mode::Line { wanted, text };
        None
    }

    fn entered(&mut self, wanted: Wanted, text: &str) -> Option<Act> {
        let text = text.trim();
        match wanted {
            Wanted::Text => self.order.filter.text = text.into(),
            Wanted::User if text.is_empty() || self.is_somebody(text) => self.order.filter.user = text.into(),
            Wanted::User => self.notice = format!("there is no user {text}"),
            Wanted::Nodes => match nodes(text, &self.picture.nodes) {
                Ok(nodes) => self.order.filter.nodes = nodes,
                Err(why) => self.notice = why,
            },
            Wanted::Goal(_) if text.is_empty() => {}
            Wanted::Goal(who) => match (text.parse().ok(), self.why_not(who)) {
                (Some(to), None) => return Some(Act::Move(who, to)),
                (Some(_), Some(why)) => self.notice = why,
                (None, _) => self.notice = format!("{text:?} is no node: 2, n2 or front"),
            },
        }
        self.arrange();
        None
    }

    fn is_somebody(&self, text: &str) -> bool {
        text.parse::<u32>().is_ok() || self.people.values().any(|name| name == text)
    }

    fn in_signals(&mut self, who: Who, at: usize, key: Key) -> Option<Act> {
        let chosen = match key {
            Key::Escape | Key::Char('q') => return None,
            Key::Enter => Some(SIGNALS[at]),
            Key::Up => return self.signals(who, at.checked_sub(1).unwrap_or(SIGNALS.len() - 1)),
            Key::Down => return self.signals(who, (at + 1) % SIGNALS.len()),
            Key::Char(digit) => digit.to_digit(10).and_then(|n| SIGNALS.get((n as usize).wrapping_sub(1)).copied()),
            _ => None,
        };
        match (chosen, self.why_not(who)) {
            (Some(_), Some(why)) => {
                self.notice = why;
                None
            }
            (Some(sig), None) => Some(Act::Signal(who, sig)),
            (None, _) => self.signals(who, at),
        }
    }

    fn signals(&mut self, who: Who, at: usize) -> Option<Act> {
        self.mode = Mode::Signal { who, at };
        None
    }

    fn chosen(&self) -> Option<Who> {
        self.shown.get(self.at).map(|(_, one)| Who::of(&one.row))
    }

    /// Why nothing is to be done to it: what has the number by now may be another process.
    fn why_not(&self, who: Who) -> Option<String> {
        let pid = who.pid;
        match self.picture.processes.iter().find(|one| Who::of(&one.row) == who) {
            None => Some(format!("{pid} has ended")),
            Some(_) if self.away.is_some() => Some("the daemon is away".into()),
            Some(one) if one.stale => Some(format!("{} does not answer: {pid} may have ended", one.row.node)),
            Some(_) => None,
        }
    }

    /// How old what is shown is, if that is more than some intervals.
    pub(crate) fn age(&self) -> Option<Duration> {
        self.picture.age().filter(|age| self.away.is_some() || *age > self.interval * 3 + Duration::from_secs(1))
    }

    /// The command of a process that is known.
    pub(crate) fn command(&self, pid: Pid) -> &str {
        self.picture.processes.iter().find(|one| one.row.pid == pid).map_or("", |one| &one.row.command)
    }

    pub(crate) fn user(&self, uid: u32) -> String {
        name_of(&self.people, uid)
    }
}

/// Empty: all.
fn nodes(text: &str, rows: &[NodeRow]) -> Result<Option<NodeSet>, String> {
    let called: Vec<(NodeId, &str)> = rows.iter().map(|row| (row.node, row.name.as_str())).collect();
    match text {
        "" => Ok(None),
        text => {
            let numbers = vocab::names::numbers(text, &called, &[]);
            numbers.and_then(|text| NodeSet::parse(&text)).map(Some).map_err(|why| why.to_string())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::picture::tests::{node, row};

    fn state() -> State {
        let mut state = State::new(HashMap::from([(0, "root".to_string())]), Duration::from_secs(1));
        let rows = vec![row(3, 1, 10), row(4, 0, 40), row(5, 0, 30)];
        state.take(Sample { at_ms: 0, nodes: vec![node(0, 0.5), node(1, 0.1)], rows, missing: vec![] });
        state.fit(2);
        state
    }

    fn who(pid: i32) -> Who {
        Who { pid: Pid(pid), birth: 0 }
    }

    fn typed(state: &mut State, text: &str) -> Option<Act> {
        text.chars().map(|c| state.press(if c == '\n' { Key::Enter } else { Key::Char(c) })).last().flatten()
    }

    #[test]
    fn the_selected_process_stays_selected_and_on_the_screen() {
        let mut state = state();
        typed(&mut state, "T");
        assert_eq!(state.selected, Some(Pid(3)), "it was selected before, and is the last now");
        state.fit(2);
        assert_eq!((state.at, state.top), (2, 1));
        state.press(Key::Home);
        state.fit(2);
        assert_eq!((state.selected, state.top), (Some(Pid(4)), 0));
        state.press(Key::End);
        state.press(Key::Down);
        assert_eq!(state.selected, Some(Pid(3)));
        state.press(Key::PageUp);
        assert_eq!(state.selected, Some(Pid(4)));
        let rows = vec![row(5, 0, 31)];
        state.take(Sample { at_ms: 1000, rows, ..Sample::default() });
        assert_eq!(state.selected, Some(Pid(5)), "another one, where it has ended");
        state.take(Sample::default());
        assert_eq!(state.selected, None);
        assert_eq!(typed(&mut state, "k"), None);
        assert_eq!(state.notice, "no process is selected");
    }

    #[test]
    fn every_key_that_acts() {
        let mut state = state();
        assert_eq!(typed(&mut state, "k\n"), Some(Act::Signal(who(3), Sig::TERM)));
        assert_eq!(typed(&mut state, "k2"), Some(Act::Signal(who(3), Sig::KILL)));
        assert_eq!(typed(&mut state, "kx0"), None);
        assert_eq!(state.mode, Mode::Signal { who: who(3), at: 0 });
        state.press(Key::Up);
        assert_eq!(state.press(Key::Enter), Some(Act::Signal(who(3), Sig::USR2)));
        assert_eq!(typed(&mut state, "m2\n"), Some(Act::Move(who(3), NodeId(2))));
        assert_eq!(typed(&mut state, "mn12\n"), Some(Act::Move(who(3), NodeId(12))));
        assert_eq!(typed(&mut state, "mfront\n"), Some(Act::Move(who(3), NodeId::FRONT)));
        assert_eq!(typed(&mut state, "m-3\n"), None);
        assert_eq!(state.notice, "\"-3\" is no node: 2, n2 or front");
        assert_eq!((typed(&mut state, "m\n"), state.mode.clone()), (None, Mode::Table));
        assert_eq!(state.press(Key::Interrupt), Some(Act::Quit));
        assert_eq!(state.press(Key::Suspend), Some(Act::Suspend));
        typed(&mut state, "h");
        assert_eq!(state.mode, Mode::Help);
        assert_eq!((typed(&mut state, "q"), state.mode.clone()), (None, Mode::Table), "out of the help");
        assert_eq!(typed(&mut state, "q"), Some(Act::Quit));
    }

    #[test]
    fn nobody_who_has_ended_is_signalled() {
        let mut state = state();
        typed(&mut state, "k");
        state.take(Sample { rows: vec![row(4, 0, 40)], ..Sample::default() });
        assert_eq!(state.press(Key::Enter), None);
        assert_eq!(state.notice, "n3 has ended".replace("n3", &Pid(3).to_string()));
        // Neither is another one that has the number by now, nor what may have ended since its node was heard.
        for (birth, missing, notice) in
            [(7, vec![], "4 has ended"), (0, vec![NodeId(0)], "n0 does not answer: 4 may have ended")]
        {
            for keys in ["k\n", "m1\n"] {
                let mut state = self::state();
                state.press(Key::Home);
                state.take(Sample { rows: vec![row(4, 0, 40)], ..Sample::default() });
                typed(&mut state, &keys[..1]);
                let rows = vec![wire::ask::ProcRow { birth, ..row(4, 0, 40) }];
                state.take(Sample { rows, missing: missing.clone(), ..Sample::default() });
                assert_eq!((typed(&mut state, &keys[1..]), state.notice.as_str()), (None, notice), "{keys}");
            }
        }
        state = self::state();
        state.away = Some("gone".into());
        assert_eq!((typed(&mut state, "k\n"), state.notice.as_str()), (None, "the daemon is away"));
    }

    #[test]
    fn filters_are_typed_and_taken_back() {
        let shown = |state: &State| state.shown.iter().map(|(_, one)| one.row.pid.0).collect::<Vec<_>>();
        let mut state = state();
        typed(&mut state, "/c4");
        assert_eq!(shown(&state), [4], "while it is typed");
        state.press(Key::Backspace);
        assert_eq!(shown(&state).len(), 3);
        state.press(Key::Escape);
        typed(&mut state, "n0\n");
        assert_eq!(shown(&state), [4, 5]);
        typed(&mut state, "uroot\n");
        assert_eq!(shown(&state), [4, 5]);
        typed(&mut state, "unobody-such\n");
        assert_eq!(state.notice, "there is no user nobody-such");
        typed(&mut state, "nx\n");
        assert!(!state.notice.is_empty());
        state.press(Key::Escape);
        assert_eq!(shown(&state), [3, 4, 5]);
        typed(&mut state, "tR");
        assert!(state.order.tree && state.order.reverse);
    }
}
