//! The roster as a file: a line for each node and each attribute, and a last line with their number, by which a file that is cut is known. The first line numbers
//! the lists.
//!
//! There are two such files: one in the run directory, which is written before a change counts and is there after a daemon that was killed, and one in the state directory, which is
//! written by a thread of its own, since a disk may be busy for seconds and the daemon's loop waits for nobody, and is there after the end of the machine.
//!
//! ```text
//! shoal nodes 1 17
//! node 3 1000 100 0110 up 1764000000 1764000100 10.0.0.3:40000 9f1c77d20b1e4a55
//! name 3 lab3
//! attribute 3 rack 37
//! end 3
//! ```

use super::record::Record;
use super::word::Word;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{channel, Receiver, Sender};
use std::thread::JoinHandle;
use vocab::names::is_name as is_node_name;
use vocab::{Fault, Kind, NodeId, Result};
use wire::nodes::{is_name, is_state, ATTRIBUTES, MODE, VALUE};

const HEAD: &str = "shoal nodes 1 ";

/// All of them.
pub(crate) type Records = BTreeMap<NodeId, Record>;

pub(crate) fn text(records: &Records, number: u64) -> String {
    let (mut text, mut lines) = (format!("{HEAD}{number}\n"), 0);
    for (NodeId(node), one) in records {
        let Record { uid, gid, mode, word, atime, mtime, address, identity, name, attributes } = one;
        let address = if address.is_empty() { "-" } else { address };
        // Writing into a string does not fail.
        let _ = writeln!(
            text,
            "node {node} {uid} {gid} {mode:04o} {} {atime} {mtime} {address} {identity:016x}",
            word.text()
        );
        if !name.is_empty() {
            let _ = writeln!(text, "name {node} {name}");
            lines += 1;
        }
        for (name, value) in attributes {
            let hex: String = value.iter().map(|byte| format!("{byte:02x}")).collect();
            let _ = writeln!(text, "attribute {node} {name} {}", if hex.is_empty() { "-" } else { &hex });
        }
        lines += 1 + attributes.len();
    }
    let _ = writeln!(text, "end {lines}");
    text
}

/// # Errors
/// `Wire` with the number of the first line that is not as [`text`] writes it.
fn read(text: &str) -> Result<(Records, u64)> {
    let mut records = Records::new();
    let lines: Vec<&str> = text.lines().collect();
    let bad = |number: usize| Fault::wire(format!("line {} is no line of a list of nodes", number + 1));
    let head = lines.first().and_then(|line| line.strip_prefix(HEAD));
    let list = head.and_then(|number| number.parse().ok()).ok_or_else(|| bad(0))?;
    let last = lines.len() - 1;
    if last == 0 || lines[last] != format!("end {}", last - 1) || !text.ends_with('\n') {
        return Err(Fault::wire("the last line is not its end"));
    }
    for (number, line) in lines[..last].iter().enumerate().skip(1) {
        take(line, &mut records).ok_or_else(|| bad(number))?;
    }
    Ok((records, list))
}

fn take(line: &str, records: &mut Records) -> Option<()> {
    let words: Vec<&str> = line.split(' ').collect();
    match words[..] {
        ["node", node, uid, gid, mode, word, atime, mtime, address, identity] => {
            let mode = u32::from_str_radix(mode, 8).ok().filter(|mode| mode & !MODE == 0)?;
            let record = Record {
                uid: uid.parse().ok()?,
                gid: gid.parse().ok()?,
                mode,
                word: is_state(word).then(|| Word::of(word))?,
                atime: atime.parse().ok()?,
                mtime: mtime.parse().ok()?,
                address: if address == "-" { String::new() } else { address.into() },
                identity: u64::from_str_radix(identity, 16).ok()?,
                name: String::new(),
                attributes: BTreeMap::new(),
            };
            records.insert(NodeId(node.parse().ok()?), record).is_none().then_some(())
        }
        ["name", node, name] => {
            let record = records.get_mut(&NodeId(node.parse().ok()?))?;
            let is_first = record.name.is_empty() && is_node_name(name);
            is_first.then(|| record.name = name.into())
        }
        ["attribute", node, name, value] => {
            let record = records.get_mut(&NodeId(node.parse().ok()?))?;
            let room = record.attributes.len() < ATTRIBUTES && is_name(name);
            let value = room.then(|| bytes(value))??;
            record.attributes.insert(name.into(), value).is_none().then_some(())
        }
        _ => None,
    }
}

fn bytes(hex: &str) -> Option<Vec<u8>> {
    if hex == "-" {
        return Some(Vec::new());
    }
    let whole = hex.is_ascii() && hex.len().is_multiple_of(2) && (2..=2 * VALUE).contains(&hex.len());
    let pairs = whole.then(|| (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).ok()))?;
    pairs.collect()
}

/// Replaces the file at `path`, which is as before or as now whenever the daemon ends; `durable`: also when the machine crashes. The file before stays beside it.
///
/// # Errors
/// `Sys` as open(2), write(2), fsync(2), rename(2).
pub(crate) fn write(path: &Path, text: &str, durable: bool) -> Result<()> {
    let new = path.with_extension("new");
    let kept = |e: std::io::Error| Fault::io(&e, format!("keep {}", path.display()));
    let mut file = File::create(&new).map_err(kept)?;
    file.write_all(text.as_bytes()).map_err(kept)?;
    if durable {
        file.sync_all().map_err(kept)?;
        let before = before(path);
        let _none_yet = std::fs::remove_file(&before);
        let _none_yet = std::fs::hard_link(path, &before);
    }
    std::fs::rename(&new, path).map_err(kept)?;
    // Where a directory cannot be synchronised the rename is as durable as it gets.
    let _ = path.parent().filter(|_| durable).map(|directory| File::open(directory).and_then(|at| at.sync_all()));
    Ok(())
}

fn before(path: &Path) -> PathBuf {
    path.with_extension("before")
}

/// The list that an earlier daemon has left, and its number.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// Nothing: there was none.
    Nothing,
    All(Records, u64),
    /// Both files are damaged and set aside, and the one before the last is not. Some changes may be missing.
    Older(Records, u64),
    /// All files are damaged and set aside.
    Damaged,
}

/// The newer of what these files have.
///
/// # Errors
/// `Sys` where there is a file and the daemon cannot read it, or a damaged one cannot be set aside.
pub(crate) fn find(quick: &Path, path: &Path) -> Result<Found> {
    let (mut newest, mut damaged): (Option<(Records, u64)>, bool) = (None, false);
    for one in [quick, path] {
        match look(one) {
            Ok(Some(found)) if newest.as_ref().is_none_or(|known| known.1 < found.1) => newest = Some(found),
            Ok(_) => {}
            Err(why) if why.kind == Kind::Wire => {
                damaged = true;
                set_aside(one, &why)?;
            }
            Err(fault) => return Err(fault),
        }
    }
    match newest {
        Some((records, number)) => Ok(Found::All(records, number)),
        None if !damaged => Ok(Found::Nothing),
        None => Ok(match look(&before(path)) {
            Ok(Some((records, number))) => Found::Older(records, number),
            _ => Found::Damaged,
        }),
    }
}

fn set_aside(path: &Path, why: &Fault) -> Result<()> {
    let aside = path.with_extension("damaged");
    tracing::error!("{} is damaged, and is {} from now on: {why}", path.display(), aside.display());
    std::fs::rename(path, &aside).map_err(|e| Fault::io(&e, format!("set {} aside", path.display())))
}

fn look(path: &Path) -> Result<Option<(Records, u64)>> {
    match std::fs::read(path) {
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(e) => Err(Fault::io(&e, format!("read {}", path.display()))),
        Ok(bytes) => {
            let text = String::from_utf8(bytes).map_err(|_| Fault::wire("it is no text"))?;
            read(&text).map(Some)
        }
    }
}

/// The thread that writes the second file; the newest text counts.
#[derive(Debug)]
pub(crate) struct Keeper {
    /// `None`: it is to end.
    texts: Option<Sender<String>>,
    thread: Option<JoinHandle<()>>,
}

impl Keeper {
    /// # Errors
    /// `Sys` where no thread is to be had.
    pub(crate) fn start(path: PathBuf) -> Result<Keeper> {
        let (texts, come) = channel();
        let thread = std::thread::Builder::new().name("shoal:roster".into()).spawn(move || keep(&path, &come));
        let thread = thread.map_err(|e| Fault::io(&e, "start a thread that keeps the nodes' owners"))?;
        Ok(Keeper { texts: Some(texts), thread: Some(thread) })
    }

    pub(crate) fn keep(&self, text: String) {
        if let Some(texts) = &self.texts {
            // The thread ends with this only.
            let _ = texts.send(text);
        }
    }
}

impl Drop for Keeper {
    /// The last list is kept.
    fn drop(&mut self) {
        self.texts = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn keep(path: &Path, come: &Receiver<String>) {
    while let Ok(first) = come.recv() {
        let text = come.try_iter().last().unwrap_or(first);
        if let Err(fault) = write(path, &text, true) {
            tracing::warn!("{fault}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::{btree_map, vec};
    use proptest::prelude::*;

    fn record() -> impl Strategy<Value = Record> {
        let word = prop_oneof![Just("up"), Just("boot"), Just("error"), Just("drained_7")];
        let attributes = btree_map("[!-~]{1,63}", vec(any::<u8>(), 0..=VALUE), 0..4);
        let address = prop_oneof![Just(String::new()), Just("[::1]:7".to_string())];
        let name = prop_oneof![Just(String::new()), Just("lab-3.example".to_string())];
        (any::<[u32; 3]>(), word, any::<[i64; 2]>(), (address, any::<u64>(), name), attributes).prop_map(
            |([uid, gid, mode], word, [atime, mtime], (address, identity, name), attributes)| {
                let (mode, word) = (mode & MODE, Word::of(word));
                Record { uid, gid, mode, word, atime, mtime, address, identity, name, attributes }
            },
        )
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(records in btree_map((-1..70_000i32).prop_map(NodeId), record(), 0..5)) {
            let text = text(&records, 17);
            prop_assert_eq!(read(&text).expect("own text"), (records, 17));
            // Wherever it is cut it is no list.
            for end in 0..text.len() {
                prop_assert!(read(&text[..end]).is_err(), "{} bytes of {}", end, text.len());
            }
        }

        #[test]
        fn no_text_whatever_makes_a_reader_panic(text in "(shoal nodes 1 7\n)?((node|name|attribute|end)( [!-~]{0,4}){0,9}\n){0,3}") {
            let _ = read(&text);
        }
    }

    #[test]
    fn a_damaged_file_is_set_aside_and_another_counts() {
        let directory = std::env::temp_dir().join(format!("shoal-roster.{}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("a directory");
        let (quick, path) = (directory.join("quick"), directory.join("nodes"));
        let found = || find(&quick, &path).expect("readable");
        assert_eq!(found(), Found::Nothing);
        let of = |uid| Records::from([(NodeId(3), Record { uid, ..Record::new(MODE) })]);
        let put = |at: &Path, number: u64| write(at, &text(&of(number as u32), number), at == path).expect("room");
        put(&path, 1);
        assert_eq!(found(), Found::All(of(1), 1), "after the end of the machine");
        put(&quick, 2);
        assert_eq!(found(), Found::All(of(2), 2), "the second was not written in time");
        put(&path, 3);
        assert_eq!(found(), Found::All(of(3), 3));
        std::fs::write(&path, "shoal nodes 1 4\nnode 3").expect("room");
        assert_eq!(found(), Found::All(of(2), 2));
        assert!(!path.exists() && directory.join("nodes.damaged").exists());
        for file in [&quick, &path] {
            std::fs::write(file, [0xff; 9]).expect("room");
        }
        assert_eq!(found(), Found::Older(of(1), 1));
        std::fs::write(&quick, "").expect("room");
        std::fs::write(directory.join("nodes.before"), "").expect("room");
        assert_eq!(found(), Found::Damaged);
        std::fs::remove_dir_all(&directory).expect("ours");
    }

    #[test]
    fn what_was_to_be_kept_is_kept_when_the_daemon_ends() {
        let path = std::env::temp_dir().join(format!("shoal-roster-keeper.{}", std::process::id()));
        let keeper = Keeper::start(path.clone()).expect("a thread");
        (0..100).for_each(|number| keeper.keep(text(&Records::new(), number)));
        drop(keeper);
        assert_eq!(look(&path).expect("readable"), Some((Records::new(), 99)));
        let _ = std::fs::remove_file(before(&path));
        std::fs::remove_file(&path).expect("ours");
    }
}
