"""Random parts of dataflows that divide a stream into substreams, whose results are sent when these have ended."""

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any, TypeAlias

import tidewheel as tw
from tests.kit.simulation.violation import ViolationError
from tests.laws.domains import small_summaries
from tests.simulation.snapshots import operators
from tests.simulation.snapshots.operators import FOR_EVER, group_of, operator
from tests.simulation.snapshots.world import NUMBERS, Record, World, made_of, number_of
from tidewheel.operators.substreams.substream_operators import Bound
from tidewheel.runtime.description.plan import Schedule

Stream: TypeAlias = tw.Stream[Any]

LAST = 9
"""The number of times that the last record of a substream may go round loops, before it is divided."""
WATCHED = "ends in order"
"""The name of the state in which an operator keeps the keys of whose ends it was told."""

_FEW = 4


class Divider:
    """Adds streams that are divided, and what is done with their substreams.

    Attributes:
        ended_inputs: the names of the inputs whose handles end substreams.
    """

    def __init__(self, flow: tw.Dataflow, random: Random, world: World, name: Callable[[str], str]) -> None:
        self._flow = flow
        self._random = random
        self._world = world
        self._name = name
        self.ended_inputs: set[str] = set()

    def add(self) -> Stream:
        """Divide a stream, do something with its substreams, and return their results."""
        kinds = (self._by_handle, self._by_handle, self._by_last, self._by_last, self._by_session, self._by_name)
        kind = self._random.choice(kinds)
        stream = kind(self._name("keys"))
        for _ in range(self._random.randint(1, 4)):
            stream = self._more(stream)
        return stream.collect_substream(_collected, name=self._name("collect"))

    # ------------------------------------------------------------------ how a stream is divided

    def _by_handle(self, name: str) -> Stream:
        self.ended_inputs.add(fed := self._name("divided"))
        return self._flow.input(fed).substreams(name, number_of)

    def _by_last(self, name: str) -> Stream:
        """Have the last record of each substream end it, at the worker that owns its key."""
        make = operator(self._world, partial(operators.source, self._partitions()))
        [stream] = self._flow.operator([], 1, make, name=self._name("source"))
        if self._random.random() < 0.5:
            return stream.unary(_build_read, name=self._name("read")).substreams(name, number_of)
        return stream.substreams(name, number_of, last=_is_last).map(lambda record: (record[0], record[1] % LAST))

    def _by_session(self, name: str) -> Stream:
        """Have each session be a substream: its result is the first record of it, and the last."""
        events = self._flow.input(self._name("events"))
        gap = tw.SessionWindows(self._random.choice((1, 6)))
        sessions = events.window(gap, key=group_of, at=number_of, name=self._name("sessions"))
        sessions.late.ignore()
        divided = sessions.results.substreams(name, lambda found: (found.key, found.start), last=lambda found: True)
        return divided.flat_map(lambda found: found.value)

    def _by_name(self, name: str) -> Stream:
        predicates = {"even": lambda record: record[0] % 2 == 0, "small": lambda record: record[0] < NUMBERS // 3}
        return self._flow.input(self._name("named")).substreams(name, predicates=predicates)

    def _partitions(self) -> list[list[tuple[int, Record]]]:
        """Return partitions of which each has all records of its keys; a key is used again only at a later time."""
        count = self._random.randint(1, 3)
        made = []
        for number in range(count):
            ended: dict[int, int] = {}
            records = []
            for time in sorted(self._random.choices(range(5), k=self._random.randint(0, 8))):
                key, hops = self._random.randrange(_FEW) * count + number, self._random.choice((0, 1, 2, LAST))
                if ended.get(key, -1) < time:
                    records.append((time, (key, hops)))
                    if hops == LAST:
                        ended[key] = time
            made.append(records)
        return made

    # ------------------------------------------------------------------ what is done with substreams

    def _more(self, stream: Stream) -> Stream:
        match self._random.choice(("map", "exchange", "hold", "hold", "watch", "watch", "loop", "loop")):
            case "map":
                return stream.flat_map(lambda record: [record, (record[0] // 2, record[1])][: 1 + record[0] % 2])
            case "exchange":
                return stream.exchange(number_of).map(lambda record: made_of(record, record[1]))
            case "hold":
                return self._hold(stream)
            case "watch":
                return self._watch(stream, self._random.choice(("soft", "firm")))
        return stream.iterate(self._loop)

    def _loop(self, inner: Stream) -> tuple[Stream, Stream]:
        kinds: tuple[Callable[[Stream], Stream], ...] = (
            self._hold,
            lambda stream: stream.exchange(number_of),
            lambda stream: self._watch(stream, "soft"),
            lambda stream: self._watch(stream, "firm"),
        )
        moved = self._random.choice(kinds)(inner)
        hopped = moved.flat_map(lambda record: [made_of(record, record[1] - 1)] if record[1] > 0 else [])
        return hopped, moved

    def _hold(self, stream: Stream) -> Stream:
        moves = small_summaries(stream._outlet.scope.nesting.domain)
        chance = self._random.choice((0.3, 0.7, 0.95, FOR_EVER))
        keep, exchange = self._random.choice(((operators.hold_by_key, number_of), (operators.hold, _spread)))
        return stream.unary(operator(self._world, partial(keep, moves, chance)), exchange, name=self._name("hold"))

    def _watch(self, stream: Stream, bound: Bound) -> Stream:
        make = operator(self._world, partial(watch, bound == "firm"))
        exchange = self._random.choice((None, number_of))
        ordered = self._random.random() < 0.5
        return stream.unary(make, exchange, bound=bound, ordered=ordered, name=self._name("watch"))


def watch(is_firm: bool, world: World, context: tw.OperatorContext) -> Schedule:
    """Send records on, and keep the keys whose ends it was told of."""
    told: list[Any] = context.state(WATCHED, list, split=_for_all, merge=_behind)
    inside: list[Any] = context.state("inside", list, split=lambda _, workers: [None] * workers, merge=_behind)

    def check_border(key: Any) -> None:
        if is_firm and inside and inside != [key]:
            raise ViolationError("border", f"{context.name} got something of {key!r} or its end within {inside}")

    def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
        for lent, record in world.read(context, input):
            check_border(lent.key)
            inside[:] = [] if lent.label is None else [lent.key]
            output.send(lent, [record])
        if world.waits(0.4):
            world.come_back(context)
            return
        for key in input.ended:
            check_border(key)
            inside.clear()
            told.append(key)

    return schedule


def _for_all(told: list[Any], workers: int) -> list[list[Any]]:
    return [told.copy() for _ in range(workers)]


def _behind(one: list[Any], other: list[Any]) -> list[Any]:
    return min(one, other, key=len)


def _build_read(context: tw.OperatorContext) -> Schedule:
    """Build an operator for which the last record of a key is only the mark of its end."""

    def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
        for token, batch in input:
            for record in batch:
                if _is_last(record):
                    context.end_substream(token, record[0])
                else:
                    output.send(token, [record])

    return schedule


def _spread(record: Record) -> int:
    return record[0] * 5 + record[1]


def _is_last(record: Record) -> bool:
    return record[1] == LAST


def _collected(key: Any, records: list[Record]) -> Record:
    return made_of((key, sorted(records)), 0)
