//! `shoal restore`: a file into a running process.

use crate::imagefile;
use ckpt::claims::Owner;
use ckpt::restore::restore;
use clap::Args;
use kern::wait::Change;
use std::fs::File;
use std::io::{BufReader, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
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
    /// Believe a file of another user's what it says of the rights of its process
    #[arg(long)]
    trust: bool,
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
            true => {
                let input = std::io::stdin().lock();
                let owner = self.owner(input.as_fd())?;
                restore(input, self.any_processor, owner)?
            }
            false => {
                let file = imagefile::open(&self.file)?;
                let owner = self.owner(file.as_fd())?;
                restore(BufReader::new(file), self.any_processor, owner)?
            }
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

impl Restore {
    /// Whose word the image is, where root restores that of somebody else.
    fn owner(&self, image: BorrowedFd<'_>) -> Result<Option<Owner>> {
        let failed = |e: std::io::Error| Fault::io(&e, "look at the image");
        let file = File::from(image.try_clone_to_owned().map_err(failed)?).metadata().map_err(failed)?;
        let counts = file.is_file() && file.uid() != 0 && !self.trust && kern::own::is_root();
        Ok(counts.then_some(Owner { uid: file.uid(), gid: file.gid() }))
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
