"""Pipelines over nodes 0, 1 and 2 that are one group, signalled all at once: each process is to die of the signal, not of what the others' deaths bring it.

Argument: rounds. Prints how many pipelines ended otherwise, and then their wait statuses."""
import os
import signal
import subprocess
import sys
import time

PIPELINES = [(["sleep", "30"], ["cat"], ["cat"]), (["yes"], ["cat"], ["sleep", "30"])]


def start(node, command, group, stdin, stdout):
    return subprocess.Popen(["shoal", "run", "-n", str(node)] + command, stdin=stdin, stdout=stdout, process_group=group)


def pipeline(commands):
    (r1, w1), (r2, w2) = os.pipe(), os.pipe()
    first = start(0, commands[0], 0, subprocess.DEVNULL, w1)
    second = start(1, commands[1], first.pid, r1, w2)
    third = start(2, commands[2], first.pid, r2, subprocess.DEVNULL)
    for fd in (r1, w1, r2, w2):
        os.close(fd)
    return first, second, third


odd = []
for round in range(int(sys.argv[1])):
    members = pipeline(PIPELINES[round % 2])
    sig = (signal.SIGINT, signal.SIGTERM)[round // 2 % 2]
    # While they are started, or after.
    time.sleep((0.03, 0.06)[round // 4 % 2])
    os.killpg(members[0].pid, sig)
    ends = [member.wait() for member in members]
    if ends != [-sig] * 3:
        odd.append((PIPELINES[round % 2], ends))
print(len(odd), *odd)
