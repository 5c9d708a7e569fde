# As `moved small`: tells at each SIGUSR1 the gap between two looks at the clock in which it came to another machine, and the largest (milliseconds).
import os
import signal
import time

worst = still = last = 0
then = time.monotonic_ns()
here = os.uname().nodename
moved = False
# Looks since it was asked: it may have been before it saw where it is.
asked = 0


def ask(*_):
    global asked
    asked = 1


signal.signal(signal.SIGUSR1, ask)
print("there", flush=True)
while True:
    now = time.monotonic_ns()
    gap = now - then
    worst = max(worst, gap)
    if moved:
        still = max(gap, last)
    moved = os.uname().nodename != here
    here = os.uname().nodename if moved else here
    last = gap
    then = now
    asked += asked > 0
    if asked > 3 and not moved:
        asked = 0
        print(still / 1e6, worst / 1e6, flush=True)
        worst = still = 0
        then = time.monotonic_ns()
