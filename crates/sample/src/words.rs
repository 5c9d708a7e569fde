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

/// Reads an answer to a question for samples: one, or those of a concentrator. What is not understood is passed over: a number that is none, with its column;
/// a sample without a node and a time is one that is silent, with the reason.
///
/// # Errors
/// `Refused` with what the other side says is wrong with the question, `Wire` for what is no such answer.
pub fn samples(text: &str) -> Result<Vec<Sample>> {
    let mut reader = Reader { tokens: tokens(text), newest: Arc::default() };
    let found = reader.answer()?;
    match reader.next()? {
        None => Ok(found),
        Some(_) => Err(bad("something behind it")),
    }
}

fn bad(what: &str) -> Fault {
    Fault::wire(format!("an answer of a monitor: {what}"))
}

struct Reader<'t> {
    tokens: Tokens<'t>,
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

    /// Up to the parenthesis that closes the list, whatever is in it.
    fn skip(&mut self) -> Result<()> {
        let mut depth = 1;
        while depth > 0 {
            match self.next()? {
                Some(Token::Open) => depth += 1,
                Some(Token::Close) => depth -= 1,
                Some(Token::Atom(_)) => {}
                None => return Err(bad("it has no end")),
            }
        }
        Ok(())
    }

    fn answer(&mut self) -> Result<Vec<Sample>> {
        self.expect(&Token::Open)?;
        let mut found = Vec::new();
        match &*self.atom()? {
            "samples" => loop {
                match self.next()? {
                    Some(Token::Open) => found.extend(self.one()?),
                    Some(Token::Close) => return Ok(found),
                    _ => return Err(bad("it has no end")),
                }
            },
            "sample" => found.push(self.whole_sample()?),
            "error" => return Err(Fault::refused(self.atom()?.into_owned())),
            _ => return Err(bad("no sample")),
        }
        Ok(found)
    }

    /// Of those of a concentrator, behind the parenthesis; `None` for what is neither a sample nor silence.
    fn one(&mut self) -> Result<Option<Sample>> {
        let begins = self.tokens.clone();
        Ok(match self.next()? {
            Some(Token::Atom(word)) if word == "sample" => Some(self.whole_sample()?),
            Some(Token::Atom(word)) if word == "silent" => {
                let (node, why) = (self.word_of_list(), self.word_of_list());
                self.skip()?;
                Some(Sample::silent(&node.unwrap_or_default(), &why.unwrap_or_default()))
            }
            _ => {
                self.tokens = begins;
                self.skip()?;
                None
            }
        })
    }

    /// The next word, if one is next; else nothing is taken.
    fn word_of_list(&mut self) -> Option<Cow<'t, str>> {
        let begins = self.tokens.clone();
        let word = self.atom().ok();
        if word.is_none() {
            self.tokens = begins;
        }
        word
    }

    /// Behind `(sample`, up to its end in any case.
    fn whole_sample(&mut self) -> Result<Sample> {
        let begins = self.tokens.clone();
        self.skip()?;
        let behind = std::mem::replace(&mut self.tokens, begins);
        let mut node = String::new();
        let sample = self.sample(&mut node);
        self.tokens = behind;
        Ok(sample.unwrap_or_else(|fault| Sample::silent(&node, &fault.to_string())))
    }

    fn sample(&mut self, called: &mut String) -> Result<Sample> {
        let node = self.field("node")?;
        called.push_str(&node);
        let time_us = self.field("time")?.parse().map_err(|_| bad("a time that is none"))?;
        let mut found = Vec::new();
        loop {
            match self.next()? {
                Some(Token::Open) => self.group(&mut found)?,
                Some(Token::Close) => break,
                Some(Token::Atom(_)) => {}
                None => return Err(bad("a sample without an end")),
            }
        }
        let (columns, values): (Vec<Column>, Vec<u64>) = found.into_iter().unzip();
        if self.newest.columns != columns {
            self.newest = Arc::new(Layout { columns });
        }
        let layout = self.newest.clone();
        Ok(Sample { node: node.into_owned(), time_us, silent: None, layout, values })
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
    fn group(&mut self, found: &mut Vec<(Column, u64)>) -> Result<()> {
        let Some(group) = self.word_of_list() else { return self.skip() };
        loop {
            match self.next()? {
                Some(Token::Open) => {}
                Some(Token::Close) => return Ok(()),
                Some(Token::Atom(_)) => continue,
                None => return Err(bad("a group without an end")),
            }
            let Some(name) = self.word_of_list() else {
                self.skip()?;
                continue;
            };
            let begins = self.tokens.clone();
            match self.next()? {
                Some(Token::Atom(value)) => {
                    found.extend(number(Column::new(&group, "", &name), &value));
                    self.skip()?;
                }
                // Its fields are lists, and this is behind the first's parenthesis.
                Some(Token::Open) => {
                    self.tokens = begins;
                    self.part(&group, &name, found)?;
                }
                Some(Token::Close) => {}
                None => return Err(bad("a name without a value")),
            }
        }
    }

    /// What a group has under one key: behind that.
    fn part(&mut self, group: &str, key: &str, found: &mut Vec<(Column, u64)>) -> Result<()> {
        loop {
            match self.next()? {
                Some(Token::Open) => {
                    if let (Some(field), Some(value)) = (self.word_of_list(), self.word_of_list()) {
                        found.extend(number(Column::new(group, key, &field), &value));
                    }
                    self.skip()?;
                }
                Some(Token::Close) => return Ok(()),
                Some(Token::Atom(_)) => {}
                None => return Err(bad("a part of a group without an end")),
            }
        }
    }
}

/// What the text says, if it is a value of such a column.
fn number(column: Column, text: &str) -> Option<(Column, u64)> {
    let value = match (column.unit.has_point(), text.split_once('.')) {
        (false, None) => text.parse().ok(),
        (true, Some((whole, part))) if part.len() == 2 => {
            let (whole, part) = (whole.parse::<u64>().ok(), part.parse::<u64>().ok());
            whole.zip(part).and_then(|(whole, part)| whole.checked_mul(100)?.checked_add(part))
        }
        _ => None,
    };
    value.map(|value| (column, value))
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

        /// Neither what is not known to this program nor what is wrong with one takes anything from the others.
        #[test]
        fn what_is_not_understood_is_passed_over(
            columns in columns(), strange in "[a-z0-9.-]{1,6}|[(][a-z]{0,3} [0-9.]{1,4}[)]|[(][(][)][)]", first: bool,
        ) {
            let values = (0..columns.len() as u64).collect();
            let sample = Sample { node: "n0".into(), time_us: 7, silent: None, layout: Arc::new(Layout { columns }), values };
            let (text, more) = (written(&sample), format!("(gpu (0 (heat {strange}) (name b.1)) (all {strange}))"));
            let head = "(sample (node n0) (time 7)";
            let known = match first {
                true => text.replacen(head, &format!("{head} {more}"), 1),
                false => format!("{} {more})", &text[..text.len() - 1]),
            };
            let broken = "(sample (node n1) (time never) (load (load1 0.10)))";
            let all = samples(&format!("(samples {known} {broken} (news {strange}) {text})"));
            let all = all.map_err(|fault| TestCaseError::fail(fault.to_string()))?;
            prop_assert_eq!(all.len(), 3);
            let own = |one: &Sample| -> Vec<(Column, u64)> {
                let all = one.layout.columns.iter().cloned().zip(one.values.iter().copied());
                all.filter(|(column, _)| &*column.group != "gpu").collect()
            };
            prop_assert_eq!(own(&all[0]), own(&sample));
            prop_assert!(all[1].silent.is_some() && all[1].node == "n1");
            prop_assert_eq!(&all[2], &sample);
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
