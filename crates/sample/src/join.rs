//! Many answers as one, without reading what they say: `(samples (silent n3 "why") (sample …) …)`, and in JSON
//! `{"silent":[{"node":"n3","why":"why"}],"samples":[{…},…]}`. What is already joined is joined flat.

use crate::text::{atom, quoted, Form};

const WORDS: &[u8] = b"(samples";
const JSON_SILENT: &[u8] = b"{\"silent\":[";
const JSON_SAMPLES: &[u8] = b",\"samples\":[";

/// An answer while it is made.
pub(crate) struct Joined {
    form: Form,
    silent: Vec<u8>,
    samples: Vec<u8>,
}

impl Joined {
    pub(crate) fn new(form: Form) -> Joined {
        Joined { form, silent: Vec::new(), samples: Vec::new() }
    }

    pub(crate) fn silent(&mut self, node: &str, why: &str) {
        let (form, out) = (self.form, &mut self.silent);
        match form {
            Form::Words => {
                out.extend_from_slice(b" (silent ");
                atom(node, out);
                out.push(b' ');
                quoted(why, out);
                out.push(b')');
            }
            Form::Json => {
                separate(out);
                out.extend_from_slice(b"{\"node\":");
                quoted(node, out);
                out.extend_from_slice(b",\"why\":");
                quoted(why, out);
                out.push(b'}');
            }
        }
    }

    /// Takes an answer in; a sample is called `name` if there is one.
    ///
    /// # Errors
    /// Why it is none; it is marked as silent then.
    pub(crate) fn answer(&mut self, name: Option<&str>, label: &str, text: &[u8]) -> Result<(), String> {
        let done = match is_whole(text) {
            false => Err("an answer that is no list"),
            true if self.form == Form::Words => self.words(name, text),
            true => self.json(name, text),
        };
        done.map_err(|why| {
            self.silent(label, why);
            why.to_string()
        })
    }

    fn words(&mut self, name: Option<&str>, text: &[u8]) -> Result<(), &'static str> {
        if let Some(inner) = text.strip_prefix(WORDS) {
            self.samples.extend_from_slice(&inner[..inner.len() - 1]);
            return Ok(());
        }
        if text.starts_with(b"(error ") {
            return Err("it does not understand the question");
        }
        let kind = [&b"(sample (node "[..], b"(schema (node "].into_iter().find(|kind| text.starts_with(kind));
        let kind = kind.ok_or("an answer that is no sample")?;
        let own = &text[kind.len()..];
        if matches!(own[0], b' ' | b'(' | b')') {
            return Err("an answer that is no sample");
        }
        self.samples.push(b' ');
        self.samples.extend_from_slice(kind);
        match name {
            Some(name) => {
                atom(name, &mut self.samples);
                self.samples.extend_from_slice(&own[length_of_name(own)..]);
            }
            None => self.samples.extend_from_slice(own),
        }
        Ok(())
    }

    fn json(&mut self, name: Option<&str>, text: &[u8]) -> Result<(), &'static str> {
        if let Some(inner) = text.strip_prefix(JSON_SILENT) {
            let end = list_end(inner).ok_or("an answer that is no list")?;
            let samples = inner[end + 1..].strip_prefix(JSON_SAMPLES).and_then(|rest| rest.strip_suffix(b"]}"));
            let samples = samples.ok_or("an answer that is no list")?;
            for (part, into) in [(&inner[..end], &mut self.silent), (samples, &mut self.samples)] {
                if !part.is_empty() {
                    separate(into);
                    into.extend_from_slice(part);
                }
            }
            return Ok(());
        }
        const KIND: &[u8] = b"{\"node\":";
        let own = text.strip_prefix(KIND).filter(|own| own.starts_with(b"\"")).ok_or(
            match text.starts_with(b"{\"error\"") {
                true => "it does not understand the question",
                false => "an answer that is no sample",
            },
        )?;
        separate(&mut self.samples);
        self.samples.extend_from_slice(KIND);
        match name {
            Some(name) => {
                quoted(name, &mut self.samples);
                self.samples.extend_from_slice(&own[length_of_name(own)..]);
            }
            None => self.samples.extend_from_slice(own),
        }
        Ok(())
    }

    pub(crate) fn finish(self, out: &mut Vec<u8>) {
        let (first, between, last): (_, &[u8], &[u8]) = match self.form {
            Form::Words => (WORDS, b"", b")"),
            Form::Json => (JSON_SILENT, b"],\"samples\":[", b"]}"),
        };
        out.reserve(self.silent.len() + self.samples.len() + 64);
        [first, &self.silent, between, &self.samples, last].into_iter().for_each(|part| out.extend_from_slice(part));
    }
}

fn separate(out: &mut Vec<u8>) {
    if !out.is_empty() {
        out.push(b',');
    }
}

/// Is it one list or object from its first byte to its last, on one line of text?
fn is_whole(text: &[u8]) -> bool {
    let (mut depth, mut string, mut escaped) = (0usize, false, false);
    for (at, byte) in text.iter().enumerate() {
        match (string, byte) {
            (_, 0..=0x1f | 0x7f) => return false,
            (true, _) if escaped => escaped = false,
            (true, b'\\') => escaped = true,
            (true, b'"') => string = false,
            (true, _) => {}
            (false, b'"') => string = true,
            (false, b'(' | b'{' | b'[') => depth += 1,
            (false, b')' | b'}' | b']') => match depth.checked_sub(1) {
                Some(0) => return at + 1 == text.len() && std::str::from_utf8(text).is_ok(),
                Some(less) => depth = less,
                None => return false,
            },
            (false, _) if depth == 0 => return false,
            (false, _) => {}
        }
    }
    false
}

/// Where the list ends in which `text` is.
fn list_end(text: &[u8]) -> Option<usize> {
    let (mut depth, mut string, mut escaped) = (0usize, false, false);
    text.iter().position(|byte| {
        match (string, byte) {
            (true, _) if escaped => escaped = false,
            (true, b'\\') => escaped = true,
            (_, b'"') => string = !string,
            (false, b'{' | b'[') => depth += 1,
            (false, b'}' | b']') if depth == 0 => return true,
            (false, b'}' | b']') => depth -= 1,
            _ => {}
        }
        false
    })
}

/// How long the name is that `text` begins with.
fn length_of_name(text: &[u8]) -> usize {
    if text.first() != Some(&b'"') {
        return text.iter().position(|byte| matches!(byte, b' ' | b')')).unwrap_or(text.len());
    }
    let mut escaped = false;
    let end = text.iter().skip(1).position(|byte| {
        let ends = *byte == b'"' && !escaped;
        escaped = *byte == b'\\' && !escaped;
        ends
    });
    end.map_or(text.len(), |at| at + 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn joined(form: Form, answers: &[(Option<&str>, &str)]) -> String {
        let mut joined = Joined::new(form);
        for (name, text) in answers {
            let _ = joined.answer(*name, "label", text.as_bytes());
        }
        let mut out = Vec::new();
        joined.finish(&mut out);
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn answers_are_joined_flat_and_called_as_they_are_known() {
        let one = "(sample (node \"a\\\"b\") (time 1) (load (load1 0.00)))";
        let both = joined(Form::Words, &[(Some("n0"), one), (None, "(sample (node x) (time 2))")]);
        assert_eq!(both, "(samples (sample (node n0) (time 1) (load (load1 0.00))) (sample (node x) (time 2)))");
        let more = joined(Form::Words, &[(Some("ignored"), &both), (Some("n1"), "(sample (node y) (time 3")]);
        assert_eq!(crate::words::samples(&more).expect("samples").len(), 3);
        assert!(
            more.ends_with("(sample (node x) (time 2)))") && more.starts_with("(samples (silent label \"an answer"),
            "{more}"
        );
    }

    #[test]
    fn the_same_in_json() {
        let one = r#"{"node":"a","time":1}"#;
        let both = joined(Form::Json, &[(Some("n0"), one), (None, one), (None, "{\"x\":1}")]);
        assert_eq!(
            both,
            r#"{"silent":[{"node":"label","why":"an answer that is no sample"}],"samples":[{"node":"n0","time":1},{"node":"a","time":1}]}"#
        );
        let more = joined(Form::Json, &[(None, one), (None, &both)]);
        let value: serde_json::Value = serde_json::from_str(&more).expect("JSON");
        assert_eq!(
            (value["samples"].as_array().map(Vec::len), value["silent"].as_array().map(Vec::len)),
            (Some(3), Some(1))
        );
    }

    proptest! {
        #[test]
        fn any_answer_is_taken_or_marked(text in "[(){}\\[\\]\"\\\\ a]{0,30}|\\(samples?[() a\"]{0,20}|\\{\"(silent|node)\":[\\[\\]{},\"a:\\\\]{0,20}") {
            for form in [Form::Words, Form::Json] {
                let out = joined(form, &[(Some("n0"), &text)]);
                prop_assert!(is_whole(out.as_bytes()), "{}", out);
            }
        }
    }
}
