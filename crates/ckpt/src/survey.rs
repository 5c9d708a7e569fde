//! A look at a running process before anything is done to it: what it has, and what of that will not be carried.

use crate::asleep::Clocks;
use crate::clocks::{Clock, Question};
use crate::elsewhere::{identity, is_deleted, Elsewhere, Identity, Known};
use crate::kinds::terminal::Tty;
use crate::kinds::{Leads, Left, Surveyed};
use crate::objects::{self, Look};
use crate::obstacle::Obstacle;
use crate::ownership::User;
use crate::proc::{self, Fields};
use crate::runs::{either, without};
use crate::{apart, children, kinds, memory, pool, sysv, timers, tracees};
use kern::areas::{areas, Area, AreaFlags};
use kern::others;
use kern::pagemap::Run;
use kern::proc::PROC;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::os::fd::AsRawFd;
use vocab::{Fault, Pid, Result};

/// sched(7); what it reserves must be asked of each machine anew.
const SCHED_DEADLINE: i32 = 6;

/// What was seen while the process ran.
pub struct Survey {
    pub(crate) areas: Vec<Area>,
    pub(crate) waiting: BTreeMap<i32, Waiting>,
    pub(crate) clock: Clock,
    pub(crate) known: Known,
    pub(crate) left: Left,
    /// It may read files that the kernel makes while they are read ([`kinds::generated::may_read`]).
    pub(crate) reads: bool,
    pub(crate) children: Vec<Pid>,
    /// As in [`Given`].
    pub(crate) leads: Leads,
    pub(crate) filters: u64,
    /// As [`Given::begins`].
    pub(crate) begins: bool,
    /// The user to whom the process must belong altogether when it stands still.
    pub(crate) of_user: Option<User>,
    /// Threads may stay in the kernel's code (vdso(7)), half-way through a look at its clocks.
    pub(crate) same_kernel: bool,
    pub obstacles: Vec<Obstacle>,
    /// Exclusive locks, without which the process could be moved.
    pub locked: Vec<Obstacle>,
}

impl Survey {
    /// An ordinary user has it carried: it must be that user's altogether.
    ///
    /// # Errors
    /// `Gone`.
    pub fn for_user(&mut self, pid: Pid, user: Option<User>) -> Result<()> {
        match user.as_ref().map_or(Ok(()), |user| user.seems_to_own(pid)) {
            Err(fault) if fault.kind == vocab::Kind::Refused => self.obstacles.push(fault.to_string()),
            looked => looked?,
        }
        self.of_user = user;
        Ok(())
    }

    /// It goes on under the kernel of this name ([`crate::boot::boot`]).
    ///
    /// # Errors
    /// When nobody knows this one's.
    pub fn goes_on_under(&mut self, kernel: &str) -> Result<()> {
        self.same_kernel = crate::boot::boot()? == kernel;
        Ok(())
    }
}

/// A thread that waits in a system call, and since when.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    pub(crate) call: i64,
    /// Nanoseconds of CLOCK_MONOTONIC, as who looks sees it.
    pub(crate) since: u64,
    /// How often it had given up its processor by then.
    pub(crate) switches: u64,
}

/// What a process that is to be made from an image will have already.
#[derive(Clone, Copy, Debug, Default)]
pub struct Given {
    /// So many seccomp filters, which are those that the process has.
    pub filters: u64,
    /// Its children stay behind as those of what takes its place.
    pub children: bool,
    /// What takes its place relays its standard streams, whatever they are.
    pub streams: bool,
    /// The pipes by which its standard streams are relayed now, in their order, by the numbers of their files: each of them is that stream there too, whatever number
    /// it has in the process.
    pub relayed: Option<[u64; 3]>,
    /// The process was stopped before its first instruction for the dump; the restored process is not stopped.
    pub begins: bool,
    /// It goes along: nobody reads or writes at its other side from when the process stands still until it goes on, or is another's.
    pub terminal: Option<Tty>,
}

impl Given {
    /// What one has that is made as `pid` was, who has nothing of its own; nothing, if that cannot be read.
    pub fn as_of(pid: Pid) -> Given {
        let status = Fields::read(format!("{PROC}/{pid}/status"));
        let filters = status.and_then(|status| status.number("Seccomp_filters", 10)).unwrap_or(0);
        Given { filters, ..Given::default() }
    }
}

/// Looks at the process; fails only if it is not there or not the caller's to look at.
pub fn survey(pid: Pid, given: Given) -> Result<Survey> {
    survey_again(pid, given, &[])
}

/// The same, of a process that is followed by a userfaultfd of ours in some of its mappings.
pub fn survey_again(pid: Pid, given: Given, followed: &[Run]) -> Result<Survey> {
    let mut obstacles = Vec::new();
    apart::look(pid, given.filters, &mut obstacles)?;
    let areas = areas(pid, true)?;
    look_at_places(pid, &mut obstacles)?;
    let mut nameless = kinds::nameless(pid)?;
    // Two that were followed may be one by now.
    let followed = either(followed, &[]);
    for area in &areas {
        let ours = without(&[Run { start: area.start, end: area.end }], &followed).is_empty();
        look_at_area(area, ours, &mut obstacles);
        look_at_file(pid, area, &mut nameless, &mut obstacles)?;
    }
    timers::survey(pid, &mut obstacles)?;
    sysv::look(pid, &mut obstacles)?;
    let leads = Leads { streams: given.streams, relayed: given.relayed, terminal: given.terminal };
    let Surveyed { known, left, obstacles: in_the_way, locked } = kinds::survey(pid, leads)?;
    obstacles.extend(in_the_way);
    let mut elsewhere = Elsewhere::of(Default::default(), nameless.keys().copied().collect());
    elsewhere.look(pid)?;
    for (file, who) in &elsewhere.files {
        obstacles.extend(who.map(|who| format!("{} {who}", nameless[file])));
    }
    for tid in proc::numbers_in(pid, "task")? {
        if others::scheduling(Pid(tid))
            .is_ok_and(|scheduling| scheduling.policy & !libc::SCHED_RESET_ON_FORK == SCHED_DEADLINE)
        {
            obstacles.push(format!("thread {tid} is scheduled by deadlines (SCHED_DEADLINE), which is not carried"));
        }
    }
    let waiting = waiting(pid)?;
    sysv::look_at_calls(waiting.iter().map(|(tid, waiting)| (*tid, waiting.call)), &mut obstacles);
    let children = children::of(pid)?;
    if !children.is_empty() && !given.children {
        let all: Vec<String> = children.iter().map(Pid::to_string).collect();
        obstacles.push(format!("it has children, which are not carried: {}", all.join(" ")));
    }
    if !given.children {
        obstacles.extend(of_itself(pid, &left)?);
    }
    // Of a machine with many processes that takes longer than all the rest. Whoever wants to know of everything asks for it.
    if obstacles.is_empty() {
        tracees::look(pid, &mut obstacles)?;
    }
    let clock = Clock::of(pid)?;
    // They will be wanted when the process stands still, and take longer the first time.
    crate::header::header(0, &clock, 0, false)?;
    kern::cpu::place_of_key_rights();
    let Given { filters, begins, .. } = given;
    let reads = kinds::generated::may_read(pid)?;
    let (of_user, same_kernel) = (None, false);
    Ok(Survey {
        areas,
        waiting,
        clock,
        known,
        left,
        reads,
        children,
        leads,
        filters,
        begins,
        of_user,
        same_kernel,
        obstacles,
        locked,
    })
}

/// They are found again by their names. The one that is looked at is held meanwhile, since the process may go elsewhere.
fn look_at_places(pid: Pid, obstacles: &mut Vec<Obstacle>) -> Result<()> {
    for (link, what) in [("exe", "its program"), ("cwd", "its working directory"), ("root", "its root directory")] {
        let path = format!("{PROC}/{pid}/{link}");
        let failed = |e: Errno| Fault::sys(e.raw_os_error(), format!("look where {path} leads"));
        let place = rustix::fs::open(&path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).map_err(failed)?;
        let held = format!("{PROC}/self/fd/{}", place.as_raw_fd());
        let name = match rustix::fs::readlink(&held, Vec::new()) {
            Err(Errno::NAMETOOLONG) => {
                let too_long = String::from_utf8_lossy(proc::TOO_LONG);
                obstacles.push(format!("{what} has {too_long}, by which it cannot be found again"));
                continue;
            }
            name => name.map_err(failed)?.into_bytes(),
        };
        let named = identity(&String::from_utf8_lossy(&proc::seen_from_here(pid, &name)));
        if named.is_none() || named != identity(&held) {
            obstacles.push(format!("{what} ({}) is not there any more, or is another", String::from_utf8_lossy(&name)));
        }
    }
    Ok(())
}

/// A file without a name is carried with what is in it, if nobody else has it.
fn look_at_file(
    pid: Pid,
    area: &Area,
    nameless: &mut BTreeMap<Identity, Obstacle>,
    obstacles: &mut Vec<Obstacle>,
) -> Result<()> {
    let deleted = is_deleted(&area.path) || area.path.starts_with(b"[anon_shmem:");
    let of_pool = area.flags.contains(AreaFlags::HUGETLB) && !pool::is_object(area);
    if area.inode == 0 || !deleted || area.path.starts_with(b"/SYSV") || of_pool {
        return Ok(());
    }
    let file = memory::file_of(area);
    // One that is not mapped any more is none.
    let Ok(link) = proc::link(pid, &file) else { return Ok(()) };
    match objects::look(&format!("{PROC}/{pid}/{file}"), &link) {
        Ok(Look::Named) => {}
        Ok(Look::Refused(why)) => obstacles.push(format!("{} {why}", place(area))),
        Ok(Look::Nameless(file)) => {
            nameless.entry(file).or_insert_with(|| format!("{} is also open or mapped in process", place(area)));
        }
        Err(fault) if fault.errno == libc::EPERM => {
            obstacles.push(format!("{} is read by who has CAP_CHECKPOINT_RESTORE only", place(area)));
        }
        Err(fault) if fault.errno != libc::ENOENT => return Err(fault),
        Err(_) => {}
    }
    Ok(())
}

/// Files by which it looks at itself: an image's are opened before there is its process. One that is being read is waited for, until it is `left`.
fn of_itself(pid: Pid, left: &Left) -> Result<Vec<Obstacle>> {
    let own = format!("/proc/{pid}");
    let is_own = |link: &[u8]| link.strip_prefix(own.as_bytes()).is_some_and(|rest| matches!(rest, [] | [b'/', ..]));
    let mut found = Vec::new();
    for fd in proc::numbers_in(pid, "fd")? {
        // It may be closed by now.
        let Ok(link) = proc::link(pid, &format!("fd/{fd}")) else { continue };
        let is_left = || left.get(&fd).is_some_and(|(known, _)| *known == link);
        let is_directory = || std::fs::metadata(format!("{PROC}/{pid}/fd/{fd}")).is_ok_and(|opened| opened.is_dir());
        if is_own(&link) && (is_left() || is_directory()) {
            let name = String::from_utf8_lossy(&link).into_owned();
            found.push(format!("descriptor {fd} ({name}) tells of the process itself, which an image does not keep"));
        }
    }
    Ok(found)
}

fn place(area: &Area) -> String {
    format!("the mapping at {:#x} ({})", area.start, String::from_utf8_lossy(&area.path))
}

fn look_at_area(area: &Area, ours: bool, obstacles: &mut Vec<Obstacle>) {
    let place = || place(area);
    if area.path.starts_with(b"/") && !proc::is_told(&area.path) {
        let (start, too_long) = (area.start, String::from_utf8_lossy(proc::TOO_LONG));
        obstacles.push(format!("the mapping at {start:#x} is of a file with {too_long}, which cannot be opened again"));
    }
    let refused = [
        (AreaFlags::USERFAULT, "has a userfaultfd, its own or until all has come that was moved lazily"),
        (AreaFlags::SHADOW_STACK, "is a shadow stack"),
        (AreaFlags::SEALED, "is sealed (mseal)"),
    ];
    for (flag, why) in refused {
        if area.flags.contains(flag) && !area.is_kernels() && !(ours && flag == AreaFlags::USERFAULT) {
            obstacles.push(format!("{} {why}", place()));
        }
    }
    if area.flags.contains(AreaFlags::HUGETLB) && !pool::is_private(area) && !pool::is_object(area) {
        let why = "is of huge pages from their pool, and of a file of hugetlbfs, or a private copy of a memory file";
        obstacles.push(format!("{} {why}", place()));
    }
    if area.flags.contains(AreaFlags::DEVICE) && !area.is_kernels() {
        obstacles.push(format!("{} is a device's memory", place()));
    }
    let known_name = area.path.starts_with(b"/") || area.path.starts_with(b"[") || area.path.is_empty();
    if !known_name {
        obstacles.push(format!("{} is of a kind that is not carried", place()));
    }
    if area.path.starts_with(b"/[aio]") {
        obstacles.push(format!("{} is of asynchronous input and output (io_setup(2)), which is not carried", place()));
    }
    if area.path.starts_with(b"/SYSV") {
        obstacles.push(format!("{} is System V shared memory", place()));
    }
}

/// What its threads wait for.
pub(crate) fn waiting(pid: Pid) -> Result<BTreeMap<i32, Waiting>> {
    let mut clocks = Clocks::default();
    let all = proc::numbers_in(pid, "task")?;
    Ok(all.into_iter().filter_map(|tid| Some((tid, since_when(pid, tid, &mut clocks)?))).collect())
}

/// In which call the thread waits, and since when.
fn since_when(pid: Pid, tid: i32, clocks: &mut Clocks) -> Option<Waiting> {
    // First: what it does from then on is told by more of them.
    let switches = switches(pid, Pid(tid)).ok()?;
    let call = std::fs::read_to_string(format!("{PROC}/{pid}/task/{tid}/syscall")).ok()?;
    let call = call.split_whitespace().next()?.parse().ok()?;
    if call == libc::SYS_restart_syscall {
        // Before it stands still: that takes longer. Where it cannot be had, that is told then.
        let _ = kern::restart_block::prepare();
    }
    let since = clocks.asleep_since(pid, Pid(tid))?;
    Some(Waiting { call, since, switches })
}

/// How often a thread has given up its processor to wait for something; a stop by its tracer counts too.
pub(crate) fn switches(pid: Pid, tid: Pid) -> Result<u64> {
    Fields::read(format!("{PROC}/{pid}/task/{tid}/status"))?.number("voluntary_ctxt_switches", 10)
}

/// Of mappings, and of threads or descriptors: with more a process takes longer than others should wait for it.
pub(crate) const MANY: usize = 4096;

impl Survey {
    /// The machine that is to have the process asks for its clocks, now.
    pub fn asked_for_clocks(&self) -> Question {
        Question::comes(self.clock)
    }

    /// Is there so much of it that it takes long to write it, however little memory it has?
    pub fn is_large(&self) -> bool {
        self.areas.len() > MANY || self.waiting.len() > MANY / 8 || self.known.len() > MANY
    }

    /// For who is told what is in the way, and has the time: whomever it traces, also on a machine of many processes.
    ///
    /// # Errors
    /// `Gone`.
    pub fn look_for_all_it_traces(&mut self, pid: Pid) -> Result<()> {
        tracees::look_at_all(pid, &mut self.obstacles)
    }

    /// # Errors
    /// `Refused`, with everything that is in the way.
    pub fn refuse(&self, pid: Pid) -> Result<()> {
        match &self.obstacles[..] {
            [] => Ok(()),
            all => Err(Fault::refused(format!("process {pid} cannot be carried: {}", all.join("; ")))),
        }
    }
}
