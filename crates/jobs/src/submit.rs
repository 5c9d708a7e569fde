//! Whether a submission may become a job.

use crate::record::Job;
use vocab::{Fault, Result};
use wire::jobs::{Submission, NAME};

/// The longest time that may be requested, in seconds: a year.
const LONGEST: u64 = 366 * 86_400;
/// The most bytes of a command with its surroundings. All of them are kept while the job waits.
pub(crate) const MOST_BYTES: usize = 256 * 1024;
/// The most jobs of one user that are not over, and of all users.
const MOST_OF_ONE: usize = 500;
const MOST: usize = 10_000;

/// # Errors
/// `Refused`, with the reason; `managed`: how many nodes there are for jobs.
pub(crate) fn check(wanted: &Submission, managed: usize) -> Result<()> {
    let refused = |why: String| Err(Fault::refused(why));
    let Submission { program, nodes, seconds, name, output } = wanted;
    if program.file.is_empty() || program.argv.is_empty() {
        return refused("no command is named".into());
    }
    if *nodes == 0 || *nodes as usize > managed {
        return refused(format!("{nodes} nodes are asked for: 1 to {managed} are possible"));
    }
    if !(1..=LONGEST).contains(seconds) {
        return refused(format!("{seconds} seconds are asked for: 1 to {LONGEST} are possible"));
    }
    if !(1..=NAME).contains(&name.len()) || !name.bytes().all(|byte| byte.is_ascii_graphic()) {
        return refused(format!("name {name:?}: a name is printable characters without blanks, {NAME} at most"));
    }
    if program.cwd.first() != Some(&b'/') {
        return refused("the working directory has no name".into());
    }
    let texts = program.argv.iter().chain(&program.env).map(|text| text.as_slice());
    let texts = texts.chain([&program.file[..], &program.cwd, output]);
    let bytes: usize = texts.clone().map(|text| text.len() + 1).sum();
    if bytes > MOST_BYTES {
        return refused(format!("command and environment have {bytes} bytes: {MOST_BYTES} are possible"));
    }
    if texts.into_iter().any(|text| text.contains(&0)) {
        return refused("a text has a NUL".into());
    }
    Ok(())
}

/// May this user have one more job beside `jobs`, which are not over?
///
/// # Errors
/// `Refused` where there are too many.
pub(crate) fn room<'a>(uid: u32, jobs: impl Iterator<Item = &'a Job>) -> Result<()> {
    let (mut own, mut all) = (0, 0);
    for job in jobs {
        all += 1;
        own += usize::from(job.uid() == uid);
    }
    match uid != 0 && (own >= MOST_OF_ONE || all >= MOST) {
        true => Err(Fault::refused(format!("you have {own} jobs of {all}: {MOST_OF_ONE} of {MOST} are possible"))),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Job;
    use vocab::{Creds, Ids};
    use wire::run::Program;

    fn good() -> Submission {
        let program = Program {
            file: b"true".to_vec(),
            argv: vec![b"true".to_vec().into()],
            cwd: b"/".to_vec(),
            ..Program::default()
        };
        Submission { program, nodes: 1, seconds: 60, name: "true".into(), output: b"out".to_vec() }
    }

    #[test]
    fn what_cannot_be_a_job_is_refused_with_the_reason() {
        assert_eq!(check(&good(), 1), Ok(()));
        let refused = |change: fn(&mut Submission), why: &str| {
            let mut one = good();
            change(&mut one);
            let fault = check(&one, 1).expect_err(why);
            assert!(fault.to_string().contains(why), "{fault}");
        };
        refused(|one| one.nodes = 0, "1 to 1");
        refused(|one| one.nodes = 2, "1 to 1");
        refused(|one| one.seconds = 0, "seconds");
        refused(|one| one.seconds = u64::MAX, "seconds");
        refused(|one| one.name = "two words".into(), "name");
        refused(|one| one.name = "n".repeat(NAME + 1), "name");
        refused(|one| one.program.argv.clear(), "no command");
        refused(|one| one.program.cwd = b"here".to_vec(), "directory");
        refused(|one| one.program.env = vec![vec![b'x'; MOST_BYTES].into()], "bytes");
        refused(|one| one.output = b"a\0b".to_vec(), "NUL");
    }

    #[test]
    fn one_user_does_not_fill_the_queue_and_root_is_not_kept_out() {
        let creds = |uid| Creds { uid: Ids::all(uid), ..Creds::default() };
        let jobs = vec![Job { creds: creds(7), ..Job::default() }; MOST_OF_ONE];
        assert!(room(7, jobs.iter()).is_err() && room(8, jobs.iter()).is_ok() && room(0, jobs.iter()).is_ok());
    }
}
