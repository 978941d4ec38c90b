"""Random dataflows whose streams are divided into substreams, described as a user describes them."""

from random import Random
from typing import Any

import tidewheel as tw
from tests.kit.simulation.violation import ViolationError
from tests.simulation.dataflows.growth import Connect, Growth, Streams
from tests.simulation.substreams.random_operator import build_random
from tests.simulation.substreams.record import (
    Record,
    both,
    has_odd_number,
    is_last,
    key_of,
    moved,
    number_of,
    one_hop_less,
)
from tests.simulation.substreams.world import World
from tidewheel.runtime.description.plan import Schedule
from tidewheel.runtime.description.scope import Scope
from tidewheel.runtime.worker.operator_context import OperatorContext
from tidewheel.runtime.worker.ports import InputPort, OutputPort

_DEEPEST = 3


class RandomDataflow:
    """A dataflow with one or two divided inputs, each with operators behind it; no cycle of it is idle.

    Where there is none, ends may be told by punctuations.

    Attributes:
        flow: the dataflow.
        watchers: the names of the operators that look at ends.
    """

    def __init__(self, random: Random, world: World) -> None:
        self._random = random
        self._world = world
        self.flow = tw.Dataflow("substreams")
        self._growth = Growth(self.flow, random, self, _DEEPEST)
        self._any = self._growth.any
        self.watchers: set[str] = set()
        self._is_acyclic = random.random() < 0.3
        for number in range(random.choice((1, 1, 1, 2))):
            divided = self._divided(number)
            self._growth.grow(divided._outlet.scope, [divided], random.randint(2, 7))

    def _divided(self, number: int) -> tw.Stream[Record]:
        """Add an input that is divided, maybe in a loop: all workers let in records of each key, or one owns it."""
        stream: tw.Stream[Record] = self.flow.input(f"input {number}")
        name = f"keys {number}"
        kind = self._random.choice(("shared", "shared", "marks", "last"))
        if kind == "shared":
            return stream.substreams(name, key_of)
        if self._random.random() < 0.3:
            stream = stream.enter(self.flow.scope(f"loop of input {number}"))
        match kind:
            case "marks":
                before = stream.exchange(key_of) if self._random.random() < 0.5 else stream
                return before.unary(_build_read, name="read").substreams(name, key_of)
        return stream.filter(bool).substreams(name, key_of, last=is_last)

    def add(self, scope: Scope, streams: Streams, size: int) -> int:
        """Add an operator, a chain, or a loop."""
        kind = self._random.choice(("operator", "operator", "operator", "chain", "concat", "collect", "loop"))
        added = 0
        if kind == "loop" and self._growth.may_nest(scope):
            added = self._random.randint(1, max(1, size - 1))
            loop, inner = self._growth.enter_loop(scope, streams)
            self._growth.grow(loop, inner, added)
            streams.extend(self._any(inner).leave() for _ in range(self._random.choice((1, 1, 2))))
        elif kind == "chain":
            streams.append(self._chain(self._any(streams)))
        elif kind == "concat":
            streams.append(self._any(streams).concat(self._any(streams)))
        elif kind == "collect":
            self._any(streams).collect_substream(_collected)
        else:
            self._add_operator(streams)
            added = 1
        return added + self._random.randint(0, 1)

    def finish(self, scope: Scope, streams: Streams) -> None:
        """Have one operator more."""
        self._add_operator(streams)

    def _add_operator(self, streams: Streams) -> None:
        inputs = [self._any(streams) for _ in range(self._random.choice((1, 1, 2)))]
        bound: Any = self._random.choice((None, None, "soft", "soft", "firm"))
        is_watching = bound is not None
        exchange: list[Any] = [self._random.choice((None, number_of, key_of)) for _ in inputs]
        name = self._growth.name("operator")
        made = self.flow.operator(
            inputs,
            self._random.choice((0, 1, 1, 1, 2)),
            build_random(self._world, len(inputs), is_watching=is_watching),
            exchange=exchange,
            notify=self._random.random() < 0.3,
            bound=bound,
            ordered=is_watching and self._random.random() < 0.5,
            name=name,
        )
        if is_watching:
            path = inputs[0]._outlet.scope.path
            self.watchers.add(f"{path}/{name}" if path else name)
        streams.extend(made)

    def _chain(self, stream: tw.Stream[Record]) -> tw.Stream[Record]:
        for _ in range(self._random.randint(1, 3)):
            match self._random.choice(("map", "filter", "flat_map", "exchange", "rebalance", "delay")):
                case "map":
                    stream = stream.map(moved)
                case "filter":
                    stream = stream.filter(has_odd_number)
                case "flat_map":
                    stream = stream.flat_map(both)
                case "exchange":
                    stream = stream.exchange(number_of)
                case "rebalance":
                    stream = stream.rebalance()
                case "delay":
                    stream = stream.branch(has_odd_number)[self._random.randint(0, 1)]
        return stream

    # ------------------------------------------------------------------ loops

    def feedbacks(self, scope: Scope) -> int:
        """Return how many feedbacks a scope has."""
        if self._is_acyclic:
            return 0
        return self._random.choice((0, 1, 1, 1, 2) if scope.parent is not None else (0, 0, 0, 1))

    def add_feedback(self, scope: Scope, streams: Streams) -> Connect:
        """Add a feedback, and its output to ``streams``; return what connects it."""
        feedback: tw.types.Feedback[Record] = tw.types.Loop(self.flow, scope).feedback(self._random.choice((1, 1, 2)))
        streams.append(self._any(streams).concat(feedback.flat_map(one_hop_less)))
        return feedback.connect


def _build_read(context: OperatorContext) -> Schedule:
    """Return the schedule function of an operator for which the last record of a key is only the mark of its end."""

    def schedule(input: InputPort, output: OutputPort) -> None:
        for token, batch in input:
            for record in batch:
                if record.is_last:
                    context.end_substream(token, record.life.key)
                else:
                    output.send(token, [record])

    return schedule


def _collected(key: int, records: list[Record]) -> Record:
    lives = {record.life for record in records}
    if len(lives) != 1 or records[0].life.key != key:
        raise ViolationError("divided", f"what was collected for {key} is of {lives}")
    return records[0]
