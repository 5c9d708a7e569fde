//! Files with an image in them: the image alone, or behind a program that restores it (`shoal checkpoint --executable`).
//!
//! Such a program is a copy of shoal itself, so that the file runs where no shoal is installed. Behind the image stands where it begins.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;
use vocab::{Fault, Result};

/// The last bytes of a program with an image; before them the image's offset in the file, 8 bytes, little-endian.
const MARK: [u8; 8] = *b"shoalexe";
const TRAILER: usize = 16;

/// This program's own file.
pub(crate) const OWN: &str = "/proc/self/exe";

/// A file at the beginning of the image in it.
pub(crate) fn open(path: &Path) -> Result<File> {
    let failed = |e: std::io::Error| Fault::io(&e, format!("open {}", path.display()));
    let mut file = File::open(path).map_err(failed)?;
    // What cannot be sought in, a pipe, has the image alone.
    if let Some(at) = begins(&mut file) {
        file.seek(SeekFrom::Start(at)).map_err(failed)?;
    }
    Ok(file)
}

/// Is this program one with an image?
pub(crate) fn is_own() -> bool {
    File::open(OWN).is_ok_and(|mut file| begins(&mut file).is_some_and(|at| at > 0))
}

fn begins(file: &mut File) -> Option<u64> {
    let mut trailer = [0; TRAILER];
    let end = file.seek(SeekFrom::End(0)).ok()?;
    let marked = end >= TRAILER as u64
        && file.seek(SeekFrom::End(-(TRAILER as i64))).is_ok()
        && file.read_exact(&mut trailer).is_ok()
        && trailer[8..] == MARK;
    let at = u64::from_le_bytes(*trailer.first_chunk()?);
    Some(if marked && at < end { at } else { 0 })
}

/// Begins a program with an image: what comes next is the image. Returns what comes behind that.
pub(crate) fn begin_program(file: &mut File) -> std::io::Result<[u8; TRAILER]> {
    let length = std::io::copy(&mut File::open(OWN)?, file)?;
    let mut trailer = [0; TRAILER];
    trailer[..8].copy_from_slice(&length.to_le_bytes());
    trailer[8..].copy_from_slice(&MARK);
    file.flush().map(|()| trailer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_found_behind_a_program_and_alone() {
        let folder = std::env::temp_dir().join(format!("imagefile.{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let (alone, program) = (folder.join("alone"), folder.join("program"));
        std::fs::write(&alone, b"image").expect("a file");
        let mut file = File::create(&program).expect("a file");
        let trailer = begin_program(&mut file).expect("a copy");
        file.write_all(b"image").and_then(|()| file.write_all(&trailer)).expect("a file");
        for path in [&alone, &program] {
            let mut found = [0; 5];
            open(path).expect("there").read_exact(&mut found).expect("five bytes");
            assert_eq!(&found, b"image", "{}", path.display());
        }
        assert!(!is_own());
        std::fs::remove_dir_all(&folder).expect("the folder");
    }
}
