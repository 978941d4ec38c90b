"""The numbers to which Ray's metrics are set: values, and growth since the time before."""

from typing import Any, ClassVar

import pytest

from tests.kit.telemetry.full_document import document
from tidewheel.console.metrics import ray_metrics
from tidewheel.console.metrics.job_metrics import METRICS, labels_of
from tidewheel.console.metrics.ray_metrics import RayMetrics

JOB = "sums-d24a72a9"


class Kept:
    """A metric of Ray that keeps what it was told."""

    made: ClassVar[dict[str, "Kept"]]

    def __init__(self, name: str, description: str, tag_keys: tuple[str, ...]) -> None:
        assert name not in self.made
        self.made[name] = self
        self.tag_keys = tag_keys
        self.calls: list[tuple[float, tuple[str, ...]]] = []

    def _keep(self, value: float, tags: dict[str, str]) -> None:
        assert tuple(tags) == self.tag_keys
        self.calls.append((value, tuple(tags.values())))


class Counter(Kept):
    def inc(self, value: float, tags: dict[str, str]) -> None:
        assert value > 0, "Ray raises otherwise"
        self._keep(value, tags)


class Gauge(Kept):
    def set(self, value: float, tags: dict[str, str]) -> None:
        self._keep(value, tags)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> dict[str, Kept]:
    """Stand for the metrics of Ray; return them by name."""
    import ray.util.metrics

    Kept.made = {}
    monkeypatch.setattr(ray_metrics, "_counted", {})
    monkeypatch.setattr(ray.util.metrics, "Counter", Counter)
    monkeypatch.setattr(ray.util.metrics, "Gauge", Gauge)
    return Kept.made


def with_records(count: int) -> dict[str, Any]:
    """Return telemetry with an operator that has received so many records."""
    return document(operators={"3": {"name": "map", "scope": "", "records_in": count, "queue": count}})


def test_counters_grow_and_gauges_are_set(made: dict[str, Kept]) -> None:
    """Ray counts for itself: what is the same is not added again, and what has fallen began at zero."""
    metrics = RayMetrics(JOB)
    for count in (5, 5, 9, 2):
        metrics.show(with_records(count))
    labels = (JOB, "map")
    assert made["tidewheel_operator_records_in"].calls == [(5, labels), (4, labels), (2, labels)]
    assert made["tidewheel_operator_queued_messages"].calls == [(count, labels) for count in (5.0, 5.0, 9.0, 2.0)]


def test_each_metric_is_made_once_with_its_labels(made: dict[str, Kept]) -> None:
    """Ray adds the end of a counter's name itself."""
    metrics = RayMetrics(JOB)
    metrics.show(document())
    metrics.show(document())
    known = {metric.name.removesuffix("_total"): labels_of(metric) for metric in METRICS}
    assert {name: kept.tag_keys for name, kept in made.items()}.items() <= known.items()
    assert len(made) > 30


def test_a_second_export_of_a_job_counts_nothing_twice(made: dict[str, Kept]) -> None:
    """Ray adds up what all of this process have counted; only the last jobs are remembered."""
    for before, count in ((0, 5), (5, 7)):
        made.clear()
        RayMetrics(JOB).show(with_records(count))
        assert made["tidewheel_operator_records_in"].calls == [(count - before, (JOB, "map"))]
    for number in range(ray_metrics._MOST_JOBS):
        made.clear()
        RayMetrics(f"job-{number}").show(with_records(1))
    assert list(ray_metrics._counted) == [f"job-{number}" for number in range(ray_metrics._MOST_JOBS)]
