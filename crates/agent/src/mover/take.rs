//! A process of another node comes here.

use super::carrier::{may_run, By, Carrier, Word};
use super::orders::{In, Said};
use ckpt::restore::{Coming, Rebuilt};
use ckpt::vessel::Vessel;
use kern::faultpoint::reach;
use kern::timeline::mark;
use kern::{sched, sock};
use std::os::fd::AsFd;
use vocab::{Fault, Result};

/// Takes the image and makes the process what it says; lets it run when the other mover or the agent says so, and kills it otherwise.
pub(super) fn receive(order: &In, word: &mut Word) -> Result<()> {
    let listener = sock::tcp_listen_anywhere()?;
    reach("in listening");
    word.say(&Said::Listening(sock::local_address(listener.as_fd())?.port()))?;
    // What can be done before the process stands still.
    let (cpu, vessel) = (ckpt::cpu::here(), Vessel::take(order.pid)?);
    let mut carrier = Carrier::take(&listener, &order.key, word)?;
    reach("in connected");
    carrier.tell(&minicbor::to_vec(cpu).map_err(|e| Fault::bug(format!("encode what this processor has: {e}")))?)?;
    let (rebuilt, mut carrier) = rebuild(vessel, carrier)?;
    reach("in rebuilt");
    word.say(&Said::Rebuilt)?;
    carrier.goes_on()?;
    // From now on the old node may end its own. If it does not hear this it goes on, and the agent says so.
    let _lost = carrier.tell(&[]);
    match may_run(word, carrier)? {
        By::Agent => {}
        By::OtherMover => word.say(&Said::Runs)?,
    }
    reach("in told to go");
    rebuilt.go()?;
    mark("in let it run");
    // It has both processors to itself, if it needs them.
    sched::set_ordinary()
}

fn rebuild(mut vessel: Vessel, carrier: Carrier) -> Result<(Rebuilt, Carrier)> {
    sched::set_ordinary()?;
    let mut begun = vessel.early(carrier)?;
    crate::birth::run_first();
    // From now on the process stands still, and waits for nobody.
    mark("in ready");
    begun.source().tell(&[])?;
    let coming = Coming::go_on(begun)?;
    if coming.pid() != vessel.pid() {
        return Err(Fault::wire(format!("the image is of process {}", coming.pid())));
    }
    coming.rebuild(vessel)
}
