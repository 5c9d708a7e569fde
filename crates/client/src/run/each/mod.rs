//! `shoal run` for several nodes, called on a node: each copy is a child of the caller that is a `shoal run` for its node. The caller
//! gathers their output, gives each of them the input, and ends as the one that ended worst.
//!
//! The main thread waits for the copies and for signals, and never blocks otherwise. Our own standard streams, whose modes are not
//! ours to change, have a thread each, as where the copies are on channels.

mod backlog;
mod copies;
mod shared;

use super::hub::tell_ends;
use super::input::{Reader, Source};
use super::output::Writer;
use super::{exit_as, lines, program, run, spawn, turns, Hold, Run, Show, Surroundings, FAILED};
use copies::{Copies, Copy};
use kern::init::SignalFd;
use kern::{own, signal, sys};
use shared::Shared;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;
use vocab::{Exit, Fault, NodeId, Pid, Result, Sig};
use wire::run::Target;
use wire::stream::Stream;

/// Starts a copy on each of `nodes` and ends the process as the worst of them. Returns only when none could be started.
pub(super) fn run_each(asked: &Run, nodes: &[NodeId], socket: &Path, hold: Hold) -> Fault {
    match start_all(asked, nodes, socket, hold).and_then(|(signals, copies)| relay(asked, nodes, signals, copies)) {
        Ok(ends) => {
            tell_ends(asked.show, &nodes.iter().copied().zip(ends.iter().copied()).collect::<Vec<_>>());
            exit_as(worst(&ends))
        }
        Err(fault) => fault,
    }
}

fn start_all(asked: &Run, nodes: &[NodeId], socket: &Path, hold: Hold) -> Result<(SignalFd, Vec<Copy>)> {
    let mask = signal::blocked()?;
    // SIGCONT: we may be in the terminal's foreground from then on.
    let signals = SignalFd::new(&[&copies::PASSED_ON[..], &[Sig::CHLD, Sig::CONT]].concat())?;
    let mut copies = Vec::new();
    let caller = Pid(std::process::id() as i32);
    for (copy, node) in (0..).zip(nodes) {
        let (input, to) = sys::pipe()?;
        let (output, out) = sys::pipe()?;
        let (errors, err) = sys::pipe()?;
        let Some(pid) = own::fork()? else {
            drop((to, output, errors, std::mem::take(&mut copies)));
            let ready = own::take_standard([input, out, err])
                .and_then(|()| own::die_with_parent(Sig::KILL, caller))
                .and_then(|()| signal::set_mask(mask));
            let surroundings = Surroundings { copy: Some((copy, nodes.len() as u32)), ..asked.surroundings.clone() };
            let target = Target::Nodes(vec![*node]);
            let one = Run { target, prefix: false, show: Show::default(), surroundings, ..asked.clone() };
            let fault = ready.err().unwrap_or_else(|| run(&one, socket, hold));
            own::complain(fault);
            std::process::exit(FAILED.into());
        };
        // An end of a pipe has a mode of its own, and the copy has closed these.
        for end in [&to, &output, &errors] {
            sys::set_nonblocking(end.as_fd(), true)?;
        }
        copies.push(Copy { pid, input: Some(to), from: [Some(output), Some(errors)] });
    }
    Ok((signals, copies))
}

/// Carries bytes until all have ended and all has been written; how they ended.
fn relay(asked: &Run, nodes: &[NodeId], signals: SignalFd, copies: Vec<Copy>) -> Result<Vec<Exit>> {
    let count = copies.len();
    let shared = Arc::new(Shared::new(count)?);
    for stream in [Stream::Out, Stream::Err] {
        let (lines, turns) = (lines(nodes, asked), turns(nodes, asked));
        let from = shared.clone();
        spawn(&format!("{stream:?}"), move || Writer::new(&*from, stream, lines, count).in_turns(turns).run())?;
    }
    let source = if program::input_is_terminal() { Source::Keys } else { Source::Ours };
    let takers = shared.clone();
    spawn("In", move || Reader::new(&*takers, source).run())?;
    Copies::new(shared, signals, copies).run()
}

/// The end with the highest number for a shell; of several, the first.
fn worst(ends: &[Exit]) -> Exit {
    let first = |worst: Exit, exit: &Exit| if exit.shell_number() > worst.shell_number() { *exit } else { worst };
    ends.iter().fold(Exit::Code(0), first)
}
