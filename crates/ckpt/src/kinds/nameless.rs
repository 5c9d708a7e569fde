//! Files without a name: deleted ones, O_TMPFILE, memfd_create(2). What is in them is an object of the image.

use super::{All, Seen, Verdict};
use crate::objects::{self, Found, Look, Made};
use image::files::{Kind, OpenFile};
use kern::rights::Rights;
use rustix::fs::{OFlags, SeekFrom};
use std::os::fd::OwnedFd;
use vocab::{Fault, Result};

pub(super) fn look(seen: &Seen, _: &All) -> Result<Verdict> {
    if !seen.link.starts_with(b"/") {
        return Ok(Verdict::Other);
    }
    Ok(match objects::look(&seen.path(), &seen.link)? {
        Look::Named => Verdict::Other,
        Look::Refused(why) => Verdict::Refused(seen.obstacle(why)),
        Look::Nameless(_) => Verdict::Carried(Kind::Object { object: 0 }),
    })
}

/// Which object it is.
pub(super) fn number(seen: &Seen, found: &mut Found) -> Result<Kind> {
    let object = found.number_of(&seen.path(), &seen.link, true)?;
    object.map(|object| Kind::Object { object }).ok_or_else(|| Fault::bug("a file got a name while it was looked at"))
}

pub(super) fn reopen(object: u32, file: &OpenFile, made: &Made, rights: &Rights) -> Result<OwnedFd> {
    // O_TMPFILE has the bit of O_DIRECTORY in it, and stays with the open file.
    let flags = OFlags::from_bits_retain(file.flags & super::named::KEPT) - OFlags::DIRECTORY;
    let fd = made.open(object, flags, rights)?;
    if file.offset != 0 {
        rustix::fs::seek(&fd, SeekFrom::Start(file.offset))
            .map_err(|e| Fault::sys(e.raw_os_error(), "set the offset of a file without a name"))?;
    }
    Ok(fd)
}
