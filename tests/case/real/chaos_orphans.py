"""A process that takes orphans, with children and grandchildren that end, stop and are killed: it is told of each once, and as it was."""

import ctypes
import os
import random
import signal
import sys
import time

PR_SET_CHILD_SUBREAPER = 36
SYS_CLONE = 56  # x86-64
WALL = 0x40000000  # those too of whose end no SIGCHLD tells


def check(holds, *what):
    if not holds:
        print("wrong:", *what, flush=True)
        sys.exit(1)


def ends(code):
    time.sleep(random.random() / 10)
    os._exit(code)


def sleeps(code):
    """The child's child has been waited for when the child ends."""
    os.execvp("sh", ["sh", "-c", f"sleep 0.0{random.randrange(9)}; exit {code}"])


def leaves_an_orphan(code):
    if os.fork() == 0:
        ends(code)
    os._exit(code)


def leaves_a_zombie(code):
    if os.fork() == 0:
        os._exit(code)
    ends(code)


def fork_silently():
    """Its end is told by no signal: clone(2) without one."""
    return libc.syscall(SYS_CLONE, 0, 0, 0, 0, 0)


def has_a_silent_child(code):
    """The child's child has been waited for when the child ends."""
    pid = fork_silently()
    if pid == 0:
        ends(code)
    check(os.waitpid(pid, WALL) == (pid, code << 8))
    os._exit(code)


def leaves_a_silent_orphan(code):
    if fork_silently() == 0:
        ends(code)
    os._exit(code)


def waits_in_a_group(_code):
    os.setpgid(0, 0)
    signal.pause()


def stops_itself(code):
    os.setpgid(0, 0)
    time.sleep(0.05)
    os.kill(os.getpid(), signal.SIGSTOP)
    os._exit(code)


def wait(pid, options=0):
    """What this round has been told is said when it goes wrong."""
    told = os.waitpid(pid, options)
    told_of_round.append((told, time.time()))
    return told


def waited(pid, code):
    told = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    check((told.si_pid, told.si_status) == (pid, code), told)
    check(wait(pid) == (pid, code << 8))


def waited_for_both(_pid, code):
    for _ in range(2):
        told = wait(-1, WALL)
        check(told[1] == code << 8, told, code)


def killed(pid, _code):
    while os.getpgid(pid) != pid:
        time.sleep(0.002)
    os.killpg(pid, signal.SIGTERM)
    told = wait(pid)
    check(told == (pid, signal.SIGTERM), told)


def continued(pid, code):
    told = wait(pid, os.WUNTRACED)
    while os.WIFSTOPPED(told[1]):  # a stop may be told again after a move
        os.killpg(pid, signal.SIGCONT)
        told = wait(pid, os.WUNTRACED)
    check(told == (pid, code << 8), told)


def has_no_more_children():
    try:
        told = os.waitpid(-1, os.WNOHANG | WALL)
    except ChildProcessError:
        return
    with open("/proc/thread-self/children") as children:
        stats = [open(f"/proc/{pid}/stat").read()[:60] for pid in children.read().split()]
    check(False, "more children:", told, stats, os.uname().nodename, time.time(), told_of_round)


KINDS = [
    (ends, waited),
    (sleeps, waited),
    (leaves_an_orphan, waited_for_both),
    (leaves_a_zombie, waited_for_both),
    (has_a_silent_child, waited),
    (leaves_a_silent_orphan, waited_for_both),
    (waits_in_a_group, killed),
    (stops_itself, continued),
]

told_of_round = []
libc = ctypes.CDLL(None)
libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
end = time.monotonic() + float(sys.argv[1])
while time.monotonic() < end:
    (does, then), code = random.choice(KINDS), random.randrange(100)
    pid = os.fork()
    if pid == 0:
        does(code)
    told_of_round[:] = [does.__name__, os.getpid(), pid]
    then(pid, code)
    has_no_more_children()
print("well")
