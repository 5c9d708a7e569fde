//! Whom a process traces (ptrace(2)). They would stand still for ever: what takes its place does not let them go on.

use crate::freeze::Frozen;
use crate::obstacle::Obstacle;
use crate::proc::{self, Fields};
use kern::areas::Area;
use kern::proc::{root, Proc, PROC};
use kern::remote_memory::RemoteMemory;
use puppet::Loan;
use vocab::{Pid, Result};

/// As all processes of the machine tell it, and each of their threads: one that runs may begin to trace another one just then.
///
/// # Errors
/// `Gone`.
pub(crate) fn look(pid: Pid, obstacles: &mut Vec<Obstacle>) -> Result<()> {
    let threads = proc::numbers_in(pid, "task")?;
    let is_traced = |status: &Fields| Some(threads.contains(&(status.number("TracerPid", 10).ok()? as i32)));
    for other in Proc::open(root())?.pids()?.into_iter().filter(|other| *other != pid) {
        // One that has ended meanwhile is none.
        let Ok(status) = proc::status(other) else { continue };
        let has_more = status.number("Threads", 10).is_ok_and(|threads| threads > 1);
        let others = if has_more { proc::numbers_in(other, "task").unwrap_or_default() } else { Vec::new() };
        let its = others.iter().filter_map(|tid| Fields::read(format!("{PROC}/{other}/task/{tid}/status")).ok());
        if std::iter::once(status).chain(its).any(|status| is_traced(&status) == Some(true)) {
            obstacles.push(format!("it traces process {other} (ptrace(2))"));
        }
    }
    Ok(())
}

/// One that stands still is asked itself, and the others only where that leaves it open.
///
/// # Errors
/// `Gone`.
pub(crate) fn ask(still: &Frozen, areas: &[Area], obstacles: &mut Vec<Obstacle>) -> Result<()> {
    let memory = RemoteMemory::open(still.pid)?;
    let mut loan = Loan::take(still.leader(), &memory, areas)?;
    let nobody = traces_nobody(&mut loan)?;
    loan.give_back()?;
    if nobody { Ok(()) } else { look(still.pid, obstacles) }
}

/// ODDITY(traced-as-clone): whomever a thread of the process traces it may wait for among those of either kind, ordinary children or clones, and whoever's child that is. So there
/// is nobody if there is none of one kind; a filter may say something else. linux: `eligible_child`, `do_wait`. prog: tests/prog/odd_traced_as_clone.c
fn traces_nobody(loan: &mut Loan<'_>) -> Result<bool> {
    let all = libc::WEXITED | libc::WSTOPPED | libc::WCONTINUED | libc::WNOHANG | libc::WNOWAIT;
    // Of clones there are mostly none.
    for kind in [libc::__WCLONE, 0] {
        let found = loan.call(libc::SYS_waitid, &[libc::P_ALL as u64, 0, 0, (all | kind) as u32 as u64, 0])?;
        if found == -i64::from(libc::ECHILD) {
            return Ok(true);
        }
    }
    Ok(false)
}
