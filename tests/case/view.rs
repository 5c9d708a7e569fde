//! The file view: nodes that have nothing but a kernel show the front end's files.

use super::scene::{holds, same, Sandbox};
use super::{End, Scene};
use crate::lab::place::Place;
use crate::lab::session::Plan;
use crate::lab::{Doing, Res};
use std::path::{Path, PathBuf};

pub(crate) const SCENES: &[Scene] = &[
    ("view_runs_what_a_node_lacks", view_runs_what_a_node_lacks),
    ("view_is_one_file_system", view_is_one_file_system),
    ("view_keeps_nothing_that_has_changed", view_keeps_nothing_that_has_changed),
    ("view_is_locked_as_one", view_is_locked_as_one),
    ("view_with_git_and_make", view_with_git_and_make),
    ("view_with_sqlite_everywhere", view_with_sqlite_everywhere),
    ("view_has_the_users_rights", view_has_the_users_rights),
    ("view_moves_along", view_moves_along),
    ("view_of_many_files", view_of_many_files),
    ("view_outlives_the_daemon_and_a_cut", view_outlives_the_daemon_and_a_cut),
    ("view_lets_go_of_a_lost_node", view_lets_go_of_a_lost_node),
    ("view_under_many_writers", view_under_many_writers),
];

const ANN: &str = "setpriv --reuid 61001 --regid 61001 --groups 61001,61900";
const BOB: &str = "setpriv --reuid 61002 --regid 61002 --clear-groups";

/// Counts into a file until it is to stop.
const COUNTS: &str = r"import os, time
f = open('out', 'a')
i = 0
while not os.path.exists('stop'):
    i += 1
    f.write(f'{i} {os.getpid()}\n'); f.flush()
    time.sleep(0.01)
print('wrote', i)
";
const COUNTS_UNDER_A_LOCK: &str = r"import os, fcntl
l = open('l', 'w'); fcntl.lockf(l, fcntl.LOCK_EX)
f = open('out', 'a')
i = 0
while not os.path.exists('stop'):
    i += 1
    f.write(f'{i}\n'); f.flush()
    open('mark', 'w').write(str(i))
    assert open('mark').read() == str(i)
print('wrote', i)
";

/// Forty processes at a time append to files that all have read.
const MANY_WRITERS: &str = r"import os, sys
os.makedirs('d', exist_ok=True)
for r in range(4):
    for i in range(40):
        open(f'd/{i}', 'a').close()
        open(f'd/{i}').read()
    children = []
    for i in range(40):
        pid = os.fork()
        if pid == 0:
            with open(f'd/{i}', 'a') as f: f.write('x' * 10)
            os._exit(0)
        children.append(pid)
    for pid in children:
        assert os.waitpid(pid, 0)[1] == 0
print('all wrote')
";

/// The sandbox, and a directory of its front end, as a word that scripts begin with.
fn bare(place: &Place, name: &str, nodes: u32) -> Res<(Sandbox, String)> {
    let s = Sandbox::with(place, name, nodes, Plan { bare: true, ..Plan::default() })?;
    let base = base(name);
    std::fs::create_dir_all(&base).doing("make a directory")?;
    let text = base.display().to_string();
    s.ok(&format!("chmod 777 {text}"))?;
    Ok((s, format!("cd {text} || exit; ")))
}

fn base(name: &str) -> PathBuf {
    // Not below /tmp, which is each node's own.
    Path::new("/var/tmp").join(format!("shoal-{name}.{}", std::process::id()))
}

pub(super) fn written(name: &str, file: &str, text: &str) -> Res {
    std::fs::write(base(name).join(file), text).doing("write a script")
}

fn gone(name: &str) {
    let base = base(name);
    // What is left of it is of no use.
    let _ = std::fs::remove_dir_all(base);
}

/// A scene with its directory, which goes with it.
pub(super) fn with(place: &Place, name: &str, nodes: u32, scene: impl FnOnce(&Sandbox, &str) -> Res) -> Res<End> {
    let done = bare(place, name, nodes).and_then(|(s, cd)| scene(&s, &cd));
    gone(name);
    done.map(|()| End::Passed)
}

/// Programs, their libraries, their input and their output are the front end's; what is a machine's own is the node's.
fn view_runs_what_a_node_lacks(place: &Place) -> Res<End> {
    with(place, "view_runs_what_a_node_lacks", 2, |s, cd| {
        s.prints("cd /; shoal run -n 0 -- stat -f -c %T /", "fuseblk")?;
        s.prints(
            "cd /; shoal run -n 0 -- sh -c 'ls -d /usr/bin/env /etc/passwd; uname -n'",
            "/etc/passwd\n/usr/bin/env\nn0",
        )?;
        s.prints("cd /; shoal run -a -- python3 -c 'import json, decimal; print(json.dumps([1]))' | sort -u", "[1]")?;
        s.ok(&format!(
            "{cd} printf 'int puts(const char *);\\nint main() {{ return !puts(\"made there\"); }}\\n' >h.c"
        ))?;
        s.prints(
            &format!("{cd} shoal run -n 0 -- gcc h.c -o h && ./h && shoal run -n 1 -- ./h"),
            "made there\nmade there",
        )?;
        // Another one of the same name.
        s.ok(&format!("{cd} sed -i 's/made there/made again/' h.c; shoal run -n 1 -- gcc h.c -o h"))?;
        s.prints(&format!("{cd} shoal run -n 0 -- ./h; shoal run -n 1 -- ./h"), "made again\nmade again")?;
        s.ok("cd /; echo front >/tmp/shoal-view-own.$$; ! shoal run -n 0 -- cat /tmp/shoal-view-own.$$ 2>/dev/null; rm /tmp/shoal-view-own.$$")?;
        s.prints(
            "cd /; shoal run -n 0 -- sh -c 'echo node >/tmp/own; cat /tmp/own'; test ! -e /tmp/own && echo not here",
            "node\nnot here",
        )?;
        // A namespace of its own, with or without rights.
        s.prints(
            "cd /; shoal run -n 0 -- unshare -m sh -c 'mount --bind /etc /mnt && test -e /mnt/passwd && echo bound'",
            "bound",
        )?;
        s.prints(&format!("cd /; {BOB} shoal run -n 0 -- unshare -Urm id -u"), "0")
    })
}

/// What one does in a directory everybody sees.
fn view_is_one_file_system(place: &Place) -> Res<End> {
    with(place, "view_is_one_file_system", 2, |s, cd| {
        let on = |node: u32, script: &str| format!("{cd} shoal run -n {node} -- sh -c '{script}'");
        s.ok(&on(0, "mkdir -p a/b; echo one >a/b/f; ln a/b/f a/g; ln -s b/f a/s; mkfifo a/p; chmod 640 a/b/f; touch -d @1000000000.123456789 a/g"))?;
        let look = "stat -c \"%n %h %a %s %F %Y\" a/b/f a/g a/s | xargs; cat a/s";
        let seen = "a/b/f 2 640 4 regular file 1000000000 a/g 2 640 4 regular file 1000000000";
        for (place, text) in [("front", s.ok(&format!("{cd} {look}"))?), ("n1", s.ok(&on(1, look))?)] {
            holds(&format!("{place}: {text}"), text.starts_with(seen) && text.ends_with("one"))?;
        }
        s.prints(&format!("{cd} stat -c %y a/g | cut -d. -f2 | cut -c1-9"), "123456789")?;
        s.ok(&on(1, "mv a/b/f a/h; rm a/s; rmdir a/b"))?;
        s.prints(&format!("{cd} ls a | xargs; {}", on(0, "ls a | xargs; cat a/h")), "g h p\ng h p\none")?;
        // Appended by all at once, no line is lost or torn.
        let loops = "for i in $(seq 100); do echo \"$0 line $i\" >>log; done";
        let going = [s.start(&on(0, loops)), s.start(&on(1, loops)), s.start(&format!("{cd} sh -c '{loops}'"))];
        for one in going {
            same("its end", one.end()?.code(), Some(0))?;
        }
        s.prints(&format!("{cd} grep -c '^sh line [0-9]*$' log; {}", on(1, "wc -l <log")), "300\n300")?;
        // Of several that make it exclusively one does.
        s.ok(&on(0, "set -C; : >only"))?;
        s.ok(&on(1, "set -C; ! (echo >only) 2>/dev/null"))?;
        s.prints(&on(0, "cat /proc/self/mountinfo | cut -d\" \" -f5 | head -1; df / | wc -l"), "/\n2")?;
        let set = "import os; os.setxattr('a/h', 'user.a', b'b')";
        s.ok(&format!("{cd} shoal run -n 1 -- python3 -c \"{set}\""))?;
        let get = "import os; print(os.listxattr('a/h'), os.getxattr('a/h', 'user.a'))";
        s.prints(
            &format!("{cd} python3 -c \"{get}\"; shoal run -n 0 -- python3 -c \"{get}\""),
            "['user.a'] b'b'\n['user.a'] b'b'",
        )?;
        // A file that is deleted lives as long as it is open.
        s.prints(&on(0, "exec 3<a/h; rm a/h a/g; cat <&3; ls a"), "one\np")?;
        s.prints(&on(0, "truncate -s 5G big; fallocate -l 1M small; cp --reflink=never small copy; stat -c %s big small copy | xargs; rm big"), "5368709120 1048576 1048576")
    })
}

/// What a node keeps it drops before somebody sees something else.
fn view_keeps_nothing_that_has_changed(place: &Place) -> Res<End> {
    with(place, "view_keeps_nothing_that_has_changed", 2, |s, cd| {
        // A reader on the node: for each line of its input, what is in the file, its size and mode, and which names there are.
        let script = "import os, sys\nfor line in sys.stdin:\n    st = os.stat('f')\n    names = [n for n in ('f', 'g', 'h') if os.path.exists(n)]\n    print(open('f').read().strip(), st.st_size, oct(st.st_mode & 0o777), *names, flush=True)\n";
        s.ok(&format!("{cd} printf '%s' \"{script}\" >reader.py"))?;
        let driver = r#"
import os, subprocess, sys, time
readers = [subprocess.Popen(["shoal", "run", "-n", str(n), "--", "python3", "reader.py"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for n in (0, 1)]
def seen():
    for r in readers:
        r.stdin.write("?\n"); r.stdin.flush()
    return [r.stdout.readline().strip() for r in readers]
def expect(text):
    until = time.time() + 2
    while (got := seen()) != [text, text]:
        assert time.time() < until, (got, text)
open("f", "w").write("0")
os.chmod("f", 0o644)
for i in range(60):
    open("f", "w").write(str(i))
    mode = 0o600 + i % 8
    os.chmod("f", mode)
    for name in ("g", "h"):
        if (i >> (name == "h")) & 1 and not os.path.exists(name): open(name, "w").close()
        if not (i >> (name == "h")) & 1 and os.path.exists(name): os.unlink(name)
    names = ["f"] + [n for n in ("g", "h") if os.path.exists(n)]
    # Names and attributes follow soon.
    expect(" ".join([str(i), str(len(str(i))), oct(mode)] + names))
    # Content follows at once, also where it is replaced, and written by a mapping.
    with open("f", "r+") as f: f.write("x")
    text = "x" + str(i)[1:]
    for r in readers:
        r.stdin.write("?\n"); r.stdin.flush()
        assert r.stdout.readline().split()[0] == text
    with open("n", "w") as f: f.write(f"new {i}")
    os.rename("n", "f")
    until = time.time() + 2
    while not all(line.startswith(f"new {i} ") for line in seen()):
        assert time.time() < until, i
    os.chmod("f", 0o644)
for r in readers:
    r.stdin.close()
    assert r.wait() == 0
print("all seen")
"#;
        let path = place.fresh("driver.py");
        std::fs::write(&path, driver).doing("write a script")?;
        s.prints(&format!("{cd} python3 {}", path.display()), "all seen")
    })
}

/// Locks of processes on several machines are in each other's way, and go with who has them.
fn view_is_locked_as_one(place: &Place) -> Res<End> {
    with(place, "view_is_locked_as_one", 2, |s, cd| {
        let hold = |how: &str| {
            format!("{cd} shoal run -n 0 -- python3 -c 'import fcntl, sys, time; f = open(\"l\", \"a\"); fcntl.{how}(f, fcntl.LOCK_EX); open(\"held\", \"w\"); time.sleep(60)'")
        };
        for how in ["flock", "lockf"] {
            let holder = s.start(&hold(how));
            s.until(&format!("{cd} test -e held"))?;
            let tries = format!("python3 -c 'import fcntl; f = open(\"l\", \"a\"); fcntl.{how}(f, fcntl.LOCK_EX | fcntl.LOCK_NB)' 2>&1 | tail -1 | cut -d: -f1");
            s.prints(
                &format!("{cd} {tries}; shoal run -n 1 -- sh -c '{}'", tries.replace('\'', "'\\''")),
                "BlockingIOError\nBlockingIOError",
            )?;
            // One that waits gets it when the holder is killed; and one that waits can be killed.
            let waits = format!("{cd} shoal run -n 1 -- python3 -c 'import fcntl; f = open(\"l\", \"a\"); fcntl.{how}(f, fcntl.LOCK_EX); print(\"got\")'");
            let (one, other) =
                (s.start(&waits), s.start(&format!("{cd} timeout -s KILL 1 {}; echo $?", &waits[cd.len()..])));
            same("who is killed as it waits", other.end()?.out.trim_end().ends_with("137"), true)?;
            holds("the other waits", one.is_going())?;
            s.ok("kill -9 $(shoal ps | awk '/time.sleep/ {print $1; exit}')")?;
            same("who has waited", one.end()?.out.trim(), "got")?;
            holder.end()?;
            s.ok(&format!("{cd} rm held"))?;
        }
        // Who may only read a program does not keep others from executing it.
        let reads = "import fcntl, time; f = open('prog', 'rb'); fcntl.lockf(f, fcntl.LOCK_SH); open('has', 'w'); time.sleep(60)";
        let reader = s.start(&format!("{cd} cp /bin/echo prog; shoal run -n 0 -- python3 -c \"{reads}\""));
        s.until(&format!("{cd} test -e has"))?;
        s.prints(&format!("{cd} ./prog runs; shoal run -n 1 -- ./prog there"), "runs\nthere")?;
        s.ok("kill -9 $(shoal ps | awk '/time.sleep/ {print $1; exit}')")?;
        reader.end()?;
        // Read-only, by a handle that the node's kernel opens by itself the second time.
        s.ok(&format!("{cd} : >r; shoal run -n 0 -- sh -c 'cat r; exec 3<r; flock -x 3; flock -n -x r true && exit 1; exec 3<&-; flock -n -x r true'"))?;
        Ok(())
    })
}

/// A repository in which the front end and nodes work, and a build on a node.
fn view_with_git_and_make(place: &Place) -> Res<End> {
    with(place, "view_with_git_and_make", 2, |s, cd| {
        s.ok(&format!("{cd} git init -q r && cd r && git config user.email a@b && git config user.name a && for i in $(seq 30); do echo $i >f$i; done && git add -A && git commit -qm one"))?;
        s.ok(&format!("{cd} cd r; for i in 1 2 3; do for n in 0 1; do shoal run -n $n -- sh -c \"echo $i.$n >>f$i; git commit -qam n$n.$i\" || exit 1; done; echo $i >>g; git add g; git commit -qm front.$i || exit 1; done"))?;
        s.prints(
            &format!("{cd} cd r; git log --oneline | wc -l; git fsck 2>&1; shoal run -n 0 -- git status --short"),
            "10",
        )?;
        s.prints(&format!("{cd} shoal run -n 1 -- git clone -q r c; diff -r -x .git r c && ls c | wc -l"), "31")?;
        s.ok(&format!("{cd} mkdir m; cd m; for i in $(seq 12); do echo \"int f$i(void) {{ return $i; }}\" >f$i.c; done; (for i in $(seq 12); do echo \"int f$i(void);\"; done; echo 'int main() {{ int s = 0;'; for i in $(seq 12); do echo \"s += f$i();\"; done; echo 'return s; }}') >main.c; printf 'p: $(patsubst %%.c,%%.o,$(wildcard *.c))\\n\\tcc -o $@ $^\\n' >Makefile"))?;
        s.prints(&format!("{cd} cd m; shoal run -n 0 -- make -sj4; ./p; echo $?; shoal run -n 1 -- make -s; shoal run -n 1 -- make -q && echo up to date"), "78\nup to date")?;
        s.prints(&format!("{cd} shoal run -n 0 -- tar cf t.tar r m; tar tf t.tar | wc -l; mkdir x; shoal run -n 1 -- tar xf t.tar -C x; diff -r r x/r && diff -r m x/m && echo same"), &format!("{}\nsame", s.ok(&format!("{cd} find r m | wc -l"))?))
    })
}

/// One database that processes of two nodes and of the front end change at the same time.
fn view_with_sqlite_everywhere(place: &Place) -> Res<End> {
    with(place, "view_with_sqlite_everywhere", 2, |s, cd| {
        let script = "import sqlite3, sys\nc = sqlite3.connect('d.db', timeout=60, isolation_level=None)\nfor i in range(40):\n    c.execute('begin immediate')\n    n = c.execute('select n from t').fetchone()[0]\n    c.execute('update t set n = ?', (n + 1,))\n    c.execute('insert into l values (?, ?)', (sys.argv[1], i))\n    c.execute('commit')\n";
        s.ok(&format!("{cd} printf '%s' \"{script}\" >w.py; python3 -c \"import sqlite3; c = sqlite3.connect('d.db'); c.execute('create table t(n)'); c.execute('create table l(w, i)'); c.execute('insert into t values (0)'); c.commit()\""))?;
        let going = [
            s.start(&format!("{cd} shoal run -n 0 -- python3 w.py a")),
            s.start(&format!("{cd} shoal run -n 1 -- python3 w.py b")),
            s.start(&format!("{cd} python3 w.py c")),
        ];
        for one in going {
            let end = one.end()?;
            same(&end.text(), end.code(), Some(0))?;
        }
        let look = "python3 -c \"import sqlite3; c = sqlite3.connect('d.db'); print(c.execute('select n from t').fetchone()[0], c.execute('select count(distinct w || i) from l').fetchone()[0], c.execute('pragma integrity_check').fetchone()[0])\"";
        s.prints(&format!("{cd} {look}; shoal run -n 1 -- {look}"), "120 120 ok\n120 120 ok")
    })
}

/// A user may do what they could do on the front end, and no more.
fn view_has_the_users_rights(place: &Place) -> Res<End> {
    with(place, "view_has_the_users_rights", 1, |s, cd| {
        let at = |who: &str, script: &str| format!("{cd} {who} shoal run -n 0 -- sh -c '{script}' 2>&1");
        s.ok(&format!("{cd} mkdir -m 700 own; echo secret >own/f; chmod 644 own/f; echo group >g; chown 0:61900 g; chmod 460 g; cp /usr/bin/id setid; chown 61001 setid; chmod 4755 setid; mkdir -m 1777 sticky; touch sticky/roots"))?;
        s.prints(&at(BOB, "cat own/f; cat g; rm sticky/roots; chown 61002 g; chmod 666 g; echo x >g; mknod d b 8 0; ln -s /etc/shadow sh; cat sh; true"), &s.ok(&format!("{cd} rm -f sh; {BOB} sh -c 'cat own/f; cat g; rm sticky/roots; chown 61002 g; chmod 666 g; echo x >g; mknod d b 8 0; ln -s /etc/shadow sh; cat sh; true' 2>&1; rm -f sh"))?)?;
        // By a group that only the process has.
        s.prints(&at(ANN, "cat g; echo more >>g; tail -1 g; id -u"), "group\nmore\n61001")?;
        s.prints(
            &at(
                "setpriv --reuid 61003 --regid 61003 --groups 61900",
                "cat g 2>/dev/null | head -1; echo z >>g; tail -1 g",
            ),
            "group\nz",
        )?;
        s.prints(&at(BOB, "./setid -u; umask 077; touch mine; stat -c \"%u %g %a\" mine"), "61001\n61002 61002 600")?;
        s.prints(&format!("{cd} stat -c '%u %g %a' mine"), "61002 61002 600")?;
        // Who writes a set-user-ID program takes that bit away.
        s.prints(&format!("{cd} cp /usr/bin/id w; chmod 4777 w; {}; stat -c %a w", at(BOB, "echo >>w")), "777")?;
        // A program that may be executed and not read.
        s.prints(
            &format!("{cd} cp /usr/bin/id x; chmod 711 x; {}", at(BOB, "./x -u; cat x >/dev/null; true")),
            "61002\ncat: x: Permission denied",
        )?;
        // Nor is a set-user-ID program one where the front end has said that there are none.
        s.ok(&format!("{cd} mkdir m; mount -t tmpfs -o nosuid,mode=777 none m; cp /usr/bin/id m/s; chmod 4755 m/s"))?;
        s.prints(&at(BOB, "m/s -u; stat -c %a m/s"), "61002\n755")?;
        // What was looked at by root is not open to others.
        s.ok("cd /; shoal run -n 0 -- cat /etc/shadow >/dev/null")?;
        s.prints(&at(BOB, "cat /etc/shadow; true"), "cat: /etc/shadow: Permission denied")?;
        // Nothing of the front end's processes comes by its files.
        s.ok(&at("", "unshare -m sh -c \"umount -l /proc; ls /proc; test ! -e /proc/1 && test ! -e /proc/self\""))?;
        Ok(())
    })
}

/// A process moves among bare nodes and the front end with what it has open.
fn view_moves_along(place: &Place) -> Res<End> {
    with(place, "view_moves_along", 2, |s, cd| {
        written("view_moves_along", "p.py", COUNTS)?;
        let going = s.start(&format!("{cd} {ANN} shoal run -n 0 -- python3 p.py"));
        s.until(&format!("{cd} test -s out"))?;
        let pid = s.ok(&format!("{cd} tail -1 out | cut -d' ' -f2"))?;
        for to in ["1", "0", "1"] {
            s.ok(&format!("shoal move {pid} {to}; sleep 0.1"))?;
            s.prints(&format!("shoal where {pid}"), &format!("n{to}"))?;
        }
        s.ok(&format!("{cd} touch stop"))?;
        let end = going.end()?;
        let count =
            s.ok(&format!("{cd} rm stop; awk '$1 != NR || $2 != {pid} {{print \"gap\", $0}}' out; wc -l <out"))?;
        same("what it says at its end", end.out.trim(), format!("wrote {count}").as_str())?;
        // From the front end, and back.
        let going = s.start(&format!("{cd} rm out; exec {ANN} python3 p.py"));
        s.until(&format!("{cd} test -s out"))?;
        let pid = s.ok(&format!("{cd} tail -1 out | cut -d' ' -f2"))?;
        for to in ["0", "1", "front"] {
            s.ok(&format!("shoal move {pid} {to}; sleep 0.1"))?;
        }
        s.ok(&format!("{cd} touch stop"))?;
        let end = going.end()?;
        let count = s.ok(&format!("{cd} awk '$1 != NR {{print \"gap\", $0}}' out; wc -l <out"))?;
        same("what it says at its end", end.out.trim(), format!("wrote {count}").as_str())
    })
}

/// More files than the server may have open.
fn view_of_many_files(place: &Place) -> Res<End> {
    with(place, "view_of_many_files", 1, |s, cd| {
        let make = "import os\nfor d in range(25):\n    os.mkdir(f'd{d}')\n    for i in range(500):\n        open(f'd{d}/{i}', 'w').write(str(i))\n";
        s.ok(&format!("{cd} printf \"{make}\" >m.py; python3 m.py"))?;
        for _ in 0..2 {
            s.prints(&format!("{cd} shoal run -n 0 -- find . -name '[0-9]*' -type f -printf '%s\\n' | awk '{{n++; s += $1}} END {{print n, s}}'"), "12500 34750")?;
        }
        s.prints(
            &format!(
                "{cd} shoal run -n 0 -- sh -c 'cat d*/499 | wc -c; rm -r d2*; ls -d d* | wc -l'; ls -d d* | wc -l"
            ),
            "75\n19\n19",
        )
    })
}

/// A daemon that is killed and started again, and a link that is cut for less than the agreed time, lose nothing.
fn view_outlives_the_daemon_and_a_cut(place: &Place) -> Res<End> {
    with(place, "view_outlives_the_daemon_and_a_cut", 1, |s, cd| {
        written("view_outlives_the_daemon_and_a_cut", "p.py", COUNTS_UNDER_A_LOCK)?;
        let going = s.start(&format!("{cd} shoal run -n 0 -- python3 p.py"));
        s.until(&format!("{cd} test -s out"))?;
        for _ in 0..3 {
            s.ok("shoal fault front kill-daemon; sleep 0.3; shoal fault front start-daemon; until shoal nodes | grep -q '^n0 .*up'; do sleep 0.05; done")?;
            s.ok("shoal fault n0 silent; sleep 0.6; shoal fault n0 heard; sleep 2")?;
            s.ok("shoal fault n0 link-down; sleep 0.5; shoal fault n0 link-up; sleep 2")?;
        }
        holds("it goes on", going.is_going())?;
        let locked = s.sh(&format!(
            "{cd} python3 -c 'import fcntl; fcntl.lockf(open(\"l\", \"w\"), fcntl.LOCK_EX | fcntl.LOCK_NB)'"
        ))?;
        same("its lock is there", locked.code(), Some(1))?;
        s.ok(&format!("{cd} touch stop"))?;
        let end = going.end()?;
        let count = s.ok(&format!("{cd} awk '$1 != NR {{print \"gap\", $0}}' out; wc -l <out"))?;
        same(&end.text(), end.out.trim(), format!("wrote {count}").as_str())
    })
}

/// A node that is gone has nothing locked and keeps nobody waiting.
fn view_lets_go_of_a_lost_node(place: &Place) -> Res<End> {
    with(place, "view_lets_go_of_a_lost_node", 2, |s, cd| {
        s.ok(&format!("{cd} echo kept >k"))?;
        let hold = "python3 -c 'import fcntl, time; f = open(\"l\", \"a\"); fcntl.lockf(f, fcntl.LOCK_EX); open(\"k\").read(); open(\"held\", \"w\"); time.sleep(60)'";
        let holder = s.start(&format!("{cd} shoal run -n 0 -- {hold}; echo $?"));
        s.until(&format!("{cd} test -e held"))?;
        s.ok("shoal fault n0 kill")?;
        // Whoever writes what the node kept waits no longer than the agreed time.
        s.ok(&format!("{cd} timeout 12 sh -c 'echo new >k'"))?;
        s.ok(&format!("{cd} timeout 12 flock -x l true; timeout 12 python3 -c 'import fcntl; fcntl.lockf(open(\"l\", \"a\"), fcntl.LOCK_EX)'"))?;
        same("who was there", holder.end()?.out.trim_end().ends_with("137"), true)?;
        s.ok("shoal fault n0 boot; shoal fault n0 start-daemon; until shoal nodes | grep -q '^n0 .*up'; do sleep 0.1; done")?;
        s.prints(&format!("{cd} shoal run -n 0 -- cat k"), "new")?;
        // And one whose view has ended is a node again.
        let lost = s.start(&format!("{cd} shoal run -n 1 -- sleep 1099; echo $?"));
        s.until("shoal ps | grep -q 'sleep 1099'")?;
        // Its parent starts another.
        s.ok("p=$(ps -eo pid,ppid,args | awk '$4 == \"view-server\" {at[$1] = $2} END {for (pid in at) if (at[pid] in at) print pid}'); test -n \"$p\" && kill -9 $p")?;
        same("it ends with its files", lost.end()?.out.trim_end().ends_with("137"), true)?;
        s.until("cd /; shoal run -n 1 -- cat /etc/hostname >/dev/null")?;
        Ok(())
    })
}

/// More processes open files for writing at a moment than any number of threads serves, all of which the nodes keep; and what was done by another name of a file is seen.
fn view_under_many_writers(place: &Place) -> Res<End> {
    with(place, "view_under_many_writers", 2, |s, cd| {
        written("view_under_many_writers", "w.py", MANY_WRITERS)?;
        let going = [0, 1].map(|n| s.start(&format!("{cd} shoal run -n {n} -- python3 w.py {n}")));
        for one in going {
            let end = one.end()?;
            same(&end.text(), end.out.trim(), "all wrote")?;
        }
        s.prints(&format!("{cd} cat d/* | wc -c"), "3200")?;
        s.ok(&format!("{cd} mkdir a b; echo one >a/f; shoal run -n 0 -- ls -l a/f; ln a/f b/g; seq 1000 >>b/g; chmod 600 b/g; sleep 1.1"))?;
        s.prints(
            &format!("{cd} shoal run -n 0 -- sh -c 'stat -c \"%s %a %h\" a/f; cat a/f | wc -c'"),
            "3897 600 2\n3897",
        )
    })
}
