//! A front end of one node, as far as a test of the node needs one.

use kern::clock::monotonic_us;
use kern::poll::{poll, Ready};
use link::preamble::{Greeting, Preamble};
use link::Secure;
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Command};
use vocab::{Creds, Ids, NodeId, Pid};
use wire::event::{BodyEvent, Person};
use wire::hello::Hello;
use wire::node::{ChannelTo, Kin, Lease, ToFront, ToNode};
use wire::run::Program;

pub(crate) const KEY: [u8; 32] = [7; 32];
const PATIENCE_US: u64 = 10_000_000;

/// Numbers in one lease: few, so that a scene that uses one up does so in time on a busy machine too.
pub(crate) const LEASE: i32 = 1_024;
const BEAT_US: u64 = 100_000;

/// The front end, and the node daemon that it made.
pub(crate) struct Front {
    pub(crate) node: Child,
    pub(crate) dir: std::path::PathBuf,
    listener: OwnedFd,
    link: Option<Secure>,
    /// Said by the node and not yet asked for by the test; batches of events are taken apart.
    pub(crate) told: Vec<BodyEvent>,
    pub(crate) said: Vec<ToFront>,
    /// Answer beats?
    pub(crate) beating: bool,
    pub(crate) life_us: u64,
    pub(crate) hello: Option<Hello>,
    leased: i32,
}

impl Front {
    /// Starts a node and welcomes it.
    pub(crate) fn new(name: &str) -> Front {
        Front::saying(name, &[])
    }

    /// The same, and says more in the same breath.
    pub(crate) fn saying(name: &str, more: &[ToNode]) -> Front {
        let listener = kern::sock::tcp_listen(([127, 0, 0, 1], 0).into()).expect("a port");
        let port = kern::sock::local_address(listener.as_fd()).expect("bound").port();
        let dir = std::env::temp_dir().join(format!("shoal-node-{}-{name}", std::process::id()));
        let me = std::env::current_exe().expect("this program");
        let node = Command::new(me).arg("node").arg(port.to_string()).arg(&dir).spawn().expect("the node");
        let mut front = Front {
            node,
            dir,
            listener,
            link: None,
            told: Vec::new(),
            said: Vec::new(),
            beating: true,
            life_us: 5_000_000,
            hello: None,
            leased: 0,
        };
        front.welcome_saying(more);
        front
    }

    /// Waits for a connection and its Hello, and welcomes it.
    pub(crate) fn welcome(&mut self) {
        self.welcome_saying(&[]);
    }

    fn welcome_saying(&mut self, more: &[ToNode]) {
        self.hello = None;
        let deadline = monotonic_us() + PATIENCE_US;
        // A connection that nobody speaks on any more: of an agent that has been killed since.
        while self.hello.is_none() {
            self.take(deadline);
            while self.link.is_some() && self.hello.is_none() {
                assert!(monotonic_us() < deadline, "the node does not say Hello");
                self.serve(100);
            }
        }
        // A node that has leases keeps them; a fresh one gets new ones.
        let leases = match &self.hello {
            Some(hello) if !hello.leases.is_empty() => hello.leases.clone(),
            _ => vec![self.lease()],
        };
        let welcome = ToNode::Welcome {
            number: NodeId(0),
            leases,
            beat_us: BEAT_US,
            life_us: self.life_us,
            front_top: Pid(1_048_576),
        };
        let link = self.link.as_mut().expect("a link");
        for message in std::iter::once(&welcome).chain(more) {
            link.send(message).expect("sent");
        }
        link.flush().expect("flushed");
    }

    /// Waits for a connection.
    fn take(&mut self, deadline: u64) {
        self.link = None;
        let fd = loop {
            assert!(monotonic_us() < deadline, "the node does not dial");
            wait(self.listener.as_fd(), 100);
            if let Some(fd) = kern::sock::accept(self.listener.as_fd()).expect("accept") {
                break fd;
            }
        };
        let mut greeting = Greeting::new(fd, deadline);
        loop {
            match greeting.read(monotonic_us()) {
                Ok(Some(Preamble::Control | Preamble::View | Preamble::Join(_))) => break,
                Ok(_) => wait(greeting.fd(), 100),
                Err(_) => return,
            };
        }
        self.link = Some(Secure::control_taker(greeting.into_fd(), &KEY).expect("noise"));
    }

    pub(crate) fn lease(&mut self) -> Lease {
        let first = 2_000_000 + self.leased * LEASE;
        self.leased += 1;
        Lease { first: Pid(first), last: Pid(first + LEASE - 1) }
    }

    pub(crate) fn send(&mut self, message: &ToNode) {
        let link = self.link.as_mut().expect("a link");
        link.send(message).expect("sent");
        link.flush().expect("flushed");
    }

    /// Breaks the link.
    pub(crate) fn cut(&mut self) {
        self.link = None;
    }

    /// Takes what comes within `ms`.
    pub(crate) fn serve(&mut self, ms: i32) {
        let Some(link) = &mut self.link else { return };
        wait(link.fd(), ms);
        let mut come = Vec::new();
        if link.receive().is_err() {
            self.link = None;
            return;
        }
        while let Some(message) = link.next::<ToFront>().expect("a message") {
            come.push(message);
        }
        link.flush().expect("flushed");
        for message in come {
            match message {
                ToFront::Hello { .. } => {
                    self.hello = message.hello();
                    assert!(self.hello.as_ref().is_some_and(|hello| !hello.more), "a node with so little to say");
                }
                ToFront::Beat { sent_us, .. } if self.beating => self.send(&ToNode::Beat { sent_us }),
                ToFront::Beat { .. } => {}
                ToFront::Events { batch, events } => {
                    self.told.extend(events);
                    self.send(&ToNode::EventsDone { batch });
                    self.send(&ToNode::EventsShown { batch });
                }
                ToFront::LeaseWanted => {
                    let lease = self.lease();
                    self.send(&ToNode::Lease(lease));
                    self.said.push(ToFront::LeaseWanted);
                }
                other => self.said.push(other),
            }
        }
    }

    /// Waits until the node tells of an event that fits; those before it are gone then.
    pub(crate) fn event(&mut self, what: &str, fits: impl Fn(&BodyEvent) -> bool) -> BodyEvent {
        let deadline = monotonic_us() + PATIENCE_US;
        loop {
            if let Some(at) = self.told.iter().position(&fits) {
                return self.told.remove(at);
            }
            assert!(monotonic_us() < deadline, "no {what}; told: {:?}; said: {:?}", self.told, self.said);
            self.serve(50);
        }
    }

    /// Waits until the node says something that fits.
    pub(crate) fn hear<T>(&mut self, what: &str, fits: impl Fn(&ToFront) -> Option<T>) -> T {
        let deadline = monotonic_us() + PATIENCE_US;
        loop {
            if let Some((at, found)) = self.said.iter().enumerate().find_map(|(at, said)| Some((at, fits(said)?))) {
                self.said.remove(at);
                return found;
            }
            assert!(monotonic_us() < deadline, "no {what}; told: {:?}; said: {:?}", self.told, self.said);
            self.serve(50);
        }
    }

    /// Starts `sh -c script` as job `pid` of shell 5000, and waits until it runs.
    pub(crate) fn shell(&mut self, pid: i32, script: &str) {
        self.start(pid, &["sh", "-c", script]);
        self.event("Started", |e| *e == BodyEvent::Started { pid: Pid(pid) });
    }

    pub(crate) fn start(&mut self, pid: i32, argv: &[&str]) {
        let shell = person(5000, 1, 5000, 5000, b"bash");
        self.start_as(person(pid, 5000, pid, 5000, b"shoal"), argv, &[shell]);
    }

    pub(crate) fn start_as(&mut self, person: Person, argv: &[&str], kin: &[Person]) {
        let text = |text: &str| text.as_bytes().to_vec().into();
        let program = Program {
            file: argv[0].as_bytes().to_vec(),
            argv: argv.iter().map(|word| text(word)).collect(),
            env: vec![text("PATH=/usr/bin:/bin"), text("LC_ALL=C")],
            cwd: b"/".to_vec(),
            umask: 0o22,
            ..Program::default()
        };
        let kin = kin.iter().map(|person| Kin { person: person.clone(), node: NodeId::FRONT }).collect();
        // Nobody listens there: the program has no input and its output goes nowhere.
        let channel = ChannelTo {
            address: "127.0.0.1:9".into(),
            token: vec![1; 16],
            key: vec![2; 32],
            program: true,
            terminal: false,
            waits: false,
        };
        self.send(&ToNode::Start { person, program, kin, channel });
    }

    /// Waits for a process's end.
    pub(crate) fn exit(&mut self, pid: i32) -> vocab::Exit {
        let fits = |e: &BodyEvent| matches!(e, BodyEvent::Exited { pid: p, .. } if p.0 == pid);
        match self.event("Exited", fits) {
            BodyEvent::Exited { exit, .. } => exit,
            _ => unreachable!("it was matched"),
        }
    }

    /// The child that `parent` forked next.
    pub(crate) fn child(&mut self, parent: i32) -> Pid {
        let fits = |e: &BodyEvent| matches!(e, BodyEvent::Forked { parent: p, .. } if p.0 == parent);
        match self.event("Forked", fits) {
            BodyEvent::Forked { child, .. } => child,
            _ => unreachable!("it was matched"),
        }
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        let pid = Pid(self.node.id() as i32);
        if let Ok(fd) = kern::pidfd::open(pid) {
            let _ = kern::pidfd::kill(fd.as_fd(), vocab::Sig::TERM);
        }
        let _ = self.node.wait();
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

fn wait(fd: std::os::fd::BorrowedFd<'_>, ms: i32) {
    let _ = poll(&[(fd, Ready::READ)], ms);
}

pub(crate) fn person(pid: i32, ppid: i32, pgid: i32, sid: i32, name: &[u8]) -> Person {
    let [pid, ppid, pgid, sid] = [pid, ppid, pgid, sid].map(Pid);
    let creds = Creds { uid: Ids::all(0), gid: Ids::all(0), groups: vec![] };
    Person { pid, ppid, pgid, sid, creds, name: name.to_vec() }
}
