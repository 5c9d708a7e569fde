//! Programs that move from node to node while they read and write. Here every node is the same thread, and the program is this one.

use crate::daemon::{Client, Daemon};
use crate::kept::{Kept, Start};
use crate::{shoal_run, trial};
use agent::streams::{ChildEnds, Streams};
use kern::poll::{poll, Ready, EAGAIN};
use kern::sys;
use libtest_mimic::Trial;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::thread::JoinHandle;
use vocab::Exit;
use wire::ask::Answer;

pub(crate) fn add(trials: &mut Vec<Trial>) {
    trials.push(trial("no_byte_is_lost_or_doubled_when_a_program_moves", at_random));
    trials.push(trial("programs_move_while_nobody_reads_their_output", while_nobody_reads));
    trials.push(trial("a_move_that_did_not_come_about_leaves_the_streams_as_they_were", stays));
    trials.push(trial("a_node_that_is_lost_begins_no_branch_from_another_one", breaks));
    trials.push(trial("a_branch_whose_turn_nobody_tells_keeps_no_relay", outlives));
    trials.push(trial("lines_have_the_prefix_of_the_node_on_which_they_end", prefixes));
    trials.push(trial("streams_that_nobody_connects_again_are_cut_off", alone));
}

/// Numbers that look like chance and are the same every time (xorshift).
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % most
    }
}

fn numbered(from: usize, count: usize) -> Vec<u8> {
    (from..from + count).map(|n| (n % 65_521 % 251) as u8).collect()
}

/// The program, wherever it is.
struct Mover {
    client: Client,
    streams: Arc<Streams>,
    ends: ChildEnds,
    hops: u8,
    read: Vec<u8>,
    /// Bytes.
    written: usize,
}

impl Mover {
    fn begin(flags: &str) -> (Mover, Kept) {
        let streams = Arc::new(Streams::start().expect("streams"));
        let daemon = Daemon::new(streams.clone());
        let mut command = shoal_run(&daemon, flags, &["x"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let run = command.start();
        let client = daemon.accept(1);
        let ends = client.open(0);
        client.connect(0);
        let mut mover = Mover { client, streams, ends, hops: 0, read: Vec::new(), written: 0 };
        mover.settle_in();
        (mover, run)
    }

    fn settle_in(&mut self) {
        for fd in [&self.ends.stdin, &self.ends.stdout] {
            sys::set_nonblocking(fd.as_fd(), true).expect("fcntl");
        }
    }

    /// Freezes for good here and goes on there; `prepared`: the new channel is connected before that.
    fn hop(&mut self, prepared: bool) {
        self.hops += 1;
        let there = self.client.open_again(self.hops);
        if prepared {
            self.client.connect_again(self.hops);
        }
        let here = std::mem::replace(&mut self.ends, there);
        self.streams.left(here.id, self.hops.into());
        drop(here);
        self.settle_in();
        if !prepared {
            self.client.connect_again(self.hops);
        }
    }

    /// Reads what is there of its input, at most so much; false at the end of it.
    fn read(&mut self, most: usize) -> bool {
        let mut buffer = vec![0; most];
        match sys::read(self.ends.stdin.as_fd(), &mut buffer) {
            Ok(0) => return false,
            Ok(n) => self.read.extend_from_slice(&buffer[..n]),
            Err(errno) => assert_eq!(errno, EAGAIN),
        }
        true
    }

    /// Writes what is taken of the next bytes of its output.
    fn write(&mut self, most: usize) {
        match sys::write(self.ends.stdout.as_fd(), &numbered(self.written, most)) {
            Ok(n) => self.written += n,
            Err(errno) => assert_eq!(errno, EAGAIN),
        }
    }

    fn wait(&self, ms: i32) {
        let _ = poll(&[(self.ends.stdin.as_fd(), Ready::READ)], ms).expect("poll");
    }

    /// Writes to its end and reads to the end of its input, and ends.
    fn finish(mut self, output: usize) -> (Vec<u8>, Client) {
        let mut open = true;
        while open || self.written < output {
            let reading = if open { Ready::READ } else { Ready::OVER };
            let writing = if self.written < output { Ready::WRITE } else { Ready::OVER };
            let wanted = [(self.ends.stdin.as_fd(), reading), (self.ends.stdout.as_fd(), writing)];
            let ready = poll(&wanted, 20_000).expect("poll");
            assert!(ready.iter().any(|one| *one != Ready::default()), "nothing comes or goes within 20 s");
            open = open && self.read(65_536);
            if self.written < output {
                self.write(65_536.min(output - self.written));
            }
        }
        let Mover { client, streams, ends, read, .. } = self;
        let id = ends.id;
        drop(ends);
        streams.ended(id);
        client.say(&Answer::Ended { copy: 0, exit: Exit::Code(3) }, None);
        (read, client)
    }
}

fn typed(run: &mut Child, input: usize) -> JoinHandle<()> {
    let mut stdin = run.stdin.take().expect("piped");
    std::thread::spawn(move || stdin.write_all(&numbered(0, input)).expect("a reader"))
}

fn collected(run: &mut Child) -> JoinHandle<Vec<u8>> {
    let mut stdout = run.stdout.take().expect("piped");
    std::thread::spawn(move || {
        let mut all = Vec::new();
        stdout.read_to_end(&mut all).expect("its output");
        all
    })
}

fn check(got: &[u8], count: usize, what: &str) {
    let wanted = numbered(0, count);
    let differs = got.iter().zip(&wanted).position(|(a, b)| a != b);
    assert!(got == wanted, "{what}: {} bytes of {count}, which differ from byte {differs:?}", got.len());
}

fn at_random() {
    for seed in 1..=8u64 {
        let mut dice = Dice(seed * 0x9e37_79b9_7f4a_7c15);
        let (mut mover, mut run) = Mover::begin("");
        // Sometimes little, so that its end comes early.
        let input = dice.below(if seed % 3 == 0 { 5_000 } else { 3_000_000 });
        let (typing, output) = (typed(&mut run, input), collected(&mut run));
        for _ in 0..400 {
            match dice.below(16) {
                0 if mover.hops < 100 => mover.hop(dice.below(2) == 0),
                1..=6 => drop(mover.read(1 + dice.below(40_000))),
                7..=12 => mover.write(1 + dice.below(40_000)),
                _ => mover.wait(dice.below(5) as i32),
            }
        }
        assert!(mover.hops > 5);
        let whole = mover.written + dice.below(500_000);
        let (read, _client) = mover.finish(whole);
        typing.join().expect("typed");
        assert_eq!(run.wait().expect("its end").code(), Some(3));
        check(&read, input, "input");
        check(&output.join().expect("read"), whole, "output");
    }
}

/// What it writes fills the pipe to the relay, then what the relay takes ahead, and then its own pipes.
fn while_nobody_reads() {
    let (mut mover, mut run) = Mover::begin("");
    let typing = typed(&mut run, 100_000);
    for hop in 0..6 {
        for _ in 0..200 {
            mover.write(10_000);
            mover.read(100);
            mover.wait(1);
        }
        mover.hop(hop % 2 == 0);
    }
    let most = 64 * 1024 + 2 * wire::stream::CREDIT as usize;
    assert!(mover.written > most, "the relay takes what one channel may bring, and what the one before has brought");
    let (whole, output) = (mover.written, collected(&mut run));
    let (read, _client) = mover.finish(whole);
    typing.join().expect("typed");
    assert_eq!(run.wait().expect("its end").code(), Some(3));
    check(&read, 100_000, "input");
    check(&output.join().expect("read"), whole, "output");
}

fn stays() {
    let (mut mover, mut run) = Mover::begin("");
    let (typing, output) = (typed(&mut run, 1_000_000), collected(&mut run));
    for round in 0..10 {
        mover.write(30_000);
        mover.read(30_000);
        mover.hops += 1;
        let there = mover.client.open_again(mover.hops);
        mover.client.connect_again(mover.hops);
        if round % 2 == 0 {
            drop(there);
            mover.client.say(&Answer::Stays { copy: 0, branch: mover.hops.into() }, None);
        } else {
            mover.client.say(&Answer::Stays { copy: 0, branch: mover.hops.into() }, None);
            drop(there);
        }
        mover.wait(5);
        if round % 3 == 0 {
            mover.hop(true);
        }
    }
    let (read, _client) = mover.finish(700_000);
    typing.join().expect("typed");
    assert_eq!(run.wait().expect("its end").code(), Some(3));
    check(&read, 1_000_000, "input");
    check(&output.join().expect("read"), 700_000, "output");
}

fn breaks() {
    let (mover, mut run) = Mover::begin("");
    drop(run.stdin.take());
    let mut text = [0; 6];
    while sys::read(mover.ends.stdin.as_fd(), &mut text) != Ok(0) {
        mover.wait(20_000);
    }
    let elsewhere = Streams::start().expect("streams");
    let child = mover.client.open_on(&elsewhere, 1);
    mover.client.connect_further(1, 0, false);
    mover.streams.left(mover.ends.id, 1);
    write_text(&child.stdout, "child\n");
    run.stdout.as_mut().expect("piped").read_exact(&mut text).expect("its output");
    assert_eq!(&text, b"child\n");
    // One is on its way from where the program is, another one from the node that is lost; that one does not come.
    let next = mover.client.open_again(2);
    mover.client.connect_further(2, 0, false);
    write_text(&next.stdout, "behind\n");
    let never = mover.client.open_again(3);
    mover.client.connect_further(3, 1, false);
    // When the second of these has come, what the daemon had said before the first has been heard.
    for _ in 0..2 {
        write_text(&child.stdout, "child\n");
        run.stdout.as_mut().expect("piped").read_exact(&mut text).expect("its output");
    }
    drop(elsewhere);
    let mut said = [0; 300];
    let got = run.stderr.as_mut().expect("piped").read(&mut said).expect("its errors");
    let said = String::from_utf8_lossy(&said[..got]).into_owned();
    assert!(said.contains("what was under way in the program's streams is lost"), "{said}");
    mover.client.say(&Answer::Stays { copy: 0, branch: 3 }, None);
    drop((child, never));
    write_text(&mover.ends.stdout, "before\n");
    mover.streams.left(mover.ends.id, 2);
    drop(next);
    let output = collected(&mut run);
    let (_, _client) = mover.finish(0);
    assert_eq!(run.wait().expect("its end").code(), Some(3));
    assert_eq!(String::from_utf8_lossy(&output.join().expect("read")), "before\nbehind\n");
}

fn outlives() {
    let (mut mover, mut run) = Mover::begin("");
    drop(typed(&mut run, 1_000).join());
    while mover.read(65_536) {
        mover.wait(20_000);
    }
    // It has not left when the program ends, and then nobody says what becomes of it.
    let never = mover.client.open_again(1);
    mover.client.connect_further(1, 0, false);
    let kept = mover.ends.stdout.try_clone().expect("dup");
    let mut text = [0; 6];
    for _ in 0..2 {
        write_text(&kept, "there\n");
        run.stdout.as_mut().expect("piped").read_exact(&mut text).expect("its output");
    }
    let (read, _client) = mover.finish(0);
    check(&read, 1_000, "input");
    assert_eq!(run.wait().expect("its end").code(), Some(3));
    write_text(&kept, "later\n");
    drop((kept, never));
    let output = run.stdout.as_mut().expect("piped");
    output.read_exact(&mut text).expect("its output");
    assert_eq!(&text, b"later\n");
    let over = poll(&[(output.as_fd(), Ready::READ)], 20_000).expect("poll")[0].over;
    assert!(over, "a relay is left");
}

fn write_text(fd: &OwnedFd, text: &str) {
    assert_eq!(sys::write(fd.as_fd(), text.as_bytes()), Ok(text.len()));
}

fn prefixes() {
    let (mut mover, mut run) = Mover::begin("p");
    drop(run.stdin.take());
    let output = collected(&mut run);
    write_text(&mover.ends.stdout, "here\nhalf");
    mover.hop(true);
    write_text(&mover.ends.stdout, " way\nthere\n");
    mover.hop(false);
    write_text(&mover.ends.stdout, "last");
    let written = mover.written;
    let (_, _client) = mover.finish(written);
    assert_eq!(run.wait().expect("its end").code(), Some(3));
    let output = output.join().expect("read");
    assert_eq!(String::from_utf8_lossy(&output), "n0: here\nn1: half way\nn1: there\nn2: last\n");
}

fn alone() {
    let (mut mover, mut run) = Mover::begin("");
    write_text(&mover.ends.stdout, "all that came");
    // So the first channel is there, and what is cut off below is the next.
    let mut output = [0; 13];
    run.stdout.as_mut().expect("piped").read_exact(&mut output).expect("its output");
    assert_eq!(&output, b"all that came");
    mover.hops += 1;
    let there = mover.client.open_again(mover.hops);
    let here = std::mem::replace(&mut mover.ends, there);
    mover.streams.left(here.id, mover.hops.into());
    drop((here, mover));
    let mut text = [0; 300];
    let got = run.stderr.as_mut().expect("piped").read(&mut text).expect("its errors");
    let text = String::from_utf8_lossy(&text[..got]).into_owned();
    assert!(text.contains("n0: the program's streams were cut off: it has moved, and the daemon has gone"), "{text}");
}
