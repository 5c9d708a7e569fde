//! As [`super::moving_faults`], where the process that moves has kin: a child that moves away from its parent, or a parent from its child, or comes
//! back. Whatever is killed at whatever step, there is one of each, and it waits for, signals and is told of the other as before; or it has ended as
//! lost with its node, and the other knows.

use super::moving_faults::{counted, stage, Fate, Victim, DESTINATION, SOURCE};
use super::scene::{holds, wait_for, wait_within, Going, Sandbox};
use super::{End, Scene};
use crate::lab::faults::Faults;
use crate::lab::place::Place;
use crate::lab::{Doing, Res};
use std::fs;
use std::time::Duration;

pub(crate) const SCENES: &[Scene] = &[
    ("move_kin_front_killed", |place| each_point(place, Victim::FrontDaemon)),
    ("move_kin_source_daemon_killed", |place| each_point(place, Victim::Daemon(SOURCE))),
    ("move_kin_destination_daemon_killed", |place| each_point(place, Victim::Daemon(DESTINATION))),
    ("move_kin_source_node_killed", |place| each_point(place, Victim::Machine(SOURCE))),
    ("move_kin_destination_node_killed", |place| each_point(place, Victim::Machine(DESTINATION))),
    ("move_kin_source_link_cut", |place| each_point(place, Victim::Link(SOURCE))),
    ("move_kin_destination_link_cut", |place| each_point(place, Victim::Link(DESTINATION))),
];

/// Those of the steps at which something is made, decided or known of kin.
pub(super) const POINTS: [&str; 14] = [
    "destination is told",
    "in prepared",
    "destination has a vessel",
    "in connected",
    "out held",
    "in rebuilt",
    "destination has it",
    "out bound",
    "source has bound it",
    "in told to go",
    "out told to end",
    "source has ended it",
    "front knows that it has left",
    "front knows that it runs",
];

/// Who moves. The other one stays on the first node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Who {
    Parent,
    Child,
}

/// From the first node, or back to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Way {
    Away,
    Home,
}

/// Both count. The child answers SIGUSR1 by SIGUSR2 to its parent, and SIGTERM by its end, with 3 if its parent is who it was. The parent waits for
/// it when it has been told that there is something to wait for, and ends with 5 if it was that, with 9 if the child was killed.
const PROGRAM: &str = r#"use POSIX qw(:sys_wait_h);
($f, $r, $p) = @ARGV; $n = 0;
if ($r eq 'parent') {
    $SIG{CHLD} = sub { $told = 1 };
    $SIG{USR2} = sub { open B, '>', "$f.answer" };
    if (!($c = fork)) {
        open STDIN, '<', '/dev/null'; open STDOUT, '>', '/dev/null'; open STDERR, '>', '/dev/null';
        exec 'perl', $0, $f, 'child', getppid;
    }
} else {
    $SIG{USR1} = sub { kill USR2 => getppid };
    $SIG{TERM} = sub { exit(getppid == $p ? 3 : 4) };
}
open F, '>>', "$f.$r";
for (;;) {
    syswrite F, ++$n . "\n";
    if ($told && waitpid($c, WNOHANG) == $c) { exit($? == 3 << 8 ? 5 : $? == 9 ? 9 : 7) }
    select undef, undef, undef, .002;
}
"#;

pub(super) struct Family {
    file: String,
    parent: String,
    child: String,
    commands: [String; 2],
    going: Going,
}

impl Family {
    pub(super) fn start(s: &Sandbox, place: &Place) -> Res<Family> {
        let file = place.fresh("kin").to_string_lossy().into_owned();
        let program = format!("{file}.pl");
        fs::write(&program, PROGRAM).doing("write a program")?;
        let command = format!("perl {program} {file} parent");
        let going =
            s.start(&format!("shoal run -n 0 {command} </dev/null >/dev/null & echo $! >{file}.pid; wait $!; echo $?"));
        let lines = |who: &str| fs::read_to_string(format!("{file}.{who}")).map_or(0, |text| text.lines().count());
        wait_for("both count", || lines("parent") > 3 && lines("child") > 3)?;
        let parent = fs::read_to_string(format!("{file}.pid")).doing("read its number")?.trim().to_string();
        let child = s.ok(&format!("pgrep -P {parent}"))?.trim().to_string();
        let commands = [command, format!("perl {program} {file} child {parent}")];
        Ok(Family { file, parent, child, commands, going })
    }

    pub(super) fn pid(&self, who: Who) -> &str {
        match who {
            Who::Parent => &self.parent,
            Who::Child => &self.child,
        }
    }

    /// How many there are, on whatever node.
    pub(super) fn there(&self, s: &Sandbox, who: Who) -> usize {
        s.count(&self.commands[who as usize])
    }

    /// There is one where the front end says that there is one.
    fn settled(&self, s: &Sandbox, who: Who) -> bool {
        let known = s.ok(&format!("shoal where {}", self.pid(who))).is_ok();
        self.there(s, who) == usize::from(known)
    }

    pub(super) fn counts_on(&self, who: &str) -> Res {
        let file = format!("{}.{who}", self.file);
        let before = counted(&file)?;
        wait_for("it counts on", || counted(&file).is_ok_and(|now| now > before + 20))
    }
}

fn each_point(place: &Place, victim: Victim) -> Res<End> {
    let (s, faults) = stage(place, "move_kin_faults", victim)?;
    for (who, way) in
        [(Who::Child, Way::Away), (Who::Parent, Way::Away), (Who::Child, Way::Home), (Who::Parent, Way::Home)]
    {
        for point in POINTS {
            at_point(&s, place, &faults, (victim, who, way), point)
                .map_err(|fault| format!("{victim:?}, {who:?} {way:?} at {point:?}: {fault}"))?;
        }
    }
    Ok(End::Passed)
}

fn at_point(
    s: &Sandbox,
    place: &Place,
    faults: &Faults,
    (victim, who, way): (Victim, Who, Way),
    point: &'static str,
) -> Res {
    s.until("test $(shoal nodes | grep -cw up) = 2")?;
    let family = Family::start(s, place)?;
    let pid = family.pid(who);
    if way == Way::Home {
        s.until(&format!("shoal move {pid} 1"))?;
    }
    faults.watch(point)?;
    let (source, to) = if way == Way::Home { (DESTINATION, 0) } else { (SOURCE, 1) };
    let moving = s.start(&format!("shoal move {pid} {to}"));
    let held = faults.reached(Duration::from_secs(15))?;
    victim.kill(s)?;
    drop(held);
    victim.heal(s)?;
    moving.end()?;
    if victim.lost().is_some() {
        // What is not known to be lost yet lives.
        s.until("test $(shoal nodes | grep -cw silent) = 0")?;
    }
    let settled = || family.settled(s, Who::Parent) && family.settled(s, Who::Child);
    wait_within(Duration::from_secs(10), "it is settled", &mut || settled())?;
    let lives = |one: Who| family.there(s, one) == 1;
    let must = |one: Who| match one == who {
        true => victim.fate(point, source) == Fate::Lives,
        false => victim.lost() != Some(SOURCE),
    };
    holds("the child lives", lives(Who::Child) || !must(Who::Child))?;
    if victim.lost().is_none() {
        holds("the parent lives", lives(Who::Parent))?;
    }
    if lives(Who::Child) {
        family.counts_on("child")?;
    }
    let (file, commands) = (family.file.clone(), family.commands.clone());
    let status = ends(s, family)?;
    holds("the parent has lived", status != "137" || !must(Who::Parent))?;
    counted(&format!("{file}.parent"))?;
    counted(&format!("{file}.child"))?;
    wait_for("nothing is left of it", || commands.iter().all(|command| s.count(command) == 0))?;
    victim.replace(s)
}

/// Each does with the other what it can, and then they end. The parent's end.
pub(super) fn ends(s: &Sandbox, family: Family) -> Res<String> {
    let child = &family.child;
    let (parent, has_child) = (family.there(s, Who::Parent) == 1, family.there(s, Who::Child) == 1);
    let expected: &[&str] = match (parent, has_child) {
        (true, true) => {
            family.counts_on("parent")?;
            s.ok(&format!("kill -USR1 {child}"))?;
            let answer = format!("{}.answer", family.file);
            wait_for("the child answers its parent", || fs::exists(&answer).unwrap_or(false))?;
            s.ok(&format!("kill {child}"))?;
            &["5"]
        }
        (true, false) => &["9"],
        (false, true) => {
            s.ok(&format!("kill -KILL {child}"))?;
            &["137"]
        }
        // Lost, or told that the child is.
        (false, false) => &["137", "9"],
    };
    wait_for("the parent has ended", || !family.going.is_going())?;
    let status = family.going.end()?.out.trim().to_string();
    holds(&format!("{status} is one of {expected:?}"), expected.contains(&status.as_str()))?;
    Ok(status)
}
