//! The daemons started by hand, as README.md and docs/admin.md say it for real machines. The machines are namespaces that the scene makes itself, with
//! unshare(1) and ip(8): no sandbox of shoal's is between.

use super::scene::{holds, same, wait_for, Sandbox};
use super::{End, Scene};
use crate::lab::place::Place;
use crate::lab::{Doing, Res};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

pub(crate) const SCENES: &[Scene] = &[
    ("daemons_by_hand", daemons_by_hand),
    ("daemon_that_waits_for_its_socket", daemon_that_waits_for_its_socket),
    ("daemons_keep_what_is_theirs", daemons_keep_what_is_theirs),
    ("daemon_follows_the_killed", daemon_follows_the_killed),
];

/// A machine with processes, a network and an /etc, /run and /var/lib of its own; its init is a shell, which waits for whoever ends. It ends, and all that runs on it, when it is let go of.
pub(super) struct Machine {
    unshare: Child,
    /// Its init, as this machine numbers it.
    init: String,
    shoal: PathBuf,
}

impl Drop for Machine {
    fn drop(&mut self) {
        // A node's daemon that is told to end removes its cgroup, which is this machine's.
        let _ = self.sh("pkill -TERM -x shoal; for i in $(seq 50); do pgrep -x shoal || break; sleep 0.1; done");
        let _ = self.unshare.kill().and_then(|()| self.unshare.wait().map(drop));
    }
}

impl Machine {
    pub(super) fn start(place: &Place, name: &str) -> Res<Machine> {
        let shoal = place.shoal.clone().ok_or("there is no shoal: build it first, or set SHOAL")?;
        let ready = place.fresh(name);
        let furnish = format!(
            "cp -a /etc {0}.etc && mount --bind {0}.etc /etc && mount -t tmpfs run /run && mount -t tmpfs state /var/lib && hostname {name} && ip link set lo up && \
             touch {0}; while :; do sleep 1000; done",
            ready.display()
        );
        // It ends with whoever runs the tests, however that ends.
        const ALONE: &str = "--pdeathsig KILL unshare --net --pid --mount --uts --fork --kill-child --mount-proc";
        let mut unshare = Command::new("setpriv");
        unshare.args(ALONE.split(' ')).args(["sh", "-c", &furnish]).stdin(Stdio::null());
        let unshare = unshare.spawn().doing("run unshare")?;
        let children = format!("/proc/{0}/task/{0}/children", unshare.id());
        let mut machine = Machine { unshare, init: String::new(), shoal };
        wait_for("a machine is there", || ready.exists())?;
        machine.init = fs::read_to_string(children).doing("find its init")?.trim().to_string();
        Ok(machine)
    }

    /// Runs a shell command on it, in a session of its own.
    fn shell(&self, script: &str) -> Command {
        let folder = self.shoal.parent().unwrap_or(Path::new("/"));
        let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap_or_default());
        let mut command = Command::new("nsenter");
        command.args(["-t", &self.init, "-n", "-m", "-p", "-u", "--", "setsid", "-w", "bash", "-c", script]);
        command.env("PATH", path).current_dir("/").stdin(Stdio::null());
        command
    }

    /// Its status, output and errors, without blanks at the end.
    pub(super) fn sh(&self, script: &str) -> Res<(Option<i32>, String, String)> {
        let done = self.shell(script).output().doing("run nsenter")?;
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).trim_end().to_string();
        Ok((done.status.code(), text(done.stdout), text(done.stderr)))
    }

    pub(super) fn prints(&self, script: &str, expected: &str) -> Res {
        same(&format!("$ {script}"), self.sh(script)?, (Some(0), expected.into(), String::new()))
    }

    pub(super) fn fails(&self, script: &str, word: &str) -> Res {
        let (code, _, errors) = self.sh(script)?;
        holds(&format!("$ {script}: {errors:?} says {word:?}"), code == Some(1) && errors.contains(word))
    }

    /// A daemon, as its service file starts it.
    pub(super) fn daemon(&self, words: &str) -> Res {
        let started = format!("exec setsid shoal {words} >>/run/{}.log 2>&1 &", words.split(' ').next().unwrap_or("?"));
        same(words, self.sh(&started)?.0, Some(0))
    }

    pub(super) fn until(&self, script: &str) -> Res {
        wait_for(script, || self.sh(script).is_ok_and(|(code, ..)| code == Some(0)))
    }

    pub(super) fn write(&self, path: &str, text: &str, mode: u32) -> Res {
        let path = PathBuf::from(format!("/proc/{}/root{path}", self.init));
        fs::create_dir_all(path.parent().unwrap_or(&path)).doing("make a folder")?;
        fs::write(&path, text).doing("write a file")?;
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).doing("set its mode")
    }

    pub(super) fn read(&self, path: &str) -> Res<String> {
        fs::read_to_string(format!("/proc/{}/root{path}", self.init)).doing("read a file")
    }
}

/// Joins them by a bridge on the first.
pub(super) fn join(machines: &[Machine]) -> Res {
    let on = |machine: &Machine, script: &str| machine.prints(script, "");
    on(&machines[0], "ip link add lan type bridge && ip addr add 10.78.0.1/24 dev lan && ip link set lan up")?;
    for (n, machine) in machines.iter().enumerate().skip(1) {
        let (front, other) = (machines[0].init.as_str(), machine.init.as_str());
        let add = format!("ip link add port{n} netns {front} type veth peer name eth0 netns {other}");
        let done = Command::new("sh").args(["-c", &add]).status().doing("run ip")?;
        holds(&add, done.success())?;
        on(&machines[0], &format!("ip link set port{n} master lan up"))?;
        on(machine, &format!("ip addr add 10.78.0.{}/24 dev eth0 && ip link set eth0 up", 10 + n))?;
    }
    Ok(())
}

/// A front end and two nodes: one set up by the example of a configuration file, where the daemons look for it, the other by flags.
fn daemons_by_hand(place: &Place) -> Res<End> {
    let machines = ["front", "one", "two"].map(|name| Machine::start(place, name));
    let machines = machines.into_iter().collect::<Res<Vec<_>>>()?;
    join(&machines)?;
    let [front, one, two] = &machines[..] else { return Err("three were made".into()) };
    let example = include_str!("../../dist/shoal.toml");
    for unit in [include_str!("../../dist/shoal-front.service"), include_str!("../../dist/shoal-node.service")] {
        let (about, service) = unit.split_once("[Service]").ok_or("a unit has a [Service]")?;
        let endless = about.contains("\nStartLimitIntervalSec=0\n") && service.contains("\nRestart=always\n");
        holds(
            "systemd starts it again however often it has ended (systemd.unit(5): 5 times in 10 s otherwise)",
            endless,
        )?;
    }
    front.write("/etc/shoal/shoal.toml", example, 0o644)?;
    front.fails("shoal front", "no cluster key (`shoal key` makes one)")?;
    front.prints("shoal key /etc/shoal/key; stat -c %a /etc/shoal/key", "600")?;
    front.fails("shoal key /etc/shoal/key", "File exists")?;
    let key = front.read("/etc/shoal/key")?;
    one.write("/etc/shoal/shoal.toml", &example.replace("front.example", "10.78.0.1"), 0o644)?;
    one.write("/etc/shoal/key", &key, 0o600)?;
    two.write("/run/other key", &key, 0o644)?;
    let flags = "node --front 10.78.0.1 --number 7 --key '/run/other key' --run-dir /run/other --lost-grace 3";
    two.fails(&format!("shoal {flags}"), "others than its owner can use it")?;
    two.prints("chmod 600 '/run/other key'", "")?;
    two.fails("shoal node --key '/run/other key'", "which front end?")?;

    // Nodes may come first.
    one.daemon("node --config /etc/shoal/shoal.toml")?;
    two.daemon(flags)?;
    front.daemon("front --config /etc/shoal/shoal.toml")?;
    front.until("test $(shoal nodes 2>/dev/null | grep -cw up) = 2")?;
    front.prints("shoal nodes | awk 'NR > 1 {print $1, $2, $3}'", "n0 up 10.78.0.11\nn7 up 10.78.0.12")?;
    front.prints("shoal run -a hostname | sort | xargs", "one two")?;
    front.prints("echo abc | shoal run -n 0 shoal run -n 7 tr a-z A-Z", "ABC")?;
    front.prints("shoal run -n 7 sh -c 'exit 3'; echo $?", "3")?;
    let job = "shoal run -n 0 sleep 60 & until shoal ps | grep -q 'sleep 60'; do :; done; shoal where $!; kill $!; wait $!; echo $?";
    same(job, front.sh(job)?.1, "n0\n143".into())?;
    two.prints("SHOAL_SOCKET=/run/other/shoal.sock shoal nodes | grep -cw up", "2")?;

    // A second daemon in the place of the first changes nothing.
    front.fails("shoal front --listen 10.78.0.1:7707", "/run/shoal/shoal.sock")?;
    one.fails("shoal node", "another daemon serves /run/shoal/shoal.sock already")?;
    front.prints("shoal run -n 0 shoal run -n 7 hostname", "two")?;

    // Told to end they do, and all that runs there; and come back.
    two.prints("pkill -TERM -o -x shoal; while pgrep -x shoal >/dev/null; do sleep 0.1; done", "")?;
    front.until("shoal nodes | grep -w n7 | grep -qw down")?;
    front.fails("shoal run -n 7 true; exit $(($? == 125))", "node n7 is down")?;
    two.daemon(flags)?;
    front.until("test $(shoal nodes | grep -cw up) = 2")?;
    front.prints("pkill -TERM -x shoal; until ! shoal nodes; do :; done 2>/dev/null >&2", "")?;
    front.daemon("front --config /etc/shoal/shoal.toml")?;
    front.until("test $(shoal nodes 2>/dev/null | grep -cw up) = 2")?;
    front.prints("shoal run -a hostname | sort | xargs", "one two")?;
    Ok(End::Passed)
}

/// A front end with its daemon, and a machine that has its key.
fn front_and_one(place: &Place) -> Res<[Machine; 2]> {
    let machines = [Machine::start(place, "front")?, Machine::start(place, "one")?];
    join(&machines)?;
    let [front, one] = &machines;
    front.prints("mkdir -p /etc/shoal && shoal key", "")?;
    one.write("/etc/shoal/key", &front.read("/etc/shoal/key")?, 0o600)?;
    front.daemon("front")?;
    Ok(machines)
}

/// A daemon has its place also while its agent cannot begin, since something else is where its socket should be.
fn daemon_that_waits_for_its_socket(place: &Place) -> Res<End> {
    let [front, one] = &front_and_one(place)?;
    one.prints("mkdir -p /run/shoal/shoal.sock", "")?;
    one.daemon("node --front 10.78.0.1")?;
    one.until("grep -q 'starting another' /run/node.log")?;
    one.fails("timeout 10 shoal node --front 10.78.0.1", "another daemon serves /run/shoal/shoal.sock already")?;
    one.prints("rmdir /run/shoal/shoal.sock", "")?;
    front.until("test $(shoal nodes 2>/dev/null | grep -cw up) = 1")?;
    front.prints("shoal run -n 0 echo well", "well")?;
    Ok(End::Passed)
}

/// A node's daemon whose session keyring has a secret in it, and that is to be killed rather than others when memory runs out.
fn daemons_keep_what_is_theirs(place: &Place) -> Res<End> {
    let [front, one] = &front_and_one(place)?;
    // keyctl(2): KEYCTL_JOIN_SESSION_KEYRING, then add_key(2) to it; KEYCTL_SEARCH in it, and its number.
    let names = "my ($type, $name) = qw(user secret);";
    let secret =
        "my $x = q(x); syscall(250, 1, 0) > 0 && syscall(248, $type, $name, $x, 1, -3) > 0 or die $!; exec @ARGV";
    let look =
        "printf qq(%s %d\\n), syscall(250, 10, -3, $type, $name, 0) > 0 ? q(found) : q(none), syscall(250, 0, -3, 0)";
    one.write("/run/secret.pl", &format!("{names}{secret}"), 0o644)?;
    for machine in [front, one] {
        machine.write("/run/look.pl", &format!("{names}{look}"), 0o644)?;
    }
    holds("it is found", one.sh("perl /run/secret.pl perl /run/look.pl")?.1.starts_with("found"))?;
    let node = "perl /run/secret.pl choom -n 300 -- setsid shoal node --front 10.78.0.1 >>/run/node.log 2>&1 &";
    same(node, one.sh(node)?.0, Some(0))?;
    front.until("test $(shoal nodes 2>/dev/null | grep -cw up) = 1")?;
    front.prints("shoal run sh -c 'cat /proc/self/oom_score_adj /proc/$$/timerslack_ns' | xargs", "0 50000")?;
    let mut rings = Vec::new();
    for _ in 0..2 {
        let (_, out, errors) = front.sh("shoal run perl /run/look.pl")?;
        let ring = out.strip_prefix("none ").and_then(|number| number.parse::<i64>().ok());
        rings.push(ring.filter(|number| *number > 0).ok_or(format!("{out}{errors}"))?);
    }
    holds("each program has a session keyring of its own", rings[0] != rings[1])?;
    Ok(End::Passed)
}

/// The agent of a daemon that was killed serves its socket a moment longer.
fn daemon_follows_the_killed(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "daemon_follows_the_killed", 1)?;
    for _ in 0..20 {
        s.ok("shoal fault n0 kill-daemon && shoal fault n0 start-daemon")?;
    }
    s.prints("shoal run -n 0 echo well", "well")?;
    Ok(End::Passed)
}
