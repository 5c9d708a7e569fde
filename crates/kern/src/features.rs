//! One probe for each fact about the kernel that shoal rests on. A probe leaves nothing behind.

use crate::fuse::Device;
use crate::mount::{self, Flags};
use crate::netlink::{self, Netlink};
use crate::ns::{self, Forked, Namespaces};
use crate::perf::{Records, Stops};
use crate::subreaper::Subreapers;
use crate::{capability, cgroup, pidfd, sys, timens, unix_socket, wait};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;
use vocab::{Fault, Kind, Pid, Result};

/// What a probe has found.
#[derive(Debug)]
pub struct Finding {
    /// The facility as the manual names it.
    pub name: &'static str,
    /// What shoal does with it.
    pub purpose: &'static str,
    /// What is lost without it; `None`: shoal does not work without it.
    pub without: Option<&'static str>,
    /// A detail in words (may be empty), or why it is not there.
    pub there: Result<String>,
}

/// One line of the table of facts.
struct Fact {
    name: &'static str,
    purpose: &'static str,
    without: Option<&'static str>,
    probe: fn() -> Result<String>,
}

const fn needed(name: &'static str, purpose: &'static str, probe: fn() -> Result<String>) -> Fact {
    Fact { name, purpose, without: None, probe }
}

const fn wished(
    name: &'static str,
    purpose: &'static str,
    without: &'static str,
    probe: fn() -> Result<String>,
) -> Fact {
    Fact { name, purpose, without: Some(without), probe }
}

const FACTS: &[Fact] = &[
    needed("root", "the daemons and the sandbox run as root", root),
    needed("namespaces", "a node keeps each front end's processes in namespaces of their own", namespaces),
    needed("clone3 with set_tid", "a process has the same PID on every machine", chosen_pid),
    needed("ns_last_pid", "a node's forks take their PIDs from its lease", last_pid),
    needed("FUSE", "stand-ins are held by a FUSE file until their process has ended", fuse),
    needed("pidfd", "signals reach the process that was meant, never a successor of its number", process_handles),
    needed("perf task records", "forks, execs and exits on a node are learnt of", task_records),
    needed("seccomp user notification", "a kill of a process that is elsewhere is passed on", notification),
    needed("cgroup version 2", "a node's processes are told apart from the rest, and killed together", groups),
    needed("epoll_pwait2", "the daemons wait with exact deadlines", precise_wait),
    wished(
        "tracepoints of signals",
        "a process of a node that another one there stops is shown as stopped at once",
        "such a process may be shown as running until a signal comes for it from elsewhere",
        signal_tracepoints,
    ),
    wished(
        "BPF and BTF",
        "the orphans of a subreaper on the front end have it as their parent on nodes too",
        "the orphans of such a subreaper have init as their parent on a node",
        subreapers,
    ),
    wished(
        "FUSE_NOTIFY_RESEND",
        "the front end's daemon can be started again under living processes (Linux 6.9)",
        "the processes of the space end when the front end's daemon ends",
        resend,
    ),
    wished(
        "pid_max of a namespace",
        "raising it changes nothing outside (Linux 6.14)",
        "the daemons raise pid_max of the whole machine",
        own_pid_max,
    ),
    wished(
        "virtual Ethernet and bridge",
        "the sandbox joins its machines",
        "no `shoal sandbox`; real machines need neither",
        virtual_network,
    ),
    wished(
        "SCHED_FIFO",
        "forks are seen within microseconds on a busy node",
        "programs that keep a machine busy delay its daemon, and the front end may take the node for lost",
        real_time,
    ),
    wished(
        "cpu controller of cgroups",
        "each space on a machine has its part of the processors",
        "a space with many busy processes leaves little to others on its machine",
        processor_groups,
    ),
    wished(
        "CAP_SYS_RESOURCE",
        "resource limits can be set for processes of other users",
        "a process whose hard limits leave no room for its own checkpoint or move is refused",
        resource_capability,
    ),
    wished("userfaultfd", "moving: memory follows the process on demand", "no `shoal move --lazy`", fault_handling),
    wished(
        "PAGEMAP_SCAN",
        "moving: only changed pages are sent again (Linux 6.7)",
        "a process stands still while all of its memory is sent",
        page_scan,
    ),
    wished(
        "PR_TIMER_CREATE_RESTORE_IDS",
        "moving: timers of timer_create have any number that they had (Linux 6.15)",
        "a process with a timer whose number is 100000 or more is not carried",
        timer_numbers,
    ),
    wished(
        "time namespaces",
        "moving, restoring: clocks that count from the start of a machine go on (Linux 5.6)",
        "such clocks jump ahead for a process that is carried, or it is refused where they would go back",
        own_clocks,
    ),
    wished(
        "unix_diag",
        "moving: pairs of unix sockets (modprobe unix_diag?)",
        "a process with unix sockets other than its standard streams is not carried",
        socket_diagnosis,
    ),
];

/// Probes everything. The calling process must have one thread.
pub fn probe_all() -> Vec<Finding> {
    FACTS
        .iter()
        .map(|fact| Finding { name: fact.name, purpose: fact.purpose, without: fact.without, there: (fact.probe)() })
        .collect()
}

/// Runs a probe in a child with new namespaces, as what it does there ends with the child.
fn in_child(new: Namespaces, probe: impl FnOnce() -> Result<String>) -> Result<String> {
    let (from, to) = sys::pipe()?;
    match ns::fork(new)? {
        Forked::Child => {
            let (mark, text) = match probe() {
                Ok(detail) => ('+', detail),
                Err(fault) => ('-', fault.to_string()),
            };
            // Nobody is left to be told when it cannot be written.
            let _ = File::from(to).write_all(format!("{mark}{text}").as_bytes());
            ns::exit(0)
        }
        Forked::Parent(child) => {
            drop(to);
            let mut text = String::new();
            let read = File::from(from).read_to_string(&mut text);
            let _ = wait::ended(child.pid);
            read.map_err(|e| Fault::io(&e, "hear from a probe"))?;
            match text.split_at_checked(1) {
                Some(("+", detail)) => Ok(detail.into()),
                Some((_, fault)) => Err(Fault::new(Kind::Unsupported, fault)),
                None => Err(Fault::bug("a probe ended without a word")),
            }
        }
    }
}

fn root() -> Result<String> {
    match ns::effective_uid() {
        0 => Ok(String::new()),
        uid => Err(Fault::refused(format!("the user is number {uid}; some of what follows may look missing for that"))),
    }
}

/// A PID namespace with a /proc of its own, in which the next probes work.
fn in_pid_namespace(probe: impl FnOnce() -> Result<String>) -> Result<String> {
    in_child(Namespaces::PID | Namespaces::MOUNT, || {
        mount::make_all_private()?;
        mount::mount("proc", Path::new("/proc"), Flags::empty(), "")?;
        probe()
    })
}

fn namespaces() -> Result<String> {
    let all = Namespaces::MOUNT | Namespaces::PID | Namespaces::NET | Namespaces::UTS | Namespaces::IPC;
    in_child(all, || ns::set_hostname("probe").map(|()| String::new()))
}

fn own_clocks() -> Result<String> {
    in_child(Namespaces::empty(), || timens::enter_new(timens::own_offsets()?).map(|()| String::new()))
}

/// `struct clone_args` of clone3(2) with the fields for chosen PIDs (80 bytes).
#[repr(C)]
#[derive(Default)]
struct CloneArgs {
    head: [u64; 4],
    exit_signal: u64,
    stack_and_tls: [u64; 3],
    set_tid: u64,
    set_tid_size: u64,
}

fn chosen_pid() -> Result<String> {
    /// Free in a fresh namespace and above the default pid_max of small machines' cursors.
    const WANTED: i32 = 20_000;
    in_pid_namespace(|| {
        let wanted = WANTED;
        let args = CloneArgs {
            exit_signal: libc::SIGCHLD as u64,
            set_tid: &raw const wanted as u64,
            set_tid_size: 1,
            ..CloneArgs::default()
        };
        // SAFETY: a fork without CLONE_VM; `args` has the size that is passed and points to one live pid_t.
        match unsafe { libc::syscall(libc::SYS_clone3, &args, size_of::<CloneArgs>()) } {
            0 => ns::exit(0),
            pid => sys::checked(pid, || format!("clone a process with PID {WANTED}")).map(|_| String::new()),
        }
    })
}

fn last_pid() -> Result<String> {
    in_pid_namespace(|| put("/proc/sys/kernel/ns_last_pid", "10000").map(|()| String::new()))
}

fn own_pid_max() -> Result<String> {
    const FILE: &str = "/proc/sys/kernel/pid_max";
    let outside = read(FILE)?;
    let another = if outside == "4194304" { "4194303" } else { "4194304" };
    in_pid_namespace(|| put(FILE, another).map(|()| String::new()))?;
    if read(FILE)? == outside {
        return Ok(String::new());
    }
    put(FILE, &outside)?;
    Err(Fault::new(Kind::Unsupported, "this kernel has one for all namespaces"))
}

fn processor_groups() -> Result<String> {
    let own = cgroup::own_of("cpu")?;
    if own.join("cpu.shares").exists() {
        return Ok("version 1".into());
    }
    let controllers = read(&cgroup::find_v2()?.join("cgroup.controllers").to_string_lossy())?;
    match controllers.split(' ').any(|word| word == "cpu") {
        true => Ok("version 2".into()),
        false => Err(Fault::new(Kind::Unsupported, "no controller of that name in the version 2 tree")),
    }
}

fn fuse() -> Result<String> {
    let device = File::options().read(true).write(true).open("/dev/fuse");
    device.map(|_| String::new()).map_err(|e| Fault::io(&e, "open /dev/fuse (modprobe fuse?)"))
}

fn resend() -> Result<String> {
    in_child(Namespaces::MOUNT, || {
        mount::make_all_private()?;
        Device::mount(&std::env::temp_dir())?.resend().map(|()| String::new())
    })
}

fn process_handles() -> Result<String> {
    let doing = |what: &'static str| move |errno| Fault::sys(errno, what);
    let own = pidfd::open(Pid(std::process::id() as i32)).map_err(doing("pidfd_open"))?;
    let (read, _write) = sys::pipe()?;
    pidfd::getfd(own.as_fd(), read.as_raw_fd()).map(|_| String::new()).map_err(doing("pidfd_getfd"))
}

/// In a group of its own: the root of the tree has the perf_event controller also where groups below it have not.
fn task_records() -> Result<String> {
    in_probe(|group| {
        let directory = File::open(group).map_err(|e| Fault::io(&e, format!("open {}", group.display())))?;
        Records::open(Some(directory.as_fd()), 1).map(|_| String::new())
    })
}

fn signal_tracepoints() -> Result<String> {
    in_probe(|group| {
        let directory = File::open(group).map_err(|e| Fault::io(&e, format!("open {}", group.display())))?;
        in_child(Namespaces::MOUNT, || {
            mount::make_all_private()?;
            Stops::open(Some(directory.as_fd()), &std::env::temp_dir()).map(|_| String::new())
        })
    })
}

fn subreapers() -> Result<String> {
    Subreapers::open().map(|_| String::new())
}

fn notification() -> Result<String> {
    /// seccomp(2): ask whether an action is known.
    const GET_ACTION_AVAIL: libc::c_ulong = 2;
    const RET_USER_NOTIF: u32 = 0x7fc0_0000;
    let action = RET_USER_NOTIF;
    // SAFETY: the operation reads one u32.
    let ret = unsafe { libc::syscall(libc::SYS_seccomp, GET_ACTION_AVAIL, 0, &action) };
    sys::checked(ret, || "ask seccomp for user notification".into()).map(|_| String::new())
}

fn groups() -> Result<String> {
    in_probe(cgroup::kill)?;
    cgroup::find_v2().map(|tree| tree.display().to_string())
}

/// Makes an empty group for `try_it`, and removes it.
fn in_probe<T>(try_it: impl FnOnce(&Path) -> Result<T>) -> Result<T> {
    let probe = cgroup::find_v2()?.join(format!("shoal-probe.{}", std::process::id()));
    cgroup::make(&probe)?;
    let tried = try_it(&probe);
    cgroup::remove(&probe)?;
    tried
}

fn precise_wait() -> Result<String> {
    let poller = crate::epoll::Poller::new()?;
    poller.wait(&mut Vec::new(), Some(1)).map(|()| String::new())
}

fn virtual_network() -> Result<String> {
    in_child(Namespaces::NET, || {
        let here = File::open("/proc/self/ns/net").map_err(|e| Fault::io(&e, "open the network namespace"))?;
        let network = Netlink::open()?;
        network.add_bridge("probe")?;
        network.add_veth("probe0", netlink::device_number("probe")?, "probe1", [2, 0, 0, 0, 0, 1], here.as_fd())?;
        Ok(String::new())
    })
}

fn real_time() -> Result<String> {
    in_child(Namespaces::empty(), || {
        let priority = libc::sched_param { sched_priority: 1 };
        // SAFETY: reads one live sched_param.
        let ret = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &priority) };
        sys::checked(ret.into(), || "run with real-time priority".into()).map(|_| String::new())
    })
}

fn resource_capability() -> Result<String> {
    let status = read("/proc/self/status")?;
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    match effective.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()) {
        Some(set) if capability::has(set, capability::SYS_RESOURCE) => Ok(String::new()),
        _ => Err(Fault::refused("this process does not have it")),
    }
}

fn fault_handling() -> Result<String> {
    // SAFETY: takes a number, returns a new descriptor.
    let fd = unsafe { libc::syscall(libc::SYS_userfaultfd, libc::O_CLOEXEC) };
    sys::own(fd, || "userfaultfd".into()).map(|_| String::new())
}

fn page_scan() -> Result<String> {
    /// _IOWR('f', 16, struct pm_scan_arg), whose 12 words begin with their size (linux/fs.h).
    const PAGEMAP_SCAN: libc::c_ulong = 0xc060_6610;
    let pagemap = File::open("/proc/self/pagemap").map_err(|e| Fault::io(&e, "open /proc/self/pagemap"))?;
    let mut argument = [0u64; 12];
    argument[0] = size_of_val(&argument) as u64;
    // SAFETY: the ioctl reads and writes the 96 bytes that the first of them says; the range it scans is empty.
    let ret = unsafe { libc::ioctl(pagemap.as_raw_fd(), PAGEMAP_SCAN, argument.as_mut_ptr()) };
    sys::checked(ret.into(), || "scan a page map".into()).map(|_| String::new())
}

fn timer_numbers() -> Result<String> {
    match crate::clock::timers_take_numbers() {
        true => Ok(String::new()),
        false => Err(Fault::new(Kind::Unsupported, "this kernel counts them; the first 100000 can be had")),
    }
}

fn socket_diagnosis() -> Result<String> {
    match unix_socket::are_told()? {
        true => Ok(String::new()),
        false => Err(Fault::new(Kind::Unsupported, "this kernel tells nothing of unix sockets")),
    }
}

fn read(path: &str) -> Result<String> {
    fs::read_to_string(path).map(|text| text.trim().to_string()).map_err(|e| Fault::io(&e, format!("read {path}")))
}

fn put(path: &str, text: &str) -> Result<()> {
    fs::write(path, text).map_err(|e| Fault::io(&e, format!("write {text} to {path}")))
}
