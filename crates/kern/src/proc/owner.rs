//! Whose the files of a process's directory are.

use super::{open_at, path_of, read_on, Proc};
use crate::sys;
use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd};
use vocab::Pid;

impl Proc {
    /// Whose a file of a process directory is. Of those that are not for everybody it is root's if the process is not dumpable (linux: `task_dump_owner`); the directory itself is always the process's.
    /// Never waits.
    ///
    /// # Errors
    /// As [`Proc::stat`].
    pub fn owner(&self, pid: Pid, file: &str) -> std::result::Result<(u32, u32), i32> {
        let path = path_of(pid, file)?;
        let path = CStr::from_bytes_until_nul(&path).map_err(|_| libc::EINVAL)?;
        let mut found = MaybeUninit::<libc::stat>::zeroed();
        // SAFETY: a live C string, and room for one stat that the kernel writes to.
        let ret = unsafe {
            libc::fstatat(self.dir.as_raw_fd(), path.as_ptr(), found.as_mut_ptr(), libc::AT_SYMLINK_NOFOLLOW)
        };
        sys::check(ret.into())?;
        // SAFETY: zeros are a valid stat, and the call has filled it.
        let found = unsafe { found.assume_init() };
        Ok((found.st_uid, found.st_gid))
    }

    /// What is in a file of one record ([`Proc::read_record`]), and whose it is, as [`Proc::owner`] has it, before it is read: the path is looked up once for both.
    ///
    /// # Errors
    /// As [`Proc::read_into`].
    pub fn read_owned<'b>(
        &self,
        pid: Pid,
        file: &str,
        buffer: &'b mut [u8],
    ) -> std::result::Result<((u32, u32), &'b [u8]), i32> {
        let fd = open_at(self.dir.as_raw_fd(), &path_of(pid, file)?)?;
        let mut found = MaybeUninit::<libc::stat>::zeroed();
        // SAFETY: room for one stat that the kernel writes to.
        sys::check(unsafe { libc::fstat(fd.as_raw_fd(), found.as_mut_ptr()) }.into())?;
        // SAFETY: zeros are a valid stat, and the call has filled it.
        let found = unsafe { found.assume_init() };
        let used = read_on(fd.as_fd(), buffer)?;
        Ok(((found.st_uid, found.st_gid), &buffer[..used]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_owner_is_told_with_what_is_read() {
        let (proc, me) = (Proc::open("/proc").expect("procfs"), Pid(std::process::id() as i32));
        let mut buffer = [0; 4096];
        let (owner, text) = proc.read_owned(me, "stat", &mut buffer).expect("I live");
        assert_eq!(Ok(owner), proc.owner(me, "stat"));
        assert!(text.starts_with(format!("{me} (").as_bytes()));
        assert_eq!(proc.read_owned(Pid(0x3f_fff0), "stat", &mut buffer), Err(libc::ENOENT));
    }
}
