//! The two sides of a program's descriptors 0, 1 and 2.

use super::terminal::Terminal;
use super::StreamsId;
use crate::looking::Input;
use kern::pty::{self, Modes};
use kern::sys::{pipe, set_nonblocking};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use vocab::{Creds, Fault, Result};
use wire::run::Stdio;

/// The program's side: all close-on-exec, so the setup duplicates them onto 0, 1 and 2.
#[derive(Debug)]
pub struct ChildEnds {
    pub id: StreamsId,
    pub stdin: OwnedFd,
    pub stdout: OwnedFd,
    pub stderr: OwnedFd,
    /// They are one terminal, which the program is to make its controlling terminal (setsid, TIOCSCTTY).
    pub terminal: bool,
}

impl ChildEnds {
    /// Makes them the user's, as if the user had made them: a pipe so that the program can open it by its name (/dev/stdin, proc_pid_fd(5)), a terminal as
    /// login(1) does.
    ///
    /// # Errors
    /// `Sys` as fchown(2).
    pub(crate) fn give(&self, creds: &Creds) -> Result<()> {
        let (uid, gid) = (creds.uid.effective, creds.gid.effective);
        match self.terminal {
            true => pty::give(self.stdin.as_fd(), uid),
            false => [&self.stdin, &self.stdout, &self.stderr].into_iter().try_for_each(|pipe| {
                std::os::unix::fs::fchown(pipe, Some(uid), Some(gid))
                    .map_err(|e| Fault::io(&e, "give a standard stream to its user"))
            }),
        }
    }
}

/// Our side, nonblocking.
#[derive(Debug)]
pub(super) struct OurEnds {
    pub(super) kind: Ends,
    /// Which file the program's input is.
    pub(super) file: Option<Input>,
}

/// What they are.
#[derive(Debug)]
pub(super) enum Ends {
    Pipes { input: OwnedFd, outputs: [OwnedFd; 2] },
    Terminal(Arc<Terminal>),
}

impl OurEnds {
    pub(super) fn terminal(&self) -> Option<Arc<Terminal>> {
        match &self.kind {
            Ends::Pipes { .. } => None,
            Ends::Terminal(terminal) => Some(terminal.clone()),
        }
    }

    /// The numbers of the pipes' files, in the order of the streams; none of a terminal.
    ///
    /// # Errors
    /// As fstat(2).
    pub(super) fn pipes(&self) -> Result<Option<[u64; 3]>> {
        let number = |fd: &OwnedFd| {
            let stat = rustix::fs::fstat(fd).map_err(|e| Fault::sys(e.raw_os_error(), "look at a pipe"))?;
            Ok(stat.st_ino)
        };
        match &self.kind {
            Ends::Pipes { input, outputs: [output, errors] } => {
                Ok(Some([number(input)?, number(output)?, number(errors)?]))
            }
            Ends::Terminal(_) => Ok(None),
        }
    }
}

pub(super) fn make(id: StreamsId, stdio: &Stdio) -> Result<(ChildEnds, OurEnds)> {
    match stdio {
        Stdio::Pipes => {
            let ((stdin, input), (output, stdout), (errors, stderr)) = (pipe()?, pipe()?, pipe()?);
            for fd in [&input, &output, &errors] {
                set_nonblocking(fd.as_fd(), true)?;
            }
            let ends = ChildEnds { id, stdin, stdout, stderr, terminal: false };
            let file = Input::of_pipe(&input);
            Ok((ends, OurEnds { kind: Ends::Pipes { input, outputs: [output, errors] }, file }))
        }
        Stdio::Terminal { window, term } => {
            let (master, slave) = pty::open()?;
            let modes = Modes::from_bytes(term);
            pty::furnish(&slave, modes.as_ref(), window.rows, window.columns)?;
            set_nonblocking(master.as_fd(), true)?;
            let file = Input::of_terminal(&slave);
            let copy = || slave.try_clone().map_err(|e| Fault::io(&e, "duplicate a terminal"));
            let peer = copy()?;
            let ends = ChildEnds { id, stdin: copy()?, stdout: copy()?, stderr: slave, terminal: true };
            let terminal = Terminal::new(Arc::new(master), peer);
            Ok((ends, OurEnds { kind: Ends::Terminal(Arc::new(terminal)), file }))
        }
    }
}
