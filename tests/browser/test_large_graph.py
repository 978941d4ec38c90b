"""The page of a job with 2,000 operators on 64 workers: each frame is short, and memory is bounded."""

from typing import Any

import psutil
import pytest
from playwright.sync_api import Browser, CDPSession

from tests.browser.chromium import needs_chromium, opened
from tests.kit.gateway.paged import HandJobs, paged, picture
from tests.kit.telemetry.documents import BEGAN_AT, document, edge, operator, worker

pytestmark = [needs_chromium, pytest.mark.long]

OPERATORS, WORKERS, SECONDS = 2000, 64, 12
MOST_MS_A_FRAME = 100
MOST_BYTES = 200 << 20
OBSERVE = """
window.frames = 0;
const note = () => { window.frames += 1; requestAnimationFrame(note); };
requestAnimationFrame(note);
"""


def large(second: int, drawn: str) -> dict[str, Any]:
    """Return a job all of whose numbers change each second."""
    operators = {
        str(number): operator(
            f"operator {number}",
            kind="input" if number == 0 else "operator",
            frontier=[str(second - number % 3)],
            records_in=(1000 + 7 * number) * second + number * second * second,
            records_out=(900 + 5 * number) * second + number * second * second,
            seconds=0.3 * second + 0.01 * ((number * second) % 7),
            queue=(number * second) % 11,
        )
        for number in range(OPERATORS)
    }
    edges = {
        str(number): edge(
            str(number - number % 4 if number % 4 else number - 4),
            str(number),
            records=(1000 + 3 * number) * second + number * second * second,
            bytes=8000 * second,
            fill=((number * second) % 100) / 100,
        )
        for number in range(4, OPERATORS)
    }
    workers = {
        str(number): worker(steps=(50 + number) * second * second, cpu_seconds=0.5 * second, rss=(100 + second) << 20)
        for number in range(WORKERS)
    }
    name = "large-1"
    made = document(at=BEGAN_AT + second, name=name, job={"workers": WORKERS}, operators=operators, edges=edges)
    return {**made, "workers": workers, "picture": drawn or picture(operators, edges, columns=40)}


def _busy_s(watched: CDPSession) -> float:
    """Return the processor time that the main thread of the page has had, in seconds."""
    found = watched.send("Performance.getMetrics")["metrics"]
    return float(next(metric["value"] for metric in found if metric["name"] == "TaskDuration"))


@pytest.mark.parametrize("how", ["as it opens", "all in sight"])
def test_frames_are_short_and_memory_is_bounded(browser: Browser, how: str) -> None:
    """With all numbers changing each second; also where the whole graph is in sight, and the table is sorted.

    It is the processor time of the main thread, for a frame on average: other programs delay single frames.
    """
    jobs = HandJobs()
    first = large(1, "")
    jobs.put(first)
    with paged(jobs) as gateway, opened(browser, gateway, "&job=large-1&show=operator:7", bypass_csp=True) as page:
        page.locator(".frame svg").wait_for(timeout=20_000)
        page.locator(".charts").wait_for()
        if how == "all in sight":
            page.get_by_role("button", name="Fit all").click()
            page.get_by_role("columnheader", name="Busy").get_by_role("button").click()
        watched = page.context.new_cdp_session(page)
        watched.send("Performance.enable", {"timeDomain": "threadTicks"})
        page.evaluate(OBSERVE)
        before_s = _busy_s(watched)
        for second in range(2, SECONDS):
            jobs.put(large(second, first["picture"]))
            page.locator(f"main[data-moment='{BEGAN_AT + second:.0f}']").wait_for(timeout=20_000)
            page.evaluate("new Promise(done => requestAnimationFrame(() => setTimeout(done, 100)))")
        busy_ms, frames = 1000 * (_busy_s(watched) - before_s), page.evaluate("window.frames")
        watched.send("HeapProfiler.collectGarbage")
        private = max(
            process.memory_full_info().uss
            for process in psutil.Process().children(recursive=True)
            if "--type=renderer" in process.cmdline()
        )
        shown = page.locator("[data-operator][data-rate]").count()
        jobs.end("large-1")
    measured = f"{busy_ms:.0f} ms for {frames} frames, {private >> 20} MB, {shown} operators"
    assert busy_ms / frames < MOST_MS_A_FRAME, measured
    assert private < MOST_BYTES, measured
    assert shown >= (OPERATORS if how == "all in sight" else 8), measured
