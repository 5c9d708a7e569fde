//! A daemon and a node in one thread: takes one `shoal run`, starts the program here, and relays its streams for real.

use crate::kept::{Kept, Start};
use agent::streams::{ChildEnds, Open, Streams, StreamsId, To};
use kern::clock::monotonic_us;
use kern::poll::{poll, Ready};
use kern::sock;
use std::ffi::OsStr;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;
use vocab::{Exit, Fault, NodeId};
use wire::ask::{Answer, Ask, Copy, Further};
use wire::frame;
use wire::run::Program;

/// A daemon that has not been asked yet.
pub(crate) struct Daemon {
    pub(crate) path: PathBuf,
    listener: OwnedFd,
    ports: OwnedFd,
    streams: Arc<Streams>,
}

/// One copy that runs.
pub(crate) struct Body {
    pub(crate) child: Kept,
    pub(crate) id: StreamsId,
}

/// A client that has asked.
pub(crate) struct Client {
    socket: OwnedFd,
    pub(crate) program: Program,
    streams: Arc<Streams>,
    ports: OwnedFd,
    keys: Vec<[u8; 32]>,
}

static NAMES: AtomicU32 = AtomicU32::new(0);

impl Daemon {
    pub(crate) fn new(streams: Arc<Streams>) -> Daemon {
        let name = format!("shoal-streams-{}-{}", std::process::id(), NAMES.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        let listener = sock::unix_listen(&path, 0o600).expect("listen");
        let ports = sock::tcp_listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).expect("listen");
        Daemon { path, listener, ports, streams }
    }

    /// Waits for the client, and grants it `copies` copies.
    pub(crate) fn accept(self, copies: usize) -> Client {
        let socket = accept(self.listener.as_fd());
        let Ask::Run { program, .. } = ask(socket.as_fd()) else { panic!("no run") };
        let keys: Vec<[u8; 32]> = (0..copies).map(|i| [i as u8 + 1; 32]).collect();
        let copy =
            |(i, key): (usize, &[u8; 32])| Copy { node: NodeId(i as i32), key: key.to_vec(), token: vec![0; 16] };
        let client =
            Client { socket, program: *program, streams: self.streams.clone(), ports: duplicate(&self.ports), keys };
        let copies = client.keys.iter().enumerate().map(copy).collect();
        client.say(&Answer::Granted { hold: "/dev/null".into(), copies }, None);
        client.answer();
        client
    }

    /// The whole life of one copy: its end is the client's.
    pub(crate) fn serve(self) -> Exit {
        let client = self.accept(1);
        let mut body = client.start(0);
        client.connect(0);
        client.end(0, &mut body)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// The client sees its daemon go, though whoever answers has the socket too.
impl Drop for Client {
    fn drop(&mut self) {
        let _ = sock::shutdown_write(self.socket.as_fd());
    }
}

impl Client {
    /// From now on each question gets its answer, until the client closes its end: here no signal is ever on its way.
    fn answer(&self) {
        let socket = duplicate(&self.socket);
        std::thread::spawn(move || {
            while let Some(asked) = next_ask(socket.as_fd()) {
                let Ask::Delivered { copy, .. } = asked else { panic!("{asked:?} is not asked of this daemon") };
                let mut bytes = Vec::new();
                frame::encode(&Answer::Delivered { copy }, &mut bytes).expect("encode");
                let _ = sock::send_with(socket.as_fd(), &bytes, &[]);
            }
        });
    }

    pub(crate) fn say(&self, answer: &Answer, fd: Option<BorrowedFd<'_>>) {
        let mut bytes = Vec::new();
        frame::encode(answer, &mut bytes).expect("encode");
        // A client that has died hears nothing.
        let _ = sock::send_with(self.socket.as_fd(), &bytes, fd.as_slice());
    }

    /// The streams of a copy, without a program.
    pub(crate) fn open(&self, copy: usize) -> ChildEnds {
        let address = sock::local_address(self.ports.as_fd()).expect("address");
        let to = To::Dial { address, token: [copy as u8; 16] };
        let open = Open { to, key: self.keys[copy], stdio: self.program.stdio.clone(), waits: false };
        self.streams.open(open).expect("streams")
    }

    pub(crate) fn start(&self, copy: usize) -> Body {
        let ends = self.open(copy);
        let id = ends.id;
        let words: Vec<&OsStr> = self.program.argv.iter().map(|a| OsStr::from_bytes(a)).collect();
        let mut command = match ends.terminal {
            false => Command::new(words[0]),
            true => {
                let mut command = Command::new("setsid");
                command.args(["-c", "-w"]).arg(words[0]);
                command
            }
        };
        command.args(&words[1..]).stdin(ends.stdin).stdout(ends.stdout).stderr(ends.stderr);
        Body { child: command.start(), id }
    }

    /// Takes the channel that the node dials, and hands it to the client.
    pub(crate) fn connect(&self, copy: usize) {
        let socket = self.take(copy);
        self.say(&Answer::Channel { copy: copy as u32, further: None }, Some(socket.as_fd()));
    }

    /// The socket of the channel, behind its preamble.
    pub(crate) fn take(&self, copy: usize) -> OwnedFd {
        let socket = accept(self.ports.as_fd());
        let mut preamble = [0u8; 17];
        let mut got = 0;
        while got < preamble.len() {
            wait(socket.as_fd());
            got += kern::sys::read(socket.as_fd(), &mut preamble[got..]).expect("preamble");
        }
        assert_eq!((preamble[0], preamble[1]), (b'S', copy as u8));
        socket
    }

    /// The streams of the first copy, for a node to which its program moves; `token`: not 0, another for each.
    pub(crate) fn open_again(&self, token: u8) -> ChildEnds {
        self.open_on(&self.streams, token)
    }

    /// The same on a node of its own.
    pub(crate) fn open_on(&self, streams: &Streams, token: u8) -> ChildEnds {
        let address = sock::local_address(self.ports.as_fd()).expect("address");
        let to = To::Dial { address, token: [token; 16] };
        let open = Open { to, key: [token; 32], stdio: self.program.stdio.clone(), waits: false };
        streams.open(open).expect("streams")
    }

    /// Takes the channel that this node dials, and hands it to the client.
    pub(crate) fn connect_again(&self, token: u8) {
        self.connect_further(token, token - 1, true);
    }

    /// The same from any node, and for any of the processes that have them.
    pub(crate) fn connect_further(&self, token: u8, from: u8, program: bool) {
        let socket = self.take(token.into());
        let (node, from) = (NodeId(token.into()), NodeId(from.into()));
        let further = Some(Further { node, key: vec![token; 32], branch: token.into(), program, from });
        self.say(&Answer::Channel { copy: 0, further }, Some(socket.as_fd()));
    }

    pub(crate) fn end(&self, copy: usize, body: &mut Body) -> Exit {
        use std::os::unix::process::ExitStatusExt;
        let status = body.child.wait().expect("wait");
        let exit = Exit::from_status(status.into_raw()).expect("an end");
        self.streams.ended(body.id);
        self.say(&Answer::Ended { copy: copy as u32, exit }, None);
        exit
    }

    pub(crate) fn not_started(&self, copy: usize, fault: Fault, status: u8) {
        self.say(&Answer::NotStarted { copy: copy as u32, fault, status }, None);
    }
}

fn duplicate(fd: &OwnedFd) -> OwnedFd {
    fd.try_clone().expect("dup")
}

fn wait(fd: BorrowedFd<'_>) {
    let ready = poll(&[(fd, Ready::READ)], 20_000).expect("poll");
    assert!(ready[0].readable || ready[0].over, "nobody came within 20 s (now {})", monotonic_us());
}

fn accept(listener: BorrowedFd<'_>) -> OwnedFd {
    loop {
        wait(listener);
        if let Some(socket) = sock::accept(listener).expect("accept") {
            return socket;
        }
    }
}

fn ask(socket: BorrowedFd<'_>) -> Ask {
    wait(socket);
    next_ask(socket).expect("the client asks before it leaves")
}

/// `None`: the client has left.
fn next_ask(socket: BorrowedFd<'_>) -> Option<Ask> {
    let mut bytes = vec![0; frame::HEAD];
    fill(socket, &mut bytes)?;
    frame::split(&bytes).expect("a length that is allowed");
    let length = u32::from_be_bytes(bytes[..].try_into().expect("4 bytes")) as usize;
    let mut body = vec![0; length];
    fill(socket, &mut body)?;
    Some(frame::decode(&body).expect("an ask"))
}

fn fill(socket: BorrowedFd<'_>, into: &mut [u8]) -> Option<()> {
    let mut filled = 0;
    while filled < into.len() {
        poll(&[(socket, Ready::READ)], -1).expect("poll");
        match kern::sys::read(socket, &mut into[filled..]) {
            Ok(0) | Err(_) => return None,
            Ok(got) => filled += got,
        }
    }
    Some(())
}
