//! The namespace of programs: the view is its root, and some directories are the node's own.

use super::ROOM;
use kern::fuse::raw::Connection;
use kern::poll::{poll, Ready};
use kern::{mount, sock, view};
use std::fs::File;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use tracing::warn;
use vocab::{Fault, NodeId, Result};

/// The link in the run directory by which the namespace is entered (setns(2)), to a descriptor of the agent's: with every namespace that is made on another processor
/// the kernel may find that to mount its file would be a loop (linux: `mnt_ns_loop`, whose numbers are of processors since 6.18), EINVAL.
pub const NAMESPACE: &str = "view-namespace";
/// The source of the mount in mount tables.
pub(super) const SOURCE: &str = "shoal-view";
/// The same with the kind of file system, as mountinfo has it.
pub const MOUNTED: &str = "fuse shoal-view ";
/// The process must have reached the front end after so many milliseconds.
const PATIENCE_MS: i32 = 10_000;

/// Has the process serve, makes the namespace, and leaves the calling one as it was, which has one thread. `local`: directories that are the node's own, as far as
/// both machines have them. Returns the namespace.
///
/// # Errors
/// `Gone`: the process cannot reach the front end; `Sys` as mount(2).
pub fn build(
    line: &OwnedFd,
    run_dir: &Path,
    (front, node): (SocketAddr, NodeId),
    local: &[PathBuf],
) -> Result<OwnedFd> {
    let fuse = Connection::open()?;
    let proc = File::open("/proc").map_err(|e| Fault::io(&e, "open /proc"))?;
    let text = format!("{front} {}", node.0);
    let at = mount::directory(&run_dir.join("view"))?;
    let before = view::apart()?;
    // Nobody can read from a device of which nothing is mounted (linux: fuse_dev_read, EPERM).
    let made = furnish(&fuse, &at)
        .and_then(|()| sock::send_with(line.as_fd(), text.as_bytes(), &[fuse.fd(), proc.as_fd()]).map(drop));
    drop(fuse);
    let there = made.and_then(|()| answered(line)).and_then(|()| finish(&at, local));
    let namespace = view::own_namespace();
    view::go_back(&before)?;
    there?;
    namespace
}

/// In a namespace that is to be one of programs: mounts the view at `at`, and makes it the root. Waits for who serves it.
pub(super) fn furnish_apart(tree: &OwnedFd, at: &Path, local: &[PathBuf]) -> Result<()> {
    let at = mount::directory(at)?;
    view::attach(tree, &at)?;
    mount::make_private(&at)?;
    mount::make_unbindable(&at)?;
    finish(&at, local)
}

fn furnish(fuse: &Connection, at: &Path) -> Result<()> {
    fuse.mount(at, SOURCE, wire::view::MOST)?;
    mount::make_private(at)?;
    mount::make_unbindable(at)
}

/// Waits until the process has reached the front end.
fn answered(line: &OwnedFd) -> Result<()> {
    let ready = poll(&[(line.as_fd(), Ready::READ)], PATIENCE_MS).is_ok_and(|ready| ready[0].readable);
    let mut room = [0; ROOM];
    let received = if ready { sock::receive_with(line.as_fd(), &mut room)? } else { None };
    match received.map(|received| received.bytes) {
        Some(1..) => Ok(()),
        _ => Err(Fault::gone("begin the view: the front end does not serve it")),
    }
}

fn finish(at: &Path, local: &[PathBuf]) -> Result<()> {
    for directory in local {
        let Ok(below) = directory.strip_prefix("/") else {
            return Err(Fault::refused(format!("{} is to be named from the root", directory.display())));
        };
        if !directory.is_dir() {
            continue;
        }
        if let Err(fault) = mount::bind_all(directory, &at.join(below)) {
            if directory == Path::new("/proc") {
                return Err(fault);
            }
            warn!(%fault, "view: a directory of the node's own is not seen");
        }
    }
    mount::become_root(at)?;
    // Programs may copy it.
    mount::make_private(Path::new("/"))
}
