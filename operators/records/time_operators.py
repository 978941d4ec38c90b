"""Operators that change times or look at them."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tidewheel.operators.records.delay import build_delay, build_delay_batches
from tidewheel.operators.records.inspection import build_on_frontier
from tidewheel.operators.stream_base import Record, StreamBase, check_function
from tidewheel.progress import Antichain, Time

if TYPE_CHECKING:
    from tidewheel.operators.stream import Stream


class TimeOperators(StreamBase[Record]):
    """What streams offer for times."""

    __slots__ = ()

    def delay(self, function: Callable[[Record, Any], Time]) -> "Stream[Record]":
        """Move each record to the time ``function(record, time)``, which must not be before its own.

        Records go on at once, with their new time; nothing is held here. A time is complete downstream once nothing
        can come, nor be delayed to it, any more. A function that returns an earlier time, or no time, fails the job
        with an error that shows the record and the times.

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

        return self._pass_on("delay", build_delay("delay", times))[0]

    def delay_batches(self, function: Callable[[Any], Time]) -> "Stream[Record]":
        """Move each batch, as it is, to the time ``function(time)``, which must not be before its own; see `delay`.

        >>> import tidewheel as tw
        >>> flow = tw.Dataflow("tens")
        >>> numbers = flow.source("numbers", tw.IterableSource([[(0, [1]), (7, [2]), (10, [3])]]))
        >>> _ = numbers.delay_batches(lambda time: -(-time // 10) * 10).capture("tens")
        >>> with tw.run(flow, engine="local") as job:
        ...     job.wait()
        ...     [(captured.time, captured.batch) for captured in job.captured("tens")]
        [(0, [1]), (10, [2]), (10, [3])]
        """
        check_function("delay_batches", function)
        return self._pass_on("delay_batches", build_delay_batches("delay_batches", function))[0]

    def on_frontier(self, function: Callable[[Antichain, int], object]) -> "Stream[Record]":
        """Call ``function(frontier, worker)`` on each worker when the frontier here has moved; pass all records on.

        The frontier is the lower bound on the times that can still come by, on any worker; it is empty when the stream
        has ended. All records of times that it has passed have come by on this worker before. It may pass over several
        times at once, and differently on each worker.

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
        check_function("on_frontier", function)
        return self._unary("on_frontier", build_on_frontier(function), schema=self.schema)
