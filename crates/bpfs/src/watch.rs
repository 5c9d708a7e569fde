//! Wake-ups for poll(2) of the file `status`: the daemon tells of changes as long as anybody has that file open.

use kern::clock::monotonic_us;
use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use vocab::{Fault, Result};
use wire::ask::{Answer, Ask};
use wire::feed::Happening;
use wire::frame;

/// A daemon that has closed the connection is asked again after so many microseconds.
const AGAIN_US: u64 = 300_000;

/// An open file.
#[derive(Debug, Default)]
struct Open {
    /// The text of the last read from the beginning.
    text: Vec<u8>,
    /// The number of the change that was the newest then.
    seen: u64,
    /// The poller's handle, for [`kern::fuse::files::Files::changed`].
    polls: Option<u64>,
}

/// All that have the file open.
#[derive(Debug)]
pub(crate) struct Watch {
    socket: PathBuf,
    open: BTreeMap<u64, Open>,
    /// The file's text as far as is known, and the number of the change that has made it so.
    now: Vec<u8>,
    newest: u64,
    feed: Option<Feed>,
    again_us: u64,
}

impl Watch {
    pub(crate) fn new(socket: PathBuf) -> Watch {
        Watch { socket, open: BTreeMap::new(), now: Vec::new(), newest: 0, feed: None, again_us: 0 }
    }

    /// The file is opened, with what [`Watch::is_now`] was told in it.
    pub(crate) fn open(&mut self, handle: u64) {
        self.listen();
        self.open.insert(handle, Open { seen: self.newest, ..Open::default() });
    }

    pub(crate) fn close(&mut self, handle: u64) {
        self.open.remove(&handle);
        if self.open.is_empty() {
            self.feed = None;
        }
    }

    pub(crate) fn has(&self, handle: u64) -> bool {
        self.open.contains_key(&handle)
    }

    /// The file is read from its beginning, with what [`Watch::is_now`] was told in it.
    pub(crate) fn is_read(&mut self, handle: u64) {
        if let Some(open) = self.open.get_mut(&handle) {
            (open.text, open.seen) = (self.now.clone(), self.newest);
        }
    }

    pub(crate) fn text(&self, handle: u64) -> &[u8] {
        self.open.get(&handle).map_or(&[], |open| &open.text)
    }

    /// Is something in it that was not there when it was read, or opened? If not, `tell` is told when there is.
    pub(crate) fn polled(&mut self, handle: u64, tell: Option<u64>) -> bool {
        let newest = self.newest;
        let Some(open) = self.open.get_mut(&handle) else { return true };
        open.polls = tell.or(open.polls);
        open.seen < newest
    }

    /// The file has this text. If the text is another than before, the handles of pollers to wake are returned.
    pub(crate) fn is_now(&mut self, text: Vec<u8>) -> Vec<u64> {
        if text == self.now {
            return Vec::new();
        }
        self.now = text;
        self.newest += 1;
        self.open.values_mut().filter_map(|open| open.polls.take()).collect()
    }

    /// The descriptor that tells of changes.
    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.feed.as_ref().map(|feed| feed.stream.as_fd())
    }

    /// When to look after it at the latest (monotonic).
    pub(crate) fn due_us(&self) -> Option<u64> {
        (self.feed.is_none() && !self.open.is_empty()).then_some(self.again_us)
    }

    /// Takes what has come. True: something may have changed.
    pub(crate) fn hear(&mut self) -> bool {
        match self.feed.as_mut().map(Feed::hear) {
            Some(Ok(changed)) => changed,
            Some(Err(fault)) => {
                tracing::debug!(%fault, "changes of nodes are not heard of");
                self.feed = None;
                self.again_us = monotonic_us() + AGAIN_US;
                false
            }
            // Nobody knows what has been missed.
            None => self.due_us().is_some_and(|due_us| due_us <= monotonic_us()) && self.listen(),
        }
    }

    /// True: the daemon tells of changes, and has not before.
    fn listen(&mut self) -> bool {
        if self.feed.is_some() || monotonic_us() < self.again_us {
            return false;
        }
        match Feed::open(&self.socket) {
            Ok(feed) => self.feed = Some(feed),
            Err(fault) => {
                tracing::debug!(%fault, "changes of nodes are not heard of");
                self.again_us = monotonic_us() + AGAIN_US;
            }
        }
        self.feed.is_some()
    }
}

/// The daemon's [`Ask::Feed`].
#[derive(Debug)]
struct Feed {
    stream: UnixStream,
    bytes: Vec<u8>,
}

impl Feed {
    fn open(socket: &Path) -> Result<Feed> {
        let failed = |e: std::io::Error| Fault::io(&e, "ask the daemon for what happens");
        let mut stream = UnixStream::connect(socket).map_err(failed)?;
        let mut ask = Vec::new();
        frame::encode(&Ask::Feed, &mut ask)?;
        stream.write_all(&ask).map_err(failed)?;
        stream.set_nonblocking(true).map_err(failed)?;
        Ok(Feed { stream, bytes: Vec::new() })
    }

    /// Has something of nodes changed?
    fn hear(&mut self) -> Result<bool> {
        let mut room = [0; 16 * 1024];
        let mut changed = false;
        loop {
            match self.stream.read(&mut room) {
                Ok(0) => return Err(Fault::gone("the daemon has closed the connection")),
                Ok(count) => self.bytes.extend(&room[..count]),
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(Fault::io(&e, "hear what happens")),
            }
            while let Some((body, used)) = frame::split(&self.bytes)? {
                changed |= match frame::decode(body)? {
                    Answer::Feed(Happening::Node { .. } | Happening::Changed { .. }) => true,
                    Answer::Failed(fault) => return Err(fault),
                    _ => false,
                };
                self.bytes.drain(..used);
            }
        }
        Ok(changed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_polls_is_told_once_of_what_they_have_not_read() {
        let mut watch = Watch::new("/nonexistent".into());
        assert!(watch.is_now(b"a".to_vec()).is_empty());
        watch.open(1);
        assert!(!watch.polled(1, Some(70)));
        assert!(watch.is_now(b"a".to_vec()).is_empty(), "nothing has changed");
        assert_eq!(watch.is_now(b"b".to_vec()), [70]);
        assert!(watch.is_now(b"c".to_vec()).is_empty(), "once");
        assert!(watch.polled(1, Some(71)));
        watch.is_read(1);
        assert_eq!(watch.text(1), b"c");
        assert!(!watch.polled(1, None));
        assert_eq!(watch.is_now(b"d".to_vec()), [71], "still told");
        watch.close(1);
        assert!(watch.polled(1, None) && !watch.has(1) && watch.due_us().is_none());
    }
}
