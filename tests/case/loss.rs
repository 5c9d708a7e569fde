//! Parts are lost: the daemon of a node, a node, its link, the front end's daemon. The agreed time is 5 s.

use super::scene::{holds, outside, same, wait_for, wait_within, Going, Sandbox};
use super::{End, Scene};
use crate::lab::place::Place;
use crate::lab::procs;
use crate::lab::Res;
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

pub(crate) const SCENES: &[Scene] = &[
    ("lost_node_daemon", lost_node_daemon),
    ("lost_node", lost_node),
    ("lost_link_cut", lost_link_cut),
    ("lost_link_silent", lost_link_silent),
    ("lost_agent_stopped", lost_agent_stopped),
    ("lost_daemon_stopped", lost_daemon_stopped),
    ("lost_node_with_kin", lost_node_with_kin),
    ("short_silence_loses_nothing", short_silence_loses_nothing),
    ("link_breaks_during_a_start", link_breaks_during_a_start),
    ("front_restarts", front_restarts),
    ("front_restarts_during_output", front_restarts_during_output),
    ("front_restarts_with_an_exit_between", front_restarts_with_an_exit_between),
    ("front_gone", front_gone),
];

/// The agreed time.
const AGREED: Duration = Duration::from_secs(5);
/// How long is waited for what is then held against it, or comes a little after it.
const PATIENCE: Duration = Duration::from_secs(8);

/// Waits beside the scene until all processes with this command line have ended, and says when.
fn end_of(s: &Sandbox, command: &str) -> JoinHandle<Res<SystemTime>> {
    let all = s.all().into_iter().filter(|p| procs::command_line(p) == command);
    let pids: Vec<i32> = all.map(|p| p.pid).collect();
    std::thread::spawn(move || {
        let until = SystemTime::now() + PATIENCE;
        while pids.iter().any(|pid| procs::one(*pid).is_some_and(|now| now.state != 'Z')) {
            holds("the bodies have ended in time", SystemTime::now() < until)?;
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(SystemTime::now())
    })
}

/// What a command told that ends by `echo $? $EPOCHREALTIME`: its status, and when.
fn told_end(out: &str) -> Res<(&str, SystemTime)> {
    let parts = out.trim().split_once(' ').and_then(|(status, at)| Some((status, at.parse::<f64>().ok()?)));
    let (status, at) = parts.ok_or(format!("no status and time: {out}"))?;
    Ok((status, UNIX_EPOCH + Duration::from_secs_f64(at)))
}

/// Both within the agreed time after the fault, and the node's end first.
fn in_time(fault: SystemTime, node: SystemTime, front: SystemTime) -> Res {
    let after = |at: SystemTime| at.duration_since(fault).unwrap_or_default();
    let (node, front) = (after(node), after(front));
    holds(&format!("{node:?} on the node, {front:?} on the front end"), node <= front && front <= AGREED)
}

/// Programs on n0 that are to end, and one on n1 that is not to notice.
fn lose(place: &Place, name: &str, cut: fn(&Sandbox) -> Res, heal: fn(&Sandbox) -> Res) -> Res<End> {
    let s = Sandbox::new(place, name, 2)?;
    let lost = s.start("shoal run -n 0 -- sh -c 'sleep 1020 & sleep 1020'; echo $? $EPOCHREALTIME");
    // One that is stopped, and one whose output is not read.
    let stuck = s.start(
        "f=$(mktemp -u); mkfifo $f; exec 9<>$f; rm $f; shoal run -n 0 -- sh -c 'kill -STOP $$' & \
         shoal run -n 0 yes >&9; unread=$?; wait $!; echo $((unread == $? ? unread : 0)) $EPOCHREALTIME",
    );
    // One that has ended, whose child writes on.
    let late = s.start("shoal run -n 0 -- sh -c 'sleep 1024 & exit 6' | cat; echo ${PIPESTATUS[0]}");
    let other = s.start("shoal run -n 1 -- sh -c 'read x; echo $x; exec sleep 1021' <<< lives; echo $?");
    wait_for("the programs are there", || {
        s.count("sleep 1020") == 2 && s.count("sleep 1021") == 1 && s.count("sleep 1024") == 1
    })?;
    s.until("test $(shoal ps | grep -cE ' (S|T) .* (yes|sh -c kill .*)$') = 2")?;
    let bodies = end_of(&s, "sleep 1020");
    cut(&s)?;
    let fault = SystemTime::now();
    let dead = bodies.join().map_err(|_| "the thread that waits has panicked")??;
    for one in [lost, stuck] {
        ends_as_lost(one, fault, Some(dead))?;
    }
    wait_within(PATIENCE, "the relay of descendants ends", &mut || !late.is_going())?;
    same("whose status is its own", late.end()?.out.trim(), "6")?;
    s.until("! ps -e | grep -q defunct; ! shoal ps | grep -q 'sleep 1020'")?;
    holds("the other node's program lives", other.is_going() && s.count("sleep 1021") == 1)?;
    s.prints("shoal run -n 1 echo well", "well")?;
    heal(&s)?;
    s.until("shoal run -n 0 true 2>/dev/null")?;
    s.prints("shoal run -n 0 hostname", "n0")?;
    s.ok("pkill -TERM -f '^(shoal run -n 1 .*)?sleep 1021'")?;
    same("the other ends when it is told to", other.end()?.out.trim(), "lives\n143")?;
    Ok(End::Passed)
}

/// `shoal run … ; echo $? $EPOCHREALTIME` ends in time, as if killed; its body was seen to end at `dead`.
fn ends_as_lost(lost: Going, fault: SystemTime, dead: Option<SystemTime>) -> Res {
    wait_within(PATIENCE, "the command ends", &mut || !lost.is_going())?;
    let outcome = lost.end()?;
    let (status, ended) = told_end(&outcome.out)?;
    same("as if killed", status, "137")?;
    holds(&format!("the user is told: {}", outcome.err), outcome.err.contains("n0 is lost"))?;
    in_time(fault, dead.unwrap_or(fault), ended)
}

/// The front end says that n0 is not there.
fn is_down(s: &Sandbox) -> Res {
    s.until("! shoal nodes | grep '^ *n\\?0 ' | grep -qw up")
}

fn lost_node_daemon(place: &Place) -> Res<End> {
    let heal = |s: &Sandbox| is_down(s).and_then(|()| s.restart("n0"));
    lose(place, "lost_node_daemon", |s| s.kill(s.daemon("n0")?), heal)
}

/// All processes of the node at once; it cannot come back in a sandbox.
fn lost_node(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "lost_node", 2)?;
    let lost = s.start("shoal run -n 0 sleep 1022; echo $? $EPOCHREALTIME");
    let other = s.start("shoal run -n 1 sleep 1023; echo $?");
    wait_for("the programs are there", || s.count("sleep 1022") == 1 && s.count("sleep 1023") == 1)?;
    s.kill(s.machine("n0")?)?;
    ends_as_lost(lost, SystemTime::now(), None)?;
    holds("the other lives", other.is_going() && s.count("sleep 1023") == 1)?;
    s.fails("shoal run -n 0 true", 125)?;
    s.prints("shoal run hostname", "n1")?;
    s.ok("pkill -TERM -f '^(shoal run -n 1 )?sleep 1023'")?;
    same("the other", other.end()?.out.trim(), "143")?;
    Ok(End::Passed)
}

fn lost_link_cut(place: &Place) -> Res<End> {
    let cut = |s: &Sandbox| s.network("n0", &["ip", "link", "set", "eth0", "down"]);
    let heal = |s: &Sandbox| is_down(s).and_then(|()| s.network("n0", &["ip", "link", "set", "eth0", "up"]));
    lose(place, "lost_link_cut", cut, heal)
}

/// The cable is in, nothing comes through: the node's port leaves the bridge.
fn lost_link_silent(place: &Place) -> Res<End> {
    lose(place, "lost_link_silent", |s| plug(s, OUT), |s| is_down(s).and_then(|()| plug(s, IN)))
}

/// The daemon's part that has the processes hangs: the other one kills it, and starts another.
fn lost_agent_stopped(place: &Place) -> Res<End> {
    let stop = |s: &Sandbox| outside(&["kill", "-STOP", &s.agent("n0")?.to_string()]);
    lose(place, "lost_agent_stopped", stop, |_| Ok(()))
}

/// All of the daemon is stopped, and nobody is left there who would kill: it does when it goes on.
fn lost_daemon_stopped(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "lost_daemon_stopped", 2)?;
    let lost = s.start("shoal run -n 0 sleep 1019; echo $? $EPOCHREALTIME");
    wait_for("the program is there", || s.count("sleep 1019") == 1)?;
    s.ok("shoal fault n0 stop-daemon")?;
    ends_as_lost(lost, SystemTime::now(), None)?;
    s.ok("shoal fault n0 continue-daemon")?;
    wait_for("the body is dead", || s.count("sleep 1019") == 0)?;
    s.until("shoal run -n 0 true 2>/dev/null")?;
    Ok(End::Passed)
}

/// A parent on n1 whose child on n0 is lost: wait tells it, as of a kill. A child on n2 whose parent is lost is an orphan, and lives on.
fn lost_node_with_kin(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "lost_node_with_kin", 3)?;
    let waits = s.start("shoal run -n 1 -- sh -c 'shoal run -n 0 sleep 1024; echo child $?; exit 4'; echo $?");
    // The shell stays for as long as the orphan does.
    let stays = "while shoal ps | grep -q 'sleep 1047$'; do sleep 0.1; done";
    let parent = s.start(&format!("shoal run -n 0 -- sh -c 'shoal run -n 2 sleep 1047 & wait'; echo $?; {stays}"));
    s.until("test $(shoal ps | grep -cE 'sleep (1024|1047)$') = 2")?;
    let orphan = s.ok("shoal ps | awk '/sleep 1047$/ {print $1}'")?;
    let ppid = format!("ps -o ppid= -p {orphan} | tr -d ' '");
    let lost = s.ok(&ppid)?;
    s.kill(s.daemon("n0")?)?;
    wait_within(PATIENCE, "the parent is told", &mut || !waits.is_going())?;
    same("the parent's tale", waits.end()?.out.trim(), "child 137\n4")?;
    let another = s.ok(&ppid)?;
    holds(&format!("its parent was {lost}, is {another}"), another != lost && !another.is_empty())?;
    s.fails(&format!("kill -0 {lost}"), 1)?;
    holds("the orphan lives", s.count("sleep 1047") == 1)?;
    s.ok(&format!("kill {orphan}"))?;
    wait_for("it has ended", || s.count("sleep 1047") == 0)?;
    same("the parent was lost", parent.end()?.out.trim(), "137")?;
    Ok(End::Passed)
}

/// Half of the agreed time.
fn short_silence_loses_nothing(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "short_silence_loses_nothing", 2)?;
    let going = s.start("shoal run -n 0 -- sh -c 'for i in $(seq 80); do echo $i; sleep 0.1; done' | md5sum");
    wait_for("it has begun", || s.count("sh -c for i in $(seq 80); do echo $i; sleep 0.1; done") == 1)?;
    let begin = Instant::now();
    plug(&s, OUT)?;
    s.until("shoal nodes | grep -w n0 | grep -qw silent")?;
    let meanwhile = s.start("shoal run -n 0 echo well");
    std::thread::sleep((AGREED / 2).saturating_sub(begin.elapsed()));
    plug(&s, IN)?;
    same("what was asked for meanwhile", meanwhile.end()?.out.trim(), "well")?;
    same("the output", going.end()?.out.trim(), s.ok("seq 80 | md5sum")?.as_str())?;
    Ok(End::Passed)
}

/// Takes n0's port off the bridge, or puts it back.
fn plug(s: &Sandbox, end: &[&str]) -> Res {
    s.network("sandbox", &[&["ip", "link", "set", "n0"], end].concat())
}

const OUT: &[&str] = &["nomaster"];
const IN: &[&str] = &["master", "shoal"];

/// The connections of n0 to the front end's port, seen from there: its control link, and channels.
const LINKS: &str = "( sport = :7706 and dst 10.77.1.1 )";

/// What a node was to start is lost with the link: that is told, and nobody waits for it.
fn link_breaks_during_a_start(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "link_breaks_during_a_start", 2)?;
    let port = s.ok(&format!("ss -Htn state established '{LINKS}' | sed 's/.*://'"))?;
    let other = s.start("shoal run -n 0 -- sh -c 'sleep 8; echo lives'");
    wait_for("the other is there", || s.count("sleep 8") == 1)?;
    plug(&s, OUT)?;
    let lost = s.start("exec shoal run -n 0 sleep 1043");
    let several = s.start("exec shoal run -n 0,1 sleep 0.1");
    // The parent of several, and what stands for the two on n0.
    s.until("test $(ps -eo args | grep -c '^shoal run -n 0.* sleep [01]') = 3")?;
    // As a firewall on the way would end it. The node does not hear of it before its port is back.
    let link = format!("( sport = :7706 and dport = :{port} )");
    let cut = format!("ss -K '{link}'; ! ss -Htn state established '{link}' | grep -q .");
    if s.network("front", &["sh", "-c", &cut]).is_err() {
        return Ok(End::Missing("a kernel that ends connections on demand (INET_DIAG_DESTROY)".into()));
    }
    plug(&s, IN)?;
    for (what, one) in [("one", lost), ("one of several", several)] {
        let outcome = one.end()?;
        let told = "shoal: n0: start the program: the link to the node broke before it had begun\n";
        same(what, (outcome.code(), outcome.err.as_str()), (Some(125), told))?;
    }
    same("what ran there before goes on", other.end()?.out.trim(), "lives")?;
    s.prints("shoal run -n 0 echo well", "well")?;
    wait_for("nothing was started", || s.count("sleep 1043") == 0)?;
    Ok(End::Passed)
}

fn kill_front_and_restart(s: &Sandbox) -> Res {
    s.kill(s.daemon("front")?)?;
    s.restart("front")
}

fn front_restarts(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "front_restarts", 2)?;
    let going = s.start("shoal run -n 0 -- sh -c 'trap \"exit 3\" TERM; sleep 1025 & wait'; echo $?");
    wait_for("the program is there", || s.count("sleep 1025") == 1)?;
    for away in [Duration::ZERO, AGREED * 3 / 4, Duration::ZERO] {
        s.kill(s.daemon("front")?)?;
        std::thread::sleep(away);
        s.restart("front")?;
        s.until("test $(shoal nodes | grep -cw up) = 2")?;
        holds("the program lives", going.is_going() && s.count("sleep 1025") == 1)?;
        s.prints("shoal run -n 1 hostname", "n1")?;
    }
    s.prints("ps -eo comm | grep -c '^sleep$'", "1")?;
    // The ghost of its child has the same command line and is younger: only the program is to end by it.
    s.ok("pkill -TERM -o -f '^(shoal run -n 0 -- )?sh -c trap'")?;
    same("a signal finds it after the restart", going.end()?.out.trim(), "3")?;
    wait_for("its child goes", || {
        let _ = s.ok("pkill -KILL -x sleep");
        s.count("sleep 1025") == 0
    })?;
    Ok(End::Passed)
}

/// Nothing lost, nothing doubled.
fn front_restarts_during_output(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "front_restarts_during_output", 2)?;
    let going = s.start("shoal run -n 0 -- sh -c 'for i in $(seq 300); do seq $i; sleep 0.02; done' | md5sum");
    let through = s.start("seq 3000000 | shoal run -n 1 -- sh -c 'sleep 1; cat' | md5sum");
    let commands = ["sh -c for i in $(seq 300); do seq $i; sleep 0.02; done", "sh -c sleep 1; cat"];
    wait_for("they have begun", || commands.iter().all(|command| s.count(command) == 1))?;
    kill_front_and_restart(&s)?;
    s.until("test $(shoal nodes | grep -cw up) = 2")?;
    same("output", going.end()?.out.trim(), s.ok("for i in $(seq 300); do seq $i; done | md5sum")?.as_str())?;
    same("input and output", through.end()?.out.trim(), s.ok("seq 3000000 | md5sum")?.as_str())?;
    Ok(End::Passed)
}

/// What happens while the daemon is away is told when it is back: a body's end, a SIGKILL to a ghost.
fn front_restarts_with_an_exit_between(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "front_restarts_with_an_exit_between", 2)?;
    let ends = s.start("shoal run -n 0 -- sh -c 'sleep 1026; exit 6'; echo $?");
    let killed = s.start("exec shoal run -n 1 sleep 1027");
    wait_for("the programs are there", || s.count("sleep 1026") == 1 && s.count("sleep 1027") == 1)?;
    let body = s.all().into_iter().find(|p| crate::lab::procs::command_line(p) == "sleep 1026");
    s.kill(s.daemon("front")?)?;
    s.kill(body.ok_or("the body is there")?.pid)?;
    s.ok("pkill -KILL -f '^(shoal run -n 1 )?sleep 1027'")?;
    s.restart("front")?;
    same("an exit in the gap", ends.end()?.out.trim(), "6")?;
    same("a SIGKILL in the gap", killed.end()?.signal(), Some(9))?;
    wait_for("its body is dead", || s.count("sleep 1027") == 0)?;
    Ok(End::Passed)
}

/// Not restarted: the nodes kill, and the commands end.
fn front_gone(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "front_gone", 2)?;
    let going = s.start("shoal run -n 0 sleep 1028; echo $?");
    wait_for("the program is there", || s.count("sleep 1028") == 1)?;
    s.kill(s.daemon("front")?)?;
    wait_within(AGREED, "the body is dead", &mut || s.count("sleep 1028") == 0)?;
    wait_within(Duration::from_secs(60), "the command ends", &mut || !going.is_going())?;
    same("as if killed", going.end()?.out.trim(), "137")?;
    Ok(End::Passed)
}
