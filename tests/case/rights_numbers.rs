//! Numbers that mean another program by the time at which a daemon acts on them: a process that executes a set-user-ID program keeps its number.

use super::checkpoint::{restore, shoal, start, told};
use super::hostile::compiled;
use super::scene::{holds, same, wait_for, Sandbox};
use super::{End, Scene};
use crate::lab::faults::Faults;
use crate::lab::place::Place;
use crate::lab::session::Plan;
use crate::lab::{Doing, Res};
use std::fs::{self, File};
use std::process::{Command, Stdio};
use std::time::Duration;

pub(crate) const SCENES: &[Scene] = &[
    ("usage_of_what_became_roots", usage_of_what_became_roots),
    ("memory_of_a_program_that_was_left", memory_of_a_program_that_was_left),
];

/// fs.suid_dumpable is the whole machine's.
pub(crate) const ALONE: &[Scene] = &[
    ("user_cannot_reach_a_program_that_is_being_started", user_cannot_reach_a_program_that_is_being_started),
    ("move_of_what_could_be_looked_into", move_of_what_could_be_looked_into),
];

const ANN: &str = "setpriv --reuid 61001 --regid 61001 --clear-groups";
/// Longer than a node's daemon is held at a fault point here.
const LOST_AFTER: Duration = Duration::from_secs(20);

/// A thread waits for a child elsewhere and has come back from its call; before the daemon adds what the child has used, another thread of the process
/// executes a set-user-ID program: nothing is written into that.
fn usage_of_what_became_roots(place: &Place) -> Res<End> {
    let socket = place.fresh("faults");
    let faults = Faults::listen(&socket)?;
    let plan = Plan { faults: Some(socket), lost_after: Some(LOST_AFTER), ..Plan::default() };
    let s = Sandbox::with(place, "usage_of_what_became_roots", 2, plan)?;
    let (program, copy) = (compiled(place, "usage_of_another")?, place.fresh("rootcopy"));
    let (program, copy) = (program.display(), copy.display());
    s.ok(&format!("cp {program} {copy}; chmod 4755 {copy}"))?;
    for point in ["usage is there", "usage is written"] {
        let dir = place.fresh("usage");
        let dir = dir.display();
        s.ok(&format!("mkdir -m 777 {dir}"))?;
        faults.watch(point)?;
        let going = s.start(&format!("{ANN} shoal run -n 0 {program} {dir} 1 {copy}"));
        let held = faults.reached(Duration::from_secs(20))?;
        s.ok(&format!("touch {dir}/go"))?;
        s.until(&format!("test -s {dir}/up"))?;
        s.prints(&format!("cat {dir}/up"), "0")?;
        drop(held);
        // The daemon goes on, and so does the stand-in that writes for it.
        s.prints("shoal run -n 0 sh -c 'sleep 0.3; echo well'", "well")?;
        s.ok(&format!("touch {dir}/look"))?;
        s.until(&format!("test -s {dir}/found"))?;
        let found = s.ok(&format!("cat {dir}/found"))?;
        holds(&format!("at the point {point:?} the memory of root's program is whole: {found}"), found == "whole")?;
        holds("it ends well", going.end()?.code() == Some(0))?;
    }
    Ok(End::Passed)
}

/// Much of a process's memory is copied while it runs. Before it stands still it executes a program with other bytes at the same addresses, and its old
/// memory is still somebody's: nothing of that memory is in the image.
fn memory_of_a_program_that_was_left(place: &Place) -> Res<End> {
    let socket = place.fresh("faults");
    let faults = Faults::listen(&socket)?;
    let program = compiled(place, "executes_while_copied")?;
    let (dir, image) = (place.fresh("left"), place.fresh("left.image"));
    fs::create_dir(&dir).doing("make a folder")?;
    let out = File::create(place.fresh("left.out")).doing("make a file")?;
    let says = |what: &str| fs::read_to_string(dir.join(what)).is_ok_and(|text| !text.is_empty());
    let tell = |what: &str| fs::write(dir.join(what), "").doing("make a file");
    let mut child = start(&[&program.display().to_string(), &dir.display().to_string()], &out)?;
    wait_for("it is up", || says("first"))?;
    faults.watch("dump stops")?;
    let mut command = Command::new(shoal(place)?);
    command.args(["checkpoint", &child.id().to_string(), "-o"]).arg(&image).env("SHOAL_FAULTS", &socket);
    let writes = command.stderr(Stdio::piped()).spawn().doing("run shoal")?;
    let held = faults.reached(Duration::from_secs(15))?;
    tell("go")?;
    wait_for("it has executed the other program", || says("second"))?;
    drop(held);
    let written = writes.wait_with_output().doing("wait for shoal")?;
    tell("end")?;
    child.kill().doing("kill the program")?;
    child.wait().doing("wait for the program")?;
    holds(&format!("it is written: {}", told(&written)), written.status.success())?;
    let mut again = restore(place, &image, &out)?;
    tell("look")?;
    holds("it ends well", again.wait().doing("wait for the program")?.success())?;
    let found = fs::read_to_string(dir.join("found")).doing("read what it has found")?;
    same("what its memory has", found.as_str(), "0 bytes of another program")?;
    Ok(End::Passed)
}

/// What the kernel makes of the memory of who changes its ids (proc_sys_fs(5)), set back when this is dropped. The value is the whole machine's: another run
/// of the tests waits, or it would take what this one has set for what was there before.
struct Dumpable {
    before: String,
    _locked: File,
}

impl Dumpable {
    const PATH: &str = "/proc/sys/fs/suid_dumpable";

    fn now() -> Res<Dumpable> {
        let locked = File::create(std::env::temp_dir().join("shoal-tests-suid_dumpable.lock")).doing("make a file")?;
        let locks = || rustix::fs::flock(&locked, rustix::fs::FlockOperation::NonBlockingLockExclusive).is_ok();
        wait_for("no other run sets fs.suid_dumpable", locks)?;
        let before = fs::read_to_string(Dumpable::PATH).doing("read fs.suid_dumpable")?;
        Ok(Dumpable { before, _locked: locked })
    }

    fn set(&self, value: &str) -> Res {
        fs::write(Dumpable::PATH, value).doing("set fs.suid_dumpable")
    }
}

impl Drop for Dumpable {
    fn drop(&mut self) {
        let _ = self.set(&self.before);
    }
}

/// Between its user's ids and its program a process has the daemon's memory, and its user can make that last: they cannot look into it, nor say when it
/// runs, whatever this machine says of the memory of such a process.
fn user_cannot_reach_a_program_that_is_being_started(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "user_cannot_reach_a_program_that_is_being_started", 1)?;
    let (holder, reaches) = (compiled(place, "holds_a_lease")?, compiled(place, "reaches")?);
    let (holder, reaches) = (holder.display(), reaches.display());
    let (dumpable, mut all) = (Dumpable::now()?, Vec::new());
    for value in ["0", "1", "2"] {
        dumpable.set(value)?;
        let dir = place.fresh("started");
        let dir = dir.display();
        s.ok(&format!("mkdir -m 777 {dir}; {ANN} cp /bin/true {dir}/leased-true"))?;
        // Whoever looks is there before, and needs nobody for that: others wait for the parent of a program that is being started.
        let looks = format!(
            "until test -s {dir}/pid; do sleep 0.01; done; read pid < {dir}/pid
             until grep -q \"^Uid:.61001.61001.61001\" /proc/$pid/status 2>/dev/null; do sleep 0.01; done
             sleep 0.3; stat -c %u /proc/$pid/environ > {dir}/reached; {reaches} $pid >> {dir}/reached; touch {dir}/go"
        );
        let looks = s.start(&format!("{ANN} shoal run -n 0 sh -c '{looks}'"));
        let holds_it = s.start(&format!("{ANN} {holder} {dir}/leased-true {dir}"));
        s.until(&format!("test -e {dir}/leased && shoal ps | grep -q {dir}/reached"))?;
        let starts = s.start(&format!("{ANN} sh -c 'echo $$ > {dir}/pid; exec shoal run -n 0 {dir}/leased-true'"));
        looks.end()?;
        holds_it.end()?;
        all.push(s.ok(&format!("cat {dir}/reached | xargs"))?);
        holds("the program ends well", starts.end()?.code() == Some(0))?;
    }
    same("whose its files are, and what a user can", all, vec!["0 done".to_string(); 3])?;
    Ok(End::Passed)
}

/// Where users may look into the memory of programs that they may not read (fs.suid_dumpable is 1), their user would come to what takes the place of a process: a process that
/// would leave something behind stays as it is, by name, and one of root's goes.
fn move_of_what_could_be_looked_into(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "move_of_what_could_be_looked_into", 2)?;
    let dumpable = Dumpable::now()?;
    let dir = place.fresh("looked_into");
    let dir = dir.display();
    s.ok(&format!("mkdir -m 777 {dir}"))?;
    // Its child stays behind, so something is to take its place.
    let family = |who: &str, name: &str| {
        let program = format!(
            "sleep 60 & echo $! > {dir}/{name}.child; echo $$ > {dir}/{name}; wait $!; echo $? > {dir}/{name}.end"
        );
        let going = s.start(&format!("{who} shoal run -n 0 sh -c '{program}'"));
        s.until(&format!("test -s {dir}/{name}")).map(|()| going)
    };
    let (user, root) = (family(ANN, "user")?, family("", "root")?);
    dumpable.set("1")?;
    let moved = s.ok(&format!("shoal move $(cat {dir}/user) 1 2>&1; echo $?; shoal move $(cat {dir}/user) front 2>&1; echo $?; shoal move $(cat {dir}/root) 1; echo $?"))?;
    dumpable.set("0")?;
    holds(&format!("the user's stays, by name: {moved}"), moved.matches("fs.suid_dumpable is 1").count() == 2)?;
    same("how they end", moved.lines().filter(|line| line.len() == 1).collect::<String>().as_str(), "110")?;
    for (name, going) in [("user", user), ("root", root)] {
        s.ok(&format!("kill $(cat {dir}/{name}.child)"))?;
        holds("it ends well", going.end()?.code() == Some(0))?;
        s.prints(&format!("cat {dir}/{name}.end"), "143")?;
    }
    Ok(End::Passed)
}
