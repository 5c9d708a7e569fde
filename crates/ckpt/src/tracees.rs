//! Whom a process traces (ptrace(2)). They would stand still for ever: what takes its place does not let them go on.

use crate::children;
use crate::freeze::Frozen;
use crate::obstacle::Obstacle;
use crate::proc::{self, Fields};
use kern::areas::Area;
use kern::proc::{root, Proc, PROC};
use kern::remote_memory::RemoteMemory;
use puppet::Loan;
use vocab::{Pid, Result};

/// To read what each of more processes tells takes longer than 30 ms.
const MOST: usize = 2000;

/// While it runs, before it is touched: what takes little time. On a machine with many processes only its children are looked at, and of each process its first thread: others are
/// found when it stands still.
///
/// # Errors
/// `Gone`.
pub(crate) fn look(pid: Pid, obstacles: &mut Vec<Obstacle>) -> Result<()> {
    let all = Proc::open(root())?.pids()?;
    let some = if all.len() <= MOST { all } else { children::of(pid)? };
    look_at(pid, &some, false, obstacles)
}

/// As all processes of the machine tell it, and all of their threads, of which one may be traced alone.
///
/// # Errors
/// `Gone`.
pub(crate) fn look_at_all(pid: Pid, obstacles: &mut Vec<Obstacle>) -> Result<()> {
    look_at(pid, &Proc::open(root())?.pids()?, true, obstacles)
}

fn look_at(pid: Pid, all: &[Pid], threads_too: bool, obstacles: &mut Vec<Obstacle>) -> Result<()> {
    let threads = proc::numbers_in(pid, "task")?;
    let traces = |status: Fields| status.number("TracerPid", 10).is_ok_and(|tracer| threads.contains(&(tracer as i32)));
    for other in all.iter().filter(|other| **other != pid) {
        // One that has ended meanwhile is none.
        let Ok(status) = proc::status(*other) else { continue };
        let has_more = threads_too && status.number("Threads", 10).is_ok_and(|threads| threads > 1);
        let its = if has_more { proc::numbers_in(*other, "task").unwrap_or_default() } else { Vec::new() };
        let mut its = its.iter().filter_map(|tid| Fields::read(format!("{PROC}/{other}/task/{tid}/status")).ok());
        let obstacle = format!("it traces process {other} (ptrace(2))");
        if (traces(status) || its.any(traces)) && !obstacles.contains(&obstacle) {
            obstacles.push(obstacle);
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
    if nobody {
        Ok(())
    } else {
        look_at_all(still.pid, obstacles)
    }
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
