//! Processes of a trial, which end with it: one that fails must not leave a `shoal run` that waits for ever for a daemon that is gone.

use crate::daemon::Daemon;
use crate::{shoal_run, trial};
use agent::streams::Streams;
use libtest_mimic::Trial;
use std::ops::{Deref, DerefMut};
use std::panic::{catch_unwind, resume_unwind};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;

pub(crate) fn add(trials: &mut Vec<Trial>) {
    trials.push(trial("a_trial_that_fails_leaves_nobody", fails));
}

/// A child that is killed when it is let go of, unless it has been waited for.
pub(crate) struct Kept(Option<Child>);

pub(crate) trait Start {
    /// Starts the program.
    fn start(&mut self) -> Kept;
}

impl Start for Command {
    fn start(&mut self) -> Kept {
        Kept(Some(self.spawn().expect("start")))
    }
}

impl Kept {
    /// All that it writes, and its end.
    pub(crate) fn output(mut self) -> Output {
        self.0.take().expect("it is let go of here").wait_with_output().expect("its end")
    }
}

impl Deref for Kept {
    type Target = Child;

    fn deref(&self) -> &Child {
        self.0.as_ref().expect("it is not let go of")
    }
}

impl DerefMut for Kept {
    fn deref_mut(&mut self) -> &mut Child {
        self.0.as_mut().expect("it is not let go of")
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            // One that has been waited for is left alone.
            let _ = child.kill().and_then(|()| child.wait().map(drop));
        }
    }
}

fn fails() {
    let failed = catch_unwind(|| {
        let daemon = Daemon::new(Arc::new(Streams::start().expect("streams")));
        let run = shoal_run(&daemon, "", &["x"]).stdin(Stdio::null()).start();
        let _client = daemon.accept(1);
        // As an assertion does, but without a word.
        resume_unwind(Box::new(run.id()))
    });
    let client: u32 = *failed.expect_err("it has failed").downcast().expect("a number");
    assert!(!std::fs::exists(format!("/proc/{client}")).expect("/proc"));
}
