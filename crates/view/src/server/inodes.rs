//! The files that nodes know of: each is open here (O_PATH) as long as a node may name it, under one number for all nodes.

use super::calls::{errno, no_room, path_of, Errno, DIRECTORY, FILE, FORMAT};
use super::descriptors::{self, Descriptors, Slot};
use crate::fuse::{Attr, ROOT};
use crate::line::lock;
use kern::fanotify::{self, Watch};
use rustix::fs::{AtFlags, Mode, OFlags, Stat, StatxFlags};
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use vocab::errno::ESTALE;
use vocab::{Fault, Result};

/// A session, by number.
pub(crate) type Who = u32;

/// File systems of which nothing but the root is shown: what they say is of the process that looks, and that is the server (linux/magic.h): proc, sysfs, devpts,
/// cgroup, cgroup2, debugfs, tracefs, securityfs, selinuxfs, bpf, fusectl, nsfs.
const CLOSED: [i64; 12] = [
    0x9fa0,
    0x6265_6572,
    0x1cd1,
    0x0027_e0eb,
    0x6367_7270,
    0x6462_6720,
    0x7472_6163,
    0x7363_6673,
    0xf97c_ff8c,
    0xcafe_4a11,
    0x6573_5543,
    0x6e73_6673,
];

/// S_ISUID and S_ISGID.
const SET_ID: u32 = 0o6000;

/// A file of the front end, in one mount of its file system: what may be done with it is the mount's too.
#[derive(Debug)]
pub(crate) struct Inode {
    pub(crate) id: u64,
    pub(crate) slot: Arc<Slot>,
    /// Device and number.
    pub(crate) key: (u64, u64),
    /// The mount's number (statx(2), STATX_MNT_ID).
    pub(crate) mount: u64,
    /// Bits of S_IFMT.
    pub(crate) kind: u32,
    /// Nothing below is shown.
    pub(crate) closed: bool,
    /// Others than this machine's kernel change its file system.
    shared: bool,
    /// Nodes keep nothing of it: the file was known in another mount when it came to be known in this one, or others than this machine's kernel change it.
    pub(crate) unkept: bool,
    /// It is mounted so that set-user-ID programs are none (ST_NOSUID).
    nosuid: AtomicBool,
    pub(crate) state: Mutex<State>,
}

/// Knowledge of a file, and where it is.
#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) holders: HashMap<Who, Holder>,
    /// While nodes keep pages of it.
    pub(crate) lease: Option<Arc<File>>,
    /// A node that has made it keeps what is written.
    pub(crate) writing: Option<Writing>,
    /// How often nodes have it open for writing.
    pub(crate) writers: usize,
    /// Of a directory: changes are told.
    pub(crate) marked: bool,
    /// By what those that tell of changes name it.
    pub(crate) handle: Option<fanotify::Directory>,
    /// Of a file: changes of its attributes are told, whatever it is called.
    pub(crate) told: bool,
    /// Changes of what it is called are told, as of a file with one name in a directory that is marked.
    pub(crate) watched: bool,
    /// How often something has changed that nodes may know; of a directory, in it too.
    pub(crate) changes: u64,
    /// Of a directory: the names that were told, what they lead to (0: nothing), and to whom.
    pub(crate) names: HashMap<Vec<u8>, Named>,
    /// Of a directory: the nodes that were sent all names.
    pub(crate) listings: HashMap<Who, Listing>,
    /// Owners of locks on the file, or on parts of it.
    pub(crate) locks: HashMap<Locker, Arc<File>>,
}

/// A node, and the open file on which the lease is.
#[derive(Debug)]
pub(crate) struct Writing {
    pub(crate) who: Who,
    pub(crate) file: Arc<File>,
}

/// Have the names of a directory been sent to a node?
#[derive(Debug)]
pub(crate) enum Listing {
    /// They have; so often it has asked for one since. It is told of every name that changes.
    Sent(u32),
    TooMany,
}

/// Knowledge of one node.
#[derive(Debug, Default)]
pub(crate) struct Holder {
    pub(crate) lookups: u64,
    pub(crate) attributes: bool,
    pub(crate) content: bool,
    /// It has, or had, the right to open it by itself.
    pub(crate) granted: bool,
    /// It was sent the right unasked, and has perhaps not got it: what its kernel has from before is dropped when it asks.
    pub(crate) unasked: bool,
}

/// The owner of a lock, as a node's kernel calls it: a process, or an open file (flock(2)).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Locker {
    pub(crate) who: Who,
    pub(crate) owner: u64,
    pub(crate) whole: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Named {
    pub(crate) node: u64,
    pub(crate) told: HashSet<Who>,
}

#[derive(Debug, Default)]
struct Tables {
    by_id: HashMap<u64, Arc<Inode>>,
    by_key: HashMap<(u64, u64), u64>,
    /// Files that are known in several mounts, but for the first of those, by the mount too.
    by_mount: HashMap<((u64, u64), u64), u64>,
    by_directory: HashMap<fanotify::Directory, u64>,
    last: u64,
}

/// All of them. The tables may be locked first and a file's state then, never the other way round.
#[derive(Debug)]
pub(crate) struct Inodes {
    tables: Mutex<Tables>,
    root_device: u64,
    watch: Option<Arc<Watch>>,
    files: Option<Arc<Watch>>,
    descriptors: Descriptors,
}

impl Inodes {
    /// With the root of the view. Without a watch nothing is kept by nodes for longer than a call; without one of files, attributes of files for no longer than a second.
    ///
    /// # Errors
    /// `Sys`: the root cannot be opened.
    pub(crate) fn new(watch: Option<Arc<Watch>>, files: Option<Arc<Watch>>) -> Result<Inodes> {
        let root = rustix::fs::open("/", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
        let root = root.map_err(|e| Fault::sys(errno(e), "open the root of the view"))?;
        let stat = rustix::fs::fstat(&root).map_err(|e| Fault::sys(errno(e), "look at the root of the view"))?;
        let key = (stat.st_dev, stat.st_ino);
        let state = Mutex::new(State { watched: true, ..State::default() });
        let descriptors = Descriptors::new(descriptors::most());
        let mount = mount_of(root.as_fd());
        let (shared, nosuid) = (is_shared(root.as_fd()), AtomicBool::new(is_nosuid(root.as_fd())));
        let slot = descriptors.slot(root, mount);
        let kind = stat.st_mode & FORMAT;
        let inode = Inode { id: ROOT, slot, key, mount, kind, closed: false, shared, unkept: shared, nosuid, state };
        let mut tables = Tables { last: ROOT, ..Tables::default() };
        tables.by_key.insert(key, ROOT);
        tables.by_id.insert(ROOT, Arc::new(inode));
        Ok(Inodes { tables: Mutex::new(tables), root_device: stat.st_dev, watch, files, descriptors })
    }

    /// # Errors
    /// ESTALE: no node may know of it.
    pub(crate) fn get(&self, id: u64) -> Errno<Arc<Inode>> {
        lock(&self.tables).by_id.get(&id).cloned().ok_or(ESTALE)
    }

    /// The file of this device and number, if nodes know it.
    pub(crate) fn known(&self, key: (u64, u64)) -> Option<Arc<Inode>> {
        let tables = lock(&self.tables);
        tables.by_key.get(&key).and_then(|id| tables.by_id.get(id)).cloned()
    }

    /// All that nodes know of this mount, after its options have changed.
    pub(crate) fn remounted(&self, mount: u64) -> Vec<Arc<Inode>> {
        let all: Vec<_> = self.all().into_iter().filter(|inode| inode.mount == mount).collect();
        for inode in &all {
            if let Ok(fd) = self.descriptors.of(&inode.slot) {
                inode.nosuid.store(is_nosuid(fd.as_fd()), Ordering::Relaxed);
            }
        }
        all
    }

    /// Lets go of file systems of which nodes know no file.
    pub(crate) fn prune(&self) {
        self.descriptors.prune();
    }

    /// So many leases at most; each has a descriptor.
    pub(crate) fn most_leases(&self) -> usize {
        descriptors::most() / 2
    }

    /// The directory that an event is about.
    pub(crate) fn directory(&self, directory: &fanotify::Directory) -> Option<Arc<Inode>> {
        let tables = lock(&self.tables);
        tables.by_directory.get(directory).and_then(|id| tables.by_id.get(id)).cloned()
    }

    pub(crate) fn all(&self) -> Vec<Arc<Inode>> {
        lock(&self.tables).by_id.values().cloned().collect()
    }

    /// Takes in what was opened with O_PATH, or knows it already; `who` has looked it up once more.
    ///
    /// # Errors
    /// As fstat(2).
    pub(crate) fn take(&self, fd: OwnedFd, parent: &Inode, who: Who) -> Errno<(Arc<Inode>, Stat)> {
        let stat = rustix::fs::fstat(&fd).map_err(errno)?;
        let key = (stat.st_dev, stat.st_ino);
        let mount = mount_of(fd.as_fd());
        let elsewhere = stat.st_dev != parent.key.0;
        let closed = parent.closed || elsewhere && is_closed(fd.as_fd());
        let shared = if elsewhere { is_shared(fd.as_fd()) } else { parent.shared };
        let mut tables = lock(&self.tables);
        let by_id = |id: &u64| tables.by_id.get(id).cloned();
        // A number is another file's when nothing has the first one open.
        let first = tables.by_key.get(&key).and_then(by_id);
        let first = first.filter(|inode| inode.mount != mount || self.descriptors.is_of(&inode.slot, fd.as_fd()));
        let in_mount = || tables.by_mount.get(&(key, mount)).and_then(by_id);
        let in_mount = in_mount().filter(|inode| self.descriptors.is_of(&inode.slot, fd.as_fd()));
        let known = first.as_ref().filter(|inode| inode.mount == mount).cloned().or(in_mount);
        let is_new = known.is_none();
        let inode = known.unwrap_or_else(|| {
            tables.last += 1;
            let id = tables.last;
            let kind = stat.st_mode & FORMAT;
            let nosuid = AtomicBool::new(is_nosuid(fd.as_fd()));
            let slot = self.descriptors.slot(fd, mount);
            let (unkept, state) = (shared || first.is_some(), Mutex::default());
            let inode = Arc::new(Inode { id, slot, key, mount, kind, closed, shared, unkept, nosuid, state });
            match first {
                Some(_) => tables.by_mount.insert((key, mount), id),
                None => tables.by_key.insert(key, id),
            };
            tables.by_id.insert(id, inode.clone());
            inode
        });
        lock(&inode.state).holders.entry(who).or_default().lookups += 1;
        drop(tables);
        if is_new {
            self.descriptors.count(&inode.slot);
        }
        Ok((inode, stat))
    }

    /// `who` knows a file by so many lookups less; `None`: not at all any more.
    pub(crate) fn forget(&self, id: u64, who: Who, lookups: Option<u64>) {
        if id == ROOT && lookups.is_some() {
            return;
        }
        let mut tables = lock(&self.tables);
        let Some(inode) = tables.by_id.get(&id).cloned() else { return };
        let mut state = lock(&inode.state);
        if let Some(holder) = state.holders.get_mut(&who) {
            holder.lookups = lookups.map_or(0, |lookups| holder.lookups.saturating_sub(lookups));
            if holder.lookups == 0 {
                state.holders.remove(&who);
                state.listings.remove(&who);
            }
        }
        if state.holders.is_empty() && id != ROOT {
            // Opened files and locks keep it by their own.
            tables.by_id.remove(&id);
            if tables.by_key.get(&inode.key) == Some(&id) {
                tables.by_key.remove(&inode.key);
            }
            if tables.by_mount.get(&(inode.key, inode.mount)) == Some(&id) {
                tables.by_mount.remove(&(inode.key, inode.mount));
            }
            if let Some(name) = state.handle.take() {
                tables.by_directory.remove(&name);
            }
            if state.marked {
                if let (Some(watch), Ok(fd)) = (&self.watch, self.descriptors.of(&inode.slot)) {
                    watch.unmark(fd.as_fd());
                }
            }
            if state.told {
                if let (Some(files), Ok(fd)) = (&self.files, self.descriptors.of(&inode.slot)) {
                    files.unmark_file(fd.as_fd());
                }
            }
        }
    }

    /// Has what happens in this directory told from now on. False: it cannot be.
    pub(crate) fn mark(&self, inode: &Arc<Inode>) -> bool {
        let Some(watch) = &self.watch else { return false };
        if inode.closed || inode.unkept {
            return false;
        }
        if lock(&inode.state).marked {
            return true;
        }
        let Ok(fd) = self.descriptors.of(&inode.slot) else { return false };
        let Some(directory) = fanotify::directory(fd.as_fd()) else { return false };
        lock(&self.tables).by_directory.insert(directory.clone(), inode.id);
        let marked = watch.mark(fd.as_fd()).is_ok();
        if !marked {
            lock(&self.tables).by_directory.remove(&directory);
        }
        let mut state = lock(&inode.state);
        (state.marked, state.handle) = (marked, marked.then_some(directory));
        marked
    }

    /// Has changes of a file's attributes told from now on, whatever it is called, if that can be.
    pub(crate) fn mark_file(&self, inode: &Arc<Inode>) {
        let Some(files) = &self.files else { return };
        if inode.unkept || lock(&inode.state).told {
            return;
        }
        let Ok(fd) = self.descriptors.of(&inode.slot) else { return };
        let Some(name) = fanotify::directory(fd.as_fd()) else { return };
        lock(&self.tables).by_directory.insert(name.clone(), inode.id);
        if files.mark_file(fd.as_fd()).is_ok() {
            let mut state = lock(&inode.state);
            (state.told, state.handle) = (true, Some(name));
        } else {
            lock(&self.tables).by_directory.remove(&name);
        }
    }

    /// Attributes as the kernel of a node wants them. Numbers of files on other devices than the root's are changed, since a view has one device.
    pub(crate) fn attributes(&self, inode: &Inode, stat: &Stat) -> Attr {
        let other = if stat.st_dev == self.root_device { 0 } else { (stat.st_dev & 0x7fff).wrapping_add(1) << 48 };
        let device = stat.st_rdev;
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        Attr {
            ino: stat.st_ino ^ other,
            size: stat.st_size as u64,
            blocks: stat.st_blocks as u64,
            atime: stat.st_atime as u64,
            mtime: stat.st_mtime as u64,
            ctime: stat.st_ctime as u64,
            nsec: [stat.st_atime_nsec as u32, stat.st_mtime_nsec as u32, stat.st_ctime_nsec as u32],
            mode: if inode.nosuid.load(Ordering::Relaxed) && inode.is_file() {
                stat.st_mode & !SET_ID
            } else {
                stat.st_mode
            },
            nlink: stat.st_nlink as u32,
            uid: stat.st_uid,
            gid: stat.st_gid,
            // new_encode_dev (linux/kdev_t.h)
            rdev: (minor & 0xff) | (major << 8) | ((minor & !0xff) << 12),
            blksize: stat.st_blksize as u32,
            flags: 0,
        }
    }
}

/// File systems that other machines change too, or a process of this one: the kernel grants leases on them and tells of changes as if it were alone (linux/magic.h): FUSE, NFS, CIFS, SMB2,
/// 9P, Ceph, AFS, kAFS, GFS2, OCFS2, Lustre, Coda, NCP, vboxsf.
const SHARED: [i64; 14] = [
    0x6573_5546,
    0x6969,
    0xff53_4d42,
    0xfe53_4d42,
    0x0102_1997,
    0x00c3_6400,
    0x5346_414f,
    0x6b41_4653,
    0x0116_1970,
    0x7461_636f,
    0x0bd0_0bd0,
    0x7375_7245,
    0x564c,
    0x786f_4256,
];

fn is_shared(fd: BorrowedFd<'_>) -> bool {
    rustix::fs::fstatfs(fd).map_or(true, |found| SHARED.contains(&found.f_type))
}

fn mount_of(fd: BorrowedFd<'_>) -> u64 {
    let found = rustix::fs::statx(fd, "", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID);
    // A kernel that does not say it (before 5.8) has one mount of each file system for us.
    found.map_or(0, |found| found.stx_mnt_id)
}

fn is_nosuid(fd: BorrowedFd<'_>) -> bool {
    rustix::fs::fstatvfs(fd).is_ok_and(|found| found.f_flag.contains(rustix::fs::StatVfsMountFlags::NOSUID))
}

fn is_closed(fd: BorrowedFd<'_>) -> bool {
    rustix::fs::fstatfs(fd).map_or(true, |found| CLOSED.contains(&found.f_type))
}

impl Inode {
    pub(crate) fn is_directory(&self) -> bool {
        self.kind == DIRECTORY
    }

    pub(crate) fn is_file(&self) -> bool {
        self.kind == FILE
    }
}

impl Inodes {
    /// The descriptor by which a file is reached.
    ///
    /// # Errors
    /// ESTALE: it is gone; ENFILE.
    pub(crate) fn fd(&self, inode: &Arc<Inode>) -> Errno<Arc<OwnedFd>> {
        self.descriptors.of(&inode.slot)
    }

    /// # Errors
    /// As fstat(2).
    pub(crate) fn stat(&self, inode: &Arc<Inode>) -> Errno<Stat> {
        rustix::fs::fstat(&*self.fd(inode)?).map_err(errno)
    }

    /// Opens it anew; the flags are those of open(2) that only say how.
    ///
    /// # Errors
    /// As open(2).
    pub(crate) fn open(&self, inode: &Arc<Inode>, flags: OFlags) -> Errno<File> {
        let fd = self.fd(inode)?;
        let flags = flags | OFlags::CLOEXEC | OFlags::NOCTTY;
        let opened = rustix::fs::open(path_of(fd.as_fd()), flags, Mode::empty());
        opened.map(File::from).map_err(no_room)
    }
}
