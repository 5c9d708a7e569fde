//! Names that the front end has sent without being asked: what they lead to, and of which directories all names are known, so that the others lead nowhere.

use crate::fuse::{
    name, op, take, text, CopyIn, CreateIn, EntryOut, InvalEntry, LinkIn, MkdirIn, MknodIn, OpenIn, Rename2In, RenameIn,
};
use kern::fuse::raw::Header;
use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};
use zerocopy::{FromBytes, IntoBytes};

/// So many entries, and names of directories that are known whole, at most.
const MOST: usize = 100_000;
const MOST_WHOLE: usize = 1_000_000;
/// Attributes that count for a second did so when they were sent.
const FRESH: Duration = Duration::from_millis(500);
const LONG: u64 = 1;
/// Of open(2): O_ACCMODE and O_TRUNC.
const WRITES: u32 = 0o3 | 0o1000;

#[derive(Debug)]
struct Entry {
    out: EntryOut,
    at: Instant,
    /// As [`Names`] has it.
    links: u64,
}

#[derive(Debug, Default)]
struct Directory {
    entries: HashMap<Vec<u8>, Entry>,
    /// If all are known: those that lead somewhere, or may do so by now.
    whole: Option<HashSet<Vec<u8>>>,
}

/// Each entry counts as looked up, and is given to the kernel once or forgotten.
#[derive(Debug, Default)]
pub(super) struct Names {
    directories: HashMap<u64, Directory>,
    /// Where there is an entry of a file.
    places: HashMap<u64, (u64, Vec<u8>)>,
    whole: usize,
    /// How often this node has given or taken away names of files, which changes attributes by other names too.
    links: u64,
    /// Files that the front end is to be told are forgotten, each by one lookup.
    forgotten: Vec<u64>,
    /// Directories in which names have changed.
    changed: Vec<u64>,
}

impl Names {
    /// The front end has sent names of a directory, with what they lead to where that is known (struct fuse_entry_out); `whole`: there are no others.
    pub(super) fn come(&mut self, directory: u64, whole: bool, names: Vec<(Vec<u8>, Vec<u8>)>) {
        if self.places.len() + names.len() > MOST || self.whole + names.len() > MOST_WHOLE {
            self.clear();
        }
        let here = self.directories.entry(directory).or_default();
        if whole {
            self.whole += names.len();
            self.whole -= here.whole.take().map_or(0, |before| before.len());
            here.whole = Some(names.iter().map(|(name, _)| name.clone()).collect());
        }
        for (name, entry) in names {
            let Ok((out, _)) = EntryOut::read_from_prefix(&entry) else { continue };
            if out.node == 0 {
                continue;
            }
            // One that has another name too has one place.
            if self.places.contains_key(&out.node) || here.entries.contains_key(&name) {
                self.forgotten.push(out.node);
                continue;
            }
            self.places.insert(out.node, (directory, name.clone()));
            here.entries.insert(name, Entry { out, at: Instant::now(), links: self.links });
        }
    }

    /// The answer to LOOKUP.
    pub(super) fn answer(&mut self, directory: u64, name: &[u8]) -> Option<Vec<u8>> {
        if let Some(out) = self.give(directory, name) {
            return Some(out.as_bytes().to_vec());
        }
        let here = self.directories.get(&directory)?;
        let is_nothing = here.whole.as_ref().is_some_and(|names| !names.contains(name));
        is_nothing.then(|| EntryOut { entry_valid: 86_400, ..EntryOut::default() }.as_bytes().to_vec())
    }

    /// The entry of this name, for the kernel.
    pub(super) fn give(&mut self, directory: u64, name: &[u8]) -> Option<EntryOut> {
        let Entry { mut out, at, links } = self.directories.get_mut(&directory)?.entries.remove(name)?;
        self.places.remove(&out.node);
        let has_others = out.attr.nlink > 1 && links != self.links;
        if (out.attr_valid, out.nsec[1]) == (0, 0) || has_others {
            // The kernel would believe its size for a moment.
            self.forgotten.push(out.node);
            return None;
        }
        if out.attr_valid <= LONG && at.elapsed() > FRESH {
            out.attr_valid = 0;
        }
        Some(out)
    }

    /// A name leads to something else, or is about to by this node.
    fn changed(&mut self, directory: u64, name: &[u8]) {
        self.changed.push(directory);
        let Some(here) = self.directories.get_mut(&directory) else { return };
        if let Some(entry) = here.entries.remove(name) {
            self.places.remove(&entry.out.node);
            self.forgotten.push(entry.out.node);
        }
        if let Some(whole) = &mut here.whole {
            self.whole += usize::from(whole.insert(name.to_vec()));
        }
    }

    /// A notice about a name has come (struct fuse_notify_inval_entry_out).
    pub(super) fn told(&mut self, body: &[u8]) {
        if let Ok((head, rest)) = take::<InvalEntry>(body) {
            if let Ok((name, _)) = text(rest) {
                self.changed(head.parent, name);
            }
        }
    }

    /// Attributes of a file have changed.
    pub(super) fn outdated(&mut self, node: u64) {
        let Some((directory, name)) = self.places.get(&node) else { return };
        let entry = self.directories.get_mut(directory).and_then(|here| here.entries.get_mut(name));
        if let Some(entry) = entry {
            (entry.out.attr_valid, entry.out.nsec[1]) = (0, 0);
        }
    }

    /// A request of this node's kernel that changes names has been passed on, or its answer has come.
    pub(super) fn passed(&mut self, header: &Header, body: &[u8]) {
        let directory = header.node;
        self.touched(header, body);
        let one = match header.opcode {
            op::UNLINK | op::RMDIR | op::SYMLINK => name(body).ok(),
            op::CREATE => take::<CreateIn>(body).and_then(|(_, rest)| name(rest)).ok(),
            op::MKNOD => take::<MknodIn>(body).and_then(|(_, rest)| name(rest)).ok(),
            op::MKDIR => take::<MkdirIn>(body).and_then(|(_, rest)| name(rest)).ok(),
            op::LINK => take::<LinkIn>(body).and_then(|(_, rest)| name(rest)).ok(),
            op::RENAME => take::<RenameIn>(body).ok().and_then(|(head, rest)| self.renamed(head.directory, rest)),
            op::RENAME2 => take::<Rename2In>(body).ok().and_then(|(head, rest)| self.renamed(head.directory, rest)),
            _ => None,
        };
        if let Some((name, _)) = one {
            self.changed(directory, name);
        }
    }

    /// The same of one that changes attributes: of its own changes a node is not told.
    fn touched(&mut self, header: &Header, body: &[u8]) {
        let (by_link, also) = match header.opcode {
            op::SETATTR | op::WRITE | op::FALLOCATE | op::SETXATTR | op::REMOVEXATTR => (false, None),
            op::CREATE | op::MKNOD | op::MKDIR | op::SYMLINK => (false, None),
            op::OPEN if take::<OpenIn>(body).is_ok_and(|(open, _)| open.flags & WRITES != 0) => (false, None),
            op::UNLINK | op::RMDIR => (true, None),
            op::RENAME | op::RENAME2 => (true, take::<RenameIn>(body).ok().map(|(head, _)| head.directory)),
            op::LINK => (true, take::<LinkIn>(body).ok().map(|(head, _)| head.node)),
            op::COPY_FILE_RANGE => (false, take::<CopyIn>(body).ok().map(|(head, _)| head.to_node)),
            _ => return,
        };
        self.links += u64::from(by_link);
        self.outdated(header.node);
        also.into_iter().for_each(|node| self.outdated(node));
    }

    fn renamed<'a>(&mut self, to: u64, names: &'a [u8]) -> Option<(&'a [u8], &'a [u8])> {
        let (old, rest) = name(names).ok()?;
        let (new, _) = name(rest).ok()?;
        self.changed(to, new);
        Some((old, rest))
    }

    /// The kernel knows nothing of a directory any more.
    pub(super) fn forget(&mut self, directory: u64) {
        if let Some(here) = self.directories.remove(&directory) {
            self.whole -= here.whole.map_or(0, |names| names.len());
            for entry in here.entries.into_values() {
                self.places.remove(&entry.out.node);
                self.forgotten.push(entry.out.node);
            }
        }
    }

    fn clear(&mut self) {
        let all: Vec<u64> = self.directories.keys().copied().collect();
        all.into_iter().for_each(|directory| self.forget(directory));
    }

    /// Directories in which names have changed since the last call.
    pub(super) fn changes(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.changed)
    }

    /// The news for the front end.
    pub(super) fn forgotten(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.forgotten)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::FromZeros;

    fn leads(node: u64) -> Vec<u8> {
        EntryOut { node, attr_valid: 1, entry_valid: 9, ..EntryOut::default() }.as_bytes().to_vec()
    }

    fn node(answer: Option<Vec<u8>>) -> Option<u64> {
        answer.map(|answer| EntryOut::read_from_prefix(&answer).expect("an entry").0.node)
    }

    #[test]
    fn a_name_is_given_once_and_what_is_not_there_leads_nowhere() {
        let mut names = Names::default();
        let all = [(b"a".to_vec(), leads(7)), (b"b".to_vec(), leads(8)), (b"c".to_vec(), Vec::new())];
        names.come(1, true, all.to_vec());
        assert_eq!(node(names.answer(1, b"a")), Some(7));
        assert_eq!((node(names.answer(1, b"a")), node(names.answer(1, b"c"))), (None, None));
        assert_eq!((node(names.answer(1, b"x")), node(names.answer(2, b"x"))), (Some(0), None));
        let notice = [InvalEntry { parent: 1, length: 1, flags: 0 }.as_bytes(), b"x\0"].concat();
        names.told(&notice);
        assert_eq!(node(names.answer(1, b"x")), None);
        assert!(names.forgotten().is_empty());
        names.forget(1);
        assert_eq!((names.forgotten(), names.whole, names.places.len()), (vec![8], 0, 0));
        assert_eq!(node(names.answer(1, b"y")), None);
    }

    #[test]
    fn what_this_node_makes_and_removes_is_asked_again() {
        let header = |opcode| Header { opcode, node: 1, ..Header::new_zeroed() };
        let made =
            |names: &mut Names| names.passed(&header(op::MKDIR), &[MkdirIn::default().as_bytes(), b"n\0"].concat());
        let removed = |names: &mut Names| names.passed(&header(op::UNLINK), b"a\0");
        let moved = |names: &mut Names| {
            names.passed(&header(op::RENAME), &[RenameIn { directory: 2 }.as_bytes(), b"a\0n\0"].concat());
        };
        let mut names = Names::default();
        for (pass, unknown, gone) in [
            (&made as &dyn Fn(&mut Names), vec![(1, b"n")], false),
            (&removed, vec![(1, b"a")], true),
            (&moved, vec![(1, b"a"), (2, b"n")], true),
        ] {
            names.come(1, true, vec![(b"a".to_vec(), leads(7))]);
            names.come(2, true, Vec::new());
            pass(&mut names);
            for (directory, name) in unknown {
                assert_eq!(names.answer(directory, name), None);
            }
            assert_eq!(names.forgotten() == [7], gone);
            (1..3).for_each(|directory| names.forget(directory));
            names.forgotten();
        }
    }

    #[test]
    fn attributes_that_this_node_changes_are_not_given() {
        let header = |opcode, node| Header { opcode, node, ..Header::new_zeroed() };
        let link = LinkIn { node: 7 };
        let writes = OpenIn { flags: 1, open_flags: 0 };
        for (passed, body, given) in [
            (header(op::SETATTR, 7), &[][..], false),
            (header(op::WRITE, 7), &[], false),
            (header(op::OPEN, 7), writes.as_bytes(), false),
            (header(op::OPEN, 7), OpenIn::default().as_bytes(), true),
            (header(op::LINK, 9), link.as_bytes(), false),
            (header(op::WRITE, 8), &[], true),
        ] {
            let mut names = Names::default();
            names.come(1, false, vec![(b"a".to_vec(), leads(7))]);
            names.passed(&passed, body);
            assert_eq!(names.answer(1, b"a").is_some(), given, "{passed:?}");
        }
        for (nlink, given) in [(1, true), (2, false)] {
            let mut names = Names::default();
            let attr = crate::fuse::Attr { nlink, ..crate::fuse::Attr::default() };
            let entry = EntryOut { node: 7, attr_valid: 9, entry_valid: 9, attr, ..EntryOut::default() };
            names.come(1, false, vec![(b"a".to_vec(), entry.as_bytes().to_vec())]);
            names.passed(&header(op::UNLINK, 2), b"other\0");
            assert_eq!(names.answer(1, b"a").is_some(), given, "another name of it may have gone");
        }
    }

    #[test]
    fn attributes_that_have_changed_are_not_given() {
        let mut names = Names::default();
        names.come(1, false, vec![(b"a".to_vec(), leads(7))]);
        names.outdated(7);
        assert_eq!((names.answer(1, b"a"), names.forgotten()), (None, vec![7]));
    }
}
