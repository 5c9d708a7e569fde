//! Threads of the process.

use vocab::{Fault, Result};

/// # Errors
/// `Sys`: there can be no more.
pub(super) fn start(name: &str, run: impl FnOnce() + Send + 'static) -> Result<()> {
    let thread = std::thread::Builder::new().name(name.into()).spawn(run);
    thread.map(drop).map_err(|e| Fault::io(&e, format!("start the thread {name}")))
}
