//! Pairs of unix sockets of which both ends are in the process, or whose other end has been closed; with what waits in them.

use super::{peer, All, Seen, Verdict};
use crate::elsewhere::Elsewhere;
use crate::socket_options::{LAST, OPTIONS};
use image::files::{Files, Kind, Message, OpenFile, SocketEnd, SocketOption, SocketPair};
use image::thread::Creds;
use image::Bytes;
use kern::unix_socket::{self, Diagnosis, Told};
use puppet::{Arena, Loan, Script, Slot};
use rustix::event::{PollFd, PollFlags};
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, OwnedFd};
use vocab::{Fault, Pid, Result};
use zerocopy::IntoBytes;

/// A pair as the kernel shows it: kind, and for each end its inode, `None` when it has been closed, and what it is shut for.
pub(crate) struct Pair {
    kind: i32,
    ends: [(Option<u32>, u8); 2],
}

fn inode(link: &[u8]) -> Option<u32> {
    std::str::from_utf8(link).ok()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

/// The links of all sockets.
pub(super) fn links(seen: &[Seen]) -> BTreeSet<Vec<u8>> {
    seen.iter().filter(|seen| inode(&seen.link).is_some()).map(|seen| seen.link.clone()).collect()
}

/// The pairs that no other process has open.
pub(super) fn within(pid: Pid, elsewhere: &Elsewhere) -> Result<Vec<Pair>> {
    let own: Vec<u32> =
        elsewhere.links.iter().filter(|(_, who)| who.is_none()).filter_map(|(link, _)| inode(link)).collect();
    if own.is_empty() {
        return Ok(Vec::new());
    }
    let diagnosis = Diagnosis::of(pid)?;
    let mut told = BTreeMap::new();
    for inode in own {
        told.extend(diagnosis.ask(inode)?.map(|one| (inode, one)));
    }
    Ok(told.iter().filter_map(|(inode, one)| pair(*inode, one, &told)).collect())
}

/// The state of sockets that are connected (linux: `TCP_ESTABLISHED`).
const CONNECTED: u8 = 1;

/// The pair that this socket is the first end of.
fn pair(inode: u32, one: &Told, all: &BTreeMap<u32, Told>) -> Option<Pair> {
    if one.named || one.state != CONNECTED {
        return None;
    }
    let peer = match one.peer {
        None | Some(0) => return Some(Pair { kind: one.kind, ends: [(Some(inode), one.shutdown), (None, 0)] }),
        Some(peer) => peer,
    };
    let other = all.get(&peer).filter(|other| other.peer == Some(inode) && !other.named && inode < peer)?;
    Some(Pair { kind: one.kind, ends: [(Some(inode), one.shutdown), (Some(peer), other.shutdown)] })
}

pub(super) fn look(seen: &Seen, all: &All) -> Result<Verdict> {
    let Some(own) = inode(&seen.link) else { return Ok(Verdict::Other) };
    let place = all.sockets.iter().enumerate().find_map(|(pair, socket)| {
        let end = socket.ends.iter().position(|(inode, _)| *inode == Some(own))?;
        Some((pair as u32, end as u8))
    });
    let Some((pair, end)) = place else { return Ok(Verdict::Other) };
    let refused = |why| Ok(Verdict::Refused(seen.obstacle(why)));
    // Since Linux 5.12.
    if seen.field("scm_fds").is_ok_and(|count| count != "0") {
        return refused("has descriptors on their way in it (SCM_RIGHTS)");
    }
    let socket = super::copy(seen)?;
    let mut poll = [PollFd::new(&socket, PollFlags::PRI)];
    let now = rustix::time::Timespec::default();
    rustix::event::poll(&mut poll, Some(&now)).map_err(|e| Fault::sys(e.raw_os_error(), "poll a socket"))?;
    match poll[0].revents() {
        events if events.contains(PollFlags::ERR) => refused("has an error that it has not been told yet"),
        events if events.contains(PollFlags::PRI) => refused("has urgent data in it (MSG_OOB)"),
        _ => Ok(Verdict::Carried(Kind::Socket { pair, end })),
    }
}

/// Is it a unix socket, and the kernel does not tell where it leads?
pub(super) fn is_untold(seen: &Seen) -> Result<bool> {
    if inode(&seen.link).is_none() {
        return Ok(false);
    }
    let domain = unix_socket::option(super::copy(seen)?.as_fd(), libc::SO_DOMAIN);
    Ok(domain.is_ok_and(|domain| domain == libc::AF_UNIX.to_ne_bytes()) && !unix_socket::are_told()?)
}

/// Copies what waits in each, without taking it out. The process stands still.
pub(super) fn dump(pid: Pid, all: &All) -> Result<Vec<SocketPair>> {
    // The first descriptor of each.
    let numbered = all.seen.iter().rev().filter_map(|seen| Some((inode(&seen.link)?, seen)));
    let descriptors: BTreeMap<u32, &Seen> = numbered.collect();
    let socket = |end: &(Option<u32>, u8)| {
        let seen = end.0.map(|number| descriptors.get(&number));
        seen.map(|seen| super::copy(seen.ok_or_else(|| Fault::bug("a socket without a descriptor"))?)).transpose()
    };
    let dump = |pair: &Pair| {
        let [one, other] = pair.ends;
        let (first, second) = (socket(&one)?, socket(&other)?);
        let ends =
            [(one, &first, &second), (other, &second, &first)].map(|(end, socket, from)| match (end.0, socket) {
                (Some(number), Some(socket)) => dump_end(pid, pair.kind, (number, end.1), socket, from.as_ref()),
                _ => Ok(SocketEnd { closed: true, ..SocketEnd::default() }),
            });
        let peer = first.iter().chain(&second).next().map(peer::of).transpose()?;
        Ok(SocketPair { kind: pair.kind, ends: ends.into_iter().collect::<Result<_>>()?, peer })
    };
    all.sockets.iter().map(dump).collect()
}

/// `from`: the other end, if it is there.
fn dump_end(
    pid: Pid,
    kind: i32,
    (number, shutdown): (u32, u8),
    socket: &OwnedFd,
    from: Option<&OwnedFd>,
) -> Result<SocketEnd> {
    let waiting = unix_socket::waiting(socket.as_fd(), shutdown & 1 != 0)?;
    if let (Some(from), true) = (from, kind != libc::SOCK_STREAM) {
        if unix_socket::unread(from.as_fd())? != unix_socket::memory_of(kind, &waiting)? {
            let what = "has empty messages in it that somebody has looked at, so that nobody sees them again";
            return Err(Fault::refused(format!("socket:[{number}] {what}")));
        }
    }
    let message = |message: unix_socket::Message| match message.credentials {
        Some((who, ..)) if who != pid.0 => {
            Err(Fault::refused(format!("socket:[{number}] has messages of process {who} in it")))
        }
        credentials => Ok(Message { data: message.data.into(), sender: credentials.map(|(_, uid, gid)| (uid, gid)) }),
    };
    let option = |name: &i32| {
        let value = unix_socket::option(socket.as_fd(), *name).ok()?;
        Some(SocketOption { name: *name, value: value.into() })
    };
    Ok(SocketEnd {
        closed: false,
        shutdown,
        messages: waiting.into_iter().map(message).collect::<Result<_>>()?,
        options: OPTIONS.iter().chain(&LAST).filter_map(option).collect(),
    })
}

/// Makes the pairs in the new process, so that they are its own (SO_PEERCRED), with everything that was in them; the numbers that the
/// ends have there. `creds`: those that the process is to have, and those that it has now.
pub(crate) fn make(
    loan: &mut Loan<'_>,
    arena: Arena,
    (pid, creds): (i32, (&Creds, &Creds)),
    files: &Files,
) -> Result<Vec<[i32; 2]>> {
    let mut made = Vec::new();
    for (index, pair) in files.sockets.iter().enumerate() {
        if pair.ends.len() != 2 {
            return Err(Fault::wire("a pair of sockets with another number of ends"));
        }
        let mut script = arena.script();
        let room = script.room(2 * size_of::<i32>());
        let kind = (pair.kind | libc::SOCK_CLOEXEC) as u64;
        peer::during(&mut script, pair.peer.as_ref(), creds, |script| {
            script.call("make a pair of sockets", libc::SYS_socketpair, &[libc::AF_UNIX as u64, kind, 0, room]);
        });
        let numbers: [i32; 2] = loan.run(arena, script)?.value(room)?;
        let mut script = arena.script();
        for (number, end) in numbers.iter().zip(&pair.ends) {
            roomy(&mut script, *number);
            set_options(&mut script, *number, end, |name| !LAST.contains(&name));
        }
        loan.run(arena, script)?;
        send_all(loan, arena, pid, pair, numbers)?;
        let mut script = arena.script();
        for (which, (number, end)) in numbers.iter().zip(&pair.ends).enumerate() {
            set_options(&mut script, *number, end, |name| LAST.contains(&name));
            shut(&mut script, *number, end);
            let flags = flags_of(files, index, which).map_or(0, |file| file.flags & libc::O_NONBLOCK as u32);
            script.call(
                "set the flags of a socket",
                libc::SYS_fcntl,
                &[*number as u64, libc::F_SETFL as u64, flags.into()],
            );
        }
        loan.run(arena, script)?;
        made.push(numbers);
    }
    Ok(made)
}

fn flags_of(files: &Files, index: usize, which: usize) -> Option<&OpenFile> {
    let place = Kind::Socket { pair: index as u32, end: which as u8 };
    files.files.iter().find(|file| file.kind == place)
}

/// So that everything fits that has fitted before, in pieces of another size.
fn roomy(script: &mut Script, number: i32) {
    const ROOM: i32 = 256 * 1024 * 1024;
    let at = script.bytes(&ROOM.to_ne_bytes());
    script.attempt(libc::SYS_setsockopt, &[number as u64, libc::SOL_SOCKET as u64, libc::SO_SNDBUFFORCE as u64, at, 4]);
}

fn set_options(script: &mut Script, number: i32, end: &SocketEnd, which: impl Fn(i32) -> bool) {
    for SocketOption { name, value } in end.options.iter().filter(|option| which(option.name)) {
        let (how, value) = match *name {
            libc::SO_SNDBUF => (libc::SO_SNDBUFFORCE, half(value)),
            libc::SO_RCVBUF => (libc::SO_RCVBUFFORCE, half(value)),
            other => (other, value.0.clone()),
        };
        let at = script.bytes(&value);
        let args = [number as u64, libc::SOL_SOCKET as u64, how as u64, at, value.len() as u64];
        script.call(format!("set option {name} of a socket"), libc::SYS_setsockopt, &args);
    }
}

/// The kernel gives twice the size that it is told (socket(7), SO_SNDBUF).
fn half(value: &Bytes) -> Vec<u8> {
    let value = value.0.first_chunk().map_or(0, |bytes| i32::from_ne_bytes(*bytes));
    (value / 2).to_ne_bytes().to_vec()
}

fn shut(script: &mut Script, number: i32, end: &SocketEnd) {
    let how = match end.shutdown {
        1 => libc::SHUT_RD,
        2 => libc::SHUT_WR,
        3 => libc::SHUT_RDWR,
        _ => return,
    };
    script.call("shut a socket", libc::SYS_shutdown, &[number as u64, how as u64]);
}

/// Bytes of messages for one script.
const AT_ONCE: usize = 1024 * 1024;
/// The longest piece of a stream that is sent at once, in bytes.
const PIECE: usize = 64 * 1024;

/// What waits at an end was sent by the other.
fn send_all(loan: &mut Loan<'_>, arena: Arena, pid: i32, pair: &SocketPair, numbers: [i32; 2]) -> Result<()> {
    for (end, from) in pair.ends.iter().zip([numbers[1], numbers[0]]) {
        let pieces = end.messages.iter().flat_map(|message| {
            let most = if pair.kind == libc::SOCK_STREAM { PIECE } else { message.data.0.len().max(1) };
            let one = message.data.0.is_empty().then_some(&[][..]);
            one.into_iter().chain(message.data.0.chunks(most)).map(|piece| (piece, message.sender))
        });
        let mut batch = Batch { script: arena.script(), sent: Vec::new(), bytes: 0 };
        for (piece, sender) in pieces {
            batch.send(from, piece, sender.map(|(uid, gid)| [pid as u32, uid, gid]));
            if batch.bytes > AT_ONCE || batch.sent.len() > 1000 {
                batch.run(loan, arena)?;
                batch = Batch { script: arena.script(), sent: Vec::new(), bytes: 0 };
            }
        }
        batch.run(loan, arena)?;
    }
    Ok(())
}

struct Batch {
    script: Script,
    /// Each with its length.
    sent: Vec<(Slot, usize)>,
    bytes: usize,
}

impl Batch {
    fn send(&mut self, from: i32, piece: &[u8], sender: Option<[u32; 3]>) {
        let script = &mut self.script;
        let data = script.bytes(piece);
        let vector = script.bytes([data, piece.len() as u64].as_bytes());
        let control = sender.map(|[pid, uid, gid]| {
            // struct cmsghdr, struct ucred and what aligns it.
            let kind = (libc::SCM_CREDENTIALS as u64) << 32 | libc::SOL_SOCKET as u64;
            let low = u64::from(uid) << 32 | u64::from(pid);
            script.bytes([28, kind, low, u64::from(gid)].as_bytes())
        });
        // struct msghdr: name, its length, pieces, their number, control, its length, flags.
        let length = if control.is_some() { 32 } else { 0 };
        let head = script.bytes([0, 0, vector, 1, control.unwrap_or(0), length, 0].as_bytes());
        let how = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        let slot = script.call("put a message into a socket", libc::SYS_sendmsg, &[from as u64, head, how as u64]);
        self.sent.push((slot, piece.len()));
        self.bytes += piece.len();
    }

    fn run(self, loan: &mut Loan<'_>, arena: Arena) -> Result<()> {
        if self.sent.is_empty() {
            return Ok(());
        }
        let outcome = loan.run(arena, self.script)?;
        match self.sent.iter().all(|(slot, length)| outcome.result(*slot) == *length as i64) {
            true => Ok(()),
            false => Err(Fault::refused("a socket does not take as much as it had in it")),
        }
    }
}
