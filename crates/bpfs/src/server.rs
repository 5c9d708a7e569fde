//! Answers what is asked of the files, one request after the other.

use crate::changes::{Asker, Changes, Job};
use crate::daemon::Daemon;
use crate::names::{line, names, shown, Entry};
use crate::watch::Watch;
use crate::{Config, NUMBER};
use kern::clock::monotonic_us;
use kern::fuse::files::{Asked, Files, What, ROOT};
use kern::init::SignalFd;
use kern::poll::{poll_for, Ready};
use kern::proc::{root, Proc};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::Duration;
use vocab::errno::{EACCES, EEXIST, EINVAL, ENODATA, ENOENT, ENOSPC, EPERM, ERANGE};
use vocab::{Creds, Ids, NodeId, Result, Sig};
use wire::nodes::{self, permits, NodeChange, NodeInfo, ADDRESS_NAME, STATE_NAME};

type Errno<T> = std::result::Result<T, i32>;

/// Requests that are answered before the daemon and the children get their turn.
const BATCH: usize = 256;
/// Bits of access(2).
const WRITE: u32 = 2;
const EXECUTE: u32 = 1;
/// Flags of setxattr(2).
const CREATE: u32 = 1;
const REPLACE: u32 = 2;

struct Server {
    files: Files,
    socket: PathBuf,
    /// The file that says which node this is; none on the front end.
    number: Option<PathBuf>,
    daemon: Daemon,
    watch: Watch,
    changes: Changes,
    proc: Proc,
    /// The handle that was given out last.
    last: u64,
}

/// Serves until nothing is mounted any more.
///
/// # Errors
/// What kept it from beginning, or from going on.
pub(crate) fn serve(files: Files, config: &Config) -> Result<()> {
    let children = SignalFd::new(&[Sig::CHLD])?;
    let socket = config.socket();
    let mut server = Server {
        files,
        number: (!config.front).then(|| config.run_dir.join(NUMBER)),
        daemon: Daemon::new(socket.clone()),
        watch: Watch::new(socket.clone()),
        socket,
        changes: Changes::default(),
        proc: Proc::open(root())?,
        last: 0,
    };
    let mut room = Files::room();
    loop {
        let now = monotonic_us();
        let due_us = [server.changes.due_us(), server.watch.due_us()].into_iter().flatten().min();
        let patience = due_us.map(|due_us| Duration::from_micros(due_us.saturating_sub(now)));
        let mut wanted = vec![(server.files.fd(), Ready::READ), (children.as_fd(), Ready::READ)];
        wanted.extend(server.watch.fd().map(|fd| (fd, Ready::READ)));
        // Interrupted, it goes round.
        let _ = poll_for(&wanted, patience);
        while children.take()?.is_some() {}
        server.changed();
        if server.watch.hear() {
            server.daemon.outdate();
            server.look();
        }
        for _ in 0..BATCH {
            let Some(asked) = server.files.next_request(&mut room)? else { break };
            let unique = asked.unique;
            if let Err(errno) = server.answer(asked) {
                server.files.fail(unique, errno);
            }
        }
    }
}

impl Server {
    fn answer(&mut self, asked: Asked) -> Errno<()> {
        let (unique, entry) = (asked.unique, Entry::of(asked.node).ok_or(ENOENT)?);
        match &asked.what {
            What::Nothing => {}
            What::Lookup(name) => {
                let named = Entry::named(name).filter(|_| asked.node == ROOT).ok_or(ENOENT)?;
                let shown = self.shown(named)?;
                self.files.found(unique, &shown);
            }
            What::Attributes => {
                let shown = self.shown(entry)?;
                self.files.attributes(unique, &shown);
            }
            What::Link if entry == Entry::Own => self.files.data(unique, self.own()?.as_bytes()),
            What::Link => return Err(EINVAL),
            What::Open => self.open(unique, entry)?,
            What::OpenDirectory => self.files.opened(unique, 0),
            What::Names { from, room } => {
                let names = names(self.daemon.infos()?);
                self.files.names(unique, &names, *from, *room);
            }
            What::Read { handle, from, most } => self.read(unique, entry, (*handle, *from, *most))?,
            What::Close { handle } => self.watch.close(*handle),
            What::Poll { handle, tell } => {
                let readable = !self.watch.has(*handle) || self.watch.polled(*handle, *tell);
                self.files.polled(unique, readable);
            }
            What::Value { name, room } => {
                let value = attribute(&self.node(entry)?, name);
                self.files.value(unique, value.as_deref(), *room);
            }
            What::Attributed { room } => {
                let names = match entry {
                    Entry::Node(_) => attributes(&self.node(entry)?),
                    _ => Vec::new(),
                };
                self.files.value(unique, Some(&names), *room);
            }
            What::Access { mask } => self.access(&asked, entry, *mask).map(|()| self.files.done(unique))?,
            What::Change { uid, gid, mode } => self.change(&asked, entry, (*uid, *gid, *mode))?,
            What::Set { name, value, flags } => self.set(&asked, entry, name, value.as_deref(), *flags)?,
        }
        Ok(())
    }

    /// The daemon's answer about one node.
    fn node(&mut self, entry: Entry) -> Errno<NodeInfo> {
        let Entry::Node(node) = entry else { return Err(ENODATA) };
        self.daemon.infos()?.iter().find(|info| info.node == node).cloned().ok_or(ENOENT)
    }

    fn shown(&mut self, entry: Entry) -> Errno<kern::fuse::files::Shown> {
        match entry {
            Entry::Node(_) => Ok(shown(&self.node(entry)?)),
            other => Ok(other.shown()),
        }
    }

    /// The name of this machine's own file.
    fn own(&self) -> Errno<String> {
        let Some(path) = &self.number else { return Ok(NodeId::FRONT.0.to_string()) };
        std::fs::read_to_string(path).map(|text| text.trim().to_string()).map_err(|_| ENOENT)
    }

    /// Asks what is in `status`, and tells those who poll it.
    fn look(&mut self) {
        let Ok(infos) = self.daemon.infos() else { return };
        let text: String = infos.iter().map(line).collect();
        self.watch.is_now(text.into_bytes()).into_iter().for_each(|tell| self.files.changed(tell));
    }

    fn open(&mut self, unique: u64, entry: Entry) -> Errno<()> {
        if let Entry::Node(_) = entry {
            self.node(entry)?;
        }
        if entry != Entry::Status {
            self.files.opened(unique, 0);
            return Ok(());
        }
        self.look();
        self.last += 1;
        self.watch.open(self.last);
        self.files.opened(unique, self.last);
        Ok(())
    }

    fn read(&mut self, unique: u64, entry: Entry, (handle, from, most): (u64, u64, usize)) -> Errno<()> {
        let part = |text: &[u8]| {
            let from = usize::try_from(from).unwrap_or(usize::MAX).min(text.len());
            text[from..text.len().min(from.saturating_add(most))].to_vec()
        };
        let text = match entry {
            Entry::Status => {
                if from == 0 {
                    self.look();
                    self.watch.is_read(handle);
                }
                part(self.watch.text(handle))
            }
            Entry::Node(_) => part(line(&self.node(entry)?).as_bytes()),
            Entry::Root | Entry::Own => return Err(EINVAL),
        };
        self.files.data(unique, &text);
        Ok(())
    }

    fn access(&mut self, asked: &Asked, entry: Entry, mask: u32) -> Errno<()> {
        let Entry::Node(_) = entry else {
            return if mask & WRITE != 0 { Err(EACCES) } else { Ok(()) };
        };
        let info = self.node(entry)?;
        let asker = Asker::of(&self.proc, asked.pid, asked.uid, asked.gid);
        let (uid, gid) = (Ids::all(asker.uid), Ids::all(asker.gid));
        let may = permits(&Creds { uid, gid, groups: asker.groups }, (info.uid, info.gid, info.mode));
        let owns = asked.uid == 0 || asked.uid == info.uid;
        match (mask & EXECUTE == 0 || may) && (mask & WRITE == 0 || owns) {
            true => Ok(()),
            false => Err(EACCES),
        }
    }

    fn change(&mut self, asked: &Asked, entry: Entry, ids: (Option<u32>, Option<u32>, Option<u32>)) -> Errno<()> {
        let Entry::Node(node) = entry else { return Err(EPERM) };
        let info = self.node(entry)?;
        let (uid, gid, mode) = ids;
        // An owner may name itself as the owner (chown(2)).
        let changes: Vec<NodeChange> = [
            uid.filter(|uid| *uid != info.uid).map(NodeChange::Owner),
            gid.filter(|gid| *gid != info.gid).map(NodeChange::Group),
            mode.map(|mode| NodeChange::Mode(mode & nodes::MODE)),
        ]
        .into_iter()
        .flatten()
        .collect();
        if changes.is_empty() {
            self.files.attributes(asked.unique, &shown(&info));
            return Ok(());
        }
        self.begin(asked, Job { unique: asked.unique, node, changes, shows: true })
    }

    fn set(&mut self, asked: &Asked, entry: Entry, name: &[u8], value: Option<&[u8]>, flags: u32) -> Errno<()> {
        let Entry::Node(node) = entry else { return Err(EPERM) };
        let info = self.node(entry)?;
        let known = attribute(&info, name).is_some();
        let name = std::str::from_utf8(name).ok().filter(|name| nodes::is_name(name)).ok_or(EINVAL)?;
        match value {
            None if !known => return Err(ENODATA),
            Some(_) if known && flags & CREATE != 0 => return Err(EEXIST),
            Some(_) if !known && flags & REPLACE != 0 => return Err(ENODATA),
            Some(value) if value.len() > nodes::VALUE => return Err(ERANGE),
            Some(_) if !known && info.attributes.len() >= nodes::ATTRIBUTES => return Err(ENOSPC),
            Some(value) if name == STATE_NAME && !std::str::from_utf8(value).is_ok_and(nodes::is_state) => {
                return Err(EINVAL)
            }
            _ => {}
        }
        let change = NodeChange::Attribute { name: name.into(), value: value.map(|value| value.to_vec().into()) };
        self.begin(asked, Job { unique: asked.unique, node, changes: vec![change], shows: false })
    }

    fn begin(&mut self, asked: &Asked, job: Job) -> Errno<()> {
        let asker = Asker::of(&self.proc, asked.pid, asked.uid, asked.gid);
        self.changes.begin(&self.socket, &asker, job)
    }

    /// Answers those whose changes are made, or refused.
    fn changed(&mut self) {
        for (job, errno) in self.changes.over() {
            self.daemon.outdate();
            let shown = if errno == 0 && job.shows { self.shown(Entry::Node(job.node)).map(Some) } else { Ok(None) };
            match (errno, shown) {
                (0, Ok(Some(shown))) => self.files.attributes(job.unique, &shown),
                (0, Ok(None)) => self.files.done(job.unique),
                (0, Err(errno)) | (errno, _) => self.files.fail(job.unique, errno),
            }
        }
    }
}

/// An attribute's value; two are made of what is known of the node.
fn attribute(info: &NodeInfo, name: &[u8]) -> Option<Vec<u8>> {
    match std::str::from_utf8(name).ok()? {
        STATE_NAME => Some(info.state.clone().into_bytes()),
        ADDRESS_NAME => Some(info.address.clone().into_bytes()),
        name => info.attributes.iter().find(|(known, _)| known == name).map(|(_, value)| value.to_vec()),
    }
}

/// The names of all, each with a NUL behind it.
fn attributes(info: &NodeInfo) -> Vec<u8> {
    let own = info.attributes.iter().map(|(name, _)| name.as_str());
    [STATE_NAME, ADDRESS_NAME].into_iter().chain(own).flat_map(|name| [name.as_bytes(), &[0]].concat()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_node_has_two_attributes_and_its_own() {
        let info = NodeInfo {
            node: NodeId(3),
            state: "up".into(),
            uid: 0,
            gid: 0,
            mode: 0o111,
            address: "10.0.0.3:9".into(),
            atime: 0,
            mtime: 0,
            attributes: vec![("rack".into(), b"7".to_vec().into())],
            name: String::new(),
        };
        assert_eq!(attributes(&info), b"bproc.state\0bproc.addr\0rack\0");
        let value = |name: &str| attribute(&info, name.as_bytes());
        assert_eq!(value("bproc.state").as_deref(), Some(&b"up"[..]));
        assert_eq!((value("rack").as_deref(), value("other")), (Some(&b"7"[..]), None));
    }
}
