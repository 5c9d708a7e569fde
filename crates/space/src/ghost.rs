//! What ghosts tell, and what they are told to do.

use crate::effect::{Command, Effect};
use crate::life::{Ghost, Turn};
use crate::space::Space;
use crate::step::{Act, Given, Step, What};
use crate::table::{Body, End, Entry};
use vocab::errno::{EAGAIN, EEXIST};
use vocab::{Exit, Pid, Sig, SigSet};

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
            What::Clone(child) if errno != 0 => {
                let made_before = self.table.get(child).is_some_and(|e| e.cloned_again) && errno == EEXIST;
                if !made_before {
                    self.not_cloned(child, errno);
                }
            }
            What::Clone(_) => {}
            What::Copy(copy) => self.copied(pid, copy, result),
            What::Reap(child) => self.waited(child),
            What::Stop => {
                if let Some(entry) = self.table.get_mut(pid) {
                    let oldest = if entry.woken > 0 { &mut entry.woken } else { &mut entry.stops };
                    *oldest = oldest.saturating_sub(1);
                }
                if errno == EAGAIN {
                    self.stop_ghost(pid);
                }
            }
            What::Kill(Some((node, id))) => self.out.push(Effect::KillDone { node, id, errno, left: Vec::new() }),
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
        self.log(pid, place, crate::effect::NO_GHOST, errno);
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
            (Body::Many(_), _) => {
                self.kill_copies(pid);
                // It clones nobody any more: copies that are still to come do not.
                self.flush(pid);
            }
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
        if let What::Clone(child) = what {
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
