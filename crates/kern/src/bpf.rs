//! BPF programs of a few instructions that read what the kernel has of one task, run by an iterator (bpf(2), BPF_TRACE_ITER; linux: kernel/bpf/task_iter.c).
//! Where that is the kernel says in its description of its own types (BTF), so nothing is compiled.

use crate::sys;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsRawFd, OwnedFd};
use vocab::{Fault, Kind, Pid, Result};

mod types;

pub(crate) use types::Types;

/// Code, registers to and from, offset, number (linux: `struct bpf_insn`). The context is struct bpf_iter__task: the iterator's own at 0, of which the first word
/// is the seq_file, and the task at 8, which is null after the last.
pub(crate) type Instruction = (u8, u8, u8, i16, i32);

const PROG_LOAD: u32 = 5;
const LINK_CREATE: u32 = 28;
const ITER_CREATE: u32 = 33;
const TYPE_TRACING: u32 = 26;
const TRACE_ITER: u32 = 28;
/// The helper `bpf_seq_write`.
pub(crate) const SEQ_WRITE: i32 = 127;
/// The helper `bpf_probe_read_kernel`.
pub(crate) const READ_KERNEL: i32 = 113;

/// A program that is loaded.
#[derive(Debug)]
pub(crate) struct TaskProgram(OwnedFd);

impl TaskProgram {
    /// Loads it.
    ///
    /// # Errors
    /// `Sys`: EPERM without CAP_BPF and CAP_PERFMON. `Unsupported` by a kernel without iterators.
    pub(crate) fn load(kernel: &Types, code: &[Instruction]) -> Result<TaskProgram> {
        let Some(iterator) = kernel.function("bpf_iter_task") else {
            return Err(Fault::new(Kind::Unsupported, "this kernel has no BPF iterator of tasks"));
        };
        let instructions: Vec<u8> = code.iter().flat_map(encode).collect();
        let license = c"Dual MIT/GPL";
        let mut attr = [0u8; 112];
        put(&mut attr, 0, &TYPE_TRACING.to_ne_bytes());
        put(&mut attr, 4, &(code.len() as u32).to_ne_bytes());
        put(&mut attr, 8, &(instructions.as_ptr() as u64).to_ne_bytes());
        put(&mut attr, 16, &(license.as_ptr() as u64).to_ne_bytes());
        put(&mut attr, 68, &TRACE_ITER.to_ne_bytes());
        put(&mut attr, 108, &iterator.to_ne_bytes());
        bpf(PROG_LOAD, &attr, "load a BPF program").map(TaskProgram)
    }

    /// Runs it for a thread of the caller's PID namespace: `found` is what it writes, of that length. False when there is no such thread.
    ///
    /// # Errors
    /// `Sys` from bpf(2) and read(2). `Unsupported` by a kernel that iterates over all tasks where one is meant (before 6.1).
    pub(crate) fn look_at(&self, tid: Pid, found: &mut [u8]) -> Result<bool> {
        // union bpf_iter_link_info: the TID, the PID, a pidfd.
        let task = [tid.0, 0, 0];
        let mut attr = [0u8; 48];
        put(&mut attr, 0, &self.0.as_raw_fd().to_ne_bytes());
        put(&mut attr, 8, &TRACE_ITER.to_ne_bytes());
        put(&mut attr, 16, &(task.as_ptr() as u64).to_ne_bytes());
        put(&mut attr, 24, &(size_of_val(&task) as u32).to_ne_bytes());
        let link = bpf(LINK_CREATE, &attr, "let a BPF program look at a task")?;
        let mut attr = [0u8; 8];
        put(&mut attr, 0, &link.as_raw_fd().to_ne_bytes());
        let mut written = File::from(bpf(ITER_CREATE, &attr, "look at a task by BPF")?);
        let mut bytes = vec![0; found.len() + 1];
        let count = written.read(&mut bytes).map_err(|e| Fault::io(&e, "read what a BPF program has found"))?;
        if count > found.len() {
            return Err(Fault::new(Kind::Unsupported, "this kernel's BPF iterators do not look at one task alone"));
        }
        found.copy_from_slice(&bytes[..found.len()]);
        Ok(count == found.len())
    }
}

fn encode((code, to, from, offset, number): &Instruction) -> [u8; 8] {
    let mut bytes = [*code, from << 4 | to, 0, 0, 0, 0, 0, 0];
    put(&mut bytes, 2, &offset.to_ne_bytes());
    put(&mut bytes, 4, &number.to_ne_bytes());
    bytes
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
