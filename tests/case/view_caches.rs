//! Caches of the nodes: nothing in them is stale, and nothing that is known is asked again.

use super::scene::{holds, same, Sandbox};
use super::view::{with, written};
use super::{End, Scene};
use crate::lab::place::Place;
use crate::lab::Res;

pub(crate) const SCENES: &[Scene] = &[
    ("view_shows_nothing_stale", view_shows_nothing_stale),
    ("view_shows_nothing_stale_after_cuts", view_shows_nothing_stale_after_cuts),
    ("view_sees_other_names_of_a_file", view_sees_other_names_of_a_file),
    ("view_sees_extended_attributes", view_sees_extended_attributes),
    ("view_asks_little", view_asks_little),
];

/// What there is below a directory, as a line. Each side says it for itself.
const STATE: &str = r"import os, json, stat
def state():
    found = {}
    for at, names, files in os.walk('.'):
        for name in sorted(names + files):
            path = os.path.join(at, name)
            st = os.lstat(path)
            one = [stat.S_IFMT(st.st_mode), oct(st.st_mode & 0o7777), st.st_nlink, st.st_mtime_ns]
            if stat.S_ISREG(st.st_mode):
                one += [st.st_size, open(path).read(), sorted((key, os.getxattr(path, key).hex()) for key in os.listxattr(path))]
            if stat.S_ISLNK(st.st_mode):
                one += [os.readlink(path)]
            found[path] = one
    there = [name for name in ('f', 'g', 'h', 's', 'd/x', 'e/x', 'd/y/z', 'nothing') if os.path.lexists(name)]
    return json.dumps([found, there])
def content():
    return open('f').read()
";

/// For each line of its input, what the line says to do, and then what it has to say.
const WORKER: &str = r"import sys
exec(open('../state.py').read())
for line in sys.stdin:
    try:
        print(eval(line), flush=True)
    except Exception as e:
        print('raised', repr(e), flush=True)
";

/// The front end and two nodes change a tree in turn, and each says what it sees after each change.
const DRIVER: &str = r"import random, subprocess, sys, time
exec(open('../state.py').read())
class Node:
    def __init__(self, n):
        command = ['shoal', 'run', '-n', str(n), '--', 'python3', '../worker.py']
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    def do(self, text):
        self.process.stdin.write(text + '\n'); self.process.stdin.flush()
        return self.process.stdout.readline().rstrip('\n')
class Front:
    def do(self, text):
        return str(eval(text))
nodes = [Node(0), Node(1)]
everybody = nodes + [Front()]
dice = random.Random(int(sys.argv[1]))
def put(name, text):
    with open(name, 'w') as f: f.write(text)
put('f', 'first')
n = 0
def change():
    global n
    n += 1
    text = f'text {n} ' * dice.randrange(1, 4)
    put = lambda name: f'(lambda f: (f.write({text!r}), f.close()))(open({name!r}, {{}}))'
    kinds = [
        (text, put('f').format(repr('w'))),
        (None, put('f').format(repr('a'))),
        (None, f'os.truncate(\'f\', {dice.randrange(1, 6)})'),
        (None, f'os.chmod(\'f\', {0o600 + n % 64 })'),
        (text, '(' + put('n').format(repr('w')) + ', os.rename(\'n\', \'f\'))'),
        (None, 'os.unlink(\'g\') if os.path.exists(\'g\') else os.link(\'f\', \'g\')'),
        (None, f'os.chmod(\'g\', {0o600 + n % 64 }) if os.path.exists(\'g\') else None'),
        (None, 'os.unlink(\'s\') if os.path.lexists(\'s\') else os.symlink(\'to\' + str(' + str(n) + '), \'s\')'),
        (None, '(os.unlink(\'d/x\'), os.rmdir(\'d\')) if os.path.exists(\'d/x\') else (os.makedirs(\'d\', exist_ok=True), ' + put('d/x').format(repr('w')) + ')'),
        (None, 'os.rename(\'d\', \'e\') if os.path.exists(\'d\') and not os.path.exists(\'e\') else None'),
        (None, '(os.unlink(\'e/x\'), os.rmdir(\'e\')) if os.path.exists(\'e/x\') else None'),
        (None, f'os.utime(\'f\', ns=({n}, {n}))'),
        (None, f'os.setxattr(\'f\', \'user.k{n % 3}\', b\'v\')'),
        (None, '(os.makedirs(\'d/y/z\'), os.rmdir(\'d/y/z\'), os.rmdir(\'d/y\'))' if n % 2 else 'os.path.exists(\'d/y/z\')'),
    ]
    return dice.choice(kinds)
cuts = sys.argv[3] == 'cuts'
for round in range(int(sys.argv[2])):
    if cuts and dice.randrange(12) == 0:
        # In the middle of what comes next.
        node, breaks = dice.choice([('n0', ('silent', 'heard')), ('n1', ('link-down', 'link-up'))])
        subprocess.Popen(['sh', '-c', f'sleep 0.0{dice.randrange(5)}; shoal fault {node} {breaks[0]}; sleep 0.{dice.randrange(10)}; shoal fault {node} {breaks[1]}'])
    who = dice.randrange(3)
    text, what = change()
    said = everybody[who].do(what)
    # Content at once, by a name that has led there before.
    if text is not None and 'rename' not in what and not said.startswith('raised'):
        for node in nodes:
            got = node.do('content()')
            assert got == text.rstrip('\n'), (round, who, what, got)
    # Names and attributes soon.
    until = time.time() + (12 if cuts else 3)
    while True:
        wanted = state()
        seen = [node.do('state()') for node in nodes]
        if seen == [wanted, wanted]: break
        assert time.time() < until, (round, who, what, said, wanted, seen)
for node in nodes:
    node.process.stdin.close()
    assert node.process.wait() == 0
print('nothing stale')
";

/// How many requests have come from a node, of all kinds that somebody waits for.
const ASKED: &str = r"import json, subprocess, sys
status = json.loads(subprocess.run(['shoal', 'view', '--json'], stdout=subprocess.PIPE, check=True).stdout)
silent = {'forget', 'batch_forget', 'release', 'releasedir'}
print(sum(count for kind, count in status['nodes'][0]['by_kind'].items() if kind not in silent))
";

/// Programs on two nodes look at a tree that the front end and they change in turn; whatever is changed, and by whom, each sees what there is.
fn view_shows_nothing_stale(place: &Place) -> Res<End> {
    let name = "view_shows_nothing_stale";
    with(place, name, 2, |s, cd| {
        for (file, text) in [("state.py", STATE), ("worker.py", WORKER), ("driver.py", DRIVER)] {
            written(name, file, text)?;
        }
        for seed in [1, 2] {
            let ran = s.sh(&format!("{cd} rm -rf t; mkdir t; cd t; python3 ../driver.py {seed} 150 '' 2>&1"))?;
            same(&ran.text(), ran.out.trim(), "nothing stale")?;
        }
        Ok(())
    })
}

/// The same while links are cut for less than the agreed time: nothing is lost, and nothing is done twice.
fn view_shows_nothing_stale_after_cuts(place: &Place) -> Res<End> {
    let name = "view_shows_nothing_stale_after_cuts";
    with(place, name, 2, |s, cd| {
        for (file, text) in [("state.py", STATE), ("worker.py", WORKER), ("driver.py", DRIVER)] {
            written(name, file, text)?;
        }
        let seeds = 3..5;
        for seed in seeds {
            let ran =
                s.sh(&format!("{cd} rm -rf t; mkdir t; cd t; timeout 100 python3 ../driver.py {seed} 80 cuts 2>&1"))?;
            same(&ran.text(), ran.out.trim(), "nothing stale")?;
        }
        Ok(())
    })
}

/// Extended attributes are there the first time that a node hears of a file, and capabilities of a program have the effect there that they can have.
fn view_sees_extended_attributes(place: &Place) -> Res<End> {
    with(place, "view_sees_extended_attributes", 1, |s, cd| {
        let value = "python3 -c 'import os; print(os.getxattr(\"f\", \"user.a\").decode())'";
        s.ok(&format!(
            "{cd} chmod 755 .; echo one >f; python3 -c 'import os; os.setxattr(\"f\", \"user.a\", b\"v\")'"
        ))?;
        s.prints(&format!("{cd} shoal run -n 0 -- {value}"), "v")?;
        // CAP_NET_RAW, version 2, effective.
        let capability = "b\"\\x01\\0\\0\\x02\\0\\x20\" + bytes(14)";
        let set = format!("import os; os.setxattr(\"reads\", \"security.capability\", {capability})");
        s.ok(&format!("{cd} cp /bin/cat reads; python3 -c '{set}'"))?;
        s.prints(
            &format!(
                "{cd} setpriv --reuid 1234 --clear-groups shoal run -n 0 -- ./reads /proc/self/status | grep CapEff"
            ),
            "CapEff:\t0000000000002000",
        )?;
        Ok(())
    })
}

/// Attributes of a file that a node has read count for long: what is done by another name of it, in a directory that no node knows, is seen all the same.
fn view_sees_other_names_of_a_file(place: &Place) -> Res<End> {
    with(place, "view_sees_other_names_of_a_file", 1, |s, cd| {
        let look = "shoal run -n 0 -- sh -c 'cat a/f >/dev/null; stat -c \"%a %h\" a/f'";
        s.ok(&format!("{cd} mkdir a b; echo one >a/f; chmod 640 a/f; {look}; {look}"))?;
        for (change, seen) in [("ln a/f b/g", "640 2"), ("chmod 600 b/g", "600 2"), ("rm b/g", "600 1")] {
            s.ok(&format!("{cd} {change}"))?;
            s.until(&format!("{cd} test \"$({look})\" = '{seen}'"))?;
        }
        Ok(())
    })
}

fn asked(s: &Sandbox, cd: &str) -> Res<u64> {
    let text = s.ok(&format!("{cd} python3 asked.py"))?;
    Ok(text.trim().parse().unwrap_or(u64::MAX))
}

/// What is known on a node is not asked again, and what will be asked is sent before.
fn view_asks_little(place: &Place) -> Res<End> {
    let name = "view_asks_little";
    with(place, name, 1, |s, cd| {
        written(name, "asked.py", ASKED)?;
        let on = |script: &str| format!("{cd} shoal run -n 0 -- sh -c '{script}'");
        let count = |script: &str, most: u64| {
            let before = asked(s, cd)?;
            s.ok(&on(script))?;
            let after = asked(s, cd)?;
            holds(&format!("{script}: {} requests", after - before), after - before <= most)
        };
        // What the shell and the counting itself ask.
        s.ok(&format!(
            "{cd} mkdir -p p/q/r/s/t; echo five >p/q/r/s/t/f; mkdir w many; (cd many; seq 300 | xargs touch)"
        ))?;
        s.ok(&on(":; ls w; stat asked.py; seq 1; cat asked.py"))?;
        s.ok(&on(":; ls w; stat asked.py; seq 1; cat asked.py"))?;
        let few = 12;
        count(":", few)?;
        count("stat p/q/r/s/t/f", few + 2)?;
        count("cat p/q/r/s/t/f", few + 2)?;
        count("for i in $(seq 100); do cat p/q/r/s/t/f; done", few)?;
        count("for i in $(seq 100); do test -e w/$i; test -e many/x$i; done; true", few + 2)?;
        // That a file has no extended attributes counts for a second, which is short beside other tests.
        let soon = |most| (0..4).map(|_| count("ls -l many many", most)).find(Result::is_ok);
        holds("ls -l asks little", soon(few + 8).is_some() && soon(few).is_some())?;
        count("for i in $(seq 100); do echo $i >w/$i; done", few + 210)
    })
}
