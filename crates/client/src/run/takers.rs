//! Those who take our standard input, as the reader of it sees them.

use kern::epoll::Waker;
use std::sync::MutexGuard;

/// What the reader of standard input may do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Allowed {
    /// Read at most so many bytes.
    Read(usize),
    /// Nothing now.
    Wait,
    /// Nothing any more: no copy takes input.
    Over,
}

/// Which processes on a node want input that is not read ahead.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wanting {
    /// Those that block in reading: as the kernel's job control sees it, for which poll(2) is no reading.
    Reads,
    /// Those that wait for input in any way.
    Waits,
}

/// The copies of a program, of which each gets the whole input. What is read and not yet taken has a bound for each of them.
pub(crate) trait Takers: Sync {
    /// Wakes the reader when it is to look again at what it may do.
    fn reader(&self) -> &Waker;

    /// Whoever reads our input holds this until the bytes are given: the process may not be doubled meanwhile.
    fn reading(&self) -> MutexGuard<'_, ()>;

    fn allowed(&self) -> Allowed;

    /// Input for every copy; no bytes: the end of it.
    fn input(&self, bytes: Vec<u8>);

    /// Input is not read ahead: the copies are asked whether they want it. The first that does ends the question.
    fn ask(&self, wanting: Wanting);

    /// Input is read ahead.
    fn ask_no_more(&self);

    /// What the copies were last asked.
    fn asked(&self) -> Option<Wanting>;

    /// Whether input is wanted in this way; says so once.
    fn take_wanted(&self, wanting: Wanting) -> bool;
}
