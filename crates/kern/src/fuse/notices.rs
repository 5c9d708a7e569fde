//! What a server of a tree tells the kernel by itself: that something it knows is out of date. A thread tells it, since that may wait for whoever waits for
//! an answer.
//!
//! ODDITY(notice-waits): a notice waits for what is looked up or read just now, uninterruptibly, also when its server has been killed; and a thread that
//! waits keeps its process's descriptors, so the device stays open, and both wait for ever. linux: `fuse_reverse_inval_entry`, `invalidate_inode_pages2_range`.
//! prog: tests/prog/odd_notice_waits.c
//!
//! So the thread has descriptors of its own, and in them nothing but another device of the connection: when the server is killed its device is let go of, which
//! answers what had been read from it. Who is killed too ends then; for others the connection has to be aborted, as ever.

use super::{open_device, reply};
use crate::{own, sys};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::mpsc::{sync_channel, Receiver, SyncSender};
use vocab::{Fault, Result};

/// So many wait to be told before whoever has another one waits too.
const MOST: usize = 64;

/// See `enum fuse_notify_code`.
struct Notice {
    code: i32,
    body: Vec<u8>,
}

/// The thread, for whoever has something to tell; it ends with this.
#[derive(Debug)]
pub(super) struct Notices {
    tell: SyncSender<Notice>,
}

impl Notices {
    /// For the connection of this device.
    ///
    /// # Errors
    /// `Sys` as open(2) and ioctl(2) FUSE_DEV_IOC_CLONE; when a thread cannot be started.
    pub(super) fn start(device: &OwnedFd) -> Result<Notices> {
        let (tell, notices) = sync_channel(MOST);
        let (begun, has_begun) = sync_channel(1);
        let number = device.as_raw_fd();
        let thread = std::thread::Builder::new().name("notices".into()).spawn(move || {
            let own = only_another(number);
            let failed = begun.send(own.as_ref().map(drop).map_err(Clone::clone)).is_err();
            if let (Ok(own), false) = (own, failed) {
                pass_on(&own, &notices);
            }
        });
        thread.map_err(|e| Fault::io(&e, "start a thread"))?;
        // The thread needs the device until then.
        has_begun.recv().unwrap_or_else(|_| Err(Fault::bug("a thread that tells the kernel has ended")))?;
        Ok(Notices { tell })
    }

    /// The kernel is told soon, and of one thing after the other.
    pub(super) fn tell(&self, code: i32, body: Vec<u8>) {
        // The thread ends with this alone.
        let _ = self.tell.send(Notice { code, body });
    }
}

fn pass_on(device: &OwnedFd, notices: &Receiver<Notice>) {
    while let Ok(Notice { code, body }) = notices.recv() {
        // Unique 0 makes it a notice (linux: fuse_dev_do_write). What it is about may be unknown there, which is as good.
        reply(device.as_fd(), 0, code, &body);
    }
}

/// The calling thread has from now on a table of its own with another device of the connection of device `number`, and standard error.
fn only_another(number: RawFd) -> Result<OwnedFd> {
    const CLONE: libc::Ioctl = 0x8004_e500_u32 as libc::Ioctl; // FUSE_DEV_IOC_CLONE
                                                               // SAFETY: whoever started this thread has it open, and waits for what this returns.
    let device = unsafe { BorrowedFd::borrow_raw(number) };
    own::unshare_descriptors([device; 2], false)?;
    let another = open_device(0)?;
    let of = number as u32;
    // SAFETY: the request reads the u32 that the pointer leads to.
    let ret = unsafe { libc::ioctl(another.as_raw_fd(), CLONE, &of) };
    sys::checked(ret.into(), || "get another device of a FUSE connection".into())?;
    own::unshare_descriptors([another.as_fd(); 2], false)?;
    Ok(another)
}

#[cfg(test)]
mod tests {
    use crate::fuse::tree::{Shown, Tree, What, ROOT};
    use crate::ns::{self, Forked, Namespaces};
    use crate::poll::{poll, Ready};
    use crate::sock::{self, Kind};
    use crate::{mount, pidfd, wait};
    use std::os::fd::AsFd;
    use vocab::Sig;

    /// Both are killed while the one waits for the other to look a name up, and the other to tell that the name leads nowhere.
    #[test]
    fn a_server_that_is_killed_while_it_tells_something_ends() {
        crate::testing::in_namespace(|_| {
            let at = std::env::temp_dir().join(format!("shoal-notices.{}", std::process::id()));
            std::fs::create_dir_all(&at).expect("a directory");
            let (line, its) = sock::socketpair(Kind::SeqPacket).expect("pair");
            let Forked::Parent(server) = ns::fork(Namespaces::empty()).expect("fork") else {
                let tree = Tree::mount(&at, "shoal-test").expect("mount");
                let _ = sock::send(its.as_fd(), b"m");
                let mut room = Tree::room();
                while let Ok(asked) = tree.next_request(&mut room) {
                    let root = Shown { node: ROOT, mode: 0o040_555, kept_us: 1 << 40, ..Shown::default() };
                    match asked.what {
                        What::Attributes => tree.attributes(asked.unique, &root),
                        What::Lookup(_) => {
                            tree.remove(ROOT, b"some");
                            let _ = sock::send(its.as_fd(), b"l");
                        }
                        _ => {}
                    }
                }
                ns::exit(0)
            };
            let hear = || crate::sys::read(line.as_fd(), &mut [0; 4]).expect("it lives");
            hear();
            let Forked::Parent(looks) = ns::fork(Namespaces::empty()).expect("fork") else {
                let _ = std::fs::symlink_metadata(at.join("some"));
                ns::exit(0)
            };
            hear();
            let waits = || {
                let tasks = std::fs::read_dir(format!("/proc/{}/task", server.pid)).expect("it lives").flatten();
                let stats = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("stat")).ok());
                stats.into_iter().any(|stat| stat.contains("(notices) D "))
            };
            while !waits() {
                let _ = poll(&[], 1);
            }
            for one in [&server, &looks] {
                pidfd::kill(one.pidfd.as_fd(), Sig::KILL).expect("it lives");
            }
            let over = [&server, &looks]
                .map(|one| poll(&[(one.pidfd.as_fd(), Ready::READ)], 5_000).is_ok_and(|ready| ready[0].readable));
            // Or this test would leave two for ever.
            let _ = mount::abort(&at);
            for one in [&server, &looks] {
                wait::ended(one.pid).expect("a child");
            }
            let _ = mount::detach(&at);
            let _ = std::fs::remove_dir(&at);
            assert_eq!(over, [true; 2]);
        });
    }
}
