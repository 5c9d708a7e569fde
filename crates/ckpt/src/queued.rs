//! Signals that wait for a process when it is written, and those that come later: what of them stops or continues it.

use crate::freeze::Frozen;
use crate::sigstate;
use image::process::Process;
use image::thread::Thread;
use image::Bytes;
use kern::pidfd::raw_siginfo;
use kern::ptrace::{Queue, RawInfo};
use puppet::Stopped;
use std::num::NonZero;
use vocab::{Result, Sig, SigInfo};
use zerocopy::{FromBytes, IntoBytes};

pub(crate) fn raw(info: &Bytes) -> Option<RawInfo> {
    RawInfo::read_from_bytes(&info.0).ok()
}

/// Which signals waited when they were written: for the process, and for each thread.
pub(crate) struct Queued {
    pub(crate) process: Vec<RawInfo>,
    pub(crate) threads: Vec<Vec<RawInfo>>,
}

impl Queued {
    /// Those of the image, and how they leave the process. A SIGSTOP is none that waits: it cannot be blocked, so it stops the process, which it has not yet, or changes
    /// nothing. A SIGCONT came when the process stood still, and has ended the stop: it would not wait otherwise (linux: `prepare_signal`).
    pub(crate) fn of(process: &mut Process, threads: &[Thread]) -> Queued {
        let infos = |infos: &[Bytes]| infos.iter().filter_map(raw).collect();
        let each = threads.iter().map(|thread| infos(&thread.queue)).collect();
        let queued = Queued { process: infos(&process.queue), threads: each };
        if queued.has(Sig::CONT) {
            process.stopped = 0;
        }
        let is_stop = |info: &Bytes| raw(info).as_ref().and_then(number) == Some(Sig::STOP);
        if process.queue.iter().any(is_stop) {
            process.queue.retain(|info| !is_stop(info));
            process.stopped = NonZero::new(process.stopped).map_or(Sig::STOP.number(), NonZero::get);
        }
        queued
    }

    pub(crate) fn has(&self, sig: Sig) -> bool {
        self.process.iter().chain(self.threads.iter().flatten()).any(|info| number(info) == Some(sig))
    }

    /// For the process, or its leader.
    pub(crate) fn of_leader(&self) -> impl Iterator<Item = Sig> + '_ {
        self.process.iter().chain(self.threads.iter().take(1).flatten()).filter_map(number)
    }
}

/// It has gone on by a SIGCONT after it was written, which ended what stopped it (linux: `prepare_signal`): by this one, which it is to have, or by one that it has, or is to have no more.
pub(crate) fn goes_on(process: &mut Process, info: Option<&SigInfo>) {
    let turns = |info: &Bytes| raw(info).as_ref().and_then(number).is_some_and(|sig| sig.stops() || sig == Sig::CONT);
    process.stopped = 0;
    process.queue.retain(|info| !turns(info));
    process.queue.extend(info.map(|info| Bytes(raw_siginfo(info).as_bytes().to_vec())));
}

/// The signals that waited before the timers were read; of threads, if a timer signals one.
pub(crate) struct Waited {
    pub(crate) process: Vec<Bytes>,
    pub(crate) threads: Vec<Vec<Bytes>>,
}

impl Waited {
    pub(crate) fn now(frozen: &Frozen, process: &Process) -> Result<Waited> {
        let to_threads = process.timers.iter().any(|timer| timer.notify & libc::SIGEV_THREAD_ID != 0);
        let threads = frozen.threads.iter().filter(|_| to_threads);
        let threads = threads.map(|thread| sigstate::queue(thread.tid(), Queue::Thread)).collect::<Result<_>>()?;
        Ok(Waited { process: sigstate::queue(frozen.pid, Queue::Process)?, threads })
    }
}

/// The first signal that queues (signal(7)); linux: `SIGRTMIN`, of which libc takes some for itself.
pub(crate) const REAL_TIME: u8 = 32;

/// A siginfo begins with the number.
pub(crate) fn number(info: &RawInfo) -> Option<Sig> {
    Sig::new(info[0] as u8)
}

/// Those of `all` that are not among the `known` ones, all being in their order. Of these some may be gone: SIGCONT takes away what stops, and what stops SIGCONT
/// (linux: `prepare_signal`).
pub(crate) fn since(known: &[RawInfo], all: Vec<RawInfo>) -> Vec<RawInfo> {
    let mut left = known;
    let is_new = |info: &RawInfo| match left.iter().position(|one| one == info) {
        Some(at) => {
            left = &left[at + 1..];
            false
        }
        None => true,
    };
    all.into_iter().filter(is_new).collect()
}

/// By what a process that is made stops as soon as it runs: by what had stopped it (`stopped`), of which its parent may not have been told, or by a SIGSTOP that came while it
/// was made. A SIGCONT that waits came after both.
///
/// # Errors
/// `Gone`.
pub(crate) fn stops_by(stopped: Option<Sig>, leader: &Stopped) -> Result<Option<Sig>> {
    let met = leader.take_stop();
    if !met && stopped.is_none() || leader.is_to_continue()? {
        return Ok(None);
    }
    // One that the leader blocks would wait for it. Another thread has taken that then.
    let mask = leader.sigmask()?;
    Ok(stopped.filter(|sig| mask & sig.bit() == 0).or(Some(Sig::STOP)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rt() -> Sig {
        Sig::new(40).expect("a signal")
    }

    fn info(sig: Sig, value: u64) -> RawInfo {
        let mut info = RawInfo::default();
        (info[0], info[3]) = (sig.number().into(), value);
        info
    }

    #[test]
    fn what_has_come_is_found_also_where_something_has_been_taken_away() {
        let (stop, cont, user) = (info(Sig::TSTP, 0), info(Sig::CONT, 0), info(Sig::USR1, 0));
        assert_eq!(since(&[user], vec![user, cont]), [cont]);
        // SIGCONT has taken SIGTSTP away, and there are as many as before.
        assert_eq!(since(&[stop], vec![cont]), [cont]);
        assert_eq!(since(&[stop, user], vec![user, cont]), [cont]);
        let (one, other) = (info(rt(), 1), info(rt(), 2));
        assert_eq!(since(&[one], vec![one, other]), [other]);
    }

    #[test]
    fn one_that_has_gone_on_since_it_was_written_is_not_stopped_and_has_the_continuation() {
        let waits = |sig: Sig| Bytes(info(sig, 0).as_bytes().to_vec());
        let queue = vec![waits(Sig::USR1), waits(Sig::TSTP), waits(Sig::CONT)];
        let mut process = Process { queue, stopped: Sig::STOP.number(), ..Process::default() };
        let by = SigInfo::kill(Sig::CONT, vocab::Pid(7), 1000);
        goes_on(&mut process, Some(&by));
        let left: Vec<RawInfo> = process.queue.iter().filter_map(raw).collect();
        assert_eq!(left, [info(Sig::USR1, 0), raw_siginfo(&by)]);
        assert_eq!(process.stopped, 0);
    }

    #[test]
    fn a_stop_that_waits_has_stopped_it_and_one_that_was_continued_is_over() {
        let written = |sig: Sig, stopped: u8| {
            let queue = vec![Bytes(info(sig, 0).as_bytes().to_vec())];
            let mut process = Process { queue, stopped, ..Process::default() };
            let queued = Queued::of(&mut process, &[]);
            (process.stopped, process.queue.len(), queued.has(sig))
        };
        assert_eq!(written(Sig::STOP, 0), (Sig::STOP.number(), 0, true));
        assert_eq!(written(Sig::STOP, Sig::TSTP.number()), (Sig::TSTP.number(), 0, true));
        assert_eq!(written(Sig::CONT, Sig::STOP.number()), (0, 1, true));
    }
}
