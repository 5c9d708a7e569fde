//! Many system calls in one go: a table of calls that a few instructions in the puppet execute one after the other.
//!
//! One call by single step costs the tracer about 8 us, a call of a script a tenth of a microsecond besides the call itself.

use std::borrow::Cow;
use vocab::{Fault, Result};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Executes the table at rbx, and traps behind its last call or the first that failed and may not.
///
/// ```text
///  0: mov rax,[rbx]; test rax,rax; js done        a negative number ends the table
///  8: mov rdi,[rbx+8] … mov r9,[rbx+48]; syscall
/// 22: mov [rbx+56],rax                            the result
/// 26: mov rcx,[rbx+64]; jrcxz 2f; mov [rcx],rax   and once more where a later call wants it
/// 2f: mov rcx,[rbx+72]; jrcxz 3d                  may it fail?
/// 35: cmp rax,-4095; jae done
/// 3d: add rbx,80; jmp 0
/// 43: done: int3
/// ```
pub(crate) const CODE: [u8; 68] = [
    0x48, 0x8b, 0x03, 0x48, 0x85, 0xc0, 0x78, 0x3b, 0x48, 0x8b, 0x7b, 0x08, 0x48, 0x8b, 0x73, 0x10, 0x48, 0x8b, 0x53,
    0x18, 0x4c, 0x8b, 0x53, 0x20, 0x4c, 0x8b, 0x43, 0x28, 0x4c, 0x8b, 0x4b, 0x30, 0x0f, 0x05, 0x48, 0x89, 0x43, 0x38,
    0x48, 0x8b, 0x4b, 0x40, 0xe3, 0x03, 0x48, 0x89, 0x01, 0x48, 0x8b, 0x4b, 0x48, 0xe3, 0x08, 0x48, 0x3d, 0x01, 0xf0,
    0xff, 0xff, 0x73, 0x06, 0x48, 0x83, 0xc3, 0x50, 0xeb, 0xbd, 0xcc,
];

/// One line of the table, as the code above reads it.
#[repr(C)]
#[derive(Clone, Copy, Default, FromBytes, IntoBytes, Immutable)]
pub(crate) struct Line {
    number: u64,
    args: [u64; 6],
    pub(crate) result: i64,
    copy_to: u64,
    strict: u64,
}

pub(crate) const LINE: u64 = size_of::<Line>() as u64;
const END: u64 = u64::MAX;

/// Which call of a script: what [`Script::call`] gave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slot(usize);

/// A script under construction, for an arena at a known address.
pub struct Script {
    /// Where the table begins in the puppet.
    base: u64,
    /// Where the data begin, and the table ends at the latest.
    data_base: u64,
    /// Where the arena ends.
    end: u64,
    lines: Vec<Line>,
    what: Vec<Cow<'static, str>>,
    data: Vec<u8>,
}

impl Script {
    pub(crate) fn new(base: u64, data_base: u64, end: u64) -> Script {
        Script { base, data_base, end, lines: Vec::new(), what: Vec::new(), data: Vec::new() }
    }

    /// Do the table, with the line that ends it, and the data fit?
    fn fits(&self) -> bool {
        let table = self.base + (self.lines.len() + 1) as u64 * LINE;
        table <= self.data_base && self.data_base + self.data.len() as u64 <= self.end
    }

    /// Adds a call that must succeed; `what` names it when it does not.
    pub fn call(&mut self, what: impl Into<Cow<'static, str>>, number: i64, args: &[u64]) -> Slot {
        self.add(what.into(), number, args, 1)
    }

    /// Adds a call whose failure is a result like others.
    pub fn attempt(&mut self, number: i64, args: &[u64]) -> Slot {
        self.add(Cow::Borrowed(""), number, args, 0)
    }

    fn add(&mut self, what: Cow<'static, str>, number: i64, args: &[u64], strict: u64) -> Slot {
        let mut line = Line { number: number as u64, strict, ..Line::default() };
        line.args[..args.len()].copy_from_slice(args);
        self.lines.push(line);
        self.what.push(what);
        Slot(self.lines.len() - 1)
    }

    /// The result of `from` becomes argument `index` of the later call `to`.
    pub fn pass(&mut self, from: Slot, to: Slot, index: usize) {
        let line = self.base + to.0 as u64 * LINE;
        self.lines[from.0].copy_to = line + 8 * (1 + index as u64);
    }

    /// Puts bytes into the puppet's memory, 16-aligned, for as long as the script runs; their address there.
    pub fn bytes(&mut self, bytes: &[u8]) -> u64 {
        self.data.resize(self.data.len().next_multiple_of(16), 0);
        let at = self.data_base + self.data.len() as u64;
        self.data.extend_from_slice(bytes);
        at
    }

    /// A path or other string, with the NUL that ends it.
    pub fn text(&mut self, text: &[u8]) -> u64 {
        let at = self.bytes(text);
        self.data.push(0);
        at
    }

    /// Zeroed memory for a result; its address there.
    pub fn room(&mut self, length: usize) -> u64 {
        self.bytes(&vec![0; length])
    }

    /// Table and data as they are written, with the addresses at which.
    pub(crate) fn image(&self) -> Result<[(u64, Vec<u8>); 2]> {
        if !self.fits() {
            return Err(Fault::bug(format!("a script of {} calls does not fit its arena", self.lines.len())));
        }
        let mut table = self.lines.as_bytes().to_vec();
        table.extend_from_slice(&END.to_ne_bytes());
        Ok([(self.base, table), (self.data_base, self.data.clone())])
    }

    pub(crate) fn take_results(self, table: &[u8], data: Vec<u8>) -> Result<Outcome> {
        let lines = <[Line]>::ref_from_bytes(table).map_err(|_| Fault::bug("a table of calls has another size"))?;
        for (line, what) in lines.iter().zip(&self.what) {
            if line.strict != 0 && (-4095..0).contains(&line.result) {
                return Err(Fault::sys(-line.result as i32, what.clone().into_owned()));
            }
        }
        let results = lines.iter().map(|line| line.result).collect();
        Ok(Outcome { results, data_base: self.data_base, data })
    }

    pub(crate) fn table_length(&self) -> usize {
        self.lines.len() * LINE as usize
    }

    pub(crate) fn data_length(&self) -> usize {
        self.data.len()
    }
}

/// What a script has brought.
pub struct Outcome {
    results: Vec<i64>,
    data_base: u64,
    data: Vec<u8>,
}

impl Outcome {
    /// The kernel's own result: `-errno` for a failure.
    pub fn result(&self, slot: Slot) -> i64 {
        self.results[slot.0]
    }

    /// The memory at an address that [`Script::bytes`] or [`Script::room`] gave, as it is now.
    pub fn data(&self, address: u64, length: usize) -> &[u8] {
        let at = (address - self.data_base) as usize;
        &self.data[at..at + length]
    }

    /// The same, as a value of plain numbers.
    pub fn value<T: FromBytes>(&self, address: u64) -> Result<T> {
        T::read_from_bytes(self.data(address, size_of::<T>())).map_err(|_| Fault::bug("a result of another size"))
    }
}
