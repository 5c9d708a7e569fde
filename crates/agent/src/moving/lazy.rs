//! Processes here of whose memory some is still on another node: as long as it is, it must not be taken for zeroes, and if it cannot come they are lost.

use crate::agent::Agent;
use kern::pidfd;
use mover::Held;
use std::os::fd::{AsFd, OwnedFd};
use tracing::warn;
use vocab::{Exit, Fault, Pid};
use wire::node::ToFront;

/// Memory that is to come.
pub(super) struct Rest {
    pid: Pid,
    /// The front end knows that the process runs.
    known: bool,
    _fd: OwnedFd,
}

impl Rest {
    pub(super) fn is_of(&self, pid: Pid) -> bool {
        self.pid == pid
    }
}

impl Agent {
    /// Tells the front end so, if nothing is to come to it any more.
    pub(super) fn tell_whole(&mut self, pid: Pid) {
        if self.moving.whole.contains(&pid) {
            self.uplink.send(&ToFront::Whole { pid });
        }
    }

    /// There is a link again: what was said over the one before may not have been heard. The ends of processes are told before.
    pub(crate) fn tell_whole_again(&mut self) {
        for pid in &self.moving.whole {
            self.uplink.send(&ToFront::Whole { pid: *pid });
        }
    }

    /// Is some of its memory to come yet? Then the old node has not said that it has left, and whoever is to be the front end must hear from this one
    /// that it runs here.
    pub(super) fn comes_still(&mut self, pid: Pid) -> bool {
        let rest = self.moving.held.values_mut().find(|rest| rest.pid == pid);
        rest.map(|rest| rest.known = true).is_some()
    }

    /// Nothing is to come any more.
    pub(super) fn has_come(&mut self, number: u32) {
        if let Some(Rest { pid, .. }) = self.moving.held.remove(&number).filter(|rest| rest.known) {
            self.moving.ran.remove(&pid);
        }
    }

    /// A copy of the mover's descriptor: if the mover ends, whoever needs a page waits until it is killed.
    pub(super) fn hold(&mut self, number: u32, held: Held) {
        let Some(mover) = self.moving.movers.get(&number) else { return };
        let (pid, whom) = (mover.pid, mover.whom);
        match pidfd::open(pid).and_then(|handle| pidfd::getfd(handle.as_fd(), held.number)) {
            Ok(fd) => drop(self.moving.held.insert(number, Rest { pid: whom, known: false, _fd: fd })),
            Err(errno) => {
                let fault = Fault::sys(errno, "keep what is missing of its memory");
                self.end_mover(number);
                self.mover_gone(number, whom, fault);
            }
        }
    }

    /// What is missing of this process, and of the children that it has forked since, cannot come.
    pub(super) fn is_lost(&mut self, number: u32, pid: Pid, fault: &Fault, with: Vec<Pid>) {
        for pid in std::iter::once(pid).chain(with) {
            warn!(%pid, %fault, "lost: some of its memory was on its old node still");
            self.moving.lost.insert(pid);
            pidfd::end(pid);
        }
        self.end_mover(number);
        self.has_come(number);
    }

    /// The front end knows that nothing comes any more, or that nobody is there to whom it could: of a machine that is gone no connection tells.
    pub(crate) fn rest_is_lost(&mut self, pid: Pid) {
        if let Some(keeper) = self.moving.keeper(pid) {
            self.end_mover(keeper);
            return self.mover_gone(keeper, pid, Fault::gone("its new node is lost"));
        }
        let number = self.moving.held.iter().find(|(_, rest)| rest.pid == pid).map(|(number, _)| *number);
        if let Some(number) = number {
            // Its mover, which waits, could say which of them still need what does not come.
            let mut below = vec![pid];
            for at in 0.. {
                let Some(parent) = below.get(at).copied() else { break };
                let persons = self.bodies.iter().map(|body| &body.person);
                below.extend(persons.filter(|one| one.ppid == parent).map(|one| one.pid));
            }
            self.is_lost(number, pid, &Fault::gone("its old node is lost"), below.split_off(1));
        }
    }

    /// How it has ended, for who is to know.
    pub(crate) fn ended_as(&mut self, pid: Pid, exit: Exit) -> Exit {
        match self.moving.lost.remove(&pid) && exit.to_status() == Exit::NodeLost.to_status() {
            true => Exit::NodeLost,
            false => exit,
        }
    }
}
