//! Children on several nodes that are made of one image, which goes along a tree: the first child is written and then moved, and the others are copies of it.
//!
//! A copy begins as a `shoal run` of `shoal copy`, so that its PID is known before the image is written: by its own number it finds in its memory who it is. `shoal copy-origin` writes the image and
//! says what has become of each (crates/cli, commands/copies.rs).

use super::command::Command;
use super::io::Plan;
use crate::said::{Done, Failed};
use crate::{helper, told};
use std::ffi::c_int;
use std::fs::File;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};
use vocab::{Fault, NodeId};
use wire::nodes::NodeInfo;

/// Fewer nodes than this are served sooner one by one.
pub(super) const FEWEST: usize = 3;
/// Where a copy learns whom to ask.
const COPY_OF: &str = "SHOAL_COPY_OF";
/// The first descriptor that is no standard stream.
const FIRST: c_int = 3;
/// How long after a copy's process has ended it is waited for what is said of it.
const VERDICT: Duration = Duration::from_secs(1);
/// How often, in milliseconds, those are looked for that have no descriptor.
const ASKED_MS: c_int = 100;

/// One that has been started.
pub(super) struct Begun {
    pub(super) rank: usize,
    pub(super) pid: c_int,
    pub(super) to: NodeId,
}

/// What has become of it.
pub(super) type Settled = (Begun, Done<()>);

/// The process that writes the image and gives it away. When this is dropped that ends.
pub(super) struct Origin {
    orders: File,
    says: File,
    /// The part of a line that has come.
    rest: Vec<u8>,
    /// Lines about copies that came before it was said that all is written.
    early: Vec<String>,
    port: u16,
    key: String,
}

impl Origin {
    pub(super) fn start(copies: usize) -> Done<Origin> {
        let ((theirs, orders), (says, to_us)) = (pipe()?, pipe()?);
        let streams = [Some(theirs.as_raw_fd()), Some(to_us.as_raw_fd())];
        helper::start(&["copy-origin", &copies.to_string()], streams, told::new_place()?)?;
        drop((theirs, to_us));
        let (orders, says) = (File::from(orders), File::from(says));
        let mut origin = Origin { orders, says, rest: Vec::new(), early: Vec::new(), port: 0, key: String::new() };
        let line = origin.line()?;
        let odd = || Failed::new(libc::EPROTO, format!("whoever is to write the image says {line:?}"));
        let [port, key] = words(&line, "at").ok_or_else(odd)?;
        (origin.port, origin.key) = (port.parse().map_err(|_| odd())?, key.to_string());
        Ok(origin)
    }

    /// A copy begins on its way to a node.
    pub(super) fn begin(&self, rank: usize, to: &NodeInfo, plan: &Plan) -> Done<c_int> {
        let node = to.node.0.to_string();
        let at = format!("{} {} {rank}", SocketAddr::new(seen_from(&to.address)?, self.port), self.key);
        let words = [&b"run"[..], b"-n", node.as_bytes(), b"--", b"shoal", b"copy"];
        let streams = plan.streams().map(above);
        let [input, output, errors] = streams;
        let (input, output, errors) = (input?, output?, errors?);
        let streams = [input.as_raw_fd(), output.as_raw_fd(), errors.as_raw_fd()];
        Command::shoal(&words)?.with(COPY_OF, &at)?.start_with(streams)
    }

    /// Has this process written, and waits until it is.
    pub(super) fn write(&mut self, pid: c_int) -> Done<()> {
        writeln!(self.orders, "{pid}").map_err(|e| Fault::io(&e, "say which process is to be written"))?;
        loop {
            let line = self.line()?;
            match line.split(' ').collect::<Vec<_>>()[..] {
                ["written"] => return Ok(()),
                ["failed", "all", why] => return Err(failure(why)),
                _ => self.early.push(line),
            }
        }
    }

    /// The end of the matter for all of these: each is a copy, or is none and has ended or will.
    pub(super) fn settle(&mut self, begun: Vec<Begun>) -> Vec<Settled> {
        let mut all = Settling::new(begun);
        std::mem::take(&mut self.early).iter().for_each(|line| all.hear(line));
        loop {
            while let Some(line) = self.whole_line() {
                all.hear(&line);
            }
            if all.open.is_empty() {
                return all.settled;
            }
            if all.wait(self.says.as_raw_fd()) {
                if let Err(gone) = self.hear() {
                    all.settle(|_| true, || Err(gone.clone()));
                }
                continue;
            }
            // A copy that has run was told of before: all that was said has been heard.
            let ended = || Err(Failed::new(libc::ESRCH, "what was to be a copy has ended"));
            all.settle(|one| one.ended.is_some_and(|at| at.elapsed() >= VERDICT), ended);
        }
    }

    /// The next line, for which it waits.
    fn line(&mut self) -> Done<String> {
        loop {
            if let Some(line) = self.whole_line() {
                return Ok(line);
            }
            self.hear()?;
        }
    }

    fn whole_line(&mut self) -> Option<String> {
        let end = self.rest.iter().position(|byte| *byte == b'\n')?;
        let line: Vec<u8> = self.rest.drain(..=end).collect();
        Some(String::from_utf8_lossy(&line[..end]).into_owned())
    }

    fn hear(&mut self) -> Done<()> {
        let mut piece = [0; 4096];
        match self.says.read(&mut piece) {
            Ok(0) => Err(Failed::new(libc::ESRCH, "whoever was to write the image has ended")),
            Ok(count) => {
                self.rest.extend_from_slice(&piece[..count]);
                Ok(())
            }
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => Ok(()),
            Err(e) => Err(Fault::io(&e, "hear of the image").into()),
        }
    }
}

/// One of which nothing has been said yet.
struct Open {
    begun: Begun,
    /// Readable when its process has ended; `None` where there is no descriptor to be had, and it is asked from time to time.
    end: Option<OwnedFd>,
    /// When that was found.
    ended: Option<Instant>,
}

struct Settling {
    open: Vec<Open>,
    settled: Vec<Settled>,
}

impl Settling {
    fn new(begun: Vec<Begun>) -> Settling {
        let open = |begun: Begun| Open { end: handle(begun.pid), ended: None, begun };
        Settling { open: begun.into_iter().map(open).collect(), settled: Vec::new() }
    }

    fn hear(&mut self, line: &str) {
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["done", rank] => self.settle(|one| rank.parse() == Ok(one.begun.rank), || Ok(())),
            ["failed", rank, why] => self.settle(|one| rank.parse() == Ok(one.begun.rank), || Err(failure(why))),
            _ => {}
        }
    }

    fn settle(&mut self, which: impl Fn(&Open) -> bool, done: impl Fn() -> Done<()>) {
        for at in (0..self.open.len()).rev() {
            if which(&self.open[at]) {
                self.settled.push((self.open.swap_remove(at).begun, done()));
            }
        }
    }

    /// Until `says` can be read, which is returned, or another process has ended, or it is too late for what is said of one that has.
    fn wait(&mut self, says: c_int) -> bool {
        let looked: Vec<usize> = (0..self.open.len()).filter(|at| self.open[*at].ended.is_none()).collect();
        let ends = looked.iter().map(|at| self.open[*at].end.as_ref().map_or(-1, AsRawFd::as_raw_fd));
        let ended = self.open.iter().filter_map(|one| one.ended);
        let left = ended.map(|at| VERDICT.saturating_sub(at.elapsed()).as_millis() as c_int + 1).min();
        let asked = looked.iter().any(|at| self.open[*at].end.is_none()).then_some(ASKED_MS);
        let left = left.into_iter().chain(asked).min();
        let ready = poll(std::iter::once(says).chain(ends), left.unwrap_or(-1));
        for (at, over) in looked.iter().zip(&ready[1..]) {
            let one = &mut self.open[*at];
            if *over || one.end.is_none() && has_ended(one.begun.pid) {
                one.ended = Some(Instant::now());
            }
        }
        ready[0]
    }
}

/// The words behind the first of a line.
fn words<'l>(line: &'l str, first: &str) -> Option<[&'l str; 2]> {
    let words: Vec<&str> = line.split(' ').collect();
    match words[..] {
        [word, one, other] if word == first => Some([one, other]),
        _ => None,
    }
}

/// A failure that the origin has passed on in hexadecimal digits.
fn failure(digits: &str) -> Failed {
    let byte = |at: usize| digits.get(at..at + 2).and_then(|two| u8::from_str_radix(two, 16).ok());
    let bytes: Option<Vec<u8>> = (0..digits.len()).step_by(2).map(byte).collect();
    match local::moves::fault_of(&bytes.unwrap_or_default()) {
        Ok(fault) | Err(fault) => fault.into(),
    }
}

/// By which of its addresses this machine is found from there. No packet is sent: the kernel says from which it would be.
fn seen_from(address: &str) -> Done<IpAddr> {
    let parsed = address.parse::<SocketAddr>().map(|both| both.ip()).or_else(|_| address.parse::<IpAddr>());
    let odd = |_| Failed::new(libc::EADDRNOTAVAIL, format!("{address:?} is no address of a node"));
    let ip = parsed.map_err(odd)?;
    let any: IpAddr = if ip.is_ipv4() { [0u8; 4].into() } else { [0u8; 16].into() };
    let own = UdpSocket::bind((any, 0)).and_then(|socket| socket.connect((ip, 9)).and_then(|()| socket.local_addr()));
    Ok(own.map_err(|e| Fault::io(&e, format!("find the way to {ip}")))?.ip())
}

/// The same as this descriptor, or as /dev/null, above the standard ones.
fn above(fd: c_int) -> Done<OwnedFd> {
    let failed = || Failed::last(format!("duplicate descriptor {fd}"));
    // SAFETY: numbers of descriptors; what fcntl(2) returns is new, and nobody else's.
    unsafe {
        let null = if fd < 0 { libc::open(c"/dev/null".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC) } else { -1 };
        let made = libc::fcntl(if fd < 0 { null } else { fd }, libc::F_DUPFD_CLOEXEC, FIRST);
        let failed = (made < 0).then(failed);
        if null >= 0 {
            libc::close(null);
        }
        failed.map_or_else(|| Ok(OwnedFd::from_raw_fd(made)), Err)
    }
}

pub(super) fn pipe() -> Done<(OwnedFd, OwnedFd)> {
    let mut ends = [0; 2];
    // SAFETY: room for two numbers, which are of new descriptors then.
    match unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } {
        // SAFETY: as above.
        0 => Ok(unsafe { (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) }),
        _ => Err(Failed::last("make a pipe")),
    }
}

/// Readable when the process, a child of the caller, has ended.
fn handle(pid: c_int) -> Option<OwnedFd> {
    // SAFETY: numbers; a descriptor that is returned is new.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) } as c_int;
    // SAFETY: as above.
    (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Has this child ended? Who waits for it finds it still; one that was waited for has.
fn has_ended(pid: c_int) -> bool {
    // SAFETY: room for what is told, which is zeroes where nothing is.
    unsafe {
        let mut told: libc::siginfo_t = std::mem::zeroed();
        let how = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
        libc::waitid(libc::P_PID, pid as libc::id_t, &raw mut told, how) != 0 || told.si_pid() != 0
    }
}

/// Which of these can be read, after at most so many milliseconds; -1 as for poll(2), for a descriptor too.
pub(super) fn poll(fds: impl Iterator<Item = c_int>, most: c_int) -> Vec<bool> {
    let mut all: Vec<libc::pollfd> = fds.map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 }).collect();
    // SAFETY: as many as is said. A signal ends it without any.
    let count = unsafe { libc::poll(all.as_mut_ptr(), all.len() as libc::nfds_t, most) };
    all.iter().map(|one| count > 0 && one.revents != 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_origin_says() {
        assert_eq!(words("at 7 ab", "at"), Some(["7", "ab"]));
        assert_eq!(words("at 7", "at"), None);
        let fault = Fault::refused("no");
        let digits: String = local::moves::encoded(&fault).expect("short").iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(failure(&digits), fault.into());
        assert_eq!(failure("xy").errno, libc::EPROTO);
        assert_eq!(failure("é").errno, libc::EPROTO);
    }

    #[test]
    fn a_stream_is_put_above_the_standard_ones() {
        use std::os::fd::AsRawFd;
        assert!([-1, 1].map(|fd| above(fd).expect("open").as_raw_fd()).iter().all(|fd| *fd >= FIRST));
        assert_eq!(above(99_999).expect_err("not open").errno, libc::EBADF);
    }
}
