//! How a process would come to the front end, or leave it: movers look, and nothing moves.

use crate::connection::{Connection, Token};
use crate::front::Front;
use mover::{Order, Out, Place, Said};
use std::collections::HashMap;
use vocab::{Creds, Fault, NodeId, Pid, Result};
use wire::look::{Look, Needs};
use wire::node::ToNode;

/// What a mover was started for, besides moving.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Looking {
    /// At a process here; the number of the question.
    At(u64),
    /// For what one of a node needs.
    For(u64),
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Looks {
    all: HashMap<Token, Looking>,
}

impl Front {
    /// What a node would be asked.
    pub(crate) fn ask_here(&mut self, message: &ToNode) {
        match message {
            ToNode::Look { id, pid, user, .. } => self.look_here(*id, *pid, user.clone()),
            ToNode::Suits { id, pid, needs } => self.suits_here(*id, *pid, needs.clone()),
            _ => {}
        }
    }

    fn look_here(&mut self, id: u64, pid: Pid, user: Option<Creds>) {
        let order = self.out(pid).map(|out| Order::Look(Out { user, ..out }));
        self.begin_look(pid, Looking::At(id), order);
    }

    fn suits_here(&mut self, id: u64, pid: Pid, needs: Needs) {
        self.begin_look(pid, Looking::For(id), Ok(Order::Suits(needs)));
    }

    /// How it would leave.
    pub(crate) fn out(&self, pid: Pid) -> Result<Out> {
        let remains = Some(self.remain(pid)?);
        // What takes its place relays its streams, whatever they are.
        Ok(Out { pid, remains, place: Place::Needed, home: true, ..Out::default() })
    }

    fn begin_look(&mut self, pid: Pid, looking: Looking, order: Result<Order>) {
        match order.and_then(|order| self.start_mover(pid, &order)) {
            Ok(mover) => drop(self.looks.all.insert(mover, looking)),
            Err(fault) => self.has_looked(looking, Said::Failed(fault)),
        }
    }

    /// What a mover says that only looks, which is all that it says; `false` for one that moves.
    pub(crate) fn looker_said(&mut self, token: Token, said: Option<Said>) -> bool {
        let Some(looking) = self.looks.all.remove(&token) else { return false };
        self.has_looked(looking, said.unwrap_or_else(|| Said::Failed(Fault::gone("the mover has ended"))));
        if let Some(Connection::Mover(_)) = self.connections.get(&token) {
            self.close(token);
        }
        true
    }

    fn has_looked(&mut self, looking: Looking, said: Said) {
        let failed = |said| match said {
            Said::Failed(fault) => vec![fault.to_string()],
            other => vec![format!("its mover says {other:?}")],
        };
        match (looking, said) {
            (Looking::At(id), Said::Looked(look)) => self.looked(NodeId::FRONT, id, look),
            (Looking::At(id), said) => {
                self.looked(NodeId::FRONT, id, Look { obstacles: failed(said), ..Look::default() });
            }
            (Looking::For(id), Said::Suited(obstacles)) => self.suited(NodeId::FRONT, id, obstacles),
            (Looking::For(id), said) => self.suited(NodeId::FRONT, id, failed(said)),
        }
    }
}
