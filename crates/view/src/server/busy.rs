//! Requests of one node's users that are being served, and those that wait until others of the same user are: whoever has many that wait for somebody keeps nobody else from being served.

use crate::fuse::op;
use kern::fuse::raw::Header;
use std::collections::{HashMap, VecDeque};
use vocab::errno::ENOLCK;

/// So many of an ordinary user are served at a time. Each has a thread, and a node's connection has some thousands.
const MOST: usize = 512;
/// So many wait for locks. Each has a thread too.
const MOST_LOCKS: usize = 1024;

/// Of LOOKUP: what will be asked for behind the name, or nothing, and what is going to be done with that ([`wire::view::intent`]).
#[derive(Debug, Default)]
pub(crate) struct Hint {
    pub(crate) path: Vec<u8>,
    pub(crate) intent: u8,
}

/// A request as it has come.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) number: u64,
    pub(crate) groups: Vec<u32>,
    pub(crate) hint: Hint,
    pub(crate) silent: bool,
    pub(crate) request: Vec<u8>,
    /// By which the node's kernel calls it off.
    pub(crate) unique: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Busy {
    served: HashMap<u32, usize>,
    locks: HashMap<u32, usize>,
    waiting: HashMap<u32, VecDeque<Request>>,
}

/// Does a request count? Not what only lets go of something, or writes what a node has kept (it has no number of the kernel's): others of the same user may wait for that.
pub(crate) fn counts(header: &Header) -> bool {
    let lets_go =
        [op::RELEASE, op::RELEASEDIR, op::FLUSH, op::SETLK, op::SETLKW, op::FORGET, op::BATCH_FORGET, op::INTERRUPT];
    header.uid != 0 && header.unique != 0 && !lets_go.contains(&header.opcode)
}

impl Busy {
    /// A request of this user is to be served: it is given back if it can be at once.
    pub(crate) fn begin(&mut self, uid: u32, request: Request) -> Option<Request> {
        let served = self.served.entry(uid).or_default();
        if *served >= MOST {
            self.waiting.entry(uid).or_default().push_back(request);
            return None;
        }
        *served += 1;
        Some(request)
    }

    /// One has been served; the next of this user's is to be in its place.
    pub(crate) fn end(&mut self, uid: u32) -> Option<Request> {
        let waiting = self.waiting.get_mut(&uid);
        if let Some(next) = waiting.and_then(VecDeque::pop_front) {
            return Some(next);
        }
        self.waiting.remove(&uid);
        if let Some(served) = self.served.get_mut(&uid) {
            *served -= 1;
            if *served == 0 {
                self.served.remove(&uid);
            }
        }
        None
    }

    /// Takes one away that waits; its number.
    pub(crate) fn call_off(&mut self, unique: u64) -> Option<u64> {
        self.waiting.values_mut().find_map(|waiting| {
            let at = waiting.iter().position(|request| request.unique == unique)?;
            waiting.remove(at).map(|request| request.number)
        })
    }

    /// This user is to wait for a lock.
    ///
    /// # Errors
    /// ENOLCK: too many do.
    pub(crate) fn lock(&mut self, uid: u32) -> Result<(), i32> {
        let locks = self.locks.entry(uid).or_default();
        if uid != 0 && *locks >= MOST_LOCKS {
            return Err(ENOLCK);
        }
        *locks += 1;
        Ok(())
    }

    pub(crate) fn locked(&mut self, uid: u32) {
        if let Some(locks) = self.locks.get_mut(&uid) {
            *locks -= 1;
            if *locks == 0 {
                self.locks.remove(&uid);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(number: u64) -> Request {
        let (groups, hint, request) = (Vec::new(), Hint::default(), Vec::new());
        Request { number, groups, hint, silent: false, request, unique: number + 1000 }
    }

    #[test]
    fn who_has_too_many_waits_for_itself_alone() {
        let mut busy = Busy::default();
        let mut begin = |uid, number| busy.begin(uid, request(number)).is_some();
        assert!((0..MOST as u64).all(|number| begin(7, number)));
        assert!(!begin(7, 600) && !begin(7, 601) && !begin(7, 602) && begin(8, 603));
        assert_eq!((busy.call_off(1601), busy.call_off(1601), busy.call_off(1000)), (Some(601), None, None));
        let ended: Vec<Option<u64>> = (0..3).map(|_| busy.end(7).map(|next| next.number)).collect();
        assert_eq!(ended, [Some(600), Some(602), None]);
        assert!(busy.begin(7, request(700)).is_some());
        assert!((0..MOST).all(|_| busy.end(7).is_none()) && busy.end(8).is_none());
        assert!(busy.served.is_empty() && busy.waiting.is_empty());
    }

    #[test]
    fn so_many_wait_for_locks() {
        let mut busy = Busy::default();
        assert!((0..MOST_LOCKS).all(|_| busy.lock(7).is_ok()));
        assert_eq!((busy.lock(7), busy.lock(8), busy.lock(0)), (Err(ENOLCK), Ok(()), Ok(())));
        busy.locked(7);
        assert_eq!(busy.lock(7), Ok(()));
    }
}
