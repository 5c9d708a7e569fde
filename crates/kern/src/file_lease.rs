//! Read leases (fcntl(2), F_SETLEASE): whoever opens the file for writing, or truncates it, waits until the lease is let go.
//!
//! Chmod, rename and unlink do not break a lease, and there is none for a file that somebody has open for writing.

use crate::sys;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use vocab::Result;

const F_SETSIG: i32 = 10;

fn signal() -> i32 {
    libc::SIGRTMIN() + 8
}

/// Takes a lease on what is open for reading only, as long as it is open, or until [`let_go`]. False: somebody has it open for writing, or the file system has no
/// leases.
pub fn take(file: BorrowedFd<'_>) -> bool {
    let fd = file.as_raw_fd();
    // SAFETY: numbers; they are of this open file.
    unsafe { libc::fcntl(fd, F_SETSIG, signal()) == 0 && libc::fcntl(fd, libc::F_SETLEASE, libc::F_RDLCK) == 0 }
}

/// The same on what is open for writing: whoever opens the file for anything waits. False: somebody else has it open.
pub fn take_alone(file: BorrowedFd<'_>) -> bool {
    let fd = file.as_raw_fd();
    // SAFETY: numbers; they are of this open file.
    unsafe { libc::fcntl(fd, F_SETSIG, signal()) == 0 && libc::fcntl(fd, libc::F_SETLEASE, libc::F_WRLCK) == 0 }
}

/// Lets go of it: who waits goes on.
pub fn let_go(file: BorrowedFd<'_>) {
    // SAFETY: numbers.
    unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, libc::F_UNLCK) };
}

/// Does somebody wait for this lease, or is it none any more?
pub fn is_broken(file: BorrowedFd<'_>) -> bool {
    // SAFETY: takes no argument.
    unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETLEASE) != libc::F_RDLCK }
}

/// The same of a lease of [`take_alone`].
pub fn is_broken_alone(file: BorrowedFd<'_>) -> bool {
    // SAFETY: takes no argument.
    unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETLEASE) != libc::F_WRLCK }
}

/// Tells which leases are to be let go.
#[derive(Debug)]
pub struct Breaks(OwnedFd);

/// What [`Breaks::next`] has to say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Break {
    /// The lease on this descriptor.
    Of(RawFd),
    /// Some, which the kernel had no room to tell.
    Some,
}

impl Breaks {
    /// For all leases of this process. Called before it has threads, which inherit that the signals are blocked.
    ///
    /// # Errors
    /// `Sys` as signalfd(2).
    pub fn new() -> Result<Breaks> {
        let mut set = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: sigemptyset makes `set` a value, which sigaddset changes; the later calls only read it.
        let fd = unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            libc::sigaddset(set.as_mut_ptr(), signal());
            libc::sigaddset(set.as_mut_ptr(), libc::SIGIO);
            libc::sigprocmask(libc::SIG_BLOCK, set.as_ptr(), std::ptr::null_mut());
            libc::signalfd(-1, set.as_ptr(), libc::SFD_CLOEXEC)
        };
        sys::own(fd.into(), || "make a descriptor for broken leases".into()).map(Breaks)
    }

    /// Waits for the next one.
    ///
    /// # Errors
    /// `Sys` as read(2).
    pub fn next(&self) -> Result<Break> {
        let mut info = [0u8; size_of::<libc::signalfd_siginfo>()];
        loop {
            match sys::read(self.0.as_fd(), &mut info) {
                Ok(_) => break,
                Err(libc::EINTR) => {}
                Err(errno) => return Err(vocab::Fault::sys(errno, "read which leases are broken")),
            }
        }
        let at = std::mem::offset_of!(libc::signalfd_siginfo, ssi_fd);
        let fd = i32::from_ne_bytes([info[at], info[at + 1], info[at + 2], info[at + 3]]);
        let number = u32::from_ne_bytes([info[0], info[1], info[2], info[3]]);
        Ok(if number == libc::SIGIO as u32 { Break::Some } else { Break::Of(fd) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn who_opens_for_writing_waits_until_the_lease_is_let_go() {
        crate::testing::in_namespace(|_| {
            let breaks = Breaks::new().expect("a descriptor");
            let path = std::env::temp_dir().join(format!("shoal-lease.{}", std::process::id()));
            std::fs::write(&path, "text").expect("a file");
            let file = File::open(&path).expect("there");
            assert!(take(file.as_fd()) && !is_broken(file.as_fd()));
            let other = path.clone();
            let writer = std::thread::spawn(move || File::options().write(true).open(other).is_ok());
            assert_eq!(breaks.next(), Ok(Break::Of(file.as_raw_fd())));
            assert!(is_broken(file.as_fd()) && !writer.is_finished());
            let_go(file.as_fd());
            assert!(writer.join().expect("it ends"));
            let writes = File::options().write(true).open(&path).expect("there");
            assert!(!take(file.as_fd()) && !take_alone(writes.as_fd()), "another one has it open");
            drop(file);
            assert!(take_alone(writes.as_fd()) && !is_broken_alone(writes.as_fd()));
            let other = path.clone();
            let reader = std::thread::spawn(move || File::open(other).is_ok());
            assert_eq!(breaks.next(), Ok(Break::Of(writes.as_raw_fd())));
            assert!(is_broken_alone(writes.as_fd()) && !reader.is_finished());
            let_go(writes.as_fd());
            assert!(reader.join().expect("it ends"));
            std::fs::remove_file(&path).expect("there");
        });
    }
}
