//! What is in the way of a move, and how it would go.

use super::orders::{Out, Place};
use super::remains::{in_the_way, Ready};
use ckpt::boot::boot;
use ckpt::ended::{ended, is_over, reason};
use ckpt::kinds::terminal::Tty;
use ckpt::outlook::{self, Needed};
use ckpt::ownership::User;
use ckpt::pool;
use ckpt::precopy::Way;
use ckpt::survey::{survey_again, Given, Survey};
use image::cpu::Cpu;
use kern::others::share_memory;
use kern::pagemap::Run;
use kern::proc::{root, Proc, PROC};
use vocab::{Fault, Pid, Result};
use wire::look::{File, Look, Needs, Outlook, Why};

/// More files are not asked for on the other node, so that the question does not become too long.
const MOST_FILES: usize = 1000;

/// Looks at the process; what is in the way is no error here.
///
/// # Errors
/// `Gone`.
pub(super) fn look(order: &Out) -> Result<Look> {
    match look_at(order) {
        // What is in its way is that.
        Ok(_) if is_over(order.pid) => Err(ended()),
        looked => looked.map_err(|fault| reason(order.pid, fault)),
    }
}

fn look_at(order: &Out) -> Result<Look> {
    let mut seen = with_obstacles(order, &[])?;
    seen.look_for_all_it_traces(order.pid)?;
    seen.obstacles.extend(in_its_memory(order.pid));
    let waits = |why: &String| format!("{why} (a move waits some seconds for a moment without)");
    seen.obstacles.extend(seen.locked.iter().map(waits));
    let told = outlook::outlook(order.pid, &seen)?;
    let why = match told.way {
        Way::Rounds => Why::Large,
        Way::Little => Why::Little,
        Way::ReadsDirectly => Why::ReadsDirectly,
    };
    let outlook::Outlook { own, large, nameless, resident, zero, files, .. } = told;
    let needed = outlook::needed(order.pid, &seen)?.into_iter().take(MOST_FILES);
    let needs = Needs {
        cpu: encoded()?,
        files: needed.map(|Needed { path, same }| File { path, same }).collect(),
        huge: outlook::huge_pages(order.pid, &seen)?.into_iter().collect(),
    };
    Ok(Look {
        outlook: Some(Outlook { why, own, large, nameless, resident, zero, files }),
        obstacles: seen.obstacles,
        needs,
    })
}

/// What this processor has, for the other mover.
pub(super) fn encoded() -> Result<Vec<u8>> {
    minicbor::to_vec(ckpt::cpu::here()).map_err(|e| Fault::bug(format!("encode what this processor has: {e}")))
}

/// What there is here of what not every machine has, for the other mover: the processor; how many huge pages of which size, and which kernel runs.
pub(super) fn here() -> Result<Vec<u8>> {
    let pool: Vec<(u64, u64)> = pool::here().into_iter().collect();
    let rest = minicbor::to_vec((pool, boot()?)).map_err(|e| Fault::bug(format!("encode what is here: {e}")))?;
    encoded().map(|cpu| [cpu, rest].concat())
}

/// May a process that was looked at go on where the other mover has said [`here`]? Under which kernel it would.
pub(super) fn may_go_on(pid: Pid, seen: &Survey, there: &[u8]) -> Result<String> {
    ckpt::cpu::check(&ckpt::cpu::here(), &decoded(there)?)?;
    let mut rest = minicbor::Decoder::new(there);
    let behind = |e| Fault::wire(format!("what another node has: {e}"));
    rest.skip().map_err(behind)?;
    let (pool, kernel): (Vec<(u64, u64)>, String) = rest.decode().map_err(behind)?;
    let short = pool::short(&outlook::huge_pages(pid, seen)?, &pool.into_iter().collect());
    match &short[..] {
        [] => Ok(kernel),
        all => Err(Fault::new(vocab::Kind::Unsupported, all.join("; "))),
    }
}

pub(super) fn decoded(cpu: &[u8]) -> Result<Cpu> {
    minicbor::decode(cpu).map_err(|e| Fault::wire(format!("what a processor has: {e}")))
}

/// What of this is not here, in words.
pub(super) fn missing(needs: &Needs) -> Vec<String> {
    let processor = decoded(&needs.cpu).and_then(|of| ckpt::cpu::check(&of, &ckpt::cpu::here()));
    let files = needs.files.iter().map(|file| (&file.path[..], file.same));
    let huge = pool::missing(&needs.huge.iter().copied().collect());
    processor.err().map(|fault| fault.to_string()).into_iter().chain(outlook::missing(files)).chain(huge).collect()
}

/// Refuses what will not go before the process is touched; `followed`: where it is followed already, and by whom is known.
pub(super) fn look_again(order: &Out, followed: &[Run]) -> Result<Survey> {
    let seen = with_obstacles(order, followed)?;
    seen.refuse(order.pid)?;
    // Mostly until the other has executed a program, or while a database is written to: who has asked tries again for a while.
    let passing = in_its_memory(order.pid).or_else(|| seen.locked.first().cloned());
    passing.map_or(Ok(seen), |why| Err(Fault::changed(format!("move process {}: {why}", order.pid))))
}

fn with_obstacles(order: &Out, followed: &[Run]) -> Result<Survey> {
    let pid = order.pid;
    let agent = Pid(std::os::unix::process::parent_id() as i32);
    let terminal = order.terminal.map(|sides| Tty::of(agent, sides.master, sides.slave)).transpose()?;
    let (children, streams, relayed) = (true, order.home, order.streams);
    let given = Given { filters: order.filters, children, streams, relayed, terminal, begins: false };
    let mut seen = survey_again(pid, given, followed)?;
    seen.for_user(pid, order.user.as_ref().and_then(User::who_asks))?;
    if let Some(remains) = &order.remains {
        Ready::new(remains)?;
        seen.obstacles.extend(cannot_remain(order)?);
    }
    for number in if order.home { 0..0 } else { 0..3 } {
        let at = format!("{PROC}/{pid}/fd/{number}");
        if terminal.is_some_and(|tty| tty.is_at(&at)) {
            continue;
        }
        let Ok(path) = std::fs::read_link(at) else { continue };
        let path = path.to_string_lossy();
        if path.starts_with("/dev/pts/") || path.starts_with("/dev/tty") {
            seen.obstacles.push(format!("descriptor {number} is a terminal of its node ({path})"));
        } else if order.streams.iter().flatten().any(|inode| path == format!("pipe:[{inode}]")) {
            // What others have of it they keep.
        } else if order.relayed.iter().flatten().any(|inode| path == format!("pipe:[{inode}]")) {
            seen.obstacles.push(format!(
                "descriptor {number} ({path}) is relayed, and by whom is not known any more (its program has ended or come home, or the front end's daemon was started anew)"
            ));
        } else if (path.starts_with("pipe:") || path.starts_with("socket:")) && order.streams.is_none() {
            seen.obstacles.push(format!("descriptor {number} ({path}) leads to other processes of its node"));
        } else if path.starts_with("pipe:") {
            seen.obstacles.extend(
                shared(pid, &path)
                    .map(|other| format!("descriptor {number} ({path}) is open in process {other} of its node too")),
            );
        }
    }
    Ok(seen)
}

/// Why nothing can take its place here, if something is to. In words.
fn cannot_remain(order: &Out) -> Result<Option<String>> {
    let Some(remains) = order.remains.as_ref().filter(|_| order.place == Place::Needed) else { return Ok(None) };
    let stays = |why| match remains.ghost {
        Some(_) => format!("its stand-in could not take its place: it {why}"),
        None => format!("it has parent, children, a group or a session on its node, and {why}"),
    };
    Ok(in_the_way(order.pid)?.map(stays))
}

/// The same of one that stands still, and has run since it was looked at.
///
/// # Errors
/// `Refused` with the reason; `Gone`.
pub(super) fn can_remain(order: &Out) -> Result<()> {
    cannot_remain(order)?.map_or(Ok(()), |why| Err(Fault::refused(why)))
}

/// Another process, if it runs in the same memory: apart they would no more. Mostly a parent or a child, but a process can make one that is neither (CLONE_PARENT), or whose
/// parent has ended. In words.
fn in_its_memory(pid: Pid) -> Option<String> {
    let all = Proc::open(root()).and_then(|proc| proc.pids()).unwrap_or_default();
    // Who executes has its own.
    let other = all.into_iter().find(|other| *other != pid && share_memory(pid, *other).unwrap_or(false))?;
    Some(format!("it shares its memory with process {other} (vfork(2), CLONE_VM)"))
}

/// A process besides `pid` and the agent that has this pipe open.
fn shared(pid: Pid, pipe: &str) -> Option<i32> {
    let numbers = std::fs::read_dir(root()).ok()?;
    let pids = numbers.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    // A program that the agent is about to start has all that the agent has, until it executes.
    let agents = |other: i32| share_memory(Pid::INIT, Pid(other)).unwrap_or(false);
    let mut others = pids.filter(|other| *other != pid.0 && !agents(*other));
    others.find(|other| {
        let files = std::fs::read_dir(format!("{PROC}/{other}/fd"));
        let links = files.into_iter().flatten().flatten().filter_map(|entry| std::fs::read_link(entry.path()).ok());
        links.into_iter().any(|link| link.to_string_lossy() == pipe)
    })
}
