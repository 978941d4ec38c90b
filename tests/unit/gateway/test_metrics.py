"""The families of Prometheus, and whether the gateway is ready."""

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

from tests.kit.telemetry.full_document import AT, document
from tests.waiting import WITHIN_S, eventually
from tidewheel.console.metrics.job_metrics import METRICS
from tidewheel.gateway.errors import GatewayError
from tidewheel.gateway.metrics import JobFamilies, OneQuestion, routes
from tidewheel.pubsub.errors import NoCluster

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


class Catalog:
    """A catalog that counts questions, and answers when it is told to."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.failure = failure
        self.questions = 0
        self.answers = threading.Event()

    def __call__(self) -> list[str]:
        self.questions += 1
        assert self.answers.wait(WITHIN_S)
        if self.failure is not None:
            raise self.failure
        return []


def test_many_clients_are_one_question() -> None:
    """Clients without a token may come as often as they like."""
    catalog = Catalog()

    async def ask() -> list[str | None]:
        question = OneQuestion(catalog)
        asking = [asyncio.create_task(question.problem()) for _ in range(20)]
        await asyncio.sleep(0)
        catalog.answers.set()
        return [*await asyncio.gather(*asking), await question.problem()]

    assert asyncio.run(ask()) == [None] * 21
    assert catalog.questions == 1


def test_a_catalog_that_hangs_is_told() -> None:
    """A client does not wait longer than its time, and no further question is asked meanwhile."""
    catalog = Catalog(NoCluster("too late"))

    async def ask() -> list[str | None]:
        question = OneQuestion(catalog, within_s=0.0)
        return [await question.problem(), await question.problem()]

    said = asyncio.run(ask())
    assert eventually(lambda: catalog.questions > 0)
    catalog.answers.set()
    assert all(one is not None and "has not answered for 0 s" in one for one in said)
    assert catalog.questions == 1


@pytest.mark.parametrize("failure", [NoCluster("no Ray cluster runs"), ValueError("a bug")])
def test_the_reason_is_told(failure: Exception) -> None:
    """Of the product's own errors; others are bugs, which the gateway logs."""
    catalog = Catalog(failure)
    catalog.answers.set()
    if isinstance(failure, NoCluster):
        assert asyncio.run(OneQuestion(catalog).problem()) == "no Ray cluster runs"
    else:
        with pytest.raises(ValueError, match="a bug"):
            asyncio.run(OneQuestion(catalog).problem())


def test_a_scrape_of_a_cluster_that_hangs_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """So does the gateway later: the question has a thread that nothing waits for."""
    answers = threading.Event()
    monkeypatch.setattr(OneQuestion.__init__, "__defaults__", (0.0,))
    found = routes(lambda: dict[str, Any](late=answers.wait(WITHIN_S)), lambda _: True)
    [scraped] = [route for route in found if route.path == "/metrics"]

    async def scrape() -> None:
        await scraped.endpoint(Request({"type": "http", "headers": []}))

    began = time.monotonic()
    with pytest.raises(GatewayError, match="has not answered"):
        asyncio.run(scrape())
    assert time.monotonic() - began < WITHIN_S / 2
    answers.set()


def test_a_name_that_utf8_does_not_have_is_told_nevertheless() -> None:
    """One such operator, of whatever job, would cost a scrape everything."""
    shown = generate_latest(JobFamilies({"odd": ODD}, AT)).decode()
    assert 'records_in_total{job="odd",operator="write a\\\\udcff"} 7.0' in shown
