//! What the runner and its workers say to each other: one line of JSON each, over a unix socket.

use super::{Doing, Res};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{BufRead, Write};

/// A program to run to its end.
#[derive(Serialize, Deserialize, Clone, Debug, Default)]
pub(crate) struct Job {
    pub(crate) argv: Vec<String>,
    /// Set beside the worker's own environment.
    pub(crate) env: Vec<(String, String)>,
    /// Written to standard input, then closed. Not with a terminal.
    pub(crate) input: String,
    /// Milliseconds until the program is late.
    pub(crate) deadline_ms: u64,
    /// With it the program leads a session on a terminal, and this is said and awaited there.
    pub(crate) dialogue: Option<Vec<Step>>,
    /// Processes it leaves behind are no fault.
    pub(crate) may_leave: bool,
}

/// One turn of a dialogue on a terminal.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub(crate) enum Step {
    /// Keys; `\x03` is Ctrl-C.
    Type(String),
    /// Until this text has come, after what was awaited before.
    Await(String),
}

/// To a worker.
#[derive(Serialize, Deserialize, Debug)]
pub(crate) enum Order {
    Run(Job),
    /// To a late job, or what one has left: what there was to see has been seen, kill it.
    Kill,
}

/// From a worker.
#[derive(Serialize, Deserialize, Debug)]
pub(crate) enum Report {
    /// The job is late and still there, or something that it has left.
    Late,
    Done(Outcome),
}

/// How a job ended.
#[derive(Serialize, Deserialize, Clone, Debug, Default)]
pub(crate) struct Outcome {
    /// As wait gives it.
    pub(crate) status: i32,
    pub(crate) out: String,
    pub(crate) err: String,
    pub(crate) late: bool,
    /// Processes that it left behind and that did not end by themselves within two seconds.
    pub(crate) left: Vec<String>,
    /// The dialogue went another way: what was awaited and did not come.
    pub(crate) missed: Option<String>,
    /// The worker cannot get rid of what it started, or could not start it, and has ended.
    pub(crate) stuck: bool,
}

impl Outcome {
    /// The exit code; `None` after a signal.
    pub(crate) fn code(&self) -> Option<i32> {
        (self.status & 0x7f == 0).then_some(self.status >> 8 & 0xff)
    }

    /// The fatal signal.
    pub(crate) fn signal(&self) -> Option<i32> {
        (self.status & 0x7f != 0).then_some(self.status & 0x7f)
    }

    /// All of it, for a person.
    pub(crate) fn text(&self) -> String {
        let end = match (self.code(), self.signal()) {
            (Some(code), _) => format!("exit code {code}"),
            (_, Some(signal)) => format!("signal {signal}"),
            _ => format!("status {:#x}", self.status),
        };
        let mut text = if self.late { format!("late; then {end}") } else { end };
        for (name, value) in [("output", &self.out), ("errors", &self.err)] {
            if !value.trim_end().is_empty() {
                text += &format!("\n--- {name}\n{}", value.trim_end());
            }
        }
        if let Some(missed) = &self.missed {
            text += &format!("\n--- awaited in vain: {missed:?}");
        }
        if !self.left.is_empty() {
            text += &format!("\n--- left behind\n{}", self.left.join("\n"));
        }
        text
    }
}

pub(crate) fn send(to: &mut impl Write, word: &impl Serialize) -> Res {
    let mut line = serde_json::to_string(word).doing("encode a word")?;
    line.push('\n');
    to.write_all(line.as_bytes()).doing("send a word")
}

/// `None` at end of file.
pub(crate) fn receive<T: DeserializeOwned>(from: &mut impl BufRead) -> Res<Option<T>> {
    let mut line = String::new();
    match from.read_line(&mut line).doing("receive a word")? {
        0 => Ok(None),
        _ => serde_json::from_str(&line).map(Some).doing(format!("understand {line:?}")),
    }
}
