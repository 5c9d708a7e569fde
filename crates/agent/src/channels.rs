//! The channels to the front end over which the streams of programs go.

use crate::agent::Agent;
use crate::streams::{ChildEnds, Open, To};
use std::net::SocketAddr;
use tracing::{info, warn};
use vocab::{Fault, Pid, Result};
use wire::node::ChannelTo;
use wire::run::Program;

impl Agent {
    pub(crate) fn open_streams(&self, program: &Program, channel: &ChannelTo) -> Result<ChildEnds> {
        self.gates.room()?;
        let (address, token, key) = self.dials(channel)?;
        let to = To::Dial { address, token };
        self.streams.open(Open { to, key, stdio: program.stdio.clone(), waits: channel.waits })
    }

    /// The channel of one that has come, or is to, was lost with a daemon of the front end.
    pub(crate) fn redial(&mut self, pid: Pid, channel: &ChannelTo) {
        let arrives = self.moving.streams_of(pid);
        let starts = &self.starts;
        let known = || starts.programs.get(&pid).or_else(|| starts.ended.get(&pid)).copied();
        let Some(streams) = arrives.or_else(known) else { return };
        let done =
            self.dials(channel).and_then(|(address, token, key)| self.streams.redial(streams, (address, token), key));
        match done {
            Ok(()) => info!(%pid, "streams: dials again"),
            // The front end says it again when the link is back.
            Err(fault) => warn!(%pid, %fault, "streams"),
        }
    }

    fn dials(&self, channel: &ChannelTo) -> Result<(SocketAddr, [u8; 16], [u8; 32])> {
        let peer = self.uplink.peer().ok_or_else(|| Fault::gone("open the channel: no link"))?;
        let address = match channel.address.as_str() {
            "" => peer,
            text => text.parse().map_err(|_| Fault::wire(format!("the channel's address {text:?} is none")))?,
        };
        let wrong = |_| Fault::wire("a channel's token or key has a wrong length");
        let token = channel.token.as_slice().try_into().map_err(wrong)?;
        let key = channel.key.as_slice().try_into().map_err(wrong)?;
        Ok((address, token, key))
    }
}
