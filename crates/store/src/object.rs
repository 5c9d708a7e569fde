//! A content on its way to this machine, piece by piece, for all who read it here or ask for it.
//!
//! | state | more has come | all has come | nobody has the rest |
//! |---|---|---|---|
//! | Coming | Coming | Whole | Failed |
//! | Whole | | | |
//! | Failed | | | |

use crate::content::{Content, Name, PIECE};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use vocab::{Fault, Result};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    Coming,
    Whole,
    Failed,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Event {
    More,
    All,
    Nobody,
}

/// The table of the module; `None`: it cannot be.
fn next(state: State, event: Event) -> Option<State> {
    match (state, event) {
        (State::Coming, Event::More) => Some(State::Coming),
        (State::Coming, Event::All) => Some(State::Whole),
        (State::Coming, Event::Nobody) => Some(State::Failed),
        (State::Whole | State::Failed, _) => None,
    }
}

/// What of a content is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reach {
    /// All of that is there.
    There,
    /// It is among what comes next.
    Soon,
    /// It comes later, or never.
    Far,
}

/// See the module.
#[derive(Debug)]
pub struct Object {
    name: Name,
    content: Content,
    file: File,
    progress: Mutex<Progress>,
    changed: Condvar,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Progress {
    /// Bytes from the beginning on that are there and right.
    pub(crate) length: u64,
    pub(crate) state: State,
}

impl Object {
    pub(crate) fn new(name: Name, content: Content, file: File) -> Object {
        let progress = Progress { length: 0, state: State::Coming };
        Object { name, content, file, progress: Mutex::new(progress), changed: Condvar::new() }
    }

    pub fn name(&self) -> Name {
        self.name
    }

    /// In bytes.
    pub fn size(&self) -> u64 {
        self.content.size()
    }

    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn progress(&self) -> Progress {
        *self.lock()
    }

    /// Bytes from the beginning on that are there.
    pub fn length(&self) -> u64 {
        self.lock().length
    }

    pub fn is_whole(&self) -> bool {
        self.lock().state == State::Whole
    }

    pub fn has_failed(&self) -> bool {
        self.lock().state == State::Failed
    }

    fn event(&self, progress: &mut Progress, event: Event) {
        if let Some(state) = next(progress.state, event) {
            if state != progress.state {
                tracing::debug!(name = %self.name, from = ?progress.state, to = ?state, "an object");
            }
            progress.state = state;
        }
    }

    /// The next piece, whole. One at a time appends.
    ///
    /// # Errors
    /// `Wire` when it is another one; `Sys` as write(2).
    pub fn append(&self, piece: &[u8]) -> Result<()> {
        let from = self.length();
        if !self.content.has(from, piece) {
            return Err(Fault::wire(format!("another piece of {} than the one at byte {from}", self.name)));
        }
        self.file.write_all_at(piece, from).map_err(|e| Fault::io(&e, "keep a piece of a file"))?;
        self.came(piece.len() as u64);
        Ok(())
    }

    /// Takes over what another file has of it, wherever; only what is right will count ([`crate::Store::look`]).
    ///
    /// # Errors
    /// `Sys` as copy_file_range(2).
    pub fn adopt(&self, from: &File) -> Result<()> {
        let (mut read, mut written) = (0, 0);
        while read < self.size() {
            let left = usize::try_from(self.size() - read).unwrap_or(usize::MAX);
            let copied = rustix::fs::copy_file_range(from, Some(&mut read), &self.file, Some(&mut written), left);
            if copied.map_err(|e| Fault::sys(e.raw_os_error(), "copy what was read of a file"))? == 0 {
                break;
            }
        }
        Ok(())
    }

    /// Is the next piece in the file already? Then it counts as come.
    pub(crate) fn find(&self, room: &mut Vec<u8>) -> bool {
        let from = self.length();
        room.resize(PIECE.min(self.size() - from) as usize, 0);
        let found = self.file.read_exact_at(room, from).is_ok() && self.content.has(from, room);
        if found {
            self.came(room.len() as u64);
        }
        found
    }

    /// Puts the checksums behind the content.
    pub(crate) fn seal(&self) -> Result<()> {
        let done = self.file.write_all_at(&self.content.sums(), self.size());
        done.map_err(|e| Fault::io(&e, "keep the checksums of a file"))
    }

    fn came(&self, more: u64) {
        let mut progress = self.lock();
        progress.length += more;
        let event = if progress.length == self.size() { Event::All } else { Event::More };
        self.event(&mut progress, event);
        drop(progress);
        self.changed.notify_all();
    }

    /// Nobody has the rest.
    pub(crate) fn fail(&self) {
        let mut progress = self.lock();
        self.event(&mut progress, Event::Nobody);
        drop(progress);
        self.changed.notify_all();
    }

    /// Waits until there is more than so much, or no more will come; at most so long.
    pub(crate) fn wait(&self, than: u64, most: Duration) -> Progress {
        let nothing_new = |now: &mut Progress| now.length <= than && now.state == State::Coming;
        let waited = self.changed.wait_timeout_while(self.lock(), most, nothing_new);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Is what begins at this byte there? What is within `ahead` bytes of what comes next comes soon. Behind the end there is nothing, which is there with the end.
    pub fn reach(&self, offset: u64, length: u64, ahead: u64) -> Reach {
        let progress = self.progress();
        let end = offset.saturating_add(length).min(self.size());
        match progress.state {
            _ if end <= progress.length => Reach::There,
            State::Coming if end <= progress.length.saturating_add(ahead) => Reach::Soon,
            State::Coming | State::Whole | State::Failed => Reach::Far,
        }
    }

    /// As much as there is from this byte on.
    ///
    /// # Errors
    /// `Sys` as read(2).
    pub fn read(&self, offset: u64, length: usize) -> Result<Vec<u8>> {
        let there = self.length().saturating_sub(offset);
        let mut bytes = vec![0; usize::try_from(there).unwrap_or(usize::MAX).min(length)];
        self.file.read_exact_at(&mut bytes, offset).map_err(|e| Fault::io(&e, "read a file that is kept"))?;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_ends_once() {
        let states = [State::Coming, State::Whole, State::Failed];
        let all = states.map(|state| [Event::More, Event::All, Event::Nobody].map(|event| next(state, event)));
        let coming = [Some(State::Coming), Some(State::Whole), Some(State::Failed)];
        assert_eq!(all, [coming, [None; 3], [None; 3]]);
    }

    #[test]
    fn only_the_right_pieces_come() {
        let bytes: Vec<u8> = (0..PIECE as usize + 9).map(|at| (at / 5) as u8).collect();
        let read = |from: u64, into: &mut [u8]| {
            into.copy_from_slice(&bytes[from as usize..][..into.len()]);
            Ok(())
        };
        let content = Content::of(bytes.len() as u64, read).expect("read");
        let file = File::from(kern::sys::memory_file(&[]).expect("a file"));
        let object = Object::new(content.name(), content, file);
        assert_eq!(object.reach(0, 5, 4), Reach::Far);
        assert_eq!(object.reach(0, 5, 5), Reach::Soon);
        let (first, last) = bytes.split_at(PIECE as usize);
        assert!(object.append(last).is_err() && object.append(&first[1..]).is_err());
        object.append(first).expect("the first");
        assert_eq!((object.reach(0, 5, 0), object.reach(PIECE - 1, 2, 0)), (Reach::There, Reach::Far));
        assert_eq!(object.reach(PIECE, 100, 9), Reach::Soon, "no further than the end");
        object.append(last).expect("the last");
        assert!(object.is_whole());
        object.fail();
        assert!(!object.has_failed());
        assert_eq!(object.read(PIECE - 2, 100).expect("there"), bytes[PIECE as usize - 2..]);
        assert!(object.read(PIECE + 9, 100).expect("behind the end").is_empty());
    }
}
