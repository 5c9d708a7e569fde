//! For a daemon: keeps a process that shows in /proc what others do elsewhere. Nothing here waits for that process; should it end or be stuck, another one is
//! started. What it is told is [`crate::told`].

use kern::mount;
use kern::poll::poll;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use tracing::warn;

/// One that ended is started again this long after it was started, in microseconds.
const AGAIN_US: u64 = 200_000;
/// One that says nothing for so long is stuck, in microseconds: once it has asked for ghosts, and before.
const STUCK_US: u64 = 2_000_000;
const STARTS_US: u64 = 10_000_000;
/// How long one may take to take away what it has mounted, when the daemon ends, and to end when it is killed, in milliseconds.
const END_MS: u32 = 2_000;
const KILL_MS: u32 = 1_000;

/// How it is started.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The daemon's.
    pub run_dir: PathBuf,
    /// For how many milliseconds it shows what it has shown.
    pub fresh_ms: u64,
    /// Only views show it ([`crate::view`]).
    pub private: bool,
}

impl Wanted {
    /// Where the tree is mounted.
    fn point(&self) -> PathBuf {
        self.run_dir.join("proc")
    }

    fn command(&self) -> Command {
        let mut command = Command::new("/proc/self/exe");
        command.arg0("shoal").arg("procfs").arg("--run-dir").arg(&self.run_dir);
        command.args(["--fresh-ms", &self.fresh_ms.to_string()]);
        command.args(self.private.then_some("--private"));
        command.args(kern::proc::handed_over().iter().flat_map(|place| ["--proc", place]));
        command.current_dir("/").stdin(Stdio::null()).stdout(Stdio::null());
        command
    }
}

/// The process.
#[derive(Debug)]
pub struct Keeper {
    wanted: Wanted,
    child: Option<Child>,
    /// It has asked for ghosts.
    hears: bool,
    /// When it said last that it serves, or was started, and when one was started last (monotonic).
    serves_us: u64,
    started_us: u64,
}

impl Keeper {
    /// With nothing started.
    pub fn new(wanted: Wanted) -> Keeper {
        Keeper { wanted, child: None, hears: false, serves_us: 0, started_us: 0 }
    }

    /// Starts one; whoever was there is not heard any more. Times are monotonic, here and below.
    pub fn start(&mut self, now_us: u64) {
        (self.started_us, self.serves_us) = (now_us, now_us);
        self.hears = false;
        match self.wanted.command().spawn() {
            Ok(child) => self.child = Some(child),
            Err(e) => warn!("/proc does not show what processes do elsewhere: {e}"),
        }
    }

    /// It has asked for ghosts.
    pub fn hears(&mut self, now_us: u64) {
        (self.hears, self.serves_us) = (true, now_us);
    }

    /// It says that it serves.
    pub fn serves(&mut self, now_us: u64) {
        self.serves_us = now_us;
    }

    /// What it was asked and told over is closed: of no use any more, it is killed. That it ends is seen in time.
    pub fn hung_up(&mut self) {
        self.hears = false;
        self.kill();
        self.serves_us = 0;
    }

    /// It says nothing, and should.
    fn is_stuck(&self, now_us: u64) -> bool {
        let most = if self.hears { STUCK_US } else { STARTS_US };
        now_us >= self.serves_us + most
    }

    /// Has it ended, or is it stuck? Then another one is started. For each turn of the daemon's loop. True: what it was told over is to be closed.
    pub fn look_after(&mut self, now_us: u64) -> bool {
        let mut closes = false;
        if let Some(child) = &mut self.child {
            let going = matches!(child.try_wait(), Ok(None));
            if going && !self.is_stuck(now_us) {
                return false;
            }
            closes = std::mem::take(&mut self.hears);
            if going {
                warn!("who shows in /proc what processes do elsewhere is stuck");
                self.serves_us = 0;
                if !self.kill() {
                    return closes;
                }
            }
            warn!("who shows in /proc what processes do elsewhere has ended");
            self.child = None;
        }
        if now_us >= self.started_us + AGAIN_US {
            self.start(now_us);
        }
        closes
    }

    /// Kills it, and lets everybody go who waits for it: it may be that it cannot end as long as they wait, or is one of them. True: it has ended.
    fn kill(&mut self) -> bool {
        let Some(child) = &mut self.child else { return true };
        // It may have ended.
        let _ = child.kill();
        if let Err(fault) = mount::abort(&self.wanted.point()) {
            tracing::debug!(%fault, "nothing was mounted");
        }
        !matches!(child.try_wait(), Ok(None))
    }

    /// What it was told over has been closed, by which it takes away what it has mounted. Not waited for for ever.
    pub fn end(&mut self) {
        for waited_ms in 0..END_MS + KILL_MS {
            let going = self.child.as_mut().is_some_and(|child| matches!(child.try_wait(), Ok(None)));
            if !going || (waited_ms >= END_MS && self.kill()) {
                return;
            }
            let _ = poll(&[], 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keeper() -> Keeper {
        Keeper::new(Wanted { run_dir: "/nonexistent".into(), fresh_ms: 0, private: false })
    }

    #[test]
    fn who_says_nothing_is_stuck_sooner_once_it_hears() {
        let mut keeper = keeper();
        assert!(!keeper.is_stuck(STARTS_US - 1) && keeper.is_stuck(STARTS_US));
        keeper.hears(0);
        assert!(!keeper.is_stuck(STUCK_US - 1) && keeper.is_stuck(STUCK_US));
        keeper.serves(STUCK_US);
        assert!(!keeper.is_stuck(STUCK_US));
    }
}
