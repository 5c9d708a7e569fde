//! `shoal mon`: the load of the machines (docs/monitor.md).

mod concentrate;
mod export;
mod record;
mod replay;
mod sample;
mod serve;

use clap::{Args, Subcommand};
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use tracing::warn;
use vocab::{Fault, Result};

/// The load of the machines: take samples, keep them in a file, serve them (docs/monitor.md tells the protocol)
#[derive(Args, Debug)]
pub(crate) struct Mon {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand, Debug)]
enum Verb {
    Sample(sample::Sample),
    Serve(serve::Serve),
    Concentrate(concentrate::Concentrate),
    Record(record::Record),
    Replay(replay::Replay),
    Export(export::Export),
}

impl Mon {
    pub(crate) fn run(self) -> Result<ExitCode> {
        match self.verb {
            Verb::Sample(verb) => verb.run(),
            Verb::Serve(verb) => verb.run(),
            Verb::Concentrate(verb) => verb.run(),
            Verb::Record(verb) => verb.run(),
            Verb::Replay(verb) => verb.run(),
            Verb::Export(verb) => verb.run(),
        }
    }
}

/// The socket of a machine's monitor, in the directory of its daemon.
const SOCKET: &str = "mon";

/// The monitor of a daemon's machine: a process of its own, so that whatever is asked of it is no work of the daemon's. It ends with the daemon.
pub(crate) struct Monitor {
    process: Option<Child>,
}

impl Monitor {
    /// Starts it for the daemon of `run_dir`, which is the calling process; that of a `node` counts the processes of the space there. A daemon serves without it too, should it not start.
    ///
    /// # Errors
    /// `Refused` for a wrong address in the configuration file.
    pub(crate) fn start(run_dir: &Path, listen: Option<&str>, node: bool) -> Result<Monitor> {
        let listen = match listen {
            Some("none") => None,
            said => {
                let address = crate::config::setting(said, "mon_listen", crate::address::monitor)?;
                Some(address.unwrap_or_else(|| ([127, 0, 0, 1], crate::address::MON_PORT).into()))
            }
        };
        // The daemon makes it only later, and the monitor would find nowhere to serve.
        let run_dir = kern::mount::directory(run_dir)?;
        let mut command = Command::new("/proc/self/exe");
        command.args(["mon", "serve", "--daemon", &std::process::id().to_string(), "--socket"]);
        command.arg(run_dir.join(SOCKET));
        command.args(listen.iter().flat_map(|address| ["--listen".to_string(), address.to_string()]));
        command.args(node.then_some("--count"));
        command.current_dir("/").stdin(Stdio::null()).stdout(Stdio::null());
        std::os::unix::process::CommandExt::arg0(&mut command, "shoal");
        let started = command.spawn().map_err(|e| Fault::io(&e, "start the monitor"));
        Ok(Monitor { process: started.map_err(|fault| warn!(%fault, "this machine has no monitor")).ok() })
    }
}

impl Drop for Monitor {
    /// At the daemon's orderly end; at any other the kernel ends it.
    fn drop(&mut self) {
        if let Some(process) = &mut self.process {
            // It may have ended.
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}
