//! The threads of one connection: each message wakes one of them, and one at least always waits for the next.

use super::session::Session;
use crate::line::{lock, Line};
use kern::epoll::{Interest, Poller, Waker};
use std::collections::VecDeque;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use vocab::{Fault, Result};
use wire::view::ToServer;

/// Threads that wait for requests of one node, at most, and that serve them.
const IDLE: usize = 8;
const MOST: usize = 4096;
/// The poller's tokens of the socket and the waker.
const SOCKET: u64 = 0;
const WAKER: u64 = 1;

pub(crate) struct Team {
    pub(crate) session: Arc<Session>,
    pub(crate) line: Arc<Line>,
    /// The kernel wakes one of those that wait by it. The socket is told once, and then again when a thread has read what had come.
    poller: Poller,
    /// Messages that were read and have no thread yet, and what wakes one for them.
    read: Mutex<VecDeque<ToServer>>,
    more: Waker,
    /// The connection has ended: nobody waits any more.
    over: AtomicBool,
    /// Threads that wait for a message, and all threads.
    idle: AtomicUsize,
    all: AtomicUsize,
}

impl Team {
    /// # Errors
    /// `Sys` where there are no descriptors.
    pub(crate) fn new(session: Arc<Session>, line: Arc<Line>) -> Result<Team> {
        let (poller, more) = (Poller::new()?, Waker::new()?);
        poller.add(line.socket(), SOCKET, Interest::READ | Interest::ONCE)?;
        poller.add(more.as_fd(), WAKER, Interest::READ)?;
        let (idle, all) = (AtomicUsize::new(0), AtomicUsize::new(0));
        // Messages may have come with the first.
        more.wake();
        Ok(Team { session, line, poller, read: Mutex::default(), more, over: AtomicBool::new(false), idle, all })
    }

    /// One more thread; [`Team::leave`] when it ends.
    pub(crate) fn enter(&self) {
        self.all.fetch_add(1, Ordering::SeqCst);
    }

    pub(crate) fn leave(&self) {
        self.all.fetch_sub(1, Ordering::SeqCst);
    }

    /// Waits for a message. True: the last one that waited has it, and another thread is to come. `None`: enough others wait.
    ///
    /// # Errors
    /// The connection has ended.
    pub(crate) fn next(&self) -> Result<Option<(ToServer, bool)>> {
        if self.idle.fetch_add(1, Ordering::SeqCst) >= IDLE {
            self.idle.fetch_sub(1, Ordering::SeqCst);
            return Ok(None);
        }
        let message = self.wait();
        let last = self.idle.fetch_sub(1, Ordering::SeqCst) == 1;
        message.map(|message| Some((message, last && self.all.load(Ordering::SeqCst) < MOST)))
    }

    fn wait(&self) -> Result<ToServer> {
        let mut ready = Vec::new();
        loop {
            if let Some(message) = self.taken() {
                return Ok(message);
            }
            if self.over.load(Ordering::SeqCst) {
                return Err(Fault::gone("the connection has ended"));
            }
            self.poller.wait(&mut ready, None)?;
            for one in &ready {
                match one.token {
                    WAKER => {
                        // At the end it stays as it is, so that all are woken.
                        if !self.over.load(Ordering::SeqCst) {
                            self.more.drain();
                        }
                        // The end may have come in between; and what came before the socket was waited for is read.
                        if self.over.load(Ordering::SeqCst) {
                            self.more.wake();
                        }
                        self.read_all(false)?;
                    }
                    _ => self.read_all(true)?,
                }
            }
        }
    }

    fn taken(&self) -> Option<ToServer> {
        let mut read = lock(&self.read);
        let message = read.pop_front()?;
        if !read.is_empty() {
            self.more.wake();
        }
        Some(message)
    }

    /// Reads what has come, and has the socket told again if it was told.
    fn read_all(&self, told: bool) -> Result<()> {
        let mut read = lock(&self.read);
        let come = self.line.take();
        let come = come.and_then(|come| {
            read.extend(come);
            match told {
                true => self.poller.modify(self.line.socket(), SOCKET, Interest::READ | Interest::ONCE),
                false => Ok(()),
            }
        });
        come.inspect_err(|_| {
            self.over.store(true, Ordering::SeqCst);
            self.more.wake();
        })
    }
}
