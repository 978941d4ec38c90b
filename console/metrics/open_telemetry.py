"""The metrics and spans of jobs for OpenTelemetry, with the providers that the program has set.

A job is one span, with its snapshots and its returns to a snapshot as inner spans.
"""

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from tidewheel.console.metrics.job_metrics import METRICS, Document, Metric, is_past, labels_of, samples
from tidewheel.pubsub.subscribers.view import View

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, Observation
    from opentelemetry.trace import Span

_UNITS = {"seconds": "s", "bytes": "By", "ratio": "1"}
_WITH_UNIT = frozenset(f"_{unit}" for unit in _UNITS)
_SCOPE = "tidewheel"
_making = threading.Lock()
_shown: dict[str, Document] = {}


def instrument_name(metric: Metric) -> tuple[str, str]:
    """Return the name and the unit of a metric in OpenTelemetry's conventions.

    >>> instrument_name(next(metric for metric in METRICS if metric.key == "cpu_seconds"))
    ('tidewheel.worker.cpu', 's')
    """
    name = metric.name.removesuffix("_total")
    stem, _, last = name.rpartition("_")
    is_unit = last in _UNITS and stem.count("_") > 1  # not tidewheel_edge_bytes
    is_one_of = sum(other.name.removeprefix(stem) in _WITH_UNIT for other in METRICS) > 1  # lag in seconds and bytes
    return (stem if is_unit and not is_one_of else name).replace("_", ".", 2), _UNITS.get(last, "")


class OpenTelemetry:
    """Exports one job; one thread passes it the job's documents."""

    def __init__(self, job: str) -> None:
        from opentelemetry import trace

        self._job = job
        self._tracer = trace.get_tracer(_SCOPE)
        self._span: Span | None = None
        self._return: Span | None = None
        self._snapshot: object = None
        with _making:
            _make_instruments()
            for name in [name for name, document in _shown.items() if is_past(document, time.time())]:
                del _shown[name]

    def show(self, document: Document) -> None:
        from opentelemetry.trace import Status, StatusCode

        about: Mapping[str, Any] = document["job"]
        _shown[self._job] = document
        if self._span is None:
            attributes = {"tidewheel.job": self._job, "tidewheel.dataflow": about.get("dataflow", "")}
            start = _nanoseconds(about.get("since", document["at"]))
            self._span = self._tracer.start_span("tidewheel job", attributes=attributes, start_time=start)
            self._snapshot = document.get("snapshots", {}).get("number")
        self._show_return(about["state"] == "going back", document["at"])
        self._show_snapshot(document.get("snapshots", {}))
        if about["state"] in {"failed", "stopped"}:
            self._span.set_status(Status(StatusCode.ERROR, str(about.get("error", about["state"]))))

    def _show_return(self, goes_back: bool, at: float) -> None:
        if goes_back and self._return is None:
            self._return = self._part("tidewheel return to a snapshot", at)
        elif not goes_back and self._return is not None:
            self._return.end(_nanoseconds(at))
            self._return = None

    def _show_snapshot(self, snapshot: Mapping[str, Any]) -> None:
        if snapshot.get("number") == self._snapshot or "taken" not in snapshot:
            return
        self._snapshot = snapshot["number"]
        span = self._part("tidewheel snapshot", snapshot["taken"] - snapshot.get("seconds", 0.0))
        span.set_attribute("tidewheel.snapshot", snapshot["number"])
        span.set_attribute("tidewheel.bytes", snapshot.get("bytes", 0))
        span.end(_nanoseconds(snapshot["taken"]))

    def _part(self, name: str, start: float) -> "Span":
        from opentelemetry.trace import set_span_in_context

        context = None if self._span is None else set_span_in_context(self._span)
        return self._tracer.start_span(
            name, context, attributes={"tidewheel.job": self._job}, start_time=_nanoseconds(start)
        )

    def end(self) -> None:
        """End the spans; the metrics of an ended job are exported for ten more minutes."""
        last = _shown.get(self._job)
        if last is not None and not View(last).has_ended:
            del _shown[self._job]
        for span in (self._return, self._span):
            if span is not None and last is not None:
                span.end(_nanoseconds(last["at"]))


@cache
def _make_instruments() -> None:
    from opentelemetry import metrics

    meter = metrics.get_meter(_SCOPE)
    for metric in METRICS:
        name, unit = instrument_name(metric)
        make = meter.create_observable_counter if metric.is_counter else meter.create_observable_gauge
        make(name, [_observer(metric)], unit, metric.text)


def _observer(metric: Metric) -> "Callable[[CallbackOptions], Iterable[Observation]]":
    from opentelemetry.metrics import Observation

    names = labels_of(metric)

    def observe(_: "CallbackOptions") -> "Iterable[Observation]":
        for job, document in list(_shown.items()):
            for sample in samples(job, document, time.time(), [metric]):
                yield Observation(sample.value, dict(zip(names, sample.labels, strict=True)))

    return observe


def _nanoseconds(seconds: float) -> int:
    return int(seconds * 1e9)
