//! Brings contents of files onto this node's disk, and answers reads from there.
//!
//! A thread for each content looks whether it is there from an earlier run, asks other nodes for it, and then the front end. A read of what comes next waits for that; everything else is read from
//! the front end, as if there were no disk.

use super::objects::{Next, Wanted};
use super::paths::Hint;
use super::pending::Asked;
use super::serve::Node;
use super::threads::start;
use crate::fuse::{op, take, ReadIn};
use crate::line::lock;
use kern::fuse::raw::Header;
use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::{Arc, Mutex};
use store::{Held, Object, Reach, Store, PIECE};
use tracing::{debug, info};
use vocab::{Fault, Result};
use wire::view::{Stored, ToServer, SUMS};
use zerocopy::IntoBytes;

/// Contents that are brought at a time.
const MOST: usize = 64;
/// Bytes of one read from the front end, and so many reads at a time.
const STEP: u64 = 2 * PIECE;
const AT_A_TIME: usize = 4;
/// Of a content up to this size a read waits for all that comes before it, of a larger one for so much.
const WHOLE: u64 = 16 << 20;
const AHEAD: u64 = 2 << 20;

/// An answer of the front end to a request of this process: an errno, and data.
type Came = (i32, Vec<u8>);

/// The disk, and who waits for what comes there.
pub(super) struct Bring {
    store: Option<Arc<Store>>,
    /// Where other nodes ask for contents; 0: nowhere.
    pub(super) port: u16,
    key: [u8; 32],
    waiting: Mutex<HashMap<u64, Waiting>>,
    /// Own requests, by their numbers.
    own: Mutex<HashMap<u64, Sender<Came>>>,
    at_work: AtomicUsize,
    /// Bytes that were found on the disk, and that came from other nodes.
    from_disk: AtomicU64,
    from_nodes: AtomicU64,
}

/// A read that waits.
struct Waiting {
    node: u64,
    object: Arc<Object>,
    read: ReadIn,
    asked: Asked,
}

impl Bring {
    /// `store`: none where contents are not kept.
    pub(super) fn new(key: [u8; 32], store: Option<Store>) -> Bring {
        let mut bring = Bring {
            store: None,
            port: 0,
            key,
            waiting: Mutex::default(),
            own: Mutex::default(),
            at_work: AtomicUsize::new(0),
            from_disk: AtomicU64::new(0),
            from_nodes: AtomicU64::new(0),
        };
        let Some(store) = store.map(Arc::new) else { return bring };
        let served = spread::listen().and_then(|listener| {
            let port = listener.port;
            store::serve(listener, &key, store.clone()).map(|()| port)
        });
        match served {
            Ok(port) => (bring.store, bring.port) = (Some(store), port),
            Err(fault) => info!(%fault, "view: contents of files are not kept"),
        }
        bring
    }

    /// Is it a request of this process's own that is answered?
    pub(super) fn came(&self, number: u64, came: Came) {
        if let Some(to) = lock(&self.own).remove(&number) {
            // Who has asked may have given up.
            let _ = to.send(came);
        }
    }

    /// A read that waits, and shall no more.
    pub(super) fn called_away(&self, unique: u64) -> Option<Asked> {
        lock(&self.waiting).remove(&unique).map(|waiting| waiting.asked)
    }

    /// The same for all reads of a file.
    pub(super) fn called_off(&self, node: u64) -> Vec<Asked> {
        let mut all = lock(&self.waiting);
        let off: Vec<u64> = all.iter().filter(|(_, one)| one.node == node).map(|(unique, _)| *unique).collect();
        off.iter().filter_map(|unique| all.remove(unique)).map(|waiting| waiting.asked).collect()
    }
}

fn reach(object: &Object, read: &ReadIn) -> Reach {
    let ahead = if object.size() <= WHOLE { WHOLE } else { AHEAD };
    object.reach(read.offset, read.size.into(), ahead)
}

impl Node {
    /// A file may be kept, of which the front end has told the attributes, and perhaps what its content is known by. Of the thread that hears notices, as all that says which content a file has.
    pub(super) fn opened(self: &Arc<Self>, node: u64, size: Option<u64>, stored: Option<&Stored>) {
        let Some(store) = &self.bring.store else { return };
        let wanted = {
            let objects = &mut lock(&self.grants).objects;
            if let Some(size) = size {
                objects.opened(node, size);
            }
            stored.and_then(|stored| objects.told(node, stored, |name| store.has(name)))
        };
        if let Some(wanted) = wanted {
            self.have(node, wanted);
        }
    }

    /// The front end has answered what a file's content is known by.
    pub(super) fn told_sums(self: &Arc<Self>, node: u64, stored: &Stored) {
        let wanted = lock(&self.grants).objects.answered(node, stored);
        if let Some(wanted) = wanted {
            self.have(node, wanted);
        }
    }

    /// A part of a file has come from the front end, which the kernel has already.
    pub(super) fn caught(self: &Arc<Self>, node: u64, body: &[u8], data: &[u8]) {
        let (Some(store), Ok((read, _))) = (&self.bring.store, take::<ReadIn>(body)) else { return };
        let file = lock(&self.grants).objects.catch(node, || store.scratch().ok());
        if let Some(file) = file {
            // What is not there is read again.
            let _full = file.write_all_at(data, read.offset);
        }
        let next = lock(&self.grants).objects.came(node, data.len() as u64);
        match next {
            Next::Nothing => {}
            Next::Ask => {
                let request = Header::about(node, SUMS, &[]);
                self.ask(Asked { unique: 0, groups: Vec::new(), request, silent: false }, Hint::default());
            }
            Next::Have(wanted) => self.have(node, wanted),
        }
    }

    /// Has a content from now on; where that cannot be the front end is read from.
    fn have(self: &Arc<Self>, node: u64, wanted: Wanted) {
        let Some(store) = self.bring.store.clone() else { return };
        if self.bring.at_work.load(Ordering::Relaxed) >= MOST {
            return;
        }
        let held = store.hold(&wanted.content);
        let Ok(held) = held.inspect_err(|fault| debug!(%fault, "view: a content is not kept")) else { return };
        let (object, is_new) = match held {
            Held::Here(object) => (object, false),
            Held::New(object) => (object, true),
        };
        let caught = lock(&self.grants).objects.hold(node, object.clone());
        if !is_new {
            return;
        }
        self.bring.at_work.fetch_add(1, Ordering::Relaxed);
        let (served, brought, to) = (self.clone(), object.clone(), store.clone());
        let started = start("content", move || {
            if let Some(caught) = caught {
                // What is not there is had from elsewhere.
                let _full = brought.adopt(&caught);
            }
            served.bring(&to, &brought, (node, wanted.sources));
            served.bring.at_work.fetch_sub(1, Ordering::Relaxed);
        });
        if started.is_err() {
            self.bring.at_work.fetch_sub(1, Ordering::Relaxed);
            store.give_up(&object);
        }
    }

    /// A read is answered from the disk, or waits for what comes. False: the front end is to be asked.
    pub(super) fn read_kept(self: &Arc<Self>, header: &Header, body: &[u8], request: &[u8]) -> bool {
        let Ok((read, _)) = take::<ReadIn>(body) else { return false };
        let held = lock(&self.grants).objects.held(header.node);
        let Some(object) = held else { return false };
        match reach(&object, &read) {
            Reach::There => self.give(header.unique, header.node, &object, &read),
            Reach::Far => false,
            Reach::Soon => {
                let (unique, groups) = (header.unique, Vec::new());
                let asked = Asked { unique, groups, request: request.to_vec(), silent: false };
                let waiting = Waiting { node: header.node, object: object.clone(), read, asked };
                lock(&self.bring.waiting).insert(unique, waiting);
                // It may have come meanwhile, or be another content by now.
                if !lock(&self.grants).objects.has(header.node, &object) {
                    self.call_off(header.node);
                }
                self.advance(&object);
                true
            }
        }
    }

    /// False: it is no content of the file any more, or cannot be read.
    fn give(&self, unique: u64, node: u64, object: &Arc<Object>, read: &ReadIn) -> bool {
        let data = object.read(read.offset, read.size as usize);
        let Ok(data) = data.inspect_err(|fault| info!(%fault, "view")) else { return false };
        // The kernel has the answer before a notice that makes it void is passed on.
        let grants = lock(&self.grants);
        let is_so = grants.objects.has(node, object);
        if is_so {
            self.own.fetch_add(1, Ordering::Relaxed);
            self.fuse.answer(unique, 0, &data);
        }
        is_so
    }

    /// Reads that wait for this content are answered as far as it has come; those for which it will not come are passed on.
    fn advance(&self, object: &Arc<Object>) {
        let ready: Vec<Waiting> = {
            let mut all = lock(&self.bring.waiting);
            let is_ready = |one: &Waiting| Arc::ptr_eq(&one.object, object) && reach(object, &one.read) != Reach::Soon;
            let ready: Vec<u64> = all.iter().filter(|(_, one)| is_ready(one)).map(|(unique, _)| *unique).collect();
            ready.iter().filter_map(|unique| all.remove(unique)).collect()
        };
        for Waiting { node, read, asked, .. } in ready {
            let given = reach(object, &read) == Reach::There && self.give(asked.unique, node, object, &read);
            if !given {
                self.ask(asked, Hint::default());
            }
        }
    }

    /// Nothing about this file's content holds any more: who waits for it asks the front end.
    pub(super) fn call_off(&self, node: u64) {
        self.bring.called_off(node).into_iter().for_each(|asked| self.ask(asked, Hint::default()));
    }

    fn bring(&self, store: &Store, object: &Arc<Object>, (node, sources): (u64, Vec<SocketAddr>)) {
        store.look(object, || self.advance(object));
        let found = object.length();
        self.bring.from_disk.fetch_add(found, Ordering::Relaxed);
        for source in sources {
            if !object.is_whole() {
                let fetched = store::fetch(source, &self.bring.key, object, || self.advance(object));
                let _another_has_it = fetched.inspect_err(|fault| debug!(%fault, "view: a content"));
            }
        }
        self.bring.from_nodes.fetch_add(object.length() - found, Ordering::Relaxed);
        let read = self.read_rest(object, node);
        match read.and_then(|()| store.keep(object)) {
            Ok(()) => {}
            Err(fault) => {
                debug!(%fault, name = %object.name(), "view: a content");
                store.give_up(object);
            }
        }
        self.advance(object);
        let [from_disk, from_nodes] =
            [&self.bring.from_disk, &self.bring.from_nodes].map(|count| count.load(Ordering::Relaxed));
        self.say(&ToServer::Kept { bytes: store.amount().1, from_disk, from_nodes });
    }

    /// From the front end.
    fn read_rest(&self, object: &Arc<Object>, node: u64) -> Result<()> {
        let mut next = object.length();
        let mut reads: VecDeque<(u64, Receiver<Came>)> = VecDeque::new();
        while !object.is_whole() {
            while reads.len() < AT_A_TIME && next < object.size() {
                let length = STEP.min(object.size() - next);
                let read = ReadIn { offset: next, size: length as u32, ..ReadIn::default() };
                reads.push_back((length, self.ask_own(Header::about(node, op::READ, read.as_bytes()))));
                next += length;
            }
            let Some((length, read)) = reads.pop_front() else { break };
            let (errno, data) = read.recv().map_err(|_| Fault::gone("wait for a part of a file"))?;
            match errno {
                0 if data.len() as u64 == length => {}
                0 => return Err(Fault::gone("read a file for the disk: it is shorter by now")),
                errno => return Err(Fault::sys(errno, "read a file for the disk")),
            }
            data.chunks(PIECE as usize).try_for_each(|piece| object.append(piece))?;
            self.advance(object);
        }
        Ok(())
    }

    fn ask_own(&self, request: Vec<u8>) -> Receiver<Came> {
        let (to, from) = channel();
        let asked = Asked { unique: 0, groups: Vec::new(), request, silent: false };
        self.ask_noting(asked, Hint::default(), |number| drop(lock(&self.bring.own).insert(number, to)));
        from
    }
}
