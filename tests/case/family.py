# family.py: a parent and its child. What the parent is sent it does to the child (INT: SIGSTOP, HUP: SIGCONT, USR1, TERM and QUIT, which is SIGKILL), and it writes what wait tells of that.
import os, signal, sys, time


def say(*words):
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def host():
    with open("/proc/sys/kernel/hostname") as file:
        return file.read().strip()


child = os.fork()
if not child:
    parent = os.getppid()

    def term(*_):
        say("child ends on", host())
        os._exit(5)

    signal.signal(signal.SIGUSR1, lambda *_: say("child on", host(), "with its parent" if os.getppid() == parent else "alone"))
    signal.signal(signal.SIGTERM, term)
    with open("child.new", "w") as file:
        file.write(str(os.getpid()))
    os.rename("child.new", "child")
    while True:
        time.sleep(0.02)

for what, does in {"INT": "STOP", "HUP": "CONT", "USR1": "USR1", "TERM": "TERM", "QUIT": "KILL"}.items():
    signal.signal(getattr(signal, "SIG" + what), lambda *_, sig=getattr(signal, "SIG" + does): os.kill(child, sig))
open("up", "w")
while True:
    pid, status = os.waitpid(-1, os.WUNTRACED | os.WCONTINUED)
    assert pid == child
    if os.WIFSTOPPED(status):
        say("stopped", os.WSTOPSIG(status), "for", host())
    elif os.WIFCONTINUED(status):
        say("continued for", host())
    else:
        say(f"exited {os.WEXITSTATUS(status)}" if os.WIFEXITED(status) else f"killed {os.WTERMSIG(status)}", "for", host())
        break
sys.exit(9)
