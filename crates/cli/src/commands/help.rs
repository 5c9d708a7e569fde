//! `shoal help`: chapters of the guide, and what `--help` says of a command.

use crate::{guide, print};
use clap::Args;
use std::io::{IsTerminal, Write};
use std::os::fd::AsFd;
use std::process::{Command, ExitCode, Stdio};
use vocab::{Fault, Result};

/// Longer lines are hard to read.
const WIDEST: usize = 100;
/// Where the output is no terminal.
const USUAL: usize = 80;

/// Show a chapter of the guide, or the options of a command; without a word the list of chapters
#[derive(Args, Debug)]
pub(crate) struct Help {
    /// A topic of the guide, or a command
    #[arg(value_name = "TOPIC")]
    words: Vec<String>,
}

impl Help {
    pub(crate) fn run(self) -> Result<ExitCode> {
        let text = match self.words.as_slice() {
            [] => topics(),
            words => match of_command(words) {
                Some(text) => text,
                None => of_topic(words)?,
            },
        };
        show(&text).map(|()| ExitCode::SUCCESS)
    }
}

fn topics() -> String {
    let width = guide::chapters().map(|chapter| chapter.topic().len()).max().unwrap_or_default();
    let lines = guide::chapters().map(|chapter| format!("  {:width$}  {}\n", chapter.topic(), chapter.title));
    format!(
        "The guide, by topics (shoal help TOPIC):\n\n{}\nshoal help COMMAND says what the options of a command are; shoal --help lists all commands.\n",
        lines.collect::<String>()
    )
}

/// The help of a command, or of a command within one (`job submit`); then where the guide begins to tell of the command.
fn of_command(words: &[String]) -> Option<String> {
    let mut found = &mut crate::definition();
    found.build();
    for word in words {
        found = found.find_subcommand_mut(word)?;
    }
    let help = found.render_long_help();
    let more = guide::naming(&words[0]).map(|chapter| format!("\nThe guide: shoal help {}\n", chapter.topic()));
    Some(format!("{}\n{}", help.to_string().trim_end(), more.unwrap_or_default()))
}

/// # Errors
/// `Refused` for what is neither a command nor a topic.
fn of_topic(words: &[String]) -> Result<String> {
    let found = match words {
        [word] => guide::chapter(word),
        _ => None,
    };
    let none = || format!("there is no command and no topic {:?} (shoal help lists the topics)", words.join(" "));
    found.map(|chapter| chapter.rendered(width())).ok_or_else(|| Fault::refused(none()))
}

fn width() -> usize {
    let columns = kern::pty::window(std::io::stdout().as_fd()).map(|(_, columns)| usize::from(columns));
    columns.filter(|columns| *columns > 0).unwrap_or(USUAL).clamp(20, WIDEST)
}

/// On a terminal by the pager that the user has chosen, if there is one.
fn show(text: &str) -> Result<()> {
    let pager = std::env::var("PAGER").ok().filter(|pager| !pager.is_empty() && std::io::stdout().is_terminal());
    match pager.and_then(|pager| paged(&pager, text)) {
        Some(()) => Ok(()),
        None => print::out(text),
    }
}

/// `None`: the pager cannot be started.
fn paged(pager: &str, text: &str) -> Option<()> {
    let mut child = Command::new("/bin/sh").args(["-c", pager]).stdin(Stdio::piped()).spawn().ok()?;
    if let Some(mut input) = child.stdin.take() {
        // The reader may leave before the end.
        let _ = input.write_all(text.as_bytes());
    }
    child.wait().ok().filter(std::process::ExitStatus::success).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(String::from).collect()
    }

    #[test]
    fn commands_have_their_own_help_and_topics_are_no_commands() {
        let run = of_command(&words("run")).expect("a command");
        assert!(run.contains("Usage: shoal run [OPTIONS] <PROGRAM>..."), "{run}");
        assert!(run.ends_with("The guide: shoal help running\n"), "{run}");
        assert!(of_command(&words("job submit")).is_some_and(|text| text.contains("Usage: shoal job submit")));
        for chapter in guide::chapters() {
            assert!(of_command(&[chapter.topic()]).is_none(), "{} is a command", chapter.topic());
            assert!(of_topic(&[chapter.topic()]).is_ok());
            assert!(topics().contains(chapter.title));
        }
        assert!(of_topic(&words("nonsense")).is_err());
        assert!(of_topic(&words("running fast")).is_err());
    }
}
