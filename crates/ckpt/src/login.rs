//! The user who has logged in to start the process, as the kernel's audit notes it (/proc/PID/loginuid, proc_pid_loginuid(5)). Nobody but the process itself may set it.

use crate::bring::{bring, Wanted};
use crate::proc;
use kern::proc::PROC;
use puppet::{Arena, Loan};
use rustix::fs::{Mode, OFlags};
use std::os::fd::AsFd;
use vocab::{Fault, Pid, Result};

/// `None` where the kernel does not note it.
pub(crate) fn of(pid: Pid) -> Result<Option<u32>> {
    match proc::file(pid, "loginuid") {
        Ok(text) => Ok(String::from_utf8_lossy(&text).trim().parse().ok()),
        Err(fault) if fault.errno == libc::ENOENT && kern::proc::group_and_session(pid).is_some() => Ok(None),
        Err(fault) => Err(fault),
    }
}

/// Above what a program has that does nothing.
const BASE: i32 = 8;

/// Without the right to change it (CAP_AUDIT_CONTROL) the process has that of who restores. By a descriptor of ours: /proc may be another one for the process.
pub(crate) fn set(loan: &mut Loan<'_>, arena: Arena, pid: Pid, wanted: Option<u32>) -> Result<()> {
    let Some(wanted) = wanted else { return Ok(()) };
    if of(pid)?.is_none_or(|now| now == wanted) {
        return Ok(());
    }
    let path = format!("{PROC}/{pid}/loginuid");
    let file = match rustix::fs::open(&path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty()) {
        Err(rustix::io::Errno::ACCESS | rustix::io::Errno::PERM) => return Ok(()),
        opened => opened.map_err(|e| Fault::sys(e.raw_os_error(), format!("open {path}")))?,
    };
    let come = bring(loan, arena, pid, &[Wanted::Ours(file.as_fd())], BASE)?;
    let mut script = arena.script();
    let text = wanted.to_string();
    let at = script.bytes(text.as_bytes());
    for number in come {
        script.attempt(libc::SYS_write, &[number as u64, at, text.len() as u64]);
        script.call("close a descriptor", libc::SYS_close, &[number as u64]);
    }
    loan.run(arena, script).map(drop)
}
