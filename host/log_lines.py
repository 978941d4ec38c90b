"""Lines of the log: the fields of an event, its line of JSON, the handler and its settings.

A record names job, operator and worker twice: in its message for people, in its attributes (``extra``) for programs.
"""

import logging
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache, partial
from traceback import format_exception
from typing import Any, Literal, Self, TextIO, TypeAlias

import msgspec

from tidewheel.progress.redaction import redacted

LogFormat: TypeAlias = Literal["text", "json"]
LogLevel: TypeAlias = Literal["NOTSET", "DEBUG", "INFO", "WARNING", "ERROR"]

TEXT = "%(levelname)s %(name)s: %(message)s"
"""The format of log lines as text."""

_OF_LOGGING = {*vars(logging.makeLogRecord({})), "asctime", "message", "taskName"}
"""The attributes that every record of `logging` has. The other attributes of a record are its fields."""


def about(job: str | None = None, *, operator: str | None = None, worker: int | None = None) -> dict[str, object]:
    """Return the ``extra`` of an event: the fields that are not None.

    >>> about("sums-d24a72a9", worker=1)
    {'job': 'sums-d24a72a9', 'worker': 1}
    """
    fields = {"job": job, "operator": operator, "worker": worker}
    return {name: value for name, value in fields.items() if value is not None}


JSON_BEGIN = r'^\{"time":"'
"""A regular expression that matches the beginning of lines of JSON."""


class JsonLines(logging.Formatter):
    """Formats a record as one line of JSON: ``time``, ``level``, ``logger``, ``message``, then its fields.

    ``time`` is in UTC, as ISO 8601; ``error`` has a traceback. Values without a JSON form are written as their ``str``.

    >>> record = logging.LogRecord("mine", logging.INFO, "", 0, "it is %s", ("late",), None)
    >>> vars(record).update(created=0.5, **about("sums"))
    >>> JsonLines().format(record)
    '{"time":"1970-01-01T00:00:00.500000Z","level":"INFO","logger":"mine","message":"it is late","job":"sums"}'
    """

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        for name, value in vars(record).items():
            if name not in _OF_LOGGING and not name.startswith("_"):  # Ray adds one of its own
                line.setdefault(name, value)
        if record.exc_info:
            line["error"] = record.exc_text or self.formatException(record.exc_info)
        try:
            encoded = msgspec.json.encode(line, enc_hook=str)
        except Exception:  # noqa: BLE001 - a field may be of any type, and the event must not be lost
            encoded = msgspec.json.encode({name: printable(value) for name, value in line.items()})
        return encoded.decode()


def printable(value: object) -> str:
    return str(value).encode(errors="backslashreplace").decode()


class _Lines(logging.StreamHandler[TextIO]):
    """The one handler that `write_lines` adds to a logger."""


def write_lines(
    level: LogLevel,
    form: LogFormat,
    logger: str | None = "tidewheel",
    stream: TextIO | None = None,
    fields: Callable[[], Mapping[str, object]] = dict,
) -> None:
    """Let this process write log lines. The program's other log settings stay.

    Args:
        level: the level of the logger; ``"NOTSET"`` keeps the present one.
        form: ``"json"`` writes JSON lines, and hides them from the handlers of parent loggers. ``"text"`` writes lines
            only if a level is given and the logger has no other handler.
        logger: the name of the logger, None for the root.
        stream: by default standard error.
        fields: returns fields, which are added to records of the calling thread that lack them.
    """
    redact_records()
    found = logging.getLogger(logger)
    if level != "NOTSET":
        found.setLevel(level)
    ours = next((handler for handler in found.handlers if isinstance(handler, _Lines)), None)
    if ours is None:
        if form == "text" and (level == "NOTSET" or found.hasHandlers()):
            return
        ours = _Lines(stream)
        ours.addFilter(lambda record: _add(record, fields()))
        found.addHandler(ours)
    ours.setFormatter(JsonLines() if form == "json" else logging.Formatter(TEXT))
    found.propagate = found.propagate and form != "json"


@dataclass(frozen=True, slots=True)
class LogSettings:
    """The log settings of a process, which it also sends to the actors that it starts."""

    level: int
    form: LogFormat
    fields: Mapping[str, object] = field(default_factory=dict)

    @classmethod
    def here(cls, **fields: object) -> Self:
        ours = [one for name in ("tidewheel", None) for one in logging.getLogger(name).handlers]
        is_json = any(isinstance(one, _Lines) and isinstance(one.formatter, JsonLines) for one in ours)
        return cls(logging.getLogger("tidewheel").getEffectiveLevel(), "json" if is_json else "text", fields)

    def use(self, fields: Callable[[], Mapping[str, object]] = dict, stream: TextIO | None = None) -> None:
        redact_records()
        logging.getLogger("tidewheel").setLevel(self.level)
        if self.form == "json":
            write_lines("NOTSET", "json", None, stream or sys.stderr, lambda: {**self.fields, **fields()})
        elif self.level < logging.WARNING:  # Python itself shows WARNING and above
            logging.basicConfig(format=TEXT)


@cache
def redact_records() -> None:
    """Remove secrets from all log records of tidewheel, for any handler; idempotent."""
    logging.setLogRecordFactory(partial(_redacted, logging.getLogRecordFactory()))


def _redacted(make: Callable[..., logging.LogRecord], *given: Any, **named: Any) -> logging.LogRecord:
    record = make(*given, **named)
    if str(record.name).partition(".")[0] != "tidewheel":  # logging makes some without a name
        return record
    try:
        said = record.getMessage()
    except Exception:  # noqa: BLE001 - logging itself reports a record whose arguments do not fit
        return record
    if (text := redacted(said)) != said:
        record.msg, record.args = text, ()
    if record.exc_info:
        raised = "".join(format_exception(record.exc_info[1])).rstrip("\n")
        if (text := redacted(raised)) != raised:
            record.exc_text = text  # formatters use this text as it is
    return record


def _add(record: logging.LogRecord, fields: Mapping[str, object]) -> bool:
    vars(record).update({**fields, **vars(record)})
    return True
