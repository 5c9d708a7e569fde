//! docs/semantics.md names a test for each promise, and each test is named there; docs/security.md names a scene for each attempt.

use crate::lab::{Doing, Res};
use std::collections::BTreeSet;
use std::path::Path;

/// `tests`: the names of all programs and scenes.
pub(crate) fn semantics(tests: &BTreeSet<String>) -> Res {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/semantics.md");
    let text = std::fs::read_to_string(&path).doing(format!("read {}", path.display()))?;
    let mut faults = Vec::new();
    let mut named = BTreeSet::new();
    for (number, line) in text.lines().enumerate().filter(|(_, line)| line.starts_with("<<<<<<<")) {
        faults.push(format!("line {}: a merge that was not finished: {line}", number + 1));
    }
    for (number, line) in text.lines().enumerate().filter(|(_, line)| line.starts_with("- ")) {
        let names: Vec<&str> = line
            .split_once("(test: ")
            .map(|(_, rest)| rest.split('`').skip(1).step_by(2).collect())
            .unwrap_or_default();
        if names.is_empty() {
            faults.push(format!("line {}: a promise without a test", number + 1));
        }
        for name in names {
            if !tests.contains(name) {
                faults.push(format!("line {}: there is no test {name}", number + 1));
            }
            named.insert(name.to_string());
        }
    }
    faults.extend(tests.difference(&named).map(|name| format!("{name} is not named")));
    match faults.is_empty() {
        true => Ok(()),
        false => Err(format!("docs/semantics.md:\n{}", faults.join("\n"))),
    }
}

/// The scenes of docs/security.md are there.
pub(crate) fn security(tests: &BTreeSet<String>) -> Res {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/security.md");
    let text = std::fs::read_to_string(&path).doing(format!("read {}", path.display()))?;
    let attempts = text.split_once("\n## Attempts\n").map(|(_, rest)| rest).unwrap_or_default();
    // Behind the head and the line below it.
    let rows = attempts.lines().filter(|line| line.starts_with('|')).skip(2);
    let (mut count, mut faults) = (0, Vec::new());
    for row in rows {
        let names: Vec<&str> = row.split('`').skip(1).step_by(2).filter(|name| !name.contains(' ')).collect();
        count += 1;
        faults.extend(names.iter().filter(|name| !tests.contains(**name)).map(|name| format!("there is no {name}")));
        if names.is_empty() {
            faults.push(format!("an attempt without a scene: {row}"));
        }
    }
    match faults.is_empty() && count > 0 {
        true => Ok(()),
        false => Err(format!("docs/security.md, {count} attempts:\n{}", faults.join("\n"))),
    }
}
