//! `shoal chaos`: processes are moved at random, for tests. `shoal sandbox --chaos` starts it on the front end.
//!
//! Every move is asked for as `shoal move` asks, so what may not be moved is refused, and nobody moves what is not theirs.

use super::Daemon;
use crate::config;
use clap::Args;
use kern::own::plain;
use std::collections::BTreeSet;
use std::process::ExitCode;
use std::sync::mpsc::{channel, Sender};
use std::time::{Duration, Instant};
use vocab::{Fault, NodeId, Pid, Result};
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
        let mut next = Instant::now();
        loop {
            // A tick comes when nothing else has until then.
            if let Ok(pid) = told.recv_timeout(next.saturating_duration_since(Instant::now())) {
                under_way.remove(&pid);
                continue;
            }
            next = (next + self.every).max(Instant::now());
            match self.pick() {
                Ok(Some((pid, to))) if under_way.len() < MOST && under_way.insert(pid) => self.send(pid, to, &tell)?,
                Ok(_) => {}
                Err(fault) => println!("nothing is picked: {}", plain(&fault.to_string())),
            }
        }
    }

    /// A process on some node, and another node that is up.
    fn pick(&self) -> Result<Option<(Pid, NodeId)>> {
        let mut daemon = self.daemon.connect()?;
        let Answer::Nodes(nodes) = daemon.ask(&Ask::Nodes)? else { return Err(Fault::wire("no answer to Nodes")) };
        let Answer::Ps { rows, .. } = daemon.ask(&Ask::Ps)? else { return Err(Fault::wire("no answer to Ps")) };
        let up: Vec<NodeId> = nodes.iter().filter(|row| row.state == "up").map(|row| row.node).collect();
        let living: Vec<_> = rows.iter().filter(|row| row.state != 'Z' && !row.node.is_front()).collect();
        if living.is_empty() || up.len() < 2 {
            return Ok(None);
        }
        let one = living[below(living.len())?];
        let others: Vec<NodeId> = up.into_iter().filter(|node| *node != one.node).collect();
        Ok(Some((one.pid, others[below(others.len())?])))
    }

    fn send(&self, pid: Pid, to: NodeId, tell: &Sender<Pid>) -> Result<()> {
        let (mut daemon, tell, lazy) = (self.daemon.connect()?, tell.clone(), self.lazy);
        let moving = move || {
            let began = Instant::now();
            match daemon.ask(&Ask::Move { pid, to, progress: false, lazy }) {
                Ok(_) => println!("{pid} has moved to {to} in {} us", began.elapsed().as_micros()),
                Err(fault) => println!("{pid} does not move to {to}: {}", plain(&fault.to_string())),
            }
            // Nobody hears it when all ends.
            let _ = tell.send(pid);
        };
        let thread = std::thread::Builder::new().name("move".into()).spawn(moving);
        thread.map(drop).map_err(|e| Fault::io(&e, "start a thread for a move"))
    }
}

/// A number below `most`, which is not 0.
fn below(most: usize) -> Result<usize> {
    Ok((u64::from_le_bytes(link::random()?) % most as u64) as usize)
}
