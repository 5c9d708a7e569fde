//! A view of the whole space on a node: a tree that is all of /proc for whoever is in its mount namespace. What is elsewhere has its directories there, what
//! is here is a link to its own ([`crate::natives`]).

use crate::ahead::Ahead;
use crate::crew::Crew;
use crate::ghosts::Ghosts;
use crate::machines::Machines;
use crate::natives::Natives;
use crate::server::Server;
use crate::{binds, line, pulse};
use kern::fuse::tree::Tree;
use std::path::PathBuf;
use std::sync::Arc;
use vocab::Result;

/// What is to be shown where.
#[derive(Debug)]
pub(crate) struct NodeView {
    /// The node's daemon's.
    pub(crate) socket: PathBuf,
    /// A directory of the caller's mount namespace for the tree, not /proc: this process may not wait for itself.
    pub(crate) at: PathBuf,
    /// Where whoever looks finds the native procfs.
    pub(crate) native: PathBuf,
    /// How long what a node has said is shown, in microseconds; 0: it is asked each time.
    pub(crate) fresh_us: u64,
}

impl NodeView {
    /// Serves until the daemon ends; `ready` is called when the tree shows what there is, and `serves` now and then after that, as long as nobody waits for too
    /// long who looks.
    ///
    /// # Errors
    /// What the daemon has against it, and what kept it from beginning.
    pub(crate) fn show(&self, ready: impl FnOnce() -> Result<()>, serves: impl Fn() + Send + 'static) -> Result<()> {
        let (line, mut connection) = line::connect(&self.socket)?;
        let crew = Arc::new(Crew::default());
        let ghosts = Arc::new(Ghosts::apart());
        let machines = Arc::new(Machines::new(self.fresh_us, crew.clone(), ghosts.clone()));
        machines.ask_over(line);
        let tree = Arc::new(Tree::mount(&self.at, "shoal-view")?);
        let natives = Some(Natives::new(&self.native));
        let hidden = binds::hidden_from_all_but();
        let server = Arc::new(Server::new(tree, ghosts, machines, crew, hidden, natives, Ahead::default()));
        connection.first(&server)?;
        crate::serve(&server)?;
        let end = connection.follow(&server, Arc::default())?;
        server.guide.clone().start()?;
        ready()?;
        pulse::start(server, serves)?;
        let _ended = end.recv();
        Ok(())
    }
}
