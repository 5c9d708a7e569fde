//! Who is at the other end of a unix socket, as the kernel noted it when the connection was made.

use crate::sys::{check, checked};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use vocab::{Creds, Fault, Ids, Pid, Result};

/// What SO_PEERCRED says (unix(7)).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PeerCreds {
    /// As seen from the PID namespace of the caller, [`Pid::NONE`] where it has no number there. The process may have
    /// ended since.
    pub pid: Pid,
    /// Effective user id.
    pub uid: u32,
    /// Effective group id.
    pub gid: u32,
}

/// # Errors
/// `Sys` as getsockopt(2): ENOTSOCK and its like.
pub fn peer_credentials(fd: BorrowedFd<'_>) -> Result<PeerCreds> {
    let mut creds = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the option's value is a live ucred and `length` is its size.
    let ret = unsafe {
        let value = std::ptr::from_mut(&mut creds).cast();
        libc::getsockopt(fd.as_raw_fd(), libc::SOL_SOCKET, libc::SO_PEERCRED, value, &mut length)
    };
    checked(ret.into(), || "read SO_PEERCRED".into())?;
    Ok(PeerCreds { pid: Pid(creds.pid), uid: creds.uid, gid: creds.gid })
}

/// The supplementary groups (SO_PEERGROUPS, Linux 4.13).
///
/// # Errors
/// `Sys` as getsockopt(2): ENODATA where the socket has no peer.
pub fn peer_groups(fd: BorrowedFd<'_>) -> Result<Vec<u32>> {
    let mut groups = vec![0u32; 32];
    loop {
        let mut length = size_of_val(groups.as_slice()) as libc::socklen_t;
        // SAFETY: the option's value is a live array and `length` is its size in bytes.
        let ret = unsafe {
            let value = groups.as_mut_ptr().cast();
            libc::getsockopt(fd.as_raw_fd(), libc::SOL_SOCKET, libc::SO_PEERGROUPS, value, &mut length)
        };
        let count = length as usize / size_of::<u32>();
        match check(ret.into()) {
            Ok(_) => {
                groups.truncate(count);
                return Ok(groups);
            }
            // The kernel says how much it needs (linux: sk_getsockopt); the groups of a connection never change.
            Err(libc::ERANGE) if count > groups.len() => groups.resize(count, 0),
            Err(errno) => return Err(Fault::sys(errno, "read SO_PEERGROUPS")),
        }
    }
}

/// Whose the peer is: what may be done in its name. `now` is what /proc says of its process.
///
/// That process keeps its number when it executes a set-user-ID program, while somebody else has the connection too. So `now` counts only for one
/// that was root's when it connected; others are who they were then. The kernel has noted the effective ids only, which stand for the real ones too.
///
/// # Errors
/// As [`peer_credentials`] and [`peer_groups`].
pub fn peer_identity(fd: BorrowedFd<'_>, now: &Creds) -> Result<Creds> {
    let peer = peer_credentials(fd)?;
    match peer.uid {
        0 => Ok(now.clone()),
        uid => Ok(Creds { uid: Ids::all(uid), gid: Ids::all(peer.gid), groups: peer_groups(fd)? }),
    }
}

/// The process at the other end, which is never taken for a later one that has its number: it may end, and be reaped, while others that it has given
/// the connection to still have that.
#[derive(Debug)]
pub struct Peer {
    creds: PeerCreds,
    /// For kernels without SO_PEERPIDFD.
    opened: Option<OwnedFd>,
}

impl Peer {
    /// Of a connection that was accepted just now. Before Linux 6.5 the process is the one that has the number at this moment: one that ends between its
    /// connect(2) and this may be mistaken, if all numbers of the namespace are gone through meanwhile.
    ///
    /// # Errors
    /// As [`peer_credentials`].
    pub fn of(fd: BorrowedFd<'_>) -> Result<Peer> {
        let creds = peer_credentials(fd)?;
        let opened = match peer_pidfd(fd) {
            Ok(None) if creds.pid.0 > 0 => crate::pidfd::open(creds.pid).ok(),
            _ => None,
        };
        Ok(Peer { creds, opened })
    }

    /// What SO_PEERCRED says.
    pub fn creds(&self) -> PeerCreds {
        self.creds
    }

    /// Its number, as long as it is its own: what was read of that number before this call is of this process. `None` once it has been reaped, and where it
    /// has no number in the caller's PID namespace. `fd` is the connection.
    pub fn pid(&self, fd: BorrowedFd<'_>) -> Option<Pid> {
        let asked = peer_pidfd(fd).ok().flatten();
        let pidfd = asked.as_ref().or(self.opened.as_ref())?;
        let there = !matches!(crate::pidfd::is_there(pidfd.as_fd()), Err(libc::ESRCH));
        (there && self.creds.pid.0 > 0).then_some(self.creds.pid)
    }
}

/// A pidfd of the peer (SO_PEERPIDFD, Linux 6.5); `None` where the kernel has no such thing.
///
/// # Errors
/// `Gone` when the peer has been reaped (before Linux 6.16; a pidfd of a reaped process later); `Sys` as getsockopt(2):
/// ENODATA.
pub fn peer_pidfd(fd: BorrowedFd<'_>) -> Result<Option<OwnedFd>> {
    // Not in the libc crate for every target: asm-generic/socket.h.
    const SO_PEERPIDFD: i32 = 77;
    let mut pidfd = -1i32;
    let mut length = size_of::<i32>() as libc::socklen_t;
    // SAFETY: the option's value is a live int and `length` is its size.
    let ret = unsafe {
        let value = std::ptr::from_mut(&mut pidfd).cast();
        libc::getsockopt(fd.as_raw_fd(), libc::SOL_SOCKET, SO_PEERPIDFD, value, &mut length)
    };
    match check(ret.into()) {
        // SAFETY: the kernel made it just now, nobody else owns it; it is close-on-exec (linux: pidfd_prepare).
        Ok(_) => Ok(Some(unsafe { OwnedFd::from_raw_fd(pidfd) })),
        Err(libc::ENOPROTOOPT) => Ok(None),
        Err(errno @ (libc::ESRCH | libc::EINVAL)) => {
            Err(Fault { errno, ..Fault::gone("take a pidfd of the peer: it has ended") })
        }
        Err(errno) => Err(Fault::sys(errno, "read SO_PEERPIDFD")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sock::{socketpair, Kind};
    use std::io::BufRead;
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::os::unix::process::CommandExt;
    use std::process::{Command, Stdio};

    #[test]
    fn a_peer_that_was_reaped_has_no_number_though_its_child_has_the_connection() {
        let path = std::env::temp_dir().join(format!("shoal-peer.{}", std::process::id()));
        let listener = UnixListener::bind(&path).expect("a new socket");
        let mut shell = Command::new("sh");
        let shell = shell.args(["-c", "sleep 100 >/dev/null & echo $!; read x"]);
        let shell = shell.stdin(Stdio::piped()).stdout(Stdio::piped());
        let connects = {
            let path = path.clone();
            move || {
                // Descriptor 7, which the shell's child has too.
                let stream = UnixStream::connect(&path)?;
                // SAFETY: takes two numbers; nobody else uses 7 in the new process.
                checked(unsafe { libc::dup2(stream.as_raw_fd(), 7) }.into(), || "dup2".into())
                    .map(drop)
                    .map_err(|fault| std::io::Error::from_raw_os_error(fault.errno))
            }
        };
        // SAFETY: the closure makes a socket and a descriptor; it allocates, which glibc allows after a fork.
        let mut shell = unsafe { shell.pre_exec(connects) }.spawn().expect("sh");
        let (taken, _) = listener.accept().expect("it connects");
        let peer = Peer::of(taken.as_fd()).expect("a peer");
        let number = Pid(shell.id() as i32);
        assert_eq!((peer.creds().pid, peer.pid(taken.as_fd())), (number, Some(number)));
        let mut line = String::new();
        std::io::BufReader::new(shell.stdout.take().expect("piped")).read_line(&mut line).expect("text");
        drop(shell.stdin.take());
        shell.wait().expect("my child");
        assert_eq!((peer.creds().pid, peer.pid(taken.as_fd())), (number, None));
        let sleeper = Pid(line.trim().parse().expect("a number"));
        crate::pidfd::kill(crate::pidfd::open(sleeper).expect("it sleeps").as_fd(), vocab::Sig::KILL).expect("mine");
        std::fs::remove_file(&path).expect("it is there");
    }

    #[test]
    fn a_pair_is_our_own_peer() {
        let (one, _other) = socketpair(Kind::Stream).expect("pair");
        let creds = peer_credentials(one.as_fd()).expect("creds");
        assert_eq!(creds.pid, Pid(std::process::id() as i32));
        let groups = std::fs::read_to_string("/proc/self/status").expect("status");
        let line = groups.lines().find_map(|line| line.strip_prefix("Groups:")).expect("has a line");
        let mut own: Vec<u32> = line.split_whitespace().map(|n| n.parse().expect("a number")).collect();
        let mut peer = peer_groups(one.as_fd()).expect("groups");
        own.sort_unstable();
        peer.sort_unstable();
        assert_eq!(peer, own);
        if let Some(pidfd) = peer_pidfd(one.as_fd()).expect("pidfd") {
            let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", pidfd.as_raw_fd())).expect("fdinfo");
            assert!(info.contains(&format!("\nPid:\t{}\n", std::process::id())), "{info}");
        }
    }
}
