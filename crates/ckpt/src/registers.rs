//! The general registers, as numbers in an image.

use image::thread::Thread;
use kern::ptrace::Regs;
use vocab::{Fault, Result};
use zerocopy::{FromBytes, IntoBytes};

pub(crate) fn save(regs: &Regs) -> Vec<u64> {
    regs.as_bytes().as_chunks::<8>().0.iter().map(|bytes| u64::from_ne_bytes(*bytes)).collect()
}

/// # Errors
/// `Wire` for the registers of another kind of machine.
pub(crate) fn of(saved: &Thread) -> Result<Regs> {
    let bytes: Vec<u8> = saved.regs.iter().flat_map(|number| number.to_ne_bytes()).collect();
    Regs::read_from_bytes(&bytes).map_err(|_| Fault::wire("registers of another machine"))
}
