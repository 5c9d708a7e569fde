//! What clients ask, on this machine or through a node's agent.

use crate::clients::{REST_US, TAKEN};
use crate::connection::{Connection, Token};
use crate::foreign::is_of_another_space;
use crate::front::Front;
use crate::persons;
use crate::runs::{Asker, Run};
use kern::clock::{monotonic_us, thread_us};
use kern::epoll::Interest;
use kern::sock;
use link::fair::Owner;
use link::guests::restrict;
use link::Plain;
use space::{Event, Person};
use std::os::fd::{AsFd, OwnedFd};
use tracing::debug;
use vocab::{Fault, Kind, NodeId, Pid, Result};
use wire::ask::{Answer, Ask};
use wire::node::ToNode;
use wire::run::{Caller, Program, Target};

/// Questions of one client that are taken before others get their turn.
const ASKS: usize = 8;

/// # Errors
/// `Refused` with what is asked for, unless root asks.
fn for_root(caller: &Caller, asked: &str) -> Result<()> {
    match caller.creds.uid.effective {
        0 => Ok(()),
        _ => Err(Fault::refused(format!("{asked}: that is for root"))),
    }
}

impl Front {
    pub(crate) fn take_clients(&mut self) {
        let mut in_debt = false;
        for _ in 0..TAKEN {
            let before = thread_us();
            let Some(fd) = self.local.take(&self.poller, monotonic_us()) else { break };
            let Ok(peer) = sock::Peer::of(fd.as_fd()) else { continue };
            let uid = peer.creds().uid;
            self.take_client(fd, peer);
            in_debt |= self.clients.arrived_since(Owner::of_user(uid), before);
        }
        if in_debt {
            self.local.rest(&self.poller, monotonic_us() + REST_US);
        }
    }

    fn take_client(&mut self, fd: OwnedFd, peer: sock::Peer) {
        // Closed already, and nothing was said: it is not worth a turn.
        if matches!(sock::peek(fd.as_fd(), &mut [0]), Ok(Some(0))) {
            return;
        }
        let (link, uid) = (Box::new(Plain::new(fd).in_slices()), peer.creds().uid);
        let Some(token) = self.add(Connection::Client { link, peer }) else { return };
        if let Err(fault) = self.clients.guests.enter(token, uid) {
            self.answer(Asker::Local(token), Answer::Failed(fault), true);
            self.flush();
            self.close(token);
        }
    }

    /// Takes in what has come, as much as is one client's turn. True: there may be more, of which the poller does not tell.
    pub(crate) fn on_client(&mut self, token: Token) -> Result<bool> {
        self.dirty.insert(token);
        let mut received = Ok(true);
        for _ in 0..ASKS {
            if self.interest(token) == Interest::WRITE {
                return Ok(false);
            }
            let Some(link) = self.client(token) else { return Ok(false) };
            let Some(mut ask) = link.next::<Ask>()? else {
                if !received? {
                    return Ok(false);
                }
                received = link.receive();
                continue;
            };
            let asker = Asker::Local(token);
            // The daemon's own procfs asks, for each who looks into /proc and waits; who else asks is refused, whoever it is.
            if let Ask::Entries { id, node, wanted } = ask {
                self.on_entries_wanted(asker, id, node, wanted);
                continue;
            }
            let caller = self.caller(token);
            let lives = || self.is_there(token);
            match caller.and_then(|caller| restrict(&mut ask, &caller, &self.proc, lives).map(|()| caller)) {
                Ok(caller) => self.on_ask(asker, &caller, ask),
                Err(fault) => self.answer(asker, Answer::Failed(fault), true),
            }
            self.settle();
        }
        Ok(true)
    }

    fn client(&mut self, token: Token) -> Option<&mut Plain> {
        match self.connections.get_mut(&token) {
            Some(Connection::Client { link, .. }) => Some(link),
            _ => None,
        }
    }

    /// Has the process of this client its number still?
    pub(crate) fn is_there(&self, token: Token) -> bool {
        match self.connections.get(&token) {
            Some(Connection::Client { link, peer }) => peer.pid(link.fd()).is_some(),
            _ => false,
        }
    }

    /// Who asks, as the kernel has it.
    pub(crate) fn caller(&self, token: Token) -> Result<Caller> {
        let gone = || Fault::gone("the caller is gone");
        let Some(Connection::Client { link, peer }) = self.connections.get(&token) else { return Err(gone()) };
        let Person { pid, ppid, pgid, sid, creds, .. } = persons::read(&self.proc, peer.creds().pid)?;
        peer.pid(link.fd()).ok_or_else(gone)?;
        let creds = sock::peer_identity(link.fd(), &creds)?;
        Ok(Caller { pid, creds, ppid, pgid, sid })
    }

    pub(crate) fn on_ask(&mut self, asker: Asker, caller: &Caller, ask: Ask) {
        let Err(ask) = self.ask_later(asker, caller, ask) else { return };
        match ask {
            Ask::Run { target, program } => {
                if let Err(fault) = self.on_run(asker, caller.clone(), target, *program) {
                    self.answer(asker, Answer::Failed(fault), true);
                }
            }
            Ask::Stand => {
                if let Err(fault) = self.on_stand(asker, caller) {
                    self.answer(asker, Answer::Failed(fault), true);
                }
            }
            Ask::Nodes => {
                let rows = self.nodes.rows(&self.admin.roster);
                self.answer(asker, Answer::Nodes(rows), true);
            }
            Ask::Forget(numbers) => {
                let done = for_root(caller, "forget a node").and_then(|()| self.nodes.forget(&numbers));
                let done = done.map(|()| self.admin.roster.forget(&numbers));
                let answer = done.map_or_else(Answer::Failed, |()| Answer::Nodes(self.nodes.rows(&self.admin.roster)));
                self.answer(asker, answer, true);
            }
            Ask::NodeInfos => {
                let infos = self.node_infos();
                self.answer(asker, Answer::NodeInfos(infos), true);
            }
            Ask::ChangeNodes { nodes, change } => self.on_change_nodes(asker, caller, nodes, change),
            Ask::Log { node, wanted } => self.on_log_wanted(asker, caller, node, wanted),
            Ask::Ps => self.on_ps(asker),
            Ask::Feed => self.on_feed(asker),
            Ask::Ghosts => self.on_ghosts_wanted(asker, caller),
            Ask::Serves => self.views_serve(asker),
            Ask::Entries { id, node, wanted } => match asker {
                Asker::Local(_) => self.on_entries_wanted(asker, id, node, wanted),
                Asker::Remote { .. } => self.on_distant_entries_wanted(asker, caller, id, node, wanted),
            },
            Ask::Move { pid, to, progress, lazy, executes } => {
                self.on_move(asker, caller, (pid, to), (progress, lazy), executes);
            }
            Ask::Explain { pid, to } => self.on_explain(asker, caller, pid, to),
            Ask::Delivered { pid, copy } => self.on_delivered(asker, pid, copy),
            Ask::Passed { branch } => self.on_passed(asker, branch),
            Ask::Where { pid } => {
                let pid = if pid == Pid::NONE { caller.pid } else { pid };
                let known = self.space.get(pid).map(|view| (view.node, view.birth));
                let answer = match known.or_else(|| self.is_own(pid).then_some((NodeId::FRONT, 0))) {
                    Some((node, birth)) => Answer::Where { pid, node, birth },
                    None => Answer::Failed(Fault::gone(format!("{pid} is no process of the space"))),
                };
                self.answer(asker, answer, true);
            }
        }
    }

    /// Is it a living process of this machine, nobody's ghost, and of no other space?
    pub(crate) fn is_own(&self, pid: Pid) -> bool {
        let lives = !self.ghosts.has(pid) && persons::process(&self.proc, pid).is_some();
        lives && !is_of_another_space(&self.proc, pid)
    }

    pub(crate) fn on_run(&mut self, asker: Asker, caller: Caller, target: Target, program: Program) -> Result<()> {
        if self.is_early(&target) {
            return self.wait_for_nodes(asker, caller, target, program);
        }
        if let Asker::Local(_) = asker {
            self.is_no_stranger(caller.pid)?;
        }
        let many = match &target {
            Target::Any => false,
            Target::Count(n) => *n > 1,
            Target::All => true,
            Target::Nodes(nodes) => nodes.len() > 1,
        };
        if self.is_yet_to_stay(asker, caller.pid) {
            return self.wait_for_nodes(asker, caller, target, program);
        }
        self.may_bring(asker, caller.pid, &program.numbers)?;
        let to = self.places_for(&policy_target(&target), &caller)?;
        let (at, address) = match asker {
            Asker::Local(_) => (NodeId::FRONT, String::new()),
            Asker::Remote { node, .. } => {
                let address = self.channel_address(node).map(|a| a.to_string());
                (node, address.ok_or_else(|| Fault::gone(format!("node {node} is down")))?)
            }
        };
        if !many && to[0] == at {
            self.answer(asker, Answer::Here, true);
            return Ok(());
        }
        if many && !at.is_front() {
            self.answer(asker, Answer::Each(to), true);
            return Ok(());
        }
        // What it asks for has its number, which one program has at a time.
        if self.space.get(caller.pid).is_some_and(|view| view.node != at) || at.is_front() && self.runs.has(caller.pid)
        {
            return Err(Fault::refused(format!("run a program under {}: there is one already", caller.pid)));
        }
        let person = Person {
            pid: caller.pid,
            ppid: caller.ppid,
            pgid: caller.pgid,
            sid: caller.sid,
            creds: caller.creds.clone(),
            name: base_name(&program.file),
        };
        let ancestors = if at.is_front() { self.ancestors(person.ppid) } else { Vec::new() };
        let kin = persons::kin(&self.proc, &person, &ancestors, |pid| at.is_front() && !self.ghosts.has(pid));
        let run = Run { asker, program, address, copies: Vec::new(), alive: 0 };
        let copies = self.runs.begin(caller.pid, &to, run)?;
        let hold = self.hold_file().to_string_lossy().into_owned();
        if let Err(fault) = self.try_answer(asker, Answer::Granted { hold, copies }, false) {
            self.runs.end(caller.pid);
            return Err(fault);
        }
        for node in &to {
            if let Some(node) = self.nodes.get_mut(*node) {
                node.pending += 1;
            }
        }
        match self.nodes.get_mut(at) {
            None => self.ghosts.expect(caller.pid),
            // It is no body there any more, and nobody will tell of its end.
            Some(node) => node.bodies = node.bodies.saturating_sub(1),
        }
        if !ancestors.is_empty() {
            self.events.push_back(Event::Ancestors { line: ancestors });
        }
        let event =
            if many { Event::RunMany { parent: person, to, kin } } else { Event::Run { person, at, to: to[0], kin } };
        self.events.push_back(event);
        Ok(())
    }

    /// A process of this machine and its ancestors here, and whether each is a subreaper.
    pub(crate) fn ancestors(&self, pid: Pid) -> Vec<(Person, bool)> {
        let Some(subreapers) = &self.subreapers else { return Vec::new() };
        let line = persons::ancestors(&self.proc, pid, |pid| !self.ghosts.has(pid));
        let takes = |person: &Person| {
            let asked = subreapers.is_one(person.pid).inspect_err(|fault| debug!(%fault, "is it a subreaper?"));
            asked.unwrap_or(false)
        };
        line.into_iter()
            .map(|person| {
                let takes = takes(&person);
                (person, takes)
            })
            .collect()
    }

    /// Answers a question; with `last` there is nothing more to come. Of an answer that is too long the asker is told that.
    pub(crate) fn answer(&mut self, asker: Asker, answer: Answer, last: bool) {
        if let Err(fault) = self.try_answer(asker, answer, last) {
            if fault.kind == Kind::Wire {
                // It is short.
                let _ = self.try_answer(asker, Answer::Failed(fault), last);
            }
        }
    }

    /// # Errors
    /// `Gone` when the asker is, or takes nothing any more and is dropped; `Wire` when the answer is too long.
    fn try_answer(&mut self, asker: Asker, answer: Answer, last: bool) -> Result<()> {
        let token = match asker {
            Asker::Remote { node, id } => return self.try_send(node, &ToNode::Answer { id, answer, last }),
            Asker::Local(token) => token,
        };
        let Some(link) = self.client(token) else { return Err(Fault::gone("the asker is gone")) };
        let sent = link.send(&answer);
        match &sent {
            Err(fault) if fault.kind != Kind::Wire => {
                debug!(token, "a client takes no answer: {fault}");
                self.close(token);
            }
            _ => drop(self.dirty.insert(token)),
        }
        sent
    }
}

fn policy_target(target: &Target) -> policy::Target {
    match target {
        Target::Any => policy::Target::Any,
        Target::Count(n) => policy::Target::Count(*n),
        Target::All => policy::Target::All,
        Target::Nodes(nodes) => policy::Target::Nodes(nodes.clone()),
    }
}

fn base_name(file: &[u8]) -> Vec<u8> {
    let base = file.rsplit(|b| *b == b'/').next().unwrap_or(file);
    base.iter().copied().take(15).collect()
}
