//! Whether another process is a subreaper. prctl(2) says that to the process itself only (PR_GET_CHILD_SUBREAPER), and no file does.
//!
//! A BPF program of a few instructions reads the bit, run for one task by an iterator (bpf(2), BPF_TRACE_ITER; linux: kernel/bpf/task_iter.c).
//! Where the bit is the kernel says in its description of its own types (BTF), so nothing is compiled.

use crate::sys;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsRawFd, OwnedFd};
use vocab::{Fault, Kind, Pid, Result};

mod types;

/// Asks for one process at a time.
#[derive(Debug)]
pub struct Subreapers {
    program: OwnedFd,
    /// Of the byte that the program gives.
    bit: u8,
}

const PROG_LOAD: u32 = 5;
const LINK_CREATE: u32 = 28;
const ITER_CREATE: u32 = 33;
const TYPE_TRACING: u32 = 26;
const TRACE_ITER: u32 = 28;
/// The helper `bpf_seq_write`.
const SEQ_WRITE: i32 = 127;

impl Subreapers {
    /// Loads the program.
    ///
    /// # Errors
    /// `Sys`: EPERM without CAP_BPF and CAP_PERFMON; ENOENT for a kernel without BTF. `Unsupported` where a kernel has other types than expected, or
    /// iterates over all tasks where one is meant (before 6.1).
    pub fn open() -> Result<Subreapers> {
        let kernel = types::Types::read("/sys/kernel/btf/vmlinux")?;
        let place = |of, name| kernel.member(of, name).and_then(|bits| Some((i16::try_from(bits / 8).ok()?, bits % 8)));
        let wanted = (place("task_struct", "signal"), place("signal_struct", "is_child_subreaper"));
        let (Some(iterator), (Some((signal, 0)), Some((byte, bit)))) = (kernel.function("bpf_iter_task"), wanted)
        else {
            return Err(Fault::new(Kind::Unsupported, "this kernel describes no is_child_subreaper"));
        };
        let instructions = program(signal, byte);
        let license = c"Dual MIT/GPL";
        let mut attr = [0u8; 112];
        put(&mut attr, 0, &TYPE_TRACING.to_ne_bytes());
        put(&mut attr, 4, &((instructions.len() / 8) as u32).to_ne_bytes());
        put(&mut attr, 8, &(instructions.as_ptr() as u64).to_ne_bytes());
        put(&mut attr, 16, &(license.as_ptr() as u64).to_ne_bytes());
        put(&mut attr, 68, &TRACE_ITER.to_ne_bytes());
        put(&mut attr, 108, &iterator.to_ne_bytes());
        let program = bpf(PROG_LOAD, &attr, "load a BPF program")?;
        let subreapers = Subreapers { program, bit: 1 << bit };
        subreapers.is_one(Pid(std::process::id() as i32))?;
        Ok(subreapers)
    }

    /// Is `pid`, a process of the caller's PID namespace, a subreaper? False when there is none.
    ///
    /// # Errors
    /// `Sys` from bpf(2) and read(2).
    pub fn is_one(&self, pid: Pid) -> Result<bool> {
        // union bpf_iter_link_info: the TID, the PID, a pidfd.
        let task = [pid.0, 0, 0];
        let mut attr = [0u8; 48];
        put(&mut attr, 0, &self.program.as_raw_fd().to_ne_bytes());
        put(&mut attr, 8, &TRACE_ITER.to_ne_bytes());
        put(&mut attr, 16, &(task.as_ptr() as u64).to_ne_bytes());
        put(&mut attr, 24, &(size_of_val(&task) as u32).to_ne_bytes());
        let link = bpf(LINK_CREATE, &attr, "let a BPF program look at a task")?;
        let mut attr = [0u8; 8];
        put(&mut attr, 0, &link.as_raw_fd().to_ne_bytes());
        let mut found = File::from(bpf(ITER_CREATE, &attr, "look at a task by BPF")?);
        let mut bytes = [0u8; 2];
        match found.read(&mut bytes).map_err(|e| Fault::io(&e, "read what a BPF program has found"))? {
            2 => Err(Fault::new(Kind::Unsupported, "this kernel's BPF iterators do not look at one task alone")),
            count => Ok(count == 1 && bytes[0] & self.bit != 0),
        }
    }
}

fn put(attr: &mut [u8], at: usize, bytes: &[u8]) {
    attr[at..at + bytes.len()].copy_from_slice(bytes);
}

/// bpf(2) for a command that returns a descriptor.
fn bpf(command: u32, attr: &[u8], doing: &str) -> Result<OwnedFd> {
    // SAFETY: the kernel reads the attributes; the addresses in them are of memory that lives through the call.
    let ret = unsafe { libc::syscall(libc::SYS_bpf, command, attr.as_ptr(), attr.len()) };
    sys::own(ret, || doing.to_owned())
}

/// Writes the byte `byte` of the task's `signal_struct`, which is at `signal` in the `task_struct`.
fn program(signal: i16, byte: i16) -> Vec<u8> {
    // struct bpf_iter__task: the iterator's own at 0 (its first word is the seq_file), the task at 8: null after the last.
    let code: [(u8, u8, u8, i16, i32); 13] = [
        (0x79, 2, 1, 8, 0),      // r2 = context.task
        (0x15, 2, 0, 9, 0),      // if r2 == 0 goto end
        (0x79, 2, 2, signal, 0), // r2 = task.signal
        (0x71, 2, 2, byte, 0),   // r2 = the byte
        (0x73, 10, 2, -8, 0),    // to the stack
        (0x79, 1, 1, 0, 0),      // r1 = context.meta
        (0x79, 1, 1, 0, 0),      // r1 = meta.seq
        (0xbf, 2, 10, 0, 0),     // r2 = the stack
        (0x07, 2, 0, 0, -8),
        (0xb7, 3, 0, 0, 1), // r3 = 1
        (0x85, 0, 0, 0, SEQ_WRITE),
        (0xb7, 0, 0, 0, 0), // end: return 0
        (0x95, 0, 0, 0, 0),
    ];
    let encode = |(code, to, from, offset, number): &(u8, u8, u8, i16, i32)| {
        let mut bytes = [*code, from << 4 | to, 0, 0, 0, 0, 0, 0];
        put(&mut bytes, 2, &offset.to_ne_bytes());
        put(&mut bytes, 4, &number.to_ne_bytes());
        bytes
    };
    code.iter().flat_map(encode).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::in_namespace;
    use std::process::Command;

    #[test]
    #[expect(clippy::zombie_processes, reason = "it ends with its namespace")]
    fn a_subreaper_is_told_from_others() {
        in_namespace(|_| {
            let subreapers = Subreapers::open().expect("this kernel has BTF");
            let child = Command::new("sleep").arg("100").spawn().expect("sleep is there");
            let is_one = |pid| subreapers.is_one(pid).expect("root may ask");
            let (me, child) = (Pid(std::process::id() as i32), Pid(child.id() as i32));
            for on in [true, false, true] {
                // SAFETY: takes numbers.
                unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, i32::from(on)) };
                assert_eq!((is_one(me), is_one(child)), (on, false));
            }
            assert!(!is_one(Pid(4_000_000)), "there is no such process");
        });
    }
}
