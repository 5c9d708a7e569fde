//! What a process that is to become another one must be able to do.
//!
//! It executes a program that has all capabilities, and gets those that its bounding set has left it (capabilities(7)): what stands for a process that had given some up for
//! good has these alone.

use crate::identity;
use image::process::Process;
use image::thread::{Creds, Thread};
use kern::capability::{self, CHECKPOINT_RESTORE, SETGID, SETPCAP, SETUID, SYS_ADMIN, SYS_CHROOT};
use kern::proc::PROC;
use vocab::{Fault, Pid, Result};

/// Has process `pid` what it takes to become this one?
///
/// # Errors
/// `Refused` if not, with what is missing; `Gone`.
pub(crate) fn suffice(pid: Pid, process: &Process, threads: &[Thread]) -> Result<()> {
    let is = identity::creds(pid, pid)?;
    let what = match missing(&is, &process.root.0, threads) {
        None => return Ok(()),
        Some(what) => what,
    };
    Err(Fault::refused(format!(
        "what its stand-in may become is limited for good ({PROC}/{pid}/status, CapBnd), and it would have to {what}"
    )))
}

fn missing(is: &Creds, root: &[u8], threads: &[Thread]) -> Option<&'static str> {
    let left = is.capabilities[3];
    let has = |capability| capability::has(left, capability);
    let all = threads.iter().map(|thread| &thread.creds);
    let becomes_others = has(SETUID) && has(SETGID) && has(SETPCAP);
    let same_ids = |one: &Creds| (one.uids, one.gids, &one.groups) == (is.uids, is.gids, &is.groups);
    let held = |one: &Creds| {
        let [inheritable, permitted, effective, _, ambient] = one.capabilities;
        inheritable | permitted | effective | ambient
    };
    match () {
        () if !has(CHECKPOINT_RESTORE) && !has(SYS_ADMIN) => {
            Some("make threads of given numbers, and say where its memory is")
        }
        () if all.clone().any(|one| held(one) & !left != 0) => Some("have capabilities that are not left to it"),
        () if !becomes_others && !all.clone().all(same_ids) => Some("change its user and groups"),
        () if !has(SETPCAP) && all.clone().any(|one| one.securebits != 0 || left & !one.capabilities[3] != 0) => {
            Some("give up more of its capabilities")
        }
        () if !has(SYS_CHROOT) && root != b"/" => Some("change its root directory"),
        () => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_process_has_given_up_for_good_is_missed_by_who_needs_it() {
        let all = (1 << 41) - 1;
        let creds = |held: u64, left: u64| Creds { capabilities: [0, held, held, left, 0], ..Creds::default() };
        let thread = |creds: &Creds| Thread { creds: creds.clone(), ..Thread::default() };
        let without = |lost: &[u32]| lost.iter().fold(all, |left, lost| left & !(1 << lost));
        let asks = |left: u64, creds: &Creds| missing(&is(left), b"/", &[thread(creds)]).is_some();
        assert!(!asks(all, &creds(all, all)));
        assert!(!asks(without(&[SETPCAP]), &creds(0, without(&[SETPCAP]))));
        assert!(asks(without(&[SETPCAP]), &creds(0, without(&[SETPCAP, SETUID]))));
        assert!(asks(without(&[SETPCAP]), &creds(all, without(&[SETPCAP]))));
        assert!(asks(without(&[SETUID]), &Creds { uids: [1; 4], ..creds(0, without(&[SETUID])) }));
        assert!(!asks(without(&[CHECKPOINT_RESTORE]), &creds(0, without(&[CHECKPOINT_RESTORE]))));
        assert!(asks(without(&[CHECKPOINT_RESTORE, SYS_ADMIN]), &creds(0, 0)));
        assert!(missing(&is(without(&[SYS_CHROOT])), b"/srv", &[thread(&creds(0, without(&[SYS_CHROOT])))]).is_some());
    }

    fn is(left: u64) -> Creds {
        Creds { capabilities: [0, left, left, left, 0], ..Creds::default() }
    }
}
