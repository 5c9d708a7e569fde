//! What is not carried is refused by its name: kinds of things that a process has, and processors that have less.

use super::checkpoint::{must, restore, run, start, told, until_it_is};
use super::scene::{holds, same};
use super::{End, Scene};
use crate::lab::place::Place;
use crate::lab::{Doing, Res};
use std::path::Path;
use std::time::{Duration, Instant};

pub(crate) const SCENES: &[Scene] = &[
    ("uncarried_kinds_are_named", uncarried_kinds_are_named),
    ("uncarried_when_asked", uncarried_when_asked),
    ("restore_on_a_lesser_processor", restore_on_a_lesser_processor),
];

/// Ways of case/real/uncarried.py, and what is said of each.
const KINDS: [(&str, &str); 36] = [
    ("io_uring", "anon_inode:[io_uring]"),
    ("userfaultfd", "anon_inode:[userfaultfd]"),
    ("perf", "anon_inode:[perf_event]"),
    ("fanotify", "anon_inode:[fanotify]"),
    ("aio", "is of asynchronous input and output (io_setup(2))"),
    ("itself", "tells of the process itself"),
    ("sealed", "is sealed (mseal)"),
    ("hugetlb", "is of huge pages from their pool"),
    ("secret", "is secret memory (memfd_secret)"),
    ("shared", "is also open or mapped in process"),
    ("linked", "was deleted under this name, but has another"),
    ("in flight", "has descriptors on their way in it (SCM_RIGHTS)"),
    ("listening", "is a listening unix socket, which is not carried"),
    ("TCP server", "is a listening TCP socket, which is not carried"),
    ("TCP", "is a TCP socket, which is not carried"),
    ("UDP", "is a UDP socket, which is not carried"),
    ("message queue", "is a POSIX message queue (mq_overview(7)), which is not carried"),
    ("deleted queue", "is a POSIX message queue (mq_overview(7)), which is not carried"),
    ("symbolic link", "is a symbolic link itself (O_PATH with O_NOFOLLOW), which is not carried"),
    ("deleted directory", "is a directory that has been deleted"),
    ("first thread", "its first thread has ended, and others have not, which is not carried\n"),
    ("events", "has events that were not read"),
    ("owner", "sends its signals to process 1"),
    ("watched", ", which is another by now"),
    ("deadline", "is scheduled by deadlines"),
    ("directory", "its working directory"),
    ("long path", "(a path of more than 4095 bytes) cannot be opened again by its name"),
    ("long directory", "its working directory has a path of more than 4095 bytes"),
    ("long mapping", "is of a file with a path of more than 4095 bytes"),
    ("children's time", "its children will live in a time namespace of their own"),
    ("tracer", "it traces process"),
    ("traced thread", "is traced by process"),
    ("semaphore", "it uses System V semaphore set"),
    ("undo", "to be undone (SEM_UNDO), which does not go with it"),
    ("queue", "it uses System V message queue"),
    ("waiting for a message", "waits for a System V semaphore or message"),
];

/// The same of what nobody but the process itself can tell, or its tracer.
const ASKED: [(&str, &str); 2] =
    [("dispatch", "PR_SET_SYSCALL_USER_DISPATCH"), ("segments", "it has segments of its own (modify_ldt(2))")];

/// Each in a dry run, which leaves the process as it is.
fn uncarried_kinds_are_named(place: &Place) -> Res<End> {
    all_are_named(place, &KINDS, &["--dry-run"])
}

/// It stands still for a moment, and runs on as it was.
fn uncarried_when_asked(place: &Place) -> Res<End> {
    let image = place.fresh("uncarried.image").display().to_string();
    all_are_named(place, &ASKED, &["--continue", "-o", &image])?;
    holds("no file is left", !Path::new(&image).exists())?;
    Ok(End::Passed)
}

fn all_are_named(place: &Place, kinds: &[(&str, &str)], how: &[&str]) -> Res<End> {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("case/real/uncarried.py").display().to_string();
    for &(way, expected) in kinds {
        let log = place.fresh("uncarried.out");
        let out = std::fs::File::create(&log).doing("make a file")?;
        let mut child = start(&["python3", &program, way], &out)?;
        let deadline = Instant::now() + Duration::from_secs(15);
        let said = loop {
            let text = std::fs::read_to_string(&log).doing("read the output")?;
            if text.contains('\n') || Instant::now() > deadline {
                break text;
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        let pid = child.id().to_string();
        let done = run(place, &[&["checkpoint"], how, &[&pid]].concat())?;
        let still = child.try_wait().doing("look at the program")?.is_none();
        child.kill().doing("end the program")?;
        child.wait().doing("wait for the program")?;
        if said == "missing\n" {
            continue;
        }
        same(way, said, "ready\n".to_string())?;
        let all = [done.stdout.clone(), done.stderr.clone()].concat();
        let all = String::from_utf8_lossy(&all).into_owned();
        if !all.contains(expected) {
            return Err(format!("{way}: it says {all:?} {}, not: {expected}", told(&done)));
        }
        same(&format!("{way}: the status of the command"), done.status.code(), Some(1))?;
        holds(&format!("{way}: it runs on"), still)?;
    }
    Ok(End::Passed)
}

/// An image that is altered to be of a processor that has something else: it is refused with the name of that, before there is a process.
fn restore_on_a_lesser_processor(place: &Place) -> Res<End> {
    let (image, log) = (place.fresh("lesser.image"), place.fresh("lesser.out"));
    let out = std::fs::File::create(&log).doing("make a file")?;
    let mut child = start(&["sleep", "1"], &out)?;
    let pid = child.id().to_string();
    until_it_is(&pid, "sleep")?;
    must(place, &["checkpoint", &pid, "--stop", "-o", &image.display().to_string()])?;
    child.wait().doing("wait for the program")?;
    let good = std::fs::read(&image).doing("read the image")?;
    let bad = place.fresh("altered.image");
    std::fs::write(&bad, altered(good, b"sse2", b"sse9")?).doing("write an image")?;
    let done = run(place, &["restore", &bad.display().to_string()])?;
    let said = told(&done);
    same("the status", done.status.code(), Some(1))?;
    holds(&format!("it names what is missing: {said}"), said.ends_with("as the process has found its own: sse9"))?;
    holds("no process is left", !Path::new(&format!("/proc/{pid}")).exists())?;
    let mut child = restore(place, &image, &out)?;
    same("the status of the image as it was", child.wait().doing("wait for the program")?.code(), Some(0))?;
    Ok(End::Passed)
}

/// Another word of the same length in the header of an image, which follows a first record, with the checksum that it has then.
fn altered(mut image: Vec<u8>, from: &[u8], to: &[u8]) -> Res<Vec<u8>> {
    /// Magic and version; of a record kind, zeroes, length and checksum.
    const MAGIC: usize = 16;
    const HEAD: usize = 24;
    let length =
        |at: usize| image.get(at + 8..at + 16).and_then(|bytes| Some(u64::from_le_bytes(bytes.try_into().ok()?)));
    let head = MAGIC + HEAD + length(MAGIC).ok_or("an image without a first record")? as usize;
    let length = length(head).ok_or("an image without a header")? as usize;
    let body = image.get_mut(head + HEAD..head + HEAD + length).ok_or("an image without a header")?;
    let at = body.windows(from.len()).position(|word| word == from).ok_or("the word is not in the image")?;
    body[at..at + to.len()].copy_from_slice(to);
    let checksum = xxhash_rust::xxh3::xxh3_64_with_seed(body, 1);
    image[head + 16..head + 24].copy_from_slice(&checksum.to_le_bytes());
    Ok(image)
}
