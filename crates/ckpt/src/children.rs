//! Children, which are not carried: others stand for them where the process is made again. That one of them is stopped is told to their parent once.

use crate::proc;
use image::process::Process;
use puppet::script::{Outcome, Slot};
use puppet::Script;
use vocab::{Pid, Result};

/// The words of a siginfo, of which the kernel fills in all but those of a child that there is none of (waitid(2)).
const SIGINFO: usize = 128;
const SI_PID: u64 = 12;

/// The children of all threads, as far as they have not been waited for, in order.
pub(crate) fn of(pid: Pid) -> Result<Vec<Pid>> {
    let mut all = Vec::new();
    for tid in proc::numbers_in(pid, "task")? {
        let children = proc::file(pid, &format!("task/{tid}/children")).unwrap_or_default();
        all.extend(String::from_utf8_lossy(&children).split_whitespace().filter_map(|word| word.parse().ok().map(Pid)));
    }
    all.sort_unstable();
    Ok(all)
}

/// Of which of the `children` that are stopped the process still has to be told.
pub(crate) fn ask(script: &mut Script, children: &[Pid]) -> Vec<(Pid, u64, Slot)> {
    let is_stopped =
        |child: &Pid| proc::stat_fields(*child).is_ok_and(|fields| fields.first().is_some_and(|it| it == "T"));
    let how = (libc::WSTOPPED | libc::WNOHANG | libc::WNOWAIT) as u64;
    let ask = |child: Pid| {
        let info = script.room(SIGINFO);
        (child, info, script.attempt(libc::SYS_waitid, &[libc::P_PID as u64, child.0 as u64, info, how, 0]))
    };
    children.iter().copied().filter(is_stopped).map(ask).collect()
}

pub(crate) fn fill(outcome: &Outcome, asked: &[(Pid, u64, Slot)], process: &mut Process) -> Result<()> {
    for (child, info, call) in asked {
        if outcome.result(*call) == 0 && outcome.value::<i32>(info + SI_PID)? == 0 {
            process.known_stopped.push(child.0);
        }
    }
    Ok(())
}

/// What stands for them may have stopped anew: that is no news.
pub(crate) fn take_stops(script: &mut Script, process: &Process) {
    for child in &process.known_stopped {
        let how = (libc::WUNTRACED | libc::WNOHANG) as u64;
        script.attempt(libc::SYS_wait4, &[*child as u64, 0, how, 0]);
    }
}
