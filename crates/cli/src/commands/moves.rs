//! `shoal move`: running processes to another node.

use super::explain::explain;
use super::node_names::find;
use super::nodes::{all_known, nodes};
use super::progress::Line;
use super::Daemon;
use clap::Args;
use client::moves::{move_to, move_to_execute};
use client::Local;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use vocab::{Fault, NodeId, Pid, Result};
use wire::ask::{Answer, Ask, NodeRow};
use wire::nodes::permits;

/// Move running processes to another node; returns when they run there. Interrupted before one does, it stays where it is
#[derive(Args, Debug)]
pub(crate) struct Move {
    /// Processes of the space, then the node by number or name, or `front`; with --from the node alone, or nothing: the one with the fewest processes
    #[arg(num_args = 0.., value_name = "PID... NODE")]
    words: Vec<String>,
    /// Empty this node
    #[arg(long, value_name = "NODE", requires = "all", value_parser = super::node_names::node)]
    from: Option<NodeId>,
    /// All processes of the node that can be moved; those that cannot are named, with the reason
    #[arg(long, requires = "from")]
    all: bool,
    /// Move nothing: say for each process how it would go and all that is in the way; the exit status is 1 if anything is
    #[arg(long)]
    explain: bool,
    /// Run it there at once: what is large of its memory comes when it is needed, and all of it in the end. If the old node or the link is lost before that, the process is
    #[arg(long, conflicts_with = "explain")]
    lazy: bool,
    /// One that asks for itself cannot hear: why it stays is written into this new file
    #[arg(long, hide = true, value_name = "FILE")]
    tell: Option<PathBuf>,
    /// The file that the process will execute there, which may be on the front end only
    #[arg(long, hide = true, value_name = "FILE", requires = "tell")]
    executes: Option<OsString>,
    #[command(flatten)]
    daemon: Daemon,
}

impl Move {
    pub(crate) fn run(self) -> Result<ExitCode> {
        if let Some(tell) = &self.tell {
            return self.for_itself(tell);
        }
        let mut daemon = self.daemon.connect()?;
        let one: One = match (self.explain, self.lazy) {
            (true, _) => {
                |daemon, pid, to| explain(daemon, pid, to).map(|goes| if goes { Outcome::Goes } else { Outcome::Stays })
            }
            (_, true) => |daemon, pid, to| go(daemon, pid, to, true),
            _ => |daemon, pid, to| go(daemon, pid, to, false),
        };
        let all_moved = match (self.from, &self.words[..]) {
            (Some(from), []) => empty(&mut daemon, from, None, one)?,
            (Some(from), [to]) => {
                let to = find(&mut daemon, to)?;
                empty(&mut daemon, from, Some(to), one)?
            }
            (None, [pids @ .., to]) if !pids.is_empty() => {
                let (pids, to) = (pids.iter().map(pid).collect::<Result<Vec<Pid>>>()?, find(&mut daemon, to)?);
                let mut all = true;
                for pid in pids {
                    all &= one(&mut daemon, pid, to)?.counts();
                }
                all
            }
            _ => return Err(Fault::refused("wanted: PID... NODE, or --from NODE --all [NODE]")),
        };
        Ok(if all_moved { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

impl Move {
    /// Moves one that has asked for it, and waits.
    fn for_itself(&self, tell: &Path) -> Result<ExitCode> {
        let [one, to] = &self.words[..] else { return Err(Fault::refused("wanted: PID NODE")) };
        let (pid, to) = (pid(one)?, to.parse()?);
        let moved = self.daemon.connect().and_then(|mut daemon| match &self.executes {
            Some(file) => move_to_execute(&mut daemon, pid, to, file.as_bytes()),
            None => move_to(&mut daemon, pid, to, self.lazy, None),
        });
        match moved {
            Ok(()) => Ok(ExitCode::SUCCESS),
            Err(fault) => client::moves::tell(tell, &fault).map(|()| ExitCode::FAILURE),
        }
    }
}

fn pid(word: &String) -> Result<Pid> {
    word.parse().map(Pid).map_err(|_| Fault::refused(format!("{word:?} is no PID")))
}

/// What has become of one.
pub(super) enum Outcome {
    Goes,
    /// Why has been said.
    Stays,
    Fails(Fault),
}

impl Outcome {
    /// `false`, and why is said, when it stays.
    fn counts(self) -> bool {
        match self {
            Outcome::Goes => return true,
            Outcome::Stays => {}
            Outcome::Fails(fault) => kern::own::complain(fault),
        }
        false
    }
}

/// Moves one.
pub(super) fn go(daemon: &mut Local, pid: Pid, to: NodeId, lazy: bool) -> Result<Outcome> {
    let mut line = Line::new(pid);
    let seen = line.is_seen();
    let mut show = |progress| line.show(progress);
    let moved = move_to(daemon, pid, to, lazy, if seen { Some(&mut show) } else { None });
    line.clear();
    Ok(moved.map_or_else(Outcome::Fails, |()| Outcome::Goes))
}

/// What is done with each process.
pub(super) type One = fn(&mut Local, Pid, NodeId) -> Result<Outcome>;

/// Moves everything away from a node, and what is started there meanwhile; each process is tried once. What has ended has not stayed.
///
/// # Errors
/// `Refused` for a node that there is not.
pub(super) fn empty(daemon: &mut Local, from: NodeId, to: Option<NodeId>, one: One) -> Result<bool> {
    if from.is_front() {
        return Err(Fault::refused("--from front: the front end is no node; name the processes"));
    }
    all_known(daemon, to.into_iter().filter(|to| !to.is_front()).chain([from]))?;
    let (mut tried, mut all_moved) = (BTreeSet::new(), true);
    loop {
        let there: Vec<Pid> = processes(daemon, from)?.into_iter().filter(|pid| !tried.contains(pid)).collect();
        if there.is_empty() {
            return Ok(all_moved);
        }
        for pid in there {
            let to = to.map_or_else(|| emptiest(daemon, from), Ok)?;
            tried.insert(pid);
            all_moved &= match one(daemon, pid, to)? {
                Outcome::Fails(_) if !processes(daemon, from)?.contains(&pid) => true,
                outcome => outcome.counts(),
            };
        }
    }
}

/// What lives on a node.
pub(super) fn processes(daemon: &mut Local, node: NodeId) -> Result<Vec<Pid>> {
    match daemon.ask(&Ask::Ps)? {
        Answer::Ps { missing, .. } if missing.contains(&node) => {
            Err(Fault::gone(format!("node {node} does not say what runs there")))
        }
        Answer::Ps { rows, .. } => {
            Ok(rows.into_iter().filter(|row| row.node == node && row.state != 'Z').map(|row| row.pid).collect())
        }
        other => Err(Fault::wire(format!("the daemon answered Ps with {other:?}"))),
    }
}

/// The node that is up, and where the caller may go, and has the fewest processes.
fn emptiest(daemon: &mut Local, but: NodeId) -> Result<NodeId> {
    let own = kern::proc::Proc::open(kern::proc::root())?.status(Pid(std::process::id() as i32));
    let own = own.map_err(|errno| Fault::sys(errno, "find out who calls"))?.creds;
    let may = |row: &NodeRow| permits(&own, (row.uid, row.gid, row.mode));
    let up = nodes(daemon)?.into_iter().filter(|row| row.node != but && row.state == "up" && may(row));
    let first = up.min_by_key(|row| row.processes);
    first.map(|row| row.node).ok_or_else(|| Fault::refused(format!("no node but {but} is up, and yours to use")))
}
