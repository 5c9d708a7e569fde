//! Users who have processes moved that have, or get, more rights than they: no descriptor gives after a move what it did not give before.
//!
//! Ann has put the names: where a name leads on another machine, or a moment later, is hers to choose, and what her programs may open by it is theirs.

use super::hostile::compiled;
use super::scene::{comes_home, holds, same, Going, Sandbox};
use super::{End, Scene};
use crate::lab::faults::Faults;
use crate::lab::place::Place;
use crate::lab::session::Plan;
use crate::lab::{Doing, Res};
use std::time::Duration;

pub(crate) const SCENES: &[Scene] = &[
    ("move_of_what_gets_rights", move_of_what_gets_rights),
    ("move_of_what_has_rights", move_of_what_has_rights),
    ("move_while_names_are_exchanged", move_while_names_are_exchanged),
    ("move_home_while_a_name_is_exchanged", move_home_while_a_name_is_exchanged),
    ("move_of_a_users_pipe", move_of_a_users_pipe),
    ("move_to_a_name_of_roots", move_to_a_name_of_roots),
    ("move_of_what_was_given", move_of_what_was_given),
    ("move_of_what_may_not_be_read", move_of_what_may_not_be_read),
    ("move_to_a_program_of_roots", move_to_a_program_of_roots),
];

const ANN: &str = "setpriv --reuid 61001 --regid 61001 --clear-groups";
/// Ways to more rights than Ann's: what makes a copy of a program one that has them, and what is said of a process that does.
const WAYS: [(&str, &str, &str); 3] = [
    ("set-user-ID", "chmod 4755", "user ids"),
    ("set-group-ID", "chown 0:61005 {} && chmod 2755", "in group 61005"),
    ("capability", "setcap cap_dac_read_search+ep", "has capabilities"),
];

/// A sandbox with a file of Ann's, `at/file`, and one that is a secret of root's, and of group 61005.
struct Stage {
    s: Sandbox,
    base: String,
    program: String,
}

impl Stage {
    fn new(place: &Place, name: &str, plan: Plan) -> Res<Stage> {
        let s = Sandbox::with(place, name, 2, plan)?;
        let base = place.fresh("rights").display().to_string();
        let program = compiled(place, "has_rights")?.display().to_string();
        s.ok(&format!(
            "mkdir -m 755 {base}; mkdir -m 777 {base}/said; {ANN} true; mkdir -m 755 {base}/at; chown 61001:61001 {base}/at
            {ANN} sh -c 'echo theirs > {base}/at/file'
            echo secret > {base}/secret; chown 0:61005 {base}/secret; chmod 640 {base}/secret"
        ))?;
        Ok(Stage { s, base, program })
    }

    /// A copy of the program with more rights.
    fn with_rights(&self, way: &str, command: &str) -> Res<String> {
        let copy = format!("{}/{way}", self.base);
        let command = match command.contains("{}") {
            true => format!("{} {copy}", command.replace("{}", &copy)),
            false => format!("{command} {copy}"),
        };
        self.s.ok(&format!("cp {} {copy} && {command}", self.program))?;
        Ok(copy)
    }

    /// Node 1 has a link to the secret where Ann's file is elsewhere.
    fn lead_astray_on_node_1(&self) -> Res {
        let base = &self.base;
        let there = format!(
            "mount -t tmpfs none {base}/at && chown 61001:61001 {base}/at && ln -s {base}/secret {base}/at/file"
        );
        self.s.ok(&format!("shoal run -n 1 sh -c '{there}'")).map(drop)
    }

    /// Starts the program as this user.
    fn start(&self, who: &str, words: &str, said: &str) -> Res<Started> {
        let (program, said) = (&self.program, format!("{}/said/{said}", self.base));
        let words = words.replace("SAID", &said);
        let going = self.s.start(&format!("{who} shoal run -n 0 {program} {words} </dev/null; echo $?"));
        self.s.until(&format!("test -s {said}"))?;
        Ok(Started { pid: self.s.ok(&format!("cat {said}"))?, said, going })
    }

    /// Ann's program executes the one with more rights.
    fn gets_rights(&self, one: &Started) -> Res {
        let said = &one.said;
        self.s.ok(&format!("touch {said}.exec; until test -e {said}.runs; do sleep 0.01; done")).map(drop)
    }

    /// Ends the program.
    fn end(&self, one: Started) -> Res {
        self.s.ok(&format!("kill -KILL {}", one.pid))?;
        same("its end", one.going.end()?.out.trim(), "137")
    }

    /// Returns what the program reads by its descriptor, and ends it.
    fn reads(&self, one: Started) -> Res<String> {
        self.s.until(&format!("touch {said}.go; test -s {said}.got", said = one.said))?;
        let got = self.s.ok(&format!("cat {}.got", one.said))?;
        self.end(one).map(|()| got)
    }
}

/// A program that runs.
struct Started {
    pid: String,
    /// Where it says what it has come to.
    said: String,
    going: Going,
}

/// A user has a process moved that executes a program with more rights before it stands still.
fn move_of_what_gets_rights(place: &Place) -> Res<End> {
    let socket = place.fresh("faults");
    let faults = Faults::listen(&socket)?;
    let plan = Plan { faults: Some(socket), ..Plan::default() };
    let stage = Stage::new(place, "move_of_what_gets_rights", plan)?;
    let Stage { s, base, .. } = &stage;
    stage.lead_astray_on_node_1()?;
    for (way, command, word) in WAYS {
        let second = stage.with_rights(way, command)?;
        let one = stage.start(ANN, &format!("rw {base}/at/file SAID {second}"), way)?;
        let pid = &one.pid;
        faults.watch("out may leave")?;
        let moving = s.start(&format!("{ANN} shoal move {pid} 1"));
        let held = faults.reached(Duration::from_secs(15))?;
        stage.gets_rights(&one)?;
        drop(held);
        let outcome = moving.end()?;
        let refused = outcome.code() == Some(1) && outcome.err.contains("not user 61001's alone");
        holds(&format!("{way}: {:?} says {word:?}", outcome.err), refused && outcome.err.contains(word))?;
        s.prints(&format!("shoal where {pid}"), "n0")?;
        // Asked again it is refused before it is stopped.
        let line = s.fails(&format!("{ANN} shoal move {pid} 1"), 1)?;
        holds(&format!("{way}: {line:?}"), line.contains("alone") || line.contains("rights that you have not"))?;
        same(way, stage.reads(one)?.as_str(), "theirs")?;
    }
    Ok(End::Passed)
}

/// Root moves a process of a user's that has more rights than that user, as who empties a node does.
fn move_of_what_has_rights(place: &Place) -> Res<End> {
    let stage = Stage::new(place, "move_of_what_has_rights", Plan::default())?;
    let Stage { s, base, .. } = &stage;
    stage.lead_astray_on_node_1()?;
    for (way, command, _) in WAYS {
        let second = stage.with_rights(way, command)?;
        let one = stage.start(ANN, &format!("rw {base}/at/file SAID {second}"), way)?;
        let pid = &one.pid;
        stage.gets_rights(&one)?;
        for how in ["", "--lazy"] {
            let line = s.fails(&format!("shoal move {how} {pid} 1"), 1)?;
            holds(&format!("{way}: {line:?} names it"), line.contains(&format!("{base}/at/file")))?;
            s.prints(&format!("shoal where {pid}"), "n0")?;
        }
        same(way, stage.reads(one)?.as_str(), "theirs")?;
    }
    Ok(End::Passed)
}

/// Both machines have the file system, and the file and a link to a secret are exchanged when the old node has looked and the new one has not.
fn move_while_names_are_exchanged(place: &Place) -> Res<End> {
    let socket = place.fresh("faults");
    let faults = Faults::listen(&socket)?;
    let plan = Plan { faults: Some(socket), ..Plan::default() };
    let stage = Stage::new(place, "move_while_names_are_exchanged", plan)?;
    let Stage { s, base, .. } = &stage;
    for (way, command, _) in WAYS {
        let second = stage.with_rights(way, command)?;
        let one = stage.start(ANN, &format!("rw {base}/at/file SAID {second}"), way)?;
        let pid = &one.pid;
        stage.gets_rights(&one)?;
        faults.watch("in opens files")?;
        let moving = s.start(&format!("shoal move {pid} 1"));
        let held = faults.reached(Duration::from_secs(15))?;
        s.ok(&format!("{ANN} sh -c 'cd {base}/at && mv file kept && ln -s ../secret file'"))?;
        drop(held);
        let outcome = moving.end()?;
        holds(
            &format!("{way}: {:?} names it", outcome.err),
            outcome.code() == Some(1) && outcome.err.contains("at/file"),
        )?;
        s.ok(&format!("{ANN} mv {base}/at/kept {base}/at/file"))?;
        // With its name again it goes.
        s.ok(&format!("shoal move {pid} 1"))?;
        same(way, stage.reads(one)?.as_str(), "theirs")?;
    }
    Ok(End::Passed)
}

/// A file is replaced (a log is rotated) when the old node cannot have the process any more, and the front end has yet to make it: the process has the old file.
fn move_home_while_a_name_is_exchanged(place: &Place) -> Res<End> {
    if !comes_home() {
        return Ok(End::Missing("streams lent to a thread (Linux 6.9)".into()));
    }
    let socket = place.fresh("faults");
    let faults = Faults::listen(&socket)?;
    let plan = Plan { faults: Some(socket), ..Plan::default() };
    let stage = Stage::new(place, "move_home_while_a_name_is_exchanged", plan)?;
    let Stage { s, base, .. } = &stage;
    for (number, by) in ["echo others >file", "ln -s ../secret file"].into_iter().enumerate() {
        let one = stage.start(ANN, &format!("rw {base}/at/file SAID"), &number.to_string())?;
        let pid = &one.pid;
        faults.watch("in told to go")?;
        let moving = s.start(&format!("{ANN} shoal move {pid} front"));
        let held = faults.reached(Duration::from_secs(15))?;
        s.ok(&format!("{ANN} sh -c 'cd {base}/at && mv file kept && {by}'"))?;
        drop(held);
        same(by, moving.end()?.code(), Some(0))?;
        s.prints(&format!("shoal where {pid}"), "front")?;
        same(by, stage.reads(one)?.as_str(), "theirs")?;
        s.ok(&format!("{ANN} mv {base}/at/kept {base}/at/file"))?;
    }
    Ok(End::Passed)
}

/// Makes a pipe, and opens it by its name in /proc when there is a file GO.
const PIPE: &str = "import os, sys, time
r, w = os.pipe(); open(sys.argv[1], 'w').write(str(os.getpid()))
while not os.path.exists(sys.argv[1] + '.go'): time.sleep(0.02)
try: f = open('/dev/fd/%d' % w, 'wb', 0); f.write(b'x'); print(os.fstat(r).st_uid, os.read(r, 1).decode())
except OSError as fault: print(fault)
";

/// A pipe of Ann's is hers after a move, too.
fn move_of_a_users_pipe(place: &Place) -> Res<End> {
    let stage = Stage::new(place, "move_of_a_users_pipe", Plan::default())?;
    let Stage { s, base, .. } = &stage;
    let (script, said) = (place.fresh("pipe.py"), format!("{base}/said/pipe"));
    std::fs::write(&script, PIPE).doing("write a script")?;
    let going = s.start(&format!("{ANN} shoal run -n 0 /usr/bin/python3 {} {said} </dev/null", script.display()));
    s.until(&format!("test -s {said}"))?;
    s.ok(&format!("{ANN} shoal move $(cat {said}) 1 && {ANN} shoal move $(cat {said}) 0 && touch {said}.go"))?;
    same("what it finds", going.end()?.out.trim(), "61001 x")?;
    Ok(End::Passed)
}

/// A name that Ann has made leads on another machine to a file that only root may come to, on a way that is all root's.
fn move_to_a_name_of_roots(place: &Place) -> Res<End> {
    let stage = Stage::new(place, "move_to_a_name_of_roots", Plan::default())?;
    let Stage { s, base, .. } = &stage;
    s.ok(&format!("{ANN} mkdir {base}/at/dir && {ANN} cp {base}/at/file {base}/at/dir/file"))?;
    let there = format!(
        "mount -t tmpfs -o mode=755 none {base}/at && mkdir -m 700 {base}/at/dir && echo secret > {base}/at/dir/file && chmod 600 {base}/at/dir/file"
    );
    s.ok(&format!("shoal run -n 1 sh -c '{there}'"))?;
    for (number, (who, how)) in [(ANN, ""), (ANN, "--lazy"), ("", "")].into_iter().enumerate() {
        let said = number.to_string();
        let one = stage.start(ANN, &format!("rw {base}/at/dir/file SAID"), &said)?;
        let pid = &one.pid;
        let line = s.fails(&format!("{who} shoal move {how} {pid} 1"), 1)?;
        holds(&format!("{line:?} names it"), line.contains("at/dir/file") && line.contains("ermission denied"))?;
        s.prints(&format!("shoal where {pid}"), "n0")?;
        same("what it reads", stage.reads(one)?.as_str(), "theirs")?;
    }
    s.prints(&format!("shoal run -n 1 cat {base}/at/dir/file"), "secret")?;
    Ok(End::Passed)
}

/// A process keeps a file that it was given where that file is, and has nothing where another file has its name.
fn move_of_what_was_given(place: &Place) -> Res<End> {
    let stage = Stage::new(place, "move_of_what_was_given", Plan::default())?;
    let Stage { s, base, .. } = &stage;
    s.ok(&format!("mkdir -m 700 {base}/closed; echo given > {base}/closed/file; chmod 600 {base}/closed/file"))?;
    let one = stage.start("", &format!("drop {base}/closed/file SAID"), "given")?;
    let pid = &one.pid;
    s.ok(&format!("{ANN} shoal move {pid} 1"))?;
    let there = format!(
        "mount -t tmpfs -o mode=700 none {base}/closed; echo others > {base}/closed/file; chmod 600 {base}/closed/file"
    );
    s.ok(&format!("shoal run -n 0 sh -c '{there}'"))?;
    for who in [ANN, ""] {
        let line = s.fails(&format!("{who} shoal move {pid} 0"), 1)?;
        holds(&format!("{line:?} names it"), line.contains("closed/file"))?;
    }
    s.prints(&format!("shoal where {pid}"), "n1")?;
    same("what it reads", stage.reads(one)?.as_str(), "given\n".trim())?;
    Ok(End::Passed)
}

/// Content is carried by root: of a deleted file at which a process only points, and which it may not read, none is.
fn move_of_what_may_not_be_read(place: &Place) -> Res<End> {
    let stage = Stage::new(place, "move_of_what_may_not_be_read", Plan::default())?;
    let Stage { s, base, .. } = &stage;
    for (number, (mode, goes)) in [("600", false), ("644", true)].into_iter().enumerate() {
        let (said, file) = (number.to_string(), format!("{base}/said/pointed{number}"));
        s.ok(&format!("echo secret > {file}; chmod {mode} {file}"))?;
        let one = stage.start(ANN, &format!("path {file} SAID"), &said)?;
        let pid = &one.pid;
        s.ok(&format!("rm {file}"))?;
        if goes {
            s.ok(&format!("{ANN} shoal move {pid} 1"))?;
        } else {
            for who in [ANN, ""] {
                let line = s.fails(&format!("{who} shoal move {pid} 1"), 1)?;
                holds(&format!("{line:?} says why"), line.contains("may not read what is in it"))?;
            }
        }
        s.prints(&format!("shoal where {pid}"), if goes { "n1" } else { "n0" })?;
        stage.end(one)?;
    }
    Ok(End::Passed)
}

/// A program of Ann's has on another machine the name, the size and the time of one of root's that may be executed and not read.
fn move_to_a_program_of_roots(place: &Place) -> Res<End> {
    let stage = Stage::new(place, "move_to_a_program_of_roots", Plan::default())?;
    let Stage { s, base, program } = &stage;
    s.ok(&format!("{ANN} cp {program} {base}/at/program"))?;
    let stage = Stage { program: format!("{base}/at/program"), base: base.clone(), s: stage.s };
    let Stage { s, .. } = &stage;
    let one = stage.start(ANN, &format!("rw {base}/at/file SAID", base = stage.base), "program")?;
    let pid = &one.pid;
    let at = format!("{}/at", stage.base);
    let there = format!(
        "cp -p {at}/program {at}/file /run/ && mount -t tmpfs -o mode=755 none {at} && cp -p /run/file {at}/ && chown 0:0 /run/program && chmod 711 /run/program && cp -p /run/program {at}/"
    );
    s.ok(&format!("shoal run -n 1 sh -c '{there}'"))?;
    let line = s.fails(&format!("{ANN} shoal move {pid} 1"), 1)?;
    holds(&format!("{line:?} says why"), line.contains("at/program is of user 0"))?;
    stage.end(one)?;
    Ok(End::Passed)
}
