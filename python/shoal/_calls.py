"""The calls of libshoal that this module needs."""

import ctypes
import os
from typing import NamedTuple, Optional, Sequence

#: The number of the front end.
FRONT = -1

_UP = "up"


class ShoalError(OSError):
    """What a call of libshoal has failed with: errno, and the whole reason as strerror."""


class Node(NamedTuple):
    """A node: its number, the word for its state, who owns it, and who may use it (bits of 0o111)."""

    number: int
    state: str
    user: int
    group: int
    mode: int


class _Info(ctypes.Structure):
    """struct bproc_node_info_t of sys/bproc_common.h."""

    _fields_ = [
        ("node", ctypes.c_int),
        ("status", ctypes.c_char * 16),
        ("mode", ctypes.c_uint),
        ("user", ctypes.c_uint),
        ("group", ctypes.c_uint),
        ("addr", ctypes.c_ubyte * 16),
        ("atime", ctypes.c_long),
        ("mtime", ctypes.c_long),
    ]


class _Set(ctypes.Structure):
    """struct bproc_node_set_t."""

    _fields_ = [("size", ctypes.c_int), ("alloc", ctypes.c_int), ("node", ctypes.POINTER(_Info))]


def _load() -> ctypes.PyDLL:
    # PyDLL: the lock of the interpreter stays held, as fork(2) needs: the child has the calling thread alone.
    said = os.environ.get("SHOAL_LIBRARY")
    beside = os.path.join(os.path.dirname(__file__), "libshoal.so.0")
    library = ctypes.PyDLL(said or (beside if os.path.exists(beside) else "libshoal.so.0"), use_errno=True)
    library.shoal_error.restype = ctypes.c_char_p
    return library


_library = _load()


def _failed() -> ShoalError:
    errno = ctypes.get_errno()
    return ShoalError(errno, _library.shoal_error().decode(errors="replace"))


def here() -> int:
    """The number of the node on which this interpreter runs; FRONT on the front end."""
    ctypes.set_errno(0)
    node = _library.bproc_currnode()
    if node == -1 and ctypes.get_errno() != 0:
        raise _failed()
    return node


def nodes() -> list[Node]:
    """All nodes, in the order of their numbers; without the front end."""
    found = _Set()
    if _library.bproc_nodelist(ctypes.byref(found)) < 0:
        raise _failed()
    try:
        each = (found.node[i] for i in range(found.size))
        return [Node(one.node, one.status.decode(), one.user, one.group, one.mode) for one in each]
    finally:
        _library.bproc_nodeset_free(ctypes.byref(found))


def usable() -> list[int]:
    """The numbers of the nodes that are up and that the caller may use."""
    return [node.number for node in nodes() if node.state == _UP and _library.bproc_access(node.number, 1) == 0]


def move(node: int) -> None:
    """Goes to a node, or to the front end. If that fails the interpreter is where it was."""
    if _library.shoal_move(0, ctypes.c_int(node)) != 0:
        raise _failed()


_HOOKS = ("PyOS_BeforeFork", "PyOS_AfterFork_Parent", "PyOS_AfterFork_Child")
_hooks = [ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p) for name in _HOOKS]


def rfork(node: int, streams: Optional[Sequence[int]] = None) -> int:
    """As os.fork, but the child goes on on a node: 0 there, and its PID here.

    `streams`: three descriptors of the caller, which are the child's standard streams over the network (-1: it has none). Without, the child has no input, and
    what it writes comes to where the caller's output goes. It has no other descriptors.
    """
    wanted = None if streams is None else (ctypes.c_int * 3)(*streams)
    # Before a child has been told that it is one it must not execute a line of Python: a thread of its parent's that wants the interpreter's lock would be waited for.
    pid = _library.shoal_rfork_calling(ctypes.c_int(node), wanted, *_hooks)
    if pid < 0:
        raise _failed()
    return pid
