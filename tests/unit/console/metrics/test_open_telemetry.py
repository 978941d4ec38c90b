"""A job as OpenTelemetry receives it: instruments that observe it, and spans of its life."""

import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.kit.telemetry.full_document import AT, document
from tidewheel.console.metrics import job_metrics, open_telemetry
from tidewheel.console.metrics.job_metrics import METRICS
from tidewheel.console.metrics.open_telemetry import OpenTelemetry, instrument_name

pytest.importorskip("opentelemetry.sdk", reason="comes with the extra otel")

JOB = "sums-d24a72a9"


@pytest.fixture
def reader(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Give what reads the instruments of a program that has set up OpenTelemetry."""
    from opentelemetry import metrics
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader

    found = InMemoryMetricReader()
    provider = MeterProvider([found])
    monkeypatch.setattr(metrics, "get_meter", provider.get_meter)
    open_telemetry._make_instruments.cache_clear()
    yield found
    open_telemetry._make_instruments.cache_clear()
    provider.shutdown()


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Give what keeps the spans that have ended."""
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    found = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(found))
    monkeypatch.setattr(trace, "get_tracer", provider.get_tracer)
    return found


def observed(reader: Any) -> dict[tuple[str, str], Any]:
    """Return the value of each point by its instrument, and the last of its attributes."""
    data = reader.get_metrics_data()
    if data is None:
        return {}
    return {
        (metric.name, list(point.attributes.values())[-1]): point.value
        for resource in data.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
        for point in metric.data.data_points
    }


def at(seconds: float, state: str = "running", **sections: Any) -> dict[str, Any]:
    """Return telemetry of a moment of the job."""
    job = {"name": JOB, "dataflow": "sums", "state": state, "since": AT}
    return document(at=AT + seconds, **{"job": job, "snapshots": {}, **sections})


def test_instruments_have_names_of_their_own() -> None:
    """By the conventions of OpenTelemetry: dots between the parts, and the unit beside the name."""
    names = [instrument_name(metric)[0] for metric in METRICS]
    assert len(set(names)) == len(names)
    units = dict(map(instrument_name, METRICS))
    assert units["tidewheel.operator.busy"] == "s"
    assert units["tidewheel.edge.bytes"] == "By"
    assert units["tidewheel.operator.records_in"] == ""
    assert not [name for name in names if name.endswith("_total") or "tidewheel_" in name]


def test_instruments_observe_the_jobs_that_are_shown(reader: Any, spans: Any) -> None:
    """Two jobs share them; a job that has ended is not observed any more."""
    first, second = OpenTelemetry(JOB), OpenTelemetry("other-00000000")
    first.show(document())
    second.show(document(operators={"1": {"name": "filter", "records_in": 7}}))
    found = observed(reader)
    assert found["tidewheel.operator.records_in", "map"] == 90
    assert found["tidewheel.operator.records_in", "filter"] == 7
    assert found["tidewheel.worker.cpu", "0"] == 2.5
    first.end()
    left = {attribute for name, attribute in observed(reader) if name == "tidewheel.operator.queued_messages"}
    second.end()
    assert left == set()
    assert not open_telemetry._shown


def test_a_job_is_a_span_with_its_snapshots_and_returns(reader: Any, spans: Any) -> None:
    """They begin and end when the job says; a snapshot of an earlier run is none of this one."""
    shown = OpenTelemetry(JOB)
    early = {"number": 1, "taken": AT - 100, "seconds": 1.0}
    taken = {"number": 2, "taken": AT + 3, "seconds": 0.5, "bytes": 100}
    shown.show(at(1, snapshots=early))
    shown.show(at(4, snapshots=taken))
    shown.show(at(5, "going back", snapshots=taken))
    shown.show(at(6, "going back", snapshots=taken))
    shown.show(at(7, snapshots=taken))
    shown.show(at(8, "failed", job={"state": "failed", "error": "operator 'map' raised"}, snapshots=taken))
    shown.end()
    found = {span.name: span for span in spans.get_finished_spans()}
    times = {name: (span.start_time / 1e9 - AT, span.end_time / 1e9 - AT) for name, span in found.items()}
    assert times == {
        "tidewheel snapshot": pytest.approx((2.5, 3), abs=1e-3),
        "tidewheel return to a snapshot": pytest.approx((5, 7), abs=1e-3),
        "tidewheel job": pytest.approx((0, 8), abs=1e-3),
    }
    job = found["tidewheel job"]
    assert {span.parent.span_id for span in found.values() if span.parent} == {job.context.span_id}
    assert job.status.description == "operator 'map' raised"
    assert not job.status.is_ok


def test_the_last_numbers_of_a_job_are_observed_for_a_while(
    reader: Any, spans: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Most programs read them once a minute, and once more as they end."""
    shown = OpenTelemetry(JOB)
    shown.show(document(at=time.time(), job={"name": JOB, "state": "complete"}))
    shown.end()
    assert observed(reader)["tidewheel.operator.records_in", "map"] == 90
    monkeypatch.setattr(job_metrics, "KEPT_S", -1.0)
    assert not observed(reader)
    OpenTelemetry("other-00000000")
    assert not open_telemetry._shown
