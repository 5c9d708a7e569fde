//! What a process has put itself under, or gone into, and what would not go with it: filters, namespaces, threads that have more of their own than others.
//!
//! It is looked for while the process runs, which is then refused before it is touched, and again when it stands still: it may have done so meanwhile. Elsewhere it would
//! be free of all that, and what were its capabilities in a user namespace of its own would be some of that machine's.

use crate::cgroups;
use crate::freeze::Frozen;
use crate::obstacle::Obstacle;
use crate::proc::{self, Fields};
use crate::tracees;
use kern::areas::Area;
use kern::capability;
use kern::others::{share, Shared};
use kern::proc::{is_ending, PROC};
use puppet::Stopped;
use std::sync::OnceLock;
use vocab::{Fault, Pid, Result};

/// It is made again in those of whoever makes it, but for that of its clocks (crate::clocks). In a user namespace of its own it has capabilities that are none elsewhere; /proc does not tell of which
/// namespace they are.
const KINDS: [&str; 6] = ["user", "pid", "net", "ipc", "uts", "cgroup"];

/// Looks at a process that runs, and at all of its threads.
///
/// # Errors
/// `Gone`.
pub(crate) fn look(pid: Pid, filters: u64, obstacles: &mut Vec<Obstacle>) -> Result<()> {
    let status = proc::status(pid)?;
    if status.number("TracerPid", 10)? != 0 {
        obstacles.push(format!("it is traced by process {}", status.text("TracerPid")?));
    }
    at_status(&status, filters, obstacles)?;
    obstacles.extend(cgroups::frozen(pid).map(|group| format!("its control group {group} is frozen")));
    at_namespaces(pid, obstacles)?;
    for tid in proc::numbers_in(pid, "task")?.into_iter().map(Pid).filter(|tid| *tid != pid) {
        // One that has ended meanwhile is none.
        let Ok(status) = of_thread(pid, tid) else { continue };
        if status.number("TracerPid", 10)? != 0 {
            obstacles.push(format!("its thread {tid} is traced by process {}", status.text("TracerPid")?));
        }
        at_thread((pid, tid), &status, filters, obstacles)?;
    }
    Ok(())
}

/// Before anything is done in one that stands still, and of which that is its status: can that be done in it, and may it be told elsewhere whose it is? What is made
/// there is made with its capabilities as soon as they are heard of, long before [`none_is`] is answered.
///
/// # Errors
/// `Refused`, with everything that is in the way.
pub(crate) fn obeys(pid: Pid, status: &Fields, filters: u64) -> Result<()> {
    let mut obstacles = Vec::new();
    at_status(status, filters, &mut obstacles)?;
    at_namespace(pid, "user", &mut obstacles)?;
    refuse(&obstacles)
}

/// The same of a thread but the first, which is in the user namespace of that.
///
/// # Errors
/// As [`obeys`].
pub(crate) fn thread_obeys(tid: Pid, status: &Fields, filters: u64) -> Result<()> {
    let mut obstacles = Vec::new();
    at_filters(tid, status, filters, &mut obstacles)?;
    refuse(&obstacles)
}

/// Of one that stands still, with these mappings: all the rest, which takes a while for many threads and may as well be looked at when everything has been written.
///
/// # Errors
/// As [`obeys`]; `Gone`.
pub(crate) fn none_is(still: &Frozen, areas: &[Area], filters: u64) -> Result<()> {
    let mut obstacles = Vec::new();
    let pid = still.pid;
    at_namespaces(pid, &mut obstacles)?;
    tracees::ask(still, areas, &mut obstacles)?;
    for tid in still.threads.iter().skip(1).map(Stopped::tid) {
        at_thread((pid, tid), &of_thread(pid, tid)?, filters, &mut obstacles)?;
    }
    refuse(&obstacles)
}

pub(crate) fn of_thread(pid: Pid, tid: Pid) -> Result<Fields> {
    Fields::read(format!("{PROC}/{pid}/task/{tid}/status"))
}

fn refuse(obstacles: &[Obstacle]) -> Result<()> {
    match obstacles {
        [] => Ok(()),
        all => Err(Fault::refused(format!("it cannot be carried any more: {}", all.join("; ")))),
    }
}

/// Has a thread other filters than what is made again has already? Since Linux 5.9 the kernel tells.
fn is_filtered(status: &Fields, filters: u64) -> Result<bool> {
    Ok(status.number("Seccomp", 10)? != 0 && status.number("Seccomp_filters", 10).ok() != Some(filters))
}

fn at_status(status: &Fields, filters: u64, obstacles: &mut Vec<Obstacle>) -> Result<()> {
    if is_filtered(status, filters)? {
        obstacles.push("a seccomp filter is not carried".into());
    }
    let trap = 1 << (libc::SIGTRAP - 1);
    if status.number("SigIgn", 16)? & trap != 0 {
        obstacles.push("SIGTRAP is ignored, by which its calls are taken".into());
    }
    Ok(())
}

/// Is it in the user namespace of whoever looks, and so was at all times before?
///
/// # Errors
/// `Gone`.
pub(crate) fn has_our_users(pid: Pid) -> Result<bool> {
    let mut obstacles = Vec::new();
    at_namespace(pid, "user", &mut obstacles)?;
    Ok(obstacles.is_empty())
}

fn at_namespace(pid: Pid, kind: &str, obstacles: &mut Vec<Obstacle>) -> Result<()> {
    let own = KINDS.iter().zip(ours()?).find_map(|(known, own)| own.as_ref().filter(|_| *known == kind));
    if own.is_some() && Some(&proc::link(pid, &format!("ns/{kind}"))?) != own {
        obstacles.push(format!("it lives in a {kind} namespace of its own"));
    }
    Ok(())
}

fn at_namespaces(pid: Pid, obstacles: &mut Vec<Obstacle>) -> Result<()> {
    for kind in KINDS {
        at_namespace(pid, kind, obstacles)?;
    }
    for kind in ["pid", "time"] {
        // Where its children will live, if that is told: after unshare(2) it is elsewhere than where it does itself.
        let childrens = proc::link(pid, &format!("ns/{kind}_for_children"));
        if childrens.is_ok_and(|childrens| proc::link(pid, &format!("ns/{kind}")).is_ok_and(|own| own != childrens)) {
            obstacles.push(format!("its children will live in a {kind} namespace of their own"));
        }
    }
    Ok(())
}

/// Of whoever looks, who stays there; `None`: this kernel has no such kind.
fn ours() -> Result<&'static [Option<Vec<u8>>]> {
    static OURS: OnceLock<Vec<Option<Vec<u8>>>> = OnceLock::new();
    if let Some(known) = OURS.get() {
        return Ok(known);
    }
    let read = |kind: &&str| {
        let path = format!("{PROC}/self/ns/{kind}");
        match std::fs::read_link(&path) {
            Ok(own) => Ok(Some(own.into_os_string().into_encoded_bytes())),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(Fault::io(&e, format!("read the link {path}"))),
        }
    };
    let all = KINDS.iter().map(read).collect::<Result<Vec<_>>>()?;
    Ok(OURS.get_or_init(|| all))
}

fn at_filters(tid: Pid, status: &Fields, filters: u64, obstacles: &mut Vec<Obstacle>) -> Result<()> {
    if is_filtered(status, filters)? {
        obstacles.push(format!("a seccomp filter of its thread {tid} is not carried"));
    }
    Ok(())
}

/// A thread may have filters, and namespaces but for the first two, that its process has not, and files and places (unshare(2)).
fn at_thread((pid, tid): (Pid, Pid), status: &Fields, filters: u64, obstacles: &mut Vec<Obstacle>) -> Result<()> {
    at_filters(tid, status, filters, obstacles)?;
    for (what, name) in
        [(Shared::Files, "descriptors"), (Shared::Places, "a working directory, root directory and umask")]
    {
        // Not every kernel tells, nor everybody; and one that is about to end has let go of them.
        if share((pid, tid), what) == Ok(false) && ![pid, tid].into_iter().any(is_ending) {
            obstacles.push(format!("its thread {tid} has {name} of its own"));
        }
    }
    // To enter one takes this right, and some time.
    if !capability::has(status.number("CapPrm", 16)?, capability::SYS_ADMIN) {
        return Ok(());
    }
    for kind in ["net", "ipc", "uts", "cgroup", "mnt", "pid_for_children"] {
        let of = |tid: Pid| proc::link(pid, &format!("task/{tid}/ns/{kind}"));
        if of(tid).is_ok_and(|its| of(pid).is_ok_and(|own| own != its)) {
            obstacles.push(format!("its thread {tid} lives in a {kind} namespace of its own"));
        }
    }
    Ok(())
}
