"""A streaming query that feeds an input, for as long as both live: whichever ends first ends the other.

One thread waits, in Spark, for the end of the query. Another stops the query, and is started when the job is over.
The micro-batches come on a thread of PySpark's, one after the other: Spark goes on when the one before was delivered.

===============================================  ====================================================
what ends first                                  what becomes of the other
===============================================  ====================================================
the query has read all, or was stopped           the input is closed
the query fails                                  the job fails, with what went wrong in the query
Spark is stopped, and the query not before       the job fails, and says so
the job fails, or is left                        the query is stopped; it commits nothing any more
===============================================  ====================================================
"""

import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Self

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from tidewheel.progress.errors import TidewheelError
from tidewheel.runtime.errors import JobError
from tidewheel.runtime.inputs.input_handle import InputHandle
from tidewheel.spark_bridge.errors import readable
from tidewheel.spark_bridge.jvm import is_stopped_under
from tidewheel.spark_bridge.structured_streaming.feed_batches import deliver, rows_of

_logger = logging.getLogger(__name__)

_LOOK_S = 1


class _Stopped(Exception):  # noqa: N818 - named for what it says
    """The query is being stopped, so this micro-batch is left to the next run."""


class StreamingFeed:
    """A query of Structured Streaming that feeds an input; `feed` makes it.

    Use it in a ``with`` block, which stops the query at its end; `wait` before, for a query that ends by itself.

    Args:
        input: what it feeds.
        writer: what starts the query; what it raises is raised here.
        checkpoint: where Spark keeps what it has committed, for errors.
        is_done: waits, for so many seconds at most, until an epoch may be committed, and tells whether it may; None if
            it may once it was sent.
        rows_of: computes a DataFrame that belongs to the input of a name.

    Attributes:
        query: Spark's query, with its progress and its status.
    """

    def __init__(
        self,
        input: InputHandle,
        writer: DataStreamWriter,
        checkpoint: str,
        is_done: Callable[[int, float], bool] | None = None,
        rows_of: Callable[[DataFrame, str], pa.Table] = rows_of,
    ) -> None:
        self._input = input
        self._checkpoint = checkpoint
        self._is_done = is_done
        self._rows_of = rows_of
        self._batch_id: int | None = None
        self._failure: BaseException | None = None
        self._was_sent = False
        self._is_stopping = False
        self._input_is_over = False
        self._error: Exception | None = None
        self._delivering = threading.Lock()
        self._is_idle = threading.Event()
        self._is_idle.set()
        self._has_ended = threading.Event()
        self.query: StreamingQuery = writer.foreachBatch(self._take).start()
        threading.Thread(target=self._follow, name=f"tidewheel-feed-{input.name}", daemon=True).start()
        input.when_over(self._end_with_job)

    def wait(self, timeout: float | None = None) -> None:
        """Wait until the query has ended and the input is closed: all there was has been sent.

        Raises:
            JobError: the query or the job has failed, or the job was stopped before.
            TimeoutError: it did not end within ``timeout`` seconds.
        """
        if not self._has_ended.wait(timeout):
            raise TimeoutError(
                f"waited {timeout} s for the query that feeds input {self._input.name!r} to end; it is at micro-batch "
                f"{self._batch_id}. One with trigger={{'availableNow': True}} ends when it has read all there is"
            )
        if self._error is not None:
            raise self._error
        if self._input_is_over and not self._input.is_closed:
            raise JobError(f"the job was stopped before the query that feeds its input {self._input.name!r} had ended")

    def stop(self, timeout: float = 10.0) -> None:
        """Stop the query after the micro-batch that is under way, and close the input. Idempotent.

        One that is not done in ``timeout`` seconds is broken off, but for one that is just being sent. What Spark has
        not committed comes again when a query is started with the same checkpoint.

        Raises:
            JobError: the query or the job has failed.
        """
        self._is_idle.wait(timeout)
        # A query that has failed before it is stopped fails the job.
        self._is_stopping = self._is_stopping or (self._failure is None and not self._query_has_failed())
        self._stop_query()
        self._has_ended.wait()
        if self._error is not None:
            raise self._error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.stop()
            return
        # As of a handle whose block is left by an exception: what it had to send is incomplete.
        self._input.fail(f"the block that fed it was left by {kind.__name__}: {error}", error)
        self._input_is_over = True
        self._stop_query()  # the job does not, if it misses nothing because the input was closed by hand
        self._has_ended.wait()

    # ------------------------------------------------------------------ on a thread of PySpark's

    def _take(self, df: DataFrame, batch_id: int) -> None:
        """Deliver one micro-batch, for Spark to commit; what is raised here fails the query."""
        self._batch_id, self._was_sent = batch_id, False
        self._is_idle.clear()
        try:
            self._deliver(df, batch_id)
        except BaseException as error:
            self._check_going_on()  # else this is why it has failed
            self._failure = error
            raise
        finally:
            self._is_idle.set()

    def _deliver(self, df: DataFrame, batch_id: int) -> None:
        with self._delivering:
            self._check_going_on()
            deliver(batch_id, lambda: self._rows(df), self._input)
            self._was_sent = True
        while self._is_done is not None and not self._is_done(batch_id, _LOOK_S):
            self._check_going_on()

    def _rows(self, df: DataFrame) -> pa.Table:
        rows = self._rows_of(df, self._input.name)
        self._check_going_on()
        return rows

    def _check_going_on(self) -> None:
        """Raise for Spark, in place of any other error, if this micro-batch is left to the next run."""
        if self._is_stopping or self._input_is_over or self._has_ended.is_set():
            text = f"the query that feeds input {self._input.name!r} is stopped: Spark is not to commit this"
            raise _Stopped(text) from None

    # ------------------------------------------------------------------ on threads of its own

    def _follow(self) -> None:
        """Wait for the end of the query, and end the input as that has ended."""
        failure: Exception | None = None
        try:
            self._await_end()
        except Exception as error:  # noqa: BLE001 - of Spark, of its JVM that has gone, or of the user's functions
            failure = error
        with self._delivering:
            try:
                self._end_input(failure)
            except TidewheelError as error:
                self._error = self._error or error
            finally:
                self._has_ended.set()
        self._input.forget(self._end_with_job)
        self._stop_query()  # one without Spark would wait on for input

    def _await_end(self) -> None:
        """Wait until the query has ended; raise why it failed, or if Spark was stopped, which an idle one ignores."""
        while not self.query.awaitTermination(_LOOK_S):
            if is_stopped_under(self.query) and not self.query.awaitTermination(_LOOK_S):
                raise JobError(f"the Spark session was stopped while its query feeds input {self._input.name!r}")

    def _end_input(self, failure: Exception | None) -> None:
        if self._input_is_over:
            return
        if self._failure is None and (failure is None or self._is_stopping):
            self._input.close()
            return
        reason = self._reason(failure)
        self._input.fail(reason, self._failure or failure)  # unless it has failed, and that is why
        if isinstance(self._failure, JobError):
            self._error = self._error or self._failure
        self._error = self._error or JobError(f"input {self._input.name!r} cannot be fed any more: {reason}")

    def _reason(self, failure: Exception | None) -> str:
        again = f"start the program again with the same checkpoint ({self._checkpoint}) to go on there"
        if self._failure is None:
            why = "stopped before it could say why" if failure is None else readable(failure)
            return f"the query that feeds it has failed in Spark: {why}. When that is mended, {again}"
        sent = "It was sent, but Spark has not committed it" if self._was_sent else "Nothing of it was sent"
        why = readable(self._failure)
        with suppress(Exception):  # its JVM has gone
            if is_stopped_under(self.query):
                why = f"the Spark session was stopped ({why})"
        return (
            f"the query that feeds it has failed in micro-batch {self._batch_id}: {why}. {sent}: when that is mended, "
            f"{again}"
        )

    def _end_with_job(self, failure: Exception | None) -> None:
        """Have the query stopped, now that the job is over."""
        self._input_is_over = True
        self._error = self._error or failure
        threading.Thread(target=self._stop_query, name=f"tidewheel-stop-{self._input.name}", daemon=True).start()

    def _query_has_failed(self) -> bool:
        try:
            return self.query.exception() is not None
        except Exception as error:  # noqa: BLE001 - its JVM has gone, and whoever follows it gets to know that
            _logger.debug("the query that feeds input %r does not say how it is: %r", self._input.name, error)
            return False

    def _stop_query(self) -> None:
        try:
            self.query.stop()
        except Exception as error:  # noqa: BLE001 - Spark, or its JVM, has gone
            _logger.debug("the query that feeds input %r could not be stopped: %r", self._input.name, error)
