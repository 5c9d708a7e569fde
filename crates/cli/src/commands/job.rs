//! `shoal job submit`, `shoal job list` and `shoal job cancel`: the batch system, as its users have it.

use super::Daemon;
use crate::print;
use clap::{Args, Subcommand};
use link::Plain;
use monitor::people;
use serde::Serialize;
use std::collections::HashMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use vocab::{Exit, Fault, Kind, NodeSet, Result};
use wire::jobs::{JobAnswer, JobAsk, JobRow, Submission, NAME, SOCKET};

/// Run commands when there are nodes for them, which they have for themselves meanwhile
///
/// For the front end, whose configuration says which nodes are for jobs (job_nodes; docs/jobs.md).
#[derive(Args, Debug)]
pub(crate) struct Job {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand, Debug)]
enum What {
    Submit(Submit),
    List(List),
    Cancel(Cancel),
}

/// Put a command into the queue; prints the job's number
///
/// The command runs on the front end, in this directory and environment, once so many nodes are its user's alone: `shoal run -n $SHOAL_NODES PROGRAM`
/// in it starts a copy on each. SHOAL_JOB is the job's number. When the command ends, or the requested time is over, all that it has started ends.
#[derive(Args, Debug)]
struct Submit {
    /// How many nodes
    #[arg(short = 'n', long, value_name = "NODES", default_value_t = 1)]
    nodes: u32,
    /// For how long at most: seconds, or a number with s, m, h or d. Shorter jobs may start earlier
    #[arg(short = 't', long, value_name = "TIME", default_value = "1h", value_parser = time)]
    time: u64,
    /// The name in the list [default: the command's name]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// The file of its output [default: shoal-job.NUMBER of this directory, where NUMBER is the job's]
    #[arg(short = 'o', long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    daemon: Daemon,
    /// The command and its arguments
    #[arg(value_name = "COMMAND", required = true, trailing_var_arg = true)]
    command: Vec<OsString>,
}

/// Show the jobs
#[derive(Args, Debug)]
struct List {
    /// Also those that are over, the last hundred of each user
    #[arg(short = 'a', long)]
    all: bool,
    /// Print a JSON array
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    daemon: Daemon,
}

/// End a job, or take it from the queue; for its user and for root
#[derive(Args, Debug)]
struct Cancel {
    /// Numbers of jobs
    #[arg(value_name = "JOB", required = true)]
    jobs: Vec<u64>,
    #[command(flatten)]
    daemon: Daemon,
}

impl Job {
    pub(crate) fn run(self) -> Result<ExitCode> {
        match self.what {
            What::Submit(submit) => submit.run(),
            What::List(list) => list.run(),
            What::Cancel(cancel) => cancel.run(),
        }
        .map(|()| ExitCode::SUCCESS)
    }
}

impl Submit {
    fn run(self) -> Result<()> {
        let program = client::run::collect(&self.command, None, false)?;
        let name = self.name.unwrap_or_else(|| called(&self.command[0]));
        let output = self.output.map(|path| path.into_os_string().into_vec()).unwrap_or_default();
        let submission = Submission { program, nodes: self.nodes, seconds: self.time, name, output };
        match ask(&self.daemon, &JobAsk::Submit(Box::new(submission)))? {
            JobAnswer::Submitted { id } => print::out(&format!("{id}\n")),
            other => Err(unexpected(&other)),
        }
    }
}

/// A command's name as a job's: the last part of its path, without what a name cannot have.
fn called(command: &OsString) -> String {
    let name = Path::new(command).file_name().unwrap_or(command).to_string_lossy().into_owned();
    let name: String = name.chars().map(|c| if c.is_ascii_graphic() { c } else { '_' }).take(NAME).collect();
    if name.is_empty() {
        "_".into()
    } else {
        name
    }
}

impl List {
    fn run(self) -> Result<()> {
        let rows = match ask(&self.daemon, &JobAsk::List { all: self.all })? {
            JobAnswer::Jobs(rows) => rows,
            other => return Err(unexpected(&other)),
        };
        if self.json {
            return print::json(&rows.into_iter().map(Row::of).collect::<Vec<_>>());
        }
        let heading = ["JOB", "USER", "NAME", "STATE", "NODES", "TIME", "USED", "END"];
        let right = [true, false, false, false, false, true, true, false];
        let (users, now) = (people::here(), (kern::clock::realtime_ns() / 1_000_000_000) as i64);
        print::table(heading, right, &rows.iter().map(|row| cells(row, &users, now)).collect::<Vec<_>>())
    }
}

impl Cancel {
    fn run(self) -> Result<()> {
        self.jobs.iter().try_for_each(|id| match ask(&self.daemon, &JobAsk::Cancel { id: *id })? {
            JobAnswer::Cancelled => Ok(()),
            other => Err(unexpected(&other)),
        })
    }
}

/// A job in JSON; times in seconds, since 1970 where they are no spans.
#[derive(Serialize)]
struct Row {
    job: u64,
    uid: u32,
    name: String,
    state: String,
    count: u32,
    nodes: Vec<i32>,
    time: u64,
    submitted: i64,
    started: Option<i64>,
    ended: Option<i64>,
    /// As a shell has it.
    status: Option<i32>,
    why: String,
}

impl Row {
    fn of(row: JobRow) -> Row {
        let JobRow { id, uid, name, state, count, nodes, seconds, submitted, started, ended, exit, why } = row;
        let (nodes, status) = (nodes.iter().map(|node| node.0).collect(), exit.map(Exit::shell_number));
        Row { job: id, uid, name, state, count, nodes, time: seconds, submitted, started, ended, status, why }
    }
}

fn cells(row: &JobRow, users: &HashMap<u32, String>, now: i64) -> [String; 8] {
    let used = row.started.map(|started| span(row.ended.unwrap_or(now).saturating_sub(started).max(0) as u64));
    let nodes = if row.nodes.is_empty() { row.count.to_string() } else { NodeSet::from(row.nodes.clone()).to_string() };
    let exit = row.exit.map(|exit| exit.to_string()).unwrap_or_default();
    let end = [row.why.clone(), exit].into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join(", ");
    [
        row.id.to_string(),
        people::name_of(users, row.uid),
        row.name.clone(),
        row.state.clone(),
        nodes,
        span(row.seconds),
        used.unwrap_or_default(),
        kern::own::plain(&end),
    ]
}

/// `1-02:03:04` for a day and some hours.
fn span(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let clock = format!("{:02}:{:02}:{:02}", rest / 3600, rest / 60 % 60, rest % 60);
    if days > 0 {
        format!("{days}-{clock}")
    } else {
        clock
    }
}

/// Seconds, or a number with its unit.
pub(super) fn time(text: &str) -> std::result::Result<u64, String> {
    let units = [('s', 1), ('m', 60), ('h', 3600), ('d', 86_400)];
    let unit = units.iter().find_map(|(letter, seconds)| Some((text.strip_suffix(*letter)?, *seconds)));
    let (number, seconds) = unit.unwrap_or((text, 1));
    let digits = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    let whole = number.parse::<u64>().ok().filter(|_| digits).and_then(|number| number.checked_mul(seconds));
    whole.filter(|seconds| *seconds > 0).ok_or_else(|| format!("{text:?} is no time, as 90, 15m, 2h or 1d"))
}

/// Sends a question to the batch system, and returns its answer.
fn ask(daemon: &Daemon, ask: &JobAsk) -> Result<JobAnswer> {
    /// In microseconds: a place in its queue is waited for.
    const PATIENCE_US: u64 = 5_000_000;
    let connected =
        kern::sock::unix_connect(&daemon.beside(SOCKET), PATIENCE_US).map_err(|fault| match fault.kind {
            Kind::Gone if fault.root_errno() == vocab::errno::ENOENT => fault
                .doing("no batch system on this machine: job_nodes of a front end's configuration names nodes for it"),
            _ => fault.doing("the batch system does not run"),
        })?;
    let mut link = Plain::new(connected);
    link.send(ask)?;
    let mut over = None;
    loop {
        // An answer that came before the connection was closed counts.
        match (link.next()?, over) {
            (Some(JobAnswer::Failed(fault)), _) => return Err(fault),
            (Some(answer), _) => return Ok(answer),
            (None, Some(fault)) => return Err(Fault::doing(fault, "ask the batch system")),
            (None, None) => {}
        }
        let unsent = link.flush().is_ok() && link.wants_write();
        let wanted = kern::poll::Ready { writable: unsent, ..kern::poll::Ready::READ };
        // Interrupted, it goes round.
        let _ = kern::poll::poll(&[(link.fd(), wanted)], -1);
        over = link.receive().err();
    }
}

fn unexpected(answer: &JobAnswer) -> Fault {
    Fault::wire(format!("the batch system answered {answer:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        for (text, seconds) in [("90", 90), ("90s", 90), ("15m", 900), ("2h", 7200), ("1d", 86_400)] {
            assert_eq!(time(text), Ok(seconds), "{text}");
        }
        for bad in ["", "m", "0", "-1", "+1", "1.5h", "1w", "99999999999999999999d", "9999999999999999999d"] {
            assert!(time(bad).is_err(), "{bad}");
        }
        assert_eq!((span(59).as_str(), span(93_784).as_str()), ("00:00:59", "1-02:03:04"));
    }

    #[test]
    fn a_job_is_called_by_its_command() {
        assert_eq!(called(&"/usr/bin/make".into()), "make");
        assert_eq!(called(&"a b\n".into()), "a_b_");
        assert_eq!(called(&"/".into()), "/");
        assert_eq!(called(&"".into()), "_");
    }
}
