//! What the programs of a node find of shoal on their machine: the daemon and the node files of their own space, whatever other daemons the machine has.

use kern::mount;
use local::daemon::{RUN_DIR, SPACE};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use vocab::Result;
use wire::run::Program;

/// Names the socket of a daemon, for whoever is outside of a node's programs.
const SOCKET: &[u8] = b"SHOAL_SOCKET=";
/// Names the directory of the node files, and where programs look without it.
const NODE_FILES: &[u8] = b"BPFS_PATH=";
const USUAL: &str = "/bpfs";

/// Shows the programs here the run directory of their daemon where commands look for it. The calling process has the mount namespace of the programs.
///
/// The socket of another daemon may be in the usual place. A mount over that would go when its directory is removed (linux: `detach_mounts`), as systemd does
/// with the directory of a service that ends; so the mount is at a place of its own, which nobody removes.
///
/// # Errors
/// `Sys` as mkdir(2) and mount(2).
pub(crate) fn show(run_dir: &Path) -> Result<()> {
    if run_dir == Path::new(RUN_DIR) {
        return Ok(());
    }
    mount::bind(run_dir, &mount::directory(Path::new(SPACE))?)
}

/// What the environment of a program says of its machine.
#[derive(Debug)]
pub(crate) struct Surroundings {
    node_files: Option<PathBuf>,
}

impl Surroundings {
    /// With the place of this node's files, if it has them.
    pub(crate) fn new(node_files: Option<&Path>) -> Surroundings {
        Surroundings { node_files: node_files.map(Path::to_owned) }
    }

    /// The program as it is to start here: what its caller's environment says of the caller's machine is no more, and what is true here is in its place.
    pub(crate) fn surround(&self, mut program: Program) -> Program {
        program.env.retain(|text| !text.starts_with(SOCKET));
        if let Some(at) = &self.node_files {
            program.env.retain(|text| !text.starts_with(NODE_FILES));
            if at != Path::new(USUAL) {
                program.env.push([NODE_FILES, at.as_os_str().as_bytes()].concat().into());
            }
        }
        program
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_of_the_callers_machine_stays_there() {
        let env = |at: Option<&str>| {
            let said = ["A=1", "SHOAL_SOCKET=/run/x/shoal.sock", "BPFS_PATH=/x", "SHOAL_SOCKETS=2"];
            let env = said.iter().map(|text| text.as_bytes().to_vec().into()).collect();
            let program = Surroundings::new(at.map(Path::new)).surround(Program { env, ..Program::default() });
            program.env.iter().map(|text| String::from_utf8_lossy(text).into_owned()).collect::<Vec<_>>()
        };
        assert_eq!(env(None), ["A=1", "BPFS_PATH=/x", "SHOAL_SOCKETS=2"]);
        assert_eq!(env(Some("/bpfs")), ["A=1", "SHOAL_SOCKETS=2"]);
        assert_eq!(env(Some("/y")), ["A=1", "SHOAL_SOCKETS=2", "BPFS_PATH=/y"]);
    }
}
