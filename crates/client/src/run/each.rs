//! `shoal run` for several nodes, called on a node: each copy is a child of the caller that is a `shoal run` for its node. The caller
//! gathers their output, gives each of them the input, and ends as the one that ended worst.

use super::{exit_as, lines, run, Hold, Run, FAILED};
use kern::init::SignalFd;
use kern::poll::{poll, Ready};
use kern::{own, signal, sys, wait};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use vocab::{Exit, Fault, NodeId, Pid, Result, Sig};
use wire::run::Target;
use wire::stream::PIECE;

/// Signals from a process to the caller are meant for all of its copies; the terminal's reach them by themselves.
const PASSED_ON: [Sig; 6] = [Sig::HUP, Sig::INT, Sig::QUIT, Sig::TERM, Sig::USR1, Sig::USR2];

/// One copy, as its parent sees it.
struct Child {
    pid: Pid,
    input: Option<OwnedFd>,
    /// Its output and its errors, until their end.
    from: [Option<OwnedFd>; 2],
}

/// Starts a copy on each of `nodes` and ends the process as the worst of them. Returns only when none could be started.
pub(super) fn run_each(asked: &Run, nodes: &[NodeId], socket: &Path, hold: Hold) -> Fault {
    match start_all(asked, nodes, socket, hold).and_then(|(signals, children)| relay(asked, nodes, &signals, children))
    {
        Ok(worst) => exit_as(worst),
        Err(fault) => fault,
    }
}

fn start_all(asked: &Run, nodes: &[NodeId], socket: &Path, hold: Hold) -> Result<(SignalFd, Vec<Child>)> {
    let mask = signal::blocked()?;
    let signals = SignalFd::new(&[&PASSED_ON[..], &[Sig::CHLD]].concat())?;
    let mut children = Vec::new();
    let caller = Pid(std::process::id() as i32);
    for node in nodes {
        let (input, to) = sys::pipe()?;
        let (output, out) = sys::pipe()?;
        let (errors, err) = sys::pipe()?;
        let Some(pid) = own::fork()? else {
            drop((to, output, errors, std::mem::take(&mut children)));
            let ready = own::take_standard([input, out, err])
                .and_then(|()| own::die_with_parent(Sig::KILL, caller))
                .and_then(|()| signal::set_mask(mask));
            let one = Run { target: Target::Nodes(vec![*node]), prefix: false, ..asked.clone() };
            let fault = ready.err().unwrap_or_else(|| run(&one, socket, hold));
            eprintln!("shoal: {fault}");
            std::process::exit(FAILED.into());
        };
        children.push(Child { pid, input: Some(to), from: [Some(output), Some(errors)] });
    }
    Ok((signals, children))
}

/// Carries bytes until all have ended and all has been written; how the worst ended.
fn relay(asked: &Run, nodes: &[NodeId], signals: &SignalFd, mut children: Vec<Child>) -> Result<Exit> {
    let inputs = children.iter_mut().filter_map(|child| child.input.take()).map(File::from).collect();
    // It waits in read or write for as long as the process lives.
    std::thread::Builder::new()
        .name("In".into())
        .spawn(move || give(inputs))
        .map_err(|e| Fault::io(&e, "start a relay thread"))?;
    let mut gather = [lines(nodes, asked.prefix), lines(nodes, asked.prefix)];
    let mut left = children.len();
    let mut worst = Exit::Code(0);
    let mut buffer = vec![0; PIECE];
    loop {
        let open: Vec<(usize, usize)> = (0..children.len())
            .flat_map(|n| [(n, 0), (n, 1)])
            .filter(|(n, stream)| children[*n].from[*stream].is_some())
            .collect();
        if open.is_empty() && left == 0 {
            return Ok(worst);
        }
        let files = open.iter().filter_map(|(n, stream)| children[*n].from[*stream].as_ref());
        let mut wanted: Vec<_> = files.map(|fd| (fd.as_fd(), Ready::READ)).collect();
        wanted.push((signals.as_fd(), Ready::READ));
        let ready = poll(&wanted, -1).unwrap_or_default();
        for ((n, stream), ready) in open.into_iter().zip(&ready) {
            if ready.readable || ready.over {
                carry(n, stream, &mut children[n].from[stream], &mut gather[stream], &mut buffer);
            }
        }
        while let Some((sig, from_process)) = signals.take_from()? {
            match sig {
                Sig::CHLD => ended(&mut children, &mut left, &mut worst),
                sig if from_process => pass_on(sig, &children),
                _ => {}
            }
        }
    }
}

/// What one copy has written goes out in whole lines.
fn carry(n: usize, stream: usize, from: &mut Option<OwnedFd>, gather: &mut Option<super::Lines>, buffer: &mut [u8]) {
    let Some(fd) = from else { return };
    let got = sys::read(fd.as_fd(), buffer).unwrap_or(0);
    let mut whole = Vec::new();
    match gather {
        Some(lines) if got == 0 => lines.flush(n, &mut whole),
        Some(lines) => lines.feed(n, &buffer[..got], &mut whole),
        None => whole.extend_from_slice(&buffer[..got]),
    }
    let written = match stream {
        0 => std::io::stdout().write_all(&whole).and_then(|()| std::io::stdout().flush()),
        _ => std::io::stderr().write_all(&whole),
    };
    // With nobody to read it the copy gets EPIPE, as from the pipe itself.
    if got == 0 || written.is_err() {
        *from = None;
    }
}

fn ended(children: &mut [Child], left: &mut usize, worst: &mut Exit) {
    while let Ok(Some(waited)) = wait::any() {
        if let wait::Change::Ended(exit) = waited.change {
            *left = left.saturating_sub(1);
            // The number may be another process's from now on.
            children.iter_mut().filter(|child| child.pid == waited.pid).for_each(|child| child.pid = Pid::NONE);
            if exit.shell_number() > worst.shell_number() {
                *worst = exit;
            }
        }
    }
}

fn pass_on(sig: Sig, children: &[Child]) {
    for child in children {
        // One that has ended needs it no more.
        let _ = signal::send(child.pid, sig);
    }
}

/// Gives every copy the whole input, then its end.
fn give(mut inputs: Vec<File>) {
    let mut buffer = vec![0; PIECE];
    while let Ok(got @ 1..) = std::io::stdin().read(&mut buffer) {
        // A copy that reads no more is left out.
        inputs.retain_mut(|input| input.write_all(&buffer[..got]).is_ok());
        if inputs.is_empty() {
            return;
        }
    }
}
