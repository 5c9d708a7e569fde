//! All stand-ins of this machine: who holds, what waits for whom, and what came of it.

use crate::command::{Command, Name};
use crate::early::Early;
use crate::family::Family;
use crate::late::{Late, Wakes};
use crate::life::{next, Input, State};
use crate::looks::Looks;
use crate::signals::Handed;
use kern::fuse::{Device, Request};
use kern::proc::{root, Proc};
use kern::standin::{here::Slots, Hold};
use std::collections::{HashMap, HashSet, VecDeque};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;
use tracing::{debug, trace, warn};
use vocab::{Pid, Result, SigInfo, SigSet};

/// What happened to a stand-in, in the order in which it happened.
#[derive(Clone, Debug)]
pub enum Happened {
    /// It holds for the first time: it exists and obeys.
    Held { pid: Pid },
    /// It took this signal, which [`SigInfo::count`] counts.
    Signal { pid: Pid, info: SigInfo },
    /// SIGKILL or SIGSTOP waits for it (or both); the kernel keeps it until [`Ghosts::interrupt`].
    Caught { pid: Pid, signals: SigSet },
    /// A command was done.
    Done { pid: Pid, outcome: Outcome },
    /// Something that was no command of ours kills it; the kernel keeps it until [`Ghosts::release`].
    Dying { pid: Pid },
    /// It stopped without having told (SIGSTOP taken while it was not held).
    StoppedItself { pid: Pid },
    /// It was let go: it has ended, or will at once.
    Gone { pid: Pid },
}

impl Happened {
    /// To whom.
    pub fn pid(&self) -> Pid {
        match *self {
            Happened::Held { pid }
            | Happened::Signal { pid, .. }
            | Happened::Caught { pid, .. }
            | Happened::Done { pid, .. }
            | Happened::Dying { pid }
            | Happened::StoppedItself { pid }
            | Happened::Gone { pid } => pid,
        }
    }
}

/// The end of one command.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    pub command: Command,
    /// What the call returned, or `-errno`.
    pub ret: i64,
    /// For [`Command::Wait`]: status, user and system microseconds, largest resident KiB. For [`Command::Spawn`]: the
    /// [`kern::standin::setup::Stage`] at which it failed.
    pub out: [i64; 4],
}

pub(crate) struct Ghost {
    pub(crate) state: State,
    /// The request that waits for our answer, in Held, Caught and Dying.
    pub(crate) unique: u64,
    pub(crate) handed: Handed,
    pub(crate) working: Option<(u32, Command, Option<u32>)>,
    pub(crate) queue: VecDeque<Command>,
    /// Has handed over a signal and was not answered since. It can take one more.
    pub(crate) owed: bool,
    /// It is caught by SIGKILL.
    pub(crate) killed: bool,
    /// Was told to end.
    pub(crate) ending: bool,
    pub(crate) family: u64,
    pub(crate) slot: Option<u32>,
    pub(crate) away_since_us: u64,
    /// It stopped before it held for the first time. A SIGCONT then need not be handed over: it took none of its signals yet.
    pub(crate) stopped_early: bool,
    /// It blocks all signals from its first moment on, so the kernel discards none of them.
    pub(crate) blocks: bool,
    /// Is it to wake from the stop that it does?
    pub(crate) wakes: Wakes,
}

/// A request that the kernel sends again (FUSE_UNIQUE_RESEND, linux/fuse.h).
const RESENT: u64 = 1 << 63;

/// The stand-ins on this machine and the FUSE mount that holds them.
pub struct Ghosts {
    pub(crate) device: Device,
    pub(crate) ghosts: HashMap<Pid, Ghost>,
    pub(crate) families: HashMap<u64, Family>,
    pub(crate) proc: Option<Proc>,
    pub(crate) uniques: HashMap<u64, Pid>,
    expected: HashSet<Pid>,
    next_family: u64,
    next_tag: u32,
    pub(crate) late: Late,
    pub(crate) early: Vec<Early>,
    /// Those that have handed over a signal and were perhaps not answered since, and since when.
    pub(crate) owed: VecDeque<(u64, Pid)>,
    /// Those of them that can take no other signal, or are being signalled again.
    pub(crate) pressing: Vec<Pid>,
    /// Those of a daemon before this one whose bodies nobody has claimed yet: what they hand over is kept by them ([`Ghosts::claimed`]).
    pub(crate) unclaimed: HashSet<Pid>,
    pub(crate) pending: kern::pending::Reader,
    pub(crate) looks: Looks,
    /// The first stand-in of our own address space, until it has opened the hold file, and what will be its family.
    first: Option<(Pid, Family)>,
    /// While [`Ghosts::recover`] runs.
    pub(crate) recovering: bool,
}

impl Ghosts {
    /// Mounts the hold file at the directory `at` (its path is then `at/hold`).
    ///
    /// # Errors
    /// `Sys` where FUSE is not to be had.
    pub fn mount(at: &Path) -> Result<Ghosts> {
        Ok(Ghosts::with(Device::mount(at)?))
    }

    /// Takes over a mount from a holder; [`Ghosts::recover`] comes next.
    pub fn adopt(device: OwnedFd) -> Ghosts {
        Ghosts::with(Device::adopt(device))
    }

    /// The device, for the holder.
    pub fn device(&self) -> BorrowedFd<'_> {
        self.device.fd()
    }

    fn with(device: Device) -> Ghosts {
        // Tags and families of a daemon before this one must not be mistaken for ours.
        let start = std::process::id();
        Ghosts {
            device,
            ghosts: HashMap::new(),
            families: HashMap::new(),
            proc: Proc::open(root()).ok(),
            uniques: HashMap::new(),
            expected: HashSet::new(),
            next_family: u64::from(start) << 32 | 1,
            next_tag: start.wrapping_mul(0x9e37_79b9) | 1,
            late: Late::default(),
            early: Vec::new(),
            owed: VecDeque::new(),
            pressing: Vec::new(),
            unclaimed: HashSet::new(),
            pending: kern::pending::Reader::default(),
            looks: Looks::default(),
            first: None,
            recovering: false,
        }
    }

    /// Readable when [`Ghosts::read`] has something to do.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.device.fd()
    }

    /// Lets process `pid` open the hold file; if it ends before it does, that is told as of one that has.
    pub fn expect(&mut self, pid: Pid) {
        self.expected.insert(pid);
        self.ghosts.entry(pid).or_insert_with(|| Ghost::coming(0, Some(0)));
        self.went_away(pid);
    }

    /// The same of one that takes the place of a process, and blocks all signals as soon as it runs.
    pub fn expect_in_place(&mut self, pid: Pid) {
        self.expect(pid);
        if let Some(ghost) = self.ghosts.get_mut(&pid) {
            ghost.blocks = true;
        }
    }

    /// Forgets that `pid` was expected. False: it was not, or has come.
    pub fn unexpect(&mut self, pid: Pid) -> bool {
        let expected = self.expected.remove(&pid);
        if expected {
            self.ghosts.remove(&pid);
        }
        expected
    }

    /// It was expected, and is no more.
    pub(crate) fn came(&mut self, pid: Pid) -> bool {
        self.expected.remove(&pid)
    }

    /// Is there a stand-in `pid` on this machine, or one coming?
    pub fn has(&self, pid: Pid) -> bool {
        self.ghosts.contains_key(&pid)
    }

    /// Has it told that it is dying, and waits to be let go ([`Ghosts::release`])? It does nothing more that it is told.
    pub fn is_dying(&self, pid: Pid) -> bool {
        self.ghosts.get(&pid).is_some_and(|ghost| ghost.state == State::Dying)
    }

    /// Takes back the oldest command to `pid` for which `which` holds; false when it has been given, and is being done or will be.
    pub fn take_back(&mut self, pid: Pid, which: impl Fn(&Command) -> bool) -> bool {
        let Some(ghost) = self.ghosts.get_mut(&pid) else { return false };
        // One that holds has not seen what it was given last: it came back with EINTR instead.
        let unseen = matches!(ghost.state, State::Held | State::Caught);
        if ghost.working.is_some_and(|(_, command, _)| unseen && which(&command)) {
            ghost.working = None;
            return true;
        }
        let at = ghost.queue.iter().position(which);
        at.is_some_and(|at| ghost.queue.remove(at).is_some())
    }

    pub fn len(&self) -> usize {
        self.ghosts.len()
    }

    /// Address spaces whose stand-ins have the hold file open.
    pub fn address_spaces(&self) -> usize {
        self.families.len()
    }

    pub fn is_empty(&self) -> bool {
        self.ghosts.is_empty()
    }

    /// All PIDs that stand on this machine.
    pub fn pids(&self) -> impl Iterator<Item = Pid> + '_ {
        self.ghosts.keys().copied()
    }

    /// Queues a command; it is given when the stand-in next holds. One for a PID that is neither here nor expected is dropped with a log line.
    pub fn command(&mut self, pid: Pid, command: Command) {
        if let Command::Clone { pid: child, .. } = command {
            let Some(family) = self.ghosts.get(&pid).map(|g| g.family) else {
                warn!(%pid, ?command, "no such stand-in");
                return;
            };
            if child != Pid::NONE {
                self.ghosts.entry(child).or_insert_with(|| Ghost::coming(family, None));
            }
        }
        let Some(ghost) = self.ghosts.get_mut(&pid) else {
            warn!(%pid, ?command, "no such stand-in");
            return;
        };
        ghost.queue.push_back(command);
        if ghost.state == State::Held {
            self.give_next(pid);
        }
    }

    /// Is it expected, and has not held yet?
    pub fn is_coming(&self, pid: Pid) -> bool {
        self.ghosts.get(&pid).is_none_or(|ghost| ghost.state == State::Coming)
    }

    /// Does it wait for a command, and nothing for it?
    pub fn holds_idle(&self, pid: Pid) -> bool {
        self.ghosts.get(&pid).is_some_and(|ghost| ghost.state == State::Held)
    }

    /// Has it been given such a command, and not said yet that it is done?
    pub fn works_on(&self, pid: Pid, is: impl FnOnce(&Command) -> bool) -> bool {
        self.ghosts.get(&pid).and_then(|ghost| ghost.working.as_ref()).is_some_and(|(_, command, _)| is(command))
    }

    /// Has it been told to become a program?
    pub fn becomes(&self, pid: Pid) -> bool {
        self.ghosts.get(&pid).is_some_and(|ghost| matches!(ghost.working, Some((_, Command::Exec(_), _))))
    }

    /// Reads what the kernel has for us, at most `most` requests; more may wait when it returns true.
    /// [`Ghosts::acknowledge`] is to follow, when what has happened is passed on.
    ///
    /// # Errors
    /// `Gone` when the mount is gone: no stand-in is held any more.
    pub fn read(&mut self, most: usize, happened: &mut Vec<Happened>) -> Result<bool> {
        for _ in 0..most {
            match self.device.next_request()? {
                None => return Ok(false),
                Some(Request::Nothing) => {}
                Some(Request::Open { unique, pid, .. }) => self.opened(unique, pid),
                Some(Request::Hold { unique, pid, fh, hold }) => self.holds(unique, pid, fh, &hold, happened),
                Some(Request::Interrupt { unique }) => self.interrupted(unique, happened),
                Some(Request::Flush { unique, pid, fh }) => self.flushes(unique, pid, fh, happened),
                Some(Request::Release { fh }) => drop(self.families.remove(&fh)),
                Some(Request::Create { unique, pid, uid }) => self.creates(unique, pid, uid),
            }
        }
        Ok(true)
    }

    /// Makes the first stand-in of this process's own address space, with `slots` for it and those it makes. It opens the hold file, at `path`,
    /// as soon as the caller serves. Called once by a node's agent.
    ///
    /// # Errors
    /// `Sys` from clone3(2).
    pub fn make_first(&mut self, path: &Path, slots: Slots, pid: Pid, name: Name) -> Result<Pid> {
        let first = kern::standin::here::make_first(slots, path, pid, name.bytes())?;
        self.first = Some((first, Family::ours(slots.count())));
        self.expect(first);
        Ok(first)
    }

    pub(crate) fn opened(&mut self, unique: u64, pid: Pid) {
        if !self.came(pid) {
            warn!(%pid, "refused to open the hold file: not expected");
            self.device.fail(unique, EACCES);
            return;
        }
        let family = self.next_family;
        trace!(%pid, family, "opened");
        self.next_family += 1;
        let first = self.first.take_if(|(first, _)| *first == pid);
        self.families.insert(family, first.map_or_else(|| Family::new(1), |(_, ours)| ours));
        self.ghosts.entry(pid).or_insert_with(|| Ghost::coming(family, Some(0))).family = family;
        self.device.opened(unique, family);
    }

    pub(crate) fn holds(&mut self, unique: u64, pid: Pid, fh: u64, hold: &Hold, happened: &mut Vec<Happened>) {
        if unique & RESENT != 0 {
            // What it handed over is as old as the request: it is to come again.
            return self.device.fail(unique, EINTR);
        }
        let family = self.families.entry(fh).or_insert_with(|| Family::new(1));
        family.told(hold.slots, hold.top);
        let maker = if self.ghosts.contains_key(&pid) { None } else { self.nameless_maker(fh) };
        if maker.is_none() && !self.ghosts.contains_key(&pid) && !self.recovering {
            // A thread of a user's own program, or a process that it has forked by itself.
            warn!(%pid, "refused to hold: it is no stand-in");
            return self.device.fail(unique, EPERM);
        }
        let ghost = self.ghosts.entry(pid).or_insert_with(|| Ghost::coming(fh, None));
        let first = ghost.state == State::Coming;
        if !ghost.step(pid, Input::Holds) {
            return;
        }
        self.uniques.remove(&ghost.unique);
        ghost.unique = unique;
        ghost.family = fh;
        ghost.slot = Some(hold.slot);
        self.uniques.insert(unique, pid);
        self.note_done(pid, hold, happened);
        self.runs_again(pid, hold, happened);
        self.hands_over(pid, hold, happened);
        match maker {
            Some(maker) if first => self.early.push(Early { pid, maker }),
            // It was sent before that what it hands over: nobody is to tell it to stop who does not know of its SIGCONT.
            None if first => happened.push(Happened::Held { pid }),
            _ => {}
        }
        self.give_next(pid);
    }

    pub(crate) fn note_done(&mut self, pid: Pid, hold: &Hold, happened: &mut Vec<Happened>) {
        let Some(ghost) = self.ghosts.get_mut(&pid) else { return };
        let Some((tag, command, slot)) = ghost.working else { return };
        if hold.done != tag {
            // Interrupted between our answer and its taking: it has not seen the command (it comes with EINTR).
            return;
        }
        (ghost.working, ghost.wakes) = (None, Wakes::No);
        let family = ghost.family;
        let mut ret = hold.ret;
        if let (Command::Clone { pid: asked, sibling, .. }, Some(slot)) = (command, slot) {
            if ret >= 0 && !self.has_cloned(pid, family, asked, sibling, ret) {
                warn!(%pid, %asked, ret, "says that it has cloned what it has not");
                ret = -i64::from(EPERM);
            }
            // One that was asked for by number is known since: if not any more, it has ended before this was told.
            let gone = asked != Pid::NONE && !self.ghosts.contains_key(&asked);
            if ret > 0 && !gone {
                let child = Pid(ret as i32);
                let ghost = self.ghosts.entry(child).or_insert_with(|| Ghost::coming(family, None));
                ghost.slot = Some(slot);
                if ghost.state == State::Coming {
                    self.went_away(child);
                }
            } else if ret <= 0 {
                // One that holds is not what it was to make: that number was taken (EEXIST).
                if self.ghosts.get(&asked).is_some_and(|ghost| ghost.state == State::Coming) {
                    self.ghosts.remove(&asked);
                }
                self.give_back(family, Some(slot));
            }
        }
        happened.push(Happened::Done { pid, outcome: Outcome { command, ret, out: hold.out } });
        self.told(pid, &command, ret, happened);
    }

    pub(crate) fn forget(&mut self, pid: Pid, happened: &mut Vec<Happened>) {
        if let Some(ghost) = self.ghosts.remove(&pid) {
            debug!(%pid, "stand-in gone");
            self.uniques.remove(&ghost.unique);
            self.unclaimed.remove(&pid);
            self.pending.forget(pid);
            self.give_back(ghost.family, ghost.slot);
            if let Some((_, _, slot @ Some(_))) = ghost.working {
                self.give_back(ghost.family, slot);
            }
            self.maker_gone(pid, happened);
            happened.push(Happened::Gone { pid });
        }
    }

    /// Answers a hold with the next command. That acknowledges a signal, too.
    fn give_next(&mut self, pid: Pid) {
        let Some(ghost) = self.ghosts.get_mut(&pid) else { return };
        let Some(command) = ghost.queue.pop_front() else { return };
        let command = self.core_if_possible(pid, command);
        let mut slot = None;
        if let (Command::Clone { pid: child, .. }, Some(maker)) = (command, self.ghosts.get(&pid)) {
            let family = maker.family;
            // When it was queued the maker may not have opened the hold file yet.
            if let Some(child) = self.ghosts.get_mut(&child).filter(|child| child.state == State::Coming) {
                child.family = family;
            }
            slot = self.families.get_mut(&family).and_then(Family::take);
            if slot.is_none() {
                warn!(%pid, "no slot left in this address space");
            }
        }
        self.next_tag = self.next_tag.wrapping_add(1).max(1);
        let Some(ghost) = self.ghosts.get_mut(&pid) else { return };
        ghost.working = Some((self.next_tag, command, slot));
        ghost.wakes = Wakes::No;
        ghost.ending |= command.ends();
        trace!(%pid, ?command, "command");
        let answer = command.encode(self.next_tag, slot.unwrap_or(u32::MAX));
        self.answer(pid, &answer);
    }

    pub(crate) fn answer(&mut self, pid: Pid, answer: &Hold) {
        let Some(ghost) = self.ghosts.get_mut(&pid) else { return };
        let unique = ghost.unique;
        ghost.owed = false;
        ghost.step(pid, Input::Answered);
        self.uniques.remove(&unique);
        self.went_away(pid);
        self.device.command(unique, answer);
    }

    pub(crate) fn went_away(&mut self, pid: Pid) {
        let now = kern::pending::now_us();
        if let Some(ghost) = self.ghosts.get_mut(&pid) {
            ghost.away_since_us = now;
            self.late.went(pid, now);
        }
    }
}

impl Ghost {
    pub(crate) fn coming(family: u64, slot: Option<u32>) -> Ghost {
        Ghost {
            state: State::Coming,
            unique: 0,
            handed: Handed::default(),
            working: None,
            queue: VecDeque::new(),
            owed: false,
            killed: false,
            ending: false,
            family,
            slot,
            away_since_us: 0,
            stopped_early: false,
            blocks: false,
            wakes: Wakes::No,
        }
    }

    pub(crate) fn step(&mut self, pid: Pid, input: Input) -> bool {
        match next(self.state, input) {
            Some(state) => {
                trace!(%pid, "{input:?}: {:?}->{state:?}", self.state);
                self.state = state;
                true
            }
            None => {
                warn!(%pid, "{input:?} does not fit {:?}", self.state);
                false
            }
        }
    }
}

const EPERM: i32 = 1;
const EINTR: i32 = 4;
const EACCES: i32 = 13;
