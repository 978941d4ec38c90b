"""Many simulated subscribers in one process, for `topics/fanout.py`.

``python -m benchmarks.contestants.fanout_subscribers NAME ADDRESS`` reads lines. ``connect COUNT`` makes so many
subscribers in total, and answers with the number at each parent. ``turn`` waits until each of them has received the end
of a turn, and answers with the `Arrivals` of the turn.

- ``tidewheel``: each subscriber has what any subscription has: a name, its own socket to a relay, a subend with its own
  knowledge and acknowledgements, its own questions, and its own search for another parent. They share the process, one
  thread that reads all sockets, and one connection to Ray.
- ``nats``: each has a subscription of its own. They share the process, one thread and one connection to the server.
"""

import heapq
import os
import select
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from math import inf
from typing import Any, NamedTuple, Protocol

from benchmarks.contestants.peer_roles import DEADLINE_S, answer, end_if_late, lines
from benchmarks.measuring.pubsub_traffic import OVER, wait

_AT_ONCE = 100
"""So many subscribers connect at a time: each search for a parent has a thread of its own."""
_CALLERS = 16
_LOOK_S = 0.01
_READ_WITHIN_S = 2.0
"""However little comes, a socket is read so often: so its subscriber notices that a parent hangs."""


class Arrivals(NamedTuple):
    """The arrivals of one message at the subscribers of one parent.

    Attributes:
        parent: the parent that they had at first.
        number: of the message.
        sent_ns: when it was sent, by `time.perf_counter_ns`.
        latencies_us: how long it took to each of them, in microseconds.
    """

    parent: str
    number: int
    sent_ns: int
    latencies_us: list[int]


class Log:
    """The arrivals at the subscribers of this process."""

    def __init__(self) -> None:
        self._arrivals: dict[tuple[str, int], Arrivals] = {}
        self._over = 0
        self.error: BaseException | None = None

    def note(self, parent: str, number: int, sent_ns: int) -> None:
        """Record that a message has just arrived."""
        now_ns = time.perf_counter_ns()
        if number == OVER:
            self._over += 1
            return
        found = self._arrivals.get((parent, number))
        if found is None:
            found = self._arrivals[parent, number] = Arrivals(parent, number, sent_ns, [])
        found.latencies_us.append((now_ns - sent_ns) // 1000)

    def take(self, subscribers: int) -> list[Arrivals]:
        """Wait until so many subscribers have received the end of a turn; return what came, and forget it."""
        self.wait_until(lambda: self._over >= subscribers)
        found, self._arrivals, self._over = list(self._arrivals.values()), {}, 0
        return found

    def wait_until(self, is_so: Callable[[], bool]) -> None:
        """Wait for the other thread; raise its error."""
        while not is_so():
            if self.error is not None:
                raise self.error
            wait(_LOOK_S)


class Subscribers(Protocol):
    """The subscribers of one process."""

    def connect(self, count: int) -> Counter[str]:
        """Have so many in total; return how many each parent has."""


# ---------------------------------------------------------------------- tidewheel


class TopicSubscribers:
    """Subscribers of a topic, and the thread that reads for all of them.

    Args:
        topic: its name.
        address: of the Ray cluster.
        log: records what arrives.
    """

    def __init__(self, topic: str, address: str, log: Log) -> None:
        os.environ["RAY_ADDRESS"] = address
        from tidewheel.pubsub.subscribers.subscribing import find_topic

        self._info = find_topic(topic, DEADLINE_S)
        self._log = log
        self._readers: list[Any] = []
        self._epoll = select.epoll()
        self._bell = os.eventfd(0, os.EFD_NONBLOCK)
        self._epoll.register(self._bell, select.EPOLLIN)
        self._rung: deque[Any] = deque()
        self._by_descriptor: dict[int, Any] = {}
        self._due: list[tuple[float, int, Any]] = []
        threading.Thread(target=self._run, daemon=True).start()

    def connect(self, count: int) -> Counter[str]:
        """Subscribe until there are so many, each as `tw.subscribe` does."""
        from benchmarks.contestants.fanout_reader import subscribed

        with ThreadPoolExecutor(_CALLERS) as callers:
            while len(self._readers) < count:
                numbers = range(min(_AT_ONCE, count - len(self._readers)))
                new = list(callers.map(lambda _: subscribed(self._info, self.ring, self._log.note), numbers))
                for reader in new:
                    self.ring(reader)
                self._log.wait_until(partial(_are_connected, new))
                self._readers += new
        for reader in self._readers:
            reader.first_parent = reader.first_parent or reader.parent_name
        return Counter(reader.first_parent for reader in self._readers)

    def ring(self, reader: Any) -> None:
        """Have the thread look at a reader; any thread may call this."""
        self._rung.append(reader)
        os.eventfd_write(self._bell, 1)

    def _run(self) -> None:
        try:
            while True:
                self._look()
        except BaseException as error:  # noqa: BLE001 - whatever it is, the main thread says so
            self._log.error = error

    def _look(self) -> None:
        until_s = self._due[0][0] if self._due else inf
        timeout_s = -1 if until_s == inf else max(0.0, until_s - time.monotonic())
        for descriptor, _ in self._epoll.poll(timeout_s):
            if descriptor == self._bell:
                os.eventfd_read(self._bell)
            elif descriptor in self._by_descriptor:
                self._turn(self._by_descriptor[descriptor])
        while self._rung:
            self._turn(self._rung.popleft())
        now_s = time.monotonic()
        while self._due and self._due[0][0] <= now_s:
            _, _, reader = heapq.heappop(self._due)
            reader.turn_at_s = inf
            self._turn(reader)

    def _turn(self, reader: Any) -> None:
        reader.turn()
        way = reader.way
        if way is not reader.watched and way is not None:
            self._by_descriptor[way.fileno()] = reader
            self._epoll.register(way.fileno(), select.EPOLLIN)  # what was closed has left by itself
        reader.watched = way
        due_s = min(reader.next_s(), time.monotonic() + _READ_WITHIN_S)
        if due_s < reader.turn_at_s:
            reader.turn_at_s = due_s
            heapq.heappush(self._due, (due_s, id(reader), reader))


def _are_connected(readers: Sequence[Any]) -> bool:
    return all(reader.is_connected for reader in readers)


# ---------------------------------------------------------------------- NATS


class NatsSubscribers:
    """Subscriptions of one connection to a server.

    Args:
        address: of the server.
        log: records what arrives.
    """

    def __init__(self, address: str, log: Log) -> None:
        import nats

        from benchmarks.contestants.pubsub_peers import run

        self._address = address
        self._log = log
        self._client = run(nats.connect(address))
        self._count = 0

    def connect(self, count: int) -> Counter[str]:
        """Subscribe until there are so many."""
        from benchmarks.contestants.pubsub_peers import run

        run(self._subscribe(count - self._count))
        self._count = count
        return Counter({self._address: count})

    async def _subscribe(self, count: int) -> None:
        from benchmarks.contestants.pubsub_peers import TOPIC

        for _ in range(count):
            await self._client.subscribe(TOPIC, cb=self._take, pending_msgs_limit=-1, pending_bytes_limit=-1)
        await self._client.flush(DEADLINE_S)

    async def _take(self, message: Any) -> None:
        from benchmarks.measuring.pubsub_traffic import decode

        ((number, sent_ns, _),) = decode(message.data)
        self._log.note(self._address, number, sent_ns)


def main(arguments: Sequence[str]) -> None:
    """Be the subscribers that the arguments name."""
    name, address, *topic = arguments
    end_if_late()
    log = Log()
    subscribers: Subscribers = (
        TopicSubscribers(topic[0], address, log) if name == "tidewheel" else NatsSubscribers(address, log)
    )
    count = 0
    for line in lines():
        what, *numbers = line.split()
        if what == "connect":
            count = int(numbers[0])
            answer(list(subscribers.connect(count).items()))
        else:
            answer(log.take(count))
    sys.stdout.flush()
    os._exit(0)  # thousands of subscriptions need no farewell: their process has ended


if __name__ == "__main__":
    main(sys.argv[1:])
