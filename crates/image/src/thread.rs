//! What a thread has of its own.

use crate::Bytes;
use minicbor::{Decode, Encode};
use serde::Serialize;

#[derive(Clone, PartialEq, Eq, Debug, Default, Encode, Decode, Serialize)]
#[cbor(map)]
pub struct Thread {
    #[n(0)]
    pub tid: i32,
    /// In the kernel's order (`struct user_regs_struct`).
    #[n(1)]
    pub regs: Vec<u64>,
    /// In the layout of XSAVE.
    #[n(2)]
    pub xstate: Bytes,
    /// The signals that it blocks.
    #[n(3)]
    pub mask: u64,
    /// The siginfo of each signal that waits for this thread, 128 bytes.
    #[n(4)]
    pub queue: Vec<Bytes>,
    #[n(5)]
    pub altstack: AltStack,
    /// Address and length (set_robust_list(2)).
    #[n(6)]
    pub robust: (u64, u64),
    #[n(7)]
    pub rseq: Rseq,
    /// PR_GET_TID_ADDRESS.
    #[n(8)]
    pub clear_tid: u64,
    #[n(9)]
    pub name: Bytes,
    #[n(10)]
    pub creds: Creds,
    #[n(11)]
    pub scheduling: Scheduling,
    /// PR_GET_PDEATHSIG.
    #[n(12)]
    pub death_signal: i32,
    /// In which call it was waiting with a time limit, if it is to wait on.
    #[n(13)]
    pub waits: Option<Wait>,
    /// What it has set of itself by prctl(2) and arch_prctl(2) that is not as it is at the beginning: which ([`MODES`]), and to what.
    #[n(14)]
    #[cbor(default)]
    pub modes: Vec<(u32, u64)>,
}

/// The numbers of [`Thread::modes`]: speculation past stores, of indirect branches, and into what the first-level cache has (PR_GET_SPECULATION_CTRL); PR_GET_TSC;
/// PR_MCE_KILL_GET; ARCH_GET_CPUID.
pub const MODES: std::ops::Range<u32> = 0..6;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Encode, Decode, Serialize)]
#[cbor(map)]
pub struct AltStack {
    #[n(0)]
    pub at: u64,
    #[n(1)]
    pub flags: u32,
    #[n(2)]
    pub size: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Encode, Decode, Serialize)]
#[cbor(map)]
pub struct Rseq {
    #[n(0)]
    pub address: u64,
    #[n(1)]
    pub size: u32,
    #[n(2)]
    pub signature: u32,
    #[n(3)]
    pub flags: u32,
}

#[derive(Clone, PartialEq, Eq, Debug, Default, Encode, Decode, Serialize)]
#[cbor(map)]
pub struct Creds {
    /// Real, effective, saved, of the file system.
    #[n(0)]
    pub uids: [u32; 4],
    #[n(1)]
    pub gids: [u32; 4],
    #[n(2)]
    pub groups: Vec<u32>,
    /// Inheritable, permitted, effective, bounding, ambient.
    #[n(3)]
    pub capabilities: [u64; 5],
    #[n(4)]
    pub securebits: u32,
    #[n(5)]
    pub no_new_privs: bool,
}

#[derive(Clone, PartialEq, Eq, Debug, Default, Encode, Decode, Serialize)]
#[cbor(map)]
pub struct Scheduling {
    /// SCHED_OTHER and so on (sched(7)), with SCHED_RESET_ON_FORK.
    #[n(0)]
    pub policy: i32,
    #[n(1)]
    pub priority: i32,
    #[n(2)]
    pub nice: i32,
    /// One bit for each processor.
    #[n(3)]
    pub processors: Bytes,
    /// Nanoseconds (PR_GET_TIMERSLACK).
    #[n(4)]
    pub slack: u64,
    /// Class and level for input and output (ioprio_get(2)); 0: those of `nice`.
    #[n(5)]
    #[cbor(default)]
    pub io: u32,
}

/// A call that waits for a time that was given as a duration: the kernel alone knows when it began, so that what is left is estimated
/// from when the thread last ran.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Encode, Decode, Serialize)]
#[cbor(map)]
pub struct Wait {
    /// Nanoseconds.
    #[n(0)]
    pub left: u64,
    /// The call's number.
    #[n(1)]
    pub call: u64,
}
