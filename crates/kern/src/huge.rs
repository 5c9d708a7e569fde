//! Huge pages for the memory of another process (MADV_COLLAPSE, Linux 6.1; proc_buddyinfo(5)).

use crate::proc::PROC;
use crate::sys;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Of a huge page, in bytes.
pub const HUGE: u64 = 2 * 1024 * 1024;
/// The number of its small pages is 2 to this.
const ORDER: usize = 9;

/// How many huge pages the kernel can give without having to make room for them; 0 if it does not tell.
pub fn free_blocks() -> u64 {
    count(&std::fs::read_to_string(format!("{PROC}/buddyinfo")).unwrap_or_default())
}

/// `Node 0, zone   Normal   1346   1001 …`: how many blocks of 1, 2, 4 … pages are free.
fn count(text: &str) -> u64 {
    let blocks = |line: &str| -> u64 {
        let counts = line.split_whitespace().skip(4 + ORDER).filter_map(|word| word.parse::<u64>().ok());
        counts.enumerate().map(|(order, count)| count << order).sum()
    };
    text.lines().map(blocks).sum()
}

/// Makes the small pages of `start..start + length` in the process behind `pidfd` huge ones, those that are missing included if there is
/// one in each; both numbers are multiples of [`HUGE`]. What the process may see of its mapping stays as it is.
///
/// # Errors
/// EPERM without CAP_SYS_NICE; EINVAL where the process wants no huge pages; EAGAIN, ENOMEM when the kernel has none.
pub fn collapse(pidfd: BorrowedFd<'_>, start: u64, length: u64) -> Result<(), i32> {
    const MADV_COLLAPSE: i32 = 25;
    let range = libc::iovec { iov_base: start as *mut _, iov_len: length as usize };
    // SAFETY: one iovec, which is live; the address in it is the other process's and only a number here.
    let done =
        unsafe { libc::syscall(libc::SYS_process_madvise, pidfd.as_raw_fd(), &raw const range, 1, MADV_COLLAPSE, 0) };
    sys::check(done).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;
    use vocab::Pid;

    #[test]
    fn blocks_of_each_order_count_by_their_size() {
        let text = "Node 0, zone      DMA      0      0      0      0      0      0      0      0      1      1      2 \n\
                    Node 0, zone   Normal     13      0      0      0      0      0      0      0      9      3      1 \n";
        assert_eq!(count(text), 1 + 4 + 3 + 2);
        assert_eq!(count("nonsense"), 0);
    }

    /// What is in memory stays, and what is not there yet is zero.
    #[test]
    fn a_collapsed_range_has_what_it_had() {
        let length = 2 * HUGE as usize;
        // SAFETY: a new mapping of two huge pages' length, which holds one at an aligned address; two bytes of that are touched.
        let at = unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let at = libc::mmap(std::ptr::null_mut(), length, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
            assert_ne!(at, libc::MAP_FAILED);
            at.cast::<u8>().wrapping_add(at.align_offset(HUGE as usize))
        };
        // SAFETY: in the mapping.
        unsafe { at.add(5).write_volatile(7) };
        let own = crate::pidfd::open(Pid(std::process::id() as i32)).expect("own");
        let done = collapse(own.as_fd(), at as u64, HUGE);
        assert!(matches!(done, Ok(()) | Err(libc::EPERM | libc::EAGAIN | libc::ENOMEM | libc::EINVAL)), "{done:?}");
        // SAFETY: in the mapping.
        assert_eq!(unsafe { (at.add(5).read_volatile(), at.add(HUGE as usize - 1).read_volatile()) }, (7, 0));
    }
}
