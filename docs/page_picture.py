"""Writes docs/pictures/page.png: the live page of a job with a loop, one operator of which never returns a token.

Run it by hand, when the page looks different: ``python -m docs.page_picture``. It needs Chromium, as the tests of the
page do.
"""

import re
import threading
from pathlib import Path
from typing import Any

from playwright.sync_api import expect

import tidewheel as tw
from tests.browser.chromium import chromium, opened
from tidewheel.console import LivePage
from tidewheel.console.page.found_jobs import own_jobs
from tidewheel.console.page.page_jobs import PageJobs
from tidewheel.gateway import Gateway, GatewayConfig

PICTURE = Path(__file__).with_name("pictures") / "page.png"
SIZE = {"width": 1360, "height": 860}
LINKS = {"home": ["news", "shop"], "news": ["home"], "shop": ["cart"], "cart": ["shop"]}
KEPT_AT = 40
SOON_MS = 20_000


def reach() -> tw.Dataflow:
    """Return the loop of the README, with an operator that keeps the token of one epoch."""
    flow = tw.Dataflow("reach")

    def walk(visits: tw.Stream[Any]) -> tuple[tw.Stream[Any], tw.Stream[Any]]:
        new = visits.deduplicate()
        return new.flat_map(lambda visit: [(visit[0], page) for page in LINKS[visit[1][:4]]], name="follow"), new

    starts = flow.input("starts", str).map(lambda page: (page, page), name="start")
    starts.iterate(walk).unary(keeping, name="score").probe("scored").publish("reached")
    return flow


def keeping(context: tw.OperatorContext) -> Any:
    """Build an operator that passes everything on, and never returns the token of one epoch."""
    kept: list[tw.TimestampToken] = []

    def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
        for token, batch in input:
            if token.time == KEPT_AT and not kept:
                kept.append(token.retain())
            output.send(token, batch)

    return schedule


def main() -> None:
    """Feed the job until the page says what its probe waits for, and take the picture."""
    job, has_ended = tw.run(reach(), workers=2, engine="local"), threading.Event()

    def feed() -> None:
        with job.input("starts") as starts, tw.subscribe("reached") as reached:
            epoch = 0
            while not has_ended.wait(0.05):
                starts.send([f"{page}-{epoch}" for page in LINKS])
                epoch += 1
                starts.advance_to(epoch)
                reached.poll()

    feeding = threading.Thread(target=feed)
    feeding.start()
    try:
        with (
            Gateway(GatewayConfig(port=0, flight_port=None), [LivePage(PageJobs(own_jobs))]) as gateway,
            chromium() as browser,
            opened(browser, gateway, f"&job={job.name}", viewport=SIZE) as page,
        ):
            score = page.locator("[data-operator]", has_text="score")
            expect(score).to_have_attribute("data-holds", re.compile("scored"), timeout=SOON_MS)
            page.get_by_role("button", name="scored", exact=True).click()
            expect(page.locator("[data-details] [data-explanation]")).to_contain_text("token leaked", timeout=SOON_MS)
            page.evaluate("scrollTo(0, 0)")
            page.screenshot(path=str(PICTURE))
    finally:
        has_ended.set()
        feeding.join()
        job.stop()


if __name__ == "__main__":
    main()
