//! An image of a process with several threads goes on as a process of the space: the numbers of its threads come along.

use super::scene::{holds, same, Sandbox};
use super::{End, Scene};
use crate::lab::place::Place;
use crate::lab::{Doing, Res};

pub(crate) const SCENES: &[Scene] = &[
    ("restore_threads_on_a_node", restore_threads_on_a_node),
    ("restore_threads_move", restore_threads_move),
    ("restore_threads_in_use", restore_threads_in_use),
    ("restore_threads_of_nodes_numbers", restore_threads_of_nodes_numbers),
];

/// For each line: that, its machine, its PID and what its threads call themselves. For "more" it has one more from then on. Its argument: the
/// number behind which those of its first threads follow.
const PROGRAM: &str = r#"
import os, sys, threading
go, done, tids = [], threading.Semaphore(0), []
def serve(own):
    while True:
        go[own].acquire()
        tids[own] = threading.get_native_id()
        done.release()
def begin():
    go.append(threading.Semaphore(0)); tids.append(0)
    threading.Thread(target=serve, args=(len(go) - 1,), daemon=True).start()
if len(sys.argv) > 1:
    open("/proc/sys/kernel/ns_last_pid", "w").write(sys.argv[1])
for _ in range(4): begin()
while line := sys.stdin.readline():
    if line == "more\n": begin()
    for one in go: one.release()
    for one in go: done.acquire()
    print(line.strip(), os.uname().nodename, os.getpid(), *tids, flush=True)
sys.exit(7)
"#;

/// A sandbox, and an image of that program there: the file, its PID, and its threads but for the first.
struct Imaged {
    s: Sandbox,
    image: String,
    pid: i32,
    tids: Vec<i32>,
}

impl Imaged {
    fn new(place: &Place, name: &str, argument: &str) -> Res<Imaged> {
        let s = Sandbox::new(place, name, 2)?;
        let (program, image) = (place.fresh("threads.py"), place.fresh("threads.image"));
        std::fs::write(&program, PROGRAM).doing("write a program")?;
        let (program, image) = (program.display(), image.display().to_string());
        let begin = format!(
            "close='echo $$ >/run/pid; for fd in /proc/self/fd/*; do fd=${{fd##*/}}; [ $fd -gt 2 ] && eval \"exec $fd>&-\"; done; exec \"$@\"'
            (echo one; until test -e {image}; do sleep 0.02; done) | bash -c \"$close\" sh python3 {program} {argument} 2>&1 | cat >/run/said &
            until grep -q one /run/said; do sleep 0.02; done; shoal checkpoint $(cat /run/pid) --stop -o {image}.new && mv {image}.new {image}; cat /run/said"
        );
        let line = s.ok(&begin)?;
        let mut numbers = line.split_whitespace().skip(2).map(|word| word.parse::<i32>());
        let pid = numbers.next().and_then(Result::ok).ok_or_else(|| format!("it says {line:?}"))?;
        let tids: Vec<i32> = numbers.collect::<Result<_, _>>().doing("read its numbers")?;
        holds(&format!("{line:?} names four threads"), tids.len() == 4 && !tids.contains(&pid))?;
        Ok(Imaged { s, image, pid, tids })
    }

    /// What it says to a word.
    fn says(&self, word: &str, host: &str) -> String {
        let tids: Vec<String> = self.tids.iter().map(ToString::to_string).collect();
        format!("{word} {host} {} {}", self.pid, tids.join(" "))
    }

    /// Of its threads' numbers those that somebody has on the front end, counted.
    fn taken(&self) -> String {
        let tids: Vec<String> = self.tids.iter().map(ToString::to_string).collect();
        format!("for tid in {}; do kill -0 $tid 2>/dev/null && echo $tid; done | wc -l", tids.join(" "))
    }

    /// It goes on on a node, and reads what is written to descriptor 3, in the background.
    fn begin(&self, node: i32) -> String {
        let image = &self.image;
        format!(
            "ask() {{ echo $1 >&3; until grep -q $1 /run/now; do sleep 0.02; done; }}; mkfifo /run/words; exec 3<>/run/words
            shoal restore {image} -n {node} </run/words >/run/now 2>&1 3>&- & r=$!; ask two"
        )
    }
}

/// They are what they were there, and nobody else's on the front end as long as it lives.
fn restore_threads_on_a_node(place: &Place) -> Res<End> {
    let it = Imaged::new(place, "restore_threads_on_a_node", "")?;
    let (begin, taken, pid) = (it.begin(1), it.taken(), it.pid);
    let said = it.s.ok(&format!(
        "{taken}; {begin}; {taken}; shoal where {pid}; ls /proc/{pid}/task | wc -l; kill -TERM {pid}; wait $r; echo $?; {taken}; cat /run/now"
    ))?;
    let expected = ["0", "4", "n1", "5", "143", "0", &it.says("two", "n1")].join("\n");
    same("what is said", said.trim_end(), &expected)?;
    Ok(End::Passed)
}

/// It moves on with them, to the front end too, where they are its own threads then; one that it makes meanwhile has a number of its node's.
fn restore_threads_move(place: &Place) -> Res<End> {
    let it = Imaged::new(place, "restore_threads_move", "")?;
    let (begin, taken, pid) = (it.begin(0), it.taken(), it.pid);
    let said = it.s.ok(&format!(
        "{begin}; shoal move {pid} 1; ask three; shoal move {pid} front; ask four; {taken}; shoal where {pid}; ask more
        kill {pid}; wait $r; echo $?; {taken}; cat /run/now"
    ))?;
    let lines: Vec<&str> = said.lines().collect();
    let front = it.s.ok("uname -n")?;
    let expected = [it.says("two", "n0"), it.says("three", "n1"), it.says("four", front.trim())];
    same("where they are", &lines[..lines.len().min(4)], &["4", "front", "143", "0"])?;
    same("what is said", lines.get(4..7), Some(&expected.each_ref().map(String::as_str)[..]))?;
    holds(
        &format!("{said:?} ends with one more thread"),
        lines.get(7).is_some_and(|line| line.starts_with(&it.says("more", front.trim()))),
    )?;
    Ok(End::Passed)
}

/// One that somebody else has here is named, and there is no process.
fn restore_threads_in_use(place: &Place) -> Res<End> {
    let it = Imaged::new(place, "restore_threads_in_use", "")?;
    let (image, tid, pid) = (&it.image, it.tids[2], it.pid);
    let before = tid - 1;
    let line = it.s.fails(
        &format!("until sleep 100 & test $! = {tid}; do kill $!; echo {before} >/proc/sys/kernel/ns_last_pid; done; shoal restore {image} -n 1 </dev/null; r=$?; kill {tid}; exit $r"),
        125,
    )?;
    holds(&format!("{line:?} names it"), line.contains(&format!("the number {tid} of a thread is in use")))?;
    it.s.prints(&format!("test -e /proc/{pid} || echo none; shoal ps | wc -l"), "none\n1")?;
    Ok(End::Passed)
}

/// Those that nodes give out are theirs.
fn restore_threads_of_nodes_numbers(place: &Place) -> Res<End> {
    let it = Imaged::new(place, "restore_threads_of_nodes_numbers", "4000000")?;
    let (image, pid, tid) = (&it.image, it.pid, it.tids[0]);
    holds(&format!("{tid} is above the front end's own"), tid > 4_000_000)?;
    let line = it.s.fails(&format!("shoal restore {image} -n 1 </dev/null"), 125)?;
    holds(
        &format!("{line:?} names it"),
        line.contains(&format!("its thread {tid} has a number for processes that nodes make")),
    )?;
    it.s.prints(&format!("test -e /proc/{pid} || echo none; shoal ps | wc -l"), "none\n1")?;
    Ok(End::Passed)
}
