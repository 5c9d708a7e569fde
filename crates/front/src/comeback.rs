//! Programs that were asked for on nodes which have yet to come back to this daemon, after it has followed another one.
//!
//! Such nodes are known by the ranges of PIDs that the daemon before this one has given them. Until the time is over in which they may
//! come back ([`Front::settle_in_time`]) it is not known that there is no such node, and whoever names one waits.

use crate::front::Front;
use crate::runs::Asker;
use vocab::{Fault, Result};
use wire::ask::Answer;
use wire::run::{Caller, Program, Target};

/// What a client has asked, to be answered when its nodes are back or come no more.
#[derive(Debug)]
pub(crate) struct Early {
    asker: Asker,
    caller: Caller,
    target: Target,
    program: Program,
}

impl Front {
    /// Must it be waited for nodes before it can be said where a program is to run?
    pub(crate) fn is_early(&self, target: &Target) -> bool {
        if self.settle_at_us.is_none() {
            return false;
        }
        let mut awaited = self.leases.owners().into_iter().filter(|node| self.nodes.get(*node).is_none());
        match target {
            Target::Nodes(nodes) => awaited.any(|node| nodes.contains(&node)),
            Target::All => awaited.next().is_some(),
            Target::Any | Target::Count(_) => self.nodes.iter().next().is_none() && awaited.next().is_some(),
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
        if self.early.iter().any(|early| early.caller.pid == caller.pid) {
            return Err(Fault::refused(format!("run a program under {}: it has asked for one already", caller.pid)));
        }
        self.early.push(Early { asker, caller, target, program });
        Ok(())
    }

    /// A node is back, or the time to come back is over: all questions are asked again, with what is true of the callers by now.
    pub(crate) fn early_again(&mut self) {
        for Early { asker, caller, target, program } in std::mem::take(&mut self.early) {
            let caller = match asker {
                Asker::Local(token) if !self.is_there(token) => continue,
                Asker::Local(token) => self.caller(token),
                Asker::Remote { .. } => Ok(caller),
            };
            let asked = caller.and_then(|caller| self.on_run(asker, caller, target, program));
            if let Err(fault) = asked {
                self.answer(asker, Answer::Failed(fault), true);
            }
        }
    }
}
