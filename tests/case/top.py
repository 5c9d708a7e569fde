# Drives `shoal top` on a terminal, as a person would: what is seen is looked for behind a redrawing (Ctrl-L), so that it is whole.
import fcntl, os, pty, re, select, signal, socket, struct, subprocess, sys, tempfile, termios, time

PATIENCE = 20.0
GIVEN_BACK = b"\x1b[?1049l"


def text(drawn):
    """What is drawn, with one blank where the cursor moves on or several are."""
    moved = re.sub(r"\x1b\[\d+;\d+H", " ", drawn.decode(errors="replace"))
    return re.sub(" +", " ", re.sub(r"\x1b\[[?0-9;]*[A-Za-z]", "", moved))


class Top:
    def __init__(self, *arguments, rows=24, columns=80, **environment):
        self.master, self.slave = pty.openpty()
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.before = termios.tcgetattr(self.slave)
        self.seen = b""
        environment = {**os.environ, "TERM": "xterm", "LC_ALL": "C", **environment}
        lead = lambda: (os.setsid(), fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        self.child = subprocess.Popen(["shoal", "top", "-d", "0.3", *arguments], stdin=self.slave, stdout=self.slave,
                                      stderr=subprocess.PIPE, env=environment, preexec_fn=lead)

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
            raise SystemExit(f"status {self.child.returncode}, not {status}: {self.child.stderr.read()!r}")
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
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
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
    top = Top()
    top.see("NODE")
    top.type("\x1a")
    os.waitid(os.P_PID, top.child.pid, os.WSTOPPED | os.WNOWAIT)
    if termios.tcgetattr(top.slave) != top.before:
        raise SystemExit("stopped, it keeps the terminal")
    os.kill(top.child.pid, signal.SIGCONT)
    top.see("NODE")
    top.type("q")
    top.end(0)


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
    top.type("h")
    top.see("move it to another node")
    top.type("xq")
    top.end(0)


globals()[sys.argv[1]]()
print("passed")
