//! Peers that dial in: greeting, handshake, Hello; and what becomes of a link that ends.

use crate::clients::{REST_US, TAKEN};
use crate::connection::{Connection, Token};
use crate::front::Front;
use crate::persons::from_wire;
use crate::places::{Change, Node, State};
use crate::runs::{Asker, Dialled};
use kern::clock::{monotonic_us, thread_us};
use kern::proc::exists;
use kern::sock;
use link::allow::Allow;
use link::beat::{channel_patience_ms, Agreed, FrontWatch};
use link::preamble::{Greeting, Preamble};
use link::Secure;
use space::Event;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use tracing::{debug, info, warn};
use vocab::{Fault, Kind, NodeId, Pid, Result};
use wire::ask::Answer;
use wire::hello::Hello;
use wire::node::{ToFront, ToNode, VERSION};
use wire::way::Way;

/// A peer has this long to say who it is, in microseconds.
const GREETING_US: u64 = 3_000_000;
/// Processes of which a node may tell: as many as there are PIDs (PID_MAX_LIMIT).
const MOST_TOLD: usize = 4_194_304;

impl Front {
    pub(crate) fn take_peers(&mut self) {
        let mut in_debt = false;
        for _ in 0..TAKEN {
            let before = thread_us();
            let Some(fd) = self.listener.take(&self.poller, monotonic_us()) else { break };
            let Ok(from) = sock::peer_address(fd.as_fd()) else { continue };
            let greeting = Greeting::new(fd, monotonic_us() + GREETING_US);
            let Some(token) = self.add(Connection::Greeting { greeting, from }) else { continue };
            if let Some(gone) = self.crowd.enter(token, from.ip()) {
                if let Some(dropped) = self.clients.lines.may(monotonic_us()) {
                    warn!(%from, dropped, "too many connections that have not said who they are, the oldest of them closed");
                }
                self.close(gone);
            }
            in_debt |= self.clients.arrived_since(self.stranger(from.ip()), before);
        }
        if in_debt {
            self.listener.rest(&self.poller, monotonic_us() + REST_US);
        }
    }

    /// Something is to be read on a connection, or its time is over. True: there may be more, of which the poller does not tell.
    pub(crate) fn on_connection(&mut self, token: Token) -> bool {
        let result = match self.connections.get(&token) {
            None => return false,
            Some(Connection::Greeting { .. }) => self.on_greeting(token).map(|()| false),
            Some(Connection::Joining { .. } | Connection::Node { .. }) => self.on_link(token).map(|()| false),
            Some(Connection::Client { .. }) => self.on_client(token),
            Some(Connection::Mover(_)) => {
                self.on_mover(token);
                Ok(false)
            }
            Some(Connection::Native { pid, .. }) => {
                let pid = *pid;
                self.native_ended(token, pid);
                Ok(false)
            }
            Some(Connection::Script { node, .. }) => {
                let node = *node;
                self.script_ended(token, node);
                Ok(false)
            }
        };
        result.unwrap_or_else(|fault| {
            match self.connections.get(&token) {
                Some(Connection::Client { peer, .. }) if matches!(fault.kind, Kind::Wire | Kind::Refused) => {
                    info!(pid = %peer.creds().pid, "client: {fault}");
                }
                Some(Connection::Client { peer, .. }) => debug!(pid = %peer.creds().pid, "client: {fault}"),
                Some(Connection::Node { node, .. }) => warn!(%node, "link: {fault}"),
                Some(Connection::Greeting { from, .. } | Connection::Joining { from, .. }) => {
                    let from = *from;
                    if let Some(dropped) = self.clients.lines.may_about(from.ip(), &fault, monotonic_us()) {
                        warn!(%from, dropped, "refused: {fault}");
                    }
                }
                _ => {}
            }
            self.close(token);
            false
        })
    }

    fn on_greeting(&mut self, token: Token) -> Result<()> {
        let Some(Connection::Greeting { greeting, .. }) = self.connections.get_mut(&token) else { return Ok(()) };
        let Some(preamble) = greeting.read(monotonic_us())? else { return Ok(()) };
        let Some(Connection::Greeting { greeting, from }) = self.take(token) else { return Ok(()) };
        let fd = greeting.into_fd();
        match preamble {
            Preamble::Control => {
                let before = thread_us();
                sock::tcp_tune(fd.as_fd(), (self.config.lost_after.as_millis() as u32).max(1000))?;
                let link = Box::new(Secure::control_taker(fd, &self.config.key)?);
                let deadline_us = monotonic_us() + GREETING_US;
                // It stays where it is among those that have not shown the key.
                if let Some(gone) = self
                    .add(Connection::Joining { link, from, said: None, deadline_us })
                    .and_then(|token| self.crowd.enter(token, from.ip()))
                {
                    self.close(gone);
                }
                self.clients.charge_since(self.stranger(from.ip()), before);
            }
            Preamble::View => {
                let handed = view::server::hand_over(&self.config.run_dir, &fd);
                self.note_refusal(from, handed);
            }
            Preamble::Join(name) => {
                // Strangers without end find nobody at names that they guess; who waits at a name looks after itself.
                let before = thread_us();
                let handed = join::hand_over(&self.config.run_dir, &name, &fd);
                let unknown = |_| Fault::refused("a token that nobody waits for");
                self.note_refusal(from, handed.map_err(unknown));
                self.clients.charge_since(self.stranger(from.ip()), before);
            }
            Preamble::Channel(name) => {
                let Some(fd) = self.aways.keep(&name, fd) else { return Ok(()) };
                self.hand_channel(&name, fd, from)?;
            }
        }
        Ok(())
    }

    fn note_refusal(&mut self, from: SocketAddr, handed: Result<()>) {
        let Err(fault) = handed else { return };
        if let Some(dropped) = self.clients.lines.may_about(from.ip(), &fault, monotonic_us()) {
            warn!(%from, dropped, "refused: {fault}");
        }
    }

    /// A channel that was dialled goes to who waits for it.
    fn hand_channel(&mut self, name: &[u8; 16], fd: OwnedFd, from: SocketAddr) -> Result<()> {
        match self.runs.dialled(name) {
            Some(Dialled { asker: Asker::Local(client), answer }) => {
                self.redialled(name);
                let life_us = Agreed::within(self.config.lost_after).life_us;
                sock::tcp_tune(fd.as_fd(), channel_patience_ms(life_us))?;
                if let Some(Connection::Client { link, .. }) = self.connections.get_mut(&client) {
                    link.send_with(&answer, fd)?;
                    self.dirty.insert(client);
                }
            }
            _ => {
                if let Some(dropped) = self.clients.lines.may(monotonic_us()) {
                    warn!(%from, dropped, "refused: a channel that nobody waits for");
                }
            }
        }
        Ok(())
    }

    /// Takes in what has come: one turn of reading, since what is left makes the descriptor ready again.
    fn on_link(&mut self, token: Token) -> Result<()> {
        let Some(link) = self.link(token) else { return Ok(()) };
        let received = link.receive();
        self.dirty.insert(token);
        while let Some(message) = self.link(token).map_or(Ok(None), Secure::next::<ToFront>)? {
            let node = match self.connections.get(&token) {
                Some(Connection::Node { node, .. }) => Some(*node),
                _ => None,
            };
            match node {
                Some(node) => self.on_message(node, message)?,
                None => {
                    let hello = message.hello().ok_or_else(|| Fault::wire("a node must begin with Hello"))?;
                    self.on_hello(token, hello)?;
                }
            }
            self.settle();
        }
        received.map(drop)
    }

    fn link(&mut self, token: Token) -> Option<&mut Secure> {
        match self.connections.get_mut(&token) {
            Some(Connection::Joining { link, .. } | Connection::Node { link, .. }) => Some(link),
            _ => None,
        }
    }

    /// A node says who it is, or goes on with that.
    fn on_hello(&mut self, token: Token, part: Hello) -> Result<()> {
        let Some(Connection::Joining { said, from, .. }) = self.connections.get_mut(&token) else { return Ok(()) };
        let from = *from;
        let hello = match said.take() {
            Some(mut before) => {
                before.add(part);
                before
            }
            None => Box::new(part),
        };
        let admitted = self.admit(&hello, from.ip());
        let Some(Connection::Joining { link, said, deadline_us, .. }) = self.connections.get_mut(&token) else {
            return Ok(());
        };
        match admitted {
            Ok(_) if hello.more => {
                *deadline_us = monotonic_us() + GREETING_US;
                *said = Some(hello);
                Ok(())
            }
            Ok(number) => {
                self.join(token, number, *hello);
                Ok(())
            }
            Err(fault) => {
                link.send(&ToNode::Refused(fault.clone()))?;
                let _ = link.flush();
                Err(fault)
            }
        }
    }

    fn admit(&self, hello: &Hello, from: IpAddr) -> Result<NodeId> {
        if hello.version != VERSION {
            let theirs = hello.version;
            return Err(Fault::refused(format!("the node speaks version {theirs}, the front end version {VERSION}")));
        }
        let number = hello.number.unwrap_or_else(|| self.number_for(hello.identity, from));
        match self.nodes.get(number) {
            _ if hello.bodies.len().max(hello.stand_ins.len()) > MOST_TOLD => {
                Err(Fault::refused(format!("node {number} tells of more processes than there are numbers")))
            }
            _ if number.0 < 0 => Err(Fault::refused(format!("{} is no node number", number.0))),
            Some(node) if node.state == State::Up && node.link.is_some() => {
                Err(Fault::refused(format!("node {number} has joined already, from {}", node.address)))
            }
            _ if !self.leases.any_for(number) => {
                Err(Fault::refused(format!("no range of PIDs is left for node {number} (lease_size, front_top)")))
            }
            _ => Ok(number),
        }
    }

    fn join(&mut self, token: Token, number: NodeId, hello: Hello) {
        let Some(Connection::Joining { mut link, from, .. }) = self.take(token) else { return };
        if let Some(old) = self.nodes.get(number).and_then(|n| n.link) {
            // What may still come over the link before is older than this Hello.
            self.close(old);
        }
        let before = self.nodes.get(number).map(|n| n.state);
        let back = !hello.leases.is_empty() && hello.leases.iter().all(|l| self.leases.claim(number, *l));
        if !back && before == Some(State::Silent) {
            // It has started afresh: what was on it is dead, whatever its time.
            self.node_lost(number);
        } else if !back && before.is_none() {
            // Likewise, before the daemon itself was started again.
            self.leases.take_back(number);
        }
        let agreed = Agreed::within(self.config.lost_after);
        let leases = if back { hello.leases.clone() } else { self.leases.give(number).into_iter().collect() };
        let Agreed { beat_us, life_us, .. } = agreed;
        let welcome = ToNode::Welcome { number, leases, beat_us, life_us, front_top: self.config.front_top };
        if let Err(fault) = link.send(&welcome) {
            warn!(node = %number, "welcome: {fault}");
            return;
        }
        info!(node = %number, %from, back, "joins");
        let Some(token) = self.add(Connection::Node { link, node: number }) else { return };
        self.dirty.insert(token);
        let mut node = Node {
            state: before.unwrap_or(State::Down),
            link: Some(token),
            address: from,
            channel_port: hello.channel_port,
            load: hello.load,
            watch: FrontWatch::new(monotonic_us(), agreed),
            bodies: hello.bodies.len() as u32,
            pending: 0,
            full_us: 0,
            identity: hello.identity,
            allow: Allow::of(hello.allow.as_deref()),
        };
        // What it has told over a link before is told again or forgotten.
        self.showing.remove(&number);
        node.change(number, Change::Joined);
        self.nodes.take_in(number, node);
        self.admin.roster.is_called(number, &hello.name);
        self.node_comes(number, back);
        self.passes_again(number, &hello.passes, &hello.starting);
        if back {
            let (subreapers, starting) = (hello.subreapers, hello.starting);
            let natives = self.natives_among(&hello.stand_ins);
            let lines: Vec<_> = natives.iter().map(|person| self.ancestors(person.pid)).collect();
            let here: Vec<Pid> = hello.bodies.iter().map(|person| person.pid).collect();
            self.redial_again(number);
            self.departed_to(number, &here);
            self.moves_back(number, &hello.ways);
            self.landed_in_doubt(number, &hello.ways, &here);
            let mut bodies: Vec<_> = hello.bodies.into_iter().map(from_wire).collect();
            // It is there, and has yet to hear that it is to run.
            let waits = hello.ways.iter().filter(|way| matches!(way, Way::Arrived(_)));
            let waits = waits.filter_map(|way| self.space.get(way.pid()));
            let waits = waits.filter(|view| view.node == number && view.ended.is_none());
            bodies.extend(waits.map(|view| view.person.clone()));
            // It runs elsewhere already, and what is left of it here cannot.
            let left = |pid| hello.ways.contains(&Way::Leaves(pid)) && self.is_elsewhere(pid, number);
            bodies.retain(|person| !left(person.pid));
            let stand_ins = hello.stand_ins.clone();
            self.events.extend(lines.into_iter().map(|line| Event::Ancestors { line }));
            self.events.push_back(Event::NodeBack { node: number, bodies, stand_ins, natives, subreapers, starting });
            self.settle();
            self.come_no_more(number);
            self.stand_where_they_pass(number, &here, &hello.stand_ins);
            self.look_who_is_claimed();
            self.end_stand_ins_of_nobody(number, hello.stand_ins);
            self.doubts_of(number, &here, hello.ways);
        } else {
            self.events.push_back(Event::NodeUp { node: number });
        }
        self.early_again();
    }

    /// Drops a connection, and what depended on it.
    pub(crate) fn close(&mut self, token: Token) {
        match self.take(token) {
            Some(Connection::Node { node: number, .. }) => {
                if let Some(node) = self.nodes.get_mut(number).filter(|n| n.link == Some(token)) {
                    node.link = None;
                    node.change(number, Change::LinkCut);
                    self.moves_lose(number, false);
                    self.deliveries_lose(number);
                    self.feeds_lose(number);
                    self.chores_lose(number);
                    self.give_logs_up(Some(number));
                    self.views.distant.link_lost(number);
                }
            }
            Some(Connection::Client { link, peer }) => {
                self.views_gone(token);
                let pid = peer.creds().pid;
                let asked = self.runs.is_asked_by(pid, Asker::Local(token));
                self.runs.asker_gone(Asker::Local(token));
                self.moves_asker_gone(Asker::Local(token));
                self.feed_asker_gone(Asker::Local(token));
                // It may have been killed before it could stand for its program. A relay that it has left when its program came home closes a connection in its name, too.
                let mut happened = Vec::new();
                if asked && (peer.pid(link.fd()).is_some() || !exists(pid)) {
                    self.ghosts.comes_no_more(pid, &mut happened);
                }
                for one in happened {
                    self.on_ghost(one);
                }
            }
            _ => {}
        }
    }

    pub(crate) fn look_after_nodes(&mut self, now: u64) {
        let mut lost = Vec::new();
        for (number, node) in self.nodes.iter_mut() {
            if node.state == State::Down {
                continue;
            }
            if now >= node.watch.lost_at() {
                lost.push(number);
            } else if node.watch.silent(now) {
                node.change(number, Change::Quiet);
            }
        }
        for number in lost {
            self.node_lost(number);
        }
    }

    fn node_lost(&mut self, number: NodeId) {
        let Some(node) = self.nodes.get_mut(number) else { return };
        let link = node.link.take();
        node.change(number, Change::TimeOver);
        node.bodies = 0;
        if let Some(token) = link {
            self.close(token);
        }
        self.leases.take_back(number);
        self.end_script(number);
        self.passes.node_lost(number);
        self.listings.node_lost(number);
        self.moves_lose(number, true);
        self.doubts_lose(number);
        self.stands_in_doubt.retain(|(node, _)| *node != number);
        self.events.push_back(Event::NodeLost { node: number });
        self.settle();
        // After the ends of programs there, which say more.
        for asker in self.runs.local_askers() {
            self.answer(asker, Answer::NodeLost(number), false);
        }
    }

    /// Sends a message to a node; one that is not linked gets none (what it must know it learns when it is back).
    pub(crate) fn send(&mut self, number: NodeId, message: &ToNode) {
        if number.is_front() {
            return self.tell_home(message);
        }
        match self.try_send(number, message) {
            Err(fault) if fault.kind == Kind::Wire => warn!(node = %number, "{fault}"),
            _ => {}
        }
    }

    /// The same, where somebody waits for what comes of it.
    ///
    /// # Errors
    /// `Gone` when the node is not linked, or the link takes nothing any more and is closed; `Wire` when the message is longer than a frame may be.
    pub(crate) fn try_send(&mut self, number: NodeId, message: &ToNode) -> Result<()> {
        let down = || Fault::gone(format!("node {number} is down"));
        let token = self.nodes.get(number).and_then(|n| n.link).ok_or_else(down)?;
        let Some(Connection::Node { link, .. }) = self.connections.get_mut(&token) else { return Err(down()) };
        let sent = link.send(message);
        match &sent {
            Err(fault) if fault.kind != Kind::Wire => {
                warn!(node = %number, "{fault}");
                self.close(token);
            }
            _ => drop(self.dirty.insert(token)),
        }
        sent
    }

    /// Bytes that a node has yet to be sent.
    pub(crate) fn queued(&self, number: NodeId) -> usize {
        let token = self.nodes.get(number).and_then(|n| n.link);
        match token.and_then(|token| self.connections.get(&token)) {
            Some(Connection::Node { link, .. }) => link.queued(),
            _ => 0,
        }
    }

    /// Where a node can be dialled for channels.
    pub(crate) fn channel_address(&self, number: NodeId) -> Option<SocketAddr> {
        let node = self.nodes.get(number)?;
        Some(SocketAddr::new(node.address.ip(), node.channel_port))
    }
}
