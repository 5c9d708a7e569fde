//! `shoal check`: what of the kernel is needed, and whether it is there.

use crate::print;
use clap::Args;
use kern::features::{self, Finding};
use serde::Serialize;
use std::process::ExitCode;
use vocab::Result;

/// Show what shoal needs of this machine's kernel and whether it is there
#[derive(Args, Debug)]
pub(crate) struct Check {
    /// Print a JSON array
    #[arg(long)]
    json: bool,
}

/// One fact in JSON.
#[derive(Serialize)]
struct Row {
    name: &'static str,
    purpose: &'static str,
    needed: bool,
    there: bool,
    detail: String,
}

impl Check {
    pub(crate) fn run(self) -> Result<ExitCode> {
        let findings = features::probe_all();
        if self.json {
            print::json(&findings.iter().map(row).collect::<Vec<Row>>())?;
        } else {
            findings.iter().try_for_each(|finding| print::out(&line(finding)))?;
        }
        let missing = findings.iter().filter(|finding| finding.needed && finding.there.is_err()).count();
        Ok(if missing == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

fn row(finding: &Finding) -> Row {
    Row {
        name: finding.name,
        purpose: finding.purpose,
        needed: finding.needed,
        there: finding.there.is_ok(),
        detail: finding.there.as_ref().map_or_else(ToString::to_string, Clone::clone),
    }
}

fn line(finding: &Finding) -> String {
    let state = match (&finding.there, finding.needed) {
        (Ok(_), _) => "yes    ",
        (Err(_), true) => "MISSING",
        (Err(_), false) => "no     ",
    };
    let detail = match &finding.there {
        Ok(detail) if detail.is_empty() => String::new(),
        Ok(detail) => format!(" ({detail})"),
        Err(fault) => format!("\n        {fault}"),
    };
    format!("{state} {}: {}{detail}\n", finding.name, finding.purpose)
}
