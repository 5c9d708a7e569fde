//! Who the process is: names, limits, paths, addresses that /proc shows, credentials of its threads.

use crate::apart;
use crate::cpu::XTILEDATA;
use crate::file_id;
use crate::login;
use crate::proc::{self, Fields};
use image::file_id::{FileId, Places};
use image::process::{Layout, Limit, Process};
use image::thread::Creds;
use image::Bytes;
use kern::own;
use kern::pagemap::PAGE;
use kern::proc::{root, Proc, PROC};
use puppet::script::Outcome;
use puppet::{Script, Slot};
use rustix::fs::{Mode, OFlags};
use std::os::fd::AsRawFd;
use vocab::{Fault, Pid, Result};
use zerocopy::IntoBytes;

/// What /proc tells of a stopped process, of which that is the status.
pub(crate) fn read(pid: Pid, status: &Fields) -> Result<Process> {
    let stat = proc::stat_fields(pid)?;
    let field = |index| proc::stat_number(&stat, index);
    let ([exe, cwd, root], places) = places(pid)?;
    Ok(Process {
        pid: pid.0,
        parent: field(4)? as i32,
        group: field(5)? as i32,
        session: field(6)? as i32,
        exe,
        cwd,
        root,
        places,
        umask: status.number("Umask", 8)? as u32,
        personality: number(pid, "personality", 16)? as u32,
        oom_score_adj: number(pid, "oom_score_adj", 10)? as i32,
        layout: Layout {
            start_code: field(26)?,
            end_code: field(27)?,
            start_data: field(45)?,
            end_data: field(46)?,
            start_brk: field(47)?,
            // brk(2) tells it.
            brk: 0,
            start_stack: field(28)?,
            arg_start: field(48)?,
            arg_end: field(49)?,
            env_start: field(50)?,
            env_end: field(51)?,
        },
        auxv: proc::file(pid, "auxv")?.into(),
        dumped: dumped(pid)?,
        login: login::of(pid)?,
        limits: limits(pid)?.into_iter().map(|(_, soft, hard)| Limit { soft, hard }).collect(),
        ..Process::default()
    })
}

/// Program, working directory and root directory: names, and which they are. Each is pinned, so that both are of one.
pub(crate) fn places(pid: Pid) -> Result<([Bytes; 3], Places)> {
    let look = |link: &str| -> Result<(Bytes, FileId)> {
        let path = format!("{PROC}/{pid}/{link}");
        let failed = |e: rustix::io::Errno| Fault::sys(e.raw_os_error(), format!("look where {path} leads"));
        let pinned = rustix::fs::open(&path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).map_err(failed)?;
        let name =
            rustix::fs::readlink(format!("{PROC}/self/fd/{}", pinned.as_raw_fd()), Vec::new()).map_err(failed)?;
        Ok((name.into_bytes().into(), file_id::of(&pinned)?))
    };
    let ((exe, program), (cwd, working), (root, top)) = (look("exe")?, look("cwd")?, look("root")?);
    Ok(([exe, cwd, root], Places { exe: Some(program), cwd: Some(working), root: Some(top) }))
}

/// What only the process itself can ask.
pub(crate) struct Asked {
    brk: Slot,
    dumpable: Slot,
    subreaper: u64,
    /// In the order of [`HABITS`].
    habits: [Slot; HABITS.len()],
    states: u64,
    locked: Slot,
    segments: Slot,
    registered: Slot,
    /// In the order of [`BARRIERS`].
    barriers: [Slot; BARRIERS.len()],
}

/// What prctl(2) gives as its result and sets by its first argument: get, set. Kernels that do not know one have nothing of it to carry.
const HABITS: [(i32, i32); 3] = [
    (libc::PR_GET_THP_DISABLE, libc::PR_SET_THP_DISABLE),
    (PR_GET_MDWE, PR_SET_MDWE),
    (PR_GET_MEMORY_MERGE, PR_SET_MEMORY_MERGE),
];
const PR_SET_MDWE: i32 = 65;
const PR_GET_MDWE: i32 = 66;
const PR_SET_MEMORY_MERGE: i32 = 67;
const PR_GET_MEMORY_MERGE: i32 = 68;
/// A flag of PR_SET_THP_DISABLE, which goes into its second argument (Linux 6.18).
const EXCEPT_ADVISED: u64 = 2;

/// Codes of arch_prctl (linux: Documentation/arch/x86/xstate.rst).
const ARCH_GET_XCOMP_PERM: u64 = 0x1022;
const ARCH_REQ_XCOMP_PERM: u64 = 0x1023;

/// Commands of membarrier(2): barriers among the threads of one process, and what registers for each, without which it is refused.
const BARRIERS: [(u64, u32); 3] = [(1 << 3, 1 << 4), (1 << 5, 1 << 6), (1 << 7, 1 << 8)];
/// All for which it has registered (Linux 6.3).
const GET_REGISTRATIONS: u64 = 1 << 9;

/// `mapped`: an address in what was mapped just now.
pub(crate) fn ask(script: &mut Script, mapped: u64) -> Asked {
    let subreaper = ask_before(script);
    // EBUSY of what is locked; else it does nothing (linux: `SYSCALL_DEFINE3(msync)`).
    let locked = script.attempt(libc::SYS_msync, &[mapped, PAGE, libc::MS_INVALIDATE as u64]);
    let states = script.room(8);
    script.attempt(libc::SYS_arch_prctl, &[ARCH_GET_XCOMP_PERM, states]);
    let first = script.room(8);
    Asked {
        brk: script.call("read the break", libc::SYS_brk, &[0]),
        dumpable: script.call("ask whether it is dumpable", libc::SYS_prctl, &[libc::PR_GET_DUMPABLE as u64]),
        subreaper,
        habits: HABITS.map(|(get, _)| script.attempt(libc::SYS_prctl, &[get as u64])),
        states,
        locked,
        // Nothing where there are none.
        segments: script.attempt(libc::SYS_modify_ldt, &[0, first, 8]),
        registered: script.attempt(libc::SYS_membarrier, &[GET_REGISTRATIONS, 0, 0]),
        barriers: BARRIERS.map(|(command, _)| script.attempt(libc::SYS_membarrier, &[command, 0, 0])),
    }
}

pub(crate) fn fill(outcome: &Outcome, asked: &Asked, process: &mut Process) -> Result<()> {
    if outcome.result(asked.segments) > 0 {
        return Err(Fault::refused("it has segments of its own (modify_ldt(2)), which are not carried"));
    }
    process.layout.brk = outcome.result(asked.brk) as u64;
    process.dumpable = outcome.result(asked.dumpable) as u32;
    process.subreaper = is_subreaper(outcome, asked.subreaper)?;
    process.permitted_states = outcome.value(asked.states)?;
    process.barriers = match outcome.result(asked.registered) {
        told @ 0.. => told as u32,
        _ => {
            let done = BARRIERS.iter().zip(&asked.barriers).filter(|(_, slot)| outcome.result(**slot) == 0);
            done.map(|((_, register), _)| register).sum()
        }
    };
    if outcome.result(asked.locked) == -i64::from(libc::EBUSY) {
        process.locks_what_it_maps = libc::MCL_FUTURE as u32;
    }
    let habits = asked.habits.map(|slot| outcome.result(slot).max(0) as u64);
    [process.no_huge_pages, process.deny_write_execute, process.merge_pages] = habits;
    Ok(())
}

/// The addresses and the executable, once the memory is there. `exe_fd`: a descriptor of the executable in the new process.
pub(crate) fn set_layout(script: &mut Script, process: &Process, exe_fd: i32) {
    let auxv = script.bytes(&process.auxv.0);
    let at = &process.layout;
    // struct prctl_mm_map; its last two numbers are of 32 bits.
    let map = [
        [at.start_code, at.end_code, at.start_data, at.end_data],
        [at.start_brk, at.brk, at.start_stack, at.arg_start],
        [at.arg_end, at.env_start, at.env_end, auxv],
    ];
    let tail = [process.auxv.0.len() as u32, exe_fd as u32];
    let map = [map.as_bytes(), tail.as_bytes()].concat();
    let args = [libc::PR_SET_MM as u64, libc::PR_SET_MM_MAP as u64, script.bytes(&map), map.len() as u64, 0];
    script.call("set the addresses that /proc shows", libc::SYS_prctl, &args);
}

/// What a process has before it becomes another, and could have kept from one before.
#[derive(Clone, Default)]
pub(crate) struct Before {
    limits: Vec<own::Limit>,
    oom_score_adj: i32,
    dumped: Option<u32>,
    /// On a node the agent is asked whenever this is set, and the process stands still meanwhile: so not where it is so already.
    subreaper: bool,
    /// Without the secure bits.
    pub(crate) creds: Creds,
}

pub(crate) fn ask_before(script: &mut Script) -> u64 {
    let subreaper = script.room(4);
    script.call("ask whether it is a subreaper", libc::SYS_prctl, &[libc::PR_GET_CHILD_SUBREAPER as u64, subreaper]);
    subreaper
}

pub(crate) fn before(pid: Pid, outcome: &Outcome, subreaper: u64) -> Result<Before> {
    let (limits, oom_score_adj) = (limits(pid)?, number(pid, "oom_score_adj", 10)? as i32);
    let (creds, dumped) = (creds(pid, pid)?, dumped(pid)?);
    Ok(Before { limits, oom_score_adj, dumped, subreaper: is_subreaper(outcome, subreaper)?, creds })
}

fn is_subreaper(outcome: &Outcome, subreaper: u64) -> Result<bool> {
    Ok(outcome.value::<i32>(subreaper)? != 0)
}

/// Which memory goes into its core dumps (core(5)). A kernel may have none.
fn dumped(pid: Pid) -> Result<Option<u32>> {
    match number(pid, "coredump_filter", 16) {
        Ok(filter) => Ok(Some(filter as u32)),
        Err(fault) if fault.errno == libc::ENOENT && kern::proc::group_and_session(pid).is_some() => Ok(None),
        Err(fault) => Err(fault),
    }
}

/// What a file of /proc/PID is a number in.
fn number(pid: Pid, name: &str, base: u32) -> Result<i64> {
    let bytes = proc::file(pid, name)?;
    let text = String::from_utf8_lossy(&bytes);
    i64::from_str_radix(text.trim(), base).map_err(|_| Fault::bug(format!("/proc/{pid}/{name} is no number")))
}

/// What the process itself sets, except for what belongs to threads. `place`: the group and session that it is in.
pub(crate) fn set(script: &mut Script, process: &Process, now: &Before, place: (Pid, Pid)) {
    // Any other group or session is that of whoever restores: the one that it was in may be gone.
    let (group, session) = place;
    match process.pid {
        pid if pid == process.session && session.0 != pid => drop(script.call("make a session", libc::SYS_setsid, &[])),
        pid if pid == process.group && group.0 != pid => drop(script.call("make a group", libc::SYS_setpgid, &[0, 0])),
        _ => {}
    }
    script.call("set the umask", libc::SYS_umask, &[process.umask.into()]);
    script.call("set the personality", libc::SYS_personality, &[process.personality.into()]);
    if process.subreaper != now.subreaper {
        let subreaper = u64::from(process.subreaper);
        script.call("become a subreaper", libc::SYS_prctl, &[libc::PR_SET_CHILD_SUBREAPER as u64, subreaper, 0, 0, 0]);
    }
}

/// The registers for which a process must ask the kernel: the tiles of AMX, so far. Before it has threads, and stacks for signals, whose
/// least size grows with it (linux: `xstate_request_perm`).
pub(crate) fn ask_for_registers(script: &mut Script, process: &Process) {
    if process.permitted_states & XTILEDATA != 0 {
        let args = [ARCH_REQ_XCOMP_PERM, XTILEDATA.trailing_zeros().into()];
        script.call("ask for the tiles of AMX", libc::SYS_arch_prctl, &args);
    }
}

/// Before it has threads: later that takes as long as all processors need to be through with something (linux: `sync_runqueues_membarrier_state`).
pub(crate) fn register_for_barriers(script: &mut Script, process: &Process) {
    for command in (0..u32::BITS).map(|bit| 1 << bit).filter(|command| process.barriers & command != 0) {
        script.call("register for barriers", libc::SYS_membarrier, &[command.into(), 0, 0]);
    }
}

/// A change of credentials makes a process undumpable (linux: `commit_creds`), so this comes behind it.
pub(crate) fn set_dumpable(script: &mut Script, process: &Process) {
    // 2 is what the kernel alone may set.
    let dumpable = u64::from(process.dumpable == 1);
    script.call("set whether it is dumpable", libc::SYS_prctl, &[libc::PR_SET_DUMPABLE as u64, dumpable, 0, 0, 0]);
}

/// Once the memory is there: some of it could not be mapped any more.
pub(crate) fn set_habits(script: &mut Script, process: &Process) {
    let values = [process.no_huge_pages, process.deny_write_execute, process.merge_pages];
    for ((_, set), value) in HABITS.iter().zip(values).filter(|(_, value)| *value != 0) {
        let (value, flags) = match *set {
            libc::PR_SET_THP_DISABLE => (1, value & EXCEPT_ADVISED),
            _ => (value, 0),
        };
        script.call(format!("set {set} of prctl"), libc::SYS_prctl, &[*set as u64, value, flags, 0, 0]);
    }
}

/// Once everything is mapped, and locked that is.
pub(crate) fn set_locking(script: &mut Script, process: &Process) {
    if process.locks_what_it_maps != 0 {
        script.call("have what is mapped locked", libc::SYS_mlockall, &[process.locks_what_it_maps.into()]);
    }
}

/// In the order of their numbers, from the kernel: the process's own memory, in which its calls leave what they tell, is its user's to write to. And as text:
/// prlimit(2) of another user's process wants a right.
pub(crate) fn limits(pid: Pid) -> Result<Vec<own::Limit>> {
    let limits = Proc::open(root())?.limits(pid);
    limits.map_err(|errno| Fault::sys(errno, format!("read the limits of process {pid}")))
}

/// As many signals may wait as may for the process of the image, before they are queued.
pub(crate) fn allow_signals(script: &mut Script, process: &Process, now: &Before) {
    const PENDING: u32 = libc::RLIMIT_SIGPENDING;
    let before = now.limits.iter().find_map(|(resource, soft, _)| (*resource == PENDING).then_some(*soft));
    let wanted = process.limits.get(PENDING as usize).filter(|limit| before.is_some_and(|soft| soft < limit.soft));
    if let Some(wanted) = wanted {
        let at = script.bytes([wanted.soft, wanted.hard].as_bytes());
        script.call("set the limit of signals that wait", libc::SYS_prlimit64, &[0, PENDING.into(), at, 0]);
    }
}

/// In the end, since a low limit would be in the way of the restore. Raising a hard one needs a right, so equal ones are let be.
pub(crate) fn set_limits(script: &mut Script, process: &Process, now: &Before) {
    for (resource, limit) in (0u32..).zip(&process.limits) {
        if !now.limits.contains(&(resource, limit.soft, limit.hard)) {
            let at = script.bytes([limit.soft, limit.hard].as_bytes());
            script.call(format!("set limit {resource}"), libc::SYS_prlimit64, &[0, resource.into(), at, 0]);
        }
    }
}

/// What is set from outside: what becomes of it when memory runs out, and what of its own goes into core dumps.
pub(crate) fn set_outside(pid: Pid, process: &Process, now: &Before) -> Result<()> {
    let write = |name: &str, text: String| {
        let path = format!("{PROC}/{pid}/{name}");
        std::fs::write(&path, text).map_err(|e| Fault::io(&e, format!("write {path}")))
    };
    if process.oom_score_adj != now.oom_score_adj {
        write("oom_score_adj", process.oom_score_adj.to_string())?;
    }
    // A kernel without core dumps has nothing of it.
    match (process.dumped, now.dumped) {
        (Some(filter), Some(other)) if filter != other => write("coredump_filter", format!("{filter:#x}")),
        _ => Ok(()),
    }
}

/// Credentials of a thread, without the secure bits, which only it can ask.
pub(crate) fn creds(pid: Pid, tid: Pid) -> Result<Creds> {
    creds_of(tid, &apart::of_thread(pid, tid)?)
}

/// By its status.
pub(crate) fn creds_of(tid: Pid, status: &Fields) -> Result<Creds> {
    let four = |name| -> Result<[u32; 4]> {
        let ids: Vec<u32> = status.numbers(name, 10)?.into_iter().map(|id| id as u32).collect();
        ids.try_into().map_err(|_| Fault::bug(format!("{name} of thread {tid} are not four")))
    };
    Ok(Creds {
        uids: four("Uid")?,
        gids: four("Gid")?,
        groups: status.numbers("Groups", 10)?.into_iter().map(|id| id as u32).collect(),
        capabilities: [
            status.number("CapInh", 16)?,
            status.number("CapPrm", 16)?,
            status.number("CapEff", 16)?,
            status.number("CapBnd", 16)?,
            status.number("CapAmb", 16)?,
        ],
        securebits: 0,
        no_new_privs: status.number("NoNewPrivs", 10)? != 0,
    })
}

/// All capabilities that it may have take effect. (Who executes a file that has some itself loses what it had as ambient ones.)
pub(crate) fn raise(script: &mut Script, pid: Pid) -> Result<()> {
    let [inheritable, permitted, effective, ..] = creds(pid, pid)?.capabilities;
    if effective != permitted {
        set_capabilities(script, [permitted, permitted, inheritable]);
    }
    Ok(())
}

/// None of its capabilities take effect: it may read and do what its user may, until it executes another program. False: none does already, and nothing is to be done.
pub(crate) fn lower(script: &mut Script, pid: Pid) -> Result<bool> {
    let [inheritable, permitted, effective, ..] = creds(pid, pid)?.capabilities;
    if effective != 0 {
        set_capabilities(script, [0, permitted, inheritable]);
    }
    Ok(effective != 0)
}

/// Effective, permitted, inheritable.
fn set_capabilities(script: &mut Script, sets: [u64; 3]) {
    let head = script.bytes([CAPABILITY_VERSION, 0].as_bytes());
    let low_high = |shift: u32| sets.map(|set| (set >> shift) as u32);
    let sets = script.bytes([low_high(0), low_high(32)].as_bytes());
    script.call("set the capabilities", libc::SYS_capset, &[head, sets]);
}

/// Version 3 of capget(2).
const CAPABILITY_VERSION: u32 = 0x2008_0522;
/// SECBIT_KEEP_CAPS and SECBIT_NO_SETUID_FIXUP: the ids change, the capabilities stay until they are set.
pub(crate) const KEEP: u64 = 1 << 4 | 1 << 2;

/// Makes the credentials of a thread those of the image; in the thread itself, since the kernel keeps them for each.
///
/// Whoever has restored it may have fewer rights than it had: then the calls fail, unless nothing is to be changed.
pub(crate) fn set_creds(script: &mut Script, creds: &Creds, now: &Creds) {
    if creds.no_new_privs && !now.no_new_privs {
        let args = [libc::PR_SET_NO_NEW_PRIVS as u64, 1, 0, 0, 0];
        script.call("set no_new_privs", libc::SYS_prctl, &args);
    }
    let [inheritable, permitted, effective, bounding, ambient] = creds.capabilities;
    let bits = |bits: u64| script_args(libc::PR_SET_SECUREBITS, bits);
    let same_ids = (creds.uids, creds.gids, &creds.groups) == (now.uids, now.gids, &now.groups);
    if !same_ids {
        script.call("keep the capabilities while the ids change", libc::SYS_prctl, &bits(KEEP));
    }
    for capability in (0..64).filter(|bit| now.capabilities[3] >> bit & 1 == 1 && bounding >> bit & 1 == 0) {
        script.call("drop a capability for good", libc::SYS_prctl, &script_args(libc::PR_CAPBSET_DROP, capability));
    }
    if !same_ids {
        set_ids(script, creds);
    }
    let other_capabilities = !same_ids || creds.capabilities != now.capabilities;
    if other_capabilities {
        let ambient_args = |what: i32, capability: u64| [libc::PR_CAP_AMBIENT as u64, what as u64, capability, 0, 0];
        script.call("drop ambient capabilities", libc::SYS_prctl, &ambient_args(libc::PR_CAP_AMBIENT_CLEAR_ALL, 0));
        // They must be inheritable, and the secure bits may forbid to raise them (SECBIT_NO_CAP_AMBIENT_RAISE); those take a right that it is about to lose.
        if ambient != 0 {
            let [_, permitted, effective, ..] = now.capabilities;
            set_capabilities(script, [effective, permitted, inheritable]);
        }
        for capability in (0..64).filter(|bit| ambient >> bit & 1 == 1) {
            let args = ambient_args(libc::PR_CAP_AMBIENT_RAISE, capability);
            script.call("raise an ambient capability", libc::SYS_prctl, &args);
        }
    }
    if !same_ids || creds.securebits != now.securebits {
        script.call("set the secure bits", libc::SYS_prctl, &bits(creds.securebits.into()));
    }
    if other_capabilities {
        set_capabilities(script, [effective, permitted, inheritable]);
    }
}

fn set_ids(script: &mut Script, creds: &Creds) {
    let groups: Vec<u8> = creds.groups.iter().flat_map(|group| group.to_ne_bytes()).collect();
    let at = script.bytes(&groups);
    script.call("set the groups", libc::SYS_setgroups, &[creds.groups.len() as u64, at]);
    let wide = |ids: [u32; 4]| ids.map(u64::from);
    let [real, effective_id, saved, fs] = wide(creds.gids);
    script.call("set the group ids", libc::SYS_setresgid, &[real, effective_id, saved]);
    script.call("set the file system's group id", libc::SYS_setfsgid, &[fs]);
    let [real, effective_id, saved, fs] = wide(creds.uids);
    script.call("set the user ids", libc::SYS_setresuid, &[real, effective_id, saved]);
    script.call("set the file system's user id", libc::SYS_setfsuid, &[fs]);
}

fn script_args(option: i32, value: u64) -> [u64; 5] {
    [option as u64, value, 0, 0, 0]
}
