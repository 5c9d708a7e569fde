//! `shoal image`: what is in a checkpoint.

use crate::{imagefile, print};
use clap::Args;
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use vocab::{Fault, Result};

/// Print what is in a checkpoint
#[derive(Args, Debug)]
pub(crate) struct Image {
    /// What `shoal checkpoint` has written; `-` for standard input
    file: PathBuf,
    /// A JSON object on a line for each record
    #[arg(long)]
    json: bool,
}

impl Image {
    pub(crate) fn run(self) -> Result<ExitCode> {
        let file: Box<dyn Read> = match self.file.as_os_str() == "-" {
            true => Box::new(std::io::stdin().lock()),
            false => Box::new(BufReader::new(imagefile::open(&self.file)?)),
        };
        let mut out = BufWriter::new(std::io::stdout().lock());
        let shown = match self.json {
            true => image::show::as_json(file, &mut out),
            false => image::show::as_words(file, &mut out),
        };
        let printed = shown.and_then(|()| out.flush().map_err(|e| Fault::io(&e, "print an image")));
        print::unless_unread(printed).map(|()| ExitCode::SUCCESS)
    }
}
