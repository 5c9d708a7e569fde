//! What a ghost's stat and status say: of what the process is here, what the ghost is; of all else, what the body is.

use crate::here::Here;
use vocab::{NodeId, Pid};

/// The fields of stat (proc_pid_stat(5)) that tell where things are in a process's memory, how it ended and where it waits, which only those may know who may
/// trace it: one text is for all who read.
const SECRET_FIELDS: [usize; 12] = [28, 29, 30, 35, 45, 46, 47, 48, 49, 50, 51, 52];
/// Likewise, and 1 of a process that has memory.
const CODE_FIELDS: [usize; 2] = [26, 27];
/// When it began.
const START: usize = 22;

/// The part behind the name, which may hold anything and ends with the last parenthesis.
fn split(stat: &[u8]) -> Option<(&[u8], Vec<&[u8]>)> {
    let close = stat.iter().rposition(|byte| *byte == b')')?;
    let rest = stat.get(close + 2..)?;
    Some((&stat[..close + 2], rest.trim_ascii_end().split(|byte| *byte == b' ').collect()))
}

/// A stat of the body's (or one of its threads') with what the ghost is, begun at `start`.
pub(crate) fn stat(body: &[u8], here: &Here, start: u64) -> Option<Vec<u8>> {
    let (head, mut fields) = split(body)?;
    let own = [
        (4, i64::from(here.ppid.0)),
        (5, here.pgid.0.into()),
        (6, here.sid.0.into()),
        (7, here.tail.terminal),
        (8, here.tail.foreground),
        (START, start as i64),
    ];
    let own = own.map(|(number, value)| (number, value.to_string()));
    // They are counted from 1, and the state is the third.
    for (number, value) in &own {
        *fields.get_mut(number - 3)? = value.as_bytes();
    }
    for number in SECRET_FIELDS {
        if let Some(field) = fields.get_mut(number - 3) {
            *field = b"0";
        }
    }
    for number in CODE_FIELDS {
        if let Some(field) = fields.get_mut(number - 3).filter(|field| **field != b"0") {
            *field = b"1";
        }
    }
    Some([head, &fields.join(&b' '), b"\n"].concat())
}

/// Of a stat or status of a body that has ended, whose ghost has not: whoever reads that it has expects that no signal changes how. With other threads left it is as it
/// says.
pub(crate) fn lives_yet(text: Vec<u8>) -> Vec<u8> {
    const THREADS: usize = 20;
    const ENDED: &[u8] = b"\nState:\tZ (zombie)\n";
    if !text.starts_with(b"Name:") {
        // Nearly all have not, and this is asked of each each time.
        let ended = text.iter().rposition(|byte| *byte == b')').is_some_and(|close| text.get(close + 2) == Some(&b'Z'));
        let Some((head, mut fields)) = split(&text).filter(|_| ended) else { return text };
        if fields.first() == Some(&&b"Z"[..]) && fields.get(THREADS - 3) == Some(&&b"1"[..]) {
            fields[0] = b"R";
            return [head, &fields.join(&b' '), b"\n"].concat();
        }
        return text;
    }
    let at = |part: &[u8]| text.windows(part.len()).position(|window| window == part);
    // Behind the name alone and the mask.
    let state = text.split(|byte| *byte == b'\n').take(3).any(|line| line.starts_with(b"State:\tZ"));
    match state.then(|| at(ENDED)).flatten().filter(|_| at(b"\nThreads:\t1\n").is_some()) {
        Some(from) => [&text[..from], b"\nState:\tR (running)\n", &text[from + ENDED.len()..]].concat(),
        None => text,
    }
}

/// When the process of this stat began.
pub(crate) fn start(stat: &[u8]) -> Option<u64> {
    std::str::from_utf8(split(stat)?.1.get(START - 3)?).ok()?.parse().ok()
}

/// The effective user and group of this status.
pub(crate) fn owner(status: &[u8]) -> Option<(u32, u32)> {
    let effective = |key: &str| {
        let line = std::str::from_utf8(status).ok()?.lines().find_map(|line| line.strip_prefix(key))?;
        line.split_ascii_whitespace().nth(1)?.parse().ok()
    };
    Some((effective("Uid:")?, effective("Gid:")?))
}

/// A status of the body's (or one of its threads') with what ghost `pid` is, and where it is. `silent`: it may be old.
pub(crate) fn status(body: &[u8], pid: Pid, here: &Here, node: NodeId, silent: bool) -> Vec<u8> {
    let mut text = Vec::with_capacity(body.len() + 32);
    let mut thread = None;
    for one in body.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let colon = one.iter().position(|byte| *byte == b':').unwrap_or(one.len());
        let (key, value) = (&one[..colon], one.get(colon + 1..).unwrap_or_default());
        let own = match key {
            b"Pid" => {
                thread = Some(value);
                None
            }
            b"Tgid" | b"NStgid" => Some(pid.0),
            b"PPid" => Some(here.ppid.0),
            b"NSpgid" => Some(here.pgid.0),
            b"NSsid" => Some(here.sid.0),
            // A group of processes on the node.
            b"Ngid" => Some(0),
            b"NSpid" => {
                text.extend([b"NSpid:", thread.unwrap_or(value), b"\n"].into_iter().flatten());
                continue;
            }
            _ => None,
        };
        match own {
            Some(own) => text.extend([key, format!(":\t{own}\n").as_bytes()].concat()),
            None => {
                text.extend_from_slice(one);
                text.push(b'\n');
            }
        }
    }
    let silent = if silent { " (silent)" } else { "" };
    text.extend(format!("BProcNode:\t{}{silent}\n", node.0).bytes());
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_owner_is_the_effective_one() {
        assert_eq!(owner(b"Name:\tx\nUid:\t1\t2\t3\t4\nGid:\t5\t6\t7\t8\n"), Some((2, 6)));
        assert_eq!(owner(b"Name:\tUid:\n"), None);
    }

    #[test]
    fn a_ghost_that_lives_has_not_ended() {
        let stat = |state: char, threads: u32| {
            format!("7 (a) Z b) {state} 1 7 7 0 -1 0 0 0 0 0 0 0 0 0 20 0 {threads} 0 99\n").into_bytes()
        };
        assert_eq!(lives_yet(stat('Z', 1)), stat('R', 1));
        for other in [stat('Z', 2), stat('S', 1)] {
            assert_eq!(lives_yet(other.clone()), other);
        }
        let status = |state: &str, threads: u32| {
            format!("Name:\ta) Z\nUmask:\t0022\nState:\t{state}\nThreads:\t{threads}\nSigQ:\t0/1\n").into_bytes()
        };
        assert_eq!(lives_yet(status("Z (zombie)", 1)), status("R (running)", 1));
        for other in [status("Z (zombie)", 3), status("S (sleeping)", 1)] {
            assert_eq!(lives_yet(other.clone()), other);
        }
    }
    use crate::here::Tail;

    fn here() -> Here {
        let tail = Tail { terminal: 34816, foreground: 77, start: 55 };
        let mut here = Here::default();
        (here.ppid, here.pgid, here.sid, here.tail) = (Pid(2), Pid(12), Pid(13), tail);
        here
    }

    #[test]
    fn a_stat_has_the_bodys_name_and_state_and_the_ghosts_kin() {
        let body = b"12 (a) R 1 (b) R 0 3 4 0 -1 4194304 1 0 0 0 7 8 0 0 20 -5 6 0 99 1000 12\n";
        let merged = stat(body, &here(), 55).expect("it is whole");
        let expected = "12 (a) R 1 (b) R 2 12 13 34816 77 4194304 1 0 0 0 7 8 0 0 20 -5 6 0 55 1000 12\n";
        assert_eq!(String::from_utf8_lossy(&merged), expected);
        assert_eq!((start(body), start(b"nothing")), (Some(99), None));
        assert_eq!(stat(b"12 (a) R 1", &here(), 55), None);
    }

    #[test]
    fn a_stat_says_nothing_of_where_its_memory_is() {
        let numbers = |all: std::ops::RangeInclusive<usize>| all.map(|n| n.to_string()).collect::<Vec<_>>().join(" ");
        let text =
            |body: String| stat(body.as_bytes(), &here(), 55).map(|text| String::from_utf8_lossy(&text).into_owned());
        let shown = text(format!("12 (a) R {}\n", numbers(4..=52))).expect("it is whole");
        let fields: Vec<&str> = shown.split_whitespace().collect();
        for number in 23..=52 {
            let expected = match number {
                26 | 27 => "1".into(),
                28..=30 | 35 | 45..=52 => "0".into(),
                _ => number.to_string(),
            };
            assert_eq!(fields[number - 1], expected, "field {number}");
        }
        let without = text(format!("12 (a) R {} 0 0 {}\n", numbers(4..=25), numbers(28..=52))).expect("it is whole");
        assert_eq!(without.split_whitespace().collect::<Vec<_>>()[25..28], ["0", "0", "0"]);
    }

    #[test]
    fn a_status_says_where() {
        let body = b"Name:\ta\nState:\tR (running)\nTgid:\t12\nNgid:\t9\nPid:\t14\nPPid:\t0\nNSpid:\t14\t3\nNSsid:\t0\nThreads:\t3\n";
        let lines = "Name:\ta\nState:\tR (running)\nTgid:\t12\nNgid:\t0\nPid:\t14\nPPid:\t2\nNSpid:\t14\nNSsid:\t13\nThreads:\t3\nBProcNode:\t2";
        for (silent, end) in [(false, "\n"), (true, " (silent)\n")] {
            let text = status(body, Pid(12), &here(), NodeId(2), silent);
            assert_eq!(String::from_utf8_lossy(&text), lines.to_owned() + end);
        }
    }
}
