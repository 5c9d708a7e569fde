//! The directory with the contents, each in a file that has its name, with the checksums of its pieces behind it; and what is there no more when there is too much.
//!
//! Only the user of the calling process comes to the directory. It outlives the process; what another run has left is looked at before it counts.

use crate::content::{Content, Name, PIECE, SUM};
use crate::object::Object;
use rustix::fs::{futimens, statvfs, Mode, OFlags, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT};
use std::collections::HashMap;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use vocab::{Fault, Result};

/// The suffix of the name of a file that is not whole yet.
const NEW: &str = ".new";
/// Of the file whose lock says that the directory is somebody's.
const LOCK: &str = "lock";
/// No content may have more than this part of all room, and this part of the file system stays free.
const PART: u64 = 4;
const FREE_PART: u64 = 10;

/// See the module.
#[derive(Debug)]
pub struct Store {
    directory: PathBuf,
    /// Bytes.
    most: u64,
    /// Nobody else uses the directory as long as this is open.
    _lock: File,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    kept: HashMap<Name, Kept>,
    /// Of all that is kept or on its way.
    bytes: u64,
    /// Counts uses.
    clock: u64,
    /// Objects that somebody has.
    open: HashMap<Name, Weak<Object>>,
}

#[derive(Clone, Copy, Debug)]
struct Kept {
    size: u64,
    used: u64,
}

/// A content that somebody asks for.
#[derive(Debug)]
pub enum Held {
    /// It is there, or somebody brings it already.
    Here(Arc<Object>),
    /// The caller is to bring it: what [`Store::look`] does not find is to be appended; and then [`Store::keep`] or [`Store::give_up`].
    New(Arc<Object>),
}

impl Store {
    /// The contents in this directory, which is made where it is not there, with so many bytes at most.
    ///
    /// # Errors
    /// `Refused` when another process has the directory; `Sys` as of mkdir(2), open(2), readdir(3).
    pub fn open(directory: &Path, most: u64) -> Result<Store> {
        let failed = |e: &std::io::Error| Fault::io(e, format!("use {} for contents of files", directory.display()));
        DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(|e| failed(&e))?;
        let lock = options().create(true).open(directory.join(LOCK)).map_err(|e| failed(&e))?;
        if !kern::lock::lock_open(&lock)? {
            return Err(Fault::refused(format!("another process uses {}", directory.display())));
        }
        let mut found: Vec<(i64, Name, u64)> = Vec::new();
        for entry in fs::read_dir(directory).map_err(|e| failed(&e))? {
            let entry = entry.map_err(|e| failed(&e))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            match (Name::parse(&name), entry.metadata()) {
                (Some(name), Ok(file)) if file.is_file() => found.push((file.mtime(), name, file.size())),
                // Of a process that has ended before it was whole.
                _ if name.ends_with(NEW) => drop(fs::remove_file(entry.path())),
                _ => {}
            }
        }
        found.sort_unstable();
        let kept = (1..).zip(&found).map(|(used, (_, name, size))| (*name, Kept { size: *size, used })).collect();
        let bytes = found.iter().map(|(_, _, size)| size).sum();
        let state = State { kept, bytes, clock: found.len() as u64, open: HashMap::new() };
        let store = Store { directory: directory.into(), most, _lock: lock, state: Mutex::new(state) };
        store.make_room(&mut store.lock(), 0);
        Ok(store)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn path(&self, name: Name) -> PathBuf {
        self.directory.join(name.to_string())
    }

    fn path_of_new(&self, name: Name) -> PathBuf {
        self.directory.join(format!("{name}{NEW}"))
    }

    /// How many contents there are, and their bytes.
    pub fn amount(&self) -> (u64, u64) {
        let state = self.lock();
        (state.kept.len() as u64, state.kept.values().map(|kept| kept.size).sum())
    }

    /// Is it there, from whatever run?
    pub fn has(&self, name: Name) -> bool {
        self.lock().kept.contains_key(&name)
    }

    /// # Errors
    /// `Refused`: there is no room for it; `Sys` as open(2).
    pub fn hold(&self, content: &Content) -> Result<Held> {
        let name = content.name();
        let mut state = self.lock();
        state.clock += 1;
        let used = state.clock;
        if let Some(kept) = state.kept.get_mut(&name) {
            kept.used = used;
        }
        let open = state.open.get(&name).and_then(Weak::upgrade).filter(|object| !object.has_failed());
        if let Some(object) = open {
            return Ok(Held::Here(object));
        }
        let file = match state.kept.get(&name) {
            Some(_) => self.known(name),
            None => None,
        };
        let file = match file {
            Some(file) => file,
            None => self.new_file(&mut state, name, content.size())?,
        };
        let object = Arc::new(Object::new(name, content.clone(), file));
        state.open.retain(|_, object| object.strong_count() > 0);
        state.open.insert(name, Arc::downgrade(&object));
        Ok(Held::New(object))
    }

    /// The file of what is kept, used now.
    fn known(&self, name: Name) -> Option<File> {
        let file = options().open(self.path(name)).ok()?;
        let at = |nsec| Timespec { tv_sec: 0, tv_nsec: nsec };
        // Which was used last is known by it after a restart.
        let _older = futimens(&file, &Timestamps { last_access: at(UTIME_OMIT), last_modification: at(UTIME_NOW) });
        Some(file)
    }

    fn new_file(&self, state: &mut State, name: Name, size: u64) -> Result<File> {
        if let Some(kept) = state.kept.remove(&name) {
            state.bytes -= kept.size;
        }
        if size > self.most / PART || !self.make_room(state, size) {
            return Err(Fault::refused(format!("keep {size} bytes: there is no room in {}", self.directory.display())));
        }
        let path = self.path_of_new(name);
        let _from_before = fs::remove_file(&path);
        let file = options().create_new(true).open(&path);
        let file = file.map_err(|e| Fault::io(&e, format!("make {}", path.display())))?;
        state.bytes += size;
        Ok(file)
    }

    /// Removes what was not used for longest, until there is room for so many bytes more.
    fn make_room(&self, state: &mut State, size: u64) -> bool {
        loop {
            let fits = state.bytes + size <= self.most && self.leaves_free(size);
            let oldest = state.kept.iter().min_by_key(|(_, kept)| kept.used).map(|(name, kept)| (*name, *kept));
            match (fits, oldest) {
                (true, _) => return true,
                (false, None) => return false,
                (false, Some((name, kept))) => {
                    state.kept.remove(&name);
                    state.bytes -= kept.size;
                    // Whoever reads it has it open.
                    let _gone_already = fs::remove_file(self.path(name));
                }
            }
        }
    }

    fn leaves_free(&self, size: u64) -> bool {
        let Ok(found) = statvfs(&self.directory) else { return false };
        let (free, all) = (found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize);
        size == 0 || free.saturating_sub(size) >= all / FREE_PART
    }

    /// A file without a name on the disk, for what may be part of a content.
    ///
    /// # Errors
    /// `Sys` as open(2).
    pub fn scratch(&self) -> Result<File> {
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let made = rustix::fs::open(&self.directory, flags, Mode::RUSR | Mode::WUSR);
        made.map(File::from).map_err(|e| Fault::sys(e.raw_os_error(), "make a file without a name"))
    }

    /// Looks whether the pieces of a content are in its file already, from an earlier run; as far as they are. `came` hears of each.
    pub fn look(&self, object: &Object, mut came: impl FnMut()) {
        let mut room = Vec::new();
        while !object.is_whole() && object.find(&mut room) {
            came();
        }
    }

    /// From now on it is there for later runs too.
    ///
    /// # Errors
    /// `Sys` as rename(2).
    pub fn keep(&self, object: &Object) -> Result<()> {
        let mut state = self.lock();
        let name = object.name();
        if state.kept.contains_key(&name) {
            return Ok(());
        }
        let path = self.path(name);
        object.seal()?;
        fs::rename(self.path_of_new(name), &path)
            .map_err(|e| Fault::io(&e, format!("name {} by its content", path.display())))?;
        state.clock += 1;
        let used = state.clock;
        state.kept.insert(name, Kept { size: object.size(), used });
        Ok(())
    }

    /// The rest of it cannot be had.
    pub fn give_up(&self, object: &Object) {
        let mut state = self.lock();
        let name = object.name();
        object.fail();
        let was_kept = state.kept.remove(&name).is_some_and(|_| fs::remove_file(self.path(name)).is_ok());
        if was_kept || fs::remove_file(self.path_of_new(name)).is_ok() {
            state.bytes = state.bytes.saturating_sub(object.size());
        }
    }

    /// One that is there or comes, by its name.
    pub(crate) fn by_name(&self, name: Name) -> Option<Arc<Object>> {
        let mut state = self.lock();
        if let Some(object) = state.open.get(&name).and_then(Weak::upgrade) {
            return Some(object);
        }
        state.kept.get(&name)?;
        let file = self.known(name)?;
        let content = sums_of(&file).filter(|content| content.name() == name)?;
        let object = Arc::new(Object::new(name, content, file));
        state.open.insert(name, Arc::downgrade(&object));
        drop(state);
        self.look(&object, || ());
        if !object.is_whole() {
            self.give_up(&object);
        }
        Some(object)
    }
}

/// The content that a whole file says that it has, by the checksums behind it.
fn sums_of(file: &File) -> Option<Content> {
    let all = file.metadata().ok()?.size();
    let pieces = all.div_ceil(PIECE + SUM);
    let size = all.checked_sub(pieces * SUM)?;
    let mut sums = vec![0; usize::try_from(pieces * SUM).ok()?];
    file.read_exact_at(&mut sums, size).ok()?;
    Content::from_sums(size, &sums)
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    options
}
