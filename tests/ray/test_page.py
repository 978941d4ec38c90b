"""The page of jobs on Ray in a browser: a worker that is killed, and jobs of other processes."""

import os
import re
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

import tidewheel as tw
from tests.browser.chromium import SOON_MS, chromium, needs_chromium, opened, soon
from tests.browser.nested import nested_flow
from tests.ray.driver_process import DriverProcess
from tests.ray.leftovers import nothing_left
from tests.ray.serving import serving
from tests.waiting import eventually
from tidewheel.console import LivePage
from tidewheel.console.page.found_jobs import found_jobs, own_jobs
from tidewheel.console.page.page_jobs import PageJobs
from tidewheel.gateway import Gateway, GatewayConfig
from tidewheel.runtime.engines.ray_job import RayJob

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("ray_cluster"), needs_chromium]

DEADLINE_S = 60.0
DEADLINE_MS = 1000 * DEADLINE_S

_NOTE_STATES = """
window.seen = {};
const note = () => {
  const of = (selector) => document.querySelector(selector)?.dataset.state;
  const states = { job: of("main"), worker: of("[data-worker='1']") };
  for (const [what, state] of Object.entries(states)) window.seen[`${what} ${state}`] ??= Date.now() / 1000;
};
note();
new MutationObserver(note).observe(document.body, { subtree: true, childList: true, attributes: true });
"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A browser without a window."""
    with chromium() as running:
        yield running


def seen_at(page: Page, what: str) -> float:
    """Return when the page has first shown a state, in seconds since 1970; wait for it."""
    page.wait_for_function("what => window.seen[what]", arg=what, timeout=DEADLINE_MS)
    return float(page.evaluate("what => window.seen[what]", what))


def send(job: tw.types.Job, epochs: int) -> None:
    """Send some epochs that go round both loops."""
    for epoch in range(epochs):
        job.input("pairs").send([(3, 9)] * 20)
        job.input("pairs").advance_to(epoch + 1)


def test_a_killed_worker_is_shown_within_two_seconds(browser: Browser, tmp_path: Path) -> None:
    """The job goes back and on, with another process; the log says what has happened, and the end is shown."""
    flow = nested_flow("nested", keeps=False)
    with (
        tw.run(flow, workers=2, snapshots=tw.Snapshots(tmp_path)) as job,
        Gateway(GatewayConfig(port=0, flight_port=None), [LivePage(PageJobs(own_jobs))]) as gateway,
        opened(browser, gateway, f"&job={job.name}") as page,
    ):
        assert isinstance(job, RayJob)
        send(job, 3)
        job.snapshot()
        row = page.locator("[data-worker='1']")
        expect(row).to_have_attribute("data-state", "running", timeout=DEADLINE_MS)
        expect(page.locator("svg [data-scope='iterate/iterate']")).to_have_count(1)
        killed = job.pids[1]
        expect(row).to_contain_text(str(killed))
        page.evaluate(_NOTE_STATES)
        os.kill(killed, signal.SIGKILL)
        killed_at = time.time()
        took_s = {what: seen_at(page, what) - killed_at for what in ("worker dead", "job going back")}
        sys.stdout.write(f"seconds after kill -9: {took_s}\n")
        assert max(took_s.values()) < SOON_MS / 1000
        expect(page.locator(".log")).to_contain_text("worker 1 has died", timeout=SOON_MS)
        expect(page.locator("main")).to_have_attribute("data-state", "running", timeout=DEADLINE_MS)
        expect(row).to_have_attribute("data-state", "running", timeout=DEADLINE_MS)
        expect(row).not_to_contain_text(str(killed), timeout=DEADLINE_MS)
        for handle in job.handles("pairs"):
            handle.close()
        job.wait(DEADLINE_S)
        job.stop()
        soon(page, "main", "data-state", "complete")


@pytest.mark.long
def test_a_job_that_cannot_go_back_is_shown_as_failed(browser: Browser) -> None:
    """Its worker is dead on the page, and stays so."""
    with Gateway(GatewayConfig(port=0, flight_port=None), [LivePage(PageJobs(own_jobs))]) as gateway:
        job = tw.run(nested_flow("fails", keeps=False), workers=2)
        assert isinstance(job, RayJob)
        with opened(browser, gateway, f"&job={job.name}") as page:
            expect(page.locator("[data-worker='1']")).to_have_attribute("data-state", "running", timeout=DEADLINE_MS)
            os.kill(job.pids[1], signal.SIGKILL)
            soon(page, "main", "data-state", "failed")
            soon(page, "[data-finding='job']", "data-level", "bad")
            soon(page, "[data-worker='1']", "data-state", "dead")
            assert page.locator("[data-worker='0']").get_attribute("data-state") != "dead"
        job.stop()


@pytest.mark.long
def test_the_page_follows_a_job_of_another_process(browser: Browser, ray_cluster: str) -> None:
    """It appears, its rate changes, what its workers log is there without secrets; its end stays to be looked at."""
    with nothing_left(), serving(ray_cluster) as gateway:
        with opened(browser, gateway) as page:
            soon(page, "main", "data-jobs", "0")
            with DriverProcess(ray_cluster, "tests.ray.paged_program", "elsewhere") as driver:
                driver.wait_until_it_says("running")
                name = next(name for name in found_jobs() if name.startswith("elsewhere-"))
                job = page.locator(f"[data-job='{name}']")
                expect(job).to_have_attribute("data-state", "running", timeout=5 * SOON_MS)
                page.get_by_role("link", name=name).click()
                pairs = page.locator("[data-operator]", has_text="pairs").first
                assert eventually(lambda: 0 < float(pairs.get_attribute("data-rate") or 0) < 200, DEADLINE_S)
                driver.tell()
                assert eventually(lambda: float(pairs.get_attribute("data-rate") or 0) > 1000, DEADLINE_S)
                expect(page.locator("[data-loop='iterate/iterate'] [data-rounds]").first).to_be_visible(
                    timeout=DEADLINE_MS
                )
                warnings = page.locator("[data-logger='my.program']")
                expect(warnings).to_have_count(2, timeout=SOON_MS)
                expect(warnings.first).to_contain_text(re.compile(r"the first pair is .*secret_key=\*\*\*"))
                expect(warnings.first).to_contain_text(re.compile(r"warn.*, worker [01]"))
                driver.tell()
                expect(page.locator("main")).to_have_attribute("data-state", "complete", timeout=DEADLINE_MS)
                soon(page, "main", "data-connection", "ended")
                driver.ended(DEADLINE_S)
            page.reload()
            soon(page, "main", "data-state", "complete")
            page.get_by_role("link", name="Jobs").click()
            soon(page, f"[data-job='{name}']", "data-state", "complete")
            assert found_jobs() == []
        gateway.process.kill(signal.SIGTERM)
        gateway.process.ended(DEADLINE_S)


@pytest.mark.long
def test_a_job_whose_driver_is_killed_is_shown_as_lost(browser: Browser, ray_cluster: str) -> None:
    """Nobody says how it has ended; the page says that, and keeps what it had."""
    with serving(ray_cluster) as gateway, opened(browser, gateway) as page:
        with DriverProcess(ray_cluster, "tests.ray.paged_program", "orphan") as driver:
            driver.wait_until_it_says("running")
            page.get_by_role("link", name=re.compile("orphan-")).click(timeout=DEADLINE_MS)
            expect(page.locator("main")).to_have_attribute("data-state", "running", timeout=DEADLINE_MS)
            driver.kill(signal.SIGKILL)
        expect(page.locator("main")).to_have_attribute("data-state", "lost", timeout=DEADLINE_MS)
        expect(page.locator("[data-finding='job']")).to_be_visible()
        assert page.locator("[data-operator]").count() > 4
