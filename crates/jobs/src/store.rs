//! The files of jobs: a directory for each, named by its number, below one that is root's alone.
//!
//! - `job`: the record ([`Job`]), replaced as a whole.
//! - `lock`: locked by the job's keeper as long as it lives.
//! - `begun`: made before the command is started, and never a second time.
//! - `status`: what the keeper leaves ([`Status`]).

use crate::record::{Job, Status};
use kern::lock::Lock;
use minicbor::{Decode, Encode};
use std::fs::{self, DirBuilder, File};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use tracing::error;
use vocab::{Fault, Pid, Result};

const JOB: &str = "job";
const LOCK: &str = "lock";
const BEGUN: &str = "begun";
const STATUS: &str = "status";

/// See the module.
#[derive(Debug)]
pub(crate) struct Store {
    directory: PathBuf,
}

fn make(directory: &Path) -> Result<()> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(directory);
    made.map_err(|e| Fault::io(&e, format!("make {}", directory.display())))
}

impl Store {
    /// The directory, which is made if need be, and the jobs in it in the order of their numbers.
    ///
    /// # Errors
    /// `Sys` where it cannot be used.
    pub(crate) fn open(directory: PathBuf) -> Result<(Store, Vec<Job>)> {
        make(&directory)?;
        let failed = |e: std::io::Error| Fault::io(&e, format!("read {}", directory.display()));
        let mut jobs = Vec::new();
        for entry in fs::read_dir(&directory).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let Some(id) = entry.file_name().to_str().and_then(|name| name.parse::<u64>().ok()) else { continue };
            match read_job(&entry.path()) {
                Ok(job) if job.id == id => jobs.push(job),
                // Never accepted: the daemon ended while it was written.
                Err(fault) if fault.root_errno() == vocab::errno::ENOENT => drop(fs::remove_dir_all(entry.path())),
                bad => {
                    let aside = directory.join(format!("{id}.damaged"));
                    error!("job {id} is lost, and is in {} from now on: {bad:?}", aside.display());
                    fs::rename(entry.path(), &aside).map_err(failed)?;
                }
            }
        }
        jobs.sort_unstable_by_key(|job| job.id);
        Ok((Store { directory }, jobs))
    }

    /// The directory of a job.
    pub(crate) fn of(&self, id: u64) -> PathBuf {
        self.directory.join(id.to_string())
    }

    /// # Errors
    /// `Sys` where it cannot be kept; the record is as before then.
    pub(crate) fn keep(&self, job: &Job) -> Result<()> {
        let directory = self.of(job.id);
        make(&directory)?;
        put(&directory, JOB, job)
    }

    /// Forgets a job that is over.
    pub(crate) fn forget(&self, id: u64) {
        if let Err(error) = fs::remove_dir_all(self.of(id)) {
            tracing::warn!(%error, "forget job {id}");
        }
    }
}

/// # Errors
/// `Sys` as open(2) and read(2), `Wire` for what is no record.
pub(crate) fn read_job(directory: &Path) -> Result<Job> {
    get(directory, JOB)
}

/// The status that the job's keeper has left, if there is one.
pub(crate) fn status(directory: &Path) -> Option<Status> {
    get(directory, STATUS).ok()
}

/// # Errors
/// `Sys` where it cannot be kept.
pub(crate) fn leave(directory: &Path, status: &Status) -> Result<()> {
    put(directory, STATUS, status)
}

/// The keeper of a job, if one lives.
pub(crate) fn keeper(directory: &Path) -> Option<Pid> {
    Lock::holder(&directory.join(LOCK))
}

/// The right to keep a job; `None`: another process does.
///
/// # Errors
/// As [`Lock::take`].
pub(crate) fn lock(directory: &Path) -> Result<Option<Lock>> {
    Lock::take(&directory.join(LOCK))
}

/// Has the command been started, or is nobody to start it any more?
pub(crate) fn begun(directory: &Path) -> bool {
    directory.join(BEGUN).exists()
}

/// The command is about to be started, or never to be started. False: that was so before.
///
/// # Errors
/// `Sys` as open(2).
pub(crate) fn begin(directory: &Path) -> Result<bool> {
    match File::options().write(true).create_new(true).mode(0o600).open(directory.join(BEGUN)) {
        Ok(_) => Ok(true),
        Err(e) if e.kind() == ErrorKind::AlreadyExists => Ok(false),
        Err(e) => Err(Fault::io(&e, format!("begin the job of {}", directory.display()))),
    }
}

fn get<T: for<'b> Decode<'b, ()>>(directory: &Path, name: &str) -> Result<T> {
    let path = directory.join(name);
    let bytes = fs::read(&path).map_err(|e| Fault::io(&e, format!("read {}", path.display())))?;
    minicbor::decode(&bytes).map_err(|e| Fault::wire(format!("{} is none of ours: {e}", path.display())))
}

fn put(directory: &Path, name: &str, what: &impl Encode<()>) -> Result<()> {
    let (path, new) = (directory.join(name), directory.join(format!("{name}.new")));
    let bytes = minicbor::to_vec(what).map_err(|e| Fault::bug(format!("encode {}: {e}", path.display())))?;
    let kept = |e: std::io::Error| Fault::io(&e, format!("keep {}", path.display()));
    let mut file = File::options().create(true).write(true).truncate(true).mode(0o600).open(&new).map_err(kept)?;
    file.write_all(&bytes).and_then(|()| file.sync_all()).map_err(kept)?;
    fs::rename(&new, &path).map_err(kept)?;
    // Where a directory cannot be synchronised the rename is as durable as it gets.
    let _ = File::open(directory).and_then(|at| at.sync_all());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::life::State;

    #[test]
    fn what_is_kept_is_found_and_what_is_damaged_is_set_aside() {
        let directory = std::env::temp_dir().join(format!("shoal-jobs-store.{}", std::process::id()));
        let (store, none) = Store::open(directory.clone()).expect("a directory");
        assert!(none.is_empty());
        let job = |id, state| Job { id, state, ..Job::default() };
        for one in [job(10, State::Waiting), job(9, State::Running), job(10, State::Starting), job(11, State::Over)] {
            store.keep(&one).expect("room");
        }
        fs::create_dir(directory.join("12")).expect("room");
        fs::write(directory.join("9/job"), "nonsense").expect("room");
        let (store, found) = Store::open(directory.clone()).expect("a directory");
        assert_eq!(found, [job(10, State::Starting), job(11, State::Over)]);
        assert!(directory.join("9.damaged").exists() && !directory.join("12").exists());
        store.forget(11);
        assert_eq!(Store::open(directory.clone()).expect("a directory").1.len(), 1);
        let ten = store.of(10);
        assert!(!begun(&ten) && begin(&ten) == Ok(true) && begin(&ten) == Ok(false) && begun(&ten));
        assert_eq!(status(&ten), None);
        let left = Status { late: true, ..Status::default() };
        leave(&ten, &left).expect("room");
        assert_eq!(status(&ten), Some(left));
        fs::remove_dir_all(&directory).expect("ours");
    }
}
