//! What the threads of the parent of several copies share: input on its way to the copies, output on its way from them.

use super::super::branch::Which;
use super::super::queue::{Gathered, Queue};
use super::super::takers::{Allowed, Takers, Wanting};
use super::backlog::Backlog;
use kern::epoll::Waker;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use vocab::Result;
use wire::stream::{Stream, CREDIT, PIECE};

/// The most bytes of one stream of one copy that may wait for being written.
const MOST: usize = CREDIT as usize;

pub(super) struct Shared {
    backlog: Mutex<Backlog>,
    /// See [`Takers::reading`].
    reading: Mutex<()>,
    queues: [Queue; 2],
    /// Output and errors of each copy: bytes that wait for being written.
    waiting: Vec<[AtomicUsize; 2]>,
    /// Output and errors: nobody reads them.
    unread: [AtomicBool; 2],
    /// Marks that the writers have reached.
    marks: AtomicUsize,
    /// For the main thread.
    pub(super) bell: Waker,
    /// For the thread that reads standard input.
    reader: Waker,
}

impl Shared {
    pub(super) fn new(copies: usize) -> Result<Shared> {
        Ok(Shared {
            backlog: Mutex::new(Backlog::new(copies)),
            reading: Mutex::default(),
            queues: Default::default(),
            waiting: (0..copies).map(|_| Default::default()).collect(),
            unread: Default::default(),
            marks: AtomicUsize::new(0),
            bell: Waker::new()?,
            reader: Waker::new()?,
        })
    }

    /// Whoever has changed it rings [`Takers::reader`].
    pub(super) fn backlog(&self) -> MutexGuard<'_, Backlog> {
        self.backlog.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many bytes may be read of what a copy writes.
    pub(super) fn room(&self, copy: usize, stream: Stream) -> usize {
        MOST.saturating_sub(self.waiting[copy][index(stream)].load(Ordering::SeqCst)).min(PIECE)
    }

    /// So many bytes of a copy are in the queue from now on.
    pub(super) fn waits(&self, copy: usize, stream: Stream, bytes: usize) {
        self.waiting[copy][index(stream)].fetch_add(bytes, Ordering::SeqCst);
    }

    pub(super) fn is_unread(&self, stream: Stream) -> bool {
        self.unread[index(stream)].load(Ordering::SeqCst)
    }

    /// Marks that the writers have reached so far.
    pub(super) fn marks(&self) -> usize {
        self.marks.load(Ordering::SeqCst)
    }
}

impl Gathered for Shared {
    fn queue(&self, stream: Stream) -> &Queue {
        &self.queues[index(stream)]
    }

    fn consumed(&self, (copy, _): Which, stream: Stream, bytes: usize) {
        let before = self.waiting[copy][index(stream)].fetch_sub(bytes, Ordering::SeqCst);
        if before >= MOST {
            self.bell.wake();
        }
    }

    fn marked(&self) {
        self.marks.fetch_add(1, Ordering::SeqCst);
        self.bell.wake();
    }

    /// What comes here is of a relay with one copy.
    fn passed(&self, _copy: usize, _branch: u64) {}

    fn unread(&self, stream: Stream) {
        self.unread[index(stream)].store(true, Ordering::SeqCst);
        self.bell.wake();
    }
}

/// The copies' own wishes are not known here: their input is read ahead, but for that of a terminal in whose background they are.
impl Takers for Shared {
    fn reader(&self) -> &Waker {
        &self.reader
    }

    fn reading(&self) -> MutexGuard<'_, ()> {
        self.reading.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn allowed(&self) -> Allowed {
        match self.backlog().room() {
            None => Allowed::Over,
            Some(0) => Allowed::Wait,
            Some(room) => Allowed::Read(room.min(PIECE)),
        }
    }

    fn input(&self, bytes: Vec<u8>) {
        match bytes.as_slice() {
            [] => self.backlog().end(),
            bytes => self.backlog().add(bytes),
        }
        self.bell.wake();
    }

    fn ask(&self, _: Wanting) {}

    fn ask_no_more(&self) {}

    fn asked(&self) -> Option<Wanting> {
        Some(Wanting::Reads)
    }

    fn take_wanted(&self, _: Wanting) -> bool {
        false
    }
}

fn index(stream: Stream) -> usize {
    usize::from(stream == Stream::Err)
}
