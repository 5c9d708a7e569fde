//! The processes that bind ([`crate::binds`]), one for each mount namespace in which ghosts are shown, and the one that starts them.
//!
//! To bind is to look into the tree, and who looks into it waits for who serves it, also when that one is killed. So processes of their own do it, which have no
//! descriptor of the tree's: when the one that serves ends, the tree does, and nobody waits any more. And only a process of one thread can go into another mount
//! namespace.

use crate::binds;
use kern::ns::{self, Child, Forked, Namespaces};
use kern::poll::{poll, poll_for, Ready};
use kern::sock::{self, Kind};
use kern::{mount, own, pidfd, sys, wait};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tracing::debug;
use vocab::{Fault, Pid, Result, Sig};

/// How long one may take to be there.
const BEGINS: Duration = Duration::from_secs(5);
/// What is asked for, and what is said of it.
const MACHINE: u8 = b'm';
const VIEW: u8 = b'v';
const WHOLE_VIEW: u8 = b'w';
const THERE: u8 = b'+';
const FAILED: u8 = b'-';

/// Where one is wanted.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Where<'a> {
    /// Where the machine's processes are.
    Machine,
    /// Where the process of this pidfd is; `whole`: which sees all machines as one.
    View { process: BorrowedFd<'a>, whole: bool },
}

/// The process that starts them.
#[derive(Debug)]
pub(crate) struct Binder {
    line: Mutex<OwnedFd>,
    child: Child,
}

/// One that binds, as who tells it knows it.
#[derive(Debug)]
pub(crate) struct Bound {
    pub(crate) line: OwnedFd,
    /// Its process.
    pub(crate) pid: Pid,
}

impl Binder {
    /// Starts it, for the tree that will be mounted at `at`, from a process that has one thread, and no tree.
    ///
    /// # Errors
    /// As [`ns::fork`].
    pub(crate) fn start(at: &Path) -> Result<Binder> {
        let (line, its) = sock::socketpair(Kind::SeqPacket)?;
        match forked("shoal:binds")? {
            None => {
                drop(line);
                serve(its, at);
                ns::exit(0);
            }
            Some(child) => Ok(Binder { line: Mutex::new(line), child }),
        }
    }

    /// Starts one, and waits until it is there.
    ///
    /// # Errors
    /// What kept it from getting there; `Gone` where nobody starts one.
    pub(crate) fn open(&self, place: Where<'_>) -> Result<Bound> {
        let gone = || Fault::gone("who starts those who bind directories");
        let (line, its) = sock::socketpair(Kind::SeqPacket)?;
        let (kind, process) = match place {
            Where::Machine => (MACHINE, None),
            Where::View { process, whole } => (if whole { WHOLE_VIEW } else { VIEW }, Some(process)),
        };
        let descriptors: Vec<BorrowedFd<'_>> = [its.as_fd()].into_iter().chain(process).collect();
        let starter = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        sock::send_with(starter.as_fd(), &[kind], &descriptors)?.ok_or_else(gone)?;
        drop((starter, its));
        let mut said = [0; 512];
        match said_within(line.as_fd(), &mut said, BEGINS)? {
            [THERE, pid @ ..] => {
                let pid = pid.try_into().map(i32::from_ne_bytes).map_err(|_| gone())?;
                Ok(Bound { line, pid: Pid(pid) })
            }
            [FAILED, why @ ..] => Err(Fault::refused(String::from_utf8_lossy(why).into_owned())),
            _ => Err(gone()),
        }
    }

    /// Ends it, while somebody serves the tree still, and with it all that it has started.
    pub(crate) fn end(&self) {
        // Ended already is as good.
        let _ = pidfd::kill(self.child.pidfd.as_fd(), Sig::KILL);
        let _ = wait::ended(self.child.pid);
    }
}

/// What is said on a line within this time.
///
/// # Errors
/// `Gone` when nothing is, and never will be; `Sys` with ETIMEDOUT.
pub(crate) fn said_within<'b>(line: BorrowedFd<'_>, into: &'b mut [u8], time: Duration) -> Result<&'b [u8]> {
    let deadline = std::time::Instant::now() + time;
    let readable = || loop {
        let left = deadline.saturating_duration_since(std::time::Instant::now());
        match poll_for(&[(line, Ready::READ)], Some(left)) {
            Ok(ready) => return ready.iter().any(|ready| ready.readable || ready.over),
            Err(kern::poll::EINTR) => {}
            Err(_) => return false,
        }
    };
    if !readable() {
        return Err(Fault::sys(vocab::errno::ETIMEDOUT, "wait for who looks into the tree"));
    }
    match sys::read(line, into) {
        Ok(length @ 1..) => Ok(&into[..length]),
        _ => Err(Fault::gone("who looks into the tree")),
    }
}

/// A child that ends with this process; `None`: this is the child.
pub(crate) fn forked(name: &str) -> Result<Option<Child>> {
    let parent = Pid(std::process::id() as i32);
    match ns::fork(Namespaces::empty())? {
        Forked::Parent(child) => Ok(Some(child)),
        Forked::Child => {
            let begun = own::die_with_parent(Sig::KILL, parent).and_then(|()| ns::set_name(name));
            if let Err(fault) = begun {
                debug!(%fault, name, "it cannot begin");
                ns::exit(1);
            }
            Ok(None)
        }
    }
}

/// Starts those that are asked for, and sees to those that end.
fn serve(line: OwnedFd, at: &Path) {
    let mut children: Vec<Child> = Vec::new();
    loop {
        let ends = children.iter().map(|child| (child.pidfd.as_fd(), Ready::READ));
        let wanted: Vec<(BorrowedFd<'_>, Ready)> = [(line.as_fd(), Ready::READ)].into_iter().chain(ends).collect();
        let Ok(came) = poll(&wanted, -1) else { continue };
        let mut ended = came[1..].iter().map(|ready| ready.readable);
        children.retain(|child| !ended.next().unwrap_or(false) || wait::ended(child.pid).is_err());
        if !came[0].readable && !came[0].over {
            continue;
        }
        let mut kind = [0];
        let Ok(Some(got)) = sock::receive_with(line.as_fd(), &mut kind) else { return };
        if got.bytes == 0 {
            return;
        }
        let mut descriptors = got.descriptors.into_iter();
        let (Some(its), process) = (descriptors.next(), descriptors.next()) else { continue };
        match forked("shoal:binds") {
            Ok(None) => {
                drop((line, children));
                bind(&its, at, kind[0], process);
                ns::exit(0);
            }
            Ok(Some(child)) => children.push(child),
            Err(fault) => say(&its, &[&[FAILED], fault.to_string().as_bytes()].concat()),
        }
    }
}

fn say(line: &OwnedFd, what: &[u8]) {
    // If nobody hears it, nobody needs it.
    let _ = sock::send(line.as_fd(), what);
}

fn bind(line: &OwnedFd, at: &Path, kind: u8, process: Option<OwnedFd>) {
    let there = match (kind, process) {
        (VIEW | WHOLE_VIEW, Some(process)) => binds::go(&process, at, kind == WHOLE_VIEW),
        _ => {
            // Or each would be seen, and cost, in every mount namespace of the machine.
            if let Err(fault) = mount::make_private(Path::new("/proc")) {
                debug!(%fault, "ghosts are seen in other mount namespaces too");
            }
            Ok(())
        }
    };
    match there {
        Ok(()) => say(line, &[&[THERE], &std::process::id().to_ne_bytes()[..]].concat()),
        Err(fault) => return say(line, &[&[FAILED], fault.to_string().as_bytes()].concat()),
    }
    binds::follow(line, at);
}
