//! The view of a process that moves: its kind stays as it is.
//!
//! The old node's mover says first which that is, in one byte; the new node's enters the same kind, with what is to become the process, or refuses.

use super::carrier::Word;
use super::orders::{In, Out, Said};
use ckpt::vessel::Vessel;
use kern::clock::monotonic_us;
use kern::rights::Rights;
use kern::view;
use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;
use vocab::{Fault, Result};
use wire::files::View;

/// The old node's mover says this. A process of the front end has what is usual where it goes, or what it needs for the file whose name follows.
const USUAL: u8 = 0;
const NODE: u8 = 1;
const FRONT: u8 = 2;
const EXECUTES: u8 = 3;

/// The view must be there after so long, in microseconds.
const PATIENCE_US: u64 = 10_000_000;
const PAUSE: Duration = Duration::from_millis(5);

/// The views that there are on this machine.
#[derive(Debug, Default)]
pub struct Views {
    /// This mover's own view, if it is one of the two; the front end's movers have none.
    pub has: Option<View>,
    /// The node's own.
    pub node: Option<OwnedFd>,
    /// Where the front end's are, or will be; none: never.
    pub front: Option<PathBuf>,
}

static HERE: OnceLock<Views> = OnceLock::new();

/// Called once, before anything is moved.
pub(super) fn set(views: Views) {
    // A second call finds the first one's.
    let _ = HERE.set(views);
}

/// Of the old node.
pub(super) fn told(order: &Out) -> Vec<u8> {
    match HERE.get().and_then(|here| here.has) {
        Some(View::Node) => vec![NODE],
        Some(View::Front) => vec![FRONT],
        _ if order.executes.is_empty() => vec![USUAL],
        _ => [&[EXECUTES], &order.executes[..]].concat(),
    }
}

/// On the new node: this mover, and what is to become the process, see what the other mover says.
///
/// # Errors
/// `Refused` where this node does not show that.
pub(super) fn enter(told: &[u8], order: &In, vessel: &Vessel, word: &mut Word) -> Result<()> {
    let Some(here) = HERE.get() else { return Ok(()) };
    let wanted = match told {
        [USUAL] | [] => return Ok(()),
        [NODE] => View::Node,
        [FRONT] => View::Front,
        [EXECUTES, file @ ..] if here.front.is_none() || is_there(file, order) => return Ok(()),
        [EXECUTES, ..] => View::Front,
        other => return Err(Fault::wire(format!("the other mover says {other:?} of its view"))),
    };
    if here.has == Some(wanted) {
        return Ok(());
    }
    let namespace = match wanted {
        View::Node if !order.may_see_node => {
            let why = "it sees files of its node, and on this node only processes of root's may see other files than the front end's";
            return Err(Fault::refused(why));
        }
        View::Node => here.node.as_ref().map(OwnedFd::try_clone).transpose(),
        _ => here.front.as_deref().map(|path| of_front(path, word)).transpose()?.map_or(Ok(None), |fd| Ok(Some(fd))),
    };
    let namespace = namespace.map_err(|e| Fault::io(&e, "duplicate a descriptor"))?;
    let Some(namespace) = namespace else {
        return Err(Fault::refused(
            "it sees the front end's files, which this node shows nobody (`view` in its configuration)",
        ));
    };
    vessel.enter_mounts(&namespace)?;
    view::go_back(&namespace)
}

/// Is there such a file, for who asks for the move?
fn is_there(file: &[u8], order: &In) -> bool {
    let look = || Path::new(OsStr::from_bytes(file)).exists();
    let Some(user) = &order.user else { return look() };
    let rights =
        Rights { uid: user.uid.effective, gid: user.gid.effective, groups: user.groups.clone(), capabilities: 0 };
    rights.lent(look).unwrap_or(false)
}

/// Waits for it, once the agent knows that it is wanted.
fn of_front(path: &Path, word: &mut Word) -> Result<OwnedFd> {
    if let Some(there) = view::namespace_at(path) {
        return Ok(there);
    }
    word.say(&Said::WantsFront)?;
    let until = monotonic_us() + PATIENCE_US;
    loop {
        word.goes_on()?;
        match view::namespace_at(path) {
            Some(there) => return Ok(there),
            None if monotonic_us() > until => {
                return Err(Fault::gone("it sees the front end's files, which this node cannot show now"));
            }
            None => {}
        }
        let _ = kern::poll::poll_for(&[], Some(PAUSE));
    }
}
