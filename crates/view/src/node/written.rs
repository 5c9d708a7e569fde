//! What programs write to files that they have just made, kept here until it is sent: when the file is closed, or anything but reading and writing is done with it, or somebody elsewhere opens it, or
//! a moment later. The front end lets nobody else open the file meanwhile ([`wire::view::ToNode::Answer`], `behind`).

use crate::fuse::{op, take, DirentHead, EntryOut, ReadIn, SetattrIn, WriteIn};
use kern::fuse::raw::Header;
use std::collections::HashMap;
use std::ops::Range;
use std::time::{Duration, Instant};
use vocab::errno::EIO;
use zerocopy::{FromBytes, IntoBytes};

/// Bytes of a file that is kept, and of all.
const FILE_MOST: u64 = 256 * 1024;
const MOST: usize = 64 << 20;
/// Written bytes are sent after so long at most.
pub(super) const AGE: Duration = Duration::from_millis(10);
/// Of fuse_write_in, `write_flags`: the file loses set-user-ID and set-group-ID.
const WRITE_KILL_SUIDGID: u32 = 1 << 2;
/// Of open(2).
const O_APPEND: u32 = 0o2000;
/// Of fuse_setattr_in: the size is set.
const SIZE: u32 = crate::fuse::set::SIZE;

/// A request of the kernel's that waits until what was written is at the front end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Held {
    /// To be passed on then.
    Request(Vec<u8>),
    /// FLUSH, which is answered here with the error that there was or 0, or FSYNC, which is passed on where there was none.
    Flush(Vec<u8>),
}

/// The way of a request.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Does {
    /// Nothing of it is known here.
    Pass,
    /// The answer: an errno, and data.
    Answer(i32, Vec<u8>),
    /// It waits; this has to be sent for that, if it is not on its way.
    Send(Option<Write>),
}

/// Bytes to be sent: a request for the front end.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Write {
    pub(super) handle: u64,
    pub(super) request: Vec<u8>,
}

#[derive(Debug)]
struct File {
    node: u64,
    data: Vec<u8>,
    /// What of it the front end does not have, and since when.
    dirty: Option<(Range<usize>, Instant)>,
    /// The part that is on its way.
    sent: Option<Range<usize>>,
    /// The last writer: the front end writes with these rights.
    by: Header,
    errno: i32,
    /// Nothing more is kept.
    ends: bool,
    held: Vec<Held>,
    /// Notices to be noted then.
    notices: Vec<u64>,
}

/// The tasks when something written has arrived.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Arrived {
    pub(super) more: Option<Write>,
    /// With the error for those that are FLUSH.
    pub(super) held: Vec<Held>,
    pub(super) errno: i32,
    pub(super) notices: Vec<u64>,
}

#[derive(Debug, Default)]
pub(super) struct Written {
    /// By handle, and the handle by file.
    files: HashMap<u64, File>,
    nodes: HashMap<u64, u64>,
    bytes: usize,
}

impl Written {
    /// A file was made, which is empty.
    pub(super) fn begin(&mut self, node: u64, handle: u64, by: Header) {
        if self.bytes >= MOST || self.nodes.contains_key(&node) {
            return;
        }
        let (data, held, notices) = (Vec::new(), Vec::new(), Vec::new());
        let file = File { node, data, dirty: None, sent: None, by, errno: 0, ends: false, held, notices };
        self.files.insert(handle, file);
        self.nodes.insert(node, handle);
    }

    /// Is anything to be sent?
    pub(super) fn is_dirty(&self) -> bool {
        self.files.values().any(|file| file.dirty.is_some())
    }

    /// A request of the kernel's. The second: something was written, so that it is to be looked after.
    pub(super) fn take(&mut self, header: &Header, body: &[u8], request: &[u8]) -> (Does, bool) {
        match header.opcode {
            op::WRITE => self.write(header, body, request),
            op::FORGET | op::BATCH_FORGET | op::INTERRUPT | op::LOOKUP | op::IOCTL => (Does::Pass, false),
            op::COPY_FILE_RANGE => {
                let to = take::<crate::fuse::CopyIn>(body).map_or(0, |(copy, _)| copy.to_node);
                let of = if self.nodes.contains_key(&to) { to } else { header.node };
                (self.other(of, true, request), false)
            }
            op::LINK => {
                let of = take::<crate::fuse::LinkIn>(body).map_or(0, |(link, _)| link.node);
                (self.other(of, false, request), false)
            }
            op::READ => (self.read(header, body, request), false),
            op::FLUSH => (self.flush(header, body, request), false),
            op::SETATTR => {
                let sizes = take::<SetattrIn>(body).is_ok_and(|(set, _)| set.valid & SIZE != 0);
                (self.other(header.node, sizes, request), false)
            }
            op::FSYNC => (self.sync(header, request), false),
            op::GETATTR | op::GETXATTR | op::SETXATTR | op::LISTXATTR | op::RELEASE => {
                (self.other(header.node, header.opcode == op::RELEASE, request), false)
            }
            _ => (self.other(header.node, true, request), false),
        }
    }

    fn write(&mut self, header: &Header, body: &[u8], request: &[u8]) -> (Does, bool) {
        let Ok((head, bytes)) = take::<WriteIn>(body) else { return (Does::Pass, false) };
        let Some(file) = self.files.get_mut(&head.handle).filter(|file| file.node == header.node) else {
            return (self.other(header.node, true, request), false);
        };
        if file.errno != 0 {
            return (Does::Answer(std::mem::take(&mut file.errno), Vec::new()), false);
        }
        let end = head.offset.saturating_add(head.size.into());
        let fits = end <= FILE_MOST && self.bytes < MOST && head.write_flags & WRITE_KILL_SUIDGID == 0;
        let fits = fits && head.flags & O_APPEND == 0;
        let Some(bytes) = bytes.get(..head.size as usize).filter(|_| fits && !file.ends) else {
            return (self.other(header.node, true, request), false);
        };
        let (start, end) = (head.offset as usize, end as usize);
        if file.data.len() < end {
            self.bytes += end - file.data.len();
            file.data.resize(end, 0);
        }
        file.data[start..end].copy_from_slice(bytes);
        file.by = *header;
        let is_new = file.dirty.is_none();
        let (range, since) = file.dirty.take().unwrap_or((start..end, Instant::now()));
        file.dirty = Some((range.start.min(start)..range.end.max(end), since));
        let out = crate::fuse::WriteOut { size: head.size, padding: 0 };
        (Does::Answer(0, out.as_bytes().to_vec()), is_new)
    }

    fn read(&mut self, header: &Header, body: &[u8], request: &[u8]) -> Does {
        let Ok((head, _)) = take::<ReadIn>(body) else { return Does::Pass };
        match self.files.get(&head.handle).filter(|file| file.node == header.node && !file.ends) {
            Some(file) => {
                let start = usize::try_from(head.offset).unwrap_or(usize::MAX).min(file.data.len());
                let end = start.saturating_add(head.size as usize).min(file.data.len());
                Does::Answer(0, file.data[start..end].to_vec())
            }
            None => self.other(header.node, false, request),
        }
    }

    fn flush(&mut self, header: &Header, body: &[u8], request: &[u8]) -> Does {
        let handle = take::<crate::fuse::FlushIn>(body).map_or(0, |(head, _)| head.handle);
        let Some(file) = self.files.get_mut(&handle).filter(|file| file.node == header.node) else { return Does::Pass };
        if file.errno != 0 {
            return Does::Answer(std::mem::take(&mut file.errno), Vec::new());
        }
        if file.dirty.is_none() && file.sent.is_none() {
            return Does::Answer(0, Vec::new());
        }
        file.held.push(Held::Flush(request.to_vec()));
        Does::Send(file.send(handle))
    }

    fn sync(&mut self, header: &Header, request: &[u8]) -> Does {
        let Some(handle) = self.nodes.get(&header.node).copied() else { return Does::Pass };
        let Some(file) = self.files.get_mut(&handle) else { return Does::Pass };
        if file.errno != 0 {
            return Does::Answer(std::mem::take(&mut file.errno), Vec::new());
        }
        if file.dirty.is_none() && file.sent.is_none() {
            return Does::Pass;
        }
        file.held.push(Held::Flush(request.to_vec()));
        Does::Send(file.send(handle))
    }

    /// Corrects the sizes of files in an answer to LOOKUP or READDIRPLUS: the front end does not know how much is kept of them.
    pub(super) fn correct(&self, opcode: u32, data: &mut [u8]) {
        if self.files.is_empty() {
            return;
        }
        let mut at = 0;
        while let Some(Ok((entry, rest))) = data.get_mut(at..).map(EntryOut::mut_from_prefix) {
            let file = self.nodes.get(&entry.node).and_then(|handle| self.files.get(handle));
            if let Some(file) = file {
                entry.attr.size = entry.attr.size.max(file.data.len() as u64);
            }
            let Ok((head, _)) = take::<DirentHead>(rest) else { return };
            if opcode != op::READDIRPLUS {
                return;
            }
            let length = size_of::<EntryOut>() + size_of::<DirentHead>() + head.length as usize;
            at += length.next_multiple_of(8);
        }
    }

    /// Does this request of the kernel's wait here?
    pub(super) fn holds(&self, unique: u64) -> bool {
        let is_it = |held: &Held| match held {
            Held::Request(request) | Held::Flush(request) => {
                kern::fuse::raw::split(request).is_ok_and(|(header, _)| header.unique == unique)
            }
        };
        self.files.values().any(|file| file.held.iter().any(is_it))
    }

    /// Anything else waits until what was written has arrived. `ends`: from then on nothing is kept.
    fn other(&mut self, node: u64, ends: bool, request: &[u8]) -> Does {
        let Some(handle) = self.nodes.get(&node).copied() else { return Does::Pass };
        let Some(file) = self.files.get_mut(&handle) else { return Does::Pass };
        file.ends |= ends;
        if file.dirty.is_none() && file.sent.is_none() {
            if file.ends {
                self.end(handle);
            }
            return Does::Pass;
        }
        file.held.push(Held::Request(request.to_vec()));
        Does::Send(file.send(handle))
    }

    fn end(&mut self, handle: u64) {
        if let Some(file) = self.files.remove(&handle) {
            self.nodes.remove(&file.node);
            self.bytes -= file.data.len();
        }
    }

    /// The front end wants what is kept of a file. True: nothing is, so that the notice may be noted.
    pub(super) fn write_back(&mut self, node: u64, notice: u64) -> (bool, Option<Write>) {
        let Some(handle) = self.nodes.get(&node).copied() else { return (true, None) };
        let Some(file) = self.files.get_mut(&handle) else { return (true, None) };
        file.ends = true;
        if file.dirty.is_none() && file.sent.is_none() {
            self.end(handle);
            return (true, None);
        }
        file.notices.push(notice);
        (false, file.send(handle))
    }

    /// What was written long enough ago, and is not on its way; and is there more that will be?
    pub(super) fn old(&mut self) -> (Vec<Write>, bool) {
        let now = Instant::now();
        let mut more = false;
        let mut old = Vec::new();
        for (handle, file) in &mut self.files {
            match &file.dirty {
                Some((_, since)) if now.duration_since(*since) >= AGE => old.extend(file.send(*handle)),
                Some(_) => more = true,
                None => {}
            }
        }
        (old, more)
    }

    /// The answer to a [`Write`]: an errno, and so many bytes.
    pub(super) fn arrived(&mut self, handle: u64, errno: i32, count: usize) -> Arrived {
        let Some(file) = self.files.get_mut(&handle) else { return Arrived::default() };
        let sent = file.sent.take().unwrap_or_default();
        match errno {
            0 if count == 0 && !sent.is_empty() => file.errno = EIO,
            // The rest is sent again, so that there is an error to tell.
            0 if count < sent.len() => {
                let rest = sent.start + count..sent.end;
                let (range, since) = file.dirty.take().unwrap_or((rest.clone(), Instant::now()));
                file.dirty = Some((range.start.min(rest.start)..range.end.max(rest.end), since));
            }
            0 => {}
            errno => file.errno = errno,
        }
        if file.errno != 0 {
            // Bytes that could not be written are lost, as far as was said.
            file.dirty = None;
        }
        let waits = file.ends || !file.held.is_empty();
        if file.dirty.is_some() {
            let more = if waits { file.send(handle) } else { None };
            return Arrived { more, ..Arrived::default() };
        }
        let held = std::mem::take(&mut file.held);
        let tells = held.iter().any(|one| matches!(one, Held::Flush(_)));
        let errno = if tells { std::mem::take(&mut file.errno) } else { 0 };
        let notices = std::mem::take(&mut file.notices);
        if file.ends {
            self.end(handle);
        }
        Arrived { more: None, held, errno, notices }
    }
}

impl File {
    /// All that is dirty, unless something is on its way.
    fn send(&mut self, handle: u64) -> Option<Write> {
        if self.sent.is_some() {
            return None;
        }
        let (range, _) = self.dirty.take()?;
        let head = WriteIn { handle, offset: range.start as u64, size: range.len() as u32, ..WriteIn::default() };
        let body = [head.as_bytes(), &self.data[range.clone()]].concat();
        self.sent = Some(range);
        let (uid, gid) = (self.by.uid, self.by.gid);
        Some(Write { handle, request: Header::by((uid, gid), self.node, op::WRITE, &body) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::FromZeros;

    const NODE: u64 = 7;
    const HANDLE: u64 = 3;

    fn header(opcode: u32) -> Header {
        Header { opcode, node: NODE, uid: 5, gid: 6, unique: 9, ..Header::new_zeroed() }
    }

    fn begun() -> Written {
        let mut written = Written::default();
        written.begin(NODE, HANDLE, header(op::CREATE));
        written
    }

    fn write(written: &mut Written, offset: u64, bytes: &[u8]) -> (Does, bool) {
        let head = WriteIn { handle: HANDLE, offset, size: bytes.len() as u32, ..WriteIn::default() };
        written.take(&header(op::WRITE), &[head.as_bytes(), bytes].concat(), b"write")
    }

    fn ask(written: &mut Written, opcode: u32) -> Does {
        let body = [HANDLE.as_bytes(), &[0; 120]].concat();
        written.take(&header(opcode), &body, b"request").0
    }

    fn sent(does: Does) -> Vec<u8> {
        let Does::Send(Some(write)) = does else { panic!("{does:?}") };
        let (head, body) = kern::fuse::raw::split(&write.request).expect("a request");
        assert_eq!((head.uid, head.gid, head.node, head.unique, write.handle), (5, 6, NODE, 0, HANDLE));
        let (head, bytes) = take::<WriteIn>(body).expect("a write");
        assert_eq!((head.size as usize, head.handle), (bytes.len(), HANDLE));
        bytes.to_vec()
    }

    #[test]
    fn a_file_is_sent_when_it_is_closed() {
        let mut written = begun();
        assert!(write(&mut written, 0, b"one").1 && !write(&mut written, 5, b"two").1);
        let read = ReadIn { handle: HANDLE, offset: 1, size: 100, ..ReadIn::default() };
        let (read, _) = written.take(&header(op::READ), read.as_bytes(), b"read");
        assert_eq!(read, Does::Answer(0, b"ne\0\0two".to_vec()));
        assert_eq!(sent(ask(&mut written, op::FLUSH)), b"one\0\0two");
        let arrived = written.arrived(HANDLE, 0, 8);
        assert_eq!((arrived.held, arrived.errno), (vec![Held::Flush(b"request".to_vec())], 0));
        assert_eq!(
            (ask(&mut written, op::FLUSH), ask(&mut written, op::RELEASE)),
            (Does::Answer(0, Vec::new()), Does::Pass)
        );
        assert!(written.files.is_empty() && written.bytes == 0);
    }

    #[test]
    fn sizes_are_those_of_what_is_kept() {
        let mut written = begun();
        write(&mut written, 0, b"three");
        let entry = |node| EntryOut { node, ..EntryOut::default() };
        let head = DirentHead { length: 3, ..DirentHead::default() };
        let one = |node| [entry(node).as_bytes(), head.as_bytes(), b"abc\0\0\0\0\0"].concat();
        let mut all = [one(1), one(NODE), one(0)].concat();
        written.correct(op::READDIRPLUS, &mut all);
        let size = |at: usize| take::<EntryOut>(&all[at * 160..]).expect("an entry").0.attr.size;
        assert_eq!([size(0), size(1), size(2)], [0, 5, 0]);
        let mut one = entry(NODE).as_bytes().to_vec();
        written.correct(op::LOOKUP, &mut one);
        assert_eq!(take::<EntryOut>(&one).expect("an entry").0.attr.size, 5);
    }

    #[test]
    fn errors_are_told_when_the_file_is_closed() {
        let mut written = begun();
        write(&mut written, 0, b"one");
        assert_eq!(sent(ask(&mut written, op::FLUSH)), b"one");
        let arrived = written.arrived(HANDLE, 0, 1);
        assert_eq!(sent(Does::Send(arrived.more)), b"ne", "the rest is tried");
        assert_eq!(written.arrived(HANDLE, 28, 0).errno, 28);
        // By itself: the next write tells it.
        write(&mut written, 0, b"two");
        assert_eq!(sent(ask(&mut written, op::GETATTR)), b"two");
        assert_eq!(written.arrived(HANDLE, 122, 0).errno, 0);
        assert_eq!(write(&mut written, 0, b"x").0, Does::Answer(122, Vec::new()));
    }

    #[test]
    fn nothing_is_kept_any_more_when_somebody_opens_the_file() {
        let mut written = begun();
        assert_eq!(written.write_back(8, 1), (true, None));
        write(&mut written, 0, b"one");
        let (nothing, write_now) = written.write_back(NODE, 4);
        assert!(!nothing);
        assert_eq!(sent(Does::Send(write_now)), b"one");
        assert_eq!(write(&mut written, 3, b"two").0, Does::Send(None), "behind it");
        let arrived = written.arrived(HANDLE, 0, 3);
        assert_eq!((arrived.notices, arrived.held), (vec![4], vec![Held::Request(b"write".to_vec())]));
        assert_eq!((write(&mut written, 3, b"two").0, written.write_back(NODE, 5)), (Does::Pass, (true, None)));
    }

    #[test]
    fn what_changes_a_file_otherwise_ends_it_and_what_looks_at_it_does_not() {
        for (opcode, stays) in [(op::GETATTR, true), (op::FSYNC, true), (op::OPEN, false), (op::FALLOCATE, false)] {
            let mut written = begun();
            write(&mut written, 0, b"one");
            assert_eq!(sent(ask(&mut written, opcode)), b"one");
            assert_eq!(written.arrived(HANDLE, 0, 3).held.len(), 1);
            assert_eq!(!written.files.is_empty(), stays, "{opcode}");
        }
        let mut written = begun();
        write(&mut written, FILE_MOST - 1, b"x");
        assert_eq!(sent(write(&mut written, FILE_MOST, b"y").0).len(), 1, "too large");
        assert!(written.old().0.is_empty(), "on its way");
    }
}
