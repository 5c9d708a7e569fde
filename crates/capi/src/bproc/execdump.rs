//! The image of a program that has not begun: a child executes it and is stopped before its first instruction, where `shoal checkpoint` writes it.
//!
//! The child is traced only for the execution. A process that is traced could not be written, and the stop by a signal is left out of the image (`--begins`).

use super::command::{Command, Given};
use super::fork::{check_flags, end, fork, Side};
use crate::said::{called, Done, Failed};
use crate::{helper, itself, told};
use std::ffi::{c_char, c_int, c_long};
use std::ptr::null_mut;
use vocab::Fault;

/// Exit status of a child that could not execute the program. The errno goes to the parent over the line.
const LOST: c_int = 127;

/// Both ends of the line between parent and child. The kernel closes it when the child executes.
fn line() -> Done<[c_int; 2]> {
    let mut ends = [-1; 2];
    // SAFETY: room for two numbers.
    match unsafe { libc::socketpair(libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0, ends.as_mut_ptr()) } {
        0 => Ok(ends),
        _ => Err(Failed::last("make a pair of sockets")),
    }
}

/// The child executes once the parent traces the child. The descriptor of the image is closed first, unless it is a standard stream.
fn execute(line: c_int, image: c_int, command: &Command) -> ! {
    let mut byte = 0u8;
    // SAFETY: numbers, and memory that is live; it ends at once, and runs nothing of the caller's.
    unsafe {
        if image > libc::STDERR_FILENO && image != line {
            libc::close(image);
        }
        let told = libc::read(line, (&raw mut byte).cast(), 1) == 1;
        let errno = if told { command.execute().errno } else { libc::ESRCH };
        libc::send(line, (&raw const errno).cast(), size_of_val(&errno), libc::MSG_NOSIGNAL);
        libc::_exit(LOST)
    }
}

fn ptrace(request: libc::c_uint, pid: c_int, data: c_long) -> bool {
    // SAFETY: requests that take numbers only.
    unsafe { libc::ptrace(request, pid, null_mut::<libc::c_void>(), data) == 0 }
}

/// A child that is yet to be waited for: its number is nobody else's.
struct Child {
    pid: c_int,
    ended: bool,
}

impl Child {
    /// The status of its next change, a stop by a signal among them.
    fn next_change(&mut self) -> Done<c_int> {
        let mut status = 0;
        loop {
            // SAFETY: room for a status.
            if unsafe { libc::waitpid(self.pid, &raw mut status, libc::__WALL | libc::WUNTRACED) } == self.pid {
                self.ended = !libc::WIFSTOPPED(status);
                return Ok(status);
            }
            match Failed::last("wait for the program") {
                Failed { errno: libc::EINTR, .. } => {}
                failed => {
                    self.ended = failed.errno == libc::ECHILD;
                    return Err(failed);
                }
            }
        }
    }

    /// Returns when the child has executed and is stopped before the first instruction, traced by nobody.
    fn stands(&mut self, line: c_int) -> Done<()> {
        if !ptrace(libc::PTRACE_SEIZE, self.pid, libc::PTRACE_O_TRACEEXEC.into()) {
            return Err(Failed::last("trace the program"));
        }
        let byte = 0u8;
        // SAFETY: a live byte.
        if unsafe { libc::send(line, (&raw const byte).cast(), 1, libc::MSG_NOSIGNAL) } != 1 {
            return Err(Failed::last("begin the program"));
        }
        loop {
            let status = self.next_change()?;
            if self.ended {
                return Err(why_not(line));
            }
            match (status >> 16, libc::WSTOPSIG(status)) {
                (libc::PTRACE_EVENT_EXEC, _) => break,
                // A signal that the caller's handlers in the child are to take, or a stop.
                (0, sig) => ptrace(libc::PTRACE_CONT, self.pid, sig.into()),
                _ => ptrace(libc::PTRACE_CONT, self.pid, 0),
            };
        }
        // The signal waits, and stops the process on its way to the first instruction.
        // SAFETY: a child that is traced.
        if unsafe { libc::kill(self.pid, libc::SIGSTOP) } != 0 || !ptrace(libc::PTRACE_DETACH, self.pid, 0) {
            return Err(Failed::last("stop the program before it begins"));
        }
        self.next_change()?;
        match self.ended {
            false => Ok(()),
            true => Err(Failed::new(libc::ESRCH, "the program was killed before it was written")),
        }
    }
}

/// The errno that the child sent before its end.
fn why_not(line: c_int) -> Failed {
    let mut errno: c_int = 0;
    // SAFETY: room for the number.
    let got = unsafe { libc::recv(line, (&raw mut errno).cast(), size_of_val(&errno), libc::MSG_DONTWAIT) };
    match got == size_of_val(&errno) as isize {
        true => Failed::new(errno, "execute the program"),
        false => Failed::new(libc::ESRCH, "the program was killed before it was written"),
    }
}

/// Writes the child into `fd`, by which it ends.
fn write(pid: c_int, fd: c_int) -> Done<()> {
    let (path, place, number) = (told::new_path()?, told::new_place()?, pid.to_string());
    helper::start(&["checkpoint", &number, "--stop", "--begins", "-o-", "--tell", &path], [None, Some(fd)], place)?;
    itself::until_it_has_ended(place)?;
    match told::take_word(&path)? {
        Some(done) => Ok(done?),
        None => Err(Fault::gone("who should have written the program").into()),
    }
}

fn execdump(fd: c_int, flags: c_int, given: &Given<'_>) -> Done<()> {
    check_flags(flags)?;
    // SAFETY: a number of a descriptor.
    if unsafe { libc::fcntl(fd, libc::F_GETFD) } == -1 {
        return Err(Failed::last(format!("write an image into descriptor {fd}")));
    }
    let command = Command::here(given)?;
    let [ours, its] = line()?;
    let forked = fork();
    if let Ok(Side::Child) = forked {
        // SAFETY: a number; the child has a copy of its own.
        unsafe { libc::close(ours) };
        execute(its, fd, &command);
    }
    // SAFETY: as above.
    unsafe { libc::close(its) };
    let done = forked.and_then(|side| {
        let Side::Parent(pid) = side else { return Ok(()) };
        let mut child = Child { pid, ended: false };
        let done = child.stands(ours).and_then(|()| write(pid, fd));
        if !child.ended {
            end(pid);
        }
        done
    });
    // SAFETY: as above.
    unsafe { libc::close(ours) };
    done
}

/// The caller has become the image, and ends; what goes wrong is told where it is.
///
/// # Safety
/// `cmd` is a text, `argv` and `envp` lists of texts that end with a null; or they are null.
#[no_mangle]
pub(super) unsafe extern "C" fn bproc_execdump(
    fd: c_int,
    flags: c_int,
    cmd: *const c_char,
    argv: *const *mut c_char,
    envp: *const *mut c_char,
) -> c_int {
    called(|| {
        // SAFETY: as is asked for above.
        execdump(fd, flags, &unsafe { Given::new(cmd, argv, envp) }?)?;
        // SAFETY: as after an execution nothing of the program's runs any more.
        unsafe { libc::_exit(0) }
    })
}
