//! A program with its surroundings in the form that the setup stage in its new process reads (`kern::standin::setup`): one piece of
//! memory with numbers and addresses within itself, for any place.

use crate::gates::NewGate;
use crate::kin;
use kern::capability;
use kern::standin::setup::compose::{self, Places};
use kern::standin::setup::{failed, failed_place, Session, Setup, Stage, FROM_THE_GATE, GROUPS_STAY, SAME};
use kern::sys::memory_file;
use std::mem::offset_of;
use std::os::fd::OwnedFd;
use vocab::errno::EPERM;
use vocab::{Creds, Fault, Pid, Result};
use wire::files::{Place, MOST_PLACES};
use wire::run::Program;
use zerocopy::{FromBytes, IntoBytes};

/// Bytes of stack for the setup stage.
const STACK: usize = 64 * 1024;

/// Where a file without a slash is looked for when the environment has no PATH (execvp(3)).
const DEFAULT_PATH: &[u8] = b"/bin:/usr/bin";

/// Real, effective and saved, of the user and then of the group.
fn ids(creds: &Creds) -> [u64; 6] {
    let [uid, gid] = [&creds.uid, &creds.gid].map(|id| [id.real, id.effective, id.saved]);
    [uid[0], uid[1], uid[2], gid[0], gid[1], gid[2]].map(u64::from)
}

/// A [`Setup`] and all it points to, in one piece of memory: the agent's own, or a copy in a stand-in that does not share it.
/// It must not go before the command is done; moving this value moves none of it.
pub(crate) struct Prepared {
    image: Box<[u128]>,
    /// Where the image has addresses within itself.
    addresses: Vec<usize>,
    /// Where the image begins for whoever reads it, once it has been placed.
    base: u64,
    /// How it ended, where that cannot be seen from here.
    told: Option<(i32, u64)>,
    _gate: Option<NewGate>,
    /// As the user named it, and where it is to run.
    file: String,
    cwd: String,
    /// Mounts of the program's own, in the words in which they were asked for.
    places: Vec<String>,
}

/// The image while it grows. Places in it are numbered from its beginning.
struct Arena {
    bytes: Vec<u8>,
    addresses: Vec<usize>,
}

impl Arena {
    fn new() -> Arena {
        let addresses = [offset_of!(Setup, stack), offset_of!(Setup, groups), offset_of!(Setup, limits)];
        let more = [offset_of!(Setup, cwd), offset_of!(Setup, paths), offset_of!(Setup, argv)];
        let rest = [offset_of!(Setup, envp), offset_of!(Setup, shell_argv)];
        let addresses = addresses.into_iter().chain(more).chain(rest).collect();
        Arena { bytes: vec![0; size_of::<Setup>()], addresses }
    }

    /// Takes the next place that is a multiple of `to`.
    fn align(&mut self, to: usize) -> u64 {
        self.bytes.resize(self.bytes.len().next_multiple_of(to), 0);
        self.bytes.len() as u64
    }

    fn string(&mut self, text: &[u8]) -> Result<u64> {
        let text = kern::sys::cstring(text)?;
        let place = self.bytes.len() as u64;
        self.bytes.extend_from_slice(text.as_bytes_with_nul());
        Ok(place)
    }

    /// A path whose address, at this place of the setup, may be none.
    fn path(&mut self, place: usize, path: Option<&[u8]>) -> Result<u64> {
        let Some(path) = path else { return Ok(0) };
        self.addresses.push(place);
        self.string(path)
    }

    fn words(&mut self, words: &[u64]) -> u64 {
        let place = self.align(size_of::<u64>());
        self.bytes.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
        place
    }

    /// A list as exec wants it: addresses, then a null. `places` with 0 stay 0.
    fn list(&mut self, places: &[u64]) -> u64 {
        let list = self.words(places);
        let addresses = places.iter().enumerate().filter(|(_, place)| **place != 0);
        self.addresses.extend(addresses.map(|(i, _)| list as usize + i * size_of::<u64>()));
        self.words(&[0]);
        list
    }

    /// Mounts of the program's own.
    fn places(&mut self, places: &[Place], creds: &Creds) -> Result<Places> {
        if places.is_empty() {
            return Ok(Places::NONE);
        }
        if places.len() > MOST_PLACES {
            return Err(Fault::refused(format!(
                "{} changes of what a program sees, where {MOST_PLACES} are the most",
                places.len()
            )));
        }
        let (mut kinds, mut from, mut at) = (Vec::new(), Vec::new(), Vec::new());
        for place in places {
            let (kind, source, target) = match place {
                Place::Bind { from, to } => (compose::BIND, Some(from), to),
                Place::ReadOnly(path) => (compose::READ_ONLY, None, path),
                Place::Empty(path) => (compose::EMPTY, None, path),
            };
            if !source.into_iter().chain([target]).all(|path| path.starts_with(b"/")) {
                return Err(Fault::refused(format!("{}: paths are to be named from the root", place.words())));
            }
            kinds.push(kind);
            from.push(source.map_or(Ok(0), |path| self.string(path))?);
            at.push(self.string(target)?);
        }
        let ids = [creds.uid.effective, creds.gid.effective].map(|id| id.to_string());
        let [uid, gid] = ids.each_ref().map(|id| self.string(id.as_bytes()));
        let base = offset_of!(Setup, places);
        let fields = [offset_of!(Places, kinds), offset_of!(Places, from), offset_of!(Places, at)];
        let more = [offset_of!(Places, uid), offset_of!(Places, gid)];
        self.addresses.extend(fields.into_iter().chain(more).map(|field| base + field));
        let (kinds, from, at) = (self.words(&kinds), self.list(&from), self.list(&at));
        Ok(Places { count: places.len() as u64, kinds, from, at, uid: uid?, gid: gid?, failed: 0 })
    }

    fn strings<'t>(&mut self, texts: impl Iterator<Item = &'t [u8]>) -> Result<Vec<u64>> {
        texts.map(|text| self.string(text)).collect()
    }

    /// The image, with `setup` at its beginning, and where it has addresses.
    fn finish(mut self, mut setup: Setup) -> (Box<[u128]>, Vec<usize>) {
        setup.stack = self.align(16);
        self.bytes.resize(self.bytes.len() + STACK, 0);
        self.bytes[..size_of::<Setup>()].copy_from_slice(setup.as_bytes());
        let mut image = vec![0u128; self.bytes.len() / 16].into_boxed_slice();
        image.as_mut_bytes().copy_from_slice(&self.bytes);
        (image, self.addresses)
    }
}

/// What a program's process is to be beside what the program itself says.
#[derive(Default)]
pub(crate) struct Begins {
    pub(crate) place: kin::Place,
    pub(crate) session: Session,
    /// Descriptors of this process.
    pub(crate) stdio: [i32; 3],
    /// It keeps the capabilities of stand-ins.
    pub(crate) keeps: bool,
    /// For one that is behind no gate yet: it shares this memory.
    pub(crate) gate: Option<NewGate>,
}

/// Where a program finds its files, if that is not where the stand-in does: paths of the root, and of mount namespaces.
#[derive(Clone, Copy, Default)]
pub(crate) struct Files<'p> {
    pub(crate) root: Option<&'p [u8]>,
    pub(crate) view: Option<&'p [u8]>,
    /// For a program that is not there without it.
    pub(crate) fallback: Option<&'p [u8]>,
}

impl Prepared {
    /// Puts it together, to be placed.
    ///
    /// # Errors
    /// `Refused` for a string with a NUL inside.
    pub(crate) fn new(
        pid: Pid,
        creds: &Creds,
        program: &Program,
        begins: Begins,
        files: Files<'_>,
    ) -> Result<Prepared> {
        let Begins { place, session, stdio, keeps, gate } = begins;
        let mut arena = Arena::new();
        let root = arena.path(offset_of!(Setup, root), files.root)?;
        let view = arena.path(offset_of!(Setup, view), files.view)?;
        let fallback = arena.path(offset_of!(Setup, fallback), files.fallback)?;
        let places = arena.places(&program.places, creds)?;
        let limits: Vec<u64> =
            program.limits.iter().flat_map(|limit| [limit.resource.into(), limit.soft, limit.hard]).collect();
        let argv = arena.strings(program.argv.iter().map(|text| text.as_slice()))?;
        // `/bin/sh`, a place for the path, the arguments.
        let mut shell = vec![arena.string(b"/bin/sh")?, 0];
        shell.extend(argv.iter().skip(1));
        let envp = arena.strings(program.env.iter().map(|text| text.as_slice()))?;
        let paths = candidates(program);
        let paths = arena.strings(paths.iter().map(Vec::as_slice))?;
        let cwd = match program.cwd.is_empty() {
            true => format!("/tmp/.shoal-deleted.{pid}").into_bytes(),
            false => program.cwd.clone(),
        };
        let groups = arena.align(size_of::<u32>());
        arena.bytes.extend(creds.groups.iter().flat_map(|group| group.to_ne_bytes()));
        let capabilities = program.capabilities.unwrap_or_default();
        let setup = Setup {
            pid: pid.0 as u64,
            stack: 0,
            stack_size: STACK as u64,
            pgid: group(place),
            session: session.number(),
            owner: std::process::id().into(),
            stdio: stdio.map(|fd| fd as u64),
            gate: gate.as_ref().map(|gate| gate.entrance).unwrap_or_default(),
            ids: ids(creds),
            groups,
            group_count: creds.groups.len() as u64,
            limit_count: program.limits.len() as u64,
            limits: arena.words(&limits),
            umask: program.umask.into(),
            nice: program.nice.into(),
            view,
            fallback,
            root,
            places,
            cwd: arena.string(&cwd)?,
            deleted: program.cwd.is_empty().into(),
            paths: arena.list(&paths),
            argv: arena.list(&argv),
            envp: arena.list(&envp),
            shell_argv: arena.list(&shell),
            ignored: program.ignored,
            blocked: program.blocked,
            keeps: keeps.into(),
            bounded: program.capabilities.is_some().into(),
            inheritable: capabilities.inheritable,
            bounding: capabilities.bounding,
            no_new_privs: (capabilities.no_new_privs || loses_privileges(program, creds)).into(),
            personality: program.personality.map_or(SAME, u64::from),
            errno: 0,
            stage: 0,
        };
        let shown =
            |path: &Vec<u8>| if path.is_empty() { "\"\"".into() } else { String::from_utf8_lossy(path).into_owned() };
        let [file, cwd] = [&program.file, &cwd].map(shown);
        let (image, addresses) = arena.finish(setup);
        let places = program.places.iter().map(Place::words).collect();
        Ok(Prepared { image, addresses, base: 0, told: None, _gate: gate, file, cwd, places })
    }

    /// How many bytes it takes elsewhere.
    pub(crate) fn size(&self) -> u64 {
        size_of_val(&*self.image) as u64
    }

    /// For a stand-in that shares the agent's memory. Returns the address for [`ghost::Command::Spawn`] and [`ghost::Command::Exec`].
    pub(crate) fn place_here(&mut self) -> u64 {
        let base = self.image.as_mut_ptr() as u64;
        self.relocate(base);
        base
    }

    /// For a `shoal run` on this node, which has memory of its own: at `base` there, [`Prepared::size`] bytes. It is to read them
    /// from the file, whose size comes too. `groups_stay` when its supplementary groups are the program's.
    ///
    /// # Errors
    /// `Sys` when there is no memory.
    pub(crate) fn place_at(&mut self, base: u64, groups_stay: bool) -> Result<(OwnedFd, u64)> {
        if let Ok((setup, _)) = Setup::mut_from_prefix(self.image.as_mut_bytes()) {
            setup.owner = FROM_THE_GATE;
            if groups_stay {
                setup.group_count = GROUPS_STAY;
            }
        }
        self.relocate(base);
        let bytes = &self.image.as_bytes()[..self.image.len() * 16 - STACK];
        Ok((memory_file(bytes)?, bytes.len() as u64))
    }

    fn relocate(&mut self, base: u64) {
        let by = base.wrapping_sub(self.base);
        let bytes = self.image.as_mut_bytes();
        for place in &self.addresses {
            if let Some((word, _)) = bytes[*place..].split_first_chunk_mut() {
                *word = u64::from_ne_bytes(*word).wrapping_add(by).to_ne_bytes();
            }
        }
        self.base = base;
    }

    /// Where it was placed.
    pub(crate) fn address(&self) -> u64 {
        self.base
    }

    /// A stand-in with memory of its own says how it went.
    pub(crate) fn ended(&mut self, errno: i32, stage: u64) {
        self.told = Some((errno, stage));
    }

    /// Why it failed, 0 when it did not.
    pub(crate) fn errno(&self) -> i32 {
        // Written by another process that shares this memory.
        self.told.map_or_else(|| failed(&self.image).0, |told| told.0)
    }

    fn stage(&self) -> u64 {
        self.told.map_or_else(|| failed(&self.image).1, |told| told.1)
    }

    /// Was there no such group any more when the program was to join it (setpgid(2), EPERM)?
    pub(crate) fn lost_group(&self) -> bool {
        self.stage() == Stage::Group as u64 && self.errno() == EPERM
    }

    /// It came as far as exec.
    pub(crate) fn was_executed(&self) -> bool {
        self.stage() == Stage::Exec as u64
    }

    /// What was being done when it failed.
    pub(crate) fn doing(&self) -> String {
        let stage = self.stage();
        let doing = Stage::doing(stage);
        match stage == Stage::Directory as u64 {
            true => format!("{doing} {}", self.cwd),
            false if self.was_executed() => format!("{doing} {}", self.file),
            false if stage == Stage::Places as u64 => {
                let which = self.places.get(failed_place(&self.image) as usize);
                format!("{doing} for {} ({})", self.file, which.map_or("", String::as_str))
            }
            false => format!("{doing} for {}", self.file),
        }
    }
}

/// [`Setup::pgid`].
fn group(place: kin::Place) -> i64 {
    match place {
        kin::Place::Lead => 0,
        kin::Place::Join(group) => group.0.into(),
        kin::Place::Stay | kin::Place::Session => -1,
    }
}

/// A user who changes what programs see could have those with rights of others see what is not so: nothing that it executes has more rights than it has. Root has
/// all already.
fn loses_privileges(program: &Program, creds: &Creds) -> bool {
    let mounts = program.capabilities.is_none_or(|most| capability::has(most.bounding, capability::SYS_ADMIN));
    let is_root = [creds.uid.real, creds.uid.effective, creds.uid.saved] == [0; 3] && mounts;
    !program.places.is_empty() && !is_root
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

    fn program(file: &[u8], env: &[&[u8]]) -> Program {
        Program {
            file: file.to_vec(),
            argv: vec![file.to_vec().into()],
            env: env.iter().map(|text| text.to_vec().into()).collect(),
            cwd: b"/".to_vec(),
            umask: 0o22,
            ..Program::default()
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
        assert!(Prepared::new(Pid(7), &Creds::default(), &bad, Begins::default(), Files::default()).is_err());
    }
}
