//! The programs: found in the directory, compiled when older than their source.

use super::{Doing, Res};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::SystemTime;

const FLAGS: [&str; 7] = ["-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-pthread"];

/// The names of all programs in `dir`, sorted.
pub(crate) fn names(dir: &Path) -> Res<Vec<String>> {
    let list = fs::read_dir(dir).doing(format!("list {}", dir.display()))?;
    let mut names: Vec<String> =
        list.flatten().filter_map(|entry| Some(entry.file_name().to_str()?.strip_suffix(".c")?.to_string())).collect();
    names.sort();
    Ok(names)
}

/// Compiles those that are out of date, on all cores, into `out`.
pub(crate) fn all(dir: &Path, names: &[String], out: &Path) -> Res {
    fs::create_dir_all(out).doing(format!("make {}", out.display()))?;
    let headers = newest(dir, ".h");
    let todo = Mutex::new(names.iter().filter(|name| stale(dir, name, out, headers)).collect::<Vec<_>>());
    let faults = Mutex::new(Vec::new());
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| loop {
                let next = todo.lock().map(|mut list| list.pop());
                let Ok(Some(name)) = next else { return };
                if let (Err(fault), Ok(mut faults)) = (one(dir, name, out), faults.lock()) {
                    faults.push(fault);
                }
            });
        }
    });
    let faults = faults.into_inner().doing("compile")?;
    if faults.is_empty() {
        return Ok(());
    }
    Err(faults.join("\n"))
}

fn one(dir: &Path, name: &str, out: &Path) -> Res {
    let source = dir.join(format!("{name}.c"));
    let done = Command::new("cc")
        .args(FLAGS)
        .arg(&source)
        .arg("-o")
        .arg(out.join(name))
        .output()
        .doing("run cc (Debian: gcc libc6-dev)")?;
    if done.status.success() {
        return Ok(());
    }
    Err(format!("cc {}:\n{}", source.display(), String::from_utf8_lossy(&done.stderr)))
}

fn stale(dir: &Path, name: &str, out: &Path, headers: Option<SystemTime>) -> bool {
    let made = changed(&out.join(name));
    made.is_none() || made < changed(&dir.join(format!("{name}.c"))) || made < headers
}

fn changed(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|meta| meta.modified()).ok()
}

fn newest(dir: &Path, ending: &str) -> Option<SystemTime> {
    let list = fs::read_dir(dir).ok()?;
    let paths: Vec<PathBuf> = list.flatten().map(|entry| entry.path()).collect();
    paths.iter().filter(|path| path.to_string_lossy().ends_with(ending)).filter_map(|path| changed(path)).max()
}
