//! `shoal restore`: a file into a running process.

use super::restore_elsewhere;
use super::restore_elsewhere::{become_it, on_a_node};
use super::restored::{accompany, Reads};
use crate::imagefile;
use ckpt::claims::Owner;
use ckpt::whole::{restore, restore_into};
use clap::Args;
use std::fs::File;
use std::io::{BufReader, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::PathBuf;
use std::process::ExitCode;
use vocab::{Exit, Fault, NodeId, Pid, Result};

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
    #[arg(long, value_name = "FD", conflicts_with = "node")]
    ready_fd: Option<i32>,
    /// As a process of the space, on this node (a number or a name): with its PID, and the streams of this command
    #[arg(short = 'n', long = "node", value_name = "NODE", value_parser = super::node_names::node)]
    node: Option<NodeId>,
    /// This very process is to be it: what is read is the image, and then what it reads
    #[arg(long, hide = true)]
    within: bool,
    /// That process is to be it, when a byte has come from standard output
    #[arg(long, hide = true, value_name = "PID")]
    into: Option<i32>,
    /// Whose word it is
    #[arg(long, hide = true, value_name = "UID")]
    of: Option<u32>,
}

impl Restore {
    pub(crate) fn run(self) -> Result<ExitCode> {
        if let Some(node) = self.node {
            return self.elsewhere(node);
        }
        if self.within {
            return become_it(&self.handed_on(None));
        }
        if let Some(pid) = self.into {
            let owner = self.of.map(|uid| Owner { uid });
            restore_elsewhere::when_told()?;
            return restore_into(Pid(pid), restore_elsewhere::input()?, self.any_processor, owner)
                .map(|()| ExitCode::SUCCESS);
        }
        // First, before anything else may take that number.
        let ready_fd = self.ready_fd.map(kern::ns::inherited).transpose()?;
        let (pid, elsewhere) = match self.file.as_os_str() == "-" {
            true => {
                let input = std::io::stdin();
                let owner = self.owner(input.as_fd())?;
                restore(input, self.any_processor, owner)?
            }
            false => {
                let file = imagefile::open(&self.file)?;
                let owner = self.owner(file.as_fd())?;
                restore(BufReader::new(file), self.any_processor, owner)?
            }
        };
        for group in elsewhere {
            eprintln!("shoal: process {pid} is not in its cgroup {group}");
        }
        if let Some(fd) = ready_fd {
            let told = File::from(fd).write_all(format!("{pid}\n").as_bytes());
            told.map_err(|e| Fault::io(&e, "tell that the process runs"))?;
        }
        if self.detach {
            return Ok(ExitCode::SUCCESS);
        }
        ended_as(pid, accompany(pid, Reads::Itself)?)
    }
}

impl Restore {
    fn elsewhere(&self, node: NodeId) -> Result<ExitCode> {
        if node.is_front() {
            return Err(Fault::refused(
                "restore on the front end as a process of a node: without -n it is one of this machine",
            ));
        }
        if self.file.as_os_str() == "-" {
            return Err(Fault::refused("an image that is to be restored on a node must be in a file"));
        }
        let file = imagefile::open(&self.file)?;
        let owner = self.owner(file.as_fd())?;
        let pid = on_a_node(node, file, &self.handed_on(owner), self.detach)?;
        if self.detach {
            Ok(ExitCode::SUCCESS)
        } else {
            ended_as(pid, accompany(pid, Reads::Command)?)
        }
    }

    /// What the same command on the node is told, or another process there.
    fn handed_on(&self, owner: Option<Owner>) -> Vec<String> {
        let any = self.any_processor.then(|| vec!["--any-processor".to_string()]);
        let owner = self.of.or(owner.map(|owner| owner.uid)).map(|uid| vec!["--of".to_string(), uid.to_string()]);
        any.into_iter().chain(owner).flatten().collect()
    }

    /// The owner of the image, if root restores somebody else's: the owner of a file, of a pipe with a name or without, of a terminal.
    ///
    /// # Errors
    /// `Refused` for what is root's and anybody may write.
    fn owner(&self, image: BorrowedFd<'_>) -> Result<Option<Owner>> {
        /// Group and others: with an access control list the group's bits are what anybody in the list may (acl(5)).
        const OTHERS_WRITE: u32 = 0o022;
        let failed = |e: std::io::Error| Fault::io(&e, "look at the image");
        let file = File::from(image.try_clone_to_owned().map_err(failed)?).metadata().map_err(failed)?;
        if self.trust || !kern::own::is_root() {
            return Ok(None);
        }
        if file.uid() != 0 {
            return Ok(Some(Owner { uid: file.uid() }));
        }
        // A socket has a mode that says nothing (linux: `sock_alloc`).
        match file.mode() & OTHERS_WRITE == 0 || file.file_type().is_socket() {
            true => Ok(None),
            false => Err(Fault::refused(format!(
                "others than root may write the image (mode {:o}): with --trust it is believed all the same",
                file.mode() & 0o7777
            ))),
        }
    }
}

/// Ends as the process has: with its status, or of the same signal.
fn ended_as(pid: Pid, exit: Exit) -> Result<ExitCode> {
    match exit {
        Exit::Code(code) => Ok(ExitCode::from(code)),
        Exit::Killed { sig, .. } => {
            kern::signal::suffer(sig)?;
            Ok(ExitCode::from(128 + sig.number()))
        }
        other => Err(Fault::bug(format!("process {pid} ended with {other:?}"))),
    }
}
