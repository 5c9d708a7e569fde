//! Descriptors of this process into a stopped one, which need not be its child.

use kern::pidfd;
use kern::sock::{send_with, MOST_DESCRIPTORS};
use puppet::{Arena, Loan, Script, Slot};
use std::os::fd::{AsFd, BorrowedFd};
use vocab::{Fault, Pid, Result};
use zerocopy::IntoBytes;

/// `SOCK_SEQPACKET | SOCK_CLOEXEC`: the descriptors of a message stay together.
const KIND: u64 = (libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC) as u64;
/// Bytes of a `struct cmsghdr`, behind which the numbers are.
const HEAD: usize = 16;

/// What the stopped process is to have above its own descriptors.
pub(crate) enum Wanted<'a> {
    /// A file of this process.
    Ours(BorrowedFd<'a>),
    /// A duplicate of a descriptor that it has.
    Own(i32),
}

/// Gives process `pid` all of these, under numbers from `base` on, which are returned in their order.
///
/// # Errors
/// `Sys` when it may have no more descriptors; `Gone`.
pub(crate) fn bring(loan: &mut Loan<'_>, arena: Arena, pid: Pid, wanted: &[Wanted<'_>], base: i32) -> Result<Vec<i32>> {
    let mut script = arena.script();
    let ends = script.room(2 * size_of::<i32>());
    script.call("make a socket pair", libc::SYS_socketpair, &[libc::AF_UNIX as u64, KIND, 0, ends]);
    let outcome = loan.run(arena, script)?;
    let [its, other]: [i32; 2] = outcome.value(ends)?;
    let handle = pidfd::open(pid).map_err(|errno| Fault::sys(errno, format!("open process {pid}")))?;
    let line = pidfd::getfd(handle.as_fd(), other)
        .map_err(|errno| Fault::sys(errno, format!("take descriptor {other} of process {pid}")))?;
    let mut numbers = Vec::new();
    let mut left = wanted.len().div_ceil(MOST_DESCRIPTORS);
    // A few at a time: each is there twice until its number is above the others.
    for some in wanted.chunks(MOST_DESCRIPTORS) {
        left -= 1;
        let ours: Vec<BorrowedFd<'_>> = some.iter().filter_map(Wanted::ours).collect();
        let come = match ours.len() {
            0 => Vec::new(),
            count => {
                send_with(line.as_fd(), &[0], &ours)?;
                receive(loan, arena, its, count)?
            }
        };
        let over = if left == 0 { &[its, other][..] } else { &[] };
        let (script, slots) = put_aside(arena.script(), some, (come, over), base)?;
        let outcome = loan.run(arena, script)?;
        numbers.extend(slots.into_iter().map(|slot| outcome.result(slot) as i32));
    }
    Ok(numbers)
}

/// All of these under numbers from `base` on, which will be the results of the calls that are returned. `come`: those that are not its own, in their order; `over`: sockets
/// that nobody needs then.
fn put_aside(
    script: Script,
    wanted: &[Wanted<'_>],
    (come, over): (Vec<i32>, &[i32]),
    base: i32,
) -> Result<(Script, Vec<Slot>)> {
    let (mut script, mut come) = (script, come.into_iter());
    let mut slots: Vec<Slot> = Vec::new();
    for one in wanted {
        let number = match one {
            Wanted::Own(number) => *number,
            Wanted::Ours(_) => come.next().ok_or_else(|| Fault::bug("a descriptor that was not received"))?,
        };
        let args = [number as u64, libc::F_DUPFD_CLOEXEC as u64, base as u64];
        slots.push(script.call("put a descriptor aside", libc::SYS_fcntl, &args));
        if let Wanted::Ours(_) = one {
            script.call("close a descriptor", libc::SYS_close, &[number as u64]);
        }
    }
    for socket in over {
        script.call("close a socket", libc::SYS_close, &[*socket as u64]);
    }
    Ok((script, slots))
}

impl<'a> Wanted<'a> {
    fn ours(&self) -> Option<BorrowedFd<'a>> {
        match self {
            Wanted::Ours(fd) => Some(*fd),
            Wanted::Own(_) => None,
        }
    }
}

/// One message, with `count` descriptors: their numbers there.
fn receive(loan: &mut Loan<'_>, arena: Arena, socket: i32, count: usize) -> Result<Vec<i32>> {
    let mut script = arena.script();
    let byte = script.room(8);
    let part = script.bytes([byte, 1].as_bytes());
    let length = HEAD + (count * size_of::<i32>()).next_multiple_of(8);
    let control = script.room(length);
    // struct msghdr: name and its length, parts, control data, flags (recvmsg(2)).
    let message = script.bytes([0, 0, part, 1, control, length as u64, 0].as_bytes());
    let args = [socket as u64, message, libc::MSG_CMSG_CLOEXEC as u64];
    script.call("receive descriptors", libc::SYS_recvmsg, &args);
    let outcome = loan.run(arena, script)?;
    let flags: u64 = outcome.value(message + 6 * 8)?;
    if flags & libc::MSG_CTRUNC as u64 != 0 {
        return Err(Fault::sys(libc::EMFILE, "receive descriptors"));
    }
    (0..count).map(|i| outcome.value(control + (HEAD + i * size_of::<i32>()) as u64)).collect()
}
