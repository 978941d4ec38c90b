"""Operators that enter and leave scopes: loops."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from tidewheel.operators.forward import build_pass
from tidewheel.operators.stream_base import StreamBase, make_stream
from tidewheel.progress import GraphError, PathSummary

if TYPE_CHECKING:
    from tidewheel.operators.loop import Loop
    from tidewheel.operators.stream import Stream

Record = TypeVar("Record")
Result = TypeVar("Result")


class ScopeOperators(StreamBase[Record]):
    """What streams offer for loops."""

    __slots__ = ()

    def enter(self, loop: "Loop") -> "Stream[Record]":
        """Take this stream into a loop: time ``t`` becomes ``(t, 0)``.

        Raises:
            GraphError: the loop does not lie directly in the scope of this stream.
        """
        from tidewheel.operators.loop import Loop

        if not isinstance(loop, Loop):
            raise GraphError(f"enter: a stream enters a loop of flow.scope(name), not {loop!r}")
        inner = loop.scope
        if inner.parent is not self.outlet.scope:
            raise GraphError(
                f"enter: {inner.describe()} does not lie directly in the stream's, {self.outlet.scope.describe()}"
            )
        summaries = {(0, 0): (PathSummary.enter(inner.nesting),)}
        (made,) = self.outlet.description.add_operator(
            "enter", [self.outlet], [inner], build_pass, summaries=summaries, notify=False
        )
        return make_stream(made)

    def leave(self) -> "Stream[Record]":
        """Take this stream out of its loop: time ``(t, round)`` becomes ``t``.

        Raises:
            GraphError: the stream is in no loop.
        """
        inner = self.outlet.scope
        if inner.parent is None:
            raise GraphError(
                f"leave: the stream of dataflow {self.outlet.description.name!r} is in no loop, there is nothing to "
                "leave; enter(loop) comes first"
            )
        summaries = {(0, 0): (PathSummary.leave(inner.nesting),)}
        (made,) = self.outlet.description.add_operator(
            "leave", [self.outlet], [inner.parent], build_pass, summaries=summaries, notify=False
        )
        return make_stream(made)

    def iterate(
        self,
        body: "Callable[[Stream[Record]], tuple[Stream[Record], Stream[Result]]]",
        name: str = "iterate",
    ) -> "Stream[Result]":
        """Send this stream round a loop until nothing comes back.

        Args:
            body: gets the stream of what enters and what comes back, with times ``(t, round)``; returns two streams of
                the same scope: what goes round again, and what leaves with time ``t``.
            name: the name of the loop; errors show it.
        """
        from tidewheel.operators.loop import Loop

        loop = Loop(self.flow, self.outlet.scope.inside(name))
        with self.outlet.description.all_or_nothing():
            return self._iterate(body, loop)

    def _iterate(self, body: Callable[..., Any], loop: "Loop") -> "Stream[Any]":
        from tidewheel.operators.loop import make_feedback

        name = loop.scope.name
        feedback = make_feedback(self.flow, loop.scope, advance=1)
        returned = body(self.enter(loop).concat(feedback))
        pair = isinstance(returned, tuple) and len(returned) == 2
        if not (pair and all(isinstance(stream, StreamBase) for stream in returned)):
            raise GraphError(
                f"the body of {name!r} must return two streams, (what goes round again, what leaves), not {returned!r}"
            )
        again, result = returned
        feedback.connect(again)
        if result.outlet.scope is not loop.scope:
            raise GraphError(
                f"the body of {name!r} must return what leaves in {loop.scope.describe()}, where the loop is, and not "
                f"in {result.outlet.scope.describe()}"
            )
        leaving: Stream[Any] = result.leave()
        return leaving
