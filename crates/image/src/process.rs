//! What all threads of a process have in common, apart from memory and descriptors.

use crate::cpu::Cpu;
use crate::file_id::Places;
use crate::Bytes;
use minicbor::{Decode, Encode};
use serde::Serialize;

/// The first record of an image: what it was made by and on.
#[derive(Clone, PartialEq, Eq, Debug, Default, Encode, Decode, Serialize)]
#[cbor(map)]
pub struct Header {
    /// Of the kernel, as uname(2) has it.
    #[n(0)]
    pub release: String,
    /// Nanoseconds of CLOCK_REALTIME.
    #[n(1)]
    pub taken_at: u64,
    /// Nanoseconds of CLOCK_MONOTONIC, for the process.
    #[n(2)]
    pub monotonic: u64,
    /// Nanoseconds of CLOCK_BOOTTIME, for the process.
    #[n(3)]
    pub boottime: u64,
    /// The machine's boot, /proc/sys/kernel/random/boot_id.
    #[n(4)]
    pub boot: String,
    /// How many threads there are records for.
    #[n(5)]
    pub threads: u32,
    /// What the process may rely on; none in images of before it was recorded.
    #[n(6)]
    pub cpu: Option<Cpu>,
    /// What its time namespace added to the clocks of the machine; none in images of before it was recorded.
    #[n(7)]
    #[cbor(default)]
    pub added: Option<Times>,
    /// Nanoseconds of CLOCK_MONOTONIC_COARSE, for the process; 0 in images of before it was recorded.
    #[n(8)]
    #[cbor(default)]
    pub coarse: u64,
}

/// What CLOCK_MONOTONIC and CLOCK_BOOTTIME show, or what is added to them, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Encode, Decode, Serialize)]
#[cbor(map)]
pub struct Times {
    #[n(0)]
    pub monotonic: i64,
    #[n(1)]
    pub boottime: i64,
}

/// The clocks of a process that runs, told to the machine that is to have it when that has asked.
#[derive(Clone, PartialEq, Eq, Debug, Default, Encode, Decode, Serialize)]
#[cbor(map)]
pub struct Clocks {
    /// As [`Header::boot`].
    #[n(0)]
    pub boot: String,
    /// As [`Header::added`].
    #[n(1)]
    pub added: Times,
    /// What they showed when the question had come, for the process.
    #[n(2)]
    pub asked: Times,
    /// And when this was told.
    #[n(3)]
    pub told: Times,
}

#[derive(Clone, PartialEq, Eq, Debug, Default, Encode, Decode, Serialize)]
#[cbor(map)]
pub struct Process {
    #[n(0)]
    pub pid: i32,
    #[n(1)]
    pub parent: i32,
    #[n(2)]
    pub group: i32,
    #[n(3)]
    pub session: i32,
    #[n(4)]
    pub exe: Bytes,
    #[n(5)]
    pub cwd: Bytes,
    #[n(6)]
    pub root: Bytes,
    #[n(7)]
    pub umask: u32,
    #[n(8)]
    pub personality: u32,
    /// PR_GET_DUMPABLE.
    #[n(9)]
    pub dumpable: u32,
    /// In the order of their numbers (getrlimit(2)).
    #[n(10)]
    pub limits: Vec<Limit>,
    #[n(11)]
    pub oom_score_adj: i32,
    #[n(12)]
    pub subreaper: bool,
    #[n(13)]
    pub layout: Layout,
    /// /proc/PID/auxv.
    #[n(14)]
    pub auxv: Bytes,
    /// Those that are not the default.
    #[n(15)]
    pub actions: Vec<Action>,
    /// The siginfo of each signal that waits for any thread, 128 bytes, in their order.
    #[n(16)]
    pub queue: Vec<Bytes>,
    /// ITIMER_REAL, ITIMER_VIRTUAL, ITIMER_PROF.
    #[n(17)]
    pub itimers: Vec<Interval>,
    #[n(18)]
    pub timers: Vec<Timer>,
    /// The signal that has stopped it, 0 for none.
    #[n(19)]
    pub stopped: u8,
    /// PR_GET_THP_DISABLE.
    #[n(20)]
    #[cbor(default)]
    pub no_huge_pages: u64,
    /// PR_GET_MDWE.
    #[n(21)]
    #[cbor(default)]
    pub deny_write_execute: u64,
    /// PR_GET_MEMORY_MERGE.
    #[n(22)]
    #[cbor(default)]
    pub merge_pages: u64,
    /// Children that are stopped, which it has been told.
    #[n(23)]
    #[cbor(default)]
    pub known_stopped: Vec<i32>,
    /// Children that had ended, and those that were stopped: of these it has been told, or the signal is among those that wait.
    #[n(24)]
    #[cbor(default)]
    pub ended: Vec<i32>,
    #[n(25)]
    #[cbor(default)]
    pub stopped_children: Vec<i32>,
    /// Children that run, and of whose continuation it has not been told.
    #[n(27)]
    #[cbor(default)]
    pub continued_children: Vec<i32>,
    /// The parts of the extended registers that it may use (ARCH_GET_XCOMP_PERM of arch_prctl, Linux 5.16; 0 before).
    #[n(26)]
    #[cbor(default)]
    pub permitted_states: u64,
    /// MCL_FUTURE, and MCL_ONFAULT, if all that it maps is locked (mlockall(2)); else 0.
    #[n(28)]
    #[cbor(default)]
    pub locks_what_it_maps: u32,
    /// The commands by which it has registered for barriers (membarrier(2)).
    #[n(29)]
    #[cbor(default)]
    pub barriers: u32,
    /// /proc/PID/coredump_filter; `None` where the kernel writes no core dumps.
    #[n(30)]
    #[cbor(default)]
    pub dumped: Option<u32>,
    #[n(31)]
    #[cbor(default)]
    pub places: Places,
    /// /proc/PID/loginuid; `None` where the kernel has no audit, and in images of before it was recorded.
    #[n(32)]
    pub login: Option<u32>,
    /// `controllers:path` of the control groups in which it was, where these were others than those of who wrote the image.
    #[n(33)]
    #[cbor(default)]
    pub cgroups: Vec<Bytes>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Encode, Decode, Serialize)]
#[cbor(map)]
pub struct Limit {
    #[n(0)]
    pub soft: u64,
    #[n(1)]
    pub hard: u64,
}

/// Addresses that /proc shows and brk(2) starts from (prctl(2), PR_SET_MM_MAP).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Encode, Decode, Serialize)]
#[cbor(map)]
pub struct Layout {
    #[n(0)]
    pub start_code: u64,
    #[n(1)]
    pub end_code: u64,
    #[n(2)]
    pub start_data: u64,
    #[n(3)]
    pub end_data: u64,
    #[n(4)]
    pub start_brk: u64,
    #[n(5)]
    pub brk: u64,
    #[n(6)]
    pub start_stack: u64,
    #[n(7)]
    pub arg_start: u64,
    #[n(8)]
    pub arg_end: u64,
    #[n(9)]
    pub env_start: u64,
    #[n(10)]
    pub env_end: u64,
}

/// What a signal does (`struct sigaction` of the kernel).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Encode, Decode, Serialize)]
#[cbor(map)]
pub struct Action {
    #[n(0)]
    pub signal: u8,
    #[n(1)]
    pub handler: u64,
    #[n(2)]
    pub flags: u64,
    #[n(3)]
    pub restorer: u64,
    #[n(4)]
    pub mask: u64,
}

/// Time until it goes off (0: it does not) and from then on, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Encode, Decode, Serialize)]
#[cbor(map)]
pub struct Interval {
    #[n(0)]
    pub left: u64,
    #[n(1)]
    pub every: u64,
}

/// A timer of timer_create(2).
#[derive(Clone, PartialEq, Eq, Debug, Default, Encode, Decode, Serialize)]
#[cbor(map)]
pub struct Timer {
    #[n(0)]
    pub id: i32,
    #[n(1)]
    pub clock: i32,
    /// SIGEV_SIGNAL, SIGEV_NONE, or SIGEV_SIGNAL | SIGEV_THREAD_ID.
    #[n(2)]
    pub notify: i32,
    #[n(3)]
    pub signal: i32,
    #[n(4)]
    pub value: u64,
    /// For SIGEV_THREAD_ID.
    #[n(5)]
    pub thread: i32,
    #[n(6)]
    pub interval: Interval,
}
