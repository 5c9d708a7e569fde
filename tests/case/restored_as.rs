//! Restored processes are in their control groups, and their files have their modes.

use super::checkpoint::{must, restore, run, start, told, until_it_is};
use super::scene::{holds, same};
use super::{End, Scene};
use crate::lab::place::Place;
use crate::lab::{Doing, Res};
use std::fs;
use std::path::{Path, PathBuf};

pub(crate) const SCENES: &[Scene] =
    &[("restore_into_its_cgroups", restore_into_its_cgroups), ("restore_of_modes", restore_of_modes)];

/// A hierarchy in which the caller may make groups: a mount of version 2, or of version 1 beside it.
fn hierarchy() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let named = |line: &str| {
        let mut words = line.split(' ').skip(1);
        let (point, kind) = (words.next()?, words.next()?);
        (kind == "cgroup2" || kind == "cgroup" && line.contains("name=systemd")).then(|| PathBuf::from(point))
    };
    let newer = mounts.lines().filter(|line| line.contains(" cgroup2 "));
    newer.chain(mounts.lines()).find_map(named)
}

/// The process is in the group again in which it was, and where that group is gone the command says so.
fn restore_into_its_cgroups(place: &Place) -> Res<End> {
    let Some(top) = hierarchy() else { return Ok(End::Missing("no cgroups are mounted".into())) };
    let name = format!("kept.{}", std::process::id());
    let group = top.join(&name);
    if fs::create_dir(&group).is_err() {
        return Ok(End::Missing("no cgroup can be made".into()));
    }
    let (image, log) = (place.fresh("kept.image"), place.fresh("kept.out"));
    let found = in_its_group(place, (&group, &name), (&image, &log));
    // Nobody else puts processes there.
    for pid in fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default().lines() {
        let _ = std::process::Command::new("kill").args(["-9", pid]).status();
    }
    for _ in 0..200 {
        if fs::remove_dir(&group).is_ok() || !group.exists() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    found.map(|()| End::Passed)
}

fn in_its_group(place: &Place, (group, name): (&Path, &str), (image, log): (&Path, &Path)) -> Res {
    let out = fs::File::create(log).doing("make a file")?;
    let mut child = start(&["sleep", "2"], &out)?;
    let pid = child.id().to_string();
    until_it_is(&pid, "sleep")?;
    fs::write(group.join("cgroup.procs"), &pid).doing("put a process into a cgroup")?;
    let frozen = group.join("cgroup.freeze");
    if frozen.exists() {
        fs::write(&frozen, "1").doing("freeze a cgroup")?;
        let done = run(place, &["checkpoint", &pid, "--stop", "-o", &image.display().to_string()])?;
        fs::write(&frozen, "0").doing("thaw a cgroup")?;
        let said = told(&done);
        holds(&format!("a frozen process is refused by name: {said}"), said.contains(&format!("{name} is frozen")))?;
    }
    must(place, &["checkpoint", &pid, "--stop", "-o", &image.display().to_string()])?;
    child.wait().doing("wait for the program")?;
    let is_there = || fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default().lines().any(|one| one == pid);
    holds("nobody is in the group", !is_there())?;
    let mut child = restore(place, image, &out)?;
    holds("the process is in its group again", is_there())?;
    same("its status", child.wait().doing("wait for the program")?.code(), Some(0))?;
    let empty = (0..200).any(|_| {
        fs::remove_dir(group).is_ok() || {
            std::thread::sleep(std::time::Duration::from_millis(10));
            false
        }
    });
    holds("the group is gone", empty)?;
    let done = run(place, &["restore", &image.display().to_string()])?;
    same("its status without the group", done.status.code(), Some(0))?;
    let said = told(&done);
    holds(&format!("the group is named: {said}"), said.contains("is not in its cgroup") && said.contains(name))
}

/// Makes a file with a mode of its user's, deletes it, and waits.
const DELETES: &str = r#"sysopen(F, $ARGV[0], 66) or die; chmod(06750, \*F) == 1 or die; unlink($ARGV[0]) or die;
open(G, '>', $ARGV[1]) or die; close(G); sleep 2; exit(((stat F)[2] & 07777) == 06750 ? 0 : 5)"#;

/// The deleted file of an ordinary user keeps the bits that this user gave it.
fn restore_of_modes(place: &Place) -> Res<End> {
    if !rustix::process::geteuid().is_root() {
        return Ok(End::Missing("wants root".into()));
    }
    let (image, log) = (place.fresh("modes.image"), place.fresh("modes.out"));
    let out = fs::File::create(&log).doing("make a file")?;
    let tag = format!("/tmp/modes.{}", std::process::id());
    let (file, ready) = (format!("{tag}.file"), format!("{tag}.ready"));
    let user = ["setpriv", "--reuid", "61001", "--regid", "61001", "--clear-groups"];
    let program = ["perl", "-e", DELETES, &file, &ready];
    let mut child = start(&[&user[..], &program[..]].concat(), &out)?;
    let pid = child.id().to_string();
    let there = (0..2000).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(5));
        Path::new(&ready).exists()
    });
    let _ = fs::remove_file(&ready);
    holds("the program is ready", there)?;
    must(place, &["checkpoint", &pid, "--stop", "-o", &image.display().to_string()])?;
    child.wait().doing("wait for the program")?;
    let mut child = restore(place, &image, &out)?;
    same("the file has its mode", child.wait().doing("wait for the program")?.code(), Some(0))?;
    Ok(End::Passed)
}
