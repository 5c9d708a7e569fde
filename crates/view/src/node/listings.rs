//! All that can be read of a directory, as the front end has sent it unasked, until a notice about one of its names comes.

use super::names::Names;
use crate::fuse::{take, DirentHead, EntryOut, ReadIn};
use std::collections::HashMap;
use std::ops::Range;
use zerocopy::IntoBytes;

/// Bytes of all at most.
const MOST: usize = 16 * 1024 * 1024;
/// Whoever looks up the first name of a directory that was read, or so many others, is believed to want all.
const SOME: u32 = 8;

#[derive(Debug)]
struct Listing {
    bytes: Vec<u8>,
    /// Where in the bytes a name begins, and the offset by which a program says that it has come to that name.
    places: HashMap<u64, usize>,
    /// A program has read it, and nobody has asked for all its names since.
    read: bool,
    /// So many of its names have been asked for then.
    asked: u32,
}

#[derive(Debug, Default)]
pub(super) struct Listings {
    directories: HashMap<u64, Listing>,
    bytes: usize,
}

/// The name that begins at this place: its head, where it stands, and where the next one begins.
fn one(bytes: &[u8], at: usize) -> Option<(DirentHead, Range<usize>, usize)> {
    let (head, _): (DirentHead, _) = take(bytes.get(at..)?).ok()?;
    let start = at + size_of::<DirentHead>();
    let end = start.checked_add(head.length as usize).filter(|end| *end <= bytes.len())?;
    Some((head, start..end, end.next_multiple_of(8)))
}

impl Listing {
    /// The first name that is neither the directory nor the one above it.
    fn first(&self) -> Option<&[u8]> {
        let mut at = 0;
        while let Some((_, name, next)) = one(&self.bytes, at) {
            if !matches!(&self.bytes[name.clone()], b"." | b"..") {
                return Some(&self.bytes[name]);
            }
            at = next;
        }
        None
    }
}

impl Listings {
    /// Names of a directory, each as struct fuse_dirent.
    pub(super) fn keep(&mut self, directory: u64, bytes: Vec<u8>) {
        self.forget(directory);
        if self.bytes + bytes.len() > MOST {
            self.directories.clear();
            self.bytes = 0;
        }
        let mut places = HashMap::from([(0, 0)]);
        let mut at = 0;
        while let Some((head, _, next)) = one(&bytes, at) {
            places.insert(head.offset, next);
            at = next;
        }
        self.bytes += bytes.len();
        self.directories.insert(directory, Listing { bytes, places, read: false, asked: 0 });
    }

    /// The answer to READDIR, or to READDIRPLUS if `whole`: with what the names lead to, as far as that is known. None: the front end is to be asked.
    pub(super) fn answer(&mut self, directory: u64, body: &[u8], whole: bool, names: &mut Names) -> Option<Vec<u8>> {
        let listing = self.directories.get_mut(&directory)?;
        let (asked, _): (ReadIn, _) = take(body).ok()?;
        let mut at = *listing.places.get(&asked.offset)?;
        listing.read = true;
        let before = if whole { size_of::<EntryOut>() } else { 0 };
        let mut data = Vec::new();
        while let Some((mut head, name, next)) = one(&listing.bytes, at) {
            if data.len() + before + (next - at) > asked.size as usize {
                break;
            }
            let name = &listing.bytes[name];
            if whole {
                // Node 0: nothing is said of it (linux: fuse_direntplus_link).
                let entry = names.give(directory, name).unwrap_or_default();
                if entry.node != 0 {
                    head.ino = entry.attr.ino;
                }
                data.extend(entry.as_bytes());
            }
            data.extend(head.as_bytes());
            data.extend(name);
            data.resize(data.len().next_multiple_of(8), 0);
            at = next;
        }
        Some(data)
    }

    /// Will a program that looks up this name of a directory ask for each, since it has read the directory? True once.
    pub(super) fn leads_to_each(&mut self, directory: u64, name: &[u8]) -> bool {
        let Some(listing) = self.directories.get_mut(&directory).filter(|listing| listing.read) else { return false };
        listing.asked += 1;
        let each = listing.asked >= SOME || listing.first() == Some(name);
        if each {
            (listing.read, listing.asked) = (false, 0);
        }
        each
    }

    pub(super) fn forget(&mut self, directory: u64) {
        if let Some(listing) = self.directories.remove(&directory) {
            self.bytes -= listing.bytes.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(names: &[(&str, u64)]) -> Vec<u8> {
        let mut all = Vec::new();
        for (name, offset) in names {
            let head = DirentHead { ino: 5, offset: *offset, length: name.len() as u32, kind: 8 };
            all.extend(head.as_bytes());
            all.extend(name.as_bytes());
            all.resize(all.len().next_multiple_of(8), 0);
        }
        all
    }

    fn read(listings: &mut Listings, offset: u64, size: u32, names: &mut Names) -> Option<Vec<u8>> {
        let asked = ReadIn { offset, size, ..ReadIn::default() };
        listings.answer(7, asked.as_bytes(), false, names)
    }

    #[test]
    fn a_directory_is_read_in_pieces() {
        let (mut listings, mut names) = (Listings::default(), Names::default());
        assert_eq!(read(&mut listings, 0, 4096, &mut names), None);
        let all = listed(&[("a", 40), ("name", 90), ("c", 17)]);
        listings.keep(7, all.clone());
        assert!(!listings.leads_to_each(7, b"a"));
        assert_eq!(read(&mut listings, 0, 4096, &mut names).as_ref(), Some(&all));
        assert!(!listings.leads_to_each(7, b"c") && listings.leads_to_each(7, b"a"), "the first of all");
        assert!(!listings.leads_to_each(7, b"a"), "once");
        read(&mut listings, 0, 4096, &mut names);
        assert_eq!((0..SOME).filter(|_| listings.leads_to_each(7, b"c")).count(), 1, "others");
        assert_eq!(read(&mut listings, 0, 40, &mut names).as_deref(), Some(&all[..32]));
        assert_eq!(read(&mut listings, 40, 64, &mut names).as_deref(), Some(&all[32..96]));
        assert_eq!(read(&mut listings, 17, 64, &mut names).as_deref(), Some(&[][..]), "the end");
        assert_eq!(read(&mut listings, 41, 64, &mut names), None, "another state of the directory");
        listings.forget(7);
        assert_eq!((read(&mut listings, 0, 64, &mut names), listings.bytes), (None, 0));
    }

    #[test]
    fn what_names_lead_to_is_given_along() {
        let (mut listings, mut names) = (Listings::default(), Names::default());
        listings.keep(7, listed(&[("a", 40), ("b", 90)]));
        let entry = EntryOut { node: 9, entry_valid: 9, attr_valid: 9, ..EntryOut::default() };
        names.come(7, true, vec![(b"a".to_vec(), entry.as_bytes().to_vec()), (b"b".to_vec(), Vec::new())]);
        let asked = ReadIn { size: 4096, ..ReadIn::default() };
        let data = listings.answer(7, asked.as_bytes(), true, &mut names).expect("an answer");
        let (first, _): (EntryOut, _) = take(&data).expect("an entry");
        let (second, _): (EntryOut, _) = take(&data[128 + 32..]).expect("an entry");
        assert_eq!((first.node, second.node, data.len()), (9, 0, 2 * (128 + 32)));
        assert!(names.give(7, b"a").is_none(), "the kernel has it");
    }
}
