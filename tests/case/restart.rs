//! The front end's daemon is killed and started again while programs run: nothing is lost, nothing comes twice.

use super::hostile::compiled_of;
use super::moving_faults::{stage, Victim};
use super::scene::{holds, same, wait_for, wait_within, Going, Sandbox};
use super::{End, Scene};
use crate::lab::place::Place;
use crate::lab::procs;
use crate::lab::proto::Step;
use crate::lab::Res;
use std::time::Duration;

pub(crate) const SCENES: &[Scene] = &[
    ("restart_with_a_stopped_program", restart_with_a_stopped_program),
    ("restart_after_signals", restart_after_signals),
    ("restart_again_before_nodes_are_back", restart_again_before_nodes_are_back),
    ("restart_with_signals_from_a_node", restart_with_signals_from_a_node),
    ("restart_in_a_stream_of_signals", restart_in_a_stream_of_signals),
    ("no_restart_ends_stopped_programs_too", no_restart_ends_stopped_programs_too),
    ("restart_with_several_copies", restart_with_several_copies),
    ("restart_then_ctrl_c_to_several_copies", restart_then_ctrl_c_to_several_copies),
    ("restart_before_streams_are_connected", restart_before_streams_are_connected),
    ("restart_without_a_node", restart_without_a_node),
    ("restart_then_silent_node", restart_then_silent_node),
    ("restart_then_asked_early", restart_then_asked_early),
    ("restart_with_a_subreaper", restart_with_a_subreaper),
    ("restart_with_a_child_elsewhere", restart_with_a_child_elsewhere),
    ("restart_with_other_leases", restart_with_other_leases),
];

pub(crate) const DEMANDING: &[Scene] = &[
    ("restart_ten_times_under_load", restart_ten_times_under_load),
    ("restart_with_many_processes", restart_with_many_processes),
];

/// The front end's side of a daemon's death and of its return with both nodes.
const KILL: &str = "shoal fault front kill-daemon";
const START: &str = "shoal fault front start-daemon && for i in $(seq 100); do \
                     test $(shoal nodes | grep -cw up) = 2 && exit 0; sleep 0.1; done; exit 1";

fn restart_with_a_stopped_program(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "restart_with_a_stopped_program", 2)?;
    let stopped = s.start("shoal run -n 0 sleep 1031; echo $?");
    wait_for("the program is there", || s.count("sleep 1031") == 1)?;
    let state = |letter: &str| format!("ps -eo stat,args | grep -q '^{letter}.* sleep 1031$'");
    s.ok("pkill -STOP -f '^(shoal run -n 0 )?sleep 103[15]$'")?;
    s.until(&state("T"))?;
    s.ok(KILL)?;
    s.ok(START)?;
    s.ok(&state("T"))?;
    holds("it has not ended", stopped.is_going())?;
    s.ok("pkill -CONT -f '^(shoal run -n 0 )?sleep 103[15]$'")?;
    s.until(&state("S"))?;
    s.ok("pkill -TERM -f '^(shoal run -n 0 )?sleep 103[15]$'")?;
    same("its end", stopped.end()?.out.trim(), "143")?;
    Ok(End::Passed)
}

/// SIGTERM, SIGSTOP and SIGKILL to stand-ins while nobody serves them.
fn restart_after_signals(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "restart_after_signals", 2)?;
    let handles = s.start("exec shoal run -n 0 -- bash -c 'trap \"echo got; exit 3\" TERM; sleep 1032 & wait'");
    let stops = s.start("exec shoal run -n 1 sleep 1033");
    let dies = s.start("exec shoal run -n 0 sleep 1034");
    wait_for("the programs are there", || (1032..=1034).all(|n| s.count(&format!("sleep {n}")) == 1))?;
    s.ok(KILL)?;
    s.ok("pkill -TERM -o -f '^(shoal run -n 0 -- )?bash -c trap' && pkill -STOP -f '^(shoal run -n 1 )?sleep 1033$' && pkill -KILL -f '^(shoal run -n 0 )?sleep 1034$'")?;
    s.ok(START)?;
    let handled = handles.end()?;
    same("the handler", (handled.out.trim(), handled.code()), ("got", Some(3)))?;
    same("killed", dies.end()?.signal(), Some(9))?;
    let body = |s: &Sandbox| s.all().into_iter().any(|p| procs::command_line(&p) == "sleep 1033" && p.state == 'T');
    wait_for("the body is stopped", || body(&s))?;
    s.ok("pkill -CONT -f '^(shoal run -n 1 )?sleep 1033$'")?;
    wait_for("the body runs", || !body(&s))?;
    s.ok("pkill -TERM -f '^(shoal run -n 1 )?sleep 1033$'")?;
    same("the one that was stopped", stops.end()?.signal(), Some(15))?;
    s.ok("pkill -KILL -x sleep; true")?;
    Ok(End::Passed)
}

/// Says what it gets, in the order of the numbers if several have come; `name` is what it is called when it is ready. Signals are blocked while it says
/// something: otherwise bash's `wait` leaves out a trap, and a handler of perl's begins within another.
fn says_signals(name: &str) -> String {
    let handlers = "$SIG{USR1} = sub { print qq(one\n) }; $SIG{USR2} = sub { print qq(two\n); exit 3 }; $| = 1";
    let blocked = "sigprocmask(SIG_BLOCK, POSIX::SigSet->new(SIGUSR1, SIGUSR2))";
    format!("perl -MPOSIX -e '{handlers}; {blocked}; $0 = qq({name}); sigsuspend(POSIX::SigSet->new) while 1'")
}

/// The signals come while the first daemon is away, or the second one is there; that is killed before any node is back.
fn restart_again_before_nodes_are_back(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "restart_again_before_nodes_are_back", 2)?;
    let links = |to: &str| s.ok(&format!("shoal fault n0 {to} && shoal fault n1 {to}"));
    for moment in ["before", "after"] {
        let handles = s.start(&format!("exec shoal run -n 0 -- {}", says_signals("sleep 1035")));
        let stopped = s.start("exec shoal run -n 1 sleep 1036");
        wait_for("the programs are there", || (1035..=1036).all(|n| s.count(&format!("sleep {n}")) == 1))?;
        s.ok("pkill -STOP -f '^(shoal run -n 1 )?sleep 1036$'")?;
        s.until("ps -eo stat,args | grep -q '^T.* sleep 1036$'")?;
        s.ok("shoal fault front kill-daemon")?;
        links("link-down")?;
        let perl = "pkill -o -f '^shoal run -n 0 -- perl'";
        let signals = format!("{perl} -USR1 && {perl} -USR2 && pkill -CONT -f '^(shoal run -n 1 )?sleep 1036$'");
        let start = "shoal fault front start-daemon";
        match moment {
            "before" => s.ok(&format!("{signals} && {start}"))?,
            _ => s.ok(&format!("{start} && {signals}"))?,
        };
        // Longer than a signal waits for its answer.
        s.ok("shoal where 1 && sleep 0.1 && shoal fault front kill-daemon")?;
        links("link-up")?;
        s.ok(START)?;
        same("both signals, once each", handles.end()?.out.trim(), "one\ntwo")?;
        s.until("ps -eo stat,args | grep -q '^S.* sleep 1036$'")?;
        s.ok("pkill -TERM -f '^(shoal run -n 1 )?sleep 1036$'")?;
        same("the one that was stopped", stopped.end()?.signal(), Some(15))?;
    }
    Ok(End::Passed)
}

/// Numbered real-time signals to four programs, with gaps and without, while the daemon is killed again and again: each comes once, and in its turn.
fn restart_in_a_stream_of_signals(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "restart_in_a_stream_of_signals", 2)?;
    let program = compiled_of(place, "real", "numbered")?.display().to_string();
    let gaps = [0, 300, 1_000, 3_000];
    for (n, gap) in gaps.iter().enumerate() {
        let dir = place.fresh(&format!("numbered_{gap}")).display().to_string();
        s.ok(&format!("mkdir {dir}"))?;
        let takers: Vec<_> = (0..gaps.len())
            .map(|i| s.start(&format!("exec shoal run -n {} {program} take {dir}/{i}", i % 2)))
            .collect();
        s.until(&format!("test $(cat {dir}/* | wc -l) = {}", gaps.len()))?;
        let sender = s.start(&format!("for pid in $(cat {dir}/*); do {program} send $pid 600 {gap} & done; wait"));
        for _ in 0..=n {
            s.ok(&format!("sleep 0.05; {KILL} && sleep 0.1"))?;
            s.ok(START)?;
        }
        same("the senders", sender.end()?.code(), Some(0))?;
        for taker in takers {
            same("what came", taker.end()?.out.trim(), "600 in their turn")?;
        }
    }
    Ok(End::Passed)
}

/// A shell on a node signals while there is no daemon: what stands there for its children elsewhere, and what it knows by its number only.
fn restart_with_signals_from_a_node(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "restart_with_signals_from_a_node", 2)?;
    let dir = place.fresh("from_a_node").display().to_string();
    s.ok(&format!("mkdir -m 777 {dir}"))?;
    let other = s.start("shoal run -n 1 sleep 1039; echo $?");
    let two = says_signals("sleep 1037");
    let script = format!(
        "shoal run -n 1 {two} & a=$!; shoal run -n 1 sleep 1038 & b=$!
        until test -s {dir}/go; do sleep 0.05; done; other=$(cat {dir}/go)
        kill -USR1 $a; kill -USR2 $a; kill -KILL $b; kill -0 $other && echo there; kill -TERM $other
        kill -0 99999 2>/dev/null || echo not there; wait $a; echo $?; wait $b 2>/dev/null; echo $?"
    );
    s.ok(&format!("cat >{dir}/script <<'END'\n{script}\nEND"))?;
    let shell = s.start(&format!("shoal run -n 0 bash {dir}/script 2>/dev/null | sort"));
    wait_for("all are there", || (1037..=1039).all(|n| s.count(&format!("sleep {n}")) == 1))?;
    let pid = s.ok("shoal ps | awk '/sleep 1039$/ {print $1}'")?;
    s.ok(KILL)?;
    s.ok(&format!("echo {pid} >{dir}/go; sleep 0.7"))?;
    s.ok(START)?;
    same("what the shell saw", shell.end()?.out.trim(), "137\n3\nnot there\none\nthere\ntwo")?;
    same("the other", other.end()?.out.trim(), "143")?;
    s.until("! ps -e | grep -q defunct; test -z \"$(shoal ps | tail -n +2)\"")?;
    Ok(End::Passed)
}

fn restart_ten_times_under_load(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "restart_ten_times_under_load", 2)?;
    // Each has begun before the next is asked for: who asks the daemon while there is none is told so, and starts nothing.
    let begun = |program: &str| {
        wait_for(program, || s.all().iter().any(|p| procs::command_line(p).starts_with(&format!("sh -c {program}"))))
    };
    let lines = s.start("shoal run -n 0 -- sh -c 'for i in $(seq 400); do echo $i; sleep 0.02; done; exit 7'; echo $?");
    begun("for i in")?;
    let forks = s.start(
        "shoal run -n 1 -- sh -c 'i=0; while [ $i -lt 400 ]; do i=$((i+1)); (exit 3); sh -c \"exit 4\"; \
         test $? = 4 || echo bad; sleep 0.01; done; exit 5'; echo $?",
    );
    begun("i=0; while")?;
    let bytes = s.start("seq 2000000 | shoal run -n 1 -- sh -c 'sleep 2; cat' | md5sum; echo ${PIPESTATUS[1]}");
    begun("sleep 2; cat")?;
    for round in 0..10 {
        s.ok(KILL)?;
        s.ok(START)?;
        s.prints(&format!("shoal run -n {} echo round {round}", round % 2), &format!("round {round}"))?;
    }
    let expected: String = (1..=400).map(|n| format!("{n}\n")).collect();
    same("every line once, in order", lines.end()?.out, expected + "7\n")?;
    same("children and their statuses", forks.end()?.out.trim(), "5")?;
    same("input and output", bytes.end()?.out.trim(), format!("{}\n0", s.ok("seq 2000000 | md5sum")?).as_str())?;
    s.until("! ps -e | grep -q defunct; test -z \"$(shoal ps | tail -n +2)\"")?;
    Ok(End::Passed)
}

fn no_restart_ends_stopped_programs_too(place: &Place) -> Res<End> {
    let (s, faults) = stage(place, "no_restart_ends_stopped_programs_too", Victim::FrontDaemon)?;
    let stopped = s.start("shoal run -n 0 sleep 1035; echo $?");
    wait_for("the program is there", || s.count("sleep 1035") == 1)?;
    // One that is on its way from the front end: what takes its place there is stopped before a daemon knows it.
    let leaves = s.start("sleep 1031; echo $?");
    s.until("pkill -STOP -fx 'sleep 1031'")?;
    faults.watch("out ended")?;
    let moving = s.start("shoal move $(pgrep -fx 'sleep 1031') 1");
    let held = faults.reached(Duration::from_secs(15))?;
    s.ok("pkill -STOP -f '^(shoal run -n 0 )?sleep 103[15]$'")?;
    s.until("ps -eo stat,args | grep -q '^T.* sleep 1035$'")?;
    s.ok(KILL)?;
    drop(held);
    wait_within(Duration::from_secs(10), "the command ends", &mut || !stopped.is_going() && !leaves.is_going())?;
    same("as if killed", stopped.end()?.out.trim(), "137")?;
    same("as if killed on its way", leaves.end()?.out.trim(), "137")?;
    s.ok(START)?;
    moving.end()?;
    s.prints("shoal run -n 1 echo well", "well")?;
    Ok(End::Passed)
}

/// Copies whose parent outlives three daemons: it has all their output, and ends as the worst of them, also of those that have ended
/// before.
fn restart_with_several_copies(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "restart_with_several_copies", 2)?;
    let writes =
        s.start("shoal run -n 0,1 -p -- sh -c 'for i in $(seq 300); do echo $i; sleep 0.02; done' | sort | md5sum");
    let worst = s.start("shoal run -n 0,1 -- sh -c 'test $(hostname) = n0 && exit 5; sleep 1036; exit 2'; echo $?");
    let killed = s.start("exec shoal run -n 0,1 sleep 1037");
    wait_for("they are there", || {
        s.count("sleep 1036") == 1
            && s.count("sleep 1037") == 2
            && s.count("sh -c test $(hostname) = n0 && exit 5; sleep 1036; exit 2") == 1
    })?;
    for _ in 0..3 {
        s.ok(KILL)?;
        s.ok(START)?;
    }
    std::thread::sleep(Duration::from_secs(6));
    holds("they live longer than the agreed time", worst.is_going() && killed.is_going())?;
    s.ok("pkill -TERM -f '^shoal run -n 0,1 sleep 1037$'")?;
    same("a signal to the parent is for all copies", killed.end()?.signal(), Some(15))?;
    holds("they have ended", s.count("sleep 1037") == 0)?;
    s.ok("pkill -KILL -x sleep")?;
    same("the worst of all", worst.end()?.out.trim(), "5")?;
    let all = s.ok("for n in 0 1; do for i in $(seq 300); do echo n$n: $i; done; done | sort | md5sum")?;
    same("every line of each once", writes.end()?.out.trim(), all.as_str())?;
    s.until("! ps -e | grep -q defunct; test -z \"$(shoal ps | tail -n +2)\"")?;
    s.ok("test ! -s /run/shoal/parents")?;
    Ok(End::Passed)
}

fn restart_then_ctrl_c_to_several_copies(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "restart_then_ctrl_c_to_several_copies", 2)?;
    let line = |text: &str| Step::Type(format!("{text}\n"));
    let see = |text: &str| Step::Await(text.into());
    s.talk(vec![
        see("%% "),
        line(&format!(
            "(until test $(shoal ps | grep -c '[s]leep 1039$') = 2; do sleep 0.1; done; {KILL}; ({START}) && echo re\"\"started) & \
             shoal run -a sleep 1039"
        )),
        see("restarted"),
        Step::Type("\x03".into()),
        see("%% "),
        line("echo status $?"),
        see("status 130"),
        line("exit 0"),
    ])?;
    wait_for("all copies have ended", || s.count("sleep 1039") == 0)?;
    Ok(End::Passed)
}

/// The answers of the front end's machine to n0 get lost, but those on its control link: so no channel is connected.
fn restart_before_streams_are_connected(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "restart_before_streams_are_connected", 2)?;
    let link = s.ok("ss -Htn state established '( sport = :7706 and dst 10.77.1.1 )' | sed 's/.*://'")?;
    let rules = [format!("pref 1 ipproto tcp dport {link} lookup main"), "pref 2 blackhole".into()];
    let each = |verb: &str| -> String {
        rules.iter().map(|rule| format!("ip rule {verb} to 10.77.1.1 {rule}")).collect::<Vec<_>>().join(" && ")
    };
    s.network("front", &["sh", "-c", &each("add")])?;
    let good = s.start("shoal run -n 0 -- sh -c 'sleep 4; exit 0'; echo $?");
    let bad = s.start("shoal run -n 0 -- sh -c 'sleep 4; exit 3'; echo $?");
    wait_for("the programs have begun", || s.count("sleep 4") == 2)?;
    s.ok(KILL)?;
    s.network("front", &["sh", "-c", &each("del")])?;
    s.ok(START)?;
    for (of, code) in [(good, "125"), (bad, "3")] {
        let outcome = of.end()?;
        same(&format!("the end: {}", outcome.err), outcome.out.trim(), code)?;
        holds(&format!("it is told: {}", outcome.err), outcome.err.contains("streams were never connected"))?;
    }
    Ok(End::Passed)
}

/// The agreed time.
const AGREED: Duration = Duration::from_secs(5);

/// What is done to a node's link so that nothing comes of it any more, no end of a connection either.
fn silence(s: &Sandbox, node: &str) -> Res {
    s.network("sandbox", &["ip", "link", "set", node, "nomaster"])
}

/// The user reads of the loss, or of the program's streams if on a busy machine their time is over first (TCP_USER_TIMEOUT).
fn is_told(errors: &str) -> Res {
    let told = ["n0 is lost", "n0: the program's streams were cut off"].iter().any(|word| errors.contains(word));
    holds(&format!("the user is told: {errors}"), told)
}

/// A program on n0, one with a copy there, and one on n1 with a child there.
fn with_a_silent_node(place: &Place, name: &str, lose: fn(&Sandbox) -> Res) -> Res<End> {
    let s = Sandbox::new(place, name, 2)?;
    let alone = s.start("shoal run -n 0 sleep 1042; echo $?");
    let copies = s.start("shoal run -n 0,1 -- sh -c 'echo up; sleep 1043; exit 4'; echo $?");
    let parent = s.start("shoal run -n 1 -- sh -c 'shoal run -n 0 sleep 1099; echo child $?; exit 4'; echo $?");
    wait_for("they are there", || {
        s.count("sleep 1042") == 1 && s.count("sleep 1043") == 2 && s.count("sleep 1099") == 1
    })?;
    lose(&s)?;
    wait_within(AGREED, "the command ends", &mut || !alone.is_going())?;
    let alone = alone.end()?;
    same("as if killed", alone.out.trim(), "137")?;
    is_told(&alone.err)?;
    wait_within(AGREED, "the child's parent is told", &mut || !parent.is_going())?;
    let parent = parent.end()?;
    same("what it was told", parent.out.trim(), "child 137\n4")?;
    is_told(&parent.err)?;
    holds("the copy on n1 lives", copies.is_going() && s.count("sleep 1043") == 1)?;
    s.ok("pkill -KILL -x sleep")?;
    let copies = copies.end()?;
    same("the parent of both copies", copies.out.trim(), "up\nup\n137")?;
    is_told(&copies.err)?;
    s.until("! ps -e | grep -q defunct; test -z \"$(shoal ps | tail -n +2)\"")?;
    Ok(End::Passed)
}

/// It is lost while the daemon is away.
fn restart_without_a_node(place: &Place) -> Res<End> {
    with_a_silent_node(place, "restart_without_a_node", |s| {
        s.ok(KILL)?;
        silence(s, "n0")?;
        s.ok("shoal fault front start-daemon").map(|_| ())
    })
}

/// It is lost after it has come back.
fn restart_then_silent_node(place: &Place) -> Res<End> {
    with_a_silent_node(place, "restart_then_silent_node", |s| {
        s.ok(KILL)?;
        s.ok(START)?;
        silence(s, "n0")
    })
}

/// Who asks for a node that has not come back yet waits for it, and if it does not come is told so.
fn restart_then_asked_early(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "restart_then_asked_early", 2)?;
    s.ok(KILL)?;
    s.ok("shoal fault n1 link-down")?;
    s.ok("shoal fault front start-daemon")?;
    let asked = ["-n 1 hostname", "-n 0,1 hostname", "-a hostname"].map(|words| s.start(&format!("shoal run {words}")));
    let vain = s.start("shoal run -n 7 true");
    same("a node that never was", vain.end()?.code(), Some(125))?;
    s.until("shoal nodes | grep -qw '^n0 *up'")?;
    s.prints("shoal run -n 0 hostname", "n0")?;
    holds("the others wait", asked.iter().all(Going::is_going))?;
    s.ok("shoal fault n1 link-up")?;
    for (going, expected) in asked.into_iter().zip(["n1", "n0 n1", "n0 n1"]) {
        let outcome = going.end()?;
        let mut lines: Vec<&str> = outcome.out.split_whitespace().collect();
        lines.sort_unstable();
        same(&outcome.text(), lines.join(" ").as_str(), expected)?;
    }
    s.ok(KILL)?;
    s.ok("shoal fault n1 link-down")?;
    s.ok("shoal fault front start-daemon")?;
    let line = s.fails("shoal run -n 1 true", 125)?;
    same("it does not come", line.contains("unknown node n1"), true)?;
    Ok(End::Passed)
}

/// A subreaper on n0 has a child on n1, which has another one there and is killed after the restart.
fn restart_with_a_subreaper(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "restart_with_a_subreaper", 2)?;
    let script = r#"
import ctypes, os
ctypes.CDLL(None).prctl(36, 1)
child = os.fork()
if child == 0:
    os.execvp("shoal", ["shoal", "run", "-n", "1", "sh", "-c", "sleep 1045 <&- >&- 2>&- & exec sleep 1044"])
print(os.WTERMSIG(os.waitpid(child, 0)[1]), flush=True)
print(os.WTERMSIG(os.wait()[1]), flush=True)
"#;
    // On a node, and on the front end.
    for caller in ["shoal run -n 0 -- ", ""] {
        let takes = s.start(&format!("{caller}python3 -c '{script}'; echo $?"));
        wait_for("they are there", || s.count("sleep 1044") == 1 && s.count("sleep 1045") == 1)?;
        s.ok(KILL)?;
        s.ok(START)?;
        let of = |name: &str| format!("$(shoal ps | awk '$NF == {name} {{ print $1 }}')");
        s.ok(&format!("kill {}", of("1044")))?;
        wait_for("the child has ended", || s.count("sleep 1044") == 0)?;
        s.ok(&format!("kill {}", of("1045")))?;
        same("both were waited for", takes.end()?.out.trim(), "15\n15\n0")?;
    }
    Ok(End::Passed)
}

/// The node has more to say of itself than goes into one message, after a restart of the front end's daemon and after its link was cut.
fn restart_with_many_processes(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "restart_with_many_processes", 2)?;
    let going = s.start("shoal run -n 0 bash -c 'for i in $(seq 3000); do sleep 1046 & done; wait'; echo $?");
    // Each step has its own time.
    for some in [1000, 2000, 3000] {
        s.until(&format!("test $(shoal ps | grep -c 'sleep 1046$') -ge {some}"))?;
    }
    let pids = "shoal ps | awk '$NF == 1046 { print $1 }' | sort -n | md5sum";
    let before = s.ok(pids)?;
    for fault in [format!("{KILL}; {START}"), "shoal fault n0 link-down; sleep 1; shoal fault n0 link-up".into()] {
        s.ok(&fault)?;
        s.until("test $(shoal nodes | grep -cw up) = 2")?;
        // A node that is busy is not shown.
        s.until(&format!("test \"$({pids})\" = '{}'", before.trim()))?;
        s.prints("shoal run -n 0 echo well", "well")?;
    }
    holds("it goes on", going.is_going())?;
    s.ok("shoal ps | awk '$NF == 1046 { print $1 }' | xargs kill")?;
    same("its end", going.end()?.out.trim(), "0")?;
    s.until("test -z \"$(shoal ps | tail -n +2)\"")?;
    Ok(End::Passed)
}

/// A parent on n0 whose child on n1 stops, goes on and ends while n0 cannot be told: it is back later than n1, after a restart.
fn restart_with_a_child_elsewhere(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "restart_with_a_child_elsewhere", 2)?;
    let script = r#"
import os
child = os.fork()
if child == 0: os.execvp("shoal", ["shoal", "run", "-n", "1", "sleep", "1048"])
for what in os.WUNTRACED, os.WCONTINUED, 0:
    status = os.waitpid(child, what)[1]
    print(os.WIFSTOPPED(status), os.WIFCONTINUED(status), os.WIFSIGNALED(status), flush=True)
"#;
    let joined = |nodes: u32| s.until(&format!("test $(shoal nodes | grep -cw up) = {nodes}"));
    let waits = s.start(&format!("shoal run -n 0 -- python3 -c '{script}'"));
    wait_for("the child is there", || s.count("sleep 1048") == 1)?;
    let body = s.all().into_iter().find(|p| procs::command_line(p) == "sleep 1048").ok_or("a body")?.pid.to_string();
    for signal in ["STOP", "CONT", "TERM"] {
        s.ok(KILL)?;
        silence(&s, "n0")?;
        s.ok("shoal fault front start-daemon")?;
        joined(1)?;
        super::scene::outside(&["kill", &format!("-{signal}"), &body])?;
        let state = match signal {
            "STOP" => "T",
            "CONT" => "S",
            _ => "Z",
        };
        s.until(&format!("test $(ps -e -o stat=,comm= | grep -c '^{state}.*sleep') = 1"))?;
        s.network("sandbox", &["ip", "link", "set", "n0", "master", "shoal"])?;
        joined(2)?;
    }
    let told = "True False False\nFalse True False\nFalse False True\n";
    same("what the parent was told", waits.end()?.out.as_str(), told)?;
    s.until("test -z \"$(shoal ps | tail -n +2)\"; ! shoal run -n 0 ps -e | grep -q sleep")?;
    Ok(End::Passed)
}

/// The front end's daemon is started again with leases of another size: what runs has numbers that may be given to other nodes, and ends.
fn restart_with_other_leases(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "restart_with_other_leases", 2)?;
    let going = s.start("shoal run -n 0 sleep 1044; echo $?");
    wait_for("the program is there", || s.count("sleep 1044") == 1)?;
    s.ok(&format!("{KILL}; echo 'lease_size = 8192' >> /run/shoal/shoal.toml"))?;
    s.ok(START)?;
    wait_within(Duration::from_secs(10), "the body is dead", &mut || s.count("sleep 1044") == 0)?;
    same("as if killed", going.end()?.out.trim(), "137")?;
    s.prints("shoal run -a hostname | sort | xargs", "n0 n1")?;
    Ok(End::Passed)
}
