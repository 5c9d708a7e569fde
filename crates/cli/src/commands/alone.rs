//! Commands that are started for each process or each move, read without the options of all others: those take half a millisecond to list.

use super::{bpsh, copies, mover, moves, rsh, run, Command};
use clap::Args;
use std::ffi::OsString;

/// The command of a command line. `None`: another command, or a line on which something is wrong, of which the parser of all commands says what.
pub(crate) fn command(words: &[OsString]) -> Option<Command> {
    let words = words.get(1..)?;
    match words.first()?.to_str()? {
        "vessel" if words.len() == 1 => Some(Command::Vessel(mover::Vessel {})),
        "stand" if words.len() == 1 => Some(Command::Stand(mover::Stand {})),
        "mover" => read(words).map(Command::Mover),
        "ghost" => read::<mover::Ghost>(words).map(Command::Ghost),
        "copy" if words.len() == 1 => Some(Command::Copy(copies::Copy {})),
        "run" => read::<run::RunArgs>(words).map(Command::Run),
        "rsh" => read::<rsh::Rsh>(words).map(Command::Rsh),
        "session" => read::<rsh::Session>(words).map(Command::Session),
        "bpsh" => read::<bpsh::Bpsh>(words).map(Command::Bpsh),
        "move" => read::<moves::Move>(words).map(Command::Move),
        _ => None,
    }
}

/// The first word is the command's own.
fn read<T: Args>(words: &[OsString]) -> Option<T> {
    let options = T::augment_args(clap::Command::new("shoal"));
    T::from_arg_matches(&options.try_get_matches_from(words).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Arguments;
    use clap::Parser;

    /// Read both ways: the same, or not at all by its own options alone.
    #[test]
    fn a_line_means_the_same_without_the_options_of_others() {
        let lines = [
            "shoal vessel",
            "shoal stand",
            "shoal copy",
            "shoal mover --proc /p --channel-ports 7000-7100",
            "shoal ghost --socket /s --threads 5,6",
            "shoal run -n 0-3 --file /bin/true -- true -x --help",
            "shoal run true --version",
            "shoal rsh n1 -l root date",
            "shoal bpsh -a -p hostname",
            "shoal move --tell /t --executes /bin/true 5 3",
            "shoal move --from 3 --all",
        ];
        for line in lines {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            let all = Arguments::try_parse_from(&words).expect(line).command;
            assert_eq!(format!("{:?}", command(&words)), format!("Some({all:?})"), "{line}");
        }
        for line in [
            "shoal",
            "shoal run",
            "shoal run --help",
            "shoal stand x",
            "shoal move --from 3",
            "shoal ps",
            "shoal --run-dir /x run true",
        ] {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            assert!(command(&words).is_none(), "{line}");
        }
    }
}
