//! The processes that look: one that starts them, and at most one for each who asks, which may hang.

use super::entries;
use super::line::{Asked, Question, Said, COMMAND};
use super::reader::may_await;
use kern::ns::{self, Child, Forked, Namespaces};
use kern::poll::{poll, Ready};
use kern::proc::Proc;
use kern::{own, pidfd, signal, sock, sys, wait};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use vocab::{Pid, Result, Sig};

/// Those who ask.
pub(super) const LINES: usize = 4;
/// What one keeps of the memory that it needs for an answer, in bytes.
const KEPT: usize = 1 << 20;
/// Milliseconds that the processes have to end after the agent has.
const END_MS: i32 = 1_000;

/// The other ends of the [`super::Looker`]s.
#[derive(Debug)]
pub(crate) struct Server {
    begin: OwnedFd,
    lines: [OwnedFd; LINES],
}

/// The process that starts others.
#[derive(Debug)]
pub(crate) struct Running(Child);

impl Server {
    pub(super) fn new(begin: OwnedFd, lines: [OwnedFd; LINES]) -> Server {
        Server { begin, lines }
    }

    /// Starts it for an agent of this process, which must have one thread. `native`: where the agent's procfs is, as that sees it.
    ///
    /// # Errors
    /// As [`ns::fork`].
    pub(crate) fn start(self, agent: Pid, native: &Path) -> Result<Running> {
        let parent = Pid(std::process::id() as i32);
        match ns::fork(Namespaces::empty())? {
            Forked::Child => {
                ns::exit(match self.run(agent, native, parent) {
                    Ok(()) => 0,
                    Err(fault) => {
                        tracing::warn!(%fault, "nobody looks at processes");
                        1
                    }
                });
            }
            Forked::Parent(child) => Ok(Running(child)),
        }
    }

    /// Starts a process for each byte, in place of the one before, until nobody can ask any more.
    fn run(self, agent: Pid, native: &Path, parent: Pid) -> Result<()> {
        own::die_with_parent(Sig::KILL, parent)?;
        ns::set_name("shoal:lookers")?;
        // As seen from here: the numbers there are the space's.
        let proc = PathBuf::from(format!("/proc/{agent}/root{}", native.display()));
        let me = Pid(std::process::id() as i32);
        let mut now: [Option<Pid>; LINES] = [None; LINES];
        let mut which = [0];
        loop {
            let read = sys::read(self.begin.as_fd(), &mut which);
            if read == Err(kern::poll::EINTR) {
                continue;
            }
            let which = usize::from(which[0]).min(LINES - 1);
            let over = read != Ok(1);
            for old in now.iter_mut().enumerate().filter(|(n, _)| over || *n == which).filter_map(|(_, old)| old.take())
            {
                // Nobody has waited for it, so it is still that process. It may not end before what it waits for has come.
                let _ = signal::send(old, Sig::KILL);
            }
            if over {
                while wait::ended(Pid(-1)).is_ok() {}
                return Ok(());
            }
            while let Ok(Some(_)) = wait::any() {}
            now[which] = own::fork()?;
            if now[which].is_none() {
                // It ends with the one that starts it, or when nobody can ask.
                let _ = own::die_with_parent(Sig::KILL, me).and_then(|()| ns::set_name("shoal:looker"));
                drop(self.begin);
                own::keep_freed(KEPT);
                serve(&self.lines[which], &proc);
                ns::exit(0);
            }
        }
    }
}

impl Running {
    /// Waits for its end, now that the agent has ended; not for ever.
    pub(crate) fn end(self) {
        let over = poll(&[(self.0.pidfd.as_fd(), Ready::READ)], END_MS);
        if !over.is_ok_and(|ready| ready[0].readable) {
            // Ended already is as good.
            let _ = pidfd::kill(self.0.pidfd.as_fd(), Sig::KILL);
        }
        let _ = wait::ended(self.0.pid);
    }
}

/// Answers what comes over the line until nobody can ask any more.
pub(super) fn serve(line: &OwnedFd, proc: &Path) {
    // A question has at most 48 bytes for each program whose input is asked for, and 8 for each process.
    let mut packet = vec![0; 1 << 18];
    let mut open = None;
    loop {
        match sys::read(line.as_fd(), &mut packet) {
            Ok(0) => return,
            Ok(length) => {
                let answered = Asked::of(&packet[..length]).map(|asked| look(line, proc, &mut open, &asked));
                if answered == Some(None) {
                    return;
                }
            }
            Err(kern::poll::EINTR) => {}
            Err(_) => return,
        }
    }
}

/// Looks at all processes, those of root first, then by users. `None`: nobody listens any more.
fn look(line: &OwnedFd, path: &Path, open: &mut Option<Proc>, asked: &Asked) -> Option<()> {
    let say = |said: Said| sock::send(line.as_fd(), &said.packet(asked.number)).ok().map(drop);
    if open.is_none() {
        *open = Proc::open(&path.to_string_lossy()).ok();
    }
    let Some(proc) = open else { return say(Said::End) };
    if let Question::Entries(pids, of) = &asked.question {
        let found = entries::Pieces { say: &say, piece: Vec::new(), path, proc };
        return found.look(pids, of, &asked.passed_over, asked.at);
    }
    let user = |pid: Pid| Some((proc.status(pid).ok()?.creds.uid.real, pid));
    let concerned = |pid: &Pid| asked.question == Question::Commands || may_await(path, *pid);
    let all = proc.pids().unwrap_or_default().into_iter().filter(concerned);
    let mut all: Vec<(u32, Pid)> = all.filter_map(user).collect();
    all.retain(|(uid, _)| !asked.passed_over.contains(uid));
    all.sort_unstable();
    let mut open = match &asked.question {
        Question::Awaited(inputs) => inputs.clone(),
        Question::Commands | Question::Entries(..) => Vec::new(),
    };
    let mut at = None;
    for (uid, pid) in all {
        if at.replace(uid) != Some(uid) {
            say(Said::At { uid })?;
        }
        if asked.question == Question::Commands {
            let words = proc.cmdline(pid, COMMAND).unwrap_or_default();
            say(Said::Command { pid, words })?;
            continue;
        }
        let mut found = Vec::new();
        open.retain(|(id, input, waits)| {
            let awaited = input.is_awaited_in(path, pid, *waits);
            found.extend(awaited.then_some(*id));
            !awaited
        });
        found.into_iter().try_for_each(|id| say(Said::Awaited { id }))?;
        if open.is_empty() {
            break;
        }
    }
    say(Said::End)
}
