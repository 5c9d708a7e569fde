//! Who goes through many processes waits for one answer after the other, nine for each process, while other processors have nothing to do. So a process goes ahead of him.
//! Of each process that he will come to it has the kernel learn all the names that he asks for, in one request, and who answers that has it know what is in those files
//! ([`crate::server`]); he finds that there, and asks nothing himself.
//!
//! What he does without a request is not seen. So some processes are left out: by what he asks of those it is known where he is. And when he has caught up, which shows in
//! his asking for more, it goes ahead of him again.
//!
//! Here is who tells that process ([`crate::walker`]) where to go.

use crate::ghosts::{Ghost, Ghosts};
use crate::learning::{self, Learning, Next};
use crate::names::{is_directory, is_link, lasts, of_many, Place};
use crate::walker::{Errand, Walker};
use kern::clock::monotonic_us;
use kern::fuse::tree::Named;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tracing::debug;
use vocab::{Fault, Pid, Result};
use wire::entry::COMMON;

/// Who has looked at so many in the order of their numbers goes through all; and it is worth while if there are so many.
const FEW: usize = 64;
const MANY: usize = 192;
/// What is learnt ahead is to count still when he comes to it, who may wait for a node meanwhile, in microseconds: where answers count less it would only be in his way.
pub(crate) const LEAST_US: u64 = 200_000;
/// Who has asked nothing for so long has stopped, in microseconds.
const GAP_US: u64 = 200_000;
/// Names that one may ask for of each.
const NAMES: usize = 12;
/// What lasts is not asked for again for a while, and is to be renewed before all of it runs out: for so long after somebody has asked for it, in microseconds.
const LASTING_US: u64 = 30_000_000;
/// It begins so many processes ahead of him, is never more ahead than that, and leaves one of so many out: other ones each time, or what lasts of those would run out at once
/// for who looks.
const LEAP: usize = 32;
const LEAD: usize = 256;
const LEFT_OUT: usize = 32;
/// Who asks of fewer than one of so many knows of the others.
const SPARSE: usize = 4;
/// So many are gone through before it is asked where he is.
const BATCH: usize = 16;

/// One who looks.
#[derive(Debug, Default)]
struct Reader {
    who: Pid,
    /// The process that he has asked something of last, and when.
    at: Pid,
    at_us: u64,
    /// How many he has looked at in a row, and the first of them.
    seen: usize,
    from: Pid,
    /// What of each.
    names: Vec<Vec<u8>>,
    /// What lasts that was asked for, by whomever, and when.
    lasting: Vec<(Vec<u8>, u64)>,
    /// Who follows him is to know when he is there.
    wanted: Option<Pid>,
    /// There are names to be learnt, of which he knows nothing.
    stirred: bool,
}

impl Reader {
    /// What is to be known of each.
    fn wants(&self, now_us: u64) -> impl Iterator<Item = &Vec<u8>> {
        let asked =
            move |(name, asked_us): &&(Vec<u8>, u64)| now_us < asked_us + LASTING_US && !self.names.contains(name);
        self.names.iter().chain(self.lasting.iter().filter(asked).map(|(name, _)| name))
    }

    /// `who` asks for this name in the directory of process `pid`. True: who follows is to know.
    fn sees(&mut self, who: Pid, pid: Pid, name: &[u8], now_us: u64) -> bool {
        let goes_on = now_us < self.at_us + GAP_US;
        if self.who != who || !goes_on || pid < self.at {
            let lasting = std::mem::take(&mut self.lasting);
            let (wanted, stirred) = (self.wanted, self.stirred);
            *self = Reader { who, at: pid, from: pid, wanted, stirred, lasting, ..Reader::default() };
        }
        self.at_us = now_us;
        if std::mem::replace(&mut self.at, pid) != pid {
            self.seen += 1;
        }
        if self.names.len() < NAMES && !self.names.iter().any(|known| known == name) {
            self.names.push(name.into());
        }
        if lasts(name) {
            match self.lasting.iter_mut().find(|(known, _)| known == name) {
                Some((_, asked_us)) => *asked_us = now_us,
                None => self.lasting.push((name.into(), now_us)),
            }
        }
        let come = self.seen >= FEW && self.wanted.is_some_and(|wanted| wanted <= pid);
        if come {
            self.wanted = None;
        }
        come
    }
}

/// See above.
#[derive(Debug, Default)]
pub(crate) struct Ahead {
    walker: Option<Walker>,
    reader: Mutex<Reader>,
    news: Condvar,
    /// Of whom it goes ahead now; 0: of nobody.
    whom: AtomicI32,
    /// Those to which it goes now.
    batch: Mutex<Vec<Pid>>,
    /// The process in whose directory it is.
    at: Mutex<Option<Pid>>,
    /// Something was not known, or old, of those to which it went.
    renewed: AtomicBool,
    learning: Learning,
    /// How often it has gone ahead of somebody.
    followed: AtomicUsize,
    /// It is there for the names alone.
    learns: AtomicBool,
}

impl Ahead {
    pub(crate) fn new(walker: Option<Walker>) -> Ahead {
        Ahead { walker, ..Ahead::default() }
    }

    fn reader(&self) -> MutexGuard<'_, Reader> {
        self.reader.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Is it this one that asks?
    pub(crate) fn is(&self, who: Pid) -> bool {
        self.walker.as_ref().is_some_and(|walker| walker.pid() == who)
    }

    /// Of whom does it go ahead now?
    pub(crate) fn whom(&self) -> Option<Pid> {
        Some(Pid(self.whom.load(Ordering::Relaxed))).filter(|whom| *whom != Pid::NONE)
    }

    /// The directories of those to which it goes now.
    pub(crate) fn directories(&self) -> Vec<Named> {
        let batch = self.batch.lock().unwrap_or_else(PoisonError::into_inner);
        batch.iter().map(|pid| Named { name: pid.to_string().into_bytes(), mode: 0o040_000 }).collect()
    }

    /// It is about to be told of the names in the directory of this process.
    pub(crate) fn is_in(&self, pid: Pid) {
        *self.at.lock().unwrap_or_else(PoisonError::into_inner) = Some(pid);
    }

    /// If it is this one that asks: the process of whose names the kernel knows since, since nobody else makes of an answer what it says.
    pub(crate) fn has_been(&self, who: Pid) -> Option<Pid> {
        self.is(who).then(|| self.at.lock().unwrap_or_else(PoisonError::into_inner).take()).flatten()
    }

    /// What `who` asks for had to be found out.
    pub(crate) fn renews(&self, who: Pid) {
        if self.is(who) {
            self.renewed.store(true, Ordering::Relaxed);
        }
    }

    /// `who` asks for this name in the directory of process `pid`.
    pub(crate) fn sees(&self, who: Pid, pid: Pid, name: &[u8]) {
        if self.walker.is_none() || who == Pid::NONE || self.is(who) {
            return;
        }
        let (mut reader, now) = (self.reader(), monotonic_us());
        // One at a time.
        let another = self.whom().is_some() && reader.who != who && now < reader.at_us + GAP_US;
        if !another && reader.sees(who, pid, name, now) {
            self.walker.iter().for_each(|walker| walker.may_wait(false));
            self.news.notify_one();
        }
    }

    /// These are bound now, and these are gone.
    pub(crate) fn change(&self, new: impl Iterator<Item = Arc<Ghost>>, gone: &[Pid]) {
        if self.walker.is_some() && self.learning.change(new, gone, monotonic_us()) {
            self.reader().stirred = true;
            self.news.notify_one();
        }
    }

    /// It is to know of names, not of what they lead to.
    pub(crate) fn learns(&self) -> bool {
        self.learns.load(Ordering::Relaxed)
    }

    /// What is to be known of each process by those who look now, or later.
    pub(crate) fn names(&self) -> Vec<Named> {
        if self.learns() {
            return learning::names();
        }
        let reader = self.reader();
        let one = |name: &Vec<u8>| {
            let mode = Place::Process.mode(name)?;
            let short = COMMON.iter().any(|common| common.as_bytes() == &name[..]) || of_many(name).is_some();
            (short && !is_directory(mode) && !is_link(mode)).then(|| Named { name: name.clone(), mode })
        };
        reader.wants(monotonic_us()).filter_map(one).collect()
    }

    /// Sees to it in a thread of its own, for ever. `node_of`: the node of this process's directory; 0: the kernel knows none.
    ///
    /// # Errors
    /// `Sys` when there is none to be had.
    pub(crate) fn start(
        self: Arc<Self>,
        ghosts: Arc<Ghosts>,
        node_of: impl Fn(Pid) -> u64 + Send + 'static,
    ) -> Result<()> {
        let thread = std::thread::Builder::new().name("ahead".into());
        let started = thread.spawn(move || {
            while let Some(walker) = &self.walker {
                let who = self.learn(walker, &node_of);
                walker.may_wait(false);
                self.whom.store(who.0, Ordering::Relaxed);
                let walked = self.follow(walker, who, &ghosts, &node_of);
                self.whom.store(Pid::NONE.0, Ordering::Relaxed);
                if walked > 0 {
                    debug!(pid = %who, walked, "went ahead of one who goes through processes");
                }
                // He may still be at the last ones, or be about to come to what is not fresh any more.
                let mut reader = self.reader();
                (reader.seen, reader.from) = (0, reader.at);
            }
        });
        started.map(drop).map_err(|e| Fault::io(&e, "start a thread"))
    }

    pub(crate) fn end(&self) {
        self.walker.iter().for_each(Walker::end);
    }

    /// Waits until the one who looks is at `pid`, or for so long.
    fn wait(&self, pid: Pid) -> MutexGuard<'_, Reader> {
        let mut reader = self.reader();
        if reader.at >= pid {
            return reader;
        }
        reader.wanted = Some(pid);
        let waits = |reader: &mut Reader| reader.wanted.is_some();
        let time = Duration::from_micros(GAP_US);
        self.news.wait_timeout_while(reader, time, waits).unwrap_or_else(PoisonError::into_inner).0
    }

    /// Has names learnt until somebody goes through processes: who.
    fn learn(&self, walker: &Walker, node_of: &impl Fn(Pid) -> u64) -> Pid {
        // Anywhere will do.
        self.reader().wanted = Some(Pid::NONE);
        loop {
            let time = match self.learning.next(monotonic_us()) {
                Next::These { gone, new } => {
                    self.learn_these(walker, &gone, new.into_iter().map(|pid| (pid, node_of(pid))));
                    Some(Duration::ZERO)
                }
                Next::Later(time) => Some(time),
                Next::Nothing => None,
            };
            let reader = self.reader();
            let waits = |reader: &mut Reader| reader.wanted.is_some() && !reader.stirred;
            let mut reader = match time {
                None => self.news.wait_while(reader, waits).unwrap_or_else(PoisonError::into_inner),
                Some(time) => {
                    self.news.wait_timeout_while(reader, time, waits).unwrap_or_else(PoisonError::into_inner).0
                }
            };
            reader.stirred = false;
            if reader.wanted.is_none() {
                return reader.who;
            }
        }
    }

    fn learn_these(&self, walker: &Walker, gone: &[Pid], new: impl Iterator<Item = (Pid, u64)>) {
        walker.may_wait(true);
        let gone: Vec<(Pid, u64)> = gone.iter().map(|pid| (*pid, 0)).collect();
        // What is not known to the kernel nobody has bound.
        let new: Vec<(Pid, u64)> = new.filter(|(_, node)| *node != 0).collect();
        self.learns.store(true, Ordering::Relaxed);
        self.goes_to(&new);
        let errands = [(Errand::Leaves, gone, Vec::new()), (Errand::Learns, new, learning::missing())];
        for (errand, which, missing) in errands.iter().filter(|(_, which, _)| !which.is_empty()) {
            if !walker.goes_through(*errand, which, missing) {
                debug!(?errand, "those who are to learn names do not get on");
            }
        }
        self.learns.store(false, Ordering::Relaxed);
    }

    fn goes_to(&self, which: &[(Pid, u64)]) {
        *self.batch.lock().unwrap_or_else(PoisonError::into_inner) = which.iter().map(|(pid, _)| *pid).collect();
    }

    /// Goes ahead of him for as long as he goes on: so many processes.
    fn follow(&self, walker: &Walker, who: Pid, ghosts: &Ghosts, node_of: &impl Fn(Pid) -> u64) -> usize {
        let pids = ghosts.pids();
        let before = |pid: Pid| pids.partition_point(|one| *one <= pid);
        let (mut next, mut walked, mut wanted) = (0, 0, Pid::NONE);
        let turn = self.followed.fetch_add(1, Ordering::Relaxed);
        loop {
            let reader = self.wait(wanted);
            let come = before(reader.at);
            // Of most processes he may ask nothing, since all is fresh.
            let sparse = come - before(reader.from).min(come) > SPARSE * reader.seen;
            if pids.len() < MANY || reader.who != who || reader.at < wanted || walked == 0 && sparse {
                return walked;
            }
            let missing: Vec<_> =
                reader.names.iter().filter(|name| Place::Process.mode(name).is_none()).cloned().collect();
            drop(reader);
            if next <= come {
                next = come + LEAP;
            }
            let end = pids.len().min(next + BATCH);
            let batch = (next..end).filter(|n| n % LEFT_OUT != turn % LEFT_OUT).map(|n| (pids[n], node_of(pids[n])));
            let batch: Vec<(Pid, u64)> = batch.collect();
            self.renewed.store(false, Ordering::Relaxed);
            self.goes_to(&batch);
            if next >= end || !walker.goes_through(Errand::Reads, &batch, &missing) {
                return walked;
            }
            walked += batch.len();
            next = end;
            wanted = match self.renewed.load(Ordering::Relaxed) {
                // All was fresh: until he asks for what is not.
                false => pids[end - 1],
                true if next > come + LEAD => pids[next - LEAD],
                true => Pid::NONE,
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Is who follows told of it?
    fn asks(reader: &mut Reader, who: i32, pid: i32, now_us: u64) -> bool {
        ["stat", "ctty"].map(|name| reader.sees(Pid(who), Pid(pid), name.as_bytes(), now_us)).contains(&true)
    }

    #[test]
    fn who_goes_through_many_in_order_is_seen_and_no_one_else() {
        let mut reader = Reader { wanted: Some(Pid::NONE), ..Reader::default() };
        let few = FEW as i32;
        // Backwards.
        assert!(!(0..500).any(|n| asks(&mut reader, 7, 500 - n, 1)));
        // With pauses.
        assert!(!(0..500).any(|n| asks(&mut reader, 7, n, n as u64 * GAP_US)));
        // One again and again.
        assert!(!(0..500).any(|_| asks(&mut reader, 7, 600, 2)));
        // Two who take turns.
        assert!(!(0..500).any(|n| asks(&mut reader, 7 + n % 2, n, 3)));
        let told: Vec<i32> = (0..500).filter(|n| asks(&mut reader, 9, *n, 4)).collect();
        assert_eq!(told, [few]);
        assert_eq!(reader.names, [&b"stat"[..], b"ctty"]);
        // And where he is, when that is wanted.
        reader.wanted = Some(Pid(700));
        assert!(!asks(&mut reader, 9, 699, 5) && asks(&mut reader, 9, 702, 5));
    }

    #[test]
    fn what_is_long_or_no_file_is_not_learnt_ahead() {
        let ahead = Ahead::default();
        for name in ["stat", "maps", "ctty", "environ", "fd", "exe", "smaps"] {
            ahead.reader().sees(Pid(1), Pid(2), name.as_bytes(), 1);
        }
        let names: Vec<_> = ahead.names().into_iter().map(|one| String::from_utf8(one.name).expect("a name")).collect();
        assert_eq!(names, ["stat", "environ"]);
        // What lasts, also if who goes through them does not ask for it, since it is known to him still.
        let mut reader = Reader::default();
        reader.sees(Pid(1), Pid(2), b"environ", 1);
        reader.sees(Pid(3), Pid(2), b"stat", 2);
        let wants = |now_us| reader.wants(now_us).map(Vec::as_slice).collect::<Vec<_>>();
        assert_eq!((wants(3), wants(1 + LASTING_US)), (vec![&b"stat"[..], b"environ"], vec![&b"stat"[..]]));
    }
}
