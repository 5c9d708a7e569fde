//! Running programs move between nodes.

use super::hostile::compiled_of;
use super::scene::{holds, same, wait_for, Sandbox};
use super::{End, Scene};
use crate::lab::place::Place;
use crate::lab::Res;
use crate::modes::slower;
use std::time::Duration;

pub(crate) const SCENES: &[Scene] = &[
    ("move_streams_follow", move_streams_follow),
    ("move_streams_by_other_numbers", move_streams_by_other_numbers),
    ("move_signals_and_waits", move_signals_and_waits),
    ("move_python", move_python),
    ("move_of_a_user", move_of_a_user),
    ("move_refuses_by_name", move_refuses_by_name),
    ("move_empties_a_node", move_empties_a_node),
    ("move_kin", move_kin),
    ("move_kin_of_a_user", move_kin_of_a_user),
    ("move_kin_refused", move_kin_refused),
    ("move_while_a_node_is_lost", move_while_a_node_is_lost),
    ("move_forks_at_once", move_forks_at_once),
    ("move_shares_streams", move_shares_streams),
    ("move_input_that_is_looked_at", move_input_that_is_looked_at),
    ("move_streams_of_a_node", move_streams_of_a_node),
    ("move_after_vfork", move_after_vfork),
];

pub(crate) const DEMANDING: &[Scene] = &[("move_called_off", move_called_off)];

/// Input and output of a program that moves all the time arrive whole and in their order.
fn move_streams_follow(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "move_streams_follow", 3)?;
    // More than fits on the way, taken slowly.
    s.ok("cd $(mktemp -d)
        seq 200000 | shoal run -n 0 perl -e '$|=1;
            while (<>) { print; $n++ % 200 or select(undef, undef, undef, 0.003) } exit 7' >got & program=$!
        sleep 0.3
        for node in 1 2 0 1 2 0 1 2; do shoal move $program $node 2>error || break; done
        wait $program; test $? = 7 || { cat error; exit 1; }
        seq 200000 | cmp - got")?;
    // Some that takes its time: every hop has something under way both ways.
    s.ok("cd $(mktemp -d)
        for i in $(seq 40); do seq $((i * 100 - 99)) $((i * 100)); sleep 0.05; done |
            shoal run -n 0 perl -e '$|=1; while (<>) { print; select(undef, undef, undef, 0.0002) } exit 9' >got & program=$!
        sleep 0.3
        for node in 1 2 0 1 2 0; do shoal move $program $node; done
        wait $program; test $? = 9
        seq 4000 | cmp - got")?;
    Ok(End::Passed)
}

/// What a program has made of its streams they are wherever it is: one of them twice, exchanged, or under another number only.
fn move_streams_by_other_numbers(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "move_streams_by_other_numbers", 2)?;
    for changed in ["1>&2", "2>&1", "3>&1 1>&2 2>&3 3>&-", "5>&2 2>/dev/null 1>&-", "5>&1 1>&2"] {
        s.ok(&format!(
            "cd $(mktemp -d); cat >script <<'END'
exec {changed}
while read to <&4; do
    $move $$ $to; echo out $to; echo err $to >&2; ! test -e /proc/$$/fd/5 || echo five $to >&5
done 4<ways
END
            echo 1 0 front 1 front | tr ' ' '\\n' >ways
            move=true bash script </dev/null >out 2>err; move='shoal move' shoal run -n 0 bash script </dev/null >got 2>bad
            cat out err | grep -q . && cmp out got && cmp err bad"
        ))?;
    }
    Ok(End::Passed)
}

/// A script and children of its, with the same standard streams, each on its way by itself: every line is read once, by whoever reads next, and all that is
/// written arrives.
fn move_shares_streams(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "move_shares_streams", 4)?;
    let script = "cd $(mktemp -d)
        cat >script <<'END'
moves() { shoal move $1 $2 2>>moves || echo \"$2\" >>refused; }
for i in $(seq 6); do
    moves $$ $((i % 4))
    read x; echo $x parent
    (read y; echo $y child; sleep NAP; read y; echo $y child; exit $i) <&0 & child=$!
    moves $child $(((i + 2) % 4))
    moves $$ $(((i + 1) % 4))
    wait $child; test $? = $i || echo status
done
cat
END
        (seq 12; sleep 2; seq 13 100) | shoal run -n 0 bash script >got; test $? = 0
        cut -d' ' -f1 got | cmp - <(seq 100) && test $(grep -c child got) = 12 || { cat got moves refused; exit 1; }
        test ! -e refused || test $(wc -l <refused) -le 3 || { cat moves; exit 1; }";
    // Long enough to move meanwhile.
    s.ok(&script.replace("NAP", &(0.4 * f64::from(slower())).to_string()))?;
    // Input that had ended before anybody moved, as much as a pipe holds and more.
    for lines in [12, 30_000] {
        s.prints(
            &format!(
                "cd $(mktemp -d); seq {lines} | shoal run -n 0 bash -c '
                    until_is() {{ until test -e $1; do sleep 0.02; done; }}
                    read a; echo $a parent
                    (until_is here; read y; echo $y child; >read; until_is over) <&0 & child=$!
                    shoal move $child 1; >here; until_is read
                    read b && echo $b parent; >over; wait; cat | tail -n 1'"
            ),
            &format!("1 parent\n2 child\n3 parent\n{lines}"),
        )?;
    }
    // Input that is over, of which nobody has the other end any more.
    s.prints(
        "cd $(mktemp -d); shoal run -n 0 bash -c '
            read x; shoal move $$ 1; perl -e \"sleep 1 until -e q(over); print <STDIN>, qq(child\\n)\" <&0 & child=$!
            shoal move $$ 2; shoal move $child 0; shoal move $child 2; >over; wait; cat; echo parent' </dev/null 2>&1",
        "child\nparent",
    )?;
    // Who outlives the program stays where the streams are.
    s.prints(
        "cd $(mktemp -d); shoal run -n 0 bash -c '(until test -e go; do sleep 0.02; done; echo late) & echo $! >child' >got
        shoal move $(cat child) 1 2>&1 | grep -om1 'is relayed, and by whom is not known' | head -n 1
        >go; timeout 10 bash -c 'until grep late got; do sleep 0.02; done'",
        "is relayed, and by whom is not known\nlate",
    )?;
    // What nobody on its node has any more is closed for whoever reads or writes it.
    let opens = 0.5 * f64::from(slower());
    s.prints(
        &format!("(sleep {opens}; echo in) | shoal run -n 0 bash -c 'shoal move $$ 1; (exec >&-; cat >&2) <&0 & shoal move $! 2; exec <&- >&- 2>&-; wait' 2>&1 | cat; echo ${{PIPESTATUS[1]}}"),
        "in\n0",
    )?;
    Ok(End::Passed)
}

/// It asked its standard input not to wait (O_NONBLOCK), and has epoll(7) look at it. On the front end that is /dev/null, at which epoll cannot look: it stays on its node.
fn move_input_that_is_looked_at(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "move_input_that_is_looked_at", 3)?;
    let script = "import os, select, subprocess
def moves(to):
    with open(\"said\", \"w\") as said: subprocess.run([\"shoal\", \"move\", str(os.getpid()), to], stderr=said)
    print(open(\"said\").read().strip().split(\": \")[-1] or to, os.get_blocking(0), [event for _, event in looks.poll(5)], os.read(0, 9))
os.set_blocking(0, False)
looks = select.epoll()
looks.register(0, select.EPOLLIN)
for to in \"1\", \"2\", \"front\", \"0\": moves(to)";
    let stays = "its epoll looks at its standard stream 0, which is a file or device there, at which that cannot look";
    let told = ["1", "2", stays, "0"].map(|to| format!("{to} False [16] b''"));
    s.prints(&format!("cd $(mktemp -d); shoal run -n 0 python3 -c '{script}' </dev/null"), &told.join("\n"))?;
    Ok(End::Passed)
}

/// Whoever called `shoal run` is on a node, and the program and its child go from there to there, but not to that one.
fn move_streams_of_a_node(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "move_streams_of_a_node", 4)?;
    s.ok("cd $(mktemp -d)
        cat >script <<'END'
seq 200000 | shoal run -n 1 perl -e '$|=1;
    while (<>) { print; $n++ % 200 or select(undef, undef, undef, 0.003) } exit 7' >got & echo $! >program
wait $!; echo $? >status
END
        shoal run -n 0 bash script & run=$!
        until test -s program && test \"$(shoal where $(cat program) 2>&1)\" = n1; do sleep 0.05; done
        sleep 0.3; program=$(cat program)
        for node in 2 3 1 2 3; do shoal move $program $node 2>error || break; done
        shoal move $program 0 2>&1 | grep -q 'its streams are relayed by node n0 itself' || { echo 7 >status; cat error; exit 1; }
        wait $run; test $(cat status) = 7 || { cat error; exit 1; }
        seq 200000 | cmp - got")?;
    s.prints(
        "cd $(mktemp -d); seq 100 | shoal run -n 0 bash -c 'shoal run -n 1 bash -c \"
            read a; echo \\$a parent; (read b; echo \\$b child; until test -e go; do sleep 0.4; done; read c; echo \\$c child) <&0 & echo \\$! >child
            wait; cat | tail -n 1\" | cat' >got & run=$!
        until test -s child && grep -q child got; do sleep 0.05; done
        shoal move $(cat child) 2; shoal where $(cat child); >go; wait $run; echo $?; cat got",
        "n2\n0\n1 parent\n2 child\n3 child\n100",
    )?;
    Ok(End::Passed)
}

/// While a child has its memory it cannot move: that is tried again until the child has executed a program.
fn move_after_vfork(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "move_after_vfork", 2)?;
    let program = compiled_of(place, "real", "vforks")?;
    s.prints(
        &format!(
            "shoal run -n 0 {} 2000 & p=$!; until [ $(shoal ps | wc -l) = 3 ]; do sleep 0.02; done
             shoal move --explain $p 1 | grep -c 'shares its memory'
             shoal move $p 1; shoal where $p; kill $p; wait $p; echo $?",
            program.display()
        ),
        "1\nn1\n143",
    )?;
    Ok(End::Passed)
}

fn move_signals_and_waits(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "move_signals_and_waits", 3)?;
    let script = "shoal run -n 0 perl -e '
            $|=1; $SIG{USR1}=sub{print \"usr1\\n\"}; $SIG{TERM}=sub{print \"term\\n\"; exit 3};
            print \"up\\n\"; select(undef, undef, undef, 1) while 1' & p=$!
        state() { awk '/^State/ {print $2}' /proc/$p/status; }
        sleep 0.5; shoal move $p 2; shoal where $p
        kill -USR1 $p; sleep 0.2; shoal move $p 1
        kill -STOP $p; sleep 0.3; state; shoal move $p 0; shoal where $p; state
        kill -CONT $p; sleep 0.2; state
        kill -TERM $p; wait $p; echo $?";
    s.prints(script, "up\nn2\nusr1\nT\nn0\nT\nS\nterm\n3")?;
    // What it starts where it has come to is its child there.
    s.prints(
        "shoal run -n 0 perl -e '$SIG{USR1}=sub{print `hostname`; exit 5}; sleep 1 while 1' & p=$!
         sleep 0.5; shoal move $p 1; kill -USR1 $p; wait $p; echo $?",
        "n1\n5",
    )?;
    Ok(End::Passed)
}

/// A Python program that computes so long with four threads, and prints what has come of it.
pub(super) fn computes(rounds: u32) -> String {
    format!(
        "import threading, hashlib, sys
done = []
def work(n):
    h = hashlib.sha256(str(n).encode())
    for i in range({rounds}): h.update(h.digest())
    done.append((n, h.hexdigest()[:8]))
threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
[t.start() for t in threads]; [t.join() for t in threads]
print(sorted(done))"
    )
}

/// It computes what it would have, with threads and a file that it writes.
fn move_python(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "move_python", 4)?;
    let program = computes(60_000);
    s.ok(&format!(
        "cd $(mktemp -d); cat >p.py <<'P'\n{program}\nP
        # Itself: what is called python3 may be a script that runs it.
        python=$(python3 -c 'import sys; print(sys.executable)')
        $python -S p.py >expected
        shoal run -n 0 $python -S p.py >got & p=$!
        for i in $(seq 100); do shoal move $p 1 2>error && break; sleep 0.02; done
        # It may end at any moment, and then nothing can be moved; otherwise a move that fails is a fault.
        for node in 2 3 0 1 2 3; do shoal move $p $node 2>error || {{ sleep 0.5; ps -o stat= -p $p >left; break; }}; done
        wait $p && cmp expected got && ! {{ grep -qs '^[^Z]' left && cat error; }}"
    ))?;
    Ok(End::Passed)
}

/// Before a command: as this user, in two further groups.
const ANN: &str = "setpriv --reuid 61001 --regid 61001 --groups 61001,61005";
const BOB: &str = "setpriv --reuid 61002 --regid 61002 --clear-groups";

fn move_of_a_user(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "move_of_a_user", 2)?;
    s.prints(
        &format!(
            "{ANN} shoal run -n 0 perl -e '$SIG{{USR1}}=sub{{$|=1; system(\"id -u; id -G; grep CapPrm /proc/self/status\"); exit}}; sleep 1 while 1' & p=$!
            sleep 0.5; {BOB} shoal move $p 1 2>&1 | grep -o 'another user.s'; {ANN} shoal move $p 1; shoal where $p
            kill -USR1 $p; wait $p"
        ),
        "another user's\nn1\n61001\n61001 61005\nCapPrm:\t0000000000000000",
    )?;
    // One that its user may execute and not read.
    s.prints(
        &format!(
            "cd $(mktemp -d); chmod 755 .; cp $(which sleep) unread; chmod 711 unread; {ANN} shoal run -n 0 ./unread 1033 & p=$!
            until shoal ps | grep -q 'unread 1033'; do sleep 0.01; done; {ANN} shoal move $p 1; shoal where $p; kill $p; wait $p; echo $?"
        ),
        "n1\n143",
    )?;
    Ok(End::Passed)
}

fn move_refuses_by_name(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "move_refuses_by_name", 2)?;
    let refused = |script: &str, word: &str| {
        let line = s.fails(script, 1)?;
        holds(&format!("{line:?} says {word:?}"), line.contains(word))
    };
    refused("shoal move 1 1", "1 is the front end's own")?;
    let one = s.start("shoal run -n 0 sh -c 'sleep 1031 | cat & wait'; echo $?");
    wait_for("the child is there", || s.count("sleep 1031") == 1)?;
    let parent = "$(shoal ps | awk '/sh -c sleep 1031/ {print $1; exit}')";
    let child = "$(shoal ps | awk '$NF == 1031 && $(NF-1) == \"sleep\" {print $1; exit}')";
    refused(&format!("shoal move {parent} 7"), "node n7 is not up")?;
    refused(&format!("shoal move {child} 1"), "is open in process")?;
    s.ok(&format!("shoal move {parent} 0"))?;
    s.ok(&format!("kill {child}"))?;
    same("it has gone on", one.end()?.out.trim(), "0")?;
    let socket =
        s.start("shoal run -n 0 perl -e 'use Socket; socket($s, PF_INET, SOCK_STREAM, 0); $0 = q(connected); sleep 1032 while 1'");
    wait_for("it is there", || s.all().iter().any(|p| p.comm == "connected"))?;
    let perl = "$(shoal ps | awk '/connected/ {print $1; exit}')";
    refused(&format!("shoal move {perl} 1"), "socket")?;
    s.ok(&format!("test $(shoal where {perl}) = n0; kill {perl}"))?;
    socket.end()?;
    Ok(End::Passed)
}

/// All that can go goes, to where there is least or where it is told to; what cannot is named.
fn move_empties_a_node(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "move_empties_a_node", 3)?;
    let sleepers = s.start("for i in 1 2 3 4; do shoal run -n 0 sleep 105$i & done; wait");
    wait_for("they are there", || (1..5).all(|i| s.count(&format!("sleep 105{i}")) == 1))?;
    let count = |node: &str| format!("shoal ps | awk '$2 == \"{node}\" && /sleep 105/' | wc -l");
    s.ok("shoal move --from 0 --all")?;
    s.prints(&format!("{}; {}; {}", count("n0"), count("n1"), count("n2")), "0\n2\n2")?;
    s.ok("shoal move --from 1 --all 0")?;
    s.prints(&format!("{}; {}; {}", count("n0"), count("n1"), count("n2")), "2\n0\n2")?;
    let family = s.start("shoal run -n 1 sh -c 'sleep 1056 & wait $!; echo $?'");
    wait_for("the child is there", || s.count("sleep 1056") == 1)?;
    s.prints(&format!("shoal move --from 1 --all 2; {}; {}", count("n1"), count("n2")), "0\n4")?;
    // Nothing of them is left there that they need: they and their kin live on without that node.
    s.prints("shoal ps -n 1 | wc -l", "1")?;
    s.kill(s.daemon("n1")?)?;
    s.until("shoal nodes | grep '^ *n1 ' | grep -qwv up")?;
    s.ok(&format!("test $({}) = 4", count("n2")))?;
    s.ok("kill $(shoal ps | awk '/ sleep 1056$/ {print $1}')")?;
    same("how its child's end is told to the parent", family.end()?.out.trim(), "143")?;
    s.restart("n1")?;
    s.until("shoal run -n 1 true")?;
    let pair = s.start("shoal run -n 1 sh -c 'sleep 1057 | sleep 1058'");
    wait_for("both are there", || s.count("sleep 1057") == 1 && s.count("sleep 1058") == 1)?;
    s.prints("shoal move --from 1 --all 2 2>&1 | grep -o 'is open in process' | sort -u", "is open in process")?;
    s.prints("shoal move --from 1 --all 2 2>/dev/null; echo $?", "1")?;
    s.fails("shoal move --from 1 --all 2 0", 1)?;
    let line = s.fails("shoal move --from front --all", 1)?;
    holds(&line, line.contains("is no node"))?;
    s.ok("kill $(shoal ps | awk '/sleep 105/ {print $1}')")?;
    sleepers.end()?;
    pair.end()?;
    Ok(End::Passed)
}

/// Ctrl-C before it counts: the process runs on where it was, and can be moved later.
fn move_called_off(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "move_called_off", 2)?;
    let large = s.start("shoal run -n 0 perl -e '$x = \"x\" x 1_000_000_000; $0 = \"large\"; sleep 1 while 1'");
    wait_for("it is there", || s.count("large") == 1)?;
    let pid = "$(shoal ps | awk '$NF == \"large\" {print $1; exit}')";
    let script = format!("p={pid}; timeout -s INT 0.1 shoal move $p 1; echo $?; shoal where $p");
    s.prints(&script, "124\nn0")?;
    s.prints(&format!("p={pid}; shoal move $p 1; shoal where $p; kill $p"), "n1")?;
    large.end()?;
    Ok(End::Passed)
}

/// A shell with jobs of its own: it and they move, each by itself, and it waits for them, stops them and continues them wherever they are.
fn move_kin(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "move_kin", 3)?;
    s.prints(
        "cd $(mktemp -d); mkfifo in; exec 3<>in
        shoal run -n 0 bash -c '
            set -m; trap \"kill -KILL %2; wait %2; echo two \\$?; kill %1; wait %1; echo one \\$?; exit 6\" USR1
            for i in 1 2; do perl -e \"\\$SIG{TERM}=sub{exit 3}; sleep 1 while 1\" job$i </dev/null >out 2>&1 & done
            while :; do read -t 1 x; done' <in & shell=$!
        until test $(shoal ps | grep -c 'job[12]$') = 2; do sleep 0.1; done
        one=$(shoal ps | awk '/perl.*job1$/ && !/bash/ {print $1}'); two=$(shoal ps | awk '/perl.*job2$/ && !/bash/ {print $1}')
        shoal move $one 1 && shoal move $shell 2 && shoal move $two 2 && shoal move $one 2 && shoal move $shell 1
        for pid in $shell $one $two; do shoal where $pid; done
        ps -o ppid= -p $one,$two | sort -u | grep -cw $shell
        kill -USR1 $shell; wait $shell; echo $?",
        "n1\nn2\nn2\n1\ntwo 137\none 3\n6",
    )?;
    // An orphan of one that ends elsewhere is nobody's, and lives.
    s.prints(
        "shoal run -n 0 perl -e 'if (!fork) { close $_ for *STDIN, *STDOUT, *STDERR; $p = getppid; $0 = q(orphan); sleep 1 while getppid == $p; $0 = q(alone); sleep 100 } sleep 100' & p=$!
        until shoal ps | grep -q ' orphan$'; do sleep 0.1; done
        shoal move $p 1; kill $p; wait $p; echo $?
        until shoal ps | grep -q 'n0 .* alone$'; do sleep 0.1; done
        kill $(shoal ps | awk '/ alone$/ {print $1}')",
        "143",
    )?;
    Ok(End::Passed)
}

/// The stand-in in the place of a user's process can do what it must, and lets its user do nothing that they could not.
fn move_kin_of_a_user(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "move_kin_of_a_user", 2)?;
    s.prints(
        &format!(
            "{ANN} shoal run -n 0 perl -e '
                if (!($c = fork)) {{ close $_ for *STDIN, *STDOUT, *STDERR; sleep 1 while 1 }}
                $SIG{{USR1}} = sub {{ $| = 1; kill TERM => $c; waitpid $c, 0; print $? & 127, qq(\n); system(\"id -u; id -G; grep CapPrm /proc/self/status\"); exit }};
                sleep 1 while 1' & p=$!
            sleep 0.5; {ANN} shoal move $p 1 && shoal where $p
            {ANN} shoal run -n 0 sh -c \"cat /proc/$p/mem; (: >/proc/$p/mem); ls /proc/$p/fd; ls /run/shoal/programs; grep Uid /proc/$p/status\" 2>/dev/null
            {ANN} shoal move $p 0 && {ANN} shoal move $p 1 && shoal where $p
            kill -USR1 $p; wait $p"
        ),
        "n1\nUid:\t61001\t61001\t61001\t61001\nn1\n15\n61001\n61001 61005\nCapPrm:\t0000000000000000",
    )?;
    Ok(End::Passed)
}

/// One in whose place no stand-in could be, or that has a pipe or sockets with its kin, is refused, and runs on.
fn move_kin_refused(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "move_kin_refused", 2)?;
    let program = "perl -e 'if (!fork) { close $_ for *STDIN, *STDOUT, *STDERR; sleep 1 while 1 } sleep 1 while 1'";
    for (prefix, why) in [("setpriv --no-new-privs", "no_new_privs"), ("unshare -m", "mount namespace")] {
        s.prints(
            &format!(
                "shoal run -n 0 {prefix} {program} & p=$!; sleep 0.5
                shoal move $p 1 2>&1 | grep -o '{why}'; shoal where $p; pkill -P $p; kill $p; wait $p; echo $?"
            ),
            &format!("{why}\nn0\n143"),
        )?;
    }
    // Each of the two has an end that the other has, too.
    for made in ["pipe R, W", "socketpair R, W, 1, 1, 0"] {
        let program = format!(
            "perl -e '{made}; if (!fork) {{ close $_ for *STDIN, *STDOUT, *STDERR, *R; sleep 1 while 1 }} close W; sleep 1 while 1'"
        );
        s.prints(
            &format!(
                "shoal run -n 0 {program} & p=$!; until c=$(pgrep -P $p); do sleep 0.1; done; sleep 0.3
                for pid in $p $c; do shoal move $pid 1 2>&1 | grep -o 'descriptor [34] .* leads to other processes' | sed 's/([^)]*) //'; done
                shoal where $p; shoal where $c; pkill -P $p; kill $p; wait $p; echo $?"
            ),
            "descriptor 3 leads to other processes\ndescriptor 4 leads to other processes\nn0\nn0\n143",
        )?;
    }
    Ok(End::Passed)
}

/// Whatever is lost, there is one process, or it has ended as lost.
fn move_while_a_node_is_lost(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "move_while_a_node_is_lost", 3)?;
    for (round, victim) in ["n0", "n1", "n0", "n1", "n0", "n1"].into_iter().enumerate() {
        let command = format!("sleep 104{round}");
        let going = s.start(&format!("shoal run -n 0 {command}; echo $?"));
        wait_for("it is there", || s.count(&command) == 1)?;
        let pid = format!("$(shoal ps | awk '/{command}/ {{print $1; exit}}')");
        let moving =
            s.start(&format!("p={pid}; for i in $(seq 50); do shoal move $p 1; shoal move $p 0; done 2>/dev/null"));
        std::thread::sleep(Duration::from_millis(300 + 37 * round as u64));
        s.kill(s.daemon(victim)?)?;
        s.until(&format!("shoal nodes | grep '^ *{victim} ' | grep -qwv up"))?;
        moving.end()?;
        wait_for("it is in one place, or has ended", || s.count(&command) == usize::from(going.is_going()))?;
        s.restart(victim)?;
        s.until(&format!("shoal run -n {} true", &victim[1..]))?;
        if going.is_going() {
            s.ok(&format!("shoal move {pid} 2 && test $(shoal where {pid}) = n2 && kill {pid}"))?;
            same("it ends when it is told to", going.end()?.out.trim(), "143")?;
        } else {
            same("as if killed", going.end()?.out.trim(), "137")?;
        }
    }
    Ok(End::Passed)
}

/// Forks as soon as it is on another machine, which may be before anybody has heard that it is.
const FORKS_AT_ONCE: &str = r#"perl -MPOSIX -e '
    sub here { (POSIX::uname())[1] }
    my ($was, $moves) = (here(), 0);
    while ($moves < 40) {
        next if here() eq $was;
        ($was, $moves) = (here(), $moves + 1);
        for (1..3) {
            my $child = fork;
            defined $child or die "fork: $!";
            POSIX::_exit(7) unless $child;
            waitpid($child, 0) == $child && $? == 7 << 8 or die "child $child: $?";
        }
    }
    print "end\n"'"#;

/// On and on over four nodes: it has its children, and what the front end knows of them never keeps it where it is.
fn move_forks_at_once(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "move_forks_at_once", 4)?;
    let script = format!(
        "shoal run -n 0 {FORKS_AT_ONCE} </dev/null & p=$!; to=0
        while kill -0 $p 2>/dev/null; do
            to=$(((to + 1) % 4))
            shoal move $p $to 2>/run/why || ! grep changed /run/why >&2 || exit 9
        done
        wait $p"
    );
    s.prints(&script, "end")?;
    Ok(End::Passed)
}
