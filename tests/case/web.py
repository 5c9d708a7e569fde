# Asks the page's server what browsers, Prometheus and hostile programs ask. What it serves is in the files of /run/shoal/web-*.
import http.client, json, os, signal, socket, stat, subprocess, sys, time

PORT = 7707
PATIENCE = 20.0


def begin(*arguments, at=f"127.0.0.1:{PORT}"):
    server = subprocess.Popen(["shoal", "web", *arguments], stderr=subprocess.PIPE, text=True)
    if f"http://{at}/" not in server.stderr.readline():
        raise SystemExit("it does not say where the page is")
    return server


def ask(method, path, body=None, host=f"127.0.0.1:{PORT}", **headers):
    connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=PATIENCE)
    connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
    named = {"Host": host, **{name.replace("_", "-"): value for name, value in headers.items()}}
    for name, value in named.items():
        if value is not None:
            connection.putheader(name, value)
    if body is not None:
        connection.putheader("Content-Length", str(len(body)))
    connection.endheaders(body.encode() if body is not None else None)
    answer = connection.getresponse()
    return answer.status, answer.read().decode(), answer.headers


def same(what, got, expected):
    if got != expected:
        raise SystemExit(f"{what}: {got!r}, not {expected!r}")


def until(what, come):
    end = time.monotonic() + PATIENCE
    while not (found := come()):
        if time.monotonic() > end:
            raise SystemExit(f"not in time: {what}")
        time.sleep(0.1)
    return found


def state():
    return json.loads(ask("GET", "/api/state")[1])


def process(command):
    return next((one for one in state()["processes"] if one["command"] == command), None)


def page():
    token = subprocess.check_output(["shoal", "web", "--token"], text=True).strip()
    same("the token's file", oct(stat.S_IMODE(os.stat("/run/shoal/web-token").st_mode)), "0o600")
    server = begin()
    capabilities = open(f"/proc/{server.pid}/status").read().split("CapEff:\t")[1].split()[0]
    same("of root's capabilities only CAP_KILL", int(capabilities, 16), 1 << 5)
    status, text, headers = ask("GET", "/")
    same("the page", (status, "<title>shoal</title>" in text, "NONCE" in text), (200, True, False))
    same("no page may read this one", headers["Access-Control-Allow-Origin"], None)
    same("only what is in the page runs", headers["Content-Security-Policy"].startswith("default-src 'none'; script-src 'nonce-"), True)
    pid = until("the process is there", lambda: process("sleep 1113"))["pid"]
    same("its node", process("sleep 1113")["node"], "n0")
    same("the nodes", [(one["node"], one["state"]) for one in state()["nodes"]], [("n0", "up"), ("n1", "up")])
    metrics = ask("GET", "/metrics")[1].splitlines()
    for line in ["shoal_nodes 2", 'shoal_node_linked{node="n1"} 1', 'shoal_node_up{node="n1"} 1', 'shoal_processes{node="n0"} 1', "shoal_moves_total 0"]:
        same(line, line in metrics, True)
    same("samples of the nodes", any(line.startswith('shoal_node_cpu_seconds_total{node="n1"') for line in metrics), True)
    birth = process("sleep 1113")["birth"]
    move, kill = json.dumps({"pid": pid, "birth": birth, "to": 1}), json.dumps({"pid": pid, "birth": birth, "signal": 9})
    session = ask("POST", "/api/sign-in", "{}", X_Shoal_Token=token)
    same("the right token", (session[0], session[1].strip() == token), (200, False))
    session = session[1].strip()
    for path, body in [("/api/move", move), ("/api/signal", kill), ("/api/sign-out", "{}"), ("/api/sign-in", "{}")]:
        same("signed in by nothing", ask("POST", path, body)[0], 401)
        same("by a wrong token", ask("POST", path, body, X_Shoal_Token="0" * 64)[0], 401)
        same("by a wrong session", ask("POST", path, body, X_Shoal_Session="0" * 64)[0], 401)
        same("of another's page", ask("POST", path, body, X_Shoal_Token=token, X_Shoal_Session=session, Origin="http://evil.example")[0], 403)
        same("not by GET", ask("GET", path, X_Shoal_Session=session)[0], 405)
    same("the token alone does nothing", ask("POST", "/api/signal", kill, X_Shoal_Token=token)[0], 401)
    same("moved", ask("POST", "/api/move", move, X_Shoal_Session=session, Origin=f"http://127.0.0.1:{PORT}")[:2], (200, f"{pid} has moved to n1\n"))
    told = lambda: [(one["what"], one["from"], one["to"]) for one in reversed(state()["events"]) if one["pid"] == pid]
    until("the move is told", lambda: told() == [("begun", "n0", "n1"), ("moved", "n0", "n1")])
    until("it counts", lambda: "shoal_moves_total 1" in ask("GET", "/metrics")[1].splitlines())
    act = lambda path, what: ask("POST", path, json.dumps(what), X_Shoal_Session=session)[0]
    same("to nowhere", act("/api/move", {"pid": pid, "birth": birth, "to": 7}), 409)
    same("no process of the space", act("/api/signal", {"pid": os.getpid(), "birth": 0, "signal": 9}), 404)
    same("another one that has the number", act("/api/signal", {"pid": pid, "birth": birth + 1, "signal": 9}), 409)
    same("no signal", act("/api/signal", {"pid": pid, "birth": birth, "signal": 65}), 400)
    same("no JSON", ask("POST", "/api/signal", "{", X_Shoal_Session=session)[0], 400)
    hangs(pid, birth, act)
    same("killed", ask("POST", "/api/signal", kill, X_Shoal_Session=session)[0], 200)
    until("it is gone", lambda: not process("sleep 1113"))
    same("signed out", act("/api/sign-out", {}), 200)
    same("no more", act("/api/sign-out", {}), 401)
    server.kill()
    server.wait()
    # From elsewhere nobody signs in, unless that is wanted.
    for more, status in [([], 403), (["--insecure"], 200)]:
        server = begin("--listen", f"10.77.0.1:{PORT}", *more, at=f"10.77.0.1:{PORT}")
        connection = http.client.HTTPConnection("10.77.0.1", PORT, timeout=PATIENCE)
        connection.request("POST", "/api/sign-in", "{}", {"X-Shoal-Token": token})
        same(f"signed in from elsewhere {more}", connection.getresponse().status, status)
        server.kill()
        server.wait()


def front():
    """The daemon: a child of the machine's first process."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            words, status = open(f"/proc/{pid}/cmdline").read().split("\0"), open(f"/proc/{pid}/status").read()
        except OSError:
            continue
        if words[1:2] == ["front"] and "\nPPid:\t1\n" in status:
            return int(pid)
    raise SystemExit("no daemon")


def hangs(pid, birth, act):
    """The daemon does not answer for a while: that is said, and nothing is done."""
    daemon = front()
    os.kill(daemon, signal.SIGSTOP)
    try:
        told = until("it is away", lambda: (one := state())["away"] and one)
        same("it does not answer", "does not answer" in told["away"] and told["old"], True)
        lines = [line for line in ask("GET", "/metrics")[1].splitlines() if not line.startswith("#")]
        same("no old figures", lines, ["shoal_up 0"])
        same("nothing is done by what is old", act("/api/signal", {"pid": pid, "birth": birth, "signal": 9}), 409)
    finally:
        os.kill(daemon, signal.SIGCONT)
    until("it is back", lambda: not state()["old"])


def raw(data, patience=PATIENCE):
    """The status of what is answered to these bytes; None: nothing."""
    with socket.create_connection(("127.0.0.1", PORT), patience) as one:
        try:
            one.sendall(data)
            words = one.recv(4096).split()
        except ConnectionError:
            return None
        return int(words[1]) if words else None


def hostile():
    server = begin()
    for host in ["evil.example", "127.0.0.1.evil.example:7707", "localhost.evil.example", "", None]:
        same(f"called {host}", ask("GET", "/api/state", host=host)[0], 421)
    for host in ["localhost:7707", "[::1]:7707", "127.0.0.1"]:
        same(f"called {host}", ask("GET", "/api/state", host=host)[0], 200)
    head = b"GET / HTTP/1.1\r\nHost: localhost\r\n"
    same("a huge head", raw(head + b"X: " + b"x" * 100_000 + b"\r\n\r\n"), 431)
    same("many headers", raw(head + b"X: y\r\n" * 10_000 + b"\r\n"), 431)
    same("a huge body", raw(b"POST /api/move HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999\r\n\r\n"), 413)
    same("chunks", raw(b"POST /api/move HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"), 501)
    for bad in [b"\r\n\r\n", b"\0" * 100 + b"\r\n\r\n", b"GET / HTTP/9\r\n\r\n", b"\x16\x03\x01\x02\0\x01\r\n\r\n", head + b"a\r\n\r\n"]:
        same(f"{bad[:20]}", raw(bad), 400)
    for path in [b"/../../etc/passwd", b"/%2e%2e/etc/passwd", b"//etc/passwd", b"/web-token"]:
        same(f"{path}", raw(b"GET " + path + b" HTTP/1.1\r\nHost: localhost\r\n\r\n"), 404)
    # More than are served at a time, each with half a request, and some that read no answer.
    slow = [socket.create_connection(("127.0.0.1", PORT)) for _ in range(150)]
    for number, one in enumerate(slow):
        try:
            one.sendall(head + b"\r\n" if number % 3 == 0 else head)
        except ConnectionError:
            pass  # It was the oldest.
    for _ in range(20):
        same("beside slow ones", ask("GET", "/api/state")[0], 200)
    # As many that have been answered and go on talking, a little at a time.
    talk = [socket.create_connection(("127.0.0.1", PORT)) for _ in range(150)]
    for turn in range(15):
        for one in talk:
            try:
                one.sendall(head + b"\r\n" if turn == 0 else b"x")
            except OSError:
                pass  # It was the oldest, or has talked for long enough.
        same("beside those that talk", ask("GET", "/api/state")[0], 200)
        time.sleep(0.05)
    late = socket.create_connection(("127.0.0.1", PORT))
    late.sendall(head)
    late.settimeout(PATIENCE)
    same("half a request", late.recv(100).split()[1], b"408")
    same("it goes on", server.poll(), None)
    server.kill()


def browser(arguments):
    server = begin()
    until("both are there", lambda: process("sleep 1114"))
    folder = "/run/shoal/web-profile"
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
             "--disable-component-update", "--disable-sync", f"--user-data-dir={folder}", "--virtual-time-budget=4000", "--dump-dom"]
    dom = subprocess.run(["chromium", *flags, f"http://127.0.0.1:{PORT}/"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=60).stdout
    for part in ["sleep 1114", '<span class="name">n0</span>', '<span class="name">n1</span>', 'class="node up"', "<polyline", '<b id="up">2</b>']:
        same(f"{part} in {dom[-3000:]}", part in dom, True)
    # A process is called so, and nothing of that is the page's.
    same("a hostile name", ("&lt;img src=x onerror=" in dom, "<img" in dom, "spoilt" in dom.split("<title>")[1].split("</title>")[0]), (True, False, False))
    server.kill()


if sys.argv[1] == "browser":
    browser(sys.argv[2:])
else:
    globals()[sys.argv[1]]()
print("passed")
