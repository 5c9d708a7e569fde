//! epoll(7): what it looks at is added where the descriptors have their numbers.

use super::{All, Seen, Verdict};
use image::files::{Kind, Watch};
use kern::others;
use puppet::Script;
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use vocab::{Fault, Result};

pub(super) fn look(seen: &Seen, all: &All) -> Result<Verdict> {
    if seen.link != b"anon_inode:[eventpoll]" {
        return Ok(Verdict::Other);
    }
    let mut watches = Vec::new();
    // Of each descriptor.
    let mut counts: BTreeMap<i32, u32> = BTreeMap::new();
    for line in seen.info.lines().filter(|line| line.starts_with("tfd:")) {
        let watch = watch(line).ok_or_else(|| seen.strange("tfd"))?;
        // It keeps looking at a file whose descriptor was closed while a duplicate is open (epoll(7), Q6).
        if all.seen.binary_search_by_key(&watch.descriptor, |other| other.number).is_err() {
            let why = format!("looks at descriptor {}, which has been closed", watch.descriptor);
            return Ok(Verdict::Refused(seen.obstacle(&why)));
        }
        let count = counts.entry(watch.descriptor).or_default();
        let nth = *count;
        *count += 1;
        // What it does not look at any more is asked again when the process stands still.
        if others::epoll_looks_at_descriptor(seen.pid, seen.number, watch.descriptor, nth) == Ok(false) {
            let why = format!("looks at a file that was descriptor {}, which is another by now", watch.descriptor);
            return Ok(Verdict::Refused(seen.obstacle(&why)));
        }
        watches.push(watch);
    }
    Ok(Verdict::Carried(Kind::Epoll { watches }))
}

/// `tfd:        5 events:       1d data: ffffffffffffffff  pos:0 ino:61af sdev:7`
fn watch(line: &str) -> Option<Watch> {
    let mut words = line.split_whitespace();
    let mut value = |name: &str| (words.next()? == name).then(|| words.next()).flatten();
    let descriptor = value("tfd:")?.parse().ok()?;
    let events = u32::from_str_radix(value("events:")?, 16).ok()?;
    let data = u64::from_str_radix(value("data:")?, 16).ok()?;
    Some(Watch { descriptor, events, data })
}

pub(super) fn reopen() -> Result<OwnedFd> {
    rustix::event::epoll::create(rustix::event::epoll::CreateFlags::CLOEXEC)
        .map_err(|e| Fault::sys(e.raw_os_error(), "make an epoll instance"))
}

/// Flags that are none of the events (linux: `EP_PRIVATE_BITS`).
const HOW: u32 = (libc::EPOLLWAKEUP | libc::EPOLLONESHOT | libc::EPOLLET | libc::EPOLLEXCLUSIVE) as u32;

/// It was for one event, and has had that.
fn is_over(watch: &Watch) -> bool {
    watch.events & libc::EPOLLONESHOT as u32 != 0 && watch.events & !HOW == 0
}

pub(super) fn set(script: &mut Script, number: i32, watches: &[Watch]) {
    let (over, others): (Vec<&Watch>, Vec<&Watch>) = watches.iter().partition(|watch| is_over(watch));
    let event = script.room(EVENT);
    for watch in over {
        add(script, number, watch);
        // Whoever adds one asks for errors and the end too: if there is that already it is had here.
        script.call("take an event of epoll", libc::SYS_epoll_wait, &[number as u64, event, 1, 0]);
    }
    for watch in others {
        add(script, number, watch);
    }
}

/// Bytes of a struct epoll_event.
const EVENT: usize = 12;

fn add(script: &mut Script, number: i32, watch: &Watch) {
    // It is packed on x86-64.
    let event: Vec<u8> = watch.events.to_ne_bytes().into_iter().chain(watch.data.to_ne_bytes()).collect();
    let at = script.bytes(&event);
    let args = [number as u64, libc::EPOLL_CTL_ADD as u64, watch.descriptor as u64, at];
    script.call(format!("have epoll look at descriptor {}", watch.descriptor), libc::SYS_epoll_ctl, &args);
}
