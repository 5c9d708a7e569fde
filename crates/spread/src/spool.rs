//! The stream as far as it has come, in a file without a name, for all who read it here or ask for it.

use rustix::fs::{Mode, OFlags};
use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use vocab::{Fault, Result};
use xxhash_rust::xxh3::Xxh3;

/// A checksum of the whole stream (XXH3, 128 bits): against damage, since what comes over the connections is authenticated anyway.
pub type Sum = u128;

/// See the module. One fills it, in order.
pub struct Spool {
    file: File,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Clone)]
struct State {
    length: u64,
    sum: Xxh3,
    end: End,
}

#[derive(Clone)]
enum End {
    NotYet,
    Whole,
    Failed(Fault),
}

/// How far it has come.
pub(crate) struct Progress {
    pub(crate) length: u64,
    /// Nothing more comes, and this is the sum; or why not all will come.
    pub(crate) end: Option<Result<Sum>>,
}

impl Spool {
    /// In this directory if its file system has files without names (open(2): O_TMPFILE), else in memory.
    ///
    /// # Errors
    /// `Sys` as memfd_create(2).
    pub fn new(directory: &Path) -> Result<Arc<Spool>> {
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let on_disk = rustix::fs::open(directory, flags, Mode::RUSR | Mode::WUSR).ok();
        Spool::of(on_disk.map_or_else(|| kern::sys::memory_file(&[]), Ok)?)
    }

    /// In memory.
    ///
    /// # Errors
    /// `Sys` as memfd_create(2).
    pub fn in_memory() -> Result<Arc<Spool>> {
        Spool::of(kern::sys::memory_file(&[])?)
    }

    fn of(file: OwnedFd) -> Result<Arc<Spool>> {
        let state = State { length: 0, sum: Xxh3::new(), end: End::NotYet };
        Ok(Arc::new(Spool { file: file.into(), state: Mutex::new(state), changed: Condvar::new() }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// More has come.
    ///
    /// # Errors
    /// `Sys` as write(2).
    pub fn append(&self, bytes: &[u8]) -> Result<()> {
        let at = self.length();
        self.file.write_all_at(bytes, at).map_err(|e| Fault::io(&e, "keep what has come"))?;
        let mut state = self.state();
        state.sum.update(bytes);
        state.length += bytes.len() as u64;
        self.changed.notify_all();
        Ok(())
    }

    /// All has come. `sum`: what it should be, if that is known.
    ///
    /// # Errors
    /// `Wire` when it is another one; whoever reads it hears that too.
    pub fn finish(&self, sum: Option<Sum>) -> Result<()> {
        let own = self.state().sum.digest128();
        if sum.is_some_and(|sum| sum != own) {
            let damaged = Fault::wire("what has come is not what was sent: its checksum is another one");
            self.fail(damaged.clone());
            return Err(damaged);
        }
        self.state().end = End::Whole;
        self.changed.notify_all();
        Ok(())
    }

    /// The rest will never come.
    pub fn fail(&self, why: Fault) {
        self.state().end = End::Failed(why);
        self.changed.notify_all();
    }

    /// Bytes that have come.
    pub fn length(&self) -> u64 {
        self.state().length
    }

    /// Has all come, or will the rest never come?
    pub fn has_ended(&self) -> bool {
        !matches!(self.state().end, End::NotYet)
    }

    /// The same, within this time.
    pub(crate) fn ended_within(&self, most: Duration) -> bool {
        self.wait(u64::MAX, most).end.is_some()
    }

    /// Waits until there is more than so much, or no more will come; at most so long.
    pub(crate) fn wait(&self, than: u64, most: Duration) -> Progress {
        let nothing_new = |state: &mut State| state.length <= than && matches!(state.end, End::NotYet);
        let waited = self.changed.wait_timeout_while(self.state(), most, nothing_new);
        let (state, _late) = waited.unwrap_or_else(PoisonError::into_inner);
        let end = match &state.end {
            End::NotYet => None,
            End::Whole => Some(Ok(state.sum.digest128())),
            End::Failed(why) => Some(Err(why.clone())),
        };
        Progress { length: state.length, end }
    }

    /// Fills `into` with what is there from `at` on, which is at least as much.
    pub(crate) fn copy(&self, at: u64, into: &mut [u8]) -> Result<()> {
        self.file.read_exact_at(into, at).map_err(|e| Fault::io(&e, "read what has come"))
    }

    /// The whole of it from the beginning on; waits for what is to come.
    pub fn reader(self: &Arc<Spool>) -> impl Read + Send + use<> {
        Reader { spool: self.clone(), at: 0 }
    }
}

struct Reader {
    spool: Arc<Spool>,
    at: u64,
}

impl Read for Reader {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        loop {
            let Progress { length, end } = self.spool.wait(self.at, Duration::from_secs(3600));
            if length > self.at {
                let count = into.len().min(usize::try_from(length - self.at).unwrap_or(usize::MAX));
                self.spool.file.read_exact_at(&mut into[..count], self.at)?;
                self.at += count as u64;
                return Ok(count);
            }
            match end {
                Some(Ok(_)) => return Ok(0),
                Some(Err(why)) => return Err(std::io::Error::other(why.to_string())),
                None => {}
            }
        }
    }
}
