"""A plan: a checked dataflow as every worker receives it, made of plain data and the operators' build functions."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from inspect import iscoroutinefunction
from reprlib import repr as short
from typing import Any, Literal, TypeAlias

from tidewheel.batches.batches import Batch
from tidewheel.progress import GraphShape, Location, Nesting, OperatorShape, PathSummary, Target
from tidewheel.progress.graph import Source
from tidewheel.runtime.description.origin import Origin
from tidewheel.runtime.description.pacts import Pact

Schedule: TypeAlias = Callable[..., None]
"""Called with an operator's input ports and then its output ports, whenever the operator has work."""

Build: TypeAlias = Callable[[Any], Schedule]
"""Called once on each worker with an `OperatorContext`; returns the operator's `Schedule`."""


_MOST_APART = 4
"""Messages are counted separately for up to this many workers.

With more, reading the counts costs more than is saved.
"""

Transform: TypeAlias = Callable[[Batch], Batch]
"""The function that a stateless operator applies to each batch."""


KeyedTransform: TypeAlias = Callable[[Batch, list[Any]], tuple[Batch, list[Any]]]
"""Called with a batch and the key of each record, in order; returns the resulting batch and its keys."""


@dataclass(frozen=True, slots=True)
class Stage:
    name: str
    transform: Transform
    with_keys: KeyedTransform | None = None
    """The transform for a batch with the keys of its substreams. None: `transform` runs on the records of each key."""


@dataclass(frozen=True, slots=True)
class EndsWanted:
    """The ends of substreams that an operator asks for at its inputs.

    Attributes:
        ordered: whether the operator receives the ends in the order in which the keys were closed.
        holds: whether the operator keeps tokens of a substream until the substream has ended.
        firm: whether each substream arrives in one piece, directly before its end.
        waits: whether the operator keeps tokens until times are complete, for all substreams.
    """

    ordered: bool
    holds: bool = False
    firm: bool = False
    waits: bool = False


BySubstream: TypeAlias = bool | EndsWanted | Literal["left"]
"""Whether an operator keeps substreams apart, also asks for their ends, or sends records of no substream ("left")."""


@dataclass(frozen=True, slots=True)
class DeclarationPlan:
    """A declaration of substreams.

    Attributes:
        is_shared: whether all workers accept records of each key; otherwise one worker does.
    """

    operator: int
    is_shared: bool


@dataclass(frozen=True, slots=True)
class OperatorPlan:
    """One operator: its ports, the sources and pacts of its inputs, and its build function."""

    shape: OperatorShape
    sources: tuple[Source, ...]
    pacts: tuple[Pact | None, ...]
    build: Build
    notify: bool
    """Whether the operator reads the frontiers of its inputs, and is scheduled when they change."""
    stages: tuple[Stage, ...] = ()
    """The stages of a stateless operator, or of several fused operators; see `Stage`."""
    ends: EndsWanted | None = None
    """The ends of substreams that the operator asks for at its inputs, if any."""
    leaves_substreams: bool = False
    """Whether the records that the operator sends belong to no substream."""
    origin: Origin = field(default_factory=Origin)
    """The method that adds the operator."""
    base_name: str = ""
    """The name before a number made it unique."""

    @property
    def name(self) -> str:
        return self.shape.name

    @property
    def is_stage(self) -> bool:
        return bool(self.stages)

    @property
    def is_endless(self) -> bool:
        return bool(getattr(self.build, "endless", False))

    @property
    def is_source(self) -> bool:
        """True if the operator brings records into the dataflow."""
        return bool(getattr(self.build, "is_source", not self.sources))

    @property
    def asks_for_ends(self) -> bool:
        """True if the operator asks which times the whole dataflow has processed; see `Plan.ends`."""
        return bool(getattr(self.build, "asks_for_ends", False))

    @property
    def is_aside(self) -> bool:
        """True if the operator's records only describe the work of other operators."""
        return bool(getattr(self.build, "is_aside", False))


@dataclass(frozen=True, slots=True)
class Plan:
    """A checked dataflow; every worker runs all its operators on a share of the records."""

    name: str
    operators: tuple[OperatorPlan, ...]
    inputs: Mapping[str, int]
    """The operators fed through `Job.input`, by the input's name."""
    captures: Mapping[str, int]
    """The operators whose records `Job.captured` returns, by the capture's name."""
    topics: Mapping[str, int]
    """The operators that publish, by topic."""
    probes: Mapping[str, Source]
    """The outputs that `Job.probe` watches, by the probe's name."""
    declarations: Mapping[str, DeclarationPlan] = field(default_factory=dict)
    """The declarations of substreams by name, in the order of their numbers."""
    lookups: Mapping[str, int] = field(default_factory=dict)
    """The operators that `Job.lookup` asks, by the look-up's name."""
    dropping: frozenset[Source] = frozenset()
    """The named outputs that no operator reads, such as the late records of windows."""

    def graph(self, workers: int = 1) -> GraphShape:
        edges = tuple(
            (source, Target(index, port))
            for index, operator in enumerate(self.operators)
            for port, source in enumerate(operator.sources)
        )
        targets = self.notified() if 1 < workers <= _MOST_APART else []
        pacts = {at: self.operators[at.operator].pacts[at.port] for at in targets}
        apart = frozenset(at for at, pact in pacts.items() if pact is not None and pact.counts_apart)
        return GraphShape(tuple(operator.shape for operator in self.operators), edges, apart, workers)

    @property
    def endless(self) -> tuple[str, ...]:
        return tuple(operator.name for operator in self.operators if operator.is_endless)

    def input_nesting(self, name: str) -> Nesting:
        return self.operators[self.inputs[name]].shape.outputs[0]

    def name_at(self, at: Location) -> str:
        """Return an operator's name.

        In a fused chain, inputs have the name of the first stage, outputs that of the last.
        """
        operator = self.operators[at.operator]
        if not operator.stages:
            return operator.name
        return operator.stages[-1 if isinstance(at, Source) else 0].name

    def describe(self, at: Location) -> str:
        return f"{'output' if isinstance(at, Source) else 'input'} {at.port} of {self.name_at(at)!r}"

    def notified(self) -> list[Target]:
        return [
            Target(index, port)
            for index, operator in enumerate(self.operators)
            if operator.notify
            for port in range(len(operator.shape.inputs))
        ]

    def locations_of_interest(self, graph: GraphShape, worker: int) -> list[Location]:
        # To hold back changes, a worker needs the frontiers of the dataflow's inputs: their tokens cover most changes.
        entries = [
            Source(index, port)
            for index, operator in enumerate(self.operators)
            if graph.workers > 1 and not operator.shape.inputs
            for port in range(len(operator.shape.outputs))
        ]
        ports = (graph.target(at.operator, at.port, worker) for at in self.notified())
        ends = self.ends(graph) if any(operator.asks_for_ends for operator in self.operators) else []
        return [*ports, *entries, *self.probes.values(), *ends]

    def aside_outputs(self) -> frozenset[Source]:
        """Return the outputs read by operators with `OperatorPlan.is_aside`; no records of streams leave there."""
        return frozenset(source for operator in self.operators if operator.is_aside for source in operator.sources)

    def ends(self, graph: GraphShape) -> list[Location]:
        """Return the last locations of the dataflow: a time that has passed all of them has been processed.

        Operators that are aside do not count. ``graph`` is the plan's graph.
        """
        read = {source for operator in self.operators for source in operator.sources}
        asides = {index for index, operator in enumerate(self.operators) if operator.is_aside}
        aside = self.aside_outputs()
        found: list[Location] = []
        for index, operator in enumerate(self.operators):
            if index in asides:
                continue
            shape = operator.shape
            outputs = (Source(index, port) for port in range(len(shape.outputs)))
            found += [source for source in outputs if source not in read and source not in aside]
            onward = {port for port, _ in shape.summaries}
            for port in range(len(shape.inputs)):
                if port not in onward:
                    found += graph.targets(index, port)
        return found


def passing(
    inputs: tuple[Nesting, ...], outputs: tuple[Nesting, ...]
) -> dict[tuple[int, int], tuple[PathSummary, ...]]:
    """Return the usual summaries: a time at any input can reach any output unchanged."""
    return {
        (port_in, port_out): (PathSummary.identity(nesting),)
        for port_in, nesting in enumerate(inputs)
        for port_out in range(len(outputs))
    }


def checked_schedule(made: Any) -> Schedule:
    """Return the result of a build function; raise TypeError unless it is a plain function."""
    if not callable(made):
        raise TypeError(f"build must return the operator's schedule function, it returned {short(made)}")
    if iscoroutinefunction(made):
        raise TypeError(
            "schedule is async, and the worker awaits nothing. map_async awaits a coroutine for each record "
            "(docs/how-to/async-calls.md), and docs/how-to/operator.md has an operator with an event loop of its own"
        )
    schedule: Schedule = made
    return schedule
