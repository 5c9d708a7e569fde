//! Views: mount namespaces of a few processes that see the space in /proc, while others of the machine do not.
//!
//! Who begins one says so over a socket, and is waited for by nobody: it executes what is to run there. The view is kept as long as a process is in it. By a
//! mark among its mounts the next server finds it, should this one end before.

use crate::binder::{Binder, Where};
use crate::doors::{Doors, Number};
use crate::ghosts::Ghosts;
use kern::mount::Flags;
use kern::poll::{poll, poll_for, Ready};
use kern::proc::{root, Proc, PROC};
use kern::sock::{self, Peer};
use kern::{mount, pidfd, view};
use std::collections::HashSet;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tracing::{debug, info, warn};
use vocab::{Fault, Pid, Result};

/// In the daemon's run directory: the socket, and where the mark is.
const SOCKET: &str = "views.sock";
const MARK: &str = "view";
/// What is mounted there.
const PLAIN: &str = "shoal-view";
const WHOLE: &str = "shoal-view:whole";
/// What is asked for, and what is answered if there is nothing to be said.
const ASKS_PLAIN: u8 = b'p';
const ASKS_WHOLE: u8 = b'w';
const DONE: &str = "done";
/// How long a client may take to ask, and how long it waits for all ghosts to be bound.
const ASKS: Duration = Duration::from_secs(2);
const BEGINS: Duration = Duration::from_secs(30);
/// How long who serves may take to be there after the daemon, and how often is looked.
const COMES: Duration = Duration::from_secs(2);
const AGAIN: Duration = Duration::from_millis(20);

/// The calling process, which is root's and has one thread, and what it executes see the space in /proc from now on, and `whole`: all machines as one.
///
/// # Errors
/// `Gone` where nobody shows it; what keeps it from being shown.
pub fn begin(run_dir: &Path, whole: bool) -> Result<()> {
    let socket = run_dir.join(SOCKET);
    let doing = || format!("ask for a view of /proc at {}", socket.display());
    let failed = |e: std::io::Error| Fault::io(&e, doing());
    let mut line = connect(&socket, &run_dir.join("shoal.sock"))
        .map_err(|e| Fault::io(&e, format!("{} (is a front end's daemon here, and is proc on?)", doing())))?;
    line.set_read_timeout(Some(BEGINS)).map_err(failed)?;
    view::begin()?;
    mount::mount_from(if whole { WHOLE } else { PLAIN }, "tmpfs", &run_dir.join(MARK), Flags::all(), "size=4k,mode=0")?;
    line.write_all(&[if whole { ASKS_WHOLE } else { ASKS_PLAIN }]).map_err(failed)?;
    let mut said = String::new();
    line.read_to_string(&mut said).map_err(failed)?;
    match said.as_str() {
        DONE => Ok(()),
        "" => Err(Fault::gone("who shows the space in /proc")),
        why => Err(Fault::refused(why.to_string())),
    }
}

/// A daemon that has just begun to listen may have nobody yet who shows /proc; and who has bound a socket may not listen yet, of which nothing tells when it does.
fn connect(socket: &Path, daemon: &Path) -> std::io::Result<UnixStream> {
    let deadline = Instant::now() + COMES;
    loop {
        match UnixStream::connect(socket) {
            Err(e)
                if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused)
                    && Instant::now() < deadline
                    && UnixStream::connect(daemon).is_ok() =>
            {
                let _ = poll_for(&[], Some(AGAIN));
            }
            done => return done,
        }
    }
}

/// One of them.
#[derive(Debug)]
struct View {
    number: Number,
    /// A process that is in it.
    process: OwnedFd,
    /// Which mount namespace it is, and who binds there.
    namespace: (u64, u64),
    binds: Pid,
}

/// All of them, and where who begins one says so.
#[derive(Debug)]
pub(crate) struct Views {
    listener: OwnedFd,
    mark: PathBuf,
    binder: Arc<Binder>,
    doors: Arc<Doors>,
    ghosts: Arc<Ghosts>,
    all: Vec<View>,
}

impl Views {
    /// # Errors
    /// `Sys` when nobody can be listened to.
    pub(crate) fn new(run_dir: &Path, binder: Arc<Binder>, doors: Arc<Doors>, ghosts: Arc<Ghosts>) -> Result<Views> {
        let mark = mount::directory(&run_dir.join(MARK))?;
        let listener = sock::unix_listen(&run_dir.join(SOCKET), 0o600)?;
        Ok(Views { listener, mark, binder, doors, ghosts, all: Vec::new() })
    }

    /// Starts the thread that sees to them; those that were there before this process are found again.
    ///
    /// # Errors
    /// `Sys` when there is no thread to be had.
    pub(crate) fn start(mut self) -> Result<()> {
        let thread = std::thread::Builder::new().name("views".into());
        let started = thread.spawn(move || {
            self.find();
            loop {
                self.turn();
            }
        });
        started.map(drop).map_err(|e| Fault::io(&e, "start a thread"))
    }

    fn turn(&mut self) {
        let all = self.all.iter().map(|view| (view.process.as_fd(), Ready::READ));
        let wanted: Vec<(BorrowedFd<'_>, Ready)> =
            [(self.listener.as_fd(), Ready::READ)].into_iter().chain(all).collect();
        let Ok(came) = poll(&wanted, -1) else { return };
        let is_so = |at: usize| came[at].readable || came[at].over;
        // From behind: what is taken out changes nothing before it.
        for at in (0..self.all.len()).rev().filter(|at| is_so(at + 1)) {
            self.goes_on(at);
        }
        if is_so(0) {
            if let Ok(Some(client)) = sock::accept(self.listener.as_fd()) {
                self.asked(client);
            }
        }
    }

    /// Somebody begins one.
    fn asked(&mut self, client: OwnedFd) {
        let answer = |fault: Fault| fault.to_string();
        let Ok(peer) = Peer::of(client.as_fd()) else { return };
        let mut kind = [0];
        let mut line = UnixStream::from(client);
        let asks = line.set_nonblocking(false).and_then(|()| line.set_read_timeout(Some(ASKS)));
        if asks.and_then(|()| line.read_exact(&mut kind)).is_err() {
            return;
        }
        let said = match peer.pid(line.as_fd()) {
            _ if peer.creds().uid != 0 => answer(Fault::refused("show the space in /proc: that is for root")),
            None => answer(Fault::gone("who asks")),
            Some(pid) => self.open(pid, kind[0] == ASKS_WHOLE).map_or_else(answer, |()| DONE.into()),
        };
        // It may have ended.
        let _ = line.write_all(said.as_bytes());
    }

    fn open(&mut self, pid: Pid, whole: bool) -> Result<()> {
        let gone = || Fault::gone(format!("{pid}, which is to see the space in /proc"));
        let process = pidfd::open(pid).map_err(|_| gone())?;
        let namespace = view::of(pid).ok_or_else(gone)?;
        if Some(namespace) == view::of(Pid(std::process::id() as i32)) {
            return Err(Fault::refused("show the space in /proc: it is the machine's own"));
        }
        let bound = self.binder.open(Where::View { process: process.as_fd(), whole })?;
        let binds = bound.pid;
        let number = self.doors.add(bound, false, &self.ghosts)?;
        info!(%pid, whole, "a view of /proc shows what processes do elsewhere");
        self.all.push(View { number, process, namespace, binds });
        Ok(())
    }

    /// A process that was in it has ended; another one may be.
    fn goes_on(&mut self, at: usize) {
        let view = &mut self.all[at];
        let others = inhabitants().filter(|(pid, namespace)| *namespace == view.namespace && *pid != view.binds);
        match others.filter_map(|(pid, _)| pidfd::open(pid).ok()).next() {
            Some(process) => view.process = process,
            None => {
                info!("a view of /proc has ended");
                let view = self.all.swap_remove(at);
                self.doors.close(view.number);
            }
        }
    }

    /// Those that were begun before this process was started.
    fn find(&mut self) {
        let own = view::of(Pid(std::process::id() as i32));
        let mut seen: HashSet<(u64, u64)> = own.into_iter().collect();
        for (pid, namespace) in inhabitants() {
            if !seen.insert(namespace) || !view::is_of_same_users(pid) {
                continue;
            }
            let mounts = std::fs::read_to_string(format!("{PROC}/{pid}/mountinfo")).unwrap_or_default();
            let Some(whole) = marked(&mounts, &self.mark) else { continue };
            if let Err(fault) = self.open(pid, whole) {
                warn!("a view of /proc does not show what processes do elsewhere any more: {fault}");
            }
        }
    }
}

/// Who is in which mount namespace.
fn inhabitants() -> impl Iterator<Item = (Pid, (u64, u64))> {
    let pids = Proc::open(root()).and_then(|proc| proc.pids());
    let pids = pids.inspect_err(|fault| debug!(%fault, "views are not found")).unwrap_or_default();
    pids.into_iter().filter_map(|pid| Some((pid, view::of(pid)?)))
}

/// Whether a view sees all machines as one; `None`: these are not the mounts of a view.
fn marked(mountinfo: &str, at: &Path) -> Option<bool> {
    // One that was begun within another one has both marks, its own on top.
    mountinfo.lines().rev().find_map(|line| {
        let (head, tail) = line.split_once(" - ")?;
        if head.split(' ').nth(4).map(Path::new) != Some(at) {
            return None;
        }
        match tail.split(' ').collect::<Vec<_>>()[..] {
            ["tmpfs", PLAIN, ..] => Some(false),
            ["tmpfs", WHOLE, ..] => Some(true),
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_is_known_by_its_mark() {
        let at = Path::new("/run/shoal/view");
        let line = |at: &str, kind: &str, source: &str| {
            format!("1 2 0:3 / / rw - ext4 x rw\n40 30 0:50 / {at} rw - {kind} {source} rw\n")
        };
        assert_eq!(marked(&line("/run/shoal/view", "tmpfs", "shoal-view"), at), Some(false));
        assert_eq!(marked(&line("/run/shoal/view", "tmpfs", "shoal-view:whole"), at), Some(true));
        let both =
            line("/run/shoal/view", "tmpfs", "shoal-view:whole") + &line("/run/shoal/view", "tmpfs", "shoal-view");
        assert_eq!(marked(&both, at), Some(false));
        assert_eq!(marked(&line("/run/other/view", "tmpfs", "shoal-view"), at), None);
        assert_eq!(marked(&line("/run/shoal/view", "fuse", "shoal-view"), at), None);
        assert_eq!(marked("half a line", at), None);
    }

    #[test]
    fn this_process_is_in_a_mount_namespace() {
        let own = Pid(std::process::id() as i32);
        assert!(inhabitants().any(|one| Some(one.1) == view::of(own) && one.0 == own));
        assert!(view::is_of_same_users(own));
    }
}
