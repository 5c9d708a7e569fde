//! A channel that is dialled again, since who was to relay has not had it.

use super::channel::Channel;
use super::dial::{deadline, Line};
use super::watch::{Slot, Watch};
use vocab::{Fault, Result};

impl Channel {
    /// It may break until its handshake is done: then it waits for [`Channel::redialled`].
    pub(super) fn waiting(mut self) -> Channel {
        self.waits = true;
        self
    }

    /// It has broken before, and waits as long as the front end's daemon may: how long that is the node knows, which ends all when that is over.
    pub(super) fn breaks(&mut self, fault: &Fault) {
        tracing::debug!(streams = self.number, %fault, "waits for another channel");
        self.deadline = None;
        self.is_on(Line::Broken);
    }

    /// This is to be its line, unless it has one, or is about to by the same token: that works once.
    pub(super) fn redialled(mut self, token: [u8; 16], line: Line) -> Channel {
        let is_about_to = self.again == Some(token) && !matches!(self.line, Line::Broken);
        if !matches!(self.line, Line::Open(_)) && !is_about_to {
            tracing::debug!(streams = self.number, "dials again");
            (self.deadline, self.again) = (Some(deadline()), Some(token));
            self.is_on(line);
        }
        self
    }

    /// Nobody is to have these streams: it waits for nothing any more.
    pub(super) fn in_vain(mut self) -> Result<Channel> {
        self.leaving.waits_no_more(self.number);
        match std::mem::take(&mut self.waits) && matches!(self.line, Line::Broken) {
            true => Err(Fault::gone("dial again: the process does not come")),
            false => Ok(self),
        }
    }

    pub(super) fn is_on(&mut self, line: Line) {
        // The one before leaves the poller by itself.
        (self.line, self.watches[Slot::Line as usize]) = (line, Watch::default());
    }
}
