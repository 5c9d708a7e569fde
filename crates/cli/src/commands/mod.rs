//! The commands: what each is called, and which exit status its own failure has.

mod account;
mod alone;
mod away;
mod becoming;
mod bpcp;
mod bpctl;
mod bpfs;
mod bpsh;
mod bpstat;
mod chaos;
mod check;
mod checkpoint;
mod choice;
mod complete;
mod copies;
mod doctor;
mod drain;
mod explain;
mod fault;
mod files;
mod front;
mod help;
mod holder;
mod image;
mod invite;
mod job;
mod jobs;
mod join;
mod key;
mod log;
mod mon;
mod mover;
mod moves;
mod named;
mod node;
mod node_names;
mod node_set;
mod nodes;
mod place;
mod procfs;
mod progress;
mod ps;
mod restore;
mod restore_elsewhere;
mod restored;
mod rsh;
mod run;
mod sandbox;
mod shell;
mod surroundings;
mod top;
mod view;
mod view_server;
mod web;
mod whereis;
mod withheld;

pub(crate) use alone::command as alone;
use clap::Subcommand;
use client::run::FAILED;
use client::Local;
use kern::relay::Relay;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use vocab::Result;

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    Front(front::Front),
    Node(node::Node),
    Key(key::Key),
    Check(check::Check),
    Doctor(doctor::Doctor),
    #[command(hide = true)]
    DoctorProbe(doctor::DoctorProbe),
    Nodes(nodes::Nodes),
    NodeState(node_set::NodeState),
    Cordon(drain::Cordon),
    Drain(drain::Drain),
    Uncordon(drain::Uncordon),
    NodeSet(node_set::NodeSet),
    Bpstat(bpstat::Bpstat),
    Bpctl(bpctl::Bpctl),
    Ps(ps::Ps),
    Top(top::Top),
    Web(web::Web),
    View(view::View),
    Where(whereis::Where),
    Move(moves::Move),
    Sandbox(sandbox::Sandbox),
    Shell(shell::Shell),
    Run(run::RunArgs),
    Rsh(rsh::Rsh),
    Bpcp(bpcp::Bpcp),
    Bpsh(bpsh::Bpsh),
    Job(job::Job),
    Checkpoint(checkpoint::Checkpoint),
    Restore(restore::Restore),
    Image(image::Image),
    Fault(fault::Fault),
    Chaos(chaos::Chaos),
    Log(log::Log),
    Mon(mon::Mon),
    Help(help::Help),
    #[command(hide = true)]
    Invitation(invite::Invitation),
    #[command(hide = true)]
    Holder(holder::Holder),
    #[command(hide = true)]
    Procfs(procfs::Procfs),
    #[command(hide = true)]
    NodeProc(procfs::NodeProc),
    #[command(hide = true)]
    Bpfs(bpfs::Bpfs),
    #[command(hide = true)]
    ViewServer(view_server::ViewServer),
    #[command(hide = true)]
    Jobs(jobs::Jobs),
    #[command(hide = true)]
    JobKeeper(jobs::JobKeeper),
    #[command(hide = true)]
    Mover(mover::Mover),
    #[command(hide = true)]
    Vessel(mover::Vessel),
    #[command(hide = true)]
    Stand(mover::Stand),
    #[command(hide = true)]
    Ghost(mover::Ghost),
    #[command(hide = true)]
    Session(rsh::Session),
    #[command(hide = true)]
    CopyOrigin(copies::CopyOrigin),
    #[command(hide = true)]
    Copy(copies::Copy),
    #[command(hide = true)]
    Carry(bpcp::Carry),
    #[command(hide = true)]
    Complete(complete::Complete),
}

impl Command {
    pub(crate) fn run(self) -> Result<ExitCode> {
        match self {
            Command::Front(command) => command.run(),
            Command::Node(command) => command.run(),
            Command::Key(command) => command.run(),
            Command::Check(command) => command.run(),
            Command::Doctor(command) => command.run(),
            Command::DoctorProbe(command) => command.run(),
            Command::Nodes(command) => command.run(),
            Command::NodeState(command) => command.run(),
            Command::Cordon(command) => command.run(),
            Command::Drain(command) => command.run(),
            Command::Uncordon(command) => command.run(),
            Command::NodeSet(command) => command.run(),
            Command::Bpstat(command) => command.run(),
            Command::Bpctl(command) => command.run(),
            Command::Ps(command) => command.run(),
            Command::Top(command) => command.run(),
            Command::Web(command) => command.run(),
            Command::View(command) => command.run(),
            Command::Where(command) => command.run(),
            Command::Move(command) => command.run(),
            Command::Sandbox(command) => command.run(),
            Command::Shell(command) => command.run(),
            Command::Run(command) => Ok(ExitCode::from(command.execute(hold))),
            Command::Bpsh(command) => Ok(ExitCode::from(command.execute(hold))),
            Command::Rsh(command) => Ok(ExitCode::from(command.execute(hold))),
            Command::Bpcp(command) => command.run(hold),
            Command::Job(command) => command.run(),
            Command::Checkpoint(command) => command.run(),
            Command::Restore(command) => command.run(),
            Command::Image(command) => command.run(),
            Command::Fault(command) => command.run(),
            Command::Chaos(command) => command.run(),
            Command::Log(command) => command.run(),
            Command::Mon(command) => command.run(),
            Command::Help(command) => command.run(),
            Command::Invitation(command) => command.run(),
            Command::Holder(command) => command.run(),
            Command::Procfs(command) => command.run(),
            Command::NodeProc(command) => command.run(),
            Command::Bpfs(command) => command.run(),
            Command::ViewServer(command) => command.run(),
            Command::Jobs(command) => command.run(),
            Command::JobKeeper(command) => command.run(),
            Command::Mover(command) => command.run(),
            Command::Vessel(command) => command.run(),
            Command::Stand(command) => command.run(),
            Command::Ghost(command) => command.run(hold),
            Command::Session(command) => command.run(),
            Command::CopyOrigin(command) => command.run(),
            Command::Copy(command) => command.run(),
            Command::Carry(command) => command.run(),
            Command::Complete(command) => command.run(),
        }
    }

    /// Does it do only what is right with the capability that the program's file may give to all users ([`kern::own::is_favoured`])?
    pub(crate) fn may_be_favoured(&self) -> bool {
        use Command::{Bpcp, Bpsh, Checkpoint, Copy, CopyOrigin, Rsh, Run};
        matches!(self, Run(_) | Rsh(_) | Bpsh(_) | Bpcp(_) | Checkpoint(_) | Copy(_) | CopyOrigin(_))
    }

    /// The exit status when the command itself fails.
    pub(crate) fn failure_status(&self) -> u8 {
        match self {
            Command::Run(_) | Command::Rsh(_) | Command::Bpsh(_) | Command::Session(_) => FAILED,
            _ => 1,
        }
    }
}

/// What the main thread of `shoal run` does from the moment the daemon has granted it.
fn hold(file: OwnedFd, relay: &'static Relay) -> ! {
    let Err(fault) = kern::standin::here::hold_here(file, relay);
    kern::own::complain(fault);
    std::process::exit(FAILED.into())
}

/// Which daemon to ask; the one of this machine.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Daemon {
    /// The local daemon's socket, if it is another than SHOAL_SOCKET in the environment says
    #[arg(long, value_name = "PATH", default_value_os_t = client::socket_path())]
    socket: PathBuf,
}

impl Daemon {
    pub(crate) fn connect(&self) -> Result<Local> {
        Local::connect(&self.socket)
    }

    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    /// A file of its run directory, beside its socket.
    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.socket.with_file_name(name)
    }
}
