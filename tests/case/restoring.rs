//! An image goes on as a process of the space, on a node.

use super::scene::{holds, same, Sandbox};
use super::{End, Scene};
use crate::lab::place::Place;
use crate::lab::proto::Step;
use crate::lab::{Doing, Res};

pub(crate) const SCENES: &[Scene] =
    &[("restore_on_a_node", restore_on_a_node), ("restored_is_a_job", restored_is_a_job)];

/// Repeats what it reads, with what it is and where, and whether its memory is as it was.
const PROGRAM: &str = r#"
import os, sys
data = os.urandom(20_000_000)
was = sum(data)
while line := sys.stdin.readline():
    print(line.strip(), os.getpid(), os.uname().nodename, sum(data) == was, flush=True)
sys.exit(7)
"#;

/// It has its PID, the streams of `shoal restore`, a ghost, and an end that is told; it moves. What is not there, or in use, is said.
fn restore_on_a_node(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "restore_on_a_node", 2)?;
    let (program, image) = (place.fresh("repeats.py"), place.fresh("repeats.image"));
    std::fs::write(&program, PROGRAM).doing("write a program")?;
    let (program, image) = (program.display(), image.display());
    let begin = format!(
        "close='echo $$ >/run/pid; for fd in /proc/self/fd/*; do fd=${{fd##*/}}; [ $fd -gt 2 ] && eval \"exec $fd>&-\"; done; exec \"$@\"'
        (echo one; until test -e {image}; do sleep 0.05; done) | bash -c \"$close\" sh python3 {program} 2>&1 | cat >/run/said &
        until grep -q 'one.*True' /run/said; do sleep 0.05; done
        shoal checkpoint $(cat /run/pid) --stop -o {image}.new && mv {image}.new {image}; wait; grep -c 'True' /run/said"
    );
    s.prints(&begin, "1")?;
    let pid = s.ok("cat /run/pid")?;
    // It has what the command reads, from where the image ends on, and writes where that does.
    let there =
        format!("until test \"$(shoal where {pid} 2>/dev/null)\" = n1; do sleep 0.1; done; shoal where {pid} >&2");
    let all = format!("(echo two; {there}; echo three) | shoal restore {image} -n 1; echo $?");
    let done = s.sh(&all)?;
    same("what it says", done.out.trim_end(), &format!("two {pid} n1 True\nthree {pid} n1 True\n7"))?;
    same("where it is", done.err.trim_end(), "n1")?;
    // A process of the space: it moves, its number is taken, and signals reach it.
    let moved = format!(
        "mkfifo /run/words; exec 3<>/run/words; shoal restore {image} -n 0 </run/words >/run/said 3>&- & r=$!; echo two >&3
        until grep -q 'two.*True' /run/said; do sleep 0.05; done; shoal move {pid} 1
        shoal restore {image} -n 0 </dev/null 2>&1; echo $?; echo three >&3
        until grep -q 'three.*True' /run/said; do sleep 0.05; done; cat /run/said
        kill {pid}; wait $r; echo $?; test -e /proc/{pid} || echo gone
        shoal restore {image} -n 1 <&3 >/run/said & r=$!; echo four >&3; until grep -q 'four.*True' /run/said; do sleep 0.05; done; kill $r; wait $r; echo $?; test -e /proc/{pid} || echo gone"
    );
    let told = s.ok(&moved)?;
    let lines: Vec<&str> = told.lines().collect();
    let expected = [
        format!("shoal: PID {pid} is in use"),
        "1".into(),
        format!("two {pid} n0 True"),
        format!("three {pid} n1 True"),
    ];
    same("what is said", &lines[..lines.len().min(4)], &expected.iter().map(String::as_str).collect::<Vec<_>>()[..])?;
    same("its end", lines.get(4..), Some(&["143", "gone", "143", "gone"][..]))?;
    // By itself, with nothing to read.
    s.prints(&format!("shoal restore --detach {image} -n 1 | cat; echo $?"), "0")?;
    s.until(&format!("! test -e /proc/{pid}"))?;
    // What is wrong is said before there is a process, or by who tries, and nothing is left.
    let line = s.fails(&format!("shoal restore {program} -n 1 </dev/null"), 1)?;
    holds(&format!("{line:?} says that it is no image"), line.contains("this is no image"))?;
    s.fails(&format!("shoal restore - -n 1 <{image}"), 1)?;
    s.fails(&format!("shoal restore {image} -n 5 </dev/null"), 125)?;
    let cut =
        s.sh(&format!("head -c 10000000 {image} >{image}.cut; shoal restore {image}.cut -n 1 </dev/null; echo $?"))?;
    holds(&format!("{:?} says what is wrong", cut.err), cut.err.contains("cut short") && cut.out.trim() == "137")?;
    s.until("test $(shoal ps | wc -l) = 1")?;
    Ok(End::Passed)
}

/// Of an interactive shell: its keys, its reads of the terminal, its stops and signals are those of the process, though that has a group of its own.
fn restored_is_a_job(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "restored_is_a_job", 1)?;
    let program = "perl -e '$| = 1; print \"u\", \"p\\n\"; select undef, undef, undef, 0.05 until -e \"/run/go\"; print \"got $_\" while <STDIN>' &";
    let steps = [
        (program, "up\r"),
        ("\n", "%% "),
        ("P=$!; shoal checkpoint $P --stop --executable -o /run/image; echo c=$?\n", "c=0\r"),
        ("\n", "%% "),
        ("touch /run/go; /run/image; echo st=$?\n", "/run/image; echo"),
        ("one\n", "got one\r"),
        ("\x1a", "Stopped"),
        ("\n", "%% "),
        ("fg\n", "/run/image"),
        ("two\n", "got two\r"),
        ("\x03", "%% "),
        ("kill -0 $P; echo k=$?\n", "k=1\r"),
        ("rm /run/go; /run/image & sleep 0.3; kill -0 $P && kill %1; wait %1; echo st=$?\n", "st=143\r"),
        ("kill -0 $P; echo k=$?\n", "k=1\r"),
        ("/run/image & sleep 0.3; touch /run/go; fg\n", "/run/image\r"),
        ("three\n", "got three\r"),
        ("\x04", "%% "),
        ("exit\n", "exit"),
    ];
    let steps = steps.into_iter().flat_map(|(keys, seen)| {
        let keys = if keys == program { format!("{keys}\n") } else { keys.to_string() };
        [Step::Type(keys), Step::Await(seen.to_string())]
    });
    s.talk([Step::Await("%% ".into())].into_iter().chain(steps).collect())?;
    Ok(End::Passed)
}
