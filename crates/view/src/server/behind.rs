//! A file that a node has made and that nobody else has open: the node keeps what is written to it until it is closed, or for some milliseconds.
//!
//! A lease (F_WRLCK) keeps everybody else from opening it until the node has written what it keeps; it ends when the node closes the file.

use super::coherence::Coherence;
use super::inodes::{Inode, State, Who, Writing};
use super::session::Handle;
use crate::line::lock;
use kern::file_lease;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::time::Instant;
use tracing::warn;
use wire::view::WRITE_BACK;

impl Coherence {
    /// A node has just made this file, which is empty, and has it open by `handle`: the node may keep what is written, if nobody else has it open.
    pub(crate) fn write_behind(&self, inode: &Arc<Inode>, who: Who, handle: &Handle) {
        if inode.unkept || !inode.is_file() {
            return;
        }
        let mut state = lock(&inode.state);
        if state.writing.is_some() || state.lease.is_some() || state.writers != 1 || !self.has_room_for_leases() {
            return;
        }
        // Before anything can break it.
        self.know_lease(handle.file.as_raw_fd(), inode);
        if file_lease::take_alone(handle.file.as_fd()) {
            state.writing = Some(Writing { who, file: handle.file.clone() });
        } else {
            self.forget_lease(handle.file.as_raw_fd());
        }
    }

    /// The node writes what it keeps, and then others may open the file.
    pub(super) fn write_back(&self, inode: &Inode) {
        let Some(writing) = lock(&inode.state).writing.take() else { return };
        self.forget_lease(writing.file.as_raw_fd());
        if let Some(session) = self.session(writing.who) {
            // Behind the answer to CREATE, which was sent with the state locked.
            let number = session.notify(WRITE_BACK, &inode.id.to_ne_bytes());
            if !session.wait(number, Instant::now() + self.patience()) {
                warn!(node = %session.node, "view: a node does not write what it keeps, and counts as lost");
                self.leave(&session);
            }
        }
        file_lease::let_go(writing.file.as_fd());
    }

    /// A node closes the file that it has opened so.
    pub(crate) fn written(&self, handle: &Handle) {
        let mut state = lock(&handle.inode.state);
        if state.writing.as_ref().is_some_and(|writing| Arc::ptr_eq(&writing.file, &handle.file)) {
            state.writing = None;
            self.forget_lease(handle.file.as_raw_fd());
            file_lease::let_go(handle.file.as_fd());
        }
    }
}

impl State {
    /// May this node keep what it writes?
    pub(super) fn behind(&self, who: Who) -> bool {
        self.writing.as_ref().is_some_and(|writing| writing.who == who)
    }
}
