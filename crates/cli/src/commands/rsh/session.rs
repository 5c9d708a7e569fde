//! `shoal session`: the node's side of `shoal rsh`. Two processes hold the session of a command together, so that nothing of the session outlives
//! its caller by accident.
//!
//! The *outer* process is the one that the space knows as the program of `shoal rsh`. The *inner* one is its child, in a session of its own, and
//! the command is the inner one's child, in a session of its own too, as rshd and sshd give one. Both are subreapers: whatever the command makes
//! stays below them, in whichever groups and sessions. Each watches its parent by the kernel's signal at the parent's end (PR_SET_PDEATHSIG):
//! - the caller of `shoal rsh` ends: the outer process kills everything below, unless the command ends well at the same time, as one does that has
//!   put a daemon into the background (PVM's caller ends as soon as the daemon has said that it is there);
//! - the outer process is killed, by SIGKILL too: the inner one kills everything below;
//! - the inner one is killed: the outer one has its orphans, and kills them.

use kern::init::{signal_group, SignalFd};
use kern::poll::{poll, poll_for, Ready};
use kern::proc::{self, Proc};
use kern::{ns, own, pidfd, signal, sys, wait};
use std::collections::HashSet;
use std::ffi::OsString;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use vocab::{Exit, Fault, Pid, Result, Sig, SigSet};

/// The kernel's signal at the end of the parent: the last real-time signal, which no launcher uses.
const PARENT_ENDED: u8 = 64;

/// Signals that are for the command, as rsh passes them on.
const PASSED_ON: [Sig; 6] = [Sig::HUP, Sig::INT, Sig::QUIT, Sig::TERM, Sig::USR1, Sig::USR2];
/// After one of these the command's end is the end of its session.
const ENDING: [Sig; 4] = [Sig::HUP, Sig::INT, Sig::QUIT, Sig::TERM];

/// How long a command may take to end well after its caller has ended. A launcher's helper that notices the loss of its launcher ends with an error.
const GRACE: Duration = Duration::from_millis(700);

/// How long killed processes may take until they have ended. Those that this user may not kill (set-user-ID programs) are left after it.
const PATIENCE: Duration = Duration::from_secs(5);
/// From one look for processes to kill to the next, unless one ends earlier: one may fork while it is looked for.
const LOOK_MS: i32 = 20;

/// Hold the session of a command that `shoal rsh` has started here
#[derive(clap::Args, Debug)]
pub(crate) struct Session {
    /// The caller of `shoal rsh`, with whose end the session ends
    #[arg(long)]
    parent: i32,
    /// Where the command runs, if that is a directory here
    #[arg(long)]
    directory: OsString,
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    program: Vec<OsString>,
}

impl Session {
    pub(crate) fn run(self) -> Result<ExitCode> {
        ns::set_name("shoal:rsh")?;
        let mask = signal::blocked()?;
        let hold = Hold::begin(Pid(self.parent), GRACE)?;
        self.enter_directory();
        let outer = Pid(std::process::id() as i32);
        match own::fork()? {
            Some(inner) => {
                leave_streams()?;
                end_as(hold.follow(inner, Whom::Process))
            }
            None => {
                let ended = self.inner(outer, mask);
                let fault = ended.err().unwrap_or_else(|| Fault::bug("the command has no end"));
                own::complain(fault);
                ns::exit(client::run::FAILED.into())
            }
        }
    }

    /// The inner process.
    fn inner(self, outer: Pid, mask: SigSet) -> Result<ExitCode> {
        ns::new_session()?;
        let hold = Hold::begin(outer, Duration::ZERO)?;
        match own::fork()? {
            Some(command) => {
                leave_streams()?;
                end_as(hold.follow(command, Whom::Group))
            }
            None => {
                ns::new_session()?;
                signal::set_mask(mask)?;
                let words =
                    self.program.iter().map(|word| sys::cstring(word.as_bytes())).collect::<Result<Vec<_>>>()?;
                Err(Fault::sys(own::exec(&words), format!("execute {}", self.program[0].to_string_lossy())))
            }
        }
    }

    /// The caller's directory, else the user's home, else the root directory, in which this process is.
    fn enter_directory(&self) {
        let home = std::env::var_os("HOME").unwrap_or_default();
        let _in_root = [&self.directory, &home]
            .into_iter()
            .filter(|directory| Path::new(directory).is_absolute())
            .any(|directory| std::env::set_current_dir(directory).is_ok());
    }
}

/// The streams are the command's alone: who reads its output sees the end when the command has closed them.
fn leave_streams() -> Result<()> {
    (0..=2).try_for_each(own::close_standard)
}

/// Who gets signals that are for the command.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Whom {
    Process,
    Group,
}

/// One of the two processes.
struct Hold {
    signals: SignalFd,
    parent: Pid,
    grace: Duration,
}

impl Hold {
    /// # Errors
    /// `Gone` when the parent has ended already.
    fn begin(parent: Pid, grace: Duration) -> Result<Hold> {
        // A caller that ignores SIGCHLD hands that down; its children would never be waited for.
        signal::set_default(Sig::CHLD)?;
        let parent_ended = Sig::new(PARENT_ENDED).ok_or_else(|| Fault::bug("there is no last signal"))?;
        let signals = SignalFd::new(&[&PASSED_ON[..], &[Sig::CHLD, parent_ended]].concat())?;
        own::take_orphans()?;
        // A caller outside of this PID namespace has no number here, and no end that could be seen.
        if parent != Pid::NONE {
            own::die_with_parent(parent_ended, parent)?;
        }
        Ok(Hold { signals, parent, grace })
    }

    /// Waits for the end of `child`, passes signals on to it, and kills what is left where the session has ended with it.
    fn follow(&self, child: Pid, whom: Whom) -> Result<Exit> {
        let (mut asked_to_end, mut until) = (false, None);
        loop {
            while let Some(sig) = self.signals.take()? {
                if sig.number() == PARENT_ENDED {
                    // The signal comes for the end of the parent's thread too that has forked this process.
                    if std::os::unix::process::parent_id() as i32 != self.parent.0 {
                        until.get_or_insert(Instant::now() + self.grace);
                    }
                } else if sig != Sig::CHLD {
                    asked_to_end |= ENDING.contains(&sig);
                    // A command that has just ended needs no signal.
                    let _ended = match whom {
                        Whom::Process => signal::send(child, sig).map_err(|errno| Fault::sys(errno, "pass on")),
                        Whom::Group => signal_group(child, sig),
                    };
                }
            }
            if let Some(exit) = reap(child) {
                let well = if until.is_some() { exit == Exit::Code(0) } else { matches!(exit, Exit::Code(_)) };
                if asked_to_end || !well {
                    self.kill_rest()?;
                }
                return Ok(exit);
            }
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                self.kill_rest()?;
                return Ok(Exit::Killed { sig: Sig::KILL, core: false });
            }
            // Interrupted or not: the signals are looked at again.
            let _ = poll_for(&[(self.signals.as_fd(), Ready::READ)], left);
        }
    }

    /// Kills all descendants of this process, and those that they fork meanwhile.
    fn kill_rest(&self) -> Result<()> {
        let proc = Proc::open(proc::root())?;
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            kill_descendants(&proc);
            loop {
                match wait::any() {
                    Ok(Some(_)) => {}
                    Ok(None) => break,
                    Err(_no_child) => return Ok(()),
                }
            }
            let _ = poll(&[(self.signals.as_fd(), Ready::READ)], LOOK_MS);
            while self.signals.take()?.is_some() {}
        }
        Err(Fault::refused("end what the command has left: some of it cannot be killed"))
    }
}

/// The end of `child`, if it has come. Orphans that have ended are no longer in the way.
fn reap(child: Pid) -> Option<Exit> {
    loop {
        match wait::any() {
            Ok(Some(waited)) if waited.pid == child => {
                if let wait::Change::Ended(exit) = waited.change {
                    return Some(exit);
                }
            }
            Ok(Some(_)) => {}
            Ok(None) => return None,
            // Somebody else's child by now: not possible, and no reason to wait for ever.
            Err(_no_child) => return Some(Exit::NodeLost),
        }
    }
}

/// SIGKILL to each descendant. A number may be another process's by the time of the signal, so a descriptor is taken first, and its place in the
/// tree is looked at again.
fn kill_descendants(proc: &Proc) {
    let mut seen = HashSet::from([Pid(std::process::id() as i32)]);
    let mut todo: Vec<Pid> = seen.iter().copied().collect();
    while let Some(parent) = todo.pop() {
        for child in children(proc, parent) {
            let Ok(process) = pidfd::open(child) else { continue };
            let is_ours = proc.parent(child).is_ok_and(|now| seen.contains(&now));
            if is_ours && seen.insert(child) {
                let _ended = pidfd::kill(process.as_fd(), Sig::KILL);
                todo.push(child);
            }
        }
    }
}

/// The children of all threads of `pid`.
fn children(proc: &Proc, pid: Pid) -> Vec<Pid> {
    let threads = proc.tasks(pid).unwrap_or_default();
    threads.into_iter().flat_map(|tid| proc.children(tid).unwrap_or_default()).collect()
}

/// Ends this process as the command has ended.
fn end_as(ended: Result<Exit>) -> Result<ExitCode> {
    let exit = ended?;
    if let Exit::Killed { sig, .. } = exit {
        signal::suffer(sig)?;
    }
    std::process::exit(exit.shell_number())
}
