//! Files without a name, carried by content: what is deleted, O_TMPFILE, memfd_create(2), shared anonymous memory.
//!
//! One that is open under several descriptors, or mapped in several pieces, is one object: device and inode say so.

use crate::claims::SET_IDS;
use crate::elsewhere::{identity, is_deleted, Identity};
use crate::places::Opener;
use crate::pool;
use image::objects::{Object, ObjectKind, Objects};
use image::Writer;
use kern::proc::PROC;
use rustix::fs::{MemfdFlags, Mode, OFlags, SealFlags, SeekFrom, XattrFlags};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::OnceLock;
use vocab::{Fault, Result};

/// Bytes that go into one record of content.
const PIECE: u64 = 1024 * 1024;
/// Where the two numbers stand before the bytes of a record ([`Writer::content`]).
const HEAD: usize = 16;
const SECOND: u64 = 1_000_000_000;
/// File systems whose files are not what they look like (linux/magic.h).
const HUGETLBFS: i64 = 0x958458f6;
const SECRETMEM: i64 = 0x5345434d;

/// A file as /proc shows it: `path` leads to it, `link` is what /proc says of its name.
pub(crate) enum Look {
    /// It has a name.
    Named,
    /// Why it is not carried.
    Refused(&'static str),
    Nameless(Identity),
}

/// Is this file carried by its content?
pub(crate) fn look(path: &str, link: &[u8]) -> Result<Look> {
    let file = std::fs::metadata(path).map_err(|e| Fault::io(&e, format!("look at {path}")))?;
    if !file.is_file() || !is_deleted(link) {
        return Ok(Look::Named);
    }
    let memory = in_memory(file.dev())?;
    if file.nlink() != 0 && !memory && identity(&String::from_utf8_lossy(link)) == Some((file.dev(), file.ino())) {
        // It is called so.
        return Ok(Look::Named);
    }
    let system = rustix::fs::statfs(path).map_err(|e| Fault::sys(e.raw_os_error(), format!("look at {path}")))?;
    Ok(match system.f_type {
        HUGETLBFS if !of_pool(&file, system.f_bsize as u64, link)? => Look::Refused("is of huge pages from their pool"),
        HUGETLBFS => Look::Nameless((file.dev(), file.ino())),
        SECRETMEM => Look::Refused("is secret memory (memfd_secret)"),
        _ if memory && memory_kind(link).is_none() => Look::Refused("is memory of a kind that is not carried"),
        _ if file.nlink() != 0 && !memory => Look::Refused("was deleted under this name, but has another"),
        _ => Look::Nameless((file.dev(), file.ino())),
    })
}

/// Is it on the mount that the kernel keeps for memory (linux: `shm_mnt`), to which no path leads?
fn in_memory(device: u64) -> Result<bool> {
    /// The same for all processes, as long as this one is there.
    static MOUNT: OnceLock<u64> = OnceLock::new();
    if let Some(mount) = MOUNT.get() {
        return Ok(*mount == device);
    }
    let own = rustix::fs::memfd_create("", MemfdFlags::CLOEXEC);
    let own = own.and_then(rustix::fs::fstat).map_err(|e| Fault::sys(e.raw_os_error(), "make a memory file"))?;
    Ok(*MOUNT.get_or_init(|| own.st_dev) == device)
}

/// Is this file of hugetlbfs, with pages of so many bytes, memory without a name?
fn of_pool(file: &std::fs::Metadata, page: u64, link: &[u8]) -> Result<bool> {
    Ok(file.nlink() == 0 && memory_kind(link).is_some() && pool::is_kernels(file.dev(), page)?)
}

/// What it is by the name that the kernel gives it there.
fn memory_kind(link: &[u8]) -> Option<ObjectKind> {
    let name = link.strip_suffix(b" (deleted)").unwrap_or(link);
    match name.strip_prefix(b"/memfd:") {
        Some(name) => Some(ObjectKind::Memory { name: name.into(), seals: 0 }),
        None if name == b"/dev/zero" || name == pool::NAMELESS => Some(ObjectKind::Shared { reserved: true }),
        None => None,
    }
}

/// The objects of a process that is dumped.
#[derive(Default)]
pub(crate) struct Found {
    objects: Vec<(OwnedFd, Identity, Object)>,
}

impl Found {
    /// The number of the file to which `path` leads; `None` if it has a name. `reserved`: of a mapping without MAP_NORESERVE.
    pub(crate) fn number_of(&mut self, path: &str, link: &[u8], reserved: bool) -> Result<Option<u32>> {
        // From here on all is told of one file, wherever the path leads by then.
        let pinned = open(path, OFlags::PATH)?;
        let identity = match look(&itself(&pinned), link)? {
            Look::Named => return Ok(None),
            Look::Refused(why) => return Err(Fault::refused(format!("{} {why}", String::from_utf8_lossy(link)))),
            Look::Nameless(identity) => identity,
        };
        let known = self.objects.iter().position(|(_, other, _)| *other == identity);
        let number = match known {
            Some(number) => number,
            None => {
                let object = describe(&itself(&pinned), link, reserved)?;
                self.objects.push((pinned, identity, object));
                self.objects.len() - 1
            }
        };
        Ok(Some(number as u32))
    }

    /// The objects without what is in them.
    pub(crate) fn described(&self) -> Objects {
        Objects { objects: self.objects.iter().map(|(.., object)| object.clone()).collect() }
    }

    /// Writes the objects with what is in them, if there are any.
    pub(crate) fn write(&self, out: &mut Writer<impl Write>) -> Result<()> {
        if self.objects.is_empty() {
            return Ok(());
        }
        out.objects(&self.described())?;
        let contents = self.objects.iter().enumerate();
        contents.into_iter().try_for_each(|(number, (pinned, _, object))| {
            let done = write_content(number as u64, &itself(pinned), object, out);
            done.map_err(|fault| fault.doing(format!("read what is in object {number}")))
        })
    }
}

fn describe(path: &str, link: &[u8], reserved: bool) -> Result<Object> {
    let file = std::fs::metadata(path).map_err(|e| Fault::io(&e, format!("look at {path}")))?;
    let nanoseconds = |seconds: i64, rest: i64| seconds as u64 * SECOND + rest as u64;
    let system = rustix::fs::statfs(path).map_err(|e| Fault::sys(e.raw_os_error(), format!("look at {path}")))?;
    let page = if system.f_type == HUGETLBFS { system.f_bsize as u64 } else { 0 };
    let memory = page != 0 || in_memory(file.dev())?;
    let kind = match memory.then(|| memory_kind(link)).flatten() {
        Some(ObjectKind::Memory { name, .. }) => ObjectKind::Memory { name, seals: seals(path)? },
        Some(_) => ObjectKind::Shared { reserved },
        None => match name_of(link, file.ino()) {
            ObjectKind::Unnamed { directory } => once_named(path).unwrap_or(ObjectKind::Unnamed { directory }),
            deleted => deleted,
        },
    };
    Ok(Object {
        kind,
        size: file.size(),
        mode: file.mode() & 0o7777,
        uid: file.uid(),
        gid: file.gid(),
        accessed: nanoseconds(file.atime(), file.atime_nsec()),
        modified: nanoseconds(file.mtime(), file.mtime_nsec()),
        page,
    })
}

/// A file that never had a name is called by its inode (linux: `d_mark_tmpfile`).
fn name_of(link: &[u8], inode: u64) -> ObjectKind {
    let path = link.strip_suffix(b" (deleted)").unwrap_or(link);
    match path.strip_suffix(format!("/#{inode}").as_bytes()) {
        Some(directory) => ObjectKind::Unnamed { directory: [directory, b"/"].concat().into() },
        None => ObjectKind::Deleted { path: path.into() },
    }
}

/// A path to an open file of this process.
fn itself(file: &impl AsRawFd) -> String {
    format!("{PROC}/self/fd/{}", file.as_raw_fd())
}

/// The name that a file had before it was deleted and made again without one: an extended attribute that root alone sees (xattr(7)). Nobody could give such a file a
/// name, as they can one that never had any.
const ONCE_NAMED: &str = "trusted.shoal.deleted";

fn once_named(path: &str) -> Option<ObjectKind> {
    let mut name = vec![0; libc::PATH_MAX as usize];
    let length = rustix::fs::getxattr(path, ONCE_NAMED, &mut name[..]).ok()?;
    Some(ObjectKind::Deleted { path: name[..length].into() })
}

fn open(path: &str, flags: OFlags) -> Result<OwnedFd> {
    rustix::fs::open(path, flags | OFlags::CLOEXEC, Mode::empty())
        .map_err(|e| Fault::sys(e.raw_os_error(), format!("open {path}")))
}

fn seals(path: &str) -> Result<u32> {
    let seals = rustix::fs::fcntl_get_seals(open(path, OFlags::RDONLY)?);
    seals.map(|seals| seals.bits()).map_err(|e| Fault::sys(e.raw_os_error(), format!("read the seals of {path}")))
}

/// Holes do not travel. Of huge pages the kernel tells none: those are what is zero.
fn write_content(
    number: u64,
    path: &str,
    &Object { size, page, .. }: &Object,
    out: &mut Writer<impl Write>,
) -> Result<()> {
    let file = File::from(open(path, OFlags::RDONLY)?);
    let mut buffer = vec![0; HEAD + PIECE.min(size) as usize];
    let mut at = 0;
    while at < size {
        at = match rustix::fs::seek(&file, SeekFrom::Data(at)) {
            Ok(from) => from,
            Err(rustix::io::Errno::NXIO) => return Ok(()),
            Err(e) => return Err(Fault::sys(e.raw_os_error(), "find data")),
        };
        let hole = rustix::fs::seek(&file, SeekFrom::Hole(at));
        let hole = hole.map_err(|e| Fault::sys(e.raw_os_error(), "find a hole"))?.min(size);
        while at < hole {
            let piece = &mut buffer[..HEAD + PIECE.min(hole - at) as usize];
            file.read_exact_at(&mut piece[HEAD..], at).map_err(|e| Fault::io(&e, "read"))?;
            let length = (piece.len() - HEAD) as u64;
            if page == 0 || piece[HEAD..].iter().any(|byte| *byte != 0) {
                out.content(number, at, piece)?;
            }
            at += length;
        }
    }
    Ok(())
}

/// The objects of an image, made again in the process that restores.
#[derive(Default)]
pub(crate) struct Made {
    objects: Vec<(File, Object)>,
}

/// Seals that forbid what a mapping that is there may do on: such a mapping must be made first.
const LATE: SealFlags = SealFlags::FUTURE_WRITE;

impl Made {
    /// Makes all of them, empty. `Unsupported` where there are not as many huge pages as are set aside for them. Their numbers are below those of the image's descriptors until they are opened again.
    pub(crate) fn new(objects: &Objects, opener: &Opener) -> Result<Made> {
        pool::check_objects(objects)?;
        let make = |object: &Object| {
            let file =
                make(object, opener).map_err(|fault| fault.doing(format!("make {} again", in_words(&object.kind))))?;
            Ok((file, object.clone()))
        };
        Ok(Made { objects: objects.objects.iter().map(make).collect::<Result<_>>()? })
    }

    fn get(&self, number: u64) -> Result<&(File, Object)> {
        let object = usize::try_from(number).ok().and_then(|number| self.objects.get(number));
        object.ok_or_else(|| Fault::wire("an object that the image does not have"))
    }

    /// Puts content where it was.
    pub(crate) fn content(&self, number: u64, offset: u64, bytes: &[u8]) -> Result<()> {
        let (file, object) = self.get(number)?;
        match offset.checked_add(bytes.len() as u64) {
            Some(end) if end <= object.size => {}
            _ => return Err(Fault::wire("content behind the end of an object")),
        }
        match object.page {
            0 => file.write_all_at(bytes, offset).map_err(|e| Fault::io(&e, "write what is in an object")),
            page => kern::pool::write_at(file.as_fd(), page, offset, bytes),
        }
    }

    /// Once the content is there: owners, times and seals.
    pub(crate) fn settle(&self, opener: &Opener) -> Result<()> {
        self.objects.iter().try_for_each(|(file, object)| {
            let might = if opener.might_give(object.uid, object.gid) { SET_IDS } else { 0 };
            settle(file, object, object.mode & (0o1777 | might))
        })
    }

    /// Once the mappings are there: seals that concern those to come only.
    pub(crate) fn seal(&self) -> Result<()> {
        for (file, object) in &self.objects {
            if let ObjectKind::Memory { seals, .. } = object.kind {
                add_seals(file, SealFlags::from_bits_retain(seals))?;
            }
        }
        Ok(())
    }

    /// The object as one more open file. Its owner might set any mode, and so may open it however the mode is.
    pub(crate) fn open(&self, number: u32, flags: OFlags, opener: &Opener) -> Result<OwnedFd> {
        let (file, object) = self.get(number.into())?;
        opener.made(object.uid, || open(&itself(file), flags))?
    }

    /// The same where the image has the open file that memfd_create(2) gave, or a mapping of that: the kernel does not count it among those open for writing, so that what is in the file can be executed
    /// (execve(2), ETXTBSY). `flags` are set of a descriptor alone.
    pub(crate) fn open_first(&self, number: u32, flags: OFlags, opener: &Opener, set: bool) -> Result<OwnedFd> {
        let again = self.open(number, flags, opener)?;
        let (file, object) = self.get(number.into())?;
        if !matches!(object.kind, ObjectKind::Memory { .. }) || !is_of_memfd_create(flags) {
            return Ok(again);
        }
        let failed = |e: rustix::io::Errno| Fault::sys(e.raw_os_error(), "take a memory file");
        if set {
            rustix::fs::fcntl_setfl(file, flags).map_err(failed)?;
        }
        rustix::io::fcntl_dupfd_cloexec(file, 0).map_err(failed)
    }
}

/// Can an open file with these flags be what memfd_create(2) gave, and fcntl(2) has changed since?
pub(crate) fn is_of_memfd_create(flags: OFlags) -> bool {
    let changed = OFlags::APPEND | OFlags::NONBLOCK | OFlags::DIRECT | OFlags::NOATIME | OFlags::LARGEFILE;
    flags.difference(changed) == OFlags::RDWR
}

fn in_words(kind: &ObjectKind) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match kind {
        ObjectKind::Memory { name, .. } => format!("the memory file {}", text(&name.0)),
        ObjectKind::Shared { .. } => "shared memory".into(),
        ObjectKind::Unnamed { directory } => format!("a file without a name in {}", text(&directory.0)),
        ObjectKind::Deleted { path } => format!("the deleted file {}", text(&path.0)),
    }
}

/// Where it had a name, with the rights of the process.
fn make(object: &Object, opener: &Opener) -> Result<File> {
    let failed = |e: rustix::io::Errno| Fault::sys(e.raw_os_error(), "make a file");
    let file = match &object.kind {
        ObjectKind::Memory { name, .. } if object.page != 0 => {
            pool::memory_file(&name.0, object.page, MemfdFlags::ALLOW_SEALING)?
        }
        ObjectKind::Memory { name, .. } => {
            rustix::fs::memfd_create(&name.0[..], MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).map_err(failed)?
        }
        ObjectKind::Shared { reserved } => {
            return Ok(kern::shared_memory::anonymous(object.size, *reserved, object.page)?.into())
        }
        ObjectKind::Unnamed { directory } => {
            opener.lent(|| unnamed(Path::new(OsStr::from_bytes(&directory.0)), OFlags::empty()))?.map_err(failed)?
        }
        ObjectKind::Deleted { path } => {
            let file = opener.lent(|| deleted(&path.0))?.map_err(failed)?;
            // Where there are no such attributes it will be as one that never had a name.
            let _none = rustix::fs::fsetxattr(&file, ONCE_NAMED, &path.0, XattrFlags::empty());
            file
        }
    };
    rustix::fs::ftruncate(&file, object.size).map_err(failed)?;
    Ok(file.into())
}

const PRIVATE: Mode = Mode::RUSR.union(Mode::WUSR);

/// A file that never has a name, under which somebody could open it while it is filled. A file system that makes none (NFS, for one) is replaced by that of /tmp.
fn unnamed(directory: &Path, more: OFlags) -> rustix::io::Result<OwnedFd> {
    let make = |directory: &Path| {
        rustix::fs::open(directory, OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC | more, PRIVATE)
    };
    match make(directory) {
        Err(Errno::OPNOTSUPP) => make(Path::new("/tmp")),
        made => made,
    }
}

/// A file in the directory of one that was deleted, or in the nearest above that is there. Nobody can give it a name (O_EXCL), as nobody could to the deleted one.
fn deleted(path: &[u8]) -> rustix::io::Result<OwnedFd> {
    let path = Path::new(OsStr::from_bytes(path));
    let directory = path.ancestors().skip(1).find(|above| above.is_dir()).unwrap_or(Path::new("/"));
    unnamed(directory, OFlags::EXCL)
}

/// `mode`: with set-user-ID and set-group-ID only where the process might set them itself. What is in the file may have come from another one, exchanged while it was copied.
fn settle(file: &File, object: &Object, mode: u32) -> Result<()> {
    let failed = |what: &'static str| move |e: rustix::io::Errno| Fault::sys(e.raw_os_error(), what);
    let now = file.metadata().map_err(|e| Fault::io(&e, "look at an object"))?;
    if (now.uid(), now.gid()) != (object.uid, object.gid) {
        std::os::unix::fs::fchown(file, Some(object.uid), Some(object.gid))
            .map_err(|e| Fault::io(&e, "set the owner of an object"))?;
    }
    if now.mode() & 0o7777 != mode {
        rustix::fs::fchmod(file, Mode::from_raw_mode(mode)).map_err(failed("set the mode of an object"))?;
    }
    if let ObjectKind::Shared { .. } = object.kind {
        return Ok(());
    }
    let time = |ns: u64| rustix::fs::Timespec { tv_sec: (ns / SECOND) as i64, tv_nsec: (ns % SECOND) as i64 };
    let times = rustix::fs::Timestamps { last_access: time(object.accessed), last_modification: time(object.modified) };
    rustix::fs::futimens(file, &times).map_err(failed("set the times of an object"))?;
    match object.kind {
        // The last of them forbids to add others.
        ObjectKind::Memory { seals, .. } if seals & LATE.bits() == 0 => {
            add_seals(file, SealFlags::from_bits_retain(seals))
        }
        _ => Ok(()),
    }
}

fn add_seals(file: &File, seals: SealFlags) -> Result<()> {
    let failed = |what: &'static str| move |e: rustix::io::Errno| Fault::sys(e.raw_os_error(), what);
    let there = rustix::fs::fcntl_get_seals(file).map_err(failed("read the seals of an object"))?;
    match seals.difference(there) {
        none if none.is_empty() => Ok(()),
        missing => rustix::fs::fcntl_add_seals(file, missing).map_err(failed("seal an object")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn names_that_the_kernel_gives() {
        assert_eq!(memory_kind(b"/dev/zero (deleted)"), Some(ObjectKind::Shared { reserved: true }));
        let memory = |name: &[u8]| Some(ObjectKind::Memory { name: name.into(), seals: 0 });
        assert_eq!(memory_kind(b"/memfd:a b (deleted)"), memory(b"a b"));
        assert_eq!(memory_kind(b"/SYSV00000000 (deleted)"), None);
        assert_eq!(name_of(b"/tmp/#77 (deleted)", 77), ObjectKind::Unnamed { directory: b"/tmp/"[..].into() });
        assert_eq!(name_of(b"/#77 (deleted)", 77), ObjectKind::Unnamed { directory: b"/"[..].into() });
        assert_eq!(name_of(b"/tmp/#77 (deleted)", 78), ObjectKind::Deleted { path: b"/tmp/#77"[..].into() });
    }

    /// Also where its name is taken and its directory gone.
    #[test]
    fn a_deleted_file_is_made_again_without_a_name() {
        let directory = std::env::temp_dir().join(format!("objects.{}", std::process::id()));
        std::fs::create_dir(&directory).expect("a new one");
        let taken = directory.join("taken");
        std::fs::write(&taken, "other").expect("a file");
        for path in [taken.clone(), directory.join("gone/file"), directory.join("free")] {
            let file = deleted(path.as_os_str().as_bytes()).expect("room");
            assert_eq!(rustix::fs::fstat(&file).expect("open").st_nlink, 0, "{path:?}");
        }
        assert_eq!(std::fs::read(&taken).expect("there"), b"other");
        assert_eq!(std::fs::read_dir(&directory).expect("there").count(), 1);
        std::fs::remove_dir_all(&directory).expect("mine");
    }

    #[test]
    fn content_outside_of_an_object_is_refused() {
        let kind = ObjectKind::Memory { name: b"m"[..].into(), seals: 0 };
        let object = Object { kind, size: 10, mode: 0o600, uid: 0, gid: 0, accessed: 0, modified: 0, page: 0 };
        let root = Opener::new(&[], true);
        let made = Made::new(&Objects { objects: vec![object] }, &root).expect("memory");
        made.content(0, 6, b"tail").expect("within");
        assert!(made.content(0, 7, b"tail").is_err() && made.content(0, u64::MAX, b"t").is_err());
        assert!(made.content(1, 0, b"t").is_err() && made.open(1, OFlags::RDONLY, &root).is_err());
        let mut all = Vec::new();
        File::from(made.open(0, OFlags::RDONLY, &root).expect("open")).read_to_end(&mut all).expect("open");
        assert_eq!(all, b"\0\0\0\0\0\0tail");
    }
}
