//! Keeps the front end's own PIDs below `front_top` (docs/mechanisms.md, "Numbers").

use kern::proc::{last_pid, set_last_pid, set_pid_max, Proc};
use tracing::{info, warn};
use vocab::{Pid, Result};

/// The kernel's largest PID and one (PID_MAX_LIMIT on 64-bit machines).
const PID_MAX: i32 = 4_194_304;
/// Where the cursor goes back to: RESERVED_PIDS, below which the kernel does not wrap either.
const BOTTOM: Pid = Pid(300);
/// How often [`Cursor::look`] is called, in microseconds.
pub(crate) const LOOK_US: u64 = 500_000;
/// Numbers that a machine can use up between two looks, generously: 400,000 forks a second.
const MARGIN: i32 = 200_000;

/// The PID cursor of this namespace.
#[derive(Debug)]
pub(crate) struct Cursor {
    top: Pid,
}

impl Cursor {
    /// Makes room above `top` for leases, and brings the cursor below it.
    ///
    /// # Errors
    /// `Sys` without the right to set kernel.pid_max.
    pub(crate) fn new(proc: &Proc, top: Pid) -> Result<Cursor> {
        set_pid_max(proc, PID_MAX)?;
        let cursor = Cursor { top };
        cursor.look(proc);
        Ok(cursor)
    }

    /// Brings the cursor back before it gets to the leases.
    pub(crate) fn look(&self, proc: &Proc) {
        let moved = last_pid(proc).and_then(|last| {
            if last.0 < self.top.0 - MARGIN {
                return Ok(());
            }
            info!(%last, "the front end's PID cursor goes back to {BOTTOM}");
            set_last_pid(proc, BOTTOM)
        });
        if let Err(fault) = moved {
            warn!("keep the front end's PIDs below {}: {fault}", self.top);
        }
    }
}
