//! Whose process it is.

use minicbor::{Decode, Encode};

/// Real, effective, saved and file-system id, in the order of `/proc/PID/status`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Encode, Decode)]
pub struct Ids {
    #[n(0)]
    pub real: u32,
    #[n(1)]
    pub effective: u32,
    #[n(2)]
    pub saved: u32,
    #[n(3)]
    pub fs: u32,
}

impl Ids {
    pub fn all(id: u32) -> Ids {
        Ids { real: id, effective: id, saved: id, fs: id }
    }
}

/// Credentials as far as they travel between machines.
#[derive(Clone, PartialEq, Eq, Debug, Default, Encode, Decode)]
pub struct Creds {
    #[n(0)]
    pub uid: Ids,
    #[n(1)]
    pub gid: Ids,
    /// Supplementary groups, in the kernel's order.
    #[n(2)]
    pub groups: Vec<u32>,
}

impl Creds {
    /// May a process with these credentials signal one with `target`'s?
    ///
    /// linux: `kill_ok_by_cred` (kernel/signal.c), with CAP_KILL taken to be what an effective uid of 0 has.
    pub fn may_signal(&self, target: &Creds) -> bool {
        let (s, t) = (&self.uid, &target.uid);
        s.effective == 0 || s.effective == t.saved || s.effective == t.real || s.real == t.saved || s.real == t.real
    }
}

/// What a process keeps of root's powers across exec, each set as a number with bit n for capability n (capabilities(7)), and whether it
/// has renounced any gain for good.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Encode, Decode)]
pub struct Capabilities {
    #[n(0)]
    pub inheritable: u64,
    #[n(1)]
    pub bounding: u64,
    /// PR_SET_NO_NEW_PRIVS.
    #[n(3)]
    pub no_new_privs: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(id: u32) -> Creds {
        Creds { uid: Ids::all(id), gid: Ids::all(id), groups: vec![] }
    }

    #[test]
    fn only_root_and_the_owner_may_signal() {
        assert!(user(0).may_signal(&user(7)));
        assert!(user(7).may_signal(&user(7)));
        assert!(!user(7).may_signal(&user(8)));
        assert!(!user(7).may_signal(&user(0)));
    }

    #[test]
    fn a_setuid_program_can_be_signalled_by_who_started_it() {
        let mut sudo = user(0);
        sudo.uid.real = 7;
        assert!(user(7).may_signal(&sudo));
    }
}
