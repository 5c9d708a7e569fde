//! Room for more processes than machines allow at first: their numbers are limited, on this machine for those of all namespaces together.

use std::path::Path;
use vocab::{Fault, Result};

const MOST: &str = "/proc/sys/kernel/pid_max";
/// Beside those that are counted: daemons, lookers, whatever else runs here.
const OTHERS: usize = 8192;

/// As long as this is there. Dropped, the limit is as it was.
#[must_use = "dropped, it is as before"]
pub(crate) struct Numbers {
    before: Option<String>,
}

impl Numbers {
    /// Room for so many processes at once.
    ///
    /// # Errors
    /// `Sys` when the limit cannot be read, or is to be raised and cannot be (root alone may do that).
    pub(crate) fn room(processes: usize) -> Result<Numbers> {
        let failed = |e: std::io::Error| Fault::io(&e, format!("make room for {processes} processes in {MOST}"));
        let before = std::fs::read_to_string(MOST).map_err(failed)?.trim().to_owned();
        let needed = processes + OTHERS;
        if before.parse::<usize>().is_ok_and(|most| most >= needed) {
            return Ok(Numbers { before: None });
        }
        std::fs::write(Path::new(MOST), needed.to_string()).map_err(failed)?;
        Ok(Numbers { before: Some(before) })
    }
}

impl Drop for Numbers {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            // Nothing can be done about it here, and more room is in nobody's way.
            let _ = std::fs::write(MOST, before);
        }
    }
}
