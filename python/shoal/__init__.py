"""The running interpreter on other machines of a shoal cluster.

`rfork` and `move` are those of the C library. `map` and `Executor` fork the interpreter onto nodes with all that it has in memory, functions, models and data,
so that neither code nor arguments are pickled: only results are, and exceptions.
"""

from ._calls import FRONT, Node, ShoalError, here, move, nodes, rfork
from ._pool import Executor, map
from ._worker import NodeLost, WorkerLost

__all__ = ["FRONT", "Executor", "Node", "NodeLost", "ShoalError", "WorkerLost", "here", "map", "move", "nodes", "rfork"]
