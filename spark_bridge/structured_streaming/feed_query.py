"""A streaming query that feeds an input; when the query or the job ends, the other ends, too.

One thread waits for the end of the query. The end of the job starts another, which stops the query. Micro-batches
arrive on a thread of PySpark, each after the previous micro-batch was delivered.

===============================================  ====================================================
what ends first                                  what becomes of the other
===============================================  ====================================================
the query has read all, or was stopped           the input is closed
the query fails                                  the job fails, with what went wrong in the query
Spark is stopped, and the query not before       the job fails, and says so
the job fails, or its ``with`` block ends early  the query is stopped; it commits nothing any more
===============================================  ====================================================

Each micro-batch is an epoch of the input, sent once. Spark delivers a micro-batch at least once: until it is committed,
Spark may deliver it again, with the same id and, if the query is deterministic, the same rows. So the id is used as the
epoch. A micro-batch with an id below the time of the input's handle was delivered before.

===============  =======================================================================
id of the batch  what becomes of it
===============  =======================================================================
below the time   dropped: it was delivered before
the time         its rows are sent, and the input goes past it
above the time   the same, after the input has passed the ids that Spark has skipped
===============  =======================================================================

A job with snapshots takes a snapshot after each micro-batch, and then Spark commits the micro-batch. So a job that
returns to a snapshot lacks at most the uncommitted micro-batch. A query that is still delivering it sends it again from
the handle's position; a restarted program gets it again from Spark. If the last snapshot is damaged or missing, the job
returns to an earlier one and lacks committed micro-batches. Then the query fails with an error that says so.
"""

import logging
import threading
from contextlib import suppress
from functools import cache
from typing import Protocol, Self

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from tidewheel.progress.errors import TidewheelError
from tidewheel.runtime.errors import JobError, JobRolledBack, SnapshotError
from tidewheel.runtime.inputs.fed_job import FedJob
from tidewheel.runtime.inputs.input_handle import InputHandle
from tidewheel.spark_bridge.errors import readable
from tidewheel.spark_bridge.jvm import is_stopped_under
from tidewheel.spark_bridge.structured_streaming.micro_batch import (
    MissingMicroBatches,
    check_has_committed,
    deliver,
    rows_of,
)

_logger = logging.getLogger(__name__)

_LOOK_S = 1
_AGAIN_S = 0.1


class Progress(Protocol):
    """A place in a job where epochs complete: a probe (`ProbeHandle`), or a topic."""

    def wait_until(self, time: int, timeout_s: float, /) -> None:
        """Wait until every time before ``time`` is complete; raise TimeoutError after ``timeout_s`` seconds."""


class _Stopped(Exception):  # noqa: N818 - named for what it says
    """The query is being stopped; the next run delivers this micro-batch."""


class StreamingFeed:
    """A query of Structured Streaming that feeds an input; `feed` makes it.

    The end of its ``with`` block stops the query; if the query ends by itself, call `wait` before.

    Args:
        commit_after: Spark commits an epoch once it is complete here; with None, once it is sent.
    """

    def __init__(
        self,
        input: InputHandle,
        writer: DataStreamWriter,
        checkpoint: str,
        commit_after: Progress | None = None,
    ) -> None:
        self._input = input
        self._job = FedJob(input)
        self._checkpoint = checkpoint
        self._commit_after = commit_after
        self._batch_id: int | None = None
        self._uncommitted = 0  # the first id that Spark has not committed, once it has delivered one
        self._failure: BaseException | None = None
        self._was_sent = False
        self._is_stopping = False
        self._error: Exception | None = None
        self._delivering = threading.Lock()
        self._is_idle = threading.Event()
        self._is_idle.set()
        self._input_is_over = threading.Event()
        self._has_ended = threading.Event()
        self.query: StreamingQuery = writer.foreachBatch(self._take).start()
        threading.Thread(target=self._follow, name=f"tidewheel-feed-{input.name}", daemon=True).start()
        self._job.when_over(self._end_with_job)

    def wait(self, timeout_s: float | None = None) -> None:
        """Wait until the query has ended, everything is sent, and the input is closed.

        Raises:
            BridgeError: the job has returned to a snapshot without micro-batches that Spark has committed.
            JobError: the query or the job has failed, or the job was stopped before.
            TimeoutError: the query did not end within ``timeout_s`` seconds.
        """
        if not self._has_ended.wait(timeout_s):
            raise TimeoutError(
                f"waited {timeout_s} s for the query that feeds input {self._input.name!r} to end; it is at "
                f"micro-batch {self._batch_id}. One with trigger={{'availableNow': True}} ends when it has read all "
                "there is"
            )
        if self._error is not None:
            raise self._error
        if self._input_is_over.is_set() and not self._input.is_closed:
            raise JobError(f"the job was stopped before the query that feeds its input {self._input.name!r} had ended")

    def stop(self, timeout_s: float = 10.0) -> None:
        """Stop the query after the current micro-batch, and close the input; idempotent.

        After ``timeout_s`` seconds the micro-batch is interrupted, unless it is being sent. A later query with the same
        checkpoint gets uncommitted micro-batches again.

        Raises:
            BridgeError, JobError: the query or the job has failed, as for `wait`.
        """
        self._is_idle.wait(timeout_s)
        # A query that has failed before it is stopped fails the job.
        self._is_stopping = self._is_stopping or (self._failure is None and not self._query_has_failed())
        self._stop_query()
        self._has_ended.wait()
        if self._error is not None:
            raise self._error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, *_: object) -> None:
        if kind is None:
            self.stop()
            return
        # As for a handle whose ``with`` block raises: its records are incomplete.
        self._job.fail(f"the block that fed it was left by {kind.__name__}: {error}", error)
        self._input_is_over.set()
        self._stop_query()  # the job does not stop it if the user has closed the input: then nothing is missing
        self._has_ended.wait()

    # ------------------------------------------------------------------ on a thread of PySpark's

    def _take(self, df: DataFrame, batch_id: int) -> None:
        if self._batch_id is None:
            self._uncommitted = batch_id
        self._batch_id, self._was_sent = batch_id, False
        self._is_idle.clear()
        try:
            self._deliver(df, batch_id)
        except BaseException as error:
            self._check_going_on()  # raises if the query is stopped; otherwise this error is why it fails
            self._failure = error
            raise
        finally:
            self._is_idle.set()

    def _deliver(self, df: DataFrame, batch_id: int) -> None:
        rows = cache(lambda: self._rows(df))  # the same rows if the job goes back in the middle of them
        while True:
            try:
                with self._delivering:
                    self._check_going_on()
                    check_has_committed(self._input, self._job, self._uncommitted, self._checkpoint)
                    deliver(batch_id, rows, self._input)
                    self._was_sent = True
                while not self._may_commit(batch_id):
                    self._check_going_on()
            except JobRolledBack as rewound:
                _logger.info("micro-batch %d is sent again: %s", batch_id, rewound)
            else:
                self._uncommitted = batch_id + 1
                return

    def _may_commit(self, epoch: int) -> bool:
        try:
            if self._commit_after is not None:
                self._commit_after.wait_until(epoch + 1, _LOOK_S)
            self._input.wait_until_saved()
        except TimeoutError:
            return False
        except SnapshotError as error:
            _logger.warning("Spark waits with micro-batch %d until a snapshot has it: %s", epoch, error)
            self._input_is_over.wait(_LOOK_S)
            return False
        except JobError:
            # If the job is still running, the local engine raises this because it is idle until another input advances.
            if self._input_is_over.wait(_AGAIN_S):
                raise
            return False
        return True

    def _rows(self, df: DataFrame) -> pa.Table:
        rows = rows_of(df, self._input.name)
        self._check_going_on()
        return rows

    def _check_going_on(self) -> None:
        if self._is_stopping or self._input_is_over.is_set() or self._has_ended.is_set():
            text = f"the query that feeds input {self._input.name!r} is stopped: Spark is not to commit this"
            raise _Stopped(text) from None

    # ------------------------------------------------------------------ on threads of its own

    def _follow(self) -> None:
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
        self._job.forget(self._end_with_job)
        self._stop_query()  # without Spark, the query would wait for input for ever

    def _await_end(self) -> None:
        while not self.query.awaitTermination(_LOOK_S):
            if is_stopped_under(self.query) and not self.query.awaitTermination(_LOOK_S):
                raise JobError(f"the Spark session was stopped while its query feeds input {self._input.name!r}")

    def _end_input(self, failure: Exception | None) -> None:
        if self._input_is_over.is_set():
            return
        if self._failure is None and (failure is None or self._is_stopping):
            while not self._has_closed():
                self._input_is_over.wait(_AGAIN_S)
            return
        reason = self._reason(failure)
        if isinstance(self._failure, MissingMicroBatches):
            self._error = self._error or self._failure
        self._job.fail(reason, self._failure or failure)  # unless it has failed, and that is why
        if isinstance(self._failure, JobError):
            self._error = self._error or self._failure
        self._error = self._error or JobError(f"input {self._input.name!r} cannot be fed any more: {reason}")

    def _has_closed(self) -> bool:
        try:
            self._input.close()
            self._input.wait_until_saved()
        except (JobRolledBack, SnapshotError, TimeoutError) as error:
            _logger.info("input %r is to be closed in a snapshot: %s", self._input.name, error)
            return False
        except JobError:
            if not self._input.is_closed:
                raise
        return self._input.is_closed

    def _reason(self, failure: Exception | None) -> str:
        again = f"start the program again with the same checkpoint ({self._checkpoint}) to go on there"
        if self._failure is None:
            why = "stopped before it could say why" if failure is None else self._why(failure)
            return f"the query that feeds it has failed in Spark: {why}. When that is mended, {again}"
        if isinstance(self._failure, MissingMicroBatches):
            return str(self._failure)
        sent = "It was sent, but Spark has not committed it" if self._was_sent else "Nothing of it was sent"
        return (
            f"the query that feeds it has failed in micro-batch {self._batch_id}: {self._why(self._failure)}. {sent}: "
            f"when that is mended, {again}"
        )

    def _why(self, failure: BaseException) -> str:
        why = readable(failure)
        with suppress(Exception):  # its JVM has gone
            if is_stopped_under(self.query) and not isinstance(failure, JobError):
                return f"the Spark session was stopped ({why})"
        return why

    def _end_with_job(self, failure: Exception | None) -> None:
        self._input_is_over.set()
        self._error = self._error or failure
        threading.Thread(target=self._stop_query, name=f"tidewheel-stop-{self._input.name}", daemon=True).start()

    def _query_has_failed(self) -> bool:
        try:
            return self.query.exception() is not None
        except Exception as error:  # noqa: BLE001 - its JVM has gone, as the following thread finds out
            _logger.debug("the query that feeds input %r does not say how it is: %r", self._input.name, error)
            return False

    def _stop_query(self) -> None:
        try:
            self.query.stop()
        except Exception as error:  # noqa: BLE001 - Spark, or its JVM, has gone
            _logger.debug("the query that feeds input %r could not be stopped: %r", self._input.name, error)
