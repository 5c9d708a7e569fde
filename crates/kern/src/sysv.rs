//! System V semaphores and message queues (sysvipc(7)) of the caller's IPC namespace, and by which process each was used last.

use crate::proc::PROC;
use crate::sys;
use std::io::ErrorKind;
use vocab::{Fault, Pid, Result};

/// A line of /proc/sysvipc/sem.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SemaphoreSet {
    pub id: i32,
    /// Semaphores in the set.
    pub length: i32,
}

/// A line of /proc/sysvipc/msg.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Queue {
    pub id: i32,
    pub last_sender: Pid,
    pub last_receiver: Pid,
}

/// # Errors
/// Without /proc.
pub fn semaphore_sets() -> Result<Vec<SemaphoreSet>> {
    lines("sem", |field| Some(SemaphoreSet { id: field(1)?, length: field(3)? }))
}

/// # Errors
/// Without /proc.
pub fn queues() -> Result<Vec<Queue>> {
    lines("msg", |field| Some(Queue { id: field(1)?, last_sender: Pid(field(5)?), last_receiver: Pid(field(6)?) }))
}

/// A kernel without System V IPC shows no such file.
fn lines<T>(name: &str, line: impl Fn(&dyn Fn(usize) -> Option<i32>) -> Option<T>) -> Result<Vec<T>> {
    let path = format!("{PROC}/sysvipc/{name}");
    let text = match std::fs::read_to_string(&path) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        read => read.map_err(|e| Fault::io(&e, format!("read {path}")))?,
    };
    let parse = |text: &str| {
        let fields: Vec<&str> = text.split_whitespace().collect();
        let field = |index: usize| fields.get(index)?.parse::<i32>().ok();
        line(&field).ok_or_else(|| Fault::bug(format!("a line of {path}: {text}")))
    };
    text.lines().skip(1).map(parse).collect()
}

/// The process that last did an operation on, or set, a semaphore of a set. EACCES for a set that the caller may not read; EINVAL for a set that has been removed.
pub fn last_user(set: i32, semaphore: i32) -> std::result::Result<Pid, i32> {
    // SAFETY: numbers only; GETPID takes no fourth argument (semctl(2)).
    let pid = unsafe { libc::semctl(set, semaphore, libc::GETPID) };
    sys::check(pid.into()).map(|pid| Pid(pid as i32))
}

/// Has the process, or thread, a list of operations to be undone when it ends (SEM_UNDO, semop(2)), even an empty list? The first such operation makes the list, and so does the first thread that is made
/// with CLONE_SYSVSEM, as those of pthread_create(3) are.
///
/// # Errors
/// ESRCH; EPERM for a process that the caller may not trace.
pub fn has_undo_list(pid: Pid) -> std::result::Result<bool, i32> {
    const KCMP_SYSVSEM: i32 = 6;
    // SAFETY: a flag only. The calling thread gives up its own list, in which there is nothing: shoal uses no semaphore. Then two threads without a list are equal.
    sys::check(unsafe { libc::unshare(libc::CLONE_SYSVSEM) }.into())?;
    // SAFETY: no argument.
    let own = unsafe { libc::gettid() };
    // SAFETY: numbers only.
    let order = unsafe { libc::syscall(libc::SYS_kcmp, own, pid.0, KCMP_SYSVSEM, 0, 0) };
    sys::check(order).map(|order| order != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const USES: &str = "import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
one = lambda flags: libc.semop(made, (ctypes.c_short * 3)(0, 1, flags), 1)
made = libc.semget(0, 3, 0o600)
queue = libc.msgget(0, 0o600)
print(made, queue, flush=True), input()
print(one(0), libc.msgsnd(queue, ctypes.create_string_buffer(b'\\1' + bytes(7)), 0, 0), flush=True), input()
print(one(0x1000), flush=True), input()
libc.semctl(made, 0, 0), libc.msgctl(queue, 0, 0)";

    #[test]
    fn users_of_sets_and_queues_are_known_and_what_is_to_be_undone_is_a_list() {
        use std::io::{BufRead, BufReader, Write};
        use std::process::{Command, Stdio};
        let mut python = Command::new("python3");
        let made = python.args(["-S", "-c", USES]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = made.expect("python3");
        let (mut input, output) = (child.stdin.take().expect("piped"), child.stdout.take().expect("piped"));
        let mut output = BufReader::new(output);
        let mut said = || {
            let mut line = String::new();
            output.read_line(&mut line).expect("a line");
            line.split_whitespace().map(|word| word.parse::<i32>().expect("a number")).collect::<Vec<_>>()
        };
        let mut go_on = || input.write_all(b"\n").expect("it reads");
        let (pid, ids) = (Pid(child.id() as i32), said());
        let [set, queue] = ids[..] else { panic!("{ids:?}") };
        let last = || (last_user(set, 0), queues().expect("/proc").into_iter().find(|one| one.id == queue));
        let of_queue = |last_sender| Some(Queue { id: queue, last_sender, last_receiver: Pid(0) });
        assert!(semaphore_sets().expect("/proc").contains(&SemaphoreSet { id: set, length: 3 }));
        assert_eq!((last(), has_undo_list(pid)), ((Ok(Pid(0)), of_queue(Pid(0))), Ok(false)));
        go_on();
        assert_eq!(said(), [0, 0]);
        assert_eq!((last(), has_undo_list(pid)), ((Ok(pid), of_queue(pid)), Ok(false)));
        go_on();
        assert_eq!(said(), [0]);
        assert_eq!(has_undo_list(pid), Ok(true));
        go_on();
        assert!(child.wait().expect("a child").success());
        assert_eq!((last_user(set, 0), has_undo_list(pid)), (Err(libc::EINVAL), Err(libc::ESRCH)));
    }
}
