"""Loops of collections, for `Collection.iterate` and `Collection.enter_at`.

In the first round, a variable of a loop is its initial collection; in later rounds, the collection that the body
returned.
"""

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from tidewheel.operators.base.batchwise import build_delay
from tidewheel.operators.collections import stages
from tidewheel.operators.collections.builds import build_rounds
from tidewheel.operators.collections.scopes import in_one_scope, lies_in
from tidewheel.operators.collections.update_stream import UpdateStream
from tidewheel.operators.stream import Feedback, Loop
from tidewheel.progress import GraphError, PathSummary

if TYPE_CHECKING:
    from tidewheel.differential.records import Array
    from tidewheel.operators.collections.collection import Collection

C = TypeVar("C", bound="Collection")

_BODY: ContextVar[tuple[UpdateStream | None, int | None]] = ContextVar("_BODY", default=(None, None))
"""While a loop's body is called: a collection in the loop's scope, and its ``max_rounds``; None outside of loops."""


def iterated(name: str, initial: Sequence[C], body: Callable[..., Any], max_rounds: int | None) -> tuple[C, ...]:
    make = type(initial[0])
    begun = [one._updates for one in initial]
    flow = begun[0].stream.flow
    # The body of an inner loop may begin with a collection from outside, and use variables of the outer loop.
    around, _ = _BODY.get()
    is_within = around is not None and around.stream.flow is flow
    outside = in_one_scope(name, [*begun, around] if around is not None and is_within else begun)[: len(begun)]
    loop = Loop(flow, outside[0].scope.inside(name))
    with begun[0].description.all_or_nothing():
        entered = [one.entered(loop._scope) for one in outside]
        feedbacks = [loop.feedback() for _ in entered]
        variables = [
            make(one).concat(make(UpdateStream(back, one.columns)))
            for one, back in zip(entered, feedbacks, strict=True)
        ]
        for variable in variables:
            variable._updates.stream.ignore()  # the body need not read it
        before = _BODY.set((entered[0], max_rounds))
        try:
            made = body(*variables)
        finally:
            _BODY.reset(before)
        results = _results(name, loop, made, make, len(entered))
        for one, back, result, first in zip(entered, feedbacks, results, begun, strict=True):
            if first.is_empty and result.is_summed:
                changed = result
            else:  # an update and its contrary would go round forever
                changed = make(result).concat(make(one).negate()).consolidate(name="feedback: sums")._updates
            _close(back, changed, max_rounds)
        path = PathSummary.leave(loop._scope.nesting)
        left = tuple(make(result.moved("leave", outside[0].scope, path)) for result in results)
        loop._scope.is_over = True
    return left


def _close(back: Feedback[Any], changed: UpdateStream, max_rounds: int | None) -> None:
    stream = changed.stream
    if max_rounds is not None:
        (stream,) = stream._pass_on("rounds", build_rounds(max_rounds))
    back.connect(stream)


def _results(name: str, loop: Loop, made: Any, kind: "type[Collection]", count: int) -> list[UpdateStream]:
    parts = list(made) if isinstance(made, tuple) and count > 1 else [made]
    if len(parts) != count or not all(isinstance(one, kind) for one in parts):
        wanted = "a collection" if count == 1 else f"a tuple of {count} collections, one for each variable"
        raise GraphError(f"the body of {name!r} must return {wanted}, not {made!r}")
    results = [one._updates for one in parts]
    if not all(lies_in(loop._scope, one.scope) for one in results):
        raise GraphError(
            f"the body of {name!r} must return a collection of {loop._scope.describe()}, and this one is in "
            "another loop: return the result of iterate()"
        )
    return [one.entered(loop._scope) for one in results]


def entering(name: str, updates: UpdateStream, rounds: "Callable[[Array], Array]") -> UpdateStream:
    """Let updates enter the loop whose body is being called, each in the round that ``rounds`` returns.

    Raises:
        GraphError: there is no such loop, or the collection is in another loop.
    """
    around, most = _BODY.get()
    if around is None:
        raise GraphError(f"operator {name!r} is for loops: call it in the function that iterate() takes")
    inside = in_one_scope(name, [updates, around])[0]
    (entered,) = inside.stream._pass_on(name, build_delay(name, partial(stages.entering, rounds, most)))
    return UpdateStream(entered, updates.columns)
