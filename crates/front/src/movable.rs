//! What may be moved, by whom, and with what.

use crate::front::Front;
use vocab::{Fault, NodeId, Pid, Result};
use wire::run::Caller;

/// An ordinary user's processes that may be on their way at the same time.
const MOST_OF_A_USER: usize = 16;

impl Front {
    /// Where it is from which this caller may move it.
    ///
    /// # Errors
    /// `Gone`; `Refused` for another user's, and for what never moves.
    pub(crate) fn is_movable(&self, caller: &Caller, pid: Pid) -> Result<NodeId> {
        let Some(view) = self.space.get(pid).filter(|view| !view.node.is_front()) else {
            return self.may_leave_front(caller, pid).map(|()| NodeId::FRONT);
        };
        if !caller.may_move(&view.person.creds) {
            return Err(Fault::refused(format!("{pid} is another user's, or has rights that you have not")));
        }
        match view.ended {
            None => Ok(view.node),
            Some(_) => Err(Fault::gone(format!("{pid} has ended"))),
        }
    }

    /// Each is work of root's for a user.
    ///
    /// # Errors
    /// `Changed`: one of them will have come soon.
    pub(crate) fn may_move_more(&self, caller: &Caller) -> Result<()> {
        let uid = caller.creds.uid.effective;
        let is_theirs = |pid: &&Pid| self.space.get(**pid).is_some_and(|view| view.person.creds.uid.effective == uid);
        match uid == 0 || self.moves.keys().filter(is_theirs).count() < MOST_OF_A_USER {
            true => Ok(()),
            false => Err(Fault::changed(format!("{MOST_OF_A_USER} processes of user {uid} are on their way already"))),
        }
    }

    /// The program whose standard streams, relayed for somebody who called `shoal run`, this process has, if it has kept them.
    pub(crate) fn relayed_with(&self, pid: Pid) -> Option<Pid> {
        let own = self.runs.relays(pid).then_some(pid);
        own.or_else(|| self.space.streams_of(pid).filter(|program| self.runs.relays(*program)))
    }

    pub(crate) fn is_moving(&self, pid: Pid) -> bool {
        self.moves.contains_key(&pid)
    }
}
