//! Samples as text: s-expressions and JSON, each answer on one line (docs/monitor.md).

use crate::layout::{Column, Layout};

/// In which of its two forms something is said.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// S-expressions.
    Words,
    Json,
}

/// Columns, one after the other, into text: what stands before each, and what is to be closed.
struct Pen<'t> {
    form: Form,
    /// Where the last column is.
    at: Option<(&'t str, &'t str)>,
}

impl<'t> Pen<'t> {
    /// What stands before the value of `column`.
    fn open(&mut self, column: &'t Column, out: &mut Vec<u8>) {
        let Column { group, key, field, .. } = column;
        let here = (&**group, &**key);
        let first = self.at != Some(here);
        if first {
            let same_group = self.at.is_some_and(|(group, _)| group == here.0);
            self.close(same_group, out);
            if !same_group {
                self.enter(group, true, out);
            }
            if !key.is_empty() {
                self.enter(key, same_group, out);
            }
            self.at = Some(here);
        }
        match self.form {
            Form::Words => {
                out.extend_from_slice(b" (");
                atom(field, out);
                out.push(b' ');
            }
            Form::Json => {
                out.extend_from_slice(if first { b"" } else { b"," });
                quoted(field, out);
                out.push(b':');
            }
        }
    }

    fn enter(&self, name: &str, behind: bool, out: &mut Vec<u8>) {
        match self.form {
            Form::Words => {
                out.extend_from_slice(b" (");
                atom(name, out);
            }
            Form::Json => {
                out.extend_from_slice(if behind { b"," } else { b"" });
                quoted(name, out);
                out.extend_from_slice(b":{");
            }
        }
    }

    /// Closes the key, if there is one, and the group unless it goes on.
    fn close(&self, group_goes_on: bool, out: &mut Vec<u8>) {
        let Some((_, key)) = self.at else { return };
        let end = if self.form == Form::Words { b')' } else { b'}' };
        if !key.is_empty() {
            out.push(end);
        }
        if !group_goes_on {
            out.push(end);
        }
    }

    /// What stands behind a value.
    fn behind(&self) -> &'static [u8] {
        if self.form == Form::Words {
            b")"
        } else {
            b""
        }
    }

    fn finish(self, out: &mut Vec<u8>) {
        self.close(false, out);
        out.push(if self.form == Form::Words { b')' } else { b'}' });
    }
}

/// Some columns of a layout, ready to be written again and again.
#[derive(Debug)]
pub struct Shape {
    form: Form,
    /// Column, where what stands before it ends in `text`, whether it has a point.
    pieces: Vec<(usize, usize, bool)>,
    text: Vec<u8>,
}

impl Shape {
    /// Of the columns of `layout` that are `wanted`, in the order of the layout.
    pub fn new(form: Form, layout: &Layout, wanted: impl Fn(usize) -> bool) -> Shape {
        let mut shape = Shape { form, pieces: Vec::new(), text: Vec::new() };
        let mut pen = Pen { form, at: None };
        for (at, column) in layout.columns.iter().enumerate().filter(|(at, _)| wanted(*at)) {
            pen.open(column, &mut shape.text);
            shape.pieces.push((at, shape.text.len(), column.unit.has_point()));
            shape.text.extend_from_slice(pen.behind());
        }
        pen.finish(&mut shape.text);
        shape
    }

    /// The columns that are in it.
    pub fn columns(&self) -> impl Iterator<Item = usize> + '_ {
        self.pieces.iter().map(|piece| piece.0)
    }

    /// Appends one sample, without the end of the line.
    pub fn write(&self, node: &str, time_us: u64, values: &[u64], out: &mut Vec<u8>) {
        head(self.form, node, time_us, out);
        let mut from = 0;
        for (column, to, point) in &self.pieces {
            out.extend_from_slice(&self.text[from..*to]);
            number(values.get(*column).copied().unwrap_or_default(), *point, out);
            from = *to;
        }
        out.extend_from_slice(&self.text[from..]);
    }
}

/// Appends a sample with those columns that are `wanted`, as [`Shape::write`] does.
pub fn write_some(
    form: Form,
    layout: &Layout,
    (node, time_us): (&str, u64),
    values: &[u64],
    wanted: impl Fn(usize) -> bool,
    out: &mut Vec<u8>,
) {
    head(form, node, time_us, out);
    let mut pen = Pen { form, at: None };
    for (at, column) in layout.columns.iter().enumerate().filter(|(at, _)| wanted(*at)) {
        pen.open(column, out);
        number(values.get(at).copied().unwrap_or_default(), column.unit.has_point(), out);
        out.extend_from_slice(pen.behind());
    }
    pen.finish(out);
}

fn head(form: Form, node: &str, time_us: u64, out: &mut Vec<u8>) {
    match form {
        Form::Words => {
            out.extend_from_slice(b"(sample (node ");
            atom(node, out);
            out.extend_from_slice(b") (time ");
            number(time_us, false, out);
            out.push(b')');
        }
        Form::Json => {
            out.extend_from_slice(b"{\"node\":");
            quoted(node, out);
            out.extend_from_slice(b",\"time\":");
            number(time_us, false, out);
        }
    }
}

/// Appends what the columns that are `wanted` mean: kind and unit of each.
pub fn write_schema(form: Form, layout: &Layout, node: &str, wanted: impl Fn(usize) -> bool, out: &mut Vec<u8>) {
    match form {
        Form::Words => {
            out.extend_from_slice(b"(schema (node ");
            atom(node, out);
            out.push(b')');
        }
        Form::Json => {
            out.extend_from_slice(b"{\"node\":");
            quoted(node, out);
        }
    }
    let mut pen = Pen { form, at: None };
    for (_, column) in layout.columns.iter().enumerate().filter(|(at, _)| wanted(*at)) {
        pen.open(column, out);
        let (kind, unit) = (column.kind.word(), column.unit.word());
        match form {
            Form::Words => out.extend_from_slice(format!("{kind} {unit}").as_bytes()),
            Form::Json => out.extend_from_slice(format!("[\"{kind}\",\"{unit}\"]").as_bytes()),
        }
        out.extend_from_slice(pen.behind());
    }
    pen.finish(out);
}

/// Appends why a question has no answer.
pub fn write_error(form: Form, why: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(if form == Form::Words { b"(error " } else { b"{\"error\":" });
    quoted(why, out);
    out.push(if form == Form::Words { b')' } else { b'}' });
}

/// Appends a number; with a point it is in hundredths.
pub fn number(value: u64, point: bool, out: &mut Vec<u8>) {
    let mut digits = [0u8; 20];
    let (mut rest, mut at) = (if point { value / 100 } else { value }, digits.len());
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
    if point {
        let part = (value % 100) as u8;
        out.extend_from_slice(&[b'.', b'0' + part / 10, b'0' + part % 10]);
    }
}

/// Appends a name: as it is, or quoted where it would not be read again as one.
pub fn atom(name: &str, out: &mut Vec<u8>) {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_.:@+-*/%".contains(&byte);
    match !name.is_empty() && name.bytes().all(plain) {
        true => out.extend_from_slice(name.as_bytes()),
        false => quoted(name, out),
    }
}

/// Appends a name in quotes, as JSON has it; of an s-expression's the same.
pub fn quoted(name: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    for char in name.chars() {
        match char {
            '"' | '\\' => out.extend_from_slice(&[b'\\', char as u8]),
            char if char < ' ' || char == '\u{7f}' => {
                out.extend_from_slice(format!("\\u{:04x}", u32::from(char)).as_bytes());
            }
            char => out.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout() -> Layout {
        let names = [
            ("load", "", "load1"),
            ("load", "", "threads"),
            ("cpu", "all", "user"),
            ("cpu", "0", "user"),
            ("net", "a b", "rx_bytes"),
        ];
        Layout { columns: names.iter().map(|(group, key, field)| Column::new(group, key, field)).collect() }
    }

    fn both(form: Form, wanted: impl Fn(usize) -> bool + Copy) -> String {
        let (values, layout) = ([105, 2, 3, 4, 5], layout());
        let (mut one, mut other) = (Vec::new(), Vec::new());
        Shape::new(form, &layout, wanted).write("n0", 7, &values, &mut one);
        write_some(form, &layout, ("n0", 7), &values, wanted, &mut other);
        assert_eq!(one, other);
        String::from_utf8(one).expect("text")
    }

    #[test]
    fn a_sample_is_written_in_two_forms() {
        let words = "(sample (node n0) (time 7) (load (load1 1.05) (threads 2)) (cpu (all (user 3)) (0 (user 4))) (net (\"a b\" (rx_bytes 5))))";
        assert_eq!(both(Form::Words, |_| true), words);
        let json = r#"{"node":"n0","time":7,"load":{"load1":1.05,"threads":2},"cpu":{"all":{"user":3},"0":{"user":4}},"net":{"a b":{"rx_bytes":5}}}"#;
        assert_eq!(both(Form::Json, |_| true), json);
        assert!(serde_json::from_str::<serde_json::Value>(json).is_ok());
        assert_eq!(both(Form::Words, |at| at == 3), "(sample (node n0) (time 7) (cpu (0 (user 4))))");
        assert_eq!(both(Form::Json, |at| at == 3), r#"{"node":"n0","time":7,"cpu":{"0":{"user":4}}}"#);
        assert_eq!(both(Form::Words, |_| false), "(sample (node n0) (time 7))");
        assert_eq!(both(Form::Json, |_| false), r#"{"node":"n0","time":7}"#);
    }

    #[test]
    fn numbers_are_written_whole() {
        let text = |value, point| {
            let mut out = Vec::new();
            number(value, point, &mut out);
            String::from_utf8(out).expect("digits")
        };
        assert_eq!(
            [text(0, false), text(u64::MAX, false), text(7, true), text(12345, true)],
            ["0", "18446744073709551615", "0.07", "123.45"]
        );
    }
}
