//! `shoal mover`, `shoal vessel` and `shoal stand`: started by the node daemon, not by users.

use super::files::View;
use clap::Args;
use client::run::Hold;
use kern::sock::Ports;
use mover::Views;
use std::path::PathBuf;
use std::process::ExitCode;
use vocab::{Pid, Result};

/// Send a process to another node, or take one
#[derive(Args, Debug)]
pub(crate) struct Mover {
    /// The procfs of this machine alone
    #[arg(long, value_name = "PLACE")]
    proc: Option<String>,
    /// The mount namespace in which it works, if it is another one
    #[arg(long, value_name = "PATH")]
    view: Option<PathBuf>,
    /// Where the front end's files are to be seen
    #[arg(long, value_name = "PATH")]
    front: Option<PathBuf>,
    /// The view of the namespace in which it starts
    #[arg(long, value_name = "KIND")]
    sees: Option<View>,
    /// Where it takes processes
    #[arg(long, value_name = "PORTS")]
    channel_ports: Option<Ports>,
}

impl Mover {
    pub(crate) fn run(self) -> Result<ExitCode> {
        self.proc.as_deref().map(kern::proc::take_over).transpose()?;
        let node = kern::view::own_namespace().ok();
        self.view.as_deref().map(kern::view::enter_at).transpose()?;
        self.channel_ports.into_iter().for_each(kern::sock::take_channels_at);
        let has = self.sees.map(Into::into);
        mover::run(Views { has, node, front: self.front }).map(|()| ExitCode::SUCCESS)
    }
}

/// Do nothing, until a mover makes another process of this one
#[derive(Args, Debug)]
pub(crate) struct Vessel {}

impl Vessel {
    pub(crate) fn run(self) -> Result<ExitCode> {
        kern::newborn::wait_for_tracer()
    }
}

/// Stand in the place of a process that has left the front end, and relay its streams
#[derive(Args, Debug)]
pub(crate) struct Ghost {
    /// The daemon's socket
    #[arg(long, value_name = "PATH")]
    socket: PathBuf,
    /// Numbers of threads that are kept free for it
    #[arg(long, value_name = "N", value_delimiter = ',')]
    threads: Vec<i32>,
}

impl Ghost {
    pub(crate) fn run(self, hold: Hold) -> Result<ExitCode> {
        kern::own::take_working_directory_as_root();
        let numbers: Vec<Pid> = self.threads.into_iter().map(Pid).collect();
        let fault = client::run::stand(&self.socket, &numbers, hold);
        // It ends as what has been lost.
        let _lasting = kern::signal::suffer(vocab::Sig::KILL);
        Err(fault)
    }
}

/// Stand in the place of a process that has left
#[derive(Args, Debug)]
pub(crate) struct Stand {}

impl Stand {
    pub(crate) fn run(self) -> Result<ExitCode> {
        kern::own::take_working_directory_as_root();
        kern::standin::here::hold_in_place().map(|never| match never {})
    }
}
