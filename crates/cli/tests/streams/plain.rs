//! What a program and its user see.

use crate::daemon::Daemon;
use crate::kept::Start;
use crate::{shoal_run, trial};
use agent::streams::Streams;
use libtest_mimic::Trial;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Output, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use vocab::{Exit, Fault, Sig};
use wire::ask::Answer;

pub(crate) fn add(trials: &mut Vec<Trial>) {
    trials.push(trial("streams_and_status_are_the_programs", streams_and_status));
    trials.push(trial("input_ends", input_ends));
    trials.push(trial("a_signal_is_the_programs", a_signal));
    trials.push(trial("nobody_reads_the_output", nobody_reads));
    trials.push(trial("output_that_cannot_be_written_is_told", full));
    trials.push(trial("nobody_reads_the_input", nobody_reads_input));
    trials.push(trial("a_program_that_is_not_there", not_there));
    trials.push(trial("a_lost_node_ends_it", lost_node));
    trials.push(trial("prefixes_and_whole_lines", prefixes));
    trials.push(trial("input_goes_to_every_copy", broadcast));
    trials.push(trial("ended_comes_behind_all_output", ended_behind_output));
    trials.push(trial("descendants_write_after_the_end", late_output));
    trials.push(trial("descendants_read_after_the_end", late_input));
    trials.push(trial("descendants_that_do_not_read_leave_the_input", late_input_left));
    trials.push(trial(ALONE, thousand_rounds));
}

fn streams() -> Arc<Streams> {
    Arc::new(Streams::start().expect("streams"))
}

/// Runs `words` to its end.
fn whole(flags: &str, words: &[&str], input: &[u8]) -> Output {
    let streams = streams();
    let daemon = Daemon::new(streams.clone());
    let mut command = shoal_run(&daemon, flags, words);
    let mut run = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).start();
    let node = std::thread::spawn(move || daemon.serve());
    run.stdin.take().expect("piped").write_all(input).expect("its input");
    let output = run.output();
    node.join().expect("the node");
    drop(streams);
    output
}

fn streams_and_status() {
    let output = whole("", &["sh", "-c", "echo out; echo err >&2; exit 3"], b"");
    assert_eq!((output.stdout, output.stderr), (b"out\n".to_vec(), b"err\n".to_vec()));
    assert_eq!(output.status.code(), Some(3));
}

fn input_ends() {
    let output = whole("", &["wc", "-c"], &[b'x'; 12_345]);
    assert_eq!(output.stdout, b"12345\n");
    assert_eq!(whole("", &["cat"], b"").status.code(), Some(0));
}

fn a_signal() {
    let output = whole("", &["sh", "-c", "kill -USR1 $$"], b"");
    assert_eq!(output.status.signal(), Some(i32::from(Sig::USR1.number())));
}

fn nobody_reads() {
    let streams = streams();
    let daemon = Daemon::new(streams.clone());
    let mut command = shoal_run(&daemon, "", &["yes"]);
    let mut run = command.stdin(Stdio::null()).stdout(Stdio::piped()).start();
    let node = std::thread::spawn(move || daemon.serve());
    let mut line = String::new();
    let mut output = BufReader::new(run.stdout.take().expect("piped"));
    for _ in 0..10 {
        output.read_line(&mut line).expect("a line");
    }
    drop(output);
    assert_eq!(line, "y\n".repeat(10));
    assert!(matches!(node.join().expect("the node"), Exit::Killed { sig: Sig::PIPE, .. }));
    assert_eq!(run.wait().expect("its end").signal(), Some(13));
}

fn full() {
    for (script, end) in [("echo x; exit 4", Exit::Code(4)), ("exec yes", Exit::Killed { sig: Sig::PIPE, core: false })]
    {
        let streams = streams();
        let daemon = Daemon::new(streams.clone());
        let full = std::fs::File::create("/dev/full").expect("it is there");
        let mut command = shoal_run(&daemon, "", &["sh", "-c", &format!("exec 2>/dev/null; {script}")]);
        let run = command.stdin(Stdio::null()).stdout(full).stderr(Stdio::piped()).start();
        assert_eq!(daemon.serve(), end);
        let output = run.output();
        assert_eq!(Exit::from_status(output.status.into_raw()), Some(end));
        let text =
            "shoal: write what the program has written to standard output: No space left on device (os error 28)\n";
        assert_eq!(String::from_utf8_lossy(&output.stderr), text);
    }
}

fn nobody_reads_input() {
    // More than all buffers hold: who writes it gets EPIPE when the program leaves, and the rest is not waited for.
    let streams = streams();
    let daemon = Daemon::new(streams.clone());
    let mut command = shoal_run(&daemon, "", &["head", "-c", "5"]);
    let mut run = command.stdin(Stdio::piped()).stdout(Stdio::piped()).start();
    let node = std::thread::spawn(move || daemon.serve());
    let mut input = run.stdin.take().expect("piped");
    let writer = std::thread::spawn(move || input.write_all(&vec![b'z'; 10_000_000]).is_err());
    let output = run.output();
    assert_eq!(output.stdout, b"zzzzz");
    assert!(writer.join().expect("the writer"), "EPIPE");
    node.join().expect("the node");
}

fn not_there() {
    let daemon = Daemon::new(streams());
    let run = shoal_run(&daemon, "", &["nope"]).stderr(Stdio::piped()).start();
    daemon.accept(1).not_started(0, Fault::sys(2, "exec nope").on(vocab::NodeId(0)), 127);
    let output = run.output();
    assert_eq!(output.status.code(), Some(127));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(text, "shoal: n0: exec nope: No such file or directory (os error 2)\n");
}

fn lost_node() {
    let daemon = Daemon::new(streams());
    let mut command = shoal_run(&daemon, "", &["sleep", "1000"]);
    let run = command.stdin(Stdio::null()).stderr(Stdio::piped()).start();
    let client = daemon.accept(1);
    let _body = client.start(0);
    client.connect(0);
    client.say(&Answer::Ended { copy: 0, exit: Exit::NodeLost }, None);
    let output = run.output();
    assert_eq!(output.status.signal(), Some(9));
    assert_eq!(output.stderr, b"shoal: n0 is lost\n");
}

fn prefixes() {
    let streams = streams();
    let daemon = Daemon::new(streams.clone());
    let script = "for i in 1 2 3 4 5 6 7 8 9; do printf half; echo $i; done; printf end";
    let mut command = shoal_run(&daemon, "p", &["sh", "-c", script]);
    let run = command.stdin(Stdio::null()).stdout(Stdio::piped()).start();
    let client = daemon.accept(3);
    let mut bodies: Vec<_> = (0..3).map(|i| (client.start(i), client.connect(i)).0).collect();
    bodies.iter_mut().enumerate().for_each(|(i, body)| {
        client.end(i, body);
    });
    let output = run.output();
    let text = String::from_utf8(output.stdout).expect("text");
    for node in 0..3 {
        let mine: Vec<&str> = text.lines().filter_map(|l| l.strip_prefix(&format!("n{node}: "))).collect();
        assert_eq!(mine, ["half1", "half2", "half3", "half4", "half5", "half6", "half7", "half8", "half9", "end"]);
    }
    assert_eq!(text.lines().count(), 30);
}

fn broadcast() {
    let streams = streams();
    let daemon = Daemon::new(streams.clone());
    let mut command = shoal_run(&daemon, "", &["cat"]);
    let mut run = command.stdin(Stdio::piped()).stdout(Stdio::piped()).start();
    let client = daemon.accept(2);
    let mut bodies: Vec<_> = (0..2).map(|i| (client.start(i), client.connect(i)).0).collect();
    run.stdin.take().expect("piped").write_all(b"to all\n").expect("its input");
    bodies.iter_mut().enumerate().for_each(|(i, body)| {
        client.end(i, body);
    });
    assert_eq!(run.output().stdout, b"to all\nto all\n");
}

fn ended_behind_output() {
    for _ in 0..20 {
        let output = whole("", &["sh", "-c", "head -c 300000 /dev/zero; echo late >&2"], b"");
        assert_eq!((output.stdout.len(), output.stderr.as_slice()), (300_000, b"late\n".as_slice()));
    }
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("/proc").count()
}

/// The trial that counts this process's descriptors, of which others must have none: it is run again in a process without them.
const ALONE: &str = "no_descriptor_is_left_after_1000_rounds";

fn thousand_rounds() {
    if std::env::var_os(ALONE).is_none() {
        let mut alone = std::process::Command::new(std::env::current_exe().expect("own path"));
        let output = alone
            .args(["--exact", ALONE])
            .env(ALONE, "")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .start()
            .output();
        return assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let streams = streams();
    let before = descriptors();
    for round in 0..1000 {
        let daemon = Daemon::new(streams.clone());
        let mut command = shoal_run(&daemon, "", &["/bin/echo", "x"]);
        let mut run = command.stdin(Stdio::null()).stdout(Stdio::piped()).start();
        daemon.serve();
        let mut text = String::new();
        run.stdout.take().expect("piped").read_to_string(&mut text).expect("its output");
        run.wait().expect("its end");
        assert_eq!(text, "x\n", "round {round}");
    }
    // The thread closes the last channel when it sees that its other end is gone.
    let deadline = Instant::now() + Duration::from_secs(5);
    while descriptors() > before && Instant::now() < deadline {
        std::thread::yield_now();
    }
    assert!(descriptors() <= before, "{} descriptors before, {} after", before, descriptors());
}

fn late_output() {
    let streams = streams();
    let daemon = Daemon::new(streams.clone());
    let script = "(sleep 0.3; echo late; echo later >&2; head -c 1000000 /dev/zero) 2>&1 & echo early";
    let mut command = shoal_run(&daemon, "", &["sh", "-c", script]);
    let mut run = command.stdin(Stdio::null()).stdout(Stdio::piped()).start();
    let node = std::thread::spawn(move || daemon.serve());
    run.wait().expect("its end");
    node.join().expect("the node");
    let mut output = Vec::new();
    run.stdout.take().expect("piped").read_to_end(&mut output).expect("its output");
    assert!(output.starts_with(b"early\n"), "{:?}", String::from_utf8_lossy(&output[..40]));
    let rest = &output[output.len() - 1_000_011..];
    assert!(rest.starts_with(b"late\nlater\n"), "{:?}", String::from_utf8_lossy(&output[..80]));
}

/// A pipe to type into, and the end that a process gets as its input.
fn pipe() -> (std::os::fd::OwnedFd, std::fs::File) {
    let (read, write) = kern::sys::pipe().expect("pipe");
    (read, write.into())
}

/// Runs `script` in a shell whose descriptors 0 and 3 are a pipe, and waits until the shell has ended.
fn outlived(script: &str) -> (std::fs::File, std::os::fd::OwnedFd, std::process::ChildStdout) {
    let streams = streams();
    let daemon = Daemon::new(streams.clone());
    let (input, write) = pipe();
    let other = input.try_clone().expect("dup");
    let mut command = shoal_run(&daemon, "", &["sh", "-c", &format!("exec 3<&0; {script}")]);
    let mut run = command.stdin(Stdio::from(input)).stdout(Stdio::piped()).start();
    daemon.serve();
    assert_eq!(run.wait().expect("its end").code(), Some(5));
    // The thread of streams lives on with the channel.
    std::mem::forget(streams);
    (write, other, run.stdout.take().expect("piped"))
}

fn late_input() {
    let (mut input, other, output) = outlived("(read a; read b; echo $a-$b; cat) <&3 & exit 5");
    drop(other);
    let mut output = BufReader::new(output);
    let mut line = String::new();
    input.write_all(b"one\n").expect("its input");
    input.write_all(b"two\n").expect("its input");
    output.read_line(&mut line).expect("its answer");
    assert_eq!(line, "one-two\n");
    // Also the end of it, and more than is under way at once.
    let writer = std::thread::spawn(move || input.write_all(&[b'x'; 500_000]));
    let mut rest = Vec::new();
    output.read_to_end(&mut rest).expect("its output");
    assert_eq!(rest.len(), 500_000);
    writer.join().expect("the writer").expect("its input");
}

fn late_input_left() {
    let (mut input, other, mut output) = outlived("sleep 1 <&3 & exit 5");
    input.write_all(b"for the next one\n").expect("room");
    drop(input);
    // The end of output comes when the relay of the descendant has ended, and it has taken nothing until then.
    output.read_to_end(&mut Vec::new()).expect("its output");
    let mut left = String::new();
    std::fs::File::from(other).read_to_string(&mut left).expect("the pipe");
    assert_eq!(left, "for the next one\n");
}
