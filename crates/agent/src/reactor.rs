//! The agent's one loop: what is ready is served, what is due is done, what has happened is told.

use crate::agent::{Agent, Token};
use kern::clock::{boottime_us, monotonic_us};
use kern::epoll::{Interest, Ready};
use std::os::fd::AsFd;
use vocab::{Fault, Result};

/// Stand-ins that were answered and are not back are looked after at most this often, in microseconds.
const LOOK_AFTER_US: u64 = 5_000;

impl Agent {
    /// Serves until the lease of life is over or something is lost that nothing works without.
    ///
    /// # Errors
    /// Always: it ends only so. The process must end then, and with it every body.
    pub(crate) fn run(mut self) -> Result<()> {
        self.tell_outer();
        let mut ready = Vec::new();
        loop {
            self.poll_link()?;
            let timeout = self.timeout_us();
            self.poller.wait(&mut ready, Some(timeout))?;
            if self.life.expired(boottime_us()) {
                return Err(Fault::gone("the lease of life is over"));
            }
            self.hear_movers();
            self.watch();
            for one in &ready {
                self.serve(one)?;
            }
            self.due()?;
            self.serve_clients();
            self.tell_in_time();
            self.tell_passes();
            self.let_output_go();
            self.ask_for_the_quiet();
            self.uplink.flush();
            self.let_entries_go();
            self.ghosts.acknowledge(monotonic_us());
        }
    }

    fn serve(&mut self, ready: &Ready) -> Result<()> {
        match Token::of(ready.token) {
            Some(Token::Link) => self.serve_link()?,
            Some(Token::Records) => self.pace_records()?,
            Some(Token::Ghosts) => self.serve_ghosts()?,
            Some(Token::Door) => self.take_gates(),
            Some(Token::Gate(number)) => self.serve_gate(number, ready.hangup),
            Some(Token::Children) => self.serve_children()?,
            Some(Token::Order) => self.showing.order.answer_bell(),
            Some(Token::Looker) => self.looked(),
            Some(Token::Entries(which)) => self.entries_looked(which as usize),
            Some(Token::Stops) => self.serve_stops(),
            Some(Token::Mover(number)) => self.serve_mover(number),
            Some(Token::View) => self.hear_view(),
            Some(Token::Files) => self.hear_views()?,
            Some(Token::Local) => self.take_clients(),
            Some(Token::Channels) => self.take_greetings(),
            Some(Token::Client(number)) => self.client_ready(number),
            Some(Token::Greeting(number)) => self.serve_greeting(number),
            Some(Token::Body(pid)) => self.handle_ready(pid, ready.hangup),
            None => return Err(Fault::bug(format!("epoll says {ready:?}"))),
        }
        Ok(())
    }

    fn due(&mut self) -> Result<()> {
        if self.ghosts.late_at().is_some_and(|due| due <= monotonic_us()) {
            self.serve_ghosts()?;
        }
        self.look_again();
        let now = monotonic_us();
        self.look_in_storm(now)?;
        if self.uplink.due_us().is_some_and(|due| due <= now) {
            self.serve_link()?;
        }
        if self.asks.due_us().is_some_and(|due| due <= now) {
            self.expire_asks();
        }
        if self.looker.due_us().is_some_and(|due| due <= now) {
            self.looked();
        }
        self.entries_due(now);
        self.keep_view(now)?;
        if self.volley.due_us().is_some_and(|due| due <= now) {
            self.end_volley();
        }
        if self.handles.due_us().is_some_and(|due| due <= now) {
            self.look_who_was_waited_for(now);
        }
        if self.park_at().is_some_and(|due| due <= now) {
            self.park_late(now);
        }
        if self.send_at().is_some_and(|due| due <= now) {
            self.send_late(now);
        }
        self.tend_movers(now);
        self.send_after_parents();
        self.beat();
        self.let_go();
        self.when_they_have_left();
        self.trace_no_more();
        Ok(())
    }

    /// Records have woken us. In a storm neither they nor the ends of children need to.
    fn pace_records(&mut self) -> Result<()> {
        if self.pace.woken(monotonic_us()) {
            self.wake_no_more()?;
        }
        Ok(())
    }

    /// Many processes are about to end or to do something else that is told by records.
    pub(crate) fn expect_storm(&mut self) -> Result<()> {
        if self.pace.expects(monotonic_us()) {
            self.wake_no_more()?;
        }
        Ok(())
    }

    fn wake_no_more(&mut self) -> Result<()> {
        self.records.bell(false)?;
        self.poller.remove(self.children.as_fd())
    }

    /// In a storm: what else would wake us is looked at when it is time. (Every turn of the loop reads the records.)
    fn look_in_storm(&mut self, now: u64) -> Result<()> {
        if !self.pace.look_due(now) {
            return Ok(());
        }
        if self.pace.looked(now) {
            self.records.bell(true)?;
            self.poller.add(self.children.as_fd(), Token::Children.number(), Interest::READ)?;
        }
        self.serve_children()
    }

    fn serve_children(&mut self) -> Result<()> {
        let mut some = false;
        while self.children.take()?.is_some() {
            some = true;
        }
        self.watch();
        if some {
            self.reap();
        }
        Ok(())
    }

    fn timeout_us(&self) -> u64 {
        let now = monotonic_us();
        let moments = [
            self.uplink.due_us(),
            self.uplink.up().then_some(self.next_beat_us),
            self.checks.next_us(),
            self.asks.due_us(),
            self.asks.fair.due_us(),
            self.looker.due_us(),
            self.entries.due_us(),
            self.view.as_ref().map(procfs::node_proc::Keeper::due_us),
            self.volley.due_us(),
            self.handles.due_us(),
            self.park_at(),
            self.send_at(),
            self.moving.tend_at(),
            self.let_go_at(),
            self.usages.due_us(),
            self.ghosts.acknowledge_at(),
            self.ghosts.late_at().map(|due| due.max(now + LOOK_AFTER_US)),
            self.pace.look_us(),
            self.has_news().then(|| self.pace.tell_us()),
        ];
        let next = moments.into_iter().flatten().min().unwrap_or(u64::MAX);
        let life = self.life.expires_at().saturating_sub(boottime_us());
        next.saturating_sub(now).min(life)
    }
}
