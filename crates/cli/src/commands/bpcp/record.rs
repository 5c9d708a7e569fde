//! Files as a stream of bytes, from a sender to a receiver that may be on different machines.
//!
//! A stream is a mark, then records: a letter and what belongs to it. A file's content follows its record in pieces, each behind its length; an empty
//! piece ends the content, and a byte tells whether all of it could be read. The record `End` is the last: a stream without it was cut off.

use std::io::{Read, Write};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use vocab::{Fault, Result};

const MARK: &[u8; 8] = b"shoalcp1";
/// PATH_MAX: no name and no target of a link is longer.
const LONGEST: u32 = 4096;
/// The most bytes of a file that one piece has.
pub(super) const PIECE: usize = 256 << 10;

/// What a file or directory has beside its content.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Traits {
    pub(super) mode: u32,
    pub(super) owner: u32,
    pub(super) group: u32,
    /// Seconds and nanoseconds since 1970.
    pub(super) accessed: (i64, u32),
    pub(super) modified: (i64, u32),
}

#[derive(PartialEq, Eq, Debug)]
pub(super) enum Record {
    /// Records up to the next `Up` are in this directory.
    Directory(Vec<u8>, Traits),
    Up,
    /// Its content follows.
    File(Vec<u8>, Traits),
    /// A symbolic link, and where it leads.
    Link(Vec<u8>, Vec<u8>),
    End,
}

/// The time that a pair of [`Traits`] is.
pub(super) fn time((seconds, nanoseconds): (i64, u32)) -> SystemTime {
    let whole = Duration::from_secs(seconds.unsigned_abs());
    let second = if seconds < 0 { UNIX_EPOCH.checked_sub(whole) } else { UNIX_EPOCH.checked_add(whole) };
    second.and_then(|time| time.checked_add(Duration::from_nanos(nanoseconds.into()))).unwrap_or(UNIX_EPOCH)
}

/// The sender's end.
pub(super) struct Out<W>(W);

impl<W: Write> Out<W> {
    pub(super) fn new(to: W) -> Result<Out<W>> {
        let mut out = Out(to);
        out.bytes(MARK)?;
        Ok(out)
    }

    pub(super) fn record(&mut self, record: &Record) -> Result<()> {
        match record {
            Record::Directory(name, traits) => self.begin(b'D', name).and_then(|()| self.traits(traits)),
            Record::File(name, traits) => self.begin(b'F', name).and_then(|()| self.traits(traits)),
            Record::Link(name, target) => self.begin(b'L', name).and_then(|()| self.text(target)),
            Record::Up => self.bytes(b"U"),
            Record::End => self.bytes(b"E").and_then(|()| self.0.flush().map_err(|e| written(&e))),
        }
    }

    pub(super) fn piece(&mut self, piece: &[u8]) -> Result<()> {
        self.number(piece.len() as u32)?;
        self.bytes(piece)
    }

    /// The end of a file's content; `whole`: it could be read to its end.
    pub(super) fn content_ends(&mut self, whole: bool) -> Result<()> {
        self.number(0)?;
        self.bytes(&[u8::from(whole)])
    }

    fn begin(&mut self, letter: u8, name: &[u8]) -> Result<()> {
        self.bytes(&[letter]).and_then(|()| self.text(name))
    }

    fn text(&mut self, text: &[u8]) -> Result<()> {
        self.number(text.len() as u32).and_then(|()| self.bytes(text))
    }

    fn traits(&mut self, traits: &Traits) -> Result<()> {
        let Traits { mode, owner, group, accessed, modified } = traits;
        [*mode, *owner, *group].into_iter().try_for_each(|number| self.number(number))?;
        [accessed, modified].into_iter().try_for_each(|(seconds, nanoseconds)| {
            self.bytes(&seconds.to_be_bytes()).and_then(|()| self.number(*nanoseconds))
        })
    }

    fn number(&mut self, number: u32) -> Result<()> {
        self.bytes(&number.to_be_bytes())
    }

    fn bytes(&mut self, bytes: &[u8]) -> Result<()> {
        self.0.write_all(bytes).map_err(|e| written(&e))
    }
}

fn written(error: &std::io::Error) -> Fault {
    Fault::io(error, "send files")
}

/// The receiver's end.
pub(super) struct In<R>(R);

impl<R: Read> In<R> {
    /// # Errors
    /// `Gone` if nothing comes: the sender has said why.
    pub(super) fn new(from: R) -> Result<In<R>> {
        let mut incoming = In(from);
        match incoming.array::<8>()? {
            mark if mark == *MARK => Ok(incoming),
            other => Err(Fault::wire(format!("{other:?} is no beginning of a copy"))),
        }
    }

    pub(super) fn record(&mut self) -> Result<Record> {
        let [letter] = self.array()?;
        match letter {
            b'D' => Ok(Record::Directory(self.text()?, self.traits()?)),
            b'F' => Ok(Record::File(self.text()?, self.traits()?)),
            b'L' => Ok(Record::Link(self.text()?, self.text()?)),
            b'U' => Ok(Record::Up),
            b'E' => Ok(Record::End),
            other => Err(Fault::wire(format!("a record of a copy begins with {}", other.escape_ascii()))),
        }
    }

    /// The next piece of a file, as much of `buffer` as it fills; `Err` in the result: it was the last, and says whether the content is whole.
    pub(super) fn piece<'b>(&mut self, buffer: &'b mut [u8]) -> Result<std::result::Result<&'b [u8], bool>> {
        let length = self.number()? as usize;
        if length == 0 {
            let [whole] = self.array()?;
            return Ok(Err(whole == 1));
        }
        let most = buffer.len();
        let piece = buffer
            .get_mut(..length)
            .ok_or_else(|| Fault::wire(format!("a piece of a file has {length} bytes, and {most} is the most")))?;
        self.fill(piece)?;
        Ok(Ok(piece))
    }

    fn text(&mut self) -> Result<Vec<u8>> {
        let length = self.number()?;
        if length > LONGEST {
            return Err(Fault::wire(format!("a name of {length} bytes")));
        }
        let mut text = vec![0; length as usize];
        self.fill(&mut text)?;
        Ok(text)
    }

    fn traits(&mut self) -> Result<Traits> {
        let [mode, owner, group] = [self.number()?, self.number()?, self.number()?];
        let accessed = (i64::from_be_bytes(self.array()?), self.number()?);
        let modified = (i64::from_be_bytes(self.array()?), self.number()?);
        Ok(Traits { mode, owner, group, accessed, modified })
    }

    fn number(&mut self) -> Result<u32> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    fn fill(&mut self, into: &mut [u8]) -> Result<()> {
        self.0.read_exact(into).map_err(|e| match e.kind() {
            std::io::ErrorKind::UnexpectedEof => Fault::gone("the copy was cut off"),
            _ => Fault::io(&e, "receive files"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_is_received() {
        let traits = Traits { mode: 0o4755, owner: 1, group: 2, accessed: (-5, 999_999_999), modified: (1 << 40, 7) };
        let sent = [
            Record::Directory(b"a\nb".to_vec(), traits),
            Record::Link(b" ".to_vec(), b"/x".to_vec()),
            Record::Up,
            Record::File(vec![0xff], traits),
        ];
        let mut bytes = Vec::new();
        let mut out = Out::new(&mut bytes).expect("memory");
        sent.iter().for_each(|record| out.record(record).expect("memory"));
        out.piece(b"content").expect("memory");
        out.content_ends(true).expect("memory");
        out.record(&Record::End).expect("memory");
        for cut in 0..bytes.len() {
            let all = || {
                let mut came = In::new(&bytes[..cut])?;
                (0..4).try_for_each(|_| came.record().map(drop))?;
                while came.piece(&mut [0; 16])?.is_ok() {}
                came.record()
            };
            assert_eq!(all().expect_err("cut").kind, vocab::Kind::Gone, "{cut}");
        }
        let mut came = In::new(&bytes[..]).expect("a mark");
        sent.iter().for_each(|record| assert_eq!(came.record().as_ref(), Ok(record)));
        let mut buffer = [0; 16];
        assert_eq!(came.piece(&mut buffer), Ok(Ok(&b"content"[..])));
        assert_eq!(came.piece(&mut buffer), Ok(Err(true)));
        assert_eq!(came.record(), Ok(Record::End));
    }

    #[test]
    fn what_is_too_long_is_refused_before_memory_is_taken() {
        let long = [&MARK[..], b"F", &u32::MAX.to_be_bytes()].concat();
        assert!(In::new(&long[..]).and_then(|mut came| came.record()).is_err());
        let piece = [&MARK[..], &[0, 0, 0, 9], &[1; 9]].concat();
        assert!(In::new(&piece[..]).and_then(|mut came| came.piece(&mut [0; 8]).map(|_| ())).is_err());
        assert!(In::new(&b"something"[..]).is_err());
    }

    #[test]
    fn times_before_1970_are_times() {
        assert_eq!(time((-1, 500_000_000)), UNIX_EPOCH - Duration::from_millis(500));
        assert_eq!(time((i64::MAX, u32::MAX)), UNIX_EPOCH);
    }
}
