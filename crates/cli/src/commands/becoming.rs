//! What commands share that become another program, here or on a node (`bpsh`, `rsh`).

use client::run::FAILED;
use client::Local;
use kern::{ns, own, sys};
use std::ffi::OsString;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use vocab::{Fault, NodeId, Pid, Result};
use wire::ask::{Answer, Ask};

/// The exit status of a command that has not become the program, for which there is always a reason.
pub(super) fn failed(why: Result<Fault>) -> u8 {
    own::complain(match why {
        Ok(fault) | Err(fault) => fault,
    });
    FAILED
}

/// Standard input has nothing in it from now on.
pub(super) fn no_input() -> Result<()> {
    let null = File::open("/dev/null").map_err(|e| Fault::io(&e, "open /dev/null"))?;
    ns::become_stream(&OwnedFd::from(null), 0)
}

/// Executes the program on this machine; returns why that failed. `name`: what it is called then.
///
/// # Errors
/// `Refused` for a word with a NUL inside.
pub(super) fn execute(argv: &[OsString], name: &str) -> Result<Fault> {
    let words = argv.iter().map(|word| sys::cstring(word.as_bytes())).collect::<Result<Vec<_>>>()?;
    Ok(Fault::sys(own::exec(&words), format!("execute {name}")))
}

/// The machine on which this process is.
pub(super) fn here(daemon: &mut Local) -> Result<NodeId> {
    match daemon.ask(&Ask::Where { pid: Pid::NONE })? {
        Answer::Where { node, .. } => Ok(node),
        other => Err(Fault::wire(format!("the daemon answered Where with {other:?}"))),
    }
}
