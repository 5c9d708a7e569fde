//! The outer process: it starts the agent, and kills it when its lease of life is over, also when it hangs or is stopped.
//!
//! The agent says at each beat that came back until when it may live. What happens to the agent happens to every process of the space
//! here, since it is their init; and it dies with this process.

use crate::birth;
use crate::config::NodeConfig;
use crate::fence;
use crate::looking::Looker;
use crate::message::{Message, MESSAGE};
use crate::share::Share;
use kern::cgroup;
use kern::clock::{boottime_us, monotonic_us};
use kern::init::SignalFd;
use kern::lock::Lock;
use kern::ns::{self, Child, Forked, Namespaces};
use kern::poll::{poll, Ready};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use tracing::{error, info, warn};
use view::node::Asked;
use vocab::{Fault, NodeId, Pid, Result, Sig};

/// Milliseconds before an agent that ended is started again, by how often it did not even join in a row.
const PAUSES_MS: [i32; 5] = [0, 100, 400, 1_600, 3_000];

const PREFIX: &str = "shoal-node.";

/// How long another daemon's socket is waited for, should it be there, and then for its end, in microseconds.
const PATIENCE_US: u64 = 1_000_000;

/// Why the watch over one agent ended.
enum End {
    /// SIGTERM, SIGINT: everything here ends.
    Told,
    /// The agent has ended or was killed; `joined` says whether the front end had welcomed it.
    Agent { joined: bool },
}

/// The process that serves the front end's files.
enum Serving {
    Nobody,
    /// All programs see them, and end with it.
    All(Child),
    WhoAsks(Asked),
}

impl Serving {
    fn child(&self) -> Option<&Child> {
        match self {
            Serving::Nobody => None,
            Serving::All(child) => Some(child),
            Serving::WhoAsks(asked) => Some(asked.child()),
        }
    }
}

struct Outer {
    config: NodeConfig,
    cgroup: PathBuf,
    signals: SignalFd,
    number: Option<NodeId>,
    share: Share,
}

/// Runs the node daemon until SIGTERM or SIGINT. The calling process must have one thread.
///
/// # Errors
/// What keeps it from starting at all, as another daemon at the same run directory. A front end that cannot be reached, and an agent that ends, are no
/// errors: it tries again.
pub fn run(mut config: NodeConfig) -> Result<()> {
    config.run_dir = kern::mount::directory(&config.run_dir)?;
    let socket = config.socket();
    let taken = || {
        let socket = socket.display();
        Fault::refused(format!("another daemon serves {socket} already (each on a machine needs a run_dir of its own)"))
    };
    if is_served(&socket) {
        return Err(taken());
    }
    // It may be one whose agent has yet to begin.
    let _lock = Lock::take(&config.run_dir.join("lock"))?.ok_or_else(taken)?;
    kern::own::raise_files()?;
    kern::own::leave_session_keyring()?;
    let own = match &config.cgroup {
        Some(_) => None,
        None => Some(claim()?),
    };
    let cgroup = match (&config.cgroup, &own) {
        (Some(path), _) => path.clone(),
        (None, Some(claim)) => claim.path().to_owned(),
        (None, None) => return Err(Fault::bug("no cgroup")),
    };
    cgroup::enter(&cgroup, Pid::NONE)?;
    birth::run_first();
    let signals = SignalFd::new(&[Sig::TERM, Sig::INT])?;
    let number = config.number;
    let share = Share::begin(&cgroup, own.is_some(), config.cpu_weight);
    let mut outer = Outer { config, cgroup: cgroup.clone(), signals, number, share };
    let done = outer.watch_agents();
    outer.share.end();
    if own.is_some() {
        leave(&cgroup);
    }
    // Nobody is behind it any more.
    let _ = std::fs::remove_file(&socket);
    done
}

/// Does another daemon live at `socket`? One that was killed serves it until its agent has died too, which closes every connection.
fn is_served(socket: &Path) -> bool {
    let until = monotonic_us() + PATIENCE_US;
    loop {
        let left_us = until.saturating_sub(monotonic_us());
        let Ok(there) = kern::sock::unix_connect(socket, left_us) else { return false };
        let over =
            poll(&[(there.as_fd(), Ready::OVER)], left_us.div_ceil(1000) as i32).is_ok_and(|ready| ready[0].over);
        if !over || left_us == 0 {
            return true;
        }
    }
}

/// A cgroup of our own, after those of dead daemons have been removed.
fn claim() -> Result<cgroup::Claim> {
    let root = cgroup::find_v2()?;
    cgroup::sweep(&root, PREFIX)?;
    cgroup::claim(&root.join(format!("{PREFIX}{:016x}", u64::from_ne_bytes(link::random::<8>()?))))
}

fn leave(path: &Path) {
    fence::sweep();
    let left = match path.parent() {
        Some(parent) => cgroup::enter(parent, Pid::NONE),
        None => Ok(()),
    };
    if let Err(fault) = left.and_then(|()| cgroup::remove(path)) {
        warn!(%fault, "the node's cgroup stays");
    }
}

impl Outer {
    fn watch_agents(&mut self) -> Result<()> {
        let mut failed = 0usize;
        loop {
            let pause = PAUSES_MS[failed.min(PAUSES_MS.len() - 1)];
            if poll(&[(self.signals.as_fd(), Ready::READ)], pause).is_ok_and(|ready| ready[0].readable) {
                return Ok(());
            }
            match self.one_agent()? {
                End::Told => return Ok(()),
                End::Agent { joined: true } => failed = 0,
                End::Agent { joined: false } => failed += 1,
            }
            warn!("the agent has ended, and with it every process of the space here; starting another");
        }
    }

    /// Who serves the view, if there is one, and the line to it.
    fn start_view(&self) -> Result<(Option<OwnedFd>, Serving)> {
        let Some(view) = &self.config.view else { return Ok((None, Serving::Nobody)) };
        let config = self.view_config();
        match view.usual {
            true => view::node::start(&config).map(|(line, child)| (Some(line), Serving::All(child))),
            false => {
                let started = Asked::start(&config, &self.config.run_dir, &view.local);
                started.map(|(line, asked)| (Some(line), Serving::WhoAsks(asked)))
            }
        }
    }

    fn view_config(&self) -> view::node::Config {
        let store = self.config.view.as_ref().and_then(|view| view.store.clone());
        view::node::Config { key: self.config.key, patience: self.config.lost_grace, store }
    }

    fn one_agent(&mut self) -> Result<End> {
        let (line, mut view) = self.start_view()?;
        let end = self.one_agent_with(line, &mut view);
        // Who waits for a file gets an error, and can end.
        let ended = view.child().map_or(Ok(()), |view| end_child(view, "view ended"));
        end.and_then(|end| ended.map(|()| end))
    }

    fn one_agent_with(&mut self, line: Option<OwnedFd>, view: &mut Serving) -> Result<End> {
        let (read, write) = kern::sys::pipe()?;
        let (lookers, server) = Looker::all()?;
        let agent = match ns::fork(Namespaces::PID | Namespaces::MOUNT)? {
            Forked::Child => {
                // Or these copies would keep the pipes open when the outer process dies.
                drop((read, server));
                let given = birth::Given { outer: write, view: line, lookers };
                ns::exit(birth::agent(&self.config, (&self.cgroup, &self.share), self.number, given));
            }
            Forked::Parent(agent) => agent,
        };
        drop((write, line, lookers));
        // Without it nobody's arguments are told, and input is not read before a program waits for it.
        let native = match self.config.shows_space {
            true => procfs::node_proc::native(&self.config.run_dir),
            false => PathBuf::from("/proc"),
        };
        let looking = server.start(agent.pid, &native).map_err(|fault| warn!(%fault, "nobody looks at processes")).ok();
        let end = self.watch(&agent, view, &read);
        // Its processes could not end as long as they wait for files that nobody brings.
        if let Some(view) = view.child() {
            let _ = kern::pidfd::kill(view.pidfd.as_fd(), Sig::KILL);
        }
        end_child(&agent, "agent ended")?;
        if let Some(looking) = looking {
            looking.end();
        }
        end
    }

    fn watch(&mut self, agent: &Child, view: &mut Serving, read: &OwnedFd) -> Result<End> {
        let mut expires_us = None;
        loop {
            let left_us = expires_us.map(|at: u64| at.saturating_sub(boottime_us()));
            let timeout = left_us.map_or(-1, |us| i32::try_from(us.div_ceil(1000)).unwrap_or(i32::MAX));
            let mut wanted = vec![
                (agent.pidfd.as_fd(), Ready::READ),
                (read.as_fd(), Ready::READ),
                (self.signals.as_fd(), Ready::READ),
            ];
            wanted.extend(view.child().map(|view| (view.pidfd.as_fd(), Ready::READ)));
            let ready = match poll(&wanted, timeout) {
                Ok(ready) => ready,
                Err(kern::poll::EINTR) => continue,
                Err(errno) => return Err(Fault::sys(errno, "watch the agent")),
            };
            if ready[2].readable {
                info!("told to end");
                return Ok(End::Told);
            }
            if ready[1].readable {
                expires_us = self.said(read)?.or(expires_us);
            } else if ready[0].readable || ready[1].over {
                return Ok(End::Agent { joined: expires_us.is_some() });
            } else if let (true, Serving::WhoAsks(asked)) = (ready.get(3).is_some_and(|view| view.readable), &mut *view)
            {
                warn!("who serves the front end's files has ended: processes that see them are killed");
                let local = self.config.view.as_ref().map_or(&[][..], |view| &view.local);
                asked.again(&self.view_config(), &self.config.run_dir, local)?;
            } else if ready.get(3).is_some_and(|view| view.readable) {
                error!("who serves the view has ended: every process of the space here is killed");
                return Ok(End::Agent { joined: expires_us.is_some() });
            } else if left_us == Some(0) {
                error!("the lease of life is over: every process of the space here is killed");
                return Ok(End::Agent { joined: true });
            }
        }
    }

    /// For whoever on this machine wants to know which node it is.
    fn write_number(&self, number: NodeId) {
        let path = self.config.number_file();
        let new = path.with_extension("new");
        let written = std::fs::write(&new, format!("{}\n", number.0)).and_then(|()| std::fs::rename(&new, &path));
        if let Err(error) = written {
            warn!(%error, "nobody here can read which node this is");
        }
    }

    /// Takes what the agent has said; the newest counts.
    fn said(&mut self, read: &OwnedFd) -> Result<Option<u64>> {
        let mut bytes = [0; 64 * MESSAGE];
        let count =
            kern::sys::read(read.as_fd(), &mut bytes).map_err(|errno| Fault::sys(errno, "read from the agent"))?;
        // Writes of 12 bytes to a pipe are never split (pipe(7), PIPE_BUF).
        let Some(last) = bytes[..count].chunks_exact(MESSAGE).last() else { return Ok(None) };
        let last: &[u8; MESSAGE] = last.try_into().map_err(|_| Fault::bug("a chunk of another length"))?;
        let message = Message::from(last);
        if self.number.replace(message.number) != Some(message.number) || !self.config.number_file().exists() {
            self.write_number(message.number);
        }
        if let Some(fd) = self.config.ready_fd.take() {
            if let Err(errno) = kern::sys::write(fd.as_fd(), b"\n") {
                warn!(errno, "nobody waits for this node to be ready");
            }
        }
        Ok(Some(message.expires_us))
    }
}

/// Kills it, if it lives, and waits until it is dead; of the agent, all of its namespace.
fn end_child(child: &Child, what: &str) -> Result<()> {
    // Ended already is as good.
    let _ = kern::pidfd::kill(child.pidfd.as_fd(), Sig::KILL);
    match kern::wait::ended(child.pid) {
        Ok(waited) => {
            info!(end = ?waited.change, "{what}");
            Ok(())
        }
        Err(errno) => Err(Fault::sys(errno, format!("wait: {what}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_agent_says_comes_through() {
        let message = Message { expires_us: 1 << 40, number: NodeId(-1) };
        assert_eq!(Message::from(&message.bytes()), message);
    }
}
