//! Wake-ups when something about nodes changes, by a thread that listens to the daemon.

use kern::epoll::Waker;
use kern::poll::poll;
use local::Local;
use std::path::Path;
use std::sync::Arc;
use vocab::{Fault, Result};
use wire::feed::Happening;

/// A daemon that does not tell is asked again after so many milliseconds.
const AGAIN_MS: i32 = 300;

/// Starts the thread; it ends with the process.
///
/// # Errors
/// `Sys` where no thread is to be had.
pub(crate) fn listen(socket: &Path) -> Result<Arc<Waker>> {
    let waker = Arc::new(Waker::new()?);
    let (wakes, socket) = (waker.clone(), socket.to_path_buf());
    let thread = std::thread::Builder::new().name("shoal:news".into()).spawn(move || hear(&wakes, &socket));
    thread.map_err(|e| Fault::io(&e, "start a thread that hears of nodes"))?;
    Ok(waker)
}

fn hear(waker: &Waker, socket: &Path) {
    loop {
        if let Ok(mut feed) = Local::connect(socket).and_then(Local::feed) {
            // Nobody knows what was missed before.
            waker.wake();
            while let Ok(happening) = feed.hear() {
                if matches!(happening, Happening::Node { .. } | Happening::Changed { .. }) {
                    waker.wake();
                }
            }
        }
        // Interrupted, it asks earlier.
        let _ = poll(&[], AGAIN_MS);
    }
}
