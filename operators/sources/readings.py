"""The threads that read the partitions of a source.

Each open partition has a thread, which reads ahead until the batches of all partitions take too much memory. Then a
partition reads only if it has no batch. After an error, a partition is opened again at the position after its last
batch.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from tidewheel.batches.batches import length, size_in_bytes
from tidewheel.batches.held_bytes import RecordSizes
from tidewheel.host.log_lines import about
from tidewheel.operators.base.setting_aside import Aside, Caught, letter
from tidewheel.operators.sources.contract import Fetched, Partition, Pause, Refused, Source, as_fetched, batch_of
from tidewheel.runtime.worker.failure import PartError
from tidewheel.transport.frames import unpicklable

LOGGER = logging.getLogger(__name__)

MOST_BYTES = 8 << 20
CLOSES_WITHIN_S = 5.0


@dataclass(frozen=True, slots=True)
class EndOfPartition:
    """The mark at the end of a partition, after its last batch."""


Read: TypeAlias = Fetched[Any] | EndOfPartition | Exception
"""A batch, the end of the partition, or the error that ended its reading."""


@dataclass(slots=True, eq=False)
class _Reading:
    """The reading of one partition; the condition in `Readings` guards its queue."""

    partition: Partition
    position: Any
    ready: deque[tuple[Read, int]] = field(default_factory=deque)
    thread: threading.Thread | None = None


class Readings:
    """Reads the partitions of one worker.

    Args:
        name: the name of the source, for threads and log lines.
        wake: called, on the thread of a partition, when the thread has read something.
        most_bytes: the limit, in bytes, of batches that wait for the worker's loop.
        caught: the errors of refused items that stay with their batch; any other error ends the reading.
    """

    def __init__(
        self,
        source: Source[Any],
        name: str,
        wake: Callable[[], None],
        most_bytes: int = MOST_BYTES,
        *,
        caught: Caught = (),
    ) -> None:
        self._source = source
        self._name = name
        self._wake = wake
        self._most_bytes = most_bytes
        self._caught = caught
        self._changed = threading.Condition()
        self._readings: dict[Partition, _Reading] = {}
        self._bytes = 0
        self._closed = threading.Event()

    def begin(self, partition: Partition, position: Any) -> None:
        """Open a partition on a thread of its own."""
        reading = _Reading(partition, position)
        self._readings[partition] = reading
        reading.thread = threading.Thread(
            target=self._run, args=(reading,), name=f"tidewheel-{self._name}-{partition}", daemon=True
        )
        reading.thread.start()

    def take(self, partition: Partition) -> Read | None:
        """Return the next batch, the end or the error of a partition; None if there is none yet."""
        with self._changed:
            ready = self._readings[partition].ready
            if not ready:
                return None
            read, size = ready.popleft()
            self._bytes -= size
            self._changed.notify_all()
        return read

    def has_more(self, partition: Partition) -> bool:
        """Tell whether something was read that `take` has not returned."""
        return bool(self._readings[partition].ready)

    def forget(self, partition: Partition) -> None:
        del self._readings[partition]

    def close(self) -> None:
        """End the threads; a thread in which the source blocks goes on, and a warning is logged."""
        self._closed.set()
        with self._changed:
            self._changed.notify_all()
        until_s = time.monotonic() + CLOSES_WITHIN_S
        for reading in self._readings.values():
            if reading.thread is not None:
                reading.thread.join(max(0.0, until_s - time.monotonic()))
                if reading.thread.is_alive():
                    said = "source %r: partition %r still reads %g s after its job has ended; its thread goes on"
                    extra = about(operator=self._name)
                    LOGGER.warning(said, self._name, reading.partition, CLOSES_WITHIN_S, extra=extra)

    # ------------------------------------------------------------------ on a partition's thread

    def _run(self, reading: _Reading) -> None:
        retry = self._source._owner(reading.partition).retry
        failures, failing_since_s = 0, 0.0
        while not self._closed.is_set():
            before = reading.position
            try:
                self._read(reading)
            except BaseException as error:  # noqa: BLE001 - the worker raises it
                if reading.position is not before:
                    failures = 0
                failures += 1
                now_s = time.monotonic()
                failing_since_s = now_s if failures == 1 else failing_since_s
                pause_s = retry.pause_s(failures, now_s - failing_since_s) if isinstance(error, retry.on) else None
                if pause_s is None:
                    self._fail(reading, error, failures)
                    return
                said = "source %r: partition %r is opened again in %.1f s, after %s: %s"
                kind = type(error).__name__
                extra = about(operator=self._name)
                LOGGER.warning(said, self._name, reading.partition, pause_s, kind, error, extra=extra)
                self._closed.wait(pause_s)
            else:
                return

    def _fail(self, reading: _Reading, error: BaseException, failures: int = 1) -> None:
        tried = "" if failures == 1 else f", tried {failures} times"
        what = f"could not read partition {reading.partition!r}{tried},"
        self._put(reading, failed_part(self._name, what, error), 0)

    def _read(self, reading: _Reading) -> None:
        iterator: Iterator[Any] = iter(self._source.open(reading.partition, reading.position))
        sizes = RecordSizes()
        is_first = reading.position is None
        try:
            for yielded in iterator:
                if self._closed.is_set():
                    return
                if isinstance(yielded, Pause):
                    self._closed.wait(yielded.seconds)
                    continue
                fetched = as_fetched(self._source, reading.partition, yielded)
                all_refused = tuple(fetched.refused)
                for refused in all_refused:
                    if not isinstance(refused.error, self._caught):
                        self._fail(reading, refused.error)  # another attempt would read the same
                        return
                batch = batch_of(fetched)
                if is_first:
                    self._check_position(reading.partition, fetched.position)
                    is_first = False
                size = size_in_bytes(batch, sizes) if length(batch) else 0
                letters = [_letter(reading.partition, refused) for refused in all_refused]
                size += size_in_bytes(letters, sizes) if letters else 0
                if not self._put(reading, replace(fetched, batch=batch, refused=letters), size):
                    return
                reading.position = fetched.position
        finally:
            if (close := getattr(iterator, "close", None)) is not None:
                with suppress(Exception):  # an error of reading, or the end, says more
                    close()
        self._put(reading, EndOfPartition(), 0)

    def _check_position(self, partition: Partition, position: Any) -> None:
        if (reason := unpicklable(position)) is not None:
            raise TypeError(
                f"{type(self._source).__qualname__}.open({partition!r}, ...) yields the position {position!r:.200}, "
                f"which snapshots keep and which cannot be pickled: {reason}"
            )

    def _put(self, reading: _Reading, read: Read, size: int) -> bool:
        """Queue a read item as soon as there is room; return False if the job ends before."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._closed.is_set() or not reading.ready or self._bytes + size <= self._most_bytes
            )
            if self._closed.is_set():
                return False
            reading.ready.append((read, size))
            self._bytes += size
        self._wake()
        return True


def failed_part(name: str, what: str, error: BaseException) -> PartError:
    """Return the error that a worker raises in place of a source's error.

    A SystemExit, for example, would end more than the job.
    """
    failed = PartError(name, None, what)
    failed.__cause__ = error
    return failed


def _letter(partition: Partition, refused: Refused) -> Aside:
    return Aside(letter(refused.record, refused.error, f", partition {partition!r}, {refused.place}"))
