//! The node language of BProc: nodes chosen by number, range or state (`0-7,.9,up,!down`), from those that there are.

use crate::{Fault, NodeId, Result};
use std::collections::HashSet;
use std::fmt;
use std::ops::Range;

/// The nodes of `nodes` (each with its state word) that `spec` names, each once, in the order in which `spec` names them.
///
/// A part of `spec` is one of:
/// - a node: `3`, `n3`, `.3`; the front end: `master`, `front`, `-1`;
/// - a range, where only nodes that there are count: `0-7`, `n0-n7`, and without an end `5-`;
/// - all nodes: `all`; all nodes whose state is `up`: `allup`;
/// - the nodes with a state: `up`, `boot`; and those with another state: `!up`, `notup`.
///   A word that begins with `not` is always a negation.
///
/// The front end is chosen only where a part names it; it need not be in `nodes`.
///
/// # Errors
/// `Gone` if `spec` names a node that is not in `nodes`, `Refused` if a part is none of these; both say which part.
pub fn select(spec: &str, nodes: &[(NodeId, &str)]) -> Result<Vec<NodeId>> {
    let all = Nodes::new(nodes);
    let mut chosen = Chosen::new(&all);
    for text in spec.split(',').map(str::trim) {
        let part = Part::parse(text).map_err(|why| refused(spec, text, why))?;
        all.choose(&part, &mut chosen).map_err(|missing| gone(spec, missing))?;
    }
    Ok(chosen.list)
}

/// One part of a list, between commas.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Part<'a> {
    Front,
    Node(i32),
    /// From and to, both included.
    Range(i32, i32),
    All,
    State(&'a str),
    /// Nodes that are in any other state.
    Not(&'a str),
}

impl<'a> Part<'a> {
    fn parse(text: &'a str) -> std::result::Result<Part<'a>, &'static str> {
        match text {
            "" => return Err("it is empty"),
            "all" => return Ok(Part::All),
            "allup" => return Ok(Part::State("up")),
            "master" | "front" | "-1" => return Ok(Part::Front),
            _ => {}
        }
        if let Some(number) = number(text) {
            return Ok(Part::Node(number?));
        }
        if let Some((from, to)) = text.split_once('-') {
            return range(from, to);
        }
        if let Some(state) = text.strip_prefix('!') {
            return word(state).map(Part::Not);
        }
        match text.strip_prefix("not") {
            Some(state) if word(state).is_ok() => Ok(Part::Not(state)),
            _ => word(text).map(Part::State),
        }
    }
}

fn range<'a>(from: &str, to: &str) -> std::result::Result<Part<'a>, &'static str> {
    const BAD: &str = "a range is two node numbers, or one for all from that on";
    let from = number(from).ok_or(BAD)??;
    let to = if to.is_empty() { i32::MAX } else { number(to).ok_or(BAD)?? };
    if from > to {
        return Err("a range runs from the lower to the higher number");
    }
    Ok(Part::Range(from, to))
}

/// Nothing if `text` is no number at all: a state word, for example.
fn number(text: &str) -> Option<std::result::Result<i32, &'static str>> {
    let digits = text.strip_prefix(['n', '.']).unwrap_or(text);
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| digits.parse().map_err(|_| "the number is too large for a node"))
}

/// A state word as BProc has them.
fn word(text: &str) -> std::result::Result<&str, &'static str> {
    let mut bytes = text.bytes();
    let begins = bytes.next().is_some_and(|byte| byte.is_ascii_alphabetic());
    if begins && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
        Ok(text)
    } else {
        Err("it is neither a node, a range nor a state")
    }
}

/// The nodes that there are, by number; without the front end.
struct Nodes<'a> {
    sorted: Vec<(i32, &'a str)>,
    states: HashSet<&'a str>,
}

impl<'a> Nodes<'a> {
    fn new(nodes: &[(NodeId, &'a str)]) -> Nodes<'a> {
        let mut sorted: Vec<(i32, &str)> =
            nodes.iter().filter(|(node, _)| !node.is_front()).map(|(node, state)| (node.0, *state)).collect();
        sorted.sort_unstable();
        sorted.dedup_by_key(|(node, _)| *node);
        let states = sorted.iter().map(|(_, state)| *state).collect();
        Nodes { sorted, states }
    }

    /// # Errors
    /// The node that there is not.
    fn choose(&self, part: &Part<'a>, chosen: &mut Chosen<'a>) -> std::result::Result<(), i32> {
        match *part {
            Part::Front => chosen.add_front(),
            Part::Node(node) => {
                let place = self.sorted.binary_search_by_key(&node, |(node, _)| *node).map_err(|_| node)?;
                chosen.add(self, place..place + 1, |_| true);
            }
            Part::Range(from, to) => {
                let begin = self.sorted.partition_point(|(node, _)| *node < from);
                let end = self.sorted.partition_point(|(node, _)| *node <= to);
                chosen.add(self, begin..end, |_| true);
                if to != i32::MAX && end - begin != range_length(from, to) {
                    return Err(first_missing(from, &self.sorted[begin..end]));
                }
            }
            Part::All => chosen.add(self, 0..self.sorted.len(), |_| true),
            Part::State(state) => {
                if self.states.contains(state) && chosen.states.insert((state, true)) {
                    chosen.add(self, 0..self.sorted.len(), |other| other == state);
                }
            }
            Part::Not(state) => {
                if chosen.states.insert((state, false)) {
                    chosen.add(self, 0..self.sorted.len(), |other| other != state);
                }
            }
        }
        Ok(())
    }
}

fn range_length(from: i32, to: i32) -> usize {
    usize::try_from(i64::from(to) - i64::from(from) + 1).unwrap_or(usize::MAX)
}

/// The first number from `from` on that is not in `run`, which begins at or after it.
fn first_missing(from: i32, run: &[(i32, &str)]) -> i32 {
    let gap = (from..).zip(run).find(|(expected, (node, _))| expected != node);
    gap.map_or_else(|| run.last().map_or(from, |(node, _)| node + 1), |(expected, _)| expected)
}

/// What a list has named so far.
struct Chosen<'a> {
    list: Vec<NodeId>,
    has_front: bool,
    /// For each place, a place at or after it before which all nodes are in the list already: with this, long lists of overlapping parts
    /// take no longer than the nodes and the parts together.
    next: Vec<usize>,
    /// State words that are in the list already, and whether as such (or negated).
    states: HashSet<(&'a str, bool)>,
}

impl<'a> Chosen<'a> {
    fn new(nodes: &Nodes<'_>) -> Chosen<'a> {
        let next = (0..=nodes.sorted.len()).collect();
        Chosen { list: Vec::new(), has_front: false, next, states: HashSet::new() }
    }

    fn add_front(&mut self) {
        if !std::mem::replace(&mut self.has_front, true) {
            self.list.push(NodeId::FRONT);
        }
    }

    /// Adds the nodes at `places` that are in a state which `fits`, and are not in the list.
    fn add(&mut self, nodes: &Nodes<'_>, places: Range<usize>, fits: impl Fn(&str) -> bool) {
        let mut place = self.first_free(places.start);
        while place < places.end {
            let (node, state) = nodes.sorted[place];
            if fits(state) {
                self.list.push(NodeId(node));
                self.next[place] = place + 1;
            }
            place = self.first_free(place + 1);
        }
    }

    /// The first place from `place` on whose node is not in the list; halves the way for the next one who asks.
    fn first_free(&mut self, mut place: usize) -> usize {
        while self.next[place] != place {
            self.next[place] = self.next[self.next[place]];
            place = self.next[place];
        }
        place
    }
}

struct Shown<'a>(&'a str);

impl fmt::Display for Shown<'_> {
    /// Lists may have thousands of parts; an error line shows the beginning.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MOST: usize = 60;
        match self.0.char_indices().nth(MOST) {
            Some((end, _)) => write!(f, "{:?}…", &self.0[..end]),
            None => write!(f, "{:?}", self.0),
        }
    }
}

fn refused(spec: &str, part: &str, why: &str) -> Fault {
    Fault::refused(format!("node list {}: {}: {why}", Shown(spec), Shown(part)))
}

fn gone(spec: &str, node: i32) -> Fault {
    Fault::gone(format!("node list {}: there is no node {}", Shown(spec), NodeId(node)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;
    use proptest::prelude::*;
    use std::time::{Duration, Instant};

    const SOME: &[(NodeId, &str)] = &[
        (NodeId(-1), "up"),
        (NodeId(3), "boot"),
        (NodeId(0), "up"),
        (NodeId(1), "down"),
        (NodeId(2), "up"),
        (NodeId(7), "note_book"),
    ];

    fn chosen(spec: &str) -> Vec<i32> {
        let chosen = select(spec, SOME).unwrap_or_else(|fault| panic!("{spec}: {fault}"));
        chosen.into_iter().map(|node| node.0).collect()
    }

    #[test]
    fn each_word_of_the_language() {
        let cases: &[(&str, &[i32])] = &[
            ("3", &[3]),
            ("n3", &[3]),
            (".3", &[3]),
            ("0-3", &[0, 1, 2, 3]),
            ("n0-n2", &[0, 1, 2]),
            (".1-.2", &[1, 2]),
            ("2-", &[2, 3, 7]),
            ("8-", &[]),
            ("all", &[0, 1, 2, 3, 7]),
            ("master", &[-1]),
            ("front", &[-1]),
            ("-1", &[-1]),
            ("up", &[0, 2]),
            ("allup", &[0, 2]),
            ("!up", &[1, 3, 7]),
            ("notup", &[1, 3, 7]),
            ("boot", &[3]),
            ("notboot,boot", &[0, 1, 2, 7, 3]),
            ("nobody_is_this", &[]),
            ("!nobody_is_this", &[0, 1, 2, 3, 7]),
            ("notnote_book", &[0, 1, 2, 3]),
            // A state that begins with `not` reads as the negation of another one.
            ("note_book", &[0, 1, 2, 3, 7]),
            ("3,0,3,up, 1", &[3, 0, 2, 1]),
            ("7,master,0-1", &[7, -1, 0, 1]),
        ];
        for (spec, nodes) in cases {
            assert_eq!(chosen(spec), *nodes, "{spec}");
        }
    }

    #[test]
    fn what_is_no_list_is_refused_by_its_part() {
        for (spec, part) in [
            ("", "\"\""),
            ("0,,1", "\"\""),
            ("0,x y", "\"x y\""),
            ("3-1", "\"3-1\""),
            ("-2", "\"-2\""),
            ("a-b", "\"a-b\""),
        ] {
            let fault = select(spec, SOME).expect_err(spec);
            assert!(fault.kind == Kind::Refused && fault.to_string().contains(part), "{spec}: {fault}");
        }
        for bad in ["!", "!3", "+3", ".", "n-3", "1-2-3", "99999999999", "0-99999999999", "_up", ".n3", "é"] {
            assert!(select(bad, SOME).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_node_that_there_is_not_is_named() {
        for (spec, node) in
            [("9", "n9"), ("0-9", "n4"), ("4-5", "n4"), ("0,n100000", "n100000"), ("0-2147483646", "n4")]
        {
            let fault = select(spec, SOME).expect_err(spec);
            assert!(fault.kind == Kind::Gone && fault.to_string().ends_with(&format!("no node {node}")), "{fault}");
        }
        let long = "0,".repeat(10_000) + "9";
        assert!(select(&long, SOME).expect_err("no n9").to_string().len() < 200);
    }

    #[test]
    fn ten_thousand_parts_of_ten_thousand_nodes_are_quick() {
        let nodes: Vec<(NodeId, &str)> =
            (0..10_000).map(|n| (NodeId(n), if n % 2 == 0 { "up" } else { "down" })).collect();
        let numbers: Vec<String> = (0..10_000).rev().map(|n| format!("n{n}")).collect();
        let begun = Instant::now();
        assert_eq!(select(&numbers.join(","), &nodes).expect("all there").len(), 10_000);
        for part in ["all", "up", "!up", "notdown", "0-", "0-9999", "allup", "9999"] {
            let list = vec![part; 10_000].join(",");
            assert_eq!(select(&list, &nodes), select(part, &nodes), "{part}");
        }
        let ranges: Vec<String> = (0..10_000).map(|n| format!("{n}-")).collect();
        assert_eq!(select(&ranges.join(","), &nodes).expect("all there").len(), 10_000);
        assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    }

    fn parts() -> impl Strategy<Value = String> {
        let number = (0..12i32, "[n.]?").prop_map(|(n, mark)| format!("{mark}{n}"));
        let range = (0..12i32, 0..12i32).prop_map(|(a, b)| format!("{a}-{b}"));
        let open = (0..12i32).prop_map(|a| format!("{a}-"));
        let words = prop::sample::select(vec!["all", "allup", "up", "!up", "notup", "down", "!down", "boot", "master"]);
        prop_oneof![number, range, open, words.prop_map(String::from), "[a-z!.,0-9-]{0,6}"]
    }

    /// The language once more, without care for time.
    fn naive(spec: &str, nodes: &[(NodeId, &str)]) -> Option<Vec<NodeId>> {
        let mut list: Vec<NodeId> = Vec::new();
        for text in spec.split(',') {
            let matches = |test: &dyn Fn(i32, &str) -> bool| -> Vec<NodeId> {
                let mut some: Vec<NodeId> = nodes.iter().filter(|(n, s)| test(n.0, s)).map(|(n, _)| *n).collect();
                some.sort();
                some
            };
            let found = match Part::parse(text).ok()? {
                Part::Front => vec![NodeId::FRONT],
                Part::Node(node) => Some(matches(&|n, _| n == node)).filter(|found| !found.is_empty())?,
                Part::Range(from, i32::MAX) => matches(&|n, _| n >= from),
                Part::Range(from, to) => {
                    let found = matches(&|n, _| (from..=to).contains(&n));
                    Some(found).filter(|found| found.len() == range_length(from, to))?
                }
                Part::All => matches(&|_, _| true),
                Part::State(state) => matches(&|_, s| s == state),
                Part::Not(state) => matches(&|_, s| s != state),
            };
            found.into_iter().for_each(|node| {
                if !list.contains(&node) {
                    list.push(node);
                }
            });
        }
        Some(list)
    }

    proptest! {
        #[test]
        fn any_list_chooses_what_the_slow_way_does(
            spec in prop::collection::vec(parts(), 1..8),
            states in prop::collection::btree_map(0..12i32, prop::sample::select(vec!["up", "down", "boot"]), 0..12),
        ) {
            let nodes: Vec<(NodeId, &str)> = states.into_iter().map(|(n, s)| (NodeId(n), s)).collect();
            let spec = spec.join(",");
            prop_assert_eq!(select(&spec, &nodes).ok(), naive(&spec, &nodes), "{}", spec);
        }

        #[test]
        fn no_text_makes_the_parser_panic(spec in ".{0,40}") {
            let _ = select(&spec, SOME);
        }
    }
}
