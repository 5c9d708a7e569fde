//! `shoal shell` on a node: what executes there sees the whole space in /proc, served by a process of its own ([`crate::node_view`]).
//!
//! Two mount namespaces: one for who serves, in which /proc is what it was, and one for the shell, in which the tree is /proc. So who serves never waits for
//! itself. What serves ends with the program that the caller becomes.

use crate::node_proc;
use crate::node_view::NodeView;
use kern::poll::{poll, Ready};
use kern::sock::{self, Kind};
use kern::{mount, ns, own, pidfd, sys, view};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::Duration;
use vocab::{Fault, Pid, Result};

/// How long what a node has said is shown: as the front end's own /proc does by default.
const FRESH: Duration = Duration::from_secs(1);
/// How long the tree may take to be there.
const BEGINS_MS: i32 = 10_000;
/// Says that it is.
const DONE: &[u8] = b"done";
const MOST: usize = 4096;

/// The calling process, which is root's and has one thread, and what it executes see the space in /proc from now on. `run_dir` and `socket` are the node's
/// daemon's. `shoal shell` calls it.
///
/// # Errors
/// What the daemon has against it; what keeps it from being shown.
pub fn begin(run_dir: &Path, socket: &Path) -> Result<()> {
    if is_shown_already() {
        return Ok(());
    }
    let native = mount::directory(&node_proc::native(run_dir))?;
    let at = mount::directory(&run_dir.join("node-view"))?;
    view::begin()?;
    mount::bind(Path::new("/proc"), &native)?;
    let (line, its) = sock::socketpair(Kind::SeqPacket)?;
    let own = pidfd::open(Pid(std::process::id() as i32));
    let shell = own.map_err(|errno| Fault::sys(errno, "get a descriptor of this process"))?;
    let shown = NodeView { socket: socket.into(), at: at.clone(), native, fresh_us: FRESH.as_micros() as u64 };
    if own::fork_apart()?.is_none() {
        drop(line);
        let ended = serve(&shown, &its, shell);
        if let Err(fault) = ended {
            let said = fault.to_string();
            // Nobody waits for it, if this comes later.
            let _ = sock::send(its.as_fd(), &said.as_bytes()[..said.len().min(MOST)]);
        }
        ns::exit(0);
    }
    drop(its);
    is_served(&line)?;
    view::begin()?;
    mount::bind(&at, Path::new("/proc"))
}

/// To all programs here ([`node_proc`]).
fn is_shown_already() -> bool {
    mount::kind_at("/proc").is_some_and(|kind| kind.starts_with("fuse"))
}

/// Waits until the tree shows what there is.
fn is_served(line: &OwnedFd) -> Result<()> {
    let doing = "wait for a view of /proc";
    let came = poll(&[(line.as_fd(), Ready::READ)], BEGINS_MS).map_err(|errno| Fault::sys(errno, doing))?;
    if !came.iter().any(|one| one.readable || one.over) {
        return Err(Fault::gone(doing));
    }
    let mut said = [0; MOST];
    let length = sys::read(line.as_fd(), &mut said).map_err(|errno| Fault::sys(errno, doing))?;
    match &said[..length] {
        DONE => Ok(()),
        b"" => Err(Fault::gone("who shows the space in /proc")),
        why => Err(Fault::refused(String::from_utf8_lossy(why).into_owned())),
    }
}

/// Serves until the shell has ended.
fn serve(shown: &NodeView, line: &OwnedFd, shell: OwnedFd) -> Result<()> {
    ns::new_session()?;
    ns::set_name("shoal:view")?;
    kern::proc::look_apart()?;
    let null = || {
        let file = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null");
        file.map(OwnedFd::from).map_err(|e| Fault::io(&e, "open /dev/null"))
    };
    own::take_standard([null()?, null()?, null()?])?;
    let waits = std::thread::Builder::new().name("shell".into()).spawn(move || {
        // It is over, or cannot be waited for.
        let _ = poll(&[(shell.as_fd(), Ready::READ)], -1);
        ns::exit(0);
    });
    waits.map_err(|e| Fault::io(&e, "start a thread"))?;
    let ready = || {
        // Nobody waits for it, if the shell has ended.
        let _ = sock::send(line.as_fd(), DONE);
        Ok(())
    };
    // Nobody looks after it: whoever has it serves himself.
    shown.show(ready, || ())
}
