//! What a stand-in can be told, typed; [`kern::standin::Op`] is the same as numbers.

use kern::standin::{Hold, Op};
use vocab::{Ids, Pid, Sig};
use zerocopy::FromZeros;

/// A comm (prctl(2), PR_SET_NAME): at most 15 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Name([u8; 16]);

impl Name {
    /// Longer names are cut as the kernel does.
    pub fn new(name: &[u8]) -> Name {
        let mut bytes = [0; 16];
        for (to, from) in bytes.iter_mut().take(15).zip(name) {
            *to = *from;
        }
        Name(bytes)
    }
}

impl Name {
    pub(crate) fn bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl std::fmt::Debug for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let end = self.0.iter().position(|b| *b == 0).unwrap_or(15);
        write!(f, "{:?}", String::from_utf8_lossy(&self.0[..end]))
    }
}

/// A command to one stand-in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Command {
    /// Make a stand-in as a child, or with `sibling` as a child of its own parent (CLONE_PARENT).
    Clone {
        /// [`Pid::NONE`]: any free PID, the result says which.
        pid: Pid,
        sibling: bool,
        name: Name,
    },
    Exit(u8),
    /// Die of this signal, with the core bit if `core` and that can be done.
    Die {
        sig: Sig,
        core: bool,
    },
    Stop(Sig),
    Setsid,
    Setpgid {
        pid: Pid,
        pgid: Pid,
    },
    Ids {
        uid: Ids,
        gid: Ids,
    },
    Name(Name),
    /// wait4 for a child, -1 for any, with these options; the outcome has status and usage. With WNOWAIT: waitid for a stop of this child, which stays to be waited for.
    Wait {
        pid: Pid,
        options: i32,
    },
    /// kill(2), negative numbers being groups.
    Kill {
        target: Pid,
        sig: u8,
    },
    Queue {
        target: Pid,
        sig: u8,
        code: i32,
        value: u64,
    },
    Tgkill {
        pid: Pid,
        tid: Pid,
        sig: u8,
    },
    Capabilities(u64),
    /// Start a program: the address of a [`kern::standin::setup::Setup`] in the stand-in's memory.
    Spawn(u64),
    /// Become a program: the address of a [`kern::standin::setup::Setup`] in the shared memory. Its outcome is told only when it
    /// is EAGAIN: to be given again. Otherwise it is a stand-in until [`crate::Ghosts::left`] says that it is none any more.
    Exec(u64),
    /// Hand over the kernel's SIGCHLD for children from now on, or no more.
    Children(bool),
    Subreaper(bool),
    /// Become the process for which it stands, as a tracer makes it: it closes the hold file, which is told as [`crate::Happened::Dying`], and waits.
    /// Its outcome is told only when it is EAGAIN: to be given again.
    Home,
    DeathSignal(u8),
    /// setgroups(2): address of the list in the shared memory, and its length.
    Groups {
        list: u64,
        count: u64,
    },
    /// Fresh memory, for what the start of `child` needs.
    Map {
        bytes: u64,
        child: Pid,
    },
    Unmap {
        address: u64,
        bytes: u64,
    },
    /// Open this file, for reading and writing: the address of its path in the shared memory. The outcome is its descriptor. It may wait for others.
    Open {
        path: u64,
    },
    Close {
        file: u32,
    },
    /// Read `bytes` (at most 32) at `address` of a file that it has opened; the outcome has them. It may wait for the server of that memory.
    Peek {
        file: u32,
        address: u64,
        bytes: u32,
    },
    /// Write the first `bytes` of these words there.
    Poke {
        file: u32,
        address: u64,
        bytes: u32,
        words: [u64; 4],
    },
    /// Read what `child` starts with to `address`, from the file that the gate gives.
    Fill {
        address: u64,
        bytes: u64,
        child: Pid,
    },
}

impl Command {
    /// Is it the last one that a stand-in gets?
    pub fn ends(self) -> bool {
        matches!(self, Command::Exit(_) | Command::Die { .. })
    }

    /// As the hold's answer; `slot` is where a clone goes.
    pub(crate) fn encode(self, tag: u32, slot: u32) -> Hold {
        let mut hold = Hold::new_zeroed();
        let n = |id: u32| i64::from(id);
        let p = |pid: Pid| i64::from(pid.0);
        const CLONE_PARENT: i64 = 0x8000;
        let (op, arg) = match self {
            Command::Clone { pid, sibling, name } => {
                hold.name = name.0;
                (Op::Clone, [p(pid), n(slot), if sibling { CLONE_PARENT } else { 0 }, 0, 0, 0])
            }
            Command::Exit(code) => (Op::Exit, one(code.into())),
            Command::Die { sig, core } => (Op::Die, two(sig.number().into(), core.into())),
            Command::Stop(sig) => (Op::Stop, one(sig.number().into())),
            Command::Setsid => (Op::Setsid, one(0)),
            Command::Setpgid { pid, pgid } => (Op::Setpgid, two(p(pid), p(pgid))),
            Command::Ids { uid, gid } => {
                (Op::Ids, [n(uid.real), n(uid.effective), n(uid.saved), n(gid.real), n(gid.effective), n(gid.saved)])
            }
            Command::Name(name) => {
                hold.name = name.0;
                (Op::Name, one(0))
            }
            Command::Wait { pid, options } => (Op::Wait, two(p(pid), options.into())),
            Command::Kill { target, sig } => (Op::Kill, two(p(target), sig.into())),
            Command::Queue { target, sig, code, value } => {
                (Op::Queue, [p(target), sig.into(), code.into(), value as i64, 0, 0])
            }
            Command::Tgkill { pid, tid, sig } => (Op::Tgkill, [p(pid), p(tid), sig.into(), 0, 0, 0]),
            Command::Capabilities(set) => (Op::Capabilities, one(set as i64)),
            Command::Spawn(setup) => (Op::Spawn, one(setup as i64)),
            Command::Exec(setup) => (Op::Exec, one(setup as i64)),
            Command::Children(on) => (Op::Children, one(on.into())),
            Command::Subreaper(on) => (Op::Subreaper, one(on.into())),
            Command::Home => (Op::Home, one(0)),
            Command::DeathSignal(sig) => (Op::DeathSignal, one(sig.into())),
            Command::Map { bytes, .. } => (Op::Map, one(bytes as i64)),
            Command::Fill { address, bytes, .. } => (Op::Fill, two(address as i64, bytes as i64)),
            Command::Unmap { address, bytes } => (Op::Unmap, two(address as i64, bytes as i64)),
            Command::Open { path } => (Op::Open, one(path as i64)),
            Command::Close { file } => (Op::Close, one(n(file))),
            Command::Peek { file, address, bytes } => (Op::Peek, two(n(file) | n(bytes) << 32, address as i64)),
            Command::Poke { file, address, bytes, words: [a, b, c, d] } => {
                let [a, b, c, d] = [a, b, c, d].map(|word| word as i64);
                (Op::Poke, [n(file) | n(bytes) << 32, address as i64, a, b, c, d])
            }
            Command::Groups { list, count } => (Op::Groups, two(list as i64, count as i64)),
        };
        hold.op = op as u32;
        hold.tag = tag;
        hold.arg = arg;
        hold
    }
}

fn one(a: i64) -> [i64; 6] {
    [a, 0, 0, 0, 0, 0]
}

fn two(a: i64, b: i64) -> [i64; 6] {
    [a, b, 0, 0, 0, 0]
}

/// The answer to a hold that handed something over when nothing is to be done.
pub(crate) fn ack() -> Hold {
    Hold::new_zeroed()
}
