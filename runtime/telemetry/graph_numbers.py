"""The numbers of operators and edges in a document: those of the dataflow as described by the program.

Workers number operators after fusion. But pictures show each stage, and so does the document.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from tidewheel.progress import Location, Target
from tidewheel.progress.graph import Source
from tidewheel.runtime.description.outline import OperatorOutline, Outline, describe_pact
from tidewheel.runtime.description.plan import Plan


class GraphNumbers:
    """The operators and edges of one dataflow, by number.

    Attributes:
        of_name: the number of each operator, by name; for a chain, the number of its first stage.
        inner_edges: the edges within fused chains, each as the name of the stage before it and the number of the edge.
    """

    def __init__(self, plan: Plan, outline: Outline) -> None:
        self._outline = outline
        self.of_name = {operator.name: str(number) for number, operator in enumerate(outline.operators)}
        self.edges = {(str(edge.operator), edge.port): str(number) for number, edge in enumerate(outline.edges())}
        chains = [tuple(stage.name for stage in operator.stages) or (operator.name,) for operator in plan.operators]
        self._first = [self.of_name[chain[0]] for chain in chains]
        self._last = [self.of_name[chain[-1]] for chain in chains]
        for operator, first in zip(plan.operators, self._first, strict=True):
            self.of_name.setdefault(operator.name, first)  # a chain also has a name of its own
        self.inner_edges = [
            (before, self.edges[self.of_name[after], 0]) for chain in chains for before, after in pairwise(chain)
        ]
        self.outer_edges = [
            self.edges[self._first[number], port]
            for number, operator in enumerate(plan.operators)
            for port in range(len(operator.sources))
        ]

    def at(self, location: Location) -> str:
        """Return the number of the operator at a location; for a chain, its last stage at an output, else its first."""
        return (self._last if isinstance(location, Source) else self._first)[location.operator]

    def edge_to(self, target: Target) -> str:
        return self.edges[self._first[target.operator], target.port]

    def operators(self) -> Iterator[tuple[str, dict[str, Any]]]:
        for number, operator in enumerate(self._outline.operators):
            yield str(number), {"name": operator.name, "scope": operator.scope.path, "kind": _kind(operator)}

    def described_edges(self) -> Iterator[tuple[str, dict[str, Any]]]:
        for number, edge in enumerate(self._outline.edges()):
            if edge.source is not None:
                yield (
                    str(number),
                    {
                        "source": str(edge.source.operator),
                        "target": str(edge.operator),
                        "source_port": edge.source.port,
                        "target_port": edge.port,
                        "label": "" if edge.pact is None else describe_pact(edge.pact),
                    },
                )


def _kind(operator: OperatorOutline) -> str:
    if not operator.sources:
        return "input"
    return "operator" if operator.outputs else "output"
