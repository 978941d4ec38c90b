"""Operators that change or observe times, or bring streams into loops and out of them."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from tidewheel.operators.base.batchwise import build_delay, build_pass, by_record
from tidewheel.operators.base.division import everywhere
from tidewheel.operators.base.stream_base import Record, StreamBase, callback, check_function
from tidewheel.progress import Antichain, GraphError, PathSummary, Time
from tidewheel.runtime.description.origin import adds_operators
from tidewheel.runtime.description.pacts import Pact
from tidewheel.runtime.description.plan import Build, Schedule
from tidewheel.runtime.description.scope import Scope
from tidewheel.runtime.worker.operator_context import OperatorContext
from tidewheel.runtime.worker.ports import InputPort, OutputPort

if TYPE_CHECKING:
    from tidewheel.operators.stream import Loop, Stream


class TimeOperators(StreamBase[Record]):
    """The methods of streams for times, and for loops made by hand."""

    __slots__ = ()

    @adds_operators()
    def enter(self, loop: "Loop", *, name: str = "enter") -> "Stream[Record]":
        """Bring this stream into a loop; time ``t`` becomes ``(t, 0)``.

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
        return self._enter("enter", name, loop, build_pass)

    @adds_operators()
    def enter_at(self, loop: "Loop", function: Callable[[Record], int], *, name: str = "enter_at") -> "Stream[Record]":
        """Bring this stream into a loop; time ``t`` of a record becomes ``(t, function(record))``.

        Records enter at once; earlier rounds do not wait for them. If the function returns something other than a
        round, the job fails with an error that shows the record.

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

        return self._enter("enter_at", name, loop, build_delay("enter_at", by_record(times)))

    def _enter(self, method: str, name: str, loop: "Loop", build: Build) -> "Stream[Record]":
        from tidewheel.operators.stream import Loop

        if not isinstance(loop, Loop):
            raise GraphError(f"{method}: a stream enters a loop of flow.scope(name), not {loop!r}")
        inner = loop._scope
        if inner.parent is not self._outlet.scope:
            raise GraphError(
                f"{method}: {inner.describe()} does not lie directly in the stream's, {self._outlet.scope.describe()}"
            )
        return self._move(name, inner, build, PathSummary.enter(inner.nesting))

    @adds_operators()
    def leave(self, *, name: str = "leave") -> "Stream[Record]":
        """Bring this stream out of its loop; time ``(t, round)`` becomes ``t``.

        Raises:
            GraphError: the stream is not in a loop.

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
        return self._move(name, inner.parent, build_pass, PathSummary.leave(inner.nesting))

    def _move(
        self, name: str, to: Scope, build: Build, path: PathSummary, pact: Pact | None = None
    ) -> "Stream[Record]":
        inputs, paths = [self._outlet], {(0, 0): (path,)}
        (made,) = self._description.add_operator(
            name, inputs, [to], build, pacts=[pact], summaries=paths, notify=False, by_substream=True
        )
        return self._made(made, self.schema)

    @adds_operators()
    def delay(self, function: Callable[[Record, Any], Time], *, name: str = "delay") -> "Stream[Record]":
        """Move each record to the time ``function(record, time)``, which must not be before ``time``.

        The operator sends records at once, with their new time. A time is complete downstream once no record can arrive
        at it or be delayed to it. If the function returns an earlier time, or something else, the job fails with an
        error that shows the record and the times.

        >>> import tidewheel as tw
        >>> flow = tw.Dataflow("due")
        >>> tasks = flow.source("tasks", tw.IterableSource([[(0, [("eat", 2), ("sleep", 7)]), (1, [("go", 2)])]]))
        >>> _ = tasks.delay(lambda task, time: max(task[1], time)).capture("due")
        >>> with tw.run(flow, engine="local") as job:
        ...     job.wait()
        ...     for captured in job.captured("due"):
        ...         print(captured.time, captured.batch)
        2 [('eat', 2)]
        7 [('sleep', 7)]
        2 [('go', 2)]
        """
        check_function("delay", function)

        def times(rows: list[Record], now: Time) -> list[Time]:
            return [function(record, now) for record in rows]

        return self._pass_on(name, build_delay("delay", by_record(times)))[0]

    @adds_operators()
    def on_frontier(
        self, function: Callable[[Antichain, int], object], *, name: str = "on_frontier"
    ) -> "Stream[Record]":
        """Call ``function(frontier, worker)`` on each worker when the frontier here has moved; pass all records on.

        The frontier is the lower bound on times that can still occur here, on any worker; it is empty when the stream
        has ended. Before the call, this worker has received all its records of passed times. One move may pass several
        times, and different ones on each worker.

        >>> import tidewheel as tw
        >>> flow = tw.Dataflow("progress")
        >>> _ = flow.input("numbers").on_frontier(lambda frontier, worker: print(sorted(frontier))).probe("here")
        >>> with tw.run(flow, engine="local") as job:
        ...     with job.input("numbers") as numbers:
        ...         numbers.send([1, 2])
        ...         numbers.advance_to(3)
        ...         job.probe("here").wait_until(3)
        ...     job.wait()
        [3]
        []
        """
        build = partial(_build_on_frontier, callback("on_frontier", function))
        return self._unary(name, build, schema=self.schema)._for_effect()


def _build_on_frontier(function: Callable[[Antichain, int], object], context: OperatorContext) -> Schedule:
    """Build an operator that passes batches on, and calls ``function(frontier, worker)`` when its frontier has moved.

    A restored operator begins with the least frontier, so its first call may repeat an earlier one.
    """
    seen: list[Antichain] = everywhere(lambda one, other: one or other).state(context, "frontier", list)

    def schedule(input: InputPort, output: OutputPort) -> None:
        for lent, batch in input:
            output.send(lent, batch)
        frontier = input.frontier
        if not seen:
            seen.append(Antichain(frontier.domain, [frontier.domain.minimum()]))
        if frontier is not seen[0] and frontier != seen[0] and all(map(seen[0].less_equal, frontier)):
            seen[0] = frontier
            function(frontier, context.worker)

    return schedule
