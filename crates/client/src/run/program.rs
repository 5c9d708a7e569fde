//! What a program takes along from the process that starts it.

use kern::{own, pty, signal};
use std::ffi::{OsStr, OsString};
use std::io::IsTerminal;
use std::os::fd::AsFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use vocab::{Fault, Result};
use wire::run::{Limit, Program, Stdio, Window};

/// The program `argv` (its name first, never empty) with the surroundings of this process; `file`: what is executed, if not what the name says.
///
/// `terminal`: it gets one of its own, of the size and in the modes of ours.
///
/// # Errors
/// `Refused` without a name, `Sys` when the working directory or a limit cannot be read.
pub fn collect(argv: &[OsString], file: Option<&OsStr>, terminal: bool) -> Result<Program> {
    let name = argv.first().ok_or_else(|| Fault::refused("no program is named"))?;
    let cwd = match std::env::current_dir() {
        // It is deleted.
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => PathBuf::new(),
        read => read.map_err(|e| Fault::io(&e, "read the working directory"))?,
    };
    let limits = own::limits()?.into_iter().map(|(resource, soft, hard)| Limit { resource, soft, hard });
    Ok(Program {
        file: file.unwrap_or(name).as_bytes().to_vec(),
        argv: argv.iter().map(|a| a.as_bytes().to_vec().into()).collect(),
        env: own::environment().into_iter().map(Into::into).collect(),
        cwd: cwd.into_os_string().into_vec(),
        umask: own::umask()?,
        limits: limits.collect(),
        nice: own::nice()?,
        ignored: signal::inherited_ignored().0,
        stdio: if terminal { own_terminal() } else { Stdio::Pipes },
        blocked: signal::blocked()?.0,
        capabilities: None,
        personality: Some(own::personality()?),
        numbers: Vec::new(),
        user: None,
        view: None,
        places: Vec::new(),
    })
}

/// What a terminal of the program's own should be like: as ours is, or 24 by 80 where we have none.
fn own_terminal() -> Stdio {
    let (rows, columns) = window().unwrap_or((24, 80));
    let modes = pty::Modes::of(std::io::stdin().as_fd()).or_else(|_| pty::Modes::of(std::io::stdout().as_fd()));
    let term = modes.map(|m| m.bytes()).unwrap_or_default();
    Stdio::Terminal { window: Window { rows, columns }, term }
}

/// The window of the terminal that we have as standard input, or else output: (rows, columns).
pub(crate) fn window() -> Option<(u16, u16)> {
    pty::window(std::io::stdin().as_fd()).or_else(|| pty::window(std::io::stdout().as_fd()))
}

/// Where standard input is a terminal whose keys are to be the program's: stops while we are in the background of it, as whoever sets the modes of a
/// terminal does (SIGTTOU). A shell continues a job that it brings to the foreground only if it has stopped.
pub(crate) fn await_foreground() {
    let input = std::io::stdin();
    let input = input.as_fd();
    if let (Ok(modes), false) = (pty::Modes::of(input), pty::in_foreground(input)) {
        // Of those who ignore the signal, or cannot be continued, it is taken as it is.
        let _ = modes.set(input);
    }
}

/// Is standard input a terminal?
pub(crate) fn input_is_terminal() -> bool {
    std::io::stdin().is_terminal()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_has_its_arguments_and_our_surroundings() {
        let argv: Vec<OsString> = ["echo", "a b", ""].map(OsString::from).to_vec();
        let program = collect(&argv, None, false).expect("own surroundings can be read");
        assert_eq!(program.file, b"echo");
        assert_eq!(program.argv.len(), 3);
        assert_eq!(program.limits.len(), 16);
        assert!(program.env.iter().any(|line| line.starts_with(b"PATH=")));
        assert!(collect(&[], None, false).is_err());
    }
}
