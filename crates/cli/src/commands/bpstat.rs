//! `bpstat`: BProc's name for what nodes there are, and which process is where.

use super::node_set::infos;
use super::Daemon;
use crate::print::out;
use clap::Args;
use client::Local;
use monitor::people::{name_of, names};
use std::collections::{BTreeMap, HashMap};
use std::io::{BufRead, Write};
use std::process::ExitCode;
use vocab::{Fault, NodeId, Pid, Result};
use wire::ask::{Answer, Ask};
use wire::feed::Happening;
use wire::nodes::{NodeInfo, UP};

/// Show the nodes: state, mode, owner, group; or processes and their nodes
#[derive(Args, Debug)]
pub(crate) struct Bpstat {
    /// A line for equal nodes that follow each other (this is the default)
    #[arg(short = 'c', long, group = "what")]
    compact: bool,
    /// A line for each node, with its address
    #[arg(short = 'l', long, group = "what")]
    long: bool,
    /// The state of each node
    #[arg(short = 's', long, group = "what")]
    status: bool,
    /// The address of each node
    #[arg(short = 'A', short_alias = 'a', long, group = "what")]
    address: bool,
    /// How many of the nodes are up
    #[arg(short = 'n', long, group = "what")]
    number: bool,
    /// How many nodes there are
    #[arg(short = 't', long, group = "what")]
    total: bool,
    /// The processes of the space, and their nodes
    #[arg(short = 'p', long = "processes", group = "what")]
    processes: bool,
    /// Put the node before each line of the output of ps that comes on standard input
    #[arg(short = 'P', long = "ps", group = "what")]
    ps: bool,
    /// Show it again each time that something of it changes
    #[arg(short = 'U', long)]
    update: bool,
    /// Only these nodes: 3, 0-7, 5-, a name, all, master, a state (up, allup), what is not in a state (!up, notup)
    #[arg(value_name = "NODES", allow_hyphen_values = true)]
    nodes: Vec<String>,
    #[command(flatten)]
    daemon: Daemon,
}

impl Bpstat {
    pub(crate) fn run(self) -> Result<ExitCode> {
        let mut daemon = self.daemon.connect()?;
        if self.ps {
            return augment(&places(&mut daemon)?).map(|()| ExitCode::SUCCESS);
        }
        if !self.update {
            out(&self.text(&mut daemon)?)?;
            return Ok(ExitCode::SUCCESS);
        }
        // Before what is shown first: what changes after it is heard of.
        let mut feed = self.daemon.connect()?.feed()?;
        let mut shown = String::new();
        loop {
            let text = self.text(&mut daemon)?;
            if text != shown {
                let gap = if shown.is_empty() { "" } else { "\n" };
                out(&format!("{gap}{text}"))?;
                shown = text;
            }
            while !concerns(&feed.hear()?) {}
        }
    }

    fn text(&self, daemon: &mut Local) -> Result<String> {
        let all = infos(daemon)?;
        let nodes = self.chosen(&all)?;
        let each = |line: &dyn Fn(&NodeInfo) -> String| nodes.iter().map(|info| line(info)).collect::<String>();
        Ok(match () {
            () if self.processes => processes(&places(daemon)?, &nodes),
            () if self.number => format!("{}\n", nodes.iter().filter(|info| info.state == UP).count()),
            () if self.total => format!("{}\n", nodes.len()),
            () if self.status => each(&|info| format!("{}\t{}\n", info.node.0, info.state)),
            () if self.address => each(&|info| format!("{}\t{}\n", info.node.0, address(info))),
            () if self.long => long(&nodes, &People::here()),
            () => compact(&nodes, &People::here()),
        })
    }

    /// In the order of their numbers; without a word all but the front end.
    fn chosen<'a>(&self, all: &'a [NodeInfo]) -> Result<Vec<&'a NodeInfo>> {
        let spec = if self.nodes.is_empty() { "all".to_string() } else { self.nodes.join(",") };
        let chosen = wire::nodes::choose(&spec, all)?;
        Ok(all.iter().filter(|info| chosen.contains(&info.node)).collect())
    }
}

fn concerns(what: &Happening) -> bool {
    matches!(what, Happening::Node { .. } | Happening::Changed { .. })
}

/// Names of users and groups.
struct People {
    users: HashMap<u32, String>,
    groups: HashMap<u32, String>,
}

impl People {
    fn here() -> People {
        let groups = names(&std::fs::read_to_string("/etc/group").unwrap_or_default());
        People { users: monitor::people::here(), groups }
    }
}

/// As ls(1) writes it; of a node that is down nothing may be used.
fn mode(info: &NodeInfo) -> String {
    let there = info.state != wire::nodes::DOWN;
    let bit = |bit: u32| if there && info.mode & bit != 0 { 'x' } else { '-' };
    format!("---{}--{}--{}", bit(0o100), bit(0o010), bit(0o001))
}

fn address(info: &NodeInfo) -> &str {
    info.address.rsplit_once(':').map_or(&info.address, |(address, _)| address)
}

const HEADING: [&str; 5] = ["Node(s)", "Status", "Mode", "User", "Group"];

fn line([nodes, status, mode, user, group]: [&str; 5]) -> String {
    format!("{nodes:<30} {status:<12} {mode:<10} {user:<10} {group:<10}").trim_end().to_string() + "\n"
}

fn compact(nodes: &[&NodeInfo], people: &People) -> String {
    let like = |info: &NodeInfo| (info.state.clone(), info.mode, info.uid, info.gid);
    let mut text = line(HEADING);
    for equal in nodes.chunk_by(|a, b| like(a) == like(b)) {
        let first = equal[0];
        let (user, group) = (name_of(&people.users, first.uid), name_of(&people.groups, first.gid));
        text += &line([&ranges(equal), &first.state, &mode(first), &user, &group]);
    }
    text
}

/// `0-3,7`
fn ranges(nodes: &[&NodeInfo]) -> String {
    let runs = nodes.chunk_by(|a, b| a.node.0 >= 0 && a.node.0.checked_add(1) == Some(b.node.0));
    let run = |run: &[&NodeInfo]| match run {
        [one] => one.node.0.to_string(),
        all => format!("{}-{}", all[0].node.0, all[all.len() - 1].node.0),
    };
    runs.map(run).collect::<Vec<_>>().join(",")
}

fn long(nodes: &[&NodeInfo], people: &People) -> String {
    let row = |[node, at, status, mode, user, group]: [&str; 6]| {
        format!("{node:<7} {at:<22} {status:<12} {mode:<10} {user:<10} {group:<10}").trim_end().to_string() + "\n"
    };
    let mut text = row(["Node", "Address", "Status", "Mode", "User", "Group"]);
    for info in nodes {
        let (user, group) = (name_of(&people.users, info.uid), name_of(&people.groups, info.gid));
        text += &row([&info.node.0.to_string(), address(info), &info.state, &mode(info), &user, &group]);
    }
    text
}

/// Where each process of the space is.
fn places(daemon: &mut Local) -> Result<BTreeMap<Pid, NodeId>> {
    match daemon.ask(&Ask::Ps)? {
        Answer::Ps { rows, .. } => Ok(rows.into_iter().map(|row| (row.pid, row.node)).collect()),
        other => Err(Fault::wire(format!("the daemon answered Ps with {other:?}"))),
    }
}

fn processes(places: &BTreeMap<Pid, NodeId>, nodes: &[&NodeInfo]) -> String {
    let mut text = "PID     Node\n".to_string();
    for (pid, node) in places.iter().filter(|(_, node)| nodes.iter().any(|info| info.node == **node)) {
        text += &format!("{:<7} {}\n", pid.0, node.0);
    }
    text
}

/// Copies standard input with the node of each process before its line.
fn augment(places: &BTreeMap<Pid, NodeId>) -> Result<()> {
    let (input, mut output) = (std::io::stdin().lock(), std::io::stdout().lock());
    let mut column = None;
    for text in input.lines() {
        let text = text.map_err(|e| Fault::io(&e, "read the output of ps"))?;
        let written = writeln!(output, "{}", augmented(&text, &mut column, places));
        if let Err(e) = written {
            return crate::print::unless_unread(Err(Fault::io(&e, "write to standard output")));
        }
    }
    Ok(())
}

/// `column`: which word of a line the PID is, once a heading has said so.
fn augmented(text: &str, column: &mut Option<usize>, places: &BTreeMap<Pid, NodeId>) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    if let Some(at) = words.iter().position(|word| *word == "PID") {
        *column = Some(at);
        return format!("NODE {text}");
    }
    // ps prints the PID first where it prints no heading.
    let pid = words.get(column.unwrap_or(0)).and_then(|word| word.parse().ok());
    let node = pid.and_then(|pid| places.get(&Pid(pid))).map_or_else(String::new, |node| node.0.to_string());
    format!("{node:<4} {text}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(node: i32, state: &str, uid: u32, mode: u32) -> NodeInfo {
        NodeInfo {
            node: NodeId(node),
            state: state.into(),
            uid,
            gid: 50,
            mode,
            address: "10.0.0.7:41000".into(),
            atime: 0,
            mtime: 0,
            attributes: Vec::new(),
            name: String::new(),
        }
    }

    fn people() -> People {
        let users = HashMap::from([(0, "root".to_string()), (7, "ann".into())]);
        People { users, groups: HashMap::from([(50, "staff".to_string())]) }
    }

    #[test]
    fn equal_neighbours_are_one_line() {
        let all = [
            info(0, "up", 0, 0o111),
            info(1, "up", 0, 0o111),
            info(2, "up", 0, 0o111),
            info(3, "down", 0, 0o111),
            info(5, "up", 7, 0o110),
            info(7, "up", 7, 0o110),
            info(8, "up", 7, 0o110),
        ];
        let table = "\
Node(s)                        Status       Mode       User       Group
0-2                            up           ---x--x--x root       staff
3                              down         ---------- root       staff
5,7-8                          up           ---x--x--- ann        staff
";
        assert_eq!(compact(&all.iter().collect::<Vec<_>>(), &people()), table);
    }

    #[test]
    fn a_long_list_has_a_line_for_each() {
        let all = [info(0, "up", 0, 0o111), info(1, "boot", 9, 0)];
        let table = "\
Node    Address                Status       Mode       User       Group
0       10.0.0.7               up           ---x--x--x root       staff
1       10.0.0.7               boot         ---------- 9          staff
";
        assert_eq!(long(&all.iter().collect::<Vec<_>>(), &people()), table);
    }

    #[test]
    fn the_output_of_ps_gets_a_column() {
        let places = BTreeMap::from([(Pid(77), NodeId(3)), (Pid(100), NodeId(12))]);
        let mut column = None;
        let lines = ["UID        PID  CMD", "root        77  x 100", "root       100  y", "root         5  z"];
        let told: Vec<String> = lines.iter().map(|line| augmented(line, &mut column, &places)).collect();
        let wanted = [
            "NODE UID        PID  CMD",
            "3    root        77  x 100",
            "12   root       100  y",
            "     root         5  z",
        ];
        assert_eq!(told, wanted);
        assert_eq!(augmented("   77 x", &mut None, &places), "3       77 x");
    }
}
