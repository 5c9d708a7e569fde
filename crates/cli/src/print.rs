//! Tables and JSON.

pub(crate) use monitor::units::{bytes, cpu_time};
use serde::Serialize;
use std::io::Write;
use vocab::errno::EPIPE;
use vocab::{Fault, Result};

/// Prints rows under a heading, each column as wide as it needs to be; `right` says which are numbers.
pub(crate) fn table<const N: usize>(heading: [&str; N], right: [bool; N], rows: &[[String; N]]) -> Result<()> {
    out(&lay_out(heading, right, rows))
}

fn lay_out<const N: usize>(heading: [&str; N], right: [bool; N], rows: &[[String; N]]) -> String {
    let heading = heading.map(String::from);
    let all = || std::iter::once(&heading).chain(rows);
    let width: [usize; N] = std::array::from_fn(|i| all().map(|row| row[i].chars().count()).max().unwrap_or(0));
    let mut text = String::new();
    for row in all() {
        let mut line = String::new();
        for i in 0..N {
            let gap = " ".repeat(width[i] - row[i].chars().count());
            line += &if right[i] { gap + &row[i] } else { row[i].clone() + &gap };
            line += if i + 1 < N { "  " } else { "" };
        }
        text += line.trim_end();
        text.push('\n');
    }
    text
}

/// Prints one JSON value on one line.
pub(crate) fn json(value: &impl Serialize) -> Result<()> {
    let text = serde_json::to_string(value).map_err(|e| Fault::bug(format!("write JSON: {e}")))?;
    out(&(text + "\n"))
}

/// # Errors
/// `Sys` when standard output does not take it.
pub(crate) fn out(text: &str) -> Result<()> {
    let written = std::io::stdout().write_all(text.as_bytes());
    unless_unread(written.map_err(|e| Fault::io(&e, "write to standard output")))
}

/// What is printed for nobody, who has closed the pipe, ends quietly, as other tools do.
pub(crate) fn unless_unread(printed: Result<()>) -> Result<()> {
    printed.or_else(|fault| if fault.root_errno() == EPIPE { Ok(()) } else { Err(fault) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let rows = [["1".to_string(), "n0".into()], ["4711".into(), "n10".into()]];
        assert_eq!(lay_out(["PID", "NODE"], [true, false], &rows), " PID  NODE\n   1  n0\n4711  n10\n");
    }
}
