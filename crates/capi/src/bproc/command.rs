//! A program with its arguments, to be executed or started.

use super::text::{bytes, list};
use crate::helper;
use crate::said::{Done, Failed};
use std::ffi::{c_char, c_int, CString, OsStr};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use vocab::NodeId;

/// What a caller gives to all calls that execute something.
pub(super) struct Given<'a> {
    cmd: &'a [u8],
    argv: Vec<&'a [u8]>,
    envp: Vec<&'a [u8]>,
}

impl<'a> Given<'a> {
    /// Without arguments the program has its file's name as the first, and without an environment none.
    ///
    /// # Safety
    /// All are texts and lists of texts that end with a null, or null.
    pub(super) unsafe fn new(
        cmd: *const c_char,
        argv: *const *mut c_char,
        envp: *const *mut c_char,
    ) -> Done<Given<'a>> {
        // SAFETY: as is asked for above.
        unsafe {
            let (cmd, mut argv) = (bytes(cmd, "a program")?, list(argv, "arguments")?);
            let envp = if envp.is_null() { Vec::new() } else { list(envp, "an environment")? };
            if argv.is_empty() {
                argv.push(cmd);
            }
            Ok(Given { cmd, argv, envp })
        }
    }

    /// The program's file, named from the root.
    pub(super) fn file(&self) -> Done<Vec<u8>> {
        let path = std::path::absolute(OsStr::from_bytes(self.cmd));
        path.map(|path| path.into_os_string().into_vec())
            .map_err(|e| Failed::new(e.raw_os_error().unwrap_or(libc::ENOENT), "find the program's file from here"))
    }
}

/// The machine whose file the program is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Whose {
    Node,
    /// The node's, or the front end's if the node has none of that name.
    Either,
    Front,
}

/// What execve(2) wants.
pub(super) struct Command {
    file: CString,
    words: Vec<CString>,
    environment: Vec<CString>,
}

impl Command {
    /// The program on this machine.
    pub(super) fn here(given: &Given<'_>) -> Done<Command> {
        Ok(Command { file: text(given.cmd)?, words: texts(&given.argv)?, environment: texts(&given.envp)? })
    }

    /// The program on another node, as a `shoal run` that becomes its stand-in.
    pub(super) fn on(to: NodeId, given: &Given<'_>, whose: Whose) -> Done<Command> {
        let node = to.0.to_string();
        let words = [&b"run"[..], b"-n", node.as_bytes()];
        let view = match whose {
            Whose::Node => &[][..],
            Whose::Either => &[&b"--view"[..], b"either"],
            Whose::Front => &[&b"--view"[..], b"front"],
        };
        let words = words.iter().chain(view).copied().chain([&b"--file"[..], given.cmd, b"--"]);
        let words: Vec<&[u8]> = words.chain(given.argv.iter().copied()).collect();
        Ok(Command { environment: texts(&given.envp)?, ..Command::shoal(&words)? })
    }

    /// shoal with the caller's environment.
    pub(super) fn shoal(words: &[&[u8]]) -> Done<Command> {
        let none = || Failed::new(libc::ENOENT, "the program shoal, which neither SHOAL_PROGRAM nor PATH leads to");
        let shoal = helper::program().ok_or_else(none)?;
        let words: Vec<&[u8]> = std::iter::once(&b"shoal"[..]).chain(words.iter().copied()).collect();
        let environment = std::env::vars_os().map(|(name, value)| [name.as_bytes(), b"=", value.as_bytes()].concat());
        let environment: Vec<Vec<u8>> = environment.collect();
        let environment: Vec<&[u8]> = environment.iter().map(Vec::as_slice).collect();
        Ok(Command {
            file: text(shoal.as_os_str().as_bytes())?,
            words: texts(&words)?,
            environment: texts(&environment)?,
        })
    }

    /// In place of the caller; returns only when that cannot be.
    pub(super) fn execute(&self) -> Failed {
        let (words, environment) = (addresses(&self.words), addresses(&self.environment));
        // SAFETY: lists of texts, which end with a null and are live.
        unsafe { libc::execve(self.file.as_ptr(), words.as_ptr().cast(), environment.as_ptr().cast()) };
        Failed::last(format!("execute {}", self.file.to_string_lossy()))
    }

    /// With a variable more in its environment.
    pub(super) fn with(mut self, name: &str, value: &str) -> Done<Command> {
        self.environment.push(text(format!("{name}={value}").as_bytes())?);
        Ok(self)
    }

    /// As a child of the caller.
    pub(super) fn start(&self) -> Done<c_int> {
        // SAFETY: no actions.
        unsafe { self.spawn(std::ptr::null()) }
    }

    /// The same with these standard streams, each above 2 and closed on exec.
    pub(super) fn start_with(&self, streams: [c_int; 3]) -> Done<c_int> {
        let mut actions = std::mem::MaybeUninit::uninit();
        let actions = actions.as_mut_ptr();
        let failed = |errno| Failed::new(errno, "say what a program has for its streams");
        // SAFETY: room for the actions, which are made first, and live until they are destroyed behind their use.
        unsafe {
            let mut errno = libc::posix_spawn_file_actions_init(actions);
            if errno != 0 {
                return Err(failed(errno));
            }
            for (number, fd) in (0..).zip(streams) {
                errno = errno.max(libc::posix_spawn_file_actions_adddup2(actions, fd, number));
            }
            let started = if errno == 0 { self.spawn(actions) } else { Err(failed(errno)) };
            libc::posix_spawn_file_actions_destroy(actions);
            started
        }
    }

    /// # Safety
    /// Actions that are live, or null.
    unsafe fn spawn(&self, actions: *const libc::posix_spawn_file_actions_t) -> Done<c_int> {
        let (words, environment) = (addresses(&self.words), addresses(&self.environment));
        let (mut pid, none) = (0, std::ptr::null());
        // SAFETY: lists of texts, which end with a null and are live; the actions as is asked for above, and no attributes.
        let errno = unsafe {
            libc::posix_spawn(&raw mut pid, self.file.as_ptr(), actions, none, words.as_ptr(), environment.as_ptr())
        };
        match errno {
            0 => Ok(pid),
            errno => Err(Failed::new(errno, format!("execute {}", self.file.to_string_lossy()))),
        }
    }
}

fn text(bytes: &[u8]) -> Done<CString> {
    CString::new(bytes).map_err(|_| Failed::new(libc::EINVAL, "a zero in a text"))
}

fn texts(all: &[&[u8]]) -> Done<Vec<CString>> {
    all.iter().map(|one| text(one)).collect()
}

fn addresses(texts: &[CString]) -> Vec<*mut c_char> {
    texts.iter().map(|text| text.as_ptr().cast_mut()).chain([std::ptr::null_mut()]).collect()
}
