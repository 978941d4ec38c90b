"""How workers start on a cluster of tests: as forks of a process that has imported Ray, rather than of nothing.

Imports take three quarters of what a worker process costs, and the tests start more than a thousand. What is forked has
imported the modules of tidewheel's actors and has run nothing of them; all else each worker imports itself. Clusters
that tests start in other processes have Ray's own workers.

Each job of a driver has two processes to fork from. Ray reads settings of the job once, when it is imported. And two
processes have two seeds for the hashes of strings, so that workers may not rely on one.

`python -m tests.kit.cluster.worker_nursery PATH` serves at the path of a socket until its standard input ends.
"""

import gc
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from selectors import EVENT_READ, DefaultSelector
from types import CodeType

from tests.kit.cluster.forked_worker import NURSERY, rays_own

PROGRAM = Path(__file__).with_name("forked_worker.py")
"""What a raylet runs as a worker, with the variable `NURSERY`."""

_MOST_BYTES = 2**18
"""Of the arguments and the environment of a worker."""

_MOST_PARENTS = 6
"""So many processes to fork from are kept: those that were asked last."""


@contextmanager
def worker_nursery(path: Path) -> Iterator[dict[str, str]]:
    """Have a nursery at this path; yield the variables by which `PROGRAM` finds it."""
    command = [sys.executable, "-m", __name__, str(path)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, start_new_session=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == b"serving\n"
        try:
            yield {NURSERY: str(path)}
        finally:
            process.stdin.close()


@dataclass(frozen=True, slots=True)
class _Request:
    """For a worker: what it is started with. `sent` is how it came, `files` are its standard input and outputs."""

    sent: bytes
    files: list[int]

    @property
    def arguments(self) -> list[str]:
        return list(json.loads(self.sent)[0])

    @property
    def environment(self) -> dict[str, str]:
        return dict(json.loads(self.sent)[1])

    @property
    def parent(self) -> tuple[str, ...]:
        """Which process to fork from: one of two for a job on a node."""
        worker_id = next(argument for argument in self.arguments if argument.startswith("--worker-id="))
        names = ("RAY_RAYLET_PID", "RAY_JOB_ID")
        return *(self.environment.get(name, "") for name in names), str(int(worker_id[-1], 16) % 2)


def _received(connection: socket.socket) -> _Request | None:
    """Return the next request, or None at the end."""
    sent, files, _, _ = socket.recv_fds(connection, _MOST_BYTES, 3)
    return _Request(sent, files) if sent else None


def _passed_on(request: _Request, connection: socket.socket) -> bool:
    """Send a request to the process to fork from; return False if it has ended."""
    try:
        socket.send_fds(connection, [request.sent], request.files)
    except OSError:
        return False
    return True


def _serve(path: str) -> CodeType | None:
    """Pass requests on until the standard input ends. Return twice or more: in each worker, with what it has to run."""
    import google_crc32c  # noqa: F401
    import msgspec  # noqa: F401
    import numpy  # noqa: F401
    import pyarrow  # noqa: F401
    import requests  # noqa: F401
    import zmq  # noqa: F401

    with suppress(ImportError):  # Ray's serialization has these two where they are
        import pydantic.v1  # noqa: F401
        import starlette.datastructures  # noqa: F401
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    parents: dict[tuple[str, ...], socket.socket] = {}
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener, DefaultSelector() as selector:
        listener.bind(path)
        listener.listen()
        os.write(1, b"serving\n")
        selector.register(listener, EVENT_READ)
        selector.register(sys.stdin, EVENT_READ)
        while not any(key.fileobj is sys.stdin for key, _ in selector.select()):
            connection, _ = listener.accept()
            with connection:
                request = _received(connection)
            if request is None:
                continue
            parent = parents.pop(request.parent, None)
            if parent is None or not _passed_on(request, parent):
                parent, its_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                if os.fork() == 0:
                    for inherited in (listener, parent, *parents.values()):
                        inherited.close()
                    return _fork_workers(its_end, request)
                its_end.close()
                _passed_on(request, parent)
            parents[request.parent] = parent
            if len(parents) > _MOST_PARENTS:
                parents.pop(next(iter(parents))).close()
            for file in request.files:
                os.close(file)
    return None


def _fork_workers(requests: socket.socket, first: _Request) -> CodeType | None:
    """Import Ray in the environment of a first worker, and fork for each request. Return in each worker."""
    for file in first.files:
        os.close(file)
    os.environ.clear()
    os.environ.update(first.environment)
    import ray._private.arrow_serialization  # noqa: F401

    import tidewheel.pubsub.publishers.publisher_actor
    import tidewheel.runtime.worker.worker_actor  # noqa: F401

    program = rays_own()
    sys.argv[0] = str(program)
    sys.path[0] = str(program.parent)
    code = compile(program.read_bytes(), str(program), "exec")
    raylet = os.pidfd_open(int(os.environ["RAY_RAYLET_PID"]))
    gc.collect()
    gc.freeze()
    with DefaultSelector() as selector:
        selector.register(requests, EVENT_READ)
        selector.register(raylet, EVENT_READ)
        while all(key.fileobj is requests for key, _ in selector.select()):
            request = _received(requests)
            if request is None:
                break
            if os.fork() == 0:
                requests.close()
                os.close(raylet)
                _take_over(request)
                return code
            for file in request.files:
                os.close(file)
    return None


def _take_over(request: _Request) -> None:
    """Become the process that has asked, which knows nothing of these tests."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "tests"]:
        del sys.modules[name]
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setpgid(0, 0)
    for number, file in enumerate(request.files):
        os.dup2(file, number)
        os.close(file)
    sys.argv[1:] = request.arguments
    os.environ.clear()
    os.environ.update(request.environment)


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        program = _serve(sys.argv[1])
    if program is not None:
        exec(program)
