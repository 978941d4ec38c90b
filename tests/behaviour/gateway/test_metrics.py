"""The metrics and health of a gateway, as programs that watch it receive them on real sockets."""

from collections.abc import Iterator

import pytest
from prometheus_client.parser import text_string_to_metric_families as parse

from tests.kit.gateway.paged import HandJobs, paged
from tests.kit.gateway.served import ask, published, served
from tests.kit.telemetry.full_document import document
from tests.waiting import eventually
from tidewheel.gateway import Gateway
from tidewheel.pubsub.catalog.local_catalog import LOCAL_CATALOG

TOKEN = "correct-horse-battery-staple"
TOPIC = "watched"
JOB = "sums-d24a72a9"


@pytest.fixture(scope="module")
def gateway() -> Iterator[Gateway]:
    """A gateway with a token, which knows a topic and a job."""
    jobs = HandJobs()
    jobs.put(document())
    with published(TOPIC), paged(jobs, token=TOKEN) as running:
        yield running
    jobs.end(JOB)


def scraped(gateway: Gateway, **headers: str) -> dict[str, float]:
    """Return the samples of the job by metric."""
    answer = ask(gateway, "/metrics", **headers)
    assert answer.status == 200, answer.message
    families = parse(answer.body.decode())
    return {
        sample.name: sample.value
        for family in families
        for sample in family.samples
        if sample.labels.get("operator", "map") == "map" and sample.labels["job"] == JOB
    }


def test_a_job_is_scraped(gateway: Gateway) -> None:
    """It is followed from the first scrape on, so the numbers are there at a later one."""
    assert eventually(lambda: scraped(gateway).get("tidewheel_operator_records_in_total") == 90)
    assert scraped(gateway)["tidewheel_operator_lag_epochs"] == 1
    assert scraped(gateway)["tidewheel_operator_lag_seconds"] == 0, "nothing has moved since the first look"


def test_metrics_need_the_token(gateway: Gateway) -> None:
    """They have the names of jobs, operators and topics. Prometheus sends the token as other clients do."""
    answer = ask(gateway, "/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=")
    assert answer.headers["cache-control"] == "no-store"
    assert ask(gateway, "/metrics", accept="application/openmetrics-text").body.endswith(b"# EOF\n")
    for path in ("/metrics", f"/metrics?token={TOKEN}"):
        assert ask(gateway, path, authorization="").status == 401


def test_a_gateway_that_lives_says_so_to_everybody(gateway: Gateway) -> None:
    """And nothing else; a page whose name was made to point here is refused nevertheless."""
    for headers in ({}, {"authorization": ""}, {"authorization": "Bearer wrong"}):
        answer = ask(gateway, "/healthz", **headers)
        assert (answer.status, answer.content) == (200, {"status": "ok"})
    assert ask(gateway, "/healthz", authorization="", host="evil.example").status == 403
    assert ask(gateway, "/healthz", "POST", authorization="").status == 405


def test_a_gateway_that_knows_a_topic_is_ready(gateway: Gateway) -> None:
    """With the token and without."""
    for headers in ({}, {"authorization": ""}):
        answer = ask(gateway, "/readyz", **headers)
        assert (answer.status, answer.content) == (200, {"status": "ok"})


def test_a_gateway_without_topics_and_cluster_is_not_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    """It says why to those who show the token; to others only that it is not."""
    for names in ("topics", "hidden"):  # of other tests
        monkeypatch.setattr(LOCAL_CATALOG, names, list)
    with served(token=TOKEN) as alone:
        told, untold = ask(alone, "/readyz"), ask(alone, "/readyz", authorization="")
        assert ask(alone, "/healthz").status == 200
        unknown = ask(alone, "/metrics")
    assert (told.status, untold.status, unknown.status) == (503, 503, 503)
    assert "127.0.0.1:1" in told.message, "the cluster that this test may not find"
    assert "127.0.0.1:1" not in untold.message
