# Drives `shoal top` on a terminal, as a person would: what is seen is looked for behind a redrawing (Ctrl-L), so that it is whole.
import fcntl, os, pty, re, select, signal, socket, struct, subprocess, sys, tempfile, termios, time

PATIENCE = 20.0
GIVEN_BACK = b"\x1b[?1049l"


def text(drawn):
    """What is drawn, with one blank where the cursor moves on or several are."""
    moved = re.sub(r"\x1b\[\d+;\d+H", " ", drawn.decode(errors="replace"))
    return re.sub(" +", " ", re.sub(r"\x1b\[[?0-9;]*[A-Za-z]", "", moved))


class Top:
    def __init__(self, *arguments, rows=24, columns=80, shell=None, **environment):
        self.master, self.slave = pty.openpty()
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.before = termios.tcgetattr(self.slave)
        self.seen = b""
        environment = {**os.environ, "TERM": "xterm", "LC_ALL": "C", **environment}
        lead = lambda: (os.setsid(), fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        words = ["bash", "-mc", shell] if shell else ["shoal", "top", "-d", "0.3", *arguments]
        self.child = subprocess.Popen(words, stdin=self.slave, stdout=self.slave,
                                      # A shell has jobs only where this is a terminal.
                                      stderr=self.slave if shell else subprocess.PIPE, env=environment, preexec_fn=lead)

    def type(self, keys):
        os.write(self.master, keys.encode())

    def read(self, patience):
        if not select.select([self.master], [], [], patience)[0]:
            return b""
        try:
            came = os.read(self.master, 65536)
        except OSError:
            came = b""
        self.seen += came
        return came

    def see(self, what):
        """Until a whole drawing has this."""
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            self.seen = b""
            self.type("\x0c")
            # It may draw again and again without a pause.
            drawn = min(until, time.monotonic() + 1)
            while time.monotonic() < drawn:
                self.read(0.1)
                if what in (self.seen.decode(errors="replace") if "\x1b" in what else text(self.seen)):
                    return
        raise SystemExit(f"{what!r} was not seen: {self.seen[-4000:]!r}")

    def hear(self, what):
        """Until this has come, which nobody draws."""
        until = time.monotonic() + PATIENCE
        while what not in text(self.seen):
            self.read(0.1)
            if time.monotonic() > until:
                raise SystemExit(f"{what!r} has not come: {self.seen[-4000:]!r}")

    def end(self, status):
        """It ends so, and the terminal is as it was."""
        until = time.monotonic() + PATIENCE
        while self.child.poll() is None:
            self.read(0.1)
            if time.monotonic() > until:
                raise SystemExit("it does not end")
        while self.read(0.1):
            pass
        if self.child.returncode != status:
            said = self.child.stderr.read() if self.child.stderr else self.seen
            raise SystemExit(f"status {self.child.returncode}, not {status}: {said!r}")
        if termios.tcgetattr(self.slave) != self.before:
            raise SystemExit("the modes of the terminal are others")
        if GIVEN_BACK not in self.seen or self.seen.rfind(b"\x1b[?25h") < self.seen.rfind(GIVEN_BACK):
            raise SystemExit(f"the screen was not given back: {self.seen[-300:]!r}")


def acts():
    top = Top()
    top.see("sleep 1111")
    top.type("/1111\r")
    top.see("[1 of ")
    top.type("m1\r")
    top.see("has moved to n1")
    top.see(" n1 root S ")
    top.type("k")
    top.see("2 SIGKILL")
    top.type("2")
    top.see("SIGKILL was sent to ")
    top.see("no processes")
    top.type("\x1b")
    top.see("sleep 1112")
    top.type("h")
    top.see("move it to another node")
    top.type("xT")
    top.see("TIME*")
    fcntl.ioctl(top.master, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 200, 0, 0))
    top.see("\x1b[50;3Hhelp")
    top.type("q")
    top.end(0)


def ends():
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGALRM):
        top = Top()
        top.see("NODE")
        os.kill(top.child.pid, number)
        top.end(128 + number)
    top = Top()
    top.see("NODE")
    top.type("\x03")
    top.end(0)
    # The terminal is taken away.
    top = Top()
    top.see("NODE")
    os.close(top.slave)
    os.close(top.master)
    top.child.wait(PATIENCE)


def suspends():
    # A shell with jobs, as it is for people.
    top = Top(shell="shoal top -d 0.3; echo it-is-stopped=$?; stty -a; read x; fg >/dev/null")
    top.see("NODE")
    top.type("\x1a")
    top.hear("it-is-stopped=148")
    top.hear(" icanon")
    top.type("\n")
    top.see("NODE")
    top.type("q")
    top.end(0)
    # Nobody would continue it here: it goes on.
    top = Top()
    top.see("NODE")
    top.type("\x1a")
    os.kill(top.child.pid, signal.SIGTSTP)
    top.see("NODE")
    # Stopped and continued from elsewhere it takes the terminal again.
    os.kill(top.child.pid, signal.SIGSTOP)
    os.waitid(os.P_PID, top.child.pid, os.WSTOPPED | os.WNOWAIT)
    termios.tcsetattr(top.slave, termios.TCSANOW, top.before)
    os.kill(top.child.pid, signal.SIGCONT)
    top.see("NODE")
    top.type("q")
    top.end(0)


def full():
    """A terminal that takes nothing keeps no signal waiting."""
    top = Top(rows=200, columns=500)
    time.sleep(2)
    os.kill(top.child.pid, signal.SIGTERM)
    if top.child.wait(PATIENCE) != 128 + signal.SIGTERM:
        raise SystemExit(f"status {top.child.returncode}")
    if termios.tcgetattr(top.slave) != top.before:
        raise SystemExit("the modes of the terminal are others")


def away():
    top = Top("--socket", "/nonexistent/shoal.sock")
    top.see("the daemon is away: no shoal daemon runs")
    top.type("h")
    top.see("move it to another node")
    top.type("xq")
    top.end(0)
    # One that takes questions and answers none.
    path = tempfile.mkdtemp() + "/mute.sock"
    mute = socket.socket(socket.AF_UNIX)
    mute.bind(path)
    mute.listen()
    top = Top("--socket", path)
    top.see("asking the daemon")
    top.see("the daemon is away: the shoal daemon does not answer")
    top.type("h")
    top.see("move it to another node")
    top.type("xq")
    top.end(0)


def outside():
    """On a node's own machine: a process there has the number of one of the space."""
    number = int(sys.argv[2])
    if not os.path.exists(f"/proc/{number}"):
        with open("/proc/sys/kernel/ns_last_pid", "w") as last:
            last.write(str(number - 1))
        victim = subprocess.Popen(["sleep", "1120"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        if victim.pid != number:
            raise SystemExit(f"{victim.pid}, not {number}")
    top = Top()
    top.see("sleep 1119")
    top.type("/1119\r")
    top.see("[1 of ")
    top.type("k")
    top.see("2 SIGKILL")
    top.type("2")
    top.see("signals from here would reach other processes")
    time.sleep(0.2)
    if "State:\tZ" in open(f"/proc/{number}/status").read():
        raise SystemExit("it was killed")
    top.type("q")
    top.end(0)


globals()[sys.argv[1]]()
print("passed")
