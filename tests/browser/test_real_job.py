"""The page of a real job with a nested loop, from its start to its end."""

import re
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

import tidewheel as tw
from tests.browser.chromium import SOON_MS, needs_chromium, opened, soon
from tests.waiting import eventually
from tidewheel.pubsub.gateway import Gateway, GatewayConfig
from tidewheel.pubsub.gateway.page.found_jobs import own_jobs
from tidewheel.pubsub.gateway.page.page_jobs import PageJobs

pytestmark = needs_chromium

KEPT_AT = 3


def _keep(context: tw.OperatorContext) -> Any:
    """Build an operator that passes everything on, and never returns the token of one epoch."""
    kept: list[tw.TimestampToken] = []

    def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
        for token, batch in input:
            if token.time == KEPT_AT and not kept:
                kept.append(token.retain())
            output.send(token, batch)

    return schedule


def _nested() -> tw.Dataflow:
    """Describe two loops, one in the other, before the operator that keeps a token."""

    def inner(numbers: Any) -> tuple[Any, Any]:
        halves = numbers.map(lambda pair: (pair[0], pair[1] // 2), name="halve")
        return halves.filter(lambda pair: pair[1] > 1), halves.filter(lambda pair: pair[1] <= 1)

    def outer(pairs: Any) -> tuple[Any, Any]:
        steps = pairs.iterate(inner).map(lambda pair: (pair[0] - 1, pair[0]), name="step")
        return steps.filter(lambda pair: pair[0] > 0), steps

    flow = tw.Dataflow("nested")
    flow.input("pairs").iterate(outer).unary("keep", _keep).probe("done").publish("steps")
    return flow


class _Fed:
    """A job that is fed one epoch after the other, by a thread that also lets it run."""

    def __init__(self) -> None:
        self.job = tw.run(_nested(), workers=2, engine="local")
        self._has_ended = threading.Event()
        self._thread = threading.Thread(target=self._feed)
        self._thread.start()

    def _feed(self) -> None:
        with self.job.input("pairs") as pairs, tw.subscribe("steps") as steps:
            epoch = 0
            while not self._has_ended.wait(0.05):
                pairs.send([(3, 9)] * 20)
                epoch += 1
                pairs.advance_to(epoch)
                steps.take()

    def stop(self) -> None:
        self._has_ended.set()
        self._thread.join()
        self.job.stop()


@pytest.fixture
def fed() -> Iterator[_Fed]:
    """The job while it runs."""
    running = _Fed()
    try:
        yield running
    finally:
        running.stop()


def test_a_job_with_a_nested_loop_and_a_token_that_is_never_returned(browser: Browser, fed: _Fed) -> None:
    """Rates and rounds move; the operator with the token is lit, with the words of `explain`; then the job ends."""
    name = fed.job.name
    with (
        Gateway(GatewayConfig(port=0, flight_port=None), PageJobs(own_jobs)) as gateway,
        opened(browser, gateway, f"&job={name}") as page,
    ):
        soon(page, "main", "data-state", "running")
        expect(page.locator("svg [data-scope='iterate/iterate']")).to_have_count(1)
        expect(page.locator("[data-loop='iterate/iterate'] [data-rounds]").first).to_be_visible(timeout=5 * SOON_MS)
        keep = page.locator("[data-operator]", has_text="keep")
        expect(keep).to_have_attribute("data-holds", re.compile("done"), timeout=2 * SOON_MS)
        assert eventually(lambda: float(keep.get_attribute("data-rate") or 0) > 0)
        behind = page.locator("[data-operator]", has_text="publish steps")
        assert behind.get_attribute("data-frontier") == str(KEPT_AT)
        assert eventually(lambda: int(behind.get_attribute("data-lag") or 0) > 1)
        page.get_by_role("button", name="done", exact=True).click()
        expect(page.locator("[data-details] [data-explanation]")).to_contain_text(
            f"operator 'keep' holds 1 token for time {KEPT_AT}", timeout=SOON_MS
        )
        soon(page, "[data-operator][data-lit]", "data-lit", "")
        fed.stop()
        soon(page, "main", "data-state", "stopped")
        soon(page, "main", "data-connection", "ended")
