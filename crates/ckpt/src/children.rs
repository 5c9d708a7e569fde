//! Children, which are not carried: others stand for them where the process is made again.
//!
//! These end and stop there anew, and their parent is told by SIGCHLD of what it knows. So what has come of that is dropped, and SIGCHLD waits for it as it did when
//! it was written; and once more if a child is another there by now than it was then.

use crate::proc;
use image::process::Process;
use image::Bytes;
use kern::clock::monotonic_us;
use kern::pidfd;
use kern::poll::{poll, Ready};
use puppet::script::{Outcome, Slot};
use puppet::{Arena, Loan, Script};
use std::os::fd::AsFd;
use vocab::{Pid, Result, Sig};
use zerocopy::IntoBytes;

/// The words of a siginfo, of which the kernel fills in all but those of a child that there is none of (waitid(2)).
const SIGINFO: usize = 128;
const SI_PID: u64 = 16;
/// Microseconds in which what stands for a child that has ended is expected to have ended too.
const CATCH_UP_US: u64 = 300_000;

/// How a child is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Goes,
    Stopped,
    Ended,
}

impl State {
    fn of(child: Pid) -> State {
        let fields = proc::stat_fields(child).unwrap_or_default();
        match fields.first().map(String::as_str) {
            Some("T") => State::Stopped,
            Some("Z") => State::Ended,
            _ => State::Goes,
        }
    }

    /// As it was when the process was written.
    fn before(child: Pid, process: &Process) -> State {
        match () {
            () if process.ended.contains(&child.0) => State::Ended,
            () if process.stopped_children.contains(&child.0) => State::Stopped,
            () => State::Goes,
        }
    }
}

/// The children of all threads, as far as they have not been waited for, in order.
pub(crate) fn of(pid: Pid) -> Result<Vec<Pid>> {
    let mut all = Vec::new();
    for tid in proc::numbers_in(pid, "task")? {
        let children = proc::file(pid, &format!("task/{tid}/children")).unwrap_or_default();
        all.extend(String::from_utf8_lossy(&children).split_whitespace().filter_map(|word| word.parse().ok().map(Pid)));
    }
    all.sort_unstable();
    Ok(all)
}

/// Has it ended, so that its parent is told by this signal?
pub(crate) fn has_ended_by_signal(child: Pid, sig: Sig) -> bool {
    // Of proc_pid_stat(5), from the state on: the 38th of all is the signal.
    const EXIT_SIGNAL: usize = 38 - 3;
    let fields = proc::stat_fields(child).unwrap_or_default();
    let signal = fields.get(EXIT_SIGNAL).and_then(|field| field.parse().ok());
    fields.first().is_some_and(|state| state == "Z") && signal == Some(i32::from(sig.number()))
}

/// Are all of these there, and the kernel takes none by itself just now (linux: `exit_notify`, EXIT_DEAD)?
pub(crate) fn are_there(children: &[Pid]) -> bool {
    let is_there =
        |child: &Pid| proc::stat_fields(*child).is_ok_and(|fields| fields.first().is_some_and(|is| is != "X"));
    children.iter().all(is_there)
}

/// How they are; before it is read which signals wait, so that what has come of this is among them.
pub(crate) fn note(children: &[Pid], process: &mut Process) {
    for child in children {
        match State::of(*child) {
            State::Goes => {}
            State::Stopped => process.stopped_children.push(child.0),
            State::Ended => process.ended.push(child.0),
        }
    }
}

/// Of so many that run it is asked, and taken, whether their parent has been told that they go on.
const MOST_THAT_GO: usize = 64;

/// What the process has to be told of one.
pub(crate) struct Asked {
    child: i32,
    stopped: bool,
    info: u64,
    call: Slot,
}

/// Of which of those that are stopped the process still has to be told, and of which that they go on.
pub(crate) fn ask(script: &mut Script, children: &[Pid], process: &Process) -> Vec<Asked> {
    let mut ask = |child: i32, stopped: bool| {
        let which = if stopped { libc::WSTOPPED } else { libc::WCONTINUED };
        let how = (which | libc::WNOHANG | libc::WNOWAIT) as u64;
        let info = script.room(SIGINFO);
        let call = script.attempt(libc::SYS_waitid, &[libc::P_PID as u64, child as u64, info, how, 0]);
        Asked { child, stopped, info, call }
    };
    let mut asked: Vec<Asked> = process.stopped_children.iter().map(|child| ask(*child, true)).collect();
    asked.extend(those_that_go(children, process).map(|child| ask(child, false)));
    asked
}

fn those_that_go<'a>(children: &'a [Pid], process: &'a Process) -> impl Iterator<Item = i32> + 'a {
    let goes = |child: &i32| !process.stopped_children.contains(child) && !process.ended.contains(child);
    let some = if children.len() <= MOST_THAT_GO { children } else { &[] };
    some.iter().map(|child| child.0).filter(goes)
}

pub(crate) fn fill(outcome: &Outcome, asked: &[Asked], process: &mut Process) -> Result<()> {
    for Asked { child, stopped, info, call } in asked {
        let told = outcome.result(*call) == 0 && outcome.value::<i32>(info + SI_PID)? == 0;
        match (stopped, told) {
            (true, true) => process.known_stopped.push(*child),
            (false, false) => process.continued_children.push(*child),
            _ => {}
        }
    }
    Ok(())
}

/// What stands for them may have stopped anew, or gone on, or have been here before: that is no news. (No wait4: that would take their ends too.)
pub(crate) fn take_news(script: &mut Script, process: &Process, children: &[Pid]) {
    let mut take = |child: i32, which: i32| {
        let how = (which | libc::WNOHANG) as u64;
        script.attempt(libc::SYS_waitid, &[libc::P_PID as u64, child as u64, 0, how, 0]);
    };
    process.known_stopped.iter().for_each(|child| take(*child, libc::WSTOPPED));
    let known = those_that_go(children, process).filter(|child| !process.continued_children.contains(child));
    known.for_each(|child| take(child, libc::WCONTINUED));
}

/// Drops the SIGCHLD that waits for what stands for the children; what the process has yet to be told of one of them, if there is such a thing. To be
/// called before the signals of the image are queued, all being blocked. `children`: those of what is to be the process.
pub(crate) fn catch_up(
    loan: &mut Loan<'_>,
    arena: Arena,
    process: &Process,
    children: &[Pid],
) -> Result<Option<Bytes>> {
    if children.is_empty() {
        return Ok(None);
    }
    wait_for_ends(&process.ended);
    let mut script = arena.script();
    for child in &process.ended {
        // The kernel tells the parent under the lock that this call takes (linux: exit_notify).
        let how = (libc::WEXITED | libc::WNOHANG | libc::WNOWAIT) as u64;
        script.attempt(libc::SYS_waitid, &[libc::P_PID as u64, *child as u64, 0, how, 0]);
    }
    let (child, at_once) = (script.bytes(&Sig::CHLD.bit().to_ne_bytes()), script.room(16));
    script.attempt(libc::SYS_rt_sigtimedwait, &[child, 0, at_once, 8]);
    loan.run(arena, script)?;
    let is_told_of_ends_only =
        |one: &image::process::Action| one.signal == Sig::CHLD.number() && one.flags & libc::SA_NOCLDSTOP as u64 != 0;
    let ends_only = process.actions.iter().any(is_told_of_ends_only);
    let is_news = |child: &Pid| {
        let now = State::of(*child);
        now != State::before(*child, process) && (now == State::Ended || !ends_only)
    };
    let mut script = arena.script();
    let how = (libc::WEXITED | libc::WSTOPPED | libc::WCONTINUED | libc::WNOHANG | libc::WNOWAIT) as u64;
    let ask = |child: Pid| {
        let info = script.room(SIGINFO);
        script.attempt(libc::SYS_waitid, &[libc::P_PID as u64, child.0 as u64, info, how, 0]);
        info
    };
    let asked: Vec<u64> = children.iter().copied().filter(is_news).map(ask).collect();
    if asked.is_empty() {
        return Ok(None);
    }
    let outcome = loan.run(arena, script)?;
    for info in asked {
        // What waitid(2) tells is what SIGCHLD tells.
        if outcome.value::<i32>(info + SI_PID)? != 0 {
            let words: [u64; SIGINFO / 8] = outcome.value(info)?;
            return Ok(Some(Bytes(words.as_bytes().to_vec())));
        }
    }
    Ok(None)
}

/// If it takes longer, the process is told once more.
fn wait_for_ends(ended: &[i32]) {
    let until = monotonic_us() + CATCH_UP_US;
    for child in ended.iter().filter_map(|child| pidfd::open(Pid(*child)).ok()) {
        let left = until.saturating_sub(monotonic_us()).div_ceil(1000);
        let _late = poll(&[(child.as_fd(), Ready::READ)], left as i32);
    }
}
