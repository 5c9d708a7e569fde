//! Memory in the puppet for scripts: a page of code, which the puppet may only execute, and pages of data.

use crate::script::{self, Script};
use kern::remote_memory::RemoteMemory;
use vocab::Result;

/// Where in the puppet scripts live.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arena {
    base: u64,
    size: Size,
}

/// How much a script may hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Size {
    /// Some six hundred calls, and 76 KiB.
    Little,
    /// Six thousand, and 3.5 MiB.
    Usual,
}

impl Size {
    /// Of the table of calls, in bytes.
    const fn table(self) -> u64 {
        match self {
            Size::Little => 48 * 1024,
            Size::Usual => 512 * 1024,
        }
    }

    /// Of all: what is not touched takes no memory.
    const fn all(self) -> u64 {
        match self {
            Size::Little => 128 * 1024,
            Size::Usual => 4 * 1024 * 1024,
        }
    }
}

/// Of the code, in bytes.
pub(crate) const CODE_LENGTH: u64 = 4096;
/// What the page tables of one table of the next level lead to (x86-64).
const TABLE: u64 = 2 * 1024 * 1024;

/// `syscall; int3`: a thread that is let go into a call stops behind it.
const ONE_CALL: [u8; 3] = [0x0f, 0x05, 0xcc];

/// `ldtilecfg [rdi]; tilezero tmm0; tilerelease; int3`
const USE_TILES: [u8; 16] =
    [0xc4, 0xe2, 0x78, 0x49, 0x07, 0xc4, 0xe2, 0x7b, 0x49, 0xc0, 0xc4, 0xe2, 0x78, 0x49, 0xc0, 0xcc];

/// What ldtilecfg loads (Intel SDM 1, 18.2): palette 1, of tile 0 one row of four bytes.
pub(crate) const ONE_TILE: [u8; 64] = {
    let mut of = [0; 64];
    (of[0], of[16], of[48]) = (1, 4, 1);
    of
};

impl Arena {
    /// Bytes of address space that a usual arena takes.
    pub const LENGTH: u64 = Size::Usual.all();
    /// The most calls that scripts for a little one should have; each with as many bytes as it has itself.
    pub const FEW: usize = 400;

    pub(crate) fn usual(base: u64) -> Arena {
        Arena { base, size: Size::Usual }
    }

    /// Where a little one can be beside these mappings (in order, from and to) so that they share their page tables: to unmap it frees none, for which every
    /// processor that has run the puppet would be interrupted, and waited for (linux: `native_flush_tlb_multi`, `freed_tables`; 40 us in a virtual machine).
    pub fn beside(areas: impl Iterator<Item = (u64, u64)>) -> Option<Arena> {
        // Not as a part of what is mapped there.
        const APART: u64 = 4096;
        let room = APART + Size::Little.all() + APART;
        let mut before: Option<(u64, u64)> = None;
        for area in areas {
            if let Some((_, end)) = before.filter(|(_, end)| area.0.min(end.next_multiple_of(TABLE)) >= end + room) {
                return Some(Arena { base: end + APART, size: Size::Little });
            }
            before = Some(area);
        }
        None
    }

    pub fn base(&self) -> u64 {
        self.base
    }

    /// Bytes of address space that it takes.
    pub fn length(&self) -> u64 {
        self.size.all()
    }

    pub fn end(&self) -> u64 {
        self.base + self.length()
    }

    pub fn is_little(&self) -> bool {
        self.size == Size::Little
    }

    /// An empty script for this arena.
    pub fn script(&self) -> Script {
        let table = self.base + CODE_LENGTH;
        Script::new(table, table + self.size.table(), self.end())
    }

    /// Writes bytes where the next script's table would be; their address.
    pub fn put(&self, memory: &RemoteMemory, bytes: &[u8]) -> Result<u64> {
        let at = self.base + CODE_LENGTH;
        memory.write(at, bytes).map(|()| at)
    }

    /// Where [`ONE_CALL`] is.
    pub(crate) fn one_call(&self) -> u64 {
        self.base + script::CODE.len() as u64
    }

    /// Where the code is that uses tiles; behind it the thread traps.
    pub(crate) fn use_tiles(&self) -> u64 {
        self.one_call() + ONE_CALL.len() as u64
    }

    pub(crate) fn write_code(&self, memory: &RemoteMemory) -> Result<()> {
        memory.write(self.base, &[&script::CODE[..], &ONE_CALL, &USE_TILES].concat())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_little_one_shares_its_page_tables_with_what_is_before_it() {
        let at = |areas: &[(u64, u64)]| Arena::beside(areas.iter().copied()).map(|arena| (arena.base(), arena.end()));
        let little = Size::Little.all();
        // Behind the first mapping there is no room, behind the second nothing is shared, and behind the last no one knows.
        let areas = [(0x40_0000, 0x40_1000), (0x41_0000, 0x60_0000), (0x70_0000, 0x7f_0000), (0x90_0000, 0x90_1000)];
        assert_eq!(at(&areas), None);
        let areas = [(0x40_0000, 0x40_1000), (0x48_0000, 0x49_0000)];
        assert_eq!(at(&areas), Some((0x40_2000, 0x40_2000 + little)));
        assert_eq!(at(&[]), None);
    }
}
