//! A restore that is tried before the process of the image ends: a child becomes all of it that two can be at a time, and is killed.
//!
//! Left out is what the process has and the other cannot have as well, or what is had twice for nothing: its number and its threads, signals that wait, timers and locks on files,
//! huge pages from their pool, inotify instances, of which each user has so many, and whatever is in its memory, in its sockets and in files without a name. A limit on processes or memory that the child meets says nothing of a restore, for which
//! the process has made room.

use crate::child::Child;
use crate::identity;
use crate::many_files::ManyFiles;
use crate::objects::Made;
use crate::opened::Opened;
use crate::places::Opener;
use crate::plan::Plan;
use crate::prepared::Prepared;
use crate::records::Records;
use crate::restore::{become_it, equip, take_up};
use crate::sigstate::Came;
use crate::threads;
use crate::vessel::Vessel;
use crate::wants::Wants;
use image::files::Kind;
use image::memory::Area;
use image::objects::{Object, ObjectKind};
use image::process::{Header, Process};
use image::thread::Rseq;
use kern::areas::AreaFlags;
use kern::capability::{self, CHECKPOINT_RESTORE, SYS_ADMIN};
use kern::{others, own};
use vocab::{Fault, Pid, Result};

/// Would whoever calls this be able to restore an image with these records on this machine? Of an ordinary user, whose image somebody else restores by that user's rights, only
/// files and mappings are tried.
///
/// # Errors
/// What a restore would say.
pub(crate) fn restore(records: Records) -> Result<()> {
    let _while_it_is_tried = ManyFiles::allowed();
    let mut plan = plan(records)?;
    let opened = open(&plan)?;
    let may_have = others::limit(Pid::NONE, libc::RLIMIT_NOFILE).map_or(u64::MAX, |(soft, _)| soft);
    if opened.limit() > may_have {
        let needed = opened.limit();
        return Err(Fault::refused(format!("a restore takes {needed} descriptors, and may have {may_have} here")));
    }
    let Some(child) = Child::spare()? else { return Ok(()) };
    plan.goes_by(child.pid);
    let mut vessel = Vessel::take_awake(child.pid)?;
    build(&mut vessel, &plan, &Prepared::Now { opened, instead_of: None })
}

fn is_believed() -> bool {
    own::is_root()
}

fn plan(records: Records) -> Result<Plan> {
    let Records { mut process, mut threads, mut objects, mut memory, mut files } = records;
    (process.timers, process.queue, process.locks_what_it_maps) = (Vec::new(), Vec::new(), 0);
    process.itimers = Process::default().itimers;
    threads.truncate(1);
    for leader in &mut threads {
        leader.queue.clear();
        // The kernel writes there whenever a thread comes back from it.
        leader.rseq = Rseq::default();
    }
    for file in &mut files.files {
        file.locks.clear();
        if matches!(file.kind, Kind::Inotify { .. }) {
            file.kind = Kind::EventFd { count: 0, semaphore: false };
        }
    }
    for end in files.sockets.iter_mut().flat_map(|pair| &mut pair.ends) {
        end.messages.clear();
        if !is_believed() {
            end.options.clear();
        }
    }
    let of_pool = |area: &Area| {
        let object = area.file.as_ref().and_then(|file| objects.objects.get(file.object? as usize));
        area.page != 0 || object.is_some_and(|object| object.page != 0)
    };
    memory.areas.retain(|area| !of_pool(area));
    memory.areas.iter_mut().for_each(lighten);
    objects.objects.iter_mut().for_each(|object| *object = without_pages(object));
    let opener = Opener::new(&threads, is_believed());
    let made = Made::new(&objects, &opener)?;
    made.settle(&opener)?;
    Ok(Plan {
        header: Header::default(),
        process,
        memory,
        files,
        threads,
        objects: made,
        early: Default::default(),
        vdso: None,
        lazy: Vec::new(),
        ringing: Vec::new(),
    })
}

/// Memory that nobody can write to counts nowhere, and takes none.
fn lighten(area: &mut Area) {
    area.flags &= !AreaFlags::LOCKED.bits();
    area.guards.clear();
    if !area.shared {
        area.protection &= !(libc::PROT_WRITE as u32);
    }
}

fn without_pages(object: &Object) -> Object {
    let mut object = object.clone();
    if object.page != 0 {
        (object.page, object.size) = (0, 0);
    }
    if let ObjectKind::Shared { reserved } = &mut object.kind {
        *reserved = false;
    }
    object
}

fn open(plan: &Plan) -> Result<Opened> {
    let Plan { process, memory, files, threads, objects, .. } = plan;
    let Process { exe, cwd, root, places, .. } = process;
    let wants = Wants { exe, cwd, root, places, memory, files };
    Opened::open(&wants, objects, &Opener::new(threads, is_believed()), None)
}

fn build(vessel: &mut Vessel, plan: &Plan, prepared: &Prepared) -> Result<()> {
    let brought = equip(vessel, plan, prepared)?;
    let has = kern::rights::effective(Pid::NONE).unwrap_or(0);
    if !capability::has(has, CHECKPOINT_RESTORE) && !capability::has(has, SYS_ADMIN) {
        return Ok(());
    }
    let (mut loan, arena) = vessel.lend()?;
    plan.objects.seal()?;
    take_up(&mut loan, arena, plan, &brought, (vessel.before(), false), false)?;
    become_it(&mut loan, arena, (plan, None), vessel.before(), Came::Unknown)?;
    identity::set_outside(vessel.pid(), &plan.process, vessel.before())?;
    threads::set_scheduling(&plan.threads[0], None)
}
