"""The families of Prometheus."""

import asyncio
import threading
import time
from typing import Any

import pytest
from prometheus_client.exposition import generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_open
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_open
from prometheus_client.parser import text_string_to_metric_families as parse
from starlette.requests import Request

from tests.kit.messages import raises
from tests.kit.telemetry.full_document import AT, document
from tests.waiting import WITHIN_S
from tidewheel.console.metrics.job_metrics import METRICS
from tidewheel.console.metrics.metrics_page import JobFamilies, metrics_route
from tidewheel.gateway.errors import GatewayError
from tidewheel.gateway.health import OneQuestion

JOBS = {"sums-d24a72a9": document(), 'a "quoted"\\job\n': document()}
ODD = document(operators={"1": {"name": "write a\udcff", "records_in": 7}})


def test_prometheus_can_read_all_of_it() -> None:
    """In both of its formats, with jobs of any name: every metric, with its type."""
    families = JobFamilies(JOBS, AT)
    for write, read in ((generate_latest, parse), (generate_open, parse_open)):
        text: bytes = write(families)  # type: ignore[arg-type,no-untyped-call,unused-ignore]
        found = {family.name: family for family in read(text.decode())}
        assert {name.removesuffix("_total") for name in found} == {
            metric.name.removesuffix("_total") for metric in METRICS
        }
        by_job = {sample.labels["job"]: sample.value for sample in found["tidewheel_job_workers"].samples}
        assert by_job == dict.fromkeys(JOBS, 2)
        (records,) = [found[name] for name in found if name.startswith("tidewheel_edge_records")]
        assert records.type == "counter"
        assert records.samples[0].name == "tidewheel_edge_records_total"


def test_a_gateway_without_jobs_names_its_metrics() -> None:
    """So that who writes a query sees what there is."""
    assert generate_latest(JobFamilies({}, AT)).count(b"# HELP tidewheel_") == len(METRICS)


def test_a_scrape_of_a_cluster_that_hangs_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """So does the gateway later: the question has a thread that nothing waits for."""
    answers = threading.Event()
    monkeypatch.setattr(OneQuestion.__init__, "__defaults__", (0.0,))
    scraped = metrics_route(lambda: dict[str, Any](late=answers.wait(WITHIN_S)))

    async def scrape() -> None:
        await scraped.endpoint(Request({"type": "http", "headers": []}))

    began = time.monotonic()
    with raises(GatewayError):
        asyncio.run(scrape())
    assert time.monotonic() - began < WITHIN_S / 2
    answers.set()


def test_a_name_that_utf8_does_not_have_is_told_nevertheless() -> None:
    """One such operator, of whatever job, would cost a scrape everything."""
    shown = generate_latest(JobFamilies({"odd": ODD}, AT)).decode()
    assert 'records_in_total{job="odd",operator="write a\\\\udcff"} 7.0' in shown
