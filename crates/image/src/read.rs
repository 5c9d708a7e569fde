//! Records of a byte stream, read and looked at.

use crate::frame::{checksum, start, Pages, Record, ADDRESS, HEAD, MAGIC, MOST, SKIPPABLE, VERSION, VOUCHED};
use crate::frame::{
    KIND_CLOCKS, KIND_CONTENT, KIND_EARLY, KIND_END, KIND_FILES, KIND_FORECAST, KIND_GONE, KIND_HEADER, KIND_KEPT,
    KIND_LAZY, KIND_MEMORY, KIND_OBJECTS, KIND_PAGES, KIND_PROCESS, KIND_STILL, KIND_THREAD, KIND_VDSO,
};
use minicbor::Decode;
use std::io::Read;
use vocab::{Fault, Kind, Result};

/// Reads an image from anything that gives bytes.
pub struct Reader<R: Read> {
    from: R,
    done: bool,
    vouched: bool,
    /// To be used again: fresh memory for each record would cost more than what is read into it.
    spare: Vec<Vec<u8>>,
}

impl<R: Read> Reader<R> {
    /// # Errors
    /// `Wire` for what is no image, `Unsupported` for an image of a later version.
    pub fn new(from: R) -> Result<Reader<R>> {
        let reader = Reader::vouched(from)?;
        match reader.vouched {
            true => Err(Fault::wire("an image without checksums, for which nobody vouches")),
            false => Ok(reader),
        }
    }

    /// The same; the image may be one for which `from` vouches ([`Writer::vouched`]).
    ///
    /// # Errors
    /// As [`Reader::new`].
    pub fn vouched(from: R) -> Result<Reader<R>> {
        let mut reader = Reader { from, done: false, vouched: false, spare: Vec::new() };
        let mut start = [0; 16];
        reader.get(&mut start)?;
        if start[..8] != MAGIC {
            return Err(Fault::wire("this is no image of a process"));
        }
        let version = u32::from_le_bytes([start[8], start[9], start[10], start[11]]);
        if version != VERSION {
            let what = format!("an image of version {version}: this program reads {VERSION}");
            return Err(Fault::new(Kind::Unsupported, what));
        }
        reader.vouched = u32::from_le_bytes([start[12], start[13], start[14], start[15]]) & VOUCHED != 0;
        Ok(reader)
    }

    /// The next record; `None` after the end.
    ///
    /// # Errors
    /// `Wire` when bytes are missing or are not what was written.
    pub fn next_record(&mut self) -> Result<Option<Record>> {
        while let Some(raw) = self.next_raw()? {
            let record = raw.checked()?;
            if record.is_some() {
                return Ok(record);
            }
        }
        Ok(None)
    }

    /// The next record as it came, of which nothing is known yet; `None` after the end.
    ///
    /// # Errors
    /// `Wire` when bytes are missing.
    pub fn next_raw(&mut self) -> Result<Option<Raw>> {
        if self.done {
            return Ok(None);
        }
        let mut head = [0; HEAD];
        self.get(&mut head)?;
        let kind = u16::from_le_bytes([head[0], head[1]]);
        let number = |at: usize| u64::from_le_bytes(head[at..at + 8].try_into().unwrap_or_default());
        let (length, sum) = (number(8), number(16));
        if length > MOST {
            return Err(Fault::wire(format!("a record says it has {length} bytes, {MOST} is the most")));
        }
        let mut bytes = self.spare.pop().filter(|_| matches!(kind, KIND_PAGES | KIND_EARLY)).unwrap_or_default();
        bytes.resize(length as usize, 0);
        self.get(&mut bytes)?;
        self.done = kind == KIND_END;
        Ok(Some(Raw { kind, is_plain: head[2..8] == [0; 6], sum, vouched: self.vouched, bytes }))
    }

    /// Have its records sums, as those of files have?
    pub fn sums(&self) -> bool {
        !self.vouched
    }

    /// What it reads from.
    pub fn source(&mut self) -> &mut R {
        &mut self.from
    }

    /// Gives back what it reads from.
    pub fn into_source(self) -> R {
        self.from
    }

    /// Gives back pages whose bytes are no longer needed.
    pub fn recycle(&mut self, pages: Pages) {
        self.spare.push(pages.record);
    }

    fn get(&mut self, into: &mut [u8]) -> Result<()> {
        self.from.read_exact(into).map_err(|e| match e.kind() {
            std::io::ErrorKind::UnexpectedEof => Fault::wire("the image ends before its end: it was cut short"),
            _ => Fault::io(&e, "read an image"),
        })
    }
}

/// A record as it was read: it may not be what was written.
pub struct Raw {
    kind: u16,
    /// Where there are zeroes in a head, there are.
    is_plain: bool,
    sum: u64,
    vouched: bool,
    bytes: Vec<u8>,
}

impl Raw {
    /// Does it say that it is one of [`Record::Pages`]?
    pub fn is_pages(&self) -> bool {
        self.kind == KIND_PAGES
    }

    /// Does it say that it is one of [`Record::Early`]?
    pub fn is_early(&self) -> bool {
        self.kind == KIND_EARLY
    }

    /// Where its pages begin, if it has some.
    pub fn start(&self) -> u64 {
        start(&self.bytes)
    }

    /// Bytes of its pages.
    pub fn length(&self) -> u64 {
        self.bytes.len().saturating_sub(ADDRESS) as u64
    }

    /// What it is; `None` for one that may be skipped.
    ///
    /// # Errors
    /// `Wire` when it is not what was written.
    pub fn checked(self) -> Result<Option<Record>> {
        if !self.is_plain || checksum(self.kind, &self.bytes, self.vouched) != self.sum {
            return Err(Fault::wire("a record is not what was written: its checksum is another"));
        }
        parse(self.kind, self.bytes)
    }

    /// The pages, of either kind.
    ///
    /// # Errors
    /// `Wire` when it is not what was written, or has none.
    pub fn pages(self) -> Result<Pages> {
        match self.checked()? {
            Some(Record::Pages(pages) | Record::Early(pages)) => Ok(pages),
            _ => Err(Fault::wire("a record that is not of pages between records of pages")),
        }
    }
}

/// `None` for a record of a later program's that may be skipped.
fn parse(kind: u16, mut bytes: Vec<u8>) -> Result<Option<Record>> {
    Ok(Some(match kind {
        KIND_HEADER => Record::Header(decoded(&bytes, "header")?),
        KIND_PROCESS => Record::Process(Box::new(decoded(&bytes, "process")?)),
        KIND_MEMORY => Record::Memory(decoded(&bytes, "memory")?),
        KIND_FILES => Record::Files(decoded(&bytes, "files")?),
        KIND_THREAD => Record::Thread(Box::new(decoded(&bytes, "thread")?)),
        KIND_LAZY => Record::Lazy(decoded(&bytes, "pages that stay behind")?),
        KIND_KEPT => Record::Kept(decoded(&bytes, "kept pages")?),
        KIND_GONE => Record::Gone(decoded(&bytes, "pages that are gone")?),
        KIND_PAGES | KIND_EARLY if bytes.len() < ADDRESS => {
            return Err(Fault::wire("a record of pages without an address"))
        }
        KIND_PAGES => Record::Pages(Pages { record: bytes }),
        KIND_EARLY => Record::Early(Pages { record: bytes }),
        KIND_OBJECTS => Record::Objects(decoded(&bytes, "objects")?),
        KIND_CONTENT => {
            let [object, offset] = numbers(&mut bytes)?;
            Record::Content { object, offset, bytes }
        }
        KIND_END => Record::End,
        KIND_STILL => Record::Still,
        KIND_VDSO => Record::Vdso(bytes),
        KIND_FORECAST => Record::Forecast(Box::new(decoded(&bytes, "forecast")?)),
        KIND_CLOCKS => Record::Clocks(decoded(&bytes, "clocks")?),
        later if later >= SKIPPABLE => return Ok(None),
        other => return Err(Fault::wire(format!("a record of kind {other}, which this program does not know"))),
    }))
}

/// Takes the numbers that stand before the bytes of a record.
fn numbers<const N: usize>(bytes: &mut Vec<u8>) -> Result<[u64; N]> {
    if bytes.len() < N * 8 {
        return Err(Fault::wire("a record of bytes that does not say whose they are"));
    }
    let head = bytes.drain(..N * 8).collect::<Vec<u8>>();
    Ok(std::array::from_fn(|at| head[at * 8..][..8].try_into().map_or(0, u64::from_le_bytes)))
}

fn decoded<'b, T: Decode<'b, ()>>(bytes: &'b [u8], what: &str) -> Result<T> {
    minicbor::decode(bytes).map_err(|e| Fault::wire(format!("decode the record {what}: {e}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::Files;
    use crate::frame::{Piece, Writer};
    use crate::memory::Kept;
    use crate::objects::Objects;
    use crate::process::{Header, Process};
    use proptest::prelude::*;

    fn sample() -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut writer = Writer::new(&mut bytes).expect("memory");
        writer.header(&Header { release: "6.18".into(), threads: 1, ..Header::default() }).expect("memory");
        writer.process(&Process { pid: 7, exe: b"/bin/x"[..].into(), ..Process::default() }).expect("memory");
        let pipe = crate::files::OpenFile {
            flags: 1,
            offset: 0,
            kind: crate::files::Kind::Pipe { pipe: 0 },
            locks: Vec::new(),
            owner: None,
            id: None,
        };
        writer.files(&Files { files: vec![pipe], ..Files::default() }).expect("memory");
        let mut piece = Piece::new();
        piece.room(3).copy_from_slice(&[1, 2, 3]);
        writer.pages(&mut piece, 0x1000, false).expect("memory");
        let length = writer.end().expect("memory");
        assert_eq!(length, bytes.len() as u64);
        bytes
    }

    fn read(bytes: &[u8]) -> Result<Vec<Record>> {
        let mut reader = Reader::new(bytes)?;
        std::iter::from_fn(|| reader.next_record().transpose()).collect()
    }

    #[test]
    fn what_was_written_is_read() {
        let records = read(&sample()).expect("whole");
        assert_eq!(records.len(), 5);
        assert!(matches!(&records[1], Record::Process(process) if process.pid == 7 && process.exe.0 == b"/bin/x"));
        assert!(matches!(&records[3], Record::Pages(pages) if pages.start() == 0x1000 && pages.bytes() == [1, 2, 3]));
        assert_eq!(records[4], Record::End);
    }

    #[test]
    fn what_has_no_sums_is_read_by_who_trusts_where_it_comes_from() {
        let mut bytes = Vec::new();
        let mut writer = Writer::vouched(&mut bytes).expect("memory");
        let mut piece = Piece::new();
        piece.room(3).copy_from_slice(&[1, 2, 3]);
        writer.pages(&mut piece, 0x1000, false).expect("memory");
        writer.end().expect("memory");
        assert_eq!(read(&bytes).expect_err("nobody vouches").kind, Kind::Wire);
        let mut reader = Reader::vouched(&bytes[..]).expect("an image");
        let pages = reader.next_record().expect("whole");
        assert!(matches!(&pages, Some(Record::Pages(pages)) if pages.bytes() == [1, 2, 3]));
        // With sums they are looked at, whoever vouches.
        let mut changed = sample();
        let last = changed.len() - HEAD - 1;
        changed[last] ^= 1;
        let mut reader = Reader::vouched(&changed[..]).expect("an image");
        let failed = std::iter::from_fn(|| reader.next_record().transpose()).find_map(Result::err);
        assert_eq!(failed.map(|fault| fault.kind), Some(Kind::Wire));
    }

    #[test]
    fn objects_and_what_is_in_them() {
        let kind = crate::objects::ObjectKind::Memory { name: b"m"[..].into(), seals: 3 };
        let object =
            crate::objects::Object { kind, size: 7, mode: 0o700, uid: 1, gid: 2, accessed: 3, modified: 4, page: 0 };
        let objects = Objects { objects: vec![object] };
        let mut bytes = Vec::new();
        let mut writer = Writer::new(&mut bytes).expect("memory");
        writer.objects(&objects).expect("memory");
        let mut content = [0; 19];
        content[16..].copy_from_slice(b"abc");
        writer.content(0, 4, &mut content).expect("memory");
        writer.end().expect("memory");
        let content = Record::Content { object: 0, offset: 4, bytes: b"abc".to_vec() };
        assert_eq!(read(&bytes).expect("whole"), [Record::Objects(objects), content, Record::End]);
    }

    #[test]
    fn early_pages_and_what_was_kept_of_them() {
        let mut bytes = Vec::new();
        let mut writer = Writer::new(&mut bytes).expect("memory");
        let mut piece = Piece::new();
        piece.room(2).copy_from_slice(&[4, 5]);
        writer.pages(&mut piece, 0x2000, true).expect("memory");
        let kept = Kept { runs: vec![(0x2000, 0x3000)] };
        writer.still().expect("memory");
        writer.kept(&kept).expect("memory");
        writer.end().expect("memory");
        let records = read(&bytes).expect("whole");
        assert!(matches!(&records[0], Record::Early(pages) if pages.start() == 0x2000 && pages.bytes() == [4, 5]));
        assert_eq!(records[1..], [Record::Still, Record::Kept(kept), Record::End]);
    }

    /// What this version has written once is read for ever.
    #[test]
    fn an_image_of_version_1_is_read() {
        let kept = include_bytes!("../tests/kept/version-1.image");
        assert_eq!(read(kept).expect("whole"), read(&sample()).expect("whole"));
    }

    #[test]
    fn cut_short_anywhere_it_is_refused() {
        let whole = sample();
        for length in 0..whole.len() {
            assert!(read(&whole[..length]).is_err(), "cut at {length}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(kind in 0u16..12, mut bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            drop(parse(kind, bytes.clone()));
            // What begins well and goes wrong later.
            let mut whole = minicbor::to_vec(Process { timers: vec![Default::default()], ..Process::default() }).expect("memory");
            let at = bytes.len() % whole.len();
            whole.truncate(at);
            whole.append(&mut bytes);
            drop(parse(KIND_PROCESS, whole));
        }

        #[test]
        fn a_changed_byte_of_a_record_is_noticed(at in 16usize..1000, bit in 0u8..8) {
            let mut bytes = sample();
            let at = 16 + at % (bytes.len() - 16);
            bytes[at] ^= 1 << bit;
            prop_assert!(read(&bytes).is_err());
        }
    }
}
