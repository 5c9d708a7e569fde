//! The program comes to where its relay is: its process becomes the program itself, with the standard streams that the relay has.
//!
//! | what comes | what is done |
//! |---|---|
//! | the daemon's word that a branch is home | the streams are kept, whatever the relay closes from now on |
//! | `Left` for that branch; or the daemon says it again, and the channel has broken | all that was written elsewhere has come; input that was not read there is asked back |
//! | that is back | the copy is over, as at the program's end |
//! | all is written | the streams go to the main thread, which becomes the program |
//!
//! Input that has come back cannot be put back into a pipe: then the program gets another one, into which that goes first, and what follows from ours.

use super::branch::Which;
use super::channels::{Channels, State};
use super::copy::Copy;
use super::queue::{Gathered, Item};
use kern::poll::{poll, Ready, EINTR};
use kern::sock::send_with;
use kern::{own, signal, sys};
use rustix::fs::{seek, FileType, SeekFrom};
use rustix::io::fcntl_dupfd_cloexec;
use rustix::pipe::{fcntl_setpipe_size, pipe_with, PipeFlags};
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use vocab::{Fault, Result, Sig, SigSet};
use wire::stream::{Stream, RETURNED};

/// Of a copy that is to come here, or has.
#[derive(Debug)]
pub(super) struct Home {
    /// As in [`wire::ask::Answer::Home`].
    branch: u64,
    streams: [OwnedFd; 3],
    /// The daemon knows that it has left.
    certain: bool,
    /// All that it has written has come.
    left: bool,
}

/// Output and errors.
const BOTH: u8 = 2;
/// The daemon knows. Whoever says `Left` for it after that has been passed already.
const TOLD: u8 = u8::MAX;

/// What may be put where it was.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Input {
    /// A file, of which the offset goes back.
    File,
    /// /dev/zero and the like: it gives the same again.
    Device,
    /// A pipe, socket or terminal.
    Once,
}

fn kind(fd: BorrowedFd<'_>) -> Input {
    let found = rustix::fs::fstat(fd).map(|stat| FileType::from_raw_mode(stat.st_mode));
    match found {
        Ok(FileType::RegularFile | FileType::BlockDevice) => Input::File,
        Ok(FileType::CharacterDevice) if !rustix::termios::isatty(fd) => Input::Device,
        _ => Input::Once,
    }
}

impl Channels {
    /// The process of copy `number` that is moving comes here: it says `Left` for this branch.
    ///
    /// # Errors
    /// `Sys` when no descriptors are to be had.
    pub(super) fn comes_home(&self, number: usize, branch: u64) -> Result<()> {
        let own = |number: i32| {
            let kept = match number {
                0 => fcntl_dupfd_cloexec(std::io::stdin(), 3),
                1 => fcntl_dupfd_cloexec(std::io::stdout(), 3),
                _ => fcntl_dupfd_cloexec(std::io::stderr(), 3),
            };
            kept.map_err(|e| Fault::sys(e.raw_os_error(), "keep a standard stream"))
        };
        let mut state = self.lock();
        let Some(copy) = state.copies.get_mut(number) else { return Ok(()) };
        let known = copy.home.as_mut().filter(|home| home.branch == branch);
        match known {
            Some(home) => home.certain = true,
            None => {
                let streams = [own(0)?, own(1)?, own(2)?];
                copy.home = Some(Home { branch, streams, certain: false, left: false });
            }
        }
        if copy.awaited.remove(&branch).is_some() {
            self.has_left(&mut state, number);
        }
        self.home_if_cut(&mut state, number);
        Ok(())
    }

    /// A descendant of copy `number` comes here, which says `Left` for this branch.
    pub(super) fn comes_alongside(&self, number: usize, branch: u64) {
        let mut state = self.lock();
        let Some(copy) = state.copies.get_mut(number) else { return };
        copy.alongside.insert(branch, BOTH);
        if copy.awaited.remove(&branch).is_some() {
            self.pass(number, branch);
        }
    }

    /// One of our streams has passed what a process had written before it came here.
    pub(super) fn has_passed(&self, copy: usize, branch: u64) {
        let mut state = self.lock();
        let left = state.copies.get_mut(copy).and_then(|copy| copy.alongside.get_mut(&branch));
        left.filter(|left| (1..=BOTH).contains(*left)).into_iter().for_each(|left| *left -= 1);
        drop(state);
        self.hub.wake();
    }

    /// What is queued comes before anything that it writes here.
    pub(super) fn pass(&self, copy: usize, branch: u64) {
        for stream in [Stream::Out, Stream::Err] {
            self.queue(stream).push(Item::Passed { copy, branch });
        }
    }

    /// Those of which the daemon has yet to be told.
    pub(super) fn take_passed(&self) -> Vec<u64> {
        let mut state = self.lock();
        let mut all = Vec::new();
        for copy in &mut state.copies {
            let done = copy.alongside.iter_mut().filter(|(_, left)| **left == 0);
            all.extend(done.map(|(branch, left)| {
                *left = TOLD;
                *branch
            }));
        }
        all
    }

    /// Nobody is left who could say that all has come.
    pub(super) fn home_if_cut(&self, state: &mut State, number: usize) {
        let cut = |copy: &&mut Copy| !copy.is_here() && !copy.branches.iter().any(|branch| branch.program);
        let Some(copy) = state.copies.get_mut(number).filter(cut) else { return };
        if copy.home.as_ref().is_some_and(|home| home.certain) {
            copy.broken = None;
            self.has_left(state, number);
        }
    }

    /// It stays where it is.
    pub(super) fn stays_away(&self, copy: &mut Copy, branch: u64) {
        copy.home.take_if(|home| home.branch == branch && !home.left);
    }

    /// Is this the branch of one that comes here? All that it has written where it was has come.
    pub(super) fn is_home(&self, state: &mut State, (number, _): Which, branch: u64) -> bool {
        let comes = state.copies.get(number).and_then(|copy| copy.home.as_ref());
        let is = comes.is_some_and(|home| home.branch == branch);
        if is {
            self.has_left(state, number);
        }
        is
    }

    fn has_left(&self, state: &mut State, number: usize) {
        let Some(copy) = state.copies.get_mut(number) else { return };
        copy.home.iter_mut().for_each(|home| home.left = true);
        let recalls = copy.branches.iter_mut().filter_map(|branch| Some((branch.serial, branch.flow.recall()?)));
        for (serial, chunk) in recalls.collect::<Vec<_>>() {
            state.tell(&chunk, |which, _| which == (number, serial));
        }
        self.home_if_back(state, number);
    }

    /// When nothing of the input is out any more, nothing is left to come.
    pub(super) fn home_if_back(&self, state: &mut State, number: usize) {
        let Some(copy) = state.copies.get(number).filter(|copy| copy.is_here()) else { return };
        if !copy.branches.iter().any(|branch| branch.flow.is_out()) {
            self.over(state, number);
        }
    }

    /// Has the program come here? Then its process is to become it.
    pub(super) fn is_program_here(&self) -> bool {
        self.lock().copies.iter().any(Copy::is_here)
    }

    /// Its streams, when all is written that was to be; of the relay nothing is left to do in this process.
    ///
    /// # Errors
    /// `Sys` when no descriptors or processes are to be had: what had come back of the input is lost then.
    pub(super) fn send_home(&self, line: BorrowedFd<'_>) -> Result<()> {
        let mut state = self.lock();
        let Some(copy) = state.copies.iter_mut().find(|copy| copy.is_here()) else { return Ok(()) };
        let Some(Home { streams: [input, output, errors], .. }) = copy.home.take() else { return Ok(()) };
        let back = copy.feed.take_all();
        drop(state);
        let input = match (back.len(), kind(input.as_fd())) {
            (0, _) | (_, Input::Device) => input,
            (length, Input::File) => {
                seek(&input, SeekFrom::Current(-(length as i64)))
                    .map_err(|e| Fault::sys(e.raw_os_error(), "give back what was read ahead"))?;
                input
            }
            (_, Input::Once) => ahead_of(input, &back)?,
        };
        send_with(line, &[0], &[input.as_fd(), output.as_fd(), errors.as_fd()]).map(drop)
    }
}

impl Copy {
    pub(super) fn is_here(&self) -> bool {
        self.home.as_ref().is_some_and(|home| home.left)
    }
}

/// A pipe with these bytes in it, behind which comes what `input` has.
fn ahead_of(input: OwnedFd, bytes: &[u8]) -> Result<OwnedFd> {
    let failed = |e: rustix::io::Errno| Fault::sys(e.raw_os_error(), "make a pipe for what was read ahead");
    let (reader, writer) = pipe_with(PipeFlags::CLOEXEC).map_err(failed)?;
    // Where that is not allowed, the one who feeds it waits for the reader.
    let _smaller = fcntl_setpipe_size(&writer, RETURNED.next_power_of_two());
    if own::fork_apart()?.is_none() {
        drop(reader);
        feed(&input, File::from(writer), bytes);
        std::process::exit(0);
    }
    Ok(reader)
}

/// Until the end of the input, or until nobody reads.
fn feed(input: &OwnedFd, mut pipe: File, bytes: &[u8]) {
    // Who stops a job by the terminal that it reads stops this one with it. All else waits for its end: the handlers are the hold's.
    let _as_it_was = signal::set_default(Sig::TTIN).and_then(|()| signal::unblock(SigSet(Sig::TTIN.bit())));
    for number in [1, 2] {
        let _as_it_was = own::close_standard(number);
    }
    let mut room = vec![0; 64 * 1024];
    let mut goes_on = pipe.write_all(bytes).is_ok();
    while goes_on {
        let both = poll(&[(input.as_fd(), Ready::READ), (pipe.as_fd(), Ready::OVER)], -1);
        if both.is_ok_and(|ready| ready[1].over) {
            return;
        }
        goes_on = match sys::read(input.as_fd(), &mut room) {
            Ok(0) => false,
            Ok(got) => pipe.write_all(&room[..got]).is_ok(),
            Err(errno) => errno == EINTR,
        };
    }
}
