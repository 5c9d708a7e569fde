//! The process that shows programs the whole space in /proc is kept, if they are to see it.

use crate::agent::{Agent, Token};
use kern::clock::monotonic_us;
use kern::epoll::Interest;
use vocab::{Pid, Result};

impl Agent {
    /// Starts it, and again where it has ended or is stuck.
    pub(crate) fn keep_view(&mut self, now: u64) -> Result<()> {
        let Some(view) = &mut self.view else { return Ok(()) };
        if view.due_us() > now || !view.look_after(now) {
            return Ok(());
        }
        // A descriptor that is closed leaves epoll by itself.
        view.fd().map_or(Ok(()), |line| self.poller.add(line, Token::View.number(), Interest::READ))
    }

    pub(crate) fn hear_view(&mut self) {
        if let Some(view) = &mut self.view {
            view.hear(monotonic_us());
        }
    }

    /// Is this process that one?
    pub(crate) fn is_view(&self, pid: Pid) -> bool {
        self.view.as_ref().is_some_and(|view| view.is(pid))
    }
}
