//! One line on a terminal that says how far a move is, for those that take longer than a second.

use super::explain::bytes;
use std::io::{stderr, IsTerminal, Write};
use std::time::{Duration, Instant};
use vocab::Pid;
use wire::look::Progress;

/// What takes less long is not told.
const SHORT: Duration = Duration::from_secs(1);
/// To the beginning of the line, and what is there away (ECMA-48).
const CLEAR: &str = "\r\x1b[K";

pub(super) struct Line {
    pid: Pid,
    seen: bool,
    begun: Instant,
    shown: bool,
    /// What was heard before, and when.
    last: Option<(u64, Instant)>,
}

impl Line {
    pub(super) fn new(pid: Pid) -> Line {
        Line { pid, seen: stderr().is_terminal(), begun: Instant::now(), shown: false, last: None }
    }

    /// Does anybody see it?
    pub(super) fn is_seen(&self) -> bool {
        self.seen
    }

    pub(super) fn show(&mut self, progress: Progress) {
        let now = Instant::now();
        let rate = self.last.and_then(|(before, when)| {
            let seconds = now.duration_since(when).as_secs_f64();
            (seconds > 0.0).then(|| (progress.sent.saturating_sub(before) as f64 / seconds) as u64)
        });
        self.last = Some((progress.sent, now));
        if now.duration_since(self.begun) >= SHORT {
            self.shown = true;
            // Nobody is there any more.
            let _ = write!(stderr(), "{CLEAR}{}: {}", self.pid, text(progress, rate));
        }
    }

    pub(super) fn clear(&mut self) {
        if std::mem::take(&mut self.shown) {
            let _ = write!(stderr(), "{CLEAR}");
        }
    }
}

/// `rate`: bytes per second.
fn text(progress: Progress, rate: Option<u64>) -> String {
    let of = match progress.of {
        0 => String::new(),
        of => format!(" of {}", bytes(of)),
    };
    let rate = rate.map_or(String::new(), |rate| format!(", {}/s", bytes(rate)));
    let round = match progress.round {
        0 => ", stands still".to_string(),
        round => format!(", round {round}"),
    };
    format!("{} sent{of}{rate}{round}", bytes(progress.sent))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_rate_and_round_are_told() {
        let progress = Progress { sent: 3 << 20, of: 1 << 30, round: 2 };
        assert_eq!(text(progress, Some(1 << 20)), "3.0 MiB sent of 1.0 GiB, 1.0 MiB/s, round 2");
        assert_eq!(text(Progress { of: 0, round: 0, ..progress }, None), "3.0 MiB sent, stands still");
    }
}
