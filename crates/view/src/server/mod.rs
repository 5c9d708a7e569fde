//! The front end's side: it does what nodes ask for, each request with the rights of who asks.

mod ahead;
mod attributes;
mod behind;
mod busy;
mod call;
mod calls;
mod coherence;
mod contents;
mod counts;
mod descriptors;
mod directories;
mod granting;
mod inodes;
mod locks;
mod mounts;
mod names;
mod objects;
mod restrict;
mod serve;
mod session;
mod status;
mod strangers;
mod team;
mod trails;

pub use restrict::Squash;

use crate::line::{lock, Line};
use busy::{Hint, Request};
use coherence::Coherence;
use inodes::Inodes;
use kern::acting::{Acting, Waiter};
use kern::clock::monotonic_us;
use kern::fanotify::Watch;
use kern::file_lease::Breaks;
use kern::ns::{self, Forked, Namespaces};
use kern::poll::{poll, Ready};
use kern::wait::{self, Change};
use kern::{pidfd, sock};
use link::Secure;
use session::Session;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{channel, Sender};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use strangers::Strangers;
use team::Team;
use tracing::{info, warn};
use vocab::{Exit, Fault, NodeId, Pid, Result};
use wire::view::{ToNode, ToServer, SESSION, VERSION};

/// A peer has so long for the handshake and its first message.
const GREETING: Duration = Duration::from_secs(10);
/// The socket in the run directory at which the front end's daemon hands connections over.
pub(crate) const SOCKET: &str = "view.sock";
/// Words of the daemon: a connection comes with the first, and a new daemon says the second.
const CONNECTION: u8 = b'v';
const DAEMON: u8 = b'd';
/// Anybody of root's asks with this one for what nodes have asked, and is answered there.
const STATUS: u8 = b's';
/// And with this one and a path behind it for nodes to let go of the file system there; the answer is how many files they still know of it, as text.
const LET_GO: u8 = b'l';
/// Before a server that has ended is started again, in milliseconds.
const PAUSE_MS: i32 = 200;
/// Bytes of a word and a path.
const PATH_MOST: usize = 4096;
/// A server answers within this.
const ANSWER_MS: i32 = 10_000;
/// Notes of the kernel and of threads: their stacks are small.
const STACK: usize = 512 * 1024;

/// The settings of the server.
#[derive(Clone, Debug)]
pub struct Config {
    pub run_dir: PathBuf,
    /// The cluster key.
    pub key: [u8; 32],
    /// How long a node may be unreachable before it has lost what it had.
    pub patience: Duration,
    pub squash: Squash,
    /// The daemon that has started the calling process. Another one may take its place within the time above; then the process ends.
    pub daemon: Pid,
}

struct Server {
    config: Config,
    coherence: Arc<Coherence>,
    sessions: Mutex<Sessions>,
    strangers: Strangers,
    /// Requests that are called off, to the thread that does that.
    called_off: Sender<(Arc<Session>, u64)>,
}

#[derive(Default)]
struct Sessions {
    by_name: HashMap<[u8; SESSION], Arc<Session>>,
    last: u32,
}

/// Keeps a process that serves, as long as there is a daemon.
///
/// # Errors
/// What kept it from beginning.
pub fn run(config: &Config) -> Result<()> {
    let _its_own_already = ns::new_session();
    ns::set_name("shoal:view")?;
    kern::own::raise_files()?;
    loop {
        match ns::fork(Namespaces::empty())? {
            Forked::Parent(child) => match wait::ended(child.pid) {
                Ok(waited) if waited.change == Change::Ended(Exit::Code(0)) => return Ok(()),
                _ => {}
            },
            Forked::Child => {
                let served = ns::die_with_parent().and_then(|()| serve(config.clone()));
                if let Err(fault) = &served {
                    warn!(%fault, "view: the server");
                }
                ns::exit(i32::from(served.is_err()))
            }
        }
        warn!("view: the server has ended; what nodes had open is lost");
        let _ = poll(&[], PAUSE_MS);
    }
}

/// Serves until there is no daemon any more.
fn serve(config: Config) -> Result<()> {
    Waiter::prepare()?;
    let breaks = Breaks::new()?;
    let watch = Watch::new().map(Arc::new).inspect_err(|fault| warn!(%fault, "view: nodes keep no names")).ok();
    let files = Watch::of_files().map(Arc::new).ok();
    let coherence = Coherence::new(Inodes::new(watch.clone(), files.clone())?, config.patience);
    let socket = sock::unix_listen_for_descriptors(&config.run_dir.join(SOCKET))?;
    let (called_off, to_call_off) = channel();
    spawn("called off", move || serve::call_off(&to_call_off))?;
    let server = Arc::new(Server {
        config,
        coherence: coherence.clone(),
        sessions: Mutex::default(),
        strangers: Strangers::default(),
        called_off,
    });
    if let Some(watch) = watch {
        let coherence = coherence.clone();
        spawn("changes", move || coherence.watch(&watch))?;
    }
    if let Some(files) = files {
        let coherence = coherence.clone();
        spawn("attributes", move || coherence.watch(&files))?;
    }
    let of_mounts = coherence.clone();
    spawn("mounts", move || of_mounts.watch_mounts())?;
    spawn("leases", move || coherence.let_go(&breaks))?;
    let of_lost = server.clone();
    spawn("lost", move || of_lost.end_lost())?;
    let mut daemon = pidfd::open(server.config.daemon).ok();
    let mut alone_since = Instant::now();
    loop {
        let left = server.config.patience.saturating_sub(alone_since.elapsed());
        let timeout = if daemon.is_some() { -1 } else { i32::try_from(left.as_millis()).unwrap_or(i32::MAX) };
        let mut wanted = vec![(socket.as_fd(), Ready::READ)];
        wanted.extend(daemon.as_ref().map(|daemon| (daemon.as_fd(), Ready::READ)));
        let ready = poll(&wanted, timeout).unwrap_or_default();
        if ready.get(1).is_some_and(|daemon| daemon.readable) {
            (daemon, alone_since) = (None, Instant::now());
        }
        while let Some(from) = sock::accept(socket.as_fd())? {
            match server.handed(&from) {
                Ok(Some(new)) => daemon = Some(new),
                Ok(None) => {}
                Err(fault) => info!(%fault, "view: the daemon's word"),
            }
        }
        if daemon.is_none() && alone_since.elapsed() >= server.config.patience {
            info!("view: there is no daemon any more");
            return Ok(());
        }
    }
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<()> {
    let thread = std::thread::Builder::new().name(name.into()).stack_size(STACK).spawn(run);
    thread.map(drop).map_err(|e| Fault::io(&e, format!("start the thread {name}")))
}

impl Server {
    /// The daemon hands a node's connection over; or a new one says that it is there, which is returned.
    fn handed(self: &Arc<Self>, from: &OwnedFd) -> Result<Option<OwnedFd>> {
        let _ = poll(&[(from.as_fd(), Ready::READ)], PAUSE_MS);
        let mut said = [0; PATH_MOST];
        let Some(received) = sock::receive_with(from.as_fd(), &mut said)? else { return Ok(None) };
        let Some((word, rest)) = said[..received.bytes].split_first() else { return Ok(None) };
        for fd in received.descriptors {
            let server = self.clone();
            spawn("greeting", move || {
                if let Err(fault) = server.greet(fd) {
                    info!(%fault, "view: a connection");
                }
            })?;
        }
        match *word {
            LET_GO => {
                let (coherence, at) = (self.coherence.clone(), PathBuf::from(OsStr::from_bytes(rest)));
                let to = from.try_clone().map_err(|e| Fault::io(&e, "answer a command"))?;
                spawn("let go", move || {
                    let left = coherence.let_go_of(&at).to_string();
                    // Who has asked may have gone.
                    let _ = sock::send(to.as_fd(), left.as_bytes());
                })?;
                Ok(None)
            }
            STATUS => {
                let status = self.coherence.status();
                status::say(from, &status)?;
                Ok(None)
            }
            DAEMON => Ok(pidfd::open(sock::peer_credentials(from.as_fd())?.pid).ok()),
            _ => Ok(None),
        }
    }

    fn greet(self: &Arc<Self>, fd: OwnedFd) -> Result<()> {
        kern::sys::set_nonblocking(fd.as_fd(), true)?;
        sock::tcp_tune(fd.as_fd(), (self.config.patience.as_millis() as u32).max(1000))?;
        let from = sock::peer_address(fd.as_fd())?;
        let stranger = self.strangers.enter(&fd)?;
        let begun = Secure::control_taker(fd, &self.config.key)
            .and_then(|secure| Line::begin(secure, Instant::now() + GREETING));
        self.strangers.leave(stranger);
        let line = Arc::new(begun?);
        let ToServer::Hello { version, session, node, resumes, port, takes_grants } = line.receive()? else {
            return Err(Fault::wire("a node must begin with Hello"));
        };
        let refuse = |fault: Fault| {
            let _ = line.send(&ToNode::Refused(fault.clone()));
            Err(fault)
        };
        if version != VERSION {
            return refuse(Fault::refused(format!("the node's view is of version {version}, this one of {VERSION}")));
        }
        let Ok(name) = <[u8; SESSION]>::try_from(session.as_slice()) else {
            return refuse(Fault::wire("a session's name has 16 bytes"));
        };
        let contents = (port != 0).then(|| SocketAddr::new(from.ip(), port));
        let Some(session) = self.session(name, (node, contents, takes_grants), resumes) else {
            return refuse(Fault::gone("go on with a view: the node was lost too long"));
        };
        info!(%node, resumes, "view: a node");
        session.connect(&line, &ToNode::Welcome(resumes));
        self.one_more(&Arc::new(Team::new(session, line)?))
    }

    /// Starts another thread for a connection.
    fn one_more(self: &Arc<Self>, team: &Arc<Team>) -> Result<()> {
        let (server, other) = (self.clone(), team.clone());
        team.enter();
        spawn("files", move || {
            server.work(&other);
            other.leave();
        })
        .inspect_err(|_| {
            team.leave();
        })
    }

    /// The one that is to go on, or a new one in the place of what this node had before.
    fn session(
        &self,
        name: [u8; SESSION],
        (node, contents, takes_grants): (NodeId, Option<SocketAddr>, bool),
        resumes: bool,
    ) -> Option<Arc<Session>> {
        let mut sessions = lock(&self.sessions);
        if resumes {
            // One that has lost what it had is none to go on with: what runs on the node has to end.
            return sessions.by_name.get(&name).filter(|session| !session.is_over()).cloned();
        }
        let before: Vec<_> =
            sessions.by_name.iter().filter(|(_, one)| one.node == node).map(|(name, _)| *name).collect();
        let before: Vec<_> = before.iter().filter_map(|name| sessions.by_name.remove(name)).collect();
        sessions.last += 1;
        let new = Arc::new(Session::new(sessions.last, node, contents, takes_grants));
        sessions.by_name.insert(name, new.clone());
        drop(sessions);
        before.iter().for_each(|session| self.coherence.leave(session));
        self.coherence.join(&new);
        Some(new)
    }

    /// Serves requests of a connection, one of several threads. There is always one that waits for what the node says, however many wait for the node, or for others.
    fn work(self: &Arc<Self>, team: &Arc<Team>) {
        let Team { session, line, .. } = &**team;
        let Ok(mut acting) = Acting::begin().inspect_err(|fault| warn!(%fault, "view")) else { return };
        loop {
            let message = match team.next() {
                Ok(None) => return,
                Ok(Some((message, last))) => {
                    if last {
                        acting.become_root();
                        if let Err(fault) = self.one_more(team) {
                            warn!(%fault, "view");
                        }
                    }
                    Ok(message)
                }
                Err(fault) => Err(fault),
            };
            match message {
                Ok(ToServer::Ask { number, groups, request, done, own, path, silent, intent }) => {
                    session.counts.own.fetch_max(own, Ordering::Relaxed);
                    if session.is_new(number, &done) {
                        let hint = Hint { path: path.map(Into::into).unwrap_or_default(), intent };
                        let (request, unique) = (request.into(), 0);
                        let request = Request { number, groups, hint, silent, request, unique };
                        self.serve_in_turn(session, &mut acting, request);
                    }
                }
                Ok(ToServer::Kept { bytes, from_disk, from_nodes }) => {
                    session.counts.keeps([bytes, from_disk, from_nodes]);
                }
                Ok(ToServer::Noted(one, others)) => session.noted(one, &others),
                Ok(ToServer::Hello { .. }) => line.close(),
                Err(_) => return session.disconnect(line),
            }
        }
    }

    /// Ends what nodes had that are gone for too long.
    fn end_lost(&self) {
        let least = (self.config.patience / 8).max(Duration::from_millis(50));
        loop {
            let _ = kern::poll::poll_for(&[], Some(least));
            let lost: Vec<Arc<Session>> = {
                let mut sessions = lock(&self.sessions);
                let is_lost = |session: &Session| session.lost_for().is_some_and(|time| time >= self.config.patience);
                let names: Vec<_> =
                    sessions.by_name.iter().filter(|(_, one)| is_lost(one)).map(|(name, _)| *name).collect();
                names.iter().filter_map(|name| sessions.by_name.remove(name)).collect()
            };
            for session in lost {
                info!(node = %session.node, at_us = monotonic_us(), "view: a node is lost");
                self.coherence.leave(&session);
            }
        }
    }
}

/// For the front end's daemon: hands a connection of a node to the server.
///
/// # Errors
/// When nobody serves there.
pub fn hand_over(run_dir: &std::path::Path, connection: &OwnedFd) -> Result<()> {
    let to = sock::unix_connect(&run_dir.join(SOCKET), 0)?;
    sock::send_with(to.as_fd(), &[CONNECTION], &[connection.as_fd()]).map(drop)
}

/// For a daemon that begins: the server of the one before is its own from now on, with all that nodes have open. False: there is none.
pub fn take_over(run_dir: &std::path::Path) -> bool {
    let to = sock::unix_connect(&run_dir.join(SOCKET), 0);
    to.and_then(|to| sock::send_with(to.as_fd(), &[DAEMON], &[])).is_ok()
}

/// Has nodes let go of the file system that is mounted at this path of the front end; how many of its files they know all the same, since they are in use there.
///
/// # Errors
/// When nobody serves there, or who asks is not root; `Refused` for a path that is too long.
pub fn let_go(run_dir: &std::path::Path, at: &std::path::Path) -> Result<u64> {
    let said = [&[LET_GO], at.as_os_str().as_bytes()].concat();
    if said.len() > PATH_MOST {
        return Err(Fault::refused(format!("a path of {} bytes", said.len() - 1)));
    }
    let to = sock::unix_connect(&run_dir.join(SOCKET), 0)?;
    sock::send(to.as_fd(), &said).map_err(|errno| Fault::sys(errno, "ask the server of files"))?;
    let _ = poll(&[(to.as_fd(), Ready::READ)], ANSWER_MS);
    let mut answer = [0; 32];
    let length =
        kern::sys::read(to.as_fd(), &mut answer).map_err(|errno| Fault::sys(errno, "hear the server of files"))?;
    let text = std::str::from_utf8(&answer[..length]).ok().and_then(|text| text.parse().ok());
    text.ok_or_else(|| Fault::gone("the server of files does not answer"))
}

/// Of the server of this run directory: what nodes have asked for, and what they keep.
///
/// # Errors
/// When nobody serves there, or who asks is not root.
pub fn status(run_dir: &std::path::Path) -> Result<wire::view::Status> {
    let to = sock::unix_connect(&run_dir.join(SOCKET), 0)?;
    sock::send(to.as_fd(), &[STATUS]).map_err(|errno| Fault::sys(errno, "ask the server of files"))?;
    status::hear(&to)
}
