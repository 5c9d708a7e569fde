//! Who may open the hold file: the daemon's own stand-ins, and processes that it has been told to expect. What those are commanded before
//! they are there waits for them.

use crate::family::Family;
use crate::table::{Ghost, Ghosts};
use std::path::Path;
use tracing::warn;
use vocab::Pid;

impl Ghosts {
    /// Lets process `pid` open the hold file.
    pub fn expect(&mut self, pid: Pid) {
        self.expected.entry(pid).or_default();
    }

    /// Forgets that `pid` was expected.
    pub fn unexpect(&mut self, pid: Pid) {
        self.expected.remove(&pid);
    }

    pub(crate) fn opened(&mut self, unique: u64, pid: Pid) {
        if self.own_open == Some(0) && Path::new(&format!("/proc/self/task/{pid}")).exists() {
            self.own_open = Some(self.next_family);
            self.device.opened(unique, self.next_family);
            self.next_family += 1;
            return;
        }
        let Some(queue) = self.expected.remove(&pid) else {
            warn!(%pid, "refused to open the hold file: not expected");
            self.device.fail(unique, EACCES);
            return;
        };
        let family = self.next_family;
        self.next_family += 1;
        self.families.insert(family, Family::new(1));
        let ghost = self.ghosts.entry(pid).or_insert_with(|| Ghost::coming(family, Some(0)));
        ghost.family = family;
        ghost.queue.extend(queue);
        self.device.opened(unique, family);
    }
}

const EACCES: i32 = 13;
