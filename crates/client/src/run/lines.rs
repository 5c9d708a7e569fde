//! Output of several copies on one stream: whole lines only, each with its prefix.

use super::branch::Which;
use std::collections::HashMap;
use vocab::NodeId;

/// A line longer than this, in bytes, is cut: a copy that never ends its line must not fill the memory.
const LONGEST: usize = 64 * 1024;

/// Gathers lines.
#[derive(Debug)]
pub(crate) struct Lines {
    channels: HashMap<Which, Line>,
}

#[derive(Debug)]
struct Line {
    prefix: Vec<u8>,
    /// The beginning of a line whose end has not come.
    begun: Vec<u8>,
}

impl Lines {
    /// One prefix for each copy, empty where none is wanted.
    pub(crate) fn new(prefixes: impl IntoIterator<Item = String>) -> Lines {
        let line = |prefix: String| Line { prefix: prefix.into_bytes(), begun: Vec::new() };
        let first = prefixes.into_iter().enumerate().map(|(copy, prefix)| ((copy, 0), line(prefix)));
        Lines { channels: first.collect() }
    }

    /// Takes `bytes` that came over a channel and appends the lines that are whole now.
    pub(crate) fn feed(&mut self, of: Which, bytes: &[u8], out: &mut Vec<u8>) {
        let Some(line) = self.channels.get_mut(&of) else { return };
        for piece in bytes.split_inclusive(|&b| b == b'\n') {
            line.begun.extend_from_slice(piece);
            if piece.ends_with(b"\n") || line.begun.len() >= LONGEST {
                line.emit(out);
            }
        }
    }

    /// The line that is not whole yet on one channel ends on another one, of `node`: where prefixes are wanted, that is theirs.
    pub(crate) fn moved(&mut self, from: Which, to: Which, node: NodeId) {
        let Some(line) = self.channels.get_mut(&from) else { return };
        let begun = std::mem::take(&mut line.begun);
        let prefix = if line.prefix.is_empty() { Vec::new() } else { prefix(node).into_bytes() };
        self.channels.insert(to, Line { prefix, begun });
    }

    /// Appends the line that was begun on a channel, with an end: nothing more comes over it.
    pub(crate) fn flush(&mut self, of: Which, out: &mut Vec<u8>) {
        match self.channels.get_mut(&of) {
            Some(line) if !line.begun.is_empty() => line.emit(out),
            _ => {}
        }
    }
}

/// What is put before the lines of a copy on `node`.
pub(crate) fn prefix(node: NodeId) -> String {
    format!("{node}: ")
}

impl Line {
    fn emit(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.prefix);
        out.append(&mut self.begun);
        if !out.ends_with(b"\n") {
            out.push(b'\n');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_two_copies_stay_whole_and_have_their_prefix() {
        let mut lines = Lines::new(["n0: ".into(), "n1: ".into()]);
        let mut out = Vec::new();
        lines.feed((0, 0), b"a\nhal", &mut out);
        lines.feed((1, 0), b"x\n\n", &mut out);
        lines.feed((0, 0), b"f\n", &mut out);
        lines.feed((1, 0), b"end", &mut out);
        lines.flush((1, 0), &mut out);
        lines.flush((0, 0), &mut out);
        assert_eq!(out, b"n0: a\nn1: x\nn1: \nn0: half\nn1: end\n");
    }

    #[test]
    fn a_line_has_the_prefix_of_the_node_on_which_it_ends() {
        let mut lines = Lines::new([prefix(NodeId(0)), String::new()]);
        let mut out = Vec::new();
        lines.feed((0, 0), b"one\ntw", &mut out);
        lines.feed((1, 0), b"bare ", &mut out);
        (0..2).for_each(|copy| lines.moved((copy, 0), (copy, 3), NodeId(7)));
        lines.feed((0, 3), b"o\n", &mut out);
        lines.feed((1, 3), b"stays\n", &mut out);
        assert_eq!(String::from_utf8_lossy(&out), "n0: one\nn7: two\nbare stays\n");
    }

    #[test]
    fn a_line_without_end_is_cut() {
        let mut lines = Lines::new([String::new()]);
        let mut out = Vec::new();
        for _ in 0..5 {
            lines.feed((0, 0), &[b'x'; 48 * 1024], &mut out);
        }
        assert!(out.len() >= 3 * 48 * 1024);
        assert!(out.split(|&b| b == b'\n').all(|line| line.len() <= 2 * LONGEST));
    }
}
