"""Random dataflows whose outputs by epoch follow from their inputs, whatever the schedule and however many workers."""

from collections.abc import Callable
from functools import cache, partial
from random import Random
from typing import Any, TypeAlias

import tidewheel as tw
from tests.kit.operators.operator_case import OperatorCase
from tests.kit.operators.operator_table import STREAMS
from tests.kit.simulation.apart import ApartExchange
from tests.laws.domains import small_summaries
from tests.simulation.dataflows.growth import Connect, Growth, Streams
from tests.simulation.snapshots import operators
from tests.simulation.snapshots.divided import Divider
from tests.simulation.snapshots.operators import FOR_EVER, group_of, operator
from tests.simulation.snapshots.world import NUMBERS, Record, World, made_of, number_of
from tidewheel.operators.base.stream_base import make_pact
from tidewheel.runtime.description.dataflow_description import description_of
from tidewheel.runtime.description.pacts import BroadcastPact, Exchange
from tidewheel.runtime.description.plan import Plan
from tidewheel.runtime.description.scope import Scope

Stream: TypeAlias = tw.Stream[Any]

_DEEPEST = 2
_KINDS = (*("own",) * 8, "two", "two", "library", "library", "chain", *("loop",) * 4, "iterate", "source")
_ELSEWHERE = {"capture_to", "publish", "write_files", "sink", "map_async", "broadcast", "probe"}
"""Operators that need files, threads or a publisher, or that say which worker they are on."""


@cache
def library_cases() -> list[OperatorCase]:
    """Return uses of operators of the library that run here, without those of substreams."""
    return [case for case in STREAMS if case.operator not in _ELSEWHERE and not _declares_substreams(case)]


def _declares_substreams(case: OperatorCase) -> bool:
    flow = tw.Dataflow("case")
    case.describe(flow.input("numbers"))
    return bool(description_of(flow).plan().declarations)


class RandomDataflow:
    """Describes a dataflow.

    Args:
        random: the choices.
        world: what its operators see.
        topic: by which one of the captured streams is published; nothing is published without a name.

    Attributes:
        plan: what workers run.
        cases: by name of a capture, the use of an operator of the library there, and the number of the input.
        ended_inputs: the names of the inputs whose handles end substreams.
        published: the name of the capture of the stream that is published.
        publication: the description of the topic, if there is one.
    """

    def __init__(self, random: Random, world: World, topic: str = "") -> None:
        self.cases: dict[str, tuple[OperatorCase, int]] = {}
        self._random = random
        self._world = world
        self._flow = flow = tw.Dataflow("random")
        self._growth = Growth(flow, random, self, _DEEPEST)
        self._any, self._name = self._growth.any, self._growth.name
        self._captured: dict[str, Stream] = {}
        self._has_library = random.random() < 0.6
        divider = Divider(flow, random, world, self._name)
        inputs: Streams = [flow.input(f"input {number}") for number in range(random.randint(1, 2))]
        if self._has_library and random.random() < 0.4:
            self._add_case(inputs)
        self._growth.grow(description_of(flow).root, inputs, random.randint(2, 6))
        for stream in inputs[-2:]:
            self._capture(stream.probe(self._name("probe")))
        for _ in range(random.choice((0, 0, 0, 1, 1, 2))):
            self._capture(divider.add())
        self.published = random.choice(list(self._captured)) if topic else ""
        if topic:
            self._captured[self.published].publish(topic, partition=random.choice(("worker", "worker", "merged")))
        self.ended_inputs = divider.ended_inputs
        self.publication = description_of(flow).attachments.get(topic)
        self.plan: Plan = description_of(flow).plan()

    def _add_case(self, inputs: Streams) -> None:
        random = Random(self._random.random())  # so that another case more changes nothing else of a seed
        number, case = random.randrange(len(inputs)), random.choice(library_cases())
        name, kind = self._name("case"), random.choice(case.kinds)
        numbers: Stream = inputs[number].map_batches(lambda batch: kind.make([number for number, _ in batch]))
        case.describe(numbers).capture(name)
        self.cases[name] = case, number

    def _capture(self, stream: Stream) -> None:
        name = self._name("capture")
        stream.capture(name)
        self._captured[name] = stream

    def feedbacks(self, scope: Scope) -> int:
        """Return how many feedbacks a scope has."""
        return self._random.choice((1, 1, 1, 2) if scope.parent is not None else (0, 0, 0, 1))

    def add(self, scope: Scope, streams: Streams, size: int) -> int:
        """Add an operator, or a loop."""
        streams += self._add_one(scope, streams)
        return 1

    def finish(self, scope: Scope, streams: Streams) -> None:
        """Capture a stream inside a loop, or not."""
        if scope.parent is not None and self._random.random() < 0.2:
            self._capture(self._any(streams))

    def _add_one(self, scope: Scope, streams: Streams) -> Streams:
        stream, kind = self._any(streams), self._random.choice(_KINDS)
        if kind == "loop" and self._growth.may_nest(scope):
            return [self._loop(scope, streams)]
        if kind == "iterate" and self._growth.may_nest(scope):
            step = self._random.choice((self._own, self._library))
            return [stream.iterate(lambda inner: (step(inner).flat_map(_hop), inner))]
        if kind == "source" and scope.parent is None:
            return self._add("source", [], partial(operators.source, self._partitions()), [])
        if kind == "two":
            return [self._of_two(stream, self._any(streams))]
        if kind == "library":
            return [self._library(stream)]
        if kind == "chain":
            return [self._random.choice(_CHAIN)(stream)]
        if self._random.random() < 0.2:
            return self._add("hold", [stream], partial(operators.hold, *self._moves_and_chance(scope)), [None], 2)
        return [self._own(stream)]

    # ------------------------------------------------------------------ operators that keep something

    def _add(self, kind: str, inputs: Streams, make: Any, pacts: list[Any], outputs: int = 1) -> Streams:
        description, build = description_of(self._flow), operator(self._world, make)
        scope = inputs[0]._outlet.scope if inputs else description.root
        outlets = [stream._outlet for stream in inputs]
        made = description.add_operator(self._name(kind), outlets, [scope] * outputs, build, pacts=pacts)
        return [tw.Stream(self._flow, outlet) for outlet in made]

    def _own(self, stream: Stream) -> Stream:
        moves_and_chance = self._moves_and_chance(stream._outlet.scope)
        exchange = (Exchange, ApartExchange)[self._growth.named % 2]
        by_number, by_group = exchange(number_of), exchange(group_of)
        kind, make, pacts = self._random.choice(
            (
                ("hold", partial(operators.hold, *moves_and_chance), (None, by_number)),
                ("in set", partial(operators.hold_in_set, *moves_and_chance), (None, by_number)),
                ("by key", partial(operators.hold_by_key, *moves_and_chance), (by_number,)),
                ("later", partial(operators.notified_later, moves_and_chance[0]), (by_group,)),
                *(("table", operators.table, (by_number,)),) * 3,
            )
        )
        return self._add(kind, [stream], make, [self._random.choice(pacts)])[0]

    def _of_two(self, stream: Stream, other: Stream) -> Stream:
        if not self._has_library or self._random.random() < 0.5:
            pacts = [make_pact("look up", group_of), BroadcastPact()]
            return self._add("look up", [stream, other], operators.look_up, pacts)[0]
        is_outside = stream._outlet.scope.parent is None
        joined = stream.join_across_epochs if is_outside and self._random.random() < 0.5 else stream.join
        pairs = joined(other.distinct(), number_of)
        return pairs.map(lambda pair: made_of(pair, min(pair[0][1], pair[1][1]))).distinct()

    def _partitions(self) -> list[list[tuple[int, Record]]]:
        random = self._random
        times = [sorted(random.choices(range(5), k=random.randint(0, 4))) for _ in range(random.randint(1, 5))]
        return [[(time, (random.randrange(NUMBERS), random.randint(0, 2))) for time in each] for each in times]

    def _moves_and_chance(self, scope: Scope) -> tuple[Any, float]:
        return small_summaries(scope.nesting.domain), self._random.choice((0.3, 0.7, 0.95, FOR_EVER))

    def _library(self, stream: Stream) -> Stream:
        return self._random.choice(_LIBRARY if self._has_library else _CHAIN)(stream)

    # ------------------------------------------------------------------ loops

    def _loop(self, scope: Scope, streams: Streams) -> Stream:
        loop, inner = self._growth.enter_loop(scope, streams)
        self._growth.grow(loop, inner, self._random.randint(1, 3))
        return self._any(inner).leave()

    def add_feedback(self, scope: Scope, streams: Streams) -> Connect:
        """Add a feedback, and its output to ``streams``; return what connects it."""
        feedback: tw.types.Feedback[Any] = tw.types.Loop(self._flow, scope).feedback(self._random.choice((1, 1, 2)))
        streams.append(feedback.flat_map(_hop))
        return feedback.connect


def _hop(record: Record) -> list[Record]:
    """Return the record after another round of a loop; nothing after the last."""
    return [(record[0], record[1] - 1)] if record[1] > 0 else []


def _group(record: Record) -> Record:
    return group_of(record), record[1]


def _add(total: int, record: Record) -> int:
    return total + record[0]


def _of_pair(pair: Any) -> Record:
    return made_of(pair, pair[0][1])


def _step(state: int | None, record: Record) -> tuple[int | None, Record]:
    total = (state or 0) + record[0]
    return None if total % 5 == 0 else total, made_of((total, record), record[1])


_CHAIN: tuple[Callable[[Stream], Stream], ...] = (
    lambda stream: stream.map(lambda record: made_of(record, record[1])),
    lambda stream: stream.filter(lambda record: record[0] % 3 > 0).exchange(number_of),
    lambda stream: stream.rebalance().map_batches(lambda batch: batch[::-1]),
    lambda stream: stream.concat(stream.map(number_of).map(lambda number: (number // 2, 0))),
    lambda stream: stream.flat_map(lambda record: [record, (record[0] // 2, record[1])][: 1 + record[0] % 2]),
)
"""Operators that keep nothing."""

_LIBRARY: tuple[Callable[[Stream], Stream], ...] = (
    lambda stream: stream.count(_group).map(_of_pair),
    lambda stream: stream.accumulate(_group, start=int, add=_add).map(_of_pair),
    lambda stream: stream.stateful_map(_group, start=int, step=_step, order=lambda record: record),
    lambda stream: stream.distinct(),
    lambda stream: stream.deduplicate(),
    lambda stream: stream.aggregate(_group, add=max).map(lambda pair: pair[1]),
    lambda stream: stream.top_k(2, key=_group),
    lambda stream: stream.sort(),
)
"""Operators of the library that also run in loops."""
