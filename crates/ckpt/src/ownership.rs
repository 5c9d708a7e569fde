//! Whether a process is a user's altogether: only then may that user have it moved.
//!
//! A move opens files, makes memory and gives ids with root's rights. A process with any right that its user has not (set-user-ID, set-group-ID, a file capability) would
//! take that right to where the user has chosen the names. So its ids are compared with those of who asks when it stands still, on both machines.

use crate::apart;
use crate::identity;
use crate::proc;
use image::thread::{Creds, Thread};
use vocab::{Fault, Pid, Result};

/// An ordinary user, with the groups of who asked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct User {
    uid: u32,
    groups: Vec<u32>,
}

impl User {
    /// The user who asks with these credentials; `None` for root, who may have anything moved.
    pub fn who_asks(creds: &vocab::Creds) -> Option<User> {
        let groups = creds.groups.iter().copied().chain([creds.gid.effective]).collect();
        (creds.uid.effective != 0).then_some(User { uid: creds.uid.effective, groups })
    }

    /// # Errors
    /// `Refused` for a process of which a thread has another id, a group that the user is not in, or a capability.
    pub(crate) fn owns(&self, threads: &[Thread]) -> Result<()> {
        threads.iter().try_for_each(|thread| self.has(thread.tid, &thread.creds))
    }

    /// The same by /proc, of a process that runs: it may change at any time.
    ///
    /// # Errors
    /// `Gone`; as [`User::owns`].
    pub(crate) fn seems_to_own(&self, pid: Pid) -> Result<()> {
        for tid in proc::numbers_in(pid, "task")? {
            // A thread that has ended meanwhile has no status.
            if let Ok(status) = apart::of_thread(pid, Pid(tid)) {
                self.has(tid, &identity::creds_of(Pid(tid), &status)?)?;
            }
        }
        Ok(())
    }

    fn has(&self, tid: i32, creds: &Creds) -> Result<()> {
        let [_, permitted, effective, _, ambient] = creds.capabilities;
        let foreign = creds.gids.iter().chain(&creds.groups).find(|gid| !self.groups.contains(gid));
        let why = match foreign {
            _ if creds.uids != [self.uid; 4] => format!("has the user ids {:?}", creds.uids),
            Some(gid) => format!("is in group {gid}, in which who asks is not"),
            None if permitted | effective | ambient != 0 => "has capabilities".to_owned(),
            None => return Ok(()),
        };
        Err(Fault::refused(format!("it is not user {}'s alone: its thread {tid} {why}", self.uid)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vocab::Ids;

    #[test]
    fn a_process_with_any_right_more_is_not_its_users() {
        let asks = vocab::Creds { uid: Ids::all(7), gid: Ids::all(8), groups: vec![9] };
        let user = User::who_asks(&asks).expect("not root");
        let own = Creds { uids: [7; 4], gids: [8; 4], groups: vec![8, 9], ..Creds::default() };
        let owns = |change: &dyn Fn(&mut Creds)| {
            let mut other = own.clone();
            change(&mut other);
            let thread = |creds: &Creds| Thread { tid: 1, creds: creds.clone(), ..Thread::default() };
            user.owns(&[thread(&own), thread(&other)]).is_ok()
        };
        assert!(owns(&|_| {}) && owns(&|creds| creds.gids = [8, 9, 9, 9]));
        for which in 0..4 {
            assert!(!owns(&|creds| creds.uids[which] = 0) && !owns(&|creds| creds.gids[which] = 0));
        }
        assert!(!owns(&|creds| creds.groups.push(10)));
        // Capabilities that only a program's file could bring count for nothing (inheritable, bounding).
        for (set, may) in [(0, true), (1, false), (2, false), (3, true), (4, false)] {
            assert_eq!(owns(&|creds| creds.capabilities[set] = 1 << 21), may, "{set}");
        }
        assert_eq!(User::who_asks(&vocab::Creds::default()), None);
    }
}
