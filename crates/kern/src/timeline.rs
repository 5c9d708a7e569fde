//! Where the time of something short goes that several processes of a machine do together.
//!
//! `SHOAL_TIMELINE` in the environment with which a daemon was started names a file. Whoever passes a mark appends a line to it: nanoseconds of
//! CLOCK_REALTIME, the one clock that shows the same in all time namespaces of a machine, its PID, and the mark's name. Without the variable a mark costs one load.

use std::fs::File;
use std::io::Write;
use std::sync::OnceLock;

/// The calling process is here now.
pub fn mark(what: &str) {
    static FILE: OnceLock<Option<File>> = OnceLock::new();
    let open = || {
        let path = std::env::var_os("SHOAL_TIMELINE")?;
        std::fs::OpenOptions::new().append(true).create(true).open(path).ok()
    };
    if let Some(mut file) = FILE.get_or_init(open).as_ref() {
        let line = format!("{} {} {what}\n", crate::clock::realtime_ns(), std::process::id());
        // One that is lost is missing in a table for people.
        let _ = file.write_all(line.as_bytes());
    }
}
