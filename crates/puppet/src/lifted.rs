//! Limits of a process that are lifted for a moment.

use kern::others;
use vocab::Pid;

/// Limits of a process that are in nobody's way for a moment. Dropped, they are what they were.
pub(crate) struct Lifted(Pid, Vec<(u32, (u64, u64))>);

impl Lifted {
    /// Those on its memory, as far as they are the caller's to lift.
    pub(crate) fn of(pid: Pid) -> Lifted {
        let all = [libc::RLIMIT_AS, libc::RLIMIT_DATA, libc::RLIMIT_MEMLOCK].into_iter();
        Lifted(pid, all.filter_map(|one| Some((one, others::lift_limit(pid, one).ok()?))).collect())
    }
}

impl Drop for Lifted {
    fn drop(&mut self) {
        for (resource, before) in &self.1 {
            // Who could lift it can lower it, and who has ended has none.
            let _gone = others::set_limit(self.0, *resource, *before);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::loan::Loan;
    use crate::thread::Running;
    use kern::remote_memory::RemoteMemory;
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};
    use vocab::Pid;

    /// All the memory that its limits allow, and all that it can have with its last mappings.
    #[test]
    fn a_process_at_its_limits_has_room_for_scripts_as_long_as_it_may_have_mappings() {
        let eats = "import mmap\nkept = []\ntry:\n while True: kept.append(mmap.mmap(-1, int(__import__('sys').argv[1]), 34, 1 + 2 * (len(kept) % 2)))\nexcept OSError: pass\nprint(len(kept), flush=True)\ninput()";
        for (limit, size, expected) in [
            ("ulimit -Sv 300000; ", "4096000", None),
            ("ulimit -Sd 100000; ", "4096000", None),
            ("", "4096", Some(libc::ENOMEM)),
        ] {
            let script = format!("{limit}exec python3 -S -c \"$0\" {size}");
            let child =
                Command::new("bash").args(["-c", &script, eats]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
            let mut child = child.expect("bash");
            let mut line = String::new();
            BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("its output");
            let pid = Pid(child.id() as i32);
            let limits = || [libc::RLIMIT_AS, libc::RLIMIT_DATA].map(|one| kern::others::limit(pid, one));
            let (before, memory) = (limits(), RemoteMemory::open(pid).expect("a child"));
            let running = Running::seize(pid, false, false).expect("a child");
            running.interrupt().expect("seized");
            let thread = running.stopped().expect("a child");
            let areas = kern::areas::areas(pid, false).expect("a child");
            let mut loan = Loan::take(&thread, &memory, &areas).expect("64-bit");
            let arena = loan.map_arena(None);
            assert_eq!(arena.as_ref().err().map(|fault| fault.errno), expected, "{limit}");
            assert_eq!(limits(), before);
            arena.map_or(Ok(()), |arena| loan.unmap_arena(arena)).expect("mapped");
            drop(loan);
            assert_eq!(kern::areas::areas(pid, false).expect("a child").len(), areas.len());
            thread.release(None).expect("stopped");
            drop(child.stdin.take());
            assert_eq!(child.wait().expect("a child").code(), Some(1), "it ends at the end of its input");
        }
    }
}
