//! Peers that send more than they may, or give nothing.

use crate::daemon::Daemon;
use crate::kept::Start;
use crate::{shoal_run, trial};
use agent::streams::Streams;
use kern::poll::{poll, Ready};
use libtest_mimic::Trial;
use link::Secure;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};
use wire::ask::Answer;
use wire::stream::{Chunk, Stream, CREDIT, PIECE};

pub(crate) fn add(trials: &mut Vec<Trial>) {
    trials.push(trial("a_node_that_sends_too_much_is_cut_off", greedy_node));
    trials.push(trial("a_relay_that_sends_too_much_is_cut_off", greedy_relay));
    trials.push(trial("a_relay_that_takes_nothing_gets_its_credit_and_no_more", lazy_relay));
    trials.push(trial("a_channel_that_breaks_ends_both_sides", broken_channel));
    trials.push(trial("a_relay_that_is_not_there", unreachable_relay));
    trials.push(trial("ends_that_come_in_one_piece_with_the_programs_end", ends_in_one_piece));
}

fn socket_pair() -> (OwnedFd, OwnedFd) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("listen");
    let one = TcpStream::connect(listener.local_addr().expect("address")).expect("connect");
    let (other, _) = listener.accept().expect("accept");
    one.set_nonblocking(true).expect("fcntl");
    other.set_nonblocking(true).expect("fcntl");
    (one.into(), other.into())
}

/// Goes on with a channel until `done`, at most ten seconds; whether that came about, and not the channel's end.
fn drive(channel: &mut Secure, mut done: impl FnMut(&mut Secure) -> bool) -> bool {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !done(channel) {
        assert!(Instant::now() < deadline, "it does not come");
        if channel.receive().and_then(|_| channel.flush()).is_err() {
            return done(channel);
        }
        let wanted = Ready { readable: true, writable: channel.wants_write(), over: false };
        poll(&[(channel.fd(), wanted)], 20).expect("poll");
    }
    true
}

fn data(stream: Stream) -> Chunk {
    Chunk::Data { stream, bytes: vec![b'x'; PIECE] }
}

fn greedy_node() {
    let daemon = Daemon::new(Arc::new(Streams::start().expect("streams")));
    let mut command = shoal_run(&daemon, "", &["x"]);
    let mut run = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).start();
    let client = daemon.accept(1);
    let (relay, node) = socket_pair();
    client.say(&Answer::Channel { copy: 0, further: None }, Some(relay.as_fd()));
    drop(relay);
    let mut node = Secure::channel_dialler(node, &[1; 32]).expect("a channel");
    // Its standard output is a pipe that nobody reads, so no credit comes back but for what the pipe takes.
    for _ in 0..2 * CREDIT as usize / PIECE {
        node.send(&data(Stream::Out)).expect("queued");
    }
    assert!(!drive(&mut node, |_| false), "the relay hangs up");
    client.not_started(0, vocab::Fault::gone("the end of this trial"), 9);
    let mut text = String::new();
    drop(run.stdout.take());
    run.stderr.take().expect("piped").read_to_string(&mut text).expect("its errors");
    assert!(text.contains("sent more than it may"), "{text}");
    run.wait().expect("its end");
}

/// The relay has taken everything from the socket when the program's end stops it: what is behind that is in its own
/// memory, and no poller tells of it.
fn ends_in_one_piece() {
    let daemon = Daemon::new(Arc::new(Streams::start().expect("streams")));
    let mut command = shoal_run(&daemon, "", &["x"]);
    let mut run = command.stdin(Stdio::null()).stdout(Stdio::piped()).start();
    let client = daemon.accept(1);
    let (relay, node) = socket_pair();
    client.say(&Answer::Channel { copy: 0, further: None }, Some(relay.as_fd()));
    drop(relay);
    let mut node = Secure::channel_dialler(node, &[1; 32]).expect("a channel");
    assert!(drive(&mut node, |node| node.established()));
    let text = |text: &[u8]| Chunk::Data { stream: Stream::Out, bytes: text.to_vec() };
    let end = |stream| Chunk::End { stream };
    for chunk in [text(b"early "), Chunk::Ended, text(b"late"), end(Stream::Out), end(Stream::Err)] {
        node.send(&chunk).expect("queued");
    }
    node.flush().expect("one record");
    client.say(&Answer::Ended { copy: 0, exit: vocab::Exit::Code(4) }, None);
    assert_eq!(run.wait().expect("its end").code(), Some(4));
    let ended = drive(&mut node, |_| false);
    assert!(!ended, "the relay of late output has left");
    let mut output = Vec::new();
    run.stdout.take().expect("piped").read_to_end(&mut output).expect("its output");
    assert_eq!(output, b"early late");
}

/// Streams of a program that is not there, and the relay's side of their channel.
fn node_alone(streams: &Arc<Streams>) -> (agent::streams::ChildEnds, Secure) {
    let (relay, node) = socket_pair();
    let open = agent::streams::Open {
        to: agent::streams::To::Connected(node),
        key: [7; 32],
        stdio: wire::run::Stdio::Pipes,
        waits: false,
    };
    let ends = streams.open(open).expect("streams");
    let mut relay = Secure::channel_taker(relay, &[7; 32]).expect("a channel");
    assert!(drive(&mut relay, |relay| relay.established()));
    (ends, relay)
}

fn greedy_relay() {
    let streams = Arc::new(Streams::start().expect("streams"));
    let (ends, mut relay) = node_alone(&streams);
    for _ in 0..2 * CREDIT as usize / PIECE {
        relay.send(&data(Stream::In)).expect("queued");
    }
    assert!(!drive(&mut relay, |_| false), "the node hangs up");
    let mut got = Vec::new();
    std::fs::File::from(ends.stdin).read_to_end(&mut got).expect("its input");
    assert!(got.len() <= CREDIT as usize + 65536, "{} bytes", got.len());
}

fn lazy_relay() {
    let streams = Arc::new(Streams::start().expect("streams"));
    let (ends, mut relay) = node_alone(&streams);
    kern::sys::set_nonblocking(ends.stdout.as_fd(), true).expect("fcntl");
    let (mut got, mut idle) = (0, 0);
    while idle < 20 {
        let wrote = std::fs::File::from(ends.stdout.try_clone().expect("dup")).write(&[b'y'; 9999]).is_ok();
        let mut came = false;
        relay.receive().expect("open");
        while let Some(chunk) = relay.next::<Chunk>().expect("chunks") {
            let Chunk::Data { bytes, .. } = chunk else { panic!("{chunk:?}") };
            assert!(bytes.len() <= PIECE);
            got += bytes.len();
            came = true;
        }
        relay.flush().expect("open");
        idle = if wrote || came { 0 } else { idle + 1 };
        poll(&[(relay.fd(), Ready::READ)], 5).expect("poll");
    }
    assert_eq!(got, CREDIT as usize);
    relay.send(&Chunk::Credit { stream: Stream::Out, bytes: 1 }).expect("queued");
    assert!(drive(&mut relay, |relay| matches!(relay.next(), Ok(Some(Chunk::Data { bytes, .. })) if bytes.len() == 1)));
}

fn broken_channel() {
    let streams = Arc::new(Streams::start().expect("streams"));
    let (ends, relay) = node_alone(&streams);
    drop(relay);
    assert_eq!(std::fs::File::from(ends.stdin).read(&mut [0]).expect("its input"), 0);
    let ready = poll(&[(ends.stdout.as_fd(), Ready::OVER)], 10_000).expect("poll");
    assert!(ready[0].over, "EPIPE");
    let error = std::fs::File::from(ends.stdout).write(b"x").expect_err("no reader");
    assert_eq!(error.raw_os_error(), Some(32));
}

fn unreachable_relay() {
    let streams = Arc::new(Streams::start().expect("streams"));
    let listener = TcpListener::bind("127.0.0.1:0").expect("listen");
    let address = listener.local_addr().expect("address");
    drop(listener);
    let to = agent::streams::To::Dial { address, token: [0; 16] };
    let stdio = wire::run::Stdio::Pipes;
    let open = agent::streams::Open { to, key: [7; 32], stdio, waits: false };
    let ends = streams.open(open).expect("streams");
    assert_eq!(std::fs::File::from(ends.stdin).read(&mut [0]).expect("its input"), 0);
}
