"""The gateway's answers to programs that watch it: ``/metrics`` for Prometheus, ``/healthz`` and ``/readyz``."""

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from typing import Generic, TypeAlias, TypeVar

from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response
from starlette.routing import Route

from tidewheel.console.metrics.job_metrics import METRICS, Document, Sample, labels_of, samples
from tidewheel.gateway.answers import HEADERS, answer
from tidewheel.gateway.clients import asked
from tidewheel.gateway.errors import GatewayError
from tidewheel.progress import TidewheelError
from tidewheel.pubsub import topics

Answer = TypeVar("Answer")
Documents: TypeAlias = Callable[[], Mapping[str, Document]]
"""Returns the telemetry of all jobs, by name, from any thread."""

PATHS_WITHOUT_TOKEN = frozenset({"/healthz", "/readyz"})
"""The paths that answer without a token. They do not tell such a client more than their status."""

_FRESH_S = 1.0
_ANSWERS_WITHIN_S = 5.0


class JobFamilies:
    """The metrics of all jobs as a collector of the library of Prometheus.

    Args:
        documents: the telemetry of the jobs.
        now: the time, in seconds since 1970.
    """

    def __init__(self, documents: Mapping[str, Document], now: float) -> None:
        self._documents = documents
        self._now = now

    def collect(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
        """Yield a family for each metric, also for those without samples."""
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


class OneQuestion(Generic[Answer]):
    """A question to the cluster, which may hang. Runs on the event loop.

    However many clients ask, one question is under way at a time, and its answer is good for a second.

    Args:
        question: asks the cluster; it raises TidewheelError if there is none.
        within_s: how long a client waits, in seconds.
    """

    def __init__(self, question: Callable[[], Answer], within_s: float = _ANSWERS_WITHIN_S) -> None:
        self._question = question
        self._within_s = within_s
        self._asked: Future[Answer] | None = None
        self._asked_s = 0.0

    async def answer(self) -> Answer:
        """Return the answer, and raise what the question raises, or GatewayError if it takes too long."""
        now = time.monotonic()
        if self._asked is None or (self._asked.done() and now - self._asked_s > _FRESH_S):
            self._asked, self._asked_s = asked(self._question), now
        waiting = asyncio.wrap_future(self._asked)
        waiting.add_done_callback(lambda done: done.cancelled() or done.exception())  # or asyncio logs one that is late
        await asyncio.wait([waiting], timeout=self._within_s)
        if not waiting.done():
            raise GatewayError(f"the cluster has not answered for {now - self._asked_s + self._within_s:.0f} s")
        return waiting.result()

    async def problem(self) -> str | None:
        """Return why there is no answer; None if there is one."""
        try:
            await self.answer()
        except TidewheelError as error:
            return str(error)
        return None


def routes(documents: Documents, has_token: Callable[[HTTPConnection], bool]) -> list[Route]:
    """Return the routes.

    Args:
        documents: the telemetry of the jobs.
        has_token: tells whether a request shows the token, so that it may know why the gateway is not ready.
    """
    readiness, telemetry = OneQuestion(topics), OneQuestion(documents)

    async def metrics(request: Request) -> Response:
        encode, kind = choose_encoder(request.headers.get("accept", ""))
        families = JobFamilies(await telemetry.answer(), time.time())
        body = await asyncio.to_thread(encode, families)
        return Response(body, headers={**HEADERS, "Content-Type": kind})

    async def health(request: Request) -> Response:
        return answer({"status": "ok"})

    async def ready(request: Request) -> Response:
        problem = await readiness.problem()
        if problem is None:
            return answer({"status": "ok"})
        said = problem if has_token(request) else "the gateway is not ready; with the token it says why"
        return answer({"status": "not ready", "message": said}, 503)

    return [Route("/metrics", metrics), Route("/healthz", health), Route("/readyz", ready)]
