//! The daemon's one loop.

use crate::admin::Admin;
use crate::away::Aways;
use crate::clients::Clients;
use crate::config::FrontConfig;
use crate::connection::{Connection, Token, FIRST_CONNECTION, GHOSTS, HOLDER, LISTENER, LOCAL, SIGNALS};
use crate::cursor::{Cursor, LOOK_US};
use crate::delivered::Deliveries;
use crate::doubts::Doubts;
use crate::explanations::Explanations;
use crate::feeds::Feeds;
use crate::ghosts::Reports;
use crate::holder;
use crate::home::{self, Homes};
use crate::leases::Leases;
use crate::listings::Listings;
use crate::looks::Looks;
use crate::messages::{Batch, Tardy};
use crate::moves::Moves;
use crate::natives::Natives;
use crate::parents::Parents;
use crate::passes::Passes;
use crate::places::Nodes;
use crate::pulse::Pulse;
use crate::runs::Runs;
use crate::sleepers::Sleepers;
use crate::views::Views;
use ghost::Ghosts;
use kern::clock::monotonic_us;
use kern::epoll::{Interest, Poller, Ready};
use kern::init::SignalFd;
use kern::proc::{root, Proc};
use kern::sock;
use kern::subreaper::Subreapers;
use link::listener::Listener;
use space::{Event, Space};
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use tracing::{info, warn};
use vocab::errno::EADDRINUSE;
use vocab::{Fault, NodeId, Pid, Result, Sig};

/// Stand-ins' requests that are taken before other descriptors get their turn.
const GHOST_BATCH: usize = 4096;
/// How often stand-ins that are late are looked after, in microseconds.
const LATE_US: u64 = 5_000;

/// Everything the daemon holds.
pub(crate) struct Front {
    pub(crate) config: FrontConfig,
    pub(crate) proc: Proc,
    pub(crate) poller: Poller,
    pub(crate) listener: Listener,
    pub(crate) local: Listener,
    signals: SignalFd,
    pub(crate) ghosts: Ghosts,
    pub(crate) reports: Reports,
    pub(crate) listings: Listings,
    pub(crate) explanations: Explanations,
    pub(crate) feeds: Feeds,
    pub(crate) space: Space,
    /// What the space has not been told yet.
    pub(crate) events: VecDeque<Event>,
    pub(crate) nodes: Nodes,
    pub(crate) admin: Admin,
    /// Batches of events that are taken in and cannot be seen yet.
    pub(crate) showing: BTreeMap<NodeId, VecDeque<Batch>>,
    pub(crate) tardy: Tardy,
    pub(crate) leases: Leases,
    pub(crate) passes: Passes,
    pub(crate) parents: Parents,
    pub(crate) runs: Runs,
    pub(crate) moves: Moves,
    pub(crate) homes: Homes,
    pub(crate) aways: Aways,
    pub(crate) sleepers: Sleepers,
    pub(crate) looks: Looks,
    pub(crate) deliveries: Deliveries,
    pub(crate) doubts: Doubts,
    pub(crate) views: Views,
    pub(crate) connections: HashMap<Token, Connection>,
    /// Those of them that have not shown the key.
    pub(crate) crowd: link::crowd::Crowd<Token>,
    pub(crate) clients: Clients,
    /// Connections to which something was sent since they were last flushed.
    pub(crate) dirty: HashSet<Token>,
    /// Connections whose peer takes less than it is sent: they are waited for until they can be written to.
    pub(crate) full: HashMap<Token, Interest>,
    /// When that was last sent which waited (monotonic).
    pub(crate) flushed_us: u64,
    pub(crate) next_token: Token,
    pub(crate) natives: HashMap<Pid, Token>,
    pub(crate) stopped_natives: Natives,
    /// `None`: nobody here tells who is a subreaper.
    pub(crate) subreapers: Option<Subreapers>,
    /// The connection to the process that keeps the device if this one ends; `None` where none could be started.
    holder: Option<OwnedFd>,
    /// After a restart: when the time for nodes to come back is over.
    pub(crate) settle_at_us: Option<u64>,
    /// Until then: stand-ins of nodes that are back, for whom nobody is known to stand.
    pub(crate) stands_in_doubt: Vec<(NodeId, Pid)>,
    /// Likewise: programs asked for on nodes that are not back.
    pub(crate) early: Vec<crate::comeback::Early>,
    /// When a body without a ghost was told of (monotonic).
    pub(crate) no_ghost_us: Option<u64>,
    cursor: Cursor,
    look_at_us: u64,
    /// When movers are looked after; `u64::MAX`: there are none.
    pub(crate) tend_us: u64,
}

/// To who has started the daemon.
fn say_ready(to: OwnedFd) -> Result<()> {
    let said = kern::sys::write(to.as_fd(), b"\n");
    said.map(drop).map_err(|errno| Fault::sys(errno, "say that the daemon is ready"))
}

/// The local socket.
///
/// # Errors
/// `Refused` for the place of another daemon.
fn listen_alone(at: &Path) -> Result<OwnedFd> {
    let taken = |fault: Fault| match fault.root_errno() {
        EADDRINUSE => fault.doing("serve a run_dir of another daemon (each on a machine needs one of its own)"),
        _ => fault,
    };
    sock::unix_listen(at, 0o666).map_err(taken)
}

fn subreapers() -> Option<Subreapers> {
    Subreapers::open().inspect_err(|fault| info!(%fault, "subreapers of the front end are not known")).ok()
}

impl Front {
    pub(crate) fn new(mut config: FrontConfig) -> Result<Front> {
        config.check()?;
        let proc = Proc::open(root())?;
        let signals = SignalFd::new(&[Sig::TERM, Sig::INT])?;
        let cursor = Cursor::new(&proc, config.front_top)?;
        let listener = sock::tcp_listen(config.listen)?;
        let local = listen_alone(&config.run_dir.join("shoal.sock"))?;
        let (ghosts, holder, again) = stand_ins(&config)?;
        let poller = Poller::new()?;
        let listener = Listener::new(listener, LISTENER, &poller)?;
        let local = Listener::new(local, LOCAL, &poller)?;
        poller.add(ghosts.fd(), GHOSTS, Interest::READ)?;
        poller.add(signals.as_fd(), SIGNALS, Interest::READ)?;
        if let Some(holder) = &holder {
            poller.add(holder.as_fd(), HOLDER, Interest::READ)?;
        }
        let ready_fd = config.ready_fd.take();
        let mut leases = Leases::new(config.front_top, config.lease_size, config.max_nodes);
        leases.keep(config.run_dir.join("leases"), again);
        let parents = Parents::new(config.run_dir.join("parents"), again);
        let views = Views::new(&config);
        let admin = Admin::new(&config)?;
        let mut front = Front {
            leases,
            passes: Default::default(),
            parents,
            config,
            proc,
            poller,
            listener,
            local,
            signals,
            ghosts,
            reports: Reports::default(),
            listings: Listings::default(),
            explanations: Explanations::default(),
            feeds: Feeds::default(),
            // Fewer are born than microseconds pass.
            space: Space::new().born_above(kern::clock::boottime_us()),
            events: VecDeque::new(),
            nodes: Nodes::default(),
            admin,
            showing: BTreeMap::new(),
            tardy: Tardy::default(),
            runs: Runs::default(),
            moves: Moves::default(),
            homes: Homes::default(),
            aways: Aways::default(),
            sleepers: Sleepers::default(),
            looks: Looks::default(),
            deliveries: Deliveries::default(),
            doubts: Doubts::default(),
            views,
            connections: HashMap::new(),
            crowd: Default::default(),
            clients: Clients::default(),
            dirty: HashSet::new(),
            full: HashMap::new(),
            flushed_us: 0,
            next_token: FIRST_CONNECTION,
            natives: HashMap::new(),
            stopped_natives: Natives::default(),
            subreapers: subreapers(),
            holder,
            settle_at_us: None,
            early: Vec::new(),
            stands_in_doubt: Vec::new(),
            no_ghost_us: None,
            cursor,
            look_at_us: 0,
            tend_us: u64::MAX,
        };
        if again {
            front.recover()?;
        }
        front.start_views(monotonic_us());
        ready_fd.map_or(Ok(()), say_ready)?;
        info!(listen = %front.config.listen, again, "front end ready");
        Ok(front)
    }

    /// The holder has ended: another one takes its place.
    fn replace_holder(&mut self) {
        if let Some(holder) = self.holder.take() {
            let _ = self.poller.remove(holder.as_fd());
        }
        warn!("the holder has ended");
        let started = holder::start(&self.config.run_dir, self.ghosts.device(), self.config.lost_after);
        let watched = started.and_then(|fd| self.poller.add(fd.as_fd(), HOLDER, Interest::READ).map(|()| fd));
        match watched {
            Ok(fd) => self.holder = Some(fd),
            Err(fault) => warn!("a restart would end all programs: {fault}"),
        }
    }

    /// The path that stand-ins open.
    pub(crate) fn hold_file(&self) -> PathBuf {
        self.config.run_dir.join("ghosts/hold")
    }

    pub(crate) fn serve(mut self) -> Result<()> {
        let mut ready = Vec::new();
        // Starved for the time after which a node is lost, it would end every node.
        let pulse = Pulse::start()
            .inspect_err(|fault| warn!(%fault, "programs that keep this machine busy can starve the front end"))
            .ok();
        loop {
            pulse.iter().for_each(Pulse::round);
            self.poller.wait(&mut ready, Some(self.patience_us()))?;
            for one in &ready {
                if one.token == SIGNALS && self.signals.take()?.is_some() {
                    info!("front end ends");
                    self.flush();
                    self.ghosts.acknowledge(u64::MAX);
                    self.end_views();
                    let _none = kern::mount::detach(&home::mount_point(&self.config.run_dir));
                    if self.holder.is_none() {
                        let _ = kern::mount::detach(&holder::mount_point(&self.config.run_dir));
                    }
                    return Ok(());
                }
                self.on_ready(one)?;
                self.settle();
            }
            self.on_time();
            self.settle();
            self.serve_clients();
            self.tell_nodes();
            self.admin.roster.keep();
            self.look_after_deliveries();
            self.tell_shown();
            self.tell_views();
            self.tell_distant_views();
            self.flush_in_time(monotonic_us());
            if self.dirty.is_empty() {
                self.ghosts.acknowledge(monotonic_us());
            }
        }
    }

    fn on_ready(&mut self, ready: &Ready) -> Result<()> {
        match ready.token {
            LISTENER => self.take_peers(),
            LOCAL => self.take_clients(),
            GHOSTS => self.read_ghosts(GHOST_BATCH)?,
            SIGNALS => {}
            HOLDER => self.replace_holder(),
            token => self.on_connection_ready(token),
        }
        Ok(())
    }

    /// Tells the space what has happened and does what it wants, until there is nothing left of either.
    pub(crate) fn settle(&mut self) {
        let mut effects = Vec::new();
        while let Some(event) = self.events.pop_front() {
            tracing::trace!(?event);
            self.about(&event);
            self.space.step(event, &mut effects);
            for effect in effects.drain(..) {
                self.act(effect);
            }
        }
        self.tell_of_those_put_off();
    }

    /// How long nothing need be done unless something happens.
    fn patience_us(&self) -> u64 {
        let now = monotonic_us();
        let mut until = self.look_at_us.min(self.tend_us);
        until = until.min(self.listings.due_us().unwrap_or(until));
        until = until.min(self.explanations.due_us().unwrap_or(until));
        until = until.min(self.admin.chores.due_us().unwrap_or(until));
        until = until.min(self.admin.logs.due_us().unwrap_or(until));
        until = until.min(self.settle_at_us.unwrap_or(until));
        until = until.min(self.flush_at().or(self.ghosts.acknowledge_at()).unwrap_or(until));
        until = until.min(self.nodes.next_deadline_us().unwrap_or(until));
        until = until.min(self.clients.fair.due_us().unwrap_or(until));
        for listener in [&self.listener, &self.local] {
            until = until.min(listener.due_us().unwrap_or(until));
        }
        for connection in self.connections.values() {
            until = until.min(connection.deadline_us().unwrap_or(until));
        }
        until = until.min(self.ghosts.late_at().map_or(until, |due| due.max(now + LATE_US)));
        until = until.min(self.stopped_natives.due_us().unwrap_or(until));
        if self.sleepers.any() {
            until = until.min(now + LATE_US);
        }
        until.saturating_sub(now)
    }

    fn on_time(&mut self) {
        let now = monotonic_us();
        if now >= self.look_at_us {
            self.cursor.look(&self.proc);
            self.look_after_views(now);
            self.look_at_us = now + LOOK_US;
        }
        self.listener.listen_again(&self.poller, now);
        self.local.listen_again(&self.poller, now);
        self.look_after_ghosts(now);
        self.look_at_natives(now);
        self.homes_go_on();
        self.roused_go_on(now);
        self.branches_late(now);
        self.look_after_nodes(now);
        self.tend_movers(now);
        self.settle_in_time(now);
        self.tell_listed();
        self.tell_late_explanations();
        self.tell_chores();
        self.give_logs_up(None);
        let late: Vec<Token> = self
            .connections
            .iter()
            .filter(|(_, c)| c.deadline_us().is_some_and(|deadline| now >= deadline))
            .map(|(token, _)| *token)
            .collect();
        for token in late {
            self.on_connection(token);
            if self.connections.get(&token).is_some_and(|c| c.deadline_us().is_some_and(|d| now >= d)) {
                warn!("a peer did not say in time who it is: dropped");
                self.close(token);
            }
        }
    }

    /// Puts a connection on the poller.
    pub(crate) fn add(&mut self, connection: Connection) -> Option<Token> {
        let token = self.next_token;
        self.next_token += 1;
        if let Err(fault) = self.poller.add(connection.fd(), token, Interest::READ) {
            warn!("take a connection: {fault}");
            return None;
        }
        self.connections.insert(token, connection);
        Some(token)
    }

    /// Takes a connection off again; it closes when the returned value is dropped.
    pub(crate) fn take(&mut self, token: Token) -> Option<Connection> {
        let connection = self.connections.remove(&token)?;
        if matches!(connection, Connection::Greeting { .. } | Connection::Joining { .. }) {
            self.crowd.leave(token);
        }
        self.clients.leave(token);
        let _ = self.poller.remove(connection.fd());
        self.dirty.remove(&token);
        self.full.remove(&token);
        Some(connection)
    }
}

/// The stand-ins of a daemon before this one (the last value says so), or a new mount with a holder of its own.
fn stand_ins(config: &FrontConfig) -> Result<(Ghosts, Option<OwnedFd>, bool)> {
    if let Some((device, holder)) = holder::take(&config.run_dir)? {
        return Ok((Ghosts::adopt(device), Some(holder), true));
    }
    let dir = holder::mount_point(&config.run_dir);
    // What a daemon without a holder has left there cannot be used any more, nor looked at.
    while kern::mount::detach(&dir).is_ok() {}
    std::fs::create_dir_all(&dir).map_err(|e| Fault::io(&e, format!("make {}", dir.display())))?;
    let ghosts = Ghosts::mount(&dir)?;
    match holder::start(&config.run_dir, ghosts.device(), config.lost_after) {
        Ok(holder) => Ok((ghosts, Some(holder), false)),
        Err(fault) => {
            warn!("a restart would end all programs: {fault}");
            Ok((ghosts, None, false))
        }
    }
}
