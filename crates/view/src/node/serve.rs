//! Passes requests of this machine's kernel on to the front end, and answers and notices back.

use super::begin;
use super::behind::{self, Behind};
use super::bring::Bring;
use super::grants::{self, Grants, Kept};
use super::groups::Groups;
use super::opens;
use super::paths::{self, Hint};
use super::pending::{Asked, Pending};
use super::readahead::Readahead;
use super::threads::start;
use super::{Config, Disk};
use crate::fuse::{name, notice, op, take, AttrOut, BatchForgetIn, ForgetOne};
use crate::line::{lock, Line};
use kern::clock::monotonic_us;
use kern::fuse::raw::{self, Connection, Header};
use kern::sock;
use link::preamble::Preamble;
use link::Secure;
use std::borrow::Cow;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use store::Store;
use tracing::{info, warn};
use vocab::errno::{EAGAIN, EINTR};
use vocab::{Fault, NodeId, Result};
use wire::view::{Stored, ToNode, ToServer, MOST, SESSION, SUMS, VERSION, WRITE_BACK};
use zerocopy::IntoBytes;

/// Threads that take requests from the kernel.
const READERS: usize = 2;
/// The largest request: a write, with what stands before its bytes.
const ROOM: usize = MOST as usize + 64 * 1024;
/// The front end has so long for a connection and the handshake, and so long passes between two attempts.
const DIAL: Duration = Duration::from_secs(3);
/// Notices that are noted together.
const NOTED_MOST: usize = 64;
/// Files in one request to forget them.
const FORGET_MOST: usize = 4096;
const PAUSE: Duration = Duration::from_millis(50);

/// Operations that go by a name or a path, and so by the groups of who asks.
const BY_GROUPS: [u32; 21] = [
    op::LOOKUP,
    op::SETATTR,
    op::SYMLINK,
    op::MKNOD,
    op::MKDIR,
    op::UNLINK,
    op::RMDIR,
    op::RENAME,
    op::RENAME2,
    op::LINK,
    op::OPEN,
    op::CREATE,
    op::TMPFILE,
    op::SETXATTR,
    op::GETXATTR,
    op::LISTXATTR,
    op::REMOVEXATTR,
    op::OPENDIR,
    op::READDIR,
    op::READDIRPLUS,
    op::STATFS,
];

pub(super) struct Node {
    pub(super) fuse: Connection,
    /// As [`Groups`] has it.
    proc: OwnedFd,
    groups: Mutex<Groups>,
    pending: Mutex<Pending>,
    pub(super) grants: Mutex<Grants>,
    line: Mutex<Option<Arc<Line>>>,
    readahead: Readahead,
    /// Requests that were answered here.
    pub(super) own: AtomicU64,
    pub(super) bring: Bring,
    pub(super) behind: Behind,
}

/// A notice for the kernel.
struct Told {
    number: u64,
    code: i32,
    body: Vec<u8>,
}

/// Serves until the file system has gone, or the front end is out of reach for too long. Says on `ready` that it has been reached.
///
/// # Errors
/// `Gone`: the view has ended, and whoever needs a file gets an error.
pub(super) fn serve(
    config: &Config,
    fuse: Connection,
    proc: OwnedFd,
    (front, node): (SocketAddr, NodeId),
    ready: OwnedFd,
) -> Result<()> {
    let own_proc = proc.try_clone().map_err(|e| Fault::io(&e, "share /proc"))?;
    let (behind, watched) = Behind::new();
    let served = Arc::new(Node {
        fuse,
        proc: own_proc,
        groups: Mutex::new(Groups::new(proc)),
        pending: Mutex::default(),
        grants: Mutex::default(),
        line: Mutex::default(),
        readahead: Readahead::default(),
        own: AtomicU64::new(0),
        bring: Bring::new(config.key, config.store.as_ref().and_then(open)),
        behind,
    });
    behind::watch(&served, watched)?;
    for _ in 0..READERS {
        let served = served.clone();
        // The mount has gone: so has all that needs this process.
        start("requests", move || {
            served.take_requests();
            kern::ns::exit(0)
        })?;
    }
    // A notice about a name may have to wait for an answer, one about content never has to (linux: fuse_reverse_inval_entry locks the directory).
    let (names, contents) = (channel(), channel());
    for (name, notices) in [("names", names.1), ("contents", contents.1)] {
        let served = served.clone();
        start(name, move || served.tell(&notices))?;
    }
    let mut session = [0; SESSION];
    kern::sys::random(&mut session)?;
    let mut ready = Some(ready);
    let mut lost = Instant::now();
    let mut resumes = false;
    loop {
        match dial(config, front, (&session, node, resumes), served.bring.port) {
            Ok(line) => {
                resumes = true;
                if let Some(ready) = ready.take() {
                    let _ = sock::send(ready.as_fd(), b"r");
                }
                let fault = served.pass_on(&Arc::new(line), &names.0, &contents.0);
                info!(%fault, "view: lost");
                lost = Instant::now();
            }
            Err(fault) if fault.kind == vocab::Kind::Gone && !resumes && ready.is_none() => return Err(fault),
            Err(fault) if matches!(fault.kind, vocab::Kind::Refused) => return Err(fault),
            Err(fault) if lost.elapsed() >= config.patience => {
                return Err(fault.doing("the front end's files are out of reach"));
            }
            Err(_) => {
                let _ = kern::poll::poll_for(&[], Some(PAUSE));
            }
        }
    }
}

/// What is kept on the disk, if anything can be.
fn open(disk: &Disk) -> Option<Store> {
    let store = Store::open(&disk.directory, disk.most);
    store.inspect_err(|fault| info!(%fault, "view: contents of files are not kept")).ok()
}

fn dial(
    config: &Config,
    front: SocketAddr,
    (session, node, resumes): (&[u8], NodeId, bool),
    port: u16,
) -> Result<Line> {
    let until = Instant::now() + DIAL;
    let fd = sock::tcp_connect(front, monotonic_us() + DIAL.as_micros() as u64)?;
    sock::tcp_tune(fd.as_fd(), (config.patience.as_millis() as u32).max(1000))?;
    Preamble::View.send(fd.as_fd())?;
    let line = Line::begin(Secure::control_dialler(fd, &config.key)?, until)?;
    line.send(&ToServer::Hello {
        version: VERSION,
        session: session.to_vec().into(),
        node,
        resumes,
        port,
        takes_grants: true,
    })?;
    match line.receive()? {
        ToNode::Welcome(_) => Ok(line),
        // The front end has given up what was there before.
        ToNode::Refused(fault) => Err(Fault { kind: vocab::Kind::Refused, ..fault }),
        other => Err(Fault::wire(format!("the front end says {other:?} before Welcome"))),
    }
}

impl Node {
    /// Until the connection ends; why.
    fn pass_on(self: &Arc<Self>, line: &Arc<Line>, names: &Sender<Told>, contents: &Sender<Told>) -> Fault {
        let asked = {
            // What comes from now on is sent by who takes it from the kernel.
            let mut current = lock(&self.line);
            *current = Some(line.clone());
            lock(&self.pending).all()
        };
        let again = asked.into_iter().try_for_each(|(number, asked)| {
            let Asked { groups, request, silent, .. } = asked;
            let (done, request) = (Vec::new(), request.into());
            line.send(&ToServer::Ask { number, groups, request, done, own: 0, path: None, silent, intent: 0 })
        });
        let fault = again.err().unwrap_or_else(|| loop {
            match line.receive() {
                Ok(ToNode::Answer {
                    number,
                    errno,
                    data,
                    keeps,
                    long,
                    attributes,
                    content,
                    silent,
                    plain,
                    stored,
                    behind,
                }) => {
                    silent.into_iter().for_each(|number| drop(lock(&self.pending).answered(number)));
                    let (attributes, content) = (attributes.map(Into::into), content.map(Into::into));
                    let kept = Kept { data: &data, long, attributes, content };
                    self.answer(number, errno, kept, keeps, (plain, stored, behind));
                }
                Ok(ToNode::Ahead { directory, whole, names, plain }) => {
                    lock(&self.grants).plain(plain);
                    lock(&self.grants).come(directory, whole, names);
                    self.forget();
                }
                Ok(ToNode::Granted { node, fresh, attributes, content, stored }) => {
                    let attributes: Vec<u8> = attributes.into();
                    let size = take::<AttrOut>(&attributes).ok().map(|(known, _)| known.attr.size);
                    let (attributes, content) = (Some(attributes), content.map(Into::into));
                    lock(&self.grants).granted(node, fresh, Kept { attributes, content, ..Kept::default() });
                    self.opened(node, size, stored.as_ref());
                }
                Ok(ToNode::Listing { node, fresh, names }) => lock(&self.grants).listed(node, fresh, names.into()),
                Ok(ToNode::Notice { number, code: WRITE_BACK, body }) => self.write_back(number, &body),
                Ok(ToNode::Notice { number, code, body }) => {
                    lock(&self.grants).told(code, &body);
                    if let Some(node) = grants::calls_content_back(code, &body) {
                        self.call_off(node);
                    }
                    self.forget();
                    let to = if code == notice::INVAL_ENTRY { names } else { contents };
                    // The threads live as long as the process.
                    let _ = to.send(Told { number, code, body: body.into() });
                }
                Ok(other) => break Fault::wire(format!("the front end says {other:?} in the middle of a view")),
                Err(fault) => break fault,
            }
        });
        *lock(&self.line) = None;
        line.close();
        fault
    }

    fn answer(
        self: &Arc<Self>,
        number: u64,
        errno: i32,
        kept: Kept<'_>,
        keeps: bool,
        (plain, stored, behind): (Vec<u64>, Option<Stored>, bool),
    ) {
        let Some(asked) = lock(&self.pending).answered(number) else { return };
        let data = kept.data;
        let Ok((header, body)) = raw::split(&asked.request) else { return };
        match (header.opcode, stored) {
            (SUMS, stored) => return stored.iter().for_each(|stored| self.told_sums(header.node, stored)),
            (op::WRITE, _) if asked.unique == 0 => return self.arrived(&header, body, errno, data),
            _ if asked.unique == 0 => return self.bring.came(number, (errno, data.to_vec())),
            (op::OPEN, stored) if keeps => {
                let size = kept.attributes.as_ref().and_then(|known| take::<AttrOut>(known).ok());
                self.opened(header.node, size.map(|(known, _)| known.attr.size), stored.as_ref());
            }
            _ => {}
        }
        {
            let mut grants = lock(&self.grants);
            grants.passed(&header, body);
            grants.plain(plain);
            if keeps {
                grants.keep(&header, body, kept);
            }
        }
        if behind && header.opcode == op::CREATE && errno == 0 {
            self.may_keep(&header, data);
        }
        self.fuse.answer(asked.unique, errno, self.correct(header.opcode, data).as_deref().unwrap_or(data));
        if header.opcode == op::READ && errno == 0 {
            self.caught(header.node, body, data);
        }
    }

    /// Tells the front end of what came without being asked for, and is of no use any more.
    fn forget(&self) {
        let forgotten = lock(&self.grants).unused();
        for some in forgotten.chunks(FORGET_MOST) {
            let head = BatchForgetIn { count: some.len() as u32, padding: 0 };
            let mut body = head.as_bytes().to_vec();
            some.iter().for_each(|node| body.extend(ForgetOne { node: *node, lookups: 1 }.as_bytes()));
            let request = Header::of(op::BATCH_FORGET, &body);
            self.ask(Asked { unique: 0, groups: Vec::new(), request, silent: true }, Hint::default());
        }
    }

    /// Tells the kernel, and then notes that. Many are noted together, but for those that call content back: somebody waits for them, and they may have to wait.
    fn tell(&self, notices: &Receiver<Told>) {
        while let Ok(first) = notices.recv() {
            let mut numbers = Vec::new();
            for Told { number, code, body } in std::iter::once(first).chain(notices.try_iter().take(NOTED_MOST)) {
                let alone = grants::calls_content_back(code, &body).is_some();
                if alone {
                    self.note(&mut numbers);
                }
                self.fuse.notify(code, &body);
                numbers.push(number);
                if alone {
                    self.note(&mut numbers);
                }
            }
            self.note(&mut numbers);
        }
    }

    fn note(&self, numbers: &mut Vec<u64>) {
        let mut numbers = std::mem::take(numbers);
        let Some(one) = numbers.pop() else { return };
        // A notice whose note is lost comes again.
        if let Some(line) = lock(&self.line).clone() {
            let _ = line.send(&ToServer::Noted(one, numbers));
        }
    }

    fn take_requests(self: &Arc<Self>) {
        let mut room = vec![0; ROOM];
        loop {
            let length = match self.fuse.next(&mut room) {
                Ok(Some(length)) => length,
                Ok(None) => return,
                Err(fault) => return warn!(%fault, "view"),
            };
            let request = &room[..length];
            match raw::split(request) {
                Ok((header, body)) => self.take(&header, body, request),
                Err(fault) => warn!(%fault, "view"),
            }
        }
    }

    pub(super) fn take(self: &Arc<Self>, header: &Header, body: &[u8], request: &[u8]) {
        let request = &*match opens::own(header, body) {
            Some(handle) => self.by_own(header, handle, body, request),
            None => Cow::Borrowed(request),
        };
        let Ok((_, body)) = raw::split(request) else { return };
        match header.opcode {
            op::INIT => begin::begin(&self.fuse, header.unique, body),
            op::DESTROY => {}
            op::INTERRUPT => self.interrupt(header.unique, body, request),
            _ if self.take_written(header, body, request) => {}
            op::READ if self.read_kept(header, body, request) => {}
            opcode => {
                {
                    // The kernel has the answer before a notice that makes it void is passed on.
                    let mut grants = lock(&self.grants);
                    if let Some((errno, data)) = grants.answer(header, body) {
                        self.own.fetch_add(1, Ordering::Relaxed);
                        return self.fuse.answer(header.unique, errno, &data);
                    }
                    grants.passed(header, body);
                }
                let groups = match BY_GROUPS.contains(&opcode) {
                    true => lock(&self.groups).of(header.pid, header.uid, header.gid),
                    false => Vec::new(),
                };
                let closes = grants::is_plain_release(header, body);
                let silent = closes || matches!(opcode, op::FORGET | op::BATCH_FORGET);
                if closes {
                    // RELEASE is done in its turn, and cannot fail.
                    self.fuse.answer(header.unique, 0, &[]);
                }
                let hint = match (opcode, name(body)) {
                    (op::LOOKUP, Ok((name, _))) => {
                        self.readahead.raise(&self.proc, header.pid);
                        let each = lock(&self.grants).asks_for_each(header.node, name);
                        if each {
                            Hint::EACH
                        } else {
                            paths::hint(&self.proc, header.pid, name)
                        }
                    }
                    _ => Hint::default(),
                };
                self.ask(Asked { unique: header.unique, groups, request: request.to_vec(), silent }, hint);
            }
        }
    }

    /// The front end knows no open file of this process's own.
    fn by_own<'a>(&self, header: &Header, handle: u64, body: &[u8], request: &'a [u8]) -> Cow<'a, [u8]> {
        let unlocks = {
            let opens = &mut lock(&self.grants).opens;
            opens.locks(header, body);
            if header.opcode == op::RELEASE {
                opens.close(header, handle)
            } else {
                Vec::new()
            }
        };
        for request in unlocks {
            self.ask(Asked { unique: 0, groups: Vec::new(), request, silent: true }, Hint::default());
        }
        Cow::Owned(opens::without_own(request))
    }

    /// Says something that need not come.
    pub(super) fn say(&self, message: &ToServer) {
        let line = lock(&self.line).clone();
        let _lost = line.map(|line| line.send(message));
    }

    pub(super) fn ask(&self, asked: Asked, hint: Hint) {
        self.ask_noting(asked, hint, |_| ());
    }

    /// The same; `note` hears its number before there can be an answer.
    pub(super) fn ask_noting(&self, asked: Asked, hint: Hint, note: impl FnOnce(u64)) {
        let Asked { groups, request, silent, .. } = asked.clone();
        let (number, done) = {
            let mut pending = lock(&self.pending);
            let number = pending.add(asked);
            note(number);
            (number, pending.done())
        };
        let line = lock(&self.line).clone();
        if let Some(line) = line {
            // What a connection that ends has not taken is said again on the next.
            let own = self.own.load(Ordering::Relaxed);
            let _ = line.send(&ToServer::Ask {
                number,
                groups,
                request: request.into(),
                done,
                own,
                path: (!hint.path.is_empty()).then(|| hint.path.into()),
                silent,
                intent: hint.intent,
            });
        }
    }

    /// A signal has come for who waits for an answer.
    fn interrupt(&self, unique: u64, body: &[u8], request: &[u8]) {
        let Ok((of, _)) = take::<u64>(body) else { return };
        if self.behind.holds(of) {
            // Soon there is an answer, or no connection for long.
            return;
        }
        if let Some(asked) = self.bring.called_away(of) {
            // The front end answers it soon.
            self.ask(asked, Hint::default());
        }
        let reachable = lock(&self.line).is_some();
        let known = lock(&self.pending).number(of);
        match (known, reachable) {
            // Another thread is about to pass it on: the kernel is to say it again.
            (None, _) => self.fuse.answer(unique, EAGAIN, &[]),
            (Some(_), true) => {
                self.ask(
                    Asked { unique, groups: Vec::new(), request: request.to_vec(), silent: true },
                    Hint::default(),
                );
            }
            // Nobody knows when there will be an answer.
            (Some(number), false) => {
                if let Some(of) = lock(&self.pending).answered(number) {
                    self.fuse.answer(of.unique, EINTR, &[]);
                }
            }
        }
    }
}
