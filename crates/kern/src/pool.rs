//! The pool of huge pages (linux: Documentation/admin-guide/mm/hugetlbpage.rst).

use crate::sys;
use std::os::fd::{AsRawFd, BorrowedFd};
use vocab::{Fault, Result};

/// How many huge pages of `size` bytes a program that asks for them may have: those that are free and nobody's, and those that the kernel may make beyond
/// the pool, if it finds the memory. 0 for a size that there is not.
pub fn available(size: u64) -> u64 {
    let read = |name: &str| -> u64 {
        let path = format!("/sys/kernel/mm/hugepages/hugepages-{}kB/{name}", size / 1024);
        std::fs::read_to_string(path).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
    };
    let pool = read("free_hugepages").saturating_sub(read("resv_hugepages"));
    pool + read("nr_overcommit_hugepages").saturating_sub(read("surplus_hugepages"))
}

/// The sizes of huge pages that there are, in bytes.
pub fn sizes() -> Vec<u64> {
    let all = std::fs::read_dir("/sys/kernel/mm/hugepages").into_iter().flatten().flatten();
    let size = |name: &str| name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse::<u64>().ok();
    all.filter_map(|entry| size(entry.file_name().to_str()?)).map(|kib| kib * 1024).collect()
}

/// Of mmap(2), for pages of so many bytes.
pub fn mmap_flags(page: u64) -> i32 {
    libc::MAP_HUGETLB | (page.trailing_zeros() as i32) << libc::MAP_HUGE_SHIFT
}

/// Writes into a file of huge pages of `page` bytes, as pwrite(2) does to others: hugetlbfs has no write.
///
/// # Errors
/// ENOMEM when the pool has no page left; else as mmap(2).
pub fn write_at(file: BorrowedFd<'_>, page: u64, offset: u64, bytes: &[u8]) -> Result<()> {
    let mut done = 0;
    while done < bytes.len() {
        let at = offset + done as u64;
        let (start, within) = (at - at % page, (at % page) as usize);
        let some = &bytes[done..bytes.len().min(done + page as usize - within)];
        write_within(file, start, page as usize, within, some)?;
        done += some.len();
    }
    Ok(())
}

/// Into the page that begins at `start`, behind its first bytes.
fn write_within(file: BorrowedFd<'_>, start: u64, page: usize, behind: usize, bytes: &[u8]) -> Result<()> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping at an address of the kernel's.
    let to = unsafe {
        libc::mmap(std::ptr::null_mut(), page, protection, libc::MAP_SHARED, file.as_raw_fd(), start as libc::off_t)
    };
    if to == libc::MAP_FAILED {
        return Err(Fault::io(&std::io::Error::last_os_error(), format!("map a huge page of {page} bytes")));
    }
    // SAFETY: all of it lies in the page that was just mapped, for which the pool has set one aside (no MAP_NORESERVE), and in the file (the caller has made it so long).
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to.cast::<u8>().add(behind), bytes.len()) };
    // SAFETY: the mapping that was just made, of which nobody else knows.
    sys::checked(unsafe { libc::munmap(to, page) }.into(), || "unmap a huge page".into()).map(drop)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_size_stands_in_the_flags() {
        assert_eq!(super::mmap_flags(2 << 20), libc::MAP_HUGETLB | libc::MAP_HUGE_2MB);
        assert_eq!(super::mmap_flags(1 << 30), libc::MAP_HUGETLB | libc::MAP_HUGE_1GB);
    }

    #[test]
    fn the_kernel_agrees() {
        let text = std::fs::read_to_string("/proc/meminfo").expect("there");
        let of = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().next());
        let size = of("Hugepagesize:").and_then(|kib| kib.parse::<u64>().ok()).expect("on x86-64") * 1024;
        let free = of("HugePages_Free:").and_then(|pages| pages.parse::<u64>().ok()).expect("a number");
        let reserved = of("HugePages_Rsvd:").and_then(|pages| pages.parse::<u64>().ok()).expect("a number");
        assert!(super::available(size) >= free - reserved && super::sizes().contains(&size));
        assert_eq!(super::available(12345 * 1024), 0);
    }
}
