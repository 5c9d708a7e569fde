//! An image for people: each record in words, or as one line of JSON.

use crate::frame::{Pages, Record};
use crate::read::Reader;
use serde_json::{json, Value};
use std::io::{Read, Write};
use vocab::{Fault, Result};

/// One JSON object on a line for each record: `{"record": "process", …}`. Of pages the address and the length are told.
pub fn as_json(image: impl Read, out: &mut impl Write) -> Result<()> {
    each(image, |name, value| {
        let mut object = json!({ "record": name });
        if let (Some(all), Value::Object(fields)) = (object.as_object_mut(), value) {
            all.extend(fields);
        }
        writeln!(out, "{object}").map_err(|e| Fault::io(&e, "print an image"))
    })
}

/// The same as indented words.
pub fn as_words(image: impl Read, out: &mut impl Write) -> Result<()> {
    each(image, |name, value| {
        let mut text = format!("{name}\n");
        words(&value, 1, &mut text);
        out.write_all(text.as_bytes()).map_err(|e| Fault::io(&e, "print an image"))
    })
}

fn each(image: impl Read, mut show: impl FnMut(&str, Value) -> Result<()>) -> Result<()> {
    let mut reader = Reader::new(image)?;
    while let Some(record) = reader.next_record()? {
        let of = |pages: &Pages| Ok(json!({ "start": pages.start(), "length": pages.bytes().len() }));
        let (name, value) = match record {
            Record::Header(header) => ("header", serde_json::to_value(header)),
            Record::Process(process) => ("process", serde_json::to_value(process)),
            Record::Memory(memory) => ("memory", serde_json::to_value(memory)),
            Record::Files(files) => ("files", serde_json::to_value(files)),
            Record::Thread(thread) => ("thread", serde_json::to_value(thread)),
            Record::Objects(objects) => ("objects", serde_json::to_value(objects)),
            Record::Content { object, offset, bytes } => {
                ("content", Ok(json!({ "object": object, "offset": offset, "length": bytes.len() })))
            }
            Record::Pages(pages) => ("pages", of(&pages)),
            Record::Early(pages) => ("early pages", of(&pages)),
            Record::Vdso(code) => ("vdso", Ok(json!({ "length": code.len() }))),
            Record::Forecast(forecast) => ("forecast", serde_json::to_value(forecast)),
            Record::Clocks(clocks) => ("clocks", serde_json::to_value(clocks)),
            Record::Still => ("still", Ok(json!({}))),
            Record::Lazy(lazy) => ("stays behind", serde_json::to_value(lazy)),
            Record::Kept(kept) => ("kept", serde_json::to_value(kept)),
            Record::Gone(gone) => ("gone", serde_json::to_value(gone)),
            Record::End => ("end", Ok(json!({}))),
        };
        show(name, value.map_err(|e| Fault::bug(format!("print a record: {e}")))?)?;
    }
    Ok(())
}

/// Numbers that are addresses read better in hexadecimal digits.
fn number(value: &serde_json::Number) -> String {
    match value.as_u64() {
        Some(large @ 0x1_0000..) => format!("{large:#x}"),
        _ => value.to_string(),
    }
}

fn words(value: &Value, depth: usize, text: &mut String) {
    let indent = "  ".repeat(depth);
    let is_plain = |value: &Value| !matches!(value, Value::Object(_) | Value::Array(_));
    let plain = |value: &Value| match value {
        Value::Number(one) => number(one),
        // A name may be anybody's: it is neither more than a line nor anything to a terminal.
        Value::String(one) => {
            one.chars().map(|c| if c.is_control() { c.escape_default().to_string() } else { c.to_string() }).collect()
        }
        other => other.to_string(),
    };
    let Value::Object(fields) = value else {
        text.push_str(&format!("{indent}{}\n", plain(value)));
        return;
    };
    for (name, field) in fields {
        match field {
            Value::Array(items) if items.iter().all(is_plain) => {
                let items: Vec<String> = items.iter().map(plain).collect();
                text.push_str(&format!("{indent}{name}: {}\n", items.join(" ")));
            }
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    text.push_str(&format!("{indent}{name} {index}\n"));
                    words(item, depth + 1, text);
                }
            }
            Value::Object(_) => {
                text.push_str(&format!("{indent}{name}\n"));
                words(field, depth + 1, text);
            }
            plain_one => text.push_str(&format!("{indent}{name}: {}\n", plain(plain_one))),
        }
    }
}
