//! Nodes whose clocks are those of machines that were started at other times than this one.

use crate::layout::Host;
use crate::Clocks;
use kern::timens::{self, Times};
use std::time::{SystemTime, UNIX_EPOCH};
use vocab::Result;

/// Nanoseconds.
const SECOND: i64 = 1_000_000_000;
/// A node is so much older than the one before it, and was asleep for so much longer.
const OLDER: i64 = 100_000 * SECOND + 123_456_789;
const ASLEEP: i64 = 5_000 * SECOND;

impl Clocks {
    /// The calling process, which has one thread, gets the clocks of this machine.
    ///
    /// # Errors
    /// `Sys` as unshare(2), where there are time namespaces.
    pub(crate) fn take(self, host: Host) -> Result<()> {
        let Host::Node(number) = host else { return Ok(()) };
        if self == Clocks::Same || timens::own().is_err() {
            return Ok(());
        }
        let older = OLDER * i64::from(number + 1);
        let more = Times { monotonic: older, boottime: older + ASLEEP * i64::from(number) };
        timens::enter_new(timens::own_offsets()? + more)
    }

    /// What its daemon takes for the machine's run (`SHOAL_BOOT`), if not what the kernel says.
    pub(crate) fn boot(self, host: Host) -> Option<String> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        (self == Clocks::Foreign).then(|| format!("{}-{now}", host.name()))
    }
}
