//! `shoal mon export`: a trace for other programs.

use super::replay::{line, open};
use crate::print;
use clap::Args;
use sample::csv::Table;
use sample::text::Form;
use sample::Column;
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use vocab::{Fault, Result};

/// Print what was recorded
#[derive(Args, Debug)]
pub(crate) struct Export {
    /// What `shoal mon record` has written
    file: PathBuf,
    /// Only these numbers, as `cpu.all` [default: all]
    names: Vec<String>,
    /// Comma-separated values: a line for each sample, a column for each number; the default
    #[arg(long)]
    csv: bool,
    /// A JSON object on a line for each sample
    #[arg(long, conflicts_with_all = ["csv", "words"])]
    json: bool,
    /// An s-expression on a line for each sample
    #[arg(long, conflicts_with = "csv")]
    words: bool,
}

impl Export {
    pub(crate) fn run(self) -> Result<ExitCode> {
        let mut out = BufWriter::new(std::io::stdout().lock());
        let printed = match (self.json, self.words) {
            (true, _) => self.lines(Form::Json, &mut out),
            (_, true) => self.lines(Form::Words, &mut out),
            _ => self.table(&mut out),
        };
        let printed = printed.and_then(|cut| out.flush().map_err(fault).map(|()| cut));
        let cut = match printed {
            Ok(cut) => cut,
            Err(fault) => return print::unless_unread(Err(fault)).map(|()| ExitCode::SUCCESS),
        };
        if cut {
            kern::own::complain(format!("{} was cut off; this is what was whole", self.file.display()));
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Whether the trace was cut off.
    fn lines(&self, form: Form, out: &mut impl Write) -> Result<bool> {
        let mut reader = open(&self.file)?;
        while let Some(sample) = reader.next_sample()? {
            out.write_all(line(&sample, form, |column| self.wants(column)).as_bytes()).map_err(fault)?;
        }
        Ok(reader.is_cut())
    }

    fn wants(&self, column: &Column) -> bool {
        self.names.is_empty() || self.names.iter().any(|name| column.is_meant(name))
    }

    fn table(&self, out: &mut impl Write) -> Result<bool> {
        let mut table = Table::default();
        let mut reader = open(&self.file)?;
        while let Some(sample) = reader.next_sample()? {
            table.add(&sample.layout, |column| self.wants(column));
        }
        out.write_all(table.head().as_bytes()).map_err(fault)?;
        let mut reader = open(&self.file)?;
        while let Some(sample) = reader.next_sample()? {
            out.write_all(table.line(&sample).as_bytes()).map_err(fault)?;
        }
        Ok(reader.is_cut())
    }
}

fn fault(error: std::io::Error) -> Fault {
    Fault::io(&error, "print a trace")
}
