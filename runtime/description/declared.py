"""The declarations of substreams in a dataflow, and the inputs at which operators receive the ends of substreams."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from tidewheel.progress import CompiledGraph, GraphError, Target
from tidewheel.progress.graph import Source
from tidewheel.runtime.description.plan import EndsWanted, Plan


@dataclass(frozen=True, slots=True)
class DeclaredSubstreams:
    """A declaration of substreams, and the inputs whose operators ask for ends.

    Attributes:
        is_shared: whether all workers accept records of each key; otherwise one worker does.
        ordered: the inputs that receive ends in the order in which the keys were closed.
        turns: the ordered inputs on a cycle.
    """

    name: str
    source: Source
    is_shared: bool
    asked: tuple[Target, ...]
    ordered: tuple[Target, ...] = ()
    firm: tuple[Target, ...] = ()
    turns: tuple[Target, ...] = ()


def declared_substreams(plan: Plan, compiled: CompiledGraph) -> tuple[DeclaredSubstreams, ...]:
    """Return the declarations of a plan, in the order of their numbers.

    Raises:
        GraphError: an operator asks for ends at an input without substreams, or with substreams of several
            declarations; or a firm bound would wait for itself in a loop.
    """
    sources = {name: Source(declared.operator, 0) for name, declared in plan.declarations.items()}
    reached = {name: _reached(plan, source) for name, source in sources.items()}
    asked: dict[str, list[Target]] = {name: [] for name in sources}
    for number, operator in enumerate(plan.operators):
        if operator.ends is None:
            continue
        found = _asked_by(plan, compiled, number, reached)
        if not found:
            raise GraphError(
                f"operator {operator.name!r} asks when substreams end, but no stream that it reads has any: call "
                "substreams(name, key=...) on a stream before it"
            )
        for name, target in found:
            asked[name].append(target)
    made = tuple(_declared(plan, compiled, name, source, asked[name]) for name, source in sources.items())
    for one in made:
        _check_firm(plan, compiled, one)
    return made


def _reached(plan: Plan, start: Source) -> set[Target]:
    """Return the inputs that records of an output can reach within their substreams.

    Substreams do not pass another division, nor an operator whose outputs belong to no substream.
    """
    dividers = {declared.operator for declared in plan.declarations.values()}
    readers: dict[Source, list[Target]] = defaultdict(list)
    for source, target in plan.graph().edges:
        readers[source].append(target)
    reached: set[Target] = set()
    left = [start]
    while left:
        for at in readers[left.pop()]:
            operator = plan.operators[at.operator]
            if at not in reached and at.operator not in dividers and not operator.leaves_substreams:
                ports = range(len(operator.shape.outputs))
                left += [Source(at.operator, port) for port in ports if operator.shape.summaries.get((at.port, port))]
            reached.add(at)
    return reached


def _asked_by(
    plan: Plan, compiled: CompiledGraph, number: int, reached: Mapping[str, set[Target]]
) -> list[tuple[str, Target]]:
    operator = plan.operators[number]
    found: list[tuple[str, Target]] = []
    for port in range(len(operator.shape.inputs)):
        target = Target(number, port)
        names = [name for name, inputs in reached.items() if target in inputs]
        if len(names) > 1:
            raise GraphError(
                f"operator {operator.name!r} asks when substreams end, and those of {names[0]!r} and of "
                f"{names[1]!r} get to its input {port}: let it read streams of one declaration"
            )
        if operator.ends is not None and operator.ends.holds and Source(number, 0) in compiled.reaching(target):
            raise GraphError(
                f"operator {operator.name!r} sends what it has of a substream when that has ended. That comes "
                "back to it round a loop, so it would wait for itself. Let it read what leaves the loop"
            )
        found += ((name, target) for name in names)
    return found


def _declared(
    plan: Plan, compiled: CompiledGraph, name: str, source: Source, asked: list[Target]
) -> DeclaredSubstreams:
    ends = {at: plan.operators[at.operator].ends or EndsWanted(ordered=False) for at in asked}
    firm = [at for at in asked if ends[at].firm]
    turns = [at for at in firm if _is_on_cycle(plan, compiled, at)]
    declared = plan.declarations[name]
    return DeclaredSubstreams(
        name,
        source,
        declared.is_shared,
        tuple(asked),
        tuple(at for at in asked if ends[at].ordered or at in turns),
        tuple(firm),
        tuple(turns),
    )


def _is_on_cycle(plan: Plan, compiled: CompiledGraph, at: Target) -> bool:
    outputs = range(len(plan.operators[at.operator].shape.outputs))
    return any(Source(at.operator, port) in compiled.reaching(at) for port in outputs)


def _check_firm(plan: Plan, compiled: CompiledGraph, declared: DeclaredSubstreams) -> None:
    """Raise GraphError if an input with a firm bound would, in a loop, wait for records that it holds itself."""
    divider = declared.source.operator
    for at in declared.firm:
        name = plan.operators[at.operator].name
        outputs = [Source(at.operator, port) for port in range(len(plan.operators[at.operator].shape.outputs))]
        before = [compiled.reaching(Target(divider, port)) for port in range(len(plan.operators[divider].shape.inputs))]
        if any(output in reaching for output in outputs for reaching in before):
            raise GraphError(
                f"operator {name!r} holds each substream until it has ended. Its records come back round a loop "
                f"to where substreams {declared.name!r} are declared, which would wait for them. Divide the stream "
                'before the loop, or use bound="soft"'
            )
        for number, operator in enumerate(plan.operators if at in declared.turns else ()):
            inputs = [Target(number, port) for port in range(len(operator.shape.inputs))]
            if operator.ends is None or not operator.ends.waits or Source(number, 0) not in compiled.reaching(at):
                continue
            if any(at in compiled.reaching(target) for target in inputs):
                raise GraphError(
                    f"operator {name!r} takes one substream after the other in a loop. {operator.name!r} there "
                    "waits until times are complete, for which other substreams would have to pass. Have one of them "
                    'outside the loop, or use bound="soft"'
                )
