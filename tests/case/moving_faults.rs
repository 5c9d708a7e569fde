//! Whatever is killed at whatever step of a move, there is one intact process, or it has ended as lost with its node.
//!
//! At each point one party is killed, while the one that has reached the point waits. The program counts and writes each number to a file and to
//! its output: a second copy, or one that goes on from an older image, would write a number twice.

use super::moving_terminal::driver;
use super::scene::{holds, same, wait_for, wait_within, Going, Sandbox};
use super::{End, Scene};
use crate::lab::faults::Faults;
use crate::lab::place::Place;
use crate::lab::procs;
use crate::lab::session::Plan;
use crate::lab::{Doing, Res};
use std::fs;
use std::time::Duration;

pub(crate) const SCENES: &[Scene] = &[
    ("move_front_killed_at_each_point", |place| each_point(place, Victim::FrontDaemon)),
    ("move_ends_front_killed", move_ends_front_killed),
    ("move_source_daemon_killed_at_each_point", |place| each_point(place, Victim::Daemon(SOURCE))),
    ("move_destination_daemon_killed_at_each_point", |place| each_point(place, Victim::Daemon(DESTINATION))),
    ("move_source_node_killed_at_each_point", |place| each_point(place, Victim::Machine(SOURCE))),
    ("move_destination_node_killed_at_each_point", |place| each_point(place, Victim::Machine(DESTINATION))),
    ("move_source_link_cut_at_each_point", |place| each_point(place, Victim::Link(SOURCE))),
    ("move_destination_link_cut_at_each_point", |place| each_point(place, Victim::Link(DESTINATION))),
    ("move_lazily_front_killed", |place| each_point_lazily(place, Victim::FrontDaemon)),
    ("move_lazily_source_daemon_killed", |place| each_point_lazily(place, Victim::Daemon(SOURCE))),
    ("move_lazily_destination_daemon_killed", |place| each_point_lazily(place, Victim::Daemon(DESTINATION))),
    ("move_lazily_source_node_killed", |place| each_point_lazily(place, Victim::Machine(SOURCE))),
    ("move_lazily_destination_node_killed", |place| each_point_lazily(place, Victim::Machine(DESTINATION))),
    ("move_lazily_source_link_cut", |place| each_point_lazily(place, Victim::Link(SOURCE))),
    ("move_lazily_destination_link_cut", |place| each_point_lazily(place, Victim::Link(DESTINATION))),
];

pub(super) const SOURCE: &str = "n0";
pub(super) const DESTINATION: &str = "n1";

/// Every point, in the order in which a move reaches them; those of the two movers, of their nodes' daemons and of the front end's overlap.
pub(super) const POINTS: [&str; 28] = [
    "front begins",
    "destination is told",
    "destination has a vessel",
    "in listening",
    "destination listens",
    "front knows where",
    "source is told",
    "out looked",
    "out connected",
    "in connected",
    "source asks",
    "front lets it leave",
    "source is to leave",
    "out may leave",
    "out held",
    "out sent",
    "in rebuilt",
    ALL_IS_THERE,
    "out bound",
    "source has bound it",
    IT_MAY_RUN,
    "destination runs it",
    "out told to end",
    "out ended",
    "source has ended it",
    "front knows that it has left",
    "destination is to go",
    "front knows that it runs",
];

/// From here on the source may have bound its own.
const ALL_IS_THERE: &str = "destination has it";
/// From here on the destination has been told that it may run.
const IT_MAY_RUN: &str = "in told to go";

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Victim {
    /// It is started again at once, within the agreed time.
    FrontDaemon,
    /// Of a node; likewise, and everything on the node ends.
    Daemon(&'static str),
    /// It is gone for longer than the agreed time.
    Machine(&'static str),
    /// It is back within the agreed time.
    Link(&'static str),
}

/// What may have become of the program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fate {
    Lives,
    LivesOrLost,
    Lost,
}

impl Victim {
    /// The node whose processes end.
    pub(super) fn lost(self) -> Option<&'static str> {
        match self {
            Victim::Daemon(node) | Victim::Machine(node) => Some(node),
            Victim::FrontDaemon | Victim::Link(_) => None,
        }
    }

    /// Of one that moves from `source` to another node.
    pub(super) fn fate(self, point: &str, source: &str) -> Fate {
        let at = |name: &str| POINTS.iter().position(|one| *one == name);
        match self.lost() {
            None => Fate::Lives,
            Some(lost) if lost == source && at(point) >= at(IT_MAY_RUN) => Fate::Lives,
            // Who is held at "out sent" does not keep the destination from saying that all is there.
            Some(lost) if lost != source && at(point) < at(ALL_IS_THERE) && point != "out sent" => Fate::Lives,
            Some(_) => Fate::LivesOrLost,
        }
    }

    /// The points that lazy moves are broken at, and what becomes of the program: from when the destination has been told that it may run, until it has all
    /// of its memory, both nodes are needed.
    fn lazy_fates(self) -> [(&'static str, Fate); 8] {
        let fates = match self.lost() {
            None => [Fate::Lives; 8],
            Some(SOURCE) => {
                let (either, lost, lives) = (Fate::LivesOrLost, Fate::Lost, Fate::Lives);
                // What was sent before the end may be all.
                [either, either, either, lost, either, either, lives, lives]
            }
            Some(_) => {
                let (either, lives) = (Fate::LivesOrLost, Fate::Lives);
                [lives, either, either, either, either, either, either, either]
            }
        };
        let points = [
            "out held",
            "in rebuilt",
            "out bound",
            "out keeps the rest",
            "in fetches",
            "destination runs it",
            "in has fetched",
            "out has sent the rest",
        ];
        std::array::from_fn(|at| (points[at], fates[at]))
    }

    pub(super) fn kill(self, s: &Sandbox) -> Res {
        match self {
            Victim::FrontDaemon => s.ok("shoal fault front kill-daemon").map(drop),
            Victim::Daemon(node) => {
                let machine = s.machine(node)?;
                s.ok(&format!("shoal fault {node} kill-daemon"))?;
                // Who is held there is not to go on before it ends; and another daemon does not start beside an agent that is not gone yet.
                let agent = || procs::below(machine).iter().any(|one| one.comm == "shoal:agent");
                wait_for("the agent is gone", || !agent())
            }
            Victim::Machine(node) => s.ok(&format!("shoal fault {node} kill")).map(drop),
            Victim::Link(node) => s.ok(&format!("shoal fault {node} link-down")).map(drop),
        }
    }

    /// What is done as soon as those who waited go on.
    pub(super) fn heal(self, s: &Sandbox) -> Res {
        match self {
            Victim::FrontDaemon => s.ok("shoal fault front start-daemon").map(drop),
            Victim::Daemon(node) => s.ok(&format!("shoal fault {node} start-daemon")).map(drop),
            Victim::Machine(_) => Ok(()),
            Victim::Link(node) => {
                std::thread::sleep(Duration::from_millis(200));
                s.ok(&format!("shoal fault {node} link-up")).map(drop)
            }
        }
    }

    /// What is done when all is settled, so that the next can be killed.
    pub(super) fn replace(self, s: &Sandbox) -> Res {
        match self {
            Victim::Machine(node) => s.ok(&format!("shoal fault {node} boot")).map(drop),
            _ => Ok(()),
        }
    }
}

/// Appends numbers to a file and writes them to its output.
pub(super) const PROGRAM: &str = r"open F, q(>>), $ARGV[0]; for ($n = 1;; $n++) { syswrite $_, qq($n\n) for *F, *STDOUT; select undef, undef, undef, .002 }";

/// The same with memory that may come later, which it looks at all the time.
const LARGE: &str = r"$x = q(abcdefgh) x 4_000_000; open F, q(>>), $ARGV[0]; for ($n = 1;; $n++) { for (1..20) { $i = 8 * int rand 4_000_000; substr($x, $i, 8) eq q(abcdefgh) or exit 9 }
    substr($x, $i, 8) = q(abcdefgh); syswrite $_, qq($n\n) for *F, *STDOUT; select undef, undef, undef, .002 }";

/// The same, at a terminal from which it reads, too.
pub(super) const AT_TERMINAL: &str = r"system q(stty -echo); syswrite STDOUT, qq(up
); open F, q(>>), $ARGV[0]; for ($n = 1;; $n++) { syswrite $_, qq($n
) for *F, *STDOUT; $r = chr 1;
    if (select $r, undef, undef, .002) { sysread STDIN, $x, 99; syswrite STDOUT, qq(got $x) } }";

/// A program that counts.
struct Counting {
    file: String,
    pid: String,
    command: String,
    going: Going,
}

impl Counting {
    fn start(s: &Sandbox, place: &Place, program: &str) -> Res<Counting> {
        let file = place.fresh("count").to_string_lossy().into_owned();
        let going = s.start(&match program {
            AT_TERMINAL => driver(place, &format!("counts '{program}' {file}"))?,
            _ => format!(
                "shoal run -n 0 -- perl -e '{program}' {file} >{file}.out </dev/null & echo $! >{file}.pid; wait $!; echo $?"
            ),
        });
        let lines = || fs::read_to_string(&file).map_or(0, |text| text.lines().count());
        let number = || fs::read_to_string(format!("{file}.pid")).unwrap_or_default().trim().to_string();
        wait_for("the program counts", || lines() > 3 && !number().is_empty())?;
        let pid = number();
        let command = format!("perl -e {program} {file}");
        Ok(Counting { file, pid, command, going })
    }

    /// What was typed at its terminal before it moved it reads when the rest of the line is typed.
    fn reads(&self) -> Res {
        fs::write(format!("{}.type", self.file), "").doing("tell to type")?;
        let got = format!("{}.got", self.file);
        wait_for("it reads its line", || fs::exists(&got).unwrap_or(false))
    }

    /// How far it is; every number is there once.
    fn counted(&self, suffix: &str) -> Res<usize> {
        counted(&format!("{}{suffix}", self.file))
    }

    /// There is one, and it counts on.
    fn lives(&self, s: &Sandbox) -> Res {
        wait_for("there is one", || s.count(&self.command) == 1)?;
        let before = self.counted("")?;
        wait_for("it counts on", || self.counted("").is_ok_and(|now| now > before + 20))?;
        same("there is one", s.count(&self.command), 1)?;
        s.until(&format!("shoal where {}", self.pid))
    }
}

/// How far it is that counts into this file; every number is there once.
pub(super) fn counted(file: &str) -> Res<usize> {
    let text = fs::read_to_string(file).doing("read what it has counted")?;
    for (at, line) in text.lines().enumerate() {
        if line.parse() != Ok(at + 1) {
            return Err(format!("line {} of {file} is {line:?}", at + 1));
        }
    }
    Ok(text.lines().count())
}

/// Two nodes whose daemons wait at fault points.
pub(super) fn stage(place: &Place, name: &str, victim: Victim) -> Res<(Sandbox, Faults)> {
    let time = match victim {
        Victim::Machine(_) => Duration::from_secs(1),
        _ => Duration::from_secs(3),
    };
    stage_at(place, &format!("{name}_{victim:?}").replace(['(', ')', '"'], "_"), time)
}

/// A node is lost after this silence.
pub(super) fn stage_at(place: &Place, name: &str, lost_after: Duration) -> Res<(Sandbox, Faults)> {
    let socket = place.fresh("faults");
    let faults = Faults::listen(&socket)?;
    let plan = Plan { lost_after: Some(lost_after), faults: Some(socket), ..Plan::default() };
    Ok((Sandbox::with(place, name, 2, plan)?, faults))
}

fn each_point(place: &Place, victim: Victim) -> Res<End> {
    let (s, faults) = stage(place, "move_faults", victim)?;
    for point in POINTS {
        let how = How {
            point,
            program: PROGRAM,
            before: None,
            stopped: false,
            how: "",
            to: "1",
            fate: victim.fate(point, SOURCE),
        };
        at_point(&s, place, &faults, victim, how).map_err(|fault| format!("{victim:?} at {point:?}: {fault}"))?;
    }
    Ok(End::Passed)
}

/// It ends on the new node before a daemon follows, to which the old node then says first that it is about to leave there.
fn move_ends_front_killed(place: &Place) -> Res<End> {
    let (s, faults) = stage(place, "move_ends", Victim::FrontDaemon)?;
    let file = place.fresh("ends").to_string_lossy().into_owned();
    let program = format!(
        "select undef, undef, undef, .01 until -e q({file}.go); print qq(end\\n); open F, q(>{file}.end); exit 7"
    );
    let going = s.start(&format!(
        "shoal run -n 0 -- perl -e '{program}' >{file}.out </dev/null & echo $! >{file}.pid; wait $!; echo $?"
    ));
    wait_for("it is there", || s.count(&format!("perl -e {program}")) == 1)?;
    faults.watch("out told to end")?;
    let moving = s.start(&format!("shoal move $(cat {file}.pid) 1"));
    let held = faults.reached(Duration::from_secs(15))?;
    s.ok(&format!("shoal fault {DESTINATION} link-down"))?;
    Victim::FrontDaemon.kill(&s)?;
    fs::write(format!("{file}.go"), "").doing("let it end")?;
    wait_for("it ends", || fs::exists(format!("{file}.end")).unwrap_or(false))?;
    Victim::FrontDaemon.heal(&s)?;
    s.until("test $(shoal nodes | grep -cw up) = 1")?;
    s.ok(&format!("shoal fault {DESTINATION} link-up"))?;
    s.until("test $(shoal nodes | grep -cw up) = 2")?;
    drop(held);
    same("its status", going.end()?.out.trim(), "7")?;
    moving.end()?;
    s.ok(&format!("grep -qx end {file}.out"))?;
    Ok(End::Passed)
}

/// With these points, of a process whose memory comes after it.
fn each_point_lazily(place: &Place, victim: Victim) -> Res<End> {
    let (s, faults) = stage(place, "move_lazy_faults", victim)?;
    for (point, fate) in victim.lazy_fates() {
        let how = How { point, program: LARGE, before: None, stopped: false, how: "--lazy", to: "1", fate };
        at_point(&s, place, &faults, victim, how).map_err(|fault| format!("{victim:?} at {point:?}: {fault}"))?;
    }
    Ok(End::Passed)
}

/// The point, what counts, how and where to it is moved, and what may become of it.
pub(super) struct How {
    pub(super) point: &'static str,
    pub(super) program: &'static str,
    /// Where it comes to before, if anywhere.
    pub(super) before: Option<&'static str>,
    /// It is stopped when it is moved.
    pub(super) stopped: bool,
    pub(super) how: &'static str,
    pub(super) to: &'static str,
    pub(super) fate: Fate,
}

pub(super) fn at_point(s: &Sandbox, place: &Place, faults: &Faults, victim: Victim, what: How) -> Res {
    let How { point, program, before, stopped, how, to, fate } = what;
    s.until("test $(shoal nodes | grep -cw up) = 2")?;
    let counting = Counting::start(s, place, program)?;
    before.map_or(Ok(String::new()), |to| s.ok(&format!("shoal move {} {to}", counting.pid)))?;
    let state = |is: &str| format!("test $(awk '/^State/ {{print $2}}' /proc/{}/status) {is} T", counting.pid);
    if stopped {
        s.ok(&format!("kill -STOP {}", counting.pid))?;
        s.until(&state("="))?;
    }
    faults.watch(point)?;
    let moving = s.start(&format!("shoal move {how} {} {to}", counting.pid));
    let held = faults.reached(Duration::from_secs(15))?;
    victim.kill(s)?;
    drop(held);
    victim.heal(s)?;
    moving.end()?;
    let settled = || s.count(&counting.command) == usize::from(counting.going.is_going());
    wait_within(Duration::from_secs(10), "it is settled", &mut || settled())?;
    if victim.lost().is_some() {
        // What is not known to be lost yet lives.
        s.until("test $(shoal nodes | grep -cw silent) = 0")?;
        wait_within(Duration::from_secs(10), "it is settled", &mut || settled())?;
    }
    let lives = counting.going.is_going();
    holds("it lives", lives || fate != Fate::Lives)?;
    holds("it is lost", !lives || fate != Fate::Lost)?;
    if lives && stopped {
        s.until(&state("="))?;
        s.ok(&format!("kill -CONT {}", counting.pid))?;
        s.until(&state("!="))?;
    }
    if lives {
        counting.lives(s)?;
        if program == AT_TERMINAL {
            counting.reads()?;
        }
        if victim.lost().is_none() {
            counting.counted(".out")?;
        }
        s.ok(&format!("kill {}", counting.pid))?;
    }
    counting.counted("")?;
    let command = counting.command.clone();
    let status = if lives { "143" } else { "137" };
    same("its end", counting.going.end()?.out.trim(), status)?;
    wait_for("nothing is left of it", || s.count(&command) == 0)?;
    victim.replace(s)
}
