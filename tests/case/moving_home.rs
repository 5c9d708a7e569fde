//! Running programs come to the front end, where what stood for them becomes them.

use super::moving::computes;
use super::moving_faults::{at_point, stage, Fate, How, Victim, PROGRAM, SOURCE};
use super::scene::Sandbox;
use super::{End, Scene};
use crate::lab::place::Place;
use crate::lab::proto::Step;
use crate::lab::Res;

pub(crate) const SCENES: &[Scene] = &[
    ("move_home", move_home),
    ("move_home_streams", move_home_streams),
    ("move_home_computes", move_home_computes),
    ("move_home_without_rights", move_home_without_rights),
    ("move_home_of_a_user", move_home_of_a_user),
    ("move_home_with_children", move_home_with_children),
    ("move_home_in_a_root_of_its_own", move_home_in_a_root_of_its_own),
    ("move_home_of_a_subreaper", move_home_of_a_subreaper),
    ("move_home_job", move_home_job),
    ("move_home_refused", move_home_refused),
    ("move_home_executes_itself", move_home_executes_itself),
    ("move_home_no_room", move_home_no_room),
    ("move_home_of_many_descriptors", move_home_of_many_descriptors),
    ("move_home_front_killed", |place| each_point(place, Victim::FrontDaemon)),
    ("move_home_source_daemon_killed", |place| each_point(place, Victim::Daemon(SOURCE))),
    ("move_home_source_node_killed", |place| each_point(place, Victim::Machine(SOURCE))),
    ("move_home_source_link_cut", |place| each_point(place, Victim::Link(SOURCE))),
    ("move_home_and_away", move_home_and_away),
    ("move_home_and_away_streams", move_home_and_away_streams),
    ("move_home_and_away_with_children", move_home_and_away_with_children),
    ("move_home_and_away_job", move_home_and_away_job),
];

/// Its stand-in may have few more than it has itself. Where shoal may not raise that (CAP_SYS_RESOURCE) it stays where it is; it has them all, wherever it is.
fn move_home_of_many_descriptors(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "move_home_of_many_descriptors", 1)?;
    s.prints(
        "cd $(mktemp -d); cat >many.pl <<'END'
open $x[$_], '<', '/etc/passwd' or die for 1 .. 50;
$SIG{TERM} = sub { exit(grep({ !defined readline $_ } @x[1 .. 50]) ? 8 : 7) }; open U, '>', 'up'; close U; sleep 1 while 1;
END
        (ulimit -n 64; exec shoal run -n 0 perl many.pl) & p=$!; until test -e up; do sleep 0.02; done
        shoal move $p front 2>said; moved=$?
        case $((0x$(awk '/^CapEff/ {print $2}' /proc/self/status) >> 24 & 1)) in
            1) test $moved = 0 && test $(shoal where $p) = front ;;
            *) test $moved = 1 && grep -q 'takes .* descriptors, and may have 64' said && test $(shoal where $p) = n0 ;;
        esac || { cat said; shoal where $p; }
        kill $p; wait $p; echo $?",
        "7",
    )?;
    Ok(End::Passed)
}

/// It is a process of the front end, in the place in which its stand-in was, for everybody who could know.
fn move_home(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "move_home", 2)?;
    let script = "shoal run -n 0 perl -e '
            $|=1; $SIG{USR1}=sub{print \"usr1 on \", `hostname`}; $SIG{TERM}=sub{print \"term\\n\"; exit 3};
            print \"up\\n\"; select(undef, undef, undef, 1) while 1' & p=$!
        at() { ps -o ppid=,pgid=,sid= -p $p; }
        sleep 0.5; before=$(at); shoal move $p 1; shoal move $p front; shoal where $p; shoal ps | grep -cw $p
        test \"$(at)\" = \"$before\" && test $(cat /proc/$p/comm) = perl && test $(readlink /proc/$p/exe) = $(readlink -f $(command -v perl)) || echo other
        kill -USR1 $p; sleep 0.2
        kill -STOP $p; sleep 0.2; awk '/^State/ {print $2}' /proc/$p/status; kill -CONT $p
        kill -TERM $p; wait $p; echo $?";
    s.prints(script, "up\nfront\n0\nusr1 on front\nT\nterm\n3")?;
    // Its end is its own, whatever that is.
    s.prints(
        "shoal run -n 0 perl -e 'sleep 1 while 1' & p=$!; sleep 0.4; shoal move $p front; kill -KILL $p; wait $p; echo $?",
        "137",
    )?;
    // What it is sent while it comes it has, once and in order.
    s.prints(
        "cd $(mktemp -d); shoal run -n 0 python3 -S -c '
import signal
signal.pthread_sigmask(signal.SIG_BLOCK, range(34, 65)); print(\"up\", flush=True)
for n in range(100): assert signal.sigwaitinfo([34, 35]).si_signo == 34
print(\"all\")' >out & p=$!; until grep -q up out; do sleep 0.02; done
         (for i in $(seq 100); do kill -34 $p; sleep 0.005; done) & shoal move $p front; wait $!; wait $p; echo $? >>out; cat out",
        "up\nall\n0",
    )?;
    Ok(End::Passed)
}

/// Its streams are those of its `shoal run`, and no byte is lost or doubled, nor in another place.
fn move_home_streams(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "move_home_streams", 2)?;
    s.ok("cd $(mktemp -d)
        shoal run -n 0 perl -e '$|=1; for $i (1..40000) { print \"$i\\n\"; select(undef, undef, undef, 0.001) if $i % 100 == 0 } exit 7' >got & p=$!
        sleep 0.3; shoal move $p front; test $(readlink /proc/$p/fd/1) = $PWD/got
        wait $p; test $? = 7; seq 40000 | cmp - got")?;
    let copies = "perl -e '$|=1; while (<>) { print; $n++ % 200 or select(undef, undef, undef, 0.003) } exit 7'";
    s.ok(&format!(
        "cd $(mktemp -d)
        # A pipe, of which much is read ahead.
        seq 200000 | shoal run -n 0 {copies} >got & p=$!
        sleep 0.4; shoal move $p front; wait $p; test $? = 7; seq 200000 | cmp - got
        # A file: who reads behind it reads what it has left.
        seq 100000 >in
        (shoal run -n 0 perl -e '$|=1; for (1..5) {{ $x = sysread STDIN, $_, 5; print; select(undef, undef, undef, 0.2) }} exit 7' & p=$!
            sleep 0.5; shoal move $p front; wait $p; test $? = 7 && cat) <in >got
        cmp in got"
    ))?;
    // Nobody reads what it writes: it comes when that is read.
    s.ok("cd $(mktemp -d); mkfifo pipe
        shoal run -n 0 perl -e '$|=1; print \"$_\\n\" for 1..200000; exit 7' >pipe & p=$!
        (sleep 1.5; cat >got) <pipe & reader=$!
        sleep 0.5; shoal move $p front; wait $p; test $? = 7; wait $reader; seq 200000 | cmp - got")?;
    Ok(End::Passed)
}

/// What stands for it can become nothing that needs a right which both have given up for good; and it can stand for nothing that forks.
fn move_home_without_rights(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "move_home_without_rights", 1)?;
    // PR_CAPBSET_DROP, of all, or of one that is needed for nothing here.
    let drops = |which: &str| {
        format!("perl -e 'syscall(157, 24, $_, 0, 0, 0) for {which}; $|=1; print \"up\\n\"; sleep 1 while 1'")
    };
    s.prints(
        &format!(
            "cd $(mktemp -d); {} >out & p=$!; until grep -q up out; do sleep 0.02; done
            shoal move $p 0 2>&1 | grep -o 'it has given up CAP_CHECKPOINT_RESTORE for good'; kill $p; wait $p; echo $?
            rm out; shoal run -n 0 {} >out & p=$!; until grep -q up out; do sleep 0.02; done
            shoal move $p front; shoal where $p; kill $p; wait $p; echo $?
            rm out; {} >out & p=$!; until grep -q up out; do sleep 0.02; done
            shoal move $p 0; shoal where $p; shoal move $p front 2>&1 | grep -o 'it would have to have capabilities that are not left to it'
            shoal where $p; kill $p; wait $p; echo $?",
            drops("0..63"),
            drops("0..63"),
            drops("13")
        ),
        "it has given up CAP_CHECKPOINT_RESTORE for good\n143\nfront\n143\nn0\nit would have to have capabilities that are not left to it\nn0\n143",
    )?;
    Ok(End::Passed)
}

fn move_home_computes(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "move_home_computes", 2)?;
    let program = computes(600_000);
    s.ok(&format!(
        "cd $(mktemp -d); cat >p.py <<'P'\n{program}\nP
        python=$(python3 -c 'import sys; print(sys.executable)')
        $python -S p.py >expected
        shoal run -n 0 $python -S p.py >got & p=$!
        for i in $(seq 100); do shoal move $p 1 2>error && break; sleep 0.02; done
        shoal move $p front || {{ cat error; exit 1; }}
        wait $p && cmp expected got"
    ))?;
    Ok(End::Passed)
}

fn move_home_of_a_user(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "move_home_of_a_user", 1)?;
    let ann = "setpriv --reuid 61001 --regid 61001 --groups 61001,61005";
    let bob = "setpriv --reuid 61002 --regid 61002 --clear-groups";
    s.prints(
        &format!(
            "{ann} shoal run -n 0 perl -e '$SIG{{USR1}}=sub{{$|=1; system(\"hostname; id -u; id -G; grep CapPrm /proc/self/status\"); exit 4}}; sleep 1 while 1' & p=$!
            sleep 0.5; {bob} shoal move $p front 2>&1 | grep -o 'another user.s'; {ann} shoal move $p front; shoal where $p
            {bob} kill $p 2>/dev/null || echo no; {ann} kill -USR1 $p; wait $p; echo $?"
        ),
        "another user's\nfront\nno\nfront\n61001\n61001 61005\nCapPrm:\t0000000000000000\n4",
    )?;
    Ok(End::Passed)
}

/// A subreaper gets the orphans of its own descendants, and nobody of those who have relayed its streams.
fn move_home_of_a_subreaper(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "move_home_of_a_subreaper", 1)?;
    s.prints(
        "cd $(mktemp -d); cat >p.py <<'END'
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
def children():
    try: return os.waitpid(-1, os.WNOHANG)
    except ChildProcessError: return \"none\"
for line in sys.stdin:
    if line == \"look\\n\": print(children(), signal.sigpending(), flush=True)
if os.fork() == 0: os._exit(0 if os.fork() else 5)
print(sorted(os.waitstatus_to_exitcode(os.wait()[1]) for _ in range(2)), os.uname().nodename)
END
        mkfifo in; python=$(python3 -c 'import sys; print(sys.executable)')
        shoal run -n 0 $python -S p.py <in >out & p=$!; exec 7>in
        heard() { echo look >&7; until test $(wc -l <out) = $1; do sleep 0.02; done; }
        heard 1; shoal move $p front; heard 2; shoal move $p 0; heard 3; shoal move $p front; heard 4
        exec 7>&-; wait $p; cat out",
        "none set()\nnone set()\nnone set()\nnone set()\n[0, 5] front",
    )?;
    Ok(End::Passed)
}

/// Its children stay on their nodes: they see their parent, and it waits for them and signals them.
fn move_home_with_children(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "move_home_with_children", 2)?;
    s.prints(
        "cd $(mktemp -d); cat >script <<'END'
sh -c 'sleep 0.8; exit 5' & a=$!
sh -c 'sleep 0.6; kill -USR1 $PPID; sleep 0.4; echo from $(hostname); exit 6' & b=$!
perl -e '$SIG{TERM} = sub { exit 8 }; select undef, undef, undef, 0.1 while getppid == $ARGV[0]' $$ & c=$!
trap 'echo usr1' USR1
sleep 0.2
shoal move $$ front 2>&1
hostname
kill -TERM $c; wait $c; echo $?
wait $a; s=$?; while test $s -gt 128; do wait $a; s=$?; done; echo $s
wait $b; echo $?
sh -c 'hostname; exit 9'; echo $?
END
        shoal run -n 0 bash script >got & wait $!; echo $?; for i in $(seq 50); do grep -q from got && break; sleep 0.1; done; sort got",
        "0\n5\n6\n8\n9\nfrom n0\nfront\nfront\nusr1",
    )?;
    Ok(End::Passed)
}

/// What stands for it on the front end when it has left that again finds the daemon, which is not in there; also for an ordinary user.
fn move_home_in_a_root_of_its_own(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "move_home_in_a_root_of_its_own", 2)?;
    s.prints(
        "d=$(mktemp -d); chmod 755 $d; for user in 0 61001; do
            shoal run -n 0 perl -MPOSIX -e '$|=1; ($d, $u) = @ARGV; chroot $d or die $!; chdir q(/); if ($u) { $( = $) = qq($u $u); $< = $> = $u }
                $SIG{USR1} = sub { print join(q( ), -e q(/tmp) ? q(out) : q(in), $>, (POSIX::uname)[1]), qq(\n) }; print qq(up\n); sleep 1 while 1' $d $user >$d.out & p=$!
            lines() { until test $(wc -l <$d.out) = $1; do sleep 0.02; done; }; lines 1; n=1
            for to in front 1 front 0 1; do
                for i in $(seq 50); do shoal move $p $to 2>$d.said && break; grep -q 'yet to relay' $d.said || cat $d.said; sleep 0.05; done
                kill -USR1 $p; n=$((n + 1)); lines $n
            done; kill $p; wait $p; echo $?; cat $d.out
        done; rm -r $d*",
        "143\nup\nin 0 front\nin 0 n1\nin 0 front\nin 0 n0\nin 0 n1\n143\nup\nin 61001 front\nin 61001 n1\nin 61001 front\nin 61001 n0\nin 61001 n1",
    )?;
    Ok(End::Passed)
}

/// A job of a terminal is one when it has come home.
fn move_home_job(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "move_home_job", 1)?;
    let (key, see) = (|text: &str| Step::Type(text.into()), |text: &str| Step::Await(text.into()));
    s.talk(vec![
        see("%% "),
        key("shoal run -n 0 perl -e '$|=1; $SIG{CONT} = sub { print STDERR qq(cont\\n) }; select undef, undef, undef, 1 while 1' &\n"),
        see("%% "),
        key("sleep 0.5; shoal move $! front; shoal where $!\n"),
        see("front\r"),
        see("%% "),
        key("kill -STOP %1; until jobs %1 | grep -q Stopped; do sleep 0.05; done; echo sto''pped\n"),
        see("stopped\r"),
        see("%% "),
        key("fg\n"),
        see("cont\r"),
        key("\x1a"),
        see("Stopped"),
        see("%% "),
        key("bg\n"),
        see("cont\r"),
        key("kill -STOP %1; until jobs %1 | grep -q Stopped; do sleep 0.05; done; echo sto''pped\n"),
        see("stopped\r"),
        see("%% "),
        key("fg\n"),
        see("cont\r"),
        key("\x03"),
        see("%% "),
        key("echo st=$?\n"),
        see("st=130\r"),
        key("\nexit 0\n"),
    ])
    .map(|_| End::Passed)
}

fn move_home_refused(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "move_home_refused", 2)?;
    let refused = |script: &str, why: &str| -> Res {
        let told = s.ok(&format!("{script}\n sleep 0.5; shoal move ${{q:-$p}} ${{how:-}} front 2>&1 && echo moved; kill -CONT $p; kill -9 ${{q:-$p}} $p; wait $p; true"))?;
        match told.contains(why) && !told.contains("moved") {
            true => Ok(()),
            false => Err(format!("{script}: {told:?} does not say {why:?}")),
        }
    };
    refused("shoal run -n 0 sleep 50 & p=$!; how=--lazy", "--lazy")?;
    refused(
        "shoal run -n 0,1 sleep 50 & p=$!; sleep 0.3; q=$(pgrep -P $p | head -n 1)",
        "none that `shoal run` has started",
    )?;
    refused("setpriv --no-new-privs shoal run -n 0 sleep 50 & p=$!", "no_new_privs")?;
    // What it has open is not there: it stays, and runs on.
    s.prints(
        "shoal run -n 0 sh -c 'exec 5>/root/only-there; mount -t tmpfs none /mnt; exec 6>/mnt/there; trap \"exit 4\" USR1; while :; do sleep 0.1; done' & p=$!
         sleep 0.5; shoal move $p front 2>&1 | grep -c 'move '; shoal where $p; kill -USR1 $p; wait $p; echo $?; rm -f /root/only-there",
        "1\nn0\n4",
    )?;
    Ok(End::Passed)
}

/// Every point, in the order in which a move to the front end reaches them.
const POINTS: [&str; 28] = [
    "front begins",
    "destination is told",
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
    "destination has it",
    "out bound",
    "source has bound it",
    IT_IS_KEPT,
    "out ended",
    "source has ended it",
    "front knows that it has left",
    "front knows that it runs",
    "destination is to go",
    "in told to go",
    "in has a vessel",
    "in made it",
];

/// From here on the mover of the front end knows that nobody else has it.
const IT_IS_KEPT: &str = "out told to end";

fn each_point(place: &Place, victim: Victim) -> Res<End> {
    let (s, faults) = stage(place, "move_home_faults", victim)?;
    let at = |name: &str| POINTS.iter().position(|one| *one == name);
    for point in POINTS {
        let fate = match victim.lost() {
            Some(_) if at(point) < at(IT_IS_KEPT) => Fate::LivesOrLost,
            _ => Fate::Lives,
        };
        let how = How { point, program: PROGRAM, before: None, stopped: false, how: "", to: "front", fate };
        at_point(&s, place, &faults, victim, how).map_err(|fault| format!("{victim:?} at {point:?}: {fault}"))?;
    }
    Ok(End::Passed)
}

/// Where the front end has no room for what it needs for that, it stays where it is; nothing is left of moves.
fn move_home_no_room(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "move_home_no_room", 1)?;
    s.prints(
        "shoal run -n 0 sleep 1001 & p=$!; until shoal ps | grep -qw $p; do sleep 0.02; done
        at=/run/shoal/programs; mkdir $at; mount -t tmpfs -o mode=700,size=1M none $at
        shoal move $p front 2>&1 | grep -o 'No space left'; ls -A $at; shoal where $p; umount $at
        for to in front 0; do shoal move $p $to; shoal where $p; ls -A /run/shoal/homes; done; ls -A /run/shoal/aways; kill $p",
        "No space left\nn0\nfront\nn0",
    )?;
    Ok(End::Passed)
}

/// What executes itself all the time finds itself in /proc, also before the directory that it had there while it was elsewhere has been taken away.
fn move_home_executes_itself(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "move_home_executes_itself", 1)?;
    s.prints(
        "cd $(mktemp -d); echo \"test -e $PWD/end && exit 7; exec /proc/self/exe $PWD/program\" >program
        shoal run -n 0 sh program & p=$!; until shoal where $p >/dev/null 2>&1; do sleep 0.01; done
        b=$(awk '$2 == \"(shoal:binds)\" { print $1 }' /proc/[0-9]*/stat 2>/dev/null)
        for i in 1 2 3 4 5; do kill -STOP $b; shoal move $p front; sleep 0.05; kill -CONT $b; shoal move $p 0; done; touch end; wait $p; echo $?",
        "7",
    )?;
    Ok(End::Passed)
}

/// As often as anybody likes; it is always itself.
fn move_home_and_away(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "move_home_and_away", 2)?;
    s.prints(
        "shoal run -n 0 perl -e '$|=1; $SIG{USR1}=sub{print \"on \", `hostname`}; $SIG{TERM}=sub{print \"term\\n\"; exit 3};
            select(undef, undef, undef, 1) while 1' & p=$!
         at() { ps -o ppid=,pgid=,sid= -p $p; }
         sleep 0.5; before=$(at)
         for to in front 1 front 0 front 1; do shoal move $p $to; kill -USR1 $p; sleep 0.2; test \"$(at)\" = \"$before\" || echo other; done
         shoal ps | grep -cw $p; kill -STOP $p; sleep 0.3; awk '/^State/ {print $2}' /proc/$p/status; kill -CONT $p
         kill -TERM $p; wait $p; echo $?",
        "on front\non n1\non front\non n0\non front\non n1\n1\nT\nterm\n3",
    )?;
    let ann = "setpriv --reuid 61001 --regid 61001 --groups 61001,61005";
    s.prints(
        &format!(
            "{ann} shoal run -n 0 perl -e '$SIG{{USR1}}=sub{{$|=1; system(\"hostname; id -u; id -G; grep CapPrm /proc/self/status\"); exit 4}}; sleep 1 while 1' & p=$!
            sleep 0.5; for to in front 1; do {ann} shoal move $p $to; done; {ann} kill -USR1 $p; wait $p; echo $?"
        ),
        "n1\n61001\n61001 61005\nCapPrm:\t0000000000000000\n4",
    )?;
    Ok(End::Passed)
}

fn move_home_and_away_streams(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "move_home_and_away_streams", 2)?;
    let copies = "perl -e '$|=1; while (<>) { print; $n++ % 200 or select(undef, undef, undef, 0.003) } exit 7'";
    s.ok(&format!(
        "cd $(mktemp -d); seq 200000 >in
        for input in 'cat in' 'seq 200000'; do
            $input | shoal run -n 0 {copies} >got & p=$!
            sleep 0.3; for to in front 1 front 0 front; do shoal move $p $to; sleep 0.1; done
            wait $p; test $? = 7; cmp in got
        done
        shoal run -n 0 {copies} <in >got & p=$!
        sleep 0.3; for to in front 1 front 0 front; do shoal move $p $to; sleep 0.1; done
        wait $p; test $? = 7; cmp in got"
    ))?;
    Ok(End::Passed)
}

/// Its children stay where they are, and it is their parent wherever it is.
fn move_home_and_away_with_children(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "move_home_and_away_with_children", 2)?;
    s.prints(
        "cd $(mktemp -d); shoal run -n 0 perl -e '$me = $$; $a = fork // die; exec qw(sh -c), q(sleep 2; exit 5) if !$a; $c = fork // die;
            if (!$c) { $SIG{TERM} = sub { exit 8 }; select undef, undef, undef, 0.1 while getppid == $me; exit 1 }
            select undef, undef, undef, 0.05 while !-e q(go); kill TERM => $c; waitpid $c, 0; print $? >> 8, qq(\n);
            waitpid $a, 0; print $? >> 8, qq(\n), `hostname`; exit 9' >got & p=$!
        sleep 0.4; for to in front 1 front 0; do shoal move $p $to; done; touch go; wait $p; echo $?; cat got",
        "9\n8\n5\nn0",
    )?;
    Ok(End::Passed)
}

/// A job of a terminal is one when it has left again.
fn move_home_and_away_job(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "move_home_and_away_job", 1)?;
    let (key, see) = (|text: &str| Step::Type(text.into()), |text: &str| Step::Await(text.into()));
    s.talk(vec![
        see("%% "),
        key("perl -e '$SIG{CONT} = sub { print STDERR qq(cont\\n) }; sleep 1 while 1' &\n"),
        see("%% "),
        key("sleep 0.5; shoal move $! 0; shoal where $!; echo mo''ved\n"),
        see("moved\r"),
        see("%% "),
        key("kill -STOP %1; until jobs %1 | grep -q Stopped; do sleep 0.05; done; echo sto''pped\n"),
        see("stopped\r"),
        see("%% "),
        key("fg\n"),
        see("cont\r"),
        key("\x1a"),
        see("Stopped"),
        see("%% "),
        key("fg\n"),
        see("cont\r"),
        key("\x03"),
        see("%% "),
        key("echo st=$?\n"),
        see("st=130\r"),
        key("\nexit 0\n"),
    ])
    .map(|_| End::Passed)
}
