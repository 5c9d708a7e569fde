//! Named points between the steps of what must survive being torn apart, at which a test stops a daemon to break it, or somebody else.
//!
//! `SHOAL_FAULTS` in the environment with which a daemon was started names a unix stream socket. Whoever reaches a point connects to it, writes the
//! point's name and a newline, and waits until the connection is closed; SO_PEERCRED (unix(7)) tells the other side who it is. A
//! daemon's environment is its starter's to set, and no message has it. Without the variable a point costs one load.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::OnceLock;

/// The calling process is at this point.
pub fn reach(point: &str) {
    crate::timeline::mark(point);
    static SOCKET: OnceLock<Option<OsString>> = OnceLock::new();
    if let Some(path) = SOCKET.get_or_init(|| std::env::var_os("SHOAL_FAULTS")) {
        // Nobody listens, or is gone: then nothing is broken here.
        let _ = UnixStream::connect(path).and_then(|mut listener| {
            writeln!(listener, "{point}")?;
            listener.read(&mut [0])
        });
    }
}
