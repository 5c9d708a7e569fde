//! `shoal`: every command of the product, one file each in [`commands`]. A library, so that man pages are made from the same definitions (dist/manual).
#![forbid(unsafe_code)]

mod address;
mod called;
mod commands;
mod completion;
mod config;
mod elsewhere;
mod guide;
mod imagefile;
mod keyfile;
mod log;
mod print;

use clap::{CommandFactory, Parser};
use commands::Command;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

const AFTER: &str = "`shoal help` lists the chapters of the guide.";

/// One process space for a cluster of Linux machines.
#[derive(Parser, Debug)]
#[command(name = "shoal", version, about, disable_help_subcommand = true, after_help = AFTER)]
struct Arguments {
    /// Ask the daemon with this run directory, as with SHOAL_SOCKET=PATH/shoal.sock in the environment
    #[arg(long, value_name = "PATH")]
    run_dir: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

/// The whole program.
pub fn main() -> ExitCode {
    kern::stack::with_room(begin)
}

/// The commands and options as clap has them; what is hidden is marked so.
pub fn definition() -> clap::Command {
    Arguments::command()
}

fn begin() -> ExitCode {
    let words = words();
    let arguments = match commands::alone(&words) {
        Some(command) => Arguments { run_dir: None, command },
        None => match Arguments::try_parse_from(&words) {
            Ok(arguments) => arguments,
            Err(error) => return usage(&error),
        },
    };
    let failure = arguments.command.failure_status();
    if let Some(run_dir) = arguments.run_dir {
        kern::own::complain(elsewhere::again(&run_dir, words));
        return ExitCode::from(failure);
    }
    // Any other command would do with it what its user likes: take the number of any process that there is going to be.
    let kept = arguments.command.may_be_favoured() || !kern::own::is_favoured();
    let allowed = if kept { Ok(()) } else { kern::capability::give_up() };
    match allowed.and_then(|()| arguments.command.run()) {
        Ok(status) => status,
        Err(fault) => {
            kern::own::complain(fault);
            ExitCode::from(failure)
        }
    }
}

/// A program with an image restores that, whatever it is called: its arguments are those of `shoal restore`.
fn words() -> Vec<OsString> {
    let own = imagefile::is_own().then(|| ["shoal", "restore", imagefile::OWN].map(OsString::from));
    match own {
        Some(first) => first.into_iter().chain(std::env::args_os().skip(1)).collect(),
        None => called::words(std::env::args_os()),
    }
}

/// Help and version as asked for; a mistake in the arguments as clap words it, in one line. `shoal run` keeps 2 free for the program.
fn usage(error: &clap::Error) -> ExitCode {
    use clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
    if error.use_stderr() && error.kind() != DisplayHelpOnMissingArgumentOrSubcommand {
        kern::own::complain(mistake(&error.to_string()));
    } else {
        // Nobody reads it where it cannot be printed.
        let _ = error.print();
    }
    let run = words().get(1).is_some_and(|word| ["run", "rsh", "bpsh"].iter().any(|own| word == own));
    match (error.use_stderr(), run) {
        (false, _) => ExitCode::SUCCESS,
        (true, true) => ExitCode::from(client::run::FAILED),
        (true, false) => ExitCode::from(2),
    }
}

/// The mistake, without the usage that follows it.
fn mistake(text: &str) -> String {
    let said = text.split("\n\n").next().unwrap_or_default().trim_start_matches("error: ");
    let line: Vec<&str> = said.lines().map(str::trim).collect();
    format!("{} (--help says more)", line.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistake_in_the_arguments_is_one_line() {
        let told = |words: &[&str]| Arguments::try_parse_from(words).map_err(|error| mistake(&error.to_string()));
        let missing = "the following required arguments were not provided: <PROGRAM>... (--help says more)";
        assert_eq!(told(&["shoal", "run"]).err().as_deref(), Some(missing));
        let unknown = "unrecognized subcommand 'nonsense' (--help says more)";
        assert_eq!(told(&["shoal", "nonsense"]).err().as_deref(), Some(unknown));
    }
}
