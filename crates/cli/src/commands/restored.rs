//! The command that has restored a process is that process to its caller: it passes on signals, stops as it does, and ends as it does.

use kern::init::{signal_group, SignalFd};
use kern::poll::{poll, Ready};
use kern::proc::{group_and_session, root, Proc};
use kern::wait::{try_one, Change};
use kern::{pty, signal};
use std::fs::File;
use std::os::fd::AsFd;
use vocab::errno::EINTR;
use vocab::{Exit, Fault, Pid, Result, Sig};

/// What is passed on if somebody sends it to the command. SIGTTIN and SIGTTOU are the command's own.
pub(super) const PASSED_ON: [Sig; 9] =
    [Sig::HUP, Sig::INT, Sig::QUIT, Sig::TERM, Sig::USR1, Sig::USR2, Sig::CONT, Sig::TSTP, Sig::WINCH];

/// Blocks until the process has ended.
pub(super) fn accompany(pid: Pid, reads: Reads) -> Result<Exit> {
    let ignored = signal::inherited_ignored();
    let kept: Vec<Sig> = PASSED_ON.into_iter().filter(|sig| !ignored.has(*sig)).chain([Sig::CHLD]).collect();
    let signals = SignalFd::new(&kept)?;
    let mut one = Restored::new(pid, reads);
    one.give_terminal();
    loop {
        one.looks_again(reads);
        // Before it is waited for: what has changed by now raised no signal that is read here.
        while let Some(waited) = try_one(pid).map_err(|errno| Fault::sys(errno, format!("wait for process {pid}")))? {
            match waited.change {
                Change::Ended(exit) => {
                    one.take_terminal();
                    return Ok(exit);
                }
                Change::Stopped(sig) if one.apart => one.stop(sig)?,
                Change::Stopped(_) | Change::Continued => {}
            }
        }
        match poll(&[(signals.as_fd(), Ready::READ)], -1) {
            Ok(_) | Err(EINTR) => {}
            Err(errno) => return Err(Fault::sys(errno, "wait for a signal")),
        }
        while let Some((sig, by)) = signals.take_sent()? {
            one.hear(sig, by)?;
        }
    }
}

/// From whom the process has what is typed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Reads {
    Itself,
    /// From the command, which passes it on to where the process is: that keeps the terminal. It is in the group of the image only some time after it was made.
    Command,
}

/// The process.
struct Restored {
    pid: Pid,
    /// Is it in a group of its own? What the terminal and the shell do to the command's group does not reach it then.
    apart: bool,
    /// The terminal of the session that it has in common with the command.
    terminal: Option<File>,
    /// The command's group.
    ours: Pid,
}

impl Restored {
    fn new(pid: Pid, reads: Reads) -> Restored {
        let own = Pid(std::process::id() as i32);
        let (ours, session) = group_and_session(own).unwrap_or((own, own));
        let its = group_and_session(pid);
        let apart = its.is_some_and(|(group, _)| group != ours);
        let shares = apart && reads == Reads::Itself && its == Some((pid, session));
        let terminal = shares.then(|| File::open("/dev/tty").ok()).flatten();
        Restored { pid, apart, terminal, ours }
    }

    fn looks_again(&mut self, reads: Reads) {
        if reads == Reads::Command {
            self.apart = group_and_session(self.pid).is_some_and(|(group, _)| group != self.ours);
        }
    }

    /// It leads a group, which is to have the keys and may read, if the command may; `false` if not.
    fn give_terminal(&self) -> bool {
        self.hand(self.ours, self.pid)
    }

    fn take_terminal(&self) {
        self.hand(self.pid, self.ours);
    }

    /// Where the terminal is gone there is nobody to have it.
    fn hand(&self, from: Pid, to: Pid) -> bool {
        let terminal = self.terminal.as_ref().filter(|one| pty::foreground(one.as_fd()) == Some(from));
        terminal.is_some_and(|terminal| pty::set_foreground(terminal.as_fd(), to).is_ok())
    }

    /// It has stopped: so does all of the command's job, until that is continued.
    fn stop(&self, sig: Sig) -> Result<()> {
        if matches!(sig, Sig::TTIN | Sig::TTOU) && self.give_terminal() {
            return self.send(Sig::CONT);
        }
        self.take_terminal();
        if matches!(sig, Sig::TSTP | Sig::TTIN | Sig::TTOU) && self.terminal.is_some() {
            // Others of a pipeline; what comes to the command itself by that is no news.
            signal_group(self.ours, Sig::TSTP)?;
        }
        signal::suffer(Sig::STOP)
    }

    /// `by`: who has sent it, if that was not the kernel.
    fn hear(&self, sig: Sig, by: Option<Pid>) -> Result<()> {
        match sig {
            Sig::CHLD => Ok(()),
            Sig::TSTP if !self.apart => signal::suffer(sig),
            // The terminal's keys and the shell's going on reach the whole group, of which it is, and so does what it sends to that.
            _ if !self.apart && by.is_none_or(|by| sig == Sig::CONT || self.is_its(by)) => Ok(()),
            Sig::CONT => {
                self.give_terminal();
                self.send(sig)
            }
            _ => self.send(sig),
        }
    }

    /// Is this the process, or one that descends from it?
    fn is_its(&self, by: Pid) -> bool {
        let Ok(proc) = Proc::open(root()) else { return false };
        let parents = std::iter::successors(Some(by), |one| proc.stat(*one).ok().map(|stat| stat.ppid));
        parents.take_while(|one| one.0 > 1).any(|one| one == self.pid)
    }

    fn send(&self, sig: Sig) -> Result<()> {
        match signal::send(self.pid, sig) {
            // Another user's by now: it has to be signalled by who may.
            Ok(()) | Err(vocab::errno::ESRCH | vocab::errno::EPERM) => Ok(()),
            Err(errno) => Err(Fault::sys(errno, format!("send {sig} to process {}", self.pid))),
        }
    }
}
