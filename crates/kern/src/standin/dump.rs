//! A stand-in's core: none, or one without any memory in it, into the tree of the hold file, where it goes nowhere (see [`crate::fuse`]).

use super::raw;

const RLIMIT_CORE: u64 = libc::RLIMIT_CORE as u64;

/// Its own limit is 0 and it is not dumpable.
pub(super) fn will_not_dump() {
    let none = [0u64; 2];
    // SAFETY: the limit is read from a live struct; the rest takes numbers.
    unsafe {
        raw::call(libc::SYS_prlimit64, [0, RLIMIT_CORE, (&raw const none) as u64, 0, 0, 0]);
    }
    set_dumpable(false);
}

/// What core_pattern names is made in the directory of the file `fd`, if that is a name alone: the daemon does not ask for a core otherwise. False when it
/// cannot be arranged.
///
/// No other process may share this memory: it would be dumpable too.
pub(super) fn will_dump(fd: i32) -> bool {
    let mut limit = [0u64; 2];
    // SAFETY: numbers, live structs of the kernel's size, strings that end with NUL.
    unsafe {
        set_dumpable(true); // or its own /proc is not its user's
        let mut ret = raw::call(libc::SYS_prlimit64, [0, RLIMIT_CORE, 0, (&raw mut limit) as u64, 0, 0]);
        if ret == 0 {
            limit[0] = limit[1];
            ret = raw::call(libc::SYS_prlimit64, [0, RLIMIT_CORE, (&raw const limit) as u64, 0, 0, 0]);
        }
        // The others that came from here have their working directory from here too.
        ret == 0
            && raw::call(libc::SYS_unshare, [libc::CLONE_FS as u64, 0, 0, 0, 0, 0]) == 0
            && no_memory()
            && go_beside(fd)
    }
}

fn set_dumpable(dumpable: bool) {
    // SAFETY: numbers.
    unsafe { raw::call(libc::SYS_prctl, [libc::PR_SET_DUMPABLE as u64, dumpable.into(), 0, 0, 0, 0]) };
}

/// Nothing of the memory is in the core (core(5), coredump_filter).
fn no_memory() -> bool {
    let path = c"/proc/self/coredump_filter".as_ptr() as u64;
    // SAFETY: a string that ends with NUL, and a live byte.
    unsafe {
        let fd = raw::call(libc::SYS_openat, [libc::AT_FDCWD as u64, path, libc::O_WRONLY as u64, 0, 0, 0]);
        if fd < 0 {
            return false;
        }
        let written = raw::call(libc::SYS_write, [fd as u64, c"0".as_ptr() as u64, 1, 0, 0, 0]);
        raw::call(libc::SYS_close, [fd as u64, 0, 0, 0, 0, 0]);
        written == 1
    }
}

/// Makes the directory of the file `fd` the working directory.
fn go_beside(fd: i32) -> bool {
    let mut link = *b"/proc/self/fd/\0\0\0\0\0\0\0\0\0\0\0\0";
    number(fd, &mut link[14..]);
    let mut path = [0u8; 4096];
    // SAFETY: a string that ends with NUL, and a live buffer one longer than what may be written to it.
    unsafe {
        let to = [libc::AT_FDCWD as u64, link.as_ptr() as u64, path.as_mut_ptr() as u64, 4095, 0, 0];
        let length = raw::call(libc::SYS_readlinkat, to);
        let mut written = path.iter().take(usize::try_from(length).unwrap_or(0));
        let Some(end) = written.rposition(|byte| *byte == b'/') else { return false };
        path[end] = 0;
        raw::call(libc::SYS_chdir, [path.as_ptr() as u64, 0, 0, 0, 0, 0]) == 0
    }
}

/// `n` in decimal.
fn number(n: i32, to: &mut [u8]) {
    let mut digits = [0u8; 10];
    let (mut rest, mut count) = (n.unsigned_abs(), 0);
    loop {
        digits[count] = b'0' + (rest % 10) as u8;
        (rest, count) = (rest / 10, count + 1);
        if rest == 0 {
            break;
        }
    }
    for (to, digit) in to.iter_mut().zip(digits[..count].iter().rev()) {
        *to = *digit;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_people_do() {
        for n in [0, 7, 10, 345, i32::MAX] {
            let mut text = [0; 12];
            number(n, &mut text);
            assert_eq!(String::from_utf8_lossy(&text).trim_end_matches('\0'), n.to_string());
        }
    }
}
