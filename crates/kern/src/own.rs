//! What a process has of its own and keeps across exec: limits, niceness, umask.

use crate::capability;
use crate::sys::{check, checked};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use vocab::{Fault, Pid, Result, Sig};

/// A resource limit: (resource, soft, hard), `u64::MAX` being RLIM_INFINITY (getrlimit(2)).
pub type Limit = (u32, u64, u64);

/// The resources of Linux: RLIMIT_CPU (0) to RLIMIT_RTTIME (15).
const RESOURCES: std::ops::Range<u32> = 0..16;

/// All resource limits of the process.
pub fn limits() -> Result<Vec<Limit>> {
    RESOURCES.map(limit).collect()
}

pub(crate) fn limit(resource: u32) -> Result<Limit> {
    let mut now = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `now` lives through the call and has the kernel's layout on 64-bit machines.
    let ret = unsafe { libc::getrlimit(resource as _, &mut now) };
    checked(ret.into(), || format!("read resource limit {resource}")).map(|_| (resource, now.rlim_cur, now.rlim_max))
}

/// Has this process got rights by its file?
pub(crate) fn is_secure() -> bool {
    // SAFETY: takes a number.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

pub(crate) fn set_limit(resource: u32, soft: u64, hard: u64) -> Result<()> {
    let both = libc::rlimit { rlim_cur: soft, rlim_max: hard };
    // SAFETY: `both` lives through the call.
    let ret = unsafe { libc::setrlimit(resource as _, &both) };
    checked(ret.into(), || format!("set resource limit {resource}")).map(drop)
}

/// Lets this process have as many descriptors open as its hard limit allows: a daemon's peers decide how many it needs.
pub fn raise_files() -> Result<()> {
    const FILES: u32 = libc::RLIMIT_NOFILE;
    let (_, _, most) = limit(FILES)?;
    set_limit(FILES, most, most)
}

/// For who stands in the place of a process that may have had a root directory of its own, with rights that are permitted and do not take effect.
pub fn take_working_directory_as_root() {
    const MAY: u32 = 1 << capability::SYS_CHROOT;
    let before = capability::sets();
    let mut raised = before;
    raised[0][0] |= before[0][1] & MAY;
    // Without the right to it there was no other that it could have had.
    let _may = capability::set(&raised);
    // SAFETY: a literal with its NUL.
    let _stays = unsafe { libc::chroot(c".".as_ptr()) };
    let _as_before = capability::set(&before);
}

/// Has this program got CAP_CHECKPOINT_RESTORE, and nothing else, from its file, for a user who does not have it (AT_SECURE, getauxval(3))? Then it must do with
/// it only what is right for everybody.
pub fn is_favoured() -> bool {
    is_secure() && !is_root() && capability::permitted() == 1 << capability::CHECKPOINT_RESTORE
}

/// The effective user.
pub fn user() -> u32 {
    // SAFETY: returns a number.
    unsafe { libc::geteuid() }
}

/// Is the effective user root?
pub fn is_root() -> bool {
    user() == 0
}

/// For short work of which page faults would be a large part: the program's own pages are mapped, and what is freed from now on is kept for what comes, of
/// which `room` bytes are there already.
pub fn be_at_hand(room: usize) {
    /// The most that the C library allows (glibc: HEAP_MAX_SIZE / 2).
    const PIECE: i32 = 32 * 1024 * 1024;
    // SAFETY: numbers; nothing else of this process depends on how memory is given out.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, PIECE);
        libc::mallopt(libc::M_TRIM_THRESHOLD, i32::MAX);
        libc::mallopt(libc::M_TOP_PAD, 1024 * 1024);
    }
    let mut room = std::hint::black_box(Vec::<u8>::with_capacity(room));
    populate(room.spare_capacity_mut());
    drop(room);
    // SAFETY: symbols of the linker, of which only the addresses are used (end(3)).
    unsafe extern "C" {
        static __executable_start: u8;
        static etext: u8;
    }
    let (start, end) = (&raw const __executable_start as usize, &raw const etext as usize);
    // SAFETY: reads pages that are mapped. A kernel before 5.14 does not know it, and is only slower.
    let _slower = unsafe {
        libc::madvise((start & !4095) as *mut _, end.next_multiple_of(4096) - (start & !4095), libc::MADV_POPULATE_READ)
    };
}

/// Has the pages of this memory there, each of which would be a page fault otherwise. A kernel before 5.14 does not know the call, and the memory is only slower.
fn populate(memory: &mut [std::mem::MaybeUninit<u8>]) {
    const PAGE: usize = 4096;
    let range = memory.as_mut_ptr_range();
    let (start, end) = ((range.start as usize).next_multiple_of(PAGE), range.end as usize & !(PAGE - 1));
    // SAFETY: whole pages of the caller's own, whose contents stay as they are.
    let _slower = unsafe { libc::madvise(start as *mut _, end.saturating_sub(start), libc::MADV_POPULATE_WRITE) };
}

/// For work that needs some memory for a moment, again and again: of what is freed up to so many `bytes`, below 32 MiB, are kept for the next time, from which all
/// threads take. Otherwise the C library gives them back at once, and they are faulted in anew; and to a thread's own memory it adds a page at a time (glibc: `grow_heap`).
pub fn keep_freed(bytes: usize) {
    let kept = i32::try_from(bytes).unwrap_or(i32::MAX);
    // SAFETY: numbers; nothing else of this process depends on how memory is given out.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, kept);
        libc::mallopt(libc::M_TRIM_THRESHOLD, kept);
        libc::mallopt(libc::M_TOP_PAD, kept / 8);
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
}

/// The environment, entry for entry as this process was given it, those included that are no `NAME=value` and that the standard library leaves
/// out (environ(7)). Nothing in this program changes it but the C library: in a process that has got rights by its file it takes LD_LIBRARY_PATH,
/// TMPDIR and others out of the list (ld.so(8), secure-execution mode), which are for the programs that we start. What the list was made of is there yet.
pub fn environment() -> Vec<Vec<u8>> {
    match given_environment().filter(|_| is_secure()) {
        Some(entries) => entries,
        None => listed_environment(),
    }
}

/// The text that the kernel has put above the stack (proc(5): env_start and env_end).
fn given_environment() -> Option<Vec<Vec<u8>>> {
    /// Where the two are behind the name, which may hold anything and ends with a bracket.
    const START: usize = 47;
    let stat = std::fs::read("/proc/self/stat").ok()?;
    let behind = std::str::from_utf8(stat.rsplit(|byte| *byte == b')').next()?).ok()?;
    let mut numbers = behind.split_whitespace().skip(START).map(|word| word.parse::<usize>().ok());
    let (start, end) = (numbers.next()??, numbers.next()??);
    if start == 0 || end <= start {
        return None;
    }
    // SAFETY: the kernel says that the environment is there, in memory that stays mapped and that nobody writes to.
    let text = unsafe { std::slice::from_raw_parts(start as *const u8, end - start) };
    let entries = text.strip_suffix(b"\0")?;
    Some(entries.split(|byte| *byte == 0).map(<[u8]>::to_vec).collect())
}

/// What the C library lists.
fn listed_environment() -> Vec<Vec<u8>> {
    // SAFETY: the C library's variable, of this type (environ(7)).
    unsafe extern "C" {
        static environ: *const *const libc::c_char;
    }
    let mut entries = Vec::new();
    // SAFETY: a NULL-terminated list of strings, or NULL after clearenv(3), that nobody writes to.
    unsafe {
        let mut entry = environ;
        while !entry.is_null() && !(*entry).is_null() {
            entries.push(std::ffi::CStr::from_ptr(*entry).to_bytes().to_vec());
            entry = entry.add(1);
        }
    }
    entries
}

/// The niceness, -20 to 19 (getpriority(2)).
pub fn nice() -> Result<i32> {
    nice_of(Pid::NONE)
}

/// That of another process.
pub fn nice_of(pid: Pid) -> Result<i32> {
    // SAFETY: numbers only. The raw call gives 20 - nice, so that -1 is an error and nothing else.
    let ret = unsafe { libc::syscall(libc::SYS_getpriority, libc::PRIO_PROCESS, pid.0) };
    checked(ret, || "read the niceness".into()).map(|n| 20 - n as i32)
}

/// How this process executes (personality(2)).
pub fn personality() -> Result<u32> {
    // SAFETY: numbers only; this one asks and changes nothing.
    let ret = unsafe { libc::personality(0xffff_ffff) };
    checked(ret.into(), || "read the personality".into()).map(|bits| bits as u32)
}

/// Gives up what protects this process, or exposes it, when memory runs out (oom_score_adj, proc(5)): what it makes begins with 0.
///
/// # Errors
/// `Sys` with EACCES where root has set a lowest value above 0.
pub fn oom_score_zero() -> Result<()> {
    std::fs::write("/proc/self/oom_score_adj", "0").map_err(|e| Fault::io(&e, "set oom_score_adj to 0"))
}

/// Leaves the session keyring that this process was started with for one that nobody may use: whoever inherits it must neither find keys in it nor
/// share any (session-keyring(7)). Nothing happens where the kernel has no keys.
///
/// # Errors
/// `Sys`: EDQUOT when this user has too many keys.
pub fn leave_session_keyring() -> Result<()> {
    const SESSION: i64 = libc::KEY_SPEC_SESSION_KEYRING as i64;
    // SAFETY: numbers only, the name of the new keyring being none.
    let joined = check(unsafe { libc::syscall(libc::SYS_keyctl, libc::KEYCTL_JOIN_SESSION_KEYRING as i64, 0i64) });
    match joined {
        Ok(_) => {}
        Err(libc::ENOSYS | libc::EPERM) => return Ok(()),
        Err(errno) => return Err(Fault::sys(errno, "join a new session keyring")),
    }
    // SAFETY: numbers only.
    let ret = unsafe { libc::syscall(libc::SYS_keyctl, libc::KEYCTL_SETPERM as i64, SESSION, 0i64) };
    checked(ret, || "close the session keyring".into()).map(drop)
}

/// The file mode mask, read without changing it: umask(2) itself can only swap it.
pub fn umask() -> Result<u32> {
    let status = std::fs::read("/proc/self/status").map_err(|e| Fault::io(&e, "read /proc/self/status"))?;
    let text = String::from_utf8_lossy(&status);
    text.lines()
        .find_map(|line| line.strip_prefix("Umask:"))
        .and_then(|octal| u32::from_str_radix(octal.trim(), 8).ok())
        .ok_or_else(|| Fault::bug("/proc/self/status says no umask"))
}

pub fn set_umask(mask: u32) {
    // SAFETY: a number only.
    unsafe { libc::umask(mask) };
}

/// Gives the calling thread a descriptor table of its own, with 2 and both of `keep` in it, and with `terminal` 0 too: what the other
/// threads close is closed, and what this one opens from now on the others do not have, nor do processes that they fork.
///
/// All other descriptors mean nothing in this thread any more: it must not use, nor drop, an owner of one.
pub fn unshare_descriptors(keep: [BorrowedFd<'_>; 2], terminal: bool) -> Result<()> {
    let mut kept: Vec<u32> =
        keep.iter().map(|fd| fd.as_raw_fd() as u32).chain([2]).chain(terminal.then_some(0)).collect();
    kept.sort_unstable();
    let firsts = [0].into_iter().chain(kept.iter().map(|kept| kept + 1));
    let ends = kept.iter().copied().chain([u32::MAX]);
    for (first, end) in firsts.zip(ends).filter(|(first, end)| first < end) {
        let last = if end == u32::MAX { end } else { end - 1 };
        // The second time there is nothing to unshare any more.
        let flags = libc::CLOSE_RANGE_UNSHARE;
        // SAFETY: numbers only. The table is this thread's own before anything in it is closed (close_range(2)), so
        // the other threads' descriptors stay.
        let ret = unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) };
        checked(ret, || "unshare the descriptor table".into())?;
    }
    Ok(())
}

/// Closes descriptor `number` (0, 1 or 2) of the calling thread's table, so that whoever writes to it gets EPIPE, and whoever reads from it the end of the
/// file; /dev/null keeps its number taken.
///
/// # Errors
/// `Sys` as open(2); it is open still.
pub fn close_standard(number: i32) -> Result<()> {
    let null = crate::sys::cstring("/dev/null")?;
    // SAFETY: open with a live string, then numbers only.
    unsafe {
        let fd = checked(libc::open(null.as_ptr(), libc::O_RDWR | libc::O_CLOEXEC).into(), || "open /dev/null".into())?;
        let ret = libc::dup3(fd as i32, number, libc::O_CLOEXEC);
        libc::close(fd as i32);
        checked(ret.into(), || format!("close descriptor {number}")).map(drop)
    }
}

/// Forks: the child's PID, or `None` in the child, in which only the calling thread goes on (fork(2)).
///
/// A lock that another thread holds now stays held in the child for ever. So hold every lock that the child will take
/// yourself; the C library does so for its allocator. The standard library's streams are such locks too.
pub fn fork() -> Result<Option<Pid>> {
    // SAFETY: takes nothing; what the child may do is the caller's duty, as said above, and cannot break memory safety.
    checked(unsafe { libc::fork() }.into(), || "fork".into()).map(|pid| (pid != 0).then_some(Pid(pid as i32)))
}

/// As [`fork`], but the child is nobody's here: its parent has ended when this returns. No SIGCHLD of that is left waiting. Nor is it this process's where that is a
/// subreaper, as the stand-in of one is: that it shall become would have a child that it never had.
///
/// # Errors
/// As fork(2).
pub fn fork_apart() -> Result<Option<Pid>> {
    let takes_orphans = is_subreaper()?;
    if takes_orphans {
        set_subreaper(false)?;
    }
    let made = forked_apart();
    // The child is none as it begins.
    if takes_orphans && !matches!(made, Ok(None)) {
        set_subreaper(true)?;
    }
    made
}

/// Orphans below this process become its children (PR_SET_CHILD_SUBREAPER).
///
/// # Errors
/// None is known.
pub fn take_orphans() -> Result<()> {
    set_subreaper(true)
}

fn is_subreaper() -> Result<bool> {
    let mut is: libc::c_int = 0;
    // SAFETY: writes the word, which lives through the call.
    let ret = unsafe { libc::prctl(libc::PR_GET_CHILD_SUBREAPER, &raw mut is) };
    checked(ret.into(), || "ask whether this process is a subreaper".into()).map(|_| is != 0)
}

fn set_subreaper(is: bool) -> Result<()> {
    // SAFETY: numbers only.
    let ret = unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, libc::c_ulong::from(is)) };
    checked(ret.into(), || "set whether this process is a subreaper".into()).map(drop)
}

fn forked_apart() -> Result<Option<Pid>> {
    let Some(between) = fork()? else {
        let failed = match fork() {
            Ok(None) => return Ok(None),
            made => made.is_err(),
        };
        // SAFETY: takes a number; the process between ends without anything of the program's being run.
        unsafe { libc::_exit(failed.into()) }
    };
    let mut status = 0;
    // SAFETY: takes numbers, and words that live through the calls; the set is libc's own.
    unsafe {
        loop {
            let waited = libc::waitpid(between.0, &raw mut status, libc::WUNTRACED);
            if waited > 0 && libc::WIFSTOPPED(status) {
                // It is of the caller's group, and who stops that may continue the caller alone.
                libc::kill(between.0, libc::SIGCONT);
            } else if waited >= 0 || *libc::__errno_location() != libc::EINTR {
                break;
            }
        }
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigaddset(&raw mut set, libc::SIGCHLD);
        let (mut info, now): (libc::siginfo_t, libc::timespec) = std::mem::zeroed();
        if libc::sigtimedwait(&raw const set, &raw mut info, &raw const now) > 0 && info.si_pid() != between.0 {
            // Somebody else's, which is to be heard of.
            libc::syscall(libc::SYS_rt_sigqueueinfo, libc::getpid(), libc::SIGCHLD, &raw const info);
        }
    }
    match status {
        0 => Ok(Some(between)),
        _ => Err(Fault::sys(libc::EAGAIN, "fork")),
    }
}

/// The process gets `sig` when its parent ends (PR_SET_PDEATHSIG).
///
/// # Errors
/// `Gone` when `parent` has ended already, of which no signal tells.
pub fn die_with_parent(sig: Sig, parent: Pid) -> Result<()> {
    // SAFETY: numbers only.
    let ret = unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::c_ulong::from(sig.number())) };
    checked(ret.into(), || "ask for a signal at the parent's end".into())?;
    match std::os::unix::process::parent_id() as i32 == parent.0 {
        true => Ok(()),
        false => Err(Fault::gone(format!("the parent, {parent}, has ended"))),
    }
}

/// Makes these the standard input, output and errors.
pub fn take_standard(streams: [OwnedFd; 3]) -> Result<()> {
    for (number, stream) in streams.iter().enumerate() {
        // SAFETY: numbers only; nobody owns descriptors 0 to 2 as a value.
        let ret = unsafe { libc::dup2(stream.as_raw_fd(), number as i32) };
        checked(ret.into(), || format!("take a pipe as descriptor {number}"))?;
    }
    Ok(())
}

/// Says on standard error what has failed, in one line: names in it that would be more, or act on a terminal, are escaped. Where that cannot be written,
/// as on a full disk, nobody is told, and nothing else is changed by it: `eprintln!` would panic.
pub fn complain(what: impl std::fmt::Display) {
    let _ =
        std::io::Write::write_all(&mut std::io::stderr(), format!("shoal: {}\n", plain(&what.to_string())).as_bytes());
}

/// The text with its control characters escaped.
pub fn plain(text: &str) -> String {
    let escaped = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    text.chars().map(escaped).collect()
}

/// The errno of a program that is not there.
pub use libc::ENOENT;

/// Becomes the program `argv[0]`, as [`exec_file`].
pub fn exec(argv: &[std::ffi::CString]) -> i32 {
    argv.first().map_or(libc::EINVAL, |file| exec_file(file, argv, &environment()))
}

/// Becomes the program `file`, looked up along PATH (execvp(3)), with this process's mask and environment, and SIGPIPE as whoever started
/// us had it. (The standard library's exec empties the mask.) Returns only the errno of a failure.
pub fn exec_file(file: &std::ffi::CStr, argv: &[std::ffi::CString], environment: &[Vec<u8>]) -> i32 {
    if !crate::signal::inherited_ignored().has(vocab::Sig::PIPE) {
        let _ = crate::signal::set_default(vocab::Sig::PIPE);
    }
    let mut pointers: Vec<*const libc::c_char> = argv.iter().map(|a| a.as_ptr()).collect();
    pointers.push(std::ptr::null());
    let entries: Vec<_> =
        environment.iter().filter_map(|entry| std::ffi::CString::new(entry.as_slice()).ok()).collect();
    let list: Vec<_> = entries.iter().map(|e| e.as_ptr()).chain([std::ptr::null()]).collect();
    // SAFETY: a live string, and two NULL-terminated lists of live strings.
    unsafe { libc::execvpe(file.as_ptr(), pointers.as_ptr(), list.as_ptr()) };
    std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_is_the_same_from_the_kernel_and_from_the_library() {
        assert_eq!(given_environment().expect("proc(5)"), listed_environment());
    }

    #[test]
    fn limits_are_all_there_and_soft_is_at_most_hard() {
        let limits = limits().expect("getrlimit never fails for known resources");
        assert_eq!(limits.len(), 16);
        assert!(limits.iter().all(|&(_, soft, hard)| soft <= hard));
    }

    #[test]
    fn a_thread_with_its_own_table_keeps_nothing_of_the_others_open() {
        use std::os::fd::AsFd;
        let (read, write) = crate::sys::pipe().expect("pipe");
        let (kept, keeper) = crate::sys::pipe().expect("pipe");
        std::thread::scope(|scope| {
            let (done, wait) = std::sync::mpsc::channel::<()>();
            let (ready, told) = std::sync::mpsc::channel();
            let keeper = keeper.as_fd();
            scope.spawn(move || {
                unshare_descriptors([keeper; 2], false).expect("close_range");
                ready.send(crate::sys::write(keeper, b"x")).expect("sent");
                let _ = wait.recv();
            });
            assert_eq!(told.recv().expect("told"), Ok(1));
            drop(write);
            assert_eq!(crate::sys::read(read.as_fd(), &mut [0]), Ok(0));
            assert_eq!(crate::sys::read(kept.as_fd(), &mut [0]), Ok(1));
            drop(done);
        });
    }

    #[test]
    fn a_child_that_is_forked_apart_is_nobodys_here() {
        let (read, write) = crate::sys::pipe().expect("pipe");
        if fork_apart().expect("fork").is_none() {
            let parent = std::os::unix::process::parent_id().to_string();
            let _ = crate::sys::write(std::os::fd::AsFd::as_fd(&write), parent.as_bytes());
            crate::ns::exit(0);
        }
        drop(write);
        let mut told = [0; 16];
        let got = crate::sys::read(std::os::fd::AsFd::as_fd(&read), &mut told).expect("it says who its parent is");
        let parent: u32 = String::from_utf8_lossy(&told[..got]).parse().expect("a number");
        assert_ne!(parent, std::process::id());
    }

    #[test]
    fn a_complaint_is_one_line_and_nothing_to_a_terminal() {
        assert_eq!(plain("execute a\n\x1b[31mb ü"), "execute a\\n\\u{1b}[31mb ü");
    }

    #[test]
    fn nice_and_umask_are_in_their_ranges() {
        assert!((-20..20).contains(&nice().expect("own niceness")));
        assert!(umask().expect("own umask") <= 0o777);
    }
}
