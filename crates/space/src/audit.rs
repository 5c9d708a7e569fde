//! What must hold between any two events.

use crate::life::Ghost;
use crate::space::Space;
use crate::table::{Body, End, Entry};
use vocab::{NodeId, Pid};

impl Space {
    /// Checks the invariants; the first that does not hold comes back in words. For tests and for a debug build's daemon: O(n).
    pub fn audit(&self) -> std::result::Result<(), String> {
        for (pid, entry) in self.table.iter() {
            self.audit_family(pid, entry)?;
            audit_place(pid, entry)?;
            self.audit_steps(pid, entry)?;
        }
        Ok(())
    }

    fn audit_family(&self, pid: Pid, entry: &Entry) -> std::result::Result<(), String> {
        if entry.person.pid != pid {
            return Err(format!("{pid} is entered as {}", entry.person.pid));
        }
        if let Some(parent) = self.table.get(entry.person.ppid) {
            if !parent.children.contains(&pid) {
                return Err(format!("{pid} is not among the children of {}", entry.person.ppid));
            }
            if parent.ended() {
                return Err(format!("{pid} has the ended parent {}", entry.person.ppid));
            }
        }
        match entry.children.iter().find(|c| self.table.get(**c).is_none_or(|e| e.person.ppid != pid)) {
            Some(child) => Err(format!("{child} is no child of {pid}")),
            None => Ok(()),
        }
    }

    fn audit_steps(&self, pid: Pid, entry: &Entry) -> std::result::Result<(), String> {
        if entry.ended() && entry.end == End::No && !matches!(entry.ghost, Ghost::Gone | Ghost::Absent) {
            return Err(format!("{pid} has ended and its ghost is not to end"));
        }
        if let Some(step) = entry.queue.iter().find(|s| !self.steps.is_open(s.id)) {
            return Err(format!("{pid} has a queued step that is closed: {step:?}"));
        }
        if entry.ghost.obeys() && entry.queue.front().is_some_and(|s| self.steps.free(s.id)) {
            return Err(format!("{pid} was not given what is due"));
        }
        if matches!(entry.ghost, Ghost::Gone | Ghost::Absent) && !entry.queue.is_empty() {
            return Err(format!("{pid} has commands and no ghost"));
        }
        Ok(())
    }

    /// Steps that are not carried out yet: 0 when everything is quiet.
    pub fn open_steps(&self) -> usize {
        self.steps.len()
    }
}

fn audit_place(pid: Pid, entry: &Entry) -> std::result::Result<(), String> {
    if entry.stands.contains(&entry.place) && entry.has_body() {
        return Err(format!("{pid} stands on {} where its body is", entry.place));
    }
    if entry.has_body() && entry.place == NodeId::FRONT {
        return Err(format!("the body of {pid} is on no node"));
    }
    if entry.body == Body::Native && entry.ghost != Ghost::Absent {
        return Err(format!("{pid} is native and a ghost"));
    }
    Ok(())
}
