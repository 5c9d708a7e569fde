//! `shoal restore`: a file into a running process.

use crate::imagefile;
use clap::Args;
use kern::wait::Change;
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use vocab::{Exit, Fault, Pid, Result};

/// Make the process of a checkpoint again, with its PID, and let it run on
#[derive(Args, Debug)]
pub(crate) struct Restore {
    /// What `shoal checkpoint` has written; `-` for standard input
    file: PathBuf,
    /// Do not wait for its end
    #[arg(long)]
    detach: bool,
    /// Also on a processor that is not as the process has found its own: it may go wrong at any time
    #[arg(long)]
    any_processor: bool,
    /// Write the PID and a newline to this descriptor once the process runs
    #[arg(long, value_name = "FD")]
    ready_fd: Option<i32>,
}

impl Restore {
    pub(crate) fn run(self) -> Result<ExitCode> {
        // First, before anything else may take that number.
        let ready_fd = self.ready_fd.map(kern::ns::inherited).transpose()?;
        kern::own::raise_files()?;
        let pid = match self.file.as_os_str() == "-" {
            true => ckpt::restore::restore(std::io::stdin().lock(), self.any_processor)?,
            false => ckpt::restore::restore(std::io::BufReader::new(imagefile::open(&self.file)?), self.any_processor)?,
        };
        if let Some(fd) = ready_fd {
            let told = File::from(fd).write_all(format!("{pid}\n").as_bytes());
            told.map_err(|e| Fault::io(&e, "tell that the process runs"))?;
        }
        if self.detach {
            return Ok(ExitCode::SUCCESS);
        }
        ends_as(pid)
    }
}

/// Ends as the process does: with its status, or of the same signal.
fn ends_as(pid: Pid) -> Result<ExitCode> {
    kern::signal::ignore_from_terminal()?;
    let waited = kern::wait::ended(pid).map_err(|errno| Fault::sys(errno, format!("wait for process {pid}")))?;
    match waited.change {
        Change::Ended(Exit::Code(code)) => Ok(ExitCode::from(code)),
        Change::Ended(Exit::Killed { sig, .. }) => {
            kern::signal::suffer(sig)?;
            Ok(ExitCode::from(128 + sig.number()))
        }
        other => Err(Fault::bug(format!("process {pid} ended with {other:?}"))),
    }
}
