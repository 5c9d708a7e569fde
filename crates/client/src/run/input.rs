//! Reading our own standard input for the programs: ahead where it is theirs alone, else when one of them wants it.

use super::output::stop;
use super::takers::{Allowed, Takers, Wanting};
use kern::poll::{poll, Ready, EAGAIN, EINTR};
use kern::relay::RELAY;
use kern::{pty, signal, sys};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileTypeExt;
use vocab::errno::{EBADF, EIO};
use vocab::{Fault, Sig, SigSet};
use wire::stream::PIECE;

/// So often, in milliseconds, the relay of a terminal in the background looks whether it is in the foreground.
const LOOK_MS: i32 = 200;

/// Whose our standard input is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Source {
    /// The programs' alone while they run: a pipe, a file.
    Ours,
    /// Programs have ended, and it is for others too by now. What their descendants want of it they get.
    Left,
    /// A terminal: what is typed and not read is for the next reader.
    Terminal,
    /// A terminal whose every key is for the program's own terminal.
    Keys,
}

/// The reader. From a terminal in the background it reads when a program reads, and then the kernel does to us what it
/// would have done to the program: SIGTTIN, or EIO.
pub(crate) struct Reader<'c, T> {
    takers: &'c T,
    source: Source,
    /// A pipe or socket: others may take what we have been told of.
    shared: bool,
    background: bool,
    buffer: Vec<u8>,
}

impl<'c, T: Takers> Reader<'c, T> {
    pub(crate) fn new(takers: &'c T, source: Source) -> Reader<'c, T> {
        // Not by way of /proc, which shows the program's.
        let kind = std::io::stdin().as_fd().try_clone_to_owned();
        let kind = kind.and_then(|fd| std::fs::File::from(fd).metadata()).map(|meta| meta.file_type());
        let shared = kind.is_ok_and(|kind| kind.is_fifo() || kind.is_socket());
        Reader { takers, source, shared, background: false, buffer: vec![0; PIECE] }
    }

    /// Reads until the end of the input, or until no program takes any.
    pub(crate) fn run(mut self) {
        // Blocked, a read in the background would fail with EIO at once (__tty_check_change).
        if let Err(fault) = signal::unblock(SigSet(Sig::TTIN.bit())) {
            tracing::warn!(%fault, "reading in the background will not stop this process");
        }
        let stdin = std::io::stdin();
        let stdin = stdin.as_fd();
        loop {
            self.takers.reader().drain();
            let ahead = self.look_around(stdin);
            let going_on = match self.takers.allowed() {
                Allowed::Over => return self.close(),
                Allowed::Wait => self.wait(None),
                Allowed::Read(_) if ahead => self.read_ahead(stdin),
                Allowed::Read(most) if self.takers.take_wanted(self.wanting()) => self.read_wanted(stdin, most),
                Allowed::Read(_) => self.ask(stdin),
            };
            if !going_on {
                return;
            }
        }
    }

    /// No program reads any more: whoever writes to a pipe must learn it, as from a program that has closed its input.
    fn close(&self) {
        if self.source == Source::Ours {
            if let Err(fault) = kern::own::close_standard(0) {
                tracing::warn!(%fault, "the writer of our input is not told that nobody reads it");
            }
        }
    }

    /// Whether input is to be read ahead now.
    fn look_around(&mut self, stdin: BorrowedFd<'_>) -> bool {
        self.background = self.is_terminal() && !pty::in_foreground(stdin);
        if self.is_terminal() && !self.background {
            RELAY.make_raw();
        }
        let ahead = match self.source {
            Source::Ours => true,
            Source::Keys => !self.background,
            Source::Terminal | Source::Left => false,
        };
        if ahead {
            self.takers.ask_no_more();
        }
        ahead
    }

    fn is_terminal(&self) -> bool {
        matches!(self.source, Source::Terminal | Source::Keys)
    }

    /// Asks the programs whether they want input, as soon as there is some; in the background at once, since there a wish alone has
    /// its consequence.
    fn ask(&self, stdin: BorrowedFd<'_>) -> bool {
        if self.takers.asked() == Some(self.wanting()) {
            return self.wait(None);
        }
        if !self.background {
            self.wait(Some(stdin));
            let now = poll(&[(stdin, Ready::READ)], 0).map_or(Ready::default(), |ready| ready[0]);
            match now {
                // The end can be passed on without taking it from anybody.
                Ready { readable: false, over: true, .. } if !self.is_terminal() => return self.give(Ok(0)),
                Ready { readable: false, over: false, .. } => return true,
                _ => {}
            }
        }
        self.takers.ask(self.wanting());
        true
    }

    fn wanting(&self) -> Wanting {
        if self.background {
            Wanting::Reads
        } else {
            Wanting::Waits
        }
    }

    /// Waits until something is to be done, or `input` is there.
    fn wait(&self, input: Option<BorrowedFd<'_>>) -> bool {
        let bell = Some((self.takers.reader().as_fd(), Ready::READ));
        let input = input.map(|stdin| (stdin, Ready::READ));
        let both: Vec<_> = bell.into_iter().chain(input).collect();
        // Nobody tells a job that runs in the background that it is in the foreground: shells continue only what has stopped.
        let patience = if self.source == Source::Keys && self.background { LOOK_MS } else { -1 };
        // Interrupted, it is the same as woken.
        let _ = poll(&both, patience);
        true
    }

    fn read_ahead(&mut self, stdin: BorrowedFd<'_>) -> bool {
        self.wait(Some(stdin));
        let takers = self.takers;
        let _reading = takers.reading();
        // The terminal may have been taken from us while we waited; then this input is not ours.
        let ours = !self.is_terminal() || pty::in_foreground(stdin);
        match takers.allowed() {
            Allowed::Read(most) if ours && is_readable(stdin) => {
                let got = match self.shared {
                    true => sys::read_now(stdin, &mut self.buffer[..most]),
                    false => sys::read(stdin, &mut self.buffer[..most]),
                };
                self.give(got)
            }
            _ => true,
        }
    }

    /// Reads for a program that waits: it may have to wait on here.
    fn read_wanted(&mut self, stdin: BorrowedFd<'_>, most: usize) -> bool {
        let round = RELAY.round();
        match sys::read(stdin, &mut self.buffer[..most]) {
            Err(EINTR) => {
                stop(Sig::TTIN, round);
                true
            }
            other => self.give(other),
        }
    }

    /// The program cannot be told why its input ends before all of it has been read.
    fn explain(&self, errno: Option<i32>) {
        if let Some(errno) = errno.filter(|errno| is_a_fault(*errno, self.is_terminal())) {
            kern::own::complain(Fault::sys(errno, "read standard input for the program, which sees its end"));
        }
    }

    /// Passes on what was read; false at the end of it.
    fn give(&self, got: Result<usize, i32>) -> bool {
        match got {
            Err(EAGAIN | EINTR) => true,
            Ok(n) if n > 0 => {
                self.takers.input(self.buffer[..n].to_vec());
                true
            }
            // A pipe can only say that it has ended.
            other => {
                self.explain(other.err());
                self.takers.input(Vec::new());
                false
            }
        }
    }
}

/// Is it news that input ends so? Not when it is only open for writing (nohup(1)), nor for a terminal that is gone, or a group that nobody can continue (EIO).
fn is_a_fault(errno: i32, terminal: bool) -> bool {
    errno != EBADF && !(terminal && errno == EIO)
}

fn is_readable(fd: BorrowedFd<'_>) -> bool {
    poll(&[(fd, Ready::READ)], 0).is_ok_and(|ready| ready[0].readable || ready[0].over)
}
