//! The rights of a process by each of its ids: its files are opened with the least of them.
//!
//! A set-user-ID program has its user's real id and the file owner's effective one. Which of them a descriptor was opened by nobody knows, and its user may have
//! chosen the name.

use image::thread::Creds;
use kern::rights::Rights;
use std::collections::BTreeSet;
use vocab::Result;

/// The rights of a process whose threads have these credentials, by each of their ids, those of users before root's. Never empty. Capabilities count for who is root by
/// all ids: others got them by a file, or were left them.
pub(crate) fn of<'a>(all: impl IntoIterator<Item = &'a Creds>) -> Vec<Rights> {
    let mut least: Vec<Rights> = Vec::new();
    let (mut seen, mut any) = (BTreeSet::new(), false);
    for creds in all {
        any = true;
        let capabilities = if creds.uids == [0; 4] { creds.capabilities[1] } else { 0 };
        for (uid, gid) in creds.uids.into_iter().zip(creds.gids) {
            if seen.insert((uid, gid, creds.groups.clone(), capabilities)) {
                least.push(Rights { uid, gid, groups: creds.groups.clone(), capabilities });
            }
        }
    }
    if !any {
        // An image of before threads were first in it; the kernel takes away what the caller does not have.
        least.push(Rights { capabilities: !0, ..Rights::default() });
    }
    least.sort_by_key(|rights| rights.uid == 0);
    least
}

/// Does `act` with each of these rights: the outcome with the last, or the first failure.
///
/// # Errors
/// `Sys` when they cannot be taken on.
pub(crate) fn each<T>(rights: &[Rights], act: impl Fn() -> rustix::io::Result<T>) -> Result<rustix::io::Result<T>> {
    let (last, others) = rights.split_last().ok_or_else(|| vocab::Fault::bug("a process without ids"))?;
    for one in others {
        if let Err(errno) = one.lent(&act)? {
            return Ok(Err(errno));
        }
    }
    last.lent(&act)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(rights: &[Rights]) -> Vec<(u32, u32, u64)> {
        rights.iter().map(|one| (one.uid, one.gid, one.capabilities)).collect()
    }

    #[test]
    fn every_id_counts_and_capabilities_are_roots() {
        let creds = |uids, gids, held| Creds { uids, gids, capabilities: [0, held, held, 0, 0], ..Creds::default() };
        assert_eq!(ids(&of(&[creds([7; 4], [8; 4], 0)])), [(7, 8, 0)]);
        assert_eq!(ids(&of(&[creds([0; 4], [0; 4], 5)])), [(0, 0, 5)]);
        // A set-user-ID program of root's, one with a capability by its file, a set-group-ID one.
        assert_eq!(ids(&of(&[creds([7, 0, 0, 0], [8; 4], 5)])), [(7, 8, 0), (0, 8, 0)]);
        assert_eq!(ids(&of(&[creds([7; 4], [8; 4], 5)])), [(7, 8, 0)]);
        assert_eq!(ids(&of(&[creds([7; 4], [8, 9, 9, 9], 0)])), [(7, 8, 0), (7, 9, 0)]);
        // Threads of which one has changed its ids alone.
        let both = [creds([0; 4], [0; 4], 5), creds([7; 4], [8; 4], 0)];
        assert_eq!(ids(&of(&both)), [(7, 8, 0), (0, 0, 5)]);
        assert_eq!(ids(&of([])), [(0, 0, !0)]);
    }
}
