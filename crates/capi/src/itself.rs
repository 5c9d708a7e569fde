//! A process asks to be moved itself. Nothing that leads to others may be open in it meanwhile, so it cannot ask the daemon: a helper does.
//!
//! It waits for a lock that the helper holds. When the helper has ended, it has the lock. When it has been moved, its call begins anew on the other machine, where nobody
//! holds that lock. In neither case has anybody to wake it, and there is no child, no signal and no descriptor but one of /dev/null.

use crate::helper;
use crate::told;
use local::{socket_path, Local};
use std::fs::File;
use std::os::fd::AsRawFd;
use vocab::{Fault, NodeId, Pid, Result};
use wire::ask::{Answer, Ask};

pub(crate) fn move_to(node: NodeId) -> Result<()> {
    move_to_execute(node, &[])
}

/// The same of a process of the front end that will execute this file there, if it is one.
pub(crate) fn move_to_execute(node: NodeId, file: &[u8]) -> Result<()> {
    let pid = Pid(std::process::id() as i32);
    let told = told::new_path()?;
    let place = told::new_place()?;
    let (pid_text, node_text) = (pid.to_string(), node.to_string());
    let file = std::str::from_utf8(file).map_err(|_| Fault::refused("the name of the program is no UTF-8"))?;
    let mut words = vec!["move", "--tell", &told];
    if !file.is_empty() {
        words.extend(["--executes", file]);
    }
    words.extend([pid_text.as_str(), node_text.as_str()]);
    helper::start(&words, [None; 2], place)?;
    until_it_has_ended(place)?;
    if let Some(fault) = told::take(&told)? {
        return Err(fault);
    }
    match Local::connect(&socket_path())?.ask(&Ask::Where { pid })? {
        Answer::Where { node: here, .. } if here == node => Ok(()),
        Answer::Where { node: here, .. } => {
            Err(Fault::gone(format!("who should have asked for the move of process {pid}; it is on node {here}")))
        }
        other => Err(Fault::wire(format!("the daemon answered Where with {other:?}"))),
    }
}

/// Or until this process is on another machine than the helper.
pub(crate) fn until_it_has_ended(place: i64) -> Result<()> {
    let failed = |e: std::io::Error| Fault::io(&e, "wait for who asks for the move");
    let null = File::open("/dev/null").map_err(failed)?;
    let lock = helper::lock(libc::F_RDLCK, place);
    loop {
        // SAFETY: the lock is live for the call, which only reads it.
        if unsafe { libc::fcntl(null.as_raw_fd(), libc::F_OFD_SETLKW, &raw const lock) } == 0 {
            return Ok(());
        }
        match std::io::Error::last_os_error() {
            e if e.kind() == std::io::ErrorKind::Interrupted => {}
            e => return Err(failed(e)),
        }
    }
}
