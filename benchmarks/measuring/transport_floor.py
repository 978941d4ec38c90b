"""The ground of the benchmarks of links: a Ray cluster, and beside it processes that talk over bare ZeroMQ.

Ray is imported where it is used: the processes import what the benchmark does, and Ray would take over their signals.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Self

import zmq

from tidewheel.host.ray_cluster import connect
from tidewheel.runtime.errors import JobError

DEADLINE_S = 60.0
_LINGER_MS = 5000


@contextmanager
def ray_cluster() -> Iterator[None]:
    """Be a driver of the cluster that RAY_ADDRESS names, else of a new one that ends with the block."""
    import ray

    # Left alone, Ray gives its processes less of a busy machine than those that they are compared with.
    os.environ.setdefault("RAY_worker_niceness", "0")
    connect(JobError)
    try:
        yield
    finally:
        ray.shutdown()


class Peer:
    """One of ``count`` processes: a PUSH socket to each other one and a PULL socket from each, over ``ipc``.

    Attributes:
        to, of: the sockets, by the number of the other process.
    """

    def __init__(self, directory: str, number: int, count: int) -> None:
        self._context = zmq.Context()
        self._context.setsockopt(zmq.RCVTIMEO, int(DEADLINE_S * 1e3))
        self._context.setsockopt(zmq.SNDTIMEO, int(DEADLINE_S * 1e3))
        self.number = number
        self.to: dict[int, zmq.Socket[bytes]] = {}
        self.of: dict[int, zmq.Socket[bytes]] = {}
        for other in range(count):
            if other != number:
                self.of[other] = self._context.socket(zmq.PULL)
                self.of[other].bind(f"ipc://{directory}/{other}-{number}")
                self.to[other] = self._context.socket(zmq.PUSH)
                self.to[other].connect(f"ipc://{directory}/{number}-{other}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._context.destroy(linger=_LINGER_MS)


def run_together(body: Callable[..., Any], count: int, *arguments: Any) -> list[Any]:
    """Call ``body(peer, *arguments)`` in ``count`` new processes at once; return what each returned, by its number.

    Raises:
        multiprocessing.TimeoutError: it took longer than twice ``DEADLINE_S``; the processes have been ended.
    """
    with TemporaryDirectory(prefix="tidewheel-floor-") as directory, get_context("spawn").Pool(count) as pool:
        calls = [(body, directory, number, count, arguments) for number in range(count)]
        # Each call waits for the others, so each is in a process of its own.
        results = pool.starmap_async(_call, calls, chunksize=1).get(2 * DEADLINE_S)
        pool.close()
        pool.join()
    return results


def _call(body: Callable[..., Any], directory: str, number: int, count: int, arguments: tuple[Any, ...]) -> Any:
    with Peer(directory, number, count) as peer:
        return body(peer, *arguments)
