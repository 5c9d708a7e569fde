//! Tells whoever keeps this process that it serves, as long as it does, and forgets now and then what is not needed.

use crate::server::Server;
use kern::poll::poll_for;
use std::sync::Arc;
use std::time::Duration;
use tracing::warn;
use vocab::{Fault, Result};

/// From one time to the next.
const EVERY: Duration = Duration::from_millis(500);
/// So many times are one for forgetting.
const PURGE: u32 = 4;

/// # Errors
/// `Sys` when there is no thread to be had.
pub(crate) fn start(server: Arc<Server>, serves: impl Fn() + Send + 'static) -> Result<()> {
    let thread = std::thread::Builder::new().name("pulse".into());
    let started = thread.spawn(move || {
        crate::run_first();
        for turn in 1u32.. {
            let _ = poll_for(&[], Some(EVERY));
            server.counts.log();
            if turn % PURGE == 0 {
                server.purge();
            }
            match server.crew.is_stuck() {
                true => warn!("somebody who looks into /proc waits for too long"),
                false => serves(),
            }
        }
    });
    started.map(drop).map_err(|e| Fault::io(&e, "start a thread"))
}
