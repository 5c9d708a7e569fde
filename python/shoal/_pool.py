"""Many items or calls on many nodes."""

import itertools
import queue
import selectors
import threading
from concurrent import futures
from typing import Any, Callable, Iterable, Iterator, Optional, Sequence

from . import _calls
from ._worker import Worker, result


def _slots(nodes: Optional[Iterable[int]]) -> list[int]:
    """The nodes for workers, each as often as it is to have one."""
    slots = _calls.usable() if nodes is None else list(nodes)
    if not slots:
        raise ValueError("no node is up that you may use")
    return slots


def map(function: Callable[[Any], Any], items: Iterable[Any], nodes: Optional[Iterable[int]] = None) -> list[Any]:
    """`[function(item) for item in items]`, by workers on nodes.

    `nodes`: their numbers, each as often as it is to have a worker; without, one on each node that is up. The interpreter is forked onto them as it is; an item is
    given to whichever worker is free. The first exception is raised once the workers have been ended. A worker that is lost raises WorkerLost.
    """
    items = list(items)
    slots = _slots(nodes)[: len(items)]
    answers: list[Any] = [None] * len(items)
    workers: list[Worker] = []
    with selectors.DefaultSelector() as ready:
        try:
            to_come = iter(range(len(items)))
            at_work: dict[Worker, int] = {}
            for node in slots:
                worker = Worker(node, lambda number: function(items[number]))
                workers.append(worker)
                ready.register(worker.answers, selectors.EVENT_READ, worker)
                at_work[worker] = next(to_come)
                worker.ask(at_work[worker])
            while at_work:
                for key, _ in ready.select():
                    worker = key.data
                    answer = worker.take()
                    if answer is None:
                        continue
                    answers[at_work.pop(worker)] = result(answer)
                    following = next(to_come, None)
                    if following is not None:
                        at_work[worker] = following
                        worker.ask(following)
        except BaseException:
            for worker in workers:
                worker.end(kill=True)
            raise
    for worker in workers:
        worker.end()
    return answers


class Executor(futures.Executor):
    """Calls on nodes, each by a fork of the interpreter as it is when the call begins.

    `nodes`: their numbers, each as often as it may have a call at a time; without, one on each node that is up.
    """

    def __init__(self, nodes: Optional[Sequence[int]] = None) -> None:
        self._free: "queue.SimpleQueue[int]" = queue.SimpleQueue()
        for node in _slots(nodes):
            self._free.put(node)
        self._calls: "queue.SimpleQueue[Optional[tuple]]" = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._over = False
        self._running: dict[Worker, threading.Thread] = {}
        self._names = itertools.count()
        self._giver = threading.Thread(target=self._give, name="shoal", daemon=True)
        self._giver.start()

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> futures.Future:
        with self._lock:
            if self._over:
                raise RuntimeError("cannot schedule new futures after shutdown")
            future: futures.Future = futures.Future()
            self._calls.put((future, function, args, kwargs))
            return future

    def map(self, function: Callable[..., Any], *iterables: Iterable[Any], timeout: Optional[float] = None, chunksize: int = 1) -> Iterator[Any]:
        return super().map(function, *iterables, timeout=timeout, chunksize=chunksize)

    def _give(self) -> None:
        while (call := self._calls.get()) is not None:
            future, function, args, kwargs = call
            node = self._free.get()
            if not future.set_running_or_notify_cancel():
                self._free.put(node)
                continue
            try:
                worker = Worker(node, lambda _number: function(*args, **kwargs))
                worker.ask(0)
            except BaseException as error:
                self._free.put(node)
                future.set_exception(error)
                continue
            hearer = threading.Thread(target=self._hear, args=(worker, future), name=f"shoal-{next(self._names)}", daemon=True)
            with self._lock:
                self._running[worker] = hearer
            hearer.start()

    def _hear(self, worker: Worker, future: futures.Future) -> None:
        try:
            while (answer := worker.take()) is None:
                pass
            worker.end()
            value = result(answer)
        except BaseException as error:
            worker.end(kill=True)
            self._frees(worker)
            future.set_exception(error)
        else:
            self._frees(worker)
            future.set_result(value)

    def _frees(self, worker: Worker) -> None:
        with self._lock:
            del self._running[worker]
        self._free.put(worker.node)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        with self._lock:
            first, self._over = not self._over, True
        while cancel_futures:
            try:
                call = self._calls.get_nowait()
            except queue.Empty:
                break
            if call is not None and call[0].cancel():
                call[0].set_running_or_notify_cancel()
        if first:
            self._calls.put(None)
        if wait:
            self._giver.join()
            with self._lock:
                hearers = list(self._running.values())
            for hearer in hearers:
                hearer.join()

    def __exit__(self, kind: Any, value: Any, trace: Any) -> None:
        # Ctrl-C, say: what runs is of no use to anybody any more.
        if kind is not None:
            with self._lock:
                for worker in self._running:
                    worker.kill()
        self.shutdown(wait=True, cancel_futures=kind is not None)
