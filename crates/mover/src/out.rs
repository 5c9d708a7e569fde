//! A process of this node leaves it.

use super::carrier::{called_off, Carrier, Word};
use super::found::Found;
use super::lazy;
use super::look::{can_remain, look_again as look, may_go_on};
use super::orders::{Order, Out, Remain, Said};
use super::remains::Ready;
use super::rouser::leave_stopped;
use super::slate::Note;
use ckpt::asking::rehearse;
use ckpt::behind::behind;
use ckpt::dump::{hold_after, hold_lazily};
use ckpt::ended::{is_over, reason as reason_of};
use ckpt::foresee::foresee;
use ckpt::guess::guess;
use ckpt::held::{Held, Waiting};
use ckpt::outlook::outlook;
use ckpt::precopy::{follow, Precopy};
use ckpt::survey::Survey;
use image::Writer;
use kern::clock::monotonic_us;
use kern::faultpoint::reach;
use kern::pidfd::{self, read_siginfo};
use kern::proc::group_and_session;
use kern::timeline::mark;
use std::io::BufWriter;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use vocab::{Fault, Kind, Pid, Result, Sig, SigInfo};

/// For so long the other node's reason is waited for, in microseconds; the process runs on meanwhile.
const BETTER_REASON_US: u64 = 300_000;

/// Bytes that wait for others to go with them.
const LITTLE: usize = 16 * 1024;

/// Sends the process, and ends it here when the other node has it.
pub(super) fn send(order: &Out, word: &mut Word) -> Result<()> {
    let reason = |fault: Fault| reason_of(order.pid, fault);
    let seen = look(order, &[]).map_err(reason)?;
    reach("out looked");
    let mut carrier = Carrier::dial(&order.address, &order.key, word)?;
    reach("out connected");
    carrier.tell(&super::views::told(order))?;
    // Not being found before it is bound is as good as not being there: it hears that the daemon has gone, and gives up.
    let found = order.heirs.as_ref().map(Found::new).transpose()?;
    let ready = order.remains.as_ref().map(Ready::new).transpose()?;
    let (mut held, children, _early) = match carry(order, seen, &mut carrier, word) {
        Ok(carried) => carried,
        Err(fault) => {
            // Whoever is told may have it moved again at once, by another mover that is to be found there.
            drop(found);
            return fails(order.pid, reason(fault), word);
        }
    };
    reach("out sent");
    // A word of the agent calls it off as well.
    // To look at the agent, which has most descriptors of all, would take longer than the rest.
    let ours = [std::process::id(), std::os::unix::process::parent_id()].map(|pid| Pid(pid as i32));
    let there = held.is_as_surveyed(&children, &ours).and_then(|()| carrier.hear()).and_then(|_all| {
        let streams = relayed(order)?;
        held.bind(&children).map(|()| Substitute { ready, streams })
    });
    match there {
        Ok(place) => leave(order, (held, place), word, &mut carrier, found),
        Err(fault) => {
            held.go_on()?;
            drop(found);
            fails(order.pid, reason(fault), word)
        }
    }
}

/// While the carrier is still there: the other node, which finds the connection broken then, knows no better reason. Where the connection is broken already, the
/// other node knows why: the front end is to hear that first, and the agent says so.
fn fails(pid: Pid, why: Fault, word: &mut Word) -> Result<()> {
    if why.kind == Kind::Gone && !is_over(pid) {
        word.wait_until(monotonic_us() + BETTER_REASON_US);
    }
    word.say(&Said::Failed(why))
}

/// It cannot run here any more: the other node may let it run, and it is ended here.
///
/// Should this mover end, the agent knows that the process is not here: it is told before the other mover, or finds it noted.
fn leave(
    order: &Out,
    (held, place): (Held, Substitute),
    word: &mut Word,
    carrier: &mut Carrier,
    found: Option<Found>,
) -> Result<()> {
    reach("out bound");
    let ends_first = held.must_end_first();
    let noted = !order.home && Note::Bound.write();
    let early = if noted { None } else { Some(word.say(&Said::Bound)) };
    if !ends_first {
        let_run(carrier);
        mark("out has let it go");
        // Where one machine is both nodes the process may run on this processor.
        let _sooner = word.give_way(&[carrier.fd()]);
    }
    // Whatever else comes of this than End means that the agent is gone: the process ends all the same.
    let told = early.unwrap_or_else(|| word.say(&Said::Bound));
    if held.keeps_some() {
        reach("out keeps the rest");
        // If that fails, the other side says who is lost.
        let _sent = lazy::serve(&held, carrier);
        reach("out has sent the rest");
    }
    let end = told.and_then(|()| what_remains(word));
    reach("out told to end");
    let (come, stopped) = match end {
        Ok(Some(order)) => remains(held, &order, place)?,
        Ok(None) | Err(_) => match order.remains.as_ref().filter(|_| order.home) {
            Some(order) => remains(held, order, place)?,
            None => (left(held), false),
        },
    };
    reach("out ended");
    if ends_first {
        let_run(carrier);
    }
    let said = Said::Left { come, stopped };
    let Some(found) = found else { return word.say(&said) };
    match stopped {
        true => leave_stopped(order.pid, word, &found, &said),
        false => found.say_at_last(word, &said),
    }
}

/// What is to take its place here, if anything.
fn what_remains(word: &mut Word) -> Result<Option<Remain>> {
    loop {
        match word.wait()? {
            Order::End => return Ok(None),
            Order::Remain(order) => return Ok(Some(order)),
            // Too late to call it off.
            _ => {}
        }
    }
}

/// If that is lost, the front end says so.
fn let_run(carrier: &mut Carrier) {
    let _lost = carrier.tell(&[]);
}

/// A process that stands still, the children that it must have for it to leave, and what it was followed by.
type Carried = (Held, Vec<Pid>, Option<Precopy>);

/// What is large goes while the process runs, all else while it stands still. What it was followed by lasts as long as what is returned:
/// to end that takes a while, for which nobody should have to wait.
fn carry(order: &Out, mut seen: Survey, carrier: &mut Carrier, word: &mut Word) -> Result<Carried> {
    let pid = order.pid;
    let _kept = kern::proc::kept::keep();
    // The other node's mover says first what it has, and asks for the clocks; what it is told is as good as neither waits for others.
    super::hurry(false);
    let there = carrier.hear()?;
    let question = seen.asked_for_clocks();
    let expected = if order.progress { carrier.measure()? } else { Arc::default() };
    // What is small goes while the pages are still read: the other side can begin with it.
    let mut writer = Writer::vouched(BufWriter::with_capacity(LITTLE, carrier))?;
    writer.clocks(&question.answer()?)?;
    super::rest()?;
    let kernel = may_go_on(pid, &seen, &there)?;
    writer.vdso(ckpt::vdso::here()?)?;
    let stays = if order.lazy { behind(pid, &seen)? } else { None };
    let followed = if order.lazy { None } else { follow(pid, &seen)? };
    let early = match followed {
        None if order.progress => {
            let outlook = outlook(pid, &seen)?;
            expected.begins(0, outlook.own + outlook.nameless);
            None
        }
        None => None,
        Some(followed) => {
            super::rest()?;
            followed.announce(&mut writer)?;
            let early = followed.copy(&mut writer, |round, bytes| expected.begins(round, bytes))?;
            expected.begins(0, 0);
            seen = look(order, early.followed())?;
            Some(early)
        }
    };
    seen.goes_on_under(&kernel)?;
    // What changes just now, or cannot be looked at, is told when it stands still.
    let mut guessed = None;
    if let Ok(Some(forecast)) = foresee(pid, &seen, stays.as_ref()) {
        writer.forecast(&forecast)?;
        let left = stays.as_ref().map(|stays| stays.mappings());
        let left = left.as_deref().or(early.as_ref().map(Precopy::followed)).unwrap_or_default();
        guessed = Some(guess(pid, &seen, left, &mut writer)?);
    }
    rehearse(pid);
    super::hurry(seen.is_large());
    let place = group_and_session(pid);
    let children = may_leave(word)?;
    writer.still()?;
    mark("out says still");
    let carrier = writer.target().get_mut();
    carrier.hear()?;
    carrier.goes_on()?;
    let held = match &stays {
        Some(stays) => hold_lazily(pid, &seen, stays, guessed.as_ref(), &mut writer)?,
        None => hold_after(pid, &seen, early.as_ref(), guessed.as_ref(), &mut writer)?,
    };
    reach("out held");
    let same = || match group_and_session(pid) == place {
        true => Ok(()),
        false => Err(Fault::changed("its group or session has changed on the way")),
    };
    let settled = same().and_then(|()| held.locks_can_go()).and_then(|()| can_remain(order));
    match settled.and_then(|()| writer.end()) {
        Ok(_) => Ok((held, children, early)),
        Err(fault) => held.go_on().and(Err(fault)),
    }
}

/// The front end is asked before the process stands still, so that it need not be while it does. It says which children the process has on the other
/// node: those that it had not waited for.
fn may_leave(word: &mut Word) -> Result<Vec<Pid>> {
    word.say(&Said::Ready)?;
    match word.wait()? {
        Order::Leave(children) => {
            reach("out may leave");
            word.goes_on().map(|()| children)
        }
        Order::Stay | Order::Off => Err(called_off()),
        other => Err(Fault::wire(format!("the agent says {other:?}"))),
    }
}

/// Files with which a stand-in in the place of the process is made, opened before the process is given up.
struct Substitute {
    ready: Option<Ready>,
    streams: Option<[OwnedFd; 3]>,
}

/// The standard streams of the process, if what takes its place relays them.
fn relayed(order: &Out) -> Result<Option<[OwnedFd; 3]>> {
    let relays = order.remains.as_ref().is_some_and(|remains| remains.ghost.is_some());
    relays.then(|| streams(order.pid)).transpose()
}

/// A stand-in takes its place, which is stopped or not. What it was sent since it was written goes with it; what it is sent from now on the stand-in
/// passes on.
fn remains(held: Held, order: &Remain, place: Substitute) -> Result<(Vec<SigInfo>, bool)> {
    let ready = place.ready.map_or_else(|| Ready::new(order), Ok)?;
    let come = held.come_since()?;
    let stopped = held.was_stopped();
    let done = match &order.ghost {
        None => held.remain(&ready.remains(), &come)?,
        Some(socket) => {
            let streams = place.streams.map_or_else(|| streams(order.pid), Ok)?;
            let streams = streams.each_ref().map(AsFd::as_fd);
            let threads: Vec<String> = held.threads().map(|tid| tid.to_string()).collect();
            let threads = threads.join(",");
            let all = ["shoal", "ghost", "--socket", socket, "--threads", &threads];
            let arguments = if threads.is_empty() { &all[..4] } else { &all[..] };
            held.remain(&ready.program(arguments, streams), &come)?
        }
    };
    let mut follows = to_follow(&come);
    if done.stops {
        follows.push(SigInfo::kill(Sig::STOP, Pid::NONE, 0));
    }
    // Else the kernel has let it go on.
    let stopped = stopped && done.is_stopped && !follows.iter().any(|info| info.sig == Sig::CONT);
    Ok((follows, stopped))
}

/// Its standard streams, or /dev/null.
fn streams(pid: Pid) -> Result<[OwnedFd; 3]> {
    let handle = pidfd::open(pid).map_err(|errno| Fault::sys(errno, format!("open process {pid}")))?;
    let stream = |number| {
        pidfd::getfd(handle.as_fd(), number).or_else(|_closed| {
            let null = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null");
            null.map(OwnedFd::from).map_err(|e| Fault::io(&e, "open /dev/null"))
        })
    };
    Ok([stream(0)?, stream(1)?, stream(2)?])
}

/// Ends it here. What it was sent since it was written goes with it; one that was killed meanwhile is killed there too.
fn left(held: Held) -> Vec<SigInfo> {
    let killed = || vec![SigInfo::kill(Sig::KILL, Pid::NONE, 0)];
    let come = match held.come_since() {
        Ok(come) => to_follow(&come),
        Err(_) => killed(),
    };
    // It has ended already, or it has not: then the agent ends it.
    let _killed_already = held.end();
    come
}

/// What is to go after it. Of its children it is told where it is now.
fn to_follow(come: &[Waiting]) -> Vec<SigInfo> {
    let of_a_child = |info: &SigInfo| info.sig == Sig::CHLD && info.code > 0;
    come.iter().filter_map(|one| read_siginfo(&one.info)).filter(|info| !of_a_child(info)).collect()
}
