//! What the front end says, and the life of the link to it.

use crate::agent::{Agent, Token};
use kern::clock::{boottime_us, monotonic_us};
use link::beat::NodeLife;
use mover::Out;
use std::os::fd::AsFd;
use tracing::{info, warn};
use vocab::{NodeId, Result};
use wire::event::Person;
use wire::hello::Hello;
use wire::node::{Lease, ToFront, ToNode, VERSION};

/// As many that come together are for a job: most of their processes will end, and all at once.
const MANY_SIGNALS: usize = 5;

impl Agent {
    /// Everything that can be done on the link now.
    ///
    /// # Errors
    /// What keeps the records from being paced.
    pub(crate) fn serve_link(&mut self) -> Result<()> {
        let was_up = self.uplink.up();
        let come = self.uplink.step();
        if self.uplink.to_greet() {
            let hello = self.hello();
            self.uplink.greet(hello);
        }
        let signals = come.iter().filter(|message| matches!(message, ToNode::Signal { .. })).count();
        if signals >= MANY_SIGNALS {
            self.expect_storm()?;
        }
        for message in come {
            self.heard(message);
        }
        if was_up && !self.uplink.up() {
            self.asks_lost_link();
            self.moves_lost_link();
        }
        Ok(())
    }

    /// What the front end has to know of a node that is not new.
    fn hello(&mut self) -> Hello {
        self.take_gates();
        self.hear_movers();
        Hello {
            version: VERSION,
            number: Some(self.number),
            load: self.load(),
            leases: self.leases.all().to_vec(),
            bodies: self.everybody(),
            stand_ins: self.stands.known().into_iter().chain(self.moving.stood()).collect(),
            channel_port: self.channel_port,
            subreapers: self.bodies.subreapers(),
            starting: self.starts.to_begin(),
            ways: self.moving.ways(),
            more: false,
            passes: self.gates.passing(),
            ..Hello::default()
        }
    }

    /// Every body whose end the front end has not acknowledged.
    fn everybody(&self) -> Vec<Person> {
        self.bodies.iter().map(|body| &body.person).chain(self.moving.bound()).cloned().collect()
    }

    pub(crate) fn heard(&mut self, message: ToNode) {
        match message {
            ToNode::Welcome { number, leases, beat_us, life_us, .. } => {
                self.welcomed(number, leases, beat_us, life_us);
            }
            ToNode::Refused(fault) => warn!(%fault, "the front end refuses this node"),
            ToNode::Beat { sent_us } => self.beat_back(sent_us),
            ToNode::EventsDone { batch } => self.events.done(batch),
            ToNode::EventsShown { batch } => {
                self.events.are_shown(batch);
                self.elders.births.are_shown(self.events.shown(), monotonic_us());
            }
            ToNode::Start { person, program, kin, channel } => {
                self.start(person, self.administration.surround(program), kin, &channel)
            }
            ToNode::Signal { target, info, thread, turn } => self.signal_comes(target, &info, thread, turn),
            ToNode::KillDone { id, errno, left } => self.kill_done(id, errno, left),
            ToNode::Answer { id, answer, last } => self.answered(id, answer, last),
            ToNode::Ended { pid, exit, usage } => self.end_stand_in(pid, exit, usage),
            ToNode::Stopped { pid, sig, turn } => self.body_stopped(pid, Some(sig), turn),
            ToNode::Continued { pid, turn } => self.body_stopped(pid, None, turn),
            ToNode::Lease(lease) => self.leased(lease),
            ToNode::Ps { id } => self.ps(id),
            ToNode::Entries { id, wanted } => self.entries_wanted(id, wanted),
            ToNode::StandIn { kin, others } => self.stand_in(kin, others),
            ToNode::NoStandIn { pid, errno } => self.handle_answered(pid, errno),
            ToNode::StandInIs { person } => self.stand_in_is(person),
            ToNode::Subreaper { pid, on } => self.stand_in_takes_orphans(pid, on),
            ToNode::Adopt { kin, from, others } => self.adopt(kin, from, others),
            ToNode::BecomeStandIn { pid, .. } => self.become_stand_in(pid),
            ToNode::Arrive { person, kin, channel, key, children, lazy, user, name } => {
                let views = &self.administration.views;
                let name = name.as_deref().filter(|_| !views.is_of_front(None));
                match self.starts.strangers.takes(self.number, &person.creds, user.as_ref(), name) {
                    Ok(()) => self.arrive(person, kin, channel, key, (children, lazy, user)),
                    Err(fault) => self.uplink.send(&ToFront::NotArrived { pid: person.pid, fault }),
                }
            }
            ToNode::Depart { pid, address, key, streams: branch, progress, lazy, user, .. } => {
                let address = self.uplink.reached(address);
                self.depart(Out { pid, address, key, progress, lazy, branch, user, ..Out::default() });
            }
            ToNode::Leave { pid, children } => self.leave(pid, children),
            ToNode::Stay { pid } => self.stay(pid),
            ToNode::Go { person } => self.go(person),
            ToNode::Abandon { pid } => self.abandon(pid),
            ToNode::Forget { pid } => self.forget_gone(pid),
            ToNode::Branch { id, token, copy, further } => self.branch(id, &token, copy, further),
            ToNode::RestLost { pid } => self.rest_is_lost(pid),
            ToNode::Look { id, pid, streams, user } => self.look_at(id, pid, streams, user),
            ToNode::Suits { id, pid, needs } => self.suits(id, pid, needs),
            ToNode::Barrier { id, pid } => self.barrier(id, pid),
            ToNode::Redial { pid, channel } => self.redial(pid, &channel),
            ToNode::Administer { id, chore } => self.administer(id, chore),
            ToNode::Log { id, wanted } => self.uplink.send(&self.administration.log(id, wanted)),
        }
    }

    fn welcomed(&mut self, number: NodeId, leases: Vec<Lease>, beat_us: u64, life_us: u64) {
        if self.leases.all().iter().any(|lease| !leases.contains(lease)) {
            // Another node may get these numbers, and nobody there knows of what runs here.
            warn!("the front end takes this node for a new one: every process of the space here ends");
            std::process::exit(1);
        }
        info!(%number, "link: down -> up");
        self.uplink.joined();
        self.number = number;
        self.beat_us = beat_us.max(1_000);
        let life_us = life_us.min(self.lost_grace_us);
        // The Hello counts as a beat. What was promised before holds until the new time is over.
        self.life = NodeLife::new(self.uplink.hello_us(), life_us);
        self.next_beat_us = monotonic_us();
        if let Some(first) = self.leases.replace(leases) {
            self.move_cursor(first);
        }
        if self.fence.is_up() {
            self.turn_leases();
        }
        self.events.begin_again();
        self.tell_whole_again();
        self.tell_states_again();
        self.tell_unsent();
        self.stops_again();
        self.gate_asks_again();
        self.tell_outer();
    }

    fn leased(&mut self, lease: Lease) {
        info!(first = %lease.first, last = %lease.last, "leases: another one");
        self.leases.add(lease);
        if self.fence.is_up() {
            self.turn_leases();
        }
    }

    fn beat_back(&mut self, sent_us: u64) {
        self.life.returned(sent_us);
        self.tell_outer();
    }

    /// Sends a beat when it is time.
    pub(crate) fn beat(&mut self) {
        let now = monotonic_us();
        if !self.uplink.up() || now < self.next_beat_us {
            return;
        }
        self.next_beat_us = now + self.beat_us;
        if self.fence.is_up() {
            // Nobody tells when numbers have become free.
            self.turn_leases();
        }
        if self.fence.is_up() {
            self.uplink.send(&ToFront::LeaseWanted);
        }
        let sent_us = self.life.sent(boottime_us());
        let load = self.load();
        self.uplink.send(&ToFront::Beat { sent_us, load });
        self.look_at_stopped();
        self.settle_doubtful(now);
    }

    /// Lets the outer process know until when this agent may live; without it there is nothing to live for.
    pub(crate) fn tell_outer(&mut self) {
        let message = crate::message::Message { expires_us: self.life.expires_at(), number: self.number };
        if kern::sys::write(self.outer.as_fd(), &message.bytes()).is_err() {
            std::process::exit(1);
        }
    }

    /// Keeps epoll's idea of the link's descriptor right.
    pub(crate) fn poll_link(&mut self) -> Result<()> {
        let wanted = self.uplink.waits_for().map(|(_, interest)| (self.uplink.connection(), interest));
        if wanted == self.polled_link {
            return Ok(());
        }
        if let Some((fd, interest)) = self.uplink.waits_for() {
            let token = Token::Link.number();
            // A descriptor that was closed has left by itself; its number may be in use again.
            if self.poller.modify(fd, token, interest).is_err() {
                self.poller.add(fd, token, interest)?;
            }
        }
        self.polled_link = wanted;
        Ok(())
    }
}
