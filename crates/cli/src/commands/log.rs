//! `shoal log`: what a daemon says.

use super::{node_names, Daemon};
use clap::Args;
use client::Local;
use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;
use vocab::{Fault, Kind, NodeId, Result};
use wire::ask::{Answer, Ask};
use wire::log::{LogPiece, LogPlace, LogWanted};

/// How often a log that is followed is looked at, and how often who cannot be asked is asked again.
const LOOK: Duration = Duration::from_millis(300);
const AGAIN: Duration = Duration::from_secs(1);

/// Show the log of a node's daemon, or of the front end's
///
/// Each line is one event: time, level, part of the program, what happened. The last mebibyte or two are there, also from before the daemon was started again; the system's journal has
/// more. It is for root, and for who is in a group that reads the journal (adm, systemd-journal) of the front end.
#[derive(Args, Debug)]
pub(crate) struct Log {
    /// The node by number or name, or `front`
    #[arg(value_name = "NODE")]
    node: String,
    /// Go on with what is added, until interrupted, also over the daemon's end
    #[arg(short = 'f', long)]
    follow: bool,
    /// How many lines to begin with
    #[arg(short = 'n', long, value_name = "LINES", default_value_t = 100)]
    lines: u32,
    #[command(flatten)]
    daemon: Daemon,
}

impl Log {
    pub(crate) fn run(self) -> Result<ExitCode> {
        let mut daemon = self.daemon.connect()?;
        let node = node_names::find(&mut daemon, &self.node)?;
        let first = ask(&mut daemon, node, LogWanted::Last(self.lines))?;
        show(&first)?;
        if self.follow {
            self.go_on(daemon, node, first.place)?;
        }
        Ok(ExitCode::SUCCESS)
    }

    fn go_on(&self, daemon: Local, node: NodeId, mut place: LogPlace) -> Result<()> {
        let (mut daemon, mut away): (Result<Local>, bool) = (Ok(daemon), false);
        loop {
            let piece = match &mut daemon {
                Ok(daemon) => ask(daemon, node, LogWanted::After(place)),
                Err(fault) => Err(fault.clone()),
            };
            let pause = match piece {
                Ok(piece) => {
                    show(&piece)?;
                    (place, away) = (piece.place, false);
                    if piece.more {
                        continue;
                    }
                    LOOK
                }
                Err(fault) if matches!(fault.kind, Kind::Gone | Kind::Sys) => {
                    if !std::mem::replace(&mut away, true) {
                        kern::own::complain(fault);
                    }
                    daemon = self.daemon.connect();
                    AGAIN
                }
                Err(fault) => return Err(fault),
            };
            // Interrupted, it is looked at earlier.
            let _ = kern::poll::poll_for(&[], Some(pause));
        }
    }
}

fn ask(daemon: &mut Local, node: NodeId, wanted: LogWanted) -> Result<LogPiece> {
    match daemon.ask(&Ask::Log { node, wanted })? {
        Answer::Log(piece) => Ok(piece),
        other => Err(Fault::wire(format!("the daemon answered Log with {other:?}"))),
    }
}

/// Lines of another machine are nothing to this one's terminal.
fn show(piece: &LogPiece) -> Result<()> {
    if piece.gap {
        kern::own::complain("lines are missing here");
    }
    for line in String::from_utf8_lossy(&piece.lines).lines() {
        crate::print::out(&(kern::own::plain(line) + "\n"))?;
    }
    std::io::stdout().flush().map_err(|e| Fault::io(&e, "write to standard output"))
}
