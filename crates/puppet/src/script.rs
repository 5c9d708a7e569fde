//! Many system calls in one go: a table of calls that a few instructions in the puppet execute one after the other.
//!
//! One call by single step costs the tracer about 8 us, a call of a script a tenth of a microsecond besides the call itself.

use std::borrow::Cow;
use std::ops::Range;
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

/// A script under construction, for an arena at a known address. It may have any number of calls: as many as the arena has room for are made in one go.
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

    /// So many calls are executed in one go, beside the line that ends a table.
    fn at_once(&self) -> usize {
        ((self.data_base - self.base) / LINE).saturating_sub(1).max(1) as usize
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

    /// The data as they are written, with the address at which.
    ///
    /// # Errors
    /// `Bug` when they do not fit: long data go by several scripts.
    pub(crate) fn data(&self) -> Result<(u64, &[u8])> {
        match self.data_base + self.data.len() as u64 <= self.end {
            true => Ok((self.data_base, &self.data)),
            false => Err(Fault::bug(format!("a script's {} bytes of data do not fit its arena", self.data.len()))),
        }
    }

    /// The calls from number `from` on that are executed in one go: their table, and where it is written.
    pub(crate) fn table(&self, from: usize) -> (u64, Vec<u8>) {
        let part = &self.lines[self.part(from)];
        let mut lines = part.to_vec();
        for line in lines.iter_mut().filter(|line| line.copy_to != 0) {
            // A result that a later part wants is put there by [`Script::take_results`].
            let to = line.copy_to - self.base;
            let is_here = self.part(from).contains(&((to / LINE) as usize));
            line.copy_to = if is_here { line.copy_to - from as u64 * LINE } else { 0 };
        }
        let mut table = lines.as_bytes().to_vec();
        table.extend_from_slice(&END.to_ne_bytes());
        (self.base, table)
    }

    fn part(&self, from: usize) -> Range<usize> {
        from..self.lines.len().min(from + self.at_once())
    }

    /// Bytes of the table of a part, without its end.
    pub(crate) fn table_length(&self, from: usize) -> usize {
        self.part(from).len() * LINE as usize
    }

    /// The table of a part as it is when its calls have been made. `None` when all have; else the number of the first call of the next part.
    ///
    /// # Errors
    /// That of a call which must not fail and did.
    pub(crate) fn take_results(&mut self, from: usize, table: &[u8]) -> Result<Option<usize>> {
        let done = <[Line]>::ref_from_bytes(table).map_err(|_| Fault::bug("a table of calls has another size"))?;
        let part = self.part(from);
        for (number, line) in part.clone().zip(done) {
            if line.strict != 0 && (-4095..0).contains(&line.result) {
                return Err(Fault::sys(-line.result as i32, self.what[number].clone().into_owned()));
            }
            self.lines[number].result = line.result;
            let to = self.lines[number].copy_to.checked_sub(self.base);
            let wants = to.map(|to| ((to / LINE) as usize, ((to % LINE) / 8) as usize));
            if let Some((wants, word)) = wants.filter(|(wants, _)| *wants >= part.end) {
                self.lines[wants].args[word - 1] = line.result as u64;
            }
        }
        Ok(Some(part.end).filter(|next| *next < self.lines.len()))
    }

    /// `data`: as they are when all calls have been made.
    pub(crate) fn outcome(self, data: Vec<u8>) -> Outcome {
        let results = self.lines.iter().map(|line| line.result).collect();
        Outcome { results, data_base: self.data_base, data }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// An arena of three calls, which a script of eight has in three parts.
    #[test]
    fn results_reach_calls_of_the_same_part_and_of_later_ones() {
        let mut script = Script::new(0x1000, 0x1000 + 4 * LINE, 0x2000);
        let slots: Vec<Slot> = (0..8).map(|number| script.attempt(number, &[])).collect();
        script.pass(slots[0], slots[2], 1);
        script.pass(slots[1], slots[7], 0);
        let (mut from, mut parts) = (0, 0);
        loop {
            let (at, mut table) = script.table(from);
            assert_eq!(at, 0x1000);
            table.truncate(script.table_length(from));
            let lines = <[Line]>::mut_from_bytes(&mut table).expect("lines");
            if from == 0 {
                assert_eq!((lines[0].copy_to, lines[1].copy_to), (0x1000 + 2 * LINE + 16, 0));
            }
            if from == 6 {
                assert_eq!(lines[1].args[0], 101);
            }
            lines.iter_mut().for_each(|line| line.result = 100 + line.number as i64);
            parts += 1;
            match script.take_results(from, &table).expect("no failure") {
                Some(next) => from = next,
                None => break,
            }
        }
        assert_eq!(parts, 3);
        let outcome = script.outcome(Vec::new());
        assert_eq!(outcome.result(slots[7]), 107);
    }
}
