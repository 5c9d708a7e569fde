//! The init of the whole sandbox: makes the bridge and the machines, starts their daemons in order, then the command.

use crate::layout::{self, Host, KEY, PORT, RUN_DIR, SHARED_DIR};
use crate::machine::{self, Machine};
use crate::talk::{Talk, Word};
use crate::{places, watch, Plan};
use kern::netlink::{self, Netlink};
use kern::ns::{self, Forked, Namespaces};
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use vocab::{Exit, Fault, Pid, Result, SigSet};

/// The bridge in the cluster's network namespace.
const BRIDGE: &str = "shoal";

/// What the cluster is made from.
#[derive(Debug)]
pub(crate) struct Birth {
    pub(crate) plan: Plan,
    pub(crate) caller: Talk,
    /// The sandbox's own cgroup; each machine gets one below it.
    pub(crate) cgroup: PathBuf,
    /// The cluster key as the text of its file.
    pub(crate) key: String,
    pub(crate) terminal: Option<OwnedFd>,
    /// The signals that the caller had blocked when it started.
    pub(crate) blocked: SigSet,
}

/// How far a machine has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// Its init furnishes it.
    Making,
    /// It waits to be told to start its daemon.
    Made,
    /// Its daemon is starting.
    Starting,
    /// Its daemon has said that it is ready.
    Ready,
    /// Its daemon has ended.
    Down,
    /// Its init is gone, and with it everything on it.
    Gone,
}

/// A machine as the cluster sees it.
struct Member {
    host: Host,
    talk: Talk,
    stage: Stage,
}

struct Cluster {
    caller: Talk,
    members: Vec<Member>,
    logs: PathBuf,
    /// Until everything is ready.
    deadline: Option<Instant>,
}

/// How long the machines may take until they are ready: so long, and so much more for each.
const PATIENCE: Duration = Duration::from_secs(20);
const PATIENCE_EACH: Duration = Duration::from_millis(200);

/// The init's whole life; its exit status. Everything in the sandbox ends with it.
pub(crate) fn init(birth: Birth) -> i32 {
    let mut caller = match birth.caller.try_clone() {
        Ok(caller) => caller,
        Err(_) => return 1,
    };
    match make(birth).and_then(|mut cluster| cluster.run()) {
        Ok(()) => 0,
        Err(fault) => {
            // When nobody hears it, the caller is gone and nobody is left to be told.
            let _ = caller.say(&Word::Failed(fault.to_string()));
            1
        }
    }
}

fn make(birth: Birth) -> Result<Cluster> {
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
    let hosts: Vec<Host> = Host::all(birth.plan.nodes).collect();
    let members = hosts.iter().map(|host| add(*host, &birth, bridge, &logs)).collect::<Result<Vec<Member>>>()?;
    machine::leave_streams()?;
    let patience = PATIENCE + PATIENCE_EACH * birth.plan.nodes;
    Ok(Cluster { caller: birth.caller, members, logs, deadline: Some(Instant::now() + patience) })
}

/// A path that stays right when /run is covered and the working directory changes.
fn logs_directory(plan: &Plan) -> Result<PathBuf> {
    match &plan.logs {
        Some(path) => path.canonicalize().map_err(|e| Fault::io(&e, format!("find {}", path.display()))),
        None => Ok(PathBuf::from(SHARED_DIR)),
    }
}

/// Forks the init of one machine.
fn add(host: Host, birth: &Birth, bridge: u32, logs: &Path) -> Result<Member> {
    let log = layout::log_of(logs, host);
    let log = File::create(&log).map_err(|e| Fault::io(&e, format!("make {}", log.display())))?;
    let cgroup = birth.cgroup.join(host.name());
    let config = config(host, &birth.plan, &cgroup);
    let (ours, theirs) = Talk::pair()?;
    let bridge = (Netlink::open()?, bridge);
    let all = Namespaces::MOUNT | Namespaces::PID | Namespaces::NET | Namespaces::UTS | Namespaces::IPC;
    match ns::fork(all)? {
        // Its init is never waited for: it ends only with the sandbox or by force, and then its conversation ends.
        Forked::Parent(_) => Ok(Member { host, talk: ours, stage: Stage::Making }),
        Forked::Child => {
            drop(ours);
            let front = host == Host::Front;
            let terminal = birth.terminal.as_ref().filter(|_| front).map(OwnedFd::try_clone).transpose();
            let Ok(terminal) = terminal else { ns::exit(1) };
            let (nodes, command) = (birth.plan.nodes, birth.plan.command.clone());
            let (talk, blocked) = (theirs, birth.blocked);
            let machine = Machine { host, nodes, talk, cgroup, bridge, log, config, command, blocked, terminal };
            ns::exit(machine::init(machine))
        }
    }
}

/// The configuration file of a machine's daemon.
fn config(host: Host, plan: &Plan, cgroup: &Path) -> String {
    let lost_after = plan.lost_after.unwrap_or(Duration::from_secs(5)).as_secs_f64();
    let front = Host::Front.address();
    let head = format!("key = \"{KEY}\"\nrun_dir = \"{RUN_DIR}\"\n\n");
    match host {
        Host::Front => format!("{head}[front]\nlisten = \"{front}:{PORT}\"\nlost_after = {lost_after:?}\n"),
        Host::Node(number) => format!(
            "{head}[node]\nfront = \"{front}:{PORT}\"\nnumber = {number}\ncgroup = \"{}\"\nlost_grace = {lost_after:?}\n",
            cgroup.display()
        ),
    }
}

impl Cluster {
    /// Until the command has ended, or the caller.
    fn run(&mut self) -> Result<()> {
        loop {
            let fds = self.members.iter().filter(|m| m.stage != Stage::Gone).map(|m| m.talk.as_fd());
            let fds: Vec<BorrowedFd<'_>> = std::iter::once(self.caller.as_fd()).chain(fds).collect();
            let came = watch::readable(&fds, self.deadline)?;
            let indices: Vec<usize> =
                (0..self.members.len()).filter(|&i| self.members[i].stage != Stage::Gone).collect();
            if came[0] {
                let Some(words) = self.caller.listen()? else { return Ok(()) };
                words.iter().try_for_each(|word| self.pass_on(word))?;
            }
            for (index, _) in indices.into_iter().zip(&came[1..]).filter(|(_, came)| **came) {
                if self.hear(index)? {
                    return Ok(());
                }
            }
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

    /// Daemons of the nodes start when the front end's is ready, the command when all are.
    fn go_on(&mut self) -> Result<()> {
        let front_ready = self.members[0].stage == Stage::Ready;
        for (index, member) in self.members.iter_mut().enumerate() {
            if member.stage == Stage::Made && (index == 0 || front_ready) && self.deadline.is_some() {
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
            Some(exit) if early => Err(self.not_ready(index, &format!("its daemon ended ({exit})"))),
            _ => Ok(()),
        }
    }

    /// A node that dies is what the front end is there to notice; without the front end there is no sandbox.
    fn gone(&mut self, index: usize) -> Result<()> {
        self.members[index].stage = Stage::Gone;
        if index == 0 || self.deadline.is_some() {
            return Err(Fault::gone(format!("{}: its first process was killed", self.name(index))));
        }
        Ok(())
    }

    fn too_late(&self) -> Fault {
        let slow = self.members.iter().position(|member| member.stage != Stage::Ready).unwrap_or(0);
        self.not_ready(slow, &format!("it is still {:?} when its time is over", self.members[slow].stage))
    }

    /// With the last line of the daemon's log, which is mostly the reason.
    fn not_ready(&self, index: usize, why: &str) -> Fault {
        let log = std::fs::read_to_string(layout::log_of(&self.logs, self.members[index].host)).unwrap_or_default();
        let last = log.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("its log is empty");
        Fault::gone(last.trim()).doing(why).doing(format!("start {}", self.name(index)))
    }

    fn name(&self, index: usize) -> String {
        self.members[index].host.name()
    }
}
