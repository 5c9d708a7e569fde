//! What leads out of the process by its standard streams: a terminal, a pipe or a socket that others have.

use super::{All, Seen, Verdict};
use image::files::Kind;
use kern::others;
use std::cmp::Ordering;
use vocab::Result;

/// Descriptors 0, 1 and 2, and duplicates of them.
pub(super) fn look(seen: &Seen, all: &All) -> Result<Verdict> {
    if !leads_out(seen) && !all.streams {
        return Ok(Verdict::Other);
    }
    let stream = all.seen.iter().filter(|other| (0..3).contains(&other.number)).find(|other| {
        let same = || others::compare_files((seen.pid, other.number), (seen.pid, seen.number));
        other.number == seen.number || (other.link == seen.link && same() == Ok(Ordering::Equal))
    });
    Ok(match stream {
        Some(stream) => Verdict::Carried(Kind::Standard { stream: stream.number as u8 }),
        None if !leads_out(seen) => Verdict::Other,
        None => Verdict::Refused(seen.obstacle("leads to other processes")),
    })
}

fn leads_out(seen: &Seen) -> bool {
    let begins = |with: &[u8]| seen.link.starts_with(with);
    begins(b"pipe:[") || begins(b"socket:[") || begins(b"/dev/pts/") || begins(b"/dev/tty") || begins(b"/dev/console")
}
