//! Fair shares of a daemon's loop: whose connection is served next, and whose waits because its owner has used up its share.
//!
//! Each owner (a user, an address, all strangers together) has an account of processor time. Serving a connection is charged to its owner;
//! the account is refilled by [`SHARE`] of the time that passes. Owners take turns, and within one owner the connections do. An owner in
//! debt waits until its account is refilled, and its unread bytes wait in the sockets: so a flood slows down the flooder.
//!
//! ```text
//! for each descriptor that is ready:  if fair.ready(owner, key, now) { poller.remove(fd) }      // the owner is in debt
//! until the turn is over:             while let Some(turn) = fair.next(now) {
//!                                         serve(turn.key); fair.charge(turn.owner, used, now)
//!                                         if more is at hand { fair.again(turn) } else if turn.parked { poller.add(fd) }
//!                                     }
//! ```

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::net::IpAddr;

/// The share of a processor that one owner gets, in thousandths.
const SHARE: i64 = 150;
/// The most that an account has, in microseconds: what an owner may use at once after a pause.
const MOST_US: i64 = 15_000;
/// An owner in debt is served again once its account has this much, in microseconds: a few slices at once and not one after the other.
const LEAST_US: i64 = 200;
/// Above so many accounts, full ones are forgotten: a forgotten account is as good as a full one.
const ACCOUNTS: usize = 256;
/// Accounts are kept in thousandths of a microsecond.
const UNIT: i64 = 1000;

/// The owner of the work.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Owner {
    /// Has turns as all others, and no limit: the daemons' own programs are root's.
    Root,
    User(u32),
    /// The address of a node that has a link.
    Node(IpAddr),
    /// All addresses without a link have one share together.
    Strangers,
}

impl Owner {
    pub fn of_user(uid: u32) -> Owner {
        match uid {
            0 => Owner::Root,
            uid => Owner::User(uid),
        }
    }
}

#[derive(Debug)]
struct Account<K> {
    credit: i64,
    /// The moment of `credit`.
    since_us: u64,
    in_debt: bool,
    queue: VecDeque<K>,
}

impl<K> Account<K> {
    fn new(now_us: u64) -> Account<K> {
        Account { credit: MOST_US * UNIT, since_us: now_us, in_debt: false, queue: VecDeque::new() }
    }

    fn refill(&mut self, now_us: u64) {
        let passed = i64::try_from(now_us.saturating_sub(self.since_us)).unwrap_or(i64::MAX);
        self.credit = self.credit.saturating_add(passed.saturating_mul(SHARE)).min(MOST_US * UNIT);
        self.since_us = self.since_us.max(now_us);
        self.in_debt &= self.credit < LEAST_US * UNIT;
    }

    /// When the debt is over, if nothing is charged meanwhile.
    fn over_us(&self) -> u64 {
        let missing = (LEAST_US * UNIT - self.credit).max(0);
        self.since_us + (missing as u64).div_ceil(SHARE as u64)
    }

    fn is_full(&self) -> bool {
        self.credit >= MOST_US * UNIT
    }
}

/// Connections that have something to do, by whatever names them, and the accounts of their owners.
#[derive(Debug)]
pub struct Fair<K> {
    accounts: HashMap<Owner, Account<K>>,
    /// Owners with a queue, in the order of their turns.
    turns: VecDeque<Owner>,
    /// The owner of each connection in a queue, and whether the connection is off the poller.
    queued: HashMap<K, (Owner, bool)>,
}

/// A connection whose turn it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Turn<K> {
    pub key: K,
    pub owner: Owner,
    /// It is off the poller.
    pub parked: bool,
}

impl<K> Default for Fair<K> {
    fn default() -> Fair<K> {
        Fair { accounts: HashMap::new(), turns: VecDeque::new(), queued: HashMap::new() }
    }
}

impl<K: Copy + Eq + Hash> Fair<K> {
    /// The poller says that there is something to do for `key`. True: its owner is in debt, and the caller takes it off the poller.
    pub fn ready(&mut self, owner: Owner, key: K, now_us: u64) -> bool {
        if self.accounts.len() > ACCOUNTS {
            self.forget_full(now_us);
        }
        let account = self.accounts.entry(owner).or_insert_with(|| Account::new(now_us));
        account.refill(now_us);
        let in_debt = account.in_debt;
        match self.queued.get_mut(&key) {
            Some((_, parked)) => in_debt && !std::mem::replace(parked, in_debt),
            None => {
                self.push(owner, key, in_debt);
                in_debt
            }
        }
    }

    /// A connection whose turn is over has more to do. It stays off the poller if it was.
    pub fn again(&mut self, turn: Turn<K>) {
        if !self.queued.contains_key(&turn.key) {
            self.push(turn.owner, turn.key, turn.parked);
        }
    }

    /// The connection whose turn it is.
    pub fn next(&mut self, now_us: u64) -> Option<Turn<K>> {
        for _ in 0..self.turns.len() {
            let owner = self.turns.pop_front()?;
            let Some(account) = self.accounts.get_mut(&owner) else { continue };
            account.refill(now_us);
            if account.in_debt {
                self.turns.push_back(owner);
                continue;
            }
            let Some(key) = account.queue.pop_front() else { continue };
            if !account.queue.is_empty() {
                self.turns.push_back(owner);
            }
            let (owner, parked) = self.queued.remove(&key)?;
            return Some(Turn { key, owner, parked });
        }
        None
    }

    /// Work for `owner` has taken so much of a processor. True: it is in debt.
    pub fn charge(&mut self, owner: Owner, used_us: u64, now_us: u64) -> bool {
        if owner == Owner::Root {
            return false;
        }
        if self.accounts.len() > ACCOUNTS {
            self.forget_full(now_us);
        }
        let account = self.accounts.entry(owner).or_insert_with(|| Account::new(now_us));
        account.refill(now_us);
        let used = i64::try_from(used_us).unwrap_or(i64::MAX).saturating_mul(UNIT);
        account.credit = account.credit.saturating_sub(used);
        account.in_debt |= account.credit <= 0;
        account.in_debt
    }

    pub fn is_in_debt(&mut self, owner: Owner, now_us: u64) -> bool {
        self.accounts.get_mut(&owner).is_some_and(|account| {
            account.refill(now_us);
            account.in_debt
        })
    }

    /// Is `key` off the poller until its turn?
    pub fn is_parked(&self, key: K) -> bool {
        self.queued.get(&key).is_some_and(|(_, parked)| *parked)
    }

    /// `key` is closed.
    pub fn forget(&mut self, key: K) {
        let Some((owner, _)) = self.queued.remove(&key) else { return };
        if let Some(account) = self.accounts.get_mut(&owner) {
            account.queue.retain(|one| *one != key);
            if account.queue.is_empty() {
                self.turns.retain(|one| *one != owner);
            }
        }
    }

    /// When [`Fair::next`] has a connection, now or later.
    pub fn due_us(&self) -> Option<u64> {
        let due = |owner| {
            self.accounts.get(owner).map(|account: &Account<K>| if account.in_debt { account.over_us() } else { 0 })
        };
        self.turns.iter().filter_map(due).min()
    }

    fn push(&mut self, owner: Owner, key: K, parked: bool) {
        let Some(account) = self.accounts.get_mut(&owner) else { return };
        if account.queue.is_empty() {
            self.turns.push_back(owner);
        }
        account.queue.push_back(key);
        self.queued.insert(key, (owner, parked));
    }

    fn forget_full(&mut self, now_us: u64) {
        self.accounts.retain(|_, account| {
            account.refill(now_us);
            !account.queue.is_empty() || !account.is_full()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ANN: Owner = Owner::User(1);
    const BOB: Owner = Owner::User(2);

    fn keys(fair: &mut Fair<u32>, count: usize, now_us: u64) -> Vec<u32> {
        (0..count).filter_map(|_| fair.next(now_us)).map(|turn| turn.key).collect()
    }

    #[test]
    fn owners_take_turns_whatever_each_has() {
        let mut fair = Fair::default();
        (0..100).for_each(|key| assert!(!fair.ready(ANN, key, 0)));
        assert!(!fair.ready(BOB, 500, 0) && !fair.ready(Owner::Root, 600, 0) && !fair.ready(ANN, 0, 0));
        assert_eq!(keys(&mut fair, 5, 0), [0, 500, 600, 1, 2]);
        fair.forget(3);
        assert_eq!(keys(&mut fair, 200, 0), (4..100).collect::<Vec<_>>());
        assert_eq!(fair.due_us(), None);
    }

    #[test]
    fn an_owner_in_debt_waits_and_others_do_not() {
        let mut fair = Fair::default();
        assert!(!fair.ready(ANN, 1, 0));
        fair.charge(ANN, MOST_US as u64 + 100, 0);
        assert!(fair.ready(ANN, 1, 0), "it leaves the poller");
        assert!(!fair.ready(ANN, 1, 0), "once");
        assert!(fair.ready(ANN, 2, 0) && !fair.ready(BOB, 3, 0));
        assert_eq!(fair.due_us(), Some(0));
        assert_eq!(fair.next(0), Some(Turn { key: 3, owner: BOB, parked: false }));
        assert_eq!(fair.next(0), None);
        let due = fair.due_us().expect("later");
        assert_eq!(due, 300 * 1000 / SHARE as u64);
        assert_eq!(fair.next(due - 1), None);
        let turn = fair.next(due).expect("its debt is over");
        assert_eq!(turn, Turn { key: 1, owner: ANN, parked: true });
        fair.again(turn);
        assert_eq!(keys(&mut fair, 9, due), [2, 1]);
    }

    #[test]
    fn root_is_never_in_debt_and_full_accounts_are_forgotten() {
        let mut fair = Fair::default();
        fair.charge(Owner::Root, 1_000_000, 0);
        assert!(!fair.ready(Owner::Root, 1, 0));
        for user in 1..=(ACCOUNTS as u32 + 50) {
            fair.charge(Owner::User(user), 20, 0);
        }
        assert!(!fair.ready(Owner::User(7), 9, 1_000_000));
        assert!(fair.accounts.len() <= 2);
        assert_eq!(keys(&mut fair, 9, 1_000_000), [1, 9]);
    }

    proptest! {
        /// Over any history: no owner uses more than its account and its share of the time, but for one slice; nothing is lost, nothing is
        /// served twice; whoever is not in debt is served before anybody has a second turn.
        #[test]
        fn no_history_gives_an_owner_more_than_its_share(
            steps in proptest::collection::vec((0u32..5, 0u32..40, 0u64..3000, 0u64..800), 1..400)
        ) {
            let mut fair = Fair::default();
            let (mut now, mut used, mut waiting) = (0u64, HashMap::<Owner, u64>::new(), HashMap::new());
            let mut since = HashMap::new();
            for (step, (who, key, pause, slice)) in steps.into_iter().enumerate() {
                now += pause;
                let owner = Owner::of_user(who);
                let key = who * 100 + key;
                fair.ready(owner, key, now);
                waiting.insert(key, owner);
                let Some(turn) = fair.next(now) else {
                    prop_assert!(waiting.values().all(|owner| fair.accounts[owner].in_debt), "somebody could be served");
                    prop_assert!(fair.due_us().is_some_and(|due| due > now), "the caller is to come again");
                    continue;
                };
                prop_assert_eq!(waiting.remove(&turn.key), Some(turn.owner), "it waits, once");
                // Whoever waited at its last turn has had one since.
                let (last, others) = since.remove(&turn.owner).unwrap_or_default();
                for other in others {
                    let had: usize = since.get(&other).map_or(0, |(at, _)| *at);
                    prop_assert!(had > last, "{other:?} waits, and {:?} has two turns", turn.owner);
                }
                let others = waiting.values().copied().filter(|one| *one != turn.owner && !fair.accounts[one].in_debt);
                since.insert(turn.owner, (step, others.collect::<Vec<_>>()));
                fair.charge(turn.owner, slice, now);
                *used.entry(turn.owner).or_default() += slice;
                if turn.owner != Owner::Root {
                    let most = MOST_US as u64 + now * SHARE as u64 / 1000 + slice;
                    prop_assert!(used[&turn.owner] <= most, "{} of {most} us", used[&turn.owner]);
                }
            }
            // In the end everything is served.
            while let Some(due) = fair.due_us() {
                now = now.max(due);
                let turn = fair.next(now);
                prop_assert!(turn.is_some(), "due and nobody's turn");
                waiting.remove(&turn.expect("seen").key);
            }
            prop_assert!(waiting.is_empty() && fair.queued.is_empty() && fair.turns.is_empty());
        }
    }
}
