//! Memory in the puppet for scripts: a page of code, which the puppet may only execute, and pages of data.

use crate::script::{self, Script};
use kern::remote_memory::RemoteMemory;
use vocab::Result;

/// Where in the puppet scripts live.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arena {
    base: u64,
}

/// Of the code, in bytes.
pub(crate) const CODE_LENGTH: u64 = 4096;
/// Of the table of calls.
const TABLE_LENGTH: u64 = 512 * 1024;
/// Of all: what is not touched takes no memory.
const LENGTH: u64 = CODE_LENGTH + TABLE_LENGTH + 3 * 1024 * 1024 + 508 * 1024;

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
    /// Bytes of address space that an arena takes.
    pub const LENGTH: u64 = LENGTH;

    pub(crate) fn at(base: u64) -> Arena {
        Arena { base }
    }

    pub fn base(&self) -> u64 {
        self.base
    }

    pub fn end(&self) -> u64 {
        self.base + LENGTH
    }

    /// An empty script for this arena.
    pub fn script(&self) -> Script {
        let table = self.base + CODE_LENGTH;
        Script::new(table, table + TABLE_LENGTH, self.end())
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
