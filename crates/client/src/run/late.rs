//! What descendants of a program write, and read, after its end. The process that was `shoal run` has ended by then; a child of it is here.

use super::channels::Channels;
use super::input::{Reader, Source};
use super::lines::Lines;
use super::output::Writer;
use super::takers::Takers;
use kern::signal;
use std::sync::Arc;
use vocab::{Sig, SigSet};
use wire::stream::Stream;

/// Relays until nobody on the nodes can write any more, or nobody here reads. Signals stay blocked as they were in the relay's
/// threads: those that mean the job are for the descendants, who get them from the daemon.
pub(super) fn relay(channels: Channels, lines: [Option<Lines>; 2]) {
    // The handlers are the hold's, and there is no hold here.
    let stops = signal::set_default(Sig::TTOU).and_then(|()| signal::unblock(SigSet(Sig::TTOU.bit())));
    if stops.is_err() {
        return;
    }
    let channels = Arc::new(channels);
    let reader = channels.clone();
    // The end of the process ends it. Without it output goes on, and input ends.
    let input = std::thread::Builder::new().spawn(move || Reader::new(&*reader, Source::Left).run());
    if input.is_err() {
        channels.input(Vec::new());
    }
    let [output, errors] = lines;
    let [out, err] = [Stream::Out, Stream::Err].map(|stream| channels.open(stream));
    let mut writers =
        [Writer::new(&*channels, Stream::Out, output, out), Writer::new(&*channels, Stream::Err, errors, err)];
    let mut ready = Vec::new();
    while channels.close_finished() && channels.wait(&mut ready).is_ok() {
        // The daemon knows nothing of descendants.
        channels.tell_without_asking();
        writers.iter_mut().for_each(Writer::catch_up);
    }
}
