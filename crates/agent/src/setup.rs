//! A program with its surroundings in the form that the setup stage in its new process reads (`kern::standin::setup`): plain
//! numbers and addresses, all kept alive here.

use kern::standin::setup::{Setup, Stage};
use std::ffi::CString;
use vocab::{Creds, Pid, Result};
use wire::run::Program;

use crate::kin::Place;

/// Bytes of stack for the setup stage.
const STACK: usize = 64 * 1024;

const EPERM: i32 = 1;

/// Where a file without a slash is looked for when the environment has no PATH (execvp(3)).
const DEFAULT_PATH: &[u8] = b"/bin:/usr/bin";

/// Everything that [`Setup`] points to. It must not move or go before the command is done; moving this value moves none of it.
pub(crate) struct Prepared {
    setup: Box<Setup>,
    _strings: Vec<CString>,
    _words: Vec<Box<[u64]>>,
    _groups: Box<[u32]>,
    _stack: Vec<u128>,
}

struct Arena {
    strings: Vec<CString>,
    words: Vec<Box<[u64]>>,
}

impl Arena {
    fn string(&mut self, text: &[u8]) -> Result<u64> {
        let text = kern::sys::cstring(text)?;
        let address = text.as_ptr() as u64;
        self.strings.push(text);
        Ok(address)
    }

    fn words(&mut self, words: Vec<u64>) -> u64 {
        let mut words = words.into_boxed_slice();
        let address = words.as_mut_ptr() as u64;
        self.words.push(words);
        address
    }

    /// A list of strings as exec wants it: addresses, then a null.
    fn list<'t>(&mut self, texts: impl Iterator<Item = &'t [u8]>) -> Result<Vec<u64>> {
        let mut list = texts.map(|text| self.string(text)).collect::<Result<Vec<_>>>()?;
        list.push(0);
        Ok(list)
    }
}

impl Prepared {
    /// Puts it together. `stdio` are descriptors of this process; `session` is 1 for a new session with descriptor 0 as its terminal, 2 for
    /// one without a terminal, 0 for none.
    ///
    /// # Errors
    /// `Refused` for a string with a NUL inside.
    pub(crate) fn new(
        pid: Pid,
        creds: &Creds,
        program: &Program,
        place: Place,
        session: u64,
        stdio: [i32; 3],
    ) -> Result<Prepared> {
        let mut arena = Arena { strings: Vec::new(), words: Vec::new() };
        let mut stack = vec![0u128; STACK / 16];
        let mut groups: Box<[u32]> = creds.groups.clone().into();
        let mut limits = Vec::new();
        for limit in &program.limits {
            limits.extend([u64::from(limit.resource), limit.soft, limit.hard]);
        }
        let argv = arena.list(program.argv.iter().map(|text| text.as_slice()))?;
        let mut shell = vec![arena.string(b"/bin/sh")?, 0];
        shell.extend(argv.iter().skip(1));
        if argv.len() == 1 {
            shell.push(0);
        }
        let envp = arena.list(program.env.iter().map(|text| text.as_slice()))?;
        let paths = candidates(program);
        let paths = arena.list(paths.iter().map(Vec::as_slice))?;
        let setup = Setup {
            pid: pid.0 as u64,
            stack: stack.as_mut_ptr() as u64,
            stack_size: STACK as u64,
            pgid: match place {
                Place::Lead => 0,
                Place::Join(group) => group.0.into(),
                Place::Stay | Place::Session => -1,
            },
            session,
            owner: std::process::id().into(),
            stdio: stdio.map(|fd| fd as u64),
            ids: [
                creds.uid.real,
                creds.uid.effective,
                creds.uid.saved,
                creds.gid.real,
                creds.gid.effective,
                creds.gid.saved,
            ]
            .map(u64::from),
            groups: groups.as_mut_ptr() as u64,
            group_count: groups.len() as u64,
            limit_count: program.limits.len() as u64,
            limits: arena.words(limits),
            umask: program.umask.into(),
            nice: program.nice.into(),
            cwd: arena.string(&program.cwd)?,
            paths: arena.words(paths),
            argv: arena.words(argv),
            envp: arena.words(envp),
            shell_argv: arena.words(shell),
            ignored: program.ignored,
            blocked: program.blocked,
            errno: 0,
            stage: 0,
        };
        let (strings, words) = (arena.strings, arena.words);
        Ok(Prepared { setup: Box::new(setup), _strings: strings, _words: words, _groups: groups, _stack: stack })
    }

    /// For [`ghost::Command::Spawn`].
    pub(crate) fn address(&mut self) -> u64 {
        &raw mut *self.setup as u64
    }

    /// Why it failed, 0 when it did not.
    pub(crate) fn errno(&self) -> i32 {
        // Written by another process that shares this memory.
        kern::standin::setup::failed(&self.setup)
    }

    /// Was there no such group any more when the program was to join it (setpgid(2), EPERM)?
    pub(crate) fn lost_group(&self) -> bool {
        self.setup.stage == Stage::Group as u64 && self.errno() == EPERM
    }

    /// What was being done when it failed.
    pub(crate) fn stage(&self) -> &'static str {
        Stage::doing(self.setup.stage)
    }
}

/// The paths that execvp(3) would try.
fn candidates(program: &Program) -> Vec<Vec<u8>> {
    let file = &program.file;
    if file.contains(&b'/') || file.is_empty() {
        return vec![file.clone()];
    }
    let path = program.env.iter().find_map(|text| text.strip_prefix(b"PATH="));
    let directories = path.unwrap_or(DEFAULT_PATH).split(|byte| *byte == b':');
    let full = |directory: &[u8]| match directory {
        b"" => file.clone(),
        directory => [directory, b"/", file.as_slice()].concat(),
    };
    directories.map(full).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::run::Stdio;

    fn program(file: &[u8], env: &[&[u8]]) -> Program {
        Program {
            file: file.to_vec(),
            argv: vec![file.to_vec().into()],
            env: env.iter().map(|text| text.to_vec().into()).collect(),
            cwd: b"/".to_vec(),
            umask: 0o22,
            limits: vec![],
            nice: 0,
            ignored: 0,
            stdio: Stdio::Pipes,
            blocked: 0,
        }
    }

    #[test]
    fn the_path_is_the_programs_own() {
        let found = candidates(&program(b"ls", &[b"A=1", b"PATH=/a::/b"]));
        assert_eq!(found, [b"/a/ls".to_vec(), b"ls".to_vec(), b"/b/ls".to_vec()]);
        assert_eq!(candidates(&program(b"ls", &[])), [b"/bin/ls".to_vec(), b"/usr/bin/ls".to_vec()]);
        assert_eq!(candidates(&program(b"./ls", &[b"PATH=/a"])), [b"./ls".to_vec()]);
        assert_eq!(candidates(&program(b"", &[b"PATH=/a"])), [b"".to_vec()]);
    }

    #[test]
    fn a_nul_inside_is_refused() {
        let bad = program(b"l\0s", &[]);
        assert!(Prepared::new(Pid(7), &Creds::default(), &bad, Place::Lead, 0, [0, 1, 2]).is_err());
    }
}
