//! The mount namespaces in which ghosts are shown: that of the machine, if it is to be, and those of views.

use crate::binder::{said_within, Bound};
use crate::binds::{packets, END};
use crate::ghosts::Ghosts;
use kern::sock;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tracing::warn;
use vocab::{Fault, Pid, Result};

/// How long one who binds may take for what it is told in a packet. Until then nobody tells the kernel what is not there any more: that waits for whoever
/// looks up a name at that moment, and so would wait for the one that serves it.
const PATIENCE: Duration = Duration::from_secs(5);

/// Names one of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Number(u64);

#[derive(Debug)]
struct Door {
    number: Number,
    line: OwnedFd,
    /// Without it there is no use in going on.
    is_machine: bool,
}

impl Door {
    fn tell(&self, packet: &[u8]) -> Result<()> {
        sock::send(self.line.as_fd(), packet).map(drop).map_err(|_| Fault::gone("who binds directories"))
    }

    fn is_done(&self) -> Result<()> {
        said_within(self.line.as_fd(), &mut [0], PATIENCE).map(drop)
    }
}

#[derive(Debug, Default)]
struct State {
    last: u64,
    all: Vec<Door>,
}

#[derive(Debug, Default)]
pub(crate) struct Doors(Mutex<State>);

impl Doors {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ghosts are shown there too, from now on.
    ///
    /// # Errors
    /// `Gone` or `Sys` when that one does not do it.
    pub(crate) fn add(&self, bound: Bound, is_machine: bool, ghosts: &Ghosts) -> Result<Number> {
        let mut state = self.state();
        state.last += 1;
        let door = Door { number: Number(state.last), line: bound.line, is_machine };
        // Of what comes after these all are told.
        let now: Vec<i32> = ghosts.pids().iter().map(|pid| pid.0).collect();
        packets(&now).try_for_each(|packet| door.tell(&packet).and_then(|()| door.is_done()))?;
        let number = door.number;
        state.all.push(door);
        Ok(number)
    }

    /// What is bound onto these is taken away, then these are bound; returns when that is done.
    ///
    /// # Errors
    /// When nobody does it where the machine's processes are. Views are given up alone.
    pub(crate) fn tell(&self, gone: &[Pid], new: &[Pid]) -> Result<()> {
        let numbers: Vec<i32> = gone.iter().map(|pid| -pid.0).chain(new.iter().map(|pid| pid.0)).collect();
        let mut state = self.state();
        let mut lost = Ok(());
        for packet in packets(&numbers) {
            let told: Vec<Result<()>> = state.all.iter().map(|door| door.tell(&packet)).collect();
            let mut told = told.into_iter();
            state.all.retain(|door| {
                let done = told.next().unwrap_or(Ok(())).and_then(|()| door.is_done());
                let Err(fault) = done else { return true };
                match door.is_machine {
                    true => lost = Err(fault),
                    false => warn!("a view of /proc shows ghosts no longer: {fault}"),
                }
                false
            });
        }
        lost
    }

    /// Ghosts are not shown there any more; what is bound there is taken away.
    pub(crate) fn close(&self, number: Number) {
        let door = {
            let mut state = self.state();
            let at = state.all.iter().position(|door| door.number == number);
            at.map(|at| state.all.swap_remove(at))
        };
        door.iter().for_each(end);
    }

    /// Nowhere.
    pub(crate) fn end(&self) {
        let all = std::mem::take(&mut self.state().all);
        all.iter().for_each(end);
    }
}

fn end(door: &Door) {
    let ended = packets(&[END]).try_for_each(|packet| door.tell(&packet)).and_then(|()| door.is_done());
    if let Err(fault) = ended {
        warn!("what was bound is not taken away: {fault}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kern::sock::Kind;
    use vocab::NodeId;

    /// Somebody who says of each packet that it is done, until the line ends; what it was told.
    fn binds(line: OwnedFd) -> std::thread::JoinHandle<Vec<i32>> {
        std::thread::spawn(move || {
            let mut all = Vec::new();
            let mut packet = [0; 4096];
            while let Ok(length @ 1..) = kern::sys::read(line.as_fd(), &mut packet) {
                let numbers = packet[..length].chunks_exact(4).filter_map(|four| four.try_into().ok());
                all.extend(numbers.map(i32::from_ne_bytes));
                let _ = sock::send(line.as_fd(), &[crate::binds::DONE]);
            }
            all
        })
    }

    #[test]
    fn each_is_told_of_all_and_one_that_ends_keeps_nobody() {
        let (ghosts, doors) = (Ghosts::default(), Doors::default());
        ghosts.stand(Pid(7), NodeId(0));
        let mut told = Vec::new();
        let mut add = |is_machine| {
            let (line, its) = sock::socketpair(Kind::SeqPacket).expect("pair");
            told.push(binds(its));
            doors.add(Bound { line, pid: Pid(1) }, is_machine, &ghosts).expect("it answers")
        };
        let (machine, view) = (add(true), add(false));
        assert_ne!(machine, view);
        let (line, its) = sock::socketpair(Kind::SeqPacket).expect("pair");
        let dies = std::thread::spawn(move || {
            let _ = kern::sys::read(its.as_fd(), &mut [0; 64]);
            let _ = sock::send(its.as_fd(), b".");
        });
        doors.add(Bound { line, pid: Pid(1) }, false, &ghosts).expect("it answers once");
        dies.join().expect("a thread");
        doors.tell(&[Pid(7)], &[Pid(8), Pid(9)]).expect("the machine's is there");
        doors.close(view);
        doors.tell(&[], &[Pid(10)]).expect("the machine's is there");
        doors.end();
        let told: Vec<Vec<i32>> = told.into_iter().map(|told| told.join().expect("a thread")).collect();
        assert_eq!(told, [vec![7, -7, 8, 9, 10, END], vec![7, -7, 8, 9, END]]);
    }
}
