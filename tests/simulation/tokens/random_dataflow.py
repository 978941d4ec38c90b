"""Random dataflows, described as a user describes them."""

from random import Random
from typing import Any

import tidewheel as tw
from tests.kit.simulation.apart import ApartExchange
from tests.laws.domains import BITEMPORAL, VECTOR_CLOCK, small_summaries
from tests.simulation.dataflows.growth import Connect, Growth, Streams
from tests.simulation.tokens.random_operator import Ports, build_random
from tests.simulation.tokens.world import World
from tidewheel.progress import Nesting, PathSummary, Summary, TimeDomain
from tidewheel.runtime.description.dataflow_description import description_of
from tidewheel.runtime.description.pacts import Exchange
from tidewheel.runtime.description.plan import Build, Schedule, passing
from tidewheel.runtime.description.scope import Scope
from tidewheel.runtime.worker.operator_context import OperatorContext
from tidewheel.runtime.worker.ports import InputPort, OutputPort

_FEW_ROUNDS = tw.progress.IntegerDomain(maximum=3)
_DEEPEST = 3


def random_dataflow(random: Random, world: World) -> tw.Dataflow:
    """Return a dataflow with random operators, loops and nested scopes; no cycle of it is idle."""
    domain = random.choice((None, None, None, None, BITEMPORAL, VECTOR_CLOCK))
    flow = tw.Dataflow("random", domain)
    streams = [flow.input(f"input {number}") for number in range(random.randint(1, 2))]
    _FreePalette(random, world, flow).growth.grow(description_of(flow).root, streams, random.randint(2, 8))
    return flow


class _FreePalette:
    """Operators of random kinds, most of which do whatever the interface of operators allows."""

    def __init__(self, random: Random, world: World, flow: tw.Dataflow) -> None:
        self._random = random
        self._world = world
        self._flow = flow
        self.growth = Growth(flow, random, self, _DEEPEST)
        self._any, self._name = self.growth.any, self.growth.name

    def add(self, scope: Scope, streams: Streams, size: int) -> int:
        """Add an operator, a chain, or a loop."""
        kind = self._random.choice(
            ("operator", "operator", "operator", "operator", "chain", "concat", "source", "loop", "loop")
        )
        if kind == "loop" and self.growth.may_nest(scope):
            inside = self._random.randint(1, max(1, size - 1))
            self._add_loop(scope, streams, inside)
            return inside
        if kind == "chain":
            streams.append(self._chain(self._any(streams)))
            return self._random.randint(0, 1)
        if kind == "concat":
            streams.append(self._any(streams).concat(self._any(streams)))
            return self._random.randint(0, 1)
        if kind == "source" and self._random.random() < 0.5:
            self._add_operator(scope, [], streams)
            return 1
        count = self._random.choice((1, 1, 2, 2, 3))
        self._add_operator(scope, [self._any(streams) for _ in range(count)], streams)
        return 1

    def finish(self, scope: Scope, streams: Streams) -> None:
        """Add a probe, and a capture, or not."""
        if self._random.random() < 0.7:
            self._any(streams).probe(self._name("probe"))
        if self._random.random() < 0.1:
            self._any(streams).capture(self._name("capture"))

    # ------------------------------------------------------------------ operators

    def _add_operator(self, scope: Scope, inputs: Streams, streams: Streams) -> None:
        outputs = self._random.choice((1, 1, 1, 2) if inputs else (1, 2))
        notify = bool(inputs) and self._random.random() < 0.7
        summaries = self._summaries(scope.nesting, len(inputs), outputs)
        moves = small_summaries(scope.nesting.domain)
        ports = Ports(scope.nesting.domain, moves, len(inputs), outputs, summaries, notify)
        exchanges = (None, Exchange(_record), ApartExchange(_record))
        made = description_of(self._flow).add_operator(
            self._name("operator" if inputs else "source"),
            [stream._outlet for stream in inputs],
            [scope] * outputs,
            build_random(self._world, ports),
            pacts=[self._random.choice(exchanges) for _ in inputs],
            summaries=summaries,
            notify=notify,
        )
        streams.extend(tw.Stream(self._flow, outlet) for outlet in made)

    def _summaries(self, nesting: Nesting, inputs: int, outputs: int) -> dict[tuple[int, int], tuple[PathSummary, ...]]:
        if self._random.random() < 0.6:
            return passing((nesting,) * inputs, (nesting,) * outputs)
        return {
            (port_in, port_out): tuple(self._path(nesting) for _ in range(self._random.choice((1, 1, 2))))
            for port_in in range(inputs)
            for port_out in range(outputs)
            if self._random.random() < 0.8
        }

    def _path(self, nesting: Nesting) -> PathSummary:
        advances = tuple(
            self._random.choice(small_summaries(domain)) if self._random.random() < 0.3 else domain.identity()
            for domain in nesting.coordinate_domains
        )
        return PathSummary(nesting, nesting, advances)

    def _chain(self, stream: tw.Stream[int]) -> tw.Stream[int]:
        """Add operators that look at nothing but the records at hand."""
        for _ in range(self._random.randint(1, 3)):
            match self._random.choice(("map", "filter", "exchange", "inspect", "map_batches")):
                case "map":
                    stream = stream.map(_record)
                case "filter":
                    stream = stream.filter(_is_more_than_one)
                case "exchange":
                    stream = stream.exchange(_record)
                case "inspect":
                    stream = stream.inspect(_record)
                case "map_batches":
                    stream = stream.map_batches(_reversed)
        return stream

    # ------------------------------------------------------------------ loops

    def _add_loop(self, scope: Scope, streams: Streams, size: int) -> None:
        rounds = self._random.choice((None, None, None, _FEW_ROUNDS))
        loop, inner = self.growth.enter_loop(scope, streams, rounds)
        self.growth.grow(loop, inner, size)
        streams.extend(self._any(inner).leave() for _ in range(self._random.choice((1, 1, 2))))

    def feedbacks(self, scope: Scope) -> int:
        """Return how many feedbacks a scope has."""
        return self._random.choice((0, 1, 1, 1, 2) if scope.parent is not None else (0, 0, 1))

    def add_feedback(self, scope: Scope, streams: Streams) -> Connect:
        """Add a feedback, and its output to ``streams``; return what connects it."""
        domain = scope.nesting.coordinate_domains[-1]
        summary = self._random.choice(small_summaries(domain)[1:])
        if domain == tw.progress.IntegerDomain():
            feedback: tw.types.Feedback[int] = tw.types.Loop(self._flow, scope).feedback(summary)
        else:
            feedback = self._own_feedback(scope, domain, summary)
        streams.append(self._lose_hop(feedback))
        return feedback.connect

    def _own_feedback(self, scope: Scope, domain: TimeDomain, summary: Summary) -> tw.types.Feedback[int]:
        """Return a feedback in a scope whose times may end, or are no integers."""
        path = PathSummary.advance(scope.nesting, summary)
        operator, outlet = description_of(self._flow).add_open_operator(
            "own feedback", scope, _build_feedback(path), path
        )
        return tw.types.Feedback(self._flow, outlet, operator)

    def _lose_hop(self, stream: tw.Stream[int]) -> tw.Stream[int]:
        match self._random.choice(("map", "flat_map", "map_batches")):
            case "map":
                return stream.map(_one_less).filter(bool)
            case "flat_map":
                return stream.flat_map(_hops_left)
        return stream.map_batches(_one_hop_less)


def _build_feedback(path: PathSummary) -> Build:
    """Return the build function of a feedback that lets go of what comes to the end of time."""

    def build(context: OperatorContext) -> Schedule:
        def schedule(input: InputPort, output: OutputPort) -> None:
            for token, batch in input:
                if path.results_in(token.time) is not None:
                    output.send(token, batch)

        return schedule

    return build


def _record(record: int) -> int:
    return record


def _is_more_than_one(record: int) -> bool:
    return record > 1


def _one_less(record: int) -> int:
    return record - 1


def _hops_left(record: int) -> list[int]:
    return [record - 1] if record > 1 else []


def _one_hop_less(batch: Any) -> Any:
    return [record - 1 for record in batch if record > 1]


def _reversed(batch: Any) -> Any:
    return batch[::-1]
