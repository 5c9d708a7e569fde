//! Output of several copies on one stream: whole lines only, each with its prefix.

use super::branch::Which;
use super::show::Show;
use std::collections::HashMap;
use vocab::NodeId;

/// Bytes of lines without an end that are kept for all copies together. A copy that never ends its line must not fill the memory: its line is cut.
const MOST: usize = 64 << 20;

/// Of a single copy a line of so many bytes is written before its end has come: no other line can come in between.
const PART: usize = 64 << 10;

/// Gathers lines.
#[derive(Debug)]
pub(crate) struct Lines {
    channels: HashMap<Which, Line>,
    /// Is there a single copy?
    alone: bool,
    /// Bytes of all lines that have begun.
    kept: usize,
    show: Show,
}

#[derive(Debug)]
struct Line {
    prefix: Vec<u8>,
    /// The beginning of a line whose end has not come.
    begun: Vec<u8>,
    /// The bytes before those are written.
    in_part: bool,
}

impl Lines {
    /// One prefix for each copy, empty where none is wanted.
    pub(crate) fn new(prefixes: impl IntoIterator<Item = String>) -> Lines {
        let line = |prefix: String| Line { prefix: prefix.into_bytes(), begun: Vec::new(), in_part: false };
        let first = prefixes.into_iter().enumerate().map(|(copy, prefix)| ((copy, 0), line(prefix)));
        let channels: HashMap<Which, Line> = first.collect();
        Lines { alone: channels.len() == 1, channels, kept: 0, show: Show::default() }
    }

    /// Prefixes look as `show` says.
    pub(crate) fn shown(mut self, show: Show) -> Lines {
        self.show = show;
        self
    }

    /// Takes `bytes` that came over a channel and appends the lines that are whole now.
    pub(crate) fn feed(&mut self, of: Which, bytes: &[u8], out: &mut Vec<u8>) {
        let Some(line) = self.channels.get_mut(&of) else { return };
        for piece in bytes.split_inclusive(|&b| b == b'\n') {
            line.begun.extend_from_slice(piece);
            self.kept += piece.len();
            if piece.ends_with(b"\n") || self.kept >= MOST {
                self.kept -= line.begun.len();
                line.end(out);
            } else if self.alone && line.begun.len() >= PART {
                self.kept -= line.begun.len();
                line.part(out);
            }
        }
    }

    /// The line that is not whole yet on one channel ends on another one, of `node`: where prefixes are wanted, that is theirs.
    pub(crate) fn moved(&mut self, from: Which, to: Which, node: NodeId) {
        let Some(line) = self.channels.get_mut(&from) else { return };
        let begun = std::mem::take(&mut line.begun);
        let in_part = std::mem::take(&mut line.in_part);
        let prefix = if line.prefix.is_empty() { Vec::new() } else { self.show.prefix(node).into_bytes() };
        self.channels.insert(to, Line { prefix, begun, in_part });
    }

    /// Appends the line that was begun on a channel, with an end: nothing more comes over it.
    pub(crate) fn flush(&mut self, of: Which, out: &mut Vec<u8>) {
        match self.channels.get_mut(&of) {
            Some(line) if line.in_part || !line.begun.is_empty() => {
                self.kept -= line.begun.len();
                line.end(out);
            }
            _ => {}
        }
    }
}

impl Line {
    fn part(&mut self, out: &mut Vec<u8>) {
        if !std::mem::replace(&mut self.in_part, true) {
            out.extend_from_slice(&self.prefix);
        }
        out.append(&mut self.begun);
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        let ends = self.begun.ends_with(b"\n");
        self.part(out);
        if !ends {
            out.push(b'\n');
        }
        self.in_part = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(node: NodeId) -> String {
        Show::default().prefix(node)
    }

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
    fn a_line_stays_whole_however_long_it_is() {
        for copies in 1..3 {
            let mut lines = Lines::new((0..copies).map(|n| prefix(NodeId(n))));
            let mut out = Vec::new();
            for _ in 0..40 {
                lines.feed((0, 0), &[b'x'; 48 * 1024], &mut out);
                lines.feed((1, 0), b"y\n", &mut out);
            }
            lines.feed((0, 0), b"\nz", &mut out);
            lines.moved((0, 0), (0, 1), NodeId(5));
            lines.flush((0, 1), &mut out);
            assert_eq!(lines.kept, 0);
            let mut whole: Vec<usize> = out.split(|&b| b == b'\n').map(<[u8]>::len).filter(|len| *len != 5).collect();
            whole.retain(|len| *len > 0);
            assert_eq!(whole, [4 + 40 * 48 * 1024], "{copies}");
            assert!(out.ends_with(b"\nn5: z\n"));
        }
    }

    #[test]
    fn a_line_without_end_is_cut_where_others_wait_and_not_kept_where_none_do() {
        for (copies, ends) in [(1, 0), (2, 1)] {
            let mut lines = Lines::new((0..copies).map(|_| String::new()));
            let mut out = Vec::new();
            let mut most = 0;
            for _ in 0..MOST / (1 << 20) + 1 {
                lines.feed((0, 0), &[b'x'; 1 << 20], &mut out);
                most = most.max(lines.kept);
            }
            assert_eq!(out.iter().filter(|&&b| b == b'\n').count(), ends);
            assert!(most < if copies == 1 { PART } else { MOST });
        }
    }
}
