//! Answers of this machine's daemon for a shell that waits: soon, or nothing.

use client::Local;
use std::path::{Path, PathBuf};
use std::time::Duration;
use wire::ask::{Answer, Ask, NodeRow, ProcRow};

/// For each piece of an answer.
const PATIENCE: Duration = Duration::from_millis(500);

/// See the module.
pub(super) struct Space {
    socket: PathBuf,
}

impl Space {
    pub(super) fn new(socket: &Path) -> Space {
        Space { socket: socket.to_owned() }
    }

    fn ask(&self, ask: &Ask) -> Option<Answer> {
        Local::connect_within(&self.socket, PATIENCE).and_then(|mut daemon| daemon.ask(ask)).ok()
    }

    pub(super) fn nodes(&self) -> Vec<NodeRow> {
        match self.ask(&Ask::Nodes) {
            Some(Answer::Nodes(rows)) => rows,
            _ => Vec::new(),
        }
    }

    pub(super) fn processes(&self) -> Vec<ProcRow> {
        match self.ask(&Ask::Ps) {
            Some(Answer::Ps { rows, .. }) => rows,
            _ => Vec::new(),
        }
    }
}
