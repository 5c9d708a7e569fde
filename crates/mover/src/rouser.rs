//! A stand-in that is stopped, as its process is, and has something to do: it runs while its mover traces it.

use super::carrier::{wait, Word};
use super::found::Found;
use super::orders::{Order, Remain, Said};
use ckpt::freeze::{freeze, Frozen};
use ckpt::roused::{rouse, Roused, Stop};
use kern::init::SignalFd;
use kern::pidfd;
use kern::poll::Ready;
use std::os::fd::{AsFd, BorrowedFd};
use tracing::debug;
use vocab::{Fault, Pid, Result, Sig};

/// Traced, or not yet.
#[derive(Default)]
pub(super) struct Rouser(Option<(SignalFd, Roused)>);

impl Rouser {
    /// From now on it runs.
    pub(super) fn rouse(&mut self, pid: Pid) {
        if self.0.is_some() {
            return;
        }
        // None of its stops is to be missed.
        let told = SignalFd::new(&[Sig::CHLD]);
        match told.and_then(|told| Ok((told, rouse(pid)?))) {
            Ok(both) => self.0 = Some(both),
            // It does all that when it is continued.
            Err(fault) => debug!(%pid, %fault, "a stopped stand-in stays stopped"),
        }
    }

    /// Readable when there is something to attend to.
    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.0.as_ref().map(|(told, _)| told.as_fd())
    }

    pub(super) fn attend(&mut self) -> Result<()> {
        let Some((told, roused)) = &mut self.0 else { return Ok(()) };
        while told.take()?.is_some() {}
        roused.attend();
        Ok(())
    }

    /// It was killed.
    fn is_over(&self) -> bool {
        self.0.as_ref().is_some_and(|(_, roused)| roused.is_over())
    }

    /// It stands still. What has become of its stop?
    ///
    /// # Errors
    /// As [`freeze`].
    pub(super) fn freeze(self, pid: Pid) -> Result<(Frozen, Stop)> {
        match self.0 {
            Some((_, roused)) => roused.freeze_as_it_is(),
            None => freeze(pid).map(|ghost| (ghost, Stop::Unseen)),
        }
    }
}

/// What became of one that ran.
pub(super) enum Told {
    /// It is a vessel, and runs on.
    Go(Roused),
    /// It is to be this, and is stopped again.
    Remain(Remain),
}

/// What stands for a stopped process runs until it has become a vessel.
///
/// # Errors
/// EPERM for who may not trace it; `Gone` when it, or the agent, is gone.
pub(super) fn run_until_told(pid: Pid, word: &mut Word) -> Result<Told> {
    let (told, mut roused) = (SignalFd::new(&[Sig::CHLD])?, rouse(pid)?);
    loop {
        while told.take()?.is_some() {}
        roused.attend();
        match word.heard()? {
            Some(Order::Go) => return Ok(Told::Go(roused)),
            Some(Order::Woken) => roused.went_on(),
            Some(Order::Remain(order)) => {
                roused.let_go()?;
                return Ok(Told::Remain(order));
            }
            Some(other) => return Err(Fault::wire(format!("the agent says {other:?}"))),
            None => drop(wait(&[(word.fd(), Ready::READ), (told.as_fd(), Ready::READ)], None)?),
        };
    }
}

/// What has taken the place of a stopped process is there: a daemon is told, and it runs until that has seen to it. Where no daemon follows one that is gone in
/// time all programs end. A ghost that runs finds that out by itself, one that is stopped cannot.
///
/// # Errors
/// `Gone` when none has come in time: then it is killed.
pub(super) fn leave_stopped(pid: Pid, word: &mut Word, found: &Found, said: &Said) -> Result<()> {
    let ghost = pidfd::open(pid);
    let told = found.say_at_last(word, said).and_then(|()| run_though_stopped(pid, word, found));
    if let (Err(fault), Ok(ghost)) = (&told, ghost) {
        debug!(%pid, %fault, "nobody sees to a stopped stand-in: it ends");
        // Gone already is as good.
        let _ = pidfd::kill(ghost.as_fd(), Sig::KILL);
    }
    told
}

/// It relays, and runs until the daemon ends this mover or says so: then it holds. Stopped for good before that, it could be told nothing.
/// A successor of the daemon is told that it does.
fn run_though_stopped(pid: Pid, word: &mut Word, found: &Found) -> Result<()> {
    let mut rouser = Rouser::default();
    rouser.rouse(pid);
    let mut until = None;
    while rouser.fd().is_some() {
        rouser.attend()?;
        if rouser.is_over() {
            break;
        }
        if until.is_none() {
            match word.heard() {
                Ok(Some(Order::Go)) => break,
                Ok(_) => {}
                Err(_) => until = Some(found.until()),
            }
        }
        if let Some(line) = found.accept()? {
            word.follows(line)?;
            until = word.say(&Said::Left { come: Vec::new(), stopped: true }).is_err().then(|| found.until());
        }
        let line = until.is_none().then(|| word.fd());
        let all = rouser.fd().into_iter().chain(line).chain([found.fd()]);
        wait(&all.map(|fd| (fd, Ready::READ)).collect::<Vec<_>>(), until)?;
    }
    // It is let go with the end of its tracer.
    Ok(())
}
