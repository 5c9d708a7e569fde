//! The holder: a process beside the daemon that keeps the FUSE device open, so that a daemon's end, orderly or not, loses nothing.
//!
//! While nobody reads the device, the stand-ins wait and notice nothing. A successor gets the device and asks for all that is
//! outstanding. Without one within the agreed time the nodes have killed every body; then the holder lets go, and the stand-ins end
//! as killed.
//!
//! | state | what happens | next |
//! |---|---|---|
//! | Served | the daemon's connection ends | Alone, with a deadline |
//! | Alone | a daemon connects, and gets the device | Served |
//! | Alone | the deadline | the mount is taken away, and the holder ends |

use kern::clock::monotonic_us;
use kern::poll::{poll, Ready};
use kern::proc::{handed_over, root, PROC};
use kern::sock::{accept, receive_with, send_with, socketpair, unix_connect, unix_listen, Kind as Pair};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use vocab::{Fault, Pid, Result};

/// How long either side waits for the other's one byte.
const PATIENCE_MS: i32 = 5_000;
/// The end of the agreed time is left to the nodes: the holder waits so much longer.
const MARGIN: Duration = Duration::from_secs(1);

fn socket(run_dir: &Path) -> PathBuf {
    run_dir.join("holder.sock")
}

/// The directory where the hold file is mounted.
pub(crate) fn mount_point(run_dir: &Path) -> PathBuf {
    run_dir.join("ghosts")
}

/// The device that a daemon before this one has left, and the connection that keeps its holder from counting; `None` when there is no
/// holder.
///
/// # Errors
/// `Refused` when another daemon has it.
pub(crate) fn take(run_dir: &Path) -> Result<Option<(OwnedFd, OwnedFd)>> {
    let Ok(connection) = unix_connect(&socket(run_dir), PATIENCE_MS as u64 * 1000) else { return Ok(None) };
    let device = receive_device(connection.as_fd()).map_err(|fault| fault.doing("take over from the holder"))?;
    Ok(Some((device, connection)))
}

/// Starts a holder for `device`; it lives until a successor of this daemon has not come for `lost_after` and a second.
///
/// # Errors
/// `Sys` when it cannot be started; `Gone` when it does not say that it is ready.
pub(crate) fn start(run_dir: &Path, device: BorrowedFd<'_>, lost_after: Duration) -> Result<OwnedFd> {
    let (ours, theirs) = socketpair(Pair::Stream)?;
    let patience = (lost_after + MARGIN).as_millis().to_string();
    let mut command = Command::new("/proc/self/exe");
    command.arg0("shoal");
    command.arg("holder").arg("--run-dir").arg(run_dir).args(["--patience-ms", &patience]);
    command.args(handed_over().iter().flat_map(|place| ["--proc", place]));
    command.current_dir("/").stdin(Stdio::from(theirs)).stdout(Stdio::null()).stderr(Stdio::null());
    // It outlives this process; should it end before, its status is of no use.
    command.spawn().map_err(|e| Fault::io(&e, "start the holder"))?;
    drop(command);
    send_with(ours.as_fd(), b"D", &[device])?;
    let ready = receive(ours.as_fd())?;
    (ready.0 == 1).then_some(ours).ok_or_else(|| Fault::gone("start the holder: it has ended"))
}

/// The holder's whole life. Its standard input is the connection to the daemon that started it.
///
/// # Errors
/// What kept it from beginning.
pub fn hold(run_dir: &Path, patience: Duration) -> Result<()> {
    // A signal to the daemon's group is not for it.
    kern::ns::new_session()?;
    kern::ns::set_name("shoal:holder")?;
    let daemon = std::io::stdin().as_fd().try_clone_to_owned().map_err(|e| Fault::io(&e, "take the connection"))?;
    close_stdin()?;
    let device = receive_device(daemon.as_fd())?;
    let listener = unix_listen(&socket(run_dir), 0o600)?;
    send_with(daemon.as_fd(), b"R", &[])?;
    serve(&device, &listener, daemon, patience);
    // One that is stopped would not notice that the device is closed.
    let proc = kern::proc::Proc::open(root())?;
    for pid in users(&proc, &mount_point(run_dir).join("hold"))? {
        kern::pidfd::end(pid);
    }
    // Both only fail where it is done already.
    let _ = std::fs::remove_file(socket(run_dir));
    let _ = kern::mount::detach(&mount_point(run_dir));
    Ok(())
}

/// All processes but this one that have `file` open.
pub(crate) fn users(proc: &kern::proc::Proc, file: &Path) -> Result<Vec<Pid>> {
    let me = std::process::id() as i32;
    let uses = |pid: &Pid| {
        let open = std::fs::read_dir(format!("{PROC}/{pid}/fd"));
        open.into_iter().flatten().flatten().any(|fd| std::fs::read_link(fd.path()).is_ok_and(|to| to == file))
    };
    Ok(proc.pids()?.into_iter().filter(|pid| pid.0 != me && uses(pid)).collect())
}

/// The connection must be seen to end, so that no second descriptor of it may stay.
fn close_stdin() -> Result<()> {
    let null = std::fs::File::open("/dev/null").map_err(|e| Fault::io(&e, "open /dev/null"))?;
    kern::ns::become_stream(&null.into(), 0)
}

fn serve(device: &OwnedFd, listener: &OwnedFd, daemon: OwnedFd, patience: Duration) {
    let mut daemon = Some(daemon);
    let mut deadline = u64::MAX;
    loop {
        let wait_ms = match &daemon {
            Some(_) => -1,
            None => deadline.saturating_sub(monotonic_us()).div_ceil(1000) as i32,
        };
        // Nobody is let in before the daemon's own connection has been looked at.
        let watched = daemon.as_ref().map_or(listener.as_fd(), |daemon| daemon.as_fd());
        let both = [(watched, Ready::READ), (listener.as_fd(), Ready::READ)];
        let Ok(came) = poll(&both, wait_ms) else { continue };
        if daemon.is_some() && (came[0].readable || came[0].over) {
            daemon = None;
            deadline = monotonic_us() + patience.as_micros() as u64;
            continue;
        }
        if came[1].readable {
            let Ok(Some(connection)) = accept(listener.as_fd()) else { continue };
            // With a daemon there already, closing the connection says no.
            if daemon.is_none() && send_with(connection.as_fd(), b"D", &[device.as_fd()]).is_ok() {
                daemon = Some(connection);
            }
        }
        if daemon.is_none() && monotonic_us() >= deadline {
            return;
        }
    }
}

fn receive_device(connection: BorrowedFd<'_>) -> Result<OwnedFd> {
    let (_, device) = receive(connection)?;
    device.ok_or_else(|| Fault::refused("the device of the stand-ins is in another daemon's hands"))
}

/// One byte, and the descriptor that came with it; 0 bytes: the other side is gone.
fn receive(connection: BorrowedFd<'_>) -> Result<(usize, Option<OwnedFd>)> {
    let came = poll(&[(connection, Ready::READ)], PATIENCE_MS).map_err(|e| Fault::sys(e, "wait for the holder"))?;
    if !came[0].readable && !came[0].over {
        return Err(Fault::gone("the other side does not answer"));
    }
    match receive_with(connection, &mut [0; 1])? {
        Some(mut received) => Ok((received.bytes, received.descriptors.pop())),
        None => Ok((0, None)),
    }
}
