//! How long a thread has slept, which nobody tells but the scheduler: it last ran when it went to sleep (linux: `se.exec_start`).
//!
//! Each processor has a scheduler's clock of its own (linux: `rq_clock_task`), which leaves out what the processor lost to interrupts and
//! to other guests of its machine: two of one machine have been seen 225 ms apart after half a day. So what a thread has is compared with
//! what one that runs on the same processor has.

use kern::others::{processors, set_processors};
use kern::proc::PROC;
use rustix::time::{clock_gettime, ClockId};
use std::collections::HashMap;
use vocab::Pid;

/// What is to be added to a processor's clock for CLOCK_MONOTONIC, in nanoseconds, of those that were asked for.
#[derive(Default)]
pub(crate) struct Clocks(HashMap<usize, i64>);

impl Clocks {
    /// When thread `tid` of `pid` ran last, in nanoseconds of CLOCK_MONOTONIC. `None` where that cannot be known.
    pub(crate) fn asleep_since(&mut self, pid: Pid, tid: Pid) -> Option<u64> {
        let then = last_ran(&format!("{PROC}/{pid}/task/{tid}/sched"))?;
        let processor = processor(pid, tid)?;
        let offset = match self.0.get(&processor) {
            Some(offset) => *offset,
            None => *self.0.entry(processor).or_insert(offset(processor)?),
        };
        u64::try_from(then + offset).ok()
    }
}

/// The processor on which it runs or ran last (proc_pid_stat(5), field 39).
fn processor(pid: Pid, tid: Pid) -> Option<usize> {
    let text = std::fs::read_to_string(format!("{PROC}/{pid}/task/{tid}/stat")).ok()?;
    text.rsplit_once(')')?.1.split_whitespace().nth(36)?.parse().ok()
}

/// The calling thread goes there and looks. `None` where it may not.
fn offset(processor: usize) -> Option<i64> {
    let before = processors(Pid::NONE).ok()?;
    let mut there = vec![0; before.len().max(processor / 64 * 8 + 8)];
    there[processor / 8] |= 1 << (processor % 8);
    set_processors(Pid::NONE, &there).ok()?;
    let offset = last_ran(&format!("{PROC}/thread-self/sched")).map(|ran| monotonic() - ran);
    // They were ours a moment ago.
    let _ = set_processors(Pid::NONE, &before);
    offset
}

/// Nanoseconds of the processor's clock; `None` too where the kernel says 0, as it did on 6.18 for 469 of 3000 threads that had just gone to sleep on two
/// busy processors. Why has not been looked for.
fn last_ran(path: &str) -> Option<i64> {
    moment(&std::fs::read_to_string(path).ok()?)
}

fn moment(sched: &str) -> Option<i64> {
    let line = sched.lines().find(|line| line.starts_with("se.exec_start"))?;
    let (whole, part) = line.rsplit_once(':')?.1.trim().split_once('.')?;
    Some(whole.parse::<i64>().ok()? * 1_000_000 + part.parse::<i64>().ok()?).filter(|moment| *moment > 0)
}

fn monotonic() -> i64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;
    use std::time::Duration;

    #[test]
    fn what_the_kernel_has_forgotten_is_not_known() {
        let line = |moment: &str| format!("sleep (7, #threads: 1)\n-----\nse.exec_start        :      {moment}\n");
        assert_eq!(moment(&line("57290.000012")), Some(57_290_000_012));
        assert_eq!(moment(&line("0.000000")), None);
        assert_eq!(moment("sleep (7, #threads: 1)\n"), None);
    }

    #[test]
    fn every_processor_tells_how_long_a_thread_has_slept() {
        let all = processors(Pid::NONE).expect("of this thread");
        for processor in (0..all.len() * 8).filter(|n| all[n / 8] & 1 << (n % 8) != 0) {
            let command = format!("exec taskset -c {processor} sleep 60");
            let mut child = Command::new("sh").args(["-c", &command]).spawn().expect("sh");
            let pid = Pid(child.id() as i32);
            let wait = Duration::from_millis(300);
            std::thread::sleep(wait);
            let since = Clocks::default().asleep_since(pid, pid);
            child.kill().and_then(|()| child.wait()).expect("a child");
            let asleep = Duration::from_nanos(monotonic() as u64 - since.expect("it sleeps"));
            assert!(
                asleep <= wait + Duration::from_millis(20) && asleep > Duration::from_millis(100),
                "{processor}: {asleep:?}"
            );
            assert_eq!(processors(Pid::NONE), Ok(all.clone()));
        }
    }
}
