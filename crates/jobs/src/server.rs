//! The batch system's loop: what clients ask, what becomes of jobs, and what follows from either.

use crate::clients::{Clients, Token};
use crate::life::{Event, State};
use crate::policy::{Easy, Policy, Running, Start, View, Waiting};
use crate::pool::Pool;
use crate::record::Job;
use crate::store::{self, Store};
use crate::{news, submit, Config};
use kern::clock::{monotonic_us, realtime_ns};
use kern::epoll::Waker;
use kern::init::SignalFd;
use kern::poll::{poll_for, Ready};
use kern::proc::{root, Proc};
use kern::{pidfd, wait};
use link::allow::Allow;
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use tracing::{info, warn};
use vocab::{Fault, Pid, Result, Sig};
use wire::jobs::{JobAnswer, JobAsk, SOCKET};

/// Work that could not be done is tried again after so many microseconds.
const AGAIN_US: u64 = 300_000;
/// Jobs that are over are remembered for `shoal job list --all`: so many of each user.
const REMEMBERED: usize = 100;

pub(crate) struct Server {
    pub(crate) pool: Pool,
    pub(crate) jobs: BTreeMap<u64, Job>,
    store: Store,
    policy: Box<dyn Policy>,
    clients: Clients,
    proc: Proc,
    /// Who may have jobs.
    allow: Allow,
    /// Keepers of jobs, by the jobs' numbers; readable when a keeper has ended.
    keepers: BTreeMap<u64, OwnedFd>,
    /// Keepers that have been told to end their jobs.
    told: BTreeSet<u64>,
    news: Arc<Waker>,
    /// What the daemon says of nodes may have changed.
    stale: bool,
    /// Something is to be tried again at this time (monotonic).
    again_us: Option<u64>,
    last: u64,
}

/// Seconds since 1970.
fn now() -> i64 {
    (realtime_ns() / 1_000_000_000) as i64
}

impl Server {
    /// With the jobs that an earlier process has kept.
    ///
    /// # Errors
    /// `Sys` where the state directory or the socket cannot be used.
    pub(crate) fn open(config: &Config) -> Result<Server> {
        let daemon = config.run_dir.join("shoal.sock");
        let (store, jobs) = Store::open(config.state_dir.join("jobs"))?;
        let last = jobs.last().map_or(0, |job| job.id);
        let mut server = Server {
            pool: Pool::new(config.managed.clone(), &daemon),
            jobs: jobs.into_iter().map(|job| (job.id, job)).collect(),
            store,
            policy: Box::new(Easy),
            clients: Clients::listen(&config.run_dir.join(SOCKET))?,
            proc: Proc::open(root())?,
            allow: Allow::of(config.allow.as_deref()),
            keepers: BTreeMap::new(),
            told: BTreeSet::new(),
            news: news::listen(&daemon)?,
            stale: true,
            again_us: None,
            last,
        };
        server.in_state(State::Running).into_iter().for_each(|id| server.recover(id, true));
        Ok(server)
    }

    /// Serves until a signal says so. Jobs that run go on.
    ///
    /// # Errors
    /// What kept it from going on.
    pub(crate) fn serve(&mut self, signals: &SignalFd) -> Result<()> {
        loop {
            while let Some(sig) = signals.take()? {
                if sig != Sig::CHLD {
                    return Ok(());
                }
            }
            while let Ok(Some(_keeper)) = wait::any() {}
            self.stale |= self.news.drain();
            if self.again_us.is_some_and(|at_us| at_us <= monotonic_us()) {
                (self.again_us, self.stale) = (None, true);
            }
            self.take_ends();
            let asks = self.clients.take();
            let busy = !asks.is_empty();
            for (token, ask) in asks {
                let answer = self.answer(token, ask).unwrap_or_else(JobAnswer::Failed);
                self.clients.answer(token, &answer);
            }
            self.advance();
            self.wait(signals, busy);
        }
    }

    /// `busy`: there may be something to do of which no descriptor tells.
    fn wait(&self, signals: &SignalFd, busy: bool) {
        let mut wanted = self.clients.wanted();
        wanted.extend([(signals.as_fd(), Ready::READ), (self.news.as_fd(), Ready::READ)]);
        wanted.extend(self.keepers.values().map(|keeper| (keeper.as_fd(), Ready::READ)));
        let due_us = [self.again_us, self.clients.due_us(), busy.then_some(0)].into_iter().flatten().min();
        let patience = due_us.map(|at_us| Duration::from_micros(at_us.saturating_sub(monotonic_us())));
        // Interrupted, it goes round.
        let _ = poll_for(&wanted, patience);
    }

    fn in_state(&self, state: State) -> Vec<u64> {
        self.jobs.values().filter(|job| job.state == state).map(|job| job.id).collect()
    }

    /// A job is this from now on, once that is kept.
    ///
    /// # Errors
    /// `Sys` where it cannot be kept: the job is what it was.
    fn become_job(&mut self, job: Job) -> Result<()> {
        let before = self.jobs.get(&job.id);
        if before == Some(&job) {
            return Ok(());
        }
        self.store.keep(&job)?;
        if let Some(before) = before.filter(|before| before.state != job.state) {
            info!(job = job.id, why = job.why, "{} -> {}", before.state.word(), job.state.word());
        }
        self.jobs.insert(job.id, job);
        Ok(())
    }

    /// The same; where it cannot be kept it is tried again.
    fn turn(&mut self, job: Job) {
        let kept = self.become_job(job);
        self.unless_done(kept);
    }

    fn unless_done(&mut self, done: Result<()>) {
        if let Err(fault) = done {
            warn!("{fault}");
            self.again_us.get_or_insert(monotonic_us() + AGAIN_US);
        }
    }

    // Questions of clients.

    fn answer(&mut self, token: Token, ask: JobAsk) -> Result<JobAnswer> {
        let caller = self.clients.caller(token, &self.proc)?;
        match ask {
            JobAsk::List { all } => {
                let listed = self.jobs.values().filter(|job| all || job.state != State::Over);
                Ok(JobAnswer::Jobs(listed.map(|job| job.row(self.waits_for(job))).collect()))
            }
            JobAsk::Submit(mut wanted) => {
                self.allow.admits(&caller.creds)?;
                let living = self.jobs.values().filter(|job| job.state != State::Over);
                submit::room(caller.creds.uid.effective, living)?;
                if self.pool.size() == 0 {
                    self.pool.look()?;
                }
                let id = self.last + 1;
                if wanted.output.is_empty() {
                    wanted.output = format!("shoal-job.{id}").into_bytes();
                }
                submit::check(&wanted, self.pool.size())?;
                self.clients.restrict(&caller, &mut wanted.program, &self.proc)?;
                self.become_job(Job {
                    id,
                    creds: caller.creds,
                    submission: *wanted,
                    submitted: now(),
                    ..Job::default()
                })?;
                self.last = id;
                Ok(JobAnswer::Submitted { id })
            }
            JobAsk::Cancel { id } => {
                let unknown = || Fault::gone(format!("there is no job {id}"));
                let job = self.jobs.get(&id).ok_or_else(unknown)?;
                let (asks, owner) = (caller.creds.uid.effective, job.uid());
                if asks != 0 && asks != owner {
                    return Err(Fault::refused(format!("job {id} is another user's")));
                }
                if job.state == State::Over {
                    return Err(Fault::gone(format!("job {id} is over")));
                }
                let why = if asks == owner { "cancelled" } else { "cancelled by root" };
                self.become_job(stopped(job, why))?;
                Ok(JobAnswer::Cancelled)
            }
        }
    }

    fn waits_for(&self, job: &Job) -> Option<String> {
        let (wants, managed) = (job.submission.nodes, self.pool.size());
        let never = job.state == State::Waiting && wants as usize > managed;
        never.then(|| format!("{managed} nodes are managed now"))
    }

    // Events and their effects.

    fn advance(&mut self) {
        if self.stale {
            let looked = self.pool.look();
            self.stale = looked.is_err();
            self.unless_done(looked);
        }
        for id in self.in_state(State::Starting).into_iter().chain(self.in_state(State::Running)) {
            let job = &self.jobs[&id];
            if let Some(node) = self.pool.lost(job) {
                self.turn(stopped(job, &format!("node {node} lost")));
            }
        }
        self.in_state(State::Ending).into_iter().for_each(|id| {
            let done = self.finish(id);
            self.unless_done(done);
        });
        self.choose();
        self.in_state(State::Starting).into_iter().for_each(|id| {
            let done = self.begin(id);
            self.unless_done(done);
        });
    }

    /// Jobs that start now, by the policy.
    fn choose(&mut self) {
        let waiting = self.in_state(State::Waiting);
        if waiting.is_empty() || self.stale {
            return;
        }
        let starts = self.policy.starts(&self.view(&waiting));
        if starts.is_empty() {
            return;
        }
        // After the job the nodes become again what they are at this moment.
        if let Err(fault) = self.pool.look() {
            return self.unless_done(Err(fault));
        }
        for Start { id, nodes } in starts {
            let nodes = nodes.into_iter().filter_map(|node| self.pool.held(node)).collect();
            let job = self.jobs[&id].after(Event::Chosen);
            self.turn(Job { nodes, ..job });
        }
    }

    fn view(&self, waiting: &[u64]) -> View {
        let now = now();
        let holders: Vec<&Job> = self.jobs.values().filter(|job| job.state.has_nodes()).collect();
        let held: BTreeSet<_> = holders.iter().flat_map(|job| job.list()).collect();
        let usable: BTreeSet<_> = self.pool.usable().collect();
        let running = holders.iter().map(|job| {
            let count = job.list().iter().filter(|node| usable.contains(node)).count();
            Running { count, until: job.until(now) }
        });
        let waiting = waiting.iter().map(|id| {
            let wanted = &self.jobs[id].submission;
            Waiting { id: *id, count: wanted.nodes as usize, seconds: wanted.seconds }
        });
        View {
            now,
            free: usable.iter().filter(|node| !held.contains(node)).copied().collect(),
            waiting: waiting.collect(),
            running: running.collect(),
            managed: self.pool.size(),
        }
    }

    /// The job's nodes become its user's, and its keeper is started.
    fn begin(&mut self, id: u64) -> Result<()> {
        let job = self.jobs[&id].clone();
        let directory = self.store.of(id);
        // A process before this one may have come as far as that.
        if store::keeper(&directory).is_none() && !store::begun(&directory) {
            self.pool.give(&job)?;
            if let Err(fault) = self.spawn(id) {
                return self.become_job(stopped(&job, &fault.to_string()));
            }
        }
        let started = job.started.or(Some(now()));
        self.become_job(Job { started, ..job.after(Event::Begun) })?;
        if !self.keepers.contains_key(&id) {
            self.recover(id, true);
        }
        Ok(())
    }

    /// Starts the keeper of a job; of two for one job the second ends without doing anything.
    fn spawn(&mut self, id: u64) -> Result<()> {
        let mut command = Command::new("/proc/self/exe");
        std::os::unix::process::CommandExt::arg0(&mut command, "shoal");
        command.args(["job-keeper", "--directory"]).arg(self.store.of(id));
        command.current_dir("/").stdin(Stdio::null()).stdout(Stdio::null());
        // The loop waits for all children.
        let child = command.spawn().map_err(|e| Fault::io(&e, "start the keeper of a job"))?;
        self.attach(id, Pid(child.id() as i32))
    }

    fn attach(&mut self, id: u64, keeper: Pid) -> Result<()> {
        let handle = pidfd::open(keeper).map_err(|errno| Fault::sys(errno, format!("watch the keeper of job {id}")))?;
        self.keepers.insert(id, handle);
        Ok(())
    }

    /// Looks for the keeper of a job that is to have one, or for what it has left. `anew`: where there is nothing, a keeper is started.
    fn recover(&mut self, id: u64, anew: bool) {
        let directory = self.store.of(id);
        if let Some(keeper) = store::keeper(&directory) {
            let attached = self.attach(id, keeper);
            // The number may have become another process's since.
            if attached.is_ok() && store::keeper(&directory) == Some(keeper) {
                return;
            }
            self.keepers.remove(&id);
        }
        let job = &self.jobs[&id];
        match store::status(&directory) {
            Some(status) => self.turn(job.finished(status)),
            None if store::begun(&directory) => {
                self.turn(stopped(job, "its keeper was killed, or the machine has ended"))
            }
            None if !anew => self.turn(stopped(job, "its keeper could not begin")),
            None => {
                let spawned = self.spawn(id);
                self.unless_done(spawned);
            }
        }
    }

    /// Keepers that have ended.
    fn take_ends(&mut self) {
        let wanted: Vec<_> = self.keepers.values().map(|keeper| (keeper.as_fd(), Ready::READ)).collect();
        let Ok(ready) = poll_for(&wanted, Some(Duration::ZERO)) else { return };
        let ended: Vec<u64> =
            self.keepers.keys().zip(ready).filter(|(_, ready)| ready.readable).map(|(id, _)| *id).collect();
        for id in ended {
            self.keepers.remove(&id);
            self.told.remove(&id);
            match self.jobs[&id].state {
                State::Running => self.recover(id, false),
                // The next turn looks for the status that it has left.
                _ => self.again_us = Some(monotonic_us()),
            }
        }
    }

    /// The job's processes end; then its nodes go back.
    fn finish(&mut self, id: u64) -> Result<()> {
        let directory = self.store.of(id);
        if !self.keepers.contains_key(&id) {
            // Nobody begins it any more, however late a keeper that was started comes.
            let _first = store::begin(&directory)?;
            if let Some(keeper) = store::keeper(&directory) {
                self.attach(id, keeper)?;
            }
        }
        if let Some(keeper) = self.keepers.get(&id) {
            if self.told.insert(id) {
                let _ended = pidfd::kill(keeper.as_fd(), Sig::TERM);
            }
            return Ok(());
        }
        let mut job = self.jobs[&id].clone();
        if let Some(status) = store::status(&directory) {
            job = job.finished(status);
        }
        match self.pool.take_back(&job)? {
            true => self.become_job(job.over(now()))?,
            false => {
                self.again_us.get_or_insert(monotonic_us() + AGAIN_US);
            }
        }
        self.forget(job.uid());
        Ok(())
    }

    /// Forgets the oldest jobs of a user that are over, but never the newest job of all, whose number is not to be given again.
    fn forget(&mut self, uid: u32) {
        let over: Vec<u64> =
            self.jobs.values().filter(|job| job.state == State::Over && job.uid() == uid).map(|job| job.id).collect();
        for id in over.iter().take(over.len().saturating_sub(REMEMBERED)).filter(|id| **id != self.last) {
            self.jobs.remove(id);
            self.store.forget(*id);
        }
    }
}

/// The job when it is to end; one that has not begun is over at once.
fn stopped(job: &Job, why: &str) -> Job {
    let stopped = job.stopped(why);
    if stopped.state == State::Over && job.state != State::Over {
        stopped.over(now())
    } else {
        stopped
    }
}
