//! A thread in a restartable sequence (rseq(2)) when it was made to stand still.

use kern::ptrace::{self, Regs};
use kern::remote_memory::RemoteMemory;
use vocab::Pid;
use zerocopy::IntoBytes;

/// Of the pointer to the descriptor of the sequence in `struct rseq`.
const POINTER: u64 = 8;

/// Its registers where the sequence is given up. The kernel would send it there before it runs on, but not any more when it has made a call elsewhere: then it has forgotten
/// the sequence (linux: `rseq_ip_fixup`), which would go on on another processor. Of one whose memory tells nothing the kernel is to judge.
pub(crate) fn left(tid: Pid, regs: Regs, memory: &RemoteMemory) -> Regs {
    match sequence(tid, memory) {
        // What is called in it is not called again.
        Some([_, start, length, abort]) if regs.rip.wrapping_sub(start) < length => {
            Regs { rip: abort, orig_rax: u64::MAX, ..regs }
        }
        _ => regs,
    }
}

/// `struct rseq_cs`: version and flags, start, length, abort.
fn sequence(tid: Pid, memory: &RemoteMemory) -> Option<[u64; 4]> {
    let known = ptrace::rseq(tid).ok().filter(|known| known.address != 0)?;
    let mut pointer = [0; 8];
    memory.read(known.address + POINTER, &mut pointer).ok()?;
    let pointer = Some(u64::from_ne_bytes(pointer)).filter(|pointer| *pointer != 0)?;
    let mut sequence = [0u64; 4];
    memory.read(pointer, sequence.as_mut_bytes()).ok().map(|()| sequence)
}

#[cfg(test)]
mod tests {
    use crate::{Loan, Running};
    use kern::remote_memory::RemoteMemory;
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};
    use vocab::Pid;

    /// Makes its page say that it is in the sequence (mov %rdi,(%rsi)), waits in it for ever (jmp), and begins anew where that is given up.
    const WAITS: &str = "import ctypes, mmap, struct
libc = ctypes.CDLL(None)
page = mmap.mmap(-1, 4096, prot=7)
base = ctypes.addressof(ctypes.c_char.from_buffer(page))
page[:11] = bytes.fromhex('48893e ebfe 53300553 ebf5')
rseq, sequence = base + 1024, base + 2048
page[2048:2080] = struct.pack('4Q', 0, base + 3, 2, base + 9)
assert libc.syscall(334, ctypes.c_void_p(rseq), 32, 0, 0x53053053) == 0
print(base, flush=True)
ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(base)(sequence, rseq + 8)";
    const WITHIN: u64 = 3;
    const GIVEN_UP: u64 = 9;

    #[test]
    fn who_is_lent_in_a_sequence_has_given_it_up() {
        let mut command = Command::new("python3");
        command.args(["-S", "-c", WAITS]).env("GLIBC_TUNABLES", "glibc.pthread.rseq=0");
        let mut child = command.stdout(Stdio::piped()).spawn().expect("python3");
        let pid = Pid(child.id() as i32);
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("it is about to begin");
        let base: u64 = line.trim().parse().expect("an address");
        let memory = RemoteMemory::open(pid).expect("a child");
        let areas = kern::areas::areas(pid, false).expect("a child");
        let end = std::time::Instant::now() + std::time::Duration::from_secs(10);
        let mut found = 0;
        while found < 20 {
            assert!(std::time::Instant::now() < end, "it is in the sequence");
            let running = Running::seize(pid, false, false).expect("a child");
            running.interrupt().expect("seized");
            let thread = running.stopped().expect("a child");
            if thread.regs().expect("stopped").rip == base + WITHIN {
                let mut loan = Loan::take(&thread, &memory, &areas).expect("64-bit, with a vdso");
                assert_eq!(loan.call(libc::SYS_getpid, &[]).expect("lent"), i64::from(pid.0));
                loan.give_back().expect("stopped");
                assert_eq!(thread.regs().expect("stopped").rip, base + GIVEN_UP);
                found += 1;
            }
            thread.release(None).expect("stopped");
        }
        child.kill().expect("a child");
        child.wait().expect("killed");
    }
}
