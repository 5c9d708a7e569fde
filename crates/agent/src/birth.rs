//! How the agent comes to be: init of a new PID namespace that joins the front end, and only then takes numbers.
//!
//! Until the front end has leased numbers, nothing here makes a process or thread: each would take a number that may be another
//! process's of the space (docs/mechanisms.md, "Numbers").

use crate::administer::Administration;
use crate::agent::{Agent, Token};
use crate::asks::Asks;
use crate::config::NodeConfig;
use crate::entries::Entries;
use crate::gates::Gates;
use crate::handles::Handles;
use crate::identity;
use crate::leases::Leases;
use crate::looking::Looker;
use crate::order::Order;
use crate::share::Share;
use crate::showing::Showing;
use crate::starts::Starts;
use crate::strangers::Strangers;
use crate::streams::Streams;
use crate::surroundings;
use crate::uplink::{Own, Uplink};
use crate::usage::Usages;
use crate::views::Views;
use ghost::{Command, Ghosts, Happened, Name};
use kern::clock::monotonic_us;
use kern::epoll::{Interest, Poller};
use kern::init::SignalFd;
use kern::perf::{Records, Stops, PAGES};
use kern::poll::{poll, Ready};
use kern::proc::{self, Proc};
use kern::standin::here::Slots;
use kern::{mount, ns, sched};
use link::beat::NodeLife;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use tracing::{error, info, warn};
use vocab::{Fault, NodeId, Pid, Result, Sig};
use wire::hello::Hello;
use wire::node::{Lease, ToNode, VERSION};

/// The largest PID of Linux, exclusive (PID_MAX_LIMIT).
const PID_MAX: i32 = 4_194_304;

/// Stand-ins that fit into this process's address space; 18 KiB of addresses each.
const SLOTS: u32 = 65_536;

/// The first stand-in must be there after this time.
const PATIENCE_US: u64 = 5_000_000;
/// What it keeps of the memory that it needs for an answer, in bytes.
const KEPT: usize = 1 << 20;

/// What the outer process gives the agent: a pipe to it, and who looks at processes for the main loop, the streams, and others' /proc.
pub(crate) struct Given {
    pub(crate) outer: OwnedFd,
    /// To who serves the view.
    pub(crate) view: Option<OwnedFd>,
    pub(crate) lookers: [Looker; 4],
}

/// The node's cgroup, and its part of the processors.
type Groups<'g> = (&'g Path, &'g Share);

/// Runs the agent in the process that calls; returns its exit code.
pub(crate) fn agent(config: &NodeConfig, groups: Groups, number: Option<NodeId>, given: Given) -> i32 {
    // The outer process kills an agent whose end of the pipe is closed: this one is open until the log has been written.
    let _open = given.outer.try_clone();
    let ran = prepare(config).and_then(|proc| born(config, groups, number, given, proc)).and_then(Agent::run);
    match ran {
        Ok(()) => 0,
        Err(fault) => {
            error!(%fault, "agent");
            1
        }
    }
}

/// Namespaces and what belongs to them.
fn prepare(config: &NodeConfig) -> Result<Proc> {
    ns::die_with_parent()?;
    ns::set_name("shoal:agent")?;
    kern::own::keep_freed(KEPT);
    // What protects the daemon from the OOM killer must not protect the programs, which are born here.
    if let Err(fault) = kern::own::oom_score_zero() {
        warn!(%fault, "programs begin with the oom_score_adj of the daemon");
    }
    // Programs see what the machine mounts and unmounts later; no mount made here, by the daemon or a program, reaches the machine.
    mount::make_all_slaves()?;
    if let Err(fault) = surroundings::show(&config.run_dir) {
        warn!(%fault, "commands of programs here need SHOAL_SOCKET");
    }
    mount::mount("proc", Path::new("/proc"), mount::Flags::NOSUID | mount::Flags::NODEV | mount::Flags::NOEXEC, "")?;
    if config.shows_space {
        procfs::node_proc::prepare(&config.run_dir)?;
    }
    // Once: else the processes made from here show group and session 0 (docs/mechanisms.md, "Family").
    ns::new_session()?;
    sched::set_not_dumpable()?;
    let proc = Proc::open(proc::root())?;
    proc::set_pid_max(&proc, PID_MAX)?;
    Ok(proc)
}

/// What a Welcome has brought.
struct Welcome {
    number: NodeId,
    leases: Vec<Lease>,
    front_top: Pid,
    beat_us: u64,
    life_us: u64,
    /// What the front end has said since, and came with it.
    rest: Vec<ToNode>,
}

/// Dials until the front end welcomes this node.
fn join(uplink: &mut Uplink, number: Option<NodeId>, proc: &Proc, port: u16) -> Result<Welcome> {
    loop {
        let mut come = uplink.step().into_iter();
        if uplink.to_greet() {
            let load = crate::ps::load(proc);
            uplink.greet(Hello { version: VERSION, number, load, channel_port: port, ..Hello::default() });
        }
        while let Some(message) = come.next() {
            match message {
                ToNode::Welcome { number, leases, beat_us, life_us, front_top } => {
                    uplink.joined();
                    return Ok(Welcome { number, leases, front_top, beat_us, life_us, rest: come.collect() });
                }
                ToNode::Refused(fault) => uplink.broke(&fault.doing("the front end refuses this node")),
                other => return Err(Fault::wire(format!("the front end says {other:?} before Welcome"))),
            }
        }
        let left_us = uplink.due_us().map_or(0, |due| due.saturating_sub(monotonic_us()));
        let timeout = i32::try_from(left_us.div_ceil(1000)).unwrap_or(i32::MAX);
        let wanted: Vec<_> = uplink
            .waits_for()
            .map(|(fd, interest)| {
                (
                    fd,
                    Ready {
                        readable: interest.contains(Interest::READ),
                        writable: interest.contains(Interest::WRITE),
                        over: false,
                    },
                )
            })
            .into_iter()
            .collect();
        match poll(&wanted, timeout) {
            Ok(_) | Err(kern::poll::EINTR) => {}
            Err(errno) => return Err(Fault::sys(errno, "wait for the front end")),
        }
    }
}

/// The node's own word of itself.
fn own(config: &NodeConfig) -> Own {
    Own {
        identity: identity::of_node(&config.key, &config.run_dir),
        name: config.name.clone().unwrap_or_else(identity::name_of_host),
        allow: config.users.allow.clone(),
    }
}

fn born(config: &NodeConfig, groups: Groups, number: Option<NodeId>, given: Given, proc: Proc) -> Result<Agent> {
    let Given { outer, view, lookers: [looker, of_streams, of_entries, of_entry] } = given;
    let (poller, children) = (Poller::new()?, SignalFd::new(&[Sig::CHLD])?);
    let (asks, channel_port) = Asks::open(&config.socket(), &poller)?;
    let mut uplink = Uplink::new(config.front.clone(), config.key, own(config));
    let welcome = join(&mut uplink, number, &proc, channel_port)?;
    let directory = File::open(groups.0).map_err(|e| Fault::io(&e, format!("open {}", groups.0.display())))?;
    let records = Records::open(Some(directory.as_fd()), PAGES)?;
    let leases = begin_leases(welcome.leases, records.untold(), &proc)?;
    info!(number = %welcome.number, first = leases.start().map(|pid| pid.0), "joined");
    let place = mount::directory(&config.run_dir.join("ghosts"))?;
    let not_seen = |fault: &Fault| info!(%fault, "stops among the processes of this node are not seen");
    let stops = Stops::open(Some(directory.as_fd()), &place).inspect_err(not_seen).ok();
    let mut ghosts = Ghosts::mount(&place)?;
    let (programs, views) = (programs(&config.run_dir)?, views(config, view, &uplink, welcome.number)?);
    let hold = place.join("hold");
    let (nursery, writer) = first_stand_ins(&mut ghosts, &hold, groups.1)?;
    let order = Arc::new(Order::new(records.unread())?);
    let lost_grace_us = config.lost_grace.as_micros() as u64;
    let mut agent = Agent {
        number: welcome.number,
        hold: hold.to_string_lossy().into_owned(),
        hold_directory: place.to_string_lossy().into_owned(),
        programs,
        outer,
        proc,
        life: NodeLife::new(uplink.hello_us(), welcome.life_us.min(lost_grace_us)),
        beat_us: welcome.beat_us.max(1_000),
        lost_grace_us,
        next_beat_us: monotonic_us(),
        polled_link: None,
        channel_port,
        uplink,
        leases,
        fence: Default::default(),
        scratch: Vec::new(),
        pace: Default::default(),
        bodies: Default::default(),
        events: Default::default(),
        showing: Showing::new(order.clone()),
        checks: Default::default(),
        stopping: Default::default(),
        fresh: Vec::new(),
        leaving: Default::default(),
        volley: Default::default(),
        handles: Handles::new(),
        happened: Vec::new(),
        nursery,
        stands: Default::default(),
        turns: 0,
        idle: Default::default(),
        starts: Starts { strangers: Strangers::of(&config.users), ..Starts::default() },
        told_gone: Default::default(),
        adopting: Default::default(),
        unheard: Default::default(),
        ends: Default::default(),
        moving: Default::default(),
        sending: Default::default(),
        elders: Default::default(),
        waiting: Default::default(),
        usages: Usages::with(writer),
        asks,
        streams: Streams::ordered(order, of_streams)?,
        looker,
        entries: Entries::new(of_entries, of_entry),
        tables: Default::default(),
        administration: Administration::new(config, views),
        view: config.shows_space.then(|| procfs::node_proc::Keeper::new(&config.run_dir)),
        poller,
        children,
        records,
        stops,
        ghosts,
        gates: Gates::new(welcome.front_top)?,
    };
    agent.poll_all()?;
    run_first();
    welcome.rest.into_iter().for_each(|message| agent.heard(message));
    Ok(agent)
}

/// The namespace in which programs see the front end's files, if that is usual, with all that was mounted so far. Before there is anybody who shares this process's directory.
fn views(config: &NodeConfig, line: Option<OwnedFd>, uplink: &Uplink, number: NodeId) -> Result<Views> {
    let usual = config.view.as_ref().filter(|view| view.usual);
    let (Some(view), Some(front)) = (usual, uplink.peer()) else { return Ok(Views::of_node(&config.run_dir, line)) };
    let line = line.ok_or_else(|| Fault::bug("nobody serves the front end's files"))?;
    let namespace = view::node::build(&line, &config.run_dir, (front, number), &view.local)?;
    Views::of_front(&config.run_dir, namespace)
}

/// The one from which all others are made, and the one that tells of times.
fn first_stand_ins(ghosts: &mut Ghosts, hold: &Path, share: &Share) -> Result<(Pid, Pid)> {
    // Nothing that is ours is behind a gate.
    let nursery = ghosts.make_first(hold, Slots::reserve(SLOTS, 64)?, Pid::NONE, Name::new(b"shoal:nursery"))?;
    share.enclose(nursery)?;
    ghosts.command(nursery, Command::Clone { pid: Pid::NONE, sibling: false, name: Name::new(b"shoal:usage") });
    let writer = Pid(done(ghosts, nursery)? as i32);
    Ok((nursery, writer))
}

/// A directory that only root may enter, for a program with capabilities: these count where it is not mounted nosuid, as /run is.
fn programs(run_dir: &Path) -> Result<String> {
    let programs = mount::directory(&run_dir.join("programs"))?;
    mount::mount("tmpfs", &programs, mount::Flags::NODEV, "mode=0700")?;
    Ok(programs.to_string_lossy().into_owned())
}

/// The next fork gets the first number that is leased.
fn begin_leases(ranges: Vec<Lease>, untold: usize, proc: &Proc) -> Result<Leases> {
    let mut leases = Leases::new(untold);
    leases.replace(ranges);
    let first = leases.start().ok_or_else(|| Fault::wire("the front end's Welcome has no lease"))?;
    proc::set_last_pid(proc, Pid(first.0 - 1))?;
    Ok(leases)
}

/// The calling thread runs before ordinary ones, what it forks does not (docs/decisions/daemons-run-first.md).
pub(crate) fn run_first() {
    if let Err(fault) = sched::set_fifo() {
        warn!(%fault, "programs that keep this machine busy can starve the node");
    }
}

impl Agent {
    fn poll_all(&self) -> Result<()> {
        for fd in self.records.fds() {
            self.poller.add(fd, Token::Records.number(), Interest::READ)?;
        }
        for fd in self.stops.iter().flat_map(Stops::fds) {
            self.poller.add(fd, Token::Stops.number(), Interest::READ)?;
        }
        self.poller.add(self.ghosts.fd(), Token::Ghosts.number(), Interest::READ)?;
        self.poller.add(self.showing.order.bell(), Token::Order.number(), Interest::READ)?;
        self.poller.add(self.looker.fd(), Token::Looker.number(), Interest::READ)?;
        self.poll_entries()?;
        self.poll_views()?;
        self.poller.add(self.gates.door().fd(), Token::Door.number(), Interest::READ)?;
        self.poller.add(self.children.as_fd(), Token::Children.number(), Interest::READ)
    }
}

/// Serves until the first stand-in has done what it was told last.
fn done(ghosts: &mut Ghosts, pid: Pid) -> Result<i64> {
    let deadline = monotonic_us() + PATIENCE_US;
    let mut happened = Vec::new();
    loop {
        for one in happened.drain(..) {
            match one {
                Happened::Done { pid: who, outcome } if who == pid => {
                    return match outcome.ret {
                        ret if ret < 0 => {
                            Err(Fault::sys(-ret as i32, format!("first stand-in: {:?}", outcome.command)))
                        }
                        ret => Ok(ret),
                    };
                }
                Happened::Dying { .. } | Happened::Gone { .. } => return Err(Fault::gone("the first stand-in dies")),
                _ => {}
            }
        }
        if monotonic_us() > deadline {
            return Err(Fault::gone("the first stand-in does not answer"));
        }
        if let Err(errno) = poll(&[(ghosts.fd(), Ready::READ)], 100) {
            if errno != kern::poll::EINTR {
                return Err(Fault::sys(errno, "wait for the first stand-in"));
            }
        }
        ghosts.read(16, &mut happened)?;
    }
}
