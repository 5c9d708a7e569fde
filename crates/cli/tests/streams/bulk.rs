//! Much, fast, and slow readers.

use crate::daemon::Daemon;
use crate::kept::Start;
use crate::{shoal_run, trial};
use agent::streams::Streams;
use libtest_mimic::Trial;
use std::io::{Read, Write};
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

const MUCH: usize = 100_000_000;

pub(crate) fn add(trials: &mut Vec<Trial>) {
    trials.push(trial("a_hundred_megabytes_both_ways", both_ways));
    trials.push(trial("a_slow_reader_blocks_nobody_else", slow_reader));
    trials.push(trial("speed", speed));
    trials.push(trial("echo_round_trip", echo));
}

fn streams() -> Arc<Streams> {
    Arc::new(Streams::start().expect("streams"))
}

/// Bytes that show every loss, doubling and exchange.
fn pattern(length: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

fn both_ways() {
    let streams = streams();
    let daemon = Daemon::new(streams.clone());
    let mut command = shoal_run(&daemon, "", &["cat"]);
    let mut run = command.stdin(Stdio::piped()).stdout(Stdio::piped()).start();
    let node = std::thread::spawn(move || daemon.serve());
    let mut input = run.stdin.take().expect("piped");
    let writer = std::thread::spawn(move || input.write_all(&pattern(MUCH)).expect("all is taken"));
    let start = Instant::now();
    let output = run.output();
    println!("there and back: {:.0} MB/s", MUCH as f64 / start.elapsed().as_secs_f64() / 1e6);
    writer.join().expect("the writer");
    node.join().expect("the node");
    assert!(output.stdout == pattern(MUCH), "{} bytes of {MUCH}", output.stdout.len());
}

fn speed() {
    let streams = streams();
    let daemon = Daemon::new(streams.clone());
    let mut command = shoal_run(&daemon, "", &["head", "-c", "1000000000", "/dev/zero"]);
    let mut run = command.stdin(Stdio::null()).stdout(Stdio::piped()).start();
    let node = std::thread::spawn(move || daemon.serve());
    let mut output = run.stdout.take().expect("piped");
    let (mut buffer, mut total) = (vec![0; 65536], 0);
    let start = Instant::now();
    loop {
        match output.read(&mut buffer).expect("its output") {
            0 => break,
            n => total += n,
        }
    }
    println!("node to relay: {:.0} MB/s", total as f64 / start.elapsed().as_secs_f64() / 1e6);
    assert_eq!(total, 1_000_000_000);
    run.wait().expect("its end");
    node.join().expect("the node");
}

/// Median time of a byte to a `cat` on the node and back.
fn echo_time(run: &mut std::process::Child, rounds: usize) -> Duration {
    let (input, output) = (run.stdin.as_mut().expect("piped"), run.stdout.as_mut().expect("piped"));
    let mut times: Vec<Duration> = (0..rounds)
        .map(|_| {
            let start = Instant::now();
            input.write_all(b"x").expect("its input");
            output.read_exact(&mut [0]).expect("its output");
            start.elapsed()
        })
        .collect();
    times.sort();
    times[rounds / 2]
}

fn echo() {
    let streams = streams();
    let daemon = Daemon::new(streams.clone());
    let mut command = shoal_run(&daemon, "", &["cat"]);
    let mut run = command.stdin(Stdio::piped()).stdout(Stdio::piped()).start();
    let node = std::thread::spawn(move || daemon.serve());
    echo_time(&mut run, 100);
    println!("echo: {} us", echo_time(&mut run, 2000).as_micros());
    drop(run.stdin.take());
    run.wait().expect("its end");
    node.join().expect("the node");
}

fn slow_reader() {
    let streams = streams();
    let slow = Daemon::new(streams.clone());
    let mut command = shoal_run(&slow, "", &["head", "-c", "5000000", "/dev/zero"]);
    let mut slow_run = command.stdin(Stdio::null()).stdout(Stdio::piped()).start();
    let slow_node = std::thread::spawn(move || slow.serve());
    slow_run.stdout.as_mut().expect("piped").read_exact(&mut [0; 1000]).expect("its first output");
    let quick = Daemon::new(streams.clone());
    let mut command = shoal_run(&quick, "", &["cat"]);
    let mut run = command.stdin(Stdio::piped()).stdout(Stdio::piped()).start();
    let node = std::thread::spawn(move || quick.serve());
    assert!(echo_time(&mut run, 200) < Duration::from_millis(50));
    assert!(!slow_node.is_finished(), "the slow one is blocked, its output is in no buffer of ours");
    drop(run.stdin.take());
    run.wait().expect("its end");
    node.join().expect("the node");
    let mut rest = Vec::new();
    slow_run.stdout.take().expect("piped").read_to_end(&mut rest).expect("its output");
    assert_eq!(rest.len(), 5_000_000 - 1000);
    slow_run.wait().expect("its end");
    slow_node.join().expect("the node");
}
