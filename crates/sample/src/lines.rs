//! Numbers in lines of text, as the kernel writes them: found anew in each sample without taking memory, at the places where the last one had them.

/// What one line has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Line {
    /// What it begins with, behind blanks, up to where its numbers may begin.
    pub(crate) name: Box<[u8]>,
    /// How many of its numbers are wanted, from the first on; of a line without, the name is not looked at.
    pub(crate) numbers: usize,
    /// What stands before each number; blanks and anything else that is no digit if there is no such mark.
    pub(crate) mark: Option<u8>,
}

/// Puts the numbers into `values`, which has as many places as all lines together. False: the text has other lines now, and what is in `values` is
/// of no use. `whole`: nothing may follow the last line.
pub(crate) fn fill(text: &[u8], lines: &[Line], whole: bool, values: &mut [u64]) -> bool {
    let (mut rest, mut place) = (text, 0);
    for line in lines {
        if line.numbers > 0 {
            let Some(behind) = after_name(rest, &line.name) else { return false };
            rest = behind;
            for _ in 0..line.numbers {
                let Some((value, behind)) = number(rest, line.mark) else { return false };
                let Some(into) = values.get_mut(place) else { return false };
                *into = value;
                rest = behind;
                place += 1;
            }
        }
        match newline(rest) {
            Some(at) => rest = &rest[at + 1..],
            // A number at the end of what was read may go on.
            None => return false,
        }
    }
    place == values.len() && (!whole || rest.is_empty())
}

fn after_name<'t>(text: &'t [u8], name: &[u8]) -> Option<&'t [u8]> {
    let blanks = text.iter().take_while(|byte| **byte == b' ').count();
    text[blanks..].strip_prefix(name)
}

/// The next number of this line and what is behind it. With a point and digits it is in hundredths.
fn number(text: &[u8], mark: Option<u8>) -> Option<(u64, &[u8])> {
    let mut at = 0;
    if let Some(mark) = mark {
        at = text.iter().position(|byte| *byte == mark || *byte == b'\n')? + 1;
    }
    while !text.get(at)?.is_ascii_digit() {
        if text[at] == b'\n' {
            return None;
        }
        at += 1;
    }
    let (mut value, mut at) = digits(text, at);
    if text.get(at) == Some(&b'.') {
        let (part, behind) = digits(text, at + 1);
        let hundredths = match behind - at - 1 {
            0 => 0,
            1 => part * 10,
            2 => part,
            more => part / 10u64.saturating_pow(more as u32 - 2),
        };
        value = value.saturating_mul(100).saturating_add(hundredths);
        at = behind;
    }
    Some((value, &text[at..]))
}

fn digits(text: &[u8], mut at: usize) -> (u64, usize) {
    let mut value = 0u64;
    while let Some(digit) = text.get(at).map(|byte| byte.wrapping_sub(b'0')).filter(|digit| *digit < 10) {
        value = value.wrapping_mul(10).wrapping_add(digit.into());
        at += 1;
    }
    (value, at)
}

/// Where the line ends. Eight bytes at a time: most of the text are lines that nobody wants.
fn newline(text: &[u8]) -> Option<usize> {
    const LOW: u64 = 0x0101_0101_0101_0101;
    let words = text.chunks_exact(8);
    let behind = text.len() - words.remainder().len();
    for (i, word) in words.enumerate() {
        let other = u64::from_le_bytes(word.try_into().unwrap_or_default()) ^ (LOW * b'\n' as u64);
        let found = other.wrapping_sub(LOW) & !other & (LOW << 7);
        if found != 0 {
            return Some(i * 8 + found.trailing_zeros() as usize / 8);
        }
    }
    text[behind..].iter().position(|byte| *byte == b'\n').map(|at| behind + at)
}

/// How many numbers a line has behind `name`.
pub(crate) fn count(line: &[u8], mark: Option<u8>) -> usize {
    let with_end = [line, b"\n"].concat();
    let (mut rest, mut found) = (&with_end[..], 0);
    while let Some((_, behind)) = number(rest, mark) {
        rest = behind;
        found += 1;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn line(name: &str, numbers: usize, mark: Option<u8>) -> Line {
        Line { name: name.as_bytes().into(), numbers, mark }
    }

    #[test]
    fn numbers_are_found_behind_names_marks_and_points() {
        let text = b"cpu  1 2\ncpu0 3 4\nskipped line\nctxt 5\n  eth0:12 13\n";
        let lines = [
            line("cpu ", 2, None),
            line("cpu0 ", 1, None),
            line("", 0, None),
            line("ctxt ", 1, None),
            line("eth0:", 2, None),
        ];
        let mut values = [0; 6];
        assert!(fill(text, &lines, true, &mut values));
        assert_eq!(values, [1, 2, 3, 5, 12, 13]);
        assert!(!fill(text, &lines[..4], true, &mut values[..4]), "a line more");
        assert!(fill(text, &lines[..4], false, &mut values[..4]));
        let mut values = [0; 4];
        assert!(fill(
            b"some avg10=1.05 avg60=0.00 avg300=12.5 total=77\n",
            &[line("some", 4, Some(b'='))],
            true,
            &mut values
        ));
        assert_eq!(values, [105, 0, 1250, 77]);
        let mut values = [0; 5];
        assert!(fill(b"0.60 1.51 3.89 2/345 12\n", &[line("", 5, None)], true, &mut values));
        assert_eq!(values, [60, 151, 389, 2, 345]);
    }

    #[test]
    fn what_has_changed_or_is_cut_off_is_noticed() {
        let mut values = [0; 1];
        for bad in ["", "b 1\n", "a\n", "a 12", "a x\nb 1\n"] {
            assert!(!fill(bad.as_bytes(), &[line("a", 1, None)], true, &mut values), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(text in proptest::collection::vec(any::<u8>(), 0..200)) {
            let lines = [line("a", 2, None), line("", 0, None), line("", 1, Some(b'='))];
            fill(&text, &lines, false, &mut [0; 3]);
            count(&text, None);
            prop_assert_eq!(newline(&text), text.iter().position(|byte| *byte == b'\n'));
        }
    }
}
