//! What nodes are sent before they ask, and what they keep before they write: round trips that are not made, and nobody can tell.

use super::scene::{holds, same};
use super::view::{with, written};
use super::{End, Scene};
use crate::lab::place::Place;
use crate::lab::Res;

pub(crate) const SCENES: &[Scene] = &[
    ("view_sends_what_a_program_will_open", view_sends_what_a_program_will_open),
    ("view_sends_nobody_what_they_may_not_read", view_sends_nobody_what_they_may_not_read),
    ("view_writes_when_a_file_is_closed", view_writes_when_a_file_is_closed),
    ("view_writes_after_cuts", view_writes_after_cuts),
    ("view_lets_go_of_locks_on_what_it_opens", view_lets_go_of_locks_on_what_it_opens),
];

/// A number of one node's: requests that somebody waits for, or what the second argument names.
const COUNT: &str = r"import json, subprocess, sys
status = json.loads(subprocess.run(['shoal', 'view', '--json'], stdout=subprocess.PIPE, check=True).stdout)
node = status['nodes'][int(sys.argv[1])]
silent = {'forget', 'batch_forget', 'release', 'releasedir', 'read'}
print(node[sys.argv[2]] if len(sys.argv) > 2 else sum(n for kind, n in node['by_kind'].items() if kind not in silent))
";

/// A program of a node that makes files, and asks two others, the front end and another node, what they see, while the file is open and after that.
const WRITES: &str = r"import os, subprocess, sys, time
class Other:
    def __init__(self, command):
        self.p = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    def says(self, text):
        self.p.stdin.write(text + '\n'); self.p.stdin.flush()
        return self.p.stdout.readline().rstrip('\n')
looks = ['python3', '-u', '-c', '''import os, sys
def fill(name, size, sync):
    fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    try:
        for _ in range(size): os.write(fd, b'x' * 1024)
        if sync: os.fsync(fd)
    finally:
        os.close(fd)
for line in sys.stdin:
    try: print(eval(line), flush=True)
    except OSError as e: print(e.errno, flush=True)
''']
front = Other(looks)
maker, other = (Other(['shoal', 'run', '-n', str(n), '--'] + looks) for n in (0, 1))
everybody = [front, other, maker]
def all_say(what, wanted):
    for one in everybody:
        until = time.time() + 5
        # A name is seen on another machine a moment later.
        while (said := one.says(what)) == '2' and one is other: assert time.time() < until
        assert said == repr(wanted), (what, said, wanted)
for n in range(150):
    f, g = f'f{n}', f'g{n}'
    fd = int(maker.says(f'os.open({f!r}, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)'))
    assert maker.says(f'os.write({fd}, b\'first\')') == '5'
    kind = n % 6
    if kind == 0:
        # As the assembler does: to and fro.
        assert maker.says(f'os.pread({fd}, 100, 1)') == repr(b'irst')
        assert maker.says(f'os.pwrite({fd}, b\'END\', 8)') == '3'
        assert maker.says(f'os.pread({fd}, 100, 0)') == repr(b'first\0\0\0END')
        assert maker.says(f'os.fstat({fd}).st_size, os.stat({f!r}).st_size') == '(11, 11)'
        text = b'first\0\0\0END'
    elif kind == 1:
        # Whoever reads it sees what was written, while it is open.
        all_say(f'open({f!r}, \'rb\').read()', b'first')
        assert maker.says(f'os.write({fd}, b\' second\')') == '7'
        all_say(f'open({f!r}, \'rb\').read()', b'first second')
        text = b'first second'
    elif kind == 2:
        # Somebody else writes there, and cuts it.
        until = time.time() + 5
        while (said := other.says(f'os.truncate({f!r}, 2)')) == '2': assert time.time() < until
        assert said == 'None', said
        all_say(f'open({f!r}, \'rb\').read()', b'fi')
        assert maker.says(f'os.pwrite({fd}, b\'x\', 3)') == '1'
        text = b'fi\0x'
    elif kind == 3:
        assert maker.says(f'os.ftruncate({fd}, 3), os.write({fd}, b\'!\'), os.fsync({fd})') == '(None, 1, None)'
        assert front.says(f'os.stat({f!r}).st_size') == '6'
        text = b'fir\0\0!'
    elif kind == 4:
        assert maker.says(f'os.pwrite({fd}, b\'y\' * 300000, 5)') == '300000'
        text = b'first' + b'y' * 300000
        assert maker.says(f'os.pread({fd}, 9, 300000)') == repr(b'y' * 5)
    else:
        assert maker.says(f'os.chmod({f!r}, 0o600), os.utime({f!r}, (7, 7))') == '(None, None)'
        text = b'first'
    # It is closed, has another name, and is whole under that.
    assert maker.says(f'(os.close({fd}), os.rename({f!r}, {g!r}))') == '(None, None)'
    all_say(f'open({g!r}, \'rb\').read()', text)
    all_say(f'os.stat({g!r}).st_size', len(text))
    if kind == 5:
        all_say(f'oct(os.stat({g!r}).st_mode), os.stat({g!r}).st_mtime', ('0o100600', 7.0))
# What is open for long has its size soon.
fd = int(maker.says('os.open(\'log\', os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)'))
maker.says(f'os.write({fd}, b\'line\')')
until = time.time() + 5
while any(one.says('os.stat(\'log\').st_size') != '4' for one in everybody): assert time.time() < until
# Two make one file: one of them has made it.
made = sorted(one.says('os.close(os.open(\'once\', os.O_WRONLY | os.O_CREAT | os.O_EXCL))') for one in everybody)
assert made == ['17', '17', 'None'], made
# A disk that is full is told when the file is closed, or before.
for sync in (True, False):
    for size in (200, 300):
        tried = maker.says(f'fill(\'small/{sync}{size}\', {size}, {sync})')
        assert (tried == '28') == (size == 300), (sync, size, tried)
        assert 'None' == front.says(f'os.unlink(\'small/{sync}{size}\')')
for one in everybody:
    one.p.stdin.close(); assert one.p.wait() == 0
print('all seen')
";

/// Makes files until it is done; the link is cut meanwhile.
const MAKES: &str = r"import os
for n in range(400):
    fd = os.open(f'made/{n}.new', os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    for part in range(3): os.write(fd, f'{n} {part}\n'.encode())
    os.close(fd)
    if n % 3 == 0: os.rename(f'made/{n}.new', f'made/{n}')
    if n % 50 == 0: open('at', 'w').write(str(n))
# Killed with a file open: what it has written is there.
fd = os.open('made/killed', os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
os.write(fd, b'last words')
os.kill(os.getpid(), 9)
";
const MADE: &str = r"import os
for n in range(400):
    name = f'made/{n}' + ('' if n % 3 == 0 else '.new')
    assert open(name).read() == ''.join(f'{n} {part}\n' for part in range(3)), name
assert len(os.listdir('made')) == 401
assert open('made/killed').read() == 'last words'
print('whole')
";

/// Locks a file that it has open for reading, and says so; then does what it is told.
const LOCKS: &str = r"import fcntl, os, sys
open('l').read()
fds = [os.open('l', os.O_RDONLY) for _ in range(2)]
for line in sys.stdin:
    if line == 'lock\n': fcntl.lockf(fds[0], fcntl.LOCK_SH)
    if line == 'close\n': os.close(fds[0])
    print('done', flush=True)
";
const LOCKS_ALONE: &str = r"import fcntl, subprocess, sys, time
def look():
    code = '''import fcntl
try: fcntl.lockf(open('l', 'r+'), fcntl.LOCK_EX | fcntl.LOCK_NB); print('free')
except BlockingIOError: print('taken')'''
    said = [subprocess.run(where + ['python3', '-c', code], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True).stdout.strip() for where in ([], ['shoal', 'run', '-n', '1', '--'])]
    return said
def is_free():
    return look() == ['free', 'free']
def soon(what):
    until = time.time() + 10
    while not what(): assert time.time() < until
for how in ('close', 'end', 'kill'):
    p = subprocess.Popen(['shoal', 'run', '-n', '0', '--', 'python3', '-u', 'locks.py'], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    def do(word):
        p.stdin.write(word + '\n'); p.stdin.flush(); assert p.stdout.readline() == 'done\n'
    do('begin'); soon(is_free)
    do('lock'); assert look() == ['taken', 'taken']
    if how == 'close': do('close')
    if how == 'end': p.stdin.close()
    if how == 'kill': p.kill()
    soon(is_free)
    if how == 'close': p.stdin.close()
    p.wait()
print('let go')
";

/// A program starts on a node as it did on another one: what it opened there is sent at once, and is as it is now.
fn view_sends_what_a_program_will_open(place: &Place) -> Res<End> {
    let name = "view_sends_what_a_program_will_open";
    with(place, name, 3, |s, cd| {
        written(name, "count.py", COUNT)?;
        written(name, "lib.py", "print('one')\n")?;
        written(name, "main.py", "import lib, os; print(len(os.listdir('many')))\n")?;
        s.ok(&format!("{cd} mkdir many; (cd many; seq 1000 | xargs touch); cp /usr/bin/python3 interpreter"))?;
        let run = |node: u32| format!("shoal run -n {node} -- ./interpreter -B main.py");
        let asks = |node: u32, command: &str, most: u64| {
            let count = || s.ok(&format!("{cd} python3 count.py {node}"));
            let before: u64 = count()?.trim().parse().unwrap_or(0);
            let said = s.ok(&format!("{cd} {command}"))?;
            let after: u64 = count()?.trim().parse().unwrap_or(u64::MAX);
            holds(&format!("{command}: {} requests", after - before), after - before <= most).map(|()| said)
        };
        for node in 0..3 {
            s.ok(&format!("{cd} shoal run -n {node} -- true"))?;
        }
        same("first", s.ok(&format!("{cd} {}", run(0)))?.trim(), "one\n1000")?;
        same("then", asks(1, &run(1), 40)?.trim(), "one\n1000")?;
        written(name, "lib.py", "print('two, longer')\n")?;
        s.ok(&format!("{cd} touch many/more"))?;
        same("changed", asks(2, &run(2), 40)?.trim(), "two, longer\n1001")?;
        for node in 0..2 {
            s.prints(&format!("{cd} {}", run(node)), "two, longer\n1001")?;
        }
        // All names of a directory, and then what each leads to.
        s.ok(&format!("{cd} mkdir new; (cd new; seq 1000 | xargs touch); shoal run -n 0 -- ls -ld ."))?;
        let listed = asks(0, "shoal run -n 0 -- ls -l new", 24)?;
        holds("ls -l lists them", listed.lines().count() == 1001)?;
        s.ok(&format!("{cd} rm new/500; echo text >new/501; mv new/502 new/x502; chmod 600 new/503"))?;
        let both = "ls -l new | sha256sum";
        s.until(&format!("{cd} test \"$({both})\" = \"$(shoal run -n 0 -- sh -c '{both}')\""))?;
        Ok(())
    })
}

/// What root's programs open is no reason to send it for a user who may not read it.
fn view_sends_nobody_what_they_may_not_read(place: &Place) -> Res<End> {
    let name = "view_sends_nobody_what_they_may_not_read";
    with(place, name, 2, |s, cd| {
        written(name, "count.py", COUNT)?;
        s.ok(&format!("{cd} chmod 755 .; cp /bin/cat reads; mkdir closed; chmod 700 closed"))?;
        s.ok(&format!("{cd} head -c 200000 /dev/urandom >secret; chmod 600 secret; head -c 200000 /dev/urandom >closed/f; head -c 100000 /dev/urandom >open"))?;
        let all = "./reads secret closed/f open";
        s.ok(&format!("{cd} shoal run -n 0 -- {all} >/dev/null; shoal run -n 1 -- true; shoal run -n 1 -- ls -l . closed >/dev/null"))?;
        let bytes = || -> Res<u64> { Ok(s.ok(&format!("{cd} python3 count.py 1 read"))?.trim().parse().unwrap_or(0)) };
        let before = bytes()?;
        let user = "setpriv --reuid 61002 --regid 61002 --clear-groups";
        let ran = s.sh(&format!("{cd} {user} shoal run -n 1 -- {all} 2>&1 >/dev/null"))?;
        holds(&ran.text(), ran.out.matches("Permission denied").count() == 2)?;
        let sent = bytes()? - before;
        holds(&format!("{sent} bytes were sent"), (100_000..200_000).contains(&sent))?;
        // Root may have it.
        let sums = "cat secret closed/f open | sha256sum";
        s.ok(&format!("{cd} test \"$({sums})\" = \"$(shoal run -n 1 -- sh -c '{sums}')\""))?;
        s.fails(&format!("{cd} {user} shoal run -n 1 -- cat secret"), 1)?;
        Ok(())
    })
}

/// A node keeps what its programs write to a file that they have made, until they close it: everybody sees what was written, and whoever opens it has it whole.
fn view_writes_when_a_file_is_closed(place: &Place) -> Res<End> {
    let name = "view_writes_when_a_file_is_closed";
    with(place, name, 2, |s, cd| {
        written(name, "writes.py", WRITES)?;
        s.ok(&format!("{cd} mkdir small; mount -t tmpfs -o size=256k small small"))?;
        let ran = s.sh(&format!("{cd} timeout 120 python3 writes.py 2>&1; umount -l small"))?;
        same(&ran.text(), ran.out.trim(), "all seen")
    })
}

/// The link is cut again and again, for less than the agreed time, while files are made: all are there, and whole.
fn view_writes_after_cuts(place: &Place) -> Res<End> {
    let name = "view_writes_after_cuts";
    with(place, name, 1, |s, cd| {
        written(name, "makes.py", MAKES)?;
        written(name, "made.py", MADE)?;
        s.ok(&format!("{cd} mkdir made"))?;
        let makes = s.start(&format!("{cd} shoal run -n 0 -- python3 makes.py; echo $?"));
        s.until(&format!("{cd} test -e at"))?;
        for (cut, back) in [("silent", "heard"), ("link-down", "link-up"), ("silent", "heard")] {
            s.ok(&format!("shoal fault n0 {cut}; sleep 0.4; shoal fault n0 {back}; sleep 0.2"))?;
        }
        same("killed", makes.end()?.out.trim(), "137")?;
        s.until(&format!("{cd} python3 made.py 2>/dev/null | grep whole"))
    })
}

/// The end of an open file that the node's process has let be opened is not told for each descriptor: locks go with it all the same.
fn view_lets_go_of_locks_on_what_it_opens(place: &Place) -> Res<End> {
    let name = "view_lets_go_of_locks_on_what_it_opens";
    with(place, name, 2, |s, cd| {
        written(name, "locks.py", LOCKS)?;
        written(name, "alone.py", LOCKS_ALONE)?;
        s.ok(&format!("{cd} echo text >l"))?;
        let ran = s.sh(&format!("{cd} timeout 100 python3 alone.py 2>&1"))?;
        same(&ran.text(), ran.out.trim(), "let go")
    })
}
