//! The daemons' log: to standard error, where systemd takes it, and bounded for each place of the program that writes to it, since some
//! lines are about what any user or stranger can do again and again.

use journal::Journal;
use std::collections::HashMap;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Instant;
use tracing::callsite::Identifier;
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::EnvFilter;

/// So many lines of one place are written at once, and then one in a second: some megabytes a day.
const BURST: f64 = 200.0;
const PER_SECOND: f64 = 1.0;

/// The daemon's log beside standard error, for `shoal log`.
static JOURNAL: OnceLock<Journal> = OnceLock::new();

/// `SHOAL_LOG` is a filter as in `debug` or `link=trace`. Only lines that are shown by default are bounded.
pub(crate) fn to_stderr() {
    let filter =
        EnvFilter::builder().with_env_var("SHOAL_LOG").with_default_directive(Level::INFO.into()).from_env_lossy();
    // A line that cannot be written, as on a full disk, is lost: to say so on standard error as well would panic, and end the daemon.
    let marks = is_journal();
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(Sink { marks }).with_ansi(false);
    lines.log_internal_errors(false).finish().with(Bounded { marks, ..Bounded::default() }).init();
}

/// From now on lines are kept in the run directory too. A daemon serves without that, should it not be possible.
pub(crate) fn keep_in(run_dir: &Path) {
    match Journal::open(run_dir) {
        // Each daemon says so once.
        Ok(journal) => drop(JOURNAL.set(journal)),
        Err(fault) => tracing::warn!("`shoal log` does not show this daemon's log: {fault}"),
    }
}

/// Is standard error the system's journal, which takes a line's level from its beginning (sd-daemon(3))? So for this process: what it starts may have another one.
fn is_journal() -> bool {
    let Ok(said) = std::env::var("JOURNAL_STREAM") else { return false };
    std::fs::metadata("/proc/self/fd/2").is_ok_and(|own| said == format!("{}:{}", own.dev(), own.ino()))
}

/// Makes the writer of each line.
struct Sink {
    /// Lines begin with their level, for the journal.
    marks: bool,
}

impl<'a> MakeWriter<'a> for Sink {
    type Writer = Lines<std::io::Stderr>;

    fn make_writer(&'a self) -> Self::Writer {
        Lines { to: std::io::stderr(), mark: "", keeps: true }
    }

    fn make_writer_for(&'a self, meta: &Metadata<'_>) -> Self::Writer {
        Lines { mark: if self.marks { mark(*meta.level()) } else { "" }, ..self.make_writer() }
    }
}

/// The numbers of syslog(3).
fn mark(level: Level) -> &'static str {
    match level {
        Level::ERROR => "<3>",
        Level::WARN => "<4>",
        Level::INFO => "<6>",
        _ => "<7>",
    }
}

/// Each write is a line of the log. Names in it are users': they make no further line, and nothing of a terminal that shows the log.
struct Lines<W> {
    to: W,
    mark: &'static str,
    /// The line goes into the run directory too.
    keeps: bool,
}

impl<W: Write> Write for Lines<W> {
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        let text = String::from_utf8_lossy(line);
        let text = kern::own::plain(text.strip_suffix('\n').unwrap_or(&text)) + "\n";
        if let Some(journal) = JOURNAL.get().filter(|_| self.keeps) {
            journal.add(text.as_bytes());
        }
        self.to.write_all(format!("{}{text}", self.mark).as_bytes()).map(|()| line.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.to.flush()
    }
}

/// How many lines were not written, as a line of the log itself. Not as an event: there is one under way.
fn tell_left_out(count: u64, of: &Metadata<'_>, to: &mut impl Write) {
    let mut line = String::new();
    // A clock that cannot be read leaves the line without a time.
    let _ = SystemTime.format_time(&mut Writer::new(&mut line));
    line += &format!("  WARN {}: {count} lines like the next one were left out\n", of.target());
    // If the line cannot be written, it is lost as others are.
    let _ = to.write_all(line.as_bytes());
}

/// What one place may still write.
#[derive(Debug)]
struct Bucket {
    lines: f64,
    filled_at: Instant,
    left_out: u64,
}

impl Bucket {
    fn new(now: Instant) -> Bucket {
        Bucket { lines: BURST, filled_at: now, left_out: 0 }
    }

    /// May a line be written now? If so, how many were left out since the last one.
    fn take(&mut self, now: Instant) -> Option<u64> {
        let passed = now.saturating_duration_since(self.filled_at).as_secs_f64();
        self.lines = (self.lines + passed * PER_SECOND).min(BURST);
        self.filled_at = now;
        if self.lines < 1.0 {
            self.left_out += 1;
            return None;
        }
        self.lines -= 1.0;
        Some(std::mem::take(&mut self.left_out))
    }
}

/// Leaves out what is too much.
#[derive(Debug, Default)]
struct Bounded {
    buckets: Mutex<HashMap<Identifier, Bucket>>,
    /// As of [`Sink`].
    marks: bool,
}

impl<S: Subscriber> Layer<S> for Bounded {
    fn event_enabled(&self, event: &Event<'_>, _: Context<'_, S>) -> bool {
        let place = event.metadata();
        if *place.level() > Level::INFO {
            return true;
        }
        let now = Instant::now();
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = buckets.entry(place.callsite()).or_insert_with(|| Bucket::new(now)).take(now);
        if let Some(left_out @ 1..) = taken {
            let mark = if self.marks { mark(Level::WARN) } else { "" };
            tell_left_out(left_out, place, &mut Lines { to: std::io::stderr(), mark, keeps: true });
        }
        taken.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_line_stays_one_and_is_nothing_to_a_terminal() {
        let mut log = Lines { to: Vec::new(), mark: "", keeps: false };
        log.write_all("fault=execute a\nb\u{1b}[31m\u{9b}\r ü\n".as_bytes()).expect("room");
        assert_eq!(log.to, "fault=execute a\\nb\\u{1b}[31m\\u{9b}\\r ü\n".as_bytes());
    }

    #[test]
    fn a_line_for_the_journal_has_its_level() {
        let mut log = Lines { to: Vec::new(), mark: mark(Level::WARN), keeps: false };
        log.write_all(b"x <6>y\n").expect("room");
        assert_eq!(log.to, b"<4>x <6>y\n");
        assert_eq!([Level::ERROR, Level::INFO, Level::DEBUG, Level::TRACE].map(mark), ["<3>", "<6>", "<7>", "<7>"]);
    }

    #[test]
    fn a_flood_is_cut_to_a_line_in_a_second_and_counted() {
        let start = Instant::now();
        let mut bucket = Bucket::new(start);
        let written = (0..1000).filter(|_| bucket.take(start).is_some()).count();
        assert_eq!(written, BURST as usize);
        let later = start + Duration::from_secs(1);
        assert_eq!(bucket.take(later), Some(1000 - BURST as u64));
        assert_eq!(bucket.take(later), None);
        let much_later = start + Duration::from_secs(100_000);
        assert_eq!((0..1000).filter(|_| bucket.take(much_later).is_some()).count(), BURST as usize);
    }
}
