//! A stream of frames, read as each type of message that a connection can carry.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::{ask, frame, node, stream};

fn reread<T: minicbor::Encode<()> + for<'b> minicbor::Decode<'b, ()>>(body: &[u8]) {
    let Ok(message) = frame::decode::<T>(body) else { return };
    let mut again = Vec::new();
    // What fits into a frame once may be longer in our own encoding only by a bounded amount: not asserted here.
    if frame::encode(&message, &mut again).is_ok() {
        assert!(frame::decode::<T>(&again[frame::HEAD..]).is_ok());
    }
}

fuzz_target!(|bytes: &[u8]| {
    let mut rest = bytes;
    while let Ok(Some((body, used))) = frame::split(rest) {
        reread::<ask::Ask>(body);
        reread::<ask::Answer>(body);
        reread::<node::ToFront>(body);
        reread::<node::ToNode>(body);
        reread::<stream::Chunk>(body);
        rest = &rest[used..];
    }
});
