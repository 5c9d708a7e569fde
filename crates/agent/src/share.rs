//! The processors are shared among the spaces of a machine, and not among their processes: a space with a hundred busy processes gets no more of them than one
//! with a single one, while both want all (cgroups(7), the cpu controller).
//!
//! The daemon itself is not in the group where that would cost it its place before ordinary threads: with version 1 of cgroups a group has real-time threads only up to a
//! time of its own (CONFIG_RT_GROUP_SCHED).

use kern::cgroup::{self, Claim};
use std::fs;
use std::path::Path;
use tracing::info;
use vocab::{Fault, Kind, Pid, Result};

/// What the names of such groups begin with; one whose claim is not held is nobody's.
const PREFIX: &str = "shoal-share.";
/// Of a node whose configuration says nothing: that of every group (cgroup-v2.rst, cpu.weight), and what it is in version 1.
const USUAL: u32 = 100;
const USUAL_SHARES: u32 = 1024;
/// How long programs of root's may run in each second as real-time ones, in microseconds, with version 1.
const REAL_TIME_US: &str = "100000";

/// The space's share on this machine.
#[derive(Debug, Default)]
pub(crate) struct Share {
    /// With version 1: the group of the programs.
    group: Option<Claim>,
}

impl Share {
    /// Gives the space of the version 2 group `cgroup` this weight. Without one, a group that the daemon has made itself (`own`) has the usual one, and with 0 none. A
    /// kernel that cannot is no failure.
    pub(crate) fn begin(cgroup: &Path, own: bool, weight: Option<u32>) -> Share {
        let weight = weight.unwrap_or(if own { USUAL } else { 0 });
        if weight == 0 {
            return Share::default();
        }
        match give(cgroup, weight) {
            Ok(group) => Share { group },
            Err(fault) => {
                info!(%fault, "processors are shared among the processes of this machine, not among its spaces");
                Share::default()
            }
        }
    }

    /// The process from which all programs come.
    pub(crate) fn enclose(&self, pid: Pid) -> Result<()> {
        self.group.as_ref().map_or(Ok(()), |group| cgroup::enter(group.path(), pid))
    }

    /// Nobody is in it any more.
    pub(crate) fn end(self) {
        if let Some(fault) = self.group.and_then(|group| cgroup::remove(group.path()).err()) {
            info!(%fault, "a group of processes stays");
        }
    }
}

fn give(cgroup: &Path, weight: u32) -> Result<Option<Claim>> {
    let parent = cgroup::own_of("cpu")?;
    if !parent.join("cpu.shares").exists() {
        return weigh(cgroup, weight).map(|()| None);
    }
    cgroup::sweep(&parent, PREFIX)?;
    let claim = cgroup::claim(&parent.join(format!("{PREFIX}{:016x}", u64::from_ne_bytes(link::random::<8>()?))))?;
    let shares = (u64::from(weight) * u64::from(USUAL_SHARES) / u64::from(USUAL)).max(2);
    write(claim.path(), "cpu.shares", &shares.to_string())?;
    // Where groups have no such time, or none is left.
    let _ = write(claim.path(), "cpu.rt_runtime_us", REAL_TIME_US);
    Ok(Some(claim))
}

fn weigh(cgroup: &Path, weight: u32) -> Result<()> {
    if let Some(parent) = cgroup.parent() {
        // It may have been given before, or whoever manages the groups here has another opinion.
        let _ = write(parent, "cgroup.subtree_control", "+cpu");
    }
    match cgroup.join("cpu.weight").exists() {
        true => write(cgroup, "cpu.weight", &weight.to_string()),
        false => Err(Fault::new(Kind::Unsupported, "share out the processors: no cpu controller")),
    }
}

fn write(group: &Path, file: &str, text: &str) -> Result<()> {
    let path = group.join(file);
    fs::write(&path, text).map_err(|e| Fault::io(&e, format!("write {text} to {}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_given_and_goes() {
        let root = cgroup::find_v2().expect("a version 2 tree");
        let own = root.join(format!("shoal-test-share.{}", std::process::id()));
        cgroup::make(&own).expect("a new group");
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().expect("sleep is there");
        let share = Share::begin(&own, true, Some(200));
        share.enclose(Pid(child.id() as i32)).expect("my child");
        if let Some(group) = &share.group {
            let read = |file: &str| fs::read_to_string(group.path().join(file)).expect("a file");
            assert_eq!(read("cpu.shares"), "2048\n");
            assert_eq!(read("cgroup.procs"), format!("{}\n", child.id()));
        }
        child.kill().and_then(|()| child.wait()).expect("my child");
        let path = share.group.as_ref().map(|group| group.path().to_owned());
        share.end();
        assert!(path.is_none_or(|path| !path.exists()));
        cgroup::remove(&own).expect("empty");
        assert!(Share::begin(&own, false, None).group.is_none());
        assert!(Share::begin(&own, true, Some(0)).group.is_none());
    }
}
