//! Every parser of this crate against bytes that no honest peer sends: a fixed seed, a few seconds each (LINK_FUZZ_SECONDS for longer).
//! `wire` does the same to the messages inside.

use kern::sock::{self, socketpair, Kind as Pair};
use kern::sys::{read, set_nonblocking};
use link::preamble::{Greeting, Preamble};
use link::{Plain, Secure};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};
use vocab::{Kind, Result};
use wire::stream::{Chunk, Stream};

const KEY: [u8; 32] = [7; 32];

fn patience() -> Duration {
    let set = std::env::var("LINK_FUZZ_SECONDS").ok().and_then(|text| text.parse().ok());
    Duration::from_secs(set.unwrap_or(2))
}

/// Xorshift: the same numbers in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % end.max(1)
    }

    fn bytes(&mut self, most: usize) -> Vec<u8> {
        (0..self.below(most)).map(|_| self.below(256) as u8).collect()
    }
}

fn sockets() -> (OwnedFd, OwnedFd) {
    let (one, other) = socketpair(Pair::Stream).expect("pair");
    set_nonblocking(one.as_fd(), true).expect("nonblocking");
    set_nonblocking(other.as_fd(), true).expect("nonblocking");
    (one, other)
}

/// Rounds until the time is over.
fn rounds(seed: u64, mut round: impl FnMut(&mut Random)) {
    let (mut random, end) = (Random(seed), Instant::now() + patience());
    let mut count = 0u32;
    while Instant::now() < end {
        round(&mut random);
        count += 1;
    }
    assert!(count > 100, "only {count} rounds");
}

/// Changes some of `bytes`, or loses, doubles or invents some. False: it left them as they are.
fn damage(bytes: &mut Vec<u8>, random: &mut Random) -> bool {
    let before = bytes.clone();
    let at = random.below(bytes.len());
    match random.below(6) {
        0 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
        1 if at < bytes.len() => bytes[at] = [0, 0x7f, 0x80, 0xff][random.below(4)],
        2 => bytes.truncate(at),
        3 => drop(bytes.splice(at..at, random.bytes(40))),
        4 => {
            let piece = bytes[at..(at + random.below(64)).min(bytes.len())].to_vec();
            bytes.splice(at..at, piece);
        }
        _ => drop(bytes.drain(at..(at + 1 + random.below(9)).min(bytes.len()))),
    }
    *bytes != before
}

#[test]
fn a_preamble_is_one_of_four_or_refused() {
    rounds(0x51, |random| {
        let (here, there) = sockets();
        let mut bytes = random.bytes(60);
        if let Some(first) = bytes.first_mut() {
            *first = [b'C', b'S', b'J', *first][random.below(4)];
        }
        let mut greeting = Greeting::new(there, 10);
        let mut told = None;
        for piece in bytes.chunks(1 + random.below(20)) {
            sock::send(here.as_fd(), piece).expect("room");
            told = told.or_else(|| greeting.read(1).transpose());
        }
        let expected = match bytes.first() {
            None => None,
            Some(b'C') => Some(Ok(Preamble::Control)),
            Some(b'V') => Some(Ok(Preamble::View)),
            Some(b'J') => bytes[1..].first_chunk().map(|name| Ok(Preamble::Join(*name))),
            Some(b'S') => bytes[1..].first_chunk().map(|token| Ok(Preamble::Channel(*token))),
            Some(_) => Some(Err(Kind::Wire)),
        };
        assert_eq!(told.map(|told| told.map_err(|fault| fault.kind)), expected);
        drop(here);
        // What does not come is the end, or too late.
        assert!(!matches!(greeting.read(11), Ok(None)));
    });
}

fn message(number: u32) -> Chunk {
    Chunk::Data { stream: Stream::Out, bytes: number.to_le_bytes().repeat(1 + number as usize % 700) }
}

/// Moves what is there from one socket to the other, and damages it if `damaging`; true: it did.
fn carry(from: &OwnedFd, to: &OwnedFd, damaging: Option<&mut Random>) -> bool {
    let mut buffer = vec![0; 65536];
    let Ok(got) = read(from.as_fd(), &mut buffer) else { return false };
    buffer.truncate(got);
    let damaged = damaging.is_some_and(|random| damage(&mut buffer, random));
    if !buffer.is_empty() {
        // A side that has failed takes nothing more.
        let _ = sock::send(to.as_fd(), &buffer);
    }
    damaged
}

type Make = fn(OwnedFd, &[u8; 32]) -> Result<Secure>;

/// An honest pair with somebody in between, who damages what one side sends at some step: what the other side takes is what was sent, and
/// nothing behind the damage. That holds from the first byte of the handshake on.
fn in_between(make: (Make, Make), seed: u64) {
    rounds(seed, |random| {
        let ((dialler, outer), (inner, taker)) = (sockets(), sockets());
        let mut ends = [make.0(dialler, &KEY).expect("an end"), make.1(taker, &KEY).expect("an end")];
        let (victim, moment) = (random.below(2), random.below(8));
        let mut taken = [0u32; 2];
        let (mut damaged, mut steps) = (false, 0);
        for number in 0..12 {
            for (which, end) in ends.iter_mut().enumerate() {
                // After the damage one side may know it already.
                let _ = end.send(&message(number)).and_then(|()| end.flush());
                let (from, to) = if which == 0 { (&outer, &inner) } else { (&inner, &outer) };
                let now = which == victim && !damaged && steps >= moment;
                damaged |= carry(from, to, now.then_some(&mut *random));
                steps += usize::from(which == victim);
            }
            for (which, end) in ends.iter_mut().enumerate() {
                let received = end.receive();
                while let Ok(Some(chunk)) = end.next::<Chunk>() {
                    assert_eq!(chunk, message(taken[which]), "message {} of side {which}", taken[which]);
                    taken[which] += 1;
                }
                assert!(received.is_ok() || damaged, "{received:?} without damage");
            }
        }
    });
}

#[test]
fn a_control_link_takes_nothing_that_was_not_sent() {
    in_between((Secure::control_dialler, Secure::control_taker), 0x52);
}

#[test]
fn a_channel_takes_nothing_that_was_not_sent() {
    in_between((Secure::channel_dialler, Secure::channel_taker), 0x53);
}

#[test]
fn a_stranger_is_never_taken_for_a_peer() {
    let makes: [Make; 4] =
        [Secure::control_dialler, Secure::control_taker, Secure::channel_dialler, Secure::channel_taker];
    rounds(0x54, |random| {
        let (here, there) = sockets();
        let mut end = makes[random.below(4)](there, &KEY).expect("an end");
        for _ in 0..random.below(6) {
            let mut bytes = random.bytes(300);
            // A length that fits, so that the handshake itself is read.
            if bytes.len() > 2 && random.below(2) == 0 {
                let length = (bytes.len() - 2) as u16;
                bytes[..2].copy_from_slice(&length.to_be_bytes());
            }
            let _ = sock::send(here.as_fd(), &bytes);
            let _ = end.receive();
            let _ = end.flush();
        }
        assert!(!end.established());
        assert!(!matches!(end.next::<Chunk>(), Ok(Some(_))));
    });
}

#[test]
fn a_local_client_may_send_anything() {
    rounds(0x55, |random| {
        let (here, there) = sockets();
        let mut end = Plain::new(there);
        let mut bytes = Vec::new();
        for number in 0..4 {
            wire::frame::encode(&message(number), &mut bytes).expect("encode");
        }
        damage(&mut bytes, random);
        let mut taken = 0;
        for piece in bytes.chunks(1 + random.below(2000)) {
            let _ = sock::send(here.as_fd(), piece);
            let received = end.receive();
            while let Ok(Some(chunk)) = end.next::<Chunk>() {
                if let Chunk::Data { bytes, .. } = chunk {
                    taken += bytes.len();
                }
            }
            if received.is_err() {
                break;
            }
        }
        assert!(taken <= bytes.len(), "{taken} bytes out of {}", bytes.len());
    });
}
