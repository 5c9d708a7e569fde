//! The control groups of a process (cgroups(7)): a process that is restored from a file is put back into those in which it was, where they are there. While it is on a node it is in those of the node.

use crate::proc;
use image::Bytes;
use kern::proc::PROC;
use std::path::Path;
use vocab::{Fault, Pid, Result};

/// `controllers:path` of each hierarchy in which the process is elsewhere than who writes its image: the controllers of version 2 are none.
pub(crate) fn of(pid: Pid) -> Result<Vec<Bytes>> {
    let own = kern::proc::whole(&format!("{PROC}/self/cgroup")).map_err(|e| Fault::io(&e, "read the own cgroups"))?;
    let own = String::from_utf8_lossy(&own).into_owned();
    let its = match proc::file(pid, "cgroup") {
        // A kernel without them.
        Err(fault) if fault.errno == libc::ENOENT && kern::proc::group_and_session(pid).is_some() => {
            return Ok(Vec::new())
        }
        read => String::from_utf8_lossy(&read?).into_owned(),
    };
    Ok(others(&its, &own))
}

fn others(its: &str, own: &str) -> Vec<Bytes> {
    let own: Vec<&str> = own.lines().filter_map(group).collect();
    let other = its.lines().filter_map(group).filter(|group| !own.contains(group) && !is_of_shoal(group));
    other.map(|group| group.as_bytes().into()).collect()
}

/// `4:memory:/a` without the number of the hierarchy, which each machine gives anew.
fn group(line: &str) -> Option<&str> {
    line.split_once(':').map(|(_, group)| group)
}

/// A node's, or that of a sandbox: the daemon ends what is in it.
fn is_of_shoal(group: &str) -> bool {
    group.split(['/', ':']).any(|name| name.starts_with("shoal-"))
}

/// The control group in which the process is frozen, if it is: no tracer reaches it until it is thawed. Nobody asks of the groups of nodes, which are never frozen.
pub(crate) fn frozen(pid: Pid) -> Option<String> {
    let its = String::from_utf8_lossy(&proc::file(pid, "cgroup").ok()?).into_owned();
    let can_be = |group: &&str| (group.starts_with(":/") || group.starts_with("freezer:/")) && !group.ends_with(":/");
    let mut groups = its.lines().filter_map(group).filter(can_be).peekable();
    groups.peek()?;
    let mounts = std::fs::read_to_string(format!("{PROC}/self/mountinfo")).ok()?;
    let frozen = groups.find(|group| directory(group, &mounts).is_some_and(|directory| is_frozen(&directory)))?;
    Some(frozen.trim_start_matches(':').to_owned())
}

/// By the files of version 2 or that of version 1 (cgroups(7), `freezer`). That a group of version 2 is frozen shows only when all of its processes are, some time after somebody has
/// had it, or a group above it, frozen: from then on a tracer would wait for them.
fn is_frozen(directory: &str) -> bool {
    let read = |at: &Path, file: &str| std::fs::read_to_string(at.join(file)).unwrap_or_default();
    let own = Path::new(directory);
    let is_to_be = |at: &Path| read(at, "cgroup.freeze").starts_with('1');
    read(own, "cgroup.events").lines().any(|line| line == "frozen 1")
        || read(own, "freezer.state").starts_with("FR")
        || own.ancestors().any(is_to_be)
}

/// Puts a process that has just been made into these groups, before it has any memory, which would be counted elsewhere. Those in which it cannot be, each with the reason.
pub(crate) fn enter(pid: Pid, groups: &[Bytes]) -> Vec<String> {
    if groups.is_empty() {
        return Vec::new();
    }
    let mounts = std::fs::read_to_string(format!("{PROC}/self/mountinfo")).unwrap_or_default();
    let groups = groups.iter().map(|group| String::from_utf8_lossy(&group.0).into_owned());
    groups.filter_map(|group| enter_one(pid, &group, &mounts).err().map(|why| format!("{group}: {why}"))).collect()
}

fn enter_one(pid: Pid, group: &str, mounts: &str) -> std::result::Result<(), String> {
    let directory = directory(group, mounts).ok_or("no such hierarchy is mounted")?;
    if is_frozen(&directory) {
        return Err("it is frozen".into());
    }
    let entered = std::fs::write(format!("{directory}/cgroup.procs"), pid.to_string());
    entered.map_err(|e| e.to_string())
}

/// Where the group is, by the mounts (proc_pid_mountinfo(5)).
fn directory(group: &str, mounts: &str) -> Option<String> {
    let (controllers, path) = group.split_once(':')?;
    if is_of_shoal(group) || path.split('/').any(|name| name == "..") {
        return None;
    }
    mounts.lines().find_map(|line| {
        let (before, behind) = line.split_once(" - ")?;
        let (mut before, mut behind) = (before.split(' ').skip(3), behind.split(' '));
        let (root, point) = (before.next()?, before.next()?);
        let (kind, _, options) = (behind.next()?, behind.next()?, behind.next()?);
        let is_hierarchy = match controllers {
            "" => kind == "cgroup2",
            all => kind == "cgroup" && all.split(',').all(|one| options.split(',').any(|option| option == one)),
        };
        let below =
            path.strip_prefix(root.trim_end_matches('/')).filter(|rest| rest.is_empty() || rest.starts_with('/'))?;
        is_hierarchy.then(|| format!("{point}{below}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_those_in_which_nobody_else_is_and_no_nodes() {
        let own = "3:cpu,cpuacct:/a\n2:name=systemd:/\n0::/a\n";
        let its = "9:cpu,cpuacct:/b\n2:name=systemd:/\n0::/a\n";
        assert_eq!(others(its, own), [Bytes::from(&b"cpu,cpuacct:/b"[..])]);
        assert!(others("0::/shoal-node.12/x", own).is_empty() && others(own, own).is_empty());
    }

    #[test]
    fn a_group_is_frozen_from_when_it_is_to_be_also_by_a_group_above_it() {
        let top = std::env::temp_dir().join(format!("cgroups.{}", std::process::id()));
        let group = top.join("a/b");
        std::fs::create_dir_all(&group).expect("a folder");
        let put = |at: &Path, file: &str, text: &str| std::fs::write(at.join(file), text).expect("a file");
        put(&group, "cgroup.events", "populated 1\nfrozen 0\n");
        put(&group, "cgroup.freeze", "0\n");
        assert!(!is_frozen(&group.display().to_string()));
        for (at, file, frozen, thawed) in [
            (&group, "cgroup.events", "populated 1\nfrozen 1\n", "populated 1\nfrozen 0\n"),
            (&group, "cgroup.freeze", "1\n", "0\n"),
            (&top, "cgroup.freeze", "1\n", "0\n"),
            (&group, "freezer.state", "FREEZING\n", "THAWED\n"),
        ] {
            put(at, file, frozen);
            assert!(is_frozen(&group.display().to_string()), "{file}");
            put(at, file, thawed);
            assert!(!is_frozen(&group.display().to_string()), "{file}");
        }
        std::fs::remove_dir_all(&top).expect("a folder");
    }

    #[test]
    fn a_group_is_below_the_mount_of_its_hierarchy() {
        let mounts = "30 25 0:26 / /sys/fs/cgroup/cpu rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n\
                      31 25 0:27 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd\n\
                      32 25 0:28 /in /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        let found = |group| directory(group, mounts);
        assert_eq!(found("cpu,cpuacct:/a/b").as_deref(), Some("/sys/fs/cgroup/cpu/a/b"));
        assert_eq!(found("name=systemd:/").as_deref(), Some("/sys/fs/cgroup/systemd/"));
        assert_eq!(found(":/in/a").as_deref(), Some("/sys/fs/cgroup/unified/a"));
        let none = [":/inner", "memory:/a", "cpu:/../a", "cpu:/shoal-node.1/a"].map(found);
        assert_eq!(none, [None, None, None, None]);
    }
}
