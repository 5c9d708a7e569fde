//! The parts of an image that are opened again.

use image::file_id::Places;
use image::files::Files;
use image::memory::Memory;
use image::Bytes;

/// What is to be opened: program, working directory and root; mappings; descriptors.
pub(crate) struct Wants<'a> {
    pub(crate) exe: &'a Bytes,
    pub(crate) cwd: &'a Bytes,
    pub(crate) root: &'a Bytes,
    pub(crate) places: &'a Places,
    pub(crate) memory: &'a Memory,
    pub(crate) files: &'a Files,
}
