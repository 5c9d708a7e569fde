//! The terminal that a process takes along when it moves: whoever moves it has the other side, and nobody else has it open.
//!
//! What was typed and not read is taken out as a program would read it, line by line, and typed anew into the other terminal, or into the same one
//! if the process stays, in modes in which it means nothing but itself. So nothing is edited, shown or sent as a signal twice.

use super::{All, Seen, Verdict};
use crate::obstacle::Obstacle;
use crate::proc::{numbers_in, stat_fields, stat_number};
use image::files::Kind;
use image::terminal::{End, Stopped, Terminal, Typed};
use kern::faultpoint::reach;
use kern::others::share_memory;
use kern::pidfd;
use kern::proc::{root, PROC};
use kern::tty::{self, Stop, Termios, END_OF_FILE, LITERAL_NEXT, ROOM};
use rustix::fs::{FileType, Mode, OFlags};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use tracing::warn;
use vocab::{Fault, Pid, Result};

/// Where it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tty {
    holder: Pid,
    /// Descriptors of that.
    master: i32,
    slave: i32,
    /// The file system of its name, and its number.
    device: (u64, u64),
}

impl Tty {
    /// The terminal of which `holder` has both sides under these numbers.
    ///
    /// # Errors
    /// `Gone`.
    pub fn of(holder: Pid, master: i32, slave: i32) -> Result<Tty> {
        let path = format!("{PROC}/{holder}/fd/{slave}");
        let found = std::fs::metadata(&path).map_err(|e| Fault::io(&e, format!("look at {path}")))?;
        Ok(Tty { holder, master, slave, device: (found.dev(), found.rdev()) })
    }

    /// Does this link lead there? /dev/tty leads to no terminal by itself.
    pub fn is_at(self, path: &str) -> bool {
        std::fs::metadata(path).is_ok_and(|found| (found.dev(), found.rdev()) == self.device)
    }

    /// Its session has it no more as controlling terminal, and nobody hears of its end ([`tty::part_from_session`]).
    ///
    /// # Errors
    /// EPERM without CAP_SYS_ADMIN.
    pub fn part_from_session(self) -> Result<()> {
        tty::part_from_session(self.open()?.as_fd())
    }

    /// Once more, without the flags of anybody else.
    fn open(self) -> Result<OwnedFd> {
        open(&format!("{PROC}/{}/fd/{}", self.holder, self.slave), OFlags::RDWR | OFlags::NONBLOCK)
    }

    fn master(self) -> Result<OwnedFd> {
        let taken = pidfd::open(self.holder).and_then(|holder| pidfd::getfd(holder.as_fd(), self.master));
        taken.map_err(|errno| Fault::sys(errno, "take the other side of a terminal"))
    }

    /// Field 7 of proc_pid_stat(5) of those whose controlling terminal it is.
    fn number(self) -> u64 {
        let (major, minor) = (rustix::fs::major(self.device.1), rustix::fs::minor(self.device.1));
        u64::from((minor & 0xff) | major << 8 | (minor & !0xff) << 12)
    }
}

fn open(path: &str, flags: OFlags) -> Result<OwnedFd> {
    let opened = rustix::fs::open(path, flags | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty());
    opened.map_err(|e| Fault::sys(e.raw_os_error(), format!("open {path}")))
}

/// Whose it is, of what is in /proc/PID/stat.
struct Place {
    ended: bool,
    group: u64,
    session: u64,
    terminal: u64,
    foreground: u64,
}

impl Place {
    fn of(pid: Pid) -> Result<Place> {
        let fields = stat_fields(pid)?;
        let number = |index| stat_number(&fields, index);
        Ok(Place {
            ended: fields.first().is_some_and(|state| ["Z", "X"].contains(&state.as_str())),
            group: number(5)?,
            session: number(6)?,
            terminal: number(7)?,
            foreground: number(8)?,
        })
    }
}

pub(super) fn look(seen: &Seen, all: &All) -> Result<Verdict> {
    let Some(tty) = all.leads.terminal else { return Ok(Verdict::Other) };
    if seen.link == b"/dev/tty" && Place::of(seen.pid)?.terminal == tty.number() {
        return Ok(Verdict::Carried(Kind::Terminal { controlling: true }));
    }
    Ok(match seen.link.starts_with(b"/") && tty.is_at(&seen.path()) {
        true => Verdict::Carried(Kind::Terminal { controlling: false }),
        false => Verdict::Other,
    })
}

/// What is in the way.
pub(super) fn survey(pid: Pid, tty: Tty) -> Result<Vec<Obstacle>> {
    let mut obstacles: Vec<Obstacle> = others(pid, tty)?.into_iter().collect();
    let minor = rustix::fs::minor(tty.device.1);
    let discipline = tty::discipline(tty.open()?.as_fd())?;
    if discipline != tty::N_TTY {
        obstacles.push(format!("its terminal (/dev/pts/{minor}) has line discipline {discipline}"));
    }
    let place = Place::of(pid)?;
    if place.terminal == tty.number() {
        if place.session != pid.0 as u64 {
            obstacles.push(format!("its terminal (/dev/pts/{minor}) is that of session {}", place.session));
        } else if place.foreground != place.group {
            obstacles
                .push(format!("group {} is in the foreground of its terminal (/dev/pts/{minor})", place.foreground));
        }
    }
    Ok(obstacles)
}

/// Whoever else has it open, or as controlling terminal.
pub(crate) fn others(pid: Pid, tty: Tty) -> Result<Option<Obstacle>> {
    let processes = std::fs::read_dir(root()).map_err(|e| Fault::io(&e, "read /proc"))?;
    let pids = processes.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok().map(Pid));
    let own = Pid(std::process::id() as i32);
    let mut found: Vec<i32> = pids
        .filter(|other| *other != pid && *other != own && *other != tty.holder)
        .filter(|other| has(*other, tty))
        // A program that the holder is about to start has all that the holder has, until it executes.
        .filter(|other| !share_memory(tty.holder, *other).unwrap_or(false))
        .map(|other| other.0)
        .collect();
    found.sort_unstable();
    let all: Vec<String> = found.iter().map(i32::to_string).collect();
    let minor = rustix::fs::minor(tty.device.1);
    Ok((!all.is_empty()).then(|| format!("its terminal (/dev/pts/{minor}) is also that of process {}", all.join(" "))))
}

fn has(other: Pid, tty: Tty) -> bool {
    // What is gone meanwhile has nothing.
    let Ok(place) = Place::of(other) else { return false };
    if place.ended || place.terminal == tty.number() {
        return !place.ended;
    }
    let numbers = numbers_in(other, "fd").unwrap_or_default();
    numbers.iter().map(|number| format!("{PROC}/{other}/fd/{number}")).any(|path| {
        std::fs::read_link(&path).is_ok_and(|link| link.as_os_str().as_encoded_bytes().starts_with(b"/"))
            && tty.is_at(&path)
    })
}

/// What was taken out of a terminal. Dropped, it is put back.
pub(crate) struct Taken {
    tty: Tty,
    slave: OwnedFd,
    was: Terminal,
    goes: bool,
}

impl Taken {
    /// The process goes on with another one.
    ///
    /// # Errors
    /// As [`Tty::part_from_session`]; nothing is put back all the same.
    pub(crate) fn goes(mut self) -> Result<()> {
        self.goes = true;
        match self.was.controls {
            true => tty::part_from_session(self.slave.as_fd()),
            false => Ok(()),
        }
    }

    /// Only now: does nobody else have it?
    ///
    /// # Errors
    /// `Changed` when somebody does.
    pub(crate) fn is_alone(&self, pid: Pid) -> Result<()> {
        others(pid, self.tty)?.map_or(Ok(()), |why| Err(Fault::changed(why)))
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        if self.goes {
            return;
        }
        match put(self.slave.as_fd(), &self.was) {
            Ok(rest) if rest.is_empty() => {}
            Ok(rest) => warn!(bytes = rest.len(), "more was typed than a terminal takes again"),
            Err(fault) => warn!(%fault, "what was typed is lost"),
        }
    }
}

/// Of a process that stands still; nobody may type or read at its other side meanwhile.
pub(super) fn dump(pid: Pid, tty: Tty) -> Result<(Terminal, Taken)> {
    let slave = tty.open()?;
    let modes = Termios::of(slave.as_fd())?;
    let file = rustix::fs::fstat(&slave).map_err(|e| Fault::sys(e.raw_os_error(), "look at a terminal"))?;
    let was = Terminal {
        modes: modes.bytes().into(),
        size: tty::size(slave.as_fd())?,
        exclusive: tty::is_exclusive(slave.as_fd())?,
        controls: Place::of(pid)?.terminal == tty.number(),
        uid: file.st_uid,
        gid: file.st_gid,
        mode: Mode::from_raw_mode(file.st_mode).bits(),
        ..Terminal::default()
    };
    let mut taken = Taken { tty, slave, was, goes: false };
    // First, since what is typed from here on to find the end of a line could start it.
    taken.was.stopped = match tty::start_output(tty.master()?.as_fd(), taken.slave.as_fd())? {
        None => Stopped::No,
        Some(Stop::Typed) => Stopped::Typed,
        Some(Stop::Told) => Stopped::Told,
    };
    match modes.has_lines() {
        true => take_lines(&mut taken, &modes)?,
        false => {
            while let Some(bytes) = tty::read(taken.slave.as_fd())?.filter(|bytes| !bytes.is_empty()) {
                taken.was.typed.push(Typed { bytes: bytes.into(), end: End::Open });
            }
        }
    }
    reach("out took what was typed");
    Ok((taken.was.clone(), taken))
}

/// What is read of a terminal is a line each time; of the last one, which has no end yet, when it is given one.
fn take_lines(taken: &mut Taken, modes: &Termios) -> Result<()> {
    while let Some(bytes) = tty::read(taken.slave.as_fd())? {
        let end = if bytes.last() == Some(&b'\n') { End::Line } else { End::File };
        taken.was.typed.push(Typed { bytes: bytes.into(), end });
    }
    let end = match modes.end_of_file() {
        0 => {
            modes.with_end_of_file().set(taken.slave.as_fd())?;
            END_OF_FILE
        }
        byte => byte,
    };
    tty::type_byte(taken.slave.as_fd(), end)?;
    let mut bytes = tty::read(taken.slave.as_fd())?;
    if bytes.is_none() {
        // It was taken for itself, as was wanted of what is typed next.
        taken.was.literal_next = true;
        tty::type_byte(taken.slave.as_fd(), end)?;
        bytes = tty::read(taken.slave.as_fd())?.map(|mut bytes| {
            bytes.pop();
            bytes
        });
    }
    match bytes {
        Some(bytes) if bytes.is_empty() => Ok(()),
        Some(bytes) => {
            taken.was.typed.push(Typed { bytes: bytes.into(), end: End::Open });
            Ok(())
        }
        None => Err(Fault::bug("a terminal keeps what was typed")),
    }
}

/// Makes a terminal what another one was, and is asked to return what was typed there and does not fit: that follows.
fn put(slave: BorrowedFd<'_>, was: &Terminal) -> Result<Vec<u8>> {
    let modes = Termios::from_bytes(&was.modes.0).ok_or_else(|| Fault::wire("the modes of a terminal"))?;
    if tty::size(slave)? != was.size {
        tty::set_size(slave, was.size)?;
    }
    let mut rest = Vec::new();
    if !was.typed.is_empty() || was.literal_next {
        if modes.has_lines() { modes.for_lines() } else { modes.for_bytes() }.set(slave)?;
        let mut room = ROOM;
        for typed in &was.typed {
            put_typed(slave, typed, &modes, &mut room, &mut rest)?;
        }
        if was.literal_next {
            tty::type_byte(slave, LITERAL_NEXT)?;
        }
    }
    modes.set(slave)?;
    match (was.stopped, modes.stop()) {
        (Stopped::No, _) => {}
        (Stopped::Typed, Some(byte)) => tty::type_byte(slave, byte)?,
        (Stopped::Typed | Stopped::Told, _) => tty::tell_stop(slave, true)?,
    }
    match was.exclusive {
        true => tty::make_exclusive(slave).map(|()| rest),
        false => Ok(rest),
    }
}

fn put_typed(
    slave: BorrowedFd<'_>,
    typed: &Typed,
    modes: &Termios,
    room: &mut usize,
    rest: &mut Vec<u8>,
) -> Result<()> {
    let (bytes, end) = match (typed.end, typed.bytes.0.split_last()) {
        (End::Line, Some((last, bytes))) => (bytes, Some(*last)),
        (End::File, _) => (&typed.bytes.0[..], Some(END_OF_FILE)),
        _ => (&typed.bytes.0[..], None),
    };
    let fits = if rest.is_empty() { bytes.len().min(*room) } else { 0 };
    for byte in &bytes[..fits] {
        if modes.has_lines() && [b'\n', END_OF_FILE, LITERAL_NEXT].contains(byte) {
            tty::type_byte(slave, LITERAL_NEXT)?;
        }
        tty::type_byte(slave, *byte)?;
    }
    *room -= fits;
    rest.extend_from_slice(&bytes[fits..]);
    match end {
        None => {}
        Some(end) if rest.is_empty() && *room > 0 => {
            tty::type_byte(slave, end)?;
            *room -= 1;
        }
        Some(END_OF_FILE) => rest.push(modes.end_of_file()),
        Some(end) => rest.push(end),
    }
    Ok(())
}

/// The terminal that `pid` has, which is to become the process of the image, is made like that one's, if that has one; it is no session's yet. What was
/// typed there and does not fit is to follow.
///
/// # Errors
/// `Refused` where descriptor 0 is no terminal, and for an image that is not one of a process that moves.
pub(crate) fn furnish(pid: Option<Pid>, was: Option<&Terminal>) -> Result<Option<(OwnedFd, Vec<u8>)>> {
    let Some(was) = was else { return Ok(None) };
    let pid =
        pid.ok_or_else(|| Fault::refused("the image has a terminal, which only a process that moves takes along"))?;
    let path = format!("{PROC}/{pid}/fd/0");
    let found = std::fs::metadata(&path).map_err(|e| Fault::io(&e, format!("look at {path}")))?;
    if FileType::from_raw_mode(found.mode()) != FileType::CharacterDevice || Place::of(pid)?.terminal != 0 {
        return Err(Fault::refused("no terminal has been made for it"));
    }
    let slave = open(&path, OFlags::RDWR)?;
    let rest = put(slave.as_fd(), was).map_err(|fault| fault.doing("make a terminal what the old one was"))?;
    let failed = |what: &'static str| move |e: rustix::io::Errno| Fault::sys(e.raw_os_error(), what);
    let (uid, gid) = (rustix::process::Uid::from_raw(was.uid), rustix::process::Gid::from_raw(was.gid));
    rustix::fs::fchown(&slave, Some(uid), Some(gid)).map_err(failed("set the owner of a terminal"))?;
    rustix::fs::fchmod(&slave, Mode::from_raw_mode(was.mode)).map_err(failed("set the mode of a terminal"))?;
    reach("in typed it anew");
    Ok(Some((slave, rest)))
}

/// As one more open file.
pub(super) fn reopen(slave: &OwnedFd, flags: u32) -> Result<OwnedFd> {
    use std::os::fd::AsRawFd;
    open(&format!("{PROC}/self/fd/{}", slave.as_raw_fd()), OFlags::from_bits_retain(flags & super::named::KEPT))
}
