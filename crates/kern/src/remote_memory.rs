//! The memory of another process: copied by process_vm_readv(2) where its protection allows, and through /proc/PID/mem where not.

use crate::proc::whole;
use crate::proc::PROC;
use crate::sys;
use std::fs::File;
use std::os::unix::fs::FileExt;
use vocab::{Fault, Pid, Result};

/// In auxv: the address of 16 bytes that the kernel has chosen at random for the program (getauxval(3)).
const AT_RANDOM: u64 = 25;

/// The memory of one process, as who may trace it sees it. It stays that process's memory until the process executes or ends: the file is then still of the
/// old memory ([`RemoteMemory::is_current`]), while what is done by the number, which is faster, acts on the new one, which may be root's. So of a process
/// that may run only [`RemoteMemory::read_running`] and [`RemoteMemory::read`] are of use.
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

    /// Reads of a process that may run: as much of `into` as there is at `address` before the first page that cannot be read.
    ///
    /// # Errors
    /// `Changed` when the process has left this memory, and nobody has it any more.
    pub fn read_running(&self, address: u64, into: &mut [u8]) -> Result<usize> {
        let mut done = 0;
        while done < into.len() {
            match self.file.read_at(&mut into[done..], address + done as u64) {
                Ok(0) => return Err(self.left()),
                Ok(got) => done += got,
                Err(e) if e.raw_os_error() == Some(libc::EIO) => break,
                Err(e) => return Err(Fault::io(&e, format!("read memory of process {}", self.pid))),
            }
        }
        Ok(done)
    }

    fn left(&self) -> Fault {
        Fault::changed(format!("process {} has ended, or executed another program, meanwhile", self.pid))
    }

    /// Of a process that stands still: is this, which was opened while it ran, the memory that it has now? A program that it has executed since may have other
    /// rights, and the old memory may still be somebody's (clone(2), CLONE_VM), who can make anything of it but the 16 bytes that the kernel has given to the
    /// new program. `None` when these cannot be read.
    ///
    /// # Errors
    /// `Gone`.
    pub fn is_current(&self) -> Result<Option<bool>> {
        let now = RemoteMemory::open(self.pid)?;
        let path = format!("{PROC}/{}/auxv", self.pid);
        let auxv = whole(&path).map_err(|e| Fault::io(&e, format!("read {path}")))?;
        let (mut here, mut there) = ([0; 16], [0; 16]);
        let Some(at) = random_bytes(&auxv) else { return Ok(None) };
        if now.read(at, &mut here).is_err() {
            return Ok(None);
        }
        match self.file.read_exact_at(&mut there, at) {
            Ok(()) => Ok(Some(here == there)),
            Err(_) => Ok(Some(false)),
        }
    }

    /// Reads ranges (address, length) one behind the other into `into`, with few calls: at most 1024 ranges. For a process that stands still, and pages that
    /// it may read; returns how many bytes were read before the first that it may not.
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

/// Where [`AT_RANDOM`] points, in pairs of words of a 64-bit program or of a 32-bit one.
fn random_bytes(auxv: &[u8]) -> Option<u64> {
    let word = |bytes: &[u8]| bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
    let find = |size: usize| {
        let mut pairs = auxv.chunks_exact(2 * size).map(|pair| (word(&pair[..size]), word(&pair[size..])));
        pairs.find(|(kind, _)| *kind == AT_RANDOM).map(|(_, at)| at)
    };
    find(8).or_else(|| find(4))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_bytes_are_found_in_both_layouts() {
        let words = [6u64, 4096, AT_RANDOM, 0x7fff_1234, 0, 0];
        let long: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let short: Vec<u8> = words.iter().flat_map(|word| (*word as u32).to_le_bytes()).collect();
        assert_eq!((random_bytes(&long), random_bytes(&short)), (Some(0x7fff_1234), Some(0x7fff_1234)));
        assert_eq!(random_bytes(&long[..32][..16]), None);
    }

    /// The old memory is still that of a process that was made with CLONE_VM.
    #[test]
    fn the_memory_of_a_program_that_is_left_is_told_from_that_of_the_next() {
        for is_shared in [false, true] {
            let mut stack = vec![0u128; 1024];
            // SAFETY: a child that makes calls only, with live strings; what it makes with CLONE_VM has a stack of its own and only waits.
            let child = unsafe {
                let child = libc::fork();
                if child == 0 {
                    // All of its group is killed in the end: a process that waits would keep what the tests write to open.
                    libc::setpgid(0, 0);
                    if is_shared {
                        extern "C" fn waits(_: *mut libc::c_void) -> i32 {
                            // SAFETY: takes nothing.
                            unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
                            loop {
                                // SAFETY: takes nothing.
                                unsafe { libc::pause() };
                            }
                        }
                        let top = stack.as_mut_ptr().add(1024).cast();
                        libc::clone(waits, top, libc::CLONE_VM, std::ptr::null_mut());
                    }
                    libc::raise(libc::SIGSTOP);
                    let words = [c"sleep".as_ptr(), c"60".as_ptr(), std::ptr::null()];
                    libc::execvp(words[0], words.as_ptr());
                    libc::_exit(1);
                }
                child
            };
            let pid = Pid(child);
            let (mut status, mut byte) = (0, [0]);
            // SAFETY: the pointer is to a live int.
            unsafe { libc::waitpid(child, &mut status, libc::WUNTRACED) };
            let old = RemoteMemory::open(pid).expect("a child");
            assert_eq!(old.is_current(), Ok(Some(true)));
            let here = &raw const PLACE as u64;
            assert_eq!(old.read_running(here, &mut byte), Ok(1));
            crate::signal::send(pid, vocab::Sig::CONT).expect("a child");
            // A program that is being executed has no such bytes yet, and one that has not begun to be has the old ones.
            let tells = |memory: &RemoteMemory, expected: bool| {
                let begun = std::time::Instant::now();
                while memory.is_current() != Ok(Some(expected)) {
                    assert!(begun.elapsed().as_secs() < 10, "{expected}: {:?}", memory.is_current());
                    std::thread::yield_now();
                }
            };
            tells(&old, false);
            assert_eq!(old.read_running(here, &mut byte).is_ok(), is_shared);
            tells(&RemoteMemory::open(pid).expect("a child"), true);
            // SAFETY: numbers.
            unsafe { libc::kill(-child, libc::SIGKILL) };
            // SAFETY: the pointer is to a live int.
            unsafe { libc::waitpid(child, &mut status, 0) };
        }
    }

    /// In the memory of this program, and of who is forked from it.
    static PLACE: u8 = 7;

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
