//! A process of another node comes here.

use super::carrier::{Carrier, Word};
use super::orders::{In, Order, Said};
use ckpt::restore::{Coming, Rebuilt};
use kern::sock;
use std::os::fd::AsFd;
use vocab::{Fault, Result};

/// Takes the image and makes the process what it says; lets it run when the agent says so, and kills it otherwise.
pub(super) fn receive(order: &In, word: &mut Word) -> Result<()> {
    let listener = sock::tcp_listen_anywhere()?;
    word.say(&Said::Listening(sock::local_address(listener.as_fd())?.port()))?;
    let rebuilt = rebuild(order, Carrier::take(&listener, &order.key, word)?)?;
    word.say(&Said::Rebuilt)?;
    match word.wait()? {
        Order::Go => rebuilt.go(),
        other => Err(Fault::wire(format!("the agent says {other:?}"))),
    }
}

fn rebuild(order: &In, carrier: Carrier) -> Result<Rebuilt> {
    let coming = Coming::read(carrier)?;
    if coming.pid() != order.pid {
        return Err(Fault::wire(format!("the image is of process {}", coming.pid())));
    }
    coming.rebuild(order.pid)
}
