//! Contents that nodes keep on their disks: had once, from each other, and never wrong.

use super::scene::{holds, same, wait_for, Sandbox};
use super::view::{with, written};
use super::{End, Scene};
use crate::lab::place::Place;
use crate::lab::{Doing, Res};
use std::os::unix::fs::FileExt;

pub(crate) const SCENES: &[Scene] = &[
    ("view_store_has_a_content_once", view_store_has_a_content_once),
    ("view_store_is_filled_by_other_nodes", view_store_is_filled_by_other_nodes),
    ("view_store_is_never_wrong", view_store_is_never_wrong),
];

/// Bytes of the files.
const SIZE: u64 = 5_000_000;

/// Bytes that the nodes have read from the front end since their sessions began.
const READ: &str = r"import json, subprocess, sys
status = json.loads(subprocess.run(['shoal', 'view', '--json'], stdout=subprocess.PIPE, check=True).stdout)
print(sum(node[sys.argv[1]] for node in status['nodes']))
";

/// A program that has a file open from before it changes.
const HOLDS: &str = r"import hashlib, os, time
f = open('held', 'rb', buffering=0)
f.read()
open('ready', 'w')
while not os.path.exists('changed'): time.sleep(0.02)
f.seek(0)
print(hashlib.sha256(f.read()).hexdigest())
";

fn read(s: &Sandbox, cd: &str) -> Res<u64> {
    sum(s, cd, "read")
}

/// A figure of all nodes together.
fn sum(s: &Sandbox, cd: &str, figure: &str) -> Res<u64> {
    let text = s.ok(&format!("{cd} python3 read.py {figure}"))?;
    text.trim().parse().map_err(|_| format!("{text:?} is no number of bytes"))
}

/// Until a content of that size is kept on the node, which is some time after it was read.
fn is_kept(s: &Sandbox, node: &str, size: u64) -> Res {
    let store = format!("/proc/{}/root/run/shoal/store", s.machine(node)?);
    // Checksums are behind it.
    let is_it =
        |entry: std::fs::DirEntry| entry.metadata().is_ok_and(|file| (size + 32..size + 10_000).contains(&file.len()));
    wait_for("a content is kept", || std::fs::read_dir(&store).is_ok_and(|all| all.flatten().any(is_it)))
}

/// The content of a file, as a program on these nodes sees it, each as the front end does.
fn is_seen(s: &Sandbox, cd: &str, nodes: &str, file: &str) -> Res {
    let seen = s.ok(&format!("{cd} shoal run -n {nodes} -- sha256sum {file} | cut -d' ' -f1 | sort -u"))?;
    same(file, seen, s.ok(&format!("{cd} sha256sum <{file} | cut -d' ' -f1"))?)
}

fn restart(s: &Sandbox, node: &str) -> Res {
    s.ok(&format!(
        "shoal fault {node} kill-daemon; until ! shoal nodes | grep -q '^{node} .*up'; do sleep 0.05; done"
    ))?;
    s.ok(&format!("shoal fault {node} start-daemon; until shoal nodes | grep -q '^{node} .*up'; do sleep 0.05; done"))?;
    Ok(())
}

/// Changes a byte of each content there.
fn damage(store: &str) -> Res<usize> {
    let mut damaged = 0;
    for entry in std::fs::read_dir(store).doing("look into a store")? {
        let path = entry.doing("look into a store")?.path();
        let file = std::fs::File::options().read(true).write(true).open(&path).doing("open a content")?;
        let mut byte = [0];
        if file.read_at(&mut byte, 300_000).doing("read a content")? == 1 {
            file.write_all_at(&[byte[0] ^ 1], 300_000).doing("damage a content")?;
            damaged += 1;
        }
    }
    Ok(damaged)
}

/// What a node has read it has after a restart, and so it has the same content under another name.
fn view_store_has_a_content_once(place: &Place) -> Res<End> {
    let name = "view_store_has_a_content_once";
    with(place, name, 1, |s, cd| {
        written(name, "read.py", READ)?;
        s.ok(&format!("{cd} head -c {SIZE} /dev/urandom >one; cp one other; sleep 2.2"))?;
        // Of a file that has just changed nobody could tell later that this was so then.
        is_seen(s, cd, "0", "one")?;
        let once = read(s, cd)?;
        holds(&format!("{once} bytes were read from the front end"), once >= SIZE)?;
        is_kept(s, "n0", SIZE)?;
        let kept = sum(s, cd, "kept")?;
        is_seen(s, cd, "0", "other")?;
        let more = sum(s, cd, "kept")? - kept;
        holds(&format!("{more} bytes more are kept with the other file"), more < SIZE)?;
        restart(s, "n0")?;
        is_seen(s, cd, "0", "one")?;
        let again = read(s, cd)?;
        holds(&format!("{again} bytes were read after a restart"), again < SIZE)?;
        // Who may not read the file on the front end does not come to what the node keeps of it.
        s.ok(&format!("{cd} chmod 600 one; chmod 755 ."))?;
        s.fails(&format!("{cd} setpriv --reuid 65534 --clear-groups shoal run -n 0 -- cat one >/dev/null"), 1)?;
        Ok(())
    })
}

/// Many nodes execute a program at the same time, or read a file that another one has read: the front end sends it to few of them.
fn view_store_is_filled_by_other_nodes(place: &Place) -> Res<End> {
    let name = "view_store_is_filled_by_other_nodes";
    with(place, name, 8, |s, cd| {
        written(name, "read.py", READ)?;
        // What programs are made of is there before.
        s.ok("cd /; shoal run -n 0-7 -- sha256sum /dev/null; shoal run -n 0-7 -- cat /dev/null")?;
        s.ok(&format!("{cd} head -c {SIZE} /dev/urandom >one; cp one other; (cat $(which sha256sum); cat one) >program; chmod 755 program"))?;
        let before = read(s, cd)?;
        let expected = s.ok(&format!("{cd} sha256sum program"))?;
        let said = s.ok(&format!("{cd} shoal run -n 0-7 -- ./program program"))?;
        same("who has said the sum", said.lines().filter(|line| *line == expected.trim()).count(), 8)?;
        let program = read(s, cd)? - before;
        holds(&format!("{program} bytes of a program of {SIZE} were sent to 8 nodes"), program <= 4 * SIZE)?;
        is_seen(s, cd, "0", "one")?;
        is_kept(s, "n0", SIZE)?;
        let before = read(s, cd)?;
        is_seen(s, cd, "1-7", "one")?;
        let sent = read(s, cd)? - before;
        holds(&format!("{sent} bytes of {SIZE} were sent to the other nodes"), sent <= SIZE)?;
        Ok(())
    })
}

/// What has changed on the front end, or is damaged on the node's disk, is not what a program reads.
fn view_store_is_never_wrong(place: &Place) -> Res<End> {
    let name = "view_store_is_never_wrong";
    with(place, name, 2, |s, cd| {
        s.ok(&format!("{cd} head -c {SIZE} /dev/urandom >one"))?;
        for change in [
            "true",
            "printf x | dd of=one bs=1 seek=4000000 conv=notrunc status=none",
            // truncate(1) opens with O_NONBLOCK, and hears EAGAIN once.
            "python3 -c 'import os; os.truncate(\"one\", 4500000)'",
            "head -c 5000000 /dev/urandom >new; mv new one",
            "shoal run -n 1 -- python3 -c 'f = open(\"one\", \"r+b\"); f.seek(3000000); f.write(b\"there\")'",
        ] {
            s.ok(&format!("{cd} {change}"))?;
            is_seen(s, cd, "0-1", "one")?;
        }
        written(name, "holds.py", HOLDS)?;
        s.ok(&format!("{cd} cp one held"))?;
        is_seen(s, cd, "0", "held")?;
        let holds_it = s.start(&format!("{cd} shoal run -n 0 -- python3 holds.py"));
        s.until(&format!("{cd} test -e ready"))?;
        s.ok(&format!("{cd} printf x | dd of=held bs=1 seek=4000000 conv=notrunc status=none; touch changed"))?;
        let sum = s.ok(&format!("{cd} sha256sum <held | cut -d' ' -f1"))?;
        same("who had it open", holds_it.end()?.out.trim().to_owned(), sum.trim().to_owned())?;
        for node in ["n0", "n1"] {
            let damaged = damage(&format!("/proc/{}/root/run/shoal/store", s.machine(node)?))?;
            holds(&format!("{damaged} contents were damaged on {node}"), damaged > 0)?;
            restart(s, node)?;
        }
        is_seen(s, cd, "0-1", "one")?;
        Ok(())
    })
}
