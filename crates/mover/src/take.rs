//! A process of another node comes here.

use super::carrier::{may_run, By, Carrier, Word};
use super::lazy::{hold, Pending};
use super::look::here;
use super::orders::{In, Order, Remain, Said};
use super::remains::Ready;
use super::rouser::{run_until_told, Told};
use super::slate::Note;
use ckpt::clocks::Asked;
use ckpt::ownership::User;
use ckpt::rebuilt::{Broken, Rebuilt};
use ckpt::restore::Coming;
use ckpt::roused::Roused;
use ckpt::vessel::Vessel;
use kern::faultpoint::reach;
use kern::sock;
use kern::timeline::mark;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use vocab::{Fault, Pid, Result};

/// Takes the image and makes the process what it says; lets it run when the other mover or the agent says so. Otherwise it is killed, or a
/// stand-in takes its place. What can be wanting for that is opened before what stands there is touched.
pub(super) fn receive(order: &In, word: &mut Word) -> Result<()> {
    let again = order.remain.as_ref().map(Ready::new).transpose()?;
    let (listener, has) = (sock::tcp_listen_anywhere()?, here()?);
    reach("in prepared");
    let Some(there) = vessel(order.pid, word, again.as_ref())? else { return Ok(()) };
    let again = again.as_ref();
    match take(order, there, (&listener, &has), word) {
        Ok(taken) => run(order.pid, taken, word, again),
        Err(failed) => given_up(*failed, word, again),
    }
}

/// Waits until the process is a vessel. `None`: nobody wants it, and it stands there again.
fn vessel(pid: Pid, word: &mut Word, again: Option<&Ready>) -> Result<Option<There>> {
    loop {
        match word.wait()? {
            Order::Go => return Ok(Some(There::Process(pid))),
            Order::Rouse => {
                return match run_until_told(pid, word)? {
                    Told::Remain(order) => stand_again(pid, &order, again).map(|()| None),
                    Told::Go(roused) => Ok(Some(There::Roused(roused))),
                }
            }
            Order::Remain(order) => return stand_again(pid, &order, again).map(|()| None),
            // Nothing has begun, or nothing is stopped.
            Order::Off | Order::Woken => {}
            other => return Err(Fault::wire(format!("the agent says {other:?}"))),
        }
    }
}

/// A vessel that nobody moves: a stand-in takes its place.
fn stand_again(pid: Pid, order: &Remain, again: Option<&Ready>) -> Result<()> {
    let vessel = Vessel::take(pid)?;
    with(order, again, |ready| vessel.remain(&ready.remains()))
}

/// With what was opened before, if anything was.
fn with(order: &Remain, again: Option<&Ready>, done: impl FnOnce(&Ready) -> Result<()>) -> Result<()> {
    match again {
        Some(ready) => done(ready),
        None => done(&Ready::new(order)?),
    }
}

/// The same for a mover that was started for it.
pub(super) fn give_back(order: &Remain) -> Result<()> {
    stand_again(order.pid, order, None)
}

/// All of it is there, and the other mover knows.
fn run(pid: Pid, (rebuilt, pending, mut carrier): Taken, word: &mut Word, again: Option<&Ready>) -> Result<()> {
    // The agent runs as soon as it is told, and before this: so the other mover has its time first.
    if carrier.soon() && Note::Runs.write() {
        return go_on(pid, rebuilt, pending.map(|pending| (pending, Box::new(carrier))), word);
    }
    word.say(&Said::Rebuilt)?;
    let rest = match may_run(word, carrier)? {
        By::Agent => match pending {
            Some(pending) => return pending.lost(pid, Fault::gone("its old node has ended it before"), word),
            None => None,
        },
        By::OtherMover(carrier) => {
            word.say(&Said::Runs)?;
            pending.map(|pending| (pending, carrier))
        }
        By::Nobody(order) => return with(&order, again, |ready| rebuilt.remain(&ready.remains())),
    };
    go_on(pid, rebuilt, rest, word)
}

/// It runs, and what is pending of it comes.
fn go_on(pid: Pid, rebuilt: Rebuilt, rest: Option<(Pending, Box<Carrier>)>, word: &mut Word) -> Result<()> {
    go(rebuilt, &rest.as_ref().map_or(vec![], |(pending, _)| pending.bells()), word)?;
    rest.map_or(Ok(()), |(pending, carrier)| pending.fetch(pid, *carrier, word))
}

/// The agent knows that it does. One of these `bells` rings when it waits for what is to come yet, which this mover brings.
fn go(mut rebuilt: Rebuilt, bells: &[BorrowedFd<'_>], word: &mut Word) -> Result<()> {
    reach("in told to go");
    let stops = rebuilt.go()?;
    word.give_way(bells)?;
    mark("in let it run");
    word.say(&Said::Goes(stops))
}

/// What is to be a vessel.
enum There {
    Process(Pid),
    /// It is stopped, and ran all the same.
    Roused(Roused),
}

impl There {
    fn take(self) -> Result<Vessel> {
        match self {
            There::Process(pid) => Vessel::take_awake(pid),
            There::Roused(roused) => Vessel::take_roused(roused),
        }
    }
}

/// What there is when it has failed. Dropped, all but the first are killed.
enum Left {
    Untouched(There),
    Vessel(Vessel),
    Broken(Box<Broken>),
    Rebuilt(Rebuilt),
}

impl Left {
    fn remain(self, ready: &Ready) -> Result<()> {
        match self {
            Left::Untouched(there) => there.take()?.remain(&ready.remains()),
            Left::Vessel(vessel) => vessel.remain(&ready.remains()),
            Left::Broken(broken) => broken.remain(&ready.remains()),
            Left::Rebuilt(rebuilt) => rebuilt.remain(&ready.remains()),
        }
    }
}

struct Failed {
    fault: Fault,
    left: Left,
}

impl Failed {
    fn with(left: Left) -> impl FnOnce(Fault) -> Box<Failed> {
        |fault| Box::new(Failed { fault, left })
    }
}

/// A process, what of it is to come yet, and from where.
type Taken = (Rebuilt, Option<Pending>, Carrier);

/// The agent is told why, unless it has said itself that nobody wants it; then it says what takes the place of what there is, or ends this mover.
fn given_up(failed: Failed, word: &mut Word, again: Option<&Ready>) -> Result<()> {
    let Failed { fault, left } = failed;
    reach("in gives up");
    word.say(&Said::Failed(fault))?;
    loop {
        match word.wait()? {
            Order::Remain(order) => return with(&order, again, |ready| left.remain(ready)),
            // Said before it was heard of the failure.
            Order::Off | Order::Go | Order::Woken | Order::Rouse => {}
            other => return Err(Fault::wire(format!("the agent says {other:?}"))),
        }
    }
}

/// Up to where the other mover knows that all of it is there.
fn take(
    order: &In,
    there: There,
    (listener, has): (&OwnedFd, &[u8]),
    word: &mut Word,
) -> std::result::Result<Taken, Box<Failed>> {
    if let Err(fault) = listens(listener, word) {
        return Err(Failed::with(Left::Untouched(there))(fault));
    }
    let mut vessel = there.take().map_err(Failed::with(Left::Untouched(There::Process(order.pid))))?;
    vessel.has_streams_alone();
    let coming = match early(order, listener, has, &mut vessel, word) {
        Ok(coming) => coming,
        Err(fault) => return Err(Failed::with(Left::Vessel(vessel))(fault)),
    };
    let held = vessel.bell().is_some();
    let (mut rebuilt, mut carrier) = coming.rebuild(vessel).map_err(|broken| {
        let fault = broken.fault.clone();
        Failed::with(Left::Broken(broken))(fault)
    })?;
    reach("in rebuilt");
    let pending = rebuilt.ahead().map(|ahead| Pending::new(ahead, held, word)).transpose();
    let done = pending.and_then(|pending| {
        if held && pending.is_none() {
            // It has given up since what was to come.
            word.say(&Said::Whole)?;
        }
        if !Note::Rebuilt.write() {
            word.say(&Said::Rebuilt)?;
        }
        carrier.goes_on()?;
        Ok(pending)
    });
    let pending = match done {
        Ok(pending) => pending,
        Err(fault) => return Err(Failed::with(Left::Rebuilt(rebuilt))(fault)),
    };
    // From now on the old node may end its own. If it does not hear this it goes on, and the agent says so.
    let _lost = carrier.tell(&[]);
    Ok((rebuilt, pending, carrier))
}

pub(super) fn listen(word: &mut Word) -> Result<OwnedFd> {
    let listener = sock::tcp_listen_anywhere()?;
    listens(&listener, word).map(|()| listener)
}

fn listens(listener: &OwnedFd, word: &mut Word) -> Result<()> {
    reach("in listening");
    word.say(&Said::Listening(sock::local_address(listener.as_fd())?.port()))
}

/// What comes while the process runs, and all but the pages of the rest.
fn early(order: &In, listener: &OwnedFd, has: &[u8], vessel: &mut Vessel, word: &mut Word) -> Result<Coming<Carrier>> {
    let mut carrier = Carrier::take(listener, &order.key, word)?;
    reach("in connected");
    super::hurry(false);
    let asked = Asked::now()?;
    carrier.tell(has)?;
    super::views::enter(&carrier.hear()?, order, vessel, word)?;
    let mut begun = vessel.early(carrier, Some(asked), super::rest)?.with_terminal_of(order.pid);
    vessel.bell().map_or(Ok(()), |bell| hold(bell, word))?;
    super::hurry(false);
    // From now on the process stands still, and waits for nobody.
    mark("in ready");
    begun.source().tell(&[])?;
    begun.source().sleep()?;
    let user = order.user.as_ref().and_then(User::who_asks);
    let mut coming = Coming::go_on(begun, user.as_ref())?;
    let typed = coming.take_typed();
    if !typed.is_empty() {
        word.say(&Said::Typed(typed))?;
    }
    if coming.takes_orphans() {
        word.say(&Said::TakesOrphans)?;
    }
    if coming.is_large() {
        super::rest()?;
    }
    match coming.pid() == vessel.pid() {
        true => Ok(coming),
        false => Err(Fault::wire(format!("the image is of process {}", coming.pid()))),
    }
}
