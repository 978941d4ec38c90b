"""The thread, beside a worker's loop, that asks a source how far its partitions are behind.

It runs only while a program follows the job: each report lets it ask once more, at most once a second. After some
seconds without a report it ends.
"""

import threading
from collections.abc import Mapping
from math import isfinite
from typing import Any, Final, get_args

from tidewheel.host.log_lines import about
from tidewheel.operators.sources.contract import Partition, Source, Unit
from tidewheel.operators.sources.readings import CLOSES_WITHIN_S, LOGGER
from tidewheel.runtime.messages.connector_numbers import whole_lag

_EVERY_S: Final = 1.0
_UNITS: Final = frozenset(get_args(Unit))
_ENDS_AFTER_S: Final = 10.0


class LagWatch:
    """Calls `Source.behind` for the open partitions of one worker.

    Args:
        name: the name of the source.
    """

    def __init__(self, source: Source[Any], name: str) -> None:
        self._source = source
        self._name = name
        self._changed = threading.Condition()
        self._asked: Mapping[Partition, Any] | None = None
        self._found: Mapping[Partition, Mapping[str, float]] = {}
        self._closed = threading.Event()
        self._has_warned = False
        self._thread: threading.Thread | None = None

    def look(self, positions: Mapping[Partition, Any]) -> dict[str, float]:
        """Return the lag of these partitions as it was last found, and let these positions be asked about next."""
        with self._changed:
            self._asked = positions
            self._changed.notify_all()
            if self._thread is None and not self._closed.is_set():
                self._thread = threading.Thread(target=self._run, name=f"tidewheel-{self._name}-lag", daemon=True)
                self._thread.start()
            return whole_lag(lag for partition, lag in self._found.items() if partition in positions)

    def close(self) -> None:
        """End the thread after the call that it is in."""
        self._closed.set()
        with self._changed:
            thread = self._thread
            self._changed.notify_all()
        if thread is not None:
            thread.join(CLOSES_WITHIN_S)

    # ------------------------------------------------------------------ on the thread

    def _run(self) -> None:
        while (positions := self._next()) is not None:
            found: dict[Partition, Mapping[str, float]] = {}
            for partition, position in positions.items():
                if self._closed.is_set():
                    return
                found[partition] = self._behind(partition, position)
            with self._changed:
                self._found = found
            self._closed.wait(_EVERY_S)

    def _next(self) -> Mapping[Partition, Any] | None:
        with self._changed:
            self._changed.wait_for(lambda: self._closed.is_set() or self._asked is not None, _ENDS_AFTER_S)
            positions, self._asked = self._asked, None
            if self._closed.is_set() or positions is None:
                self._thread, self._found = None, {}
                return None
        return positions

    def _behind(self, partition: Partition, position: Any) -> Mapping[str, float]:
        try:
            behind: Any = self._source.behind(partition, position)
            if behind is not None:
                _check(type(self._source).__qualname__, behind)
        except BaseException as error:  # noqa: BLE001 - the job goes on without this number
            if not (self._has_warned or self._closed.is_set()):
                self._has_warned = True
                said = "source %r: the lag of partition %r is unknown: %s: %s"
                extra = about(operator=self._name)
                LOGGER.warning(said, self._name, partition, type(error).__name__, error, extra=extra)
            return {}
        return {} if behind is None else {unit: max(0, amount) for unit, amount in behind.items()}


def _check(kind: str, behind: object) -> None:
    is_lag = isinstance(behind, Mapping) and behind.keys() <= _UNITS
    if not is_lag or not all(isinstance(amount, int | float) and isfinite(amount) for amount in behind.values()):  # type: ignore[attr-defined]
        raise TypeError(
            f"{kind}.behind returns a dict such as {{'records': 12}}, with {sorted(_UNITS)}, not {behind!r:.200}"
        )
