//! Which files have which contents that this node may keep on its disk, until a notice about the file comes.
//!
//! A small one is had whole as soon as it is opened, and so is one that is on the disk. A large one is, once a quarter of it has been read: who looks at a part of it would wait for all.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use store::{Content, Name, Object};
use wire::view::Stored;

/// Bytes of a content that is had at once.
const SMALL: u64 = 16 << 20;
/// So much of a large content has to be read first.
const PART: u64 = 4;

/// A content that is to be had, and from whom.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    pub(super) content: Content,
    pub(super) sources: Vec<SocketAddr>,
}

#[derive(Debug)]
enum File {
    /// So many bytes have been read from the front end.
    Large(Wanted, u64),
    Held(Arc<Object>),
}

/// What to do with a read.
#[derive(Debug)]
pub(super) enum Read {
    /// The front end is asked.
    Ask,
    /// The content is to be had from now on.
    Begin(Wanted),
    From(Arc<Object>),
}

#[derive(Debug, Default)]
pub(super) struct Objects(HashMap<u64, File>);

impl Objects {
    /// The front end has told what this file's content is known by. Some: it is to be had at once.
    pub(super) fn told(&mut self, node: u64, stored: &Stored, on_disk: impl Fn(Name) -> bool) -> Option<Wanted> {
        let content = Content::from_sums(stored.size, &stored.sums)?;
        let sources = stored.sources.iter().filter_map(|source| source.parse().ok()).collect();
        let wanted = Wanted { content, sources };
        if stored.size <= SMALL || on_disk(wanted.content.name()) {
            return Some(wanted);
        }
        self.0.insert(node, File::Large(wanted, 0));
        None
    }

    pub(super) fn hold(&mut self, node: u64, object: Arc<Object>) {
        self.0.insert(node, File::Held(object));
    }

    /// So many bytes of this file are asked for.
    pub(super) fn read(&mut self, node: u64, length: u64) -> Read {
        match self.0.get_mut(&node) {
            None => Read::Ask,
            Some(File::Held(object)) => Read::From(object.clone()),
            Some(File::Large(wanted, read)) => {
                *read += length;
                if *read < wanted.content.size() / PART {
                    return Read::Ask;
                }
                let wanted = wanted.clone();
                self.0.remove(&node);
                Read::Begin(wanted)
            }
        }
    }

    /// Is that still the file's content?
    pub(super) fn has(&self, node: u64, object: &Arc<Object>) -> bool {
        matches!(self.0.get(&node), Some(File::Held(held)) if Arc::ptr_eq(held, object))
    }

    pub(super) fn forget(&mut self, node: u64) {
        self.0.remove(&node);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(size: u64) -> Stored {
        let sums = vec![0; size.div_ceil(store::PIECE) as usize * 32];
        Stored { size, sums: sums.into(), sources: vec!["10.0.0.1:7".into(), "nowhere".into()] }
    }

    #[test]
    fn a_large_content_is_had_when_a_quarter_of_it_was_read() {
        let mut objects = Objects::default();
        let small = objects.told(7, &stored(SMALL), |_| false).expect("at once");
        assert_eq!(small.sources, ["10.0.0.1:7".parse().expect("an address")]);
        assert!(objects.told(8, &stored(SMALL + 4), |_| false).is_none());
        let mut reads =
            [objects.read(8, SMALL / 8), objects.read(8, SMALL / 8), objects.read(8, 1), objects.read(8, 1)];
        assert!(matches!(&mut reads, [Read::Ask, Read::Ask, Read::Begin(_), Read::Ask]), "{reads:?}");
        assert!(objects.told(9, &stored(SMALL + 4), |_| true).is_some(), "it is on the disk");
        objects.told(8, &stored(SMALL + 4), |_| false);
        objects.forget(8);
        assert!(matches!(objects.read(8, SMALL), Read::Ask));
        assert!(objects.told(9, &Stored { size: SMALL, ..stored(5) }, |_| true).is_none(), "no content");
    }
}
