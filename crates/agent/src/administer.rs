//! Chores that the front end has this node do: the power of its machine, and the root of its programs.

use crate::agent::Agent;
use crate::config::{NodeConfig, Powers};
use crate::surroundings::Surroundings;
use crate::views::Views;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tracing::warn;
use vocab::{Fault, Result};
use wire::log::{LogPiece, LogWanted};
use wire::node::ToFront;
use wire::nodes::{Chore, Power};
use wire::run::Program;

/// See the module.
#[derive(Debug)]
pub(crate) struct Administration {
    powers: Powers,
    /// The root of programs that start here from now on, if it is another one than the node's own.
    root: Option<Vec<u8>>,
    /// The mount namespaces in which they start.
    pub(crate) views: Views,
    surroundings: Surroundings,
    /// Where the daemon keeps its log.
    run_dir: PathBuf,
}

impl Administration {
    pub(crate) fn new(config: &NodeConfig, views: Views) -> Administration {
        let surroundings = Surroundings::new(config.bpfs.as_deref());
        Administration {
            powers: config.powers.clone(),
            root: None,
            views,
            surroundings,
            run_dir: config.run_dir.clone(),
        }
    }

    /// A program that is to start here, with this machine's surroundings.
    pub(crate) fn surround(&self, program: Program) -> Program {
        self.surroundings.surround(program)
    }

    /// What the front end is told of this daemon's log.
    pub(crate) fn log(&self, id: u64, wanted: LogWanted) -> ToFront {
        match journal::read(&self.run_dir, wanted) {
            Ok(piece) => ToFront::Log { id, piece, fault: None },
            Err(fault) => ToFront::Log { id, piece: LogPiece::default(), fault: Some(fault) },
        }
    }

    pub(crate) fn root(&self) -> Option<&[u8]> {
        self.root.as_deref()
    }

    fn command(&self, power: Power) -> Result<&str> {
        let Powers { reboot, halt, power_off } = &self.powers;
        let (name, command) = match power {
            Power::Reboot => ("reboot", reboot),
            Power::Halt => ("halt", halt),
            Power::PowerOff => ("power_off", power_off),
        };
        let refused = || {
            Fault::refused(format!(
                "{name}: this node has no command for that ({name} of [node] in its configuration file)"
            ))
        };
        command.as_deref().filter(|command| !command.trim().is_empty()).ok_or_else(refused)
    }

    fn do_it(&mut self, chore: Chore) -> Result<()> {
        match chore {
            Chore::Power(power) => run(self.command(power)?),
            Chore::Chroot(path) if path.is_empty() || path == b"/" => {
                self.root = None;
                Ok(())
            }
            Chore::Chroot(path) => {
                let at = Path::new(std::ffi::OsStr::from_bytes(&path));
                if !at.is_absolute() || path.contains(&0) || !at.is_dir() {
                    return Err(Fault::refused(format!("{} is no directory here, named from its root", at.display())));
                }
                self.root = Some(path);
                Ok(())
            }
        }
    }
}

/// Whatever becomes of the command is in its output, which is the daemon's.
fn run(command: &str) -> Result<()> {
    warn!(command, "the front end has it run");
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", command]).current_dir("/").stdin(Stdio::null()).process_group(0);
    // The main loop reaps it with all other children.
    shell.spawn().map(drop).map_err(|e| Fault::io(&e, format!("run {command:?}")))
}

impl Agent {
    pub(crate) fn administer(&mut self, id: u64, chore: Chore) {
        let fault = self.administration.do_it(chore).err();
        self.uplink.send(&ToFront::Administered { id, fault });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(powers: Powers) -> Administration {
        Administration::new(&NodeConfig { powers, ..NodeConfig::new("front", [0; 32]) }, Views::default())
    }

    #[test]
    fn what_is_not_configured_is_refused_by_name() {
        let powers = Powers { halt: Some(" ".into()), ..Powers::default() };
        let mut administration = with(powers);
        for (power, name) in [(Power::Reboot, "reboot"), (Power::Halt, "halt"), (Power::PowerOff, "power_off")] {
            let fault = administration.do_it(Chore::Power(power)).expect_err("there is no command");
            assert!(fault.to_string().starts_with(&format!("{name}:")), "{fault}");
        }
    }

    #[test]
    fn a_root_is_a_directory() {
        let mut administration = with(Powers::default());
        let mut root =
            |path: &str| administration.do_it(Chore::Chroot(path.into())).map(|()| administration.root.clone());
        assert_eq!(root("/tmp"), Ok(Some(b"/tmp".to_vec())));
        for bad in ["/etc/passwd", "/nonexistent", "tmp", "/t\0mp"] {
            assert!(root(bad).is_err(), "{bad:?}");
        }
        assert_eq!(root("/tmp").and_then(|_| root("/")), Ok(None));
        assert_eq!(root(""), Ok(None));
    }
}
