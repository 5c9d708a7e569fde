//! What stand-ins on the front end tell, as the space wants it; and the few commands of the space that are several of theirs.

use crate::front::Front;
use ghost::{Command, Happened, Name, Outcome};
use space::Event;
use std::collections::{HashMap, VecDeque};
use tracing::{debug, warn};
use vocab::errno::ESRCH;
use vocab::{Pid, Result, Sig, SigSet};

/// Commands of the space that have not been reported back, in order, with their results as they come.
#[derive(Debug, Default)]
struct Ledger {
    entries: VecDeque<Entry>,
}

impl Ledger {
    /// The entry of which this command is the one that was given first and not reported. Commands are reported in the order of entries, but for the
    /// wait for an intermediate: that is given when its clone is done, behind those of later entries.
    fn reported(&mut self, command: &Command) -> Option<&mut Entry> {
        let waits = match command {
            Command::Wait { pid, .. } => {
                self.entries.iter().position(|e| matches!(e, Entry::Waiting { through, .. } if through == pid))
            }
            _ => None,
        };
        let given = |e: &Entry| matches!(e, Entry::Plain | Entry::Stop | Entry::Orphan { .. });
        waits.or_else(|| self.entries.iter().position(given)).and_then(|at| self.entries.get_mut(at))
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Entry {
    /// One command of the space is one of the stand-in's.
    Plain,
    Stop,
    /// Clone with another parent: first an intermediate process, which clones `pid` and ends.
    Orphan {
        pid: Pid,
    },
    /// The intermediate is there and is about to clone.
    Intermediate {
        pid: Pid,
        through: Pid,
    },
    /// The clone's result is known; the intermediate is still to be waited for.
    Waiting {
        result: std::result::Result<i32, i32>,
        through: Pid,
    },
    Finished(std::result::Result<i32, i32>),
}

/// Who is owed what by which stand-in.
#[derive(Debug, Default)]
pub(crate) struct Reports {
    ledgers: HashMap<Pid, Ledger>,
    /// Commands that were none of the space's, and are reported first: how many.
    before: HashMap<Pid, usize>,
    /// Intermediate processes, and whose they are.
    intermediates: HashMap<Pid, Pid>,
}

impl Reports {
    /// Before all that the space wants of it, a new stand-in was given so many commands.
    pub(crate) fn begins_with(&mut self, pid: Pid, commands: usize) {
        self.before.insert(pid, commands);
    }

    /// It is no stand-in any more.
    pub(crate) fn forget(&mut self, pid: Pid) {
        self.before.remove(&pid);
        self.ledgers.remove(&pid);
    }

    /// The newest of the stops that it was told, so many, were taken back: they are done.
    fn stops_taken_back(&mut self, pid: Pid, count: usize) {
        let entries = self.ledgers.get_mut(&pid).into_iter().flat_map(|ledger| ledger.entries.iter_mut().rev());
        for entry in entries.filter(|entry| **entry == Entry::Stop).take(count) {
            *entry = Entry::Finished(Ok(0));
        }
    }
}

impl Front {
    pub(crate) fn read_ghosts(&mut self, most: usize) -> Result<()> {
        let mut happened = Vec::new();
        self.ghosts.read(most, &mut happened)?;
        for one in happened {
            self.on_ghost(one);
        }
        Ok(())
    }

    pub(crate) fn on_ghost(&mut self, happened: Happened) {
        self.sleepers.hears(&happened);
        if self.aways.keeps(&happened) {
            return;
        }
        match self.homes.becomes(happened.pid()) {
            true => self.on_homing(happened),
            false => self.on_ghost_of_space(happened),
        }
    }

    pub(crate) fn on_ghost_of_space(&mut self, happened: Happened) {
        match happened {
            Happened::Held { pid } => match self.reports.intermediates.get(&pid).copied() {
                None => {
                    self.holds_in_place(pid);
                    self.events.push_back(Event::Held { pid });
                }
                Some(of) => self.intermediate_held(pid, of),
            },
            Happened::Signal { pid, info } => {
                if info.sig == Sig::CHLD && info.code > 0 {
                    self.look_at_children(pid, Some(&info));
                }
                let ours = info.sig == Sig::CONT && info.pid.0 == std::process::id() as i32;
                if !ours && !self.reports.intermediates.contains_key(&pid) {
                    self.events.push_back(Event::Signalled { pid, info });
                }
            }
            Happened::Caught { pid, signals } => self.events.push_back(Event::Pending { pid, set: signals }),
            Happened::StoppedItself { pid } if self.aways.sees_stopped(pid) => {}
            // The one that it was let sleep by.
            Happened::StoppedItself { pid } if self.space.is_asleep(pid) || self.sleepers.knows_stop(pid) => {}
            Happened::StoppedItself { pid } => {
                self.events.push_back(Event::Pending { pid, set: SigSet(Sig::STOP.bit()) });
            }
            Happened::Done { pid, outcome } => self.on_done(pid, outcome),
            Happened::Dying { pid } => self.events.push_back(Event::Dying { pid }),
            Happened::Gone { pid } => {
                self.reports.forget(pid);
                self.parents.forget(pid);
                self.deliveries.forget(pid);
                match self.reports.intermediates.remove(&pid) {
                    None => self.events.push_back(Event::Gone { pid }),
                    // If it was killed before it had cloned.
                    Some(of) => self.intermediate_done(pid, of, Err(ESRCH)),
                }
            }
        }
    }

    /// Gives a ghost one command of the space.
    pub(crate) fn command_ghost(&mut self, pid: Pid, command: space::Command) {
        use space::Command as S;
        let command = match command {
            S::Clone { pid: child, orphan: true } => {
                self.owe(pid, Entry::Orphan { pid: child });
                let name = Name::new(b"shoal:clone");
                return self.ghosts.command(pid, Command::Clone { pid: Pid::NONE, sibling: false, name });
            }
            S::Clone { pid, orphan: false } => Command::Clone { pid, sibling: false, name: Name::default() },
            S::Exit(code) => Command::Exit(code),
            S::Die { sig, core } => Command::Die { sig, core },
            S::Stop(sig) => {
                self.owe(pid, Entry::Stop);
                return self.ghosts.command(pid, Command::Stop(sig));
            }
            S::Setsid => Command::Setsid,
            S::Setpgid(pgid) => Command::Setpgid { pid: Pid::NONE, pgid },
            S::Ids(creds) => Command::Ids { uid: creds.uid, gid: creds.gid },
            S::Name(name) => Command::Name(Name::new(&name)),
            S::Reap(child) => Command::Wait { pid: child, options: kern::wait::WALL },
            S::Subreaper(on) => Command::Subreaper(on),
            S::Kill { target, sig } => kill(target, sig),
        };
        if !command.ends() {
            self.owe(pid, Entry::Plain);
        }
        self.ghosts.command(pid, command);
    }

    /// The body runs again, and so shall its ghost: it does no stop that it has not begun. (It would be woken from each of them, and lose a SIGSTOP that comes meanwhile.)
    pub(crate) fn wake_ghost(&mut self, pid: Pid) {
        let mut taken_back = 0;
        while self.ghosts.take_back(pid, |command| matches!(command, Command::Stop(_))) {
            taken_back += 1;
        }
        self.reports.stops_taken_back(pid, taken_back);
        if !self.aways.is_yet_to_leave(pid) {
            self.is_woken(pid);
            self.ghosts.wake(pid);
        }
        self.report(pid);
    }

    pub(crate) fn look_after_ghosts(&mut self, now: u64) {
        let mut happened = Vec::new();
        self.ghosts.look_after(now, &mut happened);
        for one in happened {
            self.on_ghost(one);
        }
    }

    fn owe(&mut self, pid: Pid, entry: Entry) {
        self.reports.ledgers.entry(pid).or_default().entries.push_back(entry);
    }

    fn on_done(&mut self, pid: Pid, outcome: Outcome) {
        let result = match outcome.ret {
            ret if ret < 0 => Err(-ret as i32),
            ret if matches!(outcome.command, Command::Clone { .. }) => Ok(ret as i32),
            _ => Ok(0),
        };
        if let Err(errno) = result {
            debug!(%pid, command = ?outcome.command, errno, "a stand-in could not");
        }
        if let Command::Children(_) = outcome.command {
            return self.look_at_children(pid, None);
        }
        if let Some(of) = self.reports.intermediates.get(&pid).copied() {
            return self.intermediate_done(pid, of, result);
        }
        if let Some(left) = self.reports.before.get_mut(&pid).filter(|left| **left > 0) {
            *left -= 1;
            return;
        }
        let Some(ledger) = self.reports.ledgers.get_mut(&pid) else { return };
        match ledger.reported(&outcome.command) {
            None => warn!(%pid, ?outcome, "done, and not asked for"),
            Some(entry) => match (*entry, result) {
                (Entry::Orphan { pid: child }, Ok(through)) => {
                    *entry = Entry::Intermediate { pid: child, through: Pid(through) };
                    self.reports.intermediates.insert(Pid(through), pid);
                }
                (Entry::Waiting { result, .. }, _) => *entry = Entry::Finished(result),
                (_, result) => *entry = Entry::Finished(result),
            },
        }
        self.report(pid);
    }

    fn intermediate_held(&mut self, through: Pid, of: Pid) {
        let entries = self.reports.ledgers.get(&of).map(|l| &l.entries);
        let child = entries.into_iter().flatten().find_map(|e| match e {
            Entry::Intermediate { pid, through: t } if *t == through => Some(*pid),
            _ => None,
        });
        if let Some(pid) = child {
            self.ghosts.command(through, Command::Clone { pid, sibling: false, name: Name::default() });
        }
        self.ghosts.command(through, Command::Exit(0));
    }

    fn intermediate_done(&mut self, through: Pid, of: Pid, result: std::result::Result<i32, i32>) {
        let Some(ledger) = self.reports.ledgers.get_mut(&of) else { return };
        for entry in &mut ledger.entries {
            if matches!(entry, Entry::Intermediate { through: t, .. } if *t == through) {
                *entry = Entry::Waiting { result, through };
                self.ghosts.command(of, Command::Wait { pid: through, options: kern::wait::WALL });
                return;
            }
        }
    }

    /// Tells the space what is done, in the order in which it was asked for.
    fn report(&mut self, pid: Pid) {
        let Some(ledger) = self.reports.ledgers.get_mut(&pid) else { return };
        while let Some(Entry::Finished(result)) = ledger.entries.front().copied() {
            ledger.entries.pop_front();
            self.events.push_back(Event::Done { pid, result });
        }
    }
}

fn kill(target: space::KillTarget, sig: u8) -> Command {
    use space::KillTarget as T;
    match target {
        T::Process(target) => Command::Kill { target, sig },
        T::Thread { pid, tid } => Command::Tgkill { pid, tid, sig },
        T::Group(pgid) => Command::Kill { target: Pid(-pgid.0), sig },
        // The space resolves this one itself; a stand-in asked all the same may only probe.
        T::All => Command::Kill { target: Pid::INIT, sig: 0 },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_of_the_entry_for_which_the_command_was_given() {
        let waiting = Entry::Waiting { result: Ok(0), through: Pid(77) };
        let (through, later) = (Entry::Intermediate { pid: Pid(9), through: Pid(76) }, Entry::Orphan { pid: Pid(8) });
        let mut ledger = Ledger { entries: [waiting, through, later, Entry::Plain].into() };
        let clone = Command::Clone { pid: Pid::NONE, sibling: false, name: Name::default() };
        assert_eq!(ledger.reported(&clone), Some(&mut later.clone()), "that of the first is done");
        let wait = |pid| Command::Wait { pid: Pid(pid), options: 0 };
        assert_eq!(ledger.reported(&wait(77)), Some(&mut waiting.clone()));
        *ledger.reported(&clone).expect("an orphan") = Entry::Finished(Ok(0));
        assert_eq!(ledger.reported(&wait(5)), Some(&mut Entry::Plain), "for a child that is reaped");
    }
}
