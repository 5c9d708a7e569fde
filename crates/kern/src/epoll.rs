//! Waiting for many descriptors at once: epoll(7), and the two descriptors made only to be waited for, eventfd and
//! timerfd.

use crate::clock::timespec;
use crate::sys::{checked, own, read, write};
use bitflags::bitflags;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use vocab::{Fault, Result};

bitflags! {
    /// What to wait for on a descriptor; empty: only hangup and error, which are always told.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Interest: u32 {
        const READ = libc::EPOLLIN as u32;
        const WRITE = libc::EPOLLOUT as u32;
        /// Exceptional conditions (EPOLLPRI): a changed `mountinfo`, `cgroup.events`, a terminal's packet mode.
        const PRIORITY = libc::EPOLLPRI as u32;
        /// Told to one waiter, once; then not until [`Poller::modify`].
        const ONCE = libc::EPOLLONESHOT as u32;
    }
}

impl Interest {
    /// Reading always, writing only when there is something to write: what a connection wants.
    pub fn reading_and(writing: bool) -> Interest {
        if writing {
            Interest::READ | Interest::WRITE
        } else {
            Interest::READ
        }
    }
}

/// One descriptor that is ready.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ready {
    /// The number it was added with.
    pub token: u64,
    /// A read will not block. Also set for EPOLLPRI where that was asked for.
    pub readable: bool,
    /// A write will not block.
    pub writable: bool,
    /// EPOLLHUP or EPOLLERR: the other end is closed, or the descriptor has an error. There may still be bytes to read.
    pub hangup: bool,
}

/// An epoll instance; level-triggered, so what is not read now is told again.
#[derive(Debug)]
pub struct Poller {
    fd: OwnedFd,
}

/// Events taken from the kernel per call of [`Poller::wait`]; more wait for the next.
const BATCH: usize = 256;

impl Poller {
    /// # Errors
    /// `Sys` as epoll_create1(2): EMFILE, ENFILE, ENOMEM.
    pub fn new() -> Result<Poller> {
        // SAFETY: takes a number, returns a number.
        let fd = own(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) }.into(), || "make an epoll instance".into())?;
        Ok(Poller { fd })
    }

    /// Waits for `fd` from now on. A descriptor that is closed leaves by itself once its last duplicate is closed.
    ///
    /// # Errors
    /// `Sys` as epoll_ctl(2): EEXIST when it is there already, EPERM for a regular file, ENOSPC (max_user_watches).
    pub fn add(&self, fd: BorrowedFd<'_>, token: u64, interest: Interest) -> Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd, token, interest)
    }

    /// Changes what is waited for, and the token.
    ///
    /// # Errors
    /// `Sys` as epoll_ctl(2): ENOENT when it was not added.
    pub fn modify(&self, fd: BorrowedFd<'_>, token: u64, interest: Interest) -> Result<()> {
        self.control(libc::EPOLL_CTL_MOD, fd, token, interest)
    }

    /// Stops waiting for `fd`; what [`Poller::wait`] has already returned of it stays returned.
    ///
    /// # Errors
    /// `Sys` as epoll_ctl(2): ENOENT when it was not added.
    pub fn remove(&self, fd: BorrowedFd<'_>) -> Result<()> {
        self.control(libc::EPOLL_CTL_DEL, fd, 0, Interest::empty())
    }

    fn control(&self, op: i32, fd: BorrowedFd<'_>, token: u64, interest: Interest) -> Result<()> {
        let mut event = libc::epoll_event { events: interest.bits(), u64: token };
        // SAFETY: both descriptors are open for the length of the call, `event` is a live epoll_event.
        let ret = unsafe { libc::epoll_ctl(self.fd.as_raw_fd(), op, fd.as_raw_fd(), &mut event) };
        checked(ret.into(), || format!("epoll_ctl of descriptor {}", fd.as_raw_fd())).map(drop)
    }

    /// Waits at most `timeout_us` microseconds (`None`: for ever) and puts what is ready into `ready`, which it empties
    /// first. Nothing in it means: the time is over, or a signal was handled.
    ///
    /// # Errors
    /// `Sys` as epoll_pwait2(2) (Linux 5.11).
    pub fn wait(&self, ready: &mut Vec<Ready>, timeout_us: Option<u64>) -> Result<()> {
        ready.clear();
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; BATCH];
        let span = timeout_us.map(timespec);
        let span = span.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        let none = std::ptr::null::<libc::sigset_t>();
        // SAFETY: `events` has BATCH places, `span` is null or points to a live timespec, no signal mask is given.
        let ret = unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait2,
                self.fd.as_raw_fd(),
                events.as_mut_ptr(),
                BATCH as libc::c_int,
                span,
                none,
                size_of::<u64>(),
            )
        };
        let count = match crate::sys::check(ret) {
            Ok(count) => count as usize,
            Err(libc::EINTR) => 0,
            Err(errno) => return Err(Fault::sys(errno, "wait for descriptors")),
        };
        ready.extend(events[..count].iter().map(Ready::from_event));
        Ok(())
    }
}

impl AsFd for Poller {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Ready {
    fn from_event(event: &libc::epoll_event) -> Ready {
        let has = |bits: i32| event.events & bits as u32 != 0;
        Ready {
            token: event.u64,
            readable: has(libc::EPOLLIN | libc::EPOLLPRI),
            writable: has(libc::EPOLLOUT),
            hangup: has(libc::EPOLLHUP | libc::EPOLLERR),
        }
    }
}

/// Wakes a loop from another thread: an eventfd(2). Share it by `Arc`.
#[derive(Debug)]
pub struct Waker {
    fd: OwnedFd,
}

impl Waker {
    /// # Errors
    /// `Sys` as eventfd(2).
    pub fn new() -> Result<Waker> {
        // SAFETY: takes numbers, returns a number.
        let ret = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        Ok(Waker { fd: own(ret.into(), || "make an eventfd".into())? })
    }

    /// Makes the descriptor readable; many wakes before one [`Waker::drain`] count as one. Never blocks.
    pub fn wake(&self) {
        // EAGAIN means that the counter is full, hence the descriptor readable: what was wanted. No other error can
        // occur.
        let _ = write(self.fd.as_fd(), &1u64.to_ne_bytes());
    }

    /// Makes it unreadable again; call it before you look at what you were woken for. True: it had been woken.
    pub fn drain(&self) -> bool {
        read(self.fd.as_fd(), &mut [0; 8]).is_ok()
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// A timer as a descriptor, readable when it has gone off: timerfd_create(2). Made stopped.
#[derive(Debug)]
pub struct Timer {
    fd: OwnedFd,
}

impl Timer {
    /// On CLOCK_MONOTONIC, the clock of [`crate::clock::monotonic_us`].
    ///
    /// # Errors
    /// `Sys` as timerfd_create(2).
    pub fn new() -> Result<Timer> {
        Timer::on(libc::CLOCK_MONOTONIC)
    }

    /// On CLOCK_BOOTTIME, the clock of [`crate::clock::boottime_us`]: goes off at once after a suspend that outlasted
    /// it.
    ///
    /// # Errors
    /// `Sys` as timerfd_create(2).
    pub fn boottime() -> Result<Timer> {
        Timer::on(libc::CLOCK_BOOTTIME)
    }

    fn on(clock: libc::clockid_t) -> Result<Timer> {
        // SAFETY: takes numbers, returns a number.
        let ret = unsafe { libc::timerfd_create(clock, libc::TFD_CLOEXEC | libc::TFD_NONBLOCK) };
        Ok(Timer { fd: own(ret.into(), || "make a timerfd".into())? })
    }

    /// Goes off once, `us` microseconds from now (0: at once). Replaces what was set before.
    ///
    /// # Errors
    /// `Sys` as timerfd_settime(2).
    pub fn once(&self, us: u64) -> Result<()> {
        self.set(us, 0, 0)
    }

    /// Goes off once, when this timer's clock says `at_us`; at once when that is past.
    ///
    /// # Errors
    /// `Sys` as timerfd_settime(2).
    pub fn at(&self, at_us: u64) -> Result<()> {
        self.set(at_us, 0, libc::TFD_TIMER_ABSTIME)
    }

    /// Goes off every `us` microseconds (at least 1), first after `us`.
    ///
    /// # Errors
    /// `Sys` as timerfd_settime(2).
    pub fn every(&self, us: u64) -> Result<()> {
        self.set(us, us.max(1), 0)
    }

    /// Stops it and forgets that it went off.
    ///
    /// # Errors
    /// `Sys` as timerfd_settime(2).
    pub fn stop(&self) -> Result<()> {
        self.arm(timespec(0), timespec(0), 0)
    }

    /// How often it has gone off since the last call; 0: not yet. Makes the descriptor unreadable.
    pub fn fired(&self) -> u64 {
        let mut count = [0; 8];
        match read(self.fd.as_fd(), &mut count) {
            Ok(8) => u64::from_ne_bytes(count),
            _ => 0,
        }
    }

    fn set(&self, first_us: u64, every_us: u64, flags: i32) -> Result<()> {
        let mut first = timespec(first_us);
        if first_us == 0 {
            // All zero would stop the timer instead (timerfd_settime(2)).
            first.tv_nsec = 1;
        }
        self.arm(first, timespec(every_us), flags)
    }

    fn arm(&self, first: libc::timespec, every: libc::timespec, flags: i32) -> Result<()> {
        let spec = libc::itimerspec { it_interval: every, it_value: first };
        // SAFETY: `spec` is a live itimerspec, the old value is not asked for.
        let ret = unsafe { libc::timerfd_settime(self.fd.as_raw_fd(), flags, &spec, std::ptr::null_mut()) };
        checked(ret.into(), || "set a timer".into()).map(drop)
    }
}

impl AsFd for Timer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::monotonic_us;

    fn wait(poller: &Poller, us: u64) -> Vec<Ready> {
        let mut ready = Vec::new();
        poller.wait(&mut ready, Some(us)).expect("wait");
        ready
    }

    #[test]
    fn a_wake_from_another_thread_arrives_and_is_gone_after_drain() {
        let (poller, waker) = (Poller::new().expect("epoll"), std::sync::Arc::new(Waker::new().expect("eventfd")));
        poller.add(waker.as_fd(), u64::MAX, Interest::READ).expect("add");
        assert_eq!(wait(&poller, 0), []);
        let other = waker.clone();
        std::thread::spawn(move || (0..3).for_each(|_| other.wake())).join().expect("thread");
        let ready = wait(&poller, 1_000_000);
        assert_eq!(ready, [Ready { token: u64::MAX, readable: true, writable: false, hangup: false }]);
        assert!(waker.drain());
        assert!(!waker.drain());
        assert_eq!(wait(&poller, 0), []);
    }

    #[test]
    fn timers_go_off_once_again_and_again_and_not_when_stopped() {
        let (poller, timer) = (Poller::new().expect("epoll"), Timer::new().expect("timerfd"));
        poller.add(timer.as_fd(), 1, Interest::READ).expect("add");
        let start = monotonic_us();
        timer.once(3_000).expect("set");
        assert!(wait(&poller, 5_000_000)[0].readable);
        assert!(monotonic_us() - start >= 3_000);
        assert_eq!((timer.fired(), timer.fired()), (1, 0));
        timer.at(1).expect("a moment long past");
        assert_eq!(wait(&poller, 5_000_000).len(), 1);
        timer.stop().expect("stop");
        assert_eq!((wait(&poller, 0).len(), timer.fired()), (0, 0));
        timer.every(500).expect("set");
        let mut count = 0;
        while count < 3 {
            assert_eq!(wait(&poller, 5_000_000).len(), 1);
            count += timer.fired();
        }
        timer.once(0).expect("at once");
        assert_eq!(wait(&poller, 5_000_000).len(), 1);
    }

    #[test]
    fn a_closed_end_hangs_up_and_a_changed_interest_counts() {
        let poller = Poller::new().expect("epoll");
        let (read_end, write_end) = crate::sys::pipe().expect("pipe");
        poller.add(write_end.as_fd(), 5, Interest::empty()).expect("add");
        assert_eq!(wait(&poller, 0), []);
        poller.modify(write_end.as_fd(), 6, Interest::WRITE).expect("modify");
        assert_eq!(wait(&poller, 0), [Ready { token: 6, readable: false, writable: true, hangup: false }]);
        drop(read_end);
        assert!(wait(&poller, 0)[0].hangup);
        poller.remove(write_end.as_fd()).expect("remove");
        assert_eq!(wait(&poller, 0), []);
        assert_eq!(poller.remove(write_end.as_fd()).expect_err("not there").errno, libc::ENOENT);
    }

    #[test]
    fn a_timeout_is_waited_for_in_full() {
        let start = monotonic_us();
        assert_eq!(wait(&Poller::new().expect("epoll"), 2_500), []);
        assert!(monotonic_us() - start >= 2_500);
    }
}
