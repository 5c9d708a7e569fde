//! Calling a sandbox from a test, finding its parts on the host, and looking for what it has left.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use vocab::{Pid, Sig};

/// For whatever comes by itself.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
/// All processes of one call carry it in their environment.
const TAG: &str = "SANDBOX_TEST_TAG";

/// A call of `shoal sandbox`, by this program.
pub(crate) struct Call {
    pub(crate) child: Child,
    tag: String,
    mounts: String,
    devices: Vec<String>,
}

fn new_tag() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("{}.{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

fn devices() -> Vec<String> {
    let entries = std::fs::read_dir("/sys/class/net").expect("network devices");
    let mut names: Vec<String> = entries.map(|e| e.expect("an entry").file_name().to_string_lossy().into()).collect();
    names.sort();
    names
}

fn mounts() -> String {
    std::fs::read_to_string("/proc/self/mountinfo").expect("own mounts")
}

impl Call {
    pub(crate) fn start(nodes: u32, words: &[&str]) -> Call {
        Call::start_with(nodes, words, |_| {})
    }

    pub(crate) fn start_with(nodes: u32, words: &[&str], change: impl FnOnce(&mut Command)) -> Call {
        let tag = new_tag();
        let (mounts, devices) = (mounts(), devices());
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.arg("sandbox").arg(nodes.to_string()).args(words).env(TAG, &tag);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        change(&mut command);
        Call { child: command.spawn().expect("it starts"), tag, mounts, devices }
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid(self.child.id() as i32)
    }

    /// Waits for the first line on standard output.
    pub(crate) fn line(&mut self) -> String {
        let out = self.child.stdout.as_mut().expect("a pipe");
        let mut text = Vec::new();
        let mut byte = [0u8];
        while out.read(&mut byte).expect("a pipe can be read") == 1 && byte[0] != b'\n' {
            text.push(byte[0]);
        }
        String::from_utf8_lossy(&text).into()
    }

    /// Its processes by PID, with their names.
    pub(crate) fn processes(&self) -> BTreeMap<i32, String> {
        let mark = format!("{TAG}={}", self.tag);
        let entries = std::fs::read_dir("/proc").expect("/proc");
        let pids = entries.filter_map(|e| e.ok()?.file_name().to_str()?.parse::<i32>().ok());
        let of_call = |pid: &i32| {
            let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment.split(|b| *b == 0).any(|entry| entry == mark.as_bytes())
        };
        let name = |pid| std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim().to_string();
        pids.filter(of_call).map(|pid| (pid, name(pid))).collect()
    }

    /// Waits until the part that calls itself `name` is there.
    pub(crate) fn part(&self, name: &str) -> Pid {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some((pid, _)) = self.processes().into_iter().find(|(_, other)| other == name) {
                return Pid(pid);
            }
            assert!(Instant::now() < deadline, "no part {name}: {:?}", self.processes());
            std::thread::yield_now();
        }
    }

    pub(crate) fn cgroups(&self) -> Vec<String> {
        let root = kern::cgroup::find_v2().expect("cgroup version 2");
        let own = format!("shoal-sandbox.{}.", self.child.id());
        let entries = std::fs::read_dir(root).expect("the tree").filter_map(|e| e.ok());
        entries.map(|e| e.file_name().to_string_lossy().into_owned()).filter(|name| name.starts_with(&own)).collect()
    }

    /// Waits for the end, then checks that nothing is left.
    pub(crate) fn end(mut self) -> Output {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let stdout = self.child.stdout.take();
        let stderr = self.child.stderr.take();
        std::thread::scope(|scope| {
            scope.spawn(|| stdout.map(|mut pipe| pipe.read_to_end(&mut out)));
            scope.spawn(|| stderr.map(|mut pipe| pipe.read_to_end(&mut err)));
        });
        let status = self.child.wait().expect("my child");
        self.nothing_left(true);
        Output { status, stdout: out, stderr: err }
    }

    /// `with_cgroups`: also those, which stay when both the caller and the janitor were killed.
    pub(crate) fn nothing_left(&self, with_cgroups: bool) {
        let deadline = Instant::now() + PATIENCE;
        let left = || (self.processes(), if with_cgroups { self.cgroups() } else { Vec::new() });
        while left() != Default::default() {
            assert!(Instant::now() < deadline, "left behind: {:?}", left());
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(mounts(), self.mounts, "a mount is left behind");
        assert_eq!(devices(), self.devices, "a network device is left behind");
        assert!(!Path::new("/run/shoal").exists(), "files are left behind");
    }
}

pub(crate) fn kill(pid: Pid, sig: Sig) {
    let _ = kern::pidfd::open(pid).map(|fd| kern::pidfd::kill(std::os::fd::AsFd::as_fd(&fd), sig));
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs a sandbox to its end: exit status as a shell has it, output, errors.
pub(crate) fn run(nodes: u32, words: &[&str]) -> (i32, String, String) {
    use std::os::unix::process::ExitStatusExt;
    let output = Call::start(nodes, words).end();
    let status = output.status.code().unwrap_or_else(|| 128 + output.status.signal().unwrap_or(0));
    (status, text(&output.stdout), text(&output.stderr))
}
