"""Workers that run a dataflow with substreams at random, and report what they do to one view of it.

They consume messages and take over their tokens, hold tokens, and send at a token's time; who may send at a key does so
at any time until it is closed. A step may be several actions, and a batch several steps. Messages overtake the batches
that announce them; batches keep their order from each worker.
"""

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator
from random import Random
from typing import Any, NamedTuple, TypeAlias

from tests.laws.graphs import later
from tidewheel.progress import CompiledGraph, Location, Target, Time
from tidewheel.progress.graph import Source
from tidewheel.progress.substream_tracker import Ends, Key, SubstreamTracker

Live: TypeAlias = tuple[int, Location, Time]
"""(key, location, time)."""


class SubstreamPoint(NamedTuple):
    """A time of a substream at a location, which is given by its number in `CompiledGraph.locations`."""

    key: Key
    location: int
    time: Time


SubstreamChange: TypeAlias = tuple[SubstreamPoint, int]
"""(point, difference of its count)."""


class SubstreamEnd(NamedTuple):
    """A substream has ended at a location, given by its number."""

    key: Key
    location: int


def take(tracker: SubstreamTracker, batch: Iterable[SubstreamChange]) -> list[SubstreamEnd]:
    """Have a tracker take a batch of single changes; return what that ends."""
    by_key: dict[Key, dict[tuple[int, Time], int]] = {}
    for (key, *point), difference in batch:
        at = point[0], point[1]
        if at == tracker.closing and key in by_key:  # the order is that of closing
            by_key[key] = by_key.pop(key)
        counts = by_key.setdefault(key, {})
        counts[at] = counts.get(at, 0) + difference
    shapes: dict[Any, int] = {}
    which = [shapes.setdefault(tuple(counts.items()), len(shapes)) for counts in by_key.values()]
    return ends_of(tracker.update(by_key, which, list(shapes)))


def ends_of(ends: Ends) -> list[SubstreamEnd]:
    """Return ends one by one."""
    return [SubstreamEnd(key, location) for location, keys in ends.items() for key in keys]


class _Worker:
    def __init__(self, open_keys: set[int]) -> None:
        self.open = open_keys
        self.tokens: list[Live] = []
        self.mail: list[Live] = []
        self.closed: list[Key] = []
        self.uncommitted: list[SubstreamChange] = []
        self.sent: deque[list[SubstreamChange]] = deque()


class SubstreamWorkers:
    """A whole dataflow in flight.

    Args:
        compiled: the graph.
        declared: where keys are given.
        workers: how many workers run it.
        keys: how many substreams there are, numbered from 0.
        is_owned: whether only one worker may send at each key, otherwise all may.
        random: decides what happens.
    """

    def __init__(
        self, compiled: CompiledGraph, declared: Source, workers: int, keys: int, random: Random, *, is_owned: bool
    ) -> None:
        self._compiled = compiled
        self._graph = compiled.graph
        self._random = random
        self._declared = declared
        self.senders = 1 if is_owned else workers
        self._consumers: dict[Source, list[Target]] = defaultdict(list)
        for source, target in self._graph.edges:
            self._consumers[source].append(target)
        self._workers = [
            _Worker({key for key in range(keys) if not is_owned or key % workers == number})
            for number in range(workers)
        ]
        self.truth: Counter[tuple[int, Location]] = Counter()

    def is_live(self, end: SubstreamEnd) -> bool:
        """Tell whether anything of a substream may still come to where it is said to have ended."""
        before = self._compiled.reaching(self._compiled.locations[end.location])
        return any(end.key in worker.open for worker in self._workers) or any(
            count and key == end.key and location in before for (key, location), count in self.truth.items()
        )

    def closed_before(self, one: Key, other: Key) -> bool:
        """Tell whether those who may send at two keys are the same, and all of them closed the one before the other."""
        senders = [worker.closed for worker in self._workers if one in worker.closed or other in worker.closed]
        return all(one in closed and other in closed and closed.index(one) < closed.index(other) for closed in senders)

    def run(self, events: int) -> Iterator[list[SubstreamChange]]:
        """Let random events happen, and yield each batch that arrives."""
        for _ in range(events):
            worker = self._random.choice(self._workers)
            for _ in range(self._random.randint(0, 3)):
                self._act(worker)
            self._maybe_commit(worker)
            yield from self._arriving()

    def finish(self) -> Iterator[list[SubstreamChange]]:
        """Close every substream, drop every token and consume every message; yield as `run` does."""
        left = list(self._workers)
        while left:
            worker = self._random.choice(left)
            for key in sorted(worker.open):
                self._close(worker, key)
            if worker.tokens:
                self._drop(worker)
            elif worker.mail:
                self._take_mail(worker)
            else:
                left.remove(worker)
            self._maybe_commit(worker)
            yield from self._arriving()
        for worker in self._workers:
            worker.sent.append(worker.uncommitted)
        while any(worker.sent for worker in self._workers):
            yield from self._arriving()

    def _maybe_commit(self, worker: _Worker) -> None:
        if self._random.random() < 0.7:
            worker.sent.append(worker.uncommitted)
            worker.uncommitted = []

    def _arriving(self) -> Iterator[list[SubstreamChange]]:
        senders = [worker for worker in self._workers if worker.sent]
        if senders and self._random.random() < 0.6:
            yield self._random.choice(senders).sent.popleft()

    def _act(self, worker: _Worker) -> None:
        what = self._random.random()
        if what < 0.5 and worker.mail:
            self._consume(worker)
        elif what < 0.6 and worker.tokens:
            self._drop(worker)
        elif what < 0.7 and worker.tokens:
            key, location, time = self._random.choice(worker.tokens)
            assert isinstance(location, Source)
            self._send(worker, key, location, time)
        elif worker.open:
            key = self._random.choice(sorted(worker.open))
            if self._random.random() < 0.2:
                self._close(worker, key)
            else:
                domain = self._graph.nesting(self._declared).domain
                self._send(worker, key, self._declared, later(self._random, domain, domain.minimum()))

    def _close(self, worker: _Worker, key: int) -> None:
        worker.open.remove(key)
        worker.closed.append(key)
        domain = self._graph.nesting(self._declared).domain
        worker.uncommitted.append((SubstreamPoint(key, self._compiled.index[self._declared], domain.minimum()), -1))

    def _drop(self, worker: _Worker) -> None:
        self._record(worker, worker.tokens.pop(self._random.randrange(len(worker.tokens))), -1)

    def _take_mail(self, worker: _Worker) -> Live:
        taken = worker.mail.pop(self._random.randrange(len(worker.mail)))
        self._record(worker, taken, -1)
        return taken

    def _consume(self, worker: _Worker) -> None:
        key, target, time = self._take_mail(worker)
        assert isinstance(target, Target)
        for (port_in, port_out), paths in self._graph.operators[target.operator].summaries.items():
            for path in paths if port_in == target.port else ():
                arrival = path.results_in(time)
                what = self._random.choice(("send", "send", "retain", "nothing"))
                if arrival is None or what == "nothing":
                    continue
                source = Source(target.operator, port_out)
                arrival = later(self._random, self._graph.nesting(source).domain, arrival)
                if what == "send":
                    self._send(worker, key, source, arrival)
                else:
                    worker.tokens.append((key, source, arrival))
                    self._record(worker, worker.tokens[-1], 1)

    def _send(self, worker: _Worker, key: int, source: Source, time: Time) -> None:
        for target in self._consumers[source]:
            message = (key, target, time)
            self._random.choice(self._workers).mail.append(message)
            self._record(worker, message, 1)

    def _record(self, worker: _Worker, live: Live, difference: int) -> None:
        key, location, time = live
        self.truth[key, location] += difference
        worker.uncommitted.append((SubstreamPoint(key, self._compiled.index[location], time), difference))
