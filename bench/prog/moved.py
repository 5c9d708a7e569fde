# As `moved small`: tells at each SIGUSR1 the largest gap between two looks at the clock (milliseconds).
import signal
import time

worst = 0
then = time.monotonic_ns()


def tell(*_):
    global worst, then
    print(worst / 1e6, flush=True)
    worst = 0
    then = time.monotonic_ns()


signal.signal(signal.SIGUSR1, tell)
print("there", flush=True)
while True:
    now = time.monotonic_ns()
    if now - then > worst:
        worst = now - then
    then = now
