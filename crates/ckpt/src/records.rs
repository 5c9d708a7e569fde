//! The records of an image, but for memory and the content of files.

use image::files::Files;
use image::memory::Memory;
use image::objects::Objects;
use image::process::Process;
use image::thread::Thread;

#[derive(Clone)]
pub(crate) struct Records {
    pub(crate) process: Process,
    pub(crate) threads: Vec<Thread>,
    pub(crate) objects: Objects,
    pub(crate) memory: Memory,
    pub(crate) files: Files,
}
