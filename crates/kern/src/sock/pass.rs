//! Bytes with descriptors over a unix socket: SCM_RIGHTS (unix(7), cmsg(3)).

use crate::sys::check;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use vocab::{Fault, Result};

/// The most descriptors in one message (SCM_MAX_FD).
pub const MOST_DESCRIPTORS: usize = 253;

/// What [`receive_with`] took.
#[derive(Debug, Default)]
pub struct Received {
    /// 0: the end of the file, or an empty message of a packet socket.
    pub bytes: usize,
    /// All of them close-on-exec.
    pub descriptors: Vec<OwnedFd>,
}

/// Room for the control data of [`MOST_DESCRIPTORS`], aligned as cmsghdr wants.
#[repr(C, align(8))]
struct Control([MaybeUninit<u8>; CONTROL]);

const CONTROL: usize = 16 + MOST_DESCRIPTORS * 4 + 4;

impl Control {
    fn new() -> Control {
        Control([MaybeUninit::zeroed(); CONTROL])
    }
}

/// Sends once, without SIGPIPE, with `descriptors` attached to the first byte; `None` when a nonblocking socket takes
/// nothing now. May send less than all `bytes`; the descriptors have gone then and must not be sent again.
///
/// # Errors
/// `Refused` for no byte (a stream would drop the descriptors) or too many descriptors; `Gone` when the other end is
/// closed; `Sys` as sendmsg(2): ETOOMANYREFS when too many are under way.
pub fn send_with(fd: BorrowedFd<'_>, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> Result<Option<usize>> {
    if bytes.is_empty() || descriptors.len() > MOST_DESCRIPTORS {
        return Err(Fault::refused("descriptors go with at least one byte, and at most 253 at once"));
    }
    let mut control = Control::new();
    let mut part = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let mut message = message(&mut part);
    if !descriptors.is_empty() {
        let raw: Vec<RawFd> = descriptors.iter().map(AsRawFd::as_raw_fd).collect();
        attach(&mut message, &mut control, &raw);
    }
    loop {
        // SAFETY: `message` points to `part` and `control`, which live longer; sendmsg only reads from them.
        match check(unsafe { libc::sendmsg(fd.as_raw_fd(), &message, libc::MSG_NOSIGNAL) } as i64) {
            Ok(sent) => return Ok(Some(sent as usize)),
            Err(libc::EINTR) => {}
            Err(libc::EAGAIN) => return Ok(None),
            Err(errno @ (libc::EPIPE | libc::ECONNRESET)) => {
                return Err(Fault { errno, ..Fault::gone("send descriptors") });
            }
            Err(errno) => return Err(Fault::sys(errno, "send descriptors")),
        }
    }
}

/// Receives once, with the descriptors that come along; `None` when a nonblocking socket has nothing now. On a stream
/// one call never takes descriptors of two sendings.
///
/// # Errors
/// `Refused` when descriptors were cut off (MSG_CTRUNC: more than 253, or the table of descriptors is full; those that
/// came are closed); `Gone` for a connection that was reset; `Sys` as recvmsg(2).
pub fn receive_with(fd: BorrowedFd<'_>, into: &mut [u8]) -> Result<Option<Received>> {
    let mut control = Control::new();
    let mut part = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    let mut message = message(&mut part);
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = CONTROL;
    let bytes = loop {
        // SAFETY: `message` points to `part` (the caller's slice) and `control`, both writable and longer-lived.
        match check(unsafe { libc::recvmsg(fd.as_raw_fd(), &mut message, libc::MSG_CMSG_CLOEXEC) } as i64) {
            Ok(bytes) => break bytes as usize,
            Err(libc::EINTR) => {}
            Err(libc::EAGAIN) => return Ok(None),
            Err(libc::ECONNRESET) => return Err(Fault { errno: libc::ECONNRESET, ..Fault::gone("receive") }),
            Err(errno) => return Err(Fault::sys(errno, "receive")),
        }
    };
    let descriptors = detach(&message);
    if message.msg_flags & libc::MSG_CTRUNC != 0 {
        return Err(Fault::refused("receive: descriptors that came along were cut off"));
    }
    Ok(Some(Received { bytes, descriptors }))
}

fn message(part: &mut libc::iovec) -> libc::msghdr {
    libc::msghdr {
        msg_name: std::ptr::null_mut(),
        msg_namelen: 0,
        msg_iov: part,
        msg_iovlen: 1,
        msg_control: std::ptr::null_mut(),
        msg_controllen: 0,
        msg_flags: 0,
    }
}

fn attach(message: &mut libc::msghdr, control: &mut Control, descriptors: &[RawFd]) {
    let bytes = size_of_val(descriptors);
    message.msg_control = control.0.as_mut_ptr().cast();
    // SAFETY: arithmetic only.
    message.msg_controllen = unsafe { libc::CMSG_SPACE(bytes as u32) } as usize;
    // SAFETY: `control` is aligned, zeroed, and long enough for MOST_DESCRIPTORS, which the caller has checked; so
    // there is a first header, and `bytes` bytes of data behind it.
    unsafe {
        let header = libc::CMSG_FIRSTHDR(message);
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SCM_RIGHTS;
        (*header).cmsg_len = libc::CMSG_LEN(bytes as u32) as usize;
        std::ptr::copy_nonoverlapping(descriptors.as_ptr().cast::<u8>(), libc::CMSG_DATA(header), bytes);
    }
}

/// Takes ownership of every descriptor that came, so that none is leaked whatever else is wrong.
fn detach(message: &libc::msghdr) -> Vec<OwnedFd> {
    let mut descriptors = Vec::new();
    // SAFETY: `message` is what recvmsg filled; CMSG_FIRSTHDR and CMSG_NXTHDR stay within its control data.
    let mut header = unsafe { libc::CMSG_FIRSTHDR(message) };
    while !header.is_null() {
        // SAFETY: `header` is not null and the kernel wrote it whole.
        let (level, kind, length) = unsafe { ((*header).cmsg_level, (*header).cmsg_type, (*header).cmsg_len) };
        if (level, kind) == (libc::SOL_SOCKET, libc::SCM_RIGHTS) {
            // SAFETY: arithmetic only.
            let head = unsafe { libc::CMSG_LEN(0) } as usize;
            for place in 0..length.saturating_sub(head) / size_of::<RawFd>() {
                // SAFETY: the data behind the header has `length - head` bytes, ints one after the other; each names a
                // descriptor that the kernel installed for this call only.
                let fd = unsafe {
                    let raw = libc::CMSG_DATA(header).cast::<RawFd>().add(place).read_unaligned();
                    OwnedFd::from_raw_fd(raw)
                };
                descriptors.push(fd);
            }
        }
        // SAFETY: as for CMSG_FIRSTHDR.
        header = unsafe { libc::CMSG_NXTHDR(message, header) };
    }
    descriptors
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sock::{socketpair, Kind};
    use crate::sys::{pipe, read, set_nonblocking, write};
    use std::os::fd::AsFd;

    #[test]
    fn a_pipe_goes_over_and_works_on_the_other_side() {
        let (here, there) = socketpair(Kind::Stream).expect("pair");
        set_nonblocking(there.as_fd(), true).expect("nonblocking");
        assert!(receive_with(there.as_fd(), &mut [0; 8]).expect("nothing yet").is_none());
        let (read_end, write_end) = pipe().expect("pipe");
        assert_eq!(send_with(here.as_fd(), b"ab", &[write_end.as_fd()]).expect("send"), Some(2));
        drop(write_end);
        let mut bytes = [0; 8];
        let mut received = receive_with(there.as_fd(), &mut bytes).expect("receive").expect("there");
        assert_eq!((received.bytes, &bytes[..2], received.descriptors.len()), (2, b"ab".as_slice(), 1));
        let fd = received.descriptors.pop().expect("one");
        // SAFETY: takes and returns numbers.
        assert_eq!(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GETFD) }, libc::FD_CLOEXEC);
        assert_eq!(write(fd.as_fd(), b"x"), Ok(1));
        assert_eq!(read(read_end.as_fd(), &mut [0; 4]), Ok(1));
        drop(here);
        let end = receive_with(there.as_fd(), &mut bytes).expect("receive").expect("the end");
        assert_eq!((end.bytes, end.descriptors.len()), (0, 0));
        assert_eq!(send_with(there.as_fd(), b"x", &[]).expect_err("closed").kind, vocab::Kind::Gone);
    }

    #[test]
    fn as_many_as_the_kernel_allows_and_not_one_more() {
        let (here, there) = socketpair(Kind::SeqPacket).expect("pair");
        let all = vec![here.as_fd(); MOST_DESCRIPTORS];
        assert_eq!(send_with(here.as_fd(), b"x", &all).expect("send"), Some(1));
        let received = receive_with(there.as_fd(), &mut [0; 1]).expect("receive").expect("there");
        assert_eq!(received.descriptors.len(), MOST_DESCRIPTORS);
        assert!(send_with(here.as_fd(), b"x", &vec![here.as_fd(); MOST_DESCRIPTORS + 1]).is_err());
        assert!(send_with(here.as_fd(), b"", &[here.as_fd()]).is_err());
    }
}
