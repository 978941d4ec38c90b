"""The fusion of chains of stateless operators, before a dataflow runs.

A `Stage` is fused with the stage before it if the records between them stay on the worker and no other operator reads
them. A stage changes no time and finishes within the step. So the frontiers in the middle and at the end of a chain are
equal, and a probe in the middle moves to the end.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from tidewheel.progress import OperatorShape
from tidewheel.progress.graph import Source
from tidewheel.runtime.description.pacts import Pact
from tidewheel.runtime.description.plan import OperatorPlan, Plan

_FEW_NAMES = 3


class Fusible(Protocol):
    @property
    def sources(self) -> Sequence[Source | None]: ...

    @property
    def pacts(self) -> Sequence[Pact | None]: ...

    @property
    def is_stage(self) -> bool: ...


def chains_of(operators: Sequence[Fusible]) -> dict[int, list[int]]:
    """Return the chains of operators to fuse, by the number of their first operator; linear."""
    readers = Counter(source for operator in operators for source in operator.sources)
    chain_of: dict[int, int] = {}
    chains: dict[int, list[int]] = {}
    for index, operator in enumerate(operators):
        first = index
        if operator.is_stage and tuple(operator.pacts) == (None,):
            (source,) = operator.sources
            if source is not None and operators[source.operator].is_stage and readers[source] == 1:
                first = chain_of[source.operator]
        chain_of[index] = first
        chains.setdefault(first, []).append(index)
    return chains


def fuse(plan: Plan) -> Plan:
    """Return the plan with each chain of stages as one operator, at the place of the chain's first stage; linear."""
    chains = chains_of(plan.operators)
    chain_of = {index: first for first, chain in chains.items() for index in chain}
    place = {first: number for number, first in enumerate(chains)}

    def moved(source: Source) -> Source:
        return Source(place[chain_of[source.operator]], source.port)

    return replace(
        plan,
        operators=tuple(
            replace(joined, sources=tuple(moved(source) for source in joined.sources))
            for joined in (_join([plan.operators[index] for index in chain]) for chain in chains.values())
        ),
        inputs={name: place[index] for name, index in plan.inputs.items()},
        captures={name: place[index] for name, index in plan.captures.items()},
        topics={name: place[index] for name, index in plan.topics.items()},
        lookups={name: place[index] for name, index in plan.lookups.items()},
        probes={name: moved(source) for name, source in plan.probes.items()},
        dropping=frozenset(map(moved, plan.dropping)),
        declarations={
            name: replace(declared, operator=place[declared.operator]) for name, declared in plan.declarations.items()
        },
    )


def _join(chain: list[OperatorPlan]) -> OperatorPlan:
    head = chain[0]
    if len(chain) == 1:
        return head
    names = [operator.name for operator in chain]
    if len(names) > _FEW_NAMES:
        names = [names[0], f"{len(names) - 2} more", names[-1]]
    shape = head.shape
    stages = tuple(stage for operator in chain for stage in operator.stages)
    return replace(
        head,
        shape=OperatorShape(" > ".join(names), shape.inputs, shape.outputs, shape.summaries),
        stages=stages,
    )
