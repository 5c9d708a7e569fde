//! Handles on bodies and stand-ins that leave: each tells the end, and then that its parent has waited for it.

use crate::agent::{Agent, Token};
use crate::bodies::Life;
use kern::clock::monotonic_us;
use kern::epoll::Interest;
use kern::pidfd;
use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use tracing::warn;
use vocab::errno::ESRCH;
use vocab::Pid;

/// Where the kernel does not tell who was waited for, all are looked at after so many microseconds: soon after an end, as most are waited for at once, then ever more rarely.
const FIRST_LOOK_US: u64 = 1_000;
const LAST_LOOK_US: u64 = 50_000;
/// And not sooner than this for each: a look at one takes some 0.3 us.
const FOR_EACH_US: u64 = 10;

pub(crate) struct Handles {
    of: HashMap<Pid, OwnedFd>,
    /// Does the kernel tell that one was waited for?
    told: bool,
    /// When all are looked at next (monotonic), and how long after that once more.
    look_us: Option<u64>,
    pause_us: u64,
}

impl Handles {
    pub(crate) fn new() -> Handles {
        Handles { of: HashMap::new(), told: pidfd::tells_of_waits(), look_us: None, pause_us: FIRST_LOOK_US }
    }

    pub(crate) fn has(&self, pid: Pid) -> bool {
        self.of.contains_key(&pid)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.of.is_empty()
    }

    pub(crate) fn pids(&self) -> impl Iterator<Item = Pid> + '_ {
        self.of.keys().copied()
    }

    pub(crate) fn due_us(&self) -> Option<u64> {
        self.look_us
    }

    /// One more waits for its parent to wait.
    fn look_soon(&mut self, now: u64) {
        if !self.told {
            self.pause_us = FIRST_LOOK_US.max(self.of.len() as u64 * FOR_EACH_US);
            self.look_us = Some(now + self.pause_us);
        }
    }

    /// Those of which nothing is left; it is looked again while there are others.
    fn gone(&mut self, now: u64) -> Vec<Pid> {
        let is_gone = |fd: &OwnedFd| pidfd::is_there(fd.as_fd()) == Err(ESRCH);
        let gone: Vec<_> = self.of.iter().filter(|(_, fd)| is_gone(fd)).map(|(pid, _)| *pid).collect();
        self.pause_us = (self.pause_us * 2).min(LAST_LOOK_US).max(self.of.len() as u64 * FOR_EACH_US);
        self.look_us = (gone.len() < self.of.len()).then_some(now + self.pause_us);
        gone
    }
}

impl Agent {
    /// Waits for the end of a body, or (with no interest) for its parent to wait.
    pub(crate) fn handle(&mut self, pid: Pid, interest: Interest) {
        let token = Token::Body(pid).number();
        if interest == Interest::empty() {
            self.handles.look_soon(monotonic_us());
        }
        let polled = match self.handles.of.get(&pid) {
            Some(fd) => self.poller.modify(fd.as_fd(), token, interest),
            None => match pidfd::open(pid) {
                Ok(fd) => {
                    let added = self.poller.add(fd.as_fd(), token, interest);
                    self.handles.of.insert(pid, fd);
                    added
                }
                // Its parent has waited for it since the look that found it ended: nothing more tells of that.
                Err(ESRCH) if self.bodies.get(pid).is_some_and(|body| body.life == Life::Ended) => {
                    self.seen_reaped(pid);
                    Ok(())
                }
                Err(_) => {
                    self.leaving.insert(pid); // gone in between: told by the next look
                    Ok(())
                }
            },
        };
        if let Err(fault) = polled {
            warn!(%pid, %fault, "cannot watch a body that leaves");
        }
    }

    /// A handle is ready: the body has ended, or its parent has waited.
    pub(crate) fn handle_ready(&mut self, pid: Pid, hangup: bool) {
        match self.bodies.get(pid).map(|body| body.life) {
            None if self.is_ending_runner(pid) => {
                if hangup {
                    self.runner_reaped(pid);
                }
            }
            Some(Life::Ended) if hangup => self.seen_reaped(pid),
            Some(Life::Ended) => {}
            // The look, with the next batch, decides what to wait for next. Until then it must not be polled: the hangup of one that was
            // waited for cannot be masked.
            _ => {
                self.leaving.insert(pid);
                self.drop_handle(pid);
            }
        }
    }

    pub(crate) fn drop_handle(&mut self, pid: Pid) {
        if let Some(fd) = self.handles.of.remove(&pid) {
            // A copy of it may be in a child on its way to exec, so closing alone is not enough.
            let _ = self.poller.remove(fd.as_fd());
        }
    }

    /// Looks who was waited for, where nothing else tells.
    pub(crate) fn look_who_was_waited_for(&mut self, now: u64) {
        for pid in self.handles.gone(now) {
            self.handle_ready(pid, true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command};

    fn zombie(handles: &mut Handles) -> (Pid, Child) {
        let mut child = Command::new("sleep").arg("60").spawn().expect("sleep(1)");
        let pid = Pid(child.id() as i32);
        handles.of.insert(pid, pidfd::open(pid).expect("my child"));
        child.kill().expect("my child");
        handles.look_soon(0);
        (pid, child)
    }

    #[test]
    fn looks_find_who_was_waited_for_where_nothing_tells() {
        let mut handles = Handles { told: false, ..Handles::new() };
        assert_eq!(handles.due_us(), None);
        let ((first, mut child), (second, mut other)) = (zombie(&mut handles), zombie(&mut handles));
        assert_eq!(handles.due_us(), Some(FIRST_LOOK_US));
        assert_eq!(handles.gone(1_000), []);
        assert_eq!(handles.due_us(), Some(1_000 + 2 * FIRST_LOOK_US));
        child.wait().expect("my child");
        assert_eq!(handles.gone(10_000), [first]);
        assert!(handles.due_us().is_some(), "there is another");
        handles.of.remove(&first);
        (0..20).for_each(|_| assert_eq!(handles.gone(20_000), []));
        assert_eq!(handles.due_us(), Some(20_000 + LAST_LOOK_US));
        other.wait().expect("my child");
        assert_eq!(handles.gone(90_000), [second]);
        assert_eq!(handles.due_us(), None);
    }

    #[test]
    fn no_look_is_needed_where_the_kernel_tells() {
        let mut handles = Handles { told: true, ..Handles::new() };
        let (_, mut child) = zombie(&mut handles);
        assert_eq!(handles.due_us(), None);
        child.wait().expect("my child");
    }
}
