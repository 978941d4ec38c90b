"""Workers that run a dataflow at random and tell each other about it, with an observer who sees everything.

They do what the seed "Progress Tracking" lets an operator do: consume a message and take over its token, clone,
downgrade and drop tokens, send at a token's time. A step may be several actions, and a batch several steps. Messages
overtake each other and the batches that announce them; batches keep their order from each sender to each receiver.
They tell each other by any `Spread`, and hold back what they hold back.
"""

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import TypeAlias

from tests.laws.graphs import later
from tidewheel.progress import (
    Accumulated,
    Broadcast,
    CompiledGraph,
    Location,
    ProgressBatch,
    Spread,
    Target,
    Time,
    Tracker,
)
from tidewheel.progress.graph import Source

Counts: TypeAlias = Counter[tuple[Location, Time]]
MakeSpread: TypeAlias = Callable[[Tracker, int, int], Spread]
"""Makes a worker's end of a progress protocol from its view, its number and how many workers there are."""


def tell_at_once(tracker: Tracker, worker: int, workers: int) -> Spread:
    """Make a broadcast that holds nothing back."""
    return Broadcast(tracker, worker, workers, hold_back=False)


def tell_accumulator_at_once(tracker: Tracker, worker: int, workers: int) -> Spread:
    """Make the accumulated protocol without hold-back."""
    return Accumulated(tracker, worker, workers, hold_back=False)


SPREADS: dict[str, MakeSpread] = {
    "broadcast": tell_at_once,
    "broadcast, held back": Broadcast,
    "accumulated": tell_accumulator_at_once,
    "accumulated, held back": Accumulated,
}
"""Every way to tell."""


@dataclass(slots=True)
class View:
    """What one worker knows: its end of the protocol, and beside it the plain sum of the batches it has applied."""

    tracker: Tracker
    spread: Spread
    counts: Counts
    moved: set[Location] = field(default_factory=set)

    def live(self) -> list[tuple[Location, Time]]:
        """Return the pointstamps whose count is positive in this view."""
        return [pointstamp for pointstamp, count in self.counts.items() if count > 0]


@dataclass(slots=True)
class _Worker:
    view: View
    tokens: Counter[tuple[Source, Time]]
    mail: list[tuple[Target, Time]] = field(default_factory=list)
    uncommitted: ProgressBatch = field(default_factory=list)


class SimulatedWorkers:
    """A whole dataflow in flight.

    Args:
        compiled: the graph.
        workers: how many workers run it.
        interesting: the locations whose frontiers every worker keeps.
        random: decides what happens.
        make: how they tell each other, by default at once.
    """

    def __init__(
        self,
        compiled: CompiledGraph,
        workers: int,
        interesting: list[Location],
        random: Random,
        make: MakeSpread = tell_at_once,
    ) -> None:
        self._compiled = compiled
        self._graph = compiled.graph
        self._random = random
        self._consumers: dict[Source, list[Target]] = defaultdict(list)
        for source, target in self._graph.edges:
            self._consumers[source].append(target)
        initial = [
            (location, self._graph.nesting(location).domain.minimum())
            for location in self._graph.locations()
            if isinstance(location, Source)
        ]
        self.truth: Counts = Counter(dict.fromkeys(initial, workers))
        self._workers = []
        for number in range(workers):
            tracker = Tracker(compiled, workers, interesting)
            view = View(tracker, make(tracker, number, workers), Counter(self.truth))
            self._workers.append(_Worker(view, Counter(initial)))
        self._links: dict[tuple[int, int], deque[ProgressBatch]] = {
            (sender, receiver): deque()
            for sender in range(workers)
            for receiver in range(workers)
            if sender != receiver
        }

    @property
    def views(self) -> list[View]:
        """What each worker knows."""
        return [worker.view for worker in self._workers]

    def live(self) -> list[tuple[Location, Time]]:
        """Return the pointstamps that really exist now."""
        return [pointstamp for pointstamp, count in self.truth.items() if count > 0]

    def run(self, events: int) -> Iterator[View]:
        """Let random events happen, and yield after each the view in which it may have changed something."""
        for _ in range(events):
            waiting = [link for link, batches in self._links.items() if batches]
            if waiting and self._random.random() < 0.5:
                yield self._deliver(*self._random.choice(waiting))
            else:
                number = self._random.randrange(len(self._workers))
                self._act(number)
                self._workers[number].view.moved = set()
                if self._random.random() < 0.8:
                    self._commit(number)
                yield self._workers[number].view

    def finish(self) -> Iterator[View]:
        """Drop every token, consume every message and deliver every batch, in any order; yield as `run` does."""
        for number, worker in enumerate(self._workers):
            for (source, time), held in worker.tokens.items():
                self._record(worker, source, time, -held)
            worker.tokens.clear()
            while worker.mail:
                self._record(worker, *self._take_mail(worker), -1)
            self._commit(number)
            yield worker.view
        yield from self.settle()

    def settle(self) -> Iterator[View]:
        """End every step, deliver every batch, let every worker say what is due, in any order; yield as `run` does."""
        while True:
            waiting = [link for link, batches in self._links.items() if batches]
            due = [
                number for number, worker in enumerate(self._workers) if worker.uncommitted or worker.view.spread.is_due
            ]
            if not (waiting or due):
                return
            if waiting and (not due or self._random.random() < 0.5):
                yield self._deliver(*self._random.choice(waiting))
            else:
                number = self._random.choice(due)
                self._commit(number)
                yield self._workers[number].view

    def _act(self, number: int) -> None:
        worker = self._workers[number]
        for _ in range(self._random.randint(1, 3)):
            if worker.mail and self._random.random() < 0.5:
                self._consume(worker)
            elif worker.tokens:
                source, time = self._random.choice(list(worker.tokens))
                self._random.choice((self._send, self._downgrade, self._downgrade, self._drop, self._clone))(
                    worker, source, time
                )

    def _take_mail(self, worker: _Worker) -> tuple[Target, Time]:
        return worker.mail.pop(self._random.randrange(len(worker.mail)))

    def _consume(self, worker: _Worker) -> None:
        target, time = self._take_mail(worker)
        self._record(worker, target, time, -1)
        for (port_in, port_out), paths in self._graph.operators[target.operator].summaries.items():
            for path in paths if port_in == target.port else ():
                arrival = path.results_in(time)
                what = self._random.choice(("send", "retain", "nothing"))
                if arrival is None or what == "nothing":
                    continue
                source = Source(target.operator, port_out)
                arrival = later(self._random, self._graph.nesting(source).domain, arrival)
                if what == "send":
                    self._send(worker, source, arrival)
                else:
                    self._hold(worker, source, arrival, 1)

    def _send(self, worker: _Worker, source: Source, time: Time) -> None:
        for target in self._consumers[source]:
            self._random.choice(self._workers).mail.append((target, time))
            self._record(worker, target, time, 1)

    def _downgrade(self, worker: _Worker, source: Source, time: Time) -> None:
        self._hold(worker, source, time, -1)
        self._hold(worker, source, later(self._random, self._graph.nesting(source).domain, time), 1)

    def _drop(self, worker: _Worker, source: Source, time: Time) -> None:
        self._hold(worker, source, time, -1)

    def _clone(self, worker: _Worker, source: Source, time: Time) -> None:
        self._hold(worker, source, time, 1)

    def _hold(self, worker: _Worker, source: Source, time: Time, difference: int) -> None:
        worker.tokens[source, time] += difference
        if not worker.tokens[source, time]:
            del worker.tokens[source, time]
        self._record(worker, source, time, difference)

    def _record(self, worker: _Worker, location: Location, time: Time, difference: int) -> None:
        self.truth[location, time] += difference
        worker.uncommitted.append(((self._compiled.index[location], time), difference))
        worker.view.spread.record_one(self._compiled.index[location], time, difference)

    def _commit(self, number: int) -> None:
        view = self._workers[number].view
        committed = view.spread.commit()
        own = self._workers[number].uncommitted if isinstance(view.spread, Broadcast) else []
        self._applied(view, own, committed.moved)
        self._workers[number].uncommitted = []
        for receiver, batch in committed.batches.items():
            self._links[number, receiver].append(batch)

    def _deliver(self, sender: int, receiver: int) -> View:
        batch = self._links[sender, receiver].popleft()
        view = self._workers[receiver].view
        self._applied(view, batch, view.spread.receive(sender, batch))
        return view

    def _applied(self, view: View, batch: ProgressBatch, moved: set[int]) -> None:
        if isinstance(view.spread, Broadcast):
            for (location, time), difference in batch:
                view.counts[self._compiled.locations[location], time] += difference
        else:  # what an accumulator applies, and when, is its own affair
            counts = view.tracker.counts()
            view.counts = Counter({(self._compiled.locations[at], time): count for (at, time), count in counts})
        view.moved = {self._compiled.locations[location] for location in moved}
