//! One question and one answer at a time, over the local daemon's socket: what the small commands need.

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;
use vocab::{Fault, Result};
use wire::ask::{Answer, Ask};
use wire::feed::Happening;
use wire::frame;
use wire::look::Progress;

/// The run directory of a daemon that is told of no other.
pub const RUN_DIR: &str = "/run/shoal";

/// Where the programs of a node find the run directory of their daemon if it is not [`RUN_DIR`]: the node's agent mounts it there, for them alone.
pub const SPACE: &str = "/run/shoal-space";

/// The daemon's socket in a run directory.
const SOCKET: &str = "shoal.sock";

/// The socket of the daemon of this machine, front end or node: what `SHOAL_SOCKET` says; if that is empty or unset, the daemon whose program the caller
/// is, or the one in [`RUN_DIR`].
pub fn socket_path() -> PathBuf {
    let said = std::env::var_os("SHOAL_SOCKET").filter(|path| !path.is_empty());
    let usual = || {
        let own = Path::new(SPACE).join(SOCKET);
        if own.exists() {
            own
        } else {
            Path::new(RUN_DIR).join(SOCKET)
        }
    };
    said.map_or_else(usual, PathBuf::from)
}

/// What is said when nobody listens at the daemon's socket.
pub const NO_DAEMON: &str = "no shoal daemon runs on this machine";

/// A connection to the local daemon that waits for each answer.
#[derive(Debug)]
pub struct Local {
    stream: UnixStream,
}

impl Local {
    /// # Errors
    /// `Gone` when no daemon listens at `socket`, `Sys` for another failure to connect.
    pub fn connect(socket: &Path) -> Result<Local> {
        match UnixStream::connect(socket) {
            Ok(stream) => Ok(Local { stream }),
            Err(e) => {
                use std::io::ErrorKind::{ConnectionRefused, NotFound};
                let fault = Fault::io(&e, format!("connect to {}", socket.display()));
                Err(match e.kind() {
                    NotFound | ConnectionRefused => {
                        let mut outer = fault.doing(NO_DAEMON);
                        outer.kind = vocab::Kind::Gone;
                        outer
                    }
                    _ => fault,
                })
            }
        }
    }

    /// The same, with a bound on the waiting for each piece of an answer: a daemon that hangs is gone for the caller then.
    ///
    /// # Errors
    /// As [`Local::connect`].
    pub fn connect_within(socket: &Path, patience: Duration) -> Result<Local> {
        let local = Local::connect(socket)?;
        let set = local.stream.set_read_timeout(Some(patience));
        let set = set.and_then(|()| local.stream.set_write_timeout(Some(patience)));
        set.map_err(|e| Fault::io(&e, "bound the waiting for the shoal daemon"))?;
        Ok(local)
    }

    /// Sends `ask` and waits for its answer.
    ///
    /// # Errors
    /// The daemon's own fault when it answers with one; `Gone` when it closes the connection; `Wire` for what is no answer.
    pub fn ask(&mut self, ask: &Ask) -> Result<Answer> {
        self.ask_telling(ask, |_| {})
    }

    /// The same; `moving` hears how far it is, if that is wanted of [`Ask::Move`].
    ///
    /// # Errors
    /// As [`Local::ask`].
    pub fn ask_telling(&mut self, ask: &Ask, mut moving: impl FnMut(Progress)) -> Result<Answer> {
        self.begin(ask)?;
        loop {
            match self.finish()? {
                Answer::Moving(progress) => moving(progress),
                answer => return Ok(answer),
            }
        }
    }

    /// Only sends `ask`: whoever asks on several connections has all of them answered at the same time.
    ///
    /// # Errors
    /// `Sys` when it cannot be sent.
    pub fn begin(&mut self, ask: &Ask) -> Result<()> {
        let mut bytes = Vec::new();
        frame::encode(ask, &mut bytes)?;
        match self.stream.write_all(&bytes) {
            // It may have said why before it closed the connection.
            Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
            written => written.map_err(|e| Fault::io(&e, "ask the shoal daemon")),
        }
    }

    /// Waits for an answer to what was asked by [`Local::begin`].
    ///
    /// # Errors
    /// As [`Local::ask`].
    pub fn finish(&mut self) -> Result<Answer> {
        match self.answer()? {
            Answer::Failed(fault) => Err(fault),
            answer => Ok(answer),
        }
    }

    /// What happens in the space from now on ([`Ask::Feed`]); the connection is for that only.
    ///
    /// # Errors
    /// As [`Local::ask`].
    pub fn feed(mut self) -> Result<Feed> {
        match self.ask(&Ask::Feed)? {
            Answer::Feed(Happening::Listening) => Ok(Feed(self)),
            other => Err(Fault::wire(format!("the daemon answered Feed with {other:?}"))),
        }
    }

    /// The same; [`Feed::hear`] fails after so long without any news.
    ///
    /// # Errors
    /// As [`Local::ask`].
    pub fn feed_within(self, patience: Duration) -> Result<Feed> {
        let set = self.stream.set_read_timeout(Some(patience));
        set.map_err(|e| Fault::io(&e, "bound the waiting for the shoal daemon"))?;
        self.feed()
    }

    fn answer(&mut self) -> Result<Answer> {
        let mut head = [0u8; frame::HEAD];
        self.fill(&mut head)?;
        // A whole frame of an empty body tells whether the length is allowed, before anything is allocated for it.
        frame::split(&head)?;
        let mut body = vec![0; u32::from_be_bytes(head) as usize];
        self.fill(&mut body)?;
        frame::decode(&body)
    }

    fn fill(&mut self, into: &mut [u8]) -> Result<()> {
        self.stream.read_exact(into).map_err(|e| match e.kind() {
            std::io::ErrorKind::UnexpectedEof => {
                Fault::gone("the shoal daemon closed the connection before it answered")
            }
            std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut => {
                Fault::gone("the shoal daemon does not answer")
            }
            _ => Fault::io(&e, "read the shoal daemon's answer"),
        })
    }
}

impl From<Local> for OwnedFd {
    /// The connection itself, for who only waits until there is something to hear.
    fn from(local: Local) -> OwnedFd {
        local.stream.into()
    }
}

/// What happens, one after the other.
#[derive(Debug)]
pub struct Feed(Local);

impl Feed {
    /// Waits for the next.
    ///
    /// # Errors
    /// `Gone` when the daemon has closed the connection; `Wire` for what is no answer.
    pub fn hear(&mut self) -> Result<Happening> {
        match self.0.answer()? {
            Answer::Feed(happening) => Ok(happening),
            Answer::Failed(fault) => Err(fault),
            other => Err(Fault::wire(format!("the daemon says {other:?} where it tells what happens"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vocab::{Kind, NodeId, Pid};

    /// A local daemon that reads one frame and answers with `answer`.
    fn served(answer: Vec<u8>) -> Local {
        let (ours, mut theirs) = UnixStream::pair().expect("a pair of sockets");
        std::thread::spawn(move || {
            let mut head = [0u8; frame::HEAD];
            theirs.read_exact(&mut head).expect("the head of the ask");
            let mut body = vec![0; u32::from_be_bytes(head) as usize];
            theirs.read_exact(&mut body).expect("the body of the ask");
            theirs.write_all(&answer).expect("room for the answer");
        });
        Local { stream: ours }
    }

    fn framed(answer: &Answer) -> Vec<u8> {
        let mut bytes = Vec::new();
        frame::encode(answer, &mut bytes).expect("short");
        bytes
    }

    #[test]
    fn an_answer_comes_back() {
        let answer = Answer::Where { pid: Pid(7), node: NodeId(2), birth: 0 };
        assert_eq!(served(framed(&answer)).ask(&Ask::Where { pid: Pid(7) }), Ok(answer));
    }

    #[test]
    fn what_is_under_way_is_told_before_the_answer() {
        let (pid, node, progress) = (Pid(7), NodeId(2), Progress { sent: 1, of: 2, round: 3 });
        let bytes = [framed(&Answer::Moving(progress)), framed(&Answer::Moved { pid, node })].concat();
        let (mut told, ask) =
            (Vec::new(), Ask::Move { pid, to: node, progress: true, lazy: false, executes: Vec::new() });
        assert_eq!(served(bytes).ask_telling(&ask, |one| told.push(one)), Ok(Answer::Moved { pid, node }));
        assert_eq!(told, [progress]);
    }

    #[test]
    fn the_daemons_fault_is_the_result() {
        let fault = Fault::gone("process 7");
        assert_eq!(served(framed(&Answer::Failed(fault.clone()))).ask(&Ask::Nodes), Err(fault));
    }

    #[test]
    fn a_daemon_that_refuses_before_it_is_asked_is_heard() {
        let (ours, mut theirs) = UnixStream::pair().expect("a pair of sockets");
        let fault = Fault::refused("serve another connection");
        theirs.write_all(&framed(&Answer::Failed(fault.clone()))).expect("room for the answer");
        drop(theirs);
        assert_eq!(Local { stream: ours }.ask(&Ask::Nodes), Err(fault));
    }

    #[test]
    fn what_happens_comes_one_after_the_other() {
        let node = |state: &str| Happening::Node { node: NodeId(2), state: state.into() };
        let told = [Happening::Listening, node("up"), node("down")].map(|one| framed(&Answer::Feed(one))).concat();
        let mut feed = served(told).feed().expect("it listens");
        assert_eq!((feed.hear(), feed.hear()), (Ok(node("up")), Ok(node("down"))));
        assert_eq!(feed.hear().expect_err("it has closed").kind, Kind::Gone);
    }

    #[test]
    fn half_an_answer_and_a_gigabyte_are_errors() {
        assert_eq!(served(vec![0, 0]).ask(&Ask::Nodes).expect_err("half").kind, Kind::Gone);
        assert_eq!(served(vec![0x40, 0, 0, 0]).ask(&Ask::Nodes).expect_err("1 GiB").kind, Kind::Wire);
    }

    #[test]
    fn one_that_hangs_is_gone_after_a_while() {
        let path = std::env::temp_dir().join(format!("shoal-mute.{}", std::process::id()));
        let mute = std::os::unix::net::UnixListener::bind(&path).expect("a socket");
        let mut local = Local::connect_within(&path, Duration::from_millis(50)).expect("it listens");
        let fault = local.ask(&Ask::Nodes).expect_err("it says nothing");
        assert_eq!((fault.kind, fault.to_string().as_str()), (Kind::Gone, "the shoal daemon does not answer"));
        drop(mute);
        let _ = std::fs::remove_file(&path);
    }

    #[test]
    fn no_daemon_is_said_so() {
        let fault = Local::connect(Path::new("/nonexistent/shoal.sock")).expect_err("nobody there");
        assert_eq!(fault.kind, Kind::Gone);
    }
}
