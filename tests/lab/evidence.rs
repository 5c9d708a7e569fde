//! What is kept when a program is late: everything /proc tells of every process of the session, on the front end and
//! the nodes alike (their PID namespaces are below ours), and the daemons' logs.

use super::procs::{self, Proc};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

const FILES: [&str; 8] = ["cmdline", "stat", "status", "wchan", "syscall", "stack", "cgroup", "limits"];

/// Writes what is known of `root` and all below it into `dir`: `tree.txt`, `PID-COMM.txt` for each, the logs.
pub(crate) fn collect(root: i32, dir: &Path) {
    // Evidence is best effort: what cannot be had is missing, and the test has failed anyway.
    let _ = fs::create_dir_all(dir);
    let mut all: Vec<Proc> = procs::one(root).into_iter().collect();
    all.extend(procs::below(root));
    let _ = fs::write(dir.join("tree.txt"), tree(&all));
    let mut logs = BTreeSet::new();
    for proc in &all {
        let name: String = proc.comm.chars().map(|c| if c.is_alphanumeric() { c } else { '_' }).collect();
        let _ = fs::write(dir.join(format!("{}-{name}.txt", proc.pid)), sheet(proc));
        copy_logs(proc.pid, dir, &mut logs);
    }
}

/// Keeps `text` in a new file `BASE-TIME.txt`; its path.
pub(crate) fn keep(base: &Path, text: &str) -> String {
    let stamp = std::time::UNIX_EPOCH.elapsed().map_or(0, |t| t.as_secs());
    let file = format!("{}-{stamp}.txt", base.display());
    let written = base.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(&file, text));
    written.map_or_else(|e| format!("{file}: {e}"), |()| file.clone())
}

/// The list with all numbers of each process, from the outermost namespace in.
fn tree(all: &[Proc]) -> String {
    let line = |p: &Proc| {
        let status = fs::read_to_string(format!("/proc/{}/status", p.pid)).unwrap_or_default();
        let numbers = status.lines().find_map(|l| l.strip_prefix("NSpid:")).unwrap_or("").trim().replace('\t', " ");
        let place = fs::read_link(format!("/proc/{}/ns/pid", p.pid)).map(|l| l.display().to_string());
        let wchan = fs::read_to_string(format!("/proc/{}/wchan", p.pid)).unwrap_or_default();
        let place = place.unwrap_or_default();
        format!("{numbers:<24} ppid {:<7} {} {place} {wchan:<24} {}\n", p.ppid, p.state, procs::command_line(p))
    };
    all.iter().map(line).collect()
}

/// Everything of one process and its threads.
fn sheet(proc: &Proc) -> String {
    let mut text = String::new();
    let base = format!("/proc/{}", proc.pid);
    for file in FILES {
        add(&mut text, &format!("{base}/{file}"));
    }
    for task in fs::read_dir(format!("{base}/task")).into_iter().flatten().flatten() {
        for file in ["comm", "stat", "wchan", "syscall", "stack"] {
            add(&mut text, &task.path().join(file).display().to_string());
        }
    }
    for fd in fs::read_dir(format!("{base}/fd")).into_iter().flatten().flatten() {
        let to = fs::read_link(fd.path()).map(|p| p.display().to_string()).unwrap_or_default();
        text += &format!("fd {} -> {to}\n", fd.file_name().to_string_lossy());
    }
    text
}

fn add(text: &mut String, path: &str) {
    let content = fs::read(path).map(|b| String::from_utf8_lossy(&b).replace('\0', " ").trim_end().to_string());
    *text += &format!("== {path}\n{}\n", content.unwrap_or_else(|e| format!("({e})")));
}

/// The logs under /run/shoal as this process sees it, each file once.
fn copy_logs(pid: i32, dir: &Path, seen: &mut BTreeSet<(u64, u64)>) {
    let base = format!("/proc/{pid}/root/run/shoal");
    for place in [base.clone(), format!("{base}/sandbox")] {
        for entry in fs::read_dir(place).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let Ok(meta) = entry.metadata() else { continue };
            if name.ends_with(".log") && seen.insert((meta.dev(), meta.ino())) {
                let _ = fs::copy(entry.path(), dir.join(format!("{}-{name}", meta.dev())));
            }
        }
    }
}
