//! The life of a ghost, as a table, and what it tells.

use crate::effect::{Command, Effect};
use crate::space::Space;
use crate::step::{Act, Given, Step, What};
use crate::table::{Body, End, Entry};
use vocab::{Exit, Pid, Sig, SigSet};

/// Where a ghost is in its life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ghost {
    /// There is none, and none will come.
    Absent,
    /// Its Clone has not been given.
    Wanted,
    /// Its Clone has been given (or it is `shoal run`, which will hold).
    Coming,
    /// It holds, and obeys.
    Held,
    /// It is in the exit gate.
    Dying,
    /// It has ended.
    Gone,
}

/// What moves a ghost on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Turn {
    /// Its Clone was given.
    Cloned,
    /// Its Clone failed, or its cloner died first.
    Failed,
    Held,
    Dying,
    Gone,
}

impl Ghost {
    /// The table. What is not in it changes nothing.
    pub(crate) fn next(self, turn: Turn) -> Ghost {
        match (self, turn) {
            (Ghost::Wanted, Turn::Cloned) => Ghost::Coming,
            (Ghost::Wanted | Ghost::Coming, Turn::Failed) => Ghost::Absent,
            (Ghost::Wanted | Ghost::Coming, Turn::Held) => Ghost::Held,
            (Ghost::Wanted | Ghost::Coming | Ghost::Held, Turn::Dying) => Ghost::Dying,
            (Ghost::Wanted | Ghost::Coming | Ghost::Held | Ghost::Dying, Turn::Gone) => Ghost::Gone,
            (same, _) => same,
        }
    }

    /// May it be given commands? Not before it holds: if its cloner dies first, another one has to make it another way.
    pub(crate) fn obeys(self) -> bool {
        self == Ghost::Held
    }

    /// Will it obey what is queued for it?
    pub(crate) fn will_obey(self) -> bool {
        matches!(self, Ghost::Wanted | Ghost::Coming | Ghost::Held)
    }
}

impl Space {
    pub(crate) fn held(&mut self, pid: Pid) {
        let Some(entry) = self.table.get_mut(pid) else {
            self.log(pid, vocab::NodeId::FRONT, "ghost of nobody ends", 0);
            self.out.push(Effect::Ghost { pid, command: Command::Die { sig: Sig::KILL, core: false } });
            return;
        };
        entry.ghost = entry.ghost.next(Turn::Held);
        entry.born = None;
        self.ready.push(pid);
        self.log(pid, vocab::NodeId::FRONT, "ghost holds", 0);
    }

    /// The ghost reports its oldest command.
    pub(crate) fn done(&mut self, pid: Pid, result: Result<i32, i32>) {
        let Some(given) = self.table.get_mut(pid).and_then(|e| e.given.pop_front()) else { return };
        self.steps.finish(given.id, &mut self.ready);
        let errno = result.err().unwrap_or(0);
        match given.what {
            What::Clone { child, orphan } if errno != 0 => {
                // An orphan's first cloner may have made it before it died.
                if !(orphan && errno == crate::kill::EEXIST) {
                    self.not_cloned(child, errno);
                }
            }
            What::Clone { .. } => {}
            What::Copy(copy) => self.copied(pid, copy, result),
            What::Reap(child) => self.waited(child),
            What::Stop => {
                if let Some(entry) = self.table.get_mut(pid) {
                    entry.stops = entry.stops.saturating_sub(1);
                }
            }
            What::Kill(Some((node, id))) => self.out.push(Effect::KillDone { node, id, errno }),
            What::Kill(None) => {}
            What::Other(what) if errno != 0 => self.log(pid, vocab::NodeId::FRONT, what, errno),
            What::Other(_) => {}
        }
    }

    /// No ghost can be made for this body, so it may not live.
    pub(crate) fn not_cloned(&mut self, pid: Pid, errno: i32) {
        let Some(entry) = self.table.get_mut(pid) else { return };
        if entry.ghost.next(Turn::Failed) == entry.ghost {
            return;
        }
        entry.ghost = Ghost::Absent;
        let place = entry.place;
        self.log(pid, place, "no ghost could be made: killed", errno);
        self.flush(pid);
        self.kill_body(pid);
        self.bury(pid);
    }

    /// A signal is pending that only the kernel can deliver.
    pub(crate) fn pending(&mut self, pid: Pid, set: SigSet) {
        let Some(entry) = self.table.get_mut(pid) else {
            self.out.push(Effect::Interrupt { pid });
            return;
        };
        if set.has(Sig::KILL) {
            entry.kill_pending = true;
            self.kill_arrived(pid);
        } else if set.has(Sig::STOP) {
            self.stop_arrived(pid);
        } else {
            self.out.push(Effect::Interrupt { pid });
        }
    }

    fn kill_arrived(&mut self, pid: Pid) {
        let Some(entry) = self.table.get_mut(pid) else { return };
        entry.stop_pending = false;
        match (&entry.body, entry.end) {
            (_, End::Issued(_)) => self.out.push(Effect::Interrupt { pid }),
            (Body::Ended(_), _) => self.flush(pid),
            (Body::Many(_), _) => self.kill_copies(pid),
            _ => self.kill_body(pid),
        }
    }

    /// The ghost is in the exit gate, by our command or not.
    pub(crate) fn dying(&mut self, pid: Pid) {
        let Some(entry) = self.table.get_mut(pid) else {
            self.out.push(Effect::Release { pid });
            return;
        };
        entry.ghost = entry.ghost.next(Turn::Dying);
        let (end, many) = (entry.end, matches!(entry.body, Body::Many(_)));
        self.flush(pid);
        match end {
            End::Issued(_) => self.out.push(Effect::Release { pid }),
            End::Queued(_) => {}
            End::No if many => self.kill_copies(pid),
            End::No => {
                self.log(pid, vocab::NodeId::FRONT, "ghost was killed", 0);
                self.kill_body(pid);
            }
        }
    }

    pub(crate) fn gone(&mut self, pid: Pid) {
        let Some(entry) = self.table.get_mut(pid) else { return };
        entry.ghost = entry.ghost.next(Turn::Gone);
        if let End::Queued(id) | End::Issued(id) = entry.end {
            entry.queue.retain(|step| step.act != Act::End);
            self.steps.finish(id, &mut self.ready);
        }
        let many = self.table.get(pid).is_some_and(|e| matches!(e.body, Body::Many(_)));
        self.flush(pid);
        self.log(pid, vocab::NodeId::FRONT, "ghost gone", 0);
        if many {
            self.kill_copies(pid);
            if let Some(entry) = self.table.get_mut(pid) {
                entry.body = Body::Ended(Exit::Killed { sig: Sig::KILL, core: false });
            }
            self.orphan_children(pid);
        }
        self.kill_body(pid);
        self.bury(pid);
    }

    /// Gives a ghost what it can be given.
    pub(crate) fn pump(&mut self, pid: Pid) {
        while let Some(step) = self.due(pid) {
            self.give(pid, step);
        }
    }

    fn due(&mut self, pid: Pid) -> Option<Step> {
        let entry = self.table.get_mut(pid)?;
        let first = entry.queue.front()?;
        let obeys = entry.ghost.obeys() || (first.act == Act::End && entry.ghost == Ghost::Dying);
        if obeys && self.steps.free(first.id) {
            return entry.queue.pop_front();
        }
        None
    }

    fn give(&mut self, pid: Pid, step: Step) {
        let Some(what) = step.act.what() else { return self.give_end(pid) };
        if let What::Clone { child, .. } = what {
            match self.table.get_mut(child) {
                Some(entry) if entry.clone == Some(step.id) => {
                    entry.ghost = entry.ghost.next(Turn::Cloned);
                    self.ready.push(child);
                }
                // It came and went before its ghost was begun.
                _ => return self.steps.finish(step.id, &mut self.ready),
            }
        }
        let Some(entry) = self.table.get_mut(pid) else { return };
        if what == What::Stop {
            entry.stops += 1;
        }
        entry.given.push_back(Given { id: step.id, what });
        let command = match step.act {
            Act::Command(command) | Act::Kill { command, .. } => command,
            Act::Copy(_) => Command::Clone { pid: Pid::NONE, orphan: false },
            Act::End => return,
        };
        self.out.push(Effect::Ghost { pid, command });
    }

    fn give_end(&mut self, pid: Pid) {
        let Some(entry) = self.table.get_mut(pid) else { return };
        if let End::Queued(id) = entry.end {
            entry.end = End::Issued(id);
        }
        if entry.ghost == Ghost::Dying {
            self.out.push(Effect::Release { pid });
        } else if entry.kill_pending {
            self.out.push(Effect::Interrupt { pid });
        } else {
            let command = last_command(entry);
            self.wake(pid);
            self.out.push(Effect::Ghost { pid, command });
        }
    }
}

fn last_command(entry: &Entry) -> Command {
    match entry.body {
        Body::Ended(Exit::Code(code)) => Command::Exit(code),
        Body::Ended(Exit::Killed { sig, core }) => Command::Die { sig, core },
        _ => Command::Die { sig: Sig::KILL, core: false },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Ghost; 6] = [Ghost::Absent, Ghost::Wanted, Ghost::Coming, Ghost::Held, Ghost::Dying, Ghost::Gone];

    /// Columns: Cloned, Failed, Held, Dying, Gone.
    const TABLE: [[Ghost; 5]; 6] = [
        [Ghost::Absent; 5],
        [Ghost::Coming, Ghost::Absent, Ghost::Held, Ghost::Dying, Ghost::Gone],
        [Ghost::Coming, Ghost::Absent, Ghost::Held, Ghost::Dying, Ghost::Gone],
        [Ghost::Held, Ghost::Held, Ghost::Held, Ghost::Dying, Ghost::Gone],
        [Ghost::Dying, Ghost::Dying, Ghost::Dying, Ghost::Dying, Ghost::Gone],
        [Ghost::Gone; 5],
    ];

    #[test]
    fn every_turn_of_every_state_is_as_the_table_says() {
        for (row, ghost) in ALL.into_iter().enumerate() {
            for (column, turn) in
                [Turn::Cloned, Turn::Failed, Turn::Held, Turn::Dying, Turn::Gone].into_iter().enumerate()
            {
                assert_eq!(ghost.next(turn), TABLE[row][column], "{ghost:?} {turn:?}");
            }
        }
    }

    #[test]
    fn a_ghost_never_comes_back_from_the_exit_gate() {
        for ghost in [Ghost::Dying, Ghost::Gone] {
            assert!(!ghost.obeys() && !ghost.will_obey());
        }
    }
}
