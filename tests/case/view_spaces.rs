//! What one program sees, and others on its node do not: the front end's files where the node's own are usual, and mounts of its own.

use super::scene::{holds, same, Sandbox};
use super::{bproc, End, Scene};
use crate::lab::place::Place;
use crate::lab::session::Plan;
use crate::lab::Res;

pub(crate) const SCENES: &[Scene] = &[
    ("view_for_one_program", view_for_one_program),
    ("view_of_the_node_for_root", view_of_the_node_for_root),
    ("view_goes_along", view_goes_along),
    ("view_that_was_asked_for_ends_alone", view_that_was_asked_for_ends_alone),
    ("view_for_programs_of_bproc", view_for_programs_of_bproc),
    ("view_with_what_is_shared", view_with_what_is_shared),
    ("view_asked_for_by_root_of_a_node", view_asked_for_by_root_of_a_node),
    ("places_of_one_program", places_of_one_program),
    ("places_give_nobody_more", places_give_nobody_more),
];

const ANN: &str = "setpriv --reuid 61001 --regid 61001 --groups 61001,61900";
const BOB: &str = "setpriv --reuid 61002 --regid 61002 --clear-groups";

/// A directory that the front end has and nodes have not, in which `tell` is, with a library of its own, and `told`, which is static: both print their words and the machine,
/// and end with the first word.
const FRONT_ONLY: &str = r#"mkdir -p $D && mount -t tmpfs none $D && chmod 755 $D && cd $D || exit 1
printf 'int ends(const char *word) { return word[0] - 48; }\n' >ends.c
printf '#include <stdio.h>\n#include <unistd.h>\nint ends(const char *);\nint main(int n, char **w) { char at[99]; gethostname(at, 99); printf("%%s on %%s\\n", w[0], at); fflush(stdout); return n > 1 ? ends(w[1]) : 0; }\n' >tell.c
gcc -shared -fPIC ends.c -o libends.so && gcc tell.c -o tell -L. -lends -Wl,-rpath,$D && gcc -static tell.c ends.c -o told && ./tell 3; test $? = 3"#;

fn directory(name: &str) -> String {
    format!("/var/tmp/shoal-{name}.{}", std::process::id())
}

/// The sandbox with these settings of its nodes, and a directory that is removed at the end.
fn with(
    place: &Place,
    name: &str,
    (nodes, bare): (u32, bool),
    settings: &'static [&'static str],
    scene: impl FnOnce(&Sandbox, &str) -> Res,
) -> Res<End> {
    let s = Sandbox::with(place, name, nodes, Plan { bare, settings, ..Plan::default() })?;
    let directory = directory(name);
    let done = s.ok(&format!("mkdir -p {directory}")).and_then(|_| scene(&s, &directory));
    // What is left of it is of no use.
    let _ = std::fs::remove_dir_all(&directory);
    done.map(|()| End::Passed)
}

/// A directory of the front end's alone.
fn front_only(s: &Sandbox, d: &str) -> Res {
    s.ok(&format!("D={d}/only; {FRONT_ONLY}")).map(drop)
}

/// A program that only the front end has runs on a node that shows its own files to all others.
fn view_for_one_program(place: &Place) -> Res<End> {
    let settings = &["2:view = \"never\""];
    with(place, "view_for_one_program", (3, false), settings, |s, d| {
        front_only(s, d)?;
        let said = s.fails(&format!("cd /; shoal run -n 0 -- {d}/only/tell 4"), 127)?;
        holds(&said, said.contains("--view front") && said.contains("only/tell"))?;
        for (user, program) in [("", "tell"), ("", "told"), (ANN, "tell")] {
            let run = format!("cd /; {user} shoal run -n 0 --view front -- {d}/only/{program}");
            s.prints(&format!("{run} 4; echo $?"), &format!("{d}/only/{program} on n0\n4"))?;
        }
        // What it starts sees the same; and from its directory, by a relative name, by PATH.
        s.prints(
            &format!("cd /; shoal run -n 1 --view front -- sh -c 'sh -c \"{d}/only/tell; true\"'"),
            &format!("{d}/only/tell on n1"),
        )?;
        s.prints(&format!("cd {d}/only; {ANN} shoal run -n 1 --view front -- ./tell"), "./tell on n1")?;
        s.prints(&format!("cd /; PATH=$PATH:{d}/only shoal run -n 1 --view either -- tell"), "tell on n1")?;
        // The node's own where it has it.
        s.prints(
            "cd /; shoal run -n 1 --view either -- stat -f -c %T /; shoal run -n 1 --view front -- stat -f -c %T / ",
            &format!("{}\nfuseblk", s.ok("stat -f -c %T /")?),
        )?;
        // Neither has it.
        s.fails("cd /; shoal run -n 1 --view either -- /nonexistent/x", 127)?;
        for user in ["", ANN] {
            let said = s.fails(&format!("cd /; {user} shoal run -n 2 --view front -- true"), 125)?;
            holds(&said, said.contains("shows nobody the front end's files"))?;
        }
        s.fails(&format!("cd /; shoal run -n 2 --view either -- {d}/only/tell"), 127)?;
        // All of them at a time.
        s.prints(&format!("cd /; for i in $(seq 20); do shoal run -n $((i % 2)) --view front -- {d}/only/told & done | sort | uniq -c | awk '{{print $1}}'; wait"), "10\n10")
    })
}

/// Where the front end's files are usual only root's programs see the node's.
fn view_of_the_node_for_root(place: &Place) -> Res<End> {
    with(place, "view_of_the_node_for_root", (1, true), &[], |s, _| {
        s.prints("cd /; shoal run -n 0 -- stat -f -c %T /", "fuseblk")?;
        s.prints("cd /; shoal run -n 0 --view front -- stat -f -c %T /", "fuseblk")?;
        // A bare node has no other program.
        s.fails("cd /; shoal run -n 0 --view node -- sh -c true", 127)?;
        s.prints("cd /; shoal run -n 0 --view node -- $(which shoal) nodes | grep -c '^n0 .*up'", "1")?;
        let said = s.fails(&format!("cd /; {ANN} shoal run -n 0 --view node -- $(which shoal) nodes"), 125)?;
        holds(&said, said.contains("only root's may see its own"))
    })
}

const SEES: &str = r"import os, sys, time
base, only, pid = sys.argv[1], sys.argv[2], os.getpid()
f = open(base + '/out', 'a')
while not os.path.exists(base + '/stop'):
    f.write('%d %d\n' % (pid, os.path.exists(only))); f.flush()
    time.sleep(0.02)
";

/// A process that moves keeps its kind of view, and what it starts then has it too.
fn view_goes_along(place: &Place) -> Res<End> {
    let settings = &["2:view = \"never\"", "3:view = \"front\""];
    with(place, "view_goes_along", (4, false), settings, |s, d| {
        front_only(s, d)?;
        s.ok(&format!("chmod 777 {d}; cat >{d}/p.py <<'E'\n{SEES}\nE"))?;
        let latest = |seen: &str| format!("tail -n 1 {d}/out | grep -q ' {seen}$'");
        for (user, view, seen) in [("", "--view front", "1"), (ANN, "--view front", "1"), (ANN, "", "0")] {
            s.ok(&format!("rm -f {d}/out {d}/stop"))?;
            let going = s.start(&format!("cd /; {user} shoal run -n 0 {view} -- python3 {d}/p.py {d} {d}/only/tell"));
            s.until(&format!("test -s {d}/out"))?;
            let pid = s.ok(&format!("head -n 1 {d}/out | cut -d' ' -f1"))?;
            for to in ["1", "0", "1"] {
                s.ok(&format!("shoal move {pid} {to}; : >{d}/out"))?;
                s.until(&latest(seen))?;
            }
            let (to, why) = if seen == "1" { ("2", "shows nobody") } else { ("3", "only processes of root's") };
            let said = s.sh(&format!("{user} shoal move {pid} {to}"))?;
            holds(&said.text(), said.code() == Some(1) && said.err.contains(why))?;
            s.prints(&format!("shoal where {pid}"), "n1")?;
            if seen == "1" {
                s.ok(&format!("shoal move {pid} 3; shoal move {pid} 0; : >{d}/out"))?;
                s.until(&latest(seen))?;
            }
            s.ok(&format!("! grep -v ' {seen}$' {d}/out; touch {d}/stop"))?;
            same("its end", going.end()?.code(), Some(0))?;
        }
        // From the front end it gets what is usual there.
        s.ok(&format!("rm -f {d}/out {d}/stop"))?;
        let going = s.start(&format!("cd /; exec python3 {d}/p.py {d} {d}/only/tell"));
        s.until(&format!("test -s {d}/out"))?;
        let pid = s.ok(&format!("head -n 1 {d}/out | cut -d' ' -f1"))?;
        for (to, seen) in [("0", "0"), ("front", "1"), ("3", "1"), ("0", "1"), ("front", "1")] {
            s.ok(&format!("shoal move {pid} {to}; : >{d}/out"))?;
            s.until(&latest(seen))?;
        }
        s.ok(&format!("touch {d}/stop"))?;
        same("its end", going.end()?.code(), Some(0))
    })
}

/// When who serves the files ends, so do those that see them; others go on, and the next program gets them again.
fn view_that_was_asked_for_ends_alone(place: &Place) -> Res<End> {
    with(place, "view_that_was_asked_for_ends_alone", (1, false), &[], |s, d| {
        front_only(s, d)?;
        let own = s.start("cd /; shoal run -n 0 -- sleep 1071; echo $?");
        let front = s.start("cd /; shoal run -n 0 --view front -- sleep 1072; echo $?");
        let bound = s.start("cd /; shoal run -n 0 --view front --tmp /mnt -- sleep 1073; echo $?");
        for command in ["sleep 1071", "sleep 1072", "sleep 1073"] {
            s.until(&format!("shoal ps | grep -q '{command}'"))?;
        }
        let view = s.all().into_iter().find(|one| one.comm == "shoal:view");
        s.kill(view.ok_or("nobody serves the view")?.pid)?;
        for (going, command) in [(front, "1072"), (bound, "1073")] {
            same(command, going.end()?.out.trim_end(), "137")?;
        }
        s.prints(&format!("cd /; shoal run -n 0 --view front -- {d}/only/told"), &format!("{d}/only/told on n0"))?;
        holds("the other goes on", own.is_going())?;
        s.ok("kill $(shoal ps | awk '/sleep 1071/ {print $1; exit}')")?;
        same("its end", own.end()?.out.trim_end(), "143")
    })
}

/// What programs of BProc execute on a node is the front end's file.
fn view_for_programs_of_bproc(place: &Place) -> Res<End> {
    with(place, "view_for_programs_of_bproc", (2, false), &[], |s, d| {
        front_only(s, d)?;
        s.ok(&format!("chmod 777 {d}"))?;
        let caller = bproc::shared(place, "front_only.c")?;
        for user in ["", ANN] {
            for program in ["tell", "told"] {
                let said = s.ok(&format!("cd /; rm -f {d}/out {d}/said; {user} {caller} {d}/only/{program} {d} >{d}/said 2>{d}/err; cat {d}/said"))?;
                let count = |text: &str, line: &str| text.lines().filter(|one| *one == line).count();
                same(&said, [count(&said, "given on n0"), count(&said, "given on n1"), count(&said, "ok")], [1, 3, 1])?;
                let out = s.ok(&format!("cat {d}/out"))?;
                same(&out, [count(&out, "given on n0"), count(&out, "given on n1")], [2, 1])?;
            }
        }
        Ok(())
    })
}

/// A directory that node and front end share otherwise is the node's own in the view.
fn view_with_what_is_shared(place: &Place) -> Res<End> {
    let settings = &["view = \"front\"", "direct = [\"/var/tmp\"]"];
    with(place, "view_with_what_is_shared", (2, false), settings, |s, d| {
        let own = s.ok("stat -f -c %T /var/tmp")?;
        s.prints("cd /; shoal run -n 0 -- stat -f -c %T / /var/tmp", &format!("fuseblk\n{own}"))?;
        s.prints(
            &format!("cd {d}; shoal run -n 0 -- sh -c 'echo there >f'; cat f; shoal run -n 1 -- cat f"),
            "there\nthere",
        )?;
        s.ok(&format!("chmod 777 {d}; cat >{d}/p.py <<'E'\n{SEES}\nE"))?;
        let going = s.start(&format!("cd {d}; {ANN} shoal run -n 0 -- python3 p.py {d} {d}/f"));
        s.until(&format!("test -s {d}/out"))?;
        let pid = s.ok(&format!("head -n 1 {d}/out | cut -d' ' -f1"))?;
        for to in ["1", "0", "front", "1"] {
            s.ok(&format!("shoal move {pid} {to}; : >{d}/out"))?;
            s.until(&format!("test -s {d}/out"))?;
        }
        s.ok(&format!("touch {d}/stop"))?;
        same("its end", going.end()?.code(), Some(0))
    })
}

/// Root of a node that is squashed is nobody on the front end, by all ways of asking; and nothing is executed that the front end would not.
fn view_asked_for_by_root_of_a_node(place: &Place) -> Res<End> {
    let settings = &["front:squash = \"0\""];
    with(place, "view_asked_for_by_root_of_a_node", (2, true), settings, |s, d| {
        s.ok(&format!("cd {d}; chmod 777 .; echo secret >s; chmod 600 s; echo group >g; chmod 640 g; echo all >a; chmod 644 a; mkdir -m 700 in; touch in/f; mkdir -m 775 gs"))?;
        let on = |node: u32, script: &str| format!("cd {d}; shoal run -n {node} -- sh -c '{script}' 2>&1");
        for script in [
            "cat s",
            "cat g",
            "echo x >>a",
            "ls in",
            "cat in/f",
            "touch in/g",
            "mkdir gs/d",
            "chmod 666 a",
            "chown 61001 a",
            "touch -d @1 a",
            "ln -s x gs/l",
            "ln a gs/h",
            "mv a gs/a",
            "rm -f in/f",
            "setfattr -n user.x -v 1 a",
            "truncate -s 0 a",
            "mknod gs/n c 1 3",
        ] {
            let said = s.sh(&on(0, script))?;
            holds(&format!("{script}: {}", said.text()), said.code() != Some(0) && !said.out.contains("secret"))?;
        }
        // By its further groups too.
        let said = s.sh(&format!("cd {d}; setpriv --reuid 61001 --regid 61001 --groups 0 shoal run -n 0 -- cat g"))?;
        holds(&said.text(), said.code() != Some(0))?;
        s.prints(&format!("cd {d}; setpriv --reuid 61001 --regid 61001 --groups 0 shoal run -n 1 -- cat g"), "group")?;
        s.prints(&on(0, "cat a; echo n >new; stat -c \"%u %g\" new"), "all\n65534 65534")?;
        s.prints(&on(1, "cat s g; ls in; mkdir gs/d; rmdir gs/d; id -u"), "secret\ngroup\nf\n0")?;
        s.prints(&format!("cd {d}; {ANN} shoal run -n 0 -- sh -c 'echo x >mine; stat -c %u mine'"), "61001")?;
        // A file system on which nothing is executed.
        s.ok(&format!("mkdir {d}/no; mount -t tmpfs -o noexec none {d}/no; cp /bin/true {d}/no/; printf '#!/bin/sh\n' >{d}/no/script; chmod 755 {d}/no {d}/no/script"))?;
        for (node, user) in [(1, ""), (0, ANN)] {
            for program in ["true", "script"] {
                let run = format!("cd /; {user} shoal run -n {node}");
                s.fails(&format!("{run} -- {d}/no/{program}"), 126)?;
                s.ok(&format!("{run} -- cp {d}/no/{program} /tmp/{program}{node}"))?;
                s.fails(&format!("{run} -- {d}/no/{program}"), 126)?;
            }
        }
        Ok(())
    })
}

/// Mounts of one program's own, in what its node shows and in the front end's files.
fn places_of_one_program(place: &Place) -> Res<End> {
    with(place, "places_of_one_program", (2, false), &["1:view = \"front\""], |s, d| {
        s.ok(&format!(
            "chmod 777 {d}; mkdir -p {d}/a/b {d}/to; echo one >{d}/a/f; echo two >{d}/g; chmod -R a+rwX {d}"
        ))?;
        for (node, user) in [("0", ""), ("0", ANN), ("1", ""), ("1", ANN)] {
            let run = format!("cd {d}; {user} shoal run -n {node}");
            s.prints(&format!("{run} --bind a:to -- sh -c 'cat {d}/to/f; sh -c \"ls to\"; echo new >to/n'; cat a/n; rm a/n; ls to"), "one\nb\nf\nnew")?;
            // A file, and what an earlier one has made.
            s.prints(&format!("{run} --bind a:to --bind g:to/f -- cat to/f a/f"), "two\none")?;
            let written = "sh -c 'touch a/x b 2>&1; echo y >to/y && cat to/y; rm -f b'";
            let said = s.ok(&format!("{run} --read-only a -- {written}; rm -f to/y"))?;
            holds(&said, said.contains("a/x") && said.contains("Read-only") && said.ends_with('y'))?;
            let said =
                s.ok(&format!("{run} --read-only / -- sh -c 'touch {d}/x 2>&1; echo >/dev/null && echo null'"))?;
            holds(&said, said.contains("Read-only") && said.ends_with("null"))?;
            let id = s.ok(&format!("{user} id -u"))?;
            s.prints(
                &format!("{run} --tmp a -- sh -c 'ls -A a; touch a/x; ls a; stat -c \"%u %a\" a'; ls a"),
                &format!("x\n{id} 700\nb\nf"),
            )?;
            let nothing = if user.is_empty() { "0" } else { "1" };
            s.prints(&format!("{run} --tmp /mnt -- awk '/NoNewPrivs/ {{print $2}}' /proc/self/status"), nothing)?;
            for bad in [
                "--bind nothing:to",
                "--bind a:nothing",
                "--bind a:g",
                "--tmp g",
                "--tmp /",
                "--bind a:/",
                "--read-only nothing",
            ] {
                let said = s.fails(&format!("{run} {bad} -- true"), 125)?;
                holds(&format!("{said} names {bad}"), said.contains(bad.split(' ').next().unwrap_or_default()))?;
            }
        }
        s.fails("shoal run -n 0 --bind /a -- true", 125)?;
        // Nobody else sees it, and it goes with the last process.
        let going = s.start(&format!("cd {d}; shoal run -n 0 --tmp a -- sh -c 'touch a/mine; exec sleep 1081'"));
        s.until("shoal ps | grep -q 'sleep 1081$'")?;
        s.prints(&format!("cd {d}; shoal run -n 0 -- ls a; ls a"), "b\nf\nb\nf")?;
        let pid = s.ok("shoal ps | awk '/ sleep 1081$/ {print $1; exit}'")?;
        let said = s.sh(&format!("shoal move {pid} 1"))?;
        holds(&said.text(), said.code() == Some(1) && said.err.contains("namespace of its own"))?;
        s.ok(&format!("kill {pid}"))?;
        going.end().map(drop)
    })
}

/// A user who composes what a program sees comes to nothing that was not theirs before.
fn places_give_nobody_more(place: &Place) -> Res<End> {
    with(place, "places_give_nobody_more", (2, false), &["1:view = \"front\""], |s, d| {
        s.ok(&format!("chmod 777 {d}; mkdir -m 700 {d}/roots {d}/bobs {d}/anns; mkdir {d}/roots/in {d}/to; echo secret >{d}/roots/s; chmod 644 {d}/roots/s; \
             echo bobs >{d}/bobs/s; chown -R 61002:61002 {d}/bobs; chown -R 61001:61001 {d}/anns {d}/to; touch {d}/t; chmod 666 {d}/t"))?;
        s.ok(&format!("cp $(which id) {d}/setid; chmod 4755 {d}/setid; gcc -x c - -o {d}/reads <<'E'\n#include <stdio.h>\nint main(void) {{ char l[99]; FILE *f = fopen(\"/etc/passwd\", \"r\"); fgets(l, 99, f); printf(\"%s\", l); return 0; }}\nE\nchmod 4755 {d}/reads"))?;
        s.ok(&format!("{ANN} sh -c 'cd {d}/anns; ln -s ../roots/s link; ln -s ../bobs bob; ln -s /proc/self/root proc; echo mine >own; echo ann:x:0:0::/:/bin/sh >passwd'"))?;
        for node in ["0", "1"] {
            let run = format!("cd {d}; {ANN} shoal run -n {node}");
            let refused = |option: &str, why: &str| {
                let said = s.fails(&format!("{run} {option} -- cat t"), 125)?;
                holds(&format!("{option}: {said}"), said.contains(why))
            };
            for from in ["roots/s", "roots/in", "anns/link", "bobs/s", "anns/bob/s"] {
                refused(&format!("--bind {from}:t"), "Permission denied")?;
            }
            for to in ["roots/s", "anns/link", "bobs/s"] {
                refused(&format!("--bind anns/own:{to}"), "Permission denied")?;
                refused(&format!("--read-only {to}"), "Permission denied")?;
            }
            refused("--tmp roots/in", "Permission denied")?;
            // By what others have open or see, nor by what this node's daemon does.
            for from in [
                "/proc/1/root",
                "/proc/self/root",
                "/proc/self/cwd",
                "/proc/1/cwd",
                "/proc/1/fd/0",
                "/proc/self/fd/1",
                "anns/proc",
            ] {
                let said = s.fails(&format!("{run} --bind {from}:to -- ls to"), 125)?;
                holds(
                    &format!("{from}: {said}"),
                    said.contains("Permission denied") || said.contains("symbolic links"),
                )?;
            }
            // A directory that it may not read, on the way of nothing, is as unreadable as it was.
            let said = s.sh(&format!("{run} --bind roots:to -- ls to"))?;
            holds(&said.text(), said.code() == Some(2) && said.err.contains("Permission denied"))?;
            // Programs with rights of others have none where mounts may lie.
            s.prints(&format!("{run} -- {d}/setid -u; {run} --tmp /mnt -- {d}/setid -u"), "0\n61001")?;
            s.prints(&format!("{run} --bind anns/passwd:/etc/passwd -- sh -c '{d}/reads; {d}/setid -u; grep -c . /etc/passwd'; {run} -- {d}/reads | cut -d: -f1"), "ann:x:0:0::/:/bin/sh\n61001\n1\nroot")?;
            // What is read-only stays so, for who makes namespaces of their own too.
            s.fails(&format!("{run} --read-only to -- unshare -Urm sh -c 'mount -o remount,bind,rw {d}/to 2>/dev/null; umount {d}/to 2>/dev/null; echo >to/x' 2>&1 | grep -v '^$' >&2; exit 3"), 3)?;
            s.ok(&format!("test ! -e {d}/to/x"))?;
            // The daemon's own places are a program's own to cover, and nobody else's.
            for at in ["/proc", "/run", "/dev", "/etc", "/tmp", "/sys"] {
                s.ok(&format!("{run} --tmp {at} -- true || {run} --tmp {at} -- /bin/true"))?;
                s.prints(&format!("cd /; shoal run -n {node} -- sh -c 'test -e /proc/self/status && test -e /etc/passwd && echo there'"), "there")?;
            }
            s.ok(&format!("{run} --bind anns/own:/run/shoal/shoal.sock -- sh -c '! shoal nodes 2>/dev/null'"))?;
            s.prints(&format!("cd /; {BOB} shoal run -n {node} -- sh -c 'shoal where $$'"), &format!("n{node}"))?;
            // A name is exchanged while it is looked up.
            let swaps = format!(
                "{ANN} sh -c 'cd {d}/anns; while test ! -e over; do ln -sfn own l; ln -sfn ../roots/s l; done'"
            );
            let going = s.start(&swaps);
            s.until(&format!("test -L {d}/anns/l"))?;
            let said =
                s.ok(&format!("for i in $(seq 40); do {run} --bind anns/l:t -- cat t 2>/dev/null; done; true"))?;
            s.ok(&format!("{ANN} touch {d}/anns/over"))?;
            going.end()?;
            s.ok(&format!("rm {d}/anns/over {d}/anns/l"))?;
            holds(&said, !said.contains("secret"))?;
        }
        Ok(())
    })
}
