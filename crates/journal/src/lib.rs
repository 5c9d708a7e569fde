//! A daemon's log as a file in its run directory, for `shoal log`: a bounded one, beside what standard error takes to the system's journal.
//!
//! The file is root's alone: who may read a daemon's log the front end says. When it has become long it is the file before, and another one is begun; so the newest
//! [`LONGEST`] bytes at least are there, and twice as many at most.
#![forbid(unsafe_code)]

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;
use vocab::{Fault, Result};
use wire::log::{LogPiece, LogPlace, LogWanted, MOST};

/// Bytes of a file, about.
const LONGEST: u64 = 1 << 20;
/// The most lines of one answer: more than fit.
const LINES: u32 = 100_000;

/// Where daemons with this run directory keep their log.
fn path(run_dir: &Path) -> PathBuf {
    run_dir.join("log/daemon")
}

fn before(path: &Path) -> PathBuf {
    path.with_extension("before")
}

/// The writing side.
#[derive(Debug)]
pub struct Journal(PathBuf);

impl Journal {
    /// The log of the daemon with this run directory; directories are made.
    ///
    /// # Errors
    /// `Sys` as mkdir(2) and open(2).
    pub fn open(run_dir: &Path) -> Result<Journal> {
        let journal = Journal(path(run_dir));
        journal.file().map_err(|e| Fault::io(&e, format!("open the log {}", journal.0.display())))?;
        Ok(journal)
    }

    fn file(&self) -> std::io::Result<File> {
        let open = || OpenOptions::new().create(true).append(true).mode(0o600).open(&self.0);
        match open() {
            Err(e) if e.kind() == ErrorKind::NotFound => {
                let directory = self.0.parent().unwrap_or(Path::new("/"));
                // Root's, whatever the umask: nobody else puts a link there.
                DirBuilder::new().recursive(true).mode(0o755).create(directory)?;
                open()
            }
            opened => opened,
        }
    }

    /// Adds a line, with its end. A line that cannot be written, as on a full disk, is lost.
    pub fn add(&self, line: &[u8]) {
        // Opened for each line: another process of the daemon's may have begun another file.
        let Ok(mut file) = self.file() else { return };
        let _ = file.write_all(line);
        if file.metadata().is_ok_and(|file| file.len() >= LONGEST) {
            let _ = fs::rename(&self.0, before(&self.0));
        }
    }
}

/// A file of the log, as it is now.
struct Part {
    file: File,
    number: u64,
    length: u64,
}

impl Part {
    fn open(path: &Path) -> std::io::Result<Option<Part>> {
        match File::open(path) {
            Ok(file) => {
                let meta = file.metadata()?;
                // The number of an inode comes again at once; with the time of its birth it is another one.
                let born = meta.created().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
                let number = meta.ino().rotate_left(40) ^ born.map_or(0, |time| time.as_nanos() as u64);
                Ok(Some(Part { number, length: meta.len(), file }))
            }
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// At most so many bytes from `at` on.
    fn read(&mut self, at: u64, most: usize) -> std::io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.file.seek(SeekFrom::Start(at))?;
        (&mut self.file).take(most as u64).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn end(&self) -> LogPlace {
        LogPlace { file: self.number, at: self.length }
    }
}

/// Lines of the log of the daemon with this run directory.
///
/// # Errors
/// `Sys` as open(2) and read(2).
pub fn read(run_dir: &Path, wanted: LogWanted) -> Result<LogPiece> {
    let path = path(run_dir);
    let failed = |e: std::io::Error| Fault::io(&e, format!("read the log {}", path.display()));
    // The older one first: what becomes the older one meanwhile is read twice, and not missed.
    let parts = [Part::open(&before(&path)).map_err(failed)?, Part::open(&path).map_err(failed)?];
    let mut parts: Vec<Part> = parts.into_iter().flatten().collect();
    parts.dedup_by_key(|part| part.number);
    match wanted {
        LogWanted::Last(count) => last(parts, count.min(LINES)),
        LogWanted::After(place) => after(parts, place),
    }
    .map_err(failed)
}

fn last(parts: Vec<Part>, count: u32) -> std::io::Result<LogPiece> {
    let place = parts.last().map(Part::end).unwrap_or_default();
    let mut lines: Vec<u8> = Vec::new();
    for mut part in parts.into_iter().rev() {
        let room = MOST.saturating_sub(lines.len());
        let from = part.length.saturating_sub(room as u64);
        let mut older = part.read(from, usize::try_from(part.length - from).unwrap_or(room))?;
        if from > 0 {
            // Not from its beginning: the first line may be half of one.
            older.drain(..older.iter().position(|byte| *byte == b'\n').map_or(older.len(), |end| end + 1));
        }
        older.extend_from_slice(&lines);
        lines = older;
    }
    let ends: Vec<usize> = lines.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1).collect();
    let skipped = ends.len().saturating_sub(count as usize);
    lines.drain(..skipped.checked_sub(1).map_or(0, |line| ends[line]));
    Ok(LogPiece { lines, place, gap: false, more: false })
}

fn after(mut parts: Vec<Part>, place: LogPlace) -> std::io::Result<LogPiece> {
    let known = parts.iter().position(|part| part.number == place.file);
    let mut gap = known.is_none() && place != LogPlace::default();
    let mut place = place;
    for part in parts.drain(known.unwrap_or(0)..) {
        let mut part = part;
        if part.number != place.file {
            place = LogPlace { file: part.number, at: 0 };
        }
        // Somebody has emptied it.
        if place.at > part.length {
            (place.at, gap) = (0, true);
        }
        let mut lines = part.read(place.at, MOST)?;
        // A line that is not whole yet comes the next time.
        lines.truncate(lines.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1));
        if !lines.is_empty() {
            place.at += lines.len() as u64;
            return Ok(LogPiece { lines, place, gap, more: true });
        }
    }
    Ok(LogPiece { lines: Vec::new(), place, gap, more: false })
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Scratch {
            let path = std::env::temp_dir().join(format!("shoal-journal-{}-{name}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            fs::create_dir(&path).expect("a new directory");
            Scratch(path)
        }

        fn last(&self, count: u32) -> String {
            text(read(&self.0, LogWanted::Last(count)).expect("readable").lines)
        }

        /// All that comes after this place, and the place behind it.
        fn after(&self, mut place: LogPlace) -> (String, LogPlace, bool) {
            let (mut all, mut gap) = (String::new(), false);
            loop {
                let piece = read(&self.0, LogWanted::After(place)).expect("readable");
                assert!(piece.lines.len() <= MOST);
                (place, gap) = (piece.place, gap || piece.gap);
                all += &text(piece.lines);
                if !piece.more {
                    return (all, place, gap);
                }
            }
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn text(bytes: Vec<u8>) -> String {
        String::from_utf8(bytes).expect("text")
    }

    #[test]
    fn the_last_lines_and_those_after_them() {
        let scratch = Scratch::new("last");
        assert_eq!((scratch.last(5).as_str(), scratch.after(LogPlace::default()).0.as_str()), ("", ""));
        let journal = Journal::open(&scratch.0).expect("room");
        (0..10).for_each(|n| journal.add(format!("line {n}\n").as_bytes()));
        assert_eq!((scratch.last(2).as_str(), scratch.last(0).as_str()), ("line 8\nline 9\n", ""));
        assert_eq!(scratch.last(1000).lines().count(), 10);
        let place = read(&scratch.0, LogWanted::Last(1)).expect("readable").place;
        assert_eq!(scratch.after(place).0, "");
        journal.add(b"line 10\n");
        journal.add(b"half");
        let (lines, place, _) = scratch.after(place);
        assert_eq!(lines, "line 10\n");
        journal.add(b" a line\n");
        assert_eq!(scratch.after(place).0, "half a line\n");
        let mode = fs::metadata(path(&scratch.0)).expect("there").mode();
        assert_eq!(mode & 0o7777, 0o600);
    }

    #[test]
    fn a_long_log_is_begun_anew_and_nothing_is_missed_between() {
        let scratch = Scratch::new("long");
        let journal = Journal::open(&scratch.0).expect("room");
        let line = |n: u32| format!("{n:06} {}\n", "x".repeat(992));
        journal.add(line(0).as_bytes());
        let (_, start, _) = scratch.after(LogPlace::default());
        (1..1500).for_each(|n| journal.add(line(n).as_bytes()));
        assert!(before(&path(&scratch.0)).exists());
        let (all, _, gap) = scratch.after(start);
        assert!(!gap && all == (1..1500).map(line).collect::<String>());
        assert_eq!(scratch.last(1), line(1499));
        // The last lines reach into the file before.
        let last = scratch.last(1000);
        assert!(
            last.len() <= MOST
                && last.ends_with(&line(1499))
                && last.starts_with(&line(1500 - last.lines().count() as u32))
        );
        // Two files later it is known that something is missing.
        (1500..4500).for_each(|n| journal.add(line(n).as_bytes()));
        let (all, _, gap) = scratch.after(start);
        assert!(gap && all.ends_with(&line(4499)));
        let size: u64 = [path(&scratch.0), before(&path(&scratch.0))]
            .iter()
            .filter_map(|one| fs::metadata(one).ok())
            .map(|one| one.len())
            .sum();
        assert!(size <= 2 * LONGEST + 1000, "{size}");
    }
}
