//! A process comes to the front end, where its ghost stands: all of its image is kept here until nothing else can have it any more; then the
//! ghost's process becomes it.
//!
//! The ghost is a ghost until then: it holds, relays, and hands over signals. So what can fail is tried before (the files are opened, the numbers
//! looked at), and until the old node has bound the process nothing here has changed.

use super::carrier::{wait, Carrier, Word};
use super::found::Found;
use super::look::here;
use super::orders::{Home, In, Order, Said, Stood};
use super::remains::{in_the_way, Ready as Programs};
use super::rouser::Rouser;
use super::streams::Streams;
use super::take::listen;
use ckpt::clocks::{Asked, Wanted};
use ckpt::freeze::{freeze, Frozen};
use ckpt::ownership::User;
use ckpt::remain::{replace, replace_one_of_many};
use ckpt::restore::{Coming, Pinned};
use ckpt::roused::Stop;
use ckpt::vessel::{Begun, Vessel};
use kern::faultpoint::reach;
use kern::others;
use kern::pidfd;
use kern::poll::{poll_for, Ready};
use kern::proc::PROC;
use rustix::event::epoll;
use rustix::io::Errno;
use std::fs;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};
use vocab::errno::EPERM;
use vocab::{Fault, Pid, Result, Sig};

/// How long whoever traces a stand-in is waited for when its process has nothing else to become.
const PATIENCE: Duration = Duration::from_secs(5);
const LOOKS_EACH: Duration = Duration::from_millis(2);

/// Takes the image, says so, and makes the process when it is told to.
pub(super) fn receive(order: &Home, word: &mut Word) -> Result<()> {
    let Home { process: In { pid, key, user, .. }, heirs, light, relay, programs } = order;
    if let Some(why) = in_the_way(*pid)? {
        return Err(Fault::refused(format!("its stand-in cannot become it: it {why}")));
    }
    is_traced_by_nobody(*pid)?;
    let streams = relay.map(Streams::of_relay).transpose()?;
    // Where there is no room for them it stays where it is.
    let programs = Programs::within(programs, "/")?;
    let listener = listen(word)?;
    let mut carrier = Carrier::take(&listener, key, word)?;
    drop(listener);
    reach("in connected");
    let has = here()?;
    super::hurry(false);
    let asked = Asked::now()?;
    carrier.tell(&has)?;
    // On the front end there is one view.
    carrier.hear()?;
    let user = user.as_ref().and_then(User::who_asks);
    let (image, mut carrier) = keep(*pid, (carrier, asked), user.as_ref())?;
    // Somebody may have begun since.
    if let Err(fault) = image.may_be_made(*pid, streams.as_ref()).and_then(|()| is_traced_by_nobody(*pid)) {
        // Said before the other node finds the connection broken, and knows no better reason.
        return word.say(&Said::Failed(fault));
    }
    let found = Found::new(heirs)?;
    reach("in rebuilt");
    word.say(&Said::Rebuilt)?;
    carrier.goes_on()?;
    // From now on the old node may end its own. If it does not hear this it goes on, and the daemon says so.
    let _lost = carrier.tell(&[]);
    let (carrier, rouser) = (Some(carrier), Rouser::default());
    let mut waiting = Waiting { word, carrier, found, pid: *pid, bound: false, rouser };
    let Some(stood) = waiting.may_become()? else { return Ok(()) };
    reach("in told to go");
    let ghost = match std::mem::take(&mut waiting.rouser) {
        rouser if rouser.fd().is_some() => rouser.freeze(*pid),
        _ => freeze_at_last(*pid).map(|ghost| (ghost, Stop::Unseen)),
    };
    let made = ghost.and_then(|(ghost, stop)| become_it((ghost, stop, *light, stood), &programs, streams, image));
    let said = match made {
        Ok(stops) => Said::IsHome(stops),
        Err(fault) => {
            pidfd::end(*pid);
            Said::Failed(fault)
        }
    };
    waiting.found.say_at_last(waiting.word, &said)
}

/// What others trace can be made into nothing. Movers let go by themselves.
fn is_traced_by_nobody(pid: Pid) -> Result<()> {
    let program = |pid: Pid| fs::metadata(format!("{PROC}/{pid}/exe")).map(|file| (file.dev(), file.ino())).ok();
    let ours = program(Pid(std::process::id() as i32));
    let is_named = |tracer: Pid| fs::read(format!("{PROC}/{tracer}/comm")).is_ok_and(|name| name == b"shoal:mover\n");
    // Anybody may have the name. One that ends has no program any more, and lets go.
    let lets_go = |tracer: &Pid| program(*tracer).is_none_or(|its| is_named(*tracer) && Some(its) == ours);
    let why = |tracer| Fault::refused(format!("its stand-in cannot become it: that is traced by process {tracer}"));
    others::tracer(pid).filter(|tracer| !lets_go(tracer)).map_or(Ok(()), |tracer| Err(why(tracer)))
}

/// The old node has none any more, and somebody may have begun to trace what stands for it in the milliseconds since that was looked at. Nothing tells when they let it go.
///
/// # Errors
/// As [`freeze`]; EPERM when they have not within [`PATIENCE`].
fn freeze_at_last(pid: Pid) -> Result<Frozen> {
    let until = Instant::now() + PATIENCE;
    // One that has let it go since it was in the way is in nobody's way.
    let mut was_traced = true;
    loop {
        match freeze(pid) {
            Err(fault) if fault.root_errno() == EPERM && was_traced && Instant::now() < until => {
                was_traced = others::tracer(pid).is_some();
                let _interrupted = poll_for(&[], Some(LOOKS_EACH));
            }
            done => return done,
        }
    }
}

/// All of it is here, and the other mover knows.
struct Waiting<'a> {
    word: &'a mut Word,
    /// As long as the other mover may have something to say.
    carrier: Option<Carrier>,
    found: Found,
    pid: Pid,
    /// The old node cannot have it any more.
    bound: bool,
    /// Of what stands for it.
    rouser: Rouser,
}

impl Waiting<'_> {
    /// Waits until the process may be made, and hears what has come to what stood for it; `None`: nobody wants it.
    ///
    /// # Errors
    /// `Gone` when no daemon follows the one that has gone.
    fn may_become(&mut self) -> Result<Option<Stood>> {
        loop {
            self.rouser.attend()?;
            match self.word.heard() {
                Ok(Some(Order::Become(stood))) => return Ok(Some(stood)),
                Ok(Some(Order::Rouse)) => {
                    self.rouser.rouse(self.pid);
                    continue;
                }
                // What came with it no line tells of.
                Ok(Some(Order::Go)) => {
                    self.is_bound()?;
                    continue;
                }
                Ok(Some(Order::Off)) => return Ok(None),
                Ok(Some(other)) => return Err(Fault::wire(format!("the daemon says {other:?}"))),
                Ok(None) => {}
                Err(_) => {
                    self.successor()?;
                    continue;
                }
            }
            match self.carrier.as_mut().map(Carrier::heard) {
                Some(Ok(Some(_go))) => self.is_bound()?,
                Some(Err(_)) => self.carrier = None,
                _ => {}
            }
            let lines = [Some(self.word.fd()), self.carrier.as_ref().map(Carrier::fd), self.rouser.fd()];
            let lines: Vec<_> = lines.into_iter().flatten().map(|fd| (fd, Ready::READ)).collect();
            wait(&lines, None)?;
        }
    }

    fn is_bound(&mut self) -> Result<()> {
        self.carrier = None;
        if !std::mem::replace(&mut self.bound, true) {
            // One that is gone is told when it has a successor.
            let _gone = self.word.say(&Said::Runs);
        }
        Ok(())
    }

    /// Waits for another daemon, and tells it how far this is.
    fn successor(&mut self) -> Result<()> {
        let until = self.found.until();
        loop {
            self.rouser.attend()?;
            if let Some(line) = self.found.accept()? {
                self.word.follows(line)?;
                let said = if self.bound { Said::Runs } else { Said::Rebuilt };
                return match self.word.say(&said) {
                    Ok(()) => Ok(()),
                    Err(_) => self.successor(),
                };
            }
            let mut lines = vec![(self.found.fd(), Ready::READ)];
            lines.extend(self.carrier.as_ref().map(|carrier| (carrier.fd(), Ready::READ)));
            lines.extend(self.rouser.fd().map(|fd| (fd, Ready::READ)));
            wait(&lines, Some(until))?;
            match self.carrier.as_mut().map(Carrier::heard) {
                Some(Ok(Some(_go))) => self.is_bound()?,
                Some(Err(_)) => self.carrier = None,
                _ => {}
            }
        }
    }
}

/// All of the image, which is whole, and of which the files could be opened.
fn keep(pid: Pid, (carrier, asked): (Carrier, Asked), user: Option<&User>) -> Result<(Image, Carrier)> {
    let mut begun = Begun::skipping(Keeper { carrier, kept: Vec::new() }, asked, super::rest)?;
    let clocks = begun.clocks();
    super::hurry(false);
    // From now on the process stands still, and waits for nobody.
    begun.source().carrier.tell(&[])?;
    let coming = Coming::go_on(begun, user)?;
    if coming.pid() != pid {
        return Err(Fault::wire(format!("the image is of process {}", coming.pid())));
    }
    let fits = coming.fits_into(pid);
    let (takes_input, watched) = (coming.files().takes_over(0), coming.files().watched_streams());
    let (Keeper { carrier, kept }, pinned) = coming.only_looked_at()?;
    Ok((Image { bytes: kept, pinned, clocks, takes_input, watched, fits }, carrier))
}

/// What there is of the process.
struct Image {
    bytes: Vec<u8>,
    /// Its files, open since it came.
    pinned: Pinned,
    clocks: Option<Wanted>,
    /// Its standard input leads out of it.
    takes_input: bool,
    /// Standard streams at which an epoll of it looks.
    watched: Vec<u8>,
    /// The stand-in may have as much as it takes while it becomes that process: nothing may fail for want of it once the old node has ended its own.
    fits: Result<()>,
}

impl Image {
    /// # Errors
    /// `Refused` if not; the process stays where it is.
    fn may_be_made(&self, pid: Pid, streams: Option<&Streams>) -> Result<()> {
        if self.takes_input && streams.is_some_and(Streams::has_input) {
            // What has been read for its program on the node is that one's, and cannot be told from what it would read.
            return Err(Fault::refused(
                "it has the standard input of its program, of which some may have been read ahead for that",
            ));
        }
        for stream in self.watched.iter().copied() {
            if cannot_be_watched(pid, stream, streams) {
                return Err(Fault::refused(format!(
                    "its epoll looks at its standard stream {stream}, which is a file or device there, at which that cannot look"
                )));
            }
        }
        self.fits.clone()
    }
}

/// Is what it gets as this standard stream nothing for epoll_ctl(2)? On its node it has been a pipe.
fn cannot_be_watched(pid: Pid, stream: u8, streams: Option<&Streams>) -> bool {
    let own = || Streams::file_of_relay(pid, stream);
    let Some(file) = streams.and_then(|streams| streams.of(stream)).or_else(own) else { return false };
    let Ok(looker) = epoll::create(epoll::CreateFlags::CLOEXEC) else { return false };
    epoll::add(looker, file, epoll::EventData::new_u64(0), epoll::EventFlags::IN) == Err(Errno::PERM)
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

/// The process that was a ghost, and has the standard streams of its program unless it is a light one, becomes the one of the image.
fn become_it(
    (ghost, stop, light, stood): (Frozen, Stop, bool, Stood),
    programs: &Programs,
    streams: Option<Streams>,
    image: Image,
) -> Result<Option<Sig>> {
    let pid = ghost.pid;
    super::hurry(image.bytes.len() > super::ROOM);
    let handle = pidfd::open(pid).map_err(|errno| Fault::sys(errno, format!("open process {pid}")))?;
    let stream = |number| {
        let taken = pidfd::getfd(handle.as_fd(), number);
        taken.map_err(|errno| Fault::sys(errno, format!("take descriptor {number} of process {pid}")))
    };
    let own: [OwnedFd; 3] = [stream(0)?, stream(1)?, stream(2)?];
    let streams = match streams {
        Some(relayed) => relayed.or(own),
        None => own,
    };
    let [input, output, errors] = streams.each_ref().map(AsFd::as_fd);
    let replace = if light { replace_one_of_many } else { replace };
    replace(ghost, &programs.program(&["shoal", "vessel"], [input, output, errors]))?;
    reach("in has a vessel");
    let mut vessel = match (stood.asleep, stop) {
        (true, Stop::Holds) => Vessel::take_asleep(pid)?,
        _ => Vessel::take(pid)?,
    };
    match stood.went_on {
        Some(by) => vessel.goes_on_by(&by),
        // After the ghost had handed over its last signal.
        None if stood.asleep && stop == Stop::Over => vessel.has_gone_on(),
        None => {}
    }
    vessel.wants(image.clocks);
    let begun = vessel.early(&image.bytes[..], None, || Ok(()))?;
    // The owner was compared when the image came.
    let (mut rebuilt, _) =
        Coming::go_on_with(begun, image.pinned)?.rebuild(vessel).map_err(|broken| broken.fault.clone())?;
    reach("in made it");
    let stops = rebuilt.go()?;
    super::rest().map(|()| stops)
}
