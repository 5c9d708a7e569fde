"""Forks, maps and calls, with all that the interpreter has in memory."""

import contextlib
import io
import os
import sys

import shoal

started = shoal.here()
numbers = [node.number for node in shoal.nodes()]
assert numbers == [0, 1, 2] and all(node.state == "up" for node in shoal.nodes())
others = [number for number in numbers if number != started]

streams = os.pipe()
pid = shoal.rfork(others[0], (-1, streams[1], 2))
if pid == 0:
    os.write(1, f"on {shoal.here()}, child of {os.getppid()}".encode())
    os._exit(7)
os.close(streams[1])
with open(streams[0], "rb") as answers:
    assert answers.read().decode() == f"on {others[0]}, child of {os.getpid()}"
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7

# A closure over data that is never pickled.
unpicklable = {"lambda": lambda x: x * x, "data": list(range(100_000)), "file": sys.stderr}


def item(x):
    print(f"printed {x}")
    return x, unpicklable["lambda"](x), unpicklable["data"][x], shoal.here()


said = io.StringIO()
with contextlib.redirect_stdout(said):
    results = shoal.map(item, range(20), nodes=others * 2)
assert [r[:3] for r in results] == [(x, x * x, x) for x in range(20)], results
assert {r[3] for r in results} <= set(others)
assert sorted(said.getvalue().splitlines()) == sorted(f"printed {x}" for x in range(20)), said.getvalue()
assert shoal.map(item, []) == []

with shoal.Executor(nodes=others) as executor:
    futures = [executor.submit(lambda a, b=1: (a + b, shoal.here()), i, b=10) for i in range(6)]
    assert [f.result()[0] for f in futures] == [i + 10 for i in range(6)]
    assert list(executor.map(lambda a, b: a - b, range(5), range(5))) == [0] * 5
    big = executor.submit(lambda: b"x" * (3 << 20)).result()
    assert len(big) == 3 << 20

try:
    os.waitpid(-1, os.WNOHANG)
    raise AssertionError("a child is left")
except ChildProcessError:
    pass

if started == shoal.FRONT:
    shoal.move(1)
    assert shoal.here() == 1
print("ok")
