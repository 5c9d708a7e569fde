//! Surroundings of a program that its `shoal run` says anew: directory, environment, umask, and which of how many copies it is.

use local::Local;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use vocab::{Fault, NodeId, Pid, Result};
use wire::ask::{Answer, Ask};
use wire::run::{Program, COPIES, COPY};

/// See the module. Without a value the program has the caller's.
#[derive(Clone, Debug, Default)]
pub struct Surroundings {
    /// The working directory, from the root.
    pub directory: Option<PathBuf>,
    /// Names and values; the last value of a name counts.
    pub variables: Vec<(OsString, OsString)>,
    pub umask: Option<u32>,
    /// The number of this copy and the number of all copies, if there are several. The front end knows them of copies that it starts by itself.
    pub(super) copy: Option<(u32, u32)>,
}

impl Surroundings {
    /// Puts them in the place of the caller's.
    pub(super) fn set(&self, program: &mut Program) {
        if let Some(directory) = &self.directory {
            program.cwd = directory.clone().into_os_string().into_vec();
        }
        if let Some(umask) = self.umask {
            program.umask = umask;
        }
        let (copy, copies) = self.copy.unwrap_or((0, 1));
        program.set_variable(COPY.as_bytes(), copy.to_string().as_bytes());
        program.set_variable(COPIES.as_bytes(), copies.to_string().as_bytes());
        for (name, value) in &self.variables {
            program.set_variable(name.as_bytes(), value.as_bytes());
        }
    }

    /// Gives them to the calling process, which becomes the program by itself: all but the environment, which is returned. Programs are looked up in the new PATH.
    ///
    /// # Errors
    /// `Sys` when the directory cannot be entered.
    pub(super) fn take(&self, socket: &Path) -> Result<Vec<Vec<u8>>> {
        if let Some(directory) = &self.directory {
            enter(directory)?;
        }
        if let Some(umask) = self.umask {
            kern::own::set_umask(umask);
        }
        let mut program =
            Program { env: kern::own::environment().into_iter().map(Into::into).collect(), ..Program::default() };
        // The caller may have moved since it was told where it is.
        if let Some(node) = own_node(socket) {
            program.set_node(node);
        }
        self.set(&mut program);
        for (name, value) in self.variables.iter().filter(|(name, _)| name == "PATH") {
            std::env::set_var(name, value);
        }
        Ok(program.env.into_iter().map(Into::into).collect())
    }
}

fn own_node(socket: &Path) -> Option<NodeId> {
    match Local::connect(socket).ok()?.ask(&Ask::Where { pid: Pid::NONE }).ok()? {
        Answer::Where { node, .. } => Some(node),
        _ => None,
    }
}

fn enter(directory: &Path) -> Result<()> {
    let failed = |e: std::io::Error| Fault::io(&e, format!("enter the working directory {}", directory.display()));
    std::env::set_current_dir(directory).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program() -> Program {
        let env = ["A=1", "SHOAL_COPY=7", "AB=2", "A=3"].map(|text| text.as_bytes().to_vec().into()).to_vec();
        Program { env, cwd: b"/x".to_vec(), umask: 0o22, ..Program::default() }
    }

    fn environment(program: &Program) -> Vec<String> {
        program.env.iter().map(|text| String::from_utf8_lossy(text).into_owned()).collect()
    }

    #[test]
    fn without_a_word_a_program_has_the_callers() {
        let mut it = program();
        Surroundings::default().set(&mut it);
        assert_eq!((it.cwd.as_slice(), it.umask), (&b"/x"[..], 0o22));
        assert_eq!(environment(&it), ["A=1", "AB=2", "A=3", "SHOAL_COPY=0", "SHOAL_COPIES=1"]);
    }

    #[test]
    fn what_is_said_is_in_the_place_of_the_callers() {
        let mut it = program();
        let variables = [("A", "x=y"), ("NEW", ""), ("A", "z")].map(|(name, value)| (name.into(), value.into()));
        let said = Surroundings {
            directory: Some("/y".into()),
            variables: variables.to_vec(),
            umask: Some(0),
            copy: Some((2, 3)),
        };
        said.set(&mut it);
        assert_eq!((it.cwd.as_slice(), it.umask), (&b"/y"[..], 0));
        assert_eq!(environment(&it), ["AB=2", "SHOAL_COPY=2", "SHOAL_COPIES=3", "NEW=", "A=z"]);
    }
}
