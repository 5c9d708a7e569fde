//! `shoal check`: what of the kernel is needed, and whether it is there.

use crate::print;
use clap::Args;
use kern::features::{self, Finding};
use serde::Serialize;
use std::process::ExitCode;
use vocab::Result;

/// Show what shoal needs of this machine's kernel, what it can do without and what is lost then, and whether each is there
///
/// The exit status is 1 if something needed is missing.
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
    without: Option<&'static str>,
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
            print::out(&summary(&findings))?;
        }
        let whole = missing(&findings).all(|finding| finding.without.is_some());
        Ok(if whole { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

fn missing(findings: &[Finding]) -> impl Iterator<Item = &Finding> {
    findings.iter().filter(|finding| finding.there.is_err())
}

fn row(finding: &Finding) -> Row {
    Row {
        name: finding.name,
        purpose: finding.purpose,
        needed: finding.without.is_none(),
        without: finding.without,
        there: finding.there.is_ok(),
        detail: finding.there.as_ref().map_or_else(ToString::to_string, Clone::clone),
    }
}

fn line(finding: &Finding) -> String {
    let rank = if finding.without.is_none() { "needed" } else { "wished" };
    let (state, detail) = match (&finding.there, finding.without) {
        (Ok(detail), _) if detail.is_empty() => ("yes    ", String::new()),
        (Ok(detail), _) => ("yes    ", format!(" ({detail})")),
        (Err(fault), None) => ("MISSING", format!("\n        {fault}\n        without it shoal does not work here")),
        (Err(fault), Some(lost)) => ("no     ", format!("\n        {fault}\n        lost without it: {lost}")),
    };
    format!("{state} {rank} {}: {}{detail}\n", finding.name, finding.purpose)
}

/// The last line, for who reads no other.
fn summary(findings: &[Finding]) -> String {
    let names = |needed: bool| {
        let these = missing(findings).filter(|finding| finding.without.is_none() == needed);
        these.map(|finding| finding.name).collect::<Vec<_>>().join(", ")
    };
    match (names(true).as_str(), names(false).as_str()) {
        ("", "") => "all that is needed is there; so is all that is wished\n".into(),
        ("", wished) => format!("all that is needed is there; shoal does without: {wished}\n"),
        (needed, "") => format!("needed and missing: {needed}\n"),
        (needed, wished) => format!("needed and missing: {needed}; shoal does without: {wished}\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vocab::Fault;

    fn finding(name: &'static str, without: Option<&'static str>, is_there: bool) -> Finding {
        let there = if is_there { Ok(String::new()) } else { Err(Fault::refused("it is off")) };
        Finding { name, purpose: "what for", without, there }
    }

    #[test]
    fn each_line_tells_what_is_lost() {
        assert_eq!(line(&finding("a", None, true)), "yes     needed a: what for\n");
        let lost = "no      wished b: what for\n        it is off\n        lost without it: this\n";
        assert_eq!(line(&finding("b", Some("this"), false)), lost);
        let fails = "MISSING needed c: what for\n        it is off\n        without it shoal does not work here\n";
        assert_eq!(line(&finding("c", None, false)), fails);
    }

    #[test]
    fn the_last_line_tells_whether_it_will_do() {
        let told = |needed, wished| summary(&[finding("a", None, needed), finding("b", Some("this"), wished)]);
        assert_eq!(told(true, true), "all that is needed is there; so is all that is wished\n");
        assert_eq!(told(true, false), "all that is needed is there; shoal does without: b\n");
        assert_eq!(told(false, false), "needed and missing: a; shoal does without: b\n");
        assert_eq!(told(false, true), "needed and missing: a\n");
    }
}
