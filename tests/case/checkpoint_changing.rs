//! Checkpoints of processes that change or end just then.

use super::checkpoint::{must, restore, run, shoal, start, told, until_it_is};
use super::hostile::compiled;
use super::scene::{holds, same};
use super::{End, Scene};
use crate::lab::faults::Faults;
use crate::lab::place::Place;
use crate::lab::terminal::readable;
use crate::lab::{Doing, Res};
use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

pub(crate) const SCENES: &[Scene] = &[
    ("checkpoint_of_what_changes_meanwhile", checkpoint_of_what_changes_meanwhile),
    ("checkpoint_of_what_ends_meanwhile", checkpoint_of_what_ends_meanwhile),
    ("checkpoint_killed", checkpoint_killed),
    ("checkpoint_interrupted", checkpoint_interrupted),
    ("checkpoint_without_threads", checkpoint_without_threads),
    ("checkpoint_without_descriptors", checkpoint_without_descriptors),
];

fn until(what: &str, yes: impl Fn() -> bool) -> Res {
    let end = Instant::now() + Duration::from_secs(15);
    while !yes() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(5));
    }
    holds(what, yes())
}

fn has_text(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|file| file.len() > 0)
}

/// What is locked of a mapping as a whole when it has been looked at is seen when everything has been written: it is written once more, into a file and where nothing can be taken
/// back.
fn checkpoint_of_what_changes_meanwhile(place: &Place) -> Res<End> {
    let socket = place.fresh("faults");
    let faults = Faults::listen(&socket)?;
    let program = compiled(place, "advises")?;
    let program = program.display().to_string();
    for way in ["file", "stream"] {
        let (said, image) = (place.fresh("advised"), place.fresh("advised.image"));
        let out = File::create(&said).doing("make a file")?;
        let named = |what: &str| format!("{}.{what}", said.display());
        let (go, done, look) = (named("go"), named("done"), named("look"));
        let mut child = start(&[&program, "lock", &go, &done, &look], &out)?;
        until("it is up", || has_text(&said))?;
        faults.watch("dump stops")?;
        let to = image.display().to_string();
        let mut command = Command::new(shoal(place)?);
        command.args(["checkpoint", "--stop", &child.id().to_string()]).env("SHOAL_FAULTS", &socket);
        match way {
            "file" => command.args(["-o", &to]),
            _ => command.args(["-o", "-"]).stdout(File::create(&image).doing("make a file")?),
        };
        let writes = command.stderr(Stdio::piped()).spawn().doing("run shoal")?;
        let held = faults.reached(Duration::from_secs(15))?;
        fs::write(&go, "").doing("let it lock its memory")?;
        until("it has locked it", || Path::new(&done).exists())?;
        drop(held);
        let written = writes.wait_with_output().doing("wait for shoal")?;
        holds(&format!("{way}: {}", told(&written)), written.status.success())?;
        child.wait().doing("wait for the program")?;
        must(place, &["image", &to])?;
        let mut again = restore(place, &image, &out)?;
        fs::write(&look, "").doing("have it look")?;
        holds("it ends well", again.wait().doing("wait for the program")?.success())?;
        let flags = fs::read_to_string(&said).doing("read the flags of its mappings")?;
        let its = flags.lines().nth(1).unwrap_or_default();
        holds(&format!("{way}: {its:?} is locked"), its.split(' ').any(|word| word == "lo"))?;
    }
    Ok(End::Passed)
}

/// Whatever it is in the midst of, and whatever was in its way: it says so, or it has been quicker.
fn checkpoint_of_what_ends_meanwhile(place: &Place) -> Res<End> {
    const ROUNDS: u64 = 60;
    let image = place.fresh("ended.image").display().to_string();
    let out = File::create(place.fresh("ended.out")).doing("make a file")?;
    let threads = "import threading, time
for _ in range(4): threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
time.sleep(60)";
    for round in 0..ROUNDS {
        let words = if round % 2 == 0 { &["sleep", "60"][..] } else { &["python3", "-S", "-c", threads] };
        let mut child = start(words, &out)?;
        let pid = child.id().to_string();
        until_it_is(&pid, words[0])?;
        let how = if round % 4 < 2 { &["--dry-run"][..] } else { &["-o", &image] };
        let told = std::thread::scope(|scope| {
            let writes = scope.spawn(|| run(place, &[&["checkpoint", &pid], how].concat()));
            std::thread::sleep(Duration::from_micros(round * 250));
            child.kill().doing("kill it").and_then(|()| writes.join().map_err(|_| "a thread has failed".to_string())?)
        })?;
        child.wait().doing("wait for it")?;
        let (said, words) = (told.status.success(), [told.stdout.clone(), told.stderr.clone()].concat());
        let words = String::from_utf8_lossy(&words).into_owned();
        holds(&format!("{words:?} says that it has ended"), said || words.contains("the process has ended"))?;
    }
    Ok(End::Passed)
}

/// The command is killed when some is written: nothing is left of that, an earlier image is what it was, and the process runs on.
fn checkpoint_killed(place: &Place) -> Res<End> {
    let socket = place.fresh("faults");
    let faults = Faults::listen(&socket)?;
    let folder = place.fresh("images");
    fs::create_dir(&folder).doing("make a folder")?;
    let image = folder.join("image");
    let to = image.display().to_string();
    let out = File::create(place.fresh("killed.out")).doing("make a file")?;
    let mut child = start(&["sleep", "60"], &out)?;
    let pid = child.id().to_string();
    until_it_is(&pid, "sleep")?;
    must(place, &["checkpoint", &pid, "-o", &to])?;
    let before = fs::read(&image).doing("read the image")?;
    faults.watch("dump stops")?;
    let mut command = Command::new(shoal(place)?);
    command.args(["checkpoint", "--stop", &pid, "-o", &to]).env("SHOAL_FAULTS", &socket);
    let mut writes = command.stderr(Stdio::null()).spawn().doing("run shoal")?;
    let held = faults.reached(Duration::from_secs(15))?;
    writes.kill().doing("kill shoal")?;
    writes.wait().doing("wait for shoal")?;
    drop(held);
    let left = fs::read_dir(&folder).doing("read the folder")?.count();
    same("files in the folder", left, 1)?;
    holds("the image is the earlier one", fs::read(&image).doing("read the image")? == before)?;
    holds("the process runs", child.try_wait().doing("look for it")?.is_none())?;
    child.kill().doing("kill it")?;
    child.wait().doing("wait for it")?;
    Ok(End::Passed)
}

/// Of a user who may have no further thread.
fn checkpoint_without_threads(place: &Place) -> Res<End> {
    let (folder, program) = (place.fresh("few"), shoal(place)?.display().to_string());
    fs::create_dir(&folder).doing("make a folder")?;
    let code = format!(
        "chmod 777 {folder}; cd {folder}; exec setpriv --reuid 61007 --regid 61007 --clear-groups bash -c '
         python3 -S -c \"m = bytearray(range(256)) * 65536
print(1, flush=True)
while True: m[::4096] = bytes(len(m[::4096]))\" >up & P=$!
         trap \"kill -KILL $P\" EXIT
         until test -s up; do read -t 0.1 <> <(:); done
         grep Cpus_allowed: /proc/$P/status >before
         prlimit --nproc=3 {program} checkpoint $P -o image || exit 1
         grep Cpus_allowed: /proc/$P/status | cmp before - || exit 2
         prlimit --nproc=3 {program} checkpoint $P --stop -o image || exit 3
         wait $P; trap - EXIT; {program} image image >shown || exit 4'",
        folder = folder.display()
    );
    let done = Command::new("bash").args(["-c", &code]).output().doing("run bash")?;
    holds(&told(&done), done.status.success())?;
    Ok(End::Passed)
}

/// Whoever may open no further file is told that, whatever was to be opened, and not that a process has ended that runs.
fn checkpoint_without_descriptors(place: &Place) -> Res<End> {
    const MORE_THAN_IT_NEEDS: u32 = 16;
    let out = File::create(place.fresh("descriptors.out")).doing("make a file")?;
    let image = place.fresh("descriptors.image").display().to_string();
    let mut child = start(&["sleep", "60"], &out)?;
    let pid = child.id().to_string();
    until_it_is(&pid, "sleep")?;
    let mut failed = Vec::new();
    for how in [&["--dry-run"][..], &["-o", &image]] {
        for most in 3..=MORE_THAN_IT_NEEDS {
            let mut command = Command::new("bash");
            command.args(["-c", "ulimit -n $0; exec \"$@\"", &most.to_string()]).arg(shoal(place)?);
            let done = command.args(["checkpoint", &pid]).args(how).stdin(Stdio::null()).output();
            let done = done.doing("run shoal")?;
            if !done.status.success() {
                failed.push(most);
                let said = told(&done);
                let fits = said.ends_with("Too many open files (os error 24)") && said.lines().count() == 1;
                holds(&format!("{how:?}, {most} descriptors: {said:?}"), fits)?;
            }
        }
    }
    holds(&format!("{failed:?} are too few"), failed.contains(&5) && !failed.contains(&MORE_THAN_IT_NEEDS))?;
    holds("the process runs", child.try_wait().doing("look for it")?.is_none())?;
    child.kill().doing("kill it")?;
    child.wait().doing("wait for it")?;
    Ok(End::Passed)
}

/// What is written, and how it tells that it runs: much memory, little, and shared memory.
const TICKS: [&[&str]; 3] = [
    &["perl", "-e", "$| = 1; $x = q(abcdefgh) x 4_000_000; while (1) { print q(.); select undef, undef, undef, .01 }"],
    &["perl", "-e", "$| = 1; while (1) { print q(.); select undef, undef, undef, .01 }"],
    &[
        "python3",
        "-S",
        "-c",
        "import mmap, os, time
m = mmap.mmap(-1, 32 << 20)
m.write(b'abcdefgh' * (4 << 20))
while True:
    os.write(1, b'.')
    time.sleep(.01)",
    ],
];

/// It goes into a pipe that nobody reads, for which it stands still, or into a file that is about to be whole; who writes that is interrupted. It has its mappings and processors, and runs.
fn checkpoint_interrupted(place: &Place) -> Res<End> {
    let socket = place.fresh("faults");
    let faults = Faults::listen(&socket)?;
    for program in TICKS {
        let ticks = place.fresh("ticks");
        let mut child = start(program, &File::create(&ticks).doing("make a file")?)?;
        let pid = child.id().to_string();
        let written = || fs::metadata(&ticks).map_or(0, |file| file.len());
        until("it runs", || written() > 3)?;
        let before = mappings_and_processors(&pid)?;
        for signal in ["INT", "TERM", "KILL"] {
            for to in ["-", "image"] {
                let image = place.fresh(to);
                let to = if to == "-" { "-".into() } else { image.display().to_string() };
                let mut command = Command::new(shoal(place)?);
                command.args(["checkpoint", "--stop", &pid, "-o", &to]).stdout(Stdio::piped()).stderr(Stdio::null());
                if to != "-" {
                    faults.watch("dump ends")?;
                    command.env("SHOAL_FAULTS", &socket);
                }
                let mut writes = command.spawn().doing("run shoal")?;
                let pipe = writes.stdout.take().ok_or("no pipe")?;
                let held = match to == "-" {
                    // What is in the pipe is behind more than a megabyte that was kept, and so of its pages.
                    true => holds("some of it has come", readable(&pipe, Duration::from_secs(15))?).map(|()| None)?,
                    false => Some(faults.reached(Duration::from_secs(15))?),
                };
                let mut kill = Command::new("kill");
                kill.args([&format!("-{signal}"), &writes.id().to_string()]).status().doing("run kill")?;
                writes.wait().doing("wait for shoal")?;
                drop((pipe, held));
                let so_far = written();
                until(&format!("{signal}: it runs on"), || written() > so_far + 2)?;
                same(
                    &format!("{signal}: its mappings, and its processors"),
                    mappings_and_processors(&pid)?,
                    before.clone(),
                )?;
                holds("there is no file", !image.exists())?;
            }
        }
        child.kill().doing("kill it")?;
        child.wait().doing("wait for it")?;
    }
    Ok(End::Passed)
}

/// How many mappings, and which processors.
fn mappings_and_processors(pid: &str) -> Res<(usize, String)> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).doing("read its mappings")?;
    let status = fs::read_to_string(format!("/proc/{pid}/status")).doing("read its status")?;
    let allowed = status.lines().find(|line| line.starts_with("Cpus_allowed:")).unwrap_or_default();
    Ok((maps.lines().count(), allowed.to_string()))
}
