//! `shoal rsh [OPTIONS] [USER@]HOST [OPTIONS] COMMAND…`: what launchers of parallel programs (MPICH, Open MPI, PVM) take for rsh(1) or ssh(1).

mod line;
mod session;

use super::becoming::{execute, failed, here, no_input};
use super::Daemon;
use client::run::{run, Hold, Run, Show};
use client::Local;
use kern::own;
use line::Line;
use std::ffi::OsString;
use std::process::Command;
use vocab::{Fault, NodeId, Result};
use wire::ask::NodeRow;
use wire::run::Target;

pub(crate) use session::Session;

/// This program's own file, also in a process that a node's daemon makes for a program.
const OWN: &str = "/proc/self/exe";

/// Run a command line on a node by its shell, as rsh does: for launchers, also when the program is called as `rsh` or `shoal-rsh`
///
/// HOST is a node (n3, 3), its host name or address, or `front`. The command runs in the caller's directory if the node has it, else in the user's
/// home, with the caller's environment. Whatever the command has started ends with the caller of `shoal rsh`. Exit status: as of `shoal run`.
#[derive(clap::Args, Debug)]
#[command(override_usage = "shoal rsh [-l USER] [-n] [OPTIONS OF RSH AND SSH] [USER@]HOST COMMAND...")]
pub(crate) struct Rsh {
    #[command(flatten)]
    daemon: Daemon,
    /// -l USER: only root may name another user; -n: no input; other options of rsh(1) and ssh(1) change nothing
    #[arg(value_name = "WORDS", required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

impl Rsh {
    /// Becomes the command; returns an exit status only when that did not come about.
    pub(crate) fn execute(self, hold: Hold) -> u8 {
        failed(self.start(hold))
    }

    fn start(self, hold: Hold) -> Result<Fault> {
        let line = Line::parse(&self.words)?;
        let mut program = vec![OsString::from("/bin/sh"), "-c".into(), line.command];
        if let Some(user) = line.user.filter(|user| !is_caller(user)) {
            if !own::is_root() {
                return Err(Fault::refused(format!("run a command as {user}: only root may name another user")));
            }
            let other = ["runuser", "-u", &user, "--"].map(OsString::from);
            program.splice(0..0, other);
        }
        if line.no_input {
            no_input()?;
        }
        let mut daemon = self.daemon.connect()?;
        let node = find(&mut daemon, &line.host)?;
        let here = here(&mut daemon)?;
        drop(daemon);
        let argv = session(program)?;
        if node == here {
            return execute(&argv, "shoal");
        }
        if node.is_front() {
            return Err(Fault::refused(format!("run a command on {}: commands are started on nodes only", line.host)));
        }
        let target = Target::Nodes(vec![node]);
        let asked = Run {
            target,
            terminal: false,
            prefix: false,
            show: Show::default(),
            argv,
            file: None,
            numbers: Vec::new(),
            sees: Default::default(),
            surroundings: Default::default(),
        };
        Ok(run(&asked, self.daemon.socket(), hold))
    }
}

/// The node's side, with `program` in its session. The process begins in the root directory, which every node has.
fn session(program: Vec<OsString>) -> Result<Vec<OsString>> {
    let directory = std::env::current_dir().map(OsString::from).unwrap_or_else(|_deleted| "/".into());
    std::env::set_current_dir("/").map_err(|e| Fault::io(&e, "enter /"))?;
    let parent = std::os::unix::process::parent_id().to_string();
    let words = [OWN.into(), "session".into(), "--parent".into(), parent.into(), "--directory".into(), directory];
    Ok(words.into_iter().chain(["--".into()]).chain(program).collect())
}

fn is_caller(user: &str) -> bool {
    let own = own::user();
    kern::users::name(own).as_deref() == Some(user) || user.parse() == Ok(own)
}

/// The node that launchers call `host`.
///
/// # Errors
/// `Refused` if `host` is no node, with what it is taken for.
fn find(daemon: &mut Local, host: &str) -> Result<NodeId> {
    if let Ok(node) = host.parse() {
        return Ok(node);
    }
    let rows = super::nodes::nodes(daemon)?;
    let called: Vec<(NodeId, &str)> = rows.iter().map(|row| (row.node, row.name.as_str())).collect();
    // A host of several nodes is found by its address.
    if let Ok(Some(node)) = vocab::names::find(host, &called) {
        return Ok(node);
    }
    let addresses = addresses(host);
    by_address(&rows, &addresses).ok_or_else(|| {
        let taken = if addresses.is_empty() { "its name is not known".into() } else { addresses.join(", ") };
        Fault::refused(format!("{host:?} is no node ({taken})"))
    })
}

fn by_address(rows: &[NodeRow], addresses: &[String]) -> Option<NodeId> {
    let is = |row: &&NodeRow| addresses.contains(&row.address);
    rows.iter().find(is).map(|row| row.node)
}

/// The addresses of a host by all ways that its machine knows of names. A static program does not load the C library's plugins for that, getent(1) does.
fn addresses(host: &str) -> Vec<String> {
    let asked = Command::new("getent").args(["ahosts", "--", host]).output();
    let text = asked.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    let mut all: Vec<String> =
        text.lines().filter_map(|line| line.split_whitespace().next()).map(String::from).collect();
    all.dedup();
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_the_node_that_has_its_address() {
        let row = |node, address: &str| NodeRow {
            node: NodeId(node),
            state: "up".into(),
            address: address.into(),
            processes: 0,
            cores: 1,
            memory: 0,
            memory_free: 0,
            load: 0.0,
            uid: 0,
            gid: 0,
            mode: 0o111,
            name: String::new(),
        };
        let rows = [row(0, "10.77.1.1"), row(1, "10.77.1.2")];
        assert_eq!(by_address(&rows, &["::1".into(), "10.77.1.2".into()]), Some(NodeId(1)));
        assert_eq!(by_address(&rows, &["10.77.1.22".into()]), None);
        assert_eq!(by_address(&rows, &[]), None);
    }
}
