//! What is to be told to the front end: in order, one batch under way at a time, and what has cancelled out left out.

use std::collections::{HashMap, HashSet, VecDeque};
use vocab::Pid;
use wire::event::BodyEvent;

/// The most events in one batch: about a megabyte, and what the front end can take in a few tens of milliseconds.
const MOST: usize = 20_000;
/// The most bytes in one, as [`BodyEvent::bytes`] counts them: far from what a frame may have.
const MOST_BYTES: usize = 2 * 1024 * 1024;

/// Events that wait, and the batch that is not acknowledged yet.
#[derive(Debug, Default)]
pub(crate) struct Events {
    waiting: Vec<BodyEvent>,
    under_way: Option<(u64, Vec<BodyEvent>)>,
    batches: u64,
    /// Events, so far, that change what can be seen of a process, and how many of them the front end shows.
    changes: u64,
    shown: u64,
    /// Batches that are not shown yet, and how many changes are when they are.
    unshown: VecDeque<(u64, u64)>,
    /// The batch, not shown yet, in which a process was reaped: a ghost may have that number still.
    reaped: HashMap<Pid, u64>,
    /// The next event is the fork of one with such a number, and waits.
    blocked: bool,
}

impl Events {
    pub(crate) fn push(&mut self, event: BodyEvent) {
        self.changes += u64::from(!matches!(event, BodyEvent::Named { .. } | BodyEvent::Started { .. }));
        self.waiting.push(event);
    }

    /// Is there something that [`Events::take`] would give?
    pub(crate) fn ready(&self) -> bool {
        self.under_way.is_none() && !self.waiting.is_empty() && !self.blocked
    }

    /// Is nothing left to tell, and no batch under way?
    pub(crate) fn all_done(&self) -> bool {
        self.under_way.is_none() && self.waiting.is_empty()
    }

    /// Is no batch under way?
    pub(crate) fn idle(&self) -> bool {
        self.under_way.is_none()
    }

    /// How many changes there were.
    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }

    /// How many of them are shown on the front end.
    pub(crate) fn shown(&self) -> u64 {
        self.shown
    }

    /// The front end shows what this batch and those before it have told.
    pub(crate) fn are_shown(&mut self, batch: u64) {
        self.reaped.retain(|_, number| *number > batch);
        self.blocked = false;
        while let Some((_, changes)) = self.unshown.pop_front_if(|(number, _)| *number <= batch) {
            self.shown = changes;
        }
    }

    /// Every change there was is in the batches that are told, or has cancelled out.
    fn all_told(&mut self) {
        match self.unshown.back_mut() {
            Some((_, changes)) => *changes = self.changes,
            None => self.shown = self.changes,
        }
    }

    /// The parent of a fork that is not told yet was another one than the forker. `false` when it has been told.
    pub(crate) fn correct_parent(&mut self, pid: Pid, ppid: Pid) -> bool {
        for event in self.waiting.iter_mut().rev() {
            if let BodyEvent::Forked { parent, child } = event {
                if *child == pid {
                    *parent = ppid;
                    return true;
                }
            }
        }
        false
    }

    /// The next batch, to be sent now; `None` while one is under way or nothing is left to tell.
    pub(crate) fn take(&mut self) -> Option<(u64, Vec<BodyEvent>)> {
        if !self.ready() {
            return None;
        }
        cancel(&mut self.waiting);
        if self.waiting.is_empty() {
            self.all_told();
            return None;
        }
        let count = fits(&self.waiting).min(self.until_a_number_is_taken());
        if count == 0 {
            self.blocked = true;
            return None;
        }
        let rest = self.waiting.split_off(count);
        let batch = std::mem::replace(&mut self.waiting, rest);
        self.batches += 1;
        let number = self.batches;
        let reaped =
            |event: &BodyEvent| if let BodyEvent::Reaped { pid } = event { Some((*pid, number)) } else { None };
        self.reaped.extend(batch.iter().filter_map(reaped));
        self.unshown.push_back((self.batches, self.unshown.back().map_or(self.shown, |(_, changes)| *changes)));
        if self.waiting.is_empty() {
            self.all_told();
        }
        self.under_way = Some((self.batches, batch.clone()));
        Some((self.batches, batch))
    }

    /// How many events can be told before the fork of one whose number an earlier process had until just now (a kernel gives it out again as soon as that was
    /// waited for, if it is told to).
    fn until_a_number_is_taken(&self) -> usize {
        let mut gone = HashSet::new();
        let taken = |event: &BodyEvent| match event {
            BodyEvent::Reaped { pid } => {
                gone.insert(*pid);
                false
            }
            BodyEvent::Forked { child, .. } => gone.contains(child) || self.reaped.contains_key(child),
            _ => false,
        };
        self.waiting.iter().position(taken).unwrap_or(self.waiting.len())
    }

    /// As [`Events::take`], also while a batch is under way: both are then held to be under way until this one is acknowledged.
    pub(crate) fn take_now(&mut self) -> Option<(u64, Vec<BodyEvent>)> {
        let before = self.under_way.take();
        let taken = self.take();
        match (before, &taken) {
            (Some((_, mut events)), Some((number, fresh))) => {
                events.extend(fresh.iter().cloned());
                self.under_way = Some((*number, events));
            }
            (before @ Some(_), None) => self.under_way = before,
            _ => {}
        }
        taken
    }

    /// The front end has taken this batch in.
    pub(crate) fn done(&mut self, batch: u64) {
        if self.under_way.as_ref().is_some_and(|(number, _)| *number == batch) {
            self.under_way = None;
        }
    }

    /// On a new link: what was under way may be lost. A Hello has told who lives, with group, session, credentials and name;
    /// the rest is told again, and telling it twice does no harm.
    pub(crate) fn begin_again(&mut self) {
        let mut all = self.under_way.take().map_or(Vec::new(), |(_, events)| events);
        all.append(&mut self.waiting);
        all.retain(|event| {
            !matches!(
                event,
                BodyEvent::Forked { .. }
                    | BodyEvent::Named { .. }
                    | BodyEvent::Credentials { .. }
                    | BodyEvent::Group { .. }
                    | BodyEvent::Session { .. }
            )
        });
        self.waiting = all;
        self.unshown.clear();
        self.reaped.clear();
        self.blocked = false;
        if self.waiting.is_empty() {
            self.all_told();
        }
    }
}

/// How many of these are one batch, at least one.
fn fits(events: &[BodyEvent]) -> usize {
    let mut bytes = 0;
    let over = |event: &BodyEvent| {
        bytes += event.bytes();
        bytes > MOST_BYTES
    };
    events.iter().take(MOST).position(over).unwrap_or(events.len().min(MOST)).max(1)
}

/// Leaves out every process that was forked, ended and was reaped in `events`, if nothing that stays speaks of it; and names
/// that were replaced before a child could inherit them.
fn cancel(events: &mut Vec<BodyEvent>) {
    let short = in_short_lives(events);
    let mut names: HashMap<Pid, usize> = HashMap::new();
    let mut stale = HashSet::new();
    for (at, event) in events.iter().enumerate() {
        match event {
            BodyEvent::Named { pid, .. } => stale.extend(names.insert(*pid, at)),
            BodyEvent::Forked { parent, .. } => {
                names.remove(parent);
            }
            _ => {}
        }
    }
    let mut at = 0;
    events.retain(|_| {
        at += 1;
        !short[at - 1] && !stale.contains(&(at - 1))
    });
}

/// A number, and how often it was forked in these events before: it may live several times in them.
type Life = (Pid, u32);

/// For each event: is its life one that began and ended in `events`, and of which no event that stays speaks?
fn in_short_lives(events: &[BodyEvent]) -> Vec<bool> {
    let mut forks: HashMap<Pid, u32> = HashMap::new();
    let mut forked = HashSet::new();
    let mut short = HashSet::new();
    let mut lives: Vec<(Life, Option<Life>)> = Vec::with_capacity(events.len());
    for event in events {
        if let BodyEvent::Forked { child, .. } = event {
            *forks.entry(*child).or_default() += 1;
        }
        let life_of = |pid: Pid| (pid, forks.get(&pid).copied().unwrap_or_default());
        let life = life_of(event.pid());
        match event {
            BodyEvent::Forked { .. } => drop(forked.insert(life)),
            BodyEvent::Reaped { .. } if forked.contains(&life) => drop(short.insert(life)),
            // Its new parent may be elsewhere, and wait for it.
            BodyEvent::Adopted { .. } => drop(forked.remove(&life)),
            _ => {}
        }
        let other = match event {
            BodyEvent::Forked { parent, .. } => Some(*parent),
            BodyEvent::Adopted { ppid, .. } => Some(*ppid),
            BodyEvent::Group { pgid, .. } => Some(*pgid),
            _ => None,
        };
        lives.push((life, other.map(life_of)));
    }
    // From the youngest: when it stays, those that it speaks of stay too.
    for (life, other) in lives.iter().rev() {
        if let Some(other) = other.filter(|other| other != life && !short.contains(life)) {
            short.remove(&other);
        }
    }
    lives.iter().map(|(life, _)| short.contains(life)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use vocab::{Exit, Sig};

    fn fork(parent: i32, child: i32) -> BodyEvent {
        BodyEvent::Forked { parent: Pid(parent), child: Pid(child) }
    }

    fn exit(pid: i32) -> BodyEvent {
        BodyEvent::Exited { pid: Pid(pid), exit: Exit::Code(0), usage: Default::default() }
    }

    fn reaped(pid: i32) -> BodyEvent {
        BodyEvent::Reaped { pid: Pid(pid) }
    }

    fn named(pid: i32, name: &[u8]) -> BodyEvent {
        BodyEvent::Named { pid: Pid(pid), name: name.to_vec() }
    }

    fn told(events: Vec<BodyEvent>) -> Vec<BodyEvent> {
        let mut queue = Events::default();
        events.into_iter().for_each(|e| queue.push(e));
        queue.take().map_or(Vec::new(), |(_, events)| events)
    }

    #[test]
    fn a_life_within_a_batch_was_never_there() {
        assert_eq!(told(vec![fork(1, 2), named(2, b"x"), exit(2), reaped(2)]), []);
        assert_eq!(told(vec![fork(1, 2), fork(2, 3), exit(3), reaped(3), exit(2), reaped(2)]), []);
    }

    #[test]
    fn a_number_that_lives_twice_is_told_of_as_two() {
        let twice = vec![exit(2), reaped(2), fork(1, 2), exit(2), reaped(2)];
        assert_eq!(told(twice), [exit(2), reaped(2)]);
        assert_eq!(told(vec![fork(1, 2), exit(2), reaped(2), fork(1, 2), exit(2), reaped(2)]), []);
        assert_eq!(told(vec![fork(1, 2), exit(2), reaped(2), fork(1, 2), exit(2)]), [fork(1, 2), exit(2)]);
    }

    #[test]
    fn who_takes_a_number_is_told_of_when_nobody_is_shown_with_it_any_more() {
        let mut queue = Events::default();
        [exit(2), reaped(2), fork(1, 2), exit(3)].into_iter().for_each(|event| queue.push(event));
        let (first, events) = queue.take().expect("something to tell");
        assert_eq!(events, [exit(2), reaped(2)]);
        assert!(queue.take_now().is_none());
        queue.done(first);
        assert!(queue.take().is_none() && !queue.ready() && !queue.all_done());
        queue.are_shown(first);
        assert_eq!(queue.take().expect("it is free").1, [fork(1, 2), exit(3)]);
    }

    #[test]
    fn a_zombie_and_one_whose_child_lives_are_told() {
        let zombie = vec![fork(1, 2), exit(2)];
        assert_eq!(told(zombie.clone()), zombie);
        let orphan = vec![fork(1, 2), fork(2, 3), exit(2), reaped(2), BodyEvent::Adopted { pid: Pid(3), ppid: Pid(1) }];
        assert_eq!(told(orphan.clone()), orphan);
        let chain = vec![fork(1, 2), fork(2, 3), fork(3, 4), exit(2), reaped(2), exit(3), reaped(3)];
        assert_eq!(told(chain.clone()), chain);
    }

    #[test]
    fn a_group_that_somebody_is_in_keeps_its_leader() {
        let group = vec![
            fork(1, 2),
            BodyEvent::Group { pid: Pid(2), pgid: Pid(2) },
            BodyEvent::Group { pid: Pid(9), pgid: Pid(2) },
            exit(2),
            reaped(2),
        ];
        assert_eq!(told(group.clone()), group);
    }

    #[test]
    fn of_several_names_the_last_counts_unless_a_child_has_it() {
        assert_eq!(told(vec![named(2, b"a"), named(2, b"b")]), [named(2, b"b")]);
        let inherited = vec![named(2, b"a"), fork(2, 3), named(2, b"b")];
        assert_eq!(told(inherited.clone()), inherited);
    }

    #[test]
    fn one_batch_at_a_time_and_meanwhile_pairs_cancel() {
        let mut queue = Events::default();
        queue.push(fork(1, 2));
        let (first, _) = queue.take().expect("something to tell");
        queue.push(exit(2));
        queue.push(fork(1, 3));
        assert!(queue.take().is_none());
        queue.push(exit(3));
        queue.push(reaped(3));
        queue.done(first + 7);
        assert!(!queue.ready());
        queue.done(first);
        let (second, events) = queue.take().expect("something to tell");
        assert_eq!((second, events), (first + 1, vec![exit(2)]));
    }

    #[test]
    fn whatever_has_happened_a_batch_fits_into_a_frame() {
        let mut queue = Events::default();
        let creds = vocab::Creds { groups: vec![u32::MAX; 65_536], ..Default::default() };
        (0..40).for_each(|pid| queue.push(BodyEvent::Credentials { pid: Pid(pid), creds: creds.clone() }));
        (0..200_000).for_each(|pid| queue.push(exit(4_000_000 + pid)));
        let (mut told, mut batches) = (0, 0);
        while let Some((batch, events)) = queue.take() {
            told += events.len();
            batches += 1;
            let mut bytes = Vec::new();
            wire::frame::encode(&wire::node::ToFront::Events { batch, events }, &mut bytes).expect("it fits");
            queue.done(batch);
        }
        assert!(told == 200_040 && batches < 25, "{told} in {batches}");
    }

    #[test]
    fn what_must_be_known_at_once_does_not_wait_for_the_batch_before_it() {
        let mut queue = Events::default();
        queue.push(exit(5));
        let (first, _) = queue.take().expect("something to tell");
        assert!(queue.take_now().is_none());
        queue.push(exit(6));
        let (second, events) = queue.take_now().expect("something to tell");
        assert_eq!((second, events), (first + 1, vec![exit(6)]));
        queue.done(first);
        assert!(!queue.idle());
        queue.begin_again();
        assert_eq!(queue.take().expect("both again").1, [exit(5), exit(6)]);
    }

    #[test]
    fn a_change_is_shown_with_its_batch_or_when_it_has_cancelled_out() {
        let mut queue = Events::default();
        queue.push(named(1, b"x"));
        assert_eq!((queue.changes(), queue.shown()), (0, 0));
        queue.push(fork(1, 2));
        let (first, _) = queue.take().expect("something to tell");
        queue.push(fork(1, 3));
        queue.push(exit(3));
        queue.push(reaped(3));
        assert_eq!((queue.changes(), queue.shown()), (4, 0));
        assert!(queue.take_now().is_none());
        queue.are_shown(first);
        assert_eq!(queue.shown(), 4);
        queue.push(exit(2));
        queue.take_now().expect("something to tell");
        queue.begin_again();
        let (again, _) = queue.take().expect("told again");
        assert_eq!(queue.shown(), 4);
        queue.are_shown(again);
        assert_eq!(queue.shown(), queue.changes());
    }

    #[test]
    fn after_a_reconnect_ends_are_told_again_and_what_hello_says_is_not() {
        let mut queue = Events::default();
        let stop = BodyEvent::Stopped { pid: Pid(4), sig: Sig::STOP, turn: None };
        for event in [fork(1, 2), named(2, b"x"), exit(5)] {
            queue.push(event);
        }
        queue.take().expect("a batch that is lost");
        queue.push(stop.clone());
        queue.begin_again();
        let (_, events) = queue.take().expect("something to tell");
        assert_eq!(events, [exit(5), stop]);
    }
}
