//! Processes as /proc shows them to whoever looks.

use std::collections::BTreeMap;
use std::fs;

/// One line of the process list.
#[derive(Clone, Debug)]
pub(crate) struct Proc {
    pub(crate) pid: i32,
    pub(crate) ppid: i32,
    pub(crate) comm: String,
    pub(crate) state: char,
}

/// One process; `None` when it is not there.
pub(crate) fn one(pid: i32) -> Option<Proc> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let stat = String::from_utf8_lossy(&stat);
    let (open, close) = (stat.find('(')?, stat.rfind(')')?);
    let mut rest = stat.get(close + 2..)?.split(' ');
    let state = rest.next()?.chars().next()?;
    Some(Proc { pid, ppid: rest.next()?.parse().ok()?, comm: stat.get(open + 1..close)?.into(), state })
}

/// All processes of this PID namespace.
pub(crate) fn all() -> BTreeMap<i32, Proc> {
    let Ok(list) = fs::read_dir("/proc") else { return BTreeMap::new() };
    list.flatten()
        .filter_map(|e| e.file_name().to_str()?.parse().ok())
        .filter_map(|pid| Some((pid, one(pid)?)))
        .collect()
}

/// The descendants of `root`, without itself, parents first.
pub(crate) fn below(root: i32) -> Vec<Proc> {
    let all = all();
    let mut found: Vec<Proc> = Vec::new();
    let mut parents = vec![root];
    while let Some(parent) = parents.pop() {
        for proc in all.values().filter(|p| p.ppid == parent && p.pid != root) {
            found.push(proc.clone());
            parents.push(proc.pid);
        }
    }
    found
}

/// The arguments, joined by blanks; the name in brackets when there are none.
pub(crate) fn command_line(proc: &Proc) -> String {
    let bytes = fs::read(format!("/proc/{}/cmdline", proc.pid)).unwrap_or_default();
    let words: Vec<String> =
        bytes.split(|b| *b == 0).filter(|w| !w.is_empty()).map(|w| String::from_utf8_lossy(w).into_owned()).collect();
    if words.is_empty() {
        return format!("[{}]", proc.comm);
    }
    words.join(" ")
}
