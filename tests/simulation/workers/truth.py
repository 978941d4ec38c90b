"""The pointstamps that really exist, counted from scratch: tokens, messages in queues, and messages in flight."""

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TypeAlias

from tests.simulation.workers.counts import Counts, add
from tests.simulation.workers.possible_times import Pointstamp
from tidewheel.progress import GraphShape
from tidewheel.progress.graph import Source
from tidewheel.runtime.messages.envelope import Message
from tidewheel.runtime.tokens.timestamp_token import TimestampToken
from tidewheel.runtime.worker.worker_core import WorkerCore

_Link: TypeAlias = tuple[int, int]

Shown: TypeAlias = dict[int, tuple[int, TimestampToken]]
"""The tokens that were shown to an observer, with the number of their location, by identity."""


class Truth:
    """The observer's own books, which look at tokens, queues and links, and never at a ledger or a progress batch.

    Args:
        graph: the graph that the workers run.
        cores: the workers.
        shown: the tokens, for each worker.
    """

    def __init__(self, graph: GraphShape, cores: Sequence[WorkerCore], shown: Sequence[Shown]) -> None:
        self._cores = cores
        self._shown = shown
        self._minima: Counts = {
            (number, graph.nesting(location).domain.minimum()): 1
            for number, location in enumerate(graph.locations())
            if isinstance(location, Source)
        }
        self._here: list[Counts] = [self._count(worker) for worker in range(len(cores))]
        self._traffic: list[Counts] = [{} for _ in cores]
        self._in_flight: dict[_Link, deque[list[Pointstamp]]] = {}

    @property
    def initial(self) -> Counts:
        """What every worker is to start from: a token for each worker at the minimum time of each source."""
        return {pointstamp: count * len(self._cores) for pointstamp, count in self._minima.items()}

    def at(self, worker: int) -> Counts:
        """Return what was at one worker when it was last counted."""
        return self._here[worker]

    def recount(self, worker: int) -> Counts:
        """Count again what is at one worker, and return all that it has done since the start, as changes of counts.

        That is what it has now, what it has sent and not received, less the tokens that it started with.
        """
        self._here[worker] = self._count(worker)
        done = dict(self._traffic[worker])
        add(done, self._here[worker].items())
        add(done, self._minima.items(), -1)
        return done

    def sent(self, sender: int, receiver: int, messages: Sequence[Message]) -> None:
        """Note the messages of an envelope that has left."""
        pointstamps = [(message.target, message.time) for message in messages]
        self._in_flight.setdefault((sender, receiver), deque()).append(pointstamps)
        add(self._traffic[sender], ((pointstamp, 1) for pointstamp in pointstamps))

    def delivered(self, sender: int, receiver: int) -> None:
        """Note that the oldest envelope of a link has arrived."""
        pointstamps = self._in_flight[sender, receiver].popleft()
        add(self._traffic[receiver], ((pointstamp, -1) for pointstamp in pointstamps))
        self._here[receiver] = self._count(receiver)

    def live(self) -> Iterator[Pointstamp]:
        """Iterate over all that exists; a pointstamp may come more than once."""
        for here in self._here:
            yield from here
        for link in self._in_flight.values():
            for pointstamps in link:
                yield from pointstamps

    def _count(self, worker: int) -> Counts:
        counts: Counts = {}
        shown = self._shown[worker]
        for key, (location, token) in list(shown.items()):
            if token.is_live:
                pointstamp = (location, token.time)
                counts[pointstamp] = counts.get(pointstamp, 0) + 1
            else:
                del shown[key]
        core = self._cores[worker]
        early = (envelope.messages for envelope in core._substreams._early)
        for message in chain(unreceived(core), *early):
            pointstamp = (message.target, message.time)
            counts[pointstamp] = counts.get(pointstamp, 0) + 1
        return counts


def unreceived(core: WorkerCore) -> Iterator[Message]:
    """Yield the messages that wait at the inputs of operators."""
    for port in core._ports.values():
        yield from (message for message in port.queue if isinstance(message, Message))
        yield from port.held
