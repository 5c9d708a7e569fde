//! Programs that clients have asked for: who asked, and which channel belongs to which copy.

use crate::connection::Token;
use std::collections::HashMap;
use vocab::{NodeId, Pid, Result};
use wire::ask;
use wire::node::ChannelTo;
use wire::run::Program;

/// Where answers to a question go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Asker {
    /// A client of this daemon.
    Local(Token),
    /// A client of a node's agent, with the agent's number for the question.
    Remote { node: NodeId, id: u64 },
}

/// One `shoal run`.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) asker: Asker,
    pub(crate) program: Program,
    /// Where the relay takes its channels, as [`ChannelTo::address`].
    pub(crate) address: String,
    pub(crate) copies: Vec<Copy>,
    /// Copies of which the end is not known.
    pub(crate) alive: usize,
}

/// One copy of its program.
#[derive(Debug)]
pub(crate) struct Copy {
    pub(crate) node: NodeId,
    /// Once it is known.
    pub(crate) pid: Option<Pid>,
    token: [u8; 16],
    key: [u8; 32],
}

/// All runs, by the PID of whoever called `shoal run`.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    runs: HashMap<Pid, Run>,
    /// Channels that have not been dialled yet.
    /// They outlive the run: the last bytes of a quick program may come after its end.
    tokens: HashMap<[u8; 16], (Asker, u32)>,
    /// Which caller and copy a program's PID belongs to.
    programs: HashMap<Pid, (Pid, u32)>,
}

impl Runs {
    /// Notes a new run with a copy on each of `nodes`, and makes the channels' secrets.
    ///
    /// # Errors
    /// `Sys` when the kernel gives no random bytes.
    pub(crate) fn begin(&mut self, caller: Pid, nodes: &[NodeId], run: Run) -> Result<Vec<ask::Copy>> {
        let mut run = run;
        self.end(caller);
        for node in nodes {
            run.copies.push(Copy { node: *node, pid: None, token: link::random()?, key: link::random()? });
        }
        run.alive = nodes.len();
        if let Asker::Local(_) = run.asker {
            for (i, copy) in run.copies.iter().enumerate() {
                self.tokens.insert(copy.token, (run.asker, i as u32));
            }
        }
        let granted = run
            .copies
            .iter()
            .map(|c| ask::Copy { node: c.node, key: c.key.to_vec(), token: c.token.to_vec() })
            .collect();
        self.runs.insert(caller, run);
        Ok(granted)
    }

    /// Has `caller` asked for something that has not ended?
    pub(crate) fn has(&self, caller: Pid) -> bool {
        self.runs.contains_key(&caller)
    }

    /// The copy `copy` of `caller` gets PID `pid`: its program, and how its node reaches the relay.
    pub(crate) fn start(&mut self, caller: Pid, copy: u32, pid: Pid) -> Option<(Program, ChannelTo)> {
        let run = self.runs.get_mut(&caller)?;
        let one = run.copies.get_mut(copy as usize)?;
        one.pid = Some(pid);
        self.programs.insert(pid, (caller, copy));
        let (token, key) = (one.token.to_vec(), one.key.to_vec());
        Some((run.program.clone(), ChannelTo { address: run.address.clone(), token, key }))
    }

    /// The program's PID has ended, or could not be started: who is to be told, and for which copy.
    pub(crate) fn ended(&mut self, pid: Pid) -> Option<(Asker, u32, bool)> {
        let (caller, copy) = self.programs.remove(&pid)?;
        self.copy_ended(caller, copy)
    }

    /// The same, for a copy that never got a PID. The last value: was it the last copy?
    pub(crate) fn copy_ended(&mut self, caller: Pid, copy: u32) -> Option<(Asker, u32, bool)> {
        let run = self.runs.get_mut(&caller)?;
        run.alive = run.alive.saturating_sub(1);
        let (asker, last) = (run.asker, run.alive == 0);
        if last {
            self.end(caller);
        }
        Some((asker, copy, last))
    }

    /// A channel was dialled with this token: whose it is. A token works once.
    pub(crate) fn dialled(&mut self, token: &[u8; 16]) -> Option<(Asker, u32)> {
        self.tokens.remove(token)
    }

    /// Whoever asked is gone: nobody takes its channels.
    pub(crate) fn asker_gone(&mut self, asker: Asker) {
        self.tokens.retain(|_, (whose, _)| *whose != asker);
    }

    pub(crate) fn again(&mut self, _pid: Pid, _node: NodeId) -> Result<ChannelTo> {
        Err(vocab::Fault::refused("not yet"))
    }
    pub(crate) fn moved(&mut self, _pid: Pid, _node: NodeId) {}
    pub(crate) fn stays(&mut self, _pid: Pid) {}

    /// Are the standard streams of this program relayed for somebody who called `shoal run`?
    pub(crate) fn relays(&self, pid: Pid) -> bool {
        self.programs.contains_key(&pid)
    }

    fn end(&mut self, caller: Pid) {
        if let Some(run) = self.runs.remove(&caller) {
            for copy in run.copies.iter().filter_map(|c| c.pid) {
                self.programs.remove(&copy);
            }
        }
    }
}
