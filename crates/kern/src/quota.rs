//! Is there a bound on what users may write to a file system (quotactl(2))?

use std::os::fd::{AsRawFd, BorrowedFd};

/// Of linux/quota.h.
const Q_GETFMT: u32 = 0x80_0004;
const SUBCMD_SHIFT: u32 = 8;
/// USRQUOTA, GRPQUOTA and PRJQUOTA.
const KINDS: [u32; 3] = [0, 1, 2];

/// Does the kernel say that no quota of any kind counts on this file's file system? For those that use its common quotas (ext4, tmpfs).
pub fn is_off(file: BorrowedFd<'_>) -> bool {
    KINDS.iter().all(|kind| {
        let mut format = 0u32;
        // SAFETY: Q_GETFMT writes 4 bytes to `format`, which lives; the rest are numbers.
        let done = unsafe {
            let command = (Q_GETFMT << SUBCMD_SHIFT) | kind;
            libc::syscall(libc::SYS_quotactl_fd, file.as_raw_fd(), command, 0, std::ptr::from_mut(&mut format))
        };
        done == -1
            && matches!(
                std::io::Error::last_os_error().raw_os_error().unwrap_or(0),
                libc::ESRCH | libc::ENOSYS | libc::EINVAL
            )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn an_ordinary_file_system_has_none() {
        let file = std::fs::File::open("/dev/shm").expect("there");
        assert!(is_off(file.as_fd()));
    }
}
