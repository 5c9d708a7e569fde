//! From a child of the keeper's, which is root's, to the command of a job, which is its user's.

use crate::record::Job;
use kern::{confine, ns, own, sched, signal, view};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use vocab::errno::ENOENT;
use vocab::{Capabilities, Fault, NodeSet, Pid, Result, Sig, SigSet};

/// Exit codes as shells have them: the command is not there, and the command could not be started.
const NOT_FOUND: i32 = 127;
const NOT_STARTED: i32 = 126;

/// Environment variables of a job's command.
const NUMBER: &str = "SHOAL_JOB";
const NODES: &str = "SHOAL_NODES";

/// Becomes the command; `keeper` is the parent. Returns only what has failed, and the exit code for that.
pub(crate) fn become_command(job: &Job, keeper: Pid) -> (Fault, i32) {
    if let Err(fault) = become_user(job, keeper).and_then(|()| take_place(job)) {
        return (fault, NOT_STARTED);
    }
    let fault = execute(job);
    let code = if fault.root_errno() == ENOENT { NOT_FOUND } else { NOT_STARTED };
    (fault, code)
}

/// Takes over the user's rights and gives up the keeper's.
fn become_user(job: &Job, keeper: Pid) -> Result<()> {
    let (program, creds) = (&job.submission.program, &job.creds);
    ns::new_session()?;
    for sig in (1..=64).filter_map(Sig::new).filter(|sig| ![Sig::KILL, Sig::STOP].contains(sig)) {
        // The C library keeps two for itself.
        let _ = signal::set_default(sig);
    }
    signal::set_mask(SigSet::default())?;
    own::oom_score_zero()?;
    own::leave_session_keyring()?;
    confine::take_niceness(program.nice)?;
    for limit in &program.limits {
        confine::take_limit(limit.resource, (limit.soft, limit.hard));
    }
    // Without it nobody has said what the submitter may have.
    confine::to(&program.capabilities.unwrap_or(Capabilities { no_new_privs: true, ..Capabilities::default() }))?;
    view::become_user(job.uid(), creds.gid.effective, &creds.groups)?;
    sched::set_not_dumpable()?;
    // After the change of ids, by which the kernel forgets the wish (linux: commit_creds).
    own::die_with_parent(Sig::KILL, keeper)
}

/// Goes to the working directory and opens the output, with the user's rights.
fn take_place(job: &Job) -> Result<()> {
    let program = &job.submission.program;
    rustix::process::umask(rustix::fs::Mode::from_bits_truncate(program.umask));
    let directory = Path::new(OsStr::from_bytes(&program.cwd));
    let changed = std::env::set_current_dir(directory);
    changed.map_err(|e| Fault::io(&e, format!("go to {}", directory.display())))?;
    let path = Path::new(OsStr::from_bytes(&job.submission.output));
    let failed = |e: std::io::Error| Fault::io(&e, format!("open the output {}", path.display()));
    // Emptied first, then appended to: the command may open the file again by its name.
    File::options().create(true).write(true).truncate(true).open(path).map_err(failed)?;
    let output = File::options().append(true).open(path).map_err(failed)?;
    let errors = output.try_clone().map_err(failed)?;
    let input = File::open("/dev/null").map_err(|e| Fault::io(&e, "open /dev/null"))?;
    own::take_standard([input.into(), output.into(), errors.into()])
}

fn execute(job: &Job) -> Fault {
    let program = &job.submission.program;
    let words = || program.argv.iter().map(|word| OsString::from_vec(word.to_vec()));
    let file = OsStr::from_bytes(&program.file);
    let mut command = Command::new(file);
    command.arg0(words().next().unwrap_or_else(|| file.to_owned())).args(words().skip(1)).env_clear();
    for entry in &program.env {
        let Some(at) = entry.iter().skip(1).position(|byte| *byte == b'=') else { continue };
        let (name, value) = entry.split_at(at + 1);
        command.env(OsStr::from_bytes(name), OsStr::from_bytes(&value[1..]));
    }
    let nodes = job.list().iter().map(|node| node.0.to_string()).collect::<Vec<_>>().join(",");
    command.env(NUMBER, job.id.to_string()).env(NODES, nodes);
    Fault::io(&command.exec(), format!("execute {}", file.display()))
}

/// The nodes of a job as people read them.
pub(crate) fn shown(job: &Job) -> String {
    NodeSet::from(job.list()).to_string()
}
