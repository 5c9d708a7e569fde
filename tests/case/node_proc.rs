//! A node whose programs all see the whole space in /proc (`proc = true` of [node]).

use super::scene::{holds, same, Going, Sandbox};
use super::{End, Scene};
use crate::lab::place::Place;
use crate::lab::Res;

pub(super) const SCENES: &[Scene] = &[
    ("node_proc_shows_the_space", node_proc_shows_the_space),
    ("node_proc_moves", node_proc_moves),
    ("node_proc_when_its_server_ends", node_proc_when_its_server_ends),
];

/// Two nodes that are so, and a program on node 1, with its number.
fn begin(place: &Place, name: &str, command: &str) -> Res<(Sandbox, Going, String)> {
    let s = Sandbox::new(place, name, 2)?;
    for n in ["0", "1"] {
        s.ok(&format!("shoal run -n {n} sed -i 's/^.node.$/&\\nproc = true/' /run/shoal/shoal.toml"))?;
        s.ok(&format!("shoal fault n{n} kill-daemon && shoal fault n{n} start-daemon"))?;
    }
    s.until("test $(shoal nodes | grep -cw up) = 2")?;
    let going = s.start(&format!("shoal run -n 1 {command}"));
    s.until(&format!("shoal ps | grep -q '{command}'"))?;
    let p = s.ok(&format!("shoal ps | awk '/{command}/ {{print $1}}'"))?.trim().to_string();
    for n in ["0", "1"] {
        s.until(&format!("shoal run -n {n} grep -q ' /proc fuse ' /proc/self/mounts"))?;
    }
    Ok((s, going, p))
}

/// Whoever they are; what is on the node itself is as ever.
fn node_proc_shows_the_space(place: &Place) -> Res<End> {
    let (s, going, p) = begin(place, "node_proc_shows_the_space", "sleep 1131")?;
    let user = "setpriv --reuid 1234 --regid 1234 --clear-groups";
    for who in ["", user] {
        let here = |line: &str| format!("shoal run -n 0 {who} sh -c '{line}'");
        s.prints(&here(&format!("ps -o args= -p {p}; pgrep -fx \"sleep 1131\"")), &format!("sleep 1131\n{p}"))?;
        s.prints(&here(&format!("grep BProcNode /proc/{p}/status; stat -c %u /proc/{p}")), "BProcNode:\t1\n0")?;
        s.prints(
            &here("test $(readlink /proc/self) != $$ && cat /proc/$$/comm; echo $(ls /proc | grep -cx $$)"),
            "sh\n1",
        )?;
        s.prints(
            &here("exec 7</dev/null; readlink /proc/self/fd/7 /proc/$$/fd/7; stat -f -c %T /proc/self/"),
            "/dev/null\n/dev/null\nproc",
        )?;
        let owner = if who.is_empty() { "0" } else { "1234" };
        s.prints(&here("stat -c %u /proc/$$ /proc/$$/ | xargs"), &format!("{owner} {owner}"))?;
        s.prints(&here("test -e /proc/nothing || test -e /proc/77777777 || echo none"), "none")?;
    }
    s.prints(&format!("shoal run -n 0 {user} sh -c 'cat /proc/{p}/environ 2>&1 | tail -c 18'"), "Permission denied")?;
    // What stands for a program of another node is itself what it is here, also before that begins.
    s.prints("shoal run -n 0 shoal run -n 1 echo well", "well")?;
    // One view is enough.
    s.prints(&format!("shoal run -n 0 shoal shell ps -o args= -p {p}"), "sleep 1131")?;
    // And what has ended there is not there; here a child is until it has been waited for.
    s.ok(&format!("kill {p}"))?;
    s.prints(&format!("shoal run -n 0 sh -c 'while test -e /proc/{p}; do sleep 0.02; done; echo gone'"), "gone")?;
    going.end()?;
    Ok(End::Passed)
}

/// A program finds itself in /proc wherever it is, and each node shows it as what it is there.
fn node_proc_moves(place: &Place) -> Res<End> {
    let (s, going, p) = begin(place, "node_proc_moves", "sleep 1132")?;
    let looks = "import os,sys,time\nfor line in sys.stdin:\n    own = open(\"/proc/self/stat\").read().split()[0]\n    print(own == os.readlink(\"/proc/self\") == str(os.getpid()), len(os.listdir(\"/proc/self/fd\")), os.path.exists(f\"/proc/{line.strip()}/stat\"), flush=True)\n";
    let script = format!(
        "cat >/run/shoal/looks.py <<'E'\n{looks}E
mkfifo /run/shoal/asks; shoal run -n 0 python3 -c \"$(cat /run/shoal/looks.py)\" </run/shoal/asks >/run/shoal/told & exec 9>/run/shoal/asks
told() {{ echo {p} >&9; until test $(wc -l </run/shoal/told) = $1; do sleep 0.02; done; }}
told 1; n=1; for to in 1 0 front 1; do shoal move $! $to || exit 1; n=$((n + 1)); told $n; done; exec 9>&-; wait $! && sort -u /run/shoal/told"
    );
    let told = s.ok(&script)?;
    same("each time", told.trim(), "True 4 True")?;
    let at = |n: u32| format!("shoal run -n {n} grep -sc BProcNode /proc/{p}/status; true");
    s.prints(&at(0), "1")?;
    s.prints(&at(1), "0")?;
    s.ok(&format!("shoal move {p} 0"))?;
    s.until(&format!("test \"$({})$({})\" = 01", at(0), at(1)))?;
    s.ok(&format!("kill {p}"))?;
    going.end()?;
    Ok(End::Passed)
}

/// It is killed, or hangs: programs see their node alone for a moment, the node is not lost, and what moves gets there.
fn node_proc_when_its_server_ends(place: &Place) -> Res<End> {
    let (s, going, p) = begin(place, "node_proc_when_its_server_ends", "sleep 1133")?;
    let other = s.start("shoal run -n 0 sleep 1134");
    s.until("shoal ps | grep -q 'sleep 1134'")?;
    let shows = format!("shoal run -n 0 ps -o args= -p {p}");
    for signal in ["KILL", "STOP"] {
        s.ok(&format!("shoal run -n 0 pkill -{signal} -x shoal:view"))?;
        // Who asks just then may be told that nobody answers, but does not wait for it.
        s.ok("shoal run -n 0 sh -c 'cat /proc/self/comm || true'")?;
        s.until(&format!("test \"$({shows})\" = 'sleep 1133'"))?;
    }
    s.ok("shoal run -n 0 pkill -STOP -x shoal:view")?;
    s.ok(&format!("shoal move {p} 0 && shoal move {p} 1"))?;
    s.until(&format!("test \"$({shows})\" = 'sleep 1133'"))?;
    holds("nothing was lost", other.is_going() && going.is_going())?;
    s.ok("kill $(pgrep -fx 'sleep 113[34]')")?;
    going.end()?;
    other.end()?;
    Ok(End::Passed)
}
