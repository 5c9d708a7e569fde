//! All of a node's programs see the whole space in /proc ([`crate::node_view`]): for the node's agent, which is in their mount namespace, and keeps a process
//! that serves the tree.
//!
//! That process has a mount namespace of its own, in which /proc is the native one: it never waits for itself. It mounts the tree there, and hands a copy of the
//! mount to the agent, which puts it onto /proc where the programs are, and takes it away when that process has ended or is stuck: then they see the native one
//! until there is another. The agent itself never looks into it ([`kern::proc::look_at`]).

use crate::node_view::NodeView;
use kern::sock::{self, Kind};
use kern::{mount, ns, own, pidfd, sys, view};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use tracing::{info, warn};
use vocab::{Fault, Pid, Result, Sig};

/// How long what a node has said is shown: as the front end's own /proc does by default.
const FRESH: Duration = Duration::from_secs(1);
/// What it keeps of memory that is free, in bytes.
const KEPT: usize = 4 << 20;
/// What is said on the line: the tree shows what there is, and a descriptor of a copy of its mount; later, now and then, that somebody serves it.
const SHOWS: &[u8] = b"shows";
const SERVES: &[u8] = b"serves";
/// One that ended is started again this long after it was started, in microseconds.
const AGAIN_US: u64 = 500_000;
/// One that says nothing for so long is stuck, in microseconds: once the tree is shown, and before (the front end may have no time for it).
const STUCK_US: u64 = 2_000_000;
const STARTS_US: u64 = 30_000_000;
const PROC: &str = "/proc";

/// Where the native procfs is on such a node.
pub fn native(run_dir: &Path) -> PathBuf {
    run_dir.join("native")
}

/// Puts it there, in the mount namespace of the node's programs; it is where this process looks from now on. The node's agent calls it at its beginning.
///
/// # Errors
/// `Sys` as mkdir(2) and mount(2).
pub fn prepare(run_dir: &Path) -> Result<()> {
    let native = mount::directory(&native(run_dir))?;
    mount::bind(Path::new(PROC), &native)?;
    kern::proc::look_at(&native);
    Ok(())
}

/// Serves until the agent ends, which `line` leads to: the process that [`Keeper`] starts.
///
/// # Errors
/// What keeps the space from being shown.
pub fn run(run_dir: &Path, line: &OwnedFd) -> Result<()> {
    // A signal to the agent's group is not for it.
    ns::new_session()?;
    ns::set_name("shoal:view")?;
    own::keep_freed(KEPT);
    let native = native(run_dir);
    view::begin()?;
    mount::bind(&native, Path::new(PROC))?;
    let at = mount::directory(&run_dir.join("node-proc"))?;
    let says = line.try_clone().map_err(|e| Fault::io(&e, "duplicate the line to the agent"))?;
    let socket = run_dir.join("shoal.sock");
    let shown = NodeView { socket, at: at.clone(), native, fresh_us: FRESH.as_micros() as u64 };
    let ready = || {
        let copy = view::copy_of(&at)?;
        let told = sock::send_with(line.as_fd(), SHOWS, &[copy.as_fd()])?;
        told.map(drop).ok_or_else(|| Fault::gone("the node's agent"))
    };
    let serves = move || {
        // Nobody hears it when the agent has ended, and then this process has, too.
        let _ = sock::send(says.as_fd(), SERVES);
    };
    shown.show(ready, serves)
}

/// The process, as the agent has it.
#[derive(Debug)]
struct Running {
    pid: Pid,
    handle: OwnedFd,
    line: OwnedFd,
    /// Its tree, as it is mounted on /proc.
    shown: Option<OwnedFd>,
    /// When it said last that it serves, or was started.
    serves_us: u64,
}

impl Running {
    fn is_stuck_at(&self) -> u64 {
        self.serves_us + if self.shown.is_some() { STUCK_US } else { STARTS_US }
    }
}

/// Keeps such a process. All times are monotonic.
#[derive(Debug)]
pub struct Keeper {
    run_dir: PathBuf,
    running: Option<Running>,
    started_us: u64,
}

impl Keeper {
    /// With nothing started; [`Keeper::due_us`] is at once.
    pub fn new(run_dir: &Path) -> Keeper {
        Keeper { run_dir: run_dir.into(), running: None, started_us: 0 }
    }

    /// Is this process the one that is kept?
    pub fn is(&self, pid: Pid) -> bool {
        self.running.as_ref().is_some_and(|running| running.pid == pid)
    }

    /// Readable when [`Keeper::hear`] is to be called.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.running.as_ref().map(|running| running.line.as_fd())
    }

    /// When [`Keeper::look_after`] is to be called.
    pub fn due_us(&self) -> u64 {
        self.running.as_ref().map_or(self.started_us + AGAIN_US, Running::is_stuck_at)
    }

    /// Takes what has been said, and that it has ended.
    pub fn hear(&mut self, now_us: u64) {
        let Some(running) = &mut self.running else { return };
        let mut said = [0; 16];
        loop {
            let got = match sock::receive_with(running.line.as_fd(), &mut said) {
                Ok(Some(got)) => got,
                Ok(None) => return,
                Err(fault) => {
                    warn!(%fault, "who shows the space in /proc");
                    break;
                }
            };
            running.serves_us = now_us;
            match (&said[..got.bytes], got.descriptors.into_iter().next()) {
                (SERVES, _) => {}
                (SHOWS, Some(copy)) if running.shown.is_none() => match view::attach(&copy, Path::new(PROC)) {
                    Ok(()) => {
                        running.shown = Some(copy);
                        info!("/proc of programs here shows the whole space");
                    }
                    Err(fault) => warn!(%fault, "/proc of programs here shows this node alone"),
                },
                _ => break,
            }
        }
        self.end();
    }

    /// Starts one, if there is none; true then. One that is stuck is ended.
    pub fn look_after(&mut self, now_us: u64) -> bool {
        if now_us < self.due_us() {
            return false;
        }
        if self.running.is_some() {
            warn!("who shows the space in /proc is stuck");
            self.end();
            return false;
        }
        self.started_us = now_us;
        match self.start(now_us) {
            Ok(running) => self.running = Some(running),
            Err(fault) => warn!(%fault, "/proc of programs here shows this node alone"),
        }
        self.running.is_some()
    }

    fn start(&self, now_us: u64) -> Result<Running> {
        let (line, its) = sock::socketpair(Kind::SeqPacket)?;
        sys::set_nonblocking(line.as_fd(), true)?;
        let mut command = Command::new(format!("{}/self/exe", kern::proc::PROC));
        command.arg("node-proc").arg("--run-dir").arg(&self.run_dir);
        command.args(kern::proc::handed_over().iter().flat_map(|place| ["--proc", place]));
        let child = command.current_dir("/").stdin(Stdio::from(its)).stdout(Stdio::null()).spawn();
        let pid = Pid(child.map_err(|e| Fault::io(&e, "start who shows the space in /proc"))?.id() as i32);
        let handle = pidfd::open(pid).map_err(|errno| Fault::sys(errno, format!("get a descriptor of {pid}")))?;
        Ok(Running { pid, handle, line, shown: None, serves_us: now_us })
    }

    /// Programs see the native /proc again, and who waits for the tree waits no more.
    fn end(&mut self) {
        let Some(running) = self.running.take() else { return };
        // Ended already is as good.
        let _ = pidfd::kill(running.handle.as_fd(), Sig::KILL);
        if let Some(Err(fault)) = running.shown.as_ref().map(view::take_away) {
            warn!(%fault, "/proc of programs here");
        }
    }
}
