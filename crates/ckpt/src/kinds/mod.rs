//! Kinds of descriptors: how each is recognised, asked and opened again. A kind that is not here is refused by its name.

mod epoll;
mod eventfd;
mod firsts;
pub(crate) mod generated;
mod inotify;
mod locks;
mod message_queue;
mod named;
mod nameless;
mod owner;
mod peer;
mod pipe;
mod seen;
mod signalfd;
mod socket;
mod standard;
pub mod terminal;
mod timerfd;
mod unix;

use crate::bring::Wanted;
use crate::elsewhere::{Elsewhere, Identity, Known};
use crate::file_id;
use crate::objects::{self, Found, Look, Made};
use crate::obstacle::Obstacle;
use crate::places::Opener;
use crate::proc;
use firsts::Firsts;
pub(crate) use generated::Left;
use image::files::{Descriptor, Files, Kind, OpenFile};
pub(crate) use inotify::Quiet;
use kern::others;
pub(crate) use locks::Locks;
pub(crate) use owner::set as set_owners;
use puppet::Script;
pub(crate) use seen::Seen;
use seen::{copy, look_at, look_at_all};
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::Instant;
use terminal::{Taken, Tty};
pub(crate) use unix::make as make_sockets;
use vocab::{Fault, Pid, Result};

/// What a kind says of a descriptor: not mine, mine but not to be carried, or carried.
pub(crate) enum Verdict {
    Other,
    Refused(Obstacle),
    Carried(Kind),
}

/// Every kind, asked in this order: pipes within the process first, since others lead out of it.
const KINDS: [fn(&Seen, &All) -> Result<Verdict>; 12] = [
    pipe::look,
    unix::look,
    eventfd::look,
    epoll::look,
    timerfd::look,
    signalfd::look,
    inotify::look,
    terminal::look,
    standard::look,
    message_queue::look,
    nameless::look,
    named::look,
];

/// All descriptors of a process, for kinds that must know of others.
pub(crate) struct All {
    pub(crate) seen: Vec<Seen>,
    /// When they had been seen.
    seen_at: Instant,
    /// Inodes of pipes of which all ends are in this process, in their order.
    pub(crate) pipes: Vec<String>,
    /// Pairs of unix sockets of which both ends are.
    pub(crate) sockets: Vec<unix::Pair>,
    known: Known,
    leads: Leads,
    /// Of a process that stands still.
    left: Option<Left>,
}

/// Where its standard streams lead, as in [`crate::survey::Given`].
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Leads {
    /// All of them lead out.
    pub(crate) streams: bool,
    pub(crate) relayed: Option<[u64; 3]>,
    /// It goes along.
    pub(crate) terminal: Option<Tty>,
}

fn look(pid: Pid, known: &Known, leads: Leads) -> Result<All> {
    let (seen, seen_at) = (look_at_all(pid)?, Instant::now());
    let links = &pipe::links(&seen) | &unix::links(&seen);
    let mut elsewhere = Elsewhere::of(links, Default::default());
    elsewhere.look_unless(pid, known)?;
    let pipes = pipe::within(&elsewhere, &seen, leads);
    let sockets = unix::within(pid, &elsewhere)?;
    Ok(All { seen, seen_at, pipes, sockets, known: elsewhere.links, leads, left: None })
}

fn judge(seen: &Seen, all: &All) -> Result<Verdict> {
    if seen.link == proc::TOO_LONG {
        return Ok(Verdict::Refused(seen.obstacle("cannot be opened again by its name")));
    }
    if locks::held(seen).is_err() {
        return Ok(Verdict::Refused(seen.obstacle("has a lock of a kind that is not carried (a lease)")));
    }
    for kind in KINDS {
        match kind(seen, all)? {
            Verdict::Other => {}
            Verdict::Carried(kind) if !matches!(kind, Kind::Standard { .. }) => {
                return Ok(owner::of(seen)?.map_or_else(Verdict::Refused, |_| Verdict::Carried(kind)));
            }
            verdict => return Ok(verdict),
        }
    }
    Ok(Verdict::Refused(seen.obstacle("is of a kind that is not carried")))
}

/// A look at the descriptors of a process that runs.
pub(crate) struct Surveyed {
    /// The descriptors that others have too.
    pub(crate) known: Known,
    /// The files that the process has left after a part of them.
    pub(crate) left: Left,
    pub(crate) obstacles: Vec<Obstacle>,
    /// The locks that are in the way of a move, as long as the process has them.
    pub(crate) locked: Vec<Obstacle>,
}

pub(crate) fn survey(pid: Pid, leads: Leads) -> Result<Surveyed> {
    let all = look(pid, &Known::default(), leads)?;
    let obstacle = |seen: &Seen| {
        match judge(seen, &all) {
            // One that leads elsewhere by now, or did in between, was looked at as two: what it is counts when the process stands still.
            Ok(Verdict::Refused(obstacle)) => {
                let again = || matches!(judge(seen, &all), Ok(Verdict::Refused(again)) if again == obstacle);
                Ok((seen.is_still() && again() && seen.is_still() && again()).then_some(obstacle))
            }
            // It was closed meanwhile.
            Err(fault) if matches!(fault.errno, libc::ENOENT | libc::EBADF) => Ok(None),
            judged => judged.map(|_| None),
        }
    };
    let mut obstacles = all.seen.iter().filter_map(|seen| obstacle(seen).transpose()).collect::<Result<Vec<_>>>()?;
    if let Some(tty) = all.leads.terminal {
        obstacles.extend(terminal::survey(pid, tty)?);
    }
    let left = generated::left(pid, &all.seen)?;
    let locked = locks::in_the_way(&all.seen);
    Ok(Surveyed { known: all.known, left, obstacles, locked })
}

/// The files without a name that are open, each with what is said when another process has it too.
pub(crate) fn nameless(pid: Pid) -> Result<BTreeMap<Identity, Obstacle>> {
    let mut files = BTreeMap::new();
    for seen in look_at_all(pid)? {
        if let (true, Ok(Look::Nameless(file))) = (seen.link.starts_with(b"/"), objects::look(&seen.path(), &seen.link))
        {
            files.insert(file, seen.obstacle("is also open or mapped in process"));
        }
    }
    Ok(files)
}

/// As [`dump`], of a process that runs, if it has nothing open but names, standard streams and pipes that it only reads (a standard input that has ended and is not
/// relayed): all else is asked of one that stands still.
pub(crate) fn foresee(pid: Pid, known: &Known, leads: Leads) -> Result<Option<Files>> {
    let all = look(pid, known, leads)?;
    for seen in &all.seen {
        let plain = Kind::Named { path: seen.link.clone().into() };
        match judge(seen, &all)? {
            Verdict::Carried(Kind::Standard { .. }) => {}
            Verdict::Carried(Kind::Pipe { .. }) if seen.flags()? & libc::O_ACCMODE as u32 == libc::O_RDONLY as u32 => {}
            Verdict::Carried(kind) if kind == plain && locks::held(seen)?.is_empty() => {}
            _ => return Ok(None),
        }
    }
    dump_of(pid, &mut Found::default(), known, all).map(|dumped| Some(dumped.files))
}

/// The descriptors of a stopped process.
pub(crate) struct Dumped {
    /// And the open files behind them.
    pub(crate) files: Files,
    /// The links of which it was believed that nobody else has them.
    pub(crate) believed: BTreeSet<Vec<u8>>,
    /// From its terminal, which goes along.
    pub(crate) taken: Option<Taken>,
}

/// `known`: what others had when they were surveyed, and what of its own files it had left then.
pub(crate) fn dump(pid: Pid, found: &mut Found, (known, left): (&Known, &Left), leads: Leads) -> Result<Dumped> {
    let all = look(pid, known, leads)?;
    dump_of(pid, found, known, All { left: Some(left.clone()), ..all })
}

fn dump_of(pid: Pid, found: &mut Found, known: &Known, all: All) -> Result<Dumped> {
    let mut files = Files::default();
    let mut firsts = Firsts::default();
    let compare = |one, other| {
        let order = others::compare_files((pid, one), (pid, other));
        order.map_err(|errno| Fault::sys(errno, format!("compare descriptors {one} and {other} of process {pid}")))
    };
    for seen in &all.seen {
        let close_on_exec = seen.flags()? & libc::O_CLOEXEC as u32 != 0;
        let next = files.files.len() as u32;
        // Descriptor 0 is relayed by itself, also if others are of the same open file.
        let is_alone = all.leads.streams && seen.number == 0;
        let file = if is_alone { next } else { firsts.file_of((&seen.link, seen.number), next, compare)? };
        if file == next {
            files.files.push(open_file(seen, &all, found)?);
        }
        files.descriptors.push(Descriptor { number: seen.number, close_on_exec, file });
    }
    files.pipes = pipe::dump(&all)?;
    files.sockets = unix::dump(pid, &all)?;
    let (terminal, taken) = all.leads.terminal.map(|tty| terminal::dump(pid, tty)).transpose()?.unzip();
    files.terminal = terminal;
    let believed = all.known.into_iter().filter(|(link, who)| who.is_none() && known.contains_key(link));
    Ok(Dumped { files, believed: believed.map(|(link, _)| link).collect(), taken })
}

fn open_file(seen: &Seen, all: &All, found: &mut Found) -> Result<OpenFile> {
    match judge(seen, all)? {
        Verdict::Carried(kind) => {
            let copy = seen.is_one_file()?;
            let kind = match kind {
                Kind::Object { .. } => nameless::number(seen, found)?,
                Kind::EventFd { count, .. } => eventfd::asked(seen, count)?,
                other => other,
            };
            let flags = seen.flags()? & !(libc::O_CLOEXEC as u32);
            let owner = owner::of(seen)?.map_err(Fault::refused)?;
            let id = match &kind {
                Kind::Named { .. } => copy.as_ref().map(file_id::of).transpose()?,
                _ => None,
            };
            Ok(OpenFile { flags, offset: seen.number_of("pos", 10)?, kind, locks: locks::held(seen)?, owner, id })
        }
        Verdict::Refused(obstacle) => Err(Fault::refused(obstacle)),
        Verdict::Other => Err(Fault::bug("a verdict on a descriptor that is none")),
    }
}

/// A file of the image as the process that restores has it.
pub(crate) enum Reopened {
    Ours(OwnedFd),
    /// What the new process has under this number (0 to 2) from the beginning.
    Stream(u8),
    /// An end of a pair of sockets, which the new process makes itself.
    Socket {
        pair: u32,
        end: u8,
    },
}

impl Reopened {
    /// `sockets`: the pairs that the new process has made, by their numbers there.
    pub(crate) fn wanted(&self, sockets: &[[i32; 2]]) -> Result<Wanted<'_>> {
        Ok(match self {
            Reopened::Ours(fd) => Wanted::Ours(fd.as_fd()),
            Reopened::Stream(number) => Wanted::Own((*number).into()),
            Reopened::Socket { pair, end } => {
                let number = sockets.get(*pair as usize).and_then(|ends| ends.get(usize::from(*end)));
                Wanted::Own(*number.ok_or_else(|| Fault::wire("a socket that the image does not have"))?)
            }
        })
    }
}

/// Opens all files again, in the process that restores, with numbers from `base` on.
///
/// `slave`: the terminal that the new process has instead of that of the image.
pub(crate) fn reopen(
    files: &Files,
    made: &Made,
    base: i32,
    opener: &Opener,
    slave: Option<&OwnedFd>,
) -> Result<(Vec<Reopened>, Vec<Quiet>)> {
    let mut quiet = Vec::new();
    let pipes = pipe::reopen(&files.pipes, opener)?;
    let mut opened = Vec::new();
    for (index, file) in files.files.iter().enumerate() {
        let fd = match &file.kind {
            Kind::Named { path } => named::reopen(path, file, opener),
            Kind::Pipe { pipe } => pipe::end(&pipes, *pipe, file.flags),
            Kind::EventFd { count, semaphore } => eventfd::reopen(*count, *semaphore, file.flags),
            Kind::Epoll { .. } => epoll::reopen(),
            Kind::TimerFd { clock, .. } => timerfd::reopen(*clock, file.flags),
            Kind::Inotify { watches } => inotify::reopen(watches, file.flags, opener, &mut quiet),
            Kind::SignalFd { mask } => signalfd::reopen(*mask, file.flags),
            Kind::Standard { stream: stream @ 0..3 } => {
                opened.push(Reopened::Stream(*stream));
                continue;
            }
            Kind::Socket { pair, end } => {
                opened.push(Reopened::Socket { pair: *pair, end: *end });
                continue;
            }
            Kind::Standard { stream } => Err(Fault::wire(format!("standard stream {stream}"))),
            // What is opened as /dev/tty the new process opens itself, when it is its controlling terminal.
            Kind::Terminal { .. } => slave
                .ok_or_else(|| Fault::wire("a descriptor of a terminal that the image does not have"))
                .and_then(|slave| terminal::reopen(slave, file.flags)),
            Kind::Object { object } => nameless::reopen(*object, (files, index), made, opener),
        };
        let fd = fd.map_err(|fault| fault.doing(format!("open file {index} of the image")))?;
        opened.push(Reopened::Ours(above(fd, base)?));
    }
    Ok((opened, quiet))
}

/// The same open file under a number from `base` on.
pub(crate) fn above(fd: OwnedFd, base: i32) -> Result<OwnedFd> {
    if fd.as_raw_fd() >= base {
        return Ok(fd);
    }
    rustix::io::fcntl_dupfd_cloexec(&fd, base).map_err(|e| Fault::sys(e.raw_os_error(), "duplicate a descriptor"))
}

/// The lowest number that is above all descriptors of an image.
pub(crate) fn above_all(files: &Files) -> i32 {
    files.descriptors.iter().map(|descriptor| descriptor.number).max().unwrap_or(2).max(2) + 1
}

/// In the new process: its descriptors are put under their numbers, all others are closed, and what needs numbers is set up. `opened`: the
/// numbers of the image's files there, all above those of its descriptors. `alone`: nobody else has its standard streams, which it may find as it left them.
pub(crate) fn install(script: &mut Script, files: &Files, opened: &[i32], alone: bool) -> Result<()> {
    if files.terminal.as_ref().is_some_and(|terminal| terminal.controls) {
        take_terminal(script, files, opened);
    }
    let mut next = 0;
    for descriptor in &files.descriptors {
        close_range(script, next, descriptor.number - 1);
        next = descriptor.number + 1;
        let from = opened.get(descriptor.file as usize);
        let from = from.ok_or_else(|| Fault::wire("a descriptor of a file that the image does not have"))?;
        let flags = if descriptor.close_on_exec { libc::O_CLOEXEC } else { 0 };
        let args = [*from as u64, descriptor.number as u64, flags as u64];
        script.call(format!("put descriptor {} in place", descriptor.number), libc::SYS_dup3, &args);
    }
    close_range(script, next, i32::MAX);
    for (number, file) in numbered(files) {
        match &file.kind {
            Kind::Epoll { watches } => epoll::set(script, number, watches),
            timer @ Kind::TimerFd { .. } => timerfd::set(script, number, timer),
            Kind::Standard { .. } if alone => standard::set(script, number, file.flags),
            _ => {}
        }
    }
    take_locks(script, files);
    Ok(())
}

/// The open files of an image, each with its lowest descriptor.
fn numbered(files: &Files) -> impl Iterator<Item = (i32, &OpenFile)> {
    let mut numbers = vec![None; files.files.len()];
    for descriptor in &files.descriptors {
        if let Some(number) = numbers.get_mut(descriptor.file as usize) {
            number.get_or_insert(descriptor.number);
        }
    }
    numbers.into_iter().zip(&files.files).filter_map(|(number, file)| Some((number?, file)))
}

/// Does the process watch files (inotify(7))?
pub(crate) fn watches(files: &Files) -> bool {
    files.files.iter().any(|file| matches!(&file.kind, Kind::Inotify { watches } if !watches.is_empty()))
}

/// So many calls it takes at most to set up this file: one or two for each watch of an epoll, one for each lock.
pub(crate) fn calls(file: &OpenFile) -> usize {
    let watches = if let Kind::Epoll { watches } = &file.kind { 2 * watches.len() } else { 0 };
    watches + file.locks.len()
}

/// The terminal, which it has as descriptor 0, becomes that of the session that it leads, and its group is in the foreground.
fn take_terminal(script: &mut Script, files: &Files, opened: &[i32]) {
    script.call("take the terminal", libc::SYS_ioctl, &[0, libc::TIOCSCTTY, 0]);
    for (file, number) in files.files.iter().zip(opened) {
        if let Kind::Terminal { controlling: true } = file.kind {
            let path = script.text(b"/dev/tty");
            let flags = file.flags & named::KEPT | (libc::O_NOCTTY | libc::O_CLOEXEC) as u32;
            let own = script.call("open /dev/tty", libc::SYS_open, &[path, flags.into(), 0]);
            let to = [0, *number as u64, libc::O_CLOEXEC as u64];
            let put = script.call("put /dev/tty aside", libc::SYS_dup3, &to);
            script.pass(own, put, 0);
        }
    }
}

/// In the process that restores, once it closes none of them any more, nor another descriptor of the same file, until the new process has taken its own.
pub(crate) fn keep_locks(files: &Files, opened: &[Reopened]) -> Result<()> {
    for (file, opened) in files.files.iter().zip(opened) {
        if let (Reopened::Ours(fd), Kind::Named { path }) = (opened, &file.kind) {
            let name = || format!("open {}", String::from_utf8_lossy(&path.0));
            locks::keep(fd, &file.locks).map_err(|fault| fault.doing(name()))?;
        }
    }
    Ok(())
}

/// In the new process.
fn take_locks(script: &mut Script, files: &Files) {
    numbered(files).for_each(|(number, file)| locks::take(script, number, &file.locks));
}

fn close_range(script: &mut Script, first: i32, last: i32) {
    if first <= last {
        script.call("close descriptors", libc::SYS_close_range, &[first as u64, last as u64, 0]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::process::{Command, Stdio};

    /// A program that closes a file and opens another one again and again.
    const CHANGES: &str = "$|=1; print 1; while (1) { open U, '>', \"$ARGV[0]/a\"; open U, '>', \"$ARGV[0]/b\" }";

    #[test]
    fn a_descriptor_that_is_another_file_while_it_is_looked_at_is_in_nobodys_way() {
        let dir = std::env::temp_dir().join(format!("shoal-changes-{}", std::process::id()));
        std::fs::create_dir(&dir).expect("a directory");
        let mut perl = Command::new("perl");
        perl.args(["-e", CHANGES]).arg(&dir).stdin(Stdio::null()).stderr(Stdio::null()).stdout(Stdio::piped());
        let mut child = perl.spawn().expect("perl");
        child.stdout.as_mut().expect("piped").read_exact(&mut [0]).expect("it runs");
        let pid = Pid(child.id() as i32);
        let leads = Leads { streams: true, ..Leads::default() };
        let found: Result<Vec<_>> = (0..200).map(|_| survey(pid, leads).map(|found| found.obstacles)).collect();
        child.kill().expect("a child");
        child.wait().expect("killed");
        std::fs::remove_dir_all(&dir).expect("a directory");
        // What cargo gives its programs is another matter.
        let found = found.expect("it lives").concat().into_iter().filter(|why| why.contains("shoal-changes"));
        assert_eq!(found.collect::<Vec<_>>(), Vec::<Obstacle>::new());
    }
}
