//! What is typed: bytes of a terminal into keys.

/// One key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Key {
    Char(char),
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
    End,
    Enter,
    Escape,
    Backspace,
    Tab,
    /// Ctrl-C.
    Interrupt,
    /// Ctrl-Z.
    Suspend,
    /// Ctrl-L.
    Redraw,
}

const ESCAPE: u8 = 0x1b;
/// What is longer is no key's sequence.
const LONGEST: usize = 16;

/// Keeps what is not yet a whole key: over a slow line a sequence may come in pieces.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    pending: Vec<u8>,
}

impl Decoder {
    /// What has been typed with these bytes.
    pub(crate) fn take(&mut self, bytes: &[u8]) -> Vec<Key> {
        self.pending.extend_from_slice(bytes);
        let (mut keys, mut at) = (Vec::new(), 0);
        while let Some((key, length)) = first(&self.pending[at..]) {
            keys.extend(key);
            at += length;
        }
        self.pending.drain(..at);
        keys
    }

    /// Is something begun?
    pub(crate) fn waits(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Nothing has followed for a while: an escape is the key of that name.
    pub(crate) fn late(&mut self) -> Vec<Key> {
        let begun = std::mem::take(&mut self.pending);
        if begun.first() == Some(&ESCAPE) {
            vec![Key::Escape]
        } else {
            Vec::new()
        }
    }
}

/// The first key, if it is one that means something, and its bytes; `None`: more must come.
fn first(bytes: &[u8]) -> Option<(Option<Key>, usize)> {
    let key = match *bytes.first()? {
        ESCAPE => return sequence(bytes),
        b'\r' | b'\n' => Some(Key::Enter),
        b'\t' => Some(Key::Tab),
        0x03 => Some(Key::Interrupt),
        0x0c => Some(Key::Redraw),
        0x1a => Some(Key::Suspend),
        0x08 | 0x7f => Some(Key::Backspace),
        0..=0x1f => None,
        ascii @ 0x20..=0x7e => Some(Key::Char(char::from(ascii))),
        lead => return character(bytes, lead),
    };
    Some((key, 1))
}

/// A character of several bytes.
fn character(bytes: &[u8], lead: u8) -> Option<(Option<Key>, usize)> {
    let length = match lead {
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => return Some((None, 1)),
    };
    let whole = bytes.get(..length)?;
    match std::str::from_utf8(whole).ok().and_then(|text| text.chars().next()) {
        Some(c) => Some((Some(Key::Char(c)), length)),
        None => Some((None, 1)),
    }
}

/// `ESC [ … letter`, `ESC [ digits ~`, `ESC O letter` (xterm's and the Linux console's).
fn sequence(bytes: &[u8]) -> Option<(Option<Key>, usize)> {
    match bytes.get(1)? {
        b'[' | b'O' => {}
        // Escape, and then something else.
        _ => return Some((Some(Key::Escape), 1)),
    }
    let Some(end) = bytes.iter().skip(2).position(|b| (0x40..=0x7e).contains(b)).map(|at| at + 2) else {
        return if bytes.len() > LONGEST { Some((None, bytes.len())) } else { None };
    };
    let key = match (&bytes[2..end], bytes[end]) {
        (_, b'A') => Some(Key::Up),
        (_, b'B') => Some(Key::Down),
        (_, b'H') | (b"1" | b"7", b'~') => Some(Key::Home),
        (_, b'F') | (b"4" | b"8", b'~') => Some(Key::End),
        (b"5", b'~') => Some(Key::PageUp),
        (b"6", b'~') => Some(Key::PageDown),
        _ => None,
    };
    Some((key, end + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_whole_or_in_pieces() {
        let typed: &[(&[u8], &[Key])] = &[
            (b"q", &[Key::Char('q')]),
            (b"\x1b[A\x1b[B\x1bOA", &[Key::Up, Key::Down, Key::Up]),
            (b"\x1b[5~\x1b[6~\x1b[1~\x1b[F", &[Key::PageUp, Key::PageDown, Key::Home, Key::End]),
            (
                b"\r\t\x7f\x03\x1a\x0c",
                &[Key::Enter, Key::Tab, Key::Backspace, Key::Interrupt, Key::Suspend, Key::Redraw],
            ),
            ("ä€😀".as_bytes(), &[Key::Char('ä'), Key::Char('€'), Key::Char('😀')]),
            (b"\x1b[1;5Cx\x01\xffy", &[Key::Char('x'), Key::Char('y')]),
            (b"\x1bx", &[Key::Escape, Key::Char('x')]),
        ];
        for (bytes, keys) in typed {
            assert_eq!(Decoder::default().take(bytes), *keys, "{bytes:?}");
            let mut slow = Decoder::default();
            let one_by_one: Vec<Key> = bytes.iter().flat_map(|byte| slow.take(&[*byte])).collect();
            assert_eq!(one_by_one, *keys, "{bytes:?} in pieces");
            assert!(!slow.waits());
        }
    }

    #[test]
    fn an_escape_that_nothing_follows_is_the_key() {
        let mut decoder = Decoder::default();
        assert_eq!(decoder.take(b"\x1b"), []);
        assert!(decoder.waits());
        assert_eq!(decoder.late(), [Key::Escape]);
        assert!(!decoder.waits());
        let endless = [b"\x1b[".as_slice(), &[b'1'; 100]].concat();
        assert_eq!(decoder.take(&endless), []);
        assert!(!decoder.waits(), "what is no key's is not kept");
    }
}
