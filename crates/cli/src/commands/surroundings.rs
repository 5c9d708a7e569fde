//! Options of `shoal run` for the surroundings of a program: `--chdir`, `--env`, `--umask`.

use clap::Args;
use client::run::Surroundings;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use vocab::{Fault, Result};

/// See the module.
#[derive(Args, Debug, Default)]
pub(crate) struct Around {
    /// The program's working directory, which its node has
    #[arg(long, value_name = "DIR")]
    chdir: Option<PathBuf>,
    /// A variable of the program's environment; for several, give the option several times
    #[arg(long, value_name = "NAME=VALUE")]
    env: Vec<OsString>,
    /// The program's file mode creation mask, octal
    #[arg(long, value_name = "MODE", value_parser = mask)]
    umask: Option<u32>,
}

impl Around {
    /// # Errors
    /// `Refused` for what is no variable; `Sys` if there is no working directory to which a path is relative.
    pub(crate) fn surroundings(&self) -> Result<Surroundings> {
        let absolute = |path: &PathBuf| {
            let failed = |e| Fault::io(&e, format!("find {} from the working directory", path.display()));
            std::path::absolute(path).map_err(failed)
        };
        let directory = self.chdir.as_ref().map(absolute).transpose()?;
        let variables = self.env.iter().map(|text| variable(text)).collect::<Result<Vec<_>>>()?;
        let mut surroundings = Surroundings::default();
        (surroundings.directory, surroundings.variables, surroundings.umask) = (directory, variables, self.umask);
        Ok(surroundings)
    }
}

fn variable(text: &OsStr) -> Result<(OsString, OsString)> {
    let bytes = text.as_bytes();
    let at = bytes.iter().position(|byte| *byte == b'=').filter(|at| *at > 0);
    let at = at.ok_or_else(|| Fault::refused(format!("--env {}: wanted: NAME=VALUE", text.to_string_lossy())))?;
    Ok((OsStr::from_bytes(&bytes[..at]).into(), OsStr::from_bytes(&bytes[at + 1..]).into()))
}

fn mask(text: &str) -> std::result::Result<u32, String> {
    let mask = u32::from_str_radix(text, 8).ok().filter(|mask| *mask <= 0o777 && !text.starts_with('+'));
    mask.ok_or_else(|| format!("{text:?} is no mask: octal, 0 to 777"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_has_a_name_and_a_value() {
        let words = |text: &str| variable(OsStr::new(text));
        assert_eq!(words("A=b=c"), Ok(("A".into(), "b=c".into())));
        assert_eq!(words("A="), Ok(("A".into(), "".into())));
        assert!(["", "A", "=b", "="].iter().all(|text| words(text).is_err()));
    }

    #[test]
    fn a_mask_is_octal() {
        assert_eq!((mask("022"), mask("0"), mask("0777")), (Ok(0o22), Ok(0), Ok(0o777)));
        assert!(["", "8", "1000", "-1", "+2", "u=rwx"].iter().all(|text| mask(text).is_err()));
    }
}
