//! The peer of a pair of unix sockets: who made it, as the kernel noted then (linux: `init_peercred`).

use crate::identity::KEEP;
use image::files::Peer;
use image::thread::Creds;
use kern::unix_socket;
use puppet::Script;
use std::os::fd::{AsFd, OwnedFd};
use vocab::Result;

pub(super) fn of(socket: &OwnedFd) -> Result<Peer> {
    let (uid, gid, groups) = unix_socket::peer(socket.as_fd())?;
    Ok(Peer { uid, gid, groups })
}

/// An id of all ones changes nothing (setresuid(2), setresgid(2)).
const AS_IT_IS: u64 = u32::MAX as u64;

/// Makes a pair with the ids of its maker; if the maker is not known, with those that the process is to have (`wanted`). Without the right to other ids the pair gets those that the process has `now`.
pub(super) fn during(
    script: &mut Script,
    peer: Option<&Peer>,
    (wanted, now): (&Creds, &Creds),
    make: impl FnOnce(&mut Script),
) {
    let Creds { uids, gids, groups, .. } = wanted;
    let own = Peer { uid: uids[1], gid: gids[1], groups: groups.clone() };
    let peer = peer.unwrap_or(&own);
    let before = Peer { uid: now.uids[1], gid: now.gids[1], groups: now.groups.clone() };
    if *peer == before {
        return make(script);
    }
    let securebits = script.attempt(libc::SYS_prctl, &[libc::PR_GET_SECUREBITS as u64]);
    script.attempt(libc::SYS_prctl, &[libc::PR_SET_SECUREBITS as u64, KEEP]);
    set_groups(script, &peer.groups);
    script.attempt(libc::SYS_setresgid, &[AS_IT_IS, peer.gid.into(), AS_IT_IS]);
    script.attempt(libc::SYS_setresuid, &[AS_IT_IS, peer.uid.into(), AS_IT_IS]);
    make(script);
    script.attempt(libc::SYS_setresuid, &[AS_IT_IS, before.uid.into(), AS_IT_IS]);
    script.attempt(libc::SYS_setresgid, &[AS_IT_IS, before.gid.into(), AS_IT_IS]);
    set_groups(script, &before.groups);
    let back = script.attempt(libc::SYS_prctl, &[libc::PR_SET_SECUREBITS as u64, 0]);
    script.pass(securebits, back, 1);
}

fn set_groups(script: &mut Script, groups: &[u32]) {
    let bytes: Vec<u8> = groups.iter().flat_map(|group| group.to_ne_bytes()).collect();
    let at = script.bytes(&bytes);
    script.attempt(libc::SYS_setgroups, &[groups.len() as u64, at]);
}
