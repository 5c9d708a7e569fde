//! `shoal --run-dir PATH COMMAND…`: the command asks the daemon of that run directory, and so does what it starts.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use vocab::Fault;

const FLAG: &str = "--run-dir";

/// Executes this program anew without the flag, and with its meaning in the environment. Returns why that failed.
pub(crate) fn again(run_dir: &Path, words: Vec<OsString>) -> Fault {
    let Ok(run_dir) = std::path::absolute(run_dir) else {
        return Fault::refused(format!("{FLAG} {}: there is no such path", run_dir.display()));
    };
    let words = without(words);
    let mut command = Command::new("/proc/self/exe");
    if let Some(name) = words.first() {
        command.arg0(name);
    }
    // The daemons have a flag of that name of their own.
    match words.get(1).and_then(|word| word.to_str()) {
        Some(daemon @ ("front" | "node")) => command.args([daemon, FLAG]).arg(run_dir).args(&words[2..]),
        _ => command.args(words.iter().skip(1)).env("SHOAL_SOCKET", run_dir.join("shoal.sock")),
    };
    Fault::io(&command.exec(), "execute this program again")
}

/// The words of a command line without the flag, which stands before the command.
fn without(words: Vec<OsString>) -> Vec<OsString> {
    let mut rest = words.into_iter();
    let mut left: Vec<OsString> = rest.next().into_iter().collect();
    while let Some(word) = rest.next() {
        if word == OsStr::new(FLAG) {
            let _path = rest.next();
        } else if !word.to_string_lossy().starts_with("--run-dir=") {
            left.push(word);
            break;
        }
    }
    left.extend(rest);
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_flag_before_the_command_goes() {
        let left = |words: &[&str]| {
            let left = without(words.iter().map(OsString::from).collect());
            left.iter().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(left(&["shoal", "--run-dir", "/x", "run", "--run-dir", "y"]), "shoal run --run-dir y");
        assert_eq!(left(&["shoal", "--run-dir=/x", "ps"]), "shoal ps");
        assert_eq!(left(&["shoal", "ps"]), "shoal ps");
    }
}
