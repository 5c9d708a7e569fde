//! `shoal shell`: a shell, or a program, that sees the space in /proc while the machine does not.

use super::account::Account;
use super::place::own_node;
use super::Daemon;
use clap::Args;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};
use vocab::{Fault, Result};

/// Run a shell, or a program, in whose /proc the processes of the space show what they do where they run
///
/// It is for root: it and all that it starts get a mount namespace of their own. With `proc = "private"` in the front end's configuration only such shells show it there; on a
/// node, as a program of the space, it shows what is on other nodes too.
#[derive(Args, Debug)]
pub(crate) struct Shell {
    /// The processors, memory and load in /proc and /sys are the sums of all machines, too: top, free and their like show one large machine
    #[arg(long)]
    whole: bool,
    /// Under sudo: run it as the user who called sudo (SUDO_UID, SUDO_GID, SUDO_USER), with their groups, home and shell
    #[arg(long)]
    user: bool,
    #[command(flatten)]
    daemon: Daemon,
    /// The program to run, with its arguments; none: a shell
    #[arg(value_name = "CMD", trailing_var_arg = true)]
    command: Vec<OsString>,
}

impl Shell {
    pub(crate) fn run(self) -> Result<ExitCode> {
        if kern::ns::effective_uid() != 0 {
            let how =
                "show the space in /proc: that is for root (sudo shoal shell --user gives the shell to who calls sudo)";
            return Err(Fault::refused(how));
        }
        // Asked for before there is a view: who it is for may be unknown.
        let account = self.user.then(Account::of_sudo).transpose()?;
        match own_node() {
            Some(_) if self.whole => {
                return Err(Fault::refused("show all machines as one: that is for the front end"));
            }
            Some(_) => procfs::node_shell::begin(&self.daemon.beside(""), self.daemon.socket())?,
            None => ::procfs::view::begin(&self.daemon.beside(""), self.whole)?,
        }
        let mut command = match self.command.split_first() {
            Some((program, arguments)) => {
                let mut command = Command::new(program);
                command.args(arguments);
                command
            }
            None => Command::new(shell(account.as_ref())),
        };
        if let Some(account) = account {
            account.become_it()?;
            command.envs(account.environment());
        }
        let name = command.get_program().to_string_lossy().into_owned();
        let error = command.exec();
        kern::own::complain(Fault::io(&error, format!("execute {name}")));
        // As a shell says it.
        Ok(ExitCode::from(if error.kind() == ErrorKind::NotFound { 127 } else { 126 }))
    }
}

/// Which shell: the account's, or the one of whoever calls.
fn shell(account: Option<&Account>) -> OsString {
    let own = || std::env::var_os("SHELL").filter(|shell| Path::new(shell).is_file());
    let shell = account.map_or_else(own, |account| Some(account.shell.clone()));
    shell.unwrap_or_else(|| "/bin/sh".into())
}
