"""The page of a real job with a nested loop, from its start to its end."""

import re
import threading
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

import tidewheel as tw
from tests.browser.chromium import SOON_MS, needs_chromium, opened, soon
from tests.browser.nested import KEPT_AT, nested_flow
from tests.waiting import eventually
from tidewheel.console import LivePage
from tidewheel.console.page.found_jobs import own_jobs
from tidewheel.console.page.page_jobs import PageJobs
from tidewheel.gateway import Gateway, GatewayConfig

pytestmark = needs_chromium


class _Fed:
    """A job that is fed one epoch after the other, by a thread that also lets it run."""

    def __init__(self) -> None:
        self.job = tw.run(nested_flow("nested", keeps=True), workers=2, engine="local")
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
                steps.poll()

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
        Gateway(GatewayConfig(port=0, flight_port=None), [LivePage(PageJobs(own_jobs))]) as gateway,
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
        expect(page.locator("[data-details] [data-explanation]")).to_contain_text("probably the token leaked")
        soon(page, "[data-operator][data-lit]", "data-lit", "")
        fed.stop()
        soon(page, "main", "data-state", "stopped")
        soon(page, "main", "data-connection", "ended")
