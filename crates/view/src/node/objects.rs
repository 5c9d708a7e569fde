//! Which files have which contents that this node may keep on its disk, until a notice about the file comes.
//!
//! A content that other nodes have had, or that is on the disk, or that is executed, is had whole as soon as the file is opened, unless it is large. Any other one is had when half of it has been
//! read: who looks at a part of it would wait for all. What has been read until then is caught, so that it is read once.

use std::collections::HashMap;
use std::fs::File;
use std::net::SocketAddr;
use std::sync::Arc;
use store::{Content, Name, Object};
use wire::view::{Stored, KEPT};

/// Bytes of a content that is had at once.
const SMALL: u64 = 16 << 20;
/// So much of another one has to be read first.
const PART: u64 = 2;
/// Files of which what is read is caught, at a time: each has a descriptor.
const CAUGHT: usize = 128;

/// A content that is to be had, and from whom.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    pub(super) content: Content,
    pub(super) sources: Vec<SocketAddr>,
}

impl Wanted {
    fn of(stored: &Stored) -> Option<Wanted> {
        let content = Content::from_sums(stored.size, &stored.sums)?;
        let sources = stored.sources.iter().filter_map(|source| source.parse().ok()).collect();
        Some(Wanted { content, sources })
    }
}

#[derive(Debug)]
struct Seen {
    size: u64,
    wanted: Option<Wanted>,
    /// What has been read from the front end, and how much that is in all.
    caught: Option<Arc<File>>,
    read: u64,
    asked: bool,
}

#[derive(Debug)]
enum Known {
    Seen(Seen),
    Held(Arc<Object>),
}

/// What to do when a part of a file has been read from the front end.
#[derive(Debug)]
pub(super) enum Next {
    Nothing,
    /// The front end is asked for the sums.
    Ask,
    Have(Wanted),
}

#[derive(Debug, Default)]
pub(super) struct Objects {
    files: HashMap<u64, Known>,
    caught: usize,
}

impl Objects {
    /// A file has been opened, of so many bytes.
    pub(super) fn opened(&mut self, node: u64, size: u64) {
        if KEPT.contains(&size) && !self.files.contains_key(&node) {
            let seen = Seen { size, wanted: None, caught: None, read: 0, asked: false };
            self.files.insert(node, Known::Seen(seen));
        }
    }

    /// The front end has told with OPEN what this file's content is known by. Some: it is to be had at once.
    pub(super) fn told(&mut self, node: u64, stored: &Stored, on_disk: impl Fn(Name) -> bool) -> Option<Wanted> {
        let wanted = Wanted::of(stored)?;
        if stored.size <= SMALL || on_disk(wanted.content.name()) {
            return Some(wanted);
        }
        self.opened(node, stored.size);
        if let Some(Known::Seen(seen)) = self.files.get_mut(&node) {
            seen.wanted = Some(wanted);
        }
        None
    }

    /// The same when it was asked. None: nothing is known of the file any more.
    pub(super) fn answered(&mut self, node: u64, stored: &Stored) -> Option<Wanted> {
        match self.files.get(&node) {
            Some(Known::Seen(seen)) if seen.asked => Wanted::of(stored),
            _ => None,
        }
    }

    /// This is the content; what was caught of the file.
    pub(super) fn hold(&mut self, node: u64, object: Arc<Object>) -> Option<Arc<File>> {
        let caught = self.caught(node);
        self.forget(node);
        self.files.insert(node, Known::Held(object));
        caught
    }

    pub(super) fn held(&self, node: u64) -> Option<Arc<Object>> {
        match self.files.get(&node) {
            Some(Known::Held(object)) => Some(object.clone()),
            _ => None,
        }
    }

    /// Where a part of this file that comes from the front end is to be put, if it is to be caught.
    pub(super) fn catch(&mut self, node: u64, make: impl FnOnce() -> Option<File>) -> Option<Arc<File>> {
        let Some(Known::Seen(seen)) = self.files.get_mut(&node) else { return None };
        if seen.caught.is_none() && self.caught < CAUGHT {
            seen.caught = make().map(Arc::new);
            self.caught += usize::from(seen.caught.is_some());
        }
        seen.caught.clone()
    }

    /// So many bytes of it have come.
    pub(super) fn came(&mut self, node: u64, length: u64) -> Next {
        let Some(Known::Seen(seen)) = self.files.get_mut(&node) else { return Next::Nothing };
        seen.read += length;
        match &seen.wanted {
            _ if seen.read < seen.size / PART || seen.asked => Next::Nothing,
            Some(wanted) => Next::Have(wanted.clone()),
            None => {
                seen.asked = true;
                Next::Ask
            }
        }
    }

    fn caught(&self, node: u64) -> Option<Arc<File>> {
        match self.files.get(&node) {
            Some(Known::Seen(seen)) => seen.caught.clone(),
            _ => None,
        }
    }

    /// Is that still the file's content?
    pub(super) fn has(&self, node: u64, object: &Arc<Object>) -> bool {
        matches!(self.files.get(&node), Some(Known::Held(held)) if Arc::ptr_eq(held, object))
    }

    pub(super) fn forget(&mut self, node: u64) {
        if let Some(Known::Seen(Seen { caught: Some(_), .. })) = self.files.remove(&node) {
            self.caught -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(size: u64) -> Stored {
        let sums = vec![0; size.div_ceil(store::PIECE) as usize * 32];
        Stored { size, sums: sums.into(), sources: vec!["10.0.0.1:7".into(), "nowhere".into()] }
    }

    fn file() -> Option<File> {
        kern::sys::memory_file(&[]).ok().map(File::from)
    }

    #[test]
    fn a_content_is_had_at_once_or_when_half_of_it_was_read() {
        let mut objects = Objects::default();
        let small = objects.told(7, &stored(SMALL), |_| false).expect("at once");
        assert_eq!(small.sources, ["10.0.0.1:7".parse().expect("an address")]);
        assert!(objects.told(9, &stored(SMALL + 4), |_| true).is_some(), "it is on the disk");
        assert!(objects.told(9, &Stored { size: SMALL, ..stored(5) }, |_| true).is_none(), "no content");
        assert!(objects.told(8, &stored(SMALL + 4), |_| false).is_none());
        let mut reads = [objects.came(8, SMALL / 4), objects.came(8, SMALL / 4), objects.came(8, 2)];
        assert!(matches!(&mut reads, [Next::Nothing, Next::Nothing, Next::Have(_)]), "{reads:?}");
    }

    #[test]
    fn what_is_read_is_caught_until_the_sums_are_known() {
        let mut objects = Objects::default();
        objects.opened(7, 1000);
        assert!(objects.catch(7, file).is_none(), "too small");
        objects.opened(7, SMALL);
        let caught = objects.catch(7, file).expect("a file");
        assert!(Arc::ptr_eq(&caught, &objects.catch(7, || None).expect("the same")));
        assert!(objects.answered(7, &stored(SMALL)).is_none(), "nobody has asked");
        let reads = [objects.came(7, SMALL / 4), objects.came(7, SMALL / 4), objects.came(7, SMALL / 4)];
        assert!(matches!(&reads, [Next::Nothing, Next::Ask, Next::Nothing]), "{reads:?}");
        assert!(objects.answered(7, &stored(SMALL)).is_some());
        objects.forget(7);
        assert!(objects.answered(7, &stored(SMALL)).is_none(), "a notice has come");
        (0..CAUGHT as u64 + 1).for_each(|node| {
            objects.opened(node, SMALL);
            assert_eq!(objects.catch(node, file).is_some(), node < CAUGHT as u64);
        });
        objects.forget(0);
        assert!(objects.catch(CAUGHT as u64, file).is_some());
    }
}
