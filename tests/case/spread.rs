//! `bpcp` onto several nodes: the stream goes along a tree of them.

use super::scene::{holds, same, Sandbox};
use super::{End, Scene};
use crate::lab::place::Place;
use crate::lab::Res;

pub(crate) const SCENES: &[Scene] = &[
    ("spread_to_many", spread_to_many),
    ("spread_past_the_dead", spread_past_the_dead),
    ("spread_past_a_lost_node", spread_past_a_lost_node),
    ("spread_ends_with_who_asked", spread_ends_with_who_asked),
];

const ANN: &str = "setpriv --reuid 61001 --regid 61001 --clear-groups";
/// The processes on the nodes: PID and node.
const TAKERS: &str = "shoal ps | awk '/--passes-on/ {print $1, $2}'";

/// A file of 200 MB that all machines see.
fn big(s: &Sandbox, place: &Place) -> Res<String> {
    let file = place.fresh("big").display().to_string();
    s.ok(&format!("head -c 200000000 /dev/urandom >{file}"))?;
    Ok(file)
}

/// A tree of files, a file for all, one for one, with rights and faults as for a single node.
fn spread_to_many(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "spread_to_many", 6)?;
    s.ok("mkdir -p /run/from/sub/empty; cd /run/from; seq 200000 >sub/many; : >none; ln -s sub/many link; printf x >'odd\nname'; chmod 750 sub; chmod 4755 none; touch -d 2001-02-03 none")?;
    let shown = s.ok("cd /run; bpcp --show -rp from 0-5:/run/to | sort")?;
    let nodes: String = shown.lines().filter_map(|line| line.split_once(" from ")).map(|(node, _)| node).collect();
    same(&shown, nodes.as_str(), "n0n1n2n3n4n5")?;
    holds("it goes on from nodes", shown.matches("this machine").count() < 3)?;
    let listed = "find . ! -type d -printf '%P %y %m %U %l %s %TY\\n' | sort; find . -type d -printf '%P %m\\n' | sort; find . -type f -print0 | sort -z | xargs -0 md5sum";
    s.ok(&format!("(cd /run/from; {listed}) >/dev/shm/list; for n in 0 1 2 3 4 5; do (bpsh $n sh -c \"cd /run/to; {listed}\") | cmp - /dev/shm/list || exit 1; done"))?;
    // Little goes from here to each.
    s.prints(
        "echo little >/run/little; cd /; bpcp --show run/little 1-3,5:/run | sort",
        "n1 from this machine\nn2 from this machine\nn3 from this machine\nn5 from this machine",
    )?;
    s.prints("bpsh -p 1-3,5 cat /run/little | sort", "1: little\n2: little\n3: little\n5: little")?;
    // From a node, to states of nodes, by a node.
    s.ok("bpcp n4:/run/to/sub/many up:/dev/shm/many4; bpsh -a cat /dev/shm/many4 | sort -n | uniq -c | awk '$1 != 6 {exit 1}'")?;
    s.ok("shoal run -n 2 bpcp /run/to/sub/many 3-5:/run/by-2; shoal run -n 5 cmp /run/by-2 /run/to/sub/many")?;
    // A user's, where the user may.
    s.ok(&format!("cd /run/from; {ANN} bpcp sub/many 0-2:/dev/shm/anns 2>/dev/null; chmod 755 sub; {ANN} bpcp sub/many 0-2:/dev/shm/anns && cd / && bpsh 1 stat -c %u /dev/shm/anns | grep -qx 61001"))?;
    let refused = s.sh(&format!("cd /run/from; {ANN} bpcp sub/many 0-2:/root/x"))?;
    same(&refused.text(), refused.code(), Some(1))?;
    same("each node says why", refused.err.matches("ermission denied").count(), 3)?;
    // Files that cannot be copied are told, and the others are copied.
    s.ok("bpsh -a mkdir /run/partly; cd /run/from; ! bpcp nothing none 0-5:/run/partly 2>/dev/null && cd / && bpsh -a test -e /run/partly/none")?;
    for bad in [
        "a 0-2:/run/x 3:/run/x",
        "a nobody:/x",
        "a 0-9:/x",
        "a 0-3,master:/x",
        "n1:/run/little n2:/run/little 3-5:/run/x",
    ] {
        s.ok(&format!("cd /run/from; ! timeout 10 bpcp {bad} 2>/dev/null"))?;
    }
    s.until("! shoal ps | grep -q passes-on")?;
    Ok(End::Passed)
}

/// Nodes behind a process that is killed, and behind one that hangs, have the file from others; nobody has half of it.
fn spread_past_the_dead(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "spread_past_the_dead", 6)?;
    let big = big(&s, place)?;
    s.ok("echo old >/run/old; bpcp /run/old 0-5:/run/big")?;
    let going = s.start(&format!("bpcp --show {big} 0-5:/run/big"));
    s.until(&format!("test $({TAKERS} | wc -l) = 6"))?;
    s.ok(&format!("{TAKERS} | while read pid node; do test $node = n1 && kill -9 $pid; test $node = n3 && kill -STOP $pid; done; true"))?;
    s.until(&format!("(for n in 0 2 4 5; do bpsh $n cmp -s {big} /run/big || exit 1; done)"))?;
    s.prints("bpsh 1 cat /run/big; bpsh 3 cat /run/big", "old\nold")?;
    holds("the one that hangs is waited for", going.is_going())?;
    s.ok(&format!("{TAKERS} | while read pid node; do test $node = n3 && kill -9 $pid; done; true"))?;
    let end = going.end()?;
    same(&end.text(), end.code(), Some(1))?;
    for node in ["n1", "n3"] {
        holds("it is named", end.err.contains(&format!("bpcp: {node}: ended with status 137")))?;
    }
    same("it came past both", end.out.contains("n2 from n0") && end.out.contains("n4 from n2"), true)?;
    s.prints("for n in 0 1 2 3 4 5; do bpsh $n sh -c 'ls -A /run | grep -c bpcp'; done; true", "0\n0\n0\n0\n0\n0")?;
    Ok(End::Passed)
}

/// A node that is lost.
fn spread_past_a_lost_node(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "spread_past_a_lost_node", 4)?;
    let big = big(&s, place)?;
    let going = s.start(&format!("bpcp {big} 0-3:/run/big"));
    s.until(&format!("test $({TAKERS} | wc -l) = 4"))?;
    s.ok("shoal fault n1 kill")?;
    let end = going.end()?;
    same(&end.text(), end.code(), Some(1))?;
    holds("it is named", end.err.contains("n1"))?;
    s.ok(&format!("for n in 0 2 3; do bpsh $n cmp {big} /run/big || exit 1; done"))?;
    Ok(End::Passed)
}

/// Ctrl-C, and a kill of the command alone, leave nothing on any node.
fn spread_ends_with_who_asked(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "spread_ends_with_who_asked", 4)?;
    let big = big(&s, place)?;
    for signal in ["INT", "KILL"] {
        let going = s.start(&format!("exec bpcp {big} 0-3:/run/big"));
        s.until(&format!("test $({TAKERS} | wc -l) = 4"))?;
        s.ok(&format!("kill -{signal} $(pgrep -o bpcp)"))?;
        going.end()?;
        s.until("! shoal ps | grep -q passes-on && ! pgrep -x bpcp")?;
        s.ok("! bpsh -a ls -A /run | grep -e big -e bpcp")?;
    }
    Ok(End::Passed)
}
