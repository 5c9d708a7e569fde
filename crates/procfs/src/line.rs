//! The connection to the daemon: it tells of ghosts, and passes on questions to nodes, and their answers.

use crate::asking::Line;
use crate::doors::Doors;
use crate::server::Server;
use kern::fuse::tree::ROOT;
use kern::poll::{poll, poll_for, Ready};
use std::io::{BufReader, Read};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tracing::{info, warn};
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
pub(crate) struct Connection(BufReader<UnixStream>);

/// # Errors
/// `Gone` when no daemon is there.
pub(crate) fn connect(socket: &Path) -> Result<(Line, Connection)> {
    let failed = |e: std::io::Error| Fault::io(&e, format!("connect to {}", socket.display()));
    let stream = UnixStream::connect(socket).map_err(failed)?;
    let hears = stream.try_clone().map_err(failed)?;
    let line = Line::new(stream);
    line.ask(&Ask::Ghosts)?;
    Ok((line, Connection(BufReader::with_capacity(ROOM, hears))))
}

/// What a node's daemon says is wrong with the link to the front end may be right again after this.
const AGAIN: Duration = Duration::from_millis(500);

impl Connection {
    /// The daemon's first word: may who asks have a view? It may wait for that for as long as the daemon says nothing.
    ///
    /// # Errors
    /// What the daemon has against it, and `Gone` when there is none.
    pub(crate) fn first(&mut self, server: &Server) -> Result<()> {
        match next(&mut self.0)? {
            Answer::Ghosts { stand, gone, others } => take(server, stand, gone, &others),
            Answer::Failed(fault) => return Err(fault),
            other => return Err(Fault::wire(format!("the daemon said {other:?}"))),
        };
        Ok(())
    }

    /// Starts the threads that hear of ghosts and see to what follows. What is returned ends when the daemon does.
    ///
    /// # Errors
    /// `Sys` when a thread cannot be started.
    pub(crate) fn follow(self, server: &Arc<Server>, doors: Arc<Doors>) -> Result<Receiver<()>> {
        let (tell, changes) = channel();
        let (over, end) = channel();
        let thread = |name: &str| std::thread::Builder::new().name(name.into());
        let (follows, hears, nobody_binds) = (server.clone(), server.clone(), over.clone());
        let started = thread("changes").spawn(move || {
            follow(&changes, &follows, &doors);
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

/// Has bound what is to be, then tells the kernel what it knows no longer, until nobody tells of changes any more. It may wait for those who serve.
fn follow(changes: &Receiver<Change>, server: &Server, doors: &Doors) {
    while let Ok(Change { gone, new, stirred }) = changes.recv() {
        let new: Vec<Pid> = new.into_iter().filter(|pid| server.ghosts.get(*pid).is_some()).collect();
        if server.ghosts.are_apart() {
            // The tree is all of /proc: the name may have been another one's.
            new.iter().for_each(|pid| server.tree.remove(ROOT, pid.to_string().as_bytes()));
        }
        if let Err(fault) = doors.tell(&gone, &new) {
            return warn!("/proc shows ghosts: {fault}");
        }
        server.homecoming.is_made();
        stirred.into_iter().for_each(|(pid, other)| server.outdate(pid, other));
        server.ahead.change(new.iter().filter_map(|pid| server.ghosts.get(*pid)), &gone);
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

fn hear(mut stream: BufReader<UnixStream>, server: &Server, tell: &Sender<Change>) {
    crate::run_first();
    server.guide.joins();
    // When a node's daemon is to be asked again for what runs elsewhere.
    let mut again: Option<Instant> = None;
    loop {
        if let Some(at) = again.filter(|_| stream.buffer().is_empty()) {
            let left = at.saturating_duration_since(Instant::now());
            let came = poll_for(&[(stream.get_ref().as_fd(), Ready::READ)], Some(left));
            if left.is_zero() || came.is_ok_and(|came| !came.iter().any(|one| one.readable || one.over)) {
                again = None;
                server.machines.ask_for_ghosts();
                continue;
            }
        }
        match next(&mut stream) {
            Ok(Answer::Ghosts { stand, gone, others }) => {
                server.homecoming.hears();
                drop(tell.send(take(server, stand, gone, &others)));
            }
            Ok(Answer::Entries { id, found, last, errno, node }) => {
                server.machines.answered(node, id, &found, last, errno);
            }
            // It says so of each question that is open, when it has no link to the front end.
            Ok(Answer::Failed(fault)) if server.ghosts.are_apart() => {
                if again.is_none() {
                    info!(%fault, "what runs elsewhere is not shown");
                    let gone = server.ghosts.pids().to_vec();
                    server.homecoming.hears();
                    let _ = tell.send(take(server, Vec::new(), gone, &[]));
                    again = Some(Instant::now() + AGAIN);
                }
            }
            Ok(Answer::Nodes(rows)) => server.whole.cluster.are(&rows),
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
