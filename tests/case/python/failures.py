"""What is raised when something fails elsewhere."""

import errno
import os
import sys
import traceback

import shoal


class Own(Exception):
    """One that cannot be pickled as it is."""

    def __init__(self, a, b):
        super().__init__("own")
        self.both = (a, b)


def raises(x):
    if x == 5:
        raise ValueError(f"item {x}")
    return x


def fails(what, call):
    try:
        call()
    except what as error:
        return error
    raise AssertionError(f"no {what}")


error = fails(ValueError, lambda: shoal.map(raises, range(10)))
text = "".join(traceback.format_exception(error))
assert "item 5" in text and "on node " in text and "in raises" in text, text


def own(x):
    raise Own(1, 2)


assert "Own: own" in str(fails(RuntimeError, lambda: shoal.map(own, [1])))
dead = fails(shoal.WorkerLost, lambda: shoal.map(lambda x: os.kill(os.getpid(), 9), [1]))
assert "signal 9" in str(dead) and not isinstance(dead, shoal.NodeLost), dead
left = fails(shoal.WorkerLost, lambda: shoal.map(lambda x: os._exit(3), [1]))
assert "status 3" in str(left), left
assert fails(shoal.ShoalError, lambda: shoal.rfork(9999)).errno == 300
assert "node n9999" in str(fails(shoal.ShoalError, lambda: shoal.rfork(9999)))
assert fails(shoal.ShoalError, lambda: shoal.rfork(0, (999, 1, 2))).errno == errno.EBADF
with shoal.Executor() as executor:
    assert isinstance(executor.submit(lambda: 1 / 0).exception(), ZeroDivisionError)
    assert executor.submit(lambda: sys.exit(4)).exception().code == 4
    assert isinstance(executor.submit(lambda: os.kill(os.getpid(), 11)).exception(), shoal.WorkerLost)
    assert executor.submit(lambda: 7).result() == 7
fails(RuntimeError, lambda: executor.submit(lambda: 1))
print("ok")
