//! The start-up script (`node_up`), run for each node that joins: the node is `boot` until the script has ended well.
//!
//! A script that runs when the daemon ends goes on, and the next daemon runs another for its node: a script may be run twice.

use crate::connection::{Connection, Token};
use crate::front::Front;
use crate::roster::now;
use crate::roster::word::Change;
use kern::pidfd;
use std::collections::BTreeMap;
use std::fs::{DirBuilder, File};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use tracing::{info, warn};
use vocab::{Fault, NodeId, Pid, Result};

/// Those that run, and the connections on which their ends are seen.
#[derive(Debug, Default)]
pub(crate) struct Scripts {
    running: BTreeMap<NodeId, (Child, Token)>,
}

impl Front {
    /// Runs the script for a node; one that runs for the same node already is killed.
    pub(crate) fn start_script(&mut self, node: NodeId) {
        self.end_script(node);
        let Some(script) = self.config.nodes.node_up.clone() else { return };
        match self.script_begins(&script, node) {
            Ok(()) => info!(%node, script = %script.display(), "start-up script"),
            Err(fault) => {
                warn!(%node, "{}", fault.doing(format!("run {}", script.display())));
                self.admin.roster.word_changes(node, Change::Failed, now());
            }
        }
    }

    fn script_begins(&mut self, script: &Path, node: NodeId) -> Result<()> {
        let log = self.script_log(node)?;
        let again = log.try_clone().map_err(|e| Fault::io(&e, "share a log"))?;
        let number = node.0.to_string();
        let mut command = Command::new(script);
        command.arg(&number).env("SHOAL_NODE", &number).current_dir("/").process_group(0);
        command.stdin(Stdio::null()).stdout(log).stderr(again);
        let mut child = command.spawn().map_err(|e| Fault::io(&e, "start it"))?;
        let pid = Pid(child.id() as i32);
        let token = pidfd::open(pid).ok().and_then(|pidfd| self.add(Connection::Script { pidfd, node }));
        match token {
            Some(token) => drop(self.admin.scripts.running.insert(node, (child, token))),
            None => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(Fault::refused("nothing tells of its end"));
            }
        }
        Ok(())
    }

    /// Root's alone: what scripts say may be secret.
    fn script_log(&self, node: NodeId) -> Result<File> {
        let directory = self.config.run_dir.join("log");
        let failed = |e: std::io::Error| Fault::io(&e, format!("make a log in {}", directory.display()));
        DirBuilder::new().recursive(true).mode(0o700).create(&directory).map_err(failed)?;
        let path = directory.join(format!("node_up.{}", node.0));
        File::options().create(true).write(true).truncate(true).mode(0o600).open(path).map_err(failed)
    }

    /// A script has ended, or something is wrong with what tells of its end.
    pub(crate) fn script_ended(&mut self, token: Token, node: NodeId) {
        self.take(token);
        let Some((mut child, _)) = self.admin.scripts.running.remove(&node) else { return };
        let status = child.wait();
        let change =
            if status.as_ref().is_ok_and(|status| status.success()) { Change::Prepared } else { Change::Failed };
        match status {
            Ok(status) => info!(%node, %status, "the start-up script has ended"),
            Err(error) => warn!(%node, %error, "the start-up script"),
        }
        self.admin.roster.word_changes(node, change, now());
    }

    /// The script's outcome is of no use any more: kill it.
    pub(crate) fn end_script(&mut self, node: NodeId) {
        let Some((mut child, token)) = self.admin.scripts.running.remove(&node) else { return };
        self.take(token);
        // All that it has started: it leads a group of its own.
        let _ = kern::init::signal_group(Pid(child.id() as i32), vocab::Sig::KILL);
        let _ = child.wait();
    }
}
