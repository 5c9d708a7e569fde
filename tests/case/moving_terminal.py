# Drives a terminal on the front end in which `shoal run -t` runs, and moves its program meanwhile. What it sees is what a user would see.
import fcntl, os, pty, re, select, signal, struct, subprocess, sys, tempfile, termios, threading, time

PATIENCE = 20.0


class Terminal:
    """A session of its own on a terminal: `shoal run -n NODES -t ARGUMENTS`."""

    def __init__(self, *arguments, rows=24, columns=80, nodes="0"):
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            # Before it is looked at: a change would be a signal.
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
            os.execvp("shoal", ["shoal", "run", "-n", nodes, "-t", "--", *arguments])
        self.seen = b""
        self.at = 0

    def size(self, rows, columns):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, keys):
        data = keys if isinstance(keys, bytes) else keys.encode()
        while data:
            data = data[os.write(self.master, data):]

    def read(self, patience):
        """What comes within this time; b"" at the end."""
        if not select.select([self.master], [], [], patience)[0]:
            return None
        try:
            return os.read(self.master, 65536)
        except OSError:
            return b""

    def see(self, what, patience=PATIENCE):
        """Until this is seen, behind what was seen before."""
        what = what if isinstance(what, bytes) else what.encode()
        until = time.monotonic() + patience
        while True:
            found = self.seen.find(what, self.at)
            if found >= 0:
                self.at = found + len(what)
                return
            came = self.read(max(0.0, until - time.monotonic()))
            if not came:
                raise SystemExit(f"{what!r} was not seen{' before the end' if came == b'' else ''} behind {self.seen[self.at - 200:self.at]!r}: {self.seen[self.at:][-2000:]!r}")
            self.seen += came

    def quiet(self, seconds):
        """Nothing more is seen for so long."""
        came = self.read(seconds)
        if came:
            raise SystemExit(f"unexpected: {came!r}")

    def rest(self, patience=60.0):
        """All that comes up to the end."""
        until = time.monotonic() + patience
        while (came := self.read(max(0.0, until - time.monotonic()))):
            self.seen += came
        if came is None:
            raise SystemExit("no end")
        return self.seen

    def end(self):
        """Its exit status."""
        self.rest()
        return self.status()

    def status(self):
        _, status = os.waitpid(self.pid, 0)
        return os.waitstatus_to_exitcode(status)

    def move(self, node):
        move(self.pid, node)


def move(pid, node):
    done = subprocess.run(["shoal", "move", str(pid), str(node)], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"shoal move {pid} {node}: {done.stderr}")


def fresh():
    """The path of a file that is not there yet, on the front end and on nodes."""
    return tempfile.mkdtemp() + "/there"


def where(pid):
    return subprocess.run(["shoal", "where", str(pid)], capture_output=True, text=True).stdout.strip()


def same(what, got, expected):
    if got != expected:
        raise SystemExit(f"{what}\n     got {got!r}\nexpected {expected!r}")


def moving(t, times, gap=0.0):
    """Moves in the background, over three nodes; a thread."""
    def body():
        for i in range(times):
            t.move((i + 1) % 3)
            time.sleep(gap)
    thread = threading.Thread(target=run_or_die, args=(body,))
    thread.start()
    return thread


def run_or_die(body):
    try:
        body()
    except SystemExit as why:
        sys.stderr.write(f"{why}\n")
        os._exit(1)


RAW = """
import os, sys, tty
tty.setraw(0); os.write(1, b"up\\r\\n")
n = 0
while True:
    for c in os.read(0, 100):
        if c == 4: os.write(1, b"\\r\\nend\\r\\n"); sys.exit(7)
        os.write(1, b"<%02x>" % c)
"""


def raw():
    """A program like an editor: each key comes once, in order and as it is, whatever it would mean; also while it moves."""
    t = Terminal("python3", "-S", "-c", RAW)
    t.see("up\r\n")
    keys = bytes(range(5, 128)) + bytes([0, 1, 2, 3]) + bytes(range(128, 256))
    thread = moving(t, 12)
    expected = b""
    n = 0
    while thread.is_alive():
        key = keys[n % len(keys)]
        n += 1
        t.type(bytes([key]))
        expected += b"<%02x>" % key
        time.sleep(0.003)
    thread.join()
    t.type(b"\x04")
    t.see("end\r\n")
    start = t.seen.index(b"up\r\n") + 4
    same("the keys", t.seen[start:t.seen.index(b"\r\nend")], expected)
    same("its end", t.end(), 7)


LINES = """
import os, sys, time
os.write(1, b"up\\n")
while not os.path.exists(sys.argv[1]): time.sleep(0.01)
while True:
    got = os.read(0, 1000)
    os.write(1, b"[" + got.replace(b"\\n", b"$") + b"]\\n")
    if got == b"end\\n": sys.exit(8)
"""


def lines():
    """What was typed and not read yet, whole lines, the end of a file, and a line that can be edited still."""
    go = fresh()
    for typed, more, expected in [
        ("half", "line\n", ["halfline$"]),
        ("one\ntwo\nthr", "ee\n", ["one$", "two$", "three$"]),
        ("halx", "\x7ff\n", ["half$"]),
        ("wrong words", "\x15right\n", ["right$"]),
        ("two wor", "\x17words\n", ["two words$"]),
        ("abc\x04def\n\x04", "x\n", ["abc", "def$", "", "x$"]),
        ("a\x16\x03b\x16\x16", "c\n", ["a\x03b\x16c$"]),
        ("q\x16", "\x03r\n", ["q\x03r$"]),
        ("", "later\n", ["later$"]),
        ("x" * 3000 + "\n" + "y" * 1000, "z\n", ["x" * 1000] * 3 + ["$", "y" * 1000, "z$"]),
    ]:
        if os.path.exists(go):
            os.remove(go)
        t = Terminal("python3", "-S", "-c", LINES, go)
        t.see("up\r\n")
        t.type(typed)
        # Until it is in its terminal: it is shown, or is known to be by what is shown behind it.
        time.sleep(0.3)
        for node in (1, 2, 1):
            t.move(node)
        t.type(more)
        open(go, "w").close()
        for one in expected:
            t.see("[" + one + "]")
        t.type("end\n")
        t.see("[end$]")
        same("its end", t.end(), 8)


def repl():
    """python3 with its own editing of lines."""
    t = Terminal("python3", "-q")
    t.see(">>> ")
    t.type("import os, socket; x = 4")
    t.move(1)
    t.type("2\n")
    t.see(">>> ")
    t.type("print('is', x, socket.gethostname())\n")
    t.see("is 42 n1\r\n")
    for node in (2, 0, 1, 2):
        t.type("x += ")
        t.move(node)
        t.type("1\n")
        t.see(">>> ")
    t.type("print('is', x)\n")
    t.see("is 46\r\n")
    t.type("os.ttyname(0) == os.readlink('/proc/self/fd/0') == os.ttyname(1) and 'its ' + 'name'\n")
    t.see("'its name'")
    t.type("while True: pass\n")
    time.sleep(0.2)
    t.move(1)
    t.type("\x03")
    t.see("KeyboardInterrupt")
    # Until it reads letter by letter again, the terminal takes ^D for the end of a line, and readline sees nothing of it.
    t.see(">>> ")
    t.type("\x04")
    same("its end", t.end(), 0)


def output():
    """A long output while it moves: every byte once, also for a reader that stalls."""
    for stalls in (False, True):
        t = Terminal("perl", "-e", "$|=1; print qq(up\n); for $i (1..300000) { print qq($i\n); select undef, undef, undef, 0.001 if $i % 300 == 0 } exit 7")
        t.see("up\r\n")
        thread = moving(t, 8, 0.02)
        if stalls:
            time.sleep(1.5)
        got = t.rest()
        thread.join()
        got = got[got.index(b"up\r\n") + 4:]
        expected = b"".join(b"%d\r\n" % i for i in range(1, 300001))
        if got != expected:
            at = next((i for i, (a, b) in enumerate(zip(got, expected)) if a != b), min(len(got), len(expected)))
            raise SystemExit(f"{len(got)} bytes of {len(expected)}, other at {at}: {got[at - 20:at + 40]!r}, not {expected[at - 20:at + 40]!r}")
        same("its end", t.status(), 7)


def copies():
    """Both ways at once: what is typed comes back, each line once."""
    t = Terminal("perl", "-e", "$|=1; system q(stty -echo); print qq(up\n); while (<STDIN>) { last if /^end/; print qq(got $_) } exit 5")
    t.see("up\r\n")
    thread = moving(t, 10)
    n = 0
    while thread.is_alive():
        n += 1
        t.type(f"line {n}\n")
        time.sleep(0.004)
    thread.join()
    t.type("end\n")
    got = t.rest()
    got = got[got.index(b"up\r\n") + 4:]
    same("the lines", got, b"".join(b"got line %d\r\n" % i for i in range(1, n + 1)))
    same("its end", t.status(), 5)


WINDOW = """
import os, signal
# It makes no process for that, with which it would not move.
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGWINCH})
os.write(1, b"up\\n")
while signal.sigwait({signal.SIGWINCH}):
    size = os.get_terminal_size(0)
    os.write(1, b"size %d %d\\n" % (size.lines, size.columns))
"""


def window():
    """The size of the window is that of the user's, whenever it has changed."""
    t = Terminal("python3", "-S", "-c", WINDOW, rows=30, columns=90)
    t.see("up\r\n")
    t.size(31, 91)
    t.see("size 31 91\r\n")
    t.move(1)
    t.size(32, 92)
    t.see("size 32 92\r\n")
    for n in range(6):
        thread = moving(t, 1)
        time.sleep(0.01 * n)
        t.size(40 + n, 100 + n)
        t.see(f"size {40 + n} {100 + n}\r\n")
        thread.join()
        t.move(0)
    t.type("\x1c")
    same("its end", t.end(), -signal.SIGQUIT)
    # The signal comes twice at times: from its terminal, and to the job of the user's; and once for the first size.
    sizes = [line for line in t.seen.split(b"\r\n") if line.startswith(b"size ") and line != b"size 30 90"]
    expected = [b"size 31 91", b"size 32 92"] + [b"size %d %d" % (40 + n, 100 + n) for n in range(6)]
    same("the sizes", [one for n, one in enumerate(sizes) if n == 0 or one != sizes[n - 1]], expected)


KEYS = "$|=1; $n = 0; $SIG{INT} = $SIG{TSTP} = sub { $n++; print qq($_[0] $n\n) }; $SIG{QUIT} = sub { print qq(quit\n); exit 3 }; print qq(up\n); select undef, undef, undef, 0.5 while 1"


def keys():
    """Ctrl-C and Ctrl-Z before, while and after it moves, once each."""
    t = Terminal("perl", "-e", KEYS)
    t.see("up\r\n")
    seen = []

    def press(key, name):
        t.type(key)
        seen.append(f"{name} {len(seen) + 1}\r\n")

    for turn in range(20):
        press("\x03", "INT")
        if turn % 2:
            t.see(seen[-1])
        thread = moving(t, 1)
        time.sleep(0.004 * turn)
        if not turn % 2:
            t.see(seen[-1])
        press("\x1a", "TSTP")
        t.see(seen[-1])
        thread.join()
        press("\x03", "INT")
        t.see(seen[-1])
        t.move(0)
    t.quiet(0.2)
    t.type("\x1c")
    t.see("quit\r\n")
    same("its end", t.end(), 3)


def stops():
    """Stopped it moves, and goes on where it is when its job does."""
    t = Shell()
    t.type("shoal run -n 0 -t perl -e '$|=1; print q(u).qq(p\\n); while (1) { $x = <STDIN>; print qq(got $x) if defined $x }'\n")
    t.see("up\r\n")
    pid = t.child()
    for n, nodes in enumerate([(1,), (2, 0, 1, 2), (0,), (1,)]):
        os.kill(pid, signal.SIGSTOP)
        t.see("Stopped")
        t.see("%% ")
        for node in nodes:
            move(pid, node)
            same("where it is", where(pid), f"n{node}")
        time.sleep(0.2)
        same("its state", state_of(pid), "T")
        t.type("fg\n")
        t.see("defined $x }'")
        t.type(f"word{n}\n")
        t.see(f"got word{n}\r")
    # Right before and while it moves: it stops once.
    for n in range(24):
        thread = threading.Thread(target=run_or_die, args=(lambda: move(pid, 1 + n % 2),))
        if n % 2:
            os.kill(pid, signal.SIGSTOP)
        thread.start()
        time.sleep(0.005 * (n % 6))
        if not n % 2:
            os.kill(pid, signal.SIGSTOP)
        t.see("Stopped")
        t.see("%% ")
        thread.join()
        t.type("fg\n")
        t.see("defined $x }'")
        t.type(f"again{n}\n")
        t.see(f"got again{n}\r")
    t.type("\x03")
    t.see("%% ")
    t.type("echo st=$?\n")
    t.see("st=130\r\n")
    t.type("exit\n")
    t.rest()


def state_of(pid):
    """As the front end's kernel says it of what stands for it."""
    with open(f"/proc/{pid}/status") as status:
        return next(line.split()[1] for line in status if line.startswith("State:"))


class Shell(Terminal):
    """An interactive bash of the front end."""

    def __init__(self):
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            os.environ.update(PS1="%% ", TERM="dumb", HISTFILE="")
            os.execvp("bash", ["bash", "--norc", "--noprofile", "--noediting", "-i"])
        self.seen, self.at = b"", 0
        self.see("%% ")

    def child(self):
        """The number of its only child."""
        return int(subprocess.run(["pgrep", "-P", str(self.pid)], capture_output=True, text=True).stdout.split()[0])


def held():
    """Ctrl-S keeps output back, also where it moves to, until Ctrl-Q; so does tcflow(3)."""
    t = Terminal("perl", "-e", "$|=1; print qq(up\n); for (1..1000000) { print qq($_\n); select undef, undef, undef, 0.01 }")
    t.see("\r\n20\r\n")
    for node in (1, 2):
        t.type("\x13")
        # What was on its way comes.
        while (came := t.read(0.3)):
            t.seen += came
        t.move(node)
        t.quiet(0.4)
        t.type("\x11")
        t.see("\r\n")
        t.see("\r\n")
    t.type("\x03")
    same("its end", t.end(), -signal.SIGINT)
    got = t.seen[t.seen.index(b"up\r\n") + 4:].split(b"\r\n")
    got = [int(line) for line in got[:-1]]
    same("the numbers", got, list(range(1, len(got) + 1)))


def shell():
    """A shell in its terminal: idle it moves, with jobs that have its terminal it does not, and is told whose that is."""
    os.environ.update(PS1="in> ", TERM="dumb", HISTFILE="")
    t = Terminal("bash", "--norc", "--noprofile", "-i")
    t.see("in> ")
    for node in (1, 2, 0, 1):
        t.type("hostn")
        t.move(node)
        t.type("ame\n")
        t.see(f"n{node}\r\n")
        t.see("in> ")
    # Job control is the kernel's there.
    t.type("sleep 1071\n")
    time.sleep(0.5)
    t.type("\x1a")
    t.see("Stopped")
    t.see("in> ")
    child = subprocess.run("shoal ps | awk '/sleep 1071$/ {print $1}'", shell=True, capture_output=True, text=True).stdout.strip()
    done = subprocess.run(["shoal", "move", str(t.pid), "2"], capture_output=True, text=True)
    if done.returncode == 0 or not re.search(rf"its terminal \(/dev/pts/\d+\) is also that of process {child}\b", done.stderr):
        raise SystemExit(f"moved with a child {child}: {done.stderr!r}")
    explained = subprocess.run(["shoal", "move", "--explain", str(t.pid), "2"], capture_output=True, text=True)
    if f"is also that of process {child}" not in explained.stdout + explained.stderr:
        raise SystemExit(f"explained: {explained.stdout!r} {explained.stderr!r}")
    t.type("kill -9 %1; wait\n")
    t.see("in> ")
    t.type("\n")
    t.see("in> ")
    t.move(2)
    t.type("sleep 1072\n")
    time.sleep(0.3)
    t.type("\x03")
    t.see("in> ")
    t.type("echo st=$?\n")
    t.see("st=130\r\n")
    t.type("exit 9\n")
    same("its end", t.end(), 9)


def refused():
    """A shell of whose session on the node the front end knows nothing, since it is in another one there, is refused as often as it is asked for."""
    os.environ.update(PS1="in> ", TERM="dumb", HISTFILE="")
    t = Terminal.__new__(Terminal)
    t.seen, t.at = b"", 0
    t.pid, t.master = pty.fork()
    if t.pid == 0:
        os.execvp("sh", ["sh", "-c", "shoal run -n 0 -t -- bash --norc --noprofile -i; exit $?"])
    t.see("in> ")
    pid = int(subprocess.run(["pgrep", "-P", str(t.pid)], capture_output=True, text=True).stdout)
    move(pid, 1)
    t.type("sleep 1073 &\n")
    t.see("in> ")
    # From the first time on it stands on that node.
    for _ in range(4):
        done = subprocess.run(["shoal", "move", str(pid), "0"], capture_output=True, text=True)
        if done.returncode != 1 or "its terminal" not in done.stderr:
            raise SystemExit(f"moved with a child: {done.returncode} {done.stderr!r}")
    t.type("kill %1; wait\n")
    t.type("hostname\n")
    t.see("n1\r\n")
    move(pid, 0)
    t.type("exit 9\n")
    same("its end", t.end(), 9)


def hangup():
    """The user's terminal goes away: the program is hung up where it is."""
    mark = fresh()
    t = Terminal("perl", "-e", f"$|=1; $SIG{{HUP}} = sub {{ open F, q(>{mark}); print F qq(hup\n); close F; exit 4 }}; print qq(up\n); select undef, undef, undef, 1 while 1")
    t.see("up\r\n")
    t.move(1)
    t.move(2)
    os.close(t.master)
    until = time.monotonic() + PATIENCE
    while not os.path.exists(mark):
        if time.monotonic() > until:
            raise SystemExit("it was not hung up")
        time.sleep(0.05)
    t.status()


def state(program):
    """All that a C program can see of it (tests/case/real/terminal.c)."""
    for how in ("lines", "bytes", "extern"):
        go = fresh()
        t = Terminal(program, how, go, rows=33, columns=77)
        t.see("up\r\n" if how == "lines" else "up")
        t.type("typed")
        time.sleep(0.3)
        for node in (1, 2, 0, 1, 2):
            t.move(node)
        open(go, "w").close()
        t.see("well")
        same("its end", t.end(), 0)


def ends():
    """It ends while it moves, or just before or after: with all that it has written, and with its status."""
    for n in range(20):
        t = Terminal("python3", "-S", "-c", RAW)
        t.see("up\r\n")
        over = threading.Event()

        def body():
            for k in range(1, 1000):
                if over.is_set():
                    return
                # It may have ended.
                subprocess.run(["shoal", "move", str(t.pid), str(k % 3)], capture_output=True)

        thread = threading.Thread(target=body)
        thread.start()
        time.sleep(0.011 * n)
        t.type("abc\x04")
        got = t.rest()
        over.set()
        thread.join()
        same("what it has written", got[got.index(b"up\r\n") + 4:], b"<61><62><63>\r\nend\r\n")
        same("its end", t.status(), 7)


def several():
    """Copies on several nodes have a terminal each, which goes with each; what is typed is for all."""
    t = Terminal("sh", "-c", "stty -echo; echo up; read x; echo got $x; exit 3", nodes="0-1")
    t.see("up")
    t.see("up")
    copies = [int(pid) for pid in subprocess.run(["pgrep", "-P", str(t.pid)], capture_output=True, text=True).stdout.split()]
    same("the copies", len(copies), 2)
    t.type("wo")
    time.sleep(0.3)
    for pid in copies:
        move(pid, 2)
    same("where they are", [where(pid) for pid in copies], ["n2", "n2"])
    t.type("rd\n")
    t.see("got word")
    t.see("got word")
    same("its end", t.end(), 3)


def nested():
    """Where `shoal run` was called on a node, in a terminal there."""
    t = Terminal("shoal", "run", "-n", "1", "-t", "python3", "-S", "-c", RAW)
    t.see("up\r\n")
    for n, node in enumerate((2, 1, 2)):
        t.type(chr(97 + n))
        t.move(node)
        t.type(chr(65 + n))
        t.see(f"<{97 + n:02x}><{65 + n:02x}>")
    t.type(b"\x04")
    same("its end", t.end(), 7)


def chaos():
    """Somebody else moves it all the time."""
    t = Terminal("python3", "-S", "-c", RAW)
    t.see("up\r\n")
    keys = bytes(range(5, 128))
    typed = b""
    until = time.monotonic() + 4
    while time.monotonic() < until:
        typed += keys[len(typed) % len(keys):][:1]
        t.type(typed[-1:])
        time.sleep(0.003)
    t.type(b"\x04")
    t.see("end\r\n")
    start = t.seen.index(b"up\r\n") + 4
    same("the keys", t.seen[start:t.seen.index(b"\r\nend")], b"".join(b"<%02x>" % key for key in typed))
    same("its end", t.end(), 7)


def counts(program, file):
    """What counts has half a line typed, to which the rest comes when `file`.type is there; `file`.got when it has read the line. Its numbers go to `file`.out."""
    t = Terminal("perl", "-e", program, file)
    with open(file + ".pid", "w") as out:
        out.write(str(t.pid))
    t.see("up\r\n")
    t.type("half")
    line = t.seen[t.at:]
    with open(file + ".out", "wb", buffering=0) as out:
        while (came := t.read(0.05)) != b"":
            if os.path.exists(file + ".type"):
                os.remove(file + ".type")
                t.type("line\n")
            *whole, line = (line + (came or b"")).split(b"\r\n")
            for one in whole:
                if one == b"got halfline":
                    open(file + ".got", "w").close()
                else:
                    out.write(one + b"\n")
    status = t.status()
    print(status if status >= 0 else 128 - status)


def load(name):
    """A scene while all processors are busy."""
    busy = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(2 * (os.cpu_count() or 1))]
    try:
        globals()[name]()
    finally:
        for one in busy:
            one.kill()


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
    if sys.argv[1] != "counts":
        print("passed")
