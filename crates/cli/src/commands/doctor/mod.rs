//! `shoal doctor`: what of a running cluster is amiss, or will surprise somebody.

mod probe;

use super::nodes::nodes;
use super::Daemon;
use crate::print;
use clap::Args;
use kern::clock::realtime_ns;
use kern::poll::{poll, Ready};
use probe::Probe;
use serde::Serialize;
use std::os::fd::AsFd;
use std::process::{Command, ExitCode, Stdio};
use vocab::{Fault, NodeId, Pid, Result, Sig};
use wire::ask::NodeRow;

/// This program, on whatever machine.
const OWN: &str = "/proc/self/exe";
/// A node has so long to answer, in milliseconds.
const ANSWER_MS: i32 = 15_000;
/// Clocks may differ by so much more than can be measured, in nanoseconds: make and rsync compare times of files by more.
const CLOCKS_NS: i64 = 500_000_000;
/// An answer that takes so long is slow, in microseconds.
const SLOW_US: u64 = 2_000_000;
/// Names in one line.
const NAMES: usize = 5;

/// Show what of a running cluster is amiss: nodes that do not answer, versions, clocks, users and mounts that differ, kernels without what is needed
///
/// Each node that is up is asked, by a program of root's there. The exit status is 1 if something is wrong, not if something is only worth knowing. It is for root, on
/// the front end.
#[derive(Args, Debug)]
pub(crate) struct Doctor {
    /// Print a JSON array
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    daemon: Daemon,
}

/// What a machine says of itself, for `shoal doctor`.
#[derive(Args, Debug)]
pub(crate) struct DoctorProbe {}

#[derive(Serialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "lowercase")]
enum Rank {
    Wrong,
    Note,
}

#[derive(Serialize, PartialEq, Eq, Debug)]
struct Finding {
    machine: String,
    rank: Rank,
    what: String,
}

/// An answer, and when it was asked for and had come, since 1970.
struct Answer {
    probe: Probe,
    asked_ns: u64,
    came_ns: u64,
}

impl DoctorProbe {
    pub(crate) fn run(self) -> Result<ExitCode> {
        print::json(&Probe::of_this_machine()).map(|()| ExitCode::SUCCESS)
    }
}

impl Doctor {
    pub(crate) fn run(self) -> Result<ExitCode> {
        let rows = nodes(&mut self.daemon.connect()?)?;
        let front = Probe::of_this_machine();
        let mut findings = of_kernel("front", &front);
        let mut answered = 0;
        for row in &rows {
            let name = row.node.to_string();
            let note = |rank, what| Finding { machine: name.clone(), rank, what };
            if !row.is_linked() {
                findings.push(note(Rank::Wrong, format!("it is {}", row.state)));
                continue;
            }
            if row.state != "up" {
                findings.push(note(Rank::Note, format!("it is {}, and takes no new programs but root's", row.state)));
            }
            match self.ask(row) {
                Ok(answer) => {
                    answered += 1;
                    findings.extend(differences(&name, &front, &answer));
                }
                Err(fault) => findings.push(note(Rank::Wrong, format!("it does not answer: {fault}"))),
            }
        }
        let wrong = findings.iter().filter(|finding| finding.rank == Rank::Wrong).count();
        if self.json {
            print::json(&findings)?;
        } else {
            for Finding { machine, rank, what } in &findings {
                let rank = if *rank == Rank::Wrong { "WRONG" } else { "note " };
                print::out(&format!("{rank} {machine}: {what}\n"))?;
            }
            let (all, notes) = (rows.len(), findings.len() - wrong);
            print::out(&format!("{answered} of {all} nodes have answered; wrong: {wrong}, worth knowing: {notes}\n"))?;
        }
        Ok(if wrong == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    fn ask(&self, row: &NodeRow) -> Result<Answer> {
        let asked_ns = realtime_ns();
        let mut command = Command::new(OWN);
        command.arg("run").arg("-n").arg(number(row.node)).args(["--chdir", "/", "--", OWN, "doctor-probe"]);
        command.env("SHOAL_SOCKET", self.daemon.socket());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().map_err(|e| Fault::io(&e, "start shoal run"))?;
        let pid = Pid(child.id() as i32);
        let handle = kern::pidfd::open(pid).map_err(|errno| Fault::sys(errno, "watch shoal run"))?;
        let ended = poll(&[(handle.as_fd(), Ready::READ)], ANSWER_MS).is_ok_and(|ready| ready[0].readable);
        let came_ns = realtime_ns();
        if !ended {
            let _ended_meanwhile = kern::pidfd::kill(handle.as_fd(), Sig::KILL);
        }
        let done = child.wait_with_output().map_err(|e| Fault::io(&e, "hear shoal run"))?;
        if !ended {
            return Err(Fault::gone(format!("nothing for {} s", ANSWER_MS / 1000)));
        }
        if !done.status.success() {
            let said = String::from_utf8_lossy(&done.stderr);
            return Err(Fault::gone(said.lines().last().unwrap_or("it has failed without a word").to_owned()));
        }
        let probe = serde_json::from_slice(&done.stdout);
        let probe = probe.map_err(|e| Fault::wire(format!("it says something else: {e}")))?;
        Ok(Answer { probe, asked_ns, came_ns })
    }
}

fn number(node: NodeId) -> String {
    node.0.to_string()
}

fn of_kernel(machine: &str, probe: &Probe) -> Vec<Finding> {
    let finding = |rank, what| Finding { machine: machine.into(), rank, what };
    let mut findings = Vec::new();
    if !probe.needed.is_empty() {
        findings.push(finding(Rank::Wrong, format!("its kernel lacks what is needed: {}", probe.needed.join(", "))));
    }
    if !probe.wished.is_empty() {
        let what = format!("shoal does without: {} (shoal check says what is lost)", probe.wished.join(", "));
        findings.push(finding(Rank::Note, what));
    }
    findings
}

fn differences(machine: &str, front: &Probe, answer: &Answer) -> Vec<Finding> {
    let Answer { probe, asked_ns, came_ns } = answer;
    let mut findings = of_kernel(machine, probe);
    let mut add = |rank, what| findings.push(Finding { machine: machine.into(), rank, what });
    if probe.version != front.version {
        add(Rank::Wrong, format!("it runs shoal {}, the front end {}", probe.version, front.version));
    }
    if probe.kernel != front.kernel {
        add(Rank::Note, format!("its kernel is {}, the front end's {}", probe.kernel, front.kernel));
    }
    // It has answered somewhen between.
    let (middle, half) = ((asked_ns + came_ns) / 2, (came_ns.saturating_sub(*asked_ns) / 2) as i64);
    let ahead = probe.now_ns as i64 - middle as i64;
    if ahead.abs() > half + CLOCKS_NS {
        let (by, which) = (ahead.unsigned_abs() as f64 / 1e9, if ahead > 0 { "ahead" } else { "behind" });
        add(
            Rank::Wrong,
            format!("its clock is {by:.1} s {which} of the front end's: make and rsync compare times of files"),
        );
    }
    let took_us = came_ns.saturating_sub(*asked_ns) / 1000;
    if took_us > SLOW_US {
        add(Rank::Note, format!("it has taken {:.1} s to start a program", took_us as f64 / 1e6));
    }
    let missing = front.users.keys().filter(|name| !probe.users.contains_key(*name));
    if let Some(names) = some(missing.map(String::as_str)) {
        add(Rank::Note, format!("it does not know these users of the front end: {names}"));
    }
    let others = front.users.iter().filter(|(name, uid)| probe.users.get(*name).is_some_and(|other| other != *uid));
    if let Some(names) = some(others.map(|(name, _)| name.as_str())) {
        add(Rank::Wrong, format!("these users have another number there than on the front end: {names}"));
    }
    let mounts = front.mounts.iter().filter(|(at, what)| probe.mounts.get(*at) != Some(what));
    if let Some(names) = some(mounts.map(|(at, _)| at.as_str())) {
        add(Rank::Note, format!("the front end has these from the network, and the node not, or others: {names}"));
    }
    findings
}

/// The first of these names, and how many more; none: there are none.
fn some<'a>(names: impl Iterator<Item = &'a str>) -> Option<String> {
    let all: Vec<&str> = names.collect();
    let first = all.iter().take(NAMES).copied().collect::<Vec<_>>().join(", ");
    match all.len() {
        0 => None,
        count if count > NAMES => Some(format!("{first} and {} more", count - NAMES)),
        _ => Some(first),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn probe(users: &[(&str, u32)]) -> Probe {
        let users = users.iter().map(|(name, uid)| ((*name).to_owned(), *uid)).collect();
        Probe { version: "1".into(), kernel: "6".into(), now_ns: 10_000_000_000, users, ..Probe::default() }
    }

    fn told(front: &Probe, probe: Probe, asked_ns: u64, came_ns: u64) -> Vec<String> {
        let found = differences("n0", front, &Answer { probe, asked_ns, came_ns });
        found.into_iter().map(|finding| format!("{:?} {}", finding.rank, finding.what)).collect()
    }

    #[test]
    fn what_differs_is_told() {
        let front = probe(&[("ann", 1000), ("bob", 1001)]);
        assert!(told(&front, front.clone(), 9_000_000_000, 11_000_000_000).is_empty());
        // As far as can be told, it may be the same.
        assert!(told(&front, front.clone(), 5_000_000_000, 11_000_000_000).len() == 1, "slow");
        let late = told(&front, front.clone(), 12_000_000_000, 12_200_000_000);
        assert!(late[0].starts_with("Wrong its clock is 2.1 s behind"), "{late:?}");
        let other = Probe { version: "2".into(), mounts: BTreeMap::new(), ..probe(&[("ann", 1002)]) };
        let front = Probe { mounts: BTreeMap::from([("/home".into(), "nfs s:/h".into())]), ..front };
        let all = told(&front, other, 9_990_000_000, 10_010_000_000);
        let expected = [
            "Wrong it runs shoal 2, the front end 1",
            "Note it does not know these users of the front end: bob",
            "Wrong these users have another number there than on the front end: ann",
            "Note the front end has these from the network, and the node not, or others: /home",
        ];
        assert_eq!(all, expected);
    }

    #[test]
    fn many_names_are_some() {
        assert_eq!(some(["a", "b", "c", "d", "e", "f", "g"].into_iter()).as_deref(), Some("a, b, c, d, e and 2 more"));
        assert_eq!(some([].into_iter()), None);
    }
}
