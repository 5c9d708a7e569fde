//! All that a terminal is, to be taken from one and given to another (ioctl_tty(2)). What [`crate::pty`] has is enough for a new one.

use crate::poll::{EAGAIN, EINTR};
use crate::sys::{self, check, checked};
use std::os::fd::{AsRawFd, BorrowedFd};
use vocab::{Fault, Result};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

/// The line discipline that terminals have unless somebody gives them another one (linux/tty.h).
pub const N_TTY: i32 = 0;

/// So much may be typed that nobody has read, in bytes: of the buffer of 4096 one stays free (linux: `n_tty_receive_buf_common`).
pub const ROOM: usize = 4095;

/// What ends a file, and what takes a special meaning away, while something is typed anew ([`Termios::for_lines`]).
pub const END_OF_FILE: u8 = 4;
pub const LITERAL_NEXT: u8 = 22;

/// The kernel's struct termios2 (asm-generic/termbits.h).
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct Termios {
    input: u32,
    output: u32,
    control: u32,
    local: u32,
    line: u8,
    chars: [u8; 19],
    input_speed: u32,
    output_speed: u32,
}

/// A terminal, opened anew for writing: what of it is set for this descriptor only, that a write does not wait, is not set for those that others have.
///
/// # Errors
/// As open(2).
pub fn open_apart(path: &str) -> std::io::Result<std::fs::File> {
    use std::os::unix::fs::OpenOptionsExt;
    std::fs::File::options().write(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path)
}

impl Termios {
    /// # Errors
    /// ENOTTY where `fd` is no terminal.
    pub fn of(fd: BorrowedFd<'_>) -> Result<Termios> {
        let mut modes = Termios::new_zeroed();
        // SAFETY: TCGETS2 writes one struct termios2, whose layout this has.
        checked(unsafe { libc::ioctl(fd.as_raw_fd(), libc::TCGETS2, &mut modes) }.into(), || "read modes".into())?;
        Ok(modes)
    }

    /// At once, and nothing of what was typed is dropped (TCSETS2).
    ///
    /// # Errors
    /// As ioctl_tty(2).
    pub fn set(&self, fd: BorrowedFd<'_>) -> Result<()> {
        // SAFETY: TCSETS2 reads one struct termios2, whose layout this has.
        checked(unsafe { libc::ioctl(fd.as_raw_fd(), libc::TCSETS2, self) }.into(), || "set modes".into()).map(drop)
    }

    pub fn bytes(&self) -> &[u8] {
        self.as_bytes()
    }

    /// `None` for any other length.
    pub fn from_bytes(bytes: &[u8]) -> Option<Termios> {
        Termios::read_from_bytes(bytes).ok()
    }

    /// Is what is typed read in lines? Where something else does the editing (EXTPROC) it is read as it comes.
    pub fn has_lines(&self) -> bool {
        self.local & libc::ICANON != 0 && self.local & libc::EXTPROC == 0
    }

    /// The byte that ends a file; 0: none does.
    pub fn end_of_file(&self) -> u8 {
        self.chars[libc::VEOF]
    }

    /// The byte that stops output, where one does.
    pub fn stop(&self) -> Option<u8> {
        let byte = self.chars[libc::VSTOP];
        (byte != 0 && self.input & libc::IXON != 0 && self.local & libc::EXTPROC == 0).then_some(byte)
    }

    /// The same with a byte that ends a file.
    pub fn with_end_of_file(mut self) -> Termios {
        self.chars[libc::VEOF] = END_OF_FILE;
        self
    }

    /// In which bytes that are typed are read as they are, and do and show nothing.
    pub fn for_bytes(mut self) -> Termios {
        self.input = 0;
        // What is read and how far it has been edited stays only if these two do (linux: `n_tty_set_termios`).
        self.local &= libc::ICANON | libc::EXTPROC;
        self
    }

    /// In which lines can be typed byte by byte, of which nothing is edited or shown: a line feed and [`END_OF_FILE`] end one, and no byte behind a [`LITERAL_NEXT`]
    /// means anything.
    pub fn for_lines(mut self) -> Termios {
        self.input = 0;
        self.local = libc::ICANON | libc::IEXTEN;
        self.chars = [0; 19];
        self.chars[libc::VEOF] = END_OF_FILE;
        self.chars[libc::VLNEXT] = LITERAL_NEXT;
        self
    }
}

/// Rows, columns, and their size in pixels.
pub type Size = [u16; 4];

/// # Errors
/// ENOTTY.
pub fn size(fd: BorrowedFd<'_>) -> Result<Size> {
    let mut size = Size::default();
    // SAFETY: TIOCGWINSZ writes one struct winsize, which is four shorts.
    checked(unsafe { libc::ioctl(fd.as_raw_fd(), libc::TIOCGWINSZ, &mut size) }.into(), || "read the window".into())?;
    Ok(size)
}

/// Its foreground group gets SIGWINCH if it differs.
///
/// # Errors
/// ENOTTY.
pub fn set_size(fd: BorrowedFd<'_>, size: Size) -> Result<()> {
    // SAFETY: TIOCSWINSZ reads one struct winsize, which is four shorts.
    checked(unsafe { libc::ioctl(fd.as_raw_fd(), libc::TIOCSWINSZ, &size) }.into(), || "set the window".into())
        .map(drop)
}

/// Its line discipline.
///
/// # Errors
/// ENOTTY.
pub fn discipline(fd: BorrowedFd<'_>) -> Result<i32> {
    let mut number = 0i32;
    // SAFETY: TIOCGETD writes one int.
    checked(unsafe { libc::ioctl(fd.as_raw_fd(), libc::TIOCGETD, &mut number) }.into(), || {
        "read the line discipline".into()
    })?;
    Ok(number)
}

/// May nobody but root open it any more?
///
/// # Errors
/// ENOTTY.
pub fn is_exclusive(fd: BorrowedFd<'_>) -> Result<bool> {
    let mut on = 0i32;
    // SAFETY: TIOCGEXCL writes one int.
    checked(unsafe { libc::ioctl(fd.as_raw_fd(), libc::TIOCGEXCL, &mut on) }.into(), || {
        "ask whether a terminal is exclusive".into()
    })?;
    Ok(on != 0)
}

/// # Errors
/// ENOTTY.
pub fn make_exclusive(fd: BorrowedFd<'_>) -> Result<()> {
    // SAFETY: TIOCEXCL takes nothing.
    checked(unsafe { libc::ioctl(fd.as_raw_fd(), libc::TIOCEXCL) }.into(), || "make a terminal exclusive".into())
        .map(drop)
}

/// This byte is typed; when it returns the line discipline has it. What does not fit is lost.
///
/// # Errors
/// EPERM, EIO for whoever has no CAP_SYS_ADMIN.
pub fn type_byte(fd: BorrowedFd<'_>, byte: u8) -> Result<()> {
    // SAFETY: TIOCSTI reads one byte.
    checked(unsafe { libc::ioctl(fd.as_raw_fd(), libc::TIOCSTI, &byte) }.into(), || "type anew (TIOCSTI)".into())
        .map(drop)
}

/// What can be read now of a descriptor that does not wait; `None`: nothing. Of a terminal with lines it is one line.
///
/// # Errors
/// As read(2).
pub fn read(fd: BorrowedFd<'_>) -> Result<Option<Vec<u8>>> {
    let mut bytes = vec![0; ROOM + 1];
    loop {
        match sys::read(fd, &mut bytes) {
            Ok(count) => bytes.truncate(count),
            Err(EINTR) => continue,
            Err(EAGAIN) => return Ok(None),
            Err(errno) => return Err(Fault::sys(errno, "read what was typed")),
        }
        return Ok(Some(bytes));
    }
}

/// What keeps its output back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stop {
    /// Its stop character was typed.
    Typed,
    /// tcflow(3).
    Told,
}

/// Output stops as by tcflow(3), or goes on after that.
///
/// # Errors
/// ENOTTY.
pub fn tell_stop(fd: BorrowedFd<'_>, stops: bool) -> Result<()> {
    let what = if stops { libc::TCOOFF } else { libc::TCOON };
    // SAFETY: TCXONC takes a number.
    checked(unsafe { libc::ioctl(fd.as_raw_fd(), libc::TCXONC, what) }.into(), || "stop or start output".into())
        .map(drop)
}

/// Output goes on, whatever had stopped it, which is told. Nobody else may read `master` meanwhile.
///
/// Nothing tells whether it is stopped but that the master, in packet mode, hears of a change (linux: `__stop_tty`, `__start_tty`).
///
/// # Errors
/// ENOTTY.
pub fn start_output(master: BorrowedFd<'_>, slave: BorrowedFd<'_>) -> Result<Option<Stop>> {
    let changes = |stops: bool| {
        // Each time it begins with nothing heard.
        packets(master, false)?;
        packets(master, true)?;
        tell_stop(slave, stops)?;
        let mut one = libc::pollfd { fd: master.as_raw_fd(), events: libc::POLLPRI, revents: 0 };
        // SAFETY: one struct pollfd.
        checked(unsafe { libc::poll(&mut one, 1, 0) }.into(), || "look at a terminal".into())?;
        Ok(one.revents & libc::POLLPRI != 0)
    };
    let found = changes(false).and_then(|told| Ok((told, changes(true)?)));
    packets(master, false)?;
    // It was stopped by a character if it does not stop now; and whatever it was, this ends it.
    tell_stop(slave, false)?;
    Ok(match found? {
        (true, _) => Some(Stop::Told),
        (false, false) => Some(Stop::Typed),
        (false, true) => None,
    })
}

fn packets(master: BorrowedFd<'_>, on: bool) -> Result<()> {
    let on = i32::from(on);
    // SAFETY: TIOCPKT reads one int.
    checked(unsafe { libc::ioctl(master.as_raw_fd(), libc::TIOCPKT, &on) }.into(), || "set packet mode".into())
        .map(drop)
}

/// The session whose controlling terminal it is has none any more, and nobody gets a signal by that; nor later when its master is closed. The calling process
/// gets a session of its own.
///
/// # Errors
/// EPERM for whoever has no CAP_SYS_ADMIN.
pub fn part_from_session(slave: BorrowedFd<'_>) -> Result<()> {
    const STEAL: i32 = 1;
    // SAFETY: takes nothing; EPERM: it leads a group already, and then (we start it so) a session.
    let _leads_one_already = unsafe { libc::setsid() };
    // SAFETY: a disposition of the kernel's: who gives up its terminal is sent SIGHUP.
    unsafe { libc::signal(libc::SIGHUP, libc::SIG_IGN) };
    // SAFETY: TIOCSCTTY takes a number.
    let taken = check(unsafe { libc::ioctl(slave.as_raw_fd(), libc::TIOCSCTTY, STEAL) }.into());
    taken.map_err(|errno| Fault::sys(errno, "take a terminal from its session"))?;
    // SAFETY: TIOCNOTTY takes nothing.
    checked(unsafe { libc::ioctl(slave.as_raw_fd(), libc::TIOCNOTTY) }.into(), || "leave a terminal".into()).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pty;
    use std::os::fd::{AsFd, OwnedFd};

    /// Master and slave, which do not wait.
    fn terminal() -> (OwnedFd, OwnedFd) {
        let (master, slave) = pty::open().expect("a terminal");
        sys::set_nonblocking(slave.as_fd(), true).expect("fcntl");
        (master, slave)
    }

    #[test]
    fn what_stops_output_is_found_and_ended() {
        let (master, slave) = terminal();
        let start = || start_output(master.as_fd(), slave.as_fd()).expect("a terminal");
        assert_eq!(start(), None);
        tell_stop(slave.as_fd(), true).expect("a terminal");
        assert_eq!((start(), start()), (Some(Stop::Told), None));
        let stop = Termios::of(slave.as_fd()).expect("modes").stop().expect("^S");
        type_byte(slave.as_fd(), stop).expect("root");
        assert_eq!(sys::write(slave.as_fd(), b"x"), Err(EAGAIN));
        assert_eq!((start(), start()), (Some(Stop::Typed), None));
        assert_eq!(sys::write(slave.as_fd(), b"x"), Ok(1));
        assert_eq!(read(master.as_fd()).expect("open").as_deref(), Some(&b"x"[..]));
    }

    #[test]
    fn lines_can_be_typed_anew_byte_by_byte() {
        let (_master, slave) = terminal();
        let own = Termios::of(slave.as_fd()).expect("modes");
        own.for_lines().set(slave.as_fd()).expect("modes");
        let typed = b"\x03a\x16\nb\n\x7f\x04c";
        typed.iter().for_each(|byte| type_byte(slave.as_fd(), *byte).expect("root"));
        own.set(slave.as_fd()).expect("modes");
        let next = || read(slave.as_fd()).expect("open");
        assert_eq!((next(), next(), next()), (Some(b"\x03a\nb\n".to_vec()), Some(b"\x7f".to_vec()), None));
        type_byte(slave.as_fd(), own.end_of_file()).expect("root");
        assert_eq!(next(), Some(b"c".to_vec()));
        assert_eq!(Termios::of(slave.as_fd()).expect("modes"), own);
    }
}
