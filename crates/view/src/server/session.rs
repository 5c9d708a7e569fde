//! A node's session: what it has open, what it was answered, and what it is to be told. It outlives its connection by the agreed time.

use super::busy::Busy;
use super::counts::{add, Counts};
use super::descriptors::most;
use super::inodes::{Inode, Who};
use crate::line::{lock, Line};
use kern::acting::Waiter;
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};
use vocab::errno::{EBADF, ENFILE, ESTALE};
use vocab::NodeId;
use wire::view::{Stored, ToNode};

/// So many answers that nobody waits for are kept back.
const SILENT_MOST: usize = 64;

/// A file that a node has open.
#[derive(Debug)]
pub(crate) struct Handle {
    pub(crate) file: Arc<File>,
    pub(crate) inode: Arc<Inode>,
    /// The node's kernel keeps pages that it reads by it.
    pub(crate) cached: bool,
    pub(crate) writes: bool,
    /// The user who has opened it.
    pub(crate) uid: u32,
    /// Of a directory: who reads it moves its position.
    pub(crate) reading: Mutex<()>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        if self.writes {
            lock(&self.inode.state).writers -= 1;
        }
    }
}

/// An answer.
#[derive(Default)]
pub(crate) struct Said {
    /// 0: none.
    pub(crate) errno: i32,
    pub(crate) data: Vec<u8>,
    /// All of these as [`ToNode::Answer`] has it.
    pub(crate) keeps: bool,
    pub(crate) long: bool,
    pub(crate) attributes: Option<Vec<u8>>,
    pub(crate) content: Option<Vec<u8>>,
    pub(crate) stored: Option<Stored>,
    pub(crate) plain: Vec<u64>,
    pub(crate) behind: bool,
}

impl Said {
    pub(crate) fn errno(errno: i32) -> Said {
        Said { errno, ..Said::default() }
    }
}

/// Answered already, for a node that did not get the answer.
#[derive(Clone)]
struct Kept {
    errno: i32,
    data: Vec<u8>,
}

/// Notices that the node has not noted yet.
#[derive(Default)]
struct Notices {
    last: u64,
    unnoted: BTreeMap<u64, (i32, Vec<u8>)>,
}

#[derive(Default)]
struct Open {
    handles: HashMap<u64, Arc<Handle>>,
    /// How many are whose.
    counts: HashMap<u32, usize>,
    last: u64,
    /// Nothing is opened any more.
    over: bool,
}

pub(crate) struct Session {
    pub(crate) who: Who,
    pub(crate) node: NodeId,
    /// Where other nodes ask it for contents that it keeps.
    pub(crate) contents: Option<SocketAddr>,
    /// The node takes rights that it has not asked for.
    pub(crate) takes_grants: bool,
    pub(crate) counts: Counts,
    line: Mutex<Option<Arc<Line>>>,
    answers: Mutex<HashMap<u64, Option<Kept>>>,
    /// Requests that are done, which the node is told with the next answer.
    silent: Mutex<Vec<u64>>,
    open: Mutex<Open>,
    pub(crate) busy: Mutex<Busy>,
    /// Threads that wait for somebody, by the request's own number.
    pub(crate) waiting: Mutex<HashMap<u64, Waiter>>,
    notices: Mutex<Notices>,
    noted: Condvar,
    corked: AtomicBool,
    /// Since when it has no connection.
    lost: Mutex<Option<Instant>>,
}

impl Session {
    pub(crate) fn new(who: Who, node: NodeId, contents: Option<SocketAddr>, takes_grants: bool) -> Session {
        Session {
            who,
            node,
            contents,
            takes_grants,
            counts: Counts::default(),
            line: Mutex::default(),
            answers: Mutex::default(),
            silent: Mutex::default(),
            open: Mutex::default(),
            busy: Mutex::default(),
            waiting: Mutex::default(),
            notices: Mutex::default(),
            noted: Condvar::new(),
            corked: AtomicBool::new(false),
            lost: Mutex::default(),
        }
    }

    /// Does the node keep contents on its disk?
    pub(crate) fn keeps_contents(&self) -> bool {
        self.contents.is_some()
    }

    /// Goes on over this connection. What the node may not have heard is said again.
    pub(crate) fn connect(&self, line: &Arc<Line>, welcome: &ToNode) {
        *lock(&self.lost) = None;
        // Nobody else says anything before that, nor a notice out of order.
        let notices = lock(&self.notices);
        let mut current = lock(&self.line);
        if let Some(before) = current.replace(line.clone()) {
            before.close();
        }
        let mut said = line.send(welcome);
        for (number, (code, body)) in &notices.unnoted {
            said = said.and_then(|()| line.send(&notice(*number, *code, body)));
        }
        if said.is_err() {
            line.close();
        }
    }

    /// Goes on without this connection, which has ended.
    pub(crate) fn disconnect(&self, line: &Arc<Line>) {
        let mut current = lock(&self.line);
        if current.as_ref().is_some_and(|now| Arc::ptr_eq(now, line)) {
            *current = None;
            *lock(&self.lost) = Some(Instant::now());
        }
    }

    pub(crate) fn lost_for(&self) -> Option<Duration> {
        lock(&self.lost).map(|since| since.elapsed())
    }

    fn say(&self, message: &ToNode) {
        let line = lock(&self.line).clone();
        // What a connection that ends has not taken is said again on the next.
        if line.is_some_and(|line| line.send(message).is_err()) {
            tracing::debug!(node = %self.node, "view: a connection has ended");
        }
    }

    /// Is this a request that has not come before? One that was answered is answered again.
    pub(crate) fn is_new(&self, number: u64, done: &[u64]) -> bool {
        let mut answers = lock(&self.answers);
        done.iter().for_each(|done| drop(answers.remove(done)));
        match answers.get(&number).cloned() {
            None => {
                answers.insert(number, None);
                true
            }
            Some(None) => false,
            Some(Some(Kept { errno, data })) => {
                drop(answers);
                // Something may have happened since that the node was told before.
                self.say(&answer(number, Said { errno, data, ..Said::default() }, Vec::new()));
                false
            }
        }
    }

    pub(crate) fn answer(&self, number: u64, said: Said) {
        lock(&self.answers).insert(number, Some(Kept { errno: said.errno, data: said.data.clone() }));
        let silent = std::mem::take(&mut *lock(&self.silent));
        self.say(&answer(number, said, silent));
    }

    /// Answers a request whose answer nobody waits for.
    pub(crate) fn answer_silently(&self, number: u64) {
        lock(&self.answers).insert(number, Some(Kept { errno: 0, data: Vec::new() }));
        let mut silent = lock(&self.silent);
        if silent.len() < SILENT_MOST {
            return silent.push(number);
        }
        let silent = std::mem::take(&mut *silent);
        self.say(&answer(number, Said::default(), silent));
    }

    /// Says something with what is said next, in this order.
    pub(crate) fn say_soon(&self, message: &ToNode) {
        if let Some(line) = lock(&self.line).clone() {
            if line.queue(message).is_err() {
                // Too much waits: it is sent first. What a connection that has ended has not taken is said again on the next.
                line.flush();
                let _ = line.send(message);
            }
        }
    }

    /// Is it connected, and how many files has it open?
    pub(crate) fn state(&self) -> (bool, usize) {
        (lock(&self.line).is_some(), lock(&self.open).handles.len())
    }

    /// # Errors
    /// ENFILE: its user has as many as one may have here; ESTALE: the session is over.
    pub(crate) fn add(&self, handle: Handle) -> Result<u64, i32> {
        let mut open = lock(&self.open);
        let count = open.counts.get(&handle.uid).copied().unwrap_or(0);
        let refused = match (open.over, handle.uid != 0 && count >= most() / 4) {
            (true, _) => Some(ESTALE),
            (false, true) => Some(ENFILE),
            (false, false) => None,
        };
        if let Some(errno) = refused {
            drop(open);
            return Err(errno);
        }
        *open.counts.entry(handle.uid).or_default() += 1;
        open.last += 1;
        let number = open.last;
        open.handles.insert(number, Arc::new(handle));
        Ok(number)
    }

    /// What it had is lost.
    pub(crate) fn is_over(&self) -> bool {
        lock(&self.open).over
    }

    /// # Errors
    /// EBADF: nothing is open under that number.
    pub(crate) fn handle(&self, number: u64) -> Result<Arc<Handle>, i32> {
        lock(&self.open).handles.get(&number).cloned().ok_or(EBADF)
    }

    pub(crate) fn close(&self, number: u64) {
        let closed = {
            let mut open = lock(&self.open);
            let closed = open.handles.remove(&number);
            if let Some(count) = closed.as_ref().and_then(|handle| open.counts.get_mut(&handle.uid)) {
                *count = count.saturating_sub(1);
            }
            closed
        };
        drop(closed);
    }

    /// Everything that the node has open is closed.
    pub(crate) fn close_all(&self) {
        let all = {
            let mut open = lock(&self.open);
            open.over = true;
            std::mem::take(&mut open.handles)
        };
        drop(all);
        if let Some(line) = lock(&self.line).take() {
            line.close();
        }
        // Whoever waits for it waits no more.
        lock(&self.notices).unnoted.clear();
        self.noted.notify_all();
    }

    /// Tells the node's kernel something. The number is for [`Session::wait`].
    pub(crate) fn notify(&self, code: i32, body: &[u8]) -> u64 {
        // Under the lock: notices are said in their order.
        add(&self.counts.notices, 1);
        let mut notices = lock(&self.notices);
        notices.last += 1;
        let number = notices.last;
        notices.unnoted.insert(number, (code, body.to_vec()));
        let message = notice(number, code, body);
        if self.corked.load(Ordering::Relaxed) {
            self.say_soon(&message);
        } else {
            self.say(&message);
        }
        number
    }

    /// Notices are sent together from now on, or again each by itself, and those that were kept back now.
    pub(crate) fn cork(&self, corked: bool) {
        self.corked.store(corked, Ordering::Relaxed);
        if !corked {
            self.flush();
        }
    }

    fn flush(&self) {
        let line = lock(&self.line).clone();
        if let Some(line) = line {
            line.flush();
        }
    }

    pub(crate) fn noted(&self, one: u64, others: &[u64]) {
        let mut notices = lock(&self.notices);
        others.iter().chain([&one]).for_each(|number| drop(notices.unnoted.remove(number)));
        drop(notices);
        self.noted.notify_all();
    }

    /// Waits until the node's kernel has been told, or until then. False: it was not.
    pub(crate) fn wait(&self, number: u64, until: Instant) -> bool {
        self.flush();
        let mut notices = lock(&self.notices);
        while notices.unnoted.contains_key(&number) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let waited = self.noted.wait_timeout(notices, left);
            notices = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}

fn answer(number: u64, said: Said, silent: Vec<u64>) -> ToNode {
    let Said { errno, data, keeps, long, attributes, content, stored, plain, behind } = said;
    let (attributes, content) = (attributes.map(Into::into), content.map(Into::into));
    ToNode::Answer { number, errno, data: data.into(), keeps, long, attributes, content, silent, plain, stored, behind }
}

fn notice(number: u64, code: i32, body: &[u8]) -> ToNode {
    ToNode::Notice { number, code, body: body.to_vec().into() }
}
