//! `shoal mon replay`: a trace as if it were now.

use super::serve::{serve, Place};
use crate::print;
use clap::Args;
use kern::clock::monotonic_us;
use kern::poll::poll_for;
use sample::replay::Replay as Player;
use sample::serve::Server;
use sample::text::{self, Form};
use sample::trace::Reader;
use sample::{Column, Sample};
use std::fs::File;
use std::io::BufReader;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use vocab::errno::EINTR;
use vocab::{Fault, Result};

/// Give what was recorded at the pace at which it was: to clients, as a monitor does, or else printed
#[derive(Args, Debug)]
pub(crate) struct Replay {
    /// What `shoal mon record` has written
    file: PathBuf,
    /// So many times as fast
    #[arg(long, value_name = "X", value_parser = speed, default_value = "1")]
    speed: f64,
    /// Listen at this TCP address; port 7708 by default. Behind the last sample it goes on to give the last
    #[arg(long, value_name = "ADDRESS[:PORT]", value_parser = crate::address::monitor)]
    listen: Vec<SocketAddr>,
    /// Listen at this Unix socket, where every user may connect
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Print JSON instead of s-expressions
    #[arg(long, conflicts_with_all = ["listen", "socket"])]
    json: bool,
}

fn speed(text: &str) -> std::result::Result<f64, String> {
    let bad = || format!("{text:?} is no speed from 0.001 to 1000000");
    text.parse().ok().filter(|speed| (0.001..=1e6).contains(speed)).ok_or_else(bad)
}

impl Replay {
    pub(crate) fn run(self) -> Result<ExitCode> {
        let player = Player::new(open(&self.file)?, self.speed)?;
        let places: Vec<Place> = self.listen.into_iter().map(Place::Tcp).chain(self.socket.map(Place::Unix)).collect();
        if places.is_empty() {
            return print_all(player, if self.json { Form::Json } else { Form::Words });
        }
        crate::log::to_stderr();
        let mut server = Server::new(player)?;
        for place in places {
            server.listen(place.listen()?)?;
        }
        serve(&mut server, Vec::new())
    }
}

/// A trace, to be read.
pub(super) fn open(path: &Path) -> Result<Reader<BufReader<File>>> {
    let doing = || format!("read the trace {}", path.display());
    let file = File::open(path).map_err(|e| Fault::io(&e, doing()))?;
    Reader::new(BufReader::with_capacity(256 * 1024, file)).map_err(|fault| fault.doing(doing()))
}

fn print_all(mut player: Player<BufReader<File>>, form: Form) -> Result<ExitCode> {
    while let Some(due_us) = player.due_us() {
        while monotonic_us() < due_us {
            let left = Duration::from_micros(due_us.saturating_sub(monotonic_us()));
            match poll_for(&[], Some(left)) {
                Ok(_) | Err(EINTR) => {}
                Err(errno) => return Err(Fault::sys(errno, "wait for the next sample")),
            }
        }
        if let Some(sample) = player.step()? {
            print::out(&line(sample, form, |_| true))?;
        }
    }
    // Why it is not all, if it is not.
    player.step()?;
    Ok(ExitCode::SUCCESS)
}

/// A sample on a line.
pub(super) fn line(sample: &Sample, form: Form, wanted: impl Fn(&Column) -> bool) -> String {
    let mut out = Vec::new();
    match (&sample.silent, form) {
        (None, _) => {
            let who = (&*sample.node, sample.time_us);
            text::write_some(
                form,
                &sample.layout,
                who,
                &sample.values,
                |at| wanted(&sample.layout.columns[at]),
                &mut out,
            );
        }
        (Some(why), Form::Words) => {
            out.extend_from_slice(b"(silent ");
            text::atom(&sample.node, &mut out);
            out.push(b' ');
            text::quoted(why, &mut out);
            out.push(b')');
        }
        (Some(why), Form::Json) => {
            out.extend_from_slice(b"{\"node\":");
            text::quoted(&sample.node, &mut out);
            out.extend_from_slice(b",\"why\":");
            text::quoted(why, &mut out);
            out.push(b'}');
        }
    }
    out.push(b'\n');
    String::from_utf8_lossy(&out).into_owned()
}
