//! Whether another process is a subreaper. prctl(2) says that to the process itself only (PR_GET_CHILD_SUBREAPER), and no file does.

use crate::bpf::{Instruction, TaskProgram, Types, SEQ_WRITE};
use vocab::{Fault, Kind, Pid, Result};

/// Asks for one process at a time.
#[derive(Debug)]
pub struct Subreapers {
    program: TaskProgram,
    /// Of the byte that the program gives.
    bit: u8,
}

impl Subreapers {
    /// Loads the program.
    ///
    /// # Errors
    /// As [`TaskProgram::load`]; ENOENT for a kernel without BTF. `Unsupported` where a kernel has other types than expected, or iterates over all tasks where
    /// one is meant (before 6.1).
    pub fn open() -> Result<Subreapers> {
        let kernel = Types::read()?;
        let place = |of, name| kernel.member(of, name).and_then(|bits| Some((i16::try_from(bits / 8).ok()?, bits % 8)));
        let wanted = (place("task_struct", "signal"), place("signal_struct", "is_child_subreaper"));
        let (Some((signal, 0)), Some((byte, bit))) = wanted else {
            return Err(Fault::new(Kind::Unsupported, "this kernel describes no is_child_subreaper"));
        };
        let program = TaskProgram::load(&kernel, &program(signal, byte))?;
        let subreapers = Subreapers { program, bit: 1 << bit };
        subreapers.is_one(Pid(std::process::id() as i32))?;
        Ok(subreapers)
    }

    /// Is `pid`, a process of the caller's PID namespace, a subreaper? False when there is none.
    ///
    /// # Errors
    /// As [`TaskProgram::look_at`].
    pub fn is_one(&self, pid: Pid) -> Result<bool> {
        let mut byte = [0];
        Ok(self.program.look_at(pid, &mut byte)? && byte[0] & self.bit != 0)
    }
}

/// Writes the byte `byte` of the task's `signal_struct`, which is at `signal` in the `task_struct`.
fn program(signal: i16, byte: i16) -> [Instruction; 13] {
    // struct bpf_iter__task: the iterator's own at 0 (its first word is the seq_file), the task at 8: null after the last.
    [
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
    ]
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
