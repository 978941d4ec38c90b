"""Following a job in tests: the first view that meets a condition, and what every document has to be."""

import json
import time
from collections.abc import Callable, Mapping
from typing import Any

from tidewheel.pubsub.subscribers.telemetry_reader import TelemetryReader
from tidewheel.pubsub.subscribers.view import View


def view_where(reader: TelemetryReader, is_met: Callable[[Mapping[str, Any]], object], within_s: float = 20.0) -> View:
    """Return the first view whose document meets a condition; fail with the last document if none comes in time."""
    deadline = time.monotonic() + within_s
    view = None
    for view in reader:
        if is_met(view.document):
            return view
        if time.monotonic() > deadline:
            break
    told = None if view is None else {**view.document, "picture": "..."}
    raise AssertionError(f"no document met the condition within {within_s} s; the last one was {told}")


def number_of(document: Mapping[str, Any], name: str) -> str:
    """Return the number of an operator."""
    return str(next(number for number, operator in document["operators"].items() if operator["name"] == name))


def check_json(document: Mapping[str, Any]) -> None:
    """Check that a document is what JSON has, with texts as keys, and that merge patches can tell of it."""
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    assert None not in _values(document)


def _values(part: Mapping[str, Any]) -> list[Any]:
    found: list[Any] = []
    for value in part.values():
        found += _values(value) if isinstance(value, dict) else [value]
    return found
