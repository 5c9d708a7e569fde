//! Files of an image are opened again so that the process has nothing that it had not: the very file, or one that it could open itself by the least of its ids.
//!
//! | the name leads to | the file is opened |
//! |---|---|
//! | the file of the image, in a file system that both machines have | as it was open, whoever may open it now: the process was given it, or had more rights once |
//! | a file of another file system, with the owner, group and mode of that file | with each of the ids that the process has: it may have less by one than by another, and its user may have chosen the name |
//! | any other file | not at all |
//!
//! Links on the way are followed only where nobody but root could have made them ([`crate::walk`]). An image whose word is not root's is never given anything.

use crate::file_id::{self, Match};
use crate::least;
use crate::walk::{walk, walk_carefully};
use image::file_id::FileId;
use image::thread::{Creds, Thread};
use image::Bytes;
use kern::proc::PROC;
use kern::rights::Rights;
use rustix::fs::{Access, AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::os::fd::{AsRawFd, OwnedFd};
use vocab::{Fault, Result};

/// The major number of devices whose open files have no state: null, zero, full, random (Documentation/admin-guide/devices.txt).
pub(crate) const STATELESS: u32 = 1;

/// A file of an image: its name, and which it was.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'a> {
    pub(crate) path: &'a [u8],
    pub(crate) id: Option<&'a FileId>,
}

impl<'a> Place<'a> {
    pub(crate) fn new(path: &'a Bytes, id: Option<&'a FileId>) -> Place<'a> {
        Place { path: &path.0, id }
    }

    fn failed(&self) -> impl Fn(Errno) -> Fault + use<'a> {
        let path = self.path;
        move |e| Fault::sys(e.raw_os_error(), format!("open {}", String::from_utf8_lossy(path)))
    }

    fn refused(&self, why: &str) -> Fault {
        Fault::refused(format!("{} {why}", String::from_utf8_lossy(self.path)))
    }
}

/// With whose rights files are opened.
#[derive(Clone, Debug)]
pub(crate) struct Opener {
    /// Each must suffice.
    rights: Vec<Rights>,
    /// The image is root's word, or a mover's.
    believed: bool,
}

/// A file that is pinned.
struct Found {
    fd: OwnedFd,
    /// The file of the image.
    itself: bool,
}

impl Opener {
    /// For the process to which these threads belong.
    pub(crate) fn new(threads: &[Thread], believed: bool) -> Opener {
        Opener { rights: least::of(threads.iter().map(|thread| &thread.creds)), believed }
    }

    /// For one of whose threads all have these.
    pub(crate) fn of(creds: &Creds) -> Opener {
        Opener { rights: least::of([creds]), believed: true }
    }

    /// The same without giving anything.
    pub(crate) fn unbelieving(&self) -> Opener {
        Opener { rights: self.rights.clone(), believed: false }
    }

    pub(crate) fn has_rights_of(&self, other: &Opener) -> bool {
        self.rights == other.rights
    }

    /// Does `act` with each of the rights: the last outcome, or the first failure.
    fn each<T>(&self, act: impl Fn() -> rustix::io::Result<T>) -> Result<rustix::io::Result<T>> {
        least::each(&self.rights, act)
    }

    /// With the rights that no more than a user has, if the process has any such.
    pub(crate) fn lent<T>(&self, act: impl FnOnce() -> T) -> Result<T> {
        self.rights[0].lent(act)
    }

    /// Opens a file that was made for the process, as a descriptor of the image says. Its owner might set any mode, and so may open it however the mode is.
    ///
    /// # Errors
    /// `Sys` when the rights cannot be taken on.
    pub(crate) fn made<T>(&self, owner: u32, open: impl Fn() -> Result<T>) -> Result<Result<T>> {
        match self.believed || self.is_all(owner) {
            true => Ok(open()),
            false => self.rights[0].lent(open),
        }
    }

    /// Is it this user by each of its ids?
    pub(crate) fn is_all(&self, uid: u32) -> bool {
        self.rights.iter().all(|rights| rights.uid == uid)
    }

    /// Might the process itself set the set-user-ID and set-group-ID bits of a file with this owner and group (chmod(2))? Root might, by all of its ids.
    pub(crate) fn might_give(&self, uid: u32, gid: u32) -> bool {
        let is_in = |rights: &Rights| rights.gid == gid || rights.groups.contains(&gid);
        self.is_all(0) || self.is_all(uid) && self.rights.iter().all(is_in)
    }

    /// Pins the file without opening it: who is asked to open a pipe with a name waits.
    fn find(&self, place: Place<'_>) -> Result<Found> {
        if self.believed && place.id.is_some() {
            if let Ok(fd) = walk(place.path) {
                let is_itself = file_id::compare(place.id, &file_id::of(&fd)?) == Match::Itself;
                if is_itself && file_id::is_plain(&fd) {
                    return Ok(Found { fd, itself: true });
                }
            }
        }
        let fd = self.find_as_least(place)?;
        match file_id::compare(place.id, &file_id::of(&fd)?) {
            Match::Other(why) => Err(place.refused(&why)),
            Match::Itself | Match::Alike => Ok(Found { fd, itself: false }),
        }
    }

    fn find_as_least(&self, place: Place<'_>) -> Result<OwnedFd> {
        let first = std::cell::Cell::new(None);
        let found = self.each(|| {
            let fd = walk(place.path)?;
            let now = rustix::fs::fstat(&fd).map(|now| (now.st_dev, now.st_ino))?;
            match first.replace(Some(now)) {
                Some(before) if before != now => Err(Errno::STALE),
                _ => Ok(fd),
            }
        })?;
        found.map_err(place.failed())
    }

    /// Opens what was found, with the rights of the process unless it is given.
    fn open(&self, found: &Found, flags: OFlags) -> Result<rustix::io::Result<OwnedFd>> {
        match found.itself {
            true => Ok(opened(&found.fd, flags)),
            false => self.each(|| opened(&found.fd, flags)),
        }
    }

    fn may_execute(&self, found: &Found) -> Result<rustix::io::Result<()>> {
        let again = format!("{PROC}/self/fd/{}", found.fd.as_raw_fd());
        match found.itself {
            true => Ok(Ok(())),
            false => self.each(|| rustix::fs::accessat(rustix::fs::CWD, &again, Access::EXEC_OK, AtFlags::EACCESS)),
        }
    }
}

fn opened(found: &OwnedFd, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    rustix::fs::open(format!("{PROC}/self/fd/{}", found.as_raw_fd()), flags | OFlags::CLOEXEC, Mode::empty())
}

fn stat(found: &Found, place: Place<'_>) -> Result<Stat> {
    rustix::fs::fstat(&found.fd).map_err(place.failed())
}

/// A file, directory or device without a state.
///
/// # Errors
/// EACCES and its like where the process could not open it so; `Refused` for another file of that name.
pub(crate) fn file(place: Place<'_>, flags: OFlags, opener: &Opener) -> Result<OwnedFd> {
    let found = opener.find(place)?;
    if flags.contains(OFlags::PATH) {
        return Ok(found.fd);
    }
    let now = stat(&found, place)?;
    let carried = match FileType::from_raw_mode(now.st_mode) {
        FileType::RegularFile | FileType::Directory => true,
        FileType::CharacterDevice => rustix::fs::major(now.st_rdev) == STATELESS,
        _ => false,
    };
    if !carried {
        return Err(place.refused("is another kind of file here"));
    }
    opener.open(&found, flags)?.map_err(place.failed())
}

/// A file, directory or the like that is only pointed at (O_PATH), for who may read it.
///
/// # Errors
/// As [`file`].
pub(crate) fn readable(place: Place<'_>, opener: &Opener) -> Result<OwnedFd> {
    let found = opener.find(place)?;
    let again = format!("{PROC}/self/fd/{}", found.fd.as_raw_fd());
    let may = opener.each(|| rustix::fs::accessat(rustix::fs::CWD, &again, Access::READ_OK, AtFlags::EACCESS))?;
    may.map(|()| found.fd).map_err(place.failed())
}

/// A directory that the process may enter.
pub(crate) fn directory(place: Place<'_>, opener: &Opener) -> Result<OwnedFd> {
    let found = opener.find(place)?;
    opener.may_execute(&found)?.map_err(place.failed())?;
    Ok(found.fd)
}

/// A root directory. Whoever chooses what is below one chooses what set-user-ID programs find in /etc: one of another file system is to be root's.
pub(crate) fn root(place: Place<'_>, opener: &Opener) -> Result<OwnedFd> {
    if place.path == b"/" {
        return walk(place.path).map_err(place.failed());
    }
    let found = opener.find(place)?;
    if !found.itself && !walk_carefully(place.path).is_ok_and(|way| way.fixed) {
        return Err(place.refused("is a root directory on whose way others than root may change names"));
    }
    Ok(found.fd)
}

/// A program that it may execute, and need not be able to read if root alone decides where its name leads.
pub(crate) fn program(place: Place<'_>, opener: &Opener) -> Result<OwnedFd> {
    let found = opener.find(place)?;
    opener.may_execute(&found)?.map_err(place.failed())?;
    if FileType::from_raw_mode(stat(&found, place)?.st_mode) != FileType::RegularFile {
        return Err(place.refused("is no program here"));
    }
    match opener.open(&found, OFlags::RDONLY)? {
        Err(Errno::ACCESS) if opener.believed && walk_carefully(place.path).is_ok_and(|way| way.fixed) => {
            opened(&found.fd, OFlags::RDONLY).map_err(place.failed())
        }
        done => done.map_err(place.failed()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{chown, symlink, PermissionsExt};
    use std::path::{Path, PathBuf};

    const ANN: u32 = 61001;

    fn opener(ids: &[u32], capabilities: u64, believed: bool) -> Opener {
        let rights = |uid: &u32| Rights { uid: *uid, gid: *uid, groups: Vec::new(), capabilities };
        Opener { rights: ids.iter().map(rights).collect(), believed }
    }

    fn bytes(path: &Path) -> Vec<u8> {
        path.as_os_str().as_encoded_bytes().to_vec()
    }

    fn id(path: &Path) -> FileId {
        file_id::of(&rustix::fs::open(path, OFlags::PATH, Mode::empty()).expect("it is there")).expect("open")
    }

    /// As of another machine's file of this name.
    fn alike(path: &Path) -> FileId {
        FileId { system: b"elsewhere"[..].into(), ..id(path) }
    }

    fn errno<T>(opened: Result<T>) -> i32 {
        opened.map_or_else(|fault| if fault.kind == vocab::Kind::Refused { -1 } else { fault.errno }, |_| 0)
    }

    /// Files of root's in directories of root's: `open` (0711), `secret` (0600), `closed/in` (directory 0700); links to `secret` of root's and, in a directory of hers, of ann's.
    fn files() -> Option<PathBuf> {
        if !rustix::process::geteuid().is_root() {
            return None;
        }
        let at = std::env::temp_dir().canonicalize().expect("there").join(format!(
            "places.{}.{:?}",
            std::process::id(),
            std::thread::current().id()
        ));
        let mode = |path: &Path, mode| std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).expect("mine");
        for directory in [at.clone(), at.join("closed"), at.join("anns")] {
            std::fs::create_dir(directory).expect("a new one");
        }
        for (name, bits) in [("open", 0o711), ("secret", 0o600), ("closed/in", 0o644)] {
            std::fs::write(at.join(name), "x").expect("a file");
            mode(&at.join(name), bits);
        }
        for link in ["link", "anns/link"] {
            symlink(at.join("secret"), at.join(link)).expect("a link");
        }
        let fifo = at.join("fifo");
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, FileType::Fifo, Mode::from_raw_mode(0o666), 0).expect("a pipe");
        for (name, bits) in [("", 0o755), ("closed", 0o700), ("anns", 0o755), ("fifo", 0o666)] {
            mode(&at.join(name), bits);
        }
        chown(at.join("anns"), Some(ANN), Some(ANN)).expect("mine");
        Some(at)
    }

    #[test]
    fn nothing_is_opened_that_the_process_could_not_open_and_nobody_waits_for_a_pipe() {
        let Some(at) = files() else { return };
        let ann = opener(&[ANN], 0, false);
        let open = |name: &str, flags, by: &Opener| {
            let path = bytes(&at.join(name));
            errno(file(Place { path: &path, id: None }, flags, by))
        };
        for name in ["secret", "link", "open", "closed/in"] {
            assert_eq!(open(name, OFlags::RDONLY, &ann), libc::EACCES, "{name}");
        }
        assert_eq!(open("anns/link", OFlags::RDONLY, &opener(&[0], !0, true)), libc::ELOOP);
        assert_eq!(open("fifo", OFlags::RDONLY, &ann), -1);
        assert_eq!(open("link", OFlags::RDWR, &opener(&[0], !0, true)), 0);
        // By one of its ids it may not.
        for ids in [[0, ANN], [ANN, 0]] {
            assert_eq!(open("secret", OFlags::RDONLY, &opener(&ids, !0, true)), 0, "with a right to all files");
            assert_eq!(open("secret", OFlags::RDONLY, &opener(&ids, 0, true)), libc::EACCES);
        }
        let place = |name: &str| bytes(&at.join(name));
        let of =
            |path: &[u8], how: fn(Place<'_>, &Opener) -> Result<OwnedFd>| errno(how(Place { path, id: None }, &ann));
        let execute = |name: &str, by: &Opener| errno(program(Place { path: &place(name), id: None }, by));
        assert_eq!(execute("open", &opener(&[ANN], 0, true)), 0, "all of its way is root's");
        assert_eq!(execute("open", &ann), libc::EACCES, "by the word of a user's image");
        assert_eq!(of(&place("link"), program), libc::EACCES);
        assert_eq!((of(&place("closed"), directory), of(&place("anns"), directory)), (libc::EACCES, 0));
        std::fs::rename(at.join("open"), at.join("anns/open")).expect("mine");
        assert_eq!(execute("anns/open", &opener(&[ANN], 0, true)), libc::EACCES, "its name is ann's to give");
        assert_eq!((of(b"/", root), of(&place("anns"), root), of(&place(""), root)), (0, 0, 0));
        assert_eq!(of(&place("anns/open"), root), -1);
        std::fs::remove_dir_all(&at).expect("mine");
    }

    #[test]
    fn the_file_itself_is_given_and_no_other() {
        let Some(at) = files() else { return };
        let by = |name: &str, id: &FileId, believed| {
            let path = bytes(&at.join(name));
            errno(file(Place { path: &path, id: Some(id) }, OFlags::RDWR, &opener(&[ANN], 0, believed)))
        };
        for name in ["secret", "closed/in"] {
            let (own, other) = (id(&at.join(name)), alike(&at.join(name)));
            assert_eq!((by(name, &own, true), by(name, &own, false)), (0, libc::EACCES), "{name}");
            assert_eq!(by(name, &other, true), libc::EACCES, "{name}");
        }
        // Owner, group and mode count where the file is another machine's.
        std::fs::write(at.join("anns/file"), "x").expect("a file");
        chown(at.join("anns/file"), Some(ANN), Some(ANN)).expect("mine");
        let hers = alike(&at.join("anns/file"));
        assert_eq!(by("anns/file", &hers, true), 0);
        for other in
            [FileId { uid: 0, ..hers.clone() }, FileId { gid: 0, ..hers.clone() }, FileId { mode: 0o100_600, ..hers }]
        {
            assert_eq!(by("anns/file", &other, true), -1);
        }
        // The name leads elsewhere by now.
        let secret = id(&at.join("secret"));
        std::fs::rename(at.join("anns/file"), at.join("anns/old")).expect("mine");
        symlink(at.join("secret"), at.join("anns/file")).expect("a link");
        assert_eq!(by("anns/file", &secret, true), libc::ELOOP);
        assert_eq!(by("anns/old", &secret, true), -1);
        // An open file of procfs is another process's than its name.
        let path = format!("/proc/{}/environ", std::process::id()).into_bytes();
        let environ = id(Path::new(std::str::from_utf8(&path).expect("ASCII")));
        let opened = file(Place { path: &path, id: Some(&environ) }, OFlags::RDONLY, &opener(&[ANN], 0, true));
        assert_eq!(errno(opened), libc::EACCES);
        std::fs::remove_dir_all(&at).expect("mine");
    }
}
