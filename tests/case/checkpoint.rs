//! Checkpoints of programs as they are, and of what cannot be carried; images that are broken.

use super::scene::{holds, same, wait_for, Sandbox};
use super::{End, Scene};
use crate::lab::place::Place;
use crate::lab::{carry, Doing, Res};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

pub(crate) const SCENES: &[Scene] = &[
    ("checkpoint_python", checkpoint_python),
    ("checkpoint_refuses_by_name", checkpoint_refuses_by_name),
    ("checkpoint_keeps_a_stop", checkpoint_keeps_a_stop),
    ("checkpoint_by_its_user", checkpoint_by_its_user),
    ("checkpoint_by_its_user_on_a_node", checkpoint_by_its_user_on_a_node),
    ("checkpoint_that_fails", checkpoint_that_fails),
    ("restore_of_bad_images", restore_of_bad_images),
    ("image_on_a_pipe", image_on_a_pipe),
    ("checkpoint_executable", checkpoint_executable),
    ("checkpoint_from_elsewhere", checkpoint_from_elsewhere),
];

pub(crate) const DEMANDING: &[Scene] = &[("checkpoint_freezes_briefly", checkpoint_freezes_briefly)];

pub(super) fn shoal(place: &Place) -> Res<PathBuf> {
    place.shoal.clone().ok_or_else(|| "shoal is not built".to_string())
}

/// Runs `shoal` with these words to its end.
pub(super) fn run(place: &Place, words: &[&str]) -> Res<Output> {
    Command::new(shoal(place)?).args(words).stdin(Stdio::null()).output().doing("run shoal")
}

pub(super) fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).trim().to_string()
}

pub(super) fn must(place: &Place, words: &[&str]) -> Res {
    let done = run(place, words)?;
    match done.status.success() {
        true => Ok(()),
        false => Err(format!("shoal {}: {}", words.join(" "), told(&done))),
    }
}

/// Starts a program that has nothing open but its standard streams; its output goes to `out`.
pub(super) fn start(words: &[&str], out: &std::fs::File) -> Res<Child> {
    let closed = [
        "-c",
        "for fd in /proc/self/fd/*; do fd=${fd##*/}; [ $fd -gt 2 ] && eval \"exec $fd>&-\"; done; exec \"$@\"",
        "sh",
    ];
    let mut command = with_output(Command::new("bash"), out)?;
    command.args(closed).args(words).spawn().doing("start a program")
}

/// Until it has executed, it is a shell with other things open.
pub(super) fn until_it_is(pid: &str, name: &str) -> Res {
    for _ in 0..2000 {
        // It may not be there yet.
        if std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim_end() == name {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Err(format!("process {pid} does not become {name}"))
}

/// Returns when the process runs.
pub(super) fn restore(place: &Place, image: &Path, out: &std::fs::File) -> Res<Child> {
    carry::restore(with_output(Command::new(shoal(place)?), out)?, image)
}

fn with_output(mut command: Command, out: &std::fs::File) -> Res<Command> {
    let stream = || out.try_clone().doing("duplicate a file").map(Stdio::from);
    command.stdin(Stdio::null()).stdout(stream()?).stderr(stream()?);
    Ok(command)
}

/// Carried away and back again and again, it computes what it does undisturbed. On a busy machine it is carried less often before it ends.
fn checkpoint_python(place: &Place) -> Res<End> {
    const LEAST: u64 = 5;
    const MOST_RUNS: u32 = 4;
    let (mut times, mut why) = (0, String::new());
    for _ in 0..MOST_RUNS {
        times += carried_until_its_end(place, &mut why)?;
        if times >= LEAST {
            return Ok(End::Passed);
        }
    }
    Err(format!("it was carried {times} times only: {why}"))
}

/// How often it was, and why not the last time that it was not.
fn carried_until_its_end(place: &Place, why: &mut String) -> Res<u64> {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("case/real/carried.py").display().to_string();
    let (database, image, log) = (place.fresh("carried.db"), place.fresh("carried.image"), place.fresh("carried.out"));
    let words = ["python3", &program, &database.display().to_string()];
    let home = Command::new("python3").args(&words[1..]).output().doing("run python3")?;
    let out = std::fs::File::create(&log).doing("make a file")?;
    let mut child = start(&words, &out)?;
    let pid = child.id().to_string();
    let path = image.display().to_string();
    let mut times = 0;
    while child.try_wait().doing("look at the program")?.is_none() && times < 30 {
        std::thread::sleep(Duration::from_millis(30 + 17 * times % 100));
        let done = run(place, &["checkpoint", &pid, "--stop", "-o", &path])?;
        if !done.status.success() {
            // It is a shell still, or has ended meanwhile.
            *why = told(&done);
            continue;
        }
        child.wait().doing("wait for the program")?;
        child = restore(place, &image, &out)?;
        times += 1;
    }
    same("its status", child.wait().doing("wait for the program")?.code(), Some(0))?;
    same("its output", std::fs::read(&log).doing("read the output")?, home.stdout)?;
    Ok(times)
}

/// Of a process on a node it is asked for on the front end, on its node and on another one.
fn checkpoint_from_elsewhere(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "checkpoint_from_elsewhere", 2)?;
    let counts = "python3 -c '
import time
print(\"up\", flush=True)
kept = bytearray(8 << 20)
for n in range(8 << 20):
    if n % 4096 == 0: kept[n] = n // 4096 % 251; time.sleep(0.0008)
print(all(kept[n] == n // 4096 % 251 for n in range(0, 8 << 20, 4096)))'";
    s.ok(&format!(
        "cd $(mktemp -d); mkfifo up
        shoal run -n 1 {counts} >up </dev/null & p=$!
        exec 3<up; read -r line <&3
        shoal checkpoint --dry-run $p
        shoal checkpoint $p -o front
        shoal run -n 1 shoal checkpoint $p -o $PWD/here
        shoal run -n 0 shoal checkpoint $p -o - >there
        ! shoal checkpoint $p --stop -o - >/dev/full 2>said; grep -q 'No space left' said
        ! shoal checkpoint $p --stop -o $PWD 2>said; grep -q 'Is a directory' said
        for image in front here there; do shoal image $image >/dev/null; done
        shoal checkpoint $p --stop -o last
        wait $p; test $? = 137
        test -z \"$(cat <&3)\"
        for image in front here there last; do test \"$(shoal restore $image)\" = True; done
        ls *.partial 2>/dev/null && exit 1; true"
    ))?;
    let said = s.fails("shoal run -n 0 shoal checkpoint $$ -o /dev/null; exit $?", 1)?;
    holds(&format!("it says where to ask: {said}"), said.contains("is on the front end"))?;
    Ok(End::Passed)
}

/// What is in the way is named, and the program runs on.
fn checkpoint_refuses_by_name(place: &Place) -> Res<End> {
    let log = place.fresh("refused.out");
    let out = std::fs::File::create(&log).doing("make a file")?;
    let mut child =
        start(&["bash", "-c", "exec 5<>/dev/tcp/127.0.0.1/9 || exec 5</proc/self/maps; sleep 60 & wait"], &out)?;
    let pid = child.id().to_string();
    let dry = || run(place, &["checkpoint", "--dry-run", &pid]);
    let (mut done, mut rounds) = (dry()?, 0);
    while !String::from_utf8_lossy(&done.stdout).contains("it has children") && rounds < 2000 {
        std::thread::sleep(Duration::from_millis(5));
        (done, rounds) = (dry()?, rounds + 1);
    }
    same("the status of a dry run", done.status.code(), Some(1))?;
    let image = place.fresh("refused.image").display().to_string();
    let real = run(place, &["checkpoint", &pid, "--stop", "-o", &image])?;
    same("the status of a refusal", real.status.code(), Some(1))?;
    let all = String::from_utf8_lossy(&done.stdout).into_owned();
    let missing = all.lines().find(|line| !told(&real).contains(line));
    let still = child.try_wait().doing("look at the program")?.is_none();
    // First its sleep, of which the shell is the parent while it lives.
    Command::new("pkill").args(["-P", &pid]).status().doing("run pkill")?;
    child.kill().doing("end the program")?;
    child.wait().doing("wait for the program")?;
    match (missing, still, Path::new(&image).exists()) {
        (None, true, false) => Ok(End::Passed),
        (missing, still, image) => Err(format!("not said: {missing:?}, it runs on: {still}, an image: {image}")),
    }
}

/// A stopped program is stopped when it is restored, and goes on with SIGCONT.
fn checkpoint_keeps_a_stop(place: &Place) -> Res<End> {
    let (image, log) = (place.fresh("stopped.image"), place.fresh("stopped.out"));
    let out = std::fs::File::create(&log).doing("make a file")?;
    let mut child = start(&["sleep", "5"], &out)?;
    let pid = child.id().to_string();
    until_it_is(&pid, "sleep")?;
    let state = || -> Res<String> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).doing("read its state")?;
        Ok(stat.rsplit_once(") ").map(|(_, rest)| rest[..1].to_string()).unwrap_or_default())
    };
    let signal = |name: &str| Command::new("kill").args([name, &pid]).status().doing("run kill").map(drop);
    signal("-STOP")?;
    while state()? != "T" {
        std::thread::yield_now();
    }
    must(place, &["checkpoint", &pid, "--continue", "-o", &image.display().to_string()])?;
    // Let go by its tracer it wakes, and stops again by itself (__ptrace_unlink sets JOBCTL_STOP_PENDING).
    let stops = || wait_for("it is stopped", || state().is_ok_and(|state| state == "T"));
    stops()?;
    must(place, &["checkpoint", &pid, "--stop", "-o", &image.display().to_string()])?;
    child.wait().doing("wait for the program")?;
    let mut child = restore(place, &image, &out)?;
    stops()?;
    std::thread::sleep(Duration::from_millis(300));
    same("its state when it is restored", state()?, "T".to_string())?;
    signal("-CONT")?;
    same("its status", child.wait().doing("wait for the program")?.code(), Some(0))?;
    Ok(End::Passed)
}

/// An ordinary user puts a process of theirs into a file; restored, it is theirs again.
fn checkpoint_by_its_user(place: &Place) -> Res<End> {
    let user = ["setpriv", "--reuid=1000", "--regid=1000", "--clear-groups"];
    let (directory, log) = (place.fresh("user"), place.fresh("user.out"));
    std::fs::create_dir(&directory).doing("make a directory")?;
    std::os::unix::fs::chown(&directory, Some(1000), Some(1000)).doing("give a directory away")?;
    let out = std::fs::File::create(&log).doing("make a file")?;
    // A file of root's would be opened for the image of a user's with `--trust` only.
    std::os::unix::fs::chown(&log, Some(1000), Some(1000)).doing("give a file away")?;
    let mut child = start(&[&user[..], &["sleep", "2"]].concat(), &out)?;
    let pid = child.id().to_string();
    until_it_is(&pid, "sleep")?;
    let image = directory.join("image");
    let stranger = ["setpriv", "--reuid=1001", "--regid=1001", "--clear-groups"];
    let mut command = Command::new(stranger[0]);
    command.args(&stranger[1..]).arg(shoal(place)?).args(["checkpoint", &pid, "-o", "-"]);
    let done = command.stdin(Stdio::null()).output().doing("run shoal")?;
    let said = told(&done);
    same(&said, (done.status.code(), said.contains("is not yours to trace")), (Some(1), true))?;
    let mut command = Command::new(user[0]);
    command.args(&user[1..]).arg(shoal(place)?).args(["checkpoint", &pid, "--stop", "-o"]).arg(&image);
    let done = command.stdin(Stdio::null()).output().doing("run shoal")?;
    same("what it says", told(&done), String::new())?;
    child.wait().doing("wait for the program")?;
    let mut child = restore(place, &image, &out)?;
    let owner = std::fs::metadata(format!("/proc/{pid}")).doing("look at the program")?.uid();
    same("whose it is", owner, 1000)?;
    same("its status", child.wait().doing("wait for the program")?.code(), Some(0))?;
    Ok(End::Passed)
}

/// From wherever it is asked for; the standard streams are pipes of root's there.
fn checkpoint_by_its_user_on_a_node(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "checkpoint_by_its_user_on_a_node", 1)?;
    s.prints(
        "cd $(mktemp -d); chmod 777 .; user='setpriv --reuid 61001 --regid 61001 --clear-groups'
        $user shoal run -n 0 sleep 1007 | cat & until p=$(pgrep -x sleep); do sleep 0.02; done
        $user shoal checkpoint $p -o here && $user shoal run -n 0 shoal checkpoint $p -o $PWD/there
        ls; kill $p; wait",
        "here\nthere",
    )?;
    Ok(End::Passed)
}

/// One line, no file, and the process goes on as if nothing had been: it sleeps as long as it was to, though it is carried afterwards.
fn checkpoint_that_fails(place: &Place) -> Res<End> {
    // Longer than the five commands before the last checkpoint take on a slow machine.
    const SLEEPS: Duration = Duration::from_secs(6);
    let (image, log) = (place.fresh("large.image"), place.fresh("large.out"));
    let out = std::fs::File::create(&log).doing("make a file")?;
    let begun = std::time::Instant::now();
    let mut child = start(&["sleep", &SLEEPS.as_secs_f64().to_string()], &out)?;
    let (pid, path) = (child.id().to_string(), image.display().to_string());
    until_it_is(&pid, "sleep")?;
    let script = "ulimit -f 16; exec \"$@\"";
    let mut command = Command::new("bash");
    command.args(["-c", script, "bash"]).arg(shoal(place)?).args(["checkpoint", &pid, "-o", &path]);
    let done = command.stdin(Stdio::null()).output().doing("run shoal")?;
    same("its status", done.status.code(), Some(1))?;
    let told_of = |name: &str, errno: &str| format!("write an image: write {name}: {errno}");
    let why = told_of(&path, "File too large (os error 27)");
    holds(&format!("{:?} ends with {why:?}", told(&done)), told(&done).ends_with(&why))?;
    let left = [path.clone(), format!("{path}.partial")].map(|file| Path::new(&file).exists());
    same("what is left", left, [false; 2])?;
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").doing("open /dev/full")?;
    for (to, name) in [("-", "standard output"), ("/dev/full", "/dev/full")] {
        let mut command = Command::new(shoal(place)?);
        command.args(["checkpoint", &pid, "-o", to]).stdin(Stdio::null()).stderr(Stdio::piped());
        let full = full.try_clone().doing("open /dev/full")?;
        let done = command.stdout(full).spawn().and_then(|run| run.wait_with_output()).doing("run shoal")?;
        let why = told_of(name, "No space left on device (os error 28)");
        holds(&format!("{:?} ends with {why:?}", told(&done)), told(&done).ends_with(&why))?;
    }
    let mut command = Command::new("sh");
    command.args(["-c", "exec \"$@\" >&-", "sh"]).arg(shoal(place)?).args(["checkpoint", &pid, "--stop", "-o", "-"]);
    let done = command.stdin(Stdio::null()).output().doing("run shoal")?;
    let why = "standard output is closed, or the null device";
    holds(&format!("{:?} ends with {why:?}", told(&done)), told(&done).ends_with(why))?;
    must(place, &["checkpoint", &pid, "--stop", "-o", &path])?;
    child.wait().doing("wait for the program")?;
    let mut child = restore(place, &image, &out)?;
    same("its status", child.wait().doing("wait for the program")?.code(), Some(0))?;
    holds(&format!("it slept for {:?}", begun.elapsed()), begun.elapsed() >= SLEEPS)?;
    Ok(End::Passed)
}

/// Each is refused in one line, and leaves no process.
fn restore_of_bad_images(place: &Place) -> Res<End> {
    let (image, log) = (place.fresh("good.image"), place.fresh("bad.out"));
    let out = std::fs::File::create(&log).doing("make a file")?;
    let mut child = start(&["sleep", "1000"], &out)?;
    let pid = child.id().to_string();
    let path = image.display().to_string();
    until_it_is(&pid, "sleep")?;
    must(place, &["checkpoint", &pid, "-o", &path])?;
    same("who may read it", std::fs::metadata(&image).doing("look at the image")?.mode() & 0o777, 0o600)?;
    let in_use = run(place, &["restore", &path])?;
    same("a PID that is in use", (in_use.status.code(), told(&in_use).contains("is in use")), (Some(1), true))?;
    child.kill().doing("end the program")?;
    child.wait().doing("wait for the program")?;
    let good = std::fs::read(&image).doing("read the image")?;
    let bad = place.fresh("bad.image");
    let mut cases: Vec<(String, Vec<u8>)> =
        (0..good.len()).step_by(good.len() / 20).map(|at| (format!("cut at {at}"), good[..at].to_vec())).collect();
    for at in (16..good.len()).step_by(good.len() / 20) {
        let mut changed = good.clone();
        changed[at] ^= 0x10;
        cases.push((format!("changed at {at}"), changed));
    }
    cases.push(("something else".into(), b"#!/bin/sh\necho no image at all\n".to_vec()));
    for (what, bytes) in cases {
        std::fs::File::create(&bad).and_then(|mut file| file.write_all(&bytes)).doing("write a bad image")?;
        let done = run(place, &["restore", &bad.display().to_string()])?;
        let lines = told(&done).lines().count();
        same(&what, (done.status.code(), lines), (Some(1), 1))?;
        same(&format!("{what}: a process is left"), Path::new(&format!("/proc/{pid}")).exists(), false)?;
    }
    Ok(End::Passed)
}

/// Images go through pipes, out of a process, into words and back into a process; pages that were only read and those of files are not in them. One of a later version is refused.
fn image_on_a_pipe(place: &Place) -> Res<End> {
    let (image, log) = (place.fresh("piped.image"), place.fresh("piped.out"));
    let out = std::fs::File::create(&log).doing("make a file")?;
    let program = "import mmap, os, signal\nm = mmap.mmap(-1, 60_000_000, mmap.MAP_PRIVATE)\nzero = lambda: not any(m[::4096])\nassert zero()
signal.signal(signal.SIGUSR1, lambda *_: os._exit(7 if zero() else 8))\nprint('there', flush=True)\nwhile True: signal.pause()";
    let mut child = start(&["python3", "-S", "-c", program], &out)?;
    wait_for("it is there", || std::fs::read_to_string(&log).is_ok_and(|said| said.contains("there")))?;
    let pid = child.id().to_string();
    let shell = |script: &str| {
        let mut command = Command::new("bash");
        command
            .args(["-o", "pipefail", "-c", script])
            .env("shoal", shoal(place)?)
            .env("pid", &pid)
            .env("image", &image);
        command.stdin(Stdio::null()).output().doing("run bash")
    };
    let words = shell("$shoal checkpoint $pid -o - | tee $image | $shoal image - && cmp <($shoal image $image) <($shoal image - <$image)")?;
    let said = String::from_utf8_lossy(&words.stdout).into_owned();
    same("the status of words", (words.status.code(), told(&words)), (Some(0), String::new()))?;
    for wanted in [
        "header\n",
        "process\n",
        &format!("\n  pid: {pid}\n"),
        "\nmemory\n",
        "\nfiles\n",
        "\nthread\n",
        "\npages\n  length: ",
        "\nend\n",
    ] {
        holds(&format!("{wanted:?} is in {said}"), said.contains(wanted))?;
    }
    let json = shell("$shoal image --json $image | python3 -c 'import json, sys; all = [json.loads(line) for line in sys.stdin]
kinds = [one[\"record\"] for one in all]; print(kinds.count(\"thread\"), kinds[-1], all[kinds.index(\"process\")][\"pid\"])'")?;
    same(
        "as JSON",
        (String::from_utf8_lossy(&json.stdout).trim(), told(&json)),
        (&*format!("1 end {pid}"), String::new()),
    )?;
    let size = std::fs::metadata(&image).doing("look at the image")?.len();
    holds(&format!("{size} bytes are less than 20 MiB"), size < 20 << 20)?;
    child.kill().doing("end the program")?;
    child.wait().doing("wait for the program")?;
    let back =
        shell("cat $image | $shoal restore --ready-fd 3 - 3>$image.ready & until test -s $image.ready; do sleep 0.02; done; kill -USR1 $pid; wait $!")?;
    same("its status", (back.status.code(), told(&back)), (Some(7), String::new()))?;
    let later = shell(
        "printf '\\2' | dd of=$image bs=1 seek=8 conv=notrunc status=none; $shoal image $image; $shoal restore $image",
    )?;
    let refused = "shoal: an image of version 2: this program reads 1";
    same("one of a later version", (later.status.code(), told(&later)), (Some(1), format!("{refused}\n{refused}")))?;
    Ok(End::Passed)
}

/// An image that is a program restores itself when it is run; `shoal image` and `shoal restore` read it too.
fn checkpoint_executable(place: &Place) -> Res<End> {
    let (image, log) = (place.fresh("program.image"), place.fresh("program.out"));
    let out = std::fs::File::create(&log).doing("make a file")?;
    let mut child = start(&["sleep", "3"], &out)?;
    let pid = child.id().to_string();
    until_it_is(&pid, "sleep")?;
    let path = image.display().to_string();
    must(place, &["checkpoint", &pid, "--stop", "--executable", "-o", &path])?;
    child.wait().doing("wait for the program")?;
    same("its mode", std::fs::metadata(&image).doing("look at the image")?.mode() & 0o777, 0o700)?;
    must(place, &["image", &path])?;
    let mut child = restore(place, &image, &out)?;
    same("its name", std::fs::read_to_string(format!("/proc/{pid}/comm")).doing("read its name")?, "sleep\n".into())?;
    must(place, &["checkpoint", &pid, "--stop", "--executable", "-o", &path])?;
    child.wait().doing("wait for the program")?;
    let mut child = with_output(Command::new(&image), &out)?.spawn().doing("run the image")?;
    until_it_is(&pid, "sleep")?;
    same("its status", child.wait().doing("wait for the program")?.code(), Some(0))?;
    Ok(End::Passed)
}

/// A process that goes on stands still for much less time than its memory takes to be written.
fn checkpoint_freezes_briefly(place: &Place) -> Res<End> {
    let (image, log) = (place.fresh("frozen.image"), place.fresh("frozen.out"));
    let out = std::fs::File::create(&log).doing("make a file")?;
    let program = "import time\nb = bytearray(b'x' * 200_000_000)\nprint('there', flush=True)\n\
                   while True: b[time.monotonic_ns() // 1000 % len(b)] += 0; time.sleep(0.001)";
    let mut child = start(&["python3", "-c", program], &out)?;
    let pid = child.id().to_string();
    while !std::fs::read_to_string(&log).doing("read the output")?.contains("there") {
        std::thread::sleep(Duration::from_millis(5));
    }
    let done = run(place, &["checkpoint", &pid, "--continue", "--explain", "-o", &image.display().to_string()])?;
    child.kill().doing("end the program")?;
    child.wait().doing("wait for the program")?;
    let told = told(&done);
    same("the status", done.status.code(), Some(0))?;
    let said = ["round 2:", "because little was left", &format!("process {pid} stood still for ")];
    match said.iter().all(|said| told.contains(said)) {
        true => Ok(End::Passed),
        false => Err(told),
    }
}
