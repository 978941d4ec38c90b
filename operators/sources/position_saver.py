"""The thread on which a source saves positions."""

import threading
from collections.abc import Callable
from typing import Any

from tidewheel.host.log_lines import about
from tidewheel.operators.sources.contract import Partition, Source
from tidewheel.operators.sources.readings import CLOSES_WITHIN_S, LOGGER, failed_part


class PositionSaver:
    """Calls `Source.saved` with the latest position of each partition.

    Args:
        name: the name of the source.
        wake: called, on the thread, when all positions are saved, or after an error.

    Attributes:
        failure: the error that has ended the thread; None if there was none.
    """

    def __init__(self, source: Source[Any], name: str, wake: Callable[[], None]) -> None:
        self._source = source
        self._name = name
        self._wake = wake
        self._changed = threading.Condition()
        self._asked: dict[Partition, Any] = {}
        self._is_saving = False
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None
        self.failure: Exception | None = None

    def save(self, positions: dict[Partition, Any]) -> None:
        """Save positions; a position replaces an earlier, not yet saved position of the same partition."""
        if not positions:
            return
        with self._changed:
            self._asked.update(positions)
            self._changed.notify_all()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=f"tidewheel-{self._name}-saved", daemon=True)
            self._thread.start()

    @property
    def is_idle(self) -> bool:
        with self._changed:
            return not self._asked and not self._is_saving

    def close(self) -> None:
        """End the thread after its current call."""
        self._closed.set()
        with self._changed:
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(CLOSES_WITHIN_S)
            if self._thread.is_alive():
                said = "source %r: saved() still runs %g s after its job has ended; its thread goes on"
                LOGGER.warning(said, self._name, CLOSES_WITHIN_S, extra=about(operator=self._name))

    # ------------------------------------------------------------------ on the thread

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closed.is_set() or self._asked)
                if self._closed.is_set():
                    return
                partition = next(iter(self._asked))
                position = self._asked.pop(partition)
                self._is_saving = True
            try:
                self._save(partition, position)
            except BaseException as error:  # noqa: BLE001 - the worker raises it
                what = f"could not save the position of partition {partition!r}"
                self.failure = failed_part(self._name, what, error)
                self._wake()
                return
            with self._changed:
                self._is_saving = False
                is_idle = not self._asked
            if is_idle:
                self._wake()

    def _save(self, partition: Partition, position: Any) -> None:
        def attempt() -> None:
            if not self._closed.is_set():
                self._source.saved(partition, position)

        def note(error: Exception, failures: int) -> None:
            said = "source %r: saved(%r, ...) is called again, after attempt %d: %s: %s"
            kind = type(error).__name__
            LOGGER.warning(said, self._name, partition, failures, kind, error, extra=about(operator=self._name))

        self._source._owner(partition).retry.call(attempt, on_failure=note, sleep=self._closed.wait)
