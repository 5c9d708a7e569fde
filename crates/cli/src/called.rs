//! Names by which this program is called for one of its commands, as links to it: `bpsh` is `shoal bpsh`.

use std::ffi::{OsStr, OsString};
use std::path::Path;

/// Names of links, each with its command.
const NAMES: &[(&str, &str)] = &[
    ("rsh", "rsh"),
    ("shoal-rsh", "rsh"),
    ("bpsh", "bpsh"),
    ("bpcp", "bpcp"),
    ("bpstat", "bpstat"),
    ("bpctl", "bpctl"),
];

/// The words of a command line, with the command behind the program where the program is called by a name of [`NAMES`].
pub(crate) fn words(given: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut words: Vec<OsString> = given.into_iter().collect();
    let name = words.first().and_then(|first| Path::new(first).file_name()).map(OsStr::to_os_string);
    if let Some((_, command)) = NAMES.iter().find(|(called, _)| name.as_deref() == Some(OsStr::new(called))) {
        words.insert(1, command.into());
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_a_command() {
        let words = |given: &[&str]| words(given.iter().map(OsString::from));
        assert_eq!(words(&["/usr/bin/rsh", "n1", "date"]), ["/usr/bin/rsh", "rsh", "n1", "date"]);
        assert_eq!(words(&["bpsh"]), ["bpsh", "bpsh"]);
        assert_eq!(words(&["shoal", "rsh", "n1"]), ["shoal", "rsh", "n1"]);
        assert!(words(&[]).is_empty());
    }
}
