//! `skip.toml`: which program is known to fail in which mode (scenes: mode `case`), why, and since when.

use super::{Doing, Res};
use serde::Deserialize;
use std::path::Path;

/// One entry.
#[derive(Deserialize, Clone, Debug)]
#[serde(deny_unknown_fields)]
pub(crate) struct Skip {
    pub(crate) program: String,
    pub(crate) mode: String,
    pub(crate) reason: String,
    pub(crate) date: String,
    /// It fails by chance, so that it passes is no fault of the entry.
    #[serde(default)]
    pub(crate) by_chance: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    #[serde(default)]
    skip: Vec<Skip>,
}

/// Reads the list; an entry for a program or mode that is not there, or without a reason or date, is an error.
pub(crate) fn read(path: &Path, programs: &[String], modes: &[&str], scenes: &[String]) -> Res<Vec<Skip>> {
    let text = std::fs::read_to_string(path).doing(format!("read {}", path.display()))?;
    let list: List = toml::from_str(&text).doing(format!("understand {}", path.display()))?;
    for skip in &list.skip {
        let what = format!("skip.toml: {} in mode {}", skip.program, skip.mode);
        let of_case = skip.mode == "case";
        if !(if of_case { scenes } else { programs }).contains(&skip.program) {
            return Err(format!("{what}: there is no such program or scene"));
        }
        if !of_case && !modes.contains(&skip.mode.as_str()) {
            return Err(format!("{what}: there is no such mode"));
        }
        if skip.reason.trim().is_empty() || skip.date.len() != 10 {
            return Err(format!("{what}: needs a reason and a date (YYYY-MM-DD)"));
        }
    }
    Ok(list.skip)
}
