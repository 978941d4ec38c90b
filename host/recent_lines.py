"""The last warnings and errors that this process has logged, for people who watch its job.

They are collected where Python makes log records, since with a handler in place ``logging.basicConfig`` would not add
its own.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final
from weakref import ref

from tidewheel.progress.redaction import redacted

MOST_LINES: Final = 20
MOST_CHARACTERS: Final = 400
_FIELDS: Final = ("job", "operator", "worker")


@dataclass(frozen=True, slots=True)
class LogLine:
    """A log record as text, without apparent secrets.

    Attributes:
        number: its number in the process, from 1.
        at: when it was logged, in seconds since 1970.
    """

    number: int
    at: float
    level: str
    text: str
    logger: str
    job: str | None = None
    operator: str | None = None
    worker: int | None = None


_FOLLOWING = threading.Lock()
_FOLLOWERS: "list[ref[RecentLines]]" = []


class RecentLines:
    """Keeps the last 20 lines from WARNING on; thread-safe.

    Args:
        fields: returns fields, as `about` does, which are added to records of the calling thread that lack them.
        logger: keep only lines of this logger and its children, and lines that name a job.
    """

    def __init__(self, fields: Callable[[], Mapping[str, object]] = dict, logger: str = "") -> None:
        self._fields = fields
        self._logger = logger
        self._lock = threading.RLock()
        self._lines: deque[LogLine] = deque(maxlen=MOST_LINES)
        self._last: tuple[LogLine, logging.LogRecord] | None = None
        self._count = 0

    def follow(self) -> None:
        """Keep lines from now on, while this object exists."""
        with _FOLLOWING:
            if not _FOLLOWERS:
                logging.setLogRecordFactory(partial(_made, logging.getLogRecordFactory()))
            _FOLLOWERS[:] = [*(one for one in _FOLLOWERS if one() is not None), ref(self)]

    def of(self, job: str) -> tuple[LogLine, ...]:
        """Return the lines about a job, and those that name no job, oldest first."""
        with self._lock:
            self._settle()
            return tuple(line for line in self._lines if line.job in (None, job))

    def keep(self, record: logging.LogRecord) -> None:
        """Keep a record as a line. Python may add the record's ``extra`` later."""
        fields = self._fields()
        is_ours = record.name == self._logger or record.name.startswith(f"{self._logger}." if self._logger else "")
        if not is_ours and "job" not in fields:
            return
        level = "error" if record.levelno >= logging.ERROR else "warning"
        text = redacted(_message(record))[:MOST_CHARACTERS]
        known: dict[str, Any] = {name: fields.get(name) for name in _FIELDS}
        with self._lock:
            self._settle()
            self._count += 1
            line = LogLine(self._count, round(record.created, 3), level, text, record.name, **known)
            self._last = (line, record)

    def _settle(self) -> None:
        """Make the line of the last record, which now has its ``extra``."""
        if self._last is not None:
            line, record = self._last
            known: dict[str, Any] = {name: vars(record)[name] for name in _FIELDS if name in vars(record)}
            self._lines.append(replace(line, **known))
            self._last = None


def _made(make: Callable[..., logging.LogRecord], *given: Any, **named: Any) -> logging.LogRecord:
    record = make(*given, **named)
    if (record.levelno or 0) >= logging.WARNING:  # logging makes some without a level
        for follower in tuple(_FOLLOWERS):
            if (lines := follower()) is not None:
                lines.keep(record)
    return record


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:  # noqa: BLE001 - logging itself reports a record whose arguments do not fit
        return str(record.msg)
