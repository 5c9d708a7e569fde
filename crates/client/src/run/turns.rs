//! The output of several copies one after the other: whose turn has not come yet, its output is held.
//!
//! Held bytes are not yet consumed, so each copy has at most its credit here, and waits with what it writes beyond that.

use super::branch::Which;
use super::lines::Lines;
use super::show::Show;
use vocab::NodeId;

/// What is held, and whose turn it is.
pub(super) struct Turns {
    copies: Vec<Held>,
    /// The copy that writes; all before have ended.
    current: usize,
}

struct Held {
    divider: Vec<u8>,
    pieces: Vec<(Which, Vec<u8>)>,
    ended: bool,
}

/// What a turn is for: bytes to write, and of which channel so many are consumed by that.
pub(super) type Written = Vec<(Vec<u8>, Option<(Which, usize)>)>;

impl Turns {
    pub(super) fn new(nodes: &[NodeId], show: Show) -> Turns {
        let held = |node: &NodeId| {
            let divider = show.divider(*node).unwrap_or_default().into_bytes();
            Held { divider, pieces: Vec::new(), ended: false }
        };
        Turns { copies: nodes.iter().map(held).collect(), current: 0 }
    }

    /// Output of a copy; what of it, and of others, can be written now.
    pub(super) fn data(&mut self, of: Which, bytes: Vec<u8>, lines: &mut Option<Lines>) -> Written {
        match self.copies.get_mut(of.0) {
            Some(held) if of.0 > self.current => {
                held.pieces.push((of, bytes));
                Vec::new()
            }
            // Also what comes late, from a copy that has moved when its turn was over.
            _ => {
                let mut written = self.divider();
                written.push(whole(of, bytes, lines));
                written
            }
        }
    }

    /// Nothing more comes over a channel of a copy. If its turn is over by that, those of the next ones follow.
    pub(super) fn ends(&mut self, of: Which, lines: &mut Option<Lines>) -> Written {
        let Some(held) = self.copies.get_mut(of.0) else { return Vec::new() };
        held.ended = true;
        let mut written = Vec::new();
        if of.0 <= self.current {
            written.push(rest(of, lines));
        }
        while let Some(held) = self.copies.get_mut(self.current) {
            let (ended, pieces) = (held.ended, std::mem::take(&mut held.pieces));
            if ended || !pieces.is_empty() {
                written.append(&mut self.divider());
            }
            written.extend(pieces.into_iter().map(|(of, bytes)| whole(of, bytes, lines)));
            if !ended {
                break;
            }
            written.push(rest((self.current, of.1), lines));
            self.current += 1;
        }
        written
    }

    /// The line before the output of the copy whose turn it is, once.
    fn divider(&mut self) -> Written {
        let divider = self.copies.get_mut(self.current).map(|held| std::mem::take(&mut held.divider));
        divider.filter(|text| !text.is_empty()).map(|text| (text, None)).into_iter().collect()
    }
}

/// Whole lines of the bytes.
fn whole(of: Which, bytes: Vec<u8>, lines: &mut Option<Lines>) -> (Vec<u8>, Option<(Which, usize)>) {
    let consumed = Some((of, bytes.len()));
    match lines {
        None => (bytes, consumed),
        Some(lines) => {
            let mut out = Vec::new();
            lines.feed(of, &bytes, &mut out);
            (out, consumed)
        }
    }
}

/// The line that was begun.
fn rest(of: Which, lines: &mut Option<Lines>) -> (Vec<u8>, Option<(Which, usize)>) {
    let mut out = Vec::new();
    if let Some(lines) = lines {
        lines.flush(of, &mut out);
    }
    (out, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(written: Written) -> String {
        written.into_iter().map(|(bytes, _)| String::from_utf8_lossy(&bytes).into_owned()).collect()
    }

    #[test]
    fn copies_write_in_the_order_of_their_nodes() {
        let mut lines = Some(Lines::new(["".into(), "".into(), "".into()]));
        let mut turns = Turns::new(&[4, 7, 9].map(NodeId), Show { dividers: true, ..Show::default() });
        let mut said = String::new();
        said += &text(turns.data((2, 0), b"last".to_vec(), &mut lines));
        said += &text(turns.data((1, 0), b"one\ntwo\n".to_vec(), &mut lines));
        assert_eq!(said, "");
        said += &text(turns.data((0, 0), b"begin ".to_vec(), &mut lines));
        said += &text(turns.ends((1, 0), &mut lines));
        said += &text(turns.data((0, 0), b"end".to_vec(), &mut lines));
        said += &text(turns.ends((0, 0), &mut lines));
        said += &text(turns.ends((2, 0), &mut lines));
        let dash = "-".repeat(70);
        assert_eq!(said, format!("4    {dash}\nbegin end\n7    {dash}\none\ntwo\n9    {dash}\nlast\n"));
    }

    #[test]
    fn a_copy_that_writes_nothing_has_its_turn_and_what_comes_late_is_written() {
        let mut lines = None;
        let mut turns = Turns::new(&[0, 1].map(NodeId), Show::default());
        assert_eq!(text(turns.ends((1, 0), &mut lines)), "");
        assert_eq!(text(turns.ends((0, 0), &mut lines)), "");
        assert_eq!(text(turns.data((0, 1), b"late".to_vec(), &mut lines)), "late");
    }

    #[test]
    fn what_is_held_is_consumed_when_it_is_written() {
        let mut lines = None;
        let mut turns = Turns::new(&[0, 1].map(NodeId), Show::default());
        assert!(turns.data((1, 0), b"12345".to_vec(), &mut lines).is_empty());
        let consumed: Vec<_> = turns.ends((0, 0), &mut lines).into_iter().filter_map(|(_, of)| of).collect();
        assert_eq!(consumed, [((1, 0), 5)]);
    }
}
