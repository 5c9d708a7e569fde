//! The command line of rsh(1), with the options that launchers give to ssh(1) too.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use vocab::{Fault, Result};

/// Options that change nothing here: encryption, forwarding, terminals, talk.
const IGNORED: &[u8] = b"xXYqQ46TtaACkKvdG";
/// The same, with a value.
const IGNORED_WITH_VALUE: &[u8] = b"oipcFmbESB";

/// What is asked for.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Line {
    pub(super) host: String,
    pub(super) user: Option<String>,
    pub(super) no_input: bool,
    /// For the shell: the words, joined by blanks.
    pub(super) command: OsString,
}

impl Line {
    /// Options stand before the host or behind it.
    ///
    /// # Errors
    /// `Refused`, with what is missing or not known.
    pub(super) fn parse(words: &[OsString]) -> Result<Line> {
        let (mut user, mut no_input, mut host) = (None, false, None);
        let mut rest = words.iter();
        let command = loop {
            let Some(word) = rest.next() else { break None };
            match (word.as_bytes(), &host) {
                // Behind it the command begins, or before the host, the host.
                (b"--", _) => {}
                ([b'-', letters @ ..], _) if !letters.is_empty() => {
                    options(letters, &mut rest, &mut user, &mut no_input)?
                }
                (_, None) => host = Some(text(word)?),
                _ => break Some(word),
            }
        };
        let host = host.ok_or_else(|| Fault::refused("no host is named"))?;
        let first = command.ok_or_else(|| Fault::refused(format!("no command is given for {host}")))?;
        let command = std::iter::once(first).chain(rest).map(|word| word.as_bytes()).collect::<Vec<_>>().join(&b' ');
        let (at, host) = match host.split_once('@') {
            Some((at, host)) => (Some(at.to_string()), host.to_string()),
            None => (None, host),
        };
        Ok(Line { host, user: user.or(at), no_input, command: OsString::from_vec(command) })
    }
}

/// Letters of one word, and a value from the next one.
fn options<'w>(
    letters: &[u8],
    rest: &mut impl Iterator<Item = &'w OsString>,
    user: &mut Option<String>,
    no_input: &mut bool,
) -> Result<()> {
    for (n, letter) in letters.iter().enumerate() {
        if *letter == b'n' {
            *no_input = true;
        } else if *letter == b'l' || IGNORED_WITH_VALUE.contains(letter) {
            let missing = || Fault::refused(format!("-{} needs a value", *letter as char));
            let value = match &letters[n + 1..] {
                [] => rest.next().ok_or_else(missing)?.clone(),
                value => OsStr::from_bytes(value).to_os_string(),
            };
            if *letter == b'l' {
                *user = Some(text(&value)?);
            }
            return Ok(());
        } else if !IGNORED.contains(letter) {
            return Err(Fault::refused(format!("option -{} is not known", letter.escape_ascii())));
        }
    }
    Ok(())
}

fn text(word: &OsStr) -> Result<String> {
    word.to_str().map(String::from).ok_or_else(|| Fault::refused(format!("{word:?} is no name")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> Result<Line> {
        Line::parse(&words.iter().map(OsString::from).collect::<Vec<_>>())
    }

    fn line(host: &str, user: Option<&str>, no_input: bool, command: &str) -> Line {
        Line { host: host.into(), user: user.map(Into::into), no_input, command: command.into() }
    }

    #[test]
    fn lines_of_launchers() {
        let cases: &[(&[&str], Line)] = &[
            (&["n1", "uname", "-n"], line("n1", None, false, "uname -n")),
            (
                &["-x", "n1", "\"/usr/bin/hydra_pmi_proxy\"", "--x"],
                line("n1", None, false, "\"/usr/bin/hydra_pmi_proxy\" --x"),
            ),
            (&["n1", "-l", "ann", "-n", "cat"], line("n1", Some("ann"), true, "cat")),
            (&["-nxlann", "n1", "cat"], line("n1", Some("ann"), true, "cat")),
            (&["-o", "BatchMode=yes", "-oA=b", "-q", "ann@n1", "cat"], line("n1", Some("ann"), false, "cat")),
            (&["-l", "bob", "ann@n1", "cat"], line("n1", Some("bob"), false, "cat")),
            (&["n1", "--", "cat", "--", "-l"], line("n1", None, false, "cat -- -l")),
            (&["n1", "a  b", "$HOME;"], line("n1", None, false, "a  b $HOME;")),
        ];
        for (words, expected) in cases {
            assert_eq!(parse(words).as_ref(), Ok(expected), "{words:?}");
        }
    }

    #[test]
    fn what_is_missing_or_unknown_is_named() {
        for (words, why) in [
            (&["-n"][..], "no host"),
            (&["n1"], "no command is given for n1"),
            (&["n1", "-n"], "no command"),
            (&["-l"], "-l needs"),
            (&["-f", "n1", "cat"], "-f is not known"),
        ] {
            let fault = parse(words).expect_err("bad").to_string();
            assert!(fault.contains(why), "{words:?}: {fault}");
        }
    }
}
