"""Operators that wait for something outside without holding others up."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from tidewheel.operators.stream_base import Record, Result, StreamBase, check_function, check_positive
from tidewheel.progress import GraphError

if TYPE_CHECKING:
    from tidewheel.operators.stream import Stream


class AsyncOperators(StreamBase[Record]):
    """What streams offer for coroutines."""

    __slots__ = ()

    def map_async(
        self,
        function: Callable[[Record], Awaitable[Result]],
        *,
        concurrency: int = 64,
        ordered: bool = False,
        timeout_s: float | None = None,
        retries: int = 0,
        retry_on: type[Exception] | tuple[type[Exception], ...] = Exception,
    ) -> "Stream[Result]":
        """Replace each record by what ``await function(record)`` gives, many calls at a time.

        Calls run on an event loop of each worker, with a thread of its own that ends with the dataflow. A time is
        complete once its last call is done. While as many calls are under way as may be, no more is read, so that
        sources wait in the end.

        Args:
            function: a coroutine function. What all its calls share, such as a session with a server, is opened where
                it is used if it is an asynchronous context manager, too: each worker enters a copy before its first
                call, calls what that gives, and leaves it in the end.
            concurrency: how many calls each worker has under way, at most.
            ordered: whether results leave a worker in the order in which their records came; otherwise as they come.
            timeout_s: after how many seconds an attempt is cancelled, and fails with TimeoutError; so is entering what
                calls share, and that fails the job.
            retries: how many more attempts there are, one at once after the other, before a call has failed. That
                fails the job, with an error that names operator, worker and time.
            retry_on: after which exceptions there is another attempt.

        >>> import asyncio
        >>> import tidewheel as tw
        >>> async def look_up(word):
        ...     await asyncio.sleep(0.01)
        ...     return word, len(word)
        >>> flow = tw.Dataflow("lengths")
        >>> words = flow.source("words", tw.IterableSource([[(0, ["tide", "wheel"])]]))
        >>> _ = words.map_async(look_up, ordered=True, timeout_s=5).capture("lengths")
        >>> with tw.run(flow, engine="local") as job:
        ...     job.wait()
        ...     [length for captured in job.captured("lengths") for length in captured.batch]
        [('tide', 4), ('wheel', 5)]
        """
        # asyncio takes a fifth of the time that all else takes to import.
        from tidewheel.operators.coroutines.map_async import CallPolicy, build_map_async

        check_function("map_async", function)
        check_positive("map_async", "concurrency", concurrency)
        check_positive("map_async", "retries", retries, least=0)
        if timeout_s is not None and not (isinstance(timeout_s, int | float) and timeout_s > 0):
            raise GraphError(f"map_async: timeout_s is a number of seconds above 0, or None, not {timeout_s!r}")
        kinds = retry_on if isinstance(retry_on, tuple) else (retry_on,)
        if not all(isinstance(kind, type) and issubclass(kind, Exception) for kind in kinds):
            raise GraphError(f"map_async: retry_on is a class of exceptions or a tuple of them, not {retry_on!r}")
        policy = CallPolicy(concurrency, timeout_s, retries, retry_on)
        return self._unary(
            "map_async", build_map_async(function, policy, ordered=ordered), notify=False, by_substream=True
        )
