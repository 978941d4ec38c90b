"""The metrics of a job as Ray metrics, which each node of a cluster exports for Prometheus."""

import threading
import time
from typing import Any

from tidewheel.console.metrics.job_metrics import Document, Metric, labels_of, samples

_MOST_JOBS = 100
_counting = threading.Lock()
_counted: dict[str, dict[tuple[str, ...], float]] = {}
"""The counts in Ray of the last 100 jobs in this process. A second export of a job continues from these counts."""


class RayMetrics:
    """Sets Ray metrics to the numbers of a job; Ray exports them with names that begin with ``ray_tidewheel_``.

    The process must be part of a Ray cluster. A metric keeps its last number until the process ends.
    """

    def __init__(self, job: str) -> None:
        self._job = job
        self._made: dict[str, Any] = {}

    def show(self, document: Document) -> None:
        for sample in samples(self._job, document, time.time()):
            tags = dict(zip(labels_of(sample.metric), sample.labels, strict=True))
            if not sample.metric.is_counter:
                self._of(sample.metric).set(sample.value, tags)
            elif (more := self._more((sample.metric.name, *sample.labels), sample.value)) > 0:
                self._of(sample.metric).inc(more, tags)

    def _more(self, counted: tuple[str, ...], value: float) -> float:
        """Return the growth of a counter; a counter that has fallen has restarted at zero."""
        with _counting:
            job = _counted[self._job] = _counted.pop(self._job, {})
            for name in [*_counted][:-_MOST_JOBS]:
                del _counted[name]
            before, job[counted] = job.get(counted, 0.0), value
        return value - before if value >= before else value

    def _of(self, metric: Metric) -> Any:
        from ray.util.metrics import Counter, Gauge

        if metric.name not in self._made:
            kind: Any = Counter if metric.is_counter else Gauge
            self._made[metric.name] = kind(metric.name.removesuffix("_total"), metric.text, labels_of(metric))
        return self._made[metric.name]

    def end(self) -> None: ...
