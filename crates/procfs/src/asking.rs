//! Questions to the daemon, which passes them on to nodes.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, PoisonError};
use vocab::{Fault, NodeId, Result};
use wire::ask::Ask;
use wire::entry::Wanted;
use wire::frame;

/// The half of the connection that asks.
#[derive(Debug)]
pub(crate) struct Line {
    stream: Mutex<UnixStream>,
}

impl Line {
    pub(crate) fn new(stream: UnixStream) -> Line {
        Line { stream: Mutex::new(stream) }
    }

    pub(crate) fn ask_node(&self, id: u64, node: NodeId, wanted: Wanted) -> Result<()> {
        self.ask(&Ask::Entries { id, node, wanted })
    }

    pub(crate) fn ask(&self, ask: &Ask) -> Result<()> {
        let mut bytes = Vec::new();
        frame::encode(ask, &mut bytes)?;
        let mut stream = self.stream.lock().unwrap_or_else(PoisonError::into_inner);
        stream.write_all(&bytes).map_err(|e| Fault::io(&e, "ask the daemon"))
    }
}
