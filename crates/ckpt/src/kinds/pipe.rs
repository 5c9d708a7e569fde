//! Pipes of which all ends are in the process, with what is in them.

use super::{All, Seen, Verdict};
use crate::proc;
use image::files::{Kind, Pipe};
use rustix::fs::{Mode, OFlags};
use rustix::pipe::{PipeFlags, SpliceFlags};
use std::collections::BTreeSet;
use std::io::Read;
use std::os::fd::OwnedFd;
use vocab::{Fault, Pid, Result};

fn inode(seen: &Seen) -> Option<String> {
    let link = std::str::from_utf8(&seen.link).ok()?;
    link.strip_prefix("pipe:[")?.strip_suffix(']').map(str::to_owned)
}

/// The pipes that no other process has open. Nobody tells who has a pipe, so all processes are looked at, unless there is none to look for.
pub(super) fn within(pid: Pid, seen: &[Seen]) -> Result<Vec<String>> {
    let mut own: BTreeSet<String> = seen.iter().filter_map(inode).collect();
    if own.is_empty() {
        return Ok(Vec::new());
    }
    let entries = std::fs::read_dir("/proc").map_err(|e| Fault::io(&e, "read /proc"))?;
    let numbers = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    for other in numbers.filter(|other| *other != pid.0) {
        // One that has ended has none open.
        for number in proc::numbers_in(Pid(other), "fd").unwrap_or_default() {
            let link = proc::link(Pid(other), &format!("fd/{number}")).unwrap_or_default();
            if let Some(inode) = inode(&Seen { pid: Pid(other), number, link, info: String::new() }) {
                own.remove(&inode);
            }
        }
    }
    Ok(own.into_iter().collect())
}

pub(super) fn look(seen: &Seen, all: &All) -> Result<Verdict> {
    let Some(inode) = inode(seen) else { return Ok(Verdict::Other) };
    Ok(match all.pipes.iter().position(|pipe| *pipe == inode) {
        Some(pipe) => Verdict::Carried(Kind::Pipe { pipe: pipe as u32 }),
        None => Verdict::Other,
    })
}

/// Copies what is in each pipe without taking it out (tee(2)).
pub(super) fn dump(all: &All) -> Result<Vec<Pipe>> {
    let dump = |pipe: &String| {
        let end = all.seen.iter().find(|seen| inode(seen).as_ref() == Some(pipe));
        let end = end.ok_or_else(|| Fault::bug("a pipe without an end"))?;
        contents(end)
    };
    all.pipes.iter().map(dump).collect()
}

fn contents(end: &Seen) -> Result<Pipe> {
    let failed = |what: &'static str| move |e: rustix::io::Errno| Fault::sys(e.raw_os_error(), what);
    // A description of our own, also where the process has the writing end only.
    let pipe = rustix::fs::open(end.path(), OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty())
        .map_err(failed("open a pipe to read what is in it"))?;
    let capacity = rustix::pipe::fcntl_getpipe_size(&pipe).map_err(failed("read the size of a pipe"))?;
    let waiting = rustix::io::ioctl_fionread(&pipe).map_err(failed("ask how much is in a pipe"))?;
    let mut data = vec![0; waiting as usize];
    if waiting > 0 {
        let (read, write) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).map_err(failed("make a pipe"))?;
        rustix::pipe::fcntl_setpipe_size(&write, capacity).map_err(failed("set the size of a pipe"))?;
        let copied = rustix::pipe::tee(&pipe, &write, data.len(), SpliceFlags::NONBLOCK);
        let copied = copied.map_err(failed("copy what is in a pipe"))?;
        if copied != data.len() {
            return Err(Fault::bug(format!("{copied} of {} bytes of a pipe were copied", data.len())));
        }
        std::fs::File::from(read).read_exact(&mut data).map_err(|e| Fault::io(&e, "read what is in a pipe"))?;
    }
    Ok(Pipe { capacity: capacity as u32, data: data.into() })
}

/// Makes the pipes and fills them.
pub(super) fn reopen(pipes: &[Pipe]) -> Result<Vec<(OwnedFd, OwnedFd)>> {
    let make = |pipe: &Pipe| {
        let failed = |what: &'static str| move |e: rustix::io::Errno| Fault::sys(e.raw_os_error(), what);
        let (read, write) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).map_err(failed("make a pipe"))?;
        rustix::pipe::fcntl_setpipe_size(&write, pipe.capacity as usize).map_err(failed("set the size of a pipe"))?;
        let mut rest = &pipe.data.0[..];
        while !rest.is_empty() {
            let written = rustix::io::write(&write, rest).map_err(failed("fill a pipe"))?;
            rest = &rest[written..];
        }
        Ok((read, write))
    };
    pipes.iter().map(make).collect()
}

/// One open file for an end: several of the same end are several open files.
pub(super) fn end(pipes: &[(OwnedFd, OwnedFd)], pipe: u32, flags: u32) -> Result<OwnedFd> {
    let (read, write) = pipes.get(pipe as usize).ok_or_else(|| Fault::wire("a pipe that the image does not have"))?;
    let from = if flags & libc::O_ACCMODE as u32 == libc::O_WRONLY as u32 { write } else { read };
    let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(from));
    let mode = OFlags::from_bits_retain(flags & (libc::O_ACCMODE | libc::O_NONBLOCK | libc::O_DIRECT) as u32);
    rustix::fs::open(path, mode | OFlags::CLOEXEC, Mode::empty())
        .map_err(|e| Fault::sys(e.raw_os_error(), "open an end of a pipe"))
}
