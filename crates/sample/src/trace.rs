//! Samples in a file (docs/monitor.md): records with a length and a checksum each, written at the end only, so that a file which was cut off at any byte is
//! whole up to the last record that is.
//!
//! A file describes itself: what the columns mean is in it. A sample says of each number by how much it is other than in the node's sample before.

use crate::layout::{Column, Layout, Sample};
use minicbor::{Decode, Encode};
use std::collections::HashMap;
use std::io::{Read, Write};
use std::sync::Arc;
use vocab::{Fault, Kind, Result};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// The first bytes of every trace.
pub const MAGIC: [u8; 8] = *b"shoalmon";
/// Raised when an older reader would misunderstand a new trace.
pub const VERSION: u32 = 1;
/// Bytes before the first record: the magic, the version, four of zero.
pub const START: u64 = 16;

/// The largest record, in bytes.
const MOST: u32 = 16 * 1024 * 1024;
/// Kind (2 bytes), 2 bytes of zero, length (4), checksum (8), all little-endian.
const HEAD: usize = 16;
/// Records of kinds from here on may be skipped by who does not know them.
const SKIPPABLE: u16 = 0x8000;

const KIND_LAYOUT: u16 = 1;
const KIND_SAMPLE: u16 = 2;
const KIND_SILENT: u16 = 3;
/// A writer begins: no layout and no sample before counts any more.
const KIND_BEGIN: u16 = 4;
/// A round of samples begins.
const KIND_ROUND: u16 = SKIPPABLE;

/// What columns mean; samples name it by its number.
#[derive(Encode, Decode)]
struct LayoutRecord {
    #[n(0)]
    number: u32,
    #[n(1)]
    columns: Vec<ColumnRecord>,
}

#[derive(Encode, Decode)]
struct ColumnRecord {
    #[n(0)]
    group: String,
    #[n(1)]
    key: String,
    #[n(2)]
    field: String,
    /// For other readers; ours knows it by the names.
    #[n(3)]
    kind: Option<String>,
    #[n(4)]
    unit: Option<String>,
}

#[derive(Encode, Decode)]
struct SampleRecord {
    #[n(0)]
    node: String,
    #[n(1)]
    layout: u32,
    #[n(2)]
    time_us: u64,
    /// Of each column the difference to the node's sample before, if that has the same layout, else to 0: zigzag, seven bits in a byte, the lowest
    /// first, the highest bit of a byte is set when more follow.
    #[n(3)]
    #[cbor(with = "minicbor::bytes")]
    changes: Vec<u8>,
}

#[derive(Encode, Decode)]
struct SilentRecord {
    #[n(0)]
    node: String,
    #[n(1)]
    why: String,
}

#[derive(Encode, Decode)]
struct RoundRecord {
    /// Microseconds by the writer's own clock, which does not go back (CLOCK_MONOTONIC).
    #[n(0)]
    at_us: u64,
}

/// The numbers of a node's sample before, and their layout.
type Before = HashMap<String, (u32, Vec<u64>)>;

/// Writes a trace to anything that takes bytes, which go out at the end of each call at once.
pub struct Writer<W: Write> {
    to: W,
    layouts: Vec<Arc<Layout>>,
    before: Before,
}

impl<W: Write> Writer<W> {
    /// `new`: nothing has been written to it. Otherwise it stands at the end of a trace's last whole record.
    ///
    /// # Errors
    /// `Sys` when the bytes are not taken.
    pub fn new(to: W, new: bool) -> Result<Writer<W>> {
        let mut out = Vec::new();
        if new {
            out.extend_from_slice(&MAGIC);
            out.extend_from_slice(&VERSION.to_le_bytes());
            out.extend_from_slice(&[0; 4]);
        }
        record(KIND_BEGIN, &[], &mut out);
        let mut writer = Writer { to, layouts: Vec::new(), before: Before::new() };
        writer.put(&out)?;
        Ok(writer)
    }

    /// Appends a round of samples, which began at `at_us` by a clock that does not go back.
    ///
    /// # Errors
    /// `Sys` when the bytes are not taken; nobody is to write to it after that.
    pub fn write(&mut self, at_us: u64, samples: &[Sample]) -> Result<()> {
        let mut out = Vec::new();
        encoded(KIND_ROUND, &RoundRecord { at_us }, &mut out)?;
        for sample in samples {
            if let Some(why) = &sample.silent {
                let silent = SilentRecord { node: sample.node.clone(), why: why.clone() };
                encoded(KIND_SILENT, &silent, &mut out)?;
                continue;
            }
            let layout = match self
                .layouts
                .iter()
                .position(|known| Arc::ptr_eq(known, &sample.layout) || *known == sample.layout)
            {
                Some(number) => number as u32,
                None => self.new_layout(&sample.layout, &mut out)?,
            };
            let before = self.before.get(&sample.node).filter(|before| before.0 == layout).map(|before| &*before.1);
            let changes = changes(before.unwrap_or_default(), &sample.values);
            let written = SampleRecord { node: sample.node.clone(), layout, time_us: sample.time_us, changes };
            encoded(KIND_SAMPLE, &written, &mut out)?;
            self.before.insert(written.node, (layout, sample.values.clone()));
        }
        self.put(&out)
    }

    fn new_layout(&mut self, layout: &Arc<Layout>, out: &mut Vec<u8>) -> Result<u32> {
        let number = self.layouts.len() as u32;
        let column = |c: &Column| ColumnRecord {
            group: c.group.to_string(),
            key: c.key.to_string(),
            field: c.field.to_string(),
            kind: Some(c.kind.word().into()),
            unit: Some(c.unit.word().into()),
        };
        encoded(KIND_LAYOUT, &LayoutRecord { number, columns: layout.columns.iter().map(column).collect() }, out)?;
        self.layouts.push(layout.clone());
        Ok(number)
    }

    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        let done = self.to.write_all(bytes).and_then(|()| self.to.flush());
        done.map_err(|e| Fault::io(&e, "write a trace"))
    }
}

fn encoded(kind: u16, value: &impl Encode<()>, out: &mut Vec<u8>) -> Result<()> {
    let bytes = minicbor::to_vec(value).map_err(|e| Fault::bug(format!("encode a record of a trace: {e}")))?;
    if bytes.len() > MOST as usize {
        return Err(Fault::bug(format!("a record of {} bytes, {MOST} is the most", bytes.len())));
    }
    record(kind, &bytes, out);
    Ok(())
}

fn record(kind: u16, bytes: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&kind.to_le_bytes());
    out.extend_from_slice(&[0; 2]);
    out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(&xxh3_64_with_seed(bytes, kind.into()).to_le_bytes());
    out.extend_from_slice(bytes);
}

fn changes(before: &[u64], now: &[u64]) -> Vec<u8> {
    let mut out = Vec::with_capacity(now.len() * 2);
    for (at, value) in now.iter().enumerate() {
        let change = value.wrapping_sub(before.get(at).copied().unwrap_or_default()) as i64;
        let mut rest = ((change << 1) ^ (change >> 63)) as u64;
        while rest >= 0x80 {
            out.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        out.push(rest as u8);
    }
    out
}

/// The numbers again; `None` when the bytes are not those of so many.
fn changed(before: &[u64], count: usize, bytes: &[u8]) -> Option<Vec<u64>> {
    // Each takes a byte at least: nothing is allocated for what is not there.
    if bytes.len() < count {
        return None;
    }
    let (mut values, mut rest) = (Vec::with_capacity(count), bytes.iter());
    for at in 0..count {
        let (mut number, mut shift) = (0u64, 0);
        loop {
            let byte = *rest.next()?;
            number |= u64::from(byte & 0x7f).checked_shl(shift)?;
            shift += 7;
            if byte < 0x80 {
                break;
            }
        }
        let change = (number >> 1) as i64 ^ -((number & 1) as i64);
        values.push(before.get(at).copied().unwrap_or_default().wrapping_add(change as u64));
    }
    rest.next().is_none().then_some(values)
}

/// Reads a trace from anything that gives bytes.
pub struct Reader<R: Read> {
    from: R,
    layouts: HashMap<u32, Arc<Layout>>,
    before: Before,
    /// Up to the end of the last whole record, in bytes.
    whole: u64,
    cut: bool,
    moment: Moment,
}

/// When a sample was written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Moment {
    /// By which of those that have written the trace, counted from 1.
    pub writer: u64,
    /// By the writer's own clock, which does not go back, in microseconds; 0 where it has not said.
    pub at_us: u64,
}

impl<R: Read> Reader<R> {
    /// # Errors
    /// `Wire` for what is no trace, `Unsupported` for one of a later version.
    pub fn new(mut from: R) -> Result<Reader<R>> {
        let mut start = [0; START as usize];
        let got = fill(&mut from, &mut start)?;
        if !MAGIC.starts_with(&start[..got.min(8)]) || got == 0 {
            return Err(Fault::wire("this is no trace of samples"));
        }
        let version = u32::from_le_bytes([start[8], start[9], start[10], start[11]]);
        if got == start.len() && version != VERSION {
            let what = format!("a trace of version {version}: this program reads {VERSION}");
            return Err(Fault::new(Kind::Unsupported, what));
        }
        let cut = got < start.len();
        let whole = if cut { 0 } else { START };
        Ok(Reader { from, layouts: HashMap::new(), before: Before::new(), whole, cut, moment: Moment::default() })
    }

    /// The next sample; `None` at the end, or where the file was cut off ([`Reader::is_cut`]).
    ///
    /// # Errors
    /// `Wire` for a record that is not what was written, with whole bytes behind it or not.
    pub fn next_sample(&mut self) -> Result<Option<Sample>> {
        while !self.cut {
            let mut head = [0; HEAD];
            let got = fill(&mut self.from, &mut head)?;
            if got < HEAD {
                self.cut = got > 0;
                break;
            }
            let (kind, length) =
                (u16::from_le_bytes([head[0], head[1]]), u32::from_le_bytes([head[4], head[5], head[6], head[7]]));
            if length > MOST {
                return Err(self.bad(&format!("a record says it has {length} bytes, {MOST} is the most")));
            }
            let mut bytes = Vec::new();
            let read = self.from.by_ref().take(length.into()).read_to_end(&mut bytes);
            read.map_err(|e| Fault::io(&e, "read a trace"))?;
            if bytes.len() < length as usize {
                self.cut = true;
                break;
            }
            if head[2..4] != [0; 2] || xxh3_64_with_seed(&bytes, kind.into()).to_le_bytes() != head[8..] {
                return Err(self.bad("a record is not what was written: its checksum is another"));
            }
            let sample = self.take(kind, &bytes)?;
            self.whole += HEAD as u64 + u64::from(length);
            if sample.is_some() {
                return Ok(sample);
            }
        }
        Ok(None)
    }

    /// When the sample was written that was read last.
    pub fn moment(&self) -> Moment {
        self.moment
    }

    /// Was it cut off in the midst of a record?
    pub fn is_cut(&self) -> bool {
        self.cut
    }

    /// Where the last whole record ends that was read.
    pub fn whole(&self) -> u64 {
        self.whole
    }

    fn bad(&self, what: &str) -> Fault {
        Fault::wire(format!("a trace, at byte {}: {what}", self.whole))
    }

    fn take(&mut self, kind: u16, bytes: &[u8]) -> Result<Option<Sample>> {
        match kind {
            KIND_BEGIN => {
                self.layouts.clear();
                self.before.clear();
                self.moment = Moment { writer: self.moment.writer + 1, at_us: 0 };
            }
            KIND_ROUND => self.moment.at_us = self.decode::<RoundRecord>(bytes)?.at_us,
            KIND_LAYOUT => {
                let LayoutRecord { number, columns } = self.decode(bytes)?;
                let columns = columns.iter().map(|c| Column::new(&c.group, &c.key, &c.field)).collect();
                self.layouts.insert(number, Arc::new(Layout { columns }));
            }
            KIND_SAMPLE => {
                let SampleRecord { node, layout: number, time_us, changes } = self.decode(bytes)?;
                let layout =
                    self.layouts.get(&number).ok_or_else(|| self.bad("a sample of an unknown layout"))?.clone();
                let before = self.before.get(&node).filter(|before| before.0 == number).map(|before| &*before.1);
                let values = changed(before.unwrap_or_default(), layout.columns.len(), &changes);
                let values = values.ok_or_else(|| self.bad("a sample of another number of columns"))?;
                self.before.insert(node.clone(), (number, values.clone()));
                return Ok(Some(Sample { node, time_us, silent: None, layout, values }));
            }
            KIND_SILENT => {
                let SilentRecord { node, why } = self.decode(bytes)?;
                return Ok(Some(Sample::silent(&node, &why)));
            }
            other if other >= SKIPPABLE => {}
            other => return Err(self.bad(&format!("a record of kind {other}"))),
        }
        Ok(None)
    }

    fn decode<'b, T: Decode<'b, ()>>(&self, bytes: &'b [u8]) -> Result<T> {
        minicbor::decode(bytes).map_err(|e| self.bad(&e.to_string()))
    }
}

/// Reads as much as there is; how much that was.
fn fill(from: &mut impl Read, into: &mut [u8]) -> Result<usize> {
    let mut got = 0;
    while got < into.len() {
        match from.read(&mut into[got..]) {
            Ok(0) => break,
            Ok(more) => got += more,
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => return Err(Fault::io(&e, "read a trace")),
        }
    }
    Ok(got)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sample(node: &str, time_us: u64, interfaces: usize, seed: u64) -> Sample {
        let mut columns = vec![Column::new("load", "", "load1"), Column::new("stat", "", "ctxt")];
        columns.extend((0..interfaces).map(|i| Column::new("net", &format!("e{i}"), "rx_bytes")));
        let values = (0..columns.len() as u64).map(|i| seed.wrapping_mul(i * 7919 + 1)).collect();
        Sample { node: node.into(), time_us, silent: None, layout: Arc::new(Layout { columns }), values }
    }

    fn read(bytes: &[u8]) -> (Vec<Sample>, bool) {
        let mut reader = Reader::new(bytes).expect("a trace");
        let mut found = Vec::new();
        while let Some(sample) = reader.next_sample().expect("whole records") {
            found.push(sample);
        }
        (found, reader.is_cut())
    }

    fn samples() -> impl Strategy<Value = Vec<Sample>> {
        let one = (0..3usize, any::<u64>(), 0..3usize, any::<u64>(), any::<bool>());
        let make = |(node, time, interfaces, seed, silent)| match silent {
            true => Sample::silent(&format!("n{node}"), "why"),
            false => sample(&format!("n{node}"), time, interfaces, seed),
        };
        proptest::collection::vec(one.prop_map(make), 0..12)
    }

    proptest! {
        #[test]
        fn what_was_written_is_read_by_however_many_writers(first in samples(), second in samples()) {
            let mut bytes = Vec::new();
            Writer::new(&mut bytes, true).and_then(|mut w| w.write(1, &first)).expect("memory");
            Writer::new(&mut bytes, false).and_then(|mut w| w.write(1, &second)).expect("memory");
            prop_assert_eq!(read(&bytes), ([first, second].concat(), false));
        }

        #[test]
        fn a_trace_that_is_cut_off_is_whole_up_to_there(written in samples(), cut: prop::sample::Index) {
            let mut bytes = Vec::new();
            Writer::new(&mut bytes, true).and_then(|mut w| w.write(1, &written)).expect("memory");
            let cut = cut.index(bytes.len()) + 1;
            let (found, _) = read(&bytes[..cut]);
            prop_assert_eq!(&found[..], &written[..found.len()]);
            let mut reader = Reader::new(&bytes[..cut]).expect("a trace");
            while reader.next_sample().expect("whole records").is_some() {}
            prop_assert_eq!(reader.is_cut(), reader.whole() != cut as u64);
            // And somebody goes on where the last whole record ends.
            let whole = reader.whole() as usize;
            let mut again = bytes[..whole].to_vec();
            Writer::new(&mut again, whole == 0).and_then(|mut w| w.write(1, &written)).expect("memory");
            prop_assert_eq!(read(&again).0, [found, written].concat());
        }

        #[test]
        fn a_damaged_trace_is_refused_and_nothing_else(written in samples(), at: prop::sample::Index, with in 1u8..) {
            let mut bytes = Vec::new();
            Writer::new(&mut bytes, true).and_then(|mut w| w.write(1, &written)).expect("memory");
            let at = at.index(bytes.len());
            bytes[at] ^= with;
            let Ok(mut reader) = Reader::new(&bytes[..]) else { return Ok(()) };
            let mut found = Vec::new();
            while let Ok(Some(sample)) = reader.next_sample() {
                found.push(sample);
            }
            prop_assert_eq!(&found[..], &written[..found.len()]);
        }

        /// With right checksums.
        #[test]
        fn any_record_is_read_or_refused(records in proptest::collection::vec((prop_oneof![0u16..6, Just(KIND_ROUND)], proptest::collection::vec(any::<u8>(), 0..60)), 0..6)) {
            let mut bytes = Vec::new();
            Writer::new(&mut bytes, true).and_then(|mut w| w.write(1, &[sample("n0", 1, 0, 1)])).expect("memory");
            records.iter().for_each(|(kind, body)| record(*kind, body, &mut bytes));
            let mut reader = Reader::new(&bytes[..]).expect("a trace");
            while let Ok(Some(_)) = reader.next_sample() {}
        }
    }

    #[test]
    fn what_is_no_trace_is_refused() {
        assert!(Reader::new(&b""[..]).is_err());
        assert!(Reader::new(&b"shoalimg"[..]).is_err());
        let later = [&MAGIC[..], &2u32.to_le_bytes(), &[0; 4]].concat();
        assert_eq!(Reader::new(&later[..]).err().map(|fault| fault.kind), Some(Kind::Unsupported));
    }

    #[test]
    fn a_number_that_does_not_change_takes_a_byte() {
        let (mut bytes, one) = (Vec::new(), sample("n0", 1, 200, 3));
        let mut writer = Writer::new(&mut bytes, true).expect("memory");
        writer.write(1, std::slice::from_ref(&one)).expect("memory");
        let first = writer.to.len();
        writer.write(2, &[one]).expect("memory");
        assert!(writer.to.len() - first < 260);
    }
}
