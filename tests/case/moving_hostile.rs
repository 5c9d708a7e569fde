//! Ordinary users who have processes moved, which root's movers do, to come to what is not theirs.

use super::hostile::{compiled, others_go_on};
use super::scene::{holds, outside, same, Sandbox};
use super::{End, Scene};
use crate::lab::faults::Faults;
use crate::lab::place::Place;
use crate::lab::session::Plan;
use crate::lab::{Doing, Res};
use std::time::Duration;

pub(crate) const SCENES: &[Scene] = &[
    ("move_opens_nothing_for_its_user", move_opens_nothing_for_its_user),
    ("move_out_of_a_namespace", move_out_of_a_namespace),
    ("move_of_what_goes_apart", move_of_what_goes_apart),
    ("move_of_threads_apart", move_of_threads_apart),
    ("move_brings_nobody_rights", move_brings_nobody_rights),
    ("move_given_up_brings_nobody_rights", move_given_up_brings_nobody_rights),
    ("user_who_moves_without_end", user_who_moves_without_end),
    ("strangers_at_the_port_of_a_move", strangers_at_the_port_of_a_move),
];

const ANN: &str = "setpriv --reuid 61001 --regid 61001 --clear-groups";
const BOB: &str = "setpriv --reuid 61002 --regid 61002 --clear-groups";
/// Not the one of PATH: it may be root's own.
const PYTHON: &str = "/usr/bin/python3";

/// `has WHAT PLACE FILE`: has it, and says in FILE that it has; when there is FILE.go it says on standard output what it can read by it.
const HAS: &str = r#"
import ctypes, mmap, os, sys, time
what, place, file = sys.argv[1:]
of = place + "/dir/file"
if what == "file": had = os.open(of, os.O_RDWR)
if what == "directory": os.chdir(place + "/dir")
if what == "mapping": had = mmap.mmap(os.open(of, os.O_RDWR), 6)
if what == "deleted":
    had = os.open(place + "/dir/deleted", os.O_RDWR | os.O_CREAT, 0o600)
    os.unlink(place + "/dir/deleted")
if what == "watch":
    libc = ctypes.CDLL(None)
    had = libc.inotify_init()
    libc.inotify_add_watch(had, of.encode(), 0x20)
if what == "memory":
    child = os.fork()
    if not child:
        null = os.open("/dev/null", os.O_RDWR)
        for number in range(3): os.dup2(null, number)
        while True: time.sleep(100)
    had = os.open("/proc/%d/mem" % child, os.O_RDWR)
open(file, "w").write(str(os.getpid()))
while not os.path.exists(file + ".go"): time.sleep(0.05)
try: print(os.pread(had, 6, 0).decode() or "nothing")
except Exception: print("nothing")
if what == "memory": os.kill(child, 9)
"#;

/// What a name of the process leads to on another node only root may open: the process does not come to it, whatever way it had the name.
fn move_opens_nothing_for_its_user(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "move_opens_nothing_for_its_user", 2)?;
    let (base, script) = (place.fresh("opens").display().to_string(), place.fresh("has.py"));
    std::fs::write(&script, HAS).doing("write a script")?;
    let script = script.display();
    s.ok(&format!(
        "mkdir -m 755 {base}; mkdir -m 777 {base}/said {base}/at; {ANN} mkdir {base}/at/dir; {ANN} sh -c 'echo theirs > {base}/at/dir/file'
        mkdir -m 700 {base}/secret; echo secret > {base}/secret/file; chmod 600 {base}/secret/file"
    ))?;
    // There the directory is a link, as its owner may make one.
    let there = format!("mount -t tmpfs none {base}/at && ln -s {base}/secret {base}/at/dir");
    s.ok(&format!("shoal run -n 1 sh -c '{there}'"))?;
    for (what, word) in [
        ("file", "dir/file"),
        ("directory", "at/dir"),
        ("mapping", "dir/file"),
        ("deleted", "make a file"),
        ("watch", "dir/file"),
        ("memory", "/mem"),
    ] {
        let said = format!("{base}/said/{what}");
        let going = s.start(&format!("{ANN} shoal run -n 0 {PYTHON} {script} {what} {base}/at {said}"));
        s.until(&format!("test -s {said}"))?;
        let pid = s.ok(&format!("cat {said}"))?;
        s.fails(&format!("{ANN} shoal move {pid} 1"), 1)?;
        // Its old node may hear first that there is nobody any more who takes it.
        let why = match what {
            "directory" => "another file by now",
            "memory" => "of user 0",
            _ => "ermission denied",
        };
        let denied = |line: &str| [&format!("pid={pid} "), word, why].iter().all(|one| line.contains(*one));
        s.until(&format!("test $(shoal where {pid}) = n0"))?;
        holds(&format!("a log says {word:?}"), s.logs().lines().any(denied))?;
        s.ok(&format!("touch {said}.go"))?;
        let expected = if what == "file" { "theirs" } else { "nothing" };
        same(&format!("what it has of {what}"), going.end()?.out.trim(), expected)?;
    }
    s.prints(&format!("ls -A {base}/secret"), "file")?;
    Ok(End::Passed)
}

/// In a user namespace of one's own one has all capabilities; moved, they would be those of the node.
fn move_out_of_a_namespace(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "move_out_of_a_namespace", 2)?;
    for (how, word) in [("-Ur", "user namespace"), ("-Urn", "net namespace"), ("-Uc --keep-caps", "user namespace")] {
        let one = s.start(&format!("{ANN} shoal run -n 0 unshare {how} sleep 1051; echo $?"));
        s.until("shoal ps | grep -q ' sleep 1051$'")?;
        let pid = s.ok("shoal ps | awk '/ sleep 1051$/ {print $1}'")?;
        for way in ["", "--lazy"] {
            let line = s.fails(&format!("{ANN} shoal move {way} {pid} 1"), 1)?;
            holds(&format!("{line:?} says {word:?}"), line.contains(word))?;
        }
        s.prints(&format!("shoal where {pid}"), "n0")?;
        s.ok(&format!("kill {pid}"))?;
        same("its end", one.end()?.out.trim(), "143")?;
    }
    Ok(End::Passed)
}

/// What one has entered since it was looked at, and before it stands still, it would leave as well; in a user namespace it would even have brought its capabilities.
fn move_of_what_goes_apart(place: &Place) -> Res<End> {
    let socket = place.fresh("faults");
    let faults = Faults::listen(&socket)?;
    let plan = Plan { faults: Some(socket), ..Plan::default() };
    let s = Sandbox::with(place, "move_of_what_goes_apart", 2, plan)?;
    let (program, base) = (compiled(place, "goes_apart")?, place.fresh("apart").display().to_string());
    s.ok(&format!("mkdir -m 777 {base}"))?;
    let program = program.display();
    for (number, (who, what, word)) in [
        (ANN, "user", "it lives in a user namespace of its own"),
        (ANN, "file", "it lives in a user namespace of its own"),
        (ANN, "filter", "a seccomp filter is not carried"),
        (ANN, "thread strict filter", "a seccomp filter of its thread"),
        ("", "uts", "it lives in a uts namespace of its own"),
        (ANN, "no new rights", "has no_new_privs set"),
    ]
    .into_iter()
    .enumerate()
    {
        let (go, done, said) =
            (format!("{base}/{number}.go"), format!("{base}/{number}.done"), format!("{base}/{number}"));
        // In which it may make nothing, here or elsewhere, though what it has may be called so.
        let closed = format!("{done}.closed");
        let touched = s.ok(&format!("mkdir {closed}; stat -c %y {closed}"))?;
        // Its parent is there, too.
        let one = s.start(&format!(
            "{who} shoal run -n 0 sh -c '{program} \"{what}\" {go} {done} </dev/null >{said} & wait $!; echo $?'"
        ));
        s.until(&format!("test -s {said}"))?;
        let pid = s.ok(&format!("cat {said}"))?;
        faults.watch("out may leave")?;
        let moving = s.start(&format!("{who} shoal move {pid} 1"));
        let held = faults.reached(Duration::from_secs(15))?;
        s.ok(&format!("touch {go}; until test -e {done}; do sleep 0.01; done"))?;
        drop(held);
        let outcome = moving.end()?;
        holds(
            &format!("{what}: {:?} says {word:?}", outcome.err),
            outcome.code() == Some(1) && outcome.err.contains(word),
        )?;
        s.prints(&format!("stat -c %y {closed}"), &touched)?;
        s.prints(&format!("shoal where {pid}; kill {pid}"), "n0")?;
        same("its end", one.end()?.out.trim(), "143")?;
    }
    Ok(End::Passed)
}

/// A single thread may have filters, namespaces, places and descriptors of its own.
fn move_of_threads_apart(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "move_of_threads_apart", 2)?;
    let (program, base) = (compiled(place, "goes_apart")?, place.fresh("apart").display().to_string());
    s.ok(&format!("mkdir -m 777 {base}; touch {base}/go"))?;
    let program = program.display();
    for (number, (who, what, word)) in [
        (ANN, "filter", "a seccomp filter of its thread"),
        ("", "uts", "lives in a uts namespace of its own"),
        (ANN, "places", "has a working directory, root directory and umask of its own"),
        (ANN, "descriptors", "has descriptors of its own"),
        // Another process of its parent's, which shares nothing else.
        (ANN, "memory", "it shares its memory with process"),
    ]
    .into_iter()
    .enumerate()
    {
        let (done, said) = (format!("{base}/{number}.done"), format!("{base}/{number}"));
        let one = s.start(&format!("{who} shoal run -n 0 {program} 'thread {what}' {base}/go {done} >{said}; echo $?"));
        s.until(&format!("test -e {done}"))?;
        let pid = s.ok(&format!("cat {said}"))?;
        let line = s.fails(&format!("{who} shoal move {pid} 1"), 1)?;
        holds(&format!("{line:?} says {word:?}"), line.contains(word))?;
        s.prints(&format!("shoal where {pid}; kill {pid}"), "n0")?;
        same("its end", one.end()?.out.trim(), "143")?;
    }
    Ok(End::Passed)
}

/// What takes the place of a process has rights that its user has not. While that is brought into it, others of its user's take what they can from it.
fn move_brings_nobody_rights(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "move_brings_nobody_rights", 2)?;
    let (program, number) = (compiled(place, "wants_what_is_brought")?, place.fresh("number"));
    let (program, number) = (program.display(), number.display());
    s.ok(&format!("touch {number}; chmod 666 {number}"))?;
    let wants = s.start(&format!("{ANN} shoal run -n 0 {program} {number}; echo $?"));
    s.until(&format!("test -s {number}"))?;
    s.ok(&format!(
        "for i in $(seq 25); do for n in 1 0; do {ANN} shoal move $(cat {number}) $n || exit 1; done; done"
    ))?;
    s.ok(&format!("kill $(cat {number})"))?;
    same("what it has come to", wants.end()?.out.trim(), "told\n0")?;
    Ok(End::Passed)
}

/// Traces this process, and stays.
const SEIZE: &str = r#"
import ctypes, sys, time
libc = ctypes.CDLL(None); libc.ptrace.argtypes = [ctypes.c_long] * 4
libc.ptrace(0x4206, int(sys.argv[1]), 0, 0)
time.sleep(100)
"#;

/// What was to become it where it has stood, stands there again: what does that has more rights than its user, who may not come to it.
/// (ckpt, `remain`: else it would be killed, and the process with it.)
fn move_given_up_brings_nobody_rights(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "move_given_up_brings_nobody_rights", 2)?;
    let sleeps = s.start(&format!("{ANN} shoal run -n 0 sleep 1141; echo $?"));
    s.until("shoal ps | grep -q 'sleep 1141'")?;
    let p = s.ok("shoal ps | awk '/sleep 1141/ {print $1}'")?.trim().to_string();
    s.ok(&format!("{ANN} shoal move {p} 1 && {ANN} shoal move {p} 0"))?;
    let traces = s.start(&format!("{ANN} shoal run -n 0 python3 -c '{SEIZE}' {p}"));
    s.until(&format!("! shoal run -n 0 grep -q '^TracerPid:.0$' /proc/{p}/status"))?;
    s.prints(
        &format!("for i in 1 2 3 4 5; do {ANN} shoal move {p} 1 2>&1 | grep -o 'it is traced'; done | sort | uniq -c | xargs"),
        "5 it is traced",
    )?;
    s.ok("kill $(shoal ps | awk '/python3/ {print $1}')")?;
    traces.end()?;
    s.prints(&format!("{ANN} shoal move {p} 1 && shoal where {p} && kill {p}"), "n1")?;
    same("its end", sleeps.end()?.out.trim(), "143")?;
    Ok(End::Passed)
}

/// Makes thirty thousand mappings, says its number, and stays.
const MAPS: &str = r#"
import ctypes, mmap, os, sys, time
each, libc = 15000, ctypes.CDLL(None)
memory = mmap.mmap(-1, 4096 * 2 * each)
at = ctypes.addressof(ctypes.c_char.from_buffer(memory))
for i in range(each): libc.mprotect(ctypes.c_void_p(at + 8192 * i), 4096, 1)
# One write, as many write there: print makes two where PYTHONUNBUFFERED is set.
os.write(1, b"%d\n" % os.getpid())
while True: time.sleep(100)
"#;

/// Asks for the move of every process of a list to either node, and for explanations, without waiting for an answer, until some are refused.
const ASKS: &str = r#"
import select, socket, struct, sys, time
def refused(kind, word):
    poll, connections = select.poll(), {}
    for pid in open(sys.argv[1]).read().split():
        for to in 0, 1:
            # Ask::Move and Ask::Explain: [kind, [pid, to]] (crates/wire).
            ask = bytes([0x82, kind, 0x82, 0x1a]) + struct.pack(">I", int(pid)) + bytes([to])
            one = socket.socket(socket.AF_UNIX); one.connect("/run/shoal/shoal.sock")
            one.sendall(struct.pack(">I", len(ask)) + ask)
            connections[one.fileno()] = one
            poll.register(one, select.POLLIN)
    end = time.time() + 3
    while connections and time.time() < end:
        for fd, _ in poll.poll(100):
            if word in connections[fd].recv(65536): return "are refused"
            poll.unregister(fd); del connections[fd]
    return "are not refused"
print("moves", refused(4, b"16 processes of user 61001 are on their way already"))
print("explanations", refused(6, b"user 61001 has asked for 16 explanations already"))
"#;

/// Movers are root's, and run before programs while a process stands still. However many a user asks for, and of whatever processes: others are served.
fn user_who_moves_without_end(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "user_who_moves_without_end", 2)?;
    let (script, said) = (place.fresh("maps.py"), place.fresh("said"));
    std::fs::write(&script, MAPS).doing("write a script")?;
    let (script, said) = (script.display(), said.display());
    let many = s.start(&format!(
        "for i in $(seq 30); do {ANN} shoal run -n 0 {PYTHON} {script} </dev/null >>{said} 2>/dev/null & done; wait"
    ));
    s.until(&format!("test $(wc -l <{said}) = 30"))?;
    let moves =
        format!("for pid in $(cat {said}); do {ANN} shoal move $pid $to & {ANN} shoal move --explain $pid $to & done");
    let moving =
        s.start(&format!("while test -s {said}; do for to in 1 0; do {moves}; wait; done; done >/dev/null 2>&1"));
    others_go_on(&s, "")?;
    s.prints("shoal nodes | grep -c up", "2")?;
    // While no node answers, all that are asked for are on their way.
    let agents: Vec<i32> = ["n0", "n1"].iter().map(|host| s.agent(host)).collect::<Res<_>>()?;
    let all = |signal| agents.iter().try_for_each(|agent| outside(&["kill", signal, &agent.to_string()]));
    all("-STOP")?;
    let told = s.ok(&format!("{ANN} {PYTHON} - {said} <<'EOF'{ASKS}EOF"));
    all("-CONT")?;
    same("what is refused", told?.as_str(), "moves are refused\nexplanations are refused")?;
    s.prints("shoal nodes | grep -c up", "2")?;
    s.ok(&format!(": >{said}; shoal run -n 0 pkill -KILL -u 61001; pkill -KILL -u 61001"))?;
    moving.end()?;
    many.end()?;
    Ok(End::Passed)
}

/// Connects to every port that opens on its machine as soon as it does, says nothing or nonsense there, and stays.
const STRANGER: &str = r#"
import os, resource, socket, sys, time
resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
def ports():
    for file in "/proc/net/tcp", "/proc/net/tcp6":
        for line in open(file).read().split("\n")[1:-1]:
            words = line.split()
            if words[3] == "0A": yield int(words[1].split(":")[1], 16)
known, held = set(ports()), []
print("ready", flush=True)
end = time.time() + 60
while time.time() < end:
    for port in set(ports()) - known:
        known.add(port)
        for i in range(20):
            try:
                one = socket.create_connection(("127.0.0.1", port), 1)
                if i % 2: one.sendall(os.urandom(100))
                held.append(one)
            except OSError: break
        print(port, flush=True)
    del held[:-500]
"#;

/// For each move a port opens for a moment; any user may connect to it before the node does that sends the process.
fn strangers_at_the_port_of_a_move(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "strangers_at_the_port_of_a_move", 2)?;
    let (script, log) = (place.fresh("stranger.py"), place.fresh("log"));
    std::fs::write(&script, STRANGER).doing("write a script")?;
    let (script, log) = (script.display(), log.display());
    let strangers = ["0", "1"].map(|n| s.start(&format!("{BOB} shoal run -n {n} {PYTHON} {script} >{log}.{n} 2>&1")));
    s.until(&format!("grep -q ready {log}.0 && grep -q ready {log}.1"))?;
    let one = s.start(&format!("{ANN} shoal run -n 0 sleep 1071; echo $?"));
    s.until("shoal ps | grep -q ' sleep 1071$'")?;
    let pid = s.ok("shoal ps | awk '/ sleep 1071$/ {print $1}'")?;
    s.ok(&format!("for i in $(seq 15); do for n in 1 0; do {ANN} shoal move {pid} $n || exit 1; done; done"))?;
    s.ok(&format!("test $(cat {log}.0 {log}.1 | wc -l) -gt 6"))?;
    s.ok(&format!("kill {pid}; shoal run -n 0 pkill -KILL -u 61002; shoal run -n 1 pkill -KILL -u 61002"))?;
    same("its end", one.end()?.out.trim(), "143")?;
    strangers.into_iter().try_for_each(|one| one.end().map(drop))?;
    Ok(End::Passed)
}
