//! `bpsh` and `bpcp`, with the options and the statuses that scripts written for BProc expect.

use super::scene::{holds, same, Sandbox};
use super::{End, Scene};
use crate::lab::place::Place;
use crate::lab::Res;

pub(crate) const SCENES: &[Scene] = &[
    ("bpsh_on_nodes", bpsh_on_nodes),
    ("bpsh_shows_output", bpsh_shows_output),
    ("bpsh_tells_ends", bpsh_tells_ends),
    ("bpsh_on_a_hundred", bpsh_on_a_hundred),
    ("bpcp_copies", bpcp_copies),
    ("bpcp_trees", bpcp_trees),
    ("bpcp_large", bpcp_large),
    ("bpcp_faults", bpcp_faults),
];

const CALLERS: [&str; 2] = ["", "shoal run -n 0 -- "];

fn bpsh_on_nodes(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "bpsh_on_nodes", 4)?;
    for caller in CALLERS {
        for (nodes, names) in [
            ("3", "n3"),
            ("n3", "n3"),
            (".3", "n3"),
            ("0-1,3", "n0 n1 n3"),
            ("2-", "n2 n3"),
            ("all", "n0 n1 n2 n3"),
            ("up", "n0 n1 n2 n3"),
            ("-a", "n0 n1 n2 n3"),
            ("-A", "n0 n1 n2 n3"),
            ("-U 1,2", "n1 n2"),
        ] {
            s.prints(&format!("{caller}bpsh {nodes} uname -n | sort | xargs"), names)?;
        }
    }
    s.prints("bpsh master uname -n; bpsh -- -1 uname -n", "front\nfront")?;
    for (words, why) in [
        ("9 true", "there is no node n9"),
        ("0-9 true", "there is no node n4"),
        ("down true", "no node is of these"),
        ("0,,1 true", "it is empty"),
        ("0", "no command is given"),
    ] {
        let said = s.fails(&format!("bpsh {words}"), 125)?;
        holds(&said, said.contains(why))?;
    }
    s.prints("echo in | bpsh 1 cat; echo in | bpsh -n 1 cat; echo in | bpsh -N 1 cat", "in")?;
    s.prints("echo in | bpsh 0-3 cat | xargs", "in in in in")?;
    let file = "/run/of-the-node";
    s.prints(&format!("bpsh -a -O {file} uname -n; bpsh -a -I {file} cat | sort | xargs"), "n0 n1 n2 n3")?;
    s.prints(&format!("bpsh -E {file} 1 sh -c 'echo e >&2'; bpsh 1 cat {file}"), "e")?;
    s.fails("bpsh -I /run/nothing 1 cat", 2)?;
    Ok(End::Passed)
}

fn bpsh_shows_output(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "bpsh_shows_output", 4)?;
    let dash = "-".repeat(70);
    for caller in CALLERS {
        s.prints(&format!("{caller}bpsh -a -p uname -n | sort"), "0: n0\n1: n1\n2: n2\n3: n3")?;
        // The first ends last.
        let slow = "sh -c 'test $(hostname) = n1 || sleep 0.5; echo a; echo b; hostname'";
        s.prints(&format!("{caller}bpsh -s 1-3 {slow} | xargs"), "a b n1 a b n2 a b n3")?;
        let slow = "sh -c 'test $(hostname) = n2 || sleep 0.5; hostname'";
        s.prints(
            &format!("{caller}bpsh -d 1-3 {slow}"),
            &format!("1    {dash}\nn1\n2    {dash}\nn2\n3    {dash}\nn3"),
        )?;
        // More than a daemon or a relay keeps, of all, though only one has its turn.
        let much = "sh -c 'test $(hostname) != n1 || sleep 0.5; yes $(hostname) | head -n 500000'";
        s.prints(
            &format!("{caller}bpsh -s 1-3 {much} | uniq -c | awk '{{print $1, $2}}'"),
            "500000 n1\n500000 n2\n500000 n3",
        )?;
    }
    Ok(End::Passed)
}

fn bpsh_tells_ends(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "bpsh_tells_ends", 4)?;
    let ends = "sh -c 'case $(hostname) in n0) exit 0 ;; n3) kill -9 $$ ;; *) exit 4 ;; esac'";
    for caller in CALLERS {
        s.prints(&format!("{caller}bpsh 0 false; echo $?; {caller}bpsh 0 true; echo $?"), "1\n0")?;
        let all = format!("{caller}bpsh 0-3 {ends} 2>&1; echo $?");
        s.prints(&all, "bpsh: n1-2: exit 4\nbpsh: n3: killed by SIGKILL\n137")?;
        let all = format!("{caller}bpsh -S 0-2 {ends} 2>&1; echo $?");
        s.prints(&all, "bpsh: n0: exit 0\nbpsh: n1-2: exit 4\n4")?;
        s.prints(&format!("{caller}bpsh -a true 2>&1"), "")?;
    }
    Ok(End::Passed)
}

/// Long lines of a hundred nodes, written in pieces at the same time: each line is one node's.
fn bpsh_on_a_hundred(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "bpsh_on_a_hundred", 100)?;
    s.prints("bpsh -a hostname | sort -u | wc -l", "100")?;
    let pieces = "for i in 1 2 3 4 5; do for j in 1 2 3 4; do printf %s. $(hostname); done; echo; done";
    let whole = "awk '{n = split($0, part, \".\"); for (i = 2; i < n; i++) if (part[i] != part[1]) exit 1; if (n != 5) exit 1; print part[1]}'";
    s.prints(&format!("bpsh -a sh -c '{pieces}' | {whole} | sort | uniq -c | awk '{{print $1}}' | uniq -c | awk '{{print $1, $2}}'"), "100 5")?;
    let fails = "sh -c 'test $(hostname) != n57 || exit 3; test $(hostname) != n58 || exit 3'";
    s.prints(&format!("bpsh -a {fails} 2>&1; echo $?"), "bpsh: n57-58: exit 3\n3")?;
    Ok(End::Passed)
}

/// Each machine's /run is its own.
fn bpcp_copies(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "bpcp_copies", 3)?;
    s.ok("cd /run; seq 100000 > a; echo b > b; chmod 750 a; chmod 4711 b; touch -d '2001-02-03 04:05:06.789 UTC' a b; mkdir d")?;
    s.ok("cd /run; bpcp a n1:/run/x && bpcp -p a b n1:/run")?;
    s.prints("bpsh 1 sh -c 'cd /run; cmp x a && stat -c \"%a\" x'", "750")?;
    let like = "stat -c '%a %Y' a b | xargs";
    let home = s.ok(&format!("cd /run; {like}"))?;
    s.prints(&format!("bpsh 1 sh -c \"cd /run; {like}\""), &home)?;
    // Back, under the same name, into a directory; and from node to node.
    s.ok("bpcp -p n1:/run/a .1:/run/b /run/d && cmp /run/a /run/d/a")?;
    s.prints(&format!("cd /run/d; {like}"), &home)?;
    s.ok("bpcp n1:/run/a n2:/run/from-n1 && bpsh 2 cat /run/from-n1 | cmp - /run/a")?;
    // Relative to the caller's directory, also on a node, and from there.
    s.ok("cd /usr/share; bpcp -r ../../run/b n2:../../run/c && shoal run -n 2 bpcp /run/c n1:/run/c2 && bpsh 1 cat /run/c2")?;
    s.prints("shoal run -n 2 bpcp -1:/run/b /run/no 2>&1 | grep -c .", "1")?;
    // A file of the machine itself, which all see here, is what it was.
    let shared = place.fresh("shared").display().to_string();
    s.ok(&format!("seq 1000 > {shared}; bpcp {shared} n1:{shared} && seq 1000 | cmp - {shared}"))?;
    let user = "setpriv --reuid 61001 --regid 61001 --clear-groups";
    s.prints(
        &format!(
            "chmod 755 /run/a; {user} bpcp -p /run/a n1:/dev/shm/theirs && bpsh 1 stat -c '%u %a' /dev/shm/theirs"
        ),
        "61001 755",
    )?;
    Ok(End::Passed)
}

fn bpcp_trees(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "bpcp_trees", 2)?;
    s.ok("cd /run; mkdir -p 't/e m/p' t/closed; echo x > \"t/new
line\"; echo y > 't/ b '; ln -s ../nowhere t/link; ln -s e\\ m t/to; echo z > 't/e m/p/z'; chmod 500 t/closed; \
         printf bytes > \"$(printf 't/\\377')\"; touch -d '1969-01-01 UTC' t/closed")?;
    // Names, links, kinds, modes and times of all, and what is in files.
    s.ok(
        "printf '%s\\n' 'cd \"$1\" || exit; find . -type l -printf \"%P|%l\\\\0\" -o -printf \"%P|%y|%m|%T@\\\\0\" | LC_ALL=C sort -z | cat -v; find . -type f -print0 | LC_ALL=C sort -z | xargs -0 cat' \
         > /dev/shm/list; bpcp /dev/shm/list n1:/dev/shm/list",
    )?;
    let home = s.ok("bash /dev/shm/list /run/t")?;
    for copy in ["bpcp -rp t n1:/run/new", "bpcp -rp t/. n1:/run/new"] {
        s.ok(&format!("cd /run; {copy}"))?;
        s.prints("bpsh 1 bash /dev/shm/list /run/new", &home)?;
    }
    s.ok("cd /run; bpsh 1 mkdir /run/in; bpcp -rp t n1:/run/in")?;
    s.prints("bpsh 1 bash /dev/shm/list /run/in/t", &home)?;
    // From node to node, and back.
    s.ok("bpcp -rp n1:/run/new n0:/run/t2 && bpcp -rp n0:/run/t2 /run/back")?;
    s.prints("bash /dev/shm/list /run/back", &home)?;
    // Without -p what is new has the modes that the umask leaves, and new times.
    s.ok("cd /run; chmod 777 t/new*; umask 027; bpcp -r t n1:/run/plain")?;
    s.prints(
        "bpsh 1 sh -c 'stat -c %a /run/plain/new*; find /run/plain/closed -newermt 2020-01-01 | wc -l'",
        "750\n1",
    )?;
    Ok(End::Passed)
}

fn bpcp_large(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "bpcp_large", 2)?;
    let file = place.fresh("large").display().to_string();
    let copy = place.fresh("copy").display().to_string();
    s.ok(&format!("head -c 1000000000 /dev/zero | tr '\\0' 'x' > {file}; echo end >> {file}"))?;
    let done = s.ok(&format!("bpcp {file} n1:{copy} && cmp {file} {copy}; e=$?; rm -f {file} {copy}; exit $e"));
    done.map(|_| End::Passed)
}

fn bpcp_faults(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "bpcp_faults", 3)?;
    s.ok(
        "cd /run; echo a > a; echo b > b; mkdir -p d/in; echo c > d/in/c; mkfifo d/pipe; bpsh 1 mkdir -p /run/d/in/c",
    )?;
    // What can be copied is, and each fault is told of.
    let told = s.sh("cd /run; bpcp a missing b n2:/run; echo $?")?;
    same("status", told.out.trim(), "1")?;
    same("fault", told.err.trim(), "bpcp: missing: read: No such file or directory (os error 2)")?;
    s.prints("bpsh 2 cat /run/a /run/b", "a\nb")?;
    for (words, why) in [
        ("/run/d n1:/run/e", "bpcp: /run/d: is a directory (-r copies it)"),
        ("/run/a /run/b n1:/run/none", "bpcp: n1:/run/none is no directory"),
        ("n1:/run/none /run", "bpcp: n1:/run/none: read: No such file or directory (os error 2)"),
        ("/run/a n1:/proc/none", "bpcp: n1:/proc/none: write: No such file or directory (os error 2)"),
        ("/run/a n1:/run/none/a", "bpcp: n1:/run/none/a: write: No such file or directory (os error 2)"),
    ] {
        same(words, s.fails(&format!("bpcp {words}"), 1)?.as_str(), why)?;
    }
    let told = s.sh("bpcp -r /run/d n1:/run; echo $?")?;
    same("status", told.out.trim(), "1")?;
    holds(&told.err, told.err.contains("bpcp: /run/d/pipe: is no file, directory or symbolic link"))?;
    holds(&told.err, told.err.contains("bpcp: n1:/run/d/in/c: write: is a directory"))?;
    for words in ["/run/a n9:/run", "/run/a nobody:/run"] {
        s.fails(&format!("bpcp {words}"), 1)?;
    }
    let devices =
        "bpcp /dev/zero n1:/run/zeros; bpcp n1:/dev/zero /run/zeros; mkfifo /run/fifo; bpcp /run/fifo n1:/run";
    same("devices and pipes are refused", s.sh(devices)?.code(), Some(1))?;
    // Killed on the way, it leaves no half of a file, and no process.
    for signal in ["TERM", "KILL"] {
        s.ok(&format!(
            "truncate -s 100G /run/huge; bpcp /run/huge n1:/run/huge & p=$!; sleep 1; \
             bpsh 1 sh -c 'ls -A /run | grep -q ^.bpcp' || exit 9; kill -{signal} $p; wait $p; exit 0"
        ))?;
        s.until("test \"$(shoal ps --json)\" = '[]'")?;
        s.prints("bpsh 1 sh -c 'ls -A /run | grep -e huge -e ^.bpcp; echo none'", "none")?;
    }
    Ok(End::Passed)
}
