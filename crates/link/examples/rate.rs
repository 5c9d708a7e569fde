//! Prints what an encrypted connection over loopback TCP costs: `cargo run --release -p link --example rate`.
//!
//! Read the lines as ratios, both ends share the machine's cores: the rate of 64 KB of payload per write in MB/s (10^6
//! bytes), sender and receiver in a thread each; the time from connect to `established` on both ends, and of one small
//! message there and back, in microseconds (median).

use kern::clock::monotonic_us;
use kern::epoll::{Interest, Poller};
use kern::sock;
use link::Secure;
use std::os::fd::{AsFd, OwnedFd};
use vocab::Result;
use wire::stream::{Chunk, Stream};

const KEY: [u8; 32] = [7; 32];
const PAYLOAD: usize = 64 * 1000;
const WRITES: usize = 40_000;

type Make = fn(OwnedFd, &[u8; 32]) -> Result<Secure>;

fn sockets() -> Result<(OwnedFd, OwnedFd)> {
    let any = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
    let listener = sock::tcp_listen(any)?;
    let dialled = sock::tcp_connect(sock::local_address(listener.as_fd())?, monotonic_us() + 1_000_000)?;
    let poller = Poller::new()?;
    poller.add(listener.as_fd(), 0, Interest::READ)?;
    loop {
        poller.wait(&mut Vec::new(), Some(1_000_000))?;
        if let Some(taken) = sock::accept(listener.as_fd())? {
            sock::tcp_tune(taken.as_fd(), sock::USER_TIMEOUT_MS)?;
            return Ok((dialled, taken));
        }
    }
}

/// Drives one end until `step` says that it is done; `step` runs after everything that came was read. With `producing`
/// it also runs whenever the socket takes more.
fn drive(link: &mut Secure, producing: bool, mut step: impl FnMut(&mut Secure) -> Result<bool>) -> Result<()> {
    let (poller, mut ready) = (Poller::new()?, Vec::new());
    poller.add(link.fd(), 0, Interest::READ)?;
    let mut asked = false;
    loop {
        let more = link.receive()?;
        let done = step(link)?;
        link.flush()?;
        if done && !link.wants_write() {
            return Ok(());
        }
        if asked != (producing || link.wants_write()) {
            asked = !asked;
            poller.modify(link.fd(), 0, Interest::reading_and(asked))?;
        }
        if !more {
            poller.wait(&mut ready, None)?;
        }
    }
}

fn rate(cubic: bool) -> Result<f64> {
    let (one, other) = sockets()?;
    if cubic {
        sock::tcp_cubic(one.as_fd())?;
    }
    let sender = std::thread::spawn(move || -> Result<()> {
        let mut link = Secure::channel_dialler(one, &KEY)?;
        let chunk = Chunk::Data { stream: Stream::Out, bytes: vec![1; PAYLOAD] };
        let mut left = WRITES;
        drive(&mut link, true, |link| {
            while left > 0 && link.queued() < 512 * 1024 {
                link.send(&chunk)?;
                left -= 1;
                link.flush()?;
            }
            Ok(left == 0)
        })
    });
    let mut link = Secure::channel_taker(other, &KEY)?;
    let (start, mut count) = (monotonic_us(), 0);
    drive(&mut link, false, |link| {
        while let Some(Chunk::Data { .. }) = link.next()? {
            count += 1;
        }
        Ok(count == WRITES)
    })?;
    let took = monotonic_us() - start;
    let _ = sender.join();
    Ok((PAYLOAD * WRITES) as f64 / took as f64)
}

/// Medians of the handshake and of one message there and back, in microseconds.
fn times(dialler: Make, taker: Make) -> Result<(u64, u64)> {
    let (mut shakes, mut trips) = (Vec::new(), Vec::new());
    for _ in 0..200 {
        let (one, other) = sockets()?;
        let start = monotonic_us();
        let echo = std::thread::spawn(move || -> Result<()> {
            let mut link = taker(other, &KEY)?;
            drive(&mut link, false, |link| match link.next::<Chunk>()? {
                Some(chunk) => link.send(&chunk).map(|()| true),
                None => Ok(false),
            })
        });
        let mut link = dialler(one, &KEY)?;
        drive(&mut link, false, |link| Ok(link.established()))?;
        shakes.push(monotonic_us() - start);
        let start = monotonic_us();
        link.send(&Chunk::Wanted)?;
        link.flush()?;
        drive(&mut link, false, |link| Ok(link.next::<Chunk>()?.is_some()))?;
        trips.push(monotonic_us() - start);
        let _ = echo.join();
    }
    shakes.sort_unstable();
    trips.sort_unstable();
    Ok((shakes[100], trips[100]))
}

fn main() -> Result<()> {
    for cubic in [false, true] {
        let control = if cubic { "cubic" } else { "the machine's congestion control" };
        println!("64 KB writes, {control}: {:.0} MB/s", rate(cubic)?);
    }
    let (shake, trip) = times(Secure::control_dialler, Secure::control_taker)?;
    println!("control: handshake {shake} us, message there and back {trip} us");
    let (shake, trip) = times(Secure::channel_dialler, Secure::channel_taker)?;
    println!("channel: handshake {shake} us, message there and back {trip} us");
    Ok(())
}
