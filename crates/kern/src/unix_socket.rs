//! Unix sockets that a stopped process has: who is at the other end (sock_diag(7)), and what waits to be read, which stays there.

use crate::proc::PROC;
use crate::sys;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use vocab::{Fault, Pid, Result};

/// A question for the sockets of one network namespace.
pub struct Diagnosis {
    fd: OwnedFd,
}

/// What the kernel says of a socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Told {
    /// SOCK_STREAM, SOCK_DGRAM or SOCK_SEQPACKET.
    pub kind: i32,
    /// TCP_ESTABLISHED (1), TCP_CLOSE (7) or TCP_LISTEN (10).
    pub state: u8,
    /// Is it bound?
    pub named: bool,
    /// The inode of the other end; 0: it has been closed.
    pub peer: Option<u32>,
    /// 1: nothing will be read any more, 2: nothing will be written (linux: RCV_SHUTDOWN, SEND_SHUTDOWN).
    pub shutdown: u8,
}

/// `struct unix_diag_req` behind a `struct nlmsghdr` (linux/unix_diag.h).
const REQUEST: usize = 16 + 24;
const SHOW_NAME: u32 = 1;
const SHOW_PEER: u32 = 4;
/// Attributes of the answer.
const NAME: u16 = 0;
const PEER: u16 = 2;
const SHUTDOWN: u16 = 6;

impl Diagnosis {
    /// For the network namespace of process `pid`; another one than the caller's needs CAP_SYS_ADMIN over it.
    pub fn of(pid: Pid) -> Result<Diagnosis> {
        let link = |who: &str| std::fs::read_link(format!("{PROC}/{who}/ns/net"));
        let failed = |e: std::io::Error| Fault::io(&e, format!("look at the network namespace of process {pid}"));
        if link("self").map_err(failed)? == link(&pid.to_string()).map_err(failed)? {
            return open();
        }
        let namespace = File::open(format!("{PROC}/{pid}/ns/net")).map_err(failed)?;
        // A socket stays in the namespace in which it was opened: a thread of its own goes there and ends.
        let there = std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                // SAFETY: a live descriptor and a number; only this thread changes its namespace.
                let entered = unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) };
                sys::checked(entered.into(), || format!("enter the network namespace of process {pid}"))?;
                open()
            });
            thread.join()
        });
        there.map_err(|_| Fault::bug("a thread that asks for a socket panicked"))?
    }

    /// `None` when there is no unix socket with this inode.
    pub fn ask(&self, inode: u32) -> Result<Option<Told>> {
        let doing = || format!("ask about socket {inode}");
        let mut request = Vec::with_capacity(REQUEST);
        request.extend((REQUEST as u32).to_ne_bytes());
        request.extend((SOCK_DIAG_BY_FAMILY).to_ne_bytes());
        request.extend((libc::NLM_F_REQUEST as u16).to_ne_bytes());
        request.extend([0; 8]);
        request.extend([libc::AF_UNIX as u8, 0, 0, 0]);
        request.extend(
            [u32::MAX, inode, SHOW_NAME | SHOW_PEER, u32::MAX, u32::MAX].iter().flat_map(|word| word.to_ne_bytes()),
        );
        sys::write(self.fd.as_fd(), &request).map_err(|errno| Fault::sys(errno, doing()))?;
        let mut answer = [0u8; 4096];
        let length = sys::read(self.fd.as_fd(), &mut answer).map_err(|errno| Fault::sys(errno, doing()))?;
        let strange = || Fault::bug(format!("{}: the kernel's answer is not as expected", doing()));
        match parse(&answer[..length]).ok_or_else(strange)? {
            Ok(told) => Ok(Some(told)),
            Err(libc::ENOENT) => Ok(None),
            Err(errno) => Err(Fault::sys(errno, doing())),
        }
    }
}

/// Does this kernel tell of unix sockets at all? Without its module unix_diag it says of each that it is not there (ENOENT; linux: `__sock_diag_cmd`).
pub fn are_told() -> Result<bool> {
    // SAFETY: takes numbers, returns a new descriptor.
    let own = unsafe { libc::socket(libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) };
    let own = File::from(sys::own(own.into(), || "make a socket".into())?);
    let inode = own.metadata().map_err(|e| Fault::io(&e, "look at a socket"))?.ino();
    Ok(open()?.ask(inode as u32)?.is_some())
}

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NETLINK_SOCK_DIAG: i32 = 4;

fn open() -> Result<Diagnosis> {
    // SAFETY: takes numbers, returns a new descriptor.
    let fd = unsafe { libc::socket(libc::AF_NETLINK, libc::SOCK_RAW | libc::SOCK_CLOEXEC, NETLINK_SOCK_DIAG) };
    Ok(Diagnosis { fd: sys::own(fd.into(), || "open a socket that tells of others".into())? })
}

/// What an answer says, or its errno; `None` for another message.
fn parse(answer: &[u8]) -> Option<std::result::Result<Told, i32>> {
    let word = |at: usize| Some(u32::from_ne_bytes(*answer.get(at..)?.first_chunk()?));
    let half = |at: usize| Some(u16::from_ne_bytes(*answer.get(at..)?.first_chunk()?));
    let kind = half(4)?;
    if i32::from(kind) == libc::NLMSG_ERROR {
        return Some(Err(-(word(16)? as i32)));
    }
    if kind != SOCK_DIAG_BY_FAMILY {
        return None;
    }
    let mut told =
        Told { kind: (*answer.get(17)?).into(), state: *answer.get(18)?, named: false, peer: None, shutdown: 0 };
    let end = (word(0)? as usize).min(answer.len());
    let mut at = 32;
    while at + 4 <= end {
        let length = half(at)? as usize;
        match half(at + 2)? {
            NAME => told.named = true,
            PEER => told.peer = Some(word(at + 4)?),
            SHUTDOWN => told.shutdown = *answer.get(at + 4)?,
            _ => {}
        }
        at += length.max(4).next_multiple_of(4);
    }
    Some(Ok(told))
}

/// The value of an option of SOL_SOCKET, at most 16 bytes.
///
/// # Errors
/// ENOPROTOOPT for one that this kernel or this kind of socket does not have.
pub fn option(fd: BorrowedFd<'_>, name: i32) -> std::result::Result<Vec<u8>, i32> {
    let mut value = [0u8; 16];
    let mut length = value.len() as libc::socklen_t;
    let (at, length_at) = (value.as_mut_ptr().cast(), &raw mut length);
    // SAFETY: both pointers are to live variables, and the length is the array's.
    sys::check(unsafe { libc::getsockopt(fd.as_raw_fd(), libc::SOL_SOCKET, name, at, length_at) }.into())?;
    Ok(value[..length as usize].to_vec())
}

/// UID, GID and groups of the peer (SO_PEERCRED, SO_PEERGROUPS): of a pair of sockets those of its maker.
///
/// # Errors
/// `Sys` as getsockopt(2).
pub fn peer(fd: BorrowedFd<'_>) -> Result<(u32, u32, Vec<u32>)> {
    let failed = |errno| Fault::sys(errno, "ask a socket for its peer");
    let ids = option(fd, libc::SO_PEERCRED).map_err(failed)?;
    let id = |index: usize| {
        let bytes = ids.get(4 * index..).and_then(|rest| rest.first_chunk());
        bytes.map(|bytes| u32::from_ne_bytes(*bytes)).ok_or_else(|| failed(libc::EINVAL))
    };
    // NGROUPS_MAX.
    let mut groups = vec![0u32; 65536];
    let mut length = size_of_val(&groups[..]) as libc::socklen_t;
    let (at, length_at) = (groups.as_mut_ptr().cast(), &raw mut length);
    // SAFETY: both pointers are to live variables, and the length is that of the vector.
    let got = sys::check(
        unsafe { libc::getsockopt(fd.as_raw_fd(), libc::SOL_SOCKET, libc::SO_PEERGROUPS, at, length_at) }.into(),
    );
    match got {
        Ok(_) => groups.truncate(length as usize / size_of::<u32>()),
        // Before Linux 4.13 the kernel does not tell; ENODATA: the peer's maker has none to tell of.
        Err(libc::ENOPROTOOPT | libc::ENODATA) => groups.clear(),
        Err(errno) => return Err(failed(errno)),
    }
    Ok((id(1)?, id(2)?, groups))
}

fn set_option(fd: BorrowedFd<'_>, name: i32, value: i32) -> Result<()> {
    let at = (&raw const value).cast();
    // SAFETY: the pointer is to a live int, and the length is an int's.
    let ret = unsafe { libc::setsockopt(fd.as_raw_fd(), libc::SOL_SOCKET, name, at, size_of::<i32>() as u32) };
    sys::checked(ret.into(), || "set an option of a socket".into()).map(drop)
}

/// A message that waits to be read; of a stream, a piece of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Message {
    pub data: Vec<u8>,
    /// PID, UID and GID of its sender, where they go with it (SO_PASSCRED).
    pub credentials: Option<(i32, u32, u32)>,
}

/// Longer messages are not looked at.
const MOST: usize = 8 * 1024 * 1024;
/// Bytes of a `struct cmsghdr` and a `struct ucred`.
const CONTROL: usize = 16 + 16;

/// All messages that wait, in their order, without taking them out. The socket must not be read meanwhile.
///
// ODDITY(unix-peeked-empty): with SO_PEEK_OFF an empty message is seen once, and never again. linux: __skb_try_recv_from_queue.
// prog: tests/prog/odd_unix_peeked_empty.c
/// An empty message is found only if nobody has peeked at it before: see [`memory_of`].
///
/// # Errors
/// EMSGSIZE for one of more than 8 MiB.
pub fn waiting(fd: BorrowedFd<'_>, shut: bool) -> Result<Vec<Message>> {
    let from = option(fd, libc::SO_PEEK_OFF).unwrap_or_else(|_| (-1i32).to_ne_bytes().to_vec());
    let from = from.first_chunk().map_or(-1, |bytes| i32::from_ne_bytes(*bytes));
    set_option(fd, libc::SO_PEEK_OFF, 0)?;
    let read = peek_all(fd, shut);
    set_option(fd, libc::SO_PEEK_OFF, from)?;
    read
}

/// Bytes of memory that what this socket has sent takes, as long as nobody has read it (SIOCOUTQ).
pub fn unread(fd: BorrowedFd<'_>) -> Result<u64> {
    let mut bytes: i32 = 0;
    // SAFETY: the argument is a live int.
    let ret = unsafe { libc::ioctl(fd.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    sys::checked(ret.into(), || "ask how much a socket has sent".into()).map(|_| bytes as u64)
}

/// What [`unread`] is for these messages: more means that there are others, which [`waiting`] has not seen.
pub fn memory_of(kind: i32, messages: &[Message]) -> Result<u64> {
    let mut ends = [0; 2];
    // SAFETY: room for two descriptors.
    let made = unsafe { libc::socketpair(libc::AF_UNIX, kind | libc::SOCK_CLOEXEC, 0, ends.as_mut_ptr()) };
    sys::checked(made.into(), || "make a pair of sockets".into())?;
    let [one, other] = ends.map(|fd| sys::own(fd.into(), String::new));
    let (one, other) = (one?, other?);
    set_option(one.as_fd(), libc::SO_SNDBUF, MOST as i32)?;
    messages.iter().try_fold(0, |sum, message| {
        sys::write(one.as_fd(), &message.data).map_err(|errno| Fault::sys(errno, "send a message again"))?;
        let bytes = unread(one.as_fd())?;
        sys::read_now(other.as_fd(), &mut [0]).map_err(|errno| Fault::sys(errno, "take a message out"))?;
        Ok(sum + bytes)
    })
}

fn peek_all(fd: BorrowedFd<'_>, shut: bool) -> Result<Vec<Message>> {
    let mut buffer = vec![0u8; MOST];
    let mut messages = Vec::new();
    loop {
        let mut control = [0u64; CONTROL / 8];
        let mut piece = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
        // SAFETY: plain data, for which zero is a value.
        let mut head: libc::msghdr = unsafe { std::mem::zeroed() };
        head.msg_iov = &raw mut piece;
        head.msg_iovlen = 1;
        head.msg_control = control.as_mut_ptr().cast();
        head.msg_controllen = CONTROL;
        // SAFETY: the header names a live buffer and a live control area with their lengths.
        let got = unsafe { libc::recvmsg(fd.as_raw_fd(), &raw mut head, libc::MSG_PEEK | libc::MSG_DONTWAIT) };
        let got = match sys::check(got as i64) {
            Err(libc::EAGAIN) => return Ok(messages),
            // The end of the file, again and again.
            Ok(0) if shut => return Ok(messages),
            Ok(got) => got as usize,
            Err(errno) => return Err(Fault::sys(errno, "look at what waits in a socket")),
        };
        if head.msg_flags & libc::MSG_TRUNC != 0 {
            return Err(Fault::sys(libc::EMSGSIZE, format!("look at a message of more than {MOST} bytes")));
        }
        messages
            .push(Message { data: buffer[..got].to_vec(), credentials: credentials(&control, head.msg_controllen) });
    }
}

/// Those in a control area: length, level and kind (`struct cmsghdr`), then `struct ucred`.
fn credentials(control: &[u64], length: usize) -> Option<(i32, u32, u32)> {
    let kind = (libc::SCM_CREDENTIALS as u64) << 32 | libc::SOL_SOCKET as u64;
    let (there, low) = (length >= 28 && control[1] == kind, control[2]);
    there.then(|| (low as i32, (low >> 32) as u32, control[3] as u32))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::unix::net::{UnixDatagram, UnixStream};

    fn inode(fd: BorrowedFd<'_>) -> u32 {
        std::fs::metadata(format!("/proc/self/fd/{}", fd.as_raw_fd())).expect("open").ino() as u32
    }

    #[test]
    fn ends_know_of_each_other() {
        let diagnosis = Diagnosis::of(Pid(std::process::id() as i32)).expect("own");
        let (one, other) = UnixStream::pair().expect("a pair");
        other.shutdown(std::net::Shutdown::Write).expect("connected");
        let told = diagnosis.ask(inode(one.as_fd())).expect("an answer").expect("a socket");
        let peer = Some(inode(other.as_fd()));
        assert_eq!(told, Told { kind: libc::SOCK_STREAM, state: 1, named: false, peer, shutdown: 1 });
        drop(other);
        let told = diagnosis.ask(inode(one.as_fd())).expect("an answer").expect("a socket");
        assert_eq!((told.peer, told.shutdown), (Some(0), 3));
        assert_eq!(diagnosis.ask(1).expect("an answer"), None);
        assert!(are_told().expect("an answer"));
    }

    #[test]
    fn what_waits_is_seen_and_stays() {
        let (one, other) = UnixDatagram::pair().expect("a pair");
        set_option(other.as_fd(), libc::SO_PASSCRED, 1).expect("a socket");
        for text in ["first", "", "third"] {
            one.send(text.as_bytes()).expect("connected");
        }
        let seen = waiting(other.as_fd(), false).expect("open");
        assert_eq!(memory_of(libc::SOCK_DGRAM, &seen).expect("sockets"), unread(one.as_fd()).expect("open"));
        let again = waiting(other.as_fd(), false).expect("open");
        assert_eq!(again.len(), 2);
        assert!(memory_of(libc::SOCK_DGRAM, &again).expect("sockets") < unread(one.as_fd()).expect("open"));
        let texts: Vec<&[u8]> = seen.iter().map(|message| &message.data[..]).collect();
        assert_eq!(texts, [&b"first"[..], b"", b"third"]);
        // SAFETY: takes nothing.
        let own = (std::process::id() as i32, unsafe { libc::getuid() }, unsafe { libc::getgid() });
        assert_eq!(seen[0].credentials, Some(own));
        let mut buffer = [0; 10];
        assert_eq!(other.recv(&mut buffer).expect("waits"), 5);
        let (mut one, mut other) = UnixStream::pair().expect("a pair");
        one.write_all(b"here").expect("connected");
        drop(one);
        assert_eq!(waiting(other.as_fd(), true).expect("open")[0].data, b"here");
        let mut all = Vec::new();
        other.read_to_end(&mut all).expect("open");
        assert_eq!(all, b"here");
    }
}
