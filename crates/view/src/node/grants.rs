//! What the front end has said that this node may answer by itself, until a notice about the file comes.

use super::attributes::Attributes;
use super::contents::Contents;
use super::listings::Listings;
use super::names::Names;
use super::objects::Objects;
use super::opens::Opens;
use crate::fuse::{
    name, notice, op, opened, take, BatchForgetIn, EntryOut, FlushIn, ForgetOne, GetxattrIn, InvalInode, LockIn,
    OpenIn, OpenOut, ReleaseIn, LK_FLOCK,
};
use kern::fuse::raw::Header;
use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};
use vocab::errno::{ENODATA, ENOTTY};
use wire::view::Ahead;
use zerocopy::{FromZeros, IntoBytes};

/// Of open(2): the access mode, and what changes the file.
const CHANGES: u32 = 0o3 | 0o1000;
/// Of fuse_release_in, `release_flags`: a lock of flock(2) goes with it.
const FLOCK_UNLOCK: u32 = 1 << 1;

/// What a file lacks counts so long: of what is done by another name of the file nobody tells.
const KEPT: Duration = Duration::from_secs(1);
const MOST_PLAIN: usize = 100_000;
/// So many names of attributes of one file.
const MOST_LACKS: usize = 64;

#[derive(Debug, Default)]
pub(super) struct Grants {
    /// Files that may be opened for reading.
    open: HashSet<u64>,
    /// Those of them that the kernel has not opened since, and of which it may have old pages.
    fresh: HashSet<u64>,
    /// Names of extended attributes that a file has not, and until when that counts; `None`: until a notice comes.
    lacks: HashMap<u64, HashMap<Vec<u8>, Option<Instant>>>,
    /// Files without any, until then.
    plain: HashMap<u64, Instant>,
    attributes: Attributes,
    contents: Contents,
    listings: Listings,
    pub(super) names: Names,
    pub(super) objects: Objects,
    pub(super) opens: Opens,
    /// Files of which parts were locked, so that the front end must know when they are closed.
    locked: HashSet<u64>,
}

/// Things known by an answer that may be given again, as [`wire::view::ToNode::Answer`] has it.
#[derive(Debug, Default)]
pub(super) struct Kept<'a> {
    pub(super) data: &'a [u8],
    pub(super) long: bool,
    pub(super) attributes: Option<Vec<u8>>,
    pub(super) content: Option<Vec<u8>>,
}

/// The file, if it is a notice after which the kernel has nothing of its content.
pub(super) fn calls_content_back(code: i32, body: &[u8]) -> Option<u64> {
    let (told, _) = take::<InvalInode>(body).ok().filter(|_| code == notice::INVAL_INODE)?;
    (told.offset >= 0).then_some(told.node)
}

/// Is it a file that is closed, without a lock of flock(2) going with it?
pub(super) fn is_plain_release(header: &Header, body: &[u8]) -> bool {
    let release = take::<ReleaseIn>(body).map(|(head, _)| head.release_flags & FLOCK_UNLOCK == 0);
    matches!(header.opcode, op::RELEASE | op::RELEASEDIR) && release == Ok(true)
}

impl Grants {
    /// What can be answered at once: an errno, and data.
    pub(super) fn answer(&mut self, header: &Header, body: &[u8]) -> Option<(i32, Vec<u8>)> {
        match header.opcode {
            op::OPEN => {
                let (head, _): (OpenIn, _) = take(body).ok()?;
                let may = head.flags & CHANGES == 0 && self.open.contains(&header.node);
                may.then(|| {
                    let mut out = self.opened(header.node, 0);
                    // Where there are locks of fcntl(2) each close counts.
                    if !self.locked.contains(&header.node) {
                        (out.handle, out.flags) = (self.opens.open(), out.flags | opened::NOFLUSH);
                    }
                    (0, out.as_bytes().to_vec())
                })
            }
            op::OPENDIR => {
                let may = self.open.contains(&header.node);
                may.then(|| (0, self.opened(header.node, opened::CACHE_DIR).as_bytes().to_vec()))
            }
            op::READDIR | op::READDIRPLUS => {
                let whole = header.opcode == op::READDIRPLUS;
                self.listings.answer(header.node, body, whole, &mut self.names).map(|names| (0, names))
            }
            op::LOOKUP => {
                let (name, _) = name(body).ok()?;
                self.names.answer(header.node, name).map(|entry| (0, entry))
            }
            op::RELEASE | op::RELEASEDIR => {
                let (head, _): (ReleaseIn, _) = take(body).ok()?;
                (head.handle == 0 && head.release_flags & FLOCK_UNLOCK == 0).then(|| (0, Vec::new()))
            }
            // Whatever was written is there already.
            op::FLUSH => {
                take::<FlushIn>(body).ok().filter(|_| !self.locked.contains(&header.node)).map(|_| (0, Vec::new()))
            }
            op::GETXATTR => {
                let (_, name): (GetxattrIn, _) = take(body).ok()?;
                if self.plain.get(&header.node).is_some_and(|until| Instant::now() < *until) {
                    return Some((ENODATA, Vec::new()));
                }
                let until = self.lacks.get(&header.node)?.get(name)?;
                until.is_none_or(|until| Instant::now() < until).then(|| (ENODATA, Vec::new()))
            }
            op::READLINK => self.contents.whole(header.node).map(|link| (0, link)),
            op::GETATTR => self.attributes.answer(header.node).map(|known| (0, known)),
            op::READ => self.contents.answer(header.node, body).map(|data| (0, data)),
            op::SETLK | op::SETLKW => {
                let (head, _): (LockIn, _) = take(body).ok()?;
                if head.flags & LK_FLOCK == 0 {
                    self.locked.insert(header.node);
                }
                None
            }
            // Programs ask whether what they open is a terminal.
            op::IOCTL => Some((ENOTTY, Vec::new())),
            op::FORGET => {
                self.forget(header.node);
                None
            }
            op::BATCH_FORGET => {
                let (head, mut rest): (BatchForgetIn, _) = take(body).ok()?;
                for _ in 0..head.count {
                    let (one, behind): (ForgetOne, _) = take(rest).ok()?;
                    self.forget(one.node);
                    rest = behind;
                }
                None
            }
            _ => None,
        }
    }

    fn opened(&mut self, node: u64, flags: u32) -> OpenOut {
        let keep = if self.fresh.remove(&node) { 0 } else { opened::KEEP_CACHE };
        OpenOut { handle: 0, flags: flags | keep, padding: 0 }
    }

    /// The front end gives the right to open a file, unasked.
    pub(super) fn granted(&mut self, node: u64, fresh: bool, kept: Kept) {
        if fresh {
            self.fresh.insert(node);
        }
        self.keep(&Header { opcode: op::OPEN, node, ..Header::new_zeroed() }, &[], kept);
    }

    /// The same of a directory, with its names.
    pub(super) fn listed(&mut self, node: u64, fresh: bool, names: Vec<u8>) {
        if fresh {
            self.fresh.insert(node);
        }
        self.open.insert(node);
        self.listings.keep(node, names);
    }

    /// Will a program that looks up this name in a directory ask for each, since it has read it?
    pub(super) fn asks_for_each(&mut self, directory: u64, name: &[u8]) -> bool {
        self.listings.leads_to_each(directory, name)
    }

    /// Unused entries, by the files that the front end is to be told are forgotten.
    pub(super) fn unused(&mut self) -> Vec<u64> {
        let unused = self.names.forgotten();
        for node in &unused {
            self.contents.forget(*node);
        }
        unused
    }

    fn outdate_listings(&mut self) {
        for directory in self.names.changes() {
            self.listings.forget(directory);
        }
    }

    /// The answer to this request may be given again.
    pub(super) fn keep(&mut self, header: &Header, body: &[u8], kept: Kept) {
        match header.opcode {
            op::OPEN => {
                self.open.insert(header.node);
                if let Some(attributes) = kept.attributes {
                    self.attributes.keep(header.node, &attributes);
                }
                if let Some(content) = kept.content {
                    self.contents.keep(header.node, content);
                }
            }
            op::OPENDIR => {
                self.open.insert(header.node);
            }
            op::LOOKUP => {
                if let (Ok((entry, _)), Some(link)) = (take::<EntryOut>(kept.data), kept.content) {
                    self.contents.keep(entry.node, link);
                }
            }
            op::GETATTR => self.attributes.keep(header.node, kept.data),
            // Of the directory in which something has changed.
            op::CREATE
            | op::MKNOD
            | op::MKDIR
            | op::SYMLINK
            | op::LINK
            | op::UNLINK
            | op::RMDIR
            | op::RENAME
            | op::RENAME2 => {
                if let Some(attributes) = kept.attributes {
                    self.attributes.keep(header.node, &attributes);
                }
            }
            op::GETXATTR => {
                if let Ok((_, name)) = take::<GetxattrIn>(body) {
                    let until = (!kept.long).then(|| Instant::now() + KEPT);
                    let lacks = self.lacks.entry(header.node).or_default();
                    if lacks.len() >= MOST_LACKS {
                        lacks.clear();
                    }
                    lacks.insert(name.to_vec(), until);
                }
            }
            _ => {}
        }
    }

    /// The front end has told something.
    pub(super) fn told(&mut self, code: i32, body: &[u8]) {
        if code != notice::INVAL_INODE {
            self.names.told(body);
            return self.outdate_listings();
        }
        let Ok((told, _)) = take::<InvalInode>(body) else { return };
        self.lacks.remove(&told.node);
        self.plain.remove(&told.node);
        self.attributes.forget(told.node);
        self.names.outdated(told.node);
        // Of the content too, not of the attributes alone.
        if told.offset >= 0 {
            self.open.remove(&told.node);
            self.fresh.remove(&told.node);
            self.listings.forget(told.node);
            self.contents.forget(told.node);
            self.objects.forget(told.node);
        }
    }

    /// Files that have no extended attributes.
    pub(super) fn plain(&mut self, files: Vec<u64>) {
        if self.plain.len() >= MOST_PLAIN {
            self.plain.clear();
        }
        let until = Instant::now() + KEPT;
        self.plain.extend(files.into_iter().map(|file| (file, until)));
    }

    /// Names have come that nobody has asked for.
    pub(super) fn come(&mut self, directory: u64, whole: bool, names: Vec<Ahead>) {
        let mut all = Vec::new();
        for Ahead { name, entry, link } in names {
            if let (Ok((entry, _)), Some(link)) = (take::<EntryOut>(&entry), link) {
                self.contents.keep(entry.node, link.into());
            }
            all.push((name.into(), entry.into()));
        }
        self.names.come(directory, whole, all);
    }

    /// A request is passed on, or its answer has come.
    pub(super) fn passed(&mut self, header: &Header, body: &[u8]) {
        if matches!(header.opcode, op::SETXATTR | op::REMOVEXATTR | op::SETATTR) {
            self.lacks.remove(&header.node);
            self.plain.remove(&header.node);
        }
        self.attributes.passed(header);
        self.names.passed(header, body);
        self.outdate_listings();
    }

    /// The kernel knows nothing of it any more.
    pub(super) fn forget(&mut self, node: u64) {
        self.open.remove(&node);
        self.fresh.remove(&node);
        self.listings.forget(node);
        self.lacks.remove(&node);
        self.plain.remove(&node);
        self.attributes.forget(node);
        self.contents.forget(node);
        self.objects.forget(node);
        self.names.forget(node);
        self.locked.remove(&node);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(opcode: u32, node: u64) -> Header {
        Header { opcode, node, ..Header::new_zeroed() }
    }

    #[test]
    fn a_file_is_opened_here_until_its_content_is_called_back() {
        let mut grants = Grants::default();
        let (open, reads) = (header(op::OPEN, 7), OpenIn { flags: 0o100_000, open_flags: 0 });
        let writes = OpenIn { flags: 0o2, open_flags: 0 };
        assert_eq!(grants.answer(&open, reads.as_bytes()), None);
        grants.keep(&open, reads.as_bytes(), Kept::default());
        assert!(grants.answer(&open, reads.as_bytes()).is_some());
        assert_eq!(grants.answer(&open, writes.as_bytes()), None);
        grants.told(notice::INVAL_INODE, InvalInode { node: 7, offset: -1, length: 0 }.as_bytes());
        assert!(grants.answer(&open, reads.as_bytes()).is_some());
        grants.told(notice::INVAL_INODE, InvalInode { node: 7, offset: 0, length: 0 }.as_bytes());
        assert_eq!(grants.answer(&open, reads.as_bytes()), None);
    }

    #[test]
    fn who_closes_is_told_to_the_front_end_where_there_was_a_lock() {
        let mut grants = Grants::default();
        let flush = FlushIn::default();
        assert!(grants.answer(&header(op::FLUSH, 7), flush.as_bytes()).is_some());
        let whole = LockIn { flags: LK_FLOCK, ..LockIn::default() };
        assert_eq!(grants.answer(&header(op::SETLK, 7), whole.as_bytes()), None);
        assert!(grants.answer(&header(op::FLUSH, 7), flush.as_bytes()).is_some());
        assert_eq!(grants.answer(&header(op::SETLKW, 7), LockIn::default().as_bytes()), None);
        assert_eq!(grants.answer(&header(op::FLUSH, 7), flush.as_bytes()), None);
        let release = ReleaseIn { release_flags: FLOCK_UNLOCK, ..ReleaseIn::default() };
        assert_eq!(grants.answer(&header(op::RELEASE, 7), release.as_bytes()), None);
        assert!(grants.answer(&header(op::RELEASE, 7), ReleaseIn::default().as_bytes()).is_some());
    }

    #[test]
    fn no_file_is_a_terminal() {
        assert_eq!(Grants::default().answer(&header(op::IOCTL, 7), &[]), Some((ENOTTY, Vec::new())));
    }

    #[test]
    fn an_attribute_that_this_node_sets_is_asked_for() {
        let mut grants = Grants::default();
        let asks = [GetxattrIn::default().as_bytes(), b"user.a\0"].concat();
        let get = header(op::GETXATTR, 7);
        grants.keep(&get, &asks, Kept { long: true, ..Kept::default() });
        grants.plain(vec![7]);
        assert_eq!(grants.answer(&get, &asks), Some((ENODATA, Vec::new())));
        grants.passed(&header(op::SETXATTR, 7), &[]);
        assert_eq!(grants.answer(&get, &asks), None);
    }

    #[test]
    fn an_attribute_that_is_not_there_may_come() {
        let mut grants = Grants::default();
        let asks = [GetxattrIn::default().as_bytes(), b"security.capability\0"].concat();
        let get = header(op::GETXATTR, 7);
        grants.keep(&get, &asks, Kept::default());
        assert_eq!(grants.answer(&get, &asks), Some((ENODATA, Vec::new())));
        grants.told(notice::INVAL_INODE, InvalInode { node: 7, offset: -1, length: 0 }.as_bytes());
        assert_eq!(grants.answer(&get, &asks), None);
    }
}
