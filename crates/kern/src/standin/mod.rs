//! The machine code that runs inside a stand-in, and the words in which the daemon commands it.
//!
//! A stand-in is held by an `ioctl` on the daemon's FUSE file (docs/mechanisms.md, "The hold"): in go the siginfo that it
//! took and the result of the last command, out comes the next command. Many stand-ins share one address
//! space (CLONE_VM without CLONE_SETTLS), so nothing here may touch thread-local storage, allocate, or panic: all
//! calls go through [`raw`], and each stand-in has a slot of its own for its stack and its state ([`room`]).

pub mod act;
mod caps;
mod dump;
pub mod gate;
pub mod here;
mod home;
pub mod raw;
mod room;
mod run;
pub mod setup;
mod taking;

use vocab::{Pid, Sig, SigInfo};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// What goes over the hold, in both directions.
#[repr(C)]
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct Hold {
    /// In: counts the signals taken, so that a repeated hold does not hand one over twice.
    pub seq: u32,
    /// In: 0, or a signal that is handed over is in `info`: [`Hold::CLOSED`] or [`Hold::OPEN`].
    pub signals: u32,
    /// In: the tag of the last command done, 0 before the first.
    pub done: u32,
    /// In: how many slots the address space has.
    pub slots: u32,
    /// In: the stand-in's own slot.
    pub slot: u32,
    /// In: the highest slot that was ever used in this address space, so that a daemon that starts anew gives none twice.
    pub top: u32,
    /// In: what that command returned: a number or `-errno`.
    pub ret: i64,
    /// In: what else it returned ([`Op::Wait`]: status, user and system microseconds, largest resident KiB; [`Op::Spawn`]: the
    /// [`setup::Stage`] at which it failed).
    pub out: [i64; 4],
    /// In: the kernel's siginfo, its first bytes.
    pub info: RawInfo,
    /// Out: an [`Op`].
    pub op: u32,
    /// Out: comes back as `done`.
    pub tag: u32,
    /// Out: the command's arguments.
    pub arg: [i64; 6],
    /// Out: a comm, NUL-terminated, for [`Op::Name`] and [`Op::Clone`]; empty: leave it.
    pub name: [u8; 16],
}

impl Hold {
    /// `info` is handed over by one that can take no other signal before it is answered.
    pub const CLOSED: u32 = 1;
    /// By one that can take one more: that one interrupts the hold.
    pub const OPEN: u32 = 2;
}

/// The part of a siginfo that tells who sent it (sigaction(2)); the layout of `_rt` and `_kill`.
#[repr(C)]
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Default)]
pub struct RawInfo {
    pub signo: i32,
    pub errno: i32,
    pub code: i32,
    pub pad: i32,
    pub pid: i32,
    pub uid: u32,
    pub value: u64,
}

impl RawInfo {
    /// `None` for a number that is no signal.
    pub fn info(&self) -> Option<SigInfo> {
        let sig = Sig::new(u8::try_from(self.signo).ok()?)?;
        Some(SigInfo { sig, code: self.code, pid: Pid(self.pid), uid: self.uid, value: self.value, count: None })
    }
}

/// `_IOWR('g', 1, Hold)`.
pub const HOLD_IOCTL: u32 = (3 << 30) | ((size_of::<Hold>() as u32) << 16) | ((b'g' as u32) << 8) | 1;

/// What a stand-in can be told. Arguments are in [`Hold::arg`] in the order named.
#[repr(u32)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op {
    /// Nothing: what was handed over has been taken.
    Ack = 0,
    /// Make a child stand-in: PID (0: any), slot, clone flags to add, and [`Hold::name`]. Returns its PID.
    Clone = 1,
    /// Exit with this code.
    Exit = 2,
    /// Die of this signal; 1: having dumped a core that goes nowhere.
    Die = 3,
    /// Stop by this signal.
    Stop = 4,
    Setsid = 5,
    /// setpgid(pid, pgid).
    Setpgid = 6,
    /// Real, effective, saved uid; real, effective, saved gid. Keeps the capabilities it has.
    Ids = 7,
    Name = 8,
    /// wait4(pid, options).
    Wait = 9,
    /// kill(pid, sig).
    Kill = 10,
    /// rt_sigqueueinfo to pid of sig with si_code and value, the stand-in as sender.
    Queue = 11,
    /// tgkill(pid, tid, sig).
    Tgkill = 12,
    /// Effective and permitted capabilities: low and high word.
    Capabilities = 13,
    /// Start a program as child: the address of a [`setup::Setup`] in the stand-in's memory. Returns its PID.
    Spawn = 14,
    /// 1: hand over the kernel's SIGCHLD for children like other signals; 0: drop it.
    Children = 15,
    /// prctl(PR_SET_CHILD_SUBREAPER).
    Subreaper = 16,
    // 17 and 18 were close_range and seccomp: a `shoal run` of another version may still know them.
    /// prctl(PR_SET_PDEATHSIG).
    DeathSignal = 19,
    /// setgroups: address of the list (same address space only), its length.
    Groups = 20,
    /// Become a program: the address of a [`setup::Setup`]. Comes back only with EAGAIN, when a signal was taken that has to be
    /// handed over first; a failure ends the process with [`setup::Setup::errno`] set.
    Exec = 21,
    /// mmap of fresh memory of this many bytes. Returns its address.
    Map = 22,
    /// munmap: address, bytes.
    Unmap = 23,
    /// Reads what a program starts with from the file that the gate gives: address, bytes. Returns how many came.
    Fill = 24,
    /// Reads from a file: its descriptor, and from bit 32 on how many bytes (at most 32); the place. They are in [`Hold::out`]. Returns how many came.
    Peek = 25,
    /// Writes to a file: as Peek, then what is written.
    Poke = 26,
    /// The process itself comes here, and this one is to become it: takes what were its standard streams, closes all else, the hold file too, and
    /// waits for a tracer with all signals blocked. Comes back only with EAGAIN, as Exec.
    Home = 27,
    /// Opens a file for reading and writing: the address of its path (same address space only). Returns its descriptor.
    Open = 28,
    /// Closes a descriptor.
    Close = 29,
}

/// The state of one stand-in.
#[repr(C, align(16))]
pub struct Slot {
    pub hold: Hold,
    /// Is there a signal, in `info`, that the handler has taken and that is not known to be handed over: 0 or 1.
    pub taken: u32,
    pub seq: u32,
    pub info: RawInfo,
    /// The same of one that was taken after that. (The handler blocks all others until the hold.)
    pub next_taken: u32,
    pub next_info: RawInfo,
    /// Is the kernel's SIGCHLD handed over too ([`Op::Children`]): 0 or 1.
    pub children: u32,
    /// Descriptor of the hold file.
    pub fd: i32,
    /// Which slot this is.
    pub index: u32,
    /// In slot 0: the highest slot ever used, changed atomically by whoever clones.
    pub top: u32,
    /// Where it and all others of this address space are.
    pub room: room::Room,
    /// Address of the [`crate::relay::Relay`] in the first slot of [`here::hold_here`], else 0. Only that stand-in is the thread
    /// whose thread-local storage the code of the relay uses.
    pub relay: u64,
    /// A child's name, set by it when it starts.
    pub name: [u8; 16],
}

const _: () = assert!(size_of::<Hold>() < 1 << 14);
