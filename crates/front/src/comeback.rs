//! What is asked and cannot be answered yet: about nodes which have yet to come back to this daemon, after it has followed another one (programs that are to run there, and
//! processes that were there), and by a process of which it is not known yet whether it moves.
//!
//! Such nodes are known by the ranges of PIDs that the daemon before this one has given them, such processes by their ghosts. Until the time is over in which they may
//! come back ([`Front::settle_in_time`]) it is not known that there is no such node, and whoever names one waits.

use crate::front::Front;
use crate::move_states::State;
use crate::runs::Asker;
use vocab::{Fault, NodeId, Pid, Result};
use wire::ask::{Answer, Ask};
use wire::node::ToNode;
use wire::run::{Caller, Program, Target};

/// What a client has asked, to be answered when its nodes are back or come no more.
#[derive(Debug)]
pub(crate) struct Early {
    asker: Asker,
    caller: Caller,
    ask: Ask,
}

impl Front {
    /// Must it be waited for nodes before it can be said where a program is to run?
    pub(crate) fn is_early(&self, target: &Target) -> bool {
        match target {
            Target::Nodes(nodes) => nodes.iter().any(|node| self.awaits(*node)),
            Target::All => self.awaited().next().is_some(),
            Target::Any | Target::Count(_) => self.nodes.iter().next().is_none() && self.awaited().next().is_some(),
        }
    }

    fn awaited(&self) -> impl Iterator<Item = NodeId> + '_ {
        let owners = self.settle_at_us.map(|_| self.leases.owners());
        owners.into_iter().flatten().filter(|node| self.nodes.get(*node).is_none())
    }

    pub(crate) fn awaits(&self, node: NodeId) -> bool {
        self.awaited().any(|one| one == node)
    }

    /// Must it be waited for nodes before it is known where a process is, or whether it can go where it is to?
    fn is_early_to_tell(&self, caller: &Caller, ask: &Ask) -> bool {
        let unclaimed = |pid: Pid| {
            self.space.get(pid).is_some_and(|view| view.unclaimed)
                || self.settle_at_us.is_some() && self.aways.is_nowhere_yet(pid)
        };
        match *ask {
            Ask::Move { pid, to, .. } | Ask::Explain { pid, to } => unclaimed(pid) || self.awaits(to),
            Ask::Where { pid } => unclaimed(if pid == Pid::NONE { caller.pid } else { pid }),
            _ => false,
        }
    }

    /// `Err`: it can be answered now.
    pub(crate) fn ask_later(&mut self, asker: Asker, caller: &Caller, ask: Ask) -> std::result::Result<(), Ask> {
        if !self.is_early_to_tell(caller, &ask) {
            return Err(ask);
        }
        self.early.push(Early { asker, caller: caller.clone(), ask });
        Ok(())
    }

    /// Who asks for a program to run in its place is not to move any more, for nobody can carry that. Is it yet to be known that it stays, because its node may have let it go already?
    pub(crate) fn is_yet_to_stay(&mut self, asker: Asker, pid: Pid) -> bool {
        let at = match asker {
            Asker::Local(_) => NodeId::FRONT,
            Asker::Remote { node, .. } => node,
        };
        let Some(one) = self.moves.get_mut(&pid).filter(|one| one.from == at) else { return false };
        let why = Fault::refused("it has begun to run a program elsewhere");
        match one.state {
            state if state.can_end() => {
                self.move_fails(pid, why);
                false
            }
            State::Leaving => {
                one.why.get_or_insert(why);
                self.send(at, &ToNode::Stay { pid });
                true
            }
            _ => false,
        }
    }

    /// Keeps the question until [`Front::early_again`].
    ///
    /// # Errors
    /// `Refused` for a second question of the same process.
    pub(crate) fn wait_for_nodes(
        &mut self,
        asker: Asker,
        caller: Caller,
        target: Target,
        program: Program,
    ) -> Result<()> {
        let asks = |early: &Early| early.caller.pid == caller.pid && matches!(early.ask, Ask::Run { .. });
        if self.early.iter().any(asks) {
            return Err(Fault::refused(format!("run a program under {}: it has asked for one already", caller.pid)));
        }
        self.early.push(Early { asker, caller, ask: Ask::Run { target, program: Box::new(program) } });
        Ok(())
    }

    /// A node is back, or the time to come back is over, or a move: all questions are asked again, with what is true of the callers by now.
    pub(crate) fn early_again(&mut self) {
        for Early { asker, caller, ask } in std::mem::take(&mut self.early) {
            let caller = match asker {
                Asker::Local(token) if !self.is_there(token) => continue,
                Asker::Local(token) => self.caller(token),
                Asker::Remote { .. } => Ok(caller),
            };
            match caller {
                Ok(caller) => self.on_ask(asker, &caller, ask),
                Err(fault) => self.answer(asker, Answer::Failed(fault), true),
            }
        }
    }
}
