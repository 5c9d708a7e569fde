//! What remains of a process that is given up: another program in its place. Its number, parent, children, group, session, ids and whether it is
//! stopped stay, and so do signals that wait for it; its memory, other threads, descriptors and timers go.
//!
//! The program may have rights that the process has not, and the memory of the process is its user's to write to (/proc/PID/mem), however still it stands: a
//! script in it may become another one, and what it is given others come to. So it first executes a program that does nothing, whose memory nobody else
//! can come to, and everything else is done there.

use crate::bring::{bring, Wanted};
use crate::elsewhere;
use crate::freeze::Frozen;
use crate::identity;
use crate::queued::number;
use crate::sigstate;
use crate::timers::RunningTimers;
use kern::areas::areas;
use kern::others;
use kern::proc::PROC;
use kern::ptrace::{queued, Queue};
use kern::remote_memory::RemoteMemory;
use puppet::{Arena, Loan, Stopped};
use rustix::fs::OFlags;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use vocab::{Fault, Pid, Result, Sig};
use zerocopy::IntoBytes;

/// The program in its place.
pub struct Remains<'a> {
    /// A program that does nothing, and that ordinary users cannot read.
    pub nothing: BorrowedFd<'a>,
    /// Executed with no environment.
    pub program: BorrowedFd<'a>,
    pub arguments: &'a [&'a str],
    /// Its descriptor 3. It has no others but 0 to 2.
    pub place: BorrowedFd<'a>,
    /// Those; `None`: /dev/null.
    pub streams: Option<[BorrowedFd<'a>; 3]>,
}

/// Another program takes the place of this process, whose signals go on waiting for it, a SIGSTOP among them.
///
/// # Errors
/// As [`remain`].
pub fn replace(frozen: Frozen, with: &Remains<'_>) -> Result<()> {
    replaced(frozen, with, Memory::Own)
}

/// The same for one that shares its memory, its working directory and its umask with others, who go on. It has one thread.
///
/// # Errors
/// As [`remain`].
pub fn replace_one_of_many(frozen: Frozen, with: &Remains<'_>) -> Result<()> {
    replaced(frozen, with, Memory::Shared)
}

/// Whose it is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Memory {
    Own,
    Shared,
}

fn replaced(mut frozen: Frozen, with: &Remains<'_>, memory: Memory) -> Result<()> {
    let pid = frozen.pid;
    let threads = frozen.scattered();
    let nothing = (&[][..], &RunningTimers::default(), false);
    remain_of((threads, memory), with, nothing).and_then(|done| stop_again(pid, done.stops))
}

/// How it is that is in the place of a process now.
#[derive(Clone, Copy, Debug)]
pub struct Done {
    /// A SIGSTOP came meanwhile, and has not stopped it.
    pub stops: bool,
    /// It is stopped, as the process was, or is about to be.
    pub is_stopped: bool,
}

/// A SIGSTOP that was taken from a process comes to what is in its place.
pub(crate) fn stop_again(pid: Pid, stops: bool) -> Result<()> {
    match stops {
        true => kern::signal::send(pid, Sig::STOP).map_err(|errno| Fault::sys(errno, format!("stop process {pid}"))),
        false => Ok(()),
    }
}

/// So far below the end of a stack that nothing uses that (its red zone has 128 bytes), and still within it.
const BELOW: u64 = 512;

/// Its descriptors come with numbers from here on first.
const BASE: i32 = 8;

/// Limits that must not be in the way of the program, nor of what it may become one day, as low as its user's hard ones may be: an image sets its own in the end.
const LIMITS: [u32; 7] = [
    libc::RLIMIT_CPU,
    libc::RLIMIT_DATA,
    libc::RLIMIT_STACK,
    libc::RLIMIT_NOFILE,
    libc::RLIMIT_AS,
    libc::RLIMIT_MEMLOCK,
    libc::RLIMIT_SIGPENDING,
];

/// A process whose threads all stand still, the leader first, executes another program, and runs in that when this returns, with all
/// signals blocked. Of signals that wait for it one of each of `taken` is dropped, and what the timers that were `running` have sent. `stopped`: it was to be, and its
/// parent has not been told: it stops before it runs.
///
/// # Errors
/// `Gone` when it was killed; else what kept it from it: then it is killed, since nothing of what it was is left.
pub(crate) fn remain(
    threads: Vec<Stopped>,
    with: &Remains<'_>,
    taken: &[Sig],
    running: &RunningTimers,
    stopped: bool,
) -> Result<Done> {
    remain_of((threads, Memory::Own), with, (taken, running, stopped))
}

fn remain_of(
    (mut threads, memory): (Vec<Stopped>, Memory),
    with: &Remains<'_>,
    (taken, running, stopped): (&[Sig], &RunningTimers, bool),
) -> Result<Done> {
    if threads.is_empty() {
        return Err(Fault::bug("a process without threads"));
    }
    let leader = threads.remove(0);
    let pid = leader.tid();
    // Of each, so no `any`.
    let met = threads.iter().filter(|thread| thread.take_stop()).count() != 0;
    let nothing = become_nothing(&leader, threads, with.nothing, memory);
    let done = nothing.and_then(|stop| execute(&leader, with, taken, running).map(|()| stop)).and_then(|stop| {
        leader.set_sigmask(!0)?;
        // A SIGCONT that a SIGSTOP has thrown out of the queue has let it go on all the same.
        let group = leader.is_at_rest()?;
        let goes_on = leader.is_to_continue()?;
        let stops = (leader.take_stop() || met || stop) && !goes_on;
        let is_stopped = (group.is_some() || stopped) && !goes_on;
        stop_again(pid, stopped && !goes_on)?;
        leader.release(None).map(|()| Done { stops, is_stopped })
    });
    done.map_err(|fault| {
        let _gone_already = kern::signal::send(pid, Sig::KILL);
        fault.doing(format!("put another program in the place of process {pid}"))
    })
}

fn execute(leader: &Stopped, with: &Remains<'_>, taken: &[Sig], running: &RunningTimers) -> Result<()> {
    let pid = leader.tid();
    let remote = RemoteMemory::open(pid)?;
    let mut loan = Loan::take(leader, &remote, &areas(pid, false)?)?;
    let arena = loan.map_arena(None)?;
    // The timers are stopped by now, or were of the program before.
    let mut all = queued(pid, Queue::Process).and_then(|all| Ok([all, queued(pid, Queue::Thread)?].concat()));
    let all = all.as_mut().map_err(|errno| Fault::sys(*errno, "read the signals that wait"))?;
    all.retain(|info| running.signal(info));
    let taken: Vec<Sig> = taken.iter().copied().chain(all.iter().filter_map(number)).collect();
    let_go(&mut loan, arena, &taken)?;
    let null = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, 0o0.into());
    let null = null.map_err(|e| Fault::sys(e.raw_os_error(), "open /dev/null"))?;
    let root = rustix::fs::open("/", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, 0o0.into());
    let root = root.map_err(|e| Fault::sys(e.raw_os_error(), "open the root directory"))?;
    let [input, output, errors] = with.streams.unwrap_or([null.as_fd(); 3]);
    let files = [input, output, errors, with.place, with.program, root.as_fd()].map(Wanted::Ours);
    let come = bring(&mut loan, arena, pid, &files, BASE)?;
    let [input, output, errors, place, program, root] = come[..] else {
        return Err(Fault::bug("other descriptors than were brought"));
    };
    let mut script = arena.script();
    // The process may have a root directory of its own, in which nothing is of what the program looks for by name. Without the right to leave it the program does it itself
    // ([`kern::own::take_working_directory_as_root`]).
    script.call("go to the root directory", libc::SYS_fchdir, &[root as u64]);
    let here = script.text(b".");
    script.attempt(libc::SYS_chroot, &[here]);
    for (from, to) in [(input, 0), (output, 1), (errors, 2), (place, 3)] {
        script.call("put a descriptor in its place", libc::SYS_dup3, &[from as u64, to, 0]);
    }
    let mut arguments: Vec<u64> = with.arguments.iter().map(|text| script.text(text.as_bytes())).collect();
    arguments.push(0);
    let arguments = script.bytes(arguments.as_bytes());
    let nothing = script.bytes([0u64; 1].as_bytes());
    let own_path = script.text(b"");
    loan.run(arena, script)?;
    let flags = libc::AT_EMPTY_PATH as u64;
    loan.execute(arena, libc::SYS_execveat, [program as u64, own_path, arguments, nothing, flags, 0])
}

/// Whatever becomes of the scripts in it, when this returns the process has one thread, new memory, and has not run since. `true`: one of the others has met
/// a SIGSTOP.
fn become_nothing(leader: &Stopped, others: Vec<Stopped>, nothing: BorrowedFd<'_>, memory: Memory) -> Result<bool> {
    let pid = leader.tid();
    let remote = RemoteMemory::open(pid)?;
    let mut loan = Loan::take(leader, &remote, &areas(pid, false)?)?;
    others.iter().try_for_each(|thread| thread.exit(loan.gate()))?;
    let met = others.into_iter().map(Stopped::ends).filter(|met| *met).count() != 0;
    let arena = loan.map_arena(None)?;
    let_go(&mut loan, arena, &[])?;
    let come = bring(&mut loan, arena, pid, &[Wanted::Ours(nothing)], BASE)?;
    let [program] = come[..] else { return Err(Fault::bug("other descriptors than were brought")) };
    // Who may read a program, by whatever right, has memory of his own in it that his user may come to (linux: `would_dump`).
    let mut script = arena.script();
    if identity::lower(&mut script, pid)? {
        loan.run(arena, script)?;
    }
    // It has them in common with the stand-ins that it has made, which go elsewhere when they become processes; and who shares them with others gains no capabilities by a
    // file (linux: `check_unsafe_exec`).
    loan.must("have a working directory and umask of its own", libc::SYS_unshare, &[libc::CLONE_FS as u64])?;
    // One argument, which is empty as its path is, and no environment.
    let flags = libc::AT_EMPTY_PATH as u64;
    let args = |at: u64| [program as u64, at + 16, at, at + 8, flags, 0];
    match memory {
        Memory::Own => {
            let at = arena.put(&remote, [0u64; 3].as_bytes())?;
            remote.write(at, (at + 16).as_bytes())?;
            loan.execute(arena, libc::SYS_execveat, args(at))?;
        }
        Memory::Shared => {
            let at = (loan.stack() - BELOW) & !15;
            remote.write(at, [at + 16, 0, 0].as_bytes())?;
            loan.unmap_arena(arena)?;
            loan.execute_without_arena(libc::SYS_execveat, args(at))?;
        }
    }
    let wanted = rustix::fs::fstat(nothing).map_err(|e| Fault::sys(e.raw_os_error(), "look at a program"))?;
    match elsewhere::identity(&format!("{PROC}/{pid}/exe")) == Some((wanted.st_dev, wanted.st_ino)) {
        true => leader.leaves_exec().and_then(|()| is_out_of_reach(pid)).map(|()| met),
        false => Err(Fault::refused("it has executed another program than it was told to")),
    }
}

/// Can its user not come to its memory and descriptors? What is guarded of such a process belongs to root (linux: `task_dump_owner`).
fn is_out_of_reach(pid: Pid) -> Result<()> {
    let path = format!("{PROC}/{pid}/environ");
    let guarded = std::fs::metadata(&path).map_err(|e| Fault::io(&e, format!("look at {path}")))?;
    match guarded.uid() {
        0 => Ok(()),
        uid => Err(Fault::refused(format!("what it executes could be come to by user {uid}"))),
    }
}

/// Timers, descriptors and limits of what it was, and what it was to get when its parent ends.
fn let_go(loan: &mut Loan<'_>, arena: Arena, taken: &[Sig]) -> Result<()> {
    let mut script = arena.script();
    let nothing = script.room(32);
    for which in [libc::ITIMER_REAL, libc::ITIMER_VIRTUAL, libc::ITIMER_PROF] {
        script.call("stop a timer", libc::SYS_setitimer, &[which as u64, nothing, 0]);
    }
    sigstate::drop_waiting(&mut script, taken.iter().copied());
    script.attempt(libc::SYS_prctl, &[libc::PR_SET_PDEATHSIG as u64, 0]);
    script.attempt(libc::SYS_close_range, &[0, u32::MAX.into(), 0]);
    let root = script.text(b"/");
    script.attempt(libc::SYS_chdir, &[root]);
    let found: Vec<u64> = LIMITS.iter().map(|_| script.room(16)).collect();
    for (limit, at) in LIMITS.iter().zip(&found) {
        script.call("read a limit", libc::SYS_prlimit64, &[0, (*limit).into(), 0, *at]);
    }
    let outcome = loan.run(arena, script)?;
    let mut script = arena.script();
    for (limit, at) in LIMITS.iter().zip(found) {
        let [_, hard]: [u64; 2] = outcome.value(at)?;
        let both = script.bytes([hard, hard].as_bytes());
        script.attempt(libc::SYS_prlimit64, &[0, (*limit).into(), both, 0]);
    }
    loan.run(arena, script)?;
    for limit in LIMITS {
        // Without the right to it the hard ones stay ([`most`]).
        let _stays = others::lift_limit(loan.tid(), limit);
    }
    Ok(())
}

/// What limit `resource` of this process will be once another program has taken its place.
///
/// # Errors
/// `Gone`.
pub(crate) fn most(pid: Pid, resource: u32) -> Result<u64> {
    if let Ok(before) = others::lift_limit(pid, resource) {
        let lifted = others::limit(pid, resource);
        let _it_could_be_raised = others::set_limit(pid, resource, before);
        return lifted
            .map(|(soft, _)| soft)
            .map_err(|errno| Fault::sys(errno, format!("read a limit of process {pid}")));
    }
    let hard = identity::limits(pid)?.into_iter().find_map(|(one, _, hard)| (one == resource).then_some(hard));
    hard.ok_or_else(|| Fault::bug(format!("process {pid} without limit {resource}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::freeze::freeze;
    use rustix::process::{waitid, WaitId, WaitIdOptions};
    use std::fs::File;
    use std::io::Read;
    use std::process::{Child, Command, Stdio};
    use std::time::Duration;

    const THREADS: &str = "import threading, time\nfor _ in range(3): threading.Thread(target=time.sleep, args=(60,)).start()\nprint(1, flush=True)";

    /// It stands still, with four threads.
    fn begin() -> (Child, Frozen) {
        let python = Command::new("python3").args(["-S", "-c", THREADS]).stdout(Stdio::piped()).spawn();
        let mut child = python.expect("python3");
        child.stdout.take().expect("piped").read_exact(&mut [0]).expect("it has its threads");
        let frozen = freeze(Pid(child.id() as i32)).expect("mine");
        assert_eq!(frozen.threads.len(), 4);
        (child, frozen)
    }

    /// What its parent is told of it, within 10 s: has it stopped?
    fn stops(mut child: Child) -> bool {
        let pid = rustix::process::Pid::from_child(&child);
        let (ends, late) = std::sync::mpsc::channel::<()>();
        let killer = std::thread::spawn(move || {
            if late.recv_timeout(Duration::from_secs(10)).is_err() {
                let _gone = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
        });
        let told = waitid(WaitId::Pid(pid), WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
        let stopped = told.expect("a child").expect("not NOHANG").stopped();
        let _has_given_up = ends.send(());
        killer.join().expect("it only waits");
        child.kill().expect("a child");
        child.wait().expect("killed");
        stopped
    }

    fn replaced_by_sleep(frozen: Frozen) {
        let (sleep, nothing) = (File::open("/bin/sleep").expect("there"), File::open("/bin/true").expect("there"));
        let with = Remains {
            nothing: nothing.as_fd(),
            program: sleep.as_fd(),
            arguments: &["sleep", "60"],
            place: nothing.as_fd(),
            streams: None,
        };
        replace(frozen, &with).expect("root may");
    }

    /// The first of its threads that runs takes it, and that is one which is about to end.
    #[test]
    fn a_stop_that_comes_while_it_stands_still_stops_what_takes_its_place() {
        let (child, frozen) = begin();
        kern::signal::send(frozen.pid, Sig::STOP).expect("a child");
        replaced_by_sleep(frozen);
        assert!(stops(child));
    }
}
