//! `shoal chaos`: processes are moved at random, for tests. `shoal sandbox --chaos` starts it on the front end.
//!
//! Every move is asked for as `shoal move` asks: a process that changes all the time is asked for again, what may not be moved is refused, and nobody moves what
//! is not theirs. The front end is picked as any node is; what may not come there goes to another one.

use super::Daemon;
use crate::config;
use clap::Args;
use client::again::again;
use kern::own::plain;
use std::collections::BTreeSet;
use std::process::ExitCode;
use std::sync::mpsc::{channel, Sender};
use std::time::{Duration, Instant};
use vocab::{Fault, Kind, NodeId, Pid, Result};
use wire::ask::{Answer, Ask};

/// Moves under way at once. What takes long must not keep the others where they are.
const MOST: usize = 8;

/// Move a process that is picked at random to a node that is picked at random, again and again, and print what comes of it
#[derive(Args, Debug)]
pub(crate) struct Chaos {
    /// From one move to the next, as 50ms or 2s
    #[arg(long, value_name = "TIME", value_parser = config::span, default_value = "50ms")]
    every: Duration,
    /// As `shoal move --lazy`
    #[arg(long)]
    lazy: bool,
    #[command(flatten)]
    daemon: Daemon,
}

impl Chaos {
    /// Until it is killed.
    pub(crate) fn run(self) -> Result<ExitCode> {
        let (tell, told) = channel();
        let mut under_way = BTreeSet::new();
        // The front end does not count them among those of the space.
        let mut home = BTreeSet::new();
        let mut next = Instant::now();
        loop {
            // A tick comes when nothing else has until then.
            if let Ok((pid, is_home)) = told.recv_timeout(next.saturating_duration_since(Instant::now())) {
                under_way.remove(&pid);
                let _known = if is_home { home.insert(pid) } else { home.remove(&pid) };
                continue;
            }
            next = (next + self.every).max(Instant::now());
            match self.pick(&home) {
                Ok(Some(pick)) if under_way.len() < MOST && under_way.insert(pick.pid) => self.send(pick, &tell)?,
                Ok(_) => {}
                Err(fault) => println!("nothing is picked: {}", plain(&fault.to_string())),
            }
        }
    }

    /// A process of the space, and where it goes.
    fn pick(&self, home: &BTreeSet<Pid>) -> Result<Option<Pick>> {
        let mut daemon = self.daemon.connect()?;
        let Answer::Nodes(nodes) = daemon.ask(&Ask::Nodes)? else { return Err(Fault::wire("no answer to Nodes")) };
        let Answer::Ps { rows, .. } = daemon.ask(&Ask::Ps)? else { return Err(Fault::wire("no answer to Ps")) };
        let up: Vec<NodeId> = nodes.iter().filter(|row| row.state == "up").map(|row| row.node).collect();
        let living = rows.iter().filter(|row| row.state != 'Z' && !row.node.is_front()).map(|row| (row.pid, row.node));
        let living: Vec<_> = living.chain(home.iter().map(|pid| (*pid, NodeId::FRONT))).collect();
        if living.is_empty() {
            return Ok(None);
        }
        let (pid, from) = living[below(living.len())?];
        let nodes: Vec<NodeId> = up.into_iter().filter(|node| *node != from).collect();
        if nodes.is_empty() {
            return Ok(None);
        }
        let node = nodes[below(nodes.len())?];
        // Nothing comes there lazily.
        let home = !from.is_front() && !self.lazy && below(nodes.len() + 1)? == 0;
        Ok(Some(Pick { pid, from, node, home }))
    }

    /// Who waits is told whether it is on the front end.
    fn send(&self, pick: Pick, tell: &Sender<(Pid, bool)>) -> Result<()> {
        let (daemon, tell, lazy) = (self.daemon.clone(), tell.clone(), self.lazy);
        let moving = move || {
            let Pick { pid, from, node, home } = pick;
            let asked = |to| {
                again(|| {
                    daemon.connect()?.ask(&Ask::Move { pid, to, progress: false, lazy, executes: Vec::new() }).map(drop)
                })
            };
            let began = Instant::now();
            let (to, moved) = match home.then(|| asked(NodeId::FRONT)) {
                Some(Err(fault)) if matches!(fault.kind, Kind::Refused | Kind::Unsupported) => (node, asked(node)),
                Some(moved) => (NodeId::FRONT, moved),
                None => (node, asked(node)),
            };
            match &moved {
                Ok(()) => println!("{pid} has moved to {to} in {} us", began.elapsed().as_micros()),
                Err(fault) => println!("{pid} does not move to {to}: {}", plain(&fault.to_string())),
            }
            let is_home = match &moved {
                Ok(()) => to.is_front(),
                Err(fault) => from.is_front() && fault.kind != Kind::Gone,
            };
            // Nobody hears it when all ends.
            let _ = tell.send((pid, is_home));
        };
        let thread = std::thread::Builder::new().name("move".into()).spawn(moving);
        thread.map(drop).map_err(|e| Fault::io(&e, "start a thread for a move"))
    }
}

/// Which process moves.
struct Pick {
    pid: Pid,
    from: NodeId,
    node: NodeId,
    /// To the front end instead, if it may.
    home: bool,
}

/// A number below `most`, which is not 0.
fn below(most: usize) -> Result<usize> {
    Ok((u64::from_le_bytes(link::random()?) % most as u64) as usize)
}
