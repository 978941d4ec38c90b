"""The metrics of all jobs for Prometheus, at ``/metrics``."""

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tidewheel.console.metrics.job_metrics import METRICS, Document, Sample, labels_of, samples
from tidewheel.gateway.answers import HEADERS
from tidewheel.gateway.health import OneQuestion

Documents: TypeAlias = Callable[[], Mapping[str, Document]]
"""Returns the telemetry of all jobs, by name, from any thread."""


class JobFamilies:
    """The metrics of all jobs, as a collector of Prometheus's client library.

    Args:
        now: returns the time, in seconds since 1970.
    """

    def __init__(self, documents: Mapping[str, Document], now: float) -> None:
        self._documents = documents
        self._now = now

    def collect(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
        found: dict[str, list[Sample]] = {metric.name: [] for metric in METRICS}
        for job, document in self._documents.items():
            for sample in samples(job, document, self._now):
                found[sample.metric.name].append(sample)
        for metric in METRICS:
            kind = CounterMetricFamily if metric.is_counter else GaugeMetricFamily
            family = kind(metric.name, metric.text, labels=labels_of(metric))
            for sample in found[metric.name]:
                family.add_metric(sample.labels, sample.value)
            yield family


def metrics_route(documents: Documents) -> Route:
    telemetry = OneQuestion(documents)

    async def metrics(request: Request) -> Response:
        encode, kind = choose_encoder(request.headers.get("accept", ""))
        families = JobFamilies(await telemetry.answer(), time.time())
        body = await asyncio.to_thread(encode, families)
        return Response(body, headers={**HEADERS, "Content-Type": kind})

    return Route("/metrics", metrics)
