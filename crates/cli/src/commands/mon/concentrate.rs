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
use vocab::{Fault, Result};

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
        kern::capability::give_up()?;
        if let Some(own) = self.from.iter().find(|from| self.is_own(&from.address)) {
            return Err(Fault::refused(format!("ask {}: that is where this one is to listen", own.label())));
        }
        let within_us = u64::try_from(self.within.as_micros()).unwrap_or(u64::MAX);
        let mut server = Server::new(Concentrator::new(self.from, within_us))?;
        let places = self.listen.into_iter().map(Place::Tcp).chain(self.socket.map(Place::Unix));
        for place in places {
            server.listen(place.listen()?)?;
        }
        serve(&mut server, Vec::new())
    }
}

impl Concentrate {
    /// Would it ask itself?
    fn is_own(&self, address: &Address) -> bool {
        match address {
            Address::Unix(path) => {
                let whole = |path: &PathBuf| std::path::absolute(path).unwrap_or_else(|_| path.clone());
                self.socket.as_ref().is_some_and(|own| whole(own) == whole(path))
            }
            Address::Tcp(to) => self.listen.iter().any(|own| {
                let here = own.ip().is_unspecified() && (to.ip().is_loopback() || to.ip().is_unspecified());
                own.port() == to.port() && (own.ip() == to.ip() || here)
            }),
        }
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
