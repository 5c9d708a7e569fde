//! Actions of signals, and signals that wait.

use image::process::{Action, Process};
use image::thread::Thread;
use image::Bytes;
use kern::pidfd::raw_siginfo;
use kern::ptrace::{self, Queue, RawInfo};
use puppet::script::Outcome;
use puppet::{Arena, Loan, Script};
use vocab::{Fault, Pid, Result, Sig, SigInfo, SigSet};
use zerocopy::{FromBytes, Immutable, IntoBytes};

const SIGNALS: u8 = 64;
/// Bytes of the kernel's signal set.
const SET: u64 = 8;

/// `struct sigaction` as the kernel has it on x86-64.
#[repr(C)]
#[derive(Clone, Copy, Default, FromBytes, IntoBytes, Immutable)]
struct KernelAction {
    handler: u64,
    flags: u64,
    restorer: u64,
    mask: u64,
}

/// Adds the questions for all actions to a script; where the answers will be.
pub(crate) fn ask_actions(script: &mut Script) -> u64 {
    let size = size_of::<KernelAction>() as u64;
    let room = script.room((size * u64::from(SIGNALS)) as usize);
    for signal in 1..=u64::from(SIGNALS) {
        let at = room + (signal - 1) * size;
        script.call("read the action of a signal", libc::SYS_rt_sigaction, &[signal, 0, at, SET]);
    }
    room
}

/// Those that are not the default.
pub(crate) fn actions(outcome: &Outcome, room: u64) -> Result<Vec<Action>> {
    let size = size_of::<KernelAction>() as u64;
    let mut actions = Vec::new();
    for signal in 1..=SIGNALS {
        let one: KernelAction = outcome.value(room + u64::from(signal - 1) * size)?;
        if one.handler != 0 || one.flags != 0 || one.mask != 0 {
            let KernelAction { handler, flags, restorer, mask } = one;
            actions.push(Action { signal, handler, flags, restorer, mask });
        }
    }
    Ok(actions)
}

/// A restored process begins with the actions of who restores it, so all are set. Where the answer will be that [`waited_to_continue`] reads.
pub(crate) fn set_actions(script: &mut Script, actions: &[Action]) -> u64 {
    let pending = script.room(SET as usize);
    script.call("look at the signals that wait", libc::SYS_rt_sigpending, &[pending, SET]);
    // SIGCONT first, which is dropped by this if it is not to be handled (linux: `do_sigaction`): nothing else comes between.
    let others = (1..=SIGNALS).filter(|signal| !matches!(i32::from(*signal), libc::SIGKILL | libc::SIGSTOP));
    for signal in std::iter::once(Sig::CONT.number()).chain(others) {
        let one = actions.iter().find(|action| action.signal == signal).copied().unwrap_or_default();
        set_action(script, &Action { signal, ..one });
    }
    pending
}

pub(crate) fn set_action(script: &mut Script, action: &Action) {
    let Action { signal, handler, flags, restorer, mask } = *action;
    let at = script.bytes(KernelAction { handler, flags, restorer, mask }.as_bytes());
    script.call("set the action of a signal", libc::SYS_rt_sigaction, &[signal.into(), at, 0, SET]);
}

/// Did SIGCONT wait for what is to be the process, as for any that is not yet what it shall be? Then what had stopped it does no more.
pub(crate) fn waited_to_continue(outcome: &Outcome, pending: u64) -> Result<bool> {
    Ok(SigSet(outcome.value(pending)?).has(Sig::CONT))
}

pub(crate) fn queue(tid: Pid, queue: Queue) -> Result<Vec<Bytes>> {
    let infos = ptrace::queued(tid, queue);
    let infos = infos.map_err(|errno| Fault::sys(errno, format!("read the signals that wait for {tid}")))?;
    Ok(infos.iter().map(|info| Bytes(info.as_bytes().to_vec())).collect())
}

/// Drops one of each of these that waits for the thread or its process, all being blocked.
pub(crate) fn drop_waiting(script: &mut Script, signals: impl Iterator<Item = Sig>) {
    let at_once = script.room(16);
    for sig in signals {
        let set = script.bytes(&sig.bit().to_ne_bytes());
        script.attempt(libc::SYS_rt_sigtimedwait, &[set, 0, at_once, SET]);
    }
}

/// What has come to what is to be the process, after all that waited when that was written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Came {
    Unknown,
    Nothing,
    /// SIGCONT.
    Continued,
    /// A signal that stops it: by SIGCONT it would be taken away.
    Stops,
}

impl Came {
    /// Of what waited when the process was written, this leaves so much (linux: `prepare_signal`). A SIGCONT has continued it, and is of no use to one that does not heed
    /// it: what stops it just now would be taken away.
    pub(crate) fn leaves(self, process: &Process, threads: &[Thread]) -> Vec<Bytes> {
        let heeds = |action: &Action| action.signal == Sig::CONT.number() && action.handler > 1;
        let heeds =
            process.actions.iter().any(heeds) || threads.iter().any(|thread| thread.mask & Sig::CONT.bit() != 0);
        let left = |sig: Sig| match self {
            Came::Stops if sig == Sig::CONT => false,
            Came::Nothing if sig == Sig::CONT => heeds,
            Came::Continued => !sig.stops(),
            Came::Unknown | Came::Nothing | Came::Stops => true,
        };
        let sig = |info: &Bytes| info.0.first().and_then(|number| Sig::new(*number));
        let mut queue: Vec<Bytes> = process.queue.iter().filter(|info| sig(info).is_none_or(left)).cloned().collect();
        // Its own action has thrown one out of the queue that it blocks and waits for, if that is none (linux: `do_sigaction`).
        if self == Came::Continued && heeds && !queue.iter().any(|info| sig(info) == Some(Sig::CONT)) {
            let again = raw_siginfo(&SigInfo::kill(Sig::CONT, Pid::NONE, 0));
            queue.push(Bytes(again.as_bytes().to_vec()));
        }
        queue
    }
}

/// A thread may queue any siginfo to its own process (linux: `do_rt_sigqueueinfo`). `thread`: for that thread only.
pub(crate) fn set_queue(script: &mut Script, queue: &[Bytes], pid: u64, thread: Option<u64>) -> Result<()> {
    for info in queue {
        if info.0.len() != size_of::<RawInfo>() {
            return Err(Fault::wire("a siginfo that is not 128 bytes long"));
        }
        let signal = u64::from(u32::from_ne_bytes([info.0[0], info.0[1], info.0[2], info.0[3]]));
        let at = script.bytes(&info.0);
        match thread {
            Some(tid) => script.call("queue a signal", libc::SYS_rt_tgsigqueueinfo, &[pid, tid, signal, at]),
            None => script.call("queue a signal", libc::SYS_rt_sigqueueinfo, &[pid, signal, at]),
        };
    }
    Ok(())
}

/// The same, however many they are: what one script has no room for is queued at once, and the rest by `script`.
///
/// # Errors
/// EAGAIN where more of them wait than may (RLIMIT_SIGPENDING); `Wire` for a broken image.
pub(crate) fn set_long_queue(
    (loan, arena): (&mut Loan<'_>, Arena),
    script: &mut Script,
    queue: &[Bytes],
    (pid, thread): (u64, Option<u64>),
) -> Result<()> {
    const AT_ONCE: usize = 4096;
    let mut left = queue;
    while left.len() > AT_ONCE {
        let (some, others) = left.split_at(AT_ONCE);
        let mut first = arena.script();
        set_queue(&mut first, some, pid, thread)?;
        loan.run(arena, first)?;
        left = others;
    }
    set_queue(script, left, pid, thread)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(sig: Sig) -> Bytes {
        Bytes(raw_siginfo(&SigInfo::kill(sig, Pid(7), 0)).as_bytes().to_vec())
    }

    /// Whether it blocks it or has a handler; else a continuation that it has had is none that waits.
    #[test]
    fn a_continuation_that_came_to_what_is_to_be_the_process_waits_for_one_that_heeds_it() {
        let handler = Action { signal: Sig::CONT.number(), handler: 4096, ..Action::default() };
        for (mask, actions, waits) in [(0, vec![], 0), (Sig::CONT.bit(), vec![], 1), (0, vec![handler], 1)] {
            let queue = vec![waiting(Sig::TSTP)];
            let process = Process { queue, actions, ..Process::default() };
            let threads = [Thread { mask, ..Thread::default() }];
            let left = Came::Continued.leaves(&process, &threads);
            let conts = left.iter().filter(|info| info.0[0] == Sig::CONT.number()).count();
            assert_eq!((left.len(), conts), (waits, waits));
        }
    }
}
