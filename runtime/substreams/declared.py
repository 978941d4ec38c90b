"""Which substreams a dataflow declares, and where somebody asks for their ends."""

from tidewheel.progress import CompiledGraph, GraphError, Source, Target
from tidewheel.runtime.plan import Plan
from tidewheel.runtime.substreams.books import DeclaredSubstreams


def declared_substreams(plan: Plan, compiled: CompiledGraph) -> tuple[DeclaredSubstreams, ...]:
    """Return what a plan declares, by number.

    Raises:
        GraphError: an operator asks for ends at an input to which no substreams get, or those of several declarations.
    """
    sources = {name: Source(declared.operator, 0) for name, declared in plan.declarations.items()}
    asked: dict[str, list[Target]] = {name: [] for name in sources}
    ordered: dict[str, list[Target]] = {name: [] for name in sources}
    for number, operator in enumerate(plan.operators):
        if operator.ends is None:
            continue
        found: set[str] = set()
        for port in range(len(operator.shape.inputs)):
            target = Target(number, port)
            names = [name for name, source in sources.items() if source in compiled.reaching(target)]
            if len(names) > 1:
                raise GraphError(
                    f"operator {operator.name!r} asks when substreams end, and those of {names[0]!r} and of "
                    f"{names[1]!r} get to its input {port}: let it read streams of one declaration"
                )
            if operator.ends.holds and Source(number, 0) in compiled.reaching(target):
                raise GraphError(
                    f"operator {operator.name!r} sends what it has of a substream when that has ended, and that comes "
                    "back to it round a loop, where it belongs to the substream: so that would never end. Let it read "
                    "what leaves the loop"
                )
            for name in names:
                found.add(name)
                asked[name].append(target)
                if operator.ends.ordered:
                    ordered[name].append(target)
        if not found:
            raise GraphError(
                f"operator {operator.name!r} asks when substreams end, but no stream that it reads has any: call "
                "substreams(name, key=...) on a stream before it"
            )
    return tuple(
        DeclaredSubstreams(name, source, plan.declarations[name].is_shared, tuple(asked[name]), tuple(ordered[name]))
        for name, source in sources.items()
    )
