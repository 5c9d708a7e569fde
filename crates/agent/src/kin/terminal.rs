//! A program with a terminal whose stand-in is here already, and leads a group or session: it gets the session that a terminal needs all the same.

use super::{Place, Plan, Planner};
use vocab::{Fault, Pid, Result};

impl Planner<'_> {
    /// The stand-in of `pid` becomes a program with a terminal.
    ///
    /// # Errors
    /// As [`Planner::own_session`].
    pub(super) fn in_place_with_terminal(mut self, pid: Pid) -> Result<Plan> {
        let place = self.own_session(pid)?;
        Ok(Plan { makes: self.makes, parent: pid, place, ends: Vec::new() })
    }

    /// How the stand-in of `pid` comes to lead a session. One that leads a group only has to leave that first (setsid(2), EPERM).
    ///
    /// # Errors
    /// `Refused` when others here are in that group: as long as they are, nobody can make a session of that number.
    fn own_session(&mut self, pid: Pid) -> Result<Place> {
        match self.place_of(pid) {
            (_, session) if session == pid => Ok(Place::Stay),
            (group, session) if group == pid => match self.another_in(pid) {
                None => Ok(self.join(session, session, pid)),
                Some(other) => Err(Fault::refused(format!(
                    "start {pid} with a terminal: it leads the group of {other}, which is there too, and can make no session (setsid(2))"
                ))),
            },
            _ => Ok(Place::Session),
        }
    }

    /// Another member of the group that `pid` leads.
    fn another_in(&self, pid: Pid) -> Option<Pid> {
        let stands = self.stands.iter().map(|stand| &stand.person);
        let persons = stands.chain(self.bodies.iter().map(|body| &body.person));
        persons.filter(|one| one.pgid == pid && one.pid != pid).map(|one| one.pid).min()
    }
}
