//! The node files of BProc, and its commands for nodes.

use super::scene::{holds, same, Sandbox};
use super::{End, Scene};
use crate::lab::place::Place;
use crate::lab::{Doing, Res};

pub(crate) const SCENES: &[Scene] = &[
    ("node_files_are_what_nodes_are", node_files_are_what_nodes_are),
    ("node_files_give_nobody_more", node_files_give_nobody_more),
    ("node_files_go_with_their_daemon", node_files_go_with_their_daemon),
    ("bpstat_and_bpctl", bpstat_and_bpctl),
];

const ANN: &str = "setpriv --reuid 61001 --regid 61001 --groups 61001,61005";
const BOB: &str = "setpriv --reuid 61002 --regid 61002 --clear-groups";
const FILES: &str = "/run/shoal/bpfs";

/// Waits until `status` can be read, and says what has changed.
const POLLS: &str = r#"
import os, select, sys
fd = os.open(sys.argv[1] + "/status", os.O_RDONLY)
before = os.read(fd, 65536).decode().splitlines()
poll = select.poll()
poll.register(fd, select.POLLIN)
print(len(poll.poll(300)), flush=True)
for _ in range(int(sys.argv[2])):
    assert poll.poll(20_000), "nothing has changed"
    os.lseek(fd, 0, os.SEEK_SET)
    now = os.read(fd, 65536).decode().splitlines()
    print(*(line for line in now if line not in before), sep=",", flush=True)
    before = now
"#;

/// The files are there on every machine; a change by way of one is seen at once by way of all.
fn node_files_are_what_nodes_are(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "node_files_are_what_nodes_are", 2)?;
    s.prints("echo $BPFS_PATH", FILES)?;
    s.until(&format!("test -e {FILES}/1 && shoal run -n 0 test -e {FILES}/1"))?;
    s.prints(&format!("ls -a {FILES} | LC_ALL=C sort | xargs"), "-1 . .. 0 1 self status")?;
    s.prints(&format!("readlink {FILES}/self; shoal run -n 1 readlink {FILES}/self"), "-1\n1")?;
    s.prints(&format!("stat -Lc '%a %u %g' {FILES}/self {FILES}/1 | uniq"), "111 0 0")?;
    let (here, there) = (|words: &str| s.ok(words), |words: &str| s.ok(&format!("shoal run -n 0 sh -c \"{words}\"")));
    let is = "stat -c '%a %u %g'";
    here(&format!("chown 61001:61005 {FILES}/1; chmod 110 {FILES}/1"))?;
    same("on a node", there(&format!("{is} {FILES}/1"))?.as_str(), "110 61001 61005")?;
    there(&format!("chgrp 61002 {FILES}/1; chmod o+x {FILES}/1"))?;
    same("here", here(&format!("{is} {FILES}/1"))?.as_str(), "111 61001 61002")?;
    s.prints("shoal nodes | awk '$1 == \"n1\" {print $9, $10, $11}'", "61001 61002 0111")?;
    // Attributes.
    let value =
        |name: &str| s.ok(&format!("python3 -c 'import os; print(os.getxattr(\"{FILES}/1\", \"{name}\").decode())'"));
    same("state", value("bproc.state")?.as_str(), "up")?;
    holds("address", value("bproc.addr")?.starts_with("10.77.1.2:"))?;
    s.ok(&format!("python3 -c 'import os; os.setxattr(\"{FILES}/1\", \"bproc.rack\", b\"seven\"); os.setxattr(\"{FILES}/1\", \"bproc.state\", b\"drained\")'"))?;
    let listed = "import os; print(*sorted(os.listxattr(\"/run/shoal/bpfs/1\")))";
    s.prints(&format!("shoal run -n 0 python3 -c '{listed}'"), "bproc.addr bproc.rack bproc.state")?;
    s.prints("shoal nodes | awk '$1 == \"n1\" {print $2}'", "drained")?;
    s.ok(&format!("python3 -c 'import os; os.removexattr(\"{FILES}/1\", \"bproc.rack\"); os.setxattr(\"{FILES}/1\", \"bproc.state\", b\"up\")'"))?;
    s.prints(&format!("python3 -c '{listed}'"), "bproc.addr bproc.state")?;
    // access(2) tells who may go there.
    s.ok(&format!("chmod 100 {FILES}/1; {ANN} test -x {FILES}/1 && ! {BOB} test -x {FILES}/1 && test -x {FILES}/1"))?;
    // poll(2), here and on a node.
    let polls = place.fresh("polls.py");
    std::fs::write(&polls, POLLS).doing("write a program")?;
    let polls = polls.display();
    let told = place.fresh("told").display().to_string();
    let both = format!(
        "python3 {polls} {FILES} 2 >{told}.front & shoal run -n 0 python3 {polls} {FILES} 2 </dev/null >{told}.node &
        until test -s {told}.front && test -s {told}.node; do sleep 0.05; done
        shoal node-state 1 drained; until test $(cat {told}.* | grep -c drained) = 2; do sleep 0.05; done
        chmod 001 {FILES}/1; wait; cat {told}.front {told}.node | sed 's/ [^ ]*$//'"
    );
    let one = "0\n1 drained 0100 61001 61002\n1 drained 0001 61001 61002";
    s.prints(&both, &format!("{one}\n{one}"))?;
    Ok(End::Passed)
}

/// No call sets what may not be set, and nobody waits for whoever is in the way.
fn node_files_give_nobody_more(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "node_files_give_nobody_more", 2)?;
    s.until(&format!("test -e {FILES}/1"))?;
    s.ok("shoal node-set 1 --user 61001 --mode 0110")?;
    let is = format!("stat -c '%a %u %g' {FILES}/0 {FILES}/1 | xargs");
    let set = |name: &str| format!("python3 -c 'import os; os.setxattr(\"{FILES}/1\", \"{name}\", b\"x\")'");
    // Ann's group goes to one of hers, also to the further one; nothing else does.
    s.ok(&format!(
        "{ANN} chgrp 61005 {FILES}/1; {ANN} chmod 100 {FILES}/1; {ANN} {}; {ANN} chown 61001 {FILES}/1",
        set("rack")
    ))?;
    s.prints(&is, "111 0 0 100 61001 61005")?;
    for (who, what) in [
        (ANN, format!("chgrp 61002 {FILES}/1")),
        (ANN, format!("chown 61002 {FILES}/1")),
        (ANN, format!("chmod 111 {FILES}/0")),
        (ANN, set("bproc.state")),
        (ANN, set("bproc.x")),
        (BOB, format!("chmod 111 {FILES}/1")),
        (BOB, set("rack")),
        (BOB, format!("chown 61002 {FILES}/0")),
        (BOB, format!("touch {FILES}/1")),
        (BOB, format!("rm -f {FILES}/1")),
        (BOB, format!("sh -c 'echo x >{FILES}/status'")),
        ("", format!("mkdir {FILES}/new")),
        ("", format!("chmod 111 {FILES}/7")),
        ("", format!("touch {FILES}/new")),
        ("", set("bproc.addr")),
        // Root of a namespace of users is still who made that.
        (BOB, format!("unshare -Ur chmod 111 {FILES}/1")),
        (BOB, format!("unshare -Ur chown 0 {FILES}/1")),
    ] {
        s.prints(&format!("{who} {what} 2>/dev/null; test $? != 0 && echo refused"), "refused")?;
    }
    s.prints(&is, "111 0 0 100 61001 61005")?;
    s.prints(&format!("{ANN} unshare -Ur chmod 110 {FILES}/1; {is}"), "111 0 0 110 61001 61005")?;
    // Ann can stop and kill the process that asks in her name: others do not wait for it, and she is answered.
    let storm =
        format!("timeout 20 {ANN} bash -c 'for i in $(seq 60); do chmod 110 {FILES}/1; chmod 100 {FILES}/1; done; :'");
    let kills = format!(
        "timeout 20 {ANN} bash -c 'for i in $(seq 300); do pkill -KILL -u 61001 -x shoal:bpfs; sleep 0.01; done; :'"
    );
    s.ok(&format!("{kills} & {storm} 2>/dev/null; for i in $(seq 20); do timeout 5 stat {FILES}/0 >/dev/null || exit 1; done; wait"))?;
    s.ok(&format!("timeout 5 {ANN} chmod 111 {FILES}/1"))?;
    s.prints(&is, "111 0 0 111 61001 61005")?;
    Ok(End::Passed)
}

/// Whatever ends them, they are there again, and nothing is left of them when their daemon is not.
fn node_files_go_with_their_daemon(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "node_files_go_with_their_daemon", 1)?;
    let there = format!("timeout 5 stat {FILES}/0 >/dev/null 2>&1");
    s.until(&there)?;
    s.ok("shoal fault front kill-daemon")?;
    s.until(&format!("! grep -q ' {FILES} ' /proc/self/mountinfo && ! pgrep -x shoal:bpfs"))?;
    s.ok("shoal fault front start-daemon")?;
    s.until(&there)?;
    // The one that serves, which is the child of the other.
    s.ok("pkill -KILL -n -x shoal:bpfs")?;
    s.until(&there)?;
    Ok(End::Passed)
}

fn bpstat_and_bpctl(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "bpstat_and_bpctl", 4)?;
    let heading = "Node(s)                        Status       Mode       User       Group";
    s.prints("bpstat", &format!("{heading}\n0-3                            up           ---x--x--x root       root"))?;
    s.ok("bpctl -S 1,3 -u nobody -g nogroup -m 0110 && bpctl -S n2 -s drained && bpctl -M -m 0111")?;
    let table = format!(
        "{heading}
0                              up           ---x--x--x root       root
1                              up           ---x--x--- nobody     nogroup
2                              drained      ---x--x--x root       root
3                              up           ---x--x--- nobody     nogroup"
    );
    s.prints("bpstat", &table)?;
    s.prints("shoal bpstat -c", &table)?;
    s.prints("shoal run -n 3 bpstat", &table)?;
    s.prints("bpstat -n; bpstat -t; bpstat -n allup; bpstat -t !up", "3\n4\n3\n1")?;
    s.prints("bpstat -s 1-2; bpstat -A 0", "1\tup\n2\tdrained\n0\t10.77.1.1")?;
    s.prints("bpstat -l 1 master | awk '{print $1, $2, $3}'", "Node Address Status\n-1 10.77.0.1 up\n1 10.77.1.2 up")?;
    s.prints("bpstat -1 | tail -1 | cut -c1-5", "-1")?;
    // Processes, and the column for ps.
    let going = s.start("shoal run -n 3 sleep 1065");
    s.until("test $(shoal ps | grep -c 'sleep 1065') = 1")?;
    s.prints(
        "bpstat -p | awk -v p=$(pgrep -x sleep) 'NR == 1 || $1 == p {print $1 == p ? \"it\" : $1, $2}'",
        "PID Node\nit 3",
    )?;
    s.prints("ps -e -o pid,comm | bpstat -P | awk '/sleep/ || NR == 1 {print $1, NF}'", "NODE 3\n3 3")?;
    s.ok("pkill -x sleep")?;
    going.end()?;
    s.ok("bpctl -S notup -s up")?;
    s.prints("bpstat -n", "4")?;
    for bad in ["bpctl -S 9 -m 0111", "bpctl -S 0 -s down", "bpctl -S 0", "bpstat 9", "bpctl -S 0-9999999999 -m 0"] {
        s.fails(bad, 1)?;
    }
    s.fails("bpctl -S 0 -u nobody-such", 2)?;
    // As long as nobody wants more: a table each time that it is another.
    let told = place.fresh("told").display().to_string();
    s.prints(&format!("timeout 20 bpstat -U 0 >{told} & until test -s {told}; do sleep 0.05; done; bpctl -S 0 -s drained; until grep -q drained {told}; do sleep 0.05; done; kill %1; grep -c Node {told}"), "2")?;
    Ok(End::Passed)
}
