//! A question to a monitor, an answer of one, and a trace: its records have right checksums.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sample::ask::Ask;
use sample::trace::Reader;
use xxhash_rust::xxh3::xxh3_64_with_seed;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(ask) = Ask::read(bytes) {
        assert_eq!(Ask::read(ask.line().as_bytes()), Ok(ask));
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = sample::words::samples(text);
    }
    let mut file = b"shoalmon\x01\0\0\0\0\0\0\0".to_vec();
    for body in bytes.chunks(100) {
        let kind = u16::from(body[0] & 7);
        file.extend_from_slice(&kind.to_le_bytes());
        file.extend_from_slice(&[0; 2]);
        file.extend_from_slice(&(body.len() as u32 - 1).to_le_bytes());
        file.extend_from_slice(&xxh3_64_with_seed(&body[1..], kind.into()).to_le_bytes());
        file.extend_from_slice(&body[1..]);
    }
    let Ok(mut reader) = Reader::new(&file[..]) else { return };
    while let Ok(Some(_)) = reader.next_sample() {}
});
