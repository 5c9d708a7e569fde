"""So many rounds of what is wrong, one kind after the other, on the machine where this runs: ARGV is their number."""
import glob, os, socket, stat, subprocess, sys

FRONT = ("10.77.0.1", 7706)
LOCAL = "/run/shoal/shoal.sock"
GIGABYTE = (1 << 30).to_bytes(4, "big")
# Connections that have said half of something and stay; more than these are not kept.
staying = []


def listening():
    """Where a daemon of this machine takes TCP connections."""
    for line in open("/proc/net/tcp").readlines()[1:]:
        words = line.split()
        if words[3] == "0A":
            host, port = words[1].split(":")
            yield "127.0.0.1" if host == "00000000" else FRONT[0], int(port, 16)


PORTS = [FRONT, *listening()]


def run(code, text, *words):
    while True:
        try:
            done = subprocess.run(["shoal", "run", *words], stdin=subprocess.DEVNULL, capture_output=True, text=True)
            # A fork of the node without numbers has this one for the moment until it is killed.
            if "there is one already" not in done.stderr:
                break
        except BlockingIOError:
            pass  # this node's leases are small too, and its machine is busy
    line = done.stderr
    assert done.returncode == code and line.count("\n") == (text != "") and text in line, (words, done)


def say(address, data, stays=False):
    family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
    peer = socket.socket(family)
    peer.settimeout(20)
    try:
        peer.connect(address)
        peer.sendall(data)
        if stays:
            staying.append(peer)
            return
        peer.shutdown(socket.SHUT_WR)
        while peer.recv(65536):
            pass
    except (ConnectionError, BrokenPipeError, OSError) as error:
        assert not isinstance(error, socket.timeout), (address, data[:20], "hangs")
    peer.close()


def to_ports(round, data, stays=False):
    say(PORTS[round % len(PORTS)], data, stays)


# Every socket of a daemon here.
SOCKETS = [path for path in glob.glob("/run/shoal/*") if stat.S_ISSOCK(os.lstat(path).st_mode)]


def to_sockets(round, data, stays=False):
    say(SOCKETS[round % len(SOCKETS)], data, stays)


# A node takes a moment to put what it starts behind its limit.
UNTIL_FORKS_FAIL = "exec 2>/dev/null; while :; do (:); done"

KINDS = [
    lambda i: run(125, "unknown node n9", "-n", "9", "true"),
    lambda i: run(125, "node n2 is down", "-n", "2", "true"),
    # n3 has no number left for forks; what is started there has one of the front end's.
    lambda i: run(2, "", "-n", "3", "sh", "-c", UNTIL_FORKS_FAIL),
    lambda i: run(0, "", "-n", "3", "true"),
    lambda i: run(127, "execute /no/such: No such file", "-n", str(i % 2), "/no/such"),
    lambda i: run(126, "execute /etc/passwd: Permission denied", "-n", str(i % 2), "/etc/passwd"),
    lambda i: to_ports(i, b"X" + os.urandom(i % 3000)),
    # A handshake of the right length, made with no key.
    lambda i: to_ports(i, b"C\x00\x30" + os.urandom(48)),
    lambda i: to_ports(i, b"C" + os.urandom(i % 3000)),
    # Of a channel nobody knows yet: it may still be asked for, so it is kept for a while.
    lambda i: to_ports(i, b"S" + os.urandom(16 + i % 3000), stays=True),
    lambda i: to_ports(i, b"S" + os.urandom(i % 16), stays=True),
    lambda i: to_ports(i, b"C\x00", stays=True),
    lambda i: say(LOCAL, GIGABYTE + bytes(i % 3000)),
    lambda i: say(LOCAL, bytes(4) + os.urandom(i % 3000)),
    lambda i: to_sockets(i, b"\0\0", stays=True),
    # A frame that is announced and does not come.
    lambda i: to_sockets(i, b"\0\0\x10\0" + bytes(i % 3000), stays=True),
    lambda i: say(LOCAL, b"", stays=True),
    lambda i: run(0, "", "-n", str(i % 2), "true"),
]

assert stat.S_ISSOCK(os.stat(LOCAL).st_mode)
for i in range(int(sys.argv[1])):
    KINDS[i % len(KINDS)](i)
    for peer in staying[:-20]:
        peer.close()
        staying.remove(peer)
print("end")
