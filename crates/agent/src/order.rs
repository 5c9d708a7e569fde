//! What a program did before it wrote a byte is to be seen on the front end before anybody can read the byte.
//!
//! Output goes straight to its reader, what happened goes to the front end, so the one could overtake the other.
//! The thread of streams asks here after each read; nothing is to be seen that is not: the bytes go at once, for the price of a few loads.
//! Otherwise it holds them, and the main loop, which it wakes, looks what has happened by now, tells it, and
//! grants when the front end says that all of it is shown ([`wire::node::ToNode::EventsShown`]). The program itself never waits.

use kern::epoll::Waker;
use kern::perf::Unread;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use vocab::Result;

/// What the two threads share.
#[derive(Debug)]
pub struct Order {
    unread: Unread,
    /// The main loop knows of something that is not shown, or may not be.
    unshown: AtomicBool,
    /// The newest question, and up to which one the answer is yes.
    asked: AtomicU64,
    granted: AtomicU64,
    bell: Waker,
}

impl Order {
    /// # Errors
    /// `Sys` when no descriptor is to be had.
    pub fn new(unread: Unread) -> Result<Order> {
        let (asked, granted) = (AtomicU64::new(0), AtomicU64::new(0));
        Ok(Order { unread, unshown: AtomicBool::new(false), asked, granted, bell: Waker::new()? })
    }

    /// Bytes have been read. `None`: all that was done before they were written is shown. Otherwise they must wait until
    /// [`Order::granted`] has reached the number.
    pub(crate) fn ask(&self) -> Option<u64> {
        // The records first: the main loop says that there is something unshown before it takes a record away.
        if !self.unread.any() && !self.unshown.load(Ordering::SeqCst) {
            return None;
        }
        let number = self.asked.fetch_add(1, Ordering::SeqCst) + 1;
        self.bell.wake();
        Some(number)
    }

    pub(crate) fn granted(&self) -> u64 {
        self.granted.load(Ordering::SeqCst)
    }

    /// Readable when somebody has asked.
    pub(crate) fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    pub(crate) fn answer_bell(&self) {
        self.bell.drain();
    }

    /// The newest question.
    pub(crate) fn asked(&self) -> u64 {
        self.asked.load(Ordering::SeqCst)
    }

    /// Everything is shown, or something may not be. Said before a call is let go on that changes something, and before records count as read.
    pub(crate) fn set_shown(&self, shown: bool) {
        self.unshown.store(!shown, Ordering::SeqCst);
    }

    pub(crate) fn grant(&self, number: u64) {
        self.granted.store(number, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_waits_when_nothing_has_happened_and_everybody_until_granted() {
        let order = Order::new(Unread::none()).expect("eventfd");
        assert_eq!(order.ask(), None);
        order.set_shown(false);
        assert_eq!((order.ask(), order.ask()), (Some(1), Some(2)));
        assert_eq!(order.asked(), 2);
        order.grant(1);
        assert_eq!(order.granted(), 1);
        order.set_shown(true);
        assert_eq!(order.ask(), None);
    }
}
