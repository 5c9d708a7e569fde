//! A peer that has the key and claims, inside the encrypted link, more than a frame may have. Alone in its process, whose memory is looked at.

use kern::sock::{self, socketpair, Kind as Pair};
use kern::sys::{read, set_nonblocking};
use link::Secure;
use std::os::fd::{AsFd, OwnedFd};
use vocab::{Kind, Result};
use wire::stream::{Chunk, Stream};

const KEY: [u8; 32] = [7; 32];

type Make = fn(OwnedFd, &[u8; 32]) -> Result<Secure>;

fn sockets() -> (OwnedFd, OwnedFd) {
    let (one, other) = socketpair(Pair::Stream).expect("pair");
    set_nonblocking(one.as_fd(), true).expect("nonblocking");
    set_nonblocking(other.as_fd(), true).expect("nonblocking");
    (one, other)
}

/// A peer that has the key, and seals by hand what it likes: the records of its side of the handshake, and then these bytes in one record.
struct ByHand {
    fd: OwnedFd,
    shaking: Option<snow::HandshakeState>,
    noise: Option<snow::TransportState>,
    come: Vec<u8>,
}

impl ByHand {
    fn new(fd: OwnedFd, pattern: &str, dialler: bool) -> ByHand {
        let builder = snow::Builder::new(pattern.parse().expect("a pattern")).prologue(b"shoal").expect("once");
        let own = [9; 32];
        let builder = builder.psk(0, &KEY).and_then(|builder| match pattern.contains("XX") {
            true => builder.local_private_key(&own),
            false => Ok(builder),
        });
        let builder = builder.expect("keys");
        let shaking = if dialler { builder.build_initiator() } else { builder.build_responder() };
        ByHand { fd, shaking: Some(shaking.expect("a handshake")), noise: None, come: Vec::new() }
    }

    fn write(&self, record: &[u8]) {
        let length = (record.len() as u16).to_be_bytes();
        sock::send(self.fd.as_fd(), &[&length, record].concat()).expect("room");
    }

    /// Goes on with the handshake as far as it can.
    fn shake(&mut self) {
        let mut buffer = vec![0; 65536];
        if let Ok(got) = read(self.fd.as_fd(), &mut buffer) {
            self.come.extend_from_slice(&buffer[..got]);
        }
        while let Some(mut shaking) = self.shaking.take() {
            let mut room = [0; 1024];
            if shaking.is_handshake_finished() {
                self.noise = Some(shaking.into_transport_mode().expect("over"));
                return;
            }
            if shaking.is_my_turn() {
                let length = shaking.write_message(&[], &mut room).expect("a message");
                self.write(&room[..length]);
            } else {
                let length = self.come.first_chunk().map(|head| usize::from(u16::from_be_bytes(*head)));
                let Some(record) = length.and_then(|length| self.come.get(2..2 + length)).map(<[u8]>::to_vec) else {
                    self.shaking = Some(shaking);
                    return;
                };
                shaking.read_message(&record, &mut room).expect("the key");
                self.come.drain(..2 + record.len());
            }
            self.shaking = Some(shaking);
        }
    }

    fn say(&mut self, bytes: &[u8]) {
        let mut room = vec![0; bytes.len() + 16];
        let length = self.noise.as_mut().expect("established").write_message(bytes, &mut room).expect("sealed");
        self.write(&room[..length]);
    }
}

/// Bytes of address space that this process has had at most.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("proc");
    let line = status.lines().find_map(|line| line.strip_prefix("VmPeak:")).expect("a line");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") * 1024
}

#[test]
fn a_frame_that_claims_a_gigabyte_is_an_error_and_takes_no_memory() {
    let ends: [(Make, &str, bool); 4] = [
        (Secure::control_taker, "Noise_XXpsk0_25519_AESGCM_BLAKE2s", true),
        (Secure::control_dialler, "Noise_XXpsk0_25519_AESGCM_BLAKE2s", false),
        (Secure::channel_taker, "Noise_NNpsk0_25519_AESGCM_BLAKE2s", true),
        (Secure::channel_dialler, "Noise_NNpsk0_25519_AESGCM_BLAKE2s", false),
    ];
    let most = wire::frame::MOST as u32;
    for (make, pattern, dialler) in ends {
        for (claimed, refused) in [(most, false), (most + 1, true), (1 << 30, true), (u32::MAX, true)] {
            let (here, there) = sockets();
            let mut end = make(there, &KEY).expect("an end");
            let mut peer = ByHand::new(here, pattern, dialler);
            while peer.noise.is_none() || !end.established() {
                end.flush().expect("an honest handshake");
                peer.shake();
                if peer.noise.is_some() && !end.established() {
                    peer.say(&[]);
                }
                end.receive().expect("an honest handshake");
            }
            let message = Chunk::Data { stream: Stream::Out, bytes: vec![3; 700] };
            let mut good = Vec::new();
            wire::frame::encode(&message, &mut good).expect("encode");
            let before = peak();
            peer.say(&[&good[..], &claimed.to_be_bytes(), &[0x82; 1000]].concat());
            end.receive().expect("a good record");
            assert_eq!(end.next::<Chunk>().expect("what came before it"), Some(message));
            for _ in 0..2 {
                let next = end.next::<Chunk>();
                assert_eq!(next.as_ref().is_err_and(|fault| fault.kind == Kind::Wire), refused, "{claimed}: {next:?}");
                assert!(refused || next == Ok(None));
            }
            let grown = peak() - before;
            assert!(grown < 16 << 20, "{grown} bytes for a claim of {claimed}");
        }
    }
}
