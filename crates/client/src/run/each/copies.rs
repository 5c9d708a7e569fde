//! The loop of the parent of several copies.

use super::super::queue::{Gathered, Item};
use super::super::takers::Takers;
use super::backlog::Next;
use super::shared::Shared;
use kern::clock::monotonic_us;
use kern::init::SignalFd;
use kern::poll::{poll, Ready, EAGAIN, EINTR};
use kern::relay::{ENDING, HURRY_MS};
use kern::{signal, sys, wait};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use vocab::{Exit, Pid, Result, Sig};
use wire::stream::{Stream, PIECE};

/// Signals from a process to the caller are meant for all of its copies; the terminal's reach them by themselves.
pub(super) const PASSED_ON: [Sig; 6] = [Sig::HUP, Sig::INT, Sig::QUIT, Sig::TERM, Sig::USR1, Sig::USR2];

const HURRY_US: u64 = HURRY_MS as u64 * 1000;

/// One copy, as its parent sees it. Our ends of its streams do not block.
pub(super) struct Copy {
    pub(super) pid: Pid,
    pub(super) input: Option<OwnedFd>,
    /// Its output and its errors, until their end.
    pub(super) from: [Option<OwnedFd>; 2],
}

/// What the loop waits for.
#[derive(Clone, Copy)]
enum What {
    Signals,
    Bell,
    Input(usize),
    From(usize, Stream),
}

pub(super) struct Copies {
    shared: Arc<Shared>,
    signals: SignalFd,
    copies: Vec<Copy>,
    /// Those that have not ended.
    left: usize,
    /// How each has ended, as far as they have.
    ends: Vec<Exit>,
    /// Nothing more comes from any copy, and the writers have been told so.
    over: bool,
    /// When the first signal of [`ENDING`] came, in microseconds.
    asked: Option<u64>,
    /// Another one came: output that nobody reads is not waited for any more.
    hurried: bool,
    /// When the wait for who reads it is over.
    gives_up: Option<u64>,
    buffer: Vec<u8>,
}

impl Copies {
    pub(super) fn new(shared: Arc<Shared>, signals: SignalFd, copies: Vec<Copy>) -> Copies {
        let left = copies.len();
        Copies {
            shared,
            signals,
            copies,
            left,
            ends: vec![Exit::Code(0); left],
            over: false,
            asked: None,
            hurried: false,
            gives_up: None,
            buffer: vec![0; PIECE],
        }
    }

    /// Until all have ended and all that they wrote has been written; how they ended.
    pub(super) fn run(mut self) -> Result<Vec<Exit>> {
        loop {
            self.close_inputs();
            self.finish();
            let late = self.gives_up.is_some_and(|time| time <= monotonic_us());
            if late || self.over && self.shared.marks() == 2 {
                return Ok(self.ends);
            }
            for (what, ready) in self.wait() {
                match what {
                    _ if ready == Ready::default() => {}
                    What::Signals => self.take_signals()?,
                    What::Bell => self.hear(),
                    What::Input(n) => self.give(n, ready),
                    What::From(n, stream) => self.carry(n, stream),
                }
            }
        }
    }

    fn wait(&self) -> Vec<(What, Ready)> {
        let mut wanted = vec![
            (What::Signals, self.signals.as_fd(), Ready::READ),
            (What::Bell, self.shared.bell.as_fd(), Ready::READ),
        ];
        let backlog = self.shared.backlog();
        for (n, copy) in self.copies.iter().enumerate() {
            if let Some(input) = &copy.input {
                // That nobody reads it is told unasked.
                let ready = if backlog.next(n) == Next::Wait { Ready::OVER } else { Ready::WRITE };
                wanted.push((What::Input(n), input.as_fd(), ready));
            }
            for (stream, from) in [Stream::Out, Stream::Err].into_iter().zip(&copy.from) {
                if let (Some(from), 1..) = (from, self.shared.room(n, stream)) {
                    wanted.push((What::From(n, stream), from.as_fd(), Ready::READ));
                }
            }
        }
        drop(backlog);
        let fds: Vec<(BorrowedFd<'_>, Ready)> = wanted.iter().map(|(_, fd, ready)| (*fd, *ready)).collect();
        let patience = self.gives_up.map_or(-1, |time| time.saturating_sub(monotonic_us()).div_ceil(1000) as i32);
        let ready = poll(&fds, patience).unwrap_or_default();
        wanted.into_iter().map(|(what, ..)| what).zip(ready).collect()
    }

    /// A copy that has all its input gets the end of it, also while it reads nothing.
    fn close_inputs(&mut self) {
        let mut backlog = self.shared.backlog();
        for (n, copy) in self.copies.iter_mut().enumerate() {
            if copy.input.is_some() && backlog.next(n) == Next::End {
                backlog.leave(n);
                copy.input = None;
            }
        }
    }

    /// When nothing more comes, the writers write what lines have begun, and say when they are through.
    fn finish(&mut self) {
        let open = self.copies.iter().flat_map(|copy| &copy.from).any(Option::is_some);
        if !self.over && !open && self.left == 0 {
            self.over = true;
            for stream in [Stream::Out, Stream::Err] {
                self.shared.queue(stream).push(Item::Mark);
            }
        }
        if self.hurried && self.left == 0 && self.gives_up.is_none() {
            self.gives_up = Some(monotonic_us() + HURRY_US);
        }
    }

    fn take_signals(&mut self) -> Result<()> {
        while let Some((sig, from_process)) = self.signals.take_from()? {
            if ENDING.contains(&sig) {
                // Those that come close together mean one and the same (as of timeout(1), which sends two).
                let now = monotonic_us();
                let first = *self.asked.get_or_insert(now);
                self.hurried |= self.left == 0 || now - first >= HURRY_US;
            }
            match sig {
                Sig::CHLD => {
                    self.reap();
                    if from_process {
                        self.pass_on(sig);
                    }
                }
                Sig::CONT => self.shared.reader().wake(),
                sig if from_process => self.pass_on(sig),
                _ => {}
            }
        }
        Ok(())
    }

    fn reap(&mut self) {
        while let Ok(Some(waited)) = wait::any() {
            let wait::Change::Ended(exit) = waited.change else { continue };
            // There may be other children, from before this process was `shoal run`.
            let Some(n) = self.copies.iter().position(|copy| copy.pid == waited.pid) else { continue };
            // The number may be another process's from now on.
            self.copies[n].pid = Pid::NONE;
            self.left -= 1;
            self.ends[n] = exit;
        }
    }

    fn pass_on(&self, sig: Sig) {
        for copy in &self.copies {
            // One that has ended needs it no more.
            let _ = signal::send(copy.pid, sig);
        }
    }

    /// There is input, or a writer has got on, or has nobody who reads.
    fn hear(&mut self) {
        self.shared.bell.drain();
        for (number, stream) in [Stream::Out, Stream::Err].into_iter().enumerate() {
            if self.shared.is_unread(stream) {
                // The copies get EPIPE, as from the pipe itself.
                self.copies.iter_mut().for_each(|copy| copy.from[number] = None);
            }
        }
    }

    /// What a copy takes of the input at once.
    fn give(&mut self, n: usize, ready: Ready) {
        let Some(input) = &self.copies[n].input else { return };
        let mut backlog = self.shared.backlog();
        let takes = match backlog.next(n) {
            _ if ready.over => false,
            Next::Wait | Next::End => true,
            Next::Bytes(bytes) => match sys::write(input.as_fd(), bytes) {
                Ok(taken) => {
                    backlog.taken(n, taken);
                    true
                }
                Err(errno) => matches!(errno, EAGAIN | EINTR),
            },
        };
        if !takes {
            backlog.leave(n);
            self.copies[n].input = None;
        }
        drop(backlog);
        self.shared.reader().wake();
    }

    /// What a copy has written goes to the writer.
    fn carry(&mut self, n: usize, stream: Stream) {
        let from = &mut self.copies[n].from[usize::from(stream == Stream::Err)];
        let Some(fd) = from else { return };
        let room = self.shared.room(n, stream);
        match sys::read(fd.as_fd(), &mut self.buffer[..room]) {
            Ok(got @ 1..) => {
                self.shared.waits(n, stream, got);
                self.shared.queue(stream).push(Item::Data { of: (n, 0), bytes: self.buffer[..got].to_vec() });
            }
            Err(EAGAIN | EINTR) => {}
            _ => {
                *from = None;
                self.shared.queue(stream).push(Item::Flush { of: (n, 0) });
                self.shared.queue(stream).push(Item::End);
            }
        }
    }
}
