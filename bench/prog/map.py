"""As many calls of a function that computes, by shoal.map on nodes or by multiprocessing.Pool here: map.py nodes|here WORKERS CALLS. Prints milliseconds.

The function needs 8 MB that it finds in memory: a worker of either has them by fork, and neither is sent any.
"""
import multiprocessing
import sys
import time

table = bytes(range(256)) * (8 << 12)


def work(seed):
    total = 0
    for at in range(0, len(table), 97):
        total = (total * 31 + table[at] + seed) & 0xFFFFFFFF
    return total


def main():
    where, workers, calls = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    begin = time.monotonic()
    if where == "nodes":
        import shoal

        done = list(shoal.map(work, range(calls), nodes=list(range(workers))))
    else:
        with multiprocessing.get_context("fork").Pool(workers) as pool:
            done = pool.map(work, range(calls), chunksize=1)
    took = (time.monotonic() - begin) * 1e3
    if done[-1] != work(calls - 1):
        sys.exit("another result than here")
    print(f"{took:.1f}")


main()
