//! Pipes of which all ends are in the process, with what is in them.

use super::{standard, All, Leads, Seen, Verdict};
use crate::elsewhere::Elsewhere;
use crate::places::Opener;
use image::files::{Kind, Pipe};
use kern::poll::{poll, Ready};
use kern::proc::PROC;
use rustix::fs::{accessat, Access, AtFlags, Mode, OFlags, CWD};
use rustix::pipe::{PipeFlags, SpliceFlags};
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use vocab::{Fault, Result};

fn inode(seen: &Seen) -> Option<String> {
    inode_of(&seen.link)
}

fn inode_of(link: &[u8]) -> Option<String> {
    let link = std::str::from_utf8(link).ok()?;
    link.strip_prefix("pipe:[")?.strip_suffix(']').map(str::to_owned)
}

/// The links of all pipes.
pub(super) fn links(seen: &[Seen]) -> BTreeSet<Vec<u8>> {
    seen.iter().filter(|seen| inode(seen).is_some()).map(|seen| seen.link.clone()).collect()
}

/// The inodes of those that no other process has open, and that are not relayed: whoever relayed one may have closed its end, as that of an input that is over. A pipe that the caller may not open is another user's, made by a process into which it cannot look: on a
/// node the standard streams are such.
pub(super) fn within(elsewhere: &Elsewhere, seen: &[Seen], leads: Leads) -> Vec<String> {
    let all = ends(seen);
    let own = elsewhere.links.iter().filter(|(_, who)| who.is_none());
    let own = own.filter_map(|(link, _)| inode_of(link)).filter_map(|inode| all.get_key_value(&inode));
    let may_open = |ends: &[&Seen]| {
        ends.first().is_some_and(|end| accessat(CWD, end.path(), Access::READ_OK, AtFlags::EACCESS).is_ok())
    };
    let whole = own.filter(|(_, ends)| !standard::is_relayed(ends, leads) && may_open(ends) && are_all(ends));
    let mut whole: Vec<String> = whole.map(|(inode, _)| inode.clone()).collect();
    whole.sort_unstable();
    whole
}

/// The descriptors of each pipe, by its inode.
fn ends(seen: &[Seen]) -> BTreeMap<String, Vec<&Seen>> {
    let mut all: BTreeMap<String, Vec<&Seen>> = BTreeMap::new();
    for end in seen {
        if let Some(inode) = inode(end) {
            all.entry(inode).or_default().push(end);
        }
    }
    all
}

/// Of a pipe that no process has beside this one. Where it has the one end only, the pipe tells whether somebody has the other: one who is not seen from here, as
/// who runs outside of the PID namespace.
fn are_all(ends: &[&Seen]) -> bool {
    let how: BTreeSet<u32> = ends.iter().filter_map(|end| end.flags().ok()).map(|flags| flags & ACCESS).collect();
    if how.len() > 1 || how.contains(&(libc::O_RDWR as u32)) {
        return true;
    }
    // One that has been closed meanwhile is looked for again when the process stands still.
    let Some(Ok(end)) = ends.first().map(|end| super::copy(end)) else { return true };
    poll(&[(end.as_fd(), Ready::OVER)], 0).is_ok_and(|ready| ready[0].over)
}

const ACCESS: u32 = libc::O_ACCMODE as u32;

pub(super) fn look(seen: &Seen, all: &All) -> Result<Verdict> {
    let Some(inode) = inode(seen) else { return Ok(Verdict::Other) };
    Ok(match all.pipes.binary_search(&inode).ok() {
        Some(pipe) => Verdict::Carried(Kind::Pipe { pipe: pipe as u32 }),
        None => Verdict::Other,
    })
}

/// Copies what is in each pipe without taking it out (tee(2)).
pub(super) fn dump(all: &All) -> Result<Vec<Pipe>> {
    let ends = ends(&all.seen);
    let dump = |pipe: &String| {
        let ends = ends.get(pipe).map_or(&[][..], |ends| ends);
        let end = ends.first().ok_or_else(|| Fault::bug("a pipe without an end"))?;
        let writes_packets = |seen: &&Seen| Ok(seen.flags()? & PACKETS != 0);
        let packets = ends.iter().map(writes_packets).collect::<Result<Vec<_>>>()?.contains(&true);
        contents(end, packets)
    };
    all.pipes.iter().map(dump).collect()
}

/// Of who writes packets (linux: `is_packetized`).
const PACKETS: u32 = libc::O_DIRECT as u32;

/// `packets`: what is written is a packet now; what was written may be some in any case.
fn contents(end: &Seen, packets: bool) -> Result<Pipe> {
    let failed = |what: &'static str| move |e: rustix::io::Errno| Fault::sys(e.raw_os_error(), what);
    // A description of our own, also where the process has the writing end only.
    let pipe = rustix::fs::open(end.path(), OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty())
        .map_err(failed("open a pipe to read what is in it"))?;
    let capacity = rustix::pipe::fcntl_getpipe_size(&pipe).map_err(failed("read the size of a pipe"))?;
    let waiting = rustix::io::ioctl_fionread(&pipe).map_err(failed("ask how much is in a pipe"))?;
    let (mut data, mut lengths) = (vec![0; waiting as usize], Vec::new());
    if waiting > 0 {
        let (read, write) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).map_err(failed("make a pipe"))?;
        rustix::pipe::fcntl_setpipe_size(&write, capacity).map_err(failed("set the size of a pipe"))?;
        let copied = rustix::pipe::tee(&pipe, &write, data.len(), SpliceFlags::NONBLOCK);
        let copied = copied.map_err(failed("copy what is in a pipe"))?;
        if copied != data.len() {
            return Err(Fault::bug(format!("{copied} of {} bytes of a pipe were copied", data.len())));
        }
        drop(write);
        let mut rest = &mut data[..];
        while !rest.is_empty() {
            // To the end of a packet, or of everything.
            match rustix::io::read(&read, &mut *rest).map_err(failed("read what is in a pipe"))? {
                0 => return Err(Fault::bug("less is in the copy of a pipe than was copied")),
                length => {
                    lengths.push(length as u32);
                    rest = &mut rest[length..];
                }
            }
        }
    }
    if lengths.len() == 1 && !packets {
        lengths.clear();
    }
    Ok(Pipe { capacity: capacity as u32, data: data.into(), packets: lengths })
}

/// Makes the pipes, as pipes of the process's user, who may open them by /dev/fd, and fills them.
pub(super) fn reopen(pipes: &[Pipe], opener: &Opener) -> Result<Vec<(OwnedFd, OwnedFd)>> {
    let make = |pipe: &Pipe| {
        let failed = |what: &'static str| move |e: rustix::io::Errno| Fault::sys(e.raw_os_error(), what);
        let made = opener.lent(|| rustix::pipe::pipe_with(PipeFlags::CLOEXEC))?;
        let (read, write) = made.map_err(failed("make a pipe"))?;
        rustix::pipe::fcntl_setpipe_size(&write, pipe.capacity as usize).map_err(failed("set the size of a pipe"))?;
        let mut rest = &pipe.data.0[..];
        if !pipe.packets.is_empty() {
            set_flags(&write, PACKETS)?;
            for length in &pipe.packets {
                let packet = rest.split_at_checked(*length as usize);
                let (packet, behind) =
                    packet.ok_or_else(|| Fault::wire("packets of a pipe that are longer than what is in it"))?;
                fill(&write, packet)?;
                rest = behind;
            }
            set_flags(&write, 0)?;
        }
        fill(&write, rest)?;
        Ok((read, write))
    };
    pipes.iter().map(make).collect()
}

fn fill(write: &OwnedFd, mut rest: &[u8]) -> Result<()> {
    while !rest.is_empty() {
        let written = rustix::io::write(write, rest).map_err(|e| Fault::sys(e.raw_os_error(), "fill a pipe"))?;
        rest = &rest[written..];
    }
    Ok(())
}

fn set_flags(end: &OwnedFd, flags: u32) -> Result<()> {
    rustix::fs::fcntl_setfl(end, OFlags::from_bits_retain(flags))
        .map_err(|e| Fault::sys(e.raw_os_error(), "set the flags of a pipe"))
}

/// One open file for an end: several of the same end are several open files.
pub(super) fn end(pipes: &[(OwnedFd, OwnedFd)], pipe: u32, flags: u32) -> Result<OwnedFd> {
    let (read, write) = pipes.get(pipe as usize).ok_or_else(|| Fault::wire("a pipe that the image does not have"))?;
    let from = if flags & libc::O_ACCMODE as u32 == libc::O_WRONLY as u32 { write } else { read };
    let path = format!("{PROC}/self/fd/{}", from.as_raw_fd());
    let kept = flags & (libc::O_ACCMODE | libc::O_NONBLOCK) as u32;
    let opened = rustix::fs::open(path, OFlags::from_bits_retain(kept) | OFlags::CLOEXEC, Mode::empty())
        .map_err(|e| Fault::sys(e.raw_os_error(), "open an end of a pipe"))?;
    // Nobody may open a pipe so (linux: `do_dentry_open`).
    if flags & PACKETS != 0 {
        set_flags(&opened, flags & (libc::O_NONBLOCK as u32 | PACKETS))?;
    }
    Ok(opened)
}
