//! `shoal mon concentrate`: the samples of many as one.

use super::serve::{serve, Place};
use clap::Args;
use sample::concentrate::Concentrator;
use sample::gather::{Address, From};
use sample::serve::Server;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use vocab::Result;

/// Serve the samples of many monitors, or of other concentrators, as one
#[derive(Args, Debug)]
pub(crate) struct Concentrate {
    /// A monitor: ADDRESS[:PORT] (port 7708 by default) or the path of a socket; as NAME=ADDRESS its sample gets that name
    #[arg(long, value_name = "[NAME=]ADDRESS", value_parser = from, num_args = 1.., required = true)]
    from: Vec<From>,
    /// Listen at this TCP address; port 7708 by default. Whoever can connect may read
    #[arg(long, value_name = "ADDRESS[:PORT]", value_parser = crate::address::monitor)]
    listen: Vec<SocketAddr>,
    /// Listen at this Unix socket, where every user may connect
    #[arg(long, value_name = "PATH", required_unless_present = "listen")]
    socket: Option<PathBuf>,
    /// Who has not answered within this time is marked, and delays nobody until it answers again
    #[arg(long, value_name = "TIME", value_parser = crate::config::span, default_value = "100ms")]
    within: Duration,
}

impl Concentrate {
    pub(crate) fn run(self) -> Result<ExitCode> {
        crate::log::to_stderr();
        kern::own::raise_files()?;
        kern::own::give_up_capabilities()?;
        let within_us = u64::try_from(self.within.as_micros()).unwrap_or(u64::MAX);
        let mut server = Server::new(Concentrator::new(self.from, within_us))?;
        let places = self.listen.into_iter().map(Place::Tcp).chain(self.socket.map(Place::Unix));
        for place in places {
            server.listen(place.listen()?)?;
        }
        serve(&mut server, Vec::new())
    }
}

/// For flags: where a monitor is, and perhaps its name.
pub(super) fn from(text: &str) -> std::result::Result<From, String> {
    let (name, place) = match text.split_once('=') {
        Some((name, place)) => (Some(name.to_string()), place),
        None => (None, text),
    };
    let address = match place.contains('/') {
        true => Address::Unix(place.into()),
        false => Address::Tcp(crate::address::monitor(place)?),
    };
    Ok(From { name, address })
}
