//! What runs on the front end: the command that was asked for, or an interactive shell that says where it is.

use crate::layout::{BIN_DIR, NODE_FILES, RUN_DIR};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::Path;
use std::process::Command;
use vocab::{Fault, Result};

/// The program to exec on the front end, with its arguments and environment. To be called on the front end, since the
/// shell needs a file there.
pub(crate) fn command(words: &[OsString], nodes: u32) -> Result<Command> {
    let mut command = match words.split_first() {
        Some((program, arguments)) => {
            let mut command = Command::new(program);
            command.args(arguments);
            command
        }
        None => shell(nodes)?,
    };
    command.env("PATH", search_path(std::env::var_os("PATH").as_deref()));
    command.env("BPFS_PATH", NODE_FILES);
    Ok(command)
}

/// The caller's PATH with the sandbox's program in front.
fn search_path(old: Option<&OsStr>) -> OsString {
    let mut path = OsString::from(BIN_DIR);
    path.push(":");
    path.push(old.unwrap_or(OsStr::new("/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")));
    path
}

fn shell(nodes: u32) -> Result<Command> {
    let shell = std::env::var_os("SHELL").filter(|shell| Path::new(shell).is_file()).unwrap_or("/bin/bash".into());
    let mut command = Command::new(&shell);
    if Path::new(&shell).file_name() == Some(OsStr::new("bash")) {
        let file = Path::new(RUN_DIR).join("bashrc");
        fs::write(&file, bashrc(nodes)).map_err(|e| Fault::io(&e, format!("write {}", file.display())))?;
        command.arg("--rcfile").arg(file).arg("-i");
    } else {
        command.env("PS1", "[shoal front end] $ ");
        let _ = std::io::Write::write_all(&mut std::io::stdout(), format!("{}\n", greeting(nodes)).as_bytes());
    }
    Ok(command)
}

/// The user's own settings, then ours: a prompt and one line on what to try.
fn bashrc(nodes: u32) -> String {
    format!(
        "for file in /etc/bash.bashrc ~/.bashrc; do [ -r \"$file\" ] && . \"$file\"; done; unset file PROMPT_COMMAND HISTFILE\n\
         PS1='[shoal front end] \\w\\$ '\nPATH={BIN_DIR}:${{PATH#{BIN_DIR}:}}\necho '{}'\n",
        greeting(nodes)
    )
}

fn greeting(nodes: u32) -> String {
    let (there, all) = match nodes {
        0 => return "A front end (this shell) without nodes. Try: shoal nodes; exit ends it all.".into(),
        1 => ("a node (n0)".into(), "0".into()),
        _ => (format!("{nodes} nodes (n0 to n{})", nodes - 1), format!("0-{}", nodes - 1)),
    };
    format!(
        "A front end (this shell) and {there}. Try: shoal nodes; shoal run -n {all} hostname; \
         shoal run sleep 100 & ps f; kill %1; exit ends it all."
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_comes_first_in_the_path() {
        assert_eq!(search_path(Some(OsStr::new("/bin"))), "/run/shoal/bin:/bin");
    }

    #[test]
    fn the_settings_are_a_shell_script() {
        let file = std::env::temp_dir().join(format!("shoal-bashrc.{}", std::process::id()));
        fs::write(&file, bashrc(4)).expect("a file in the temporary directory");
        let status = Command::new("bash").arg("-n").arg(&file).status().expect("bash is there");
        fs::remove_file(&file).expect("my file");
        assert!(status.success());
    }
}
