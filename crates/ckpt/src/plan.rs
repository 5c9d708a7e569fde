//! The part of an image before its pages: read, and compared with what its owner may claim.

use crate::claims::{self, Owner};
use crate::early::Early;
use crate::objects::Made;
use crate::ownership::User;
use crate::places::Opener;
use crate::vessel::FEW;
use crate::{cpu, keys, kinds, memory, pages, pool, rebuild, timers};
use image::files::Files;
use image::memory::Memory;
use image::process::{Header, Process};
use image::thread::Thread;
use image::{Reader, Record};
use kern::pagemap::Run;
use std::io::Read;
use vocab::{Fault, Pid, Result, Sig};

/// The records before the pages.
pub(crate) struct Plan {
    pub(crate) header: Header,
    pub(crate) process: Process,
    pub(crate) memory: Memory,
    pub(crate) files: Files,
    pub(crate) threads: Vec<Thread>,
    pub(crate) objects: Made,
    pub(crate) early: Early,
    pub(crate) vdso: Option<Vec<u8>>,
    /// Where what is in memory has stayed behind.
    pub(crate) lazy: Vec<Run>,
    /// The timers that ring, by their numbers: of these no signal waits any more.
    pub(crate) ringing: Vec<i32>,
}

impl Plan {
    /// Is there so little of everything that scripts for a little arena can make it?
    pub(crate) fn is_little(&self) -> bool {
        const MOST_GROUPS: usize = 1024;
        let Process { timers, stopped_children, ended, continued_children, queue, .. } = &self.process;
        let news = stopped_children.len() + ended.len() + continued_children.len();
        let queued = queue.len() + self.threads.iter().map(|thread| thread.queue.len()).sum::<usize>();
        let groups = self.threads.iter().map(|thread| thread.creds.groups.len()).max().unwrap_or(0);
        let Plan { threads, memory, files, .. } = self;
        let calls: usize = files.files.iter().map(kinds::calls).sum();
        let (guards, locked) = memory::to_guard_and_lock(&memory.areas);
        let all = [timers.len(), news, queued, guards, locked, calls, threads.len(), files.descriptors.len()];
        all.iter().all(|some| *some <= FEW) && groups <= MOST_GROUPS
    }

    /// The process, which has one thread, gets this number.
    pub(crate) fn goes_by(&mut self, pid: Pid) {
        let was = self.process.pid;
        let Process { pid: number, group, session, .. } = &mut self.process;
        for place in [number, group, session].into_iter().filter(|place| **place == was) {
            *place = pid.0;
        }
        self.threads.iter_mut().for_each(|leader| leader.tid = pid.0);
    }

    /// Signals that wait for the process, or for its leader.
    pub(crate) fn queued(&self) -> Vec<Sig> {
        let infos = self.process.queue.iter().chain(self.threads.iter().take(1).flat_map(|leader| &leader.queue));
        infos.filter_map(|info| Sig::new(*info.0.first()?)).collect()
    }
}

/// The owner of the image's file, if not root, and the user who has asked for a move, if not root.
pub(crate) type Whose<'a> = (Option<Owner>, Option<&'a User>);

/// Reads up to the first record of pages, or the end.
pub(crate) fn plan(
    reader: &mut Reader<impl Read + Send>,
    first: Record,
    any_processor: bool,
    (owner, user): Whose<'_>,
) -> Result<(Plan, Record)> {
    let is_theirs = |threads: &[Thread]| user.map_or(Ok(()), |user| user.owns(threads));
    let mut header: Option<Header> = None;
    let (mut process, mut memory, mut files) = (None, None, None);
    let mut threads: Vec<Thread> = Vec::new();
    let mut objects = Made::default();
    let (mut early, mut lazy) = (Early::default(), Vec::new());
    let (mut vdso, mut guessed) = (None, false);
    let mut next = first;
    let rest = loop {
        match next {
            Record::Header(record) => {
                let its = record.cpu.as_ref().filter(|_| !any_processor);
                its.map_or(Ok(()), |cpu| cpu::check(cpu, &cpu::here()))?;
                header = Some(record);
            }
            Record::Process(record) => process = Some(*record),
            Record::Memory(record) => memory = Some(record),
            Record::Files(record) => files = Some(record),
            Record::Thread(record) => threads.push(*record),
            Record::Objects(record) => {
                is_theirs(&threads)?;
                claims::check(owner, &threads, Some(&record), None)?;
                objects = Made::new(&record, &Opener::new(&threads, owner.is_none()))?;
            }
            Record::Content { object, offset, bytes } => objects.content(object, offset, &bytes)?,
            Record::Early(pages) if guessed => early.guessed.pages.push(pages),
            Record::Early(pages) => early.pages.push(pages),
            Record::Kept(kept) => early.keep(&kept)?,
            Record::Gone(gone) => early.lose(&gone)?,
            Record::Vdso(code) => vdso = Some(code),
            Record::Lazy(record) => lazy = record.runs.iter().map(|&(start, end)| Run { start, end }).collect(),
            Record::Forecast(_) => guessed = true,
            Record::Still | Record::Clocks(_) => {}
            record => break record,
        }
        next = pages::following(reader)?;
    };
    is_theirs(&threads)?;
    claims::check(owner, &threads, None, process.as_ref())?;
    objects.settle(&Opener::new(&threads, owner.is_none()))?;
    let missing = |what: &'static str| move || Fault::wire(format!("an image without {what}"));
    let header = header.ok_or_else(missing("a header"))?;
    let expected = header.threads as usize;
    let mut plan = Plan {
        header,
        process: process.ok_or_else(missing("a process"))?,
        memory: memory.ok_or_else(missing("mappings"))?,
        files: files.ok_or_else(missing("descriptors"))?,
        threads,
        objects,
        early,
        vdso,
        lazy,
        ringing: Vec::new(),
    };
    if plan.threads.len() != expected || plan.threads.first().map(|one| one.tid) != Some(plan.process.pid) {
        return Err(missing("all of its threads")());
    }
    if owner.is_some() {
        let of = plan.threads.first().map(|leader| leader.creds.clone()).unwrap_or_default();
        claims::disbelieve(&mut plan.process, &mut plan.files, &of);
    }
    plan.ringing = timers::take_ringing(&mut plan.process, &mut plan.threads);
    claims::check_use(owner, &plan.process, &plan.memory)?;
    rebuild::check(&plan.memory)?;
    keys::check(&plan.memory)?;
    pool::check(&plan.memory)?;
    rebuild::check_lazy(&plan.memory, &plan.lazy)?;
    Ok((plan, rest))
}
