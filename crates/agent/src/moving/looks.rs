//! How processes would move: movers look, and nothing moves.

use crate::agent::Agent;
use crate::bodies::Life;
use mover::{Order, Out, Place, Said};
use vocab::{Creds, Fault, Pid, Result};
use wire::look::{Look, Needs};
use wire::node::ToFront;

/// What a mover was started for, besides moving.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Looking {
    /// At a process here; the number of the question.
    At(u64),
    /// For what one of another node needs.
    For(u64),
}

impl Looking {
    fn said(self, said: Said) -> Option<ToFront> {
        match (self, said) {
            (Looking::At(id), Said::Looked(look)) => Some(ToFront::Looked { id, look: Box::new(look) }),
            (Looking::For(id), Said::Suited(obstacles)) => Some(ToFront::Suited { id, obstacles }),
            (looking, Said::Failed(fault)) => Some(looking.failed(&fault)),
            _ => None,
        }
    }

    fn failed(self, fault: &Fault) -> ToFront {
        let obstacles = vec![fault.to_string()];
        match self {
            Looking::At(id) => ToFront::Looked { id, look: Box::new(Look { obstacles, ..Look::default() }) },
            Looking::For(id) => ToFront::Suited { id, obstacles },
        }
    }
}

impl Agent {
    /// How would this body leave?
    pub(crate) fn look_at(&mut self, id: u64, pid: Pid, streams: bool, user: Option<Creds>) {
        let begun = match self.bodies.get(pid).map(|body| body.life) {
            // As in `depart`.
            Some(Life::Live | Life::Leaving) => {
                let remains = Some(self.remain(pid));
                let place = Place::needed_if(self.is_needed_here(pid));
                let filters = self.filters();
                let (its, pipes) = self.relayed(pid);
                let terminal = self.terminal_of(its.filter(|_| streams));
                let (streams, relayed) = if streams { (pipes, None) } else { (None, pipes) };
                let order = Out { pid, filters, streams, relayed, remains, place, terminal, user, ..Out::default() };
                self.begin_look(pid, Looking::At(id), &Order::Look(order))
            }
            Some(_) => Err(Fault::gone(format!("{pid} ends, or leaves already"))),
            None => Err(Fault::gone(format!("{pid} is not on this node"))),
        };
        if let Err(fault) = begun {
            self.uplink.send(&Looking::At(id).failed(&fault));
        }
    }

    /// Could this process come here?
    pub(crate) fn suits(&mut self, id: u64, pid: Pid, needs: Needs) {
        let begun = match self.bodies.has(pid) || self.moving.arrives(pid) {
            true => Err(Fault::refused(format!("the number {pid} is in use on this node"))),
            false => self.begin_look(pid, Looking::For(id), &Order::Suits(needs)),
        };
        if let Err(fault) = begun {
            self.uplink.send(&Looking::For(id).failed(&fault));
        }
    }

    fn begin_look(&mut self, pid: Pid, looking: Looking, order: &Order) -> Result<()> {
        let mover = self.start_mover(pid, order)?;
        self.moving.looking.insert(mover, looking);
        Ok(())
    }

    /// Is it what a mover has seen that only looks?
    pub(super) fn has_looked(&mut self, number: u32, said: &Said) -> bool {
        let Some(looking) = self.moving.looking.remove(&number) else { return false };
        if let Some(told) = looking.said(said.clone()) {
            self.uplink.send(&told);
        }
        true
    }
}
