//! Two ends of an encrypted connection in one process, joined by a socket pair or loopback TCP; and what strangers can
//! do to one end.

use kern::clock::monotonic_us;
use kern::epoll::{Interest, Poller};
use kern::sock::{self, socketpair, Kind as Pair};
use kern::sys::{read, set_nonblocking};
use link::{Secure, QUEUE_MOST};
use std::os::fd::{AsFd, OwnedFd};
use vocab::{Fault, Kind, Result};
use wire::carry::{self, Piece, MOST};
use wire::stream::{Chunk, Stream};

const KEY: [u8; 32] = [7; 32];
const OTHER: [u8; 32] = [8; 32];

type Make = fn(OwnedFd, &[u8; 32]) -> Result<Secure>;
const CONTROL: (Make, Make) = (Secure::control_dialler, Secure::control_taker);
const CHANNEL: (Make, Make) = (Secure::channel_dialler, Secure::channel_taker);

fn sockets() -> (OwnedFd, OwnedFd) {
    let (one, other) = socketpair(Pair::Stream).expect("pair");
    set_nonblocking(one.as_fd(), true).expect("nonblocking");
    set_nonblocking(other.as_fd(), true).expect("nonblocking");
    (one, other)
}

fn tcp() -> (OwnedFd, OwnedFd) {
    let listener = sock::tcp_listen("127.0.0.1:0".parse().expect("an address")).expect("listen");
    let address = sock::local_address(listener.as_fd()).expect("bound");
    let dialled = sock::tcp_connect(address, monotonic_us() + 5_000_000).expect("connect");
    let poller = Poller::new().expect("epoll");
    poller.add(listener.as_fd(), 0, Interest::READ).expect("add");
    poller.wait(&mut Vec::new(), Some(5_000_000)).expect("wait");
    let taken = sock::accept(listener.as_fd()).expect("accept").expect("one waits");
    sock::tcp_tune(taken.as_fd(), sock::USER_TIMEOUT_MS).expect("tune");
    (dialled, taken)
}

/// Runs both ends in one epoll loop until `done`, or an end fails (0: the dialler, 1: the taker), or five seconds are
/// over.
fn run(
    ends: &mut [Secure; 2],
    mut done: impl FnMut(&mut [Secure; 2]) -> bool,
) -> std::result::Result<(), (usize, Fault)> {
    let poller = Poller::new().expect("epoll");
    for (token, end) in ends.iter().enumerate() {
        poller.add(end.fd(), token as u64, Interest::READ).expect("add");
    }
    let (mut ready, deadline) = (Vec::new(), monotonic_us() + 5_000_000);
    while !done(ends) {
        assert!(monotonic_us() < deadline, "not done in five seconds");
        for (token, end) in ends.iter_mut().enumerate() {
            end.flush().map_err(|fault| (token, fault))?;
            poller.modify(end.fd(), token as u64, Interest::reading_and(end.wants_write())).expect("modify");
        }
        if done(ends) {
            break;
        }
        poller.wait(&mut ready, Some(1_000_000)).expect("wait");
        for one in &ready {
            ends[one.token as usize].receive().map_err(|fault| (one.token as usize, fault))?;
        }
    }
    Ok(())
}

fn both(kind: (Make, Make), (one, other): (OwnedFd, OwnedFd)) -> [Secure; 2] {
    [kind.0(one, &KEY).expect("dialler"), kind.1(other, &KEY).expect("taker")]
}

fn established(kind: (Make, Make), sockets: (OwnedFd, OwnedFd)) -> [Secure; 2] {
    let mut ends = both(kind, sockets);
    run(&mut ends, |ends| ends.iter().all(Secure::established)).expect("a handshake");
    ends
}

fn data(bytes: Vec<u8>) -> Chunk {
    Chunk::Data { stream: Stream::Out, bytes }
}

fn credit(bytes: u32) -> Chunk {
    Chunk::Credit { stream: Stream::In, bytes }
}

#[test]
fn messages_go_both_ways_in_order_also_those_sent_before_the_handshake() {
    for kind in [CONTROL, CHANNEL] {
        for sockets in [sockets(), tcp()] {
            let mut ends = both(kind, sockets);
            for end in &mut ends {
                assert!(!end.established());
                (0..2000).for_each(|n| end.send(&credit(n)).expect("send"));
            }
            let mut got = [0, 0];
            run(&mut ends, |ends| {
                for (end, got) in ends.iter_mut().zip(&mut got) {
                    while let Some(chunk) = end.next::<Chunk>().expect("good frames") {
                        assert_eq!(chunk, credit(*got));
                        *got += 1;
                    }
                }
                got == [2000, 2000]
            })
            .expect("runs");
            assert!(ends.iter().all(|end| end.established() && end.queued() == 0 && !end.wants_write()));
        }
    }
}

/// The next that comes to the taker.
fn message<T: for<'b> minicbor::Decode<'b, ()>>(ends: &mut [Secure; 2]) -> T {
    let mut came = None;
    run(ends, |ends| {
        came = came.take().or_else(|| ends[1].next::<T>().expect("a message"));
        came.is_some()
    })
    .expect("it comes");
    came.expect("it has come")
}

#[test]
fn parts_are_one_message() {
    for kind in [CONTROL, CHANNEL] {
        let mut ends = both(kind, tcp());
        ends.iter_mut().for_each(Secure::keep_much);
        let pieces: Vec<Vec<u8>> = [0, 1, 65_519, 65_520, MOST].map(|length| vec![length as u8; length]).into();
        for (number, bytes) in pieces.iter().enumerate() {
            // The first two before the handshake is done.
            if number == 2 {
                run(&mut ends, |ends| ends.iter().all(Secure::established)).expect("a handshake");
            }
            ends[0].send(&credit(number as u32)).expect("room");
            ends[0].send_parts(&[&carry::head(bytes.len()), bytes]).expect("room");
        }
        for (number, bytes) in pieces.iter().enumerate() {
            assert_eq!(message::<Chunk>(&mut ends), credit(number as u32));
            assert!(message::<Piece>(&mut ends).bytes == *bytes);
        }
        assert_eq!(ends[1].next::<Piece>().expect("nothing"), None);
    }
}

/// Records of all sizes, read in pieces that have nothing to do with them, with messages before and behind.
#[test]
fn a_stream_is_what_was_sent_however_it_is_read() {
    for kind in [CONTROL, CHANNEL] {
        let mut ends = established(kind, tcp());
        let all: Vec<u8> = (0..3_000_000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        ends[0].send(&credit(1)).expect("room");
        assert_eq!(message::<Chunk>(&mut ends), credit(1));
        let mut from = 0;
        for length in [1, 17, 65_519, 65_520, 200_000, 131_038].into_iter().cycle() {
            let to = all.len().min(from + length);
            ends[0].send_parts(&[&all[from..to]]).expect("room");
            from = to;
            if from == all.len() {
                break;
            }
        }
        ends[0].send(&credit(2)).expect("room");
        let (mut got, mut room) = (Vec::new(), vec![0; 400_000]);
        for wanted in [1, 65_519, 70_000, 400_000, 5, 65_518].into_iter().cycle() {
            let wanted = wanted.min(all.len() - got.len());
            let mut done = 0;
            run(&mut ends, |ends| {
                done += ends[1].pull(&mut room[done..wanted]).expect("good records");
                done == wanted
            })
            .expect("it comes");
            got.extend_from_slice(&room[..wanted]);
            if got.len() == all.len() {
                break;
            }
        }
        assert!(got == all);
        // Some of what comes behind may have been read from the socket already.
        ends[1].receive().expect("good records");
        assert_eq!(message::<Chunk>(&mut ends), credit(2));
    }
}

/// Who has said how much is to come is woken when enough of it is there, and by the end of the connection.
#[test]
fn a_reader_of_much_is_not_woken_for_little() {
    let mut ends = established(CHANNEL, tcp());
    let readable = |end: &Secure, within: i32| {
        kern::poll::poll(&[(end.fd(), kern::poll::Ready::READ)], within).expect("poll")[0].readable
    };
    ends[1].awaits(1 << 20).expect("a number");
    ends[0].send_parts(&[&[7; 1000]]).expect("room");
    ends[0].flush().expect("sent");
    assert!(!readable(&ends[1], 20));
    ends[1].awaits(1000).expect("a number");
    assert!(readable(&ends[1], 5000), "it is little that it waits for");
    ends[1].awaits(1 << 20).expect("a number");
    ends[0].send_parts(&[&[7; 256 * 1024]]).expect("room");
    ends[0].flush().expect("sent");
    assert!(readable(&ends[1], 5000));
    let mut all = vec![0; 1000 + 256 * 1024];
    let mut done = 0;
    run(&mut ends, |ends| {
        done += ends[1].pull(&mut all[done..]).expect("good records");
        done == all.len()
    })
    .expect("it comes");
    let [gone, mut waits] = ends;
    waits.awaits(1 << 20).expect("a number");
    assert!(!readable(&waits, 0));
    drop(gone);
    assert!(readable(&waits, 5000), "its end");
    assert_eq!(waits.pull(&mut [0; 8]).expect_err("gone").kind, Kind::Gone);
}

#[test]
fn what_came_before_the_end_of_a_stream_is_there() {
    let mut ends = established(CHANNEL, tcp());
    ends[0].send_parts(&[&[7; 1000], &[8; 70_000]]).expect("room");
    ends[0].flush().expect("sent");
    let [gone, mut reads] = ends;
    drop(gone);
    let (mut all, mut done) = (vec![0; 100_000], 0);
    let fault = loop {
        kern::poll::poll(&[(reads.fd(), kern::poll::Ready::READ)], 5000).expect("poll");
        match reads.pull(&mut all[done..]) {
            Ok(count) => done += count,
            Err(fault) => break fault,
        }
    };
    assert_eq!((fault.kind, done), (Kind::Gone, 71_000));
    assert!(all[..1000] == [7; 1000] && all[1000..71_000] == [8; 70_000]);
}

#[test]
fn what_is_forged_ends_a_stream() {
    let (one, other) = tcp();
    let (between, far) = tcp();
    let mut near =
        [Secure::channel_dialler(one, &KEY).expect("an end"), Secure::channel_taker(far, &KEY).expect("an end")];
    // All that goes passes by here; one bit of the last record does not as it was.
    let pass = |from: &OwnedFd, to: &OwnedFd, change: bool| {
        let mut bytes = vec![0; 1 << 20];
        if let Ok(count) = read(from.as_fd(), &mut bytes) {
            if change {
                bytes[count / 2] ^= 1;
            }
            assert_eq!(kern::sock::send(to.as_fd(), &bytes[..count]), Ok(count));
        }
    };
    let deadline = monotonic_us() + 5_000_000;
    while !near.iter().all(Secure::established) {
        assert!(monotonic_us() < deadline);
        near.iter_mut().for_each(|end| end.flush().expect("sent"));
        pass(&other, &between, false);
        pass(&between, &other, false);
        near.iter_mut().for_each(|end| assert!(end.receive().is_ok()));
    }
    near[0].send_parts(&[&[7; 5000]]).expect("room");
    near[0].flush().expect("sent");
    kern::poll::poll(&[(other.as_fd(), kern::poll::Ready::READ)], 5000).expect("poll");
    pass(&other, &between, true);
    kern::poll::poll(&[(near[1].fd(), kern::poll::Ready::READ)], 5000).expect("poll");
    let mut room = [7; 8000];
    let fault = near[1].pull(&mut room).expect_err("forged");
    assert_eq!(fault.kind, Kind::Wire);
    assert!(room[..5000].iter().all(|byte| *byte == 0), "nothing of it is there");
    assert_eq!(near[1].pull(&mut room).expect_err("dead").kind, Kind::Wire);
}

#[test]
fn a_message_of_the_largest_size_arrives_and_a_larger_one_is_not_sent() {
    let mut ends = established(CONTROL, tcp());
    let large = data((0..8 * 1024 * 1024 - 64).map(|n| (n % 251) as u8).collect());
    ends[0].send(&large).expect("send");
    ends[0].send(&Chunk::Ended).expect("send");
    let mut got = Vec::new();
    run(&mut ends, |ends| {
        got.extend(ends[1].next::<Chunk>().expect("good frames"));
        got.len() == 2
    })
    .expect("runs");
    assert!(got == [large, Chunk::Ended]);
    let fault = ends[0].send(&data(vec![0; 8 * 1024 * 1024])).expect_err("too long");
    assert_eq!((fault.kind, ends[0].queued()), (Kind::Wire, 0));
}

#[test]
fn another_key_is_refused_on_both_sides() {
    for kind in [CONTROL, CHANNEL] {
        let (one, other) = tcp();
        let mut ends = [kind.0(one, &KEY).expect("dialler"), kind.1(other, &OTHER).expect("taker")];
        ends[0].send(&Chunk::Ended).expect("queued");
        let (who, fault) = run(&mut ends, |_| false).expect_err("keys differ");
        assert_eq!((who, fault.kind), (1, Kind::Refused), "{fault}");
        assert!(ends[1].next::<Chunk>().expect("nothing").is_none());
        assert_eq!(ends[1].receive().expect_err("for good"), fault);
        assert!(ends[1].send(&Chunk::Ended).is_err() && !ends[1].established());
        let [mut dialler, taker] = ends;
        drop(taker);
        let fault = loop {
            if let Err(fault) = dialler.receive() {
                break fault;
            }
        };
        assert_eq!(fault.kind, Kind::Refused, "{fault}");
        assert!(!dialler.established());
    }
}

#[test]
fn a_control_end_and_a_channel_end_do_not_talk() {
    let (one, other) = sockets();
    let mut ends =
        [Secure::control_dialler(one, &KEY).expect("dialler"), Secure::channel_taker(other, &KEY).expect("taker")];
    assert!(run(&mut ends, |_| false).is_err());
}

/// One end and a stranger's socket that has sent `bytes` to it.
fn stranger(make: Make, bytes: &[u8]) -> (Secure, OwnedFd) {
    let (one, other) = sockets();
    assert_eq!(sock::send(other.as_fd(), bytes), Ok(bytes.len()));
    (make(one, &KEY).expect("an end"), other)
}

#[test]
fn garbage_instead_of_a_handshake_is_an_error_at_once() {
    for make in [CONTROL.0, CONTROL.1, CHANNEL.0, CHANNEL.1] {
        for bytes in [b"GET / HTTP/1.1\r\n\r\n".as_slice(), &[0, 0], &[0, 1, 1], &[0xff; 4096], &[0, 48].repeat(40)] {
            let (mut end, _other) = stranger(make, bytes);
            let fault = end.receive().expect_err("garbage");
            assert!(matches!(fault.kind, Kind::Wire | Kind::Refused), "{fault}");
            assert!(end.flush().is_err() && !end.wants_write());
        }
    }
}

#[test]
fn half_a_handshake_waits_and_its_end_is_refused() {
    let (mut end, other) = stranger(CONTROL.1, &[0, 48, 1, 2, 3]);
    assert!(!end.receive().expect("half"));
    assert!(!end.established());
    drop(other);
    assert_eq!(end.receive().expect_err("closed").kind, Kind::Refused);
}

/// Everything that one end has written, taken off its socket's other side.
fn drain(fd: &OwnedFd) -> Vec<u8> {
    let (mut all, mut part) = (Vec::new(), vec![0; 1 << 20]);
    while let Ok(count) = read(fd.as_fd(), &mut part) {
        assert!(count > 0);
        all.extend_from_slice(&part[..count]);
    }
    all
}

/// An established end whose peer is now only a socket, with what the peer would send for `message`, in its records.
fn intercepted(message: &Chunk) -> (Secure, OwnedFd, Vec<u8>) {
    let [end, mut peer] = established(CHANNEL, sockets());
    let (near, far) = sockets();
    peer.send(message).expect("send");
    let keep = peer.fd().try_clone_to_owned().expect("dup");
    peer.flush().expect("flush");
    let mut end = end;
    let sealed = drain(&end.fd().try_clone_to_owned().expect("dup"));
    assert!(!end.receive().expect("nothing more"));
    drop((near, far, peer));
    (end, keep, sealed)
}

#[test]
fn a_changed_record_is_found_and_half_of_one_is_gone_with_its_peer() {
    let (mut end, peer, mut sealed) = intercepted(&credit(1));
    *sealed.last_mut().expect("not empty") ^= 1;
    sock::send(peer.as_fd(), &sealed).expect("send");
    let fault = end.receive().expect_err("changed");
    assert_eq!(fault.kind, Kind::Wire, "{fault}");

    let (mut end, peer, sealed) = intercepted(&credit(1));
    sock::send(peer.as_fd(), &sealed[..sealed.len() - 1]).expect("send");
    assert!(!end.receive().expect("half"));
    drop(peer);
    let fault = end.receive().expect_err("cut");
    assert!(fault.kind == Kind::Gone && fault.to_string().contains("middle"), "{fault}");
}

#[test]
fn a_repeated_record_is_found() {
    let (mut end, peer, sealed) = intercepted(&credit(1));
    sock::send(peer.as_fd(), &sealed.repeat(2)).expect("send");
    assert_eq!(end.receive().expect_err("repeated").kind, Kind::Wire);
    assert_eq!(end.next::<Chunk>().expect("the first is good"), Some(credit(1)));
}

#[test]
fn what_came_before_the_end_is_there_and_then_the_peer_is_gone() {
    let [mut end, mut peer] = established(CONTROL, tcp());
    peer.send(&Chunk::Ended).expect("send");
    peer.flush().expect("flush");
    drop(peer);
    let deadline = monotonic_us() + 5_000_000;
    let fault = loop {
        assert!(monotonic_us() < deadline);
        match end.receive() {
            Ok(_) => {}
            Err(fault) => break fault,
        }
    };
    assert_eq!(fault.kind, Kind::Gone, "{fault}");
    assert_eq!(end.next::<Chunk>().expect("whole"), Some(Chunk::Ended));
}

#[test]
fn last_words_are_heard_when_writing_fails_first() {
    let [mut end, mut peer] = established(CONTROL, sockets());
    peer.send(&credit(42)).expect("send");
    peer.flush().expect("flush");
    drop(peer);
    end.send(&Chunk::Ended).expect("queued");
    assert_eq!(end.flush().expect_err("closed").kind, Kind::Gone);
    assert_eq!(end.next::<Chunk>().expect("whole"), Some(credit(42)));
}

#[test]
fn a_message_that_is_none_is_named_and_the_next_is_read() {
    let [mut end, mut peer] = established(CONTROL, sockets());
    peer.send(&17u32).expect("send");
    peer.send(&Chunk::Ended).expect("send");
    peer.flush().expect("flush");
    end.receive().expect("two frames");
    let fault = end.next::<Chunk>().expect_err("a number");
    assert!(fault.kind == Kind::Wire && fault.to_string().contains("Chunk"), "{fault}");
    assert_eq!(end.next::<Chunk>().expect("good"), Some(Chunk::Ended));
}

#[test]
fn a_reader_that_takes_nothing_stops_both_sides_from_growing() {
    let [mut end, mut peer] = established(CHANNEL, tcp());
    let chunk = data(vec![5; 48 * 1024]);
    let refused = loop {
        if let Err(fault) = peer.send(&chunk) {
            break fault;
        }
        peer.flush().expect("flush");
        // The reader's turn: it receives, but never asks for a message.
        end.receive().expect("receive");
        assert!(peer.queued() < QUEUE_MOST + 1024 * 1024);
    };
    assert_eq!(refused.kind, Kind::Gone, "{refused}");
    let mut count = 0;
    while end.next::<Chunk>().expect("good").is_some() {
        count += 1;
    }
    assert!((100..300).contains(&count), "about 8 MiB were taken: {count} chunks");
}
