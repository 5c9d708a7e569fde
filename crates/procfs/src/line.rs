//! The connection to the daemon: it tells of ghosts, and passes on questions to nodes, and their answers.

use crate::asking::Line;
use crate::binds::Binds;
use crate::server::Server;
use kern::fuse::tree::ROOT;
use kern::poll::{poll, Ready};
use std::io::{BufReader, Read};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::Arc;
use tracing::warn;
use vocab::{Fault, NodeId, Pid, Result};
use wire::ask::{Answer, Ask};
use wire::frame;

/// Bytes that are read at once of what the daemon says.
const ROOM: usize = 64 * 1024;

/// What has changed, in order.
#[derive(Debug, Default)]
struct Change {
    gone: Vec<Pid>,
    new: Vec<Pid>,
    /// They were there, and are not as they were; true: what is guarded is not either.
    stirred: Vec<(Pid, bool)>,
}

/// The daemon can be asked, and tells of nothing yet.
pub(crate) struct Connection(UnixStream);

/// # Errors
/// `Gone` when no daemon is there.
pub(crate) fn connect(socket: &Path) -> Result<(Line, Connection)> {
    let failed = |e: std::io::Error| Fault::io(&e, format!("connect to {}", socket.display()));
    let stream = UnixStream::connect(socket).map_err(failed)?;
    let hears = stream.try_clone().map_err(failed)?;
    let line = Line::new(stream);
    line.ask(&Ask::Ghosts)?;
    Ok((line, Connection(hears)))
}

impl Connection {
    /// Starts the threads that hear of ghosts and see to what follows. What is returned ends when the daemon does.
    ///
    /// # Errors
    /// `Sys` when a thread cannot be started.
    pub(crate) fn follow(self, server: &Arc<Server>, binds: Binds) -> Result<Receiver<()>> {
        let (tell, changes) = channel();
        let (over, end) = channel();
        let thread = |name: &str| std::thread::Builder::new().name(name.into());
        let (follows, hears, nobody_binds) = (server.clone(), server.clone(), over.clone());
        let started = thread("changes").spawn(move || {
            follow(&changes, &follows, &binds);
            let _ = nobody_binds.send(());
        });
        started.map_err(|e| Fault::io(&e, "start a thread"))?;
        let started = thread("line").spawn(move || {
            hear(self.0, &hears, &tell);
            let _ = over.send(());
        });
        started.map_err(|e| Fault::io(&e, "start a thread"))?;
        Ok(end)
    }
}

/// Tells the kernel what it knows no longer, and who binds what to bind, until nobody tells of changes any more. It may wait for those who serve.
fn follow(changes: &Receiver<Change>, server: &Server, binds: &Binds) {
    while let Ok(Change { gone, new, stirred }) = changes.recv() {
        let new: Vec<Pid> = new.into_iter().filter(|pid| server.ghosts.get(*pid).is_some()).collect();
        if let Err(fault) = binds.tell(&gone, &new) {
            return warn!("/proc shows ghosts: {fault}");
        }
        stirred.into_iter().for_each(|(pid, other)| server.outdate(pid, other));
        for pid in gone.into_iter().filter(|pid| server.ghosts.get(*pid).is_none()) {
            server.tree.remove(ROOT, pid.to_string().as_bytes());
        }
    }
}

/// Waits until something has come. One that waits in read(2) is woken also each time that the daemon has taken what was asked (linux: `unix_write_space`).
fn wait(stream: &UnixStream) {
    // What is wrong with it the read says.
    let _ = poll(&[(stream.as_fd(), Ready::READ)], -1);
}

fn next(stream: &mut BufReader<UnixStream>) -> Result<Answer> {
    let mut head = [0u8; frame::HEAD];
    let gone = |_| Fault::gone("the daemon");
    if stream.buffer().is_empty() {
        wait(stream.get_ref());
    }
    stream.read_exact(&mut head).map_err(gone)?;
    // A whole frame of an empty body tells whether the length is allowed, before anything is allocated for it.
    frame::split(&head)?;
    let mut body = vec![0; u32::from_be_bytes(head) as usize];
    stream.read_exact(&mut body).map_err(gone)?;
    frame::decode(&body)
}

fn hear(stream: UnixStream, server: &Server, tell: &Sender<Change>) {
    crate::run_first();
    server.guide.joins();
    let mut stream = BufReader::with_capacity(ROOM, stream);
    loop {
        match next(&mut stream) {
            Ok(Answer::Ghosts { stand, gone, others }) => drop(tell.send(take(server, stand, gone, &others))),
            Ok(Answer::Entries { id, found, last, errno, node }) => {
                server.machines.answered(node, id, &found, last, errno);
            }
            Ok(other) => warn!(?other, "the daemon says what it was not asked"),
            Err(fault) => return warn!("/proc shows ghosts: {fault}"),
        }
    }
}

fn take(server: &Server, stand: Vec<(Pid, NodeId)>, gone: Vec<Pid>, others: &[Pid]) -> Change {
    let Server { ghosts, machines, .. } = server;
    // A number may have gone and come in one: it has gone first.
    for pid in &gone {
        if let Some(ghost) = ghosts.gone(*pid) {
            machines.gone(ghost.node(), *pid);
        }
    }
    let (mut new, mut stirred) = (Vec::new(), Vec::new());
    for (pid, node) in stand {
        machines.stands(node);
        let Some(before) = ghosts.stand(pid, node) else {
            new.push(pid);
            continue;
        };
        if before != node {
            machines.gone(before, pid);
        }
        let other = others.contains(&pid);
        if let Some(ghost) = ghosts.get(pid) {
            ghost.stirs();
            if other {
                ghost.turns();
            }
        }
        machines.stirs(node, pid);
        stirred.push((pid, other));
    }
    Change { gone, new, stirred }
}
