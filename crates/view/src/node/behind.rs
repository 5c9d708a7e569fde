//! Sends what programs have written to files that they have just made ([`Written`]), and passes on then what has waited for that.

use super::paths::Hint;
use super::pending::Asked;
use super::serve::Node;
use super::threads::start;
use super::written::{Does, Held, Write, Written, AGE};
use crate::fuse::{op, take, EntryOut, OpenOut, WriteIn, WriteOut};
use crate::line::lock;
use kern::fuse::raw::{self, Header};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::{Arc, Mutex};
use vocab::Result;
use wire::view::ToServer;

/// The bytes that are kept, and the thread that looks how long.
#[derive(Debug)]
pub(super) struct Behind {
    written: Mutex<Written>,
    is_watched: AtomicBool,
    watch: Sender<()>,
}

impl Behind {
    /// The second is for [`watch`].
    pub(super) fn new() -> (Behind, Receiver<()>) {
        let (watch, watched) = channel();
        (Behind { written: Mutex::default(), is_watched: AtomicBool::new(false), watch }, watched)
    }

    /// Does this request of the kernel's wait for something that is on its way?
    pub(super) fn holds(&self, unique: u64) -> bool {
        lock(&self.written).holds(unique)
    }
}

/// Starts the thread that sends what was written a moment ago.
///
/// # Errors
/// `Sys`: there can be no more.
pub(super) fn watch(node: &Arc<Node>, watched: Receiver<()>) -> Result<()> {
    let node = node.clone();
    start("written", move || {
        while watched.recv().is_ok() {
            loop {
                let _ = kern::poll::poll_for(&[], Some(AGE));
                let (old, more) = lock(&node.behind.written).old();
                old.into_iter().for_each(|write| node.send_written(Some(write)));
                if !more {
                    node.behind.is_watched.store(false, Ordering::SeqCst);
                    // A request that came in between has woken nobody.
                    if !lock(&node.behind.written).is_dirty() || node.behind.is_watched.swap(true, Ordering::SeqCst) {
                        break;
                    }
                }
            }
        }
    })
}

fn is_flush(request: &[u8]) -> bool {
    raw::split(request).is_ok_and(|(header, _)| header.opcode == op::FLUSH)
}

impl Node {
    /// The answer to CREATE allows that what is written is kept; before the kernel has it.
    pub(super) fn may_keep(&self, header: &Header, data: &[u8]) {
        let parts = take::<EntryOut>(data).and_then(|(entry, rest)| take::<OpenOut>(rest).map(|(out, _)| (entry, out)));
        if let Ok((entry, out)) = parts {
            lock(&self.behind.written).begin(entry.node, out.handle, *header);
        }
    }

    /// An answer about names, with the sizes that are known here.
    pub(super) fn correct(&self, opcode: u32, data: &[u8]) -> Option<Vec<u8>> {
        let names = matches!(opcode, op::LOOKUP | op::READDIRPLUS);
        names.then(|| {
            let mut data = data.to_vec();
            lock(&self.behind.written).correct(opcode, &mut data);
            data
        })
    }

    /// A request about what is kept. False: it is to be passed on, as any other.
    pub(super) fn take_written(&self, header: &Header, body: &[u8], request: &[u8]) -> bool {
        let (does, is_new) = lock(&self.behind.written).take(header, body, request);
        if is_new && !self.behind.is_watched.swap(true, Ordering::SeqCst) {
            // The thread lives as long as the process.
            let _ = self.behind.watch.send(());
        }
        match does {
            Does::Pass => return false,
            Does::Answer(errno, data) => {
                self.own.fetch_add(1, Ordering::Relaxed);
                self.fuse.answer(header.unique, errno, &data);
            }
            Does::Send(write) => self.send_written(write),
        }
        true
    }

    fn send_written(&self, write: Option<Write>) {
        let Some(Write { request, .. }) = write else { return };
        if let Ok((header, body)) = raw::split(&request) {
            lock(&self.grants).passed(&header, body);
        }
        self.ask(Asked { unique: 0, groups: Vec::new(), request, silent: false }, Hint::default());
    }

    /// The front end has written what was sent, or could not.
    pub(super) fn arrived(self: &Arc<Self>, header: &Header, body: &[u8], errno: i32, data: &[u8]) {
        lock(&self.grants).passed(header, body);
        let Ok((head, _)) = take::<WriteIn>(body) else { return };
        let count = take::<WriteOut>(data).map_or(0, |(out, _)| out.size as usize);
        let arrived = lock(&self.behind.written).arrived(head.handle, errno, count);
        self.send_written(arrived.more);
        self.note_all(arrived.notices);
        for held in arrived.held {
            match held {
                // The front end has nothing to do for FLUSH but to let go of locks (SETLK ends that anything is kept).
                Held::Flush(request) if arrived.errno != 0 || is_flush(&request) => {
                    if let Ok((header, _)) = raw::split(&request) {
                        self.fuse.answer(header.unique, arrived.errno, &[]);
                    }
                }
                Held::Request(request) | Held::Flush(request) => {
                    if let Ok((header, body)) = raw::split(&request) {
                        self.take(&header, body, &request);
                    }
                }
            }
        }
    }

    /// The front end wants what is kept of a file.
    pub(super) fn write_back(&self, notice: u64, body: &[u8]) {
        let node = body.try_into().map_or(0, u64::from_ne_bytes);
        let (nothing, write) = lock(&self.behind.written).write_back(node, notice);
        self.send_written(write);
        if nothing {
            self.note_all(vec![notice]);
        }
    }

    fn note_all(&self, mut notices: Vec<u64>) {
        if let Some(one) = notices.pop() {
            // A notice whose note is lost comes again.
            self.say(&ToServer::Noted(one, notices));
        }
    }
}
