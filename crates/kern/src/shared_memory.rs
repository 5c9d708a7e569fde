//! Shared memory without a name as a file, so that several mappings can be of the same one.

use crate::proc::PROC;
use crate::sys;
use std::fs::File;
use std::os::fd::OwnedFd;
use vocab::{Fault, Result};

/// What mmap(2) makes for MAP_SHARED | MAP_ANONYMOUS, as a file to be mapped in other processes: /proc shows it as theirs would be.
/// `length` in bytes; `reserved`: without MAP_NORESERVE; `page`: bytes of its pages, where they are huge ones from the pool, else 0. Wants CAP_CHECKPOINT_RESTORE (proc_pid_map_files(5)).
///
/// # Errors
/// ENOMEM for more than the machine will set aside; EPERM.
pub fn anonymous(length: u64, reserved: bool, page: u64) -> Result<OwnedFd> {
    let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS | if reserved { 0 } else { libc::MAP_NORESERVE };
    let flags = flags | if page == 0 { 0 } else { crate::pool::mmap_flags(page) };
    let length = length.max(1) as usize;
    // SAFETY: a new mapping at an address of the kernel's.
    let at = unsafe { libc::mmap(std::ptr::null_mut(), length, libc::PROT_NONE, flags, -1, 0) };
    if at == libc::MAP_FAILED {
        return Err(Fault::io(&std::io::Error::last_os_error(), format!("make {length} bytes of shared memory")));
    }
    let end = at as usize + length.next_multiple_of(page.max(4096) as usize);
    let path = format!("{PROC}/self/map_files/{:x}-{end:x}", at as usize);
    let file = File::options().read(true).write(true).open(&path).map_err(|e| Fault::io(&e, format!("open {path}")));
    // SAFETY: the mapping that was just made, of which nobody else knows.
    sys::checked(unsafe { libc::munmap(at, end - at as usize) }.into(), || "unmap shared memory".into())?;
    file.map(OwnedFd::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{FileExt, MetadataExt};

    #[test]
    fn is_a_file_of_its_length_that_can_be_read_and_written() {
        let file = File::from(anonymous(3 * 4096, true, 0).expect("room"));
        assert_eq!(file.metadata().expect("open").size(), 3 * 4096);
        file.write_all_at(b"here", 5000).expect("within");
        let mut read = [0; 4];
        file.read_exact_at(&mut read, 5000).expect("within");
        assert_eq!(&read, b"here");
    }
}
