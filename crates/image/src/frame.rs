//! Records on a byte stream, each with its length and checksum, as they are written ([`crate::read`]: as they are read). What goes over a connection that is authenticated may do without sums of its own: they
//! take a tenth of the time in which a large process moves.

use crate::files::Files;
use crate::forecast::Forecast;
use crate::memory::{Kept, Memory};
use crate::objects::Objects;
use crate::process::{Clocks, Header, Process};
use crate::thread::Thread;
use minicbor::Encode;
use std::io::Write;
use vocab::{Fault, Result};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// The first bytes of every image.
pub const MAGIC: [u8; 8] = *b"shoalimg";
/// Raised when an older reader would misunderstand a new image; new fields and records that it may skip do not need that.
pub const VERSION: u32 = 1;

/// The largest record, in bytes: a length above it is refused before anything is allocated.
pub(crate) const MOST: u64 = 64 * 1024 * 1024;
/// Kind (2 bytes), 6 bytes of zero, length (8), checksum (8), all little-endian.
pub(crate) const HEAD: usize = 24;
/// Among the flags (4 bytes, little-endian) behind the version: checksums are 0, and who carries the image vouches for it.
pub(crate) const VOUCHED: u32 = 1;
/// Records of kinds from here on may be skipped by who does not know them.
pub(crate) const SKIPPABLE: u16 = 0x8000;

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
    pub(crate) record: Vec<u8>,
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
pub(crate) const ADDRESS: usize = 8;

pub(crate) const KIND_HEADER: u16 = 1;
pub(crate) const KIND_PROCESS: u16 = 2;
pub(crate) const KIND_MEMORY: u16 = 3;
pub(crate) const KIND_FILES: u16 = 4;
pub(crate) const KIND_THREAD: u16 = 5;
pub(crate) const KIND_PAGES: u16 = 6;
pub(crate) const KIND_END: u16 = 7;
pub(crate) const KIND_OBJECTS: u16 = 8;
pub(crate) const KIND_CONTENT: u16 = 9;
pub(crate) const KIND_KEPT: u16 = 10;
pub(crate) const KIND_EARLY: u16 = 11;
pub(crate) const KIND_LAZY: u16 = 12;
pub(crate) const KIND_GONE: u16 = 13;
pub(crate) const KIND_STILL: u16 = SKIPPABLE;
pub(crate) const KIND_VDSO: u16 = SKIPPABLE + 1;
pub(crate) const KIND_CLOCKS: u16 = SKIPPABLE + 2;
pub(crate) const KIND_FORECAST: u16 = SKIPPABLE + 3;

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

pub(crate) fn start(record: &[u8]) -> u64 {
    record.first_chunk().map_or(0, |start| u64::from_le_bytes(*start))
}

fn head(kind: u16, bytes: &[u8], vouched: bool) -> [u8; HEAD] {
    let mut head = [0; HEAD];
    head[..2].copy_from_slice(&kind.to_le_bytes());
    head[8..16].copy_from_slice(&(bytes.len() as u64).to_le_bytes());
    head[16..].copy_from_slice(&checksum(kind, bytes, vouched).to_le_bytes());
    head
}

pub(crate) fn checksum(kind: u16, bytes: &[u8], vouched: bool) -> u64 {
    if vouched {
        0
    } else {
        xxh3_64_with_seed(bytes, kind.into())
    }
}
