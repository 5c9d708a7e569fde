//! Signals of stand-ins while there is no link: a restart of the front end's daemon loses none. They pend as in a process that blocks them.

use crate::agent::Agent;
use std::collections::VecDeque;
use tracing::warn;
use vocab::{Pid, Sig, SigInfo};
use wire::node::ToFront;

/// So many wait at most: real-time signals of one user must not fill the memory.
const MOST: usize = 65_536;

#[derive(Clone, Copy, Debug)]
struct Signal {
    target: Pid,
    info: SigInfo,
    turn: Option<u64>,
}

/// Those that wait, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Unsent(VecDeque<Signal>);

impl Unsent {
    /// By the kernel's rules: one that stops and one that continues discard each other, and those that do not queue pend once (linux:
    /// `prepare_signal`, `legacy_queue`). `false` when there is no room.
    fn keep(&mut self, signal: Signal) -> bool {
        let Signal { target, info, .. } = signal;
        let discards = |sig: Sig| info.sig == Sig::CONT && sig.stops() || info.sig.stops() && sig == Sig::CONT;
        if info.sig.stops() || info.sig == Sig::CONT {
            self.0.retain(|other| other.target != target || !discards(other.info.sig));
        }
        let pends = |other: &Signal| other.target == target && other.info.sig == info.sig;
        let room = self.0.len() < MOST;
        if room && (info.sig.number() >= FIRST_QUEUED || !self.0.iter().any(pends)) {
            self.0.push_back(signal);
        }
        room
    }
}

impl Agent {
    /// Tells the front end of a signal to what stands here for a process elsewhere; as soon as there is a link.
    pub(crate) fn tell_signal(&mut self, target: Pid, info: SigInfo, turn: Option<u64>) {
        if self.uplink.up() && self.waiting.unsent.0.is_empty() {
            self.uplink.send(&ToFront::Signal { target, info, turn });
        } else if !self.waiting.unsent.keep(Signal { target, info, turn }) {
            warn!(%target, sig = %info.sig, "link: a signal is dropped, too many wait for it");
        }
    }

    /// There is a link again.
    pub(crate) fn tell_unsent(&mut self) {
        for Signal { target, info, turn } in std::mem::take(&mut self.waiting.unsent.0) {
            self.uplink.send(&ToFront::Signal { target, info, turn });
        }
    }
}

/// Real-time signals queue.
const FIRST_QUEUED: u8 = 32;

#[cfg(test)]
mod tests {
    use super::*;

    fn left(sent: &[Sig]) -> Vec<Sig> {
        let mut unsent = Unsent::default();
        for (n, sig) in sent.iter().enumerate() {
            let info = SigInfo::kill(*sig, Pid(5), 0);
            assert!(unsent.keep(Signal { target: Pid(7 + (n % 2) as i32), info, turn: None }));
        }
        unsent.0.iter().filter(|signal| signal.target == Pid(7)).map(|signal| signal.info.sig).collect()
    }

    #[test]
    fn they_pend_as_in_a_process() {
        let rt = Sig::new(40).expect("a signal");
        let twice = |sig: Sig| [sig, sig, sig, sig];
        assert_eq!(left(&twice(Sig::TERM)), [Sig::TERM]);
        assert_eq!(left(&twice(rt)), [rt, rt]);
        assert_eq!(left(&[Sig::STOP, Sig::TERM, Sig::CONT, Sig::TERM, Sig::STOP]), [Sig::STOP]);
        assert_eq!(left(&[Sig::TSTP, rt, Sig::TERM, rt, Sig::CONT]), [Sig::TERM, Sig::CONT]);
    }
}
