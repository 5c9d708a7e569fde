//! Settings about nodes as things with owners and states.

use std::path::{Path, PathBuf};

/// Where the roster is kept, unless the run directory is another one than usual.
const STATE_DIR: &str = "/var/lib/shoal";
const USUAL_RUN_DIR: &str = "/run/shoal";

/// A part of [`crate::FrontConfig`].
#[derive(Clone, Debug, Default)]
pub struct NodesConfig {
    /// The directory of what outlives the machine's end: owners, modes, states and attributes of nodes.
    pub state_dir: Option<PathBuf>,
    /// The start-up script: run with the number of a node that has joined, which is `boot` until then.
    pub node_up: Option<PathBuf>,
    /// Where the node files are mounted.
    pub bpfs: Option<PathBuf>,
}

impl NodesConfig {
    /// Front ends with run directories of their own have states of their own.
    pub fn state_dir(&self, run_dir: &Path) -> PathBuf {
        match &self.state_dir {
            Some(said) => said.clone(),
            None if run_dir == Path::new(USUAL_RUN_DIR) => STATE_DIR.into(),
            None => run_dir.join("state"),
        }
    }
}
