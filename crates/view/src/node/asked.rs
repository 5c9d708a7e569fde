//! The front end's files on a node whose programs see its own: a process that does nothing until the agent asks, and then makes their namespace and serves them.
//!
//! The namespace is made by a child of the process, since that has to look into what the process serves.

use super::mount::{furnish_apart, SOURCE};
use super::{address, serve, threads, Config, ROOM};
use kern::fuse::raw::Connection;
use kern::ns::{self, Child, Forked, Namespaces};
use kern::sock::{self, Kind};
use kern::{view, wait};
use std::fs::File;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use tracing::warn;
use vocab::{Fault, NodeId, Pid, Result};

const MADE: &[u8] = b"n";
const ENDED: &[u8] = b"e";

/// News for the agent.
#[derive(Debug)]
pub enum Told {
    /// The namespace is there.
    Made(OwnedFd),
    /// The process that serves has ended; another one waits to be asked.
    Ended,
    Nothing,
}

/// The process that serves when asked, and the line by which the agent asks.
#[derive(Debug)]
pub struct Asked {
    /// The process's end, which another process has when that one has ended.
    own: OwnedFd,
    child: Child,
}

impl Asked {
    /// Starts the process. The descriptor is for the agent ([`ask`], [`told`]).
    ///
    /// # Errors
    /// `Sys` as fork(2), socketpair(2). The calling process has one thread.
    pub fn start(config: &Config, run_dir: &Path, local: &[PathBuf]) -> Result<(OwnedFd, Asked)> {
        let (agents, own) = sock::socketpair(Kind::SeqPacket)?;
        let child = begin(config, &own, (run_dir, local))?;
        Ok((agents, Asked { own, child }))
    }

    pub fn child(&self) -> &Child {
        &self.child
    }

    /// The process has ended: the agent is told, and another one waits to be asked.
    ///
    /// # Errors
    /// As [`Asked::start`].
    pub fn again(&mut self, config: &Config, run_dir: &Path, local: &[PathBuf]) -> Result<()> {
        // Its status says nothing.
        let _ = wait::ended(self.child.pid);
        // An agent that has ended needs to hear nothing.
        let _ = sock::send(self.own.as_fd(), ENDED);
        self.child = begin(config, &self.own, (run_dir, local))?;
        Ok(())
    }
}

/// The agent asks. Its mount namespace is that which the new one is made from.
///
/// # Errors
/// `Sys` as sendmsg(2).
pub fn ask(line: BorrowedFd<'_>, (front, node): (SocketAddr, NodeId)) -> Result<()> {
    let proc = File::open("/proc").map_err(|e| Fault::io(&e, "open /proc"))?;
    let text = format!("{front} {}", node.0);
    // The mount is made here, so that it counts processes as this one does.
    let fuse = Connection::open()?;
    let tree = fuse.detached(SOURCE, wire::view::MOST)?;
    let namespace = view::own_namespace()?;
    sock::send_with(line, text.as_bytes(), &[fuse.fd(), proc.as_fd(), tree.as_fd(), namespace.as_fd()]).map(drop)
}

/// Reads the agent's line, when that is readable.
///
/// # Errors
/// `Gone`, `Sys` as recvmsg(2).
pub fn told(line: BorrowedFd<'_>) -> Result<Told> {
    let mut room = [0; ROOM];
    let Some(received) = sock::receive_with(line, &mut room)? else { return Ok(Told::Nothing) };
    Ok(match (&room[..received.bytes], received.descriptors.into_iter().next()) {
        (MADE, Some(namespace)) => Told::Made(namespace),
        (ENDED, _) => Told::Ended,
        ([], _) => {
            return Err(Fault::gone("the outer process has closed the line to who serves the front end's files"))
        }
        _ => Told::Nothing,
    })
}

fn begin(config: &Config, own: &OwnedFd, places: (&Path, &[PathBuf])) -> Result<Child> {
    match ns::fork(Namespaces::empty())? {
        Forked::Parent(child) => Ok(child),
        Forked::Child => {
            let ran = ns::die_with_parent().and_then(|()| wait_to_be_asked(config, own, places));
            if let Err(fault) = &ran {
                warn!(%fault, "view");
            }
            ns::exit(i32::from(ran.is_err()))
        }
    }
}

fn wait_to_be_asked(config: &Config, line: &OwnedFd, places: (&Path, &[PathBuf])) -> Result<()> {
    ns::set_name("shoal:view")?;
    let mut room = [0; ROOM];
    let Some(received) = sock::receive_with(line.as_fd(), &mut room)? else { return Ok(()) };
    let mut descriptors = received.descriptors.into_iter();
    let (Some(fuse), Some(proc)) = (descriptors.next(), descriptors.next()) else { return Ok(()) };
    let (Some(tree), Some(agents)) = (descriptors.next(), descriptors.next()) else { return Ok(()) };
    let text = String::from_utf8_lossy(&room[..received.bytes]).into_owned();
    let (front, node) = address(&text).ok_or_else(|| Fault::bug(format!("the agent says {text:?}")))?;
    let line = line.try_clone().map_err(|e| Fault::io(&e, "duplicate the line to the agent"))?;
    let maker = match ns::fork(Namespaces::empty())? {
        Forked::Child => {
            // Else the end of who serves would not be the end of the view.
            drop(fuse);
            let made = ns::die_with_parent()
                .and_then(|()| make(&tree, &agents, places))
                .and_then(|namespace| sock::send_with(line.as_fd(), MADE, &[namespace.as_fd()]).map(drop));
            if let Err(fault) = &made {
                warn!(%fault, "view: its mount namespace");
            }
            ns::exit(i32::from(made.is_err()))
        }
        Forked::Parent(maker) => maker.pid,
    };
    drop((tree, agents));
    threads::start("maker", move || reap(maker))?;
    serve::serve(config, Connection::adopt(fuse), proc, (front, node), line)
}

/// Without a namespace there is nothing to serve.
fn reap(maker: Pid) {
    let ended = wait::ended(maker).map(|waited| waited.change);
    if !matches!(ended, Ok(wait::Change::Ended(vocab::Exit::Code(0)))) {
        ns::exit(1);
    }
}

/// In a process of its own: in the agent's namespace, then in a new one.
fn make(tree: &OwnedFd, agents: &OwnedFd, (run_dir, local): (&Path, &[PathBuf])) -> Result<OwnedFd> {
    let machines = File::open("/proc").map_err(|e| Fault::io(&e, "open /proc"))?.into();
    view::go_back(agents)?;
    view::begin()?;
    furnish_apart(tree, &run_dir.join("view"), local)?;
    view::own_namespace_by(&machines)
}
