//! System V semaphores and message queues: neither they nor the operations that are to be undone (SEM_UNDO) go with a process, and the kernel tells of no process which of them it uses. Of
//! each semaphore and queue it tells who used it last.

use crate::obstacle::Obstacle;
use crate::proc;
use kern::sysv;
use vocab::{Fault, Pid, Result};

/// # Errors
/// `Gone`.
pub(crate) fn look(pid: Pid, obstacles: &mut Vec<Obstacle>) -> Result<()> {
    let refused = |obstacle: String| format!("{obstacle}, which does not go with it");
    for queue in sysv::queues()?.iter().filter(|queue| [queue.last_sender, queue.last_receiver].contains(&pid)) {
        obstacles.push(refused(format!("it uses System V message queue {}", queue.id)));
    }
    let sets = sysv::semaphore_sets()?;
    if sets.is_empty() {
        return Ok(());
    }
    let failed = |errno| Fault::sys(errno, format!("look at the semaphore operations of process {pid}"));
    let undoes = match sysv::has_undo_list(pid) {
        Err(libc::EPERM | libc::ENOSYS | libc::EOPNOTSUPP) => true,
        known => known.map_err(failed)?,
    };
    // A process of one thread has a list for no other reason than that it has used SEM_UNDO. Threads have it from the start.
    let is_single = proc::numbers_in(pid, "task")?.len() == 1;
    for set in &sets {
        let mut users = (0..set.length).map(|semaphore| sysv::last_user(set.id, semaphore));
        match users.find(|user| user.is_err() || *user == Ok(pid)) {
            Some(Ok(_)) => obstacles.push(refused(format!("it uses System V semaphore set {}", set.id))),
            Some(Err(libc::EINVAL | libc::EIDRM)) => {}
            _ if undoes && is_single => {
                let what =
                    format!("it may have operations on System V semaphore set {} to be undone (SEM_UNDO)", set.id);
                obstacles.push(refused(what));
            }
            _ => {}
        }
    }
    Ok(())
}

/// The threads that wait for a semaphore or message, each with the call in which it waits: nobody may have used that semaphore or queue yet.
pub(crate) fn look_at_calls(waiting: impl Iterator<Item = (i32, i64)>, obstacles: &mut Vec<Obstacle>) {
    const CALLS: [i64; 4] = [libc::SYS_semop, libc::SYS_semtimedop, libc::SYS_msgsnd, libc::SYS_msgrcv];
    for (tid, _) in waiting.filter(|(_, call)| CALLS.contains(call)) {
        obstacles.push(format!("thread {tid} waits for a System V semaphore or message, which does not go with it"));
    }
}

/// The same of a process that stands still, and was looked at before.
///
/// # Errors
/// `Refused` if it has used one since; `Gone`.
pub(crate) fn uses_none(pid: Pid) -> Result<()> {
    let mut obstacles = Vec::new();
    look(pid, &mut obstacles)?;
    match &obstacles[..] {
        [] => Ok(()),
        all => Err(Fault::refused(format!("it cannot be carried any more: {}", all.join("; ")))),
    }
}
