//! The bytes before a connection's messages: the preamble, and the handshakes as each of the four sides reads them.
#![no_main]

use kern::sock::{send, socketpair, Kind};
use kern::sys::set_nonblocking;
use libfuzzer_sys::fuzz_target;
use link::preamble::Greeting;
use link::Secure;
use std::os::fd::AsFd;
use wire::stream::Chunk;

fuzz_target!(|bytes: &[u8]| {
    let pair = || {
        let (here, there) = socketpair(Kind::Stream).expect("a pair");
        set_nonblocking(here.as_fd(), true).and_then(|()| set_nonblocking(there.as_fd(), true)).expect("fcntl");
        let _ = send(here.as_fd(), bytes);
        (here, there)
    };
    let (_here, there) = pair();
    let _ = Greeting::new(there, 1).read(0);
    for make in [Secure::control_dialler, Secure::control_taker, Secure::channel_dialler, Secure::channel_taker] {
        let (_here, there) = pair();
        let mut end = make(there, &[7; 32]).expect("an end");
        let _ = end.receive();
        assert!(!end.established() && !matches!(end.next::<Chunk>(), Ok(Some(_))));
    }
});
