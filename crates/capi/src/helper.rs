//! A program that does something for this process and is not its child: what starts it has ended, and was waited for, when it runs.

use std::ffi::{c_int, c_void, CStr, CString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr::{null, null_mut};
use vocab::{Fault, Result};

const NULL: &CStr = c"/dev/null";
/// Where the program is, if the environment is not believed.
const PLACES: &str = "/usr/local/bin:/usr/bin:/bin";
/// Bytes of the stack of each of the two.
const STACK: usize = 64 * 1024;

/// A lock of /dev/null: of the byte at `place`, since all who do this have the same file.
pub(crate) fn lock(kind: c_int, place: i64) -> libc::flock {
    let (l_type, l_whence) = (kind as libc::c_short, libc::SEEK_SET as libc::c_short);
    libc::flock { l_type, l_whence, l_start: place, l_len: 1, l_pid: 0 }
}

/// What both read. They share the memory of this process, one of whose threads stands still for them.
struct Start {
    program: CString,
    arguments: Vec<*const libc::c_char>,
    lock: libc::flock,
    /// Input and output; -1: none.
    streams: [c_int; 2],
    /// The end of the stack for the second.
    stack: *mut c_void,
    /// Why it has not begun.
    errno: c_int,
}

/// Starts `shoal` with these arguments. It holds the lock of the byte at `place` for writing until it ends; its streams are /dev/null, but for its standard input and output, where
/// these are to be descriptors of ours, and it has a session of its own.
///
/// # Errors
/// `Gone` when there is no such program.
pub(crate) fn start(arguments: &[&str], streams: [Option<c_int>; 2], place: i64) -> Result<()> {
    let program =
        program().ok_or_else(|| Fault::gone("the program shoal, which neither SHOAL_PROGRAM nor PATH leads to"))?;
    let failed = |errno| Fault::sys(errno, format!("start {}", program.display()));
    let text = |bytes: &[u8]| CString::new(bytes).map_err(|_| failed(libc::EINVAL));
    let words = std::iter::once("shoal").chain(arguments.iter().copied());
    let words: Vec<CString> = words.map(|word| text(word.as_bytes())).collect::<Result<_>>()?;
    let mut stacks = vec![0u128; 2 * STACK / size_of::<u128>()];
    let half = stacks.len() / 2;
    let ends = (stacks[half..].as_mut_ptr(), stacks.as_mut_ptr_range().end);
    let mut start = Start {
        program: text(program.as_os_str().as_bytes())?,
        arguments: words.iter().map(|word| word.as_ptr()).chain([null()]).collect(),
        lock: lock(libc::F_WRLCK, place),
        streams: streams.map(|fd| fd.unwrap_or(-1)),
        stack: ends.1.cast(),
        errno: 0,
    };
    // No handler of the program is to run in those who share its memory.
    let mask = block_all();
    let done = clone(first, ends.0.cast(), &raw mut start).and_then(wait);
    set_mask(&mask);
    match (done, start.errno) {
        (Ok(()), 0) => Ok(()),
        (Ok(()), errno) | (Err(errno), _) => Err(failed(errno)),
    }
}

/// The program `shoal`.
pub(crate) fn program() -> Option<PathBuf> {
    let is_program = |path: &Path| {
        let path = CString::new(path.as_os_str().as_bytes()).ok();
        // SAFETY: a path that ends with a zero.
        path.is_some_and(|path| unsafe { libc::access(path.as_ptr(), libc::X_OK) } == 0)
    };
    // The environment of a program that has more rights than its caller is the caller's word (ld.so(8), secure-execution mode).
    // SAFETY: a number.
    let is_believed = unsafe { libc::getauxval(libc::AT_SECURE) } == 0;
    if let Some(said) = std::env::var_os("SHOAL_PROGRAM").filter(|said| is_believed && !said.is_empty()) {
        return Some(PathBuf::from(said)).filter(|path| is_program(path));
    }
    let path = if is_believed { std::env::var_os("PATH")? } else { PLACES.into() };
    let found = std::env::split_paths(&path).map(|directory| directory.join("shoal")).find(|path| is_program(path));
    found
}

fn errno() -> c_int {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)
}

/// A child that has the memory of this process for as long as the calling thread stands still: until it has executed a program or ended. Its end sends no signal, and only who asks for such children
/// waits for it (clone(2), __WCLONE).
fn clone(
    what: extern "C" fn(*mut c_void) -> c_int,
    stack: *mut c_void,
    start: *mut Start,
) -> std::result::Result<c_int, c_int> {
    // SAFETY: the stack is as large as it needs, nobody else has it, and it is 16-byte aligned at its end. The child touches nothing but it and `start`, which are live
    // until it is gone, since the calling thread stands still (CLONE_VFORK); no handler runs in it, since all signals are blocked.
    match unsafe { libc::clone(what, stack, libc::CLONE_VM | libc::CLONE_VFORK, start.cast()) } {
        -1 => Err(errno()),
        pid => Ok(pid),
    }
}

/// Its status says nothing. Another thread may have waited for it, if it waits for all sorts of children.
fn wait(pid: c_int) -> std::result::Result<(), c_int> {
    loop {
        // SAFETY: it writes no status.
        if unsafe { libc::waitpid(pid, null_mut(), libc::__WALL) } == pid {
            return Ok(());
        }
        match errno() {
            libc::EINTR => {}
            libc::ECHILD => return Ok(()),
            other => return Err(other),
        }
    }
}

fn block_all() -> libc::sigset_t {
    // SAFETY: a set is plain numbers, and both are live.
    unsafe {
        let (mut all, mut before) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const all, &raw mut before);
        before
    }
}

fn set_mask(mask: &libc::sigset_t) {
    // SAFETY: the set is live.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, mask, null_mut()) };
}

/// The first: the lock is taken, and the second made, whose parent ends then.
extern "C" fn first(start: *mut c_void) -> c_int {
    // SAFETY: it is what `start` has given, and who has given it stands still.
    let start = unsafe { &mut *start.cast::<Start>() };
    // SAFETY: system calls with what is live, in a process that has its own descriptors; nothing that takes a lock of the library or memory of its heap. `_exit` runs nothing of the program's.
    unsafe {
        libc::setsid();
        // Above the standard ones, whose places are taken.
        let null = libc::fcntl(libc::open(NULL.as_ptr(), libc::O_RDWR), libc::F_DUPFD, 3);
        let locked = null >= 0 && libc::fcntl(null, libc::F_OFD_SETLK, &raw const start.lock) == 0;
        let [input, output] = start.streams.map(|fd| if fd < 0 { null } else { libc::fcntl(fd, libc::F_DUPFD, 3) });
        let (streams, found) = ([input, output, null], input >= 0 && output >= 0);
        let all = locked && found && (0..).zip(streams).all(|(number, fd)| libc::dup2(fd, number) == number);
        if !all || libc::syscall(libc::SYS_close_range, 3, u32::MAX, 0) != 0 {
            start.errno = errno();
        } else if let Err(errno) = clone(second, start.stack, start) {
            start.errno = errno;
        }
        libc::_exit(0)
    }
}

/// The second becomes the program.
extern "C" fn second(start: *mut c_void) -> c_int {
    // SAFETY: as in `first`, which stands still now too.
    let start = unsafe { &mut *start.cast::<Start>() };
    // SAFETY: as in `first`. The actions that are set are its own (no CLONE_SIGHAND), and what is ignored or handled in the program is at its default before a signal may come.
    unsafe {
        for sig in 1..=64 {
            libc::signal(sig, libc::SIG_DFL);
        }
        let mut none = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, null_mut());
        libc::execv(start.program.as_ptr(), start.arguments.as_ptr());
        start.errno = errno();
        libc::_exit(127)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    /// It holds the lock until it ends, and is nobody's child here.
    #[test]
    fn a_helper_is_no_child_and_holds_the_lock() {
        let place = 1 << 40;
        // The only test that sets it.
        std::env::set_var("SHOAL_PROGRAM", "/bin/cat");
        let fifo = std::env::temp_dir().join(format!("helper.{}", std::process::id()));
        let path = CString::new(fifo.as_os_str().as_bytes()).expect("no zeroes");
        // SAFETY: a path that ends with a zero.
        assert_eq!(unsafe { libc::mkfifo(path.as_ptr(), 0o600) }, 0);
        start(&[&fifo.display().to_string()], [None; 2], place).expect("there is a cat");
        let null = std::fs::File::open("/dev/null").expect("there");
        let wanted = lock(libc::F_RDLCK, place);
        // SAFETY: the lock is live.
        let try_it = |how| unsafe { libc::fcntl(null.as_raw_fd(), how, &raw const wanted) };
        assert_eq!(try_it(libc::F_OFD_SETLK), -1);
        // SAFETY: it writes no status.
        assert_eq!(unsafe { libc::waitpid(-1, null_mut(), libc::__WALL | libc::WNOHANG) }, -1);
        drop(std::fs::OpenOptions::new().write(true).open(&fifo).expect("it reads"));
        assert_eq!(try_it(libc::F_OFD_SETLKW), 0);
        std::fs::remove_file(&fifo).expect("mine");
        std::env::set_var("SHOAL_PROGRAM", "/nonexistent");
        assert!(start(&[], [None; 2], place).is_err_and(|fault| fault.kind == vocab::Kind::Gone));
    }
}
