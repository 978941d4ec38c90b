"""Operators that enter and leave scopes: loops."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias, overload

from tidewheel.operators.records.branch import build_branch_when
from tidewheel.operators.records.delay import build_delay
from tidewheel.operators.scopes.forward import build_pass
from tidewheel.operators.stream_base import Record, Result, StreamBase, check_function
from tidewheel.progress import GraphError, PathSummary, Time
from tidewheel.runtime.description.plan import Build
from tidewheel.runtime.description.scope import Scope

if TYPE_CHECKING:
    from tidewheel.operators.scopes.loop import Loop
    from tidewheel.operators.stream import Stream


Body: TypeAlias = "Callable[[Stream[Record]], tuple[Stream[Record], Stream[Result]]]"
"""What a loop does: given what enters and what comes back, it returns what goes round again and what leaves."""


class ScopeOperators(StreamBase[Record]):
    """What streams offer for loops."""

    __slots__ = ()

    def enter(self, loop: "Loop") -> "Stream[Record]":
        """Take this stream into a loop: time ``t`` becomes ``(t, 0)``.

        Raises:
            GraphError: the loop does not lie directly in the scope of this stream.

        >>> import tidewheel as tw
        >>> flow = tw.Dataflow("inside")
        >>> words = flow.source("words", tw.IterableSource([[(3, ["tide"])]]))
        >>> with flow.scope("loop") as loop:
        ...     _ = words.enter(loop).capture("inside")
        >>> with tw.run(flow, engine="local") as job:
        ...     job.wait()
        ...     job.captured("inside")
        [Captured(time=(3, 0), batch=['tide'])]
        """
        return self._enter("enter", loop, build_pass)

    def enter_at(self, loop: "Loop", function: Callable[[Record], int]) -> "Stream[Record]":
        """Take this stream into a loop: time ``t`` of a record becomes ``(t, function(record))``.

        A record goes in at once, at its later round; rounds before it do not wait for it. What is no round fails the
        job with an error that shows the record.

        Raises:
            GraphError: the loop does not lie directly in the scope of this stream.

        >>> import tidewheel as tw
        >>> flow = tw.Dataflow("inside")
        >>> words = flow.source("words", tw.IterableSource([[(3, ["tide", "wheel"])]]))
        >>> with flow.scope("loop") as loop:
        ...     _ = words.enter_at(loop, len).capture("inside")
        >>> with tw.run(flow, engine="local") as job:
        ...     job.wait()
        ...     job.captured("inside")
        [Captured(time=(3, 4), batch=['tide']), Captured(time=(3, 5), batch=['wheel'])]
        """
        check_function("enter_at", function)

        def times(rows: list[Record], first: Time) -> list[Time]:
            outer, _ = first
            return [(outer, function(record)) for record in rows]

        return self._enter("enter_at", loop, build_delay("enter_at", times))

    def _enter(self, name: str, loop: "Loop", build: Build) -> "Stream[Record]":
        from tidewheel.operators.scopes.loop import Loop

        if not isinstance(loop, Loop):
            raise GraphError(f"{name}: a stream enters a loop of flow.scope(name), not {loop!r}")
        inner = loop._scope
        if inner.parent is not self._outlet.scope:
            raise GraphError(
                f"{name}: {inner.describe()} does not lie directly in the stream's, {self._outlet.scope.describe()}"
            )
        return self._move(name, inner, build, PathSummary.enter(inner.nesting))

    def leave(self) -> "Stream[Record]":
        """Take this stream out of its loop: time ``(t, round)`` becomes ``t``.

        Raises:
            GraphError: the stream is in no loop.

        >>> import tidewheel as tw
        >>> flow = tw.Dataflow("and out")
        >>> words = flow.source("words", tw.IterableSource([[(3, ["tide"])]]))
        >>> with flow.scope("loop") as loop:
        ...     _ = words.enter(loop).map(str.upper).leave().capture("outside")
        >>> with tw.run(flow, engine="local") as job:
        ...     job.wait()
        ...     job.captured("outside")
        [Captured(time=3, batch=['TIDE'])]
        """
        inner = self._outlet.scope
        if inner.parent is None:
            raise GraphError(
                f"leave: the stream of dataflow {self._description.name!r} is in no loop, there is nothing to "
                "leave; enter(loop) comes first"
            )
        return self._move("leave", inner.parent, build_pass, PathSummary.leave(inner.nesting))

    def _move(self, name: str, to: Scope, build: Build, path: PathSummary) -> "Stream[Record]":
        inputs, paths = [self._outlet], {(0, 0): (path,)}
        (made,) = self._description.add_operator(
            name, inputs, [to], build, summaries=paths, notify=False, by_substream=True
        )
        return self._made(made, self.schema)

    @overload
    def iterate(self, body: "Body[Record, Result]", name: str = "iterate") -> "Stream[Result]": ...

    @overload
    def iterate(
        self, body: "Callable[[Stream[Record]], Stream[Record]]", name: str = "iterate", *, rounds: int
    ) -> "Stream[Record]": ...

    @overload
    def iterate(
        self, body: "Body[Record, Result]", name: str = "iterate", *, rounds: int
    ) -> "Stream[Record | Result]": ...

    def iterate(self, body: Callable[..., Any], name: str = "iterate", *, rounds: int | None = None) -> "Stream[Any]":
        """Send this stream round a loop until nothing comes back, or ``rounds`` times.

        Args:
            body: gets the stream of what enters and what comes back, with times ``(t, round)``; returns two streams of
                the same scope: what goes round again, and what leaves with time ``t``. With ``rounds`` it may return
                only what goes round again.
            name: the name of the loop; errors show it.
            rounds: how often records pass the body at most. What would go round once more leaves instead, as it is,
                along with what the body lets leave: nothing is dropped.

        Raises:
            GraphError: the body returns something else, or ``rounds`` is no number from 1 on.

        >>> import tidewheel as tw
        >>> flow = tw.Dataflow("halving")
        >>> def halve(numbers):
        ...     halves = numbers.map(lambda n: n // 2)
        ...     return halves.branch(lambda n: n > 1)  # (again, leaves)
        >>> numbers = flow.source("numbers", tw.IterableSource([[(0, [40, 9])]]))
        >>> _ = numbers.iterate(halve).capture("halved")
        >>> _ = numbers.iterate(lambda inner: inner.map(lambda n: n / 2), rounds=3).capture("three times")
        >>> with tw.run(flow, engine="local") as job:
        ...     job.wait()
        ...     [captured.batch for captured in job.captured("halved") + job.captured("three times")]
        [[1], [1], [5.0, 1.125]]
        """
        from tidewheel.operators.scopes.loop import Loop

        if rounds is not None and (not isinstance(rounds, int) or isinstance(rounds, bool) or rounds < 1):
            raise GraphError(
                f"iterate {name!r}: rounds is how often records go round at most, 1 or more, not {rounds!r}"
            )
        loop = Loop(self.flow, self._outlet.scope.inside(name))
        with self._description.all_or_nothing():
            return self._iterate(body, loop, rounds)

    def _iterate(self, body: Callable[..., Any], loop: "Loop", rounds: int | None) -> "Stream[Any]":
        feedback = loop.feedback()
        again, leaving = _checked(body(self.enter(loop).concat(feedback)), loop, rounds)
        if rounds is not None:
            again, left_over = again._pass_on("rounds", build_branch_when(lambda time: time[1] + 1 < rounds), 2)
            leaving.append(left_over)
        feedback.connect(again)
        first, *others = leaving
        return (first.concat(*others) if others else first).leave()


def _checked(returned: object, loop: "Loop", rounds: int | None) -> "tuple[Stream[Any], list[Stream[Any]]]":
    """Return what goes round again and all that leaves, as the body of a loop has returned it; raise GraphError."""
    from tidewheel.operators.stream import Stream

    name = loop._scope.name
    if rounds is not None and isinstance(returned, Stream):
        return returned, []
    if not (isinstance(returned, tuple) and len(returned) == 2 and all(isinstance(one, Stream) for one in returned)):
        raise GraphError(
            f"the body of {name!r} must return two streams, (what goes round again, what leaves)"
            f"{', or only what goes round again' if rounds is not None else ''}, not {returned!r}"
        )
    again, result = returned
    if result._outlet.scope is not loop._scope:
        raise GraphError(
            f"the body of {name!r} must return what leaves in {loop._scope.describe()}, where the loop is, and not "
            f"in {result._outlet.scope.describe()}"
        )
    return again, [result]
