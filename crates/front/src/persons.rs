//! Processes of the front end as /proc has them, and the same nouns in the words of `space` and of `wire`.

use kern::proc::{Proc, Status};
use space::Person;
use vocab::{Fault, Pid, Result};
use wire::event as w;
use wire::node as n;

/// A process of this machine.
///
/// # Errors
/// `Gone` when there is none.
pub(crate) fn read(proc: &Proc, pid: Pid) -> Result<Person> {
    let gone = |errno| Fault { errno, ..Fault::gone(format!("look at process {pid}")) };
    let Status { ppid, pgid, sid, creds, name, .. } = proc.status(pid).map_err(gone)?;
    Ok(Person { pid, ppid, pgid, sid, creds, name: name.as_bytes().to_vec() })
}

/// The same, `None` for one that has ended and for a thread that is no process.
pub(crate) fn process(proc: &Proc, pid: Pid) -> Option<Person> {
    let lives = proc.status(pid).is_ok_and(|status| !status.ended() && status.tgid == pid);
    lives.then(|| read(proc, pid).ok()).flatten()
}

/// Parent, group leader and session leader of `of`, and the leaders of its parent and of each of `line`, its ancestors that stand with it, as far as they live here,
/// are not `of`, and `wanted`; each once. By setsid a process leaves the leaders of its parent, without whom that would stand among strangers.
pub(crate) fn kin(proc: &Proc, of: &Person, line: &[(Person, bool)], wanted: impl Fn(Pid) -> bool) -> Vec<Person> {
    let mut found: Vec<Person> = Vec::new();
    let mut find = |pid: Pid| {
        // 0: outside this PID namespace. 1: every machine has its own.
        if pid.0 > 1 && pid != of.pid && found.iter().all(|p| p.pid != pid) && wanted(pid) {
            found.extend(read(proc, pid).ok());
        }
        found.iter().find(|p| p.pid == pid).map_or([Pid::NONE; 2], |p| [p.sid, p.pgid])
    };
    find(of.sid);
    let of_parent = find(of.ppid);
    find(of.pgid);
    let of_line = space::known_of(line).iter().flat_map(|(one, _)| [one.sid, one.pgid]);
    for leader in of_parent.into_iter().chain(of_line) {
        find(leader);
    }
    found
}

/// The ancestors of a process whose parent is `at`, up to the first that is not `wanted`, or to init.
pub(crate) fn ancestors(proc: &Proc, mut at: Pid, wanted: impl Fn(Pid) -> bool) -> Vec<Person> {
    let mut line: Vec<Person> = Vec::new();
    while at.0 > 1 && wanted(at) && line.len() < MOST_ANCESTORS {
        let Ok(person) = read(proc, at) else { break };
        at = person.ppid;
        line.push(person);
    }
    line
}

/// One may change its parent while it is looked at, so that the line may be a circle.
const MOST_ANCESTORS: usize = 64;

pub(crate) fn to_wire(person: Person) -> w::Person {
    let Person { pid, ppid, pgid, sid, creds, name } = person;
    w::Person { pid, ppid, pgid, sid, creds, name }
}

pub(crate) fn from_wire(person: w::Person) -> Person {
    let w::Person { pid, ppid, pgid, sid, creds, name } = person;
    Person { pid, ppid, pgid, sid, creds, name }
}

pub(crate) fn kin_to_wire(kin: space::Kin) -> n::Kin {
    n::Kin { person: to_wire(kin.person), node: kin.node }
}

pub(crate) fn all_to_wire(kin: Vec<space::Kin>) -> Vec<n::Kin> {
    kin.into_iter().map(kin_to_wire).collect()
}

pub(crate) fn target_from_wire(target: n::KillTarget) -> space::KillTarget {
    match target {
        n::KillTarget::Process(pid) => space::KillTarget::Process(pid),
        n::KillTarget::Thread { pid, tid } => space::KillTarget::Thread { pid, tid },
        n::KillTarget::Group(pgid) => space::KillTarget::Group(pgid),
        n::KillTarget::All => space::KillTarget::All,
    }
}

pub(crate) fn usage_to_wire(usage: space::Usage) -> w::Usage {
    w::Usage { user_us: usage.user_us, system_us: usage.system_us, max_rss_kb: usage.max_rss_kb }
}

pub(crate) fn event_from_wire(event: w::BodyEvent) -> space::BodyEvent {
    use space::BodyEvent as S;
    use w::BodyEvent as W;
    match event {
        W::Started { pid } => S::Started { pid },
        W::Forked { parent, child } => S::Forked { parent, child },
        W::Named { pid, name } => S::Named { pid, name },
        W::Credentials { pid, creds } => S::Credentials { pid, creds },
        W::Group { pid, pgid } => S::Group { pid, pgid },
        W::Session { pid } => S::Session { pid },
        W::Stopped { pid, sig, turn } => S::Stopped { pid, sig, turn },
        W::Continued { pid, turn } => S::Continued { pid, turn },
        W::Exited { pid, exit, usage } => {
            let w::Usage { user_us, system_us, max_rss_kb } = usage;
            S::Exited { pid, exit, usage: space::Usage { user_us, system_us, max_rss_kb } }
        }
        W::Reaped { pid } => S::Reaped { pid },
        W::Adopted { pid, ppid } => S::Adopted { pid, ppid },
        W::Subreaper { pid, on } => S::Subreaper { pid, on },
    }
}
