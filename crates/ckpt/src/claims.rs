//! What an image may claim that another user than root could write: it is a file like others, and says of its process what its owner likes.

use crate::identity;
use crate::socket_options::is_a_users_to_set;
use image::files::Files;
use image::memory::{Area, Memory};
use image::objects::{Object, Objects};
use image::process::Process;
use image::thread::{Creds, Thread};
use kern::areas::AreaFlags;
use std::collections::BTreeSet;
use vocab::{Fault, Pid, Result};

/// The owner of an image's file, who is not root.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Owner {
    pub uid: u32,
}

/// Set-user-ID and set-group-ID.
pub(crate) const SET_IDS: u32 = 0o6000;

/// Of a priority for input and output the class, and the one that is root's to give (ioprio_set(2)).
const IO_CLASS: u32 = 13;
const IO_REAL_TIME: u32 = 1;

impl Owner {
    fn refused(&self, what: impl std::fmt::Display) -> Fault {
        Fault::refused(format!("the image is a file of user {}'s, and is to be {what}", self.uid))
    }

    /// The groups that the owner is known to be in, by the machine's database (passwd(5), group(5)), or is in, who restores. The group of the file says nothing: a set-group-ID directory gives
    /// its own to all files in it.
    fn groups(&self) -> BTreeSet<u32> {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let (users, groups) = (read("/etc/passwd"), read("/etc/group"));
        let number = |field: Option<&str>| field.and_then(|text| text.parse::<u32>().ok());
        let mut names = Vec::new();
        let mut known = BTreeSet::new();
        let own = Pid(std::process::id() as i32);
        if let Some(creds) = (kern::own::user() == self.uid).then(|| identity::creds(own, own).ok()).flatten() {
            known.extend(creds.gids.iter().chain(&creds.groups));
        }
        for line in users.lines() {
            let mut fields = line.split(':');
            let (name, uid) = (fields.next().unwrap_or_default(), number(fields.nth(1)));
            if uid == Some(self.uid) {
                names.push(name);
                known.extend(number(fields.next()));
            }
        }
        for line in groups.lines() {
            let fields: Vec<&str> = line.split(':').collect();
            let is_in = fields.get(3).is_some_and(|members| members.split(',').any(|name| names.contains(&name)));
            if is_in {
                known.extend(number(fields.get(2).copied()));
            }
        }
        known
    }

    /// # Errors
    /// `Refused` for ids and rights that are not the owner's.
    pub(crate) fn may_be(&self, threads: &[Thread]) -> Result<()> {
        self.may_be_in(threads, &self.groups())
    }

    fn may_be_in(&self, threads: &[Thread], known: &BTreeSet<u32>) -> Result<()> {
        for Thread { tid, creds, scheduling, .. } in threads {
            let [inheritable, permitted, effective, _, ambient] = creds.capabilities;
            let foreign = creds.gids.iter().chain(&creds.groups).find(|gid| !known.contains(gid));
            let ordinary = [libc::SCHED_OTHER, libc::SCHED_BATCH, libc::SCHED_IDLE];
            let why = match () {
                () if creds.uids != [self.uid; 4] => format!("of user {:?}", creds.uids),
                () if inheritable | permitted | effective | ambient != 0 => "with capabilities".to_string(),
                () if creds.securebits != 0 => "with secure bits".to_string(),
                () if !ordinary.contains(&(scheduling.policy & !libc::SCHED_RESET_ON_FORK)) || scheduling.nice < 0 => {
                    "scheduled before others".to_string()
                }
                () if scheduling.io >> IO_CLASS == IO_REAL_TIME => "that reads and writes before others".to_string(),
                () if foreign.is_some() => format!("in group {}", foreign.copied().unwrap_or_default()),
                () => continue,
            };
            return Err(self.refused(format!("thread {tid} {why}")));
        }
        Ok(())
    }

    /// # Errors
    /// The same for files without a name.
    pub(crate) fn may_have(&self, objects: &Objects) -> Result<()> {
        self.may_have_in(objects, &self.groups())
    }

    fn may_have_in(&self, objects: &Objects, known: &BTreeSet<u32>) -> Result<()> {
        let is_foreign = |one: &&Object| one.uid != self.uid || !known.contains(&one.gid) || one.mode & SET_IDS != 0;
        objects.objects.iter().find(is_foreign).map_or(Ok(()), |one| {
            let Object { uid, gid, mode, .. } = one;
            Err(self.refused(format!("a file without a name, of user {uid} and group {gid}, mode {mode:o}")))
        })
    }

    /// # Errors
    /// The same for what all threads share.
    pub(crate) fn may_live(&self, process: &Process) -> Result<()> {
        match () {
            // Who chooses the root directory chooses what set-user-ID programs find in /etc.
            () if process.root.0 != b"/" => Err(self.refused("a process with another root directory")),
            () if process.oom_score_adj < 0 => Err(self.refused("a process that is spared when memory runs out")),
            () => Ok(()),
        }
    }

    /// `own`: the hard limits of who restores, by resource. The owner's are known to nobody.
    ///
    /// # Errors
    /// The same for limits above these, and for more locked memory than may be locked.
    fn may_use(&self, process: &Process, memory: &Memory, own: &[(u32, u64)]) -> Result<()> {
        let hard = |resource: u32| own.iter().find(|(which, _)| *which == resource).map_or(0, |(_, hard)| *hard);
        let above = (0..).zip(&process.limits).find(|(resource, limit)| limit.hard > hard(*resource));
        if let Some((resource, limit)) = above {
            let (its, most) = (limit.hard, hard(resource));
            return Err(self.refused(format!("a process with {its} as limit {resource}, above {most} of who restores")));
        }
        let is_locked = |area: &&Area| AreaFlags::from_bits_retain(area.flags).contains(AreaFlags::LOCKED);
        let locked: u64 = memory.areas.iter().filter(is_locked).map(|area| area.end - area.start).sum();
        let most = process.limits.get(libc::RLIMIT_MEMLOCK as usize).map_or(0, |limit| limit.soft);
        match locked > most {
            true => Err(self.refused(format!("a process with {locked} bytes of locked memory, which may lock {most}"))),
            false => Ok(()),
        }
    }
}

/// Checks limits and locked memory, when all but the pages has been read.
///
/// # Errors
/// `Refused` for more than the owner of the image may have; as prlimit(2).
pub(crate) fn check_use(owner: Option<Owner>, process: &Process, memory: &Memory) -> Result<()> {
    let Some(owner) = owner else { return Ok(()) };
    let own = identity::limits(Pid(std::process::id() as i32))?;
    let hard: Vec<(u32, u64)> = own.into_iter().map(|(resource, _, hard)| (resource, hard)).collect();
    owner.may_use(process, memory, &hard)
}

/// Drops claims of a user's image that nobody can check, and that others would take for the kernel's word: the makers of sockets, who has sent what is in them, the user who has
/// logged in, control groups; and options of sockets that are root's to set.
pub(crate) fn disbelieve(process: &mut Process, files: &mut Files, of: &Creds) {
    process.login = None;
    process.cgroups.clear();
    for pair in &mut files.sockets {
        pair.peer = None;
        for end in &mut pair.ends {
            end.messages
                .iter_mut()
                .flat_map(|message| &mut message.sender)
                .for_each(|sender| *sender = (of.uids[1], of.gids[1]));
            end.options.retain_mut(is_a_users_to_set);
        }
    }
}

/// As far as it is known by now. Whoever is no such owner may claim anything.
///
/// # Errors
/// As the checks of [`Owner`].
pub(crate) fn check(
    owner: Option<Owner>,
    threads: &[Thread],
    objects: Option<&Objects>,
    process: Option<&Process>,
) -> Result<()> {
    let Some(owner) = owner else { return Ok(()) };
    owner.may_be(threads)?;
    objects.map_or(Ok(()), |objects| owner.may_have(objects))?;
    process.map_or(Ok(()), |process| owner.may_live(process))
}

#[cfg(test)]
mod tests {
    use super::*;
    use image::files::{Message, Peer, SocketEnd, SocketOption, SocketPair};
    use image::objects::ObjectKind;
    use image::process::Limit;
    use image::thread::Scheduling;

    #[test]
    fn an_image_of_a_users_claims_that_user_and_no_more() {
        let owner = Owner { uid: 61001 };
        let known = BTreeSet::from([61001]);
        let (uids, gids) = ([61001; 4], [61001; 4]);
        let good = Thread { tid: 7, creds: Creds { uids, gids, ..Creds::default() }, ..Thread::default() };
        assert_eq!(owner.may_be_in(std::slice::from_ref(&good), &known), Ok(()));
        assert!(owner.may_be(std::slice::from_ref(&good)).is_err(), "nobody knows that user");
        let with = |change: fn(&mut Thread)| {
            let mut thread = good.clone();
            change(&mut thread);
            owner.may_be_in(&[good.clone(), thread], &known)
        };
        let bad: [fn(&mut Thread); 9] = [
            |thread| thread.creds.uids[3] = 0,
            |thread| thread.creds.uids = [0; 4],
            |thread| thread.creds.gids[1] = 0,
            |thread| thread.creds.groups = vec![61001, 0],
            |thread| thread.creds.capabilities[1] = 1 << 21,
            |thread| thread.creds.securebits = 4,
            |thread| thread.scheduling = Scheduling { policy: libc::SCHED_FIFO, ..Scheduling::default() },
            |thread| thread.scheduling = Scheduling { nice: -1, ..Scheduling::default() },
            |thread| thread.scheduling = Scheduling { io: IO_REAL_TIME << IO_CLASS, ..Scheduling::default() },
        ];
        assert!(bad.into_iter().all(|change| with(change).is_err_and(|fault| fault.kind == vocab::Kind::Refused)));
        let object = |uid, gid, mode| {
            let kind = ObjectKind::Shared { reserved: true };
            let object = Object { kind, size: 0, mode, uid, gid, accessed: 0, modified: 0, page: 0 };
            owner.may_have_in(&Objects { objects: vec![object] }, &known)
        };
        assert!(object(61001, 61001, 0o777).is_ok() && object(0, 61001, 0o777).is_err());
        assert!(object(61001, 61001, 0o4755).is_err() && object(61001, 0, 0o777).is_err());
        let lives = |root: &[u8], oom_score_adj| {
            owner.may_live(&Process { root: root.into(), oom_score_adj, ..Process::default() })
        };
        let uses = |hard: u64, locked: u64| {
            let mut limits = vec![Limit::default(); 16];
            limits[libc::RLIMIT_NOFILE as usize].hard = hard;
            limits[libc::RLIMIT_MEMLOCK as usize].soft = 8192;
            let flags = AreaFlags::LOCKED.bits();
            let memory = Memory { areas: vec![Area { end: locked, flags, ..Area::default() }], ..Memory::default() };
            owner.may_use(&Process { limits, ..Process::default() }, &memory, &[(libc::RLIMIT_NOFILE, 1024)])
        };
        assert!(uses(1024, 8192).is_ok() && uses(1025, 8192).is_err() && uses(1024, 8193).is_err());
        assert!(lives(b"/", 0).is_ok() && lives(b"/tmp", 0).is_err() && lives(b"/", -1).is_err());
    }

    #[test]
    fn of_sockets_a_users_image_claims_what_that_user_could_have_done() {
        let option = |name, value: i32| SocketOption { name, value: value.to_ne_bytes().to_vec().into() };
        let options = vec![
            option(libc::SO_MARK, 77),
            option(libc::SO_PRIORITY, 7),
            option(libc::SO_PRIORITY, 6),
            option(libc::SO_RCVBUF, 1 << 30),
        ];
        let messages = vec![
            Message { sender: Some((0, 0)), ..Message::default() },
            Message { sender: None, ..Message::default() },
        ];
        let end = SocketEnd { options, messages, ..SocketEnd::default() };
        let pair = SocketPair { peer: Some(Peer::default()), ends: vec![end], ..SocketPair::default() };
        let mut files = Files { sockets: vec![pair], ..Files::default() };
        let of = Creds { uids: [61001; 4], gids: [61002; 4], ..Creds::default() };
        disbelieve(&mut Process::default(), &mut files, &of);
        let [SocketPair { peer: None, ends, .. }] = &files.sockets[..] else { panic!("its maker is believed") };
        let senders: Vec<_> = ends[0].messages.iter().map(|message| message.sender).collect();
        assert_eq!(senders, [Some((61001, 61002)), None]);
        let names: Vec<i32> = ends[0].options.iter().map(|option| option.name).collect();
        assert_eq!(names, [libc::SO_PRIORITY, libc::SO_RCVBUF]);
        assert_eq!(ends[0].options[0], option(libc::SO_PRIORITY, 6));
        assert_ne!(ends[0].options[1], option(libc::SO_RCVBUF, 1 << 30));
    }
}
