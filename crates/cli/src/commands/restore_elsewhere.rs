//! `shoal restore FILE -n NODE`: what there is of it besides a restore.
//!
//! The process is a process of the space as any other that `shoal run` starts: a child of this command with the PID of the image becomes a `shoal run`, and the program
//! that runs on the node with that PID is this command again (`--within`). It reads the image from its standard input, by which whatever this command reads comes
//! behind it, and is made the process of the image by a third one (`--into`), which is not its child.

use super::restored::PASSED_ON;
use crate::imagefile;
use image::{Reader, Record};
use kern::newborn::execute_as;
use kern::own::fork;
use std::ffi::CString;
use std::fs::File;
use std::io::{copy, pipe, BufReader, PipeWriter, Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Command, ExitCode, Stdio};
use vocab::{Fault, NodeId, Pid, Result, Sig, SigSet};

/// Begins the process of the image in a file on a node; with `detach` it has read all that it ever will when this returns.
pub(super) fn on_a_node(node: NodeId, mut file: File, words: &[String], detach: bool) -> Result<Pid> {
    let failed = |e: std::io::Error| Fault::io(&e, "read the image");
    let begins = file.stream_position().map_err(failed)?;
    let Numbers { pid, others } = numbers_of(&file)?;
    file.seek(SeekFrom::Start(begins)).map_err(failed)?;
    let (input, output) = pipe().map_err(|e| Fault::io(&e, "make a pipe"))?;
    let node = node.to_string();
    let shoal = program()?;
    let threads = others.iter().map(Pid::to_string).collect::<Vec<_>>().join(",");
    let kept = if others.is_empty() { &[][..] } else { &["--threads", threads.as_str()][..] };
    let within = ["--", "shoal", "restore", "--within", "-"];
    let all = [&[shoal.as_str(), "run", "-n", &node][..], kept, &within].concat();
    let argv = all.into_iter().chain(words.iter().map(String::as_str)).map(|word| kern::sys::cstring(word.as_bytes()));
    let argv = argv.collect::<Result<Vec<CString>>>()?;
    execute_as(pid, &argv, input.as_fd()).map_err(|errno| match errno {
        kern::newborn::IN_USE => Fault::refused(format!("PID {pid} is in use")),
        errno => Fault::sys(errno, format!("make a process with PID {pid}")),
    })?;
    drop(input);
    // They are for who waits for the process, and not for the thread, which would lose them. Those by which a terminal stops who reads in the background are not among them.
    let bits = PASSED_ON.iter().chain([&Sig::CHLD]).fold(0, |bits, sig| bits | sig.bit());
    kern::signal::block(SigSet(bits))?;
    let feed = std::thread::spawn(move || feed(file, output, detach));
    if detach {
        feed.join().map_err(|_| Fault::bug("the thread that sends the image has failed"))?;
    }
    Ok(pid)
}

/// The image, and behind it what this command reads. Who reads it may have ended, and says why.
fn feed(mut image: File, mut to: PipeWriter, alone: bool) {
    let sent = copy(&mut image, &mut to);
    if let (Ok(_), Ok(mut own), false) = (sent, input(), alone) {
        let _ended = copy(&mut own, &mut to);
    }
}

/// Standard input, of which nothing is read ahead.
pub(super) fn input() -> Result<File> {
    let own = std::io::stdin().as_fd().try_clone_to_owned();
    own.map(File::from).map_err(|e| Fault::io(&e, "duplicate standard input"))
}

/// This one, unless it has an image itself.
fn program() -> Result<String> {
    if imagefile::is_own() {
        return Ok("shoal".into());
    }
    let own = std::env::current_exe().map_err(|e| Fault::io(&e, "find this program"))?;
    Ok(own.display().to_string())
}

/// Of an image: that of its process, and those of its threads beside the first.
struct Numbers {
    pid: Pid,
    others: Vec<Pid>,
}

fn numbers_of(file: &File) -> Result<Numbers> {
    let mut reader = Reader::new(BufReader::new(file))?;
    let (mut threads, mut pid, mut all) = (1, None, Vec::new());
    while let Some(record) = reader.next_record()? {
        match record {
            Record::Header(header) => threads = header.threads as usize,
            Record::Process(process) => pid = Some(Pid(process.pid)),
            Record::Thread(thread) => all.push(Pid(thread.tid)),
            _ => {}
        }
        if let Some(pid) = pid.filter(|pid| all.len() >= threads && all.first() == Some(pid)) {
            return Ok(Numbers { pid, others: all.split_off(1) });
        }
    }
    Err(Fault::wire("an image without a process"))
}

/// Has a third process make this one that of the image. Returns when that has failed before it has touched this one, and has said why.
pub(super) fn become_it(words: &[String]) -> Result<ExitCode> {
    let failed = |e: std::io::Error| Fault::io(&e, "have this process replaced");
    let (mut line, theirs) = UnixStream::pair().map_err(failed)?;
    let mut command = Command::new(imagefile::OWN);
    command.args(["restore", "--into", &std::process::id().to_string()]).args(words).arg("-");
    // It goes on when it is no child any more; then it is told that.
    let mut child = command.stdout(Stdio::from(OwnedFd::from(theirs))).spawn().map_err(failed)?;
    drop(command);
    child.wait().map_err(failed)?;
    line.write_all(&[1]).map_err(failed)?;
    let _ended = line.read(&mut [0]);
    Ok(ExitCode::FAILURE)
}

/// For who is to make another process that of an image: it has started this one, and waits for its end. A child goes on.
pub(super) fn when_told() -> Result<()> {
    if fork()?.is_some() {
        kern::ns::exit(0);
    }
    let failed = |e: std::io::Error| Fault::io(&e, "hear of who is to be replaced");
    let line = std::io::stdout().as_fd().try_clone_to_owned().map_err(failed)?;
    UnixStream::from(line).read_exact(&mut [0]).map_err(failed)
}
