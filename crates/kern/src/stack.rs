//! A stack of known size for the main thread, whose own is as small as the user's limit says (setrlimit(2), RLIMIT_STACK).

use crate::standin::{raw, Slot};

/// Sizes that are tried one after the other, in bytes, where the address space is limited: the last is less than a program with many options needs.
const SIZES: [usize; 4] = [8 << 20, 2 << 20, 512 << 10, 256 << 10];
const GUARD: usize = 64 << 10;

struct Job<F, T> {
    code: Option<F>,
    result: Option<T>,
}

/// Runs `code` in the calling thread, on a stack that no limit makes smaller. Without room for that, on the stack that it has.
pub fn with_room<T, F: FnOnce() -> T>(code: F) -> T {
    let mut job = Job { code: Some(code), result: None };
    let argument: *mut Job<F, T> = &raw mut job;
    match SIZES.into_iter().find_map(reserve) {
        // SAFETY: the mapping is new, its end is a multiple of the page size, and it is never unmapped. The job lives until the code has come back.
        Some(end) => unsafe { raw::on_stack(end, run::<F, T>, argument.cast()) },
        None => run::<F, T>(argument.cast()),
    }
    match job.result {
        Some(result) => result,
        None => std::process::abort(),
    }
}

extern "C" fn run<F: FnOnce() -> T, T>(job: *mut Slot) {
    // SAFETY: only `with_room` calls it, with its job, which nobody else uses meanwhile.
    let job = unsafe { &mut *job.cast::<Job<F, T>>() };
    job.result = job.code.take().map(|code| code());
}

/// The upper end of a new stack.
fn reserve(bytes: usize) -> Option<u64> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_STACK;
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a fresh mapping at an address of the kernel's choice, of which the lowest part is made a guard.
    unsafe {
        let at = libc::mmap(std::ptr::null_mut(), bytes + GUARD, access, flags, -1, 0);
        if at == libc::MAP_FAILED {
            return None;
        }
        libc::mprotect(at, GUARD, libc::PROT_NONE);
        libc::madvise(at, bytes + GUARD, libc::MADV_NOHUGEPAGE);
        Some(at as u64 + (bytes + GUARD) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_runs_on_the_other_stack_and_its_result_comes_back() {
        let here = 0u8;
        let (far, sum) = with_room(|| {
            let there = [1u8; 128 << 10];
            let distance = (&raw const there as usize).abs_diff(&raw const here as usize);
            (distance, there.iter().map(|&b| usize::from(b)).sum::<usize>())
        });
        assert_eq!(sum, 128 << 10);
        assert!(far > 64 << 10);
    }
}
