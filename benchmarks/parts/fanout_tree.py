"""Trees with many subscribers on this machine, for `topics/fanout.py`: nodes are processes, and edges have sockets.

Both trees have the same form: one publisher, 2 nodes below it, 4 nodes below those, and 4 processes with the
subscribers. tidewheel has relays as nodes, and NATS has servers that are leaf nodes of each other.
"""

import os
import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

import tidewheel as tw
from benchmarks.contestants.fanout_subscribers import Arrivals
from benchmarks.contestants.pubsub_servers import write_leaf
from benchmarks.contestants.topic_contestants import command
from benchmarks.contestants.topic_job import give
from benchmarks.measuring.peer_processes import PeerProcesses, program
from benchmarks.measuring.pubsub_traffic import Order, wait
from tidewheel.host.ray_cluster import node_id
from tidewheel.pubsub.subscribers.subscribing import find_topic
from tidewheel.transport.children import Children
from tidewheel.transport.stream_link import ChildLink

UPPER: Final = 2
LOWER: Final = 4
PROCESSES: Final = LOWER
AT_ONCE: Final = 1000
"""So many subscribers connect before the processes say so, as each answer has to come in time."""
DOWN = ("publisher to upper relays", "upper to lower relays", "lower relays to subscribers")
UP = ("upper relays to publisher", "lower to upper relays", "subscribers to lower relays")
_ANSWERS_WITHIN_S = 20.0
_INTEREST_S = 1.0
"""NATS has told the whole tree of new subscriptions after so many seconds."""


class Tree(Protocol):
    """A tree whose subscribers are counted, and receive turns."""

    def connect(self, count: int) -> Counter[str]:
        """Have so many subscribers in total; return how many each parent has."""

    def turn(self, messages: int, rate: float) -> list[Arrivals]:
        """Publish so many messages, so many a second; return their arrivals once all have arrived everywhere."""


class _Processes:
    """The processes with the subscribers."""

    def __init__(self, processes: PeerProcesses) -> None:
        self._processes = processes
        self._connected = 0

    def connect(self, count: int) -> Counter[str]:
        found: Counter[str] = Counter()
        while self._connected < count:
            self._connected = min(count, self._connected + AT_ONCE)
            lines = self._processes.ask(f"connect {self._connected // PROCESSES}")
            found = Counter()
            for line in lines:
                found.update(dict(msgspec.json.decode(line, type=list[tuple[str, int]])))
        return found

    def take(self) -> list[Arrivals]:
        return [one for line in self._processes.ask("turn") for one in msgspec.json.decode(line, type=list[Arrivals])]


# ---------------------------------------------------------------------- tidewheel


class TopicTree:
    """A topic of a job, relays in two levels, and subscribers behind the lower ones.

    Args:
        job: the job that publishes it; see `contestants/topic_job.py`.
        topic: its name.
        upper, lower: the relays.
        processes: the processes with the subscribers.

    Attributes:
        publisher: the handle of the publisher.
    """

    def __init__(
        self,
        job: tw.types.Job,
        topic: str,
        upper: tw.types.RelayHandle,
        lower: tw.types.RelayHandle,
        processes: PeerProcesses,
    ) -> None:
        self._job = job
        self._topic = topic
        self.upper, self.lower = upper, lower
        self._subscribers = _Processes(processes)
        (self.publisher,) = find_topic(topic, _ANSWERS_WITHIN_S).partitions

    def connect(self, count: int) -> Counter[str]:
        """Have so many subscribers in total; RuntimeError if some are not behind a lower relay."""
        found = self._subscribers.connect(count)
        if set(found) - set(map(repr, self.lower.actors)):
            raise RuntimeError(f"subscribers are not behind the lower relays: {found}")
        return found

    def turn(self, messages: int, rate: float) -> list[Arrivals]:
        """Publish so many messages, so many a second; return their arrivals once all have arrived everywhere."""
        give(self._job, self._topic, Order("stamps", messages, rate))
        return self._subscribers.take()

    def carried(self) -> dict[str, int]:
        """Return the bytes that each hop has carried so far, both ways."""
        levels = [[self.publisher], self.upper.actors, self.lower.actors]
        found: dict[str, int] = {}
        for down, up, actors in zip(DOWN, UP, levels, strict=True):
            told, said = zip(*(inside(actor, bytes_of_children) for actor in actors), strict=True)
            found |= {down: sum(told), up: sum(said)}
        return found

    def nacks(self) -> dict[str, int]:
        """Return how many nacks each hop has carried so far, up."""
        import ray

        statistics = ray.get(self.publisher.statistics.remote(), timeout=_ANSWERS_WITHIN_S)
        heard = [sum(one.nacks_heard for one in relays.statistics()) for relays in (self.upper, self.lower)]
        return dict(zip(UP, [statistics["nacks"], *heard], strict=True))

    def publisher_cpu_s(self) -> float:
        """Return the processor time of the publisher's process so far, with all its threads."""
        return cpu_s(pid_of(self.publisher))


@contextmanager
def topic_tree(job: tw.types.Job, topic: str) -> Iterator[TopicTree]:
    """Start the relays, and the processes for subscribers."""
    import ray

    address, node = ray.get_runtime_context().gcs_address, node_id()
    commands = [program("contestants.fanout_subscribers", "tidewheel", address, topic)] * PROCESSES
    with (
        tw.relay(topic, [node], count=UPPER) as upper,
        tw.relay(topic, [node], count=LOWER, parents=upper) as lower,
        PeerProcesses(commands) as processes,
    ):
        yield TopicTree(job, topic, upper, lower, processes)


def inside(actor: Any, function: Any, *arguments: Any) -> Any:
    """Call a function in the process of an actor, with the actor's object."""
    import ray

    return ray.get(actor.__ray_call__.remote(function, *arguments), timeout=_ANSWERS_WITHIN_S)


def bytes_of_children(actor: Any) -> tuple[int, int]:
    """Return the bytes that an actor has told its present children, and that it has heard of them."""
    children: Children = actor._children if hasattr(actor, "_children") else actor.partition._connections.children
    links = [link for link in children._children.values() if isinstance(link, ChildLink)]
    return sum(link.written_bytes for link in links), sum(link._reader.read_bytes for link in links)


def pid_of(actor: Any) -> int:
    """Return the number of an actor's process."""
    return int(inside(actor, lambda _: os.getpid()))


def cpu_s(pid: int) -> float:
    """Return the processor time of a process in seconds, to the nanosecond."""
    threads = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(thread.read_text().split()[0]) for thread in threads) / 1e9


# ---------------------------------------------------------------------- NATS


class NatsTree:
    """Servers in three levels, and subscribers at the lowest ones.

    Args:
        publisher: the process that publishes to the first server.
        processes: the processes with the subscribers.
    """

    def __init__(self, publisher: PeerProcesses, processes: PeerProcesses) -> None:
        self._publisher = publisher
        self._subscribers = _Processes(processes)

    def connect(self, count: int) -> Counter[str]:
        """Have so many subscribers in total."""
        found = self._subscribers.connect(count)
        wait(_INTEREST_S)
        return found

    def turn(self, messages: int, rate: float) -> list[Arrivals]:
        """Publish so many messages, so many a second; return their arrivals once the last has arrived everywhere."""
        self._publisher.ask(msgspec.json.encode(Order("stamps", messages, rate)).decode())
        return self._subscribers.take()


@contextmanager
def nats_tree(folder: Path) -> Iterator[NatsTree]:
    """Start the servers, each with a folder of its own, a publisher, and the processes for subscribers.

    Raises:
        PeerMissingError: NATS or its client is not installed.
    """
    with ExitStack() as running:
        hub, hub_port = _server(running, folder / "hub", None)
        upper = [_server(running, folder / f"upper-{number}", hub_port)[1] for number in range(UPPER)]
        lower = [_server(running, folder / f"lower-{number}", upper[number % UPPER])[0] for number in range(LOWER)]
        publishing = command("contestants.pubsub_peers", "publish", "nats", hub, 0)
        publisher = running.enter_context(PeerProcesses([publishing]))
        commands = [program("contestants.fanout_subscribers", "nats", address) for address in lower]
        yield NatsTree(publisher, running.enter_context(PeerProcesses(commands)))


def _server(running: ExitStack, folder: Path, parent_port: int | None) -> tuple[str, int]:
    """Start a server; return its address for clients, and its port for leaf nodes."""
    folder.mkdir()
    port = _free_port()
    write_leaf(folder, port, parent_port)
    process = running.enter_context(PeerProcesses([program("contestants.pubsub_servers", "leaf", folder)]))
    ((address, _),) = (answer.split() for answer in process.ask("address"))
    return address, port


def _free_port() -> int:
    """Return a port of this machine at which nothing listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
