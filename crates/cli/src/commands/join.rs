//! `shoal node join`: this machine becomes a node by a token ([`join`]).

mod write;

use crate::{address, keyfile};
use clap::Args;
use kern::poll::{poll, Ready};
use std::io::{BufRead, IsTerminal};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use vocab::{Fault, Result};
use write::Plan;

const CONFIG: &str = "/etc/shoal/shoal.toml";
/// There where systemd(1) runs (sd_booted(3)).
const SYSTEMD: &str = "/run/systemd/system";
const UNIT: &str = "shoal-node";
/// The daemon has so long until the front end has welcomed it, in milliseconds.
const WELCOME_MS: i32 = 20_000;
const HOST: &str = "/proc/sys/kernel/hostname";

/// Make this machine a node, by a token that `shoal key invite` has printed on the front end
///
/// Fetches the cluster key from there, encrypted and authenticated by the token, writes key and configuration, and starts the daemon where systemd runs. It is for root. Other users of this
/// machine can see the arguments of commands: a token on standard input they cannot.
#[derive(Args, Debug)]
pub(crate) struct Join {
    /// The token [default: the first line of standard input; so is `-`]
    #[arg(value_name = "TOKEN")]
    token: Option<String>,
    /// Replace another configuration, and another key; the old files are kept beside the new ones, as FILE.before
    #[arg(long)]
    force: bool,
    /// Start the daemon also where systemd does not run
    #[arg(long, conflicts_with = "no_start")]
    start: bool,
    /// Start no daemon
    #[arg(long)]
    no_start: bool,
    /// The configuration file to write
    #[arg(long, value_name = "FILE", default_value = CONFIG)]
    config: PathBuf,
    /// The key file to write
    #[arg(long, value_name = "FILE", default_value = "/etc/shoal/key")]
    key: PathBuf,
}

impl Join {
    pub(crate) fn run(self) -> Result<ExitCode> {
        if !kern::own::is_root() {
            return Err(Fault::refused("to join a cluster is for root"));
        }
        let token: join::Token = self.token()?.parse()?;
        let front = address::front(&token.front).map_err(Fault::refused)?;
        // A token is used once: all that can be known before is looked at before.
        let plan = Plan::new(&self.config, &self.key, &front, self.force)?;
        let host = std::fs::read_to_string(HOST).unwrap_or_default();
        let mut called = String::new();
        join::joiner::join(&token, host.trim(), |given| {
            called = write::called(given);
            plan.carry_out(given).map_err(|fault| {
                fault.doing("keep what the front end has given (the token is used up: make another one)")
            })
        })?;
        kern::own::complain(format!(
            "this machine is {called} of {front}: {} and {} are written",
            self.key.display(),
            self.config.display()
        ));
        self.start_daemon()
    }

    fn token(&self) -> Result<String> {
        match &self.token {
            Some(token) if token != "-" => Ok(token.clone()),
            _ => {
                let mut line = String::new();
                let input = std::io::stdin();
                if input.is_terminal() {
                    kern::own::complain("the token, one line:");
                }
                input.lock().read_line(&mut line).map_err(|e| Fault::io(&e, "read the token"))?;
                Ok(line)
            }
        }
    }

    fn start_daemon(&self) -> Result<ExitCode> {
        let by_hand = format!("shoal node --config {}", self.config.display());
        if self.no_start {
            kern::own::complain(format!("start the daemon: {by_hand}"));
        } else if Path::new(SYSTEMD).is_dir() && self.config == Path::new(CONFIG) {
            let status = Command::new("systemctl").args(["enable", "--now", UNIT]).stdin(Stdio::null()).status();
            let status = status.map_err(|e| Fault::io(&e, "run systemctl"))?;
            if !status.success() {
                return Err(Fault::gone(format!(
                    "systemctl enable --now {UNIT} has failed: start the daemon: {by_hand}"
                )));
            }
            kern::own::complain(format!("systemd has started {UNIT}, and will at each boot"));
        } else if self.start {
            let daemon = start(&self.config)?;
            kern::own::complain(format!("the front end has welcomed this node; its daemon is process {daemon}"));
        } else {
            kern::own::complain(format!(
                "systemd does not run {UNIT} here; start the daemon (--start does): {by_hand}"
            ));
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Starts the daemon in a session of its own; its number, when the front end has welcomed it.
fn start(config: &Path) -> Result<u32> {
    let run_dir = crate::config::read(Some(config))?.run_dir.unwrap_or_else(|| PathBuf::from("/run/shoal"));
    let path = run_dir.join("log/start");
    let failed = |e: std::io::Error| Fault::io(&e, "start the node's daemon");
    let log = std::fs::create_dir_all(run_dir.join("log"))
        .and_then(|()| std::fs::OpenOptions::new().create(true).append(true).open(&path));
    let (log, path) = (log.map_err(|e| Fault::io(&e, format!("open the log {}", path.display())))?, path.display());
    let (ready, tell) = kern::sys::pipe()?;
    let number = kern::ns::keep_across_exec(&tell)?;
    let mut command = Command::new("/proc/self/exe");
    command.arg0("shoal").args(["node", "--apart", "--ready-fd", &number.to_string(), "--config"]).arg(config);
    command.current_dir("/").stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
    let child = command.spawn().map_err(failed)?;
    drop(tell);
    let _ = poll(&[(ready.as_fd(), Ready::READ)], WELCOME_MS);
    kern::sys::set_nonblocking(ready.as_fd(), true)?;
    match kern::sys::read(ready.as_fd(), &mut [0; 1]) {
        Ok(1) => Ok(child.id()),
        Ok(_) => Err(Fault::gone(format!("the daemon has ended: {path} says why"))),
        Err(_) => Err(Fault::gone(format!(
            "the front end has not welcomed this node within {} s: {path} says more; the daemon goes on trying",
            WELCOME_MS / 1000
        ))),
    }
}

/// For [`write`]: the key as its file has it.
fn key_text(key: &[u8; 32]) -> String {
    keyfile::text(key)
}
