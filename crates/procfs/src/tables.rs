//! What a node has said of its bodies: a table of what is commonly read, and one for each file that somebody reads of all.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use vocab::errno::EAGAIN;
use vocab::Pid;
use wire::entry::{Content, Entry, Found, COMMON};

/// A table: the name of the file, link or directory, or this.
pub(crate) type Key = &'static str;
pub(crate) const COMMONLY: Key = "";

/// Who was shown something can be shown it once more for so long, in microseconds.
const ONCE_US: u64 = 100_000;

/// What is in a table of one body.
#[derive(Debug)]
pub(crate) struct Body {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    entries: Vec<Entry>,
    /// As of when (monotonic).
    pub(crate) at_us: u64,
    /// Some of it is as of before: nobody looks at its user's processes.
    pub(crate) old: bool,
    /// When it was shown first (monotonic); 0: never.
    shown_us: AtomicU64,
}

impl Body {
    pub(crate) fn of(found: Found, at_us: u64) -> Body {
        let Found { uid, gid, entries, .. } = found;
        Body { uid, gid, entries, at_us, old: false, shown_us: AtomicU64::new(0) }
    }

    fn with(&self, entries: Vec<Entry>, at_us: u64, old: bool) -> Body {
        Body { uid: self.uid, gid: self.gid, entries, at_us, old, shown_us: AtomicU64::new(0) }
    }

    pub(crate) fn content(&self, name: &[u8]) -> Option<&Content> {
        self.entries.iter().find(|entry| entry.path == name).map(|entry| &entry.content)
    }

    /// It is shown. True: it has not been, but a moment ago.
    pub(crate) fn is_shown(&self, now_us: u64) -> bool {
        match self.shown_us.compare_exchange(0, now_us, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => true,
            Err(before) => now_us < before + ONCE_US,
        }
    }

    /// What nobody has looked at is as it was.
    fn after(mut self, before: Option<&Body>) -> Body {
        for entry in self.entries.iter_mut().filter(|entry| entry.content == Content::Failed(EAGAIN)) {
            self.old = true;
            if let Some(content) = before.and_then(|before| before.content(&entry.path)) {
                entry.content = content.clone();
            }
        }
        self
    }
}

#[derive(Debug, Default)]
pub(crate) struct Table {
    pub(crate) bodies: HashMap<Pid, Arc<Body>>,
    /// When was asked what is in it, for all that were there then (monotonic); 0: never.
    pub(crate) at_us: u64,
    /// A question for all is open since.
    pub(crate) asked_us: Option<u64>,
}

/// All tables of a node.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    all: HashMap<Key, Table>,
    /// Since then they are not as they were.
    stirred: HashMap<Pid, u64>,
}

impl Tables {
    pub(crate) fn get(&mut self, key: Key) -> &mut Table {
        self.all.entry(key).or_default()
    }

    /// Of an answer to a question for all in these tables, asked at `at_us`.
    pub(crate) fn take(&mut self, keys: &[Key], found: Found, at_us: u64) {
        let Found { pid, uid, gid, entries } = found;
        if self.stirred.get(&pid).is_some_and(|stirred| *stirred >= at_us) {
            return;
        }
        let (common, rest): (Vec<Entry>, Vec<Entry>) =
            entries.into_iter().partition(|entry| COMMON.iter().any(|name| name.as_bytes() == entry.path));
        if keys.contains(&COMMONLY) {
            self.keep(COMMONLY, pid, Body::of(Found { pid, uid, gid, entries: common }, at_us));
        }
        for entry in rest {
            if let Some(key) = keys.iter().find(|key| key.as_bytes() == entry.path) {
                self.keep(key, pid, Body::of(Found { pid, uid, gid, entries: vec![entry] }, at_us));
            }
        }
    }

    /// What was found of one.
    pub(crate) fn keep(&mut self, key: Key, pid: Pid, body: Body) -> Arc<Body> {
        let bodies = &mut self.get(key).bodies;
        let body = Arc::new(body.after(bodies.get(&pid).map(Arc::as_ref)));
        bodies.insert(pid, body.clone());
        body
    }

    /// That was all. `cut`: all that was said.
    pub(crate) fn end(&mut self, keys: &[Key], at_us: u64, cut: bool) {
        if keys.contains(&COMMONLY) && !cut {
            self.stirred.retain(|_, stirred| *stirred >= at_us);
        }
        for key in keys {
            let stirred = &self.stirred;
            let table = self.all.entry(key).or_default();
            (table.at_us, table.asked_us) = (at_us, None);
            if !cut {
                table.bodies.retain(|pid, body| body.at_us >= at_us || stirred.contains_key(pid));
            }
        }
    }

    /// There is no answer.
    pub(crate) fn give_up(&mut self, keys: &[Key]) {
        for key in keys {
            self.get(key).asked_us = None;
        }
    }

    pub(crate) fn forget(&mut self, pid: Pid) {
        self.stirred.remove(&pid);
        self.all.values_mut().for_each(|table| drop(table.bodies.remove(&pid)));
    }

    /// It is not as it was: of what is commonly read that is better than nothing.
    pub(crate) fn stirs(&mut self, pid: Pid, now_us: u64) {
        for (key, table) in &mut self.all {
            let Some(body) = table.bodies.remove(&pid) else { continue };
            if *key == COMMONLY {
                table.bodies.insert(pid, Arc::new(body.with(body.entries.clone(), 0, body.old)));
            }
        }
        self.stirred.insert(pid, now_us);
    }

    /// Only these are kept.
    pub(crate) fn retain(&mut self, keys: &[Key]) {
        self.all.retain(|key, _| *key == COMMONLY || keys.contains(key));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: [Key; 2] = [COMMONLY, "environ"];

    fn found(pid: i32, contents: &[(&str, Content)]) -> Found {
        let entry = |(path, content): &(&str, Content)| Entry {
            path: path.as_bytes().to_vec(),
            mode: 0,
            content: content.clone(),
        };
        Found { pid: Pid(pid), uid: 7, gid: 8, entries: contents.iter().map(entry).collect() }
    }

    fn text(of: &str) -> Content {
        Content::Text(of.into())
    }

    #[test]
    fn an_answer_fills_the_tables_as_it_comes_and_who_is_not_in_it_is_gone() {
        let mut tables = Tables::default();
        tables.take(&KEYS, found(1, &[("stat", text("a")), ("environ", text("b"))]), 10);
        tables.take(&KEYS, found(2, &[("stat", text("c"))]), 10);
        assert_eq!(tables.get(COMMONLY).bodies[&Pid(1)].content(b"stat"), Some(&text("a")));
        assert_eq!(tables.get("environ").bodies[&Pid(1)].content(b"environ"), Some(&text("b")));
        tables.end(&KEYS, 10, false);
        assert_eq!((tables.get(COMMONLY).bodies.len(), tables.get("environ").at_us), (2, 10));
        tables.take(&[COMMONLY], found(1, &[("stat", text("d"))]), 20);
        tables.end(&[COMMONLY], 20, true);
        assert_eq!(tables.get(COMMONLY).bodies.len(), 2, "that was not all");
        tables.end(&[COMMONLY], 20, false);
        assert_eq!(tables.get(COMMONLY).bodies.keys().collect::<Vec<_>>(), [&Pid(1)]);
        tables.retain(&[]);
        assert_eq!(tables.get("environ").at_us, 0);
    }

    #[test]
    fn what_has_changed_since_the_question_is_not_taken() {
        let mut tables = Tables::default();
        tables.take(&KEYS, found(1, &[("stat", text("a")), ("environ", text("b"))]), 10);
        tables.stirs(Pid(1), 15);
        assert!(tables.get("environ").bodies.is_empty());
        tables.take(&KEYS, found(1, &[("stat", text("c"))]), 12);
        tables.end(&KEYS, 12, false);
        let body = tables.get(COMMONLY).bodies[&Pid(1)].clone();
        assert_eq!((body.content(b"stat"), body.at_us), (Some(&text("a")), 0));
        tables.take(&KEYS, found(1, &[("stat", text("c"))]), 16);
        assert_eq!(tables.get(COMMONLY).bodies[&Pid(1)].content(b"stat"), Some(&text("c")));
    }

    #[test]
    fn what_nobody_has_looked_at_is_as_it_was_and_old() {
        let mut tables = Tables::default();
        tables.take(&KEYS, found(1, &[("stat", text("a")), ("comm", text("b"))]), 10);
        tables.take(&KEYS, found(1, &[("stat", Content::Failed(EAGAIN)), ("comm", text("c"))]), 20);
        let body = tables.get(COMMONLY).bodies[&Pid(1)].clone();
        assert_eq!((body.content(b"stat"), body.content(b"comm")), (Some(&text("a")), Some(&text("c"))));
        assert!(body.old);
        assert!(body.is_shown(100) && body.is_shown(100 + ONCE_US - 1) && !body.is_shown(100 + ONCE_US));
    }
}
