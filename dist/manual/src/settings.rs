//! shoal.toml(5), from the example configuration: each setting with the comment above it.

use crate::troff;

const EXAMPLE: &str = include_str!("../../shoal.toml");

const HEAD: &str = r#".SH NAME
shoal.toml \- configuration of the shoal daemons
.SH SYNOPSIS
.I /etc/shoal/shoal.toml
.SH DESCRIPTION
.BR shoal\-front (1)
and
.BR shoal\-node (1)
read this file when they start. It is TOML: a setting on a line, strings in quotation marks, and a heading in brackets before the settings of each daemon. An unknown setting is an
error. A flag of the same name on the command line takes precedence.
.PP
A setting is shown here with its default, or with an example where it has none (marked so).
"#;

const TAIL: &str = r#".SH EXAMPLES
A node needs no more than this, and the file
.IR /etc/shoal/key :
.PP
.RS
.EX
[node]
front = "front.example"
.EE
.RE
.PP
A front end runs without any setting.
.SH SEE ALSO
.BR shoal (1),
.BR shoal\-front (1),
.BR shoal\-node (1),
.BR shoal\-key (1),
.BR shoal (7)
.PP
.I /usr/share/doc/shoal
has the documents that this page names.
"#;

/// A part of the example file.
#[derive(Debug, PartialEq)]
enum Item {
    Section(String),
    /// A line `name = value`, whether it is an example only, and its comment.
    Setting {
        line: String,
        example: bool,
        text: Vec<String>,
    },
}

pub(crate) fn page(date: &str) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let mut page = format!(".TH SHOAL.TOML 5 {date} \"shoal {version}\" \"Manual of shoal\"\n{HEAD}");
    page += ".SS For both daemons\n";
    let mut shared = String::new();
    for item in items(EXAMPLE).into_iter().chain([Item::Section(String::new())]) {
        match item {
            Item::Section(name) => {
                page += &std::mem::take(&mut shared);
                page += &if name.is_empty() { name } else { format!(".SS [{}]\n", troff(&name)) };
            }
            Item::Setting { line, example, text } => {
                let mark = if example { " (example)" } else { "" };
                // Without a text it shares that of the setting before.
                let request = if text.is_empty() { "TQ" } else { "TP" };
                if !text.is_empty() {
                    page += &std::mem::take(&mut shared);
                }
                page += &format!(".{request}\n\\fB{}\\fR{mark}\n", troff(&line));
                shared.extend(text.iter().map(|line| troff(line) + "\n"));
            }
        }
    }
    page + TAIL
}

fn items(file: &str) -> Vec<Item> {
    let (mut items, mut text) = (Vec::new(), Vec::new());
    for line in file.lines() {
        let comment = line.strip_prefix("# ");
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            items.push(Item::Section(name.into()));
            text.clear();
        } else if is_setting(line) {
            items.push(Item::Setting { line: line.into(), example: false, text: std::mem::take(&mut text) });
        } else if let Some(line) = comment.filter(|line| is_setting(line)) {
            items.push(Item::Setting { line: line.into(), example: true, text: std::mem::take(&mut text) });
        } else if let Some(line) = comment {
            text.push(line.to_owned());
        } else {
            // A comment above an empty line is of the whole file.
            text.clear();
        }
    }
    items
}

fn is_setting(line: &str) -> bool {
    let name = line.split(" = ").next().filter(|name| name.len() < line.len()).unwrap_or_default();
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_has_the_comment_above_it() {
        let file = "# Of the file.\n\n# One.\n# More.\na = 1\n[node]\n# x = \"y\"\n";
        let text = vec!["One.".to_string(), "More.".into()];
        let one = Item::Setting { line: "a = 1".into(), example: false, text };
        let other = Item::Setting { line: "x = \"y\"".into(), example: true, text: vec![] };
        assert_eq!(items(file), [one, Item::Section("node".into()), other]);
    }

    #[test]
    fn every_setting_of_the_example_has_a_text() {
        let mut settings = 0;
        for item in items(EXAMPLE) {
            if let Item::Setting { line, text, .. } = item {
                settings += 1;
                assert!(!text.is_empty() || line.starts_with("halt") || line.starts_with("power_off"), "{line}");
            }
        }
        assert!(settings > 25, "{settings}");
    }
}
