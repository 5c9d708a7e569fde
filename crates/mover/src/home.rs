//! A process comes to the front end, where its ghost stands: all of its image is kept here until nothing else can have it any more; then the
//! ghost's process becomes it.
//!
//! The ghost is a ghost until then: it holds, relays, and hands over signals. So what can fail is tried before (the files are opened, the numbers
//! looked at), and until the old node has bound the process nothing here has changed.

use super::carrier::{may_run, By, Carrier, Word};
use super::look::here;
use super::orders::{In, Order, Remain, Said};
use super::remains::Ready;
use super::take::listen;
use ckpt::freeze::freeze;
use ckpt::remain::replace;
use ckpt::restore::Coming;
use ckpt::vessel::{Begun, Vessel};
use kern::faultpoint::reach;
use kern::{pidfd, sched};
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use vocab::{Fault, Pid, Result, Sig};

/// Takes the image, says so, and makes the process when it is told to.
pub(super) fn receive(order: &In, word: &mut Word) -> Result<()> {
    let listener = listen(word)?;
    let mut carrier = Carrier::take(&listener, &order.key, word)?;
    drop(listener);
    reach("in connected");
    carrier.tell(&here()?)?;
    sched::set_ordinary()?;
    let (image, mut carrier) = keep(order.pid, carrier)?;
    reach("in rebuilt");
    word.say(&Said::Rebuilt)?;
    carrier.goes_on()?;
    // From now on the old node may end its own. If it does not hear this it goes on, and the daemon says so.
    let _lost = carrier.tell(&[]);
    if let By::Nobody(_) = may_run(word, carrier)? {
        return Err(Fault::wire("the daemon wants a stand-in where one is"));
    }
    word.say(&Said::Runs)?;
    reach("in told to go");
    let order = loop {
        match word.wait()? {
            Order::Become(order) => break order,
            Order::Go | Order::Off => {}
            other => return Err(Fault::wire(format!("the daemon says {other:?}"))),
        }
    };
    become_it(&order, &image).inspect_err(|_| kill(order.pid))?;
    word.say(&Said::IsHome)
}

fn kill(pid: Pid) {
    if let Ok(fd) = pidfd::open(pid) {
        // Gone meanwhile is what was wanted.
        let _ = pidfd::kill(fd.as_fd(), Sig::KILL);
    }
}

/// All of the image, which is whole, and of which the files could be opened.
fn keep(pid: Pid, carrier: Carrier) -> Result<(Vec<u8>, Carrier)> {
    let mut begun = Begun::skipping(Keeper { carrier, kept: Vec::new() })?;
    super::hurry(false);
    // From now on the process stands still, and waits for nobody.
    begun.source().carrier.tell(&[])?;
    let coming = Coming::go_on(begun)?;
    if coming.pid() != pid {
        return Err(Fault::wire(format!("the image is of process {}", coming.pid())));
    }
    let Keeper { carrier, kept } = coming.only_looked_at()?;
    Ok((kept, carrier))
}

/// Keeps what is read.
struct Keeper {
    carrier: Carrier,
    kept: Vec<u8>,
}

impl Read for Keeper {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let count = self.carrier.read(into)?;
        self.kept.extend_from_slice(&into[..count]);
        Ok(count)
    }
}

/// The process that was a ghost, and has the standard streams of its program, becomes the one of the image.
fn become_it(order: &Remain, image: &[u8]) -> Result<()> {
    let pid = order.pid;
    super::hurry(image.len() > super::ROOM);
    let ready = Ready::new(order)?;
    let ghost = freeze(pid)?;
    let handle = pidfd::open(pid).map_err(|errno| Fault::sys(errno, format!("open process {pid}")))?;
    let stream = |number| {
        let taken = pidfd::getfd(handle.as_fd(), number);
        taken.map_err(|errno| Fault::sys(errno, format!("take descriptor {number} of process {pid}")))
    };
    let streams: [OwnedFd; 3] = [stream(0)?, stream(1)?, stream(2)?];
    let [input, output, errors] = streams.each_ref().map(AsFd::as_fd);
    replace(ghost, &ready.program(&["shoal", "vessel"], [input, output, errors]))?;
    reach("in has a vessel");
    let mut vessel = Vessel::take(pid)?;
    let begun = vessel.early(image)?;
    let (rebuilt, _) = Coming::go_on(begun)?.rebuild(vessel).map_err(|broken| broken.fault.clone())?;
    reach("in made it");
    rebuilt.go()?;
    sched::set_ordinary()
}
