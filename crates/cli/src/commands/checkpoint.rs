//! `shoal checkpoint`: a running process into a file.

use crate::print;
use ckpt::dump::Then;
use clap::Args;
use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use vocab::{Fault, Pid, Result};

/// Write a running process into a file, from which `shoal restore` makes it again
#[derive(Args, Debug)]
pub(crate) struct Checkpoint {
    /// A process of this machine that you may trace
    pid: i32,
    /// Where to; `-` for standard output
    #[arg(short, long, value_name = "FILE", required_unless_present = "dry_run")]
    output: Option<PathBuf>,
    /// End the process once it is written
    #[arg(long, conflicts_with = "go_on")]
    stop: bool,
    /// Let the process go on (the default)
    #[arg(long = "continue")]
    go_on: bool,
    /// Only say what of the process would not be carried, one thing on a line; the exit status is 1 if there is any
    #[arg(long)]
    dry_run: bool,
}

impl Checkpoint {
    pub(crate) fn run(self) -> Result<ExitCode> {
        if self.pid <= 0 {
            return Err(Fault::refused(format!("process {}: numbers of processes are above 0", self.pid)));
        }
        let pid = Pid(self.pid);
        if self.dry_run {
            let obstacles = ckpt::survey::survey(pid, Default::default())?.obstacles;
            obstacles.iter().try_for_each(|obstacle| print::out(&format!("{obstacle}\n")))?;
            return Ok(ExitCode::from(u8::from(!obstacles.is_empty())));
        }
        let then = if self.stop { Then::Ends } else { Then::GoesOn };
        match self.output {
            Some(path) if path.as_os_str() != "-" => into_file(pid, &path, then)?,
            _ => ckpt::dump::dump(pid, BufWriter::new(std::io::stdout().lock()), then)?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// The memory of a process is in it, so nobody else may read it.
const PRIVATE: u32 = 0o600;

/// The file has its name only when it is whole: an earlier one of that name is not lost to a failure.
fn into_file(pid: Pid, path: &Path, then: Then) -> Result<()> {
    let mut partial = path.as_os_str().to_owned();
    partial.push(".partial");
    let partial = PathBuf::from(partial);
    let failed = |e: std::io::Error| Fault::io(&e, format!("write {}", path.display()));
    // What an earlier failure has left is in the way; a link or a file of somebody else's must not be written to.
    let _none_left = std::fs::remove_file(&partial);
    let file = OpenOptions::new().write(true).create_new(true).mode(PRIVATE).open(&partial).map_err(failed)?;
    let whole = Whole { file: BufWriter::new(file), partial: &partial, path };
    let done = ckpt::dump::dump(pid, whole, then);
    if done.is_err() {
        let _nothing_to_remove = std::fs::remove_file(&partial);
    }
    done
}

/// A file that gets its name when it is flushed: that is what the writer of an image does last, before the process may end.
struct Whole<'a> {
    file: BufWriter<File>,
    partial: &'a Path,
    path: &'a Path,
}

impl Write for Whole<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.file.flush()?;
        std::fs::rename(self.partial, self.path)
    }
}
