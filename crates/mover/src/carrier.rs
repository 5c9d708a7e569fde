//! The mover's two lines, on which it waits: the agent's word, and the connection over which the image goes.

use super::orders::{Order, Remain, Said};
use kern::clock::monotonic_us;
use kern::poll::{poll, poll_for, Ready, EINTR};
use kern::sock;
use link::crowd::Crowd;
use link::{Plain, Secure};
use std::io::{Error, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::Arc;
use std::time::Duration;
use vocab::{Fault, Result};
use wire::carry::{self, Piece, MOST};
use wire::look::Progress;

/// The other node has this long to be connected, in microseconds.
const PATIENCE_US: u64 = 5_000_000;

/// Between nodes that are so near (microseconds there and back) is a fast network, for which nothing need be measured out: bbr, where that is the machine's
/// congestion control, takes both ends twice the time of cubic.
const NEAR_US: u32 = 2_000;

/// In which the other mover answers unless something is amiss, in microseconds.
const SOON_US: u64 = 2_000;
/// And mostly in this.
const AT_ONCE_US: u64 = 500;
/// In which a process is stopped, mostly.
const STOPS: Duration = Duration::from_micros(150);
/// In which a process that has been let go gets a processor, if there is one.
const GIVES_WAY: Duration = Duration::from_micros(200);

/// The line to the agent.
pub(super) struct Word {
    line: Plain,
    /// It came with the one before.
    ahead: Option<Order>,
    /// The agent has said that the move is off.
    off: bool,
}

impl Word {
    pub(super) fn new(line: OwnedFd) -> Result<Word> {
        kern::sys::set_nonblocking(line.as_fd(), true)?;
        Ok(Word { line: Plain::new(line), ahead: None, off: false })
    }

    /// Another agent, which follows the one that has gone.
    pub(super) fn follows(&mut self, line: OwnedFd) -> Result<()> {
        *self = Word::new(line)?;
        Ok(())
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.line.fd()
    }

    /// Readable when the agent has something to say.
    fn bell(&self) -> Result<OwnedFd> {
        self.line.fd().try_clone_to_owned().map_err(|e| Fault::io(&e, "duplicate the line to the agent"))
    }

    /// # Errors
    /// `Gone` when the agent has said more than what was read, which no bell tells: the move is off.
    pub(super) fn goes_on(&mut self) -> Result<()> {
        if self.ahead.is_none() {
            self.ahead = self.line.next()?;
        }
        match self.ahead {
            None => Ok(()),
            Some(_) => Err(called_off()),
        }
    }

    /// The agent's next word, if there is one.
    pub(super) fn heard(&mut self) -> Result<Option<Order>> {
        let mut order = self.ahead.take().map_or_else(|| self.line.next(), |order| Ok(Some(order)))?;
        if order.is_none() {
            self.line.receive()?;
            order = self.line.next()?;
        }
        self.off |= matches!(order, Some(Order::Stay | Order::Off));
        Ok(order)
    }

    /// The agent's next word.
    pub(super) fn wait(&mut self) -> Result<Order> {
        loop {
            if let Some(order) = self.heard()? {
                return Ok(order);
            }
            wait(&[(self.line.fd(), Ready::READ)], None)?;
        }
    }

    /// Until the agent has something to say, or has said that the move is off, or this moment (monotonic, microseconds).
    pub(super) fn wait_until(&self, until_us: u64) {
        if self.ahead.is_none() && !self.off {
            let _late = wait(&[(self.line.fd(), Ready::READ)], Some(until_us));
        }
    }

    pub(super) fn say(&mut self, said: &Said) -> Result<()> {
        say_all(&mut self.line, said)
    }

    /// A process that has just been let go is to run before anybody hears of it: who is told would take the processor on which it could. Ends early when
    /// the agent says something, or one of these can be read.
    ///
    /// # Errors
    /// `Sys`.
    pub(super) fn give_way(&self, calls: &[BorrowedFd<'_>]) -> Result<()> {
        super::rest()?;
        let all = calls.iter().copied().chain([self.line.fd()]).map(|fd| (fd, Ready::READ));
        match poll_for(&all.collect::<Vec<_>>(), Some(GIVES_WAY)) {
            Ok(_) | Err(EINTR) => Ok(()),
            Err(errno) => Err(Fault::sys(errno, "give way to a process")),
        }
    }
}

/// Waits for one of these. `Gone` when the moment (monotonic, microseconds) passes first.
pub(super) fn wait(wanted: &[(BorrowedFd<'_>, Ready)], until_us: Option<u64>) -> Result<Vec<Ready>> {
    loop {
        let left = until_us.map_or(-1, |until| (until.saturating_sub(monotonic_us()).div_ceil(1000)) as i32);
        if left == 0 {
            return Err(Fault::gone("wait for the other node"));
        }
        match poll(wanted, left) {
            Ok(ready) if ready.iter().all(|one| *one == Ready::default()) => {}
            Ok(ready) => return Ok(ready),
            Err(EINTR) => {}
            Err(errno) => return Err(Fault::sys(errno, "wait")),
        }
    }
}

/// The same. While a process stands still it is not slept at first: to wake up, and to wake, takes longer than most of what is waited for (a processor of a virtual
/// machine that sleeps is woken by its host).
fn wait_awake(wanted: &[(BorrowedFd<'_>, Ready)], until_us: Option<u64>) -> Result<Vec<Ready>> {
    let sleeps = if super::hurries() { monotonic_us() + AT_ONCE_US } else { 0 };
    while monotonic_us() < sleeps {
        match poll(wanted, 0) {
            Ok(ready) if ready.iter().any(|one| *one != Ready::default()) => return Ok(ready),
            // Others who are in a hurry are not kept waiting.
            _ => std::thread::yield_now(),
        }
    }
    wait(wanted, until_us)
}

/// Waits for the other node; a word of the agent meanwhile means that the move is off.
fn wait_for(fd: BorrowedFd<'_>, ready: Ready, bell: &OwnedFd, until_us: Option<u64>) -> Result<()> {
    let came = wait_awake(&[(fd, ready), (bell.as_fd(), Ready::READ)], until_us)?;
    match came[1].readable || came[1].over {
        true => Err(called_off()),
        false => Ok(()),
    }
}

pub(super) fn called_off() -> Fault {
    Fault::gone("the move was called off")
}

/// What is sent, and what is to be.
#[derive(Default)]
pub(super) struct Expected {
    sent: AtomicU64,
    of: AtomicU64,
    round: AtomicU32,
}

impl Expected {
    /// A round of so many bytes begins; 0: the process stands still for it.
    pub(super) fn begins(&self, round: usize, bytes: u64) {
        self.round.store(round as u32, Relaxed);
        self.of.store(self.sent.load(Relaxed) + bytes, Relaxed);
    }
}

/// Tells the agent now and then how far it is.
struct Meter {
    line: Plain,
    expected: Arc<Expected>,
    told_us: u64,
}

impl Meter {
    /// Microseconds.
    const SELDOM: u64 = 200_000;

    fn sent(&mut self, bytes: usize) -> Result<()> {
        let Expected { sent, of, round } = &*self.expected;
        let sent = sent.fetch_add(bytes as u64, Relaxed) + bytes as u64;
        let now = monotonic_us();
        if now < self.told_us + Meter::SELDOM {
            return Ok(());
        }
        self.told_us = now;
        // What was expected may have become more.
        let of = Some(of.load(Relaxed)).filter(|of| *of >= sent).unwrap_or(0);
        say_all(&mut self.line, &Said::Moving(Progress { sent, of, round: round.load(Relaxed) }))
    }
}

/// Does not return before all of it is on its way: so nobody else's word on the same line is in between.
fn say_all(line: &mut Plain, said: &Said) -> Result<()> {
    line.send(said)?;
    line.flush()?;
    while line.wants_write() {
        wait(&[(line.fd(), Ready::WRITE)], None)?;
        line.flush()?;
    }
    Ok(())
}

/// The connection, with the bytes of one image going one way.
pub(super) struct Carrier {
    link: Secure,
    bell: OwnedFd,
    meter: Option<Meter>,
    /// Bytes of the piece that is coming which have not been read.
    left: usize,
}

impl Carrier {
    /// Connects to who takes the image.
    pub(super) fn dial(address: &str, key: &[u8], word: &mut Word) -> Result<Carrier> {
        word.goes_on()?;
        let address: SocketAddr =
            address.parse().map_err(|_| Fault::wire(format!("{address:?} is no address of a node")))?;
        let fd = sock::tcp_connect(address, monotonic_us() + PATIENCE_US)?;
        let near = sock::tcp_round_trip_us(fd.as_fd()).is_ok_and(|round_trip| round_trip < NEAR_US);
        if near && sock::tcp_congestion(fd.as_fd()).is_ok_and(|name| name.starts_with("bbr")) {
            // Where the kernel has no other, what it has will do.
            let _slower = sock::tcp_cubic(fd.as_fd());
        }
        Carrier::establish(Secure::channel_dialler(fd, &secret(key)?)?, word.bell()?)
    }

    /// Takes the connection of who sends it: of all that come to this port the one that has the key. Any user of these machines may connect to it.
    pub(super) fn take(listener: &OwnedFd, key: &[u8], word: &mut Word) -> Result<Carrier> {
        word.goes_on()?;
        let (bell, key) = (word.bell()?, secret(key)?);
        let until = Some(monotonic_us() + 2 * PATIENCE_US);
        let (mut crowd, mut shaking, mut number) = (Crowd::default(), Vec::<(u32, Secure)>::new(), 0);
        loop {
            let lines =
                shaking.iter().map(|(_, link)| (link.fd(), Ready { writable: link.wants_write(), ..Ready::READ }));
            let all: Vec<_> =
                [(bell.as_fd(), Ready::READ), (listener.as_fd(), Ready::READ)].into_iter().chain(lines).collect();
            // Before it comes it has looked at the process, which takes long only then.
            let why = "it may itself wait for a file of the process that does not answer";
            let came =
                wait(&all, until).map_err(|fault| fault.doing(format!("the old node's mover has not come, {why}")))?;
            if came[0].readable || came[0].over {
                return Err(called_off());
            }
            let told = came[2..].iter().zip(shaking.iter_mut());
            let over: Vec<u32> = told
                .filter(|(came, _)| **came != Ready::default())
                .filter_map(|(_, one)| one.1.receive().and_then(|_| one.1.flush()).err().map(|_| one.0))
                .collect();
            over.iter().for_each(|number| crowd.leave(*number));
            shaking.retain(|(number, _)| !over.contains(number));
            if let Some(at) = shaking.iter().position(|(_, link)| link.established()) {
                let (_, link) = shaking.swap_remove(at);
                return Ok(Carrier::over(link, bell));
            }
            while let Some(fd) = sock::accept(listener.as_fd())? {
                // One that is gone again, or cannot be tuned, is none.
                let Ok(from) = sock::peer_address(fd.as_fd()) else { continue };
                if sock::tcp_tune(fd.as_fd(), sock::USER_TIMEOUT_MS).is_err() {
                    continue;
                }
                number += 1;
                shaking.push((number, Secure::channel_taker(fd, &key)?));
                if let Some(gone) = crowd.enter(number, from.ip()) {
                    shaking.retain(|(number, _)| *number != gone);
                }
            }
        }
    }

    fn establish(mut link: Secure, bell: OwnedFd) -> Result<Carrier> {
        let until = Some(monotonic_us() + PATIENCE_US);
        link.flush()?;
        while !link.established() {
            let ready = Ready { writable: link.wants_write(), ..Ready::READ };
            wait_for(link.fd(), ready, &bell, until)?;
            link.receive()?;
            link.flush()?;
        }
        Ok(Carrier::over(link, bell))
    }

    fn over(mut link: Secure, bell: OwnedFd) -> Carrier {
        link.keep_much();
        Carrier { link, bell, meter: None, left: 0 }
    }

    /// The connection alone: from now on nobody calls anything off.
    pub(super) fn link(&mut self) -> &mut Secure {
        &mut self.link
    }

    /// From now on the agent is told how far it is.
    pub(super) fn measure(&mut self) -> Result<Arc<Expected>> {
        let expected = Arc::new(Expected::default());
        let line = self.bell.try_clone().map_err(|e| Fault::io(&e, "duplicate the line to the agent"))?;
        self.meter = Some(Meter { line: Plain::new(line), expected: expected.clone(), told_us: monotonic_us() });
        Ok(expected)
    }

    fn send(&mut self, bytes: &[u8]) -> Result<()> {
        for bytes in bytes.chunks(MOST) {
            self.tell(bytes)?;
            self.meter.as_mut().map_or(Ok(()), |meter| meter.sent(bytes.len()))?;
        }
        Ok(())
    }

    /// Something short to the other mover, which may be nothing but that it is said.
    pub(super) fn tell(&mut self, bytes: &[u8]) -> Result<()> {
        super::tire();
        self.link.send_parts(&[&carry::head(bytes.len()), bytes])?;
        self.link.flush()?;
        while self.link.wants_write() {
            wait_for(self.link.fd(), Ready::WRITE, &self.bell, None)?;
            self.link.flush()?;
        }
        Ok(())
    }

    /// What the other mover tells.
    pub(super) fn hear(&mut self) -> Result<Vec<u8>> {
        if self.left == 0 {
            self.next_piece()?;
        }
        let mut all = vec![0; std::mem::take(&mut self.left)];
        self.all(&mut all)?;
        Ok(all)
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.link.fd()
    }

    /// What the other mover has told, if anything.
    pub(super) fn heard(&mut self) -> Result<Option<Vec<u8>>> {
        if let Some(piece) = self.link.next::<Piece>()? {
            return Ok(Some(piece.bytes));
        }
        self.link.receive()?;
        Ok(self.link.next::<Piece>()?.map(|piece| piece.bytes))
    }

    /// Has the other mover told anything within [`SOON_US`]?
    pub(super) fn soon(&mut self) -> bool {
        let until = monotonic_us() + SOON_US;
        loop {
            match self.heard() {
                Ok(Some(_)) => return true,
                Ok(None) if wait_awake(&[(self.fd(), Ready::READ)], Some(until)).is_ok() => {}
                _ => return false,
            }
        }
    }

    /// # Errors
    /// `Gone` when the agent has said that the move is off.
    pub(super) fn goes_on(&self) -> Result<()> {
        let said = poll(&[(self.bell.as_fd(), Ready::READ)], 0)
            .map_err(|errno| Fault::sys(errno, "look for the agent's word"))?;
        match said.iter().all(|one| *one == Ready::default()) {
            true => Ok(()),
            false => Err(called_off()),
        }
    }

    /// Sleeps while the other node stops the process: where one machine is both nodes, that may run on this processor. Nothing will have come before.
    ///
    /// # Errors
    /// As [`Carrier::goes_on`].
    pub(super) fn sleep(&self) -> Result<()> {
        match poll_for(&[(self.link.fd(), Ready::READ), (self.bell.as_fd(), Ready::READ)], Some(STOPS)) {
            Ok(_) | Err(EINTR) => self.goes_on(),
            Err(errno) => Err(Fault::sys(errno, "wait for the other node")),
        }
    }

    /// Until the next piece begins to come. A word of the agent counts for more than one that has come already.
    fn next_piece(&mut self) -> Result<()> {
        super::tire();
        self.goes_on()?;
        let mut head = [0; carry::HEAD];
        let (first, rest) = head.split_at_mut(carry::FIRST);
        self.all(first)?;
        let more = carry::rest_of_head(first.first_chunk().unwrap_or(&[0; carry::FIRST]))?;
        self.all(&mut rest[..more])?;
        self.left = carry::length(&head[..carry::FIRST + more])?;
        Ok(())
    }

    fn all(&mut self, into: &mut [u8]) -> Result<()> {
        let mut done = 0;
        while done < into.len() {
            let to_come = into.len() - done;
            done += self.some(&mut into[done..], to_come)?;
        }
        Ok(())
    }

    /// At least one byte of the frames; `to_come`: that many come for certain.
    fn some(&mut self, into: &mut [u8], to_come: usize) -> Result<usize> {
        loop {
            match self.link.pull(into)? {
                0 => {}
                count => return Ok(count),
            }
            self.link.awaits(to_come)?;
            let waited = wait_for(self.link.fd(), Ready::READ, &self.bell, None);
            // Whoever waits next may wait for one byte.
            self.link.awaits(0)?;
            waited?;
        }
    }
}

/// Who lets a process run that is there.
pub(super) enum By {
    Agent,
    OtherMover(Box<Carrier>),
    /// A stand-in is to take its place.
    Nobody(Remain),
}

/// Waits until somebody lets it run or nobody will. The connection may break: then only the agent can.
///
/// # Errors
/// When the agent says anything else, or is gone.
pub(super) fn may_run(word: &mut Word, carrier: Carrier) -> Result<By> {
    let mut carrier = Some(carrier);
    loop {
        match word.heard()? {
            Some(Order::Go) => return Ok(By::Agent),
            Some(Order::Remain(order)) => return Ok(By::Nobody(order)),
            // The old node may have been told already that all is there.
            Some(Order::Off) => continue,
            Some(other) => return Err(Fault::wire(format!("the agent says {other:?}"))),
            None => {}
        }
        if let Some(mut there) = carrier.take() {
            carrier = match there.heard() {
                Ok(Some(_go)) => return Ok(By::OtherMover(Box::new(there))),
                Ok(None) => Some(there),
                Err(_) => None,
            };
        }
        let lines = [Some(word.line.fd()), carrier.as_ref().map(|carrier| carrier.link.fd())];
        let lines: Vec<_> = lines.into_iter().flatten().map(|fd| (fd, Ready::READ)).collect();
        wait(&lines, None)?;
    }
}

fn secret(key: &[u8]) -> Result<[u8; 32]> {
    key.try_into().map_err(|_| Fault::wire("a key that is not 32 bytes long"))
}

impl Write for &mut Carrier {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.send(bytes).map(|()| bytes.len()).map_err(|fault| Error::new(ErrorKind::BrokenPipe, fault))
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Who reads wants all of what it asks for: an image is not read any further than it goes.
impl Read for Carrier {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let broken = |fault| Error::new(ErrorKind::BrokenPipe, fault);
        if into.is_empty() {
            return Ok(0);
        }
        while self.left == 0 {
            self.next_piece().map_err(broken)?;
        }
        let (to_come, count) = (into.len(), into.len().min(self.left));
        let got = self.some(&mut into[..count], to_come).map_err(broken)?;
        self.left -= got;
        Ok(got)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kern::sock::{socketpair, Kind as Pair};

    const KEY: [u8; 32] = [7; 32];

    fn word() -> (Word, OwnedFd) {
        let (agent, line) = socketpair(Pair::Stream).expect("pair");
        (Word::new(line).expect("a line"), agent)
    }

    /// Bytes that do not repeat.
    fn image(length: usize) -> Vec<u8> {
        (0..length as u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 11) as u8).collect()
    }

    /// What a carrier is made of, which may go to another thread.
    type Parts = (Secure, OwnedFd);

    /// Of the old node and of the new one; and their agents' ends.
    fn connected() -> (Parts, Parts, [OwnedFd; 2]) {
        let listener = sock::tcp_listen_anywhere().expect("listen");
        let address = format!("127.0.0.1:{}", sock::local_address(listener.as_fd()).expect("bound").port());
        let (mut old, one) = word();
        let (mut new, other) = word();
        let parts = |carrier: Carrier| (carrier.link, carrier.bell);
        std::thread::scope(|scope| {
            let taking = scope.spawn(|| parts(Carrier::take(&listener, &KEY, &mut new).expect("taken")));
            let dialled = parts(Carrier::dial(&address, &KEY, &mut old).expect("dialled"));
            (dialled, taking.join().expect("taken"), [one, other])
        })
    }

    fn carrier((link, bell): Parts) -> Carrier {
        Carrier::over(link, bell)
    }

    /// Records of all sizes, as an image has them, read in pieces that have nothing to do with how they were sent; and words before, between and behind.
    #[test]
    fn an_image_comes_as_it_was_sent_among_words() {
        let (old, new, _agents) = connected();
        // Loopback is near. Where the machine has another than bbr it says nothing.
        assert!(!sock::tcp_congestion(old.0.fd()).expect("known").starts_with("bbr"));
        let mut new = carrier(new);
        let sent = image(5_000_000);
        std::thread::scope(|scope| {
            let sent = &sent;
            scope.spawn(move || {
                let mut old = carrier(old);
                assert_eq!(old.hear().expect("a word"), b"ready");
                let mut from = 0;
                for length in [24, 2_097_160, 1, 16, 300_000, 4096].into_iter().cycle() {
                    let to = sent.len().min(from + length);
                    (&mut old).write_all(&sent[from..to]).expect("sent");
                    from = to;
                    if from == sent.len() {
                        break;
                    }
                    old.tell(&[]).expect("sent");
                }
                old.tell(b"over").expect("sent");
                assert_eq!(old.hear().expect("a word"), b"", "nothing but that it is said");
                old.tell(b"go").expect("sent");
            });
            new.tell(b"ready").expect("sent");
            let mut got = vec![0; sent.len()];
            let (mut from, mut sizes) = (0, [24, 2_097_160, 17, 500_000, 1].into_iter().cycle());
            while from < got.len() {
                let to = got.len().min(from + sizes.next().unwrap_or(1));
                new.read_exact(&mut got[from..to]).expect("it comes");
                from = to;
            }
            assert!(got == *sent);
            assert_eq!(new.hear().expect("a word"), b"over");
            new.tell(&[]).expect("sent");
            let in_time = Some(monotonic_us() + PATIENCE_US);
            wait(&[(new.fd(), Ready::READ)], in_time).expect("a single word wakes who has waited for much");
            assert!(new.soon(), "it has come");
        });
    }

    #[test]
    fn a_word_of_the_agent_is_heard_before_what_has_come_already() {
        let (old, new, [_one, agent]) = connected();
        let (mut old, mut new) = (carrier(old), carrier(new));
        for _ in 0..3 {
            old.tell(b"all of it is there").expect("sent");
        }
        wait(&[(new.fd(), Ready::READ)], Some(monotonic_us() + PATIENCE_US)).expect("it comes");
        assert_eq!(new.hear().expect("nobody has called it off"), b"all of it is there");
        kern::sys::write(agent.as_fd(), b"x").expect("said");
        assert!(new.hear().expect_err("called off").to_string().contains("called off"));
        assert!(new.read(&mut [0; 8]).expect_err("called off").to_string().contains("called off"));
    }

    #[test]
    fn what_is_no_piece_of_an_image_is_refused() {
        let (old, new, _agents) = connected();
        let (mut old, mut new) = (carrier(old), carrier(new));
        old.link().send_parts(&[&[0, 0, 0, 9, 0x82, 1, 2, 3, 4, 5, 6, 7, 8]]).expect("room");
        old.link().flush().expect("sent");
        let told = new.read(&mut [0; 100]).expect_err("no piece").to_string();
        assert!(told.contains("no piece of an image"), "{told}");
    }

    #[test]
    fn a_word_of_the_agent_ends_the_wait_for_much() {
        let (old, new, [_one, agent]) = connected();
        std::thread::scope(|scope| {
            let mut new = carrier(new);
            scope.spawn(move || {
                let mut old = carrier(old);
                (&mut old).write_all(&[7; 100_000]).expect("sent");
                kern::sys::write(agent.as_fd(), b"x").expect("said");
                // It stays until the other end has given up.
                let _gone = old.hear();
            });
            let told = new.read_exact(&mut vec![0; 2_000_000]).expect_err("called off").to_string();
            assert!(told.contains("called off"), "{told}");
            drop(new);
        });
    }
}
