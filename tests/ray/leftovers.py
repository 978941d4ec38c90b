"""The traces of jobs on this machine, to the last file, for tests that none of them is left behind.

Only what belongs to this process, to its Ray cluster or to its folder for temporary files counts, which is its own (see
`tests/conftest.py`): other programs on the machine may run jobs meanwhile.
"""

import re
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from socket import socket
from tempfile import gettempdir

import psutil
import ray

import tidewheel as tw
from tests.links.open_files import open_files
from tests.ray.driver_program import WORKERS, halving, send_epoch
from tests.waiting import eventually
from tidewheel.pubsub.catalog.catalog_actor import CATALOG_NAME, catalog_actor

TITLES = {
    "worker": "ray::WorkerActor",
    "publisher": "ray::PublisherActor",
    "relay": "ray::RelayActor",
    "model": "ray::ModelActor",
}
"""Ray's names for the processes of actors while they live, by kind of actor."""

_OF_TESTS = {"feeder": "ray::Feeder"}
"""The same for actors that tests start and end."""

_NOT_OURS = ("plasma", "sem.mp-", "PostgreSQL.")
"""The beginnings of names of files in `/dev/shm`: of Ray's store, of locks between processes of Python, of PostgreSQL.

All programs on the machine share that folder. Jobs have no locks between processes, so those are of other tests. What
programs share in memory are files. Folders there are the temporary ones of checks of sinks, and of benchmarks.
"""

_ANSWER_WITHIN_S = 10.0
_COMES_UP_WITHIN_S = 60.0


def hosts(kind: str) -> list[psutil.Process]:
    """Return the processes of this cluster that are of a kind, in the order in which they were started."""
    return sorted(titled({**TITLES, **_OF_TESTS}[kind]), key=lambda process: (process.create_time(), process.pid))


def titled(title: str) -> list[psutil.Process]:
    """Return the processes of this cluster whose title has this in it."""
    found = []
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            words = process.cmdline()  # asked once, as a process that ends has none from then on
            if process.status() != psutil.STATUS_ZOMBIE and words and title in words[0]:
                found.append(process)
    return found


class Members:
    """The processes that jobs had at the moments of `note`, and the children of those."""

    def __init__(self) -> None:
        self._noted: set[psutil.Process] = set()

    def note(self, hosts_expected: int = 0) -> None:
        """Add the processes that there are, once so many workers and publishers have started."""
        eventually(lambda: len(hosts("worker") + hosts("publisher")) >= hosts_expected, _COMES_UP_WITHIN_S)
        for process in hosts("worker") + hosts("publisher"):
            with suppress(psutil.NoSuchProcess):
                self._noted.update([process, *process.children(recursive=True)])

    def __len__(self) -> int:
        return len(self._noted)

    def alive(self) -> list[psutil.Process]:
        """Return those that have not ended; a process id that was given out anew is none of them."""
        return [process for process in self._noted if process.is_running() and not _is_zombie(process)]

    def end(self) -> None:
        """End those that have not ended, so that a test that fails leaves nothing either."""
        for process in self.alive():
            with suppress(psutil.NoSuchProcess):
                process.kill()


def _is_zombie(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):
        return bool(process.status() == psutil.STATUS_ZOMBIE)
    return True


def traces() -> set[str]:
    """Return what there is of jobs: processes, named actors, topics, sockets and their directories, shared memory."""
    found = {f"{kind} {process.pid}" for kind in TITLES for process in hosts(kind)}
    actors = ray.util.list_named_actors(all_namespaces=True)
    found |= {f"actor {actor['name']}" for actor in actors if actor["name"] != CATALOG_NAME}
    topics = ray.get(catalog_actor().topics.remote(), timeout=_ANSWER_WITHIN_S)
    found |= {f"topic {topic.name} of {topic.job}" for topic in topics}
    bound = [line.split()[7] for line in Path("/proc/net/unix").read_text().splitlines() if len(line.split()) > 7]
    jobs = f"{gettempdir()}/"
    found |= {f"socket {path}" for path in bound if path.startswith(jobs) and "/tidewheel-" in path}
    found |= {f"directory {path}" for path in Path(gettempdir()).glob("tidewheel-*")}
    shared = [path for path in Path("/dev/shm").iterdir() if path.is_file() and not path.name.startswith(_NOT_OURS)]
    return found | {f"memory {path}" for path in shared}


def own_traces() -> Counter[str]:
    """Return how many threads, by name, and open files, by kind, this process has: but for what Ray and Spark open."""
    # Threads of Ray's that have run Python are called dummies.
    from_spark = _connections_from_spark()
    others = [thread for thread in threading.enumerate() if thread not in from_spark and "Dummy" not in thread.name]
    found = Counter(f"thread {thread.name}" for thread in others)
    for task in Path("/proc/self/task").iterdir():
        with suppress(OSError):
            name = (task / "comm").read_text().strip()
            found[f"thread {name}"] += name.startswith("ZMQ")
    numbers = {str(connection.fileno()) for connection in from_spark.values()}
    files = [file for file in open_files() if file.partition(" ")[0] not in numbers]
    found.update(re.sub(r"^\d+ |(?<=socket:|..pipe:)\[\d+\]", "", file) for file in files)
    return +found


def _connections_from_spark() -> dict[threading.Thread, socket]:
    """Return the sockets of threads that Spark's JVM calls this process by: it opens some as it collects garbage."""
    py4j = sys.modules.get("py4j.clientserver")
    if py4j is None:  # this process has no JVM
        return {}
    targets = {thread: getattr(thread, "_target", None) for thread in threading.enumerate()}
    connections = {thread: getattr(target, "__self__", None) for thread, target in targets.items()}
    return {thread: one.socket for thread, one in connections.items() if isinstance(one, py4j.ClientServerConnection)}


@cache
def warm_up(cluster: str) -> None:
    """Run a job of this process once, so that what Ray keeps for later ones is there: threads, connections, files."""
    with tw.run(halving("warm"), workers=WORKERS) as job, tw.subscribe("warm") as subscription:
        send_epoch(job, 0)
        job.input("numbers").close()
        assert [epoch.time for epoch in subscription.epochs(timeout_s=_COMES_UP_WITHIN_S)] == [0]
        job.wait(timeout_s=_COMES_UP_WITHIN_S)
        members = Members()
        members.note()
    assert eventually(lambda: not members.alive()), f"{cluster}: {members.alive()}"


@contextmanager
def nothing_left(within_s: float = 10.0, sockets: int = 0) -> Iterator[Members]:
    """Fail if there is more after the block than there was before, ``within_s`` seconds later.

    Args:
        within_s: for how long to wait until it is gone.
        sockets: how many Ray may have more, to actors of the test that outlive the block.
    """
    warm_up(str(ray.get_runtime_context().gcs_address))
    before, own, members = traces(), own_traces(), Members()
    try:
        yield members
        assert eventually(lambda: not members.alive(), within_s), f"still there: {members.alive()}"
        assert eventually(lambda: traces() <= before, within_s), f"left behind: {traces() - before}"
        own["socket:"] += sockets
        is_clean = eventually(lambda: own_traces() <= own, within_s)
        connected = [one for one in psutil.Process().net_connections("all") if one.status != psutil.CONN_LISTEN]
        assert is_clean, f"left in this process: {own_traces() - own}; its connections: {connected}"
    finally:
        members.end()
