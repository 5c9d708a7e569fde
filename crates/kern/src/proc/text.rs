//! The texts of /proc as values; `None` for what no kernel writes.

use super::{Brief, Name, Stat, Status};
use crate::own::Limit;
use vocab::{Ids, Pid, SigSet};

pub(super) fn number<T: std::str::FromStr>(word: &[u8]) -> Option<T> {
    let digits = word.split(|b| b.is_ascii_whitespace()).find(|w| !w.is_empty())?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// The rest of the line that begins with `key`.
pub(super) fn field<'t>(text: &'t [u8], key: &[u8]) -> Option<&'t [u8]> {
    text.split(|b| *b == b'\n').find_map(|line| line.strip_prefix(key))
}

pub(super) fn stat(text: &[u8]) -> Option<Stat> {
    // The name may hold anything, also `) `: it ends at the last parenthesis.
    let open = text.iter().position(|b| *b == b'(')?;
    let close = text.iter().rposition(|b| *b == b')')?;
    let mut words = [&[][..]; 50];
    for (slot, word) in words.iter_mut().zip(text.get(close + 2..)?.split(|b| *b == b' ')) {
        *slot = word;
    }
    let get = |n: usize| words[n - 3]; // proc(5) counts from 1, and the state is field 3
    Some(Stat {
        pid: Pid(number(&text[..open])?),
        name: Name::new(text.get(open + 1..close)?),
        state: *get(3).first()?,
        ppid: Pid(number(get(4))?),
        pgid: Pid(number(get(5))?),
        sid: Pid(number(get(6))?),
        flags: number(get(9))?,
        user_ticks: number(get(14))?,
        system_ticks: number(get(15))?,
        nice: number(get(19))?,
        threads: number(get(20))?,
        start: number(get(22))?,
        rss_pages: number(get(24))?,
        exit_signal: number(get(38))?,
        exit_status: number(get(52))?,
    })
}

pub(super) fn status(text: &[u8]) -> Option<Status> {
    let mut status = Status::default();
    for line in text.split(|b| *b == b'\n') {
        let Some(colon) = line.iter().position(|b| *b == b':') else { continue };
        let value = &line[colon + 1..];
        match &line[..colon] {
            b"Name" => status.name = name(value),
            b"State" => status.state = *words(value).next()?.first()?,
            b"NSpgid" => status.pgid = Pid(number(value)?),
            b"NSsid" => status.sid = Pid(number(value)?),
            b"VmRSS" => status.rss_kb = number(value)?,
            b"VmSize" => status.memory = true,
            b"Tgid" => status.tgid = Pid(number(value)?),
            b"PPid" => status.ppid = Pid(number(value)?),
            b"Umask" => status.umask = u32::from_str_radix(std::str::from_utf8(value).ok()?.trim(), 8).ok()?,
            b"Uid" => status.creds.uid = ids(value)?,
            b"Gid" => status.creds.gid = ids(value)?,
            b"Groups" => status.creds.groups = words(value).map(number).collect::<Option<_>>()?,
            b"CapInh" => status.capabilities.inheritable = hexadecimal(value)?,
            b"CapPrm" => status.permitted = hexadecimal(value)?,
            b"CapBnd" => status.capabilities.bounding = hexadecimal(value)?,
            b"NoNewPrivs" => status.capabilities.no_new_privs = number::<u32>(value)? != 0,
            b"Threads" => status.threads = number(value)?,
            b"SigPnd" => status.pending = set(value)?,
            b"ShdPnd" => status.shared_pending = set(value)?,
            b"SigBlk" => status.blocked = set(value)?,
            b"SigIgn" => status.ignored = set(value)?,
            b"SigCgt" => status.caught = set(value)?,
            _ => {}
        }
    }
    Some(status)
}

/// `None` also where the text is cut off before the last line that is wanted.
pub(super) fn brief(text: &[u8]) -> Option<Brief> {
    let (mut called, mut state, mut ppid, mut uid, mut rss_kb) = (None, None, None, None, None);
    for line in text.split_inclusive(|b| *b == b'\n') {
        let (key, value) = line.split_at(line.iter().position(|b| *b == b':')?);
        let value = &value[1..];
        match key {
            b"Name" => called = Some(name(value.strip_suffix(b"\n")?)),
            b"State" => state = Some(*words(value).next()?.first()?),
            b"PPid" => ppid = Some(Pid(number(value)?)),
            b"Uid" => uid = Some(ids(value)?.effective),
            b"VmRSS" => rss_kb = Some(number(value)?),
            // Behind it; who has no memory has not that line.
            b"Threads" => {
                let (name, state, ppid, uid) = (called?, state?, ppid?, uid?);
                return Some(Brief { name, state, ppid, uid, rss_kb: rss_kb.unwrap_or(0) });
            }
            _ => {}
        }
    }
    None
}

/// A line for each resource, in the order of their numbers, behind a heading (linux: `proc_pid_limits`).
pub(super) fn limits(text: &[u8]) -> Option<Vec<Limit>> {
    const NAME: usize = 26;
    let value = |word: &[u8]| if word == b"unlimited" { Some(u64::MAX) } else { number(word) };
    let limit = |(resource, line): (usize, &[u8])| {
        let mut values = words(line.get(NAME..)?).map(value);
        Some((resource as u32, values.next()??, values.next()??))
    };
    let lines = text.split(|b| *b == b'\n').skip(1).filter(|line| !line.is_empty());
    lines.enumerate().map(limit).collect()
}

/// The name with its escapes undone (linux: `proc_task_name`).
fn name(value: &[u8]) -> Name {
    let value = value.strip_prefix(b"\t").unwrap_or(value);
    let mut bytes = value.iter();
    let mut text = Vec::new();
    while let Some(byte) = bytes.next() {
        text.push(match byte {
            b'\\' => bytes.next().map_or(b'\\', |escaped| if *escaped == b'n' { b'\n' } else { *escaped }),
            byte => *byte,
        });
    }
    Name::new(&text)
}

fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|b| b.is_ascii_whitespace()).filter(|w| !w.is_empty())
}

fn ids(value: &[u8]) -> Option<Ids> {
    let mut words = words(value).map(number);
    let mut next = || words.next().flatten();
    Some(Ids { real: next()?, effective: next()?, saved: next()?, fs: next()? })
}

fn hexadecimal(value: &[u8]) -> Option<u64> {
    u64::from_str_radix(std::str::from_utf8(value).ok()?.trim(), 16).ok()
}

fn set(value: &[u8]) -> Option<SigSet> {
    hexadecimal(value).map(SigSet)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_look_like_the_rest_of_the_line() {
        let rest = "S 2 3 4 0 -1 4194304 1 0 0 0 7 8 0 0 20 -5 6 0 99 1000 12 18446744073709551615 1 1 0 0 0 0 0 0 0 0 0 0 17 1 0 0 0 0 0 0 0 0 0 0 0 0 768\n";
        let stat = super::stat(format!("12 (a) R 1 (b) {rest}").as_bytes()).expect("as the kernel writes it");
        assert_eq!(stat.name.as_bytes(), b"a) R 1 (b");
        assert_eq!((stat.pid, stat.ppid, stat.pgid, stat.sid), (Pid(12), Pid(2), Pid(3), Pid(4)));
        assert_eq!((stat.user_ticks, stat.system_ticks, stat.nice, stat.threads), (7, 8, -5, 6));
        assert_eq!((stat.start, stat.rss_pages, stat.exit_signal, stat.exit_status), (99, 12, 17, 768));
    }

    #[test]
    fn garbage_is_no_stat_and_no_panic() {
        for bad in ["", ")", "(", ")(", "1 (a)", "1 (a) ", "x (a) S 1"] {
            assert_eq!(stat(bad.as_bytes()), None, "{bad:?}");
            assert_eq!(limits(format!("Limit\nMax cpu time              {bad}").as_bytes()), None, "{bad:?}");
        }
    }

    #[test]
    fn a_part_of_a_status_is_what_the_whole_says() {
        let own = std::fs::read("/proc/self/status").expect("proc is mounted");
        let (whole, part) = (status(&own).expect("a status"), brief(&own).expect("a status"));
        assert_eq!((part.name, part.state, part.ppid), (whole.name, whole.state, whole.ppid));
        assert_eq!((part.uid, part.rss_kb), (whole.creds.uid.effective, whole.rss_kb));
        assert!(part.rss_kb > 0);
        assert_eq!(brief(&own[..200]), None, "cut off");
        let zombie = b"Name:\ta\nState:\tZ (zombie)\nPPid:\t7\nUid:\t0\t1\t0\t0\nThreads:\t1\n";
        assert_eq!(brief(zombie).map(|one| (one.state, one.uid, one.rss_kb)), Some((b'Z', 1, 0)));
    }

    #[test]
    fn names_are_told_with_escapes() {
        let name = |line: &str| status(format!("Name:\t{line}\nState:\tS (sleeping)\n").as_bytes()).map(|s| s.name);
        for (line, meant) in [("a b", "a b"), (r"a\\nb\nc", "a\\nb\nc"), (r"a\", "a\\"), ("", "")] {
            assert_eq!(name(line), Some(Name::new(meant.as_bytes())), "{line:?}");
        }
    }
}
