//! The init of the whole sandbox: makes the bridge and the machines, starts their daemons in order, then the command.

use crate::control::{Action, Control, Stage};
use crate::layout::{self, Host, KEY, NODE_FILES, PORT, RUN_DIR, SHARED_DIR};
use crate::machine::{self, Chaos, Machine};
use crate::talk::{Talk, Word};
use crate::{places, watch, Plan};
use kern::netlink::{self, Netlink};
use kern::ns::{self, Child, Forked, Namespaces};
use kern::{pidfd, wait};
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use vocab::{Exit, Fault, Pid, Result, Sig, SigSet};

/// The bridge in the cluster's network namespace.
const BRIDGE: &str = "shoal";

/// What the cluster is made from.
#[derive(Debug)]
pub(crate) struct Birth {
    pub(crate) plan: Plan,
    /// The sandbox's own cgroup; each machine gets one below it.
    pub(crate) cgroup: PathBuf,
    /// The cluster key as the text of its file.
    pub(crate) key: String,
    pub(crate) terminal: Option<OwnedFd>,
    /// The signals that the caller had blocked when it started.
    pub(crate) blocked: SigSet,
}

/// A machine as the cluster sees it.
struct Member {
    host: Host,
    init: Child,
    talk: Talk,
    stage: Stage,
}

struct Cluster {
    birth: Birth,
    caller: Talk,
    members: Vec<Member>,
    logs: PathBuf,
    network: Netlink,
    /// The number of the bridge in this network namespace.
    bridge: u32,
    breakage: Control,
    /// Until everything is ready for the first time.
    deadline: Option<Instant>,
}

/// How long the machines may take until they are ready: so long, and so much more for each.
const PATIENCE: Duration = Duration::from_secs(20);
const PATIENCE_EACH: Duration = Duration::from_millis(200);

/// The init's whole life; its exit status. Everything in the sandbox ends with it.
pub(crate) fn init(birth: Birth, mut caller: Talk) -> i32 {
    let copy = match caller.try_clone() {
        Ok(copy) => copy,
        Err(_) => return 1,
    };
    match Cluster::make(birth, copy).and_then(|mut cluster| cluster.run()) {
        Ok(()) => 0,
        Err(fault) => {
            // When nobody hears it, the caller is gone and nobody is left to be told.
            let _ = caller.say(&Word::Failed(fault.to_string()));
            1
        }
    }
}

/// A path that stays right when /run is covered and the working directory changes.
fn logs_directory(plan: &Plan) -> Result<PathBuf> {
    match &plan.logs {
        Some(path) => kern::mount::directory(path),
        None => Ok(PathBuf::from(SHARED_DIR)),
    }
}

/// Settings for this machine: lines for all nodes, or, of lines that begin with the number of a node, or `front`, and a colon, those of this one.
fn settings_of(settings: &str, machine: &str) -> String {
    let of = |line: &str| match line.split_once(':') {
        Some((node, rest)) if node == "front" || node.parse::<u32>().is_ok() => {
            (node == machine).then(|| rest.to_owned())
        }
        _ => (machine != "front").then(|| line.to_owned()),
    };
    settings.lines().filter_map(of).map(|line| line + "\n").collect()
}

/// The configuration file of a machine's daemon.
fn config(host: Host, plan: &Plan, cgroup: &Path) -> String {
    let lost_after = plan.lost_after.unwrap_or(Duration::from_secs(5)).as_secs_f64();
    let front = Host::Front.address();
    let head =
        format!("key = \"{KEY}\"\nrun_dir = \"{RUN_DIR}\"\nmon_listen = \"0.0.0.0\"\nbpfs = \"{NODE_FILES}\"\n\n");
    match host {
        Host::Front => format!(
            "{head}[front]\nlisten = \"{front}:{PORT}\"\nlost_after = {lost_after:?}\nstate_dir = \"{RUN_DIR}/state\"\n{}",
            settings_of(&plan.settings, "front")
        ),
        Host::Node(number) => format!(
            "{head}[node]\nfront = \"{front}:{PORT}\"\nnumber = {number}\ncgroup = \"{}\"\nlost_grace = {lost_after:?}\n\
             store = \"{RUN_DIR}/store\"\nreboot = \"\"\nhalt = \"\"\npower_off = \"\"\n{}{}",
            cgroup.display(),
            if plan.bare { "view = \"front\"\n" } else { "" },
            settings_of(&plan.settings, &number.to_string())
        ),
    }
}

impl Cluster {
    fn make(birth: Birth, caller: Talk) -> Result<Cluster> {
        ns::die_with_parent()?;
        ns::set_name("shoal:sandbox")?;
        ns::new_session()?;
        let own = birth.cgroup.join("cluster");
        kern::cgroup::make(&own)?;
        kern::cgroup::enter(&own, Pid::NONE)?;
        ns::set_hostname("shoal-sandbox")?;
        let logs = logs_directory(&birth.plan)?;
        places::furnish_cluster(&birth.key, &layout::hosts(birth.plan.nodes))?;
        machine::quiet_network();
        let network = Netlink::open()?;
        network.add_bridge(BRIDGE)?;
        let bridge = netlink::device_number(BRIDGE)?;
        let breakage = Control::listen()?;
        let deadline = Some(Instant::now() + PATIENCE + PATIENCE_EACH * birth.plan.nodes);
        let members = Vec::new();
        let mut cluster = Cluster { birth, caller, members, logs, network, bridge, breakage, deadline };
        for host in Host::all(cluster.birth.plan.nodes) {
            let member = cluster.boot(host)?;
            cluster.members.push(member);
        }
        cluster.birth.terminal = None;
        machine::leave_streams()?;
        Ok(cluster)
    }

    /// Forks the init of one machine.
    fn boot(&self, host: Host) -> Result<Member> {
        let birth = &self.birth;
        let log = layout::log_of(&self.logs, host);
        let log = File::options().create(true).append(true).open(&log);
        let log = log.map_err(|e| Fault::io(&e, format!("make the log of {}", host.name())))?;
        let chaos = birth.plan.chaos.filter(|_| host == Host::Front).map(|every| self.chaos(every)).transpose()?;
        let cgroup = birth.cgroup.join(host.name());
        let config = config(host, &birth.plan, &cgroup);
        let (ours, theirs) = Talk::pair()?;
        let bridge = (Netlink::open()?, self.bridge);
        let all = Namespaces::MOUNT | Namespaces::PID | Namespaces::NET | Namespaces::UTS | Namespaces::IPC;
        match ns::fork(all)? {
            Forked::Parent(init) => Ok(Member { host, init, talk: ours, stage: Stage::Making }),
            Forked::Child => {
                drop(ours);
                let front = host == Host::Front;
                let terminal = birth.terminal.as_ref().filter(|_| front).map(OwnedFd::try_clone).transpose();
                let Ok(terminal) = terminal else { ns::exit(1) };
                let (nodes, command) = (birth.plan.nodes, birth.plan.command.clone());
                let (talk, blocked) = (theirs, birth.blocked);
                let (clocks, bare) = (birth.plan.clocks, birth.plan.bare);
                let machine = Machine {
                    host,
                    nodes,
                    clocks,
                    bare,
                    talk,
                    cgroup,
                    bridge,
                    log,
                    config,
                    command,
                    chaos,
                    blocked,
                    terminal,
                };
                ns::exit(machine::init(machine))
            }
        }
    }

    fn chaos(&self, every: Duration) -> Result<Chaos> {
        let path = layout::chaos_log(&self.logs);
        let log = File::options().create(true).append(true).open(&path);
        Ok(Chaos { every, log: log.map_err(|e| Fault::io(&e, format!("make {}", path.display())))? })
    }

    /// Until the command has ended, or the caller.
    fn run(&mut self) -> Result<()> {
        loop {
            let live: Vec<usize> = (0..self.members.len()).filter(|&i| self.members[i].stage != Stage::Gone).collect();
            let mut fds: Vec<BorrowedFd<'_>> = vec![self.caller.as_fd(), self.breakage.as_fd()];
            fds.extend(live.iter().map(|&index| self.members[index].talk.as_fd()));
            let came = watch::readable(&fds, self.deadline)?;
            if came[0] {
                let Some(words) = self.caller.listen()? else { return Ok(()) };
                words.iter().try_for_each(|word| self.pass_on(word))?;
            }
            for (index, _) in live.into_iter().zip(&came[2..]).filter(|(_, came)| **came) {
                if self.hear(index)? {
                    return Ok(());
                }
            }
            if came[1] {
                self.break_or_mend();
            }
            let stage = |host| self.members.iter().find(|m| m.host == host).map_or(Stage::Gone, |m| m.stage);
            self.breakage.answer(stage, |host| not_ready(&self.logs, host, "its daemon has ended"));
            if self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Err(self.too_late());
            }
        }
    }

    /// What the caller says is for the command.
    fn pass_on(&mut self, word: &Word) -> Result<()> {
        // The front end may be about to end: its own end is then what counts.
        self.members[0].talk.say(word).or(Ok(()))
    }

    /// Words of one machine; `true` when the command has ended and the caller knows.
    fn hear(&mut self, index: usize) -> Result<bool> {
        let Some(words) = self.members[index].talk.listen()? else { return self.gone(index).map(|()| false) };
        for word in words {
            match word {
                Word::Made => self.members[index].stage = Stage::Made,
                Word::Ready => self.members[index].stage = Stage::Ready,
                Word::DaemonEnded(status) => self.daemon_ended(index, status)?,
                Word::Failed(why) => return Err(Fault::new(vocab::Kind::Sys, why).doing(self.name(index))),
                Word::Ended(_) => return self.caller.say(&word).map(|()| true),
                other => return Err(Fault::bug(format!("{} said {other:?}", self.name(index)))),
            }
        }
        self.go_on().map(|()| false)
    }

    /// Daemons of the nodes start when the front end's is ready, the command when all are. Later ones start at once.
    fn go_on(&mut self) -> Result<()> {
        let front_ready = self.members[0].stage == Stage::Ready || self.deadline.is_none();
        for (index, member) in self.members.iter_mut().enumerate() {
            if member.stage == Stage::Made && (index == 0 || front_ready) {
                member.stage = Stage::Starting;
                member.talk.say(&Word::Daemon)?;
            }
        }
        if self.deadline.is_some() && self.members.iter().all(|member| member.stage == Stage::Ready) {
            self.deadline = None;
            self.caller.say(&Word::Ready)?;
            self.members[0].talk.say(&Word::Command)?;
        }
        Ok(())
    }

    fn daemon_ended(&mut self, index: usize, status: i32) -> Result<()> {
        let early = self.deadline.is_some();
        self.members[index].stage = Stage::Down;
        match Exit::from_status(status) {
            Some(exit) if early => {
                Err(not_ready(&self.logs, self.members[index].host, &format!("its daemon ended ({exit})")))
            }
            _ => Ok(()),
        }
    }

    /// A node that dies is what the front end is there to notice; without the front end there is no sandbox.
    fn gone(&mut self, index: usize) -> Result<()> {
        self.members[index].stage = Stage::Gone;
        if index == 0 || self.deadline.is_some() {
            return Err(Fault::gone(format!("{}: its first process was killed", self.name(index))));
        }
        // Its conversation ended before its namespace did; so that it can be made again, wait for the rest.
        let _ = wait::ended(self.members[index].init.pid);
        if let Ok(cable) = netlink::device_number(&self.name(index)) {
            // The kernel removes it too, but later.
            let _ = self.network.delete(cable);
        }
        Ok(())
    }

    /// Takes one request to break or mend something; its answer is given when that has come about.
    fn break_or_mend(&mut self) {
        let Some((request, order)) = self.breakage.take() else { return };
        let done = match self.members.iter().position(|member| member.host == order.host) {
            Some(index) => self.act(index, order.action),
            None => Err(Fault::refused(format!("there is no {}", order.host.name()))),
        };
        self.breakage.started(request, order, done);
    }

    fn act(&mut self, index: usize, action: Action) -> Result<()> {
        let member = &mut self.members[index];
        let gone = member.stage == Stage::Gone;
        match action {
            Action::Boot if !gone => Err(Fault::refused(format!("{} is there", member.host.name()))),
            Action::Boot => {
                self.members[index] = self.boot(self.members[index].host)?;
                Ok(())
            }
            _ if gone => Err(Fault::gone(format!("{} is gone", member.host.name()))),
            Action::Kill => {
                pidfd::kill(member.init.pidfd.as_fd(), Sig::KILL).map_err(|e| Fault::sys(e, "kill its init"))
            }
            Action::StartDaemon if member.stage == Stage::Ready => {
                Err(Fault::refused(format!("{}'s daemon runs", member.host.name())))
            }
            Action::StartDaemon => {
                member.stage = Stage::Starting;
                member.talk.say(&Word::Daemon)
            }
            Action::SignalDaemon(sig) => member.talk.say(&Word::SignalDaemon(sig)),
            Action::Link(up) => self.network.set_up(netlink::device_number(&self.name(index))?, up),
            Action::Cable(plugged) => {
                let bridge = if plugged { self.bridge } else { 0 };
                self.network.set_bridge(netlink::device_number(&self.name(index))?, bridge)
            }
        }
    }

    fn too_late(&self) -> Fault {
        let slow = self.members.iter().position(|member| member.stage != Stage::Ready).unwrap_or(0);
        let Member { host, stage, .. } = &self.members[slow];
        not_ready(&self.logs, *host, &format!("it is still {stage:?} when its time is over"))
    }

    fn name(&self, index: usize) -> String {
        self.members[index].host.name()
    }
}

/// With the last line of the daemon's log, which is mostly the reason.
fn not_ready(logs: &Path, host: Host, why: &str) -> Fault {
    let log = std::fs::read_to_string(layout::log_of(logs, host)).unwrap_or_default();
    let last = log.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("its log is empty");
    Fault::gone(last.trim()).doing(why).doing(format!("start {}", host.name()))
}
