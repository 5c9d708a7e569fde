//! Records on a byte stream, each with its length and checksum. What goes over a connection that is authenticated may do without sums of its own: they
//! take a tenth of the time in which a large process moves.

use crate::files::Files;
use crate::forecast::Forecast;
use crate::memory::{Kept, Memory};
use crate::objects::Objects;
use crate::process::{Clocks, Header, Process};
use crate::thread::Thread;
use minicbor::{Decode, Encode};
use std::io::{Read, Write};
use vocab::{Fault, Kind, Result};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// The first bytes of every image.
pub const MAGIC: [u8; 8] = *b"shoalimg";
/// Raised when an older reader would misunderstand a new image; new fields and records that it may skip do not need that.
pub const VERSION: u32 = 1;

/// The largest record, in bytes: a length above it is refused before anything is allocated.
const MOST: u64 = 64 * 1024 * 1024;
/// Kind (2 bytes), 6 bytes of zero, length (8), checksum (8), all little-endian.
const HEAD: usize = 24;
/// Among the flags (4 bytes, little-endian) behind the version: checksums are 0, and who carries the image vouches for it.
const VOUCHED: u32 = 1;
/// Records of kinds from here on may be skipped by who does not know them.
const SKIPPABLE: u16 = 0x8000;

/// What an image is made of, in this order; threads and pages are many.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Record {
    Header(Header),
    Process(Box<Process>),
    Memory(Memory),
    Files(Files),
    Thread(Box<Thread>),
    Pages(Pages),
    /// Pages as they were while the process ran, before everything else: what of them still held in the end is in `Kept`. Who sends them to
    /// another machine says before in which mappings they are (`Memory`, which comes again then). Those behind `Forecast` are guessed to hold: all
    /// of them do but for what comes again in `Pages`, and for `Gone`.
    Early(Pages),
    /// What it is expected to have when it stands still; there if who reads it can make something of that before.
    Forecast(Box<Forecast>),
    /// From here on the process stands still, as soon as who reads it says that it is ready; there if somebody does.
    Still,
    /// Behind everything else but `Pages` and `End`; there if there are early pages.
    Kept(Kept),
    /// Likewise: where there is nothing any more of what was guessed.
    Gone(Kept),
    /// Behind the mappings: what is in these (addresses, from and to) is not in the image, but for pages that follow; who sends it has it still.
    Lazy(Kept),
    /// Before the mappings and descriptors that are of them; not there if there are none.
    Objects(Objects),
    /// Behind all of `Objects`, and before the pages.
    Content {
        /// Index among the objects.
        object: u64,
        /// Bytes.
        offset: u64,
        bytes: Vec<u8>,
    },
    /// The kernel's code in every process, [vdso], before everything else; not there in images of before it was recorded.
    Vdso(Vec<u8>),
    /// Before the mappings; there if the process comes from another machine, which was asked.
    Clocks(Clocks),
    /// The last one: whatever comes without it was cut short.
    End,
}

/// What was in memory from an address on, as it is read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pages {
    /// The address, and behind it the bytes: as they are in the record, so that megabytes need not be moved.
    record: Vec<u8>,
}

impl Pages {
    pub fn start(&self) -> u64 {
        start(&self.record)
    }

    pub fn bytes(&self) -> &[u8] {
        &self.record[ADDRESS..]
    }
}

/// A record of pages under way.
pub struct Piece {
    /// Its head, address and bytes, to be written at once.
    record: Vec<u8>,
    length: usize,
}

impl Piece {
    /// Bytes of memory that a piece has room for.
    pub const MOST: usize = 2 * 1024 * 1024;

    #[allow(clippy::new_without_default)]
    pub fn new() -> Piece {
        Piece { record: vec![0; HEAD + ADDRESS], length: 0 }
    }

    /// Where `length` bytes go, at most [`Piece::MOST`].
    pub fn room(&mut self, length: usize) -> &mut [u8] {
        self.length = length;
        let whole = HEAD + ADDRESS + length;
        if self.record.len() < whole {
            self.record.resize(whole, 0);
        }
        &mut self.record[HEAD + ADDRESS..whole]
    }
}

/// What makes pieces ready for an image.
#[derive(Clone, Copy)]
pub struct Sealer {
    vouched: bool,
}

impl Sealer {
    /// Are there sums to be made?
    pub fn sums(self) -> bool {
        !self.vouched
    }

    /// Puts the head before a piece of what is in memory from `start` on.
    pub fn seal(self, piece: &mut Piece, start: u64, early: bool) {
        let kind = if early { KIND_EARLY } else { KIND_PAGES };
        piece.record[HEAD..][..ADDRESS].copy_from_slice(&start.to_le_bytes());
        let head = head(kind, &piece.record[HEAD..][..ADDRESS + piece.length], self.vouched);
        piece.record[..HEAD].copy_from_slice(&head);
    }
}

/// Bytes of the address that stands before those of a record of pages.
const ADDRESS: usize = 8;

const KIND_HEADER: u16 = 1;
const KIND_PROCESS: u16 = 2;
const KIND_MEMORY: u16 = 3;
const KIND_FILES: u16 = 4;
const KIND_THREAD: u16 = 5;
const KIND_PAGES: u16 = 6;
const KIND_END: u16 = 7;
const KIND_OBJECTS: u16 = 8;
const KIND_CONTENT: u16 = 9;
const KIND_KEPT: u16 = 10;
const KIND_EARLY: u16 = 11;
const KIND_LAZY: u16 = 12;
const KIND_GONE: u16 = 13;
const KIND_STILL: u16 = SKIPPABLE;
const KIND_VDSO: u16 = SKIPPABLE + 1;
const KIND_CLOCKS: u16 = SKIPPABLE + 2;
const KIND_FORECAST: u16 = SKIPPABLE + 3;

/// Writes an image to anything that takes bytes.
pub struct Writer<W: Write> {
    to: W,
    /// Bytes so far.
    written: u64,
    /// Records have no sums.
    vouched: bool,
}

impl<W: Write> Writer<W> {
    /// Begins an image.
    pub fn new(to: W) -> Result<Writer<W>> {
        Writer::begin(to, false)
    }

    /// Begins one for whose bytes `to` vouches: no file, but a connection that is authenticated.
    pub fn vouched(to: W) -> Result<Writer<W>> {
        Writer::begin(to, true)
    }

    fn begin(to: W, vouched: bool) -> Result<Writer<W>> {
        let mut writer = Writer { to, written: 0, vouched };
        writer.put(&MAGIC)?;
        writer.put(&VERSION.to_le_bytes())?;
        writer.put(&if vouched { VOUCHED } else { 0 }.to_le_bytes())?;
        Ok(writer)
    }

    pub fn header(&mut self, header: &Header) -> Result<()> {
        self.encoded(KIND_HEADER, header)
    }

    pub fn process(&mut self, process: &Process) -> Result<()> {
        self.encoded(KIND_PROCESS, process)
    }

    pub fn memory(&mut self, memory: &Memory) -> Result<()> {
        self.encoded(KIND_MEMORY, memory)
    }

    pub fn files(&mut self, files: &Files) -> Result<()> {
        self.encoded(KIND_FILES, files)
    }

    pub fn thread(&mut self, thread: &Thread) -> Result<()> {
        self.encoded(KIND_THREAD, thread)
    }

    /// [`Record::Forecast`].
    pub fn forecast(&mut self, forecast: &Forecast) -> Result<()> {
        self.encoded(KIND_FORECAST, forecast)
    }

    /// What it writes to.
    pub fn target(&mut self) -> &mut W {
        &mut self.to
    }

    /// From here on the process stands still ([`Record::Still`]). It goes out at once, with all that was written before.
    pub fn still(&mut self) -> Result<()> {
        self.record(KIND_STILL, &[])?;
        self.to.flush().map_err(|e| Fault::io(&e, "write an image"))
    }

    /// [`Record::Clocks`]. It goes out at once: each microsecond until it is read is one in which they may be mistaken.
    pub fn clocks(&mut self, clocks: &Clocks) -> Result<()> {
        self.encoded(KIND_CLOCKS, clocks)?;
        self.to.flush().map_err(|e| Fault::io(&e, "write an image"))
    }

    /// [`Record::Vdso`].
    pub fn vdso(&mut self, code: &[u8]) -> Result<()> {
        self.record(KIND_VDSO, code)
    }

    pub fn kept(&mut self, kept: &Kept) -> Result<()> {
        self.encoded(KIND_KEPT, kept)
    }

    pub fn gone(&mut self, gone: &Kept) -> Result<()> {
        self.encoded(KIND_GONE, gone)
    }

    pub fn lazy(&mut self, lazy: &Kept) -> Result<()> {
        self.encoded(KIND_LAZY, lazy)
    }

    /// What is in memory from address `start` on; `early`: what was while the process ran.
    pub fn pages(&mut self, piece: &mut Piece, start: u64, early: bool) -> Result<()> {
        self.sealer().seal(piece, start, early);
        self.sealed(piece)
    }

    /// What makes pieces ready for this image, also while another one is written.
    pub fn sealer(&self) -> Sealer {
        Sealer { vouched: self.vouched }
    }

    /// A piece that the [`Sealer`] has made ready.
    pub fn sealed(&mut self, piece: &Piece) -> Result<()> {
        self.put(&piece.record[..HEAD + ADDRESS + piece.length])
    }

    pub fn objects(&mut self, objects: &Objects) -> Result<()> {
        self.encoded(KIND_OBJECTS, objects)
    }

    /// What is in an object from `offset` on. `bytes` begins with 16 bytes of room, for the two numbers.
    pub fn content(&mut self, object: u64, offset: u64, bytes: &mut [u8]) -> Result<()> {
        bytes[..8].copy_from_slice(&object.to_le_bytes());
        bytes[8..16].copy_from_slice(&offset.to_le_bytes());
        self.record(KIND_CONTENT, bytes)
    }

    /// Ends the image; how many bytes it has.
    pub fn end(mut self) -> Result<u64> {
        self.record(KIND_END, &[])?;
        self.to.flush().map_err(|e| Fault::io(&e, "write an image"))?;
        Ok(self.written)
    }

    fn encoded(&mut self, kind: u16, value: &impl Encode<()>) -> Result<()> {
        let bytes = minicbor::to_vec(value).map_err(|e| Fault::bug(format!("encode a record: {e}")))?;
        self.record(kind, &bytes)
    }

    fn record(&mut self, kind: u16, bytes: &[u8]) -> Result<()> {
        if bytes.len() as u64 > MOST {
            return Err(Fault::bug(format!("a record of {} bytes, {MOST} is the most", bytes.len())));
        }
        self.put(&head(kind, bytes, self.vouched))?;
        self.put(bytes)
    }

    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.written += bytes.len() as u64;
        self.to.write_all(bytes).map_err(|e| Fault::io(&e, "write an image"))
    }
}

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

fn start(record: &[u8]) -> u64 {
    record.first_chunk().map_or(0, |start| u64::from_le_bytes(*start))
}

fn head(kind: u16, bytes: &[u8], vouched: bool) -> [u8; HEAD] {
    let mut head = [0; HEAD];
    head[..2].copy_from_slice(&kind.to_le_bytes());
    head[8..16].copy_from_slice(&(bytes.len() as u64).to_le_bytes());
    head[16..].copy_from_slice(&checksum(kind, bytes, vouched).to_le_bytes());
    head
}

fn checksum(kind: u16, bytes: &[u8], vouched: bool) -> u64 {
    if vouched {
        0
    } else {
        xxh3_64_with_seed(bytes, kind.into())
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
