//! What a client may ask, one question on a line (docs/monitor.md).

use crate::layout::Layout;
use crate::text::Form;
use crate::words::{self, Token};

/// Bytes of a line, at most, without its end.
pub const LONGEST_LINE: usize = 4096;
/// Names in one question, at most.
const MOST_NAMES: usize = 64;
/// Concentrators that may be behind each other: a circle of them would have no end.
const MOST_DEEP: u8 = 4;

/// What is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verb {
    /// Names, kinds and units.
    Schema,
    Sample,
    /// Of a sample, what is other than in the last one that this connection was given in answer to the same question.
    Changed,
}

/// A question.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ask {
    pub form: Form,
    pub verb: Verb,
    /// Which columns ([`crate::Column::is_meant`]); none: all.
    pub names: Vec<String>,
    /// Concentrators that it has passed.
    pub depth: u8,
}

impl Ask {
    /// Reads a line, without its end. The error is for the client, in the form that the line had.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read(line: &[u8]) -> Result<Ask, (Form, String)> {
        let (depth, line) = passed(line.trim_ascii());
        let form = if line.starts_with(b"{") { Form::Json } else { Form::Words };
        let simple = |verb| Ok(Ask { form, verb, names: Vec::new(), depth: 0 });
        let read = match line {
            b"S" | b"s" => simple(Verb::Sample),
            b"#" => simple(Verb::Schema),
            _ if line.len() > LONGEST_LINE => Err(format!("a line of more than {LONGEST_LINE} bytes")),
            _ if form == Form::Json => json(line),
            _ => list(line),
        };
        let read = read.and_then(|ask| match ask.names.len() > MOST_NAMES {
            true => Err(format!("more than {MOST_NAMES} names")),
            false => Ok(Ask { depth, ..ask }),
        });
        read.map_err(|why| (form, why))
    }

    /// How many concentrators it has passed behind the next.
    ///
    /// # Errors
    /// Those were too many.
    pub fn deeper(&self) -> Result<u8, String> {
        match self.depth < MOST_DEEP {
            true => Ok(self.depth + 1),
            false => Err(format!("more than {MOST_DEEP} concentrators are behind each other")),
        }
    }

    /// Which columns of `layout` are meant.
    pub fn columns(&self, layout: &Layout) -> Vec<bool> {
        let meant = |column: &crate::Column| self.names.iter().any(|name| column.is_meant(name));
        layout.columns.iter().map(|column| self.names.is_empty() || meant(column)).collect()
    }

    /// The line that asks this, without its end.
    pub fn line(&self) -> String {
        let mut out = Vec::new();
        if self.depth > 0 {
            out.extend_from_slice(format!("@{} ", self.depth).as_bytes());
        }
        let verb = self.verb.word();
        match self.form {
            Form::Words => {
                out.extend_from_slice(format!("({verb}").as_bytes());
                for name in &self.names {
                    out.push(b' ');
                    crate::text::atom(name, &mut out);
                }
                out.push(b')');
            }
            Form::Json => {
                out.extend_from_slice(format!("{{\"{verb}\":").as_bytes());
                for (i, name) in self.names.iter().enumerate() {
                    out.push(if i == 0 { b'[' } else { b',' });
                    crate::text::quoted(name, &mut out);
                }
                out.extend_from_slice(if self.names.is_empty() { b"[]}" } else { b"]}" });
            }
        }
        String::from_utf8_lossy(&out).into_owned()
    }
}

impl Verb {
    fn word(self) -> &'static str {
        match self {
            Verb::Schema => "schema",
            Verb::Sample => "sample",
            Verb::Changed => "changed",
        }
    }

    fn of(word: &str) -> Result<Verb, String> {
        let all = [Verb::Schema, Verb::Sample, Verb::Changed];
        let found = all.into_iter().find(|verb| verb.word() == word);
        found.ok_or_else(|| {
            "what is asked? There are: S, #, (sample NAME...), (changed NAME...), (schema NAME...)".into()
        })
    }
}

/// `@2 (sample …)`: how many concentrators it has passed, and the rest.
fn passed(line: &[u8]) -> (u8, &[u8]) {
    match line {
        [b'@', digit @ b'1'..=b'9', b' ', rest @ ..] => (digit - b'0', rest.trim_ascii()),
        _ => (0, line),
    }
}

/// `(sample cpu memory.Mem*)`
fn list(line: &[u8]) -> Result<Ask, String> {
    let text = std::str::from_utf8(line).map_err(|_| "a line that is no text".to_string())?;
    let mut tokens = words::tokens(text);
    let mut next = || tokens.next().transpose();
    if next()? != Some(Token::Open) {
        return Err("a question is S, #, or a list in parentheses, or JSON in braces".into());
    }
    let verb = match next()? {
        Some(Token::Atom(word)) => Verb::of(&word)?,
        _ => Verb::of("")?,
    };
    let mut names = Vec::new();
    loop {
        match next()? {
            Some(Token::Atom(name)) => names.push(name.into_owned()),
            Some(Token::Close) => break,
            _ => return Err("a list of names and no other lists is expected".into()),
        }
    }
    match next()? {
        None => Ok(Ask { form: Form::Words, verb, names, depth: 0 }),
        Some(_) => Err("more than one question on a line".into()),
    }
}

/// `{"sample":["cpu","memory.Mem*"]}`
fn json(line: &[u8]) -> Result<Ask, String> {
    let value: serde_json::Value = serde_json::from_slice(line).map_err(|error| format!("no JSON: {error}"))?;
    let object = value.as_object().filter(|object| object.len() == 1);
    let (word, names) =
        object.and_then(|object| object.iter().next()).ok_or("an object with one member is expected")?;
    let verb = Verb::of(word)?;
    let names = names.as_array().ok_or("the member is to be an array of names")?;
    let name = |name: &serde_json::Value| name.as_str().map(str::to_string).ok_or("a name is a string".to_string());
    Ok(Ask { form: Form::Json, verb, names: names.iter().map(name).collect::<Result<_, _>>()?, depth: 0 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn questions_are_read_in_both_forms() {
        let ask = |form, verb, names: &[&str]| Ask {
            form,
            verb,
            names: names.iter().map(|n| n.to_string()).collect(),
            depth: 0,
        };
        let read = |line: &str| Ask::read(line.as_bytes()).expect(line);
        assert_eq!(read("S\r"), ask(Form::Words, Verb::Sample, &[]));
        assert_eq!(read("#"), ask(Form::Words, Verb::Schema, &[]));
        assert_eq!(read(" ( sample cpu \"net.a b\" )"), ask(Form::Words, Verb::Sample, &["cpu", "net.a b"]));
        assert_eq!(read("(changed)"), ask(Form::Words, Verb::Changed, &[]));
        assert_eq!(read(r#"{"sample":["cpu"]}"#), ask(Form::Json, Verb::Sample, &["cpu"]));
        assert_eq!(read("@3 (changed)"), Ask { depth: 3, ..ask(Form::Words, Verb::Changed, &[]) });
        assert_eq!(read("@3 (changed)").deeper(), Ok(4));
        assert!(read("@4 S").deeper().is_err());
        for bad in [
            "",
            "x",
            "(",
            "()",
            "(sample",
            "(sample (cpu))",
            "(sample) S",
            "(nonsense)",
            "{",
            "{}",
            r#"{"sample":1}"#,
            r#"{"x":[]}"#,
        ] {
            assert!(Ask::read(bad.as_bytes()).is_err(), "{bad}");
        }
        let many = format!("(sample{})", " a".repeat(MOST_NAMES + 1));
        assert!(Ask::read(many.as_bytes()).is_err());
        assert!(Ask::read(&b"(".repeat(LONGEST_LINE + 1)).is_err());
    }

    proptest! {
        #[test]
        fn any_line_is_read_or_refused_and_what_is_read_is_written_so(line in "(@[1-9] )?\\(sample [a-z ]{0,9}\\)|[ (){}\"\\[\\]:,#Sa-c\\\\.*]{0,40}|\\(sample [^()]{0,20}\\)|.{0,40}") {
            if let Ok(ask) = Ask::read(line.as_bytes()) {
                prop_assert_eq!(Ask::read(ask.line().as_bytes()), Ok(ask));
            }
        }

        #[test]
        fn any_bytes_are_read_or_refused(line in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = Ask::read(&line);
        }
    }
}
