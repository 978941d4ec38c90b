"""An operator of a dataflow description."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tidewheel.progress import GraphError, OperatorShape, PathSummary
from tidewheel.progress.graph import Source
from tidewheel.runtime.description.origin import Origin
from tidewheel.runtime.description.outline import OperatorOutline
from tidewheel.runtime.description.pacts import Pact
from tidewheel.runtime.description.plan import (
    Build,
    BySubstream,
    DeclarationPlan,
    EndsWanted,
    KeyedTransform,
    OperatorPlan,
    Stage,
    Transform,
    passing,
)
from tidewheel.runtime.description.scope import Scope


@dataclass(slots=True)
class DescribedOperator:
    """One operator: its ports with their scopes, its function, and the sources of its inputs.

    The source of an unconnected input is None. Without ``summaries``, a time at any input can reach any output
    unchanged.
    """

    name: str
    input_scopes: tuple[Scope, ...]
    output_scopes: tuple[Scope, ...]
    sources: list[Source | None]
    pacts: tuple[Pact | None, ...]
    build: Build
    summaries: Mapping[tuple[int, int], tuple[PathSummary, ...]] | None
    notify: bool
    transform: Transform | None = None
    with_keys: KeyedTransform | None = None
    by_substream: BySubstream = False
    origin: Origin = field(default_factory=Origin)
    base_name: str = ""
    """The name before a number made it unique."""
    gathers: bool = False
    """Whether the operator reads from operators that were added later."""

    def plan(self) -> OperatorPlan:
        """Return the form that workers run; raise GraphError if an input is not connected."""
        if any(source is None for source in self.sources):
            raise GraphError(f"{self.name!r} was never connected: call connect(stream) on the feedback")
        inputs = tuple(scope.nesting for scope in self.input_scopes)
        outputs = tuple(scope.nesting for scope in self.output_scopes)
        summaries = self.summaries if self.summaries is not None else passing(inputs, outputs)
        shape = OperatorShape(self.name, inputs, outputs, summaries)
        sources = tuple(source for source in self.sources if source is not None)
        stages = () if self.transform is None else (Stage(self.name, self.transform, self.with_keys),)
        ends = self.by_substream if isinstance(self.by_substream, EndsWanted) else None
        leaves = self.by_substream == "left"
        origin, base = self.origin, self.base_name
        return OperatorPlan(shape, sources, self.pacts, self.build, self.notify, stages, ends, leaves, origin, base)

    def outline(self, root: Scope, marks: tuple[str, ...]) -> OperatorOutline:
        return OperatorOutline(
            self.name,
            max((*self.input_scopes, *self.output_scopes, root), key=lambda scope: scope.nesting.depth),
            tuple(self.sources),
            self.pacts,
            len(self.output_scopes),
            self.transform is not None,
            marks,
            self.gathers,
        )


def check_substreams(operators: Sequence[DescribedOperator], declarations: Mapping[str, DeclarationPlan]) -> None:
    """Raise GraphError if a loop carries substreams to an operator that would mix them or divide them again."""
    readers: dict[int, list[int]] = {}
    for index, operator in enumerate(operators):
        for source in operator.sources:
            if source is not None:
                readers.setdefault(source.operator, []).append(index)
    for name, declared in declarations.items():
        left, seen = [declared.operator], {declared.operator}
        while left:
            for index in readers.get(left.pop(), ()):
                operator = operators[index]
                is_kept = operator.by_substream or operator.transform is not None or not operator.output_scopes
                if not is_kept:
                    raise mixes_substreams(operator.name, name)
                if index not in seen and operator.by_substream != "left":
                    seen.add(index)
                    left.append(index)


def mixes_substreams(operator: str, name: str) -> GraphError:
    kept = ', or say scope="substream" to have states by substream' if operator.startswith("stateful_map") else ""
    return GraphError(
        f"operator {operator!r} puts records of different substreams together, so its results would belong to no "
        f"substream. Call without_substreams() before it, where the substreams {name!r} no longer matter{kept}"
    )
