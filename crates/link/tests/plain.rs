//! Frames with descriptors between two ends on one machine.

use kern::sock::{self, socketpair, Kind as Pair};
use kern::sys::{pipe, read, set_nonblocking, write};
use link::{Framed, Plain};
use std::os::fd::{AsFd, OwnedFd};
use vocab::Kind;
use wire::ask::{Answer, Ask};

fn pair() -> (OwnedFd, OwnedFd) {
    let (one, other) = socketpair(Pair::Stream).expect("pair");
    set_nonblocking(one.as_fd(), true).expect("nonblocking");
    set_nonblocking(other.as_fd(), true).expect("nonblocking");
    (one, other)
}

/// Loop code that serves both kinds of connection takes the trait.
fn take_all<L: Framed>(link: &mut L, mut each: impl FnMut(Answer, &mut L)) {
    while link.receive().expect("receive") {}
    while let Some(answer) = link.next().expect("good frames") {
        each(answer, link);
    }
}

#[test]
fn each_descriptor_comes_with_its_message_also_when_the_socket_is_full() {
    let (one, other) = pair();
    let (mut daemon, mut client) = (Plain::new(one), Plain::taking(other, 64));
    let mut read_ends = Vec::new();
    let filler = Answer::Granted { hold: "x".repeat(70_000), copies: vec![] };
    for copy in 0..20 {
        daemon.send(&filler).expect("send");
        let (read_end, write_end) = pipe().expect("pipe");
        daemon.send_with(&Answer::Channel { copy, further: None }, write_end).expect("send");
        read_ends.push(read_end);
    }
    let (mut copies, mut fillers) = (0, 0);
    while daemon.wants_write() || copies < 20 {
        daemon.flush().expect("flush");
        take_all(&mut client, |answer, client| match answer {
            Answer::Channel { copy, .. } => {
                assert_eq!(copy, copies);
                let fd = client.descriptor().expect("came with it");
                assert_eq!(write(fd.as_fd(), &[copy as u8]), Ok(1));
                copies += 1;
            }
            other => {
                assert_eq!(other, filler);
                fillers += 1;
            }
        });
    }
    assert_eq!(fillers, 20);
    assert!(client.descriptor().is_none());
    for (copy, read_end) in read_ends.iter().enumerate() {
        let mut byte = [0];
        assert_eq!((read(read_end.as_fd(), &mut byte), byte[0]), (Ok(1), copy as u8));
        assert_eq!(read(read_end.as_fd(), &mut byte), Ok(0), "the sender has closed its copy");
    }
}

#[test]
fn a_descriptor_that_nobody_asked_for_is_refused() {
    let (one, other) = pair();
    let mut daemon = Plain::new(other);
    sock::send_with(one.as_fd(), b"x", &[one.as_fd()]).expect("send");
    assert_eq!(daemon.receive().expect_err("unasked").kind, Kind::Refused);
}

#[test]
fn the_end_of_the_peer_and_bad_frames_are_clean_errors() {
    let (one, other) = pair();
    let mut link = Plain::new(other);
    sock::send(one.as_fd(), &[0x40, 0, 0, 0, 1, 2, 3]).expect("send");
    assert!(!link.receive().expect("receive"));
    for _ in 0..2 {
        assert_eq!(link.next::<Ask>().expect_err("a gigabyte").kind, Kind::Wire);
    }

    let (one, other) = pair();
    let (mut client, mut link) = (Plain::new(one), Plain::new(other));
    client.send(&Ask::Nodes).expect("send");
    client.flush().expect("flush");
    sock::send(client.fd(), &[0, 0, 0, 9, 1]).expect("half a frame");
    drop(client);
    assert!(!link.receive().expect("all there is"));
    assert_eq!(link.next::<Ask>().expect("whole"), Some(Ask::Nodes));
    assert_eq!(link.next::<Ask>().expect("half"), None);
    let fault = link.receive().expect_err("closed");
    assert!(fault.kind == Kind::Gone && fault.to_string().contains("middle"), "{fault}");
    link.send(&Ask::Nodes).expect("queued");
    assert_eq!(link.flush().expect_err("closed").kind, Kind::Gone);
}

#[test]
fn a_flood_of_messages_that_nobody_takes_is_not_read() {
    let (one, other) = pair();
    let mut link = Plain::new(other);
    let piece = vec![0; 64 * 1024];
    let mut sent = 0;
    loop {
        match sock::send(one.as_fd(), &piece) {
            Ok(count) => sent += count,
            // The socket is full: the other side has stopped reading, or has its turn now.
            Err(_) if sent > 8 * 1024 * 1024 => break,
            Err(_) => drop(link.receive().expect("receive")),
        }
        assert!(sent < 16 * 1024 * 1024, "it reads on and on");
    }
}
