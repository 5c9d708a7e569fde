//! Standard streams, both halves for real: a `shoal run` process and the agent's thread, joined by an encrypted channel over
//! loopback, with this program in the daemon's place.

mod bulk;
mod credit;
mod daemon;
mod kept;
mod moves;
mod plain;
mod terminal;

use client::run::{outcome, run, Run, Show};
use client::socket_path;
use daemon::Daemon;
use kern::relay::Relay;
use libtest_mimic::{Arguments, Trial};
use std::os::fd::OwnedFd;
use std::process::{Command, ExitCode};
use std::time::Duration;
use vocab::Exit;
use wire::run::Target;

/// Set: this process is a `shoal run`. Its letters: t for a terminal, p for prefixes.
pub(crate) const FLAGS: &str = "SHOAL_TEST_RUN";

fn main() -> ExitCode {
    if let Some(flags) = std::env::var_os(FLAGS) {
        let has = |c| flags.to_string_lossy().contains(c);
        let argv = std::env::args_os().skip(1).collect();
        let (terminal, prefix, show) = (has('t'), has('p'), Show::default());
        let asked = Run {
            target: Target::Any,
            terminal,
            prefix,
            show,
            argv,
            file: None,
            numbers: Vec::new(),
            sees: Default::default(),
            surroundings: Default::default(),
        };
        eprintln!("shoal: {}", run(&asked, &socket_path(), hold));
        return ExitCode::from(client::run::FAILED);
    }
    let mut trials = Vec::new();
    plain::add(&mut trials);
    credit::add(&mut trials);
    terminal::add(&mut trials);
    bulk::add(&mut trials);
    moves::add(&mut trials);
    kept::add(&mut trials);
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// Stands in for the hold: no daemon holds us here, so the answer on the socket says the end.
fn hold(_: OwnedFd, relay: &'static Relay) -> ! {
    loop {
        let Some(exit) = outcome() else {
            std::thread::sleep(Duration::from_micros(50));
            continue;
        };
        relay.before_end();
        let sig = match exit {
            Exit::Code(code) => std::process::exit(i32::from(code)),
            Exit::Killed { sig, .. } => sig,
            Exit::NodeLost => vocab::Sig::KILL,
        };
        let _ = kern::signal::suffer(sig);
    }
}

/// A `shoal run` that will ask `daemon`.
pub(crate) fn shoal_run(daemon: &Daemon, flags: &str, words: &[&str]) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("own path"));
    command.env(FLAGS, flags).env("SHOAL_SOCKET", &daemon.path).args(words);
    command
}

/// One trial.
pub(crate) fn trial(name: &'static str, body: fn()) -> Trial {
    Trial::test(name, move || {
        body();
        Ok(())
    })
}
