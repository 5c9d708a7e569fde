//! `shoal complete`: asked by the shells' completion functions (dist/completions), not by users.

use crate::{completion, print};
use clap::Args;
use std::ffi::OsString;
use std::process::ExitCode;
use vocab::Result;

/// Print what a shell can offer for a word of a command line: a line for each, the word, a tab and its meaning
#[derive(Args, Debug)]
pub(crate) struct Complete {
    /// The place of the word in the line; 0 is the program
    at: usize,
    /// The words of the command line
    #[arg(last = true, value_name = "WORD")]
    words: Vec<OsString>,
}

impl Complete {
    pub(crate) fn run(self) -> Result<ExitCode> {
        let at = self.at.min(self.words.len());
        let offers = completion::offers(crate::definition(), self.words, at);
        let line = |one: completion::Offer| format!("{}\t{}\n", one.word, one.meaning);
        // A word with such a character would be two offers.
        let words = offers.into_iter().filter(|one| !one.word.contains(['\n', '\t']));
        print::out(&words.map(line).collect::<String>()).map(|()| ExitCode::SUCCESS)
    }
}
