//! What the parts of a sandbox say to each other: lines of text on a socket pair.

use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use vocab::{Fault, Result, Sig};

/// One line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Word {
    /// Machine to cluster: its namespaces, mounts and network are there.
    Made,
    /// Cluster to machine: start the daemon.
    Daemon,
    /// Machine to cluster: the daemon is ready. Cluster to caller: all are, and the command starts.
    Ready,
    /// Machine to cluster: the daemon ended, with this wait status.
    DaemonEnded(i32),
    /// Cluster to the front end: start the command.
    Command,
    /// Caller to cluster to the front end: send this to the command's process group.
    Signal(Sig),
    /// The command ended, with this wait status; the sandbox ends with it.
    Ended(i32),
    /// It cannot go on, and why.
    Failed(String),
    /// Cluster to machine: send this to the daemon.
    SignalDaemon(Sig),
}

impl Word {
    fn line(&self) -> String {
        match self {
            Word::Made => "made".into(),
            Word::Daemon => "daemon".into(),
            Word::Ready => "ready".into(),
            Word::DaemonEnded(status) => format!("daemon-ended {status}"),
            Word::Command => "command".into(),
            Word::Signal(sig) => format!("signal {}", sig.number()),
            Word::Ended(status) => format!("ended {status}"),
            Word::Failed(why) => format!("failed {}", why.replace('\n', "; ")),
            Word::SignalDaemon(sig) => format!("signal-daemon {}", sig.number()),
        }
    }

    fn parse(line: &str) -> Option<Word> {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let sig = || rest.parse().ok().and_then(Sig::new);
        Some(match word {
            "made" => Word::Made,
            "daemon" => Word::Daemon,
            "ready" => Word::Ready,
            "daemon-ended" => Word::DaemonEnded(rest.parse().ok()?),
            "command" => Word::Command,
            "signal" => Word::Signal(sig()?),
            "ended" => Word::Ended(rest.parse().ok()?),
            "failed" => Word::Failed(rest.into()),
            "signal-daemon" => Word::SignalDaemon(sig()?),
            _ => return None,
        })
    }
}

/// One end of a conversation.
#[derive(Debug)]
pub(crate) struct Talk {
    stream: UnixStream,
    unread: Vec<u8>,
}

impl Talk {
    pub(crate) fn pair() -> Result<(Talk, Talk)> {
        let (a, b) = UnixStream::pair().map_err(|e| Fault::io(&e, "make a pair of sockets"))?;
        let end = |stream| Talk { stream, unread: Vec::new() };
        Ok((end(a), end(b)))
    }

    /// Another handle on the same end.
    pub(crate) fn try_clone(&self) -> Result<Talk> {
        let stream = self.stream.try_clone().map_err(|e| Fault::io(&e, "share a socket"))?;
        Ok(Talk { stream, unread: Vec::new() })
    }

    /// # Errors
    /// `Gone` when the other side is closed.
    pub(crate) fn say(&mut self, word: &Word) -> Result<()> {
        let line = word.line() + "\n";
        self.stream.write_all(line.as_bytes()).map_err(|e| match e.kind() {
            ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => Fault::gone("another part of the sandbox is gone"),
            _ => Fault::io(&e, "speak within the sandbox"),
        })
    }

    /// Waits for bytes and returns the whole lines among them; `None` when the other side is closed.
    pub(crate) fn listen(&mut self) -> Result<Option<Vec<Word>>> {
        let mut bytes = [0u8; 4096];
        match self.stream.read(&mut bytes) {
            Ok(0) => return Ok(None),
            Ok(n) => self.unread.extend_from_slice(&bytes[..n]),
            Err(e) if e.kind() == ErrorKind::ConnectionReset => return Ok(None),
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(Fault::io(&e, "listen within the sandbox")),
        }
        let Some(end) = self.unread.iter().rposition(|&b| b == b'\n') else { return Ok(Some(Vec::new())) };
        let lines: Vec<u8> = self.unread.drain(..=end).collect();
        let text = String::from_utf8_lossy(&lines);
        let word = |line: &str| Word::parse(line).ok_or_else(|| Fault::bug(format!("unknown word {line:?}")));
        text.lines().map(word).collect::<Result<Vec<Word>>>().map(Some)
    }
}

impl AsFd for Talk {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_arrives_as_it_was_said() {
        let (mut a, mut b) = Talk::pair().expect("a pair");
        let words = [
            Word::Made,
            Word::Daemon,
            Word::Ready,
            Word::DaemonEnded(256),
            Word::Command,
            Word::Signal(Sig::INT),
            Word::Ended(9),
            Word::Failed("mount proc: no".into()),
            Word::SignalDaemon(Sig::KILL),
        ];
        words.iter().for_each(|word| a.say(word).expect("room"));
        assert_eq!(b.listen().expect("an open pair").expect("not closed"), words);
        drop(a);
        assert_eq!(b.listen().expect("a closed pair is no error"), None);
        assert!(b.say(&Word::Made).is_err());
    }
}
