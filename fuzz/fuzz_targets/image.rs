//! An image of a process, up to its end or to what is wrong with it. Checksums are hit by chance only, so heads are made here.
#![no_main]

use image::Reader;
use libfuzzer_sys::fuzz_target;
use xxhash_rust::xxh3::xxh3_64_with_seed;

fuzz_target!(|bytes: &[u8]| {
    let Some((kind, body)) = bytes.split_first() else { return };
    let kind = u16::from(*kind);
    let mut file = b"shoalimg\x01\0\0\0\0\0\0\0".to_vec();
    file.extend_from_slice(&kind.to_le_bytes());
    file.extend_from_slice(&[0; 6]);
    file.extend_from_slice(&(body.len() as u64).to_le_bytes());
    file.extend_from_slice(&xxh3_64_with_seed(body, kind.into()).to_le_bytes());
    file.extend_from_slice(body);
    let Ok(mut reader) = Reader::new(&file[..]) else { return };
    while let Ok(Some(_)) = reader.next_record() {}
});
