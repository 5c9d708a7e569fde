//! The daemons' log: to standard error, where systemd takes it, and bounded for each place of the program that writes to it, since some
//! lines are about what any user or stranger can do again and again.

use std::collections::HashMap;
use std::io::Write;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;
use tracing::callsite::Identifier;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::EnvFilter;

/// So many lines of one place are written at once, and then one in a second: some megabytes a day.
const BURST: f64 = 200.0;
const PER_SECOND: f64 = 1.0;

/// `SHOAL_LOG` is a filter as in `debug` or `link=trace`. Only lines that are shown by default are bounded.
pub(crate) fn to_stderr() {
    let filter =
        EnvFilter::builder().with_env_var("SHOAL_LOG").with_default_directive(Level::INFO.into()).from_env_lossy();
    // A line that cannot be written, as on a full disk, is lost: to say so on standard error as well would panic, and end the daemon.
    let lines =
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(|| Lines(std::io::stderr())).with_ansi(false);
    lines.log_internal_errors(false).finish().with(Bounded::default()).init();
}

/// Each write is a line of the log. Names in it are users': they make no further line, and nothing of a terminal that shows the log.
struct Lines<W>(W);

impl<W: Write> Write for Lines<W> {
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        let text = String::from_utf8_lossy(line);
        let text = kern::own::plain(text.strip_suffix('\n').unwrap_or(&text)) + "\n";
        self.0.write_all(text.as_bytes()).map(|()| line.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
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
struct Bounded(Mutex<HashMap<Identifier, Bucket>>);

impl<S: Subscriber> Layer<S> for Bounded {
    fn event_enabled(&self, event: &Event<'_>, _: Context<'_, S>) -> bool {
        let place = event.metadata();
        if *place.level() > Level::INFO {
            return true;
        }
        let now = Instant::now();
        let mut buckets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = buckets.entry(place.callsite()).or_insert_with(|| Bucket::new(now)).take(now);
        if let Some(left_out @ 1..) = taken {
            // Not as an event: this is in the midst of one. If it cannot be written, it is lost as others are.
            let _ = writeln!(std::io::stderr(), "(before the next line, {left_out} like it were left out)");
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
        let mut log = Lines(Vec::new());
        log.write_all("fault=execute a\nb\u{1b}[31m\u{9b}\r ü\n".as_bytes()).expect("room");
        assert_eq!(log.0, "fault=execute a\\nb\\u{1b}[31m\\u{9b}\\r ü\n".as_bytes());
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
