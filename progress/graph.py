"""The shape of a dataflow for progress tracking: ports, effects of operators on times, and edges."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from tidewheel.progress.errors import GraphError
from tidewheel.progress.path_summary import Nesting, PathSummary


@dataclass(frozen=True, slots=True)
class Source:
    """An operator's output port: the location of tokens. Both fields count from 0."""

    operator: int
    port: int


@dataclass(frozen=True, slots=True)
class Target:
    """An operator's input port: the location of messages to it. The fields count from 0.

    Where messages are counted separately for each worker, each ``worker`` has its own target.
    """

    operator: int
    port: int
    worker: int = 0


Location: TypeAlias = Source | Target


@dataclass(frozen=True, slots=True)
class OperatorShape:
    """An operator's ports and internal paths.

    ``inputs`` and ``outputs`` have the nesting at each port. ``summaries`` maps (input port, output port) to the paths
    between them. Without an entry, messages at that input never cause output at that port.

    Raises GraphError if a summary names a missing port or another scope, or can decrease a time.
    """

    name: str
    inputs: tuple[Nesting, ...]
    outputs: tuple[Nesting, ...]
    summaries: Mapping[tuple[int, int], tuple[PathSummary, ...]]

    def __post_init__(self) -> None:
        for (port_in, port_out), paths in self.summaries.items():
            if not (0 <= port_in < len(self.inputs) and 0 <= port_out < len(self.outputs)):
                raise GraphError(
                    f"operator {self.name!r} summarises a path from input {port_in} to output {port_out}, but it has "
                    f"{len(self.inputs)} inputs and {len(self.outputs)} outputs"
                )
            for path in paths:
                if path.source != self.inputs[port_in] or path.target != self.outputs[port_out]:
                    raise GraphError(
                        f"operator {self.name!r}: the summary of the path from input {port_in} to output {port_out} "
                        "does not start and end in the scopes of these ports"
                    )
                if reason := path.refusal():
                    raise GraphError(
                        f"operator {self.name!r}: the summary of the path from input {port_in} to output {port_out}, "
                        f"{path.describe()}, {reason}"
                    )


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a time: over an edge, or through an operator."""

    start: Location
    end: Location
    summary: PathSummary


@dataclass(frozen=True, slots=True)
class GraphShape:
    """Operators, named by their index, and the edges between their ports.

    At the inputs in ``apart``, messages are counted separately for each worker, at one location each. The frontier
    there is for that worker alone: other workers may still receive messages of earlier times.
    """

    operators: tuple[OperatorShape, ...]
    edges: tuple[tuple[Source, Target], ...]
    apart: frozenset[Target] = frozenset()
    workers: int = 1

    def __post_init__(self) -> None:
        for source, target in self.edges:
            if self.nesting(source) != self.nesting(target):
                raise GraphError(
                    f"{self.describe(source)} and {self.describe(target)} are in different scopes: "
                    "enter or leave the loop between them"
                )

    def nesting(self, location: Location) -> Nesting:
        """Return the nesting of a location."""
        operator = self.operators[location.operator]
        ports = operator.outputs if isinstance(location, Source) else operator.inputs
        return ports[location.port]

    def target(self, operator: int, port: int, worker: int) -> Target:
        """Return the location of a worker's messages at an input port."""
        return Target(operator, port, worker if Target(operator, port) in self.apart else 0)

    def targets(self, operator: int, port: int) -> list[Target]:
        """Return the locations of messages at an input port, for all workers."""
        count = self.workers if Target(operator, port) in self.apart else 1
        return [Target(operator, port, worker) for worker in range(count)]

    def describe(self, location: Location) -> str:
        """Return a location's name in words, such as ``input 0 of 'map'``."""
        side = "output" if isinstance(location, Source) else "input"
        return f"{side} {location.port} of {self.operators[location.operator].name!r}"

    def locations(self) -> Iterator[Location]:
        """Iterate over all locations, operator by operator; the locations of workers after the first come last."""
        for index, operator in enumerate(self.operators):
            yield from (Target(index, port) for port in range(len(operator.inputs)))
            yield from (Source(index, port) for port in range(len(operator.outputs)))
        for target in sorted(self.apart, key=lambda at: (at.operator, at.port)):
            yield from self.targets(target.operator, target.port)[1:]

    def steps(self) -> Iterator[Step]:
        """Iterate over all steps: the edges and the operators' internal paths."""
        unchanged: dict[int, PathSummary] = {}
        for source, target in self.edges:
            nesting = self.nesting(source)
            if id(nesting) not in unchanged:
                unchanged[id(nesting)] = PathSummary.identity(nesting)
            for end in self.targets(target.operator, target.port):
                yield Step(source, end, unchanged[id(nesting)])
        for index, operator in enumerate(self.operators):
            for (port_in, port_out), paths in operator.summaries.items():
                for start in self.targets(index, port_in):
                    yield from (Step(start, Source(index, port_out), path) for path in paths)
