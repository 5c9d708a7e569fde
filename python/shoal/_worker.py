"""One child on a node, and what the two say to each other: frames of a kind, a length and bytes."""

import io
import os
import pickle
import signal
import struct
import sys
import traceback
from concurrent import futures
from typing import Any, Callable, Optional

from . import _calls

_HEAD = struct.Struct("<cQ")
#: A value, an exception, what was printed.
RESULT, ERROR, PRINTED = b"r", b"e", b"p"
_ITEM = struct.Struct("<q")
_PIECE = 1 << 16


class WorkerLost(futures.BrokenExecutor):
    """A worker has ended before it has answered."""


class NodeLost(WorkerLost):
    """The node of a worker was lost."""


class _Remote(Exception):
    """Where an exception was raised on the other machine; the cause of what is raised here."""

    def __init__(self, node: int, text: str) -> None:
        super().__init__(node, text)
        self.node, self.text = node, text

    def __str__(self) -> str:
        return f"\n\"\"\"\non node {self.node}:\n{self.text}\"\"\""


class _Printed(io.TextIOBase):
    """Standard output of a child: what its parent is to print, by whole lines."""

    encoding = "utf-8"

    def __init__(self, answers: int) -> None:
        self._answers = answers
        self._line = ""

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self._line += text
        if "\n" in text:
            self._send_up_to(self._line.rindex("\n") + 1)
        return len(text)

    def flush(self) -> None:
        self._send_up_to(len(self._line))

    def _send_up_to(self, end: int) -> None:
        text, self._line = self._line[:end], self._line[end:]
        if text:
            _send(self._answers, PRINTED, text.encode("utf-8", "surrogatepass"))


def _send(to: int, kind: bytes, payload: bytes) -> None:
    left = memoryview(_HEAD.pack(kind, len(payload)) + payload)
    while left:
        left = left[os.write(to, left) :]


def _exception(error: BaseException) -> bytes:
    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    node = _calls.here()
    try:
        whole = pickle.dumps((error, node, text))
        pickle.loads(whole)
        return whole
    except Exception:
        return pickle.dumps((RuntimeError(f"{type(error).__name__}: {error}"), node, text))


def _answer(answers: int, function: Callable[[], Any]) -> None:
    try:
        payload, kind = pickle.dumps(function(), pickle.HIGHEST_PROTOCOL), RESULT
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        payload, kind = _exception(error), ERROR
    sys.stdout.flush()
    _send(answers, kind, payload)


def _serve(task: Callable[[int], Any]) -> None:
    """The child's whole life: an item after the other, as the numbers come on standard input, until that ends."""
    # What is not Python writes to descriptor 1, which is not to be among the answers.
    answers = os.dup(1)
    os.dup2(2, 1)
    sys.stdout = _Printed(answers)
    while True:
        item = b""
        while len(item) < _ITEM.size:
            piece = os.read(0, _ITEM.size - len(item))
            if not piece:
                return
            item += piece
        number = _ITEM.unpack(item)[0]
        _answer(answers, lambda: task(number))


class Worker:
    """A child on a node that does items of a task, one at a time, each by its number."""

    def __init__(self, node: int, task: Callable[[int], Any]) -> None:
        self.node = node
        numbers, self._numbers = os.pipe()
        self.answers, answers = os.pipe()
        self._got = bytearray()
        try:
            sys.stdout.flush()
            sys.stderr.flush()
            self.pid = _calls.rfork(node, (numbers, answers, 2))
        except BaseException:
            os.close(self._numbers)
            os.close(self.answers)
            raise
        finally:
            if getattr(self, "pid", -1) != 0:
                os.close(numbers)
                os.close(answers)
        if self.pid == 0:
            status = 1
            try:
                _serve(task)
                status = 0
            except KeyboardInterrupt:
                signal.signal(signal.SIGINT, signal.SIG_DFL)
                os.kill(os.getpid(), signal.SIGINT)
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(status)

    def ask(self, number: int) -> None:
        """Begins an item."""
        try:
            os.write(self._numbers, _ITEM.pack(number))
        except BrokenPipeError:
            pass  # the end of its answers tells

    def take(self) -> Optional[tuple[bytes, bytes]]:
        """Reads once; an answer, if a whole one is there.

        Raises WorkerLost if there will be none. What it has printed is printed.
        """
        piece = os.read(self.answers, _PIECE)
        if not piece:
            raise self._lost()
        self._got += piece
        while len(self._got) >= _HEAD.size:
            kind, length = _HEAD.unpack_from(self._got)
            whole = _HEAD.size + length
            if len(self._got) < whole:
                return None
            payload = bytes(self._got[_HEAD.size : whole])
            del self._got[:whole]
            if kind != PRINTED:
                return kind, payload
            sys.stdout.write(payload.decode("utf-8", "surrogatepass"))
        return None

    def _lost(self) -> WorkerLost:
        status = self.end()
        how = f"with signal {-status}" if status < 0 else f"with status {status}"
        try:
            state = next(node.state for node in _calls.nodes() if node.number == self.node)
        except (OSError, StopIteration):
            state = "unknown"
        if state != "up":
            return NodeLost(f"node {self.node} is {state}: its worker {self.pid} was lost")
        return WorkerLost(f"the worker {self.pid} on node {self.node} has ended {how} before it has answered")

    def kill(self) -> None:
        """Ends it at once; whoever hears it learns that it is lost."""
        if self.answers >= 0:
            os.kill(self.pid, signal.SIGKILL)

    def end(self, kill: bool = False) -> int:
        """Lets it end, or ends it; its exit status, or minus the signal that has ended it."""
        if self.answers < 0:
            return 0
        if kill:
            self.kill()
        os.close(self._numbers)
        os.close(self.answers)
        self.answers = -1
        try:
            return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        except ChildProcessError:
            return 0


def result(answer: tuple[bytes, bytes]) -> Any:
    """What a worker has answered: its value, or its exception is raised."""
    kind, payload = answer
    if kind == RESULT:
        return pickle.loads(payload)
    error, node, text = pickle.loads(payload)
    error.__cause__ = _Remote(node, text)
    raise error
