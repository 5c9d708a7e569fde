//! The memory of another process: copied by process_vm_readv(2) where its protection allows, and through /proc/PID/mem where not.

use crate::proc::PROC;
use crate::sys;
use std::fs::File;
use std::os::unix::fs::FileExt;
use vocab::{Fault, Pid, Result};

/// The memory of one process, as who may trace it sees it. It stays that process's memory until the process executes or ends.
pub struct RemoteMemory {
    pid: Pid,
    file: File,
}

/// Reads all of `into` from `address` of this process, for which it needs no right: one that has some by its file may not open its own /proc/PID/mem (linux:
/// `proc_pid_make_inode`, a task that is not dumpable).
///
/// # Errors
/// `Sys` with EFAULT where there is nothing that can be read.
pub fn read_own(address: u64, into: &mut [u8]) -> Result<()> {
    let pid = std::process::id() as i32;
    let local = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    let from = libc::iovec { iov_base: address as *mut _, iov_len: into.len() };
    // SAFETY: the local piece is a live, writable slice; what is not there at the address the kernel says.
    let got = unsafe { libc::process_vm_readv(pid, &local, 1, &from, 1, 0) };
    let failed = |errno| Fault::sys(errno, format!("read {} bytes at {address:#x} of this process", into.len()));
    match sys::check(got as i64).map_err(failed)? == into.len() as i64 {
        true => Ok(()),
        false => Err(failed(libc::EFAULT)),
    }
}

impl RemoteMemory {
    /// # Errors
    /// `Sys` with EACCES for who may not trace it, ESRCH or ENOENT when it is gone.
    pub fn open(pid: Pid) -> Result<RemoteMemory> {
        let path = format!("{PROC}/{pid}/mem");
        let file = std::fs::OpenOptions::new().read(true).write(true).open(&path);
        let file = file.map_err(|e| Fault::io(&e, format!("open {path}")))?;
        Ok(RemoteMemory { pid, file })
    }

    /// Whose it is.
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// Reads all of `into` from `address`, whatever the protection of the pages.
    pub fn read(&self, address: u64, into: &mut [u8]) -> Result<()> {
        self.file
            .read_exact_at(into, address)
            .map_err(|e| Fault::io(&e, format!("read {} bytes at {address:#x} of process {}", into.len(), self.pid)))
    }

    /// Writes all of `bytes` at `address`, also into pages that the process itself may only read or execute (linux: `mem_rw`,
    /// FOLL_FORCE); a private file page becomes a copy.
    pub fn write(&self, address: u64, bytes: &[u8]) -> Result<()> {
        self.file
            .write_all_at(bytes, address)
            .map_err(|e| Fault::io(&e, format!("write {} bytes at {address:#x} of process {}", bytes.len(), self.pid)))
    }

    /// Reads ranges (address, length) one behind the other into `into`, with few calls: at most 1024 ranges. For pages that the
    /// process may read; returns how many bytes were read before the first that it may not.
    pub fn read_ranges(&self, ranges: &[(u64, usize)], into: &mut [u8]) -> Result<usize> {
        let local = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
        let remote: Vec<libc::iovec> =
            ranges.iter().map(|&(at, length)| libc::iovec { iov_base: at as *mut _, iov_len: length }).collect();
        // SAFETY: the local piece is a live, writable slice; the remote addresses are the other process's and are only numbers here.
        let got = unsafe { libc::process_vm_readv(self.pid.0, &local, 1, remote.as_ptr(), remote.len() as u64, 0) };
        match sys::check(got as i64) {
            Ok(got) => Ok(got as usize),
            Err(libc::EFAULT) => Ok(0),
            Err(errno) => Err(Fault::sys(errno, format!("read memory of process {}", self.pid))),
        }
    }
}

impl RemoteMemory {
    /// Writes all of `bytes` at `address`, faster than [`RemoteMemory::write`] and only where the process itself may write.
    pub fn fill(&self, address: u64, bytes: &[u8]) -> Result<()> {
        let mut done = 0;
        while done < bytes.len() {
            let rest = &bytes[done..];
            let local = libc::iovec { iov_base: rest.as_ptr() as *mut _, iov_len: rest.len() };
            let remote = libc::iovec { iov_base: (address + done as u64) as *mut _, iov_len: rest.len() };
            // SAFETY: the local piece is a live slice, which is only read; the remote address is only a number here.
            let got = unsafe { libc::process_vm_writev(self.pid.0, &local, 1, &remote, 1, 0) };
            let at = address + done as u64;
            let doing = || format!("write {} bytes at {at:#x} of process {}", rest.len(), self.pid);
            done += sys::checked(got as i64, doing)? as usize;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of this process itself, which may always.
    #[test]
    fn reads_and_writes_where_it_says() {
        let mut here = *b"before";
        let memory = RemoteMemory::open(Pid(std::process::id() as i32)).expect("own memory");
        let at = &raw mut here as u64;
        memory.write(at + 1, b"ar").expect("own");
        let mut read = [0; 6];
        memory.read(at, &mut read).expect("own");
        assert_eq!(&read, b"barore");
        let mut two = [0; 4];
        assert_eq!(memory.read_ranges(&[(at, 2), (at + 4, 2)], &mut two).expect("own"), 4);
        assert_eq!(&two, b"bare");
        assert_eq!(memory.read_ranges(&[(at, 2), (0, 2)], &mut two).expect("the first only"), 2);
        assert_eq!(memory.read(0, &mut two).map_err(|fault| fault.errno), Err(libc::EIO));
        std::hint::black_box(&mut here);
    }
}
