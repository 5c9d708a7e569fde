//! What a thread of root's may do to files, lowered for a while to what somebody else may: so that the kernel decides about each path on the way
//! whether that one may go it, links that are exchanged meanwhile included.

use crate::sys::check;
use vocab::{Fault, Pid, Result};

/// Whose rights: ids for files, supplementary groups, and capabilities (bit n for capability n).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Rights {
    pub uid: u32,
    pub gid: u32,
    pub groups: Vec<u32>,
    pub capabilities: u64,
}

/// Version 3 of capget(2), and the calling thread.
const HEAD: [u32; 2] = [0x2008_0522, 0];
/// Two of struct __user_cap_data_struct: effective, permitted, inheritable, for capabilities 0-31 and from 32 on.
type Sets = [[u32; 3]; 2];

/// The capabilities that a process has now (bit n for capability n), in its user namespace.
///
/// # Errors
/// As capget(2): ESRCH when it is gone.
pub fn effective(pid: Pid) -> std::result::Result<u64, i32> {
    let mut sets = Sets::default();
    let head = [HEAD[0], pid.0 as u32];
    // SAFETY: both structs are live, and have the layout of version 3.
    check(unsafe { libc::syscall(libc::SYS_capget, head.as_ptr(), sets.as_mut_ptr()) })?;
    Ok(u64::from(sets[1][0]) << 32 | u64::from(sets[0][0]))
}

impl Rights {
    /// Does `act` with these rights, and those of the caller that they do not have are away meanwhile. A caller that is not root does it with its own ids, which are
    /// all that it has to give, and without the capabilities of its program's file. The calls are the kernel's own, which change the calling thread alone.
    ///
    /// # Errors
    /// `Sys` when they cannot be taken on. When the thread's own cannot be taken back the process ends.
    pub fn lent<T>(&self, act: impl FnOnce() -> T) -> Result<T> {
        let own = Own::read().map_err(|errno| Fault::sys(errno, "read one's own rights"))?;
        // SAFETY: takes nothing.
        let is_root = unsafe { libc::geteuid() } == 0;
        let taken = if is_root { self.take(&own) } else { self.take_capabilities(&own) };
        let done = taken.map_err(|errno| Fault::sys(errno, "take on somebody else's rights")).map(|()| act());
        let back = if is_root { own.take_back() } else { own.take_back_capabilities() };
        if back.is_err() {
            std::process::abort();
        }
        done
    }

    fn take_capabilities(&self, own: &Own) -> std::result::Result<(), i32> {
        set_effective(&own.sets, |permitted, half| permitted & (self.capabilities >> (32 * half)) as u32)
    }

    fn take(&self, own: &Own) -> std::result::Result<(), i32> {
        set_groups(&self.groups)?;
        set_file_ids(self.uid, self.gid);
        // The change of the id has taken some away already, or not.
        self.take_capabilities(own)?;
        match file_ids() == (self.uid, self.gid) {
            true => Ok(()),
            false => Err(libc::EPERM),
        }
    }
}

/// What the thread had.
struct Own {
    groups: Vec<u32>,
    ids: (u32, u32),
    sets: Sets,
}

impl Own {
    fn read() -> std::result::Result<Own, i32> {
        let mut sets = Sets::default();
        // SAFETY: both structs are live, and have the layout of version 3.
        check(unsafe { libc::syscall(libc::SYS_capget, HEAD.as_ptr(), sets.as_mut_ptr()) })?;
        Ok(Own { groups: groups()?, ids: file_ids(), sets })
    }

    fn take_back_capabilities(&self) -> std::result::Result<(), i32> {
        // SAFETY: the structs are live.
        check(unsafe { libc::syscall(libc::SYS_capset, HEAD.as_ptr(), self.sets.as_ptr()) }).map(drop)
    }

    fn take_back(&self) -> std::result::Result<(), i32> {
        set_effective(&self.sets, |permitted, _| permitted)?;
        set_file_ids(self.ids.0, self.ids.1);
        set_groups(&self.groups)?;
        self.take_back_capabilities()?;
        match file_ids() == self.ids {
            true => Ok(()),
            false => Err(libc::EPERM),
        }
    }
}

fn groups() -> std::result::Result<Vec<u32>, i32> {
    // SAFETY: a count of 0 asks for the number only.
    let count = check(unsafe { libc::syscall(libc::SYS_getgroups, 0, 0) })?;
    let mut groups = vec![0u32; count as usize];
    // SAFETY: room for as many as said.
    let got = check(unsafe { libc::syscall(libc::SYS_getgroups, groups.len(), groups.as_mut_ptr()) })?;
    groups.truncate(got as usize);
    Ok(groups)
}

fn set_groups(groups: &[u32]) -> std::result::Result<(), i32> {
    // SAFETY: a live array with its length.
    check(unsafe { libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr()) }).map(drop)
}

/// setfsuid(2) and setfsgid(2) tell what was before, and with an id that there is not change nothing.
fn file_ids() -> (u32, u32) {
    // SAFETY: numbers only.
    unsafe { (libc::syscall(libc::SYS_setfsuid, -1i64) as u32, libc::syscall(libc::SYS_setfsgid, -1i64) as u32) }
}

/// The group first, while there is still the right to.
fn set_file_ids(uid: u32, gid: u32) {
    // SAFETY: numbers only.
    unsafe {
        libc::syscall(libc::SYS_setfsgid, gid);
        libc::syscall(libc::SYS_setfsuid, uid);
    }
}

/// Of those that `own` has as permitted ones, `which` are effective; by halves.
fn set_effective(own: &Sets, which: impl Fn(u32, u32) -> u32) -> std::result::Result<(), i32> {
    let mut sets = *own;
    for (half, [effective, permitted, _]) in (0..).zip(&mut sets) {
        *effective = which(*permitted, half);
    }
    // SAFETY: the structs are live.
    check(unsafe { libc::syscall(libc::SYS_capset, HEAD.as_ptr(), sets.as_ptr()) }).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn capabilities_are_those_of_the_process() {
        let me = Pid(std::process::id() as i32);
        let status = std::fs::read_to_string("/proc/self/status").expect("mine");
        let line = status.lines().find_map(|line| line.strip_prefix("CapEff:\t")).expect("it is there");
        assert_eq!(effective(me), Ok(u64::from_str_radix(line, 16).expect("a number")));
        assert_eq!(effective(Pid(0x3f_fff0)), Err(libc::ESRCH));
    }

    /// Root's, as far as this test is root.
    #[test]
    fn what_is_done_with_lent_rights_is_not_done_with_ones_own() {
        // SAFETY: takes nothing.
        if unsafe { libc::geteuid() } != 0 {
            return;
        }
        let secret = std::env::temp_dir().join(format!("rights.{}", std::process::id()));
        std::fs::write(&secret, "x").expect("a file");
        let open = |rights: &Rights| rights.lent(|| std::fs::File::open(&secret).is_ok()).expect("root");
        let user = Rights { uid: 61001, gid: 61001, groups: vec![61005], capabilities: 0 };
        for (mode, may) in [(0o600, false), (0o644, true)] {
            std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(mode)).expect("mine");
            assert_eq!(open(&user), may, "{mode:o}");
        }
        std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(0o000)).expect("mine");
        assert!(!open(&user) && !open(&Rights::default()));
        assert!(open(&Rights { capabilities: !0, ..Rights::default() }));
        std::os::unix::fs::chown(&secret, None, Some(61005)).expect("mine");
        std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(0o040)).expect("mine");
        assert!(open(&user) && !open(&Rights { groups: Vec::new(), ..user }));
        assert!(std::fs::File::open(&secret).is_ok(), "one's own are there again");
        std::fs::remove_file(&secret).expect("mine");
    }

    /// A thread that is not root keeps its ids, and has a capability only besides.
    #[test]
    fn a_capability_of_ones_own_is_away_meanwhile() {
        // SAFETY: takes nothing.
        if unsafe { libc::geteuid() } != 0 {
            return;
        }
        let user = || {
            // SAFETY: numbers only; the calls are the kernel's own, which change this thread alone.
            unsafe {
                assert_eq!(libc::prctl(libc::PR_SET_KEEPCAPS, 1, 0, 0, 0), 0);
                assert_eq!(libc::syscall(libc::SYS_setresuid, 61001, 61001, 61001), 0);
            }
            let tid = own_tid();
            let own = Own::read().expect("mine");
            set_effective(&own.sets, |permitted, _| permitted).expect("permitted");
            let before = effective(tid).expect("mine");
            let none = Rights { uid: 61001, gid: 61001, ..Rights::default() };
            assert_eq!(none.lent(|| effective(tid)), Ok(Ok(0)));
            assert_eq!(effective(tid), Ok(before));
            assert_ne!(before, 0);
        };
        std::thread::spawn(user).join().expect("as it should be");
    }

    fn own_tid() -> Pid {
        // SAFETY: takes nothing.
        Pid(unsafe { libc::gettid() })
    }
}
