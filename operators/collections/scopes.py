"""Collections of several scopes in one operator: collections outside the innermost loop enter it."""

from collections.abc import Sequence

from tidewheel.operators.base.batchwise import build_pass
from tidewheel.operators.collections.update_stream import UpdateStream
from tidewheel.progress import GraphError
from tidewheel.runtime.description.scope import Scope


def common_scope(name: str, together: Sequence[UpdateStream]) -> Scope:
    """Return the innermost scope of the collections that an operator reads.

    Raises:
        GraphError: two belong to different dataflows, or are in separate loops.
    """
    scope = together[0].scope
    for one in together:
        check_input(name, together[0], one)
        if not lies_in(scope, one.scope):
            if not lies_in(one.scope, scope):
                raise GraphError(
                    f"operator {name!r} reads a collection of {scope.describe()} and one of {one.scope.describe()}, "
                    "and neither lies in the other: use the result of iterate()"
                )
            scope = one.scope
    return scope


def check_input(name: str, first: UpdateStream, other: UpdateStream) -> None:
    first.description.check_inputs(name, [other.stream._outlet])


def in_one_scope(name: str, together: Sequence[UpdateStream]) -> list[UpdateStream]:
    scope = common_scope(name, together)
    return [one.entered(scope) for one in together]


def concatenated(name: str, first: UpdateStream, others: Sequence[UpdateStream]) -> UpdateStream:
    """Return the sum of collections, in the innermost of their scopes.

    The sum has the column names of ``first`` if all have the same number of columns.
    """
    together = in_one_scope(name, [first, *others])
    for other in others:
        one, two = first.columns, other.columns
        if one and two and (len(one) != len(two) or (one != two and sorted(one) == sorted(two))):
            raise GraphError(
                f"operator {name!r}: {first.with_columns()}, and {other.with_columns()}: bring them to as many, "
                "in one order, by select(...) before; select(new=pc.field('old')) gives a column another name"
            )
    streams = [one.stream for one in together]
    (joined,) = streams[0]._operator(name, streams[1:], 1, build_pass, notify=False)
    return UpdateStream(joined, first.columns if all(one.columns for one in others) else ())


def lies_in(scope: Scope, outer: Scope) -> bool:
    """Tell whether ``scope`` is ``outer`` or lies in it."""
    return scope is outer or (scope.parent is not None and lies_in(scope.parent, outer))
