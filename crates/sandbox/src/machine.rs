//! One machine, front end or node: the init of its PID namespace. It furnishes its namespaces, runs the daemon, on the
//! front end the command, and reaps whatever is orphaned.

use crate::layout::{Host, BIN_DIR, CONFIG, PREFIX};
use crate::talk::{Talk, Word};
use crate::{places, shell, watch, Clocks};
use kern::init::{self, SignalFd};
use kern::netlink::{self, Netlink};
use kern::ns::{self, Forked, Namespaces};
use kern::proc::Proc;
use kern::signal;
use kern::wait::{self, Change};
use std::ffi::OsString;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use vocab::{Fault, Pid, Result, Sig, SigSet};

/// The network device of every machine.
const DEVICE: &str = "eth0";

/// What a machine is made from.
#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) host: Host,
    pub(crate) nodes: u32,
    pub(crate) clocks: Clocks,
    /// Its nodes are.
    pub(crate) bare: bool,
    pub(crate) talk: Talk,
    pub(crate) cgroup: PathBuf,
    /// A route socket of the cluster's network namespace, and the number of the bridge there.
    pub(crate) bridge: (Netlink, u32),
    pub(crate) log: File,
    /// The daemon's configuration file.
    pub(crate) config: String,
    /// The front end's command; empty: a shell.
    pub(crate) command: Vec<OsString>,
    /// What moves processes at random.
    pub(crate) chaos: Option<Chaos>,
    /// The signals that the caller of the sandbox had blocked, for the command.
    pub(crate) blocked: SigSet,
    /// The terminal for the command, when the caller has one.
    pub(crate) terminal: Option<OwnedFd>,
}

/// So often, and where it says so.
#[derive(Debug)]
pub(crate) struct Chaos {
    pub(crate) every: Duration,
    pub(crate) log: File,
}

/// The init's whole life; its exit status.
pub(crate) fn init(machine: Machine) -> i32 {
    let mut life = match furnish(machine) {
        Ok(life) => life,
        Err((mut talk, fault)) => {
            // When nobody hears it, nobody is left to be told.
            let _ = talk.say(&Word::Failed(fault.to_string()));
            return 1;
        }
    };
    match life.run() {
        Ok(()) => 0,
        Err(fault) => {
            let _ = life.machine.talk.say(&Word::Failed(fault.to_string()));
            1
        }
    }
}

/// A furnished machine, and what runs on it.
struct Life {
    machine: Machine,
    signals: SignalFd,
    daemon: Option<Pid>,
    command: Option<Pid>,
    /// Readable when the daemon is ready, or ended.
    ready: Option<OwnedFd>,
}

fn furnish(mut machine: Machine) -> std::result::Result<Life, (Talk, Fault)> {
    let made = prepare(&machine).and_then(|signals| machine.talk.say(&Word::Made).map(|()| signals));
    match made {
        Ok(signals) => Ok(Life { machine, signals, daemon: None, command: None, ready: None }),
        Err(fault) => Err((machine.talk, fault)),
    }
}

fn prepare(machine: &Machine) -> Result<SignalFd> {
    let name = machine.host.name();
    ns::die_with_parent()?;
    ns::set_name(format!("shoal:{name}"))?;
    ns::new_session()?;
    if machine.host != Host::Front {
        leave_streams()?;
    }
    kern::cgroup::make(&machine.cgroup)?;
    kern::cgroup::enter(&machine.cgroup, Pid::NONE)?;
    ns::set_hostname(&name)?;
    let kind = match (machine.host, machine.bare) {
        (Host::Front, _) => places::Kind::Front,
        (Host::Node(_), false) => places::Kind::Node,
        (Host::Node(_), true) => places::Kind::Bare,
    };
    places::furnish_machine(kind, &machine.config)?;
    connect(machine)?;
    machine.clocks.take(machine.host)?;
    SignalFd::new(&[Sig::CHLD])
}

/// Plugs the machine into the bridge.
fn connect(machine: &Machine) -> Result<()> {
    quiet_network();
    let here = File::open("/proc/self/ns/net").map_err(|e| Fault::io(&e, "open this network namespace"))?;
    let (cluster, bridge) = &machine.bridge;
    let host = machine.host;
    cluster.add_veth(&host.name(), *bridge, DEVICE, host.hardware_address(), here.as_fd())?;
    let own = Netlink::open()?;
    own.set_up(netlink::LOOPBACK, true)?;
    let device = netlink::device_number(DEVICE)?;
    own.add_address(device, machine.host.address(), PREFIX)?;
    own.set_up(device, true)
}

/// Without IPv6 the kernel sends nothing by itself. A kernel that has none has no such file.
pub(crate) fn quiet_network() {
    for which in ["all", "default"] {
        let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{which}/disable_ipv6"), "1");
    }
}

impl Life {
    /// Until the cluster closes the conversation.
    fn run(&mut self) -> Result<()> {
        loop {
            let mut fds = vec![self.machine.talk.as_fd(), self.signals.as_fd()];
            fds.extend(self.ready.as_ref().map(AsFd::as_fd));
            let came = watch::readable(&fds, None)?;
            if came.get(2) == Some(&true) {
                self.daemon_ready()?;
            }
            if came[1] {
                while self.signals.take()?.is_some() {}
                self.reap()?;
            }
            if came[0] {
                let Some(words) = self.machine.talk.listen()? else { return Ok(()) };
                words.into_iter().try_for_each(|word| self.hear(word))?;
            }
        }
    }

    fn hear(&mut self, word: Word) -> Result<()> {
        match word {
            Word::Daemon => self.start_daemon(),
            Word::Command => self.start_command(),
            // One that has ended meanwhile needs no signal.
            Word::Signal(sig) => self.command.map_or(Ok(()), |pid| init::signal_group(pid, sig).or(Ok(()))),
            Word::SignalDaemon(sig) => self.daemon.map_or(Ok(()), |pid| signal_daemon(pid, sig).or(Ok(()))),
            other => Err(Fault::bug(format!("a machine was told {other:?}"))),
        }
    }

    fn daemon_ready(&mut self) -> Result<()> {
        let Some(ready) = self.ready.take() else { return Ok(()) };
        match kern::sys::read(ready.as_fd(), &mut [0u8; 1]) {
            Ok(1) => self.machine.talk.say(&Word::Ready),
            // Closed without a word: the daemon has ended, and its status is on the way.
            _ => Ok(()),
        }
    }

    fn start_daemon(&mut self) -> Result<()> {
        if self.daemon.is_some() {
            return Ok(());
        }
        let (ready, tell) = kern::sys::pipe()?;
        let number = ns::keep_across_exec(&tell)?;
        let output = || self.machine.log.try_clone().map_err(|e| Fault::io(&e, "share the log"));
        let program = Path::new(BIN_DIR).join("shoal");
        let mut command = Command::new(&program);
        command
            .arg(if self.machine.host == Host::Front { "front" } else { "node" })
            .args(["--config", CONFIG, "--ready-fd", &number.to_string()])
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(output()?)
            .stderr(output()?)
            .process_group(0);
        if let Some(boot) = self.machine.clocks.boot(self.machine.host) {
            command.env("SHOAL_BOOT", boot);
        }
        match ns::fork(Namespaces::empty())? {
            Forked::Parent(child) => {
                self.daemon = Some(child.pid);
                self.ready = Some(ready);
                Ok(())
            }
            Forked::Child => ns::exit(become_program(&mut command, || signal::set_mask(SigSet::default()))),
        }
    }

    /// Nobody waits for it: it ends with the machine.
    fn start_chaos(&mut self) -> Result<()> {
        let Some(Chaos { every, log }) = self.machine.chaos.take() else { return Ok(()) };
        let mut command = Command::new(Path::new(BIN_DIR).join("shoal"));
        command.args(["chaos", "--every", &format!("{}ms", every.as_millis())]).current_dir("/").stdin(Stdio::null());
        let errors = log.try_clone().map_err(|e| Fault::io(&e, "share the log"))?;
        command.stdout(log).stderr(errors).process_group(0);
        match ns::fork(Namespaces::empty())? {
            Forked::Parent(_) => Ok(()),
            Forked::Child => ns::exit(become_program(&mut command, || signal::set_mask(SigSet::default()))),
        }
    }

    /// In a session of its own: the caller's session and group have no numbers here.
    fn start_command(&mut self) -> Result<()> {
        self.start_chaos()?;
        let mut command = shell::command(&self.machine.command, self.machine.nodes)?;
        match ns::fork(Namespaces::empty())? {
            Forked::Parent(child) => {
                self.command = Some(child.pid);
                // From here on only the command and what it starts hold the caller's streams.
                self.machine.terminal = None;
                leave_streams()
            }
            Forked::Child => {
                let Machine { terminal, blocked, .. } = &self.machine;
                ns::exit(become_program(&mut command, || {
                    signal::set_mask(*blocked)?;
                    ns::new_session()?;
                    terminal.as_ref().map_or(Ok(()), take)
                }))
            }
        }
    }

    fn reap(&mut self) -> Result<()> {
        // ECHILD, the only error, means that there is no child left.
        while let Ok(Some(waited)) = wait::any() {
            let Change::Ended(exit) = waited.change else { continue };
            let talk = &mut self.machine.talk;
            if Some(waited.pid) == self.command {
                self.command = None;
                talk.say(&Word::Ended(exit.to_status()))?;
            } else if Some(waited.pid) == self.daemon {
                self.daemon = None;
                talk.say(&Word::DaemonEnded(exit.to_status()))?;
            }
        }
        Ok(())
    }
}

/// Makes itself ready and execs; returns only when that failed, with the status a shell has for it.
fn become_program(command: &mut Command, ready: impl FnOnce() -> Result<()>) -> i32 {
    if let Err(fault) = ready() {
        kern::own::complain(fault);
        return 125;
    }
    let error = command.exec();
    kern::own::complain(format!("run {} on the front end: {error}", Path::new(command.get_program()).display()));
    if error.kind() == std::io::ErrorKind::NotFound {
        127
    } else {
        126
    }
}

/// The terminal becomes that of the session and all standard streams that were the caller's terminal.
fn take(terminal: &OwnedFd) -> Result<()> {
    use std::io::IsTerminal;
    init::take_terminal(terminal.as_fd())?;
    let error_is_terminal = std::io::stderr().is_terminal();
    ns::become_stream(terminal, 0)?;
    ns::become_stream(terminal, 1)?;
    if error_is_terminal {
        ns::become_stream(terminal, 2)?;
    }
    Ok(())
}

/// Gives up the caller's standard streams, so that their other ends see when the command has closed them.
pub(crate) fn leave_streams() -> Result<()> {
    let file = File::options().read(true).write(true).open("/dev/null");
    let null = file.map(OwnedFd::from).map_err(|e| Fault::io(&e, "open /dev/null"))?;
    (0..=2).try_for_each(|number| ns::become_stream(&null, number))
}

/// To the daemon `pid`, and what stops it or lets it go on also to what it has forked: a node's has its agent, in a session of its own. A kill is for
/// the daemon alone: what it has forked sees to it that nothing is lost, or ends by itself.
fn signal_daemon(pid: Pid, sig: Sig) -> Result<()> {
    let parts = if sig == Sig::KILL { Vec::new() } else { Proc::open("/proc")?.children(pid).unwrap_or_default() };
    for part in parts {
        // One that has ended meanwhile needs no signal.
        let _ = kern::pidfd::open(part).and_then(|part| kern::pidfd::kill(part.as_fd(), sig));
    }
    init::signal_group(pid, sig)
}
