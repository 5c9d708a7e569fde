//! Terminals: making one, its modes, its window, and who is in its foreground (ioctl_tty(2)).

use crate::sys::{check, checked, own};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use vocab::{Pid, Result, Sig, SigSet};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Makes the terminal `fd` the user's, as login(1) does, so that their programs can open it by its name (tty(1)).
///
/// # Errors
/// `Sys` as fchown(2).
pub fn give(fd: BorrowedFd<'_>, uid: u32) -> Result<()> {
    // SAFETY: takes numbers; -1 leaves the group as it is.
    checked(unsafe { libc::fchown(fd.as_raw_fd(), uid, u32::MAX) }.into(), || "give a terminal to its user".into())
        .map(drop)
}

/// The kernel's struct termios (asm-generic/termbits.h): what TCGETS and TCSETS take.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct Modes {
    input: u32,
    output: u32,
    control: u32,
    local: u32,
    line: u8,
    chars: [u8; 19],
}

impl Modes {
    /// The modes of the terminal `fd`.
    ///
    /// # Errors
    /// ENOTTY where it is none.
    pub fn of(fd: BorrowedFd<'_>) -> Result<Modes> {
        let mut modes = Modes { input: 0, output: 0, control: 0, local: 0, line: 0, chars: [0; 19] };
        // SAFETY: TCGETS writes one struct termios, whose layout `Modes` has.
        let ret = unsafe { libc::ioctl(fd.as_raw_fd(), libc::TCGETS, &mut modes) };
        checked(ret.into(), || "read terminal modes".into()).map(|_| modes)
    }

    /// Sets them, once what was written has gone out (TCSETSW). From the background it raises SIGTTOU.
    pub fn set(&self, fd: BorrowedFd<'_>) -> std::result::Result<(), i32> {
        // SAFETY: TCSETSW reads one struct termios, whose layout `Modes` has.
        check(unsafe { libc::ioctl(fd.as_raw_fd(), libc::TCSETSW, self) }.into()).map(drop)
    }

    /// The same terminal with every byte going through as it is (cfmakeraw(3)).
    pub fn raw(mut self) -> Modes {
        use libc::*;
        self.input &= !(IGNBRK | BRKINT | PARMRK | ISTRIP | INLCR | IGNCR | ICRNL | IXON);
        self.output &= !OPOST;
        self.local &= !(ECHO | ECHONL | ICANON | ISIG | IEXTEN);
        self.control = self.control & !(CSIZE | PARENB) | CS8;
        self.chars[VMIN] = 1;
        self.chars[VTIME] = 0;
        self
    }

    /// Is input read line by line?
    pub fn is_canonical(&self) -> bool {
        self.local & libc::ICANON != 0
    }

    /// The byte that means the end of input.
    pub fn end_of_file(&self) -> u8 {
        self.chars[libc::VEOF]
    }

    /// For the wire.
    pub fn bytes(&self) -> Vec<u8> {
        self.as_bytes().to_vec()
    }

    /// From the wire; `None` for any other length.
    pub fn from_bytes(bytes: &[u8]) -> Option<Modes> {
        Modes::read_from_bytes(bytes).ok()
    }
}

/// Rows and columns, in characters; `None` where `fd` is no terminal.
pub fn window(fd: BorrowedFd<'_>) -> Option<(u16, u16)> {
    let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: TIOCGWINSZ writes one struct winsize.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), libc::TIOCGWINSZ, &mut size) }.into()).ok()?;
    Some((size.ws_row, size.ws_col))
}

/// Sets the window; its foreground group gets SIGWINCH when it differs.
pub fn set_window(fd: BorrowedFd<'_>, rows: u16, columns: u16) -> Result<()> {
    let size = libc::winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: TIOCSWINSZ reads one struct winsize.
    checked(unsafe { libc::ioctl(fd.as_raw_fd(), libc::TIOCSWINSZ, &size) }.into(), || "set the window".into())
        .map(drop)
}

/// Is the own group in the foreground of `fd`? What is not our controlling terminal asks nobody, so that is a yes.
pub fn in_foreground(fd: BorrowedFd<'_>) -> bool {
    let mut group: libc::pid_t = 0;
    // SAFETY: TIOCGPGRP writes one pid_t; getpgrp takes nothing.
    unsafe { libc::ioctl(fd.as_raw_fd(), libc::TIOCGPGRP, &mut group) != 0 || group == libc::getpgrp() }
}

/// Puts a group of the own session into the foreground of `fd`, whatever SIGTTOU would do to who is in the background.
///
/// # Errors
/// `Sys` as tcsetpgrp(3).
pub fn set_foreground(fd: BorrowedFd<'_>, group: Pid) -> Result<()> {
    let mask = crate::signal::blocked()?;
    crate::signal::block(SigSet(Sig::TTOU.bit()))?;
    // SAFETY: TIOCSPGRP reads one pid_t.
    let done = checked(unsafe { libc::ioctl(fd.as_raw_fd(), libc::TIOCSPGRP, &group.0) }.into(), || {
        format!("put group {group} into the foreground")
    });
    crate::signal::set_mask(mask)?;
    done.map(drop)
}

/// The group in the foreground of `fd`; `None` if it is not our controlling terminal.
pub fn foreground(fd: BorrowedFd<'_>) -> Option<Pid> {
    let mut group: libc::pid_t = 0;
    // SAFETY: TIOCGPGRP writes one pid_t.
    (unsafe { libc::ioctl(fd.as_raw_fd(), libc::TIOCGPGRP, &mut group) } == 0).then_some(Pid(group))
}

/// A new terminal: (master, slave), both close-on-exec, the slave not (yet) anybody's controlling terminal.
///
/// The slave comes from the master (TIOCGPTPEER) and not from a path: the mount namespace may have another devpts.
pub fn open() -> Result<(OwnedFd, OwnedFd)> {
    let flags = libc::O_RDWR | libc::O_NOCTTY | libc::O_CLOEXEC;
    // SAFETY: numbers only; the descriptor that comes is new.
    let master = own(unsafe { libc::posix_openpt(flags) }.into(), || "open a new terminal".into())?;
    let unlock = 0i32;
    // SAFETY: TIOCSPTLCK reads one int.
    checked(unsafe { libc::ioctl(master.as_raw_fd(), libc::TIOCSPTLCK, &unlock) }.into(), || {
        "unlock the new terminal".into()
    })?;
    // ODDITY(gptpeer-cloexec): O_CLOEXEC stays a flag of the open file, which fdinfo and F_GETFL show as every descriptor's that was duplicated from this one.
    // linux: ptm_open_peer. prog: tests/prog/odd_gptpeer_cloexec.c
    let flags = flags & !libc::O_CLOEXEC;
    // SAFETY: TIOCGPTPEER takes open flags and returns a new descriptor.
    let slave = own(unsafe { libc::ioctl(master.as_raw_fd(), libc::TIOCGPTPEER, flags) }.into(), || {
        "open the new terminal's other side".into()
    })?;
    // SAFETY: F_SETFD takes a number.
    checked(unsafe { libc::fcntl(slave.as_raw_fd(), libc::F_SETFD, libc::FD_CLOEXEC) }.into(), || {
        "set close-on-exec".into()
    })?;
    Ok((master, slave))
}

/// Sets the modes of a new terminal and its window, as far as known.
pub fn furnish(slave: &OwnedFd, modes: Option<&Modes>, rows: u16, columns: u16) -> Result<()> {
    if let Some(modes) = modes {
        modes.set(slave.as_fd()).map_err(|errno| vocab::Fault::sys(errno, "set terminal modes"))?;
    }
    set_window(slave.as_fd(), rows, columns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys;

    #[test]
    fn a_raw_terminal_lets_bytes_through() {
        let (master, slave) = open().expect("a terminal");
        let modes = Modes::of(slave.as_fd()).expect("modes");
        furnish(&slave, Some(&modes.raw()), 24, 80).expect("furnished");
        assert_eq!(window(master.as_fd()), Some((24, 80)));
        sys::write(slave.as_fd(), b"a\nb").expect("room");
        let mut got = [0u8; 8];
        assert_eq!(sys::read(master.as_fd(), &mut got), Ok(3));
        assert_eq!(&got[..3], b"a\nb");
        assert_eq!(Modes::from_bytes(&modes.bytes()), Some(modes));
        assert_eq!(modes.end_of_file(), 4);
    }
}
