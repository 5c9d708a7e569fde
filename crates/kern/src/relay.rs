//! What the main thread of a process that holds itself as a stand-in shares with its relay threads: words, no locks.
//!
//! The main thread must be able to use it in the middle of a hold and of a signal handler, so everything here is
//! atomic loads and stores, futex(2), ioctl(2) and write(2).

use crate::pty::{in_foreground, Modes};
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use vocab::Sig;

/// The terminal whose modes the relay changes: descriptor 0 of the process.
const TERMINAL: i32 = 0;

/// Output may still come.
const WRITING: u32 = 0;
/// The same, and a signal that ends programs has come after the program's own end.
const HURRIED: u32 = 1;
/// Everything has been written out, or never will be.
const DRAINED: u32 = 2;
/// Output that has come may not be written out yet, and the program's node is lost.
const LOST: u32 = 3;

/// How long output waits for its reader after such a signal, in milliseconds.
pub const HURRY_MS: u32 = 1000;

/// The same when the node is lost, which leaves a fortieth of the agreed time for the end (`link::beat`): the reader has had the rest already.
pub const LOST_MS: u32 = 100;

/// The exit status of a program that has succeeded, for all that it knows, without its streams: that shoal has failed.
const CUT: u64 = 125;

/// The signals by which people and shells end a program that handles none.
pub const ENDING: [Sig; 4] = [Sig::HUP, Sig::INT, Sig::QUIT, Sig::TERM];

/// See the module.
pub struct Relay {
    /// [`WRITING`], [`HURRIED`], [`LOST`] or [`DRAINED`].
    drained: AtomicU32,
    /// How often the main thread has come out of a stop.
    rounds: AtomicU32,
    /// The main thread has been told the end and waits for `drained`.
    ending: AtomicBool,
    /// What the program has written may be lost, or what it was to read.
    cut: AtomicBool,
    /// An eventfd on which the relay's threads are told to look around; -1: none.
    bell: AtomicI32,
    /// The main thread's end of a socket over which it gets the process's standard streams if it is to become the program itself; -1: none.
    home: AtomicI32,
    /// Changed together with the terminal's modes, so that a thread that makes them raw cannot be late.
    modes: Mutex<Given>,
    /// The terminal's modes as they were found; set only where raw modes are wanted.
    found: OnceLock<Modes>,
}

/// The one of this process.
pub static RELAY: Relay = Relay::new();

impl Relay {
    const fn new() -> Relay {
        Relay {
            drained: AtomicU32::new(WRITING),
            rounds: AtomicU32::new(0),
            ending: AtomicBool::new(false),
            cut: AtomicBool::new(false),
            bell: AtomicI32::new(-1),
            home: AtomicI32::new(-1),
            modes: Mutex::new(Given::AsFound),
            found: OnceLock::new(),
        }
    }

    /// For the main thread, before it exits or dies as it was told: waits until all output is out, and gives the terminal back.
    ///
    /// Nobody may read the output ever again. Then a signal of [`ENDING`], for which [`Relay::on_signal`] is called meanwhile, ends
    /// the wait after [`HURRY_MS`], and [`Relay::set_lost`] ends it after [`LOST_MS`].
    pub fn before_end(&self) {
        self.ending.store(true, Ordering::SeqCst);
        futex_wake(&self.rounds);
        self.ring();
        while self.drained.load(Ordering::SeqCst) == WRITING {
            futex_wait(&self.drained, WRITING, None);
        }
        for (haste, patience) in [(HURRIED, HURRY_MS), (LOST, LOST_MS)] {
            // Whoever has set it may wake us for it only now.
            while self.drained.load(Ordering::SeqCst) == haste && futex_wait(&self.drained, haste, Some(patience)) {}
        }
        self.give_back(Given::ForGood);
    }

    /// For the main thread, after [`Relay::before_end`]: with what it exits when its program has exited with `code`. One whose streams were
    /// cut off has not succeeded.
    pub fn code(&self, code: u64) -> u64 {
        if code == 0 && self.cut.load(Ordering::SeqCst) {
            CUT
        } else {
            code
        }
    }

    /// For the main thread, before it becomes the program, which has come here: waits until what that has written elsewhere is out. Then the
    /// standard streams that it is to have are in the socket that is returned, a descriptor of the main thread; -1: there are none.
    ///
    /// All signals are blocked meanwhile: they are for the program.
    pub fn before_home(&self) -> i32 {
        self.ending.store(true, Ordering::SeqCst);
        futex_wake(&self.rounds);
        self.ring();
        while self.drained.load(Ordering::SeqCst) == WRITING {
            futex_wait(&self.drained, WRITING, None);
        }
        self.give_back(Given::ForGood);
        self.home.load(Ordering::SeqCst)
    }

    /// For the relay, once: see [`Relay::before_home`].
    pub fn set_home(&self, socket: BorrowedFd<'_>) {
        use std::os::fd::AsRawFd;
        self.home.store(socket.as_raw_fd(), Ordering::SeqCst);
    }

    /// For the main thread, before it stops: gives the terminal back.
    pub fn before_stop(&self) {
        self.give_back(Given::AsFound);
    }

    fn give_back(&self, how: Given) {
        let mut modes = self.modes.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *modes, how);
        if let Some(found) = self.found.get() {
            if before == Given::Raw && in_foreground(terminal()) {
                let _ = found.set(terminal());
            }
        }
    }

    /// For the main thread, after it was stopped and continued.
    pub fn after_stop(&self) {
        self.make_raw();
        self.rounds.fetch_add(1, Ordering::SeqCst);
        futex_wake(&self.rounds);
        self.ring();
    }

    /// For the handler, in any thread: SIGWINCH is the relay's business too, and SIGCONT, with which a shell puts a job that runs
    /// in the background into the foreground.
    pub fn on_signal(&self, sig: i32) {
        if matches!(sig, libc::SIGWINCH | libc::SIGCONT) {
            self.ring();
        } else if self.is_ending() && ENDING.iter().any(|ending| i32::from(ending.number()) == sig) {
            let _ = self.drained.compare_exchange(WRITING, HURRIED, Ordering::SeqCst, Ordering::SeqCst);
            futex_wake(&self.drained);
        }
    }

    /// For the relay: nothing more will be written by this process that the program's end must wait for.
    pub fn set_drained(&self) {
        self.drained.store(DRAINED, Ordering::SeqCst);
        futex_wake(&self.drained);
    }

    /// For the relay: the program's node is lost, and this process may not outlive the agreed time for a reader that takes nothing.
    pub fn set_lost(&self) {
        let hastens = |now: u32| (now != DRAINED).then_some(LOST);
        if self.drained.fetch_update(Ordering::SeqCst, Ordering::SeqCst, hastens).is_ok() {
            futex_wake(&self.drained);
        }
    }

    /// For the relay: streams of a program were cut off while it ran, or never connected.
    pub fn set_cut(&self) {
        self.cut.store(true, Ordering::SeqCst);
    }

    /// For the relay: the main thread no longer executes stops; a relay thread that must stop does it itself.
    pub fn is_ending(&self) -> bool {
        self.ending.load(Ordering::SeqCst)
    }

    /// For the relay: the number of stops that the process has come out of.
    pub fn round(&self) -> u32 {
        self.rounds.load(Ordering::SeqCst)
    }

    /// For the relay: waits until [`Relay::round`] is no longer `seen`, at most so long.
    pub fn wait_round(&self, seen: u32, timeout_ms: u32) {
        if self.round() == seen && !self.is_ending() {
            futex_wait(&self.rounds, seen, Some(timeout_ms));
        }
    }

    /// For the relay, once: the eventfd that is rung after a stop, before the end, and when the window has changed.
    pub fn set_bell(&self, eventfd: BorrowedFd<'_>) {
        use std::os::fd::AsRawFd;
        self.bell.store(eventfd.as_raw_fd(), Ordering::SeqCst);
    }

    /// For the relay, once: the terminal is to be in raw modes whenever it is ours.
    pub fn want_raw(&self, found: Modes) {
        let _ = self.found.set(found);
        self.make_raw();
    }

    /// Are raw modes wanted?
    pub fn wants_raw(&self) -> bool {
        self.found.get().is_some()
    }

    /// For the relay: raw modes, where they are wanted, are not yet set, and we are in the foreground.
    pub fn make_raw(&self) {
        let Some(found) = self.found.get() else { return };
        // Whoever has it makes them raw too, or gives them back.
        let Ok(mut modes) = self.modes.try_lock() else { return };
        if *modes == Given::AsFound && in_foreground(terminal()) && found.raw().set(terminal()).is_ok() {
            *modes = Given::Raw;
        }
    }

    fn ring(&self) {
        let fd = self.bell.load(Ordering::SeqCst);
        if fd >= 0 {
            // SAFETY: 8 bytes of a live number. The descriptor is the relay's eventfd for the life of the process;
            // EAGAIN would mean that it is rung already.
            unsafe { libc::write(fd, (&raw const ONE).cast(), 8) };
        }
    }
}

/// In which modes the terminal is, as far as they are our doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Given {
    AsFound,
    Raw,
    /// As found, and the process ends: they stay so.
    ForGood,
}

static ONE: u64 = 1;

fn terminal() -> BorrowedFd<'static> {
    // SAFETY: descriptor 0 stays open for the life of the process (Rust's runtime opens it where it is closed).
    unsafe { BorrowedFd::borrow_raw(TERMINAL) }
}

/// Sleeps while `word` is `value`; may return early (a signal). True: it was woken.
fn futex_wait(word: &AtomicU32, value: u32, timeout_ms: Option<u32>) -> bool {
    let span =
        timeout_ms.map(|ms| libc::timespec { tv_sec: i64::from(ms / 1000), tv_nsec: i64::from(ms % 1000) * 1_000_000 });
    let span = span.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    let wait = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: the word and the timespec live through the call.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), wait, value, span) == 0 }
}

fn futex_wake(word: &AtomicU32) {
    // SAFETY: the word lives through the call.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, i32::MAX) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    #[test]
    fn the_end_waits_for_the_output() {
        let relay = Arc::new(Relay::new());
        let main = relay.clone();
        let end = std::thread::spawn(move || main.before_end());
        while !relay.is_ending() {
            std::thread::yield_now();
        }
        assert!(!end.is_finished());
        relay.set_drained();
        end.join().expect("no panic");
    }

    #[test]
    fn a_signal_after_the_end_gives_a_blocked_reader_a_moment() {
        let relay = Arc::new(Relay::new());
        relay.on_signal(libc::SIGINT);
        let main = relay.clone();
        let end = std::thread::spawn(move || main.before_end());
        while !relay.is_ending() {
            std::thread::yield_now();
        }
        relay.on_signal(libc::SIGUSR1);
        assert!(!end.is_finished(), "the signals before it, and others, change nothing");
        let start = Instant::now();
        relay.on_signal(libc::SIGINT);
        end.join().expect("no panic");
        assert!(start.elapsed() >= Duration::from_millis(u64::from(HURRY_MS)) - Duration::from_millis(50));
    }

    #[test]
    fn the_loss_of_the_node_ends_the_wait_at_any_time() {
        for before in [true, false] {
            let relay = Arc::new(Relay::new());
            if before {
                relay.set_lost();
            }
            let main = relay.clone();
            let start = Instant::now();
            let end = std::thread::spawn(move || main.before_end());
            while !before && !relay.is_ending() {
                std::thread::yield_now();
            }
            relay.on_signal(libc::SIGINT);
            relay.set_lost();
            end.join().expect("no panic");
            assert!(start.elapsed() < Duration::from_millis(u64::from(HURRY_MS)));
        }
    }

    #[test]
    fn without_its_streams_no_program_succeeds() {
        let relay = Relay::new();
        assert_eq!([0, 3].map(|code| relay.code(code)), [0, 3]);
        relay.set_cut();
        assert_eq!([0, 3].map(|code| relay.code(code)), [125, 3]);
    }

    #[test]
    fn a_round_ends_the_wait_and_so_does_the_deadline() {
        let relay = Arc::new(Relay::new());
        let seen = relay.round();
        let start = Instant::now();
        relay.wait_round(seen, 20);
        assert!(start.elapsed() >= Duration::from_millis(19));
        let other = relay.clone();
        let thread = std::thread::spawn(move || other.wait_round(seen, 60_000));
        relay.after_stop();
        thread.join().expect("no panic");
        assert_eq!(relay.round(), seen + 1);
    }
}
