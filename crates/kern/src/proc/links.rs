//! Where the links of a process lead.

use super::{path_of, Proc};
use crate::sys;
use std::ffi::CStr;
use std::os::fd::AsRawFd;
use vocab::Pid;

/// What a path has room for, in bytes (PATH_MAX): the kernel says no more of a link of /proc than a page (linux: `do_proc_readlink`).
const MOST: usize = 4096;

impl Proc {
    /// Where a link below a process's directory leads, as readlink(2) says: exe, cwd, root, `fd/N`. For daemons: the kernel takes no lock that is held while somebody
    /// waits, and asks no file system (linux: `proc_pid_readlink`, `d_path`).
    ///
    /// # Errors
    /// As [`Proc::stat`]; EACCES where the process may not be traced.
    pub fn link(&self, pid: Pid, path: &str) -> std::result::Result<Vec<u8>, i32> {
        let path = path_of(pid, path)?;
        let path = CStr::from_bytes_until_nul(&path).map_err(|_| libc::EINVAL)?;
        let mut to = vec![0u8; MOST];
        // SAFETY: a live C string, and room for as many bytes as are said, which the kernel writes to.
        let ret = unsafe { libc::readlinkat(self.dir.as_raw_fd(), path.as_ptr(), to.as_mut_ptr().cast(), to.len()) };
        to.truncate(sys::check(ret as i64)? as usize);
        Ok(to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt;

    #[test]
    fn links_lead_where_readlink_says() {
        let proc = Proc::open("/proc").expect("procfs");
        let me = Pid(std::process::id() as i32);
        for name in ["exe", "cwd", "root", "task/self/cwd"] {
            let expected = std::fs::read_link(format!("/proc/self/{name}"));
            let expected = expected.map(|to| to.as_os_str().as_bytes().to_vec()).map_err(|e| e.raw_os_error());
            assert_eq!(proc.link(me, name).map_err(Some), expected, "{name}");
        }
        assert_eq!(proc.link(Pid(0x3f_fff0), "exe"), Err(libc::ENOENT));
    }
}
