//! This machine's monitor: it answers with what its sampler takes.

use crate::ask::{Ask, Verb};
use crate::layout::Layout;
use crate::sampler::Sampler;
use crate::serve::{Answers, Turn};
use crate::text::{self, Form, Shape};
use kern::epoll::{Poller, Ready};
use std::collections::HashMap;
use std::sync::Arc;
use vocab::Result;

/// Answers questions about this machine.
#[derive(Debug)]
pub struct Machine {
    node: String,
    sampler: Sampler,
    /// What each client asked the last time; most ask the same again and again.
    asked: HashMap<u32, Asked>,
}

#[derive(Debug)]
struct Asked {
    line: Vec<u8>,
    ask: Ask,
    layout: Arc<Layout>,
    wanted: Vec<bool>,
    shape: Shape,
    /// What it was told the last time, if it asks for changes.
    told: Vec<u64>,
}

impl Machine {
    /// `node`: the name that stands in its samples.
    ///
    /// # Errors
    /// As [`Sampler::new`].
    pub fn new(node: String) -> Result<Machine> {
        Ok(Machine { node, sampler: Sampler::new()?, asked: HashMap::new() })
    }

    /// As [`Sampler::count_space`].
    pub fn count_space(&mut self, daemon: u32) {
        self.sampler.count_space(daemon);
    }

    /// Appends the answer to a line, with its end.
    fn say(&mut self, client: u32, line: &[u8], out: &mut Vec<u8>) {
        let same = self.asked.get(&client).is_some_and(|asked| asked.line == line);
        if !same {
            match Ask::read(line) {
                Ok(ask) => {
                    let asked = Asked::new(line, ask, &self.sampler);
                    self.asked.insert(client, asked);
                }
                Err((form, why)) => return text::write_error(form, &why, out),
            }
        }
        let Some(asked) = self.asked.get_mut(&client) else { return };
        if asked.ask.verb == Verb::Schema {
            let wanted = asked.ask.columns(self.sampler.layout());
            return text::write_schema(asked.ask.form, self.sampler.layout(), &self.node, |at| wanted[at], out);
        }
        if !Arc::ptr_eq(&asked.layout, self.sampler.layout()) {
            asked.renew(&self.sampler);
        }
        if self.sampler.take(|at| asked.wanted[at]) {
            asked.renew(&self.sampler);
        }
        let (layout, values) = (self.sampler.layout(), self.sampler.values());
        let who = (&*self.node, self.sampler.time_us());
        if asked.ask.verb == Verb::Changed {
            let Asked { told, wanted, .. } = &asked;
            let news = |at: usize| wanted[at] && told.get(at) != values.get(at);
            text::write_some(asked.ask.form, layout, who, values, news, out);
            asked.told.clear();
            asked.told.extend_from_slice(values);
        } else {
            asked.shape.write(who.0, who.1, values, out);
        }
    }
}

impl Asked {
    fn new(line: &[u8], ask: Ask, sampler: &Sampler) -> Asked {
        let (layout, shape) = (Arc::default(), Shape::new(Form::Words, &Layout::default(), |_| false));
        let mut asked = Asked { line: line.to_vec(), ask, layout, wanted: Vec::new(), shape, told: Vec::new() };
        asked.renew(sampler);
        asked
    }

    /// Something has come or gone on the machine: everything is news.
    fn renew(&mut self, sampler: &Sampler) {
        self.layout = sampler.layout().clone();
        self.wanted = self.ask.columns(&self.layout);
        self.shape = Shape::new(self.ask.form, &self.layout, |at| self.wanted[at]);
        self.told.clear();
    }
}

impl Answers for Machine {
    fn answer(&mut self, _: &Poller, client: u32, line: &[u8], out: &mut Vec<u8>) -> Turn {
        self.say(client, line, out);
        out.push(b'\n');
        Turn::Answered
    }

    fn gone(&mut self, client: u32) {
        self.asked.remove(&client);
    }

    fn ready(&mut self, _: &Poller, _: Ready) {}

    fn deadline(&self) -> Option<u64> {
        None
    }

    fn later(&mut self, _: &Poller, _: u64, _: &mut Vec<(u32, Vec<u8>)>) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(machine: &mut Machine, line: &str) -> String {
        let mut out = Vec::new();
        machine.say(1, line.as_bytes(), &mut out);
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn it_says_what_is_asked_and_no_more() {
        let mut machine = Machine::new("here".into()).expect("a sampler");
        let all = said(&mut machine, "S");
        assert!(all.len() > 1024, "{all}");
        let whole = crate::words::samples(&all).expect("a sample").remove(0);
        assert!(whole.get("memory", "", "MemTotal").is_some() && whole.node == "here");
        let some =
            crate::words::samples(&said(&mut machine, "(sample load memory.MemF*)")).expect("a sample").remove(0);
        assert!(some.layout.columns.iter().all(|c| &*c.group == "load" || &*c.field == "MemFree"));
        let json: serde_json::Value =
            serde_json::from_str(&said(&mut machine, r#"{"sample":["cpu.all"]}"#)).expect("JSON");
        assert!(json["cpu"]["all"]["user"].is_u64() && json["load"].is_null());
        assert!(said(&mut machine, "#").starts_with("(schema (node here) (load (load1 gauge decimal)"));
        assert!(said(&mut machine, "nonsense").starts_with("(error "));
        assert!(said(&mut machine, "{nonsense").starts_with("{\"error\":"));
    }

    #[test]
    fn of_what_has_not_changed_nothing_is_said_again() {
        let mut machine = Machine::new("here".into()).expect("a sampler");
        let first = said(&mut machine, "(changed memory.MemTotal stat.ctxt)");
        assert!(first.contains("MemTotal"), "{first}");
        std::thread::yield_now();
        let second = said(&mut machine, "(changed memory.MemTotal stat.ctxt)");
        assert!(!second.contains("MemTotal"), "{second}");
    }
}
