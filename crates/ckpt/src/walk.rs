//! The way to a file by its name, on which nobody but root has put a link.
//!
//! Names of open files (/proc/PID/fd) have no links in them: one that is met was made after the file was opened, or on another machine. Links that root has made there
//! are that machine's layout (/home → /export/home); anybody else's could lead anywhere.

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, Stat, CWD};
use rustix::io::{Errno, Result};
use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path};

const FOUND: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);
/// Links on one way (linux: MAXSYMLINKS).
const MOST_LINKS: usize = 40;

/// A file that is pinned: open with O_PATH.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) fd: OwnedFd,
    /// Nobody but root can exchange anything on the way.
    pub(crate) fixed: bool,
}

/// Finds the file with the rights of the calling thread.
///
/// # Errors
/// ELOOP for a link that is not root's; as open(2).
pub(crate) fn walk(path: &[u8]) -> Result<OwnedFd> {
    let how = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    match rustix::fs::openat2(CWD, path, FOUND, Mode::empty(), how) {
        Err(Errno::LOOP | Errno::NOSYS) => walk_carefully(path).map(|found| found.fd),
        found => found,
    }
}

/// The same part by part, which tells whose the way is.
///
/// # Errors
/// As [`walk`].
pub(crate) fn walk_carefully(path: &[u8]) -> Result<Found> {
    if path.first() != Some(&b'/') {
        return Err(Errno::INVAL);
    }
    let (mut rest, mut links) = (parts(Path::new(OsStr::from_bytes(path))), 0);
    let mut at = Found { fd: rustix::fs::open("/", FOUND, Mode::empty())?, fixed: true };
    while let Some(name) = rest.pop_front() {
        let directory = rustix::fs::fstat(&at.fd)?;
        let fd = rustix::fs::openat(&at.fd, &name, FOUND | OFlags::NOFOLLOW, Mode::empty())?;
        let next = rustix::fs::fstat(&fd)?;
        let fixed = at.fixed && is_fixed(&directory, &next);
        if FileType::from_raw_mode(next.st_mode) != FileType::Symlink {
            at = Found { fd, fixed };
            continue;
        }
        links += 1;
        if !fixed || next.st_uid != 0 || links > MOST_LINKS {
            return Err(Errno::LOOP);
        }
        let target = OsString::from_vec(rustix::fs::readlinkat(&fd, "", Vec::new())?.into_bytes());
        let target = Path::new(&target);
        if target.is_absolute() {
            at.fd = rustix::fs::open("/", FOUND, Mode::empty())?;
        }
        let mut way = parts(target);
        way.append(&mut rest);
        rest = way;
    }
    Ok(at)
}

fn parts(path: &Path) -> VecDeque<OsString> {
    let name = |part: Component<'_>| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    };
    path.components().filter_map(name).collect()
}

/// Is it for root alone to exchange this entry of the directory?
fn is_fixed(directory: &Stat, entry: &Stat) -> bool {
    const OTHERS_WRITE: u32 = 0o022;
    const STICKY: u32 = 0o1000;
    let others = directory.st_mode & OTHERS_WRITE != 0;
    directory.st_uid == 0 && (!others || directory.st_mode & STICKY != 0 && entry.st_uid == 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{chown, lchown, symlink, PermissionsExt};

    #[test]
    fn links_are_followed_where_root_alone_could_have_made_them() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let base = std::env::temp_dir().canonicalize().expect("there").join(format!("walk.{}", std::process::id()));
        let (roots, anns) = (base.join("roots"), base.join("anns"));
        for directory in [&base, &roots, &anns] {
            std::fs::create_dir(directory).expect("a new one");
            std::fs::set_permissions(directory, PermissionsExt::from_mode(0o755)).expect("mine");
        }
        chown(&anns, Some(61001), Some(61001)).expect("mine");
        std::fs::write(roots.join("file"), "x").expect("a file");
        std::fs::create_dir(anns.join("in")).expect("a new one");
        for (link, target) in [
            (roots.join("up"), "../roots/file".to_owned()),
            (roots.join("dir"), roots.display().to_string()),
            (anns.join("to"), roots.join("file").display().to_string()),
            (roots.join("round"), "round".to_owned()),
            (roots.join("of_ann"), "file".to_owned()),
        ] {
            symlink(target, link).expect("a link");
        }
        lchown(roots.join("of_ann"), Some(61001), Some(61001)).expect("mine");
        let to = |path: &Path| walk(path.as_os_str().as_bytes()).map(|fd| rustix::fs::fstat(fd).expect("open").st_ino);
        let file = to(&roots.join("file"));
        assert!(file.is_ok());
        assert_eq!(to(&roots.join("up")), file);
        assert_eq!(to(&roots.join("dir/file")), file);
        // The link is root's, but its directory is not: its owner may have brought it there.
        for path in ["anns/to", "roots/round", "roots/of_ann"] {
            assert_eq!(to(&base.join(path)), Err(Errno::LOOP), "{path}");
        }
        assert_eq!(to(&roots.join("none")), Err(Errno::NOENT));
        assert_eq!(to(Path::new("roots/file")), Err(Errno::NOENT));
        let fixed = |path: &Path| walk_carefully(path.as_os_str().as_bytes()).expect("there").fixed;
        assert!(fixed(&roots.join("file")) && fixed(&anns) && !fixed(&anns.join("in")));
        std::fs::set_permissions(&roots, PermissionsExt::from_mode(0o777)).expect("mine");
        assert!(!fixed(&roots.join("file")));
        assert_eq!(to(&roots.join("up")), Err(Errno::LOOP));
        std::fs::set_permissions(&roots, PermissionsExt::from_mode(0o1777)).expect("mine");
        assert!(fixed(&roots.join("file")));
        std::fs::remove_dir_all(&base).expect("mine");
    }
}
