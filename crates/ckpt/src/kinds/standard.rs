//! What leads out of the process by its standard streams: a terminal, a pipe or a socket that others have.

use super::{unix, All, Seen, Verdict};
use image::files::Kind;
use kern::others;
use std::cmp::Ordering;
use vocab::Result;

/// Descriptors 0, 1 and 2, and duplicates of them.
pub(super) fn look(seen: &Seen, all: &All) -> Result<Verdict> {
    if !leads_out(seen) && !all.streams {
        return Ok(Verdict::Other);
    }
    let is_same = |other: &&Seen| {
        let same = || others::compare_files((seen.pid, other.number), (seen.pid, seen.number));
        other.number == seen.number || (other.link == seen.link && same() == Ok(Ordering::Equal))
    };
    // What is read and written alike (a terminal) is relayed each way by itself.
    let numbers = if all.streams && seen.number != 0 { [1, 2, 0] } else { [0, 1, 2] };
    let streams = numbers.into_iter().filter_map(|number| all.seen.iter().find(|other| other.number == number));
    let stream = streams.into_iter().find(is_same);
    Ok(match stream {
        Some(stream) => Verdict::Carried(Kind::Standard { stream: stream.number as u8 }),
        None if !leads_out(seen) => Verdict::Other,
        None => Verdict::Refused(seen.obstacle(match unix::is_untold(seen)? {
            true => "is a unix socket, of which this kernel tells nothing (its module unix_diag is not there)",
            false => "leads to other processes",
        })),
    })
}

fn leads_out(seen: &Seen) -> bool {
    let begins = |with: &[u8]| seen.link.starts_with(with);
    begins(b"pipe:[") || begins(b"socket:[") || begins(b"/dev/pts/") || begins(b"/dev/tty") || begins(b"/dev/console")
}
