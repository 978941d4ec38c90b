"""The thread that makes and calls one model of a local pool.

It is a daemon, which `ThreadPoolExecutor` has not: a model that never returns must not keep the program from ending.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")


class ModelThread:
    """Makes one call at a time, in the order of `submit`.

    >>> thread = ModelThread("squares")
    >>> thread.submit(lambda: 3 * 3).result()
    9
    >>> thread.end()
    """

    def __init__(self, name: str) -> None:
        self._calls: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._has_ended = False
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def submit(self, call: Callable[[], T]) -> "Future[T]":
        """Return the coming result of a call; it is cancelled if the thread ends before."""
        coming: Future[T] = Future()
        self._calls.put((coming, call))
        return coming

    def end(self) -> None:
        """End the thread after the call that it makes now, without waiting; cancel the calls that wait."""
        self._has_ended = True
        self._calls.put(None)

    def _run(self) -> None:
        while (next_call := self._calls.get()) is not None:
            coming, call = next_call
            if self._has_ended:
                coming.cancel()
            elif coming.set_running_or_notify_cancel():
                _make(coming, call)
            del next_call, coming, call  # otherwise it holds a batch until the next one


def _make(coming: "Future[T]", call: Callable[[], T]) -> None:
    try:
        result = call()
    except BaseException as error:  # noqa: BLE001 - the future raises it
        coming.set_exception(error)
    else:
        coming.set_result(result)
