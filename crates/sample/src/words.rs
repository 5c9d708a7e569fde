//! S-expressions: their tokens, and samples made of them again.

use crate::layout::{Column, Layout, Sample};
use std::borrow::Cow;
use std::sync::Arc;
use vocab::{Fault, Result};

/// A piece of an s-expression.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Token<'t> {
    Open,
    Close,
    Atom(Cow<'t, str>),
}

/// The tokens of `text`; after a mistake there is none any more.
pub fn tokens(text: &str) -> Tokens<'_> {
    Tokens { rest: text }
}

#[derive(Clone, Debug)]
pub struct Tokens<'t> {
    rest: &'t str,
}

impl<'t> Iterator for Tokens<'t> {
    type Item = std::result::Result<Token<'t>, String>;

    fn next(&mut self) -> Option<Self::Item> {
        let text = self.rest.trim_start_matches([' ', '\t', '\r', '\n']);
        let first = text.chars().next()?;
        let (token, rest) = match first {
            '(' => (Ok(Token::Open), &text[1..]),
            ')' => (Ok(Token::Close), &text[1..]),
            '"' => match string(text) {
                Some((text, rest)) => (Ok(Token::Atom(text)), rest),
                None => (Err("a string without an end".into()), ""),
            },
            _ => {
                let end = text.find([' ', '\t', '\r', '\n', '(', ')', '"']).unwrap_or(text.len());
                (Ok(Token::Atom(Cow::Borrowed(&text[..end]))), &text[end..])
            }
        };
        self.rest = rest;
        Some(token)
    }
}

/// The string that `text` begins with, and what is behind it. Strings are JSON's.
fn string(text: &str) -> Option<(Cow<'_, str>, &str)> {
    let mut escaped = false;
    let end = text.bytes().enumerate().skip(1).find_map(|(at, byte)| match (escaped, byte) {
        (false, b'"') => Some(at),
        (false, b'\\') => {
            escaped = true;
            None
        }
        _ => {
            escaped = false;
            None
        }
    })?;
    let whole = &text[..=end];
    let value = match whole.contains('\\') {
        true => Cow::Owned(serde_json::from_str(whole).ok()?),
        false => Cow::Borrowed(&whole[1..end]),
    };
    Some((value, &text[end + 1..]))
}

/// Reads an answer to a question for samples: one, or those of a concentrator.
///
/// # Errors
/// `Refused` with what the other side says is wrong with the question, `Wire` for what is no such answer.
pub fn samples(text: &str) -> Result<Vec<Sample>> {
    let mut reader = Reader { tokens: tokens(text), found: Vec::new(), newest: Arc::default() };
    reader.answer()?;
    match reader.next()? {
        None => Ok(reader.found),
        Some(_) => Err(bad("something behind it")),
    }
}

fn bad(what: &str) -> Fault {
    Fault::wire(format!("an answer of a monitor: {what}"))
}

struct Reader<'t> {
    tokens: Tokens<'t>,
    found: Vec<Sample>,
    /// The layout of the sample before: most nodes have the same one.
    newest: Arc<Layout>,
}

impl<'t> Reader<'t> {
    fn next(&mut self) -> Result<Option<Token<'t>>> {
        self.tokens.next().transpose().map_err(|why| bad(&why))
    }

    fn atom(&mut self) -> Result<Cow<'t, str>> {
        match self.next()? {
            Some(Token::Atom(text)) => Ok(text),
            _ => Err(bad("a word is missing")),
        }
    }

    fn expect(&mut self, token: &Token<'_>) -> Result<()> {
        match self.next()? {
            Some(there) if there == *token => Ok(()),
            _ => Err(bad("the parentheses are wrong")),
        }
    }

    fn answer(&mut self) -> Result<()> {
        self.expect(&Token::Open)?;
        match &*self.atom()? {
            "samples" => loop {
                match self.next()? {
                    Some(Token::Open) => {}
                    Some(Token::Close) => return Ok(()),
                    _ => return Err(bad("it has no end")),
                }
                match &*self.atom()? {
                    "sample" => self.sample()?,
                    "silent" => self.silent()?,
                    _ => return Err(bad("neither a sample nor silence")),
                }
            },
            "sample" => self.sample(),
            "error" => Err(Fault::refused(self.atom()?.into_owned())),
            _ => Err(bad("no sample")),
        }
    }

    fn silent(&mut self) -> Result<()> {
        let (node, why) = (self.atom()?, self.atom()?);
        self.found.push(Sample::silent(&node, &why));
        self.expect(&Token::Close)
    }

    /// Behind `(sample`.
    fn sample(&mut self) -> Result<()> {
        let node = self.field("node")?;
        let time_us = self.field("time")?.parse().map_err(|_| bad("a time that is none"))?;
        let (mut columns, mut values) = (Vec::new(), Vec::new());
        loop {
            match self.next()? {
                Some(Token::Open) => self.group(&mut columns, &mut values)?,
                Some(Token::Close) => break,
                _ => return Err(bad("a sample without an end")),
            }
        }
        if self.newest.columns != columns {
            self.newest = Arc::new(Layout { columns });
        }
        let layout = self.newest.clone();
        self.found.push(Sample { node: node.into_owned(), time_us, silent: None, layout, values });
        Ok(())
    }

    /// `(NAME VALUE)`
    fn field(&mut self, name: &str) -> Result<Cow<'t, str>> {
        self.expect(&Token::Open)?;
        self.expect(&Token::Atom(name.into()))?;
        let value = self.atom()?;
        self.expect(&Token::Close)?;
        Ok(value)
    }

    /// Behind its parenthesis.
    fn group(&mut self, columns: &mut Vec<Column>, values: &mut Vec<u64>) -> Result<()> {
        let group = self.atom()?;
        loop {
            match self.next()? {
                Some(Token::Open) => {}
                Some(Token::Close) => return Ok(()),
                _ => return Err(bad("a group without an end")),
            }
            let name = self.atom()?;
            match self.next()? {
                Some(Token::Atom(value)) => {
                    push(Column::new(&group, "", &name), &value, columns, values)?;
                    self.expect(&Token::Close)?;
                }
                Some(Token::Open) => {
                    let mut field = self.atom()?;
                    loop {
                        let value = self.atom()?;
                        push(Column::new(&group, &name, &field), &value, columns, values)?;
                        self.expect(&Token::Close)?;
                        match self.next()? {
                            Some(Token::Open) => field = self.atom()?,
                            Some(Token::Close) => break,
                            _ => return Err(bad("a part of a group without an end")),
                        }
                    }
                }
                _ => return Err(bad("a name without a value")),
            }
        }
    }
}

fn push(column: Column, text: &str, columns: &mut Vec<Column>, values: &mut Vec<u64>) -> Result<()> {
    let value = match (column.unit.has_point(), text.split_once('.')) {
        (false, None) => text.parse().ok(),
        (true, Some((whole, part))) if part.len() == 2 => {
            let (whole, part) = (whole.parse::<u64>().ok(), part.parse::<u64>().ok());
            whole.zip(part).and_then(|(whole, part)| whole.checked_mul(100)?.checked_add(part))
        }
        _ => None,
    };
    values.push(value.ok_or_else(|| bad(&format!("{text:?} is no value of {}", column.field)))?);
    columns.push(column);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::{write_some, Form};
    use proptest::prelude::*;

    fn written(sample: &Sample) -> String {
        let mut out = Vec::new();
        write_some(Form::Words, &sample.layout, (&sample.node, sample.time_us), &sample.values, |_| true, &mut out);
        String::from_utf8(out).expect("text")
    }

    fn columns() -> impl Strategy<Value = Vec<Column>> {
        let groups = vec![
            ("load", false, "load1"),
            ("memory", false, "MemFree"),
            ("cpu", true, "user"),
            ("pressure", true, "some_avg10"),
        ];
        let keys = proptest::collection::btree_set("[a-z0-9. ()\"\\\\é]{1,6}", 1..4);
        proptest::collection::vec((proptest::sample::subsequence(groups, 1..=4), keys), 0..=1).prop_map(|chosen| {
            let mut columns = Vec::new();
            for (groups, keys) in chosen {
                for (group, keyed, field) in groups {
                    match keyed {
                        true => columns.extend(keys.iter().map(|key| Column::new(group, key, field))),
                        false => columns.push(Column::new(group, "", field)),
                    }
                }
            }
            columns
        })
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(node in ".{0,8}", time_us: u64, columns in columns(), seed: u64) {
            let values = (0..columns.len() as u64).map(|i| seed.wrapping_mul(i + 1) >> 8).collect();
            let sample = Sample { node, time_us, silent: None, layout: Arc::new(Layout { columns }), values };
            let text = written(&sample);
            prop_assert_eq!(samples(&text), Ok(vec![sample.clone()]));
            let two = format!("(samples {text} (silent n1 \"no answer\") {text})");
            prop_assert_eq!(samples(&two), Ok(vec![sample.clone(), Sample::silent("n1", "no answer"), sample]));
        }

        #[test]
        fn any_text_is_read_or_refused(text in "[()a-c0-9 .\"\\\\]{0,60}|\\(sample \\(node a\\) \\(time 1\\)[() a-c0-9.]{0,30}\\)|.{0,60}") {
            let _ = samples(&text);
        }
    }

    #[test]
    fn an_error_of_the_other_side_is_told() {
        assert_eq!(
            samples("(error \"what is asked?\")").map_err(|fault| fault.to_string()),
            Err("what is asked?".into())
        );
    }
}
