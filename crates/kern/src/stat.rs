//! What a file is, as far as this kernel knows without asking whoever serves the file system: an ordinary user may serve one (FUSE), and
//! need not answer. For whoever must not wait for a user.

use crate::sys;
use std::mem::MaybeUninit;
use std::path::Path;

/// Attributes as the kernel has them at hand; of a file system that is asked for them (FUSE, NFS) they may be old.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Known {
    /// The file system's device number, and the file's number in it.
    pub dev: (u32, u32),
    pub ino: u64,
    /// Of a device file, the device's number.
    pub rdev: (u32, u32),
    /// Type and permissions (inode(7)).
    pub mode: u16,
}

/// The file at `path`, symbolic links and the links of /proc followed. `None` when there is none. Never waits for a server, unless `path`
/// itself leads through its directories.
pub fn known(path: &Path) -> Option<Known> {
    let path = sys::cstring(path.as_os_str().as_encoded_bytes()).ok()?;
    let mut found = MaybeUninit::<libc::statx>::zeroed();
    let mask = libc::STATX_BASIC_STATS;
    // SAFETY: a live string, and room for one statx that the kernel writes to.
    let ret = unsafe { libc::statx(libc::AT_FDCWD, path.as_ptr(), libc::AT_STATX_DONT_SYNC, mask, found.as_mut_ptr()) };
    sys::check(ret.into()).ok()?;
    // SAFETY: zeros are a valid statx, and the call has filled it.
    let found = unsafe { found.assume_init() };
    let dev = (found.stx_dev_major, found.stx_dev_minor);
    Some(Known { dev, ino: found.stx_ino, rdev: (found.stx_rdev_major, found.stx_rdev_minor), mode: found.stx_mode })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn it_is_what_stat_says() {
        let path = Path::new("/proc/self/exe");
        let (known, stat) = (known(path).expect("this program"), std::fs::metadata(path).expect("this program"));
        assert_eq!((known.ino, u32::from(known.mode)), (stat.ino(), stat.mode()));
        assert_eq!(super::known(Path::new("/no/such/file")), None);
    }
}
