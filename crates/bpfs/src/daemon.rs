//! Questions to the daemon about nodes, one for each look; of looks without end only so many a second become questions.

use client::Local;
use kern::clock::monotonic_us;
use std::path::{Path, PathBuf};
use std::time::Duration;
use vocab::errno::{EAGAIN, EIO};
use vocab::{Fault, Result};
use wire::ask::{Answer, Ask};
use wire::nodes::NodeInfo;

/// The daemon has so long for an answer.
const PATIENCE: Duration = Duration::from_secs(3);
/// So many questions are asked one after the other, and then one in so many microseconds: what was said before counts meanwhile.
const MOST: u64 = 256;
const EACH_US: u64 = 10_000;

/// The connection, and what was said last.
#[derive(Debug)]
pub(crate) struct Daemon {
    socket: PathBuf,
    connection: Option<Local>,
    last: Vec<NodeInfo>,
    budget: Budget,
}

/// How many questions may be asked.
#[derive(Debug)]
struct Budget {
    left: u64,
    /// Counted up to here (monotonic).
    at_us: u64,
}

impl Budget {
    fn takes(&mut self, now_us: u64) -> bool {
        let more = now_us.saturating_sub(self.at_us) / EACH_US;
        self.left = (self.left + more).min(MOST);
        self.at_us += more * EACH_US;
        let takes = self.left > 0;
        self.left -= u64::from(takes);
        takes
    }
}

impl Daemon {
    pub(crate) fn new(socket: PathBuf) -> Daemon {
        let budget = Budget { left: MOST, at_us: monotonic_us() };
        Daemon { socket, connection: None, last: Vec::new(), budget }
    }

    /// All nodes, and the front end.
    ///
    /// # Errors
    /// EIO where the daemon does not say.
    pub(crate) fn infos(&mut self) -> std::result::Result<&[NodeInfo], i32> {
        if self.last.is_empty() || self.budget.takes(monotonic_us()) {
            // A daemon that was started again has closed the connection; one that does not answer (EAGAIN) will not do so the second time.
            let known = self.connection.is_some();
            let again = |fault: &Fault| known && fault.root_errno() != EAGAIN;
            let asked = self.ask().or_else(|fault| if again(&fault) { self.ask() } else { Err(fault) });
            self.last = asked.map_err(|fault| {
                tracing::debug!(%fault, "node files");
                self.last = Vec::new();
                EIO
            })?;
        }
        Ok(&self.last)
    }

    /// Drop the last answer: a node has changed since.
    pub(crate) fn outdate(&mut self) {
        self.last = Vec::new();
    }

    fn ask(&mut self) -> Result<Vec<NodeInfo>> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => connect(&self.socket)?,
        };
        let infos = infos(&mut connection)?;
        self.connection = Some(connection);
        Ok(infos)
    }
}

/// # Errors
/// As [`Local::connect`].
pub(crate) fn connect(socket: &Path) -> Result<Local> {
    Local::connect_within(socket, PATIENCE)
}

fn infos(daemon: &mut Local) -> Result<Vec<NodeInfo>> {
    match daemon.ask(&Ask::NodeInfos)? {
        Answer::NodeInfos(infos) => Ok(infos),
        other => Err(Fault::wire(format!("the daemon answered NodeInfos with {other:?}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_without_end_become_so_many_questions_a_second() {
        let mut budget = Budget { left: MOST, at_us: 0 };
        assert_eq!((0..2 * MOST).filter(|_| budget.takes(0)).count() as u64, MOST);
        let taken = (0..1_000_000).step_by(100).filter(|now_us| budget.takes(*now_us)).count() as u64;
        assert!((98..=100).contains(&taken), "{taken}");
        assert_eq!((0..2 * MOST).filter(|_| budget.takes(1 << 40)).count() as u64, MOST);
    }
}
