//! Requests that have no answer yet.

use std::collections::{BTreeMap, HashMap};

/// A request as it is said to the front end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Asked {
    /// 0: of this process's own.
    pub(super) unique: u64,
    pub(super) groups: Vec<u32>,
    pub(super) request: Vec<u8>,
    /// The kernel waits for no answer.
    pub(super) silent: bool,
}

#[derive(Debug, Default)]
pub(super) struct Pending {
    last: u64,
    asked: BTreeMap<u64, Asked>,
    numbers: HashMap<u64, u64>,
    done: Vec<u64>,
}

impl Pending {
    /// A new request; its number.
    pub(super) fn add(&mut self, asked: Asked) -> u64 {
        self.last += 1;
        if !asked.silent && asked.unique != 0 {
            self.numbers.insert(asked.unique, self.last);
        }
        self.asked.insert(self.last, asked);
        self.last
    }

    /// Its answer has come: which request of the kernel's is to be answered.
    pub(super) fn answered(&mut self, number: u64) -> Option<Asked> {
        let asked = self.asked.remove(&number)?;
        self.done.push(number);
        if asked.silent {
            return None;
        }
        self.numbers.remove(&asked.unique);
        Some(asked)
    }

    /// The number of a request of the kernel's that has no answer.
    pub(super) fn number(&self, unique: u64) -> Option<u64> {
        self.numbers.get(&unique).copied()
    }

    /// Numbers whose answers the front end need not keep, each told once.
    pub(super) fn done(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.done)
    }

    /// All, in their order.
    pub(super) fn all(&self) -> Vec<(u64, Asked)> {
        self.asked.iter().map(|(number, asked)| (*number, asked.clone())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_answered_is_done_and_asked_no_more() {
        let mut pending = Pending::default();
        let one = |unique, silent| Asked { unique, groups: Vec::new(), request: Vec::new(), silent };
        assert_eq!((pending.add(one(7, false)), pending.add(one(8, true)), pending.add(one(9, false))), (1, 2, 3));
        assert_eq!((pending.number(7), pending.number(8)), (Some(1), None));
        let mut answered = |number| pending.answered(number).map(|asked| asked.unique);
        assert_eq!((answered(1), answered(2), answered(1)), (Some(7), None, None));
        assert_eq!(pending.done(), [1, 2]);
        assert!(pending.done().is_empty() && pending.number(7).is_none());
        assert_eq!(pending.all().into_iter().map(|(number, _)| number).collect::<Vec<_>>(), [3]);
    }
}
