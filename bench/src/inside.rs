//! What runs on the front end of a sandbox, where `shoal run` is to be had.

use crate::table::median;
use std::process::{Command, Stdio};
use std::time::Instant;
use vocab::{Fault, Result};

/// Prints the median of `count` times `shoal run -n 0 true`, in nanoseconds.
pub(crate) fn run_many_times(count: usize) -> Result<bool> {
    let mut took = Vec::new();
    for round in 0..count + 5 {
        let start = Instant::now();
        let status = Command::new("shoal")
            .args(["run", "-n", "0", "true"])
            .stdin(Stdio::null())
            .status()
            .map_err(|e| Fault::io(&e, "run shoal"))?;
        if !status.success() {
            return Err(Fault::refused(format!("shoal run: {status}")));
        }
        if round >= 5 {
            took.push(start.elapsed().as_nanos() as f64);
        }
    }
    println!("{:.0}", median(took));
    Ok(true)
}
