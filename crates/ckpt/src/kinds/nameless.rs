//! Files without a name: deleted ones, O_TMPFILE, memfd_create(2). What is in them is an object of the image.

use super::{All, Seen, Verdict};
use crate::least;
use crate::objects::{self, is_of_memfd_create, Found, Look, Made};
use crate::places::Opener;
use crate::{identity, proc};
use image::files::{Files, Kind, OpenFile};
use kern::proc::PROC;
use rustix::fs::{Access, AtFlags, OFlags, SeekFrom, CWD};
use std::os::fd::{AsRawFd, OwnedFd};
use vocab::{Fault, Pid, Result};

pub(super) fn look(seen: &Seen, _: &All) -> Result<Verdict> {
    if !seen.link.starts_with(b"/") {
        return Ok(Verdict::Other);
    }
    Ok(match objects::look(&seen.path(), &seen.link)? {
        Look::Named => Verdict::Other,
        Look::Refused(why) => Verdict::Refused(seen.obstacle(why)),
        Look::Nameless(_) if !is_readable(seen)? => {
            Verdict::Refused(seen.obstacle("was deleted, and the process may not read what is in it"))
        }
        Look::Nameless(_) => Verdict::Carried(Kind::Object { object: 0 }),
    })
}

/// May the process read the file: by the descriptor, or by each of its ids? A mover is root, and carries nothing that it may not.
fn is_readable(seen: &Seen) -> Result<bool> {
    let flags = seen.flags()?;
    let reads = matches!((flags & libc::O_ACCMODE as u32) as i32, libc::O_RDONLY | libc::O_RDWR);
    if reads && flags & libc::O_PATH as u32 == 0 {
        return Ok(true);
    }
    let threads = proc::numbers_in(seen.pid, "task")?;
    let creds = threads.into_iter().map(|tid| identity::creds(seen.pid, Pid(tid))).collect::<Result<Vec<_>>>()?;
    let (copy, least) = (super::copy(seen)?, least::of(&creds));
    // The owner may make it readable at any time.
    let owner = rustix::fs::fstat(&copy).map(|file| file.st_uid).ok();
    if least.iter().all(|rights| Some(rights.uid) == owner) {
        return Ok(true);
    }
    let path = format!("{PROC}/self/fd/{}", copy.as_raw_fd());
    let may = least::each(&least, || rustix::fs::accessat(CWD, &path, Access::READ_OK, AtFlags::EACCESS));
    Ok(may?.is_ok())
}

/// Which object it is.
pub(super) fn number(seen: &Seen, found: &mut Found) -> Result<Kind> {
    let object = found.number_of(&seen.path(), &seen.link, true)?;
    object.map(|object| Kind::Object { object }).ok_or_else(|| Fault::bug("a file got a name while it was looked at"))
}

/// `index`: of the file, in the image.
pub(super) fn reopen(object: u32, (files, index): (&Files, usize), made: &Made, opener: &Opener) -> Result<OwnedFd> {
    let file = &files.files[index];
    // Nobody tells which of several open files is the first; one that was opened again by its process is not in the way of another.
    let may_be_first = |file: &OpenFile| file.kind == Kind::Object { object } && is_of_memfd_create(flags_of(file));
    let fd = match files.files.iter().position(may_be_first) {
        Some(first) if first == index => made.open_first(object, flags_of(file), opener, true)?,
        _ => made.open(object, flags_of(file), opener)?,
    };
    if file.offset != 0 {
        rustix::fs::seek(&fd, SeekFrom::Start(file.offset))
            .map_err(|e| Fault::sys(e.raw_os_error(), "set the offset of a file without a name"))?;
    }
    Ok(fd)
}

/// O_TMPFILE has the bit of O_DIRECTORY in it, and stays with the open file.
fn flags_of(file: &OpenFile) -> OFlags {
    OFlags::from_bits_retain(file.flags & super::named::KEPT) - OFlags::DIRECTORY
}
