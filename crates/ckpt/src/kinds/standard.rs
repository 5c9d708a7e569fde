//! What leads out of the process by its standard streams: a terminal, a pipe or a socket that others have.

use super::{socket, unix, All, Leads, Seen, Verdict};
use image::files::Kind;
use kern::others;
use puppet::Script;
use std::cmp::Ordering;
use vocab::Result;

/// Descriptors 0, 1 and 2, and duplicates of them.
pub(super) fn look(seen: &Seen, all: &All) -> Result<Verdict> {
    if !leads_out(seen) && !all.leads.streams {
        return Ok(Verdict::Other);
    }
    let is_same = |other: &&Seen| {
        let same = || others::compare_files((seen.pid, other.number), (seen.pid, seen.number));
        other.number == seen.number || (other.link == seen.link && same() == Ok(Ordering::Equal))
    };
    if let Some(stream) = relayed_as(seen, all.leads)? {
        let mut others = all.seen.iter().filter(|other| other.link == seen.link);
        // Of one that it has opened again (/dev/stderr) the flags are others.
        if others.all(|other| is_same(&other)) {
            return Ok(Verdict::Carried(Kind::Standard { stream }));
        }
    }
    // What is read and written alike (a terminal) is relayed each way by itself.
    let numbers = if all.leads.streams && seen.number != 0 { [1, 2, 0] } else { [0, 1, 2] };
    let streams = numbers.into_iter().filter_map(|number| all.seen.iter().find(|other| other.number == number));
    let stream = streams.into_iter().find(is_same);
    Ok(match stream {
        Some(stream) => Verdict::Carried(Kind::Standard { stream: stream.number as u8 }),
        None if !leads_out(seen) => Verdict::Other,
        None => Verdict::Refused(seen.obstacle(&why(seen)?)),
    })
}

/// Why it is not carried.
fn why(seen: &Seen) -> Result<String> {
    match () {
        () if unix::is_untold(seen)? => {
            Ok("is a unix socket, of which this kernel tells nothing (its module unix_diag is not there)".into())
        }
        () if seen.link.starts_with(b"socket:[") => socket::why(seen),
        () if seen.link.starts_with(b"pipe:[") => Ok("leads to other processes".into()),
        () => Ok("is a terminal, and none of its standard streams".into()),
    }
}

/// Is the pipe of which these are the open ends one of the relayed streams, and used as that only?
pub(super) fn is_relayed(ends: &[&Seen], leads: Leads) -> bool {
    ends.iter().all(|end| matches!(relayed_as(end, leads), Ok(Some(_))))
}

/// The stream that this pipe is, and is used as. By 1>&2 it has the number of another one too, or only that.
fn relayed_as(seen: &Seen, leads: Leads) -> Result<Option<u8>> {
    let is_pipe = |inode: &u64| seen.link == format!("pipe:[{inode}]").as_bytes();
    let Some(stream) = leads.relayed.and_then(|pipes| pipes.iter().position(is_pipe)) else { return Ok(None) };
    let used = if stream == 0 { libc::O_RDONLY } else { libc::O_WRONLY };
    Ok((seen.flags()? & libc::O_ACCMODE as u32 == used as u32).then_some(stream as u8))
}

/// Descriptor `number` waits for nothing if it did not where it was (`flags`).
pub(super) fn set(script: &mut Script, number: i32, flags: u32) {
    let flag = flags as u64 & libc::O_NONBLOCK as u64;
    if flag != 0 {
        let args = [number as u64, libc::F_SETFL as u64, flag];
        script.call(format!("have descriptor {number} not wait"), libc::SYS_fcntl, &args);
    }
}

fn leads_out(seen: &Seen) -> bool {
    let begins = |with: &[u8]| seen.link.starts_with(with);
    begins(b"pipe:[") || begins(b"socket:[") || begins(b"/dev/pts/") || begins(b"/dev/tty") || begins(b"/dev/console")
}
