//! A node's side: a mount namespace whose root are the front end's files, and a process that serves them.
//!
//! The agent builds the namespace ([`mount`]); the process is its sibling, outside of the space: who needs a file waits for it, and it for nobody here ([`serve`]).

mod asked;
mod attributes;
mod begin;
mod behind;
mod bring;
mod contents;
mod grants;
mod groups;
mod listings;
mod mount;
mod names;
mod objects;
mod opens;
mod paths;
mod pending;
mod readahead;
mod serve;
mod threads;
mod written;

pub use asked::{ask, told, Asked, Told};
pub use mount::{build, MOUNTED, NAMESPACE};

use kern::fuse::raw::Connection;
use kern::ns::{self, Child, Forked, Namespaces};
use kern::sock::{self, Kind};
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::time::Duration;
use tracing::warn;
use vocab::{Fault, NodeId, Result};

/// Bytes of a message between the agent and the process.
const ROOM: usize = 512;

/// The settings of the process.
#[derive(Clone, Debug)]
pub struct Config {
    /// The cluster key.
    pub key: [u8; 32],
    /// How long it may be without the front end before it gives up.
    pub patience: Duration,
    /// None: contents of files are kept in the kernel's memory alone.
    pub store: Option<Disk>,
}

/// Where contents of files are kept, and how much of them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Disk {
    pub directory: PathBuf,
    /// Bytes.
    pub most: u64,
}

/// Starts the process; its end is the end of every file of the view. The descriptor is for the agent ([`build`]).
///
/// # Errors
/// `Sys` as fork(2), socketpair(2). The calling process has one thread.
pub fn start(config: &Config) -> Result<(OwnedFd, Child)> {
    let (agents, own) = sock::socketpair(Kind::SeqPacket)?;
    match ns::fork(Namespaces::empty())? {
        Forked::Parent(child) => Ok((agents, child)),
        Forked::Child => {
            drop(agents);
            let ran = ns::die_with_parent().and_then(|()| wait(config, own));
            if let Err(fault) = &ran {
                warn!(%fault, "view");
            }
            ns::exit(i32::from(ran.is_err()))
        }
    }
}

/// Serves when the agent has mounted.
fn wait(config: &Config, line: OwnedFd) -> Result<()> {
    ns::set_name("shoal:view")?;
    let mut room = [0; ROOM];
    let Some(received) = sock::receive_with(line.as_fd(), &mut room)? else { return Ok(()) };
    let mut descriptors = received.descriptors.into_iter();
    let (Some(fuse), Some(proc)) = (descriptors.next(), descriptors.next()) else { return Ok(()) };
    let text = String::from_utf8_lossy(&room[..received.bytes]).into_owned();
    let (address, node) = address(&text).ok_or_else(|| Fault::bug(format!("the agent says {text:?}")))?;
    serve::serve(config, Connection::adopt(fuse), proc, (address, node), line)
}

fn address(text: &str) -> Option<(SocketAddr, NodeId)> {
    let (address, node) = text.split_once(' ')?;
    Some((address.parse().ok()?, NodeId(node.parse().ok()?)))
}
