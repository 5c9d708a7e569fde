//! Movers of the front end are started, and those that have outlived a daemon are found.

use crate::connection::{Connection, Token};
use crate::front::Front;
use crate::movers::Mover;
use ghost::no_room;
use kern::clock::monotonic_us;
use kern::proc::handed_over;
use kern::sched::with_children_as_first;
use kern::sock::{self, Kind};
use kern::{mount, sys};
use link::Plain;
use mover::{look_again_us, tend, Heirs, Home, Order, Out};
use std::os::fd::AsFd;
use std::process::{Command, Stdio};
use tracing::info;
use vocab::{Fault, Pid, Result};

/// A mover has this long to take a connection, in microseconds.
const LINE_US: u64 = 1_000_000;

impl Front {
    /// Starts one that does what this says.
    ///
    /// # Errors
    /// `Sys`; `Gone` when it could not be listened to.
    pub(crate) fn start_mover(&mut self, whom: Pid, order: &Order) -> Result<Token> {
        let (ours, its) = sock::socketpair(Kind::Stream)?;
        sys::set_nonblocking(ours.as_fd(), true)?;
        let mut command = Command::new("/proc/self/exe");
        command
            .arg("mover")
            .args(handed_over().iter().flat_map(|place| ["--proc", place]))
            .args(sock::channel_ports().iter().flat_map(|ports| ["--channel-ports", ports]))
            .stdin(Stdio::from(its))
            .stdout(Stdio::null());
        let child = with_children_as_first(|| command.spawn());
        let child = child.map_err(|e| no_room(e.raw_os_error().unwrap_or_default(), "start a mover"))?;
        drop(command);
        let found = match order {
            Order::Home(Home { heirs, .. }) | Order::Out(Out { heirs: Some(heirs), .. }) => {
                Some(heirs.socket.clone().into())
            }
            _ => None,
        };
        let mut line = Plain::new(ours);
        line.send(order)?;
        line.flush()?;
        self.tend_us = self.tend_us.min(look_again_us(monotonic_us(), 1));
        let added = self.add(Connection::Mover(Box::new(Mover::new(line, whom, Some(child), found))));
        added.ok_or_else(|| Fault::gone("the mover is not waited for"))
    }

    /// Sees to it that none of its movers starves.
    pub(crate) fn tend_movers(&mut self, now_us: u64) {
        if now_us < self.tend_us {
            return;
        }
        let mut movers = 0;
        let all = self.connections.values_mut().filter_map(|connection| match connection {
            Connection::Mover(mover) => mover.tended(),
            _ => None,
        });
        tend(all.inspect(|_| movers += 1), &self.proc);
        self.tend_us = if movers == 0 { u64::MAX } else { look_again_us(now_us, movers) };
    }

    /// In this directory of the run directory successors of this daemon find the mover of `pid`.
    ///
    /// # Errors
    /// As [`mount::directory`].
    pub(crate) fn heirs(&self, within: &str, pid: Pid) -> Result<Heirs> {
        let socket = mount::directory(&self.config.run_dir.join(within))?.join(pid.to_string());
        let patience_us = self.config.lost_after.as_micros() as u64;
        Ok(Heirs { socket: socket.to_string_lossy().into_owned(), patience_us })
    }

    /// Movers of a daemon before this one that wait for a successor in this directory, and whom they move.
    pub(crate) fn movers_left(&mut self, within: &str) -> Vec<(Pid, Token)> {
        let mut left = Vec::new();
        let waiting = std::fs::read_dir(self.config.run_dir.join(within)).into_iter().flatten().flatten();
        for socket in waiting.map(|entry| entry.path()) {
            let pid = socket.file_name().and_then(|name| name.to_str()).and_then(|name| name.parse().ok()).map(Pid);
            let Some(pid) = pid else { continue };
            match sock::unix_connect(&socket, LINE_US) {
                Ok(line) => {
                    let mover = Mover::new(Plain::new(line), pid, None, None);
                    left.extend(self.add(Connection::Mover(Box::new(mover))).map(|token| (pid, token)));
                }
                Err(fault) => {
                    info!(%pid, %fault, "its mover is gone");
                    let _ = std::fs::remove_file(&socket);
                }
            }
        }
        left
    }
}
