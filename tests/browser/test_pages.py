"""The list of jobs, the token, phones, and what an audit of accessibility finds."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.chromium import SOON_MS, needs_chromium, opened, soon
from tests.browser.demo import NAME, routes
from tests.browser.test_job_view import HELD
from tests.kit.gateway.paged import HandJobs, paged
from tests.kit.gateway.served import published
from tests.kit.pubsub.local_job import send_epoch
from tests.kit.telemetry.documents import document
from tests.waiting import eventually
from tidewheel.pubsub.gateway import Gateway

pytestmark = needs_chromium

AXE = Path(__file__).parent / "vendor" / "axe.min.js"
PHONE = {"width": 390, "height": 844}


@pytest.fixture
def jobs() -> Iterator[HandJobs]:
    """Two jobs: one with something to look at, and a small one."""
    made = HandJobs()
    made.put(routes(4), routes(5, HELD), document(name="words-1"))
    yield made
    for name in made.find():
        made.end(name)


@pytest.fixture
def gateway(jobs: HandJobs) -> Iterator[Gateway]:
    """Their page."""
    with paged(jobs) as running:
        yield running


def serious(page: Page) -> list[str]:
    """Return what axe-core finds that is serious or critical."""
    page.add_script_tag(path=AXE)
    found: dict[str, Any] = page.evaluate("axe.run()")
    return [
        f"{violation['id']}: {violation['nodes'][0]['html'][:120]}"
        for violation in found["violations"]
        if violation["impact"] in {"serious", "critical"}
    ]


def test_jobs_are_listed_and_open(browser: Browser, gateway: Gateway, jobs: HandJobs) -> None:
    """Those that run, and those that have ended; a new one appears by itself."""
    with opened(browser, gateway) as page:
        soon(page, "main", "data-jobs", "2")
        soon(page, f"[data-job='{NAME}']", "data-state", "running")
        jobs.put(document(name="late-1", state="complete"))
        jobs.end("late-1")
        jobs.put(document(name="new-1"))
        soon(page, "[data-job='new-1']", "data-state", "running")
        page.get_by_role("link", name=NAME).click()
        soon(page, "main", "data-job", NAME)
        assert page.title() == f"{NAME} · tidewheel"
        page.get_by_role("link", name="Jobs").click()
        soon(page, "main", "data-view", "jobs")


def test_the_token_leaves_the_address(browser: Browser, gateway: Gateway) -> None:
    """A reload works without it; another tab has to have it."""
    with opened(browser, gateway, f"&job={NAME}") as page:
        soon(page, "main", "data-job", NAME)
        assert str(gateway.token) not in page.url
        page.reload()
        soon(page, "main", "data-connection", "live")


def test_without_the_token_the_page_asks_for_it(browser: Browser, gateway: Gateway) -> None:
    """And shows the jobs once it has it."""
    context = browser.new_context()
    try:
        page = context.new_page()
        page.goto(f"{gateway.url}/")
        soon(page, "main", "data-view", "token")
        page.get_by_label("Token").fill("wrong")
        page.get_by_role("button", name="Show jobs").click()
        expect(page.get_by_role("alert")).to_contain_text("the token is wrong", timeout=SOON_MS)
        page.get_by_label("Token").fill(str(gateway.token))
        page.get_by_role("button", name="Show jobs").click()
        soon(page, "main", "data-view", "jobs")
    finally:
        context.close()


def test_scripts_in_a_picture_or_a_name_do_nothing(browser: Browser, gateway: Gateway, jobs: HandJobs) -> None:
    """A job is not trusted more than a web page."""
    evil = '<img src=x onerror="document.title=1">'
    drawn = (
        '<svg xmlns="http://www.w3.org/2000/svg" width="200" height="80" onload="document.title=1">'
        '<script>document.title=1</script><a href="javascript:document.title=1"><text>no</text></a>'
        '<g data-operator="0" onclick="document.title=1"><rect x="5" y="5" width="160" height="64"/></g></svg>'
    )
    jobs.put(
        document(name=evil, picture=drawn, job={"error": evil}, log={"1": {"at": 1, "level": "error", "text": evil}})
    )
    with opened(browser, gateway, may_complain=True) as page:  # the policy refuses the handlers aloud
        page.get_by_role("link", name=evil).click()
        soon(page, "[data-operator='0']", "data-kind", "input")
        page.locator("[data-operator='0']").click()
        assert (
            page.locator("main img, main script, main a[href^='javascript'], svg a, [onload], [onclick]").count() == 0
        )
        assert page.title() == f"{evil} · tidewheel"


def test_a_topic_has_a_live_tail(browser: Browser, gateway: Gateway) -> None:
    """As the gateway streams it to any browser."""
    with published("ranks") as running, opened(browser, gateway, f"&job={NAME}&show=topic:ranks") as page:
        page.get_by_role("button", name="Show", exact=True).click()
        assert eventually(lambda: gateway.clients == 1)
        send_epoch(running, 0, [("a", 1)])
        expect(page.locator(".tail li").first).to_contain_text('0 ["a",1]', timeout=SOON_MS)
        page.get_by_role("button", name="Stop", exact=True).click()
        assert eventually(lambda: gateway.clients == 0)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(
    ("fragment", "shown"),
    [("", "[data-jobs]"), (f"&job={NAME}&show=operator:4", ".charts"), (f"&job={NAME}&show=topic:ranks", ".graph svg")],
)
def test_the_audit_finds_nothing_serious(
    browser: Browser, gateway: Gateway, scheme: str, fragment: str, shown: str
) -> None:
    """In both colour schemes, with something to look at."""
    with opened(browser, gateway, fragment, color_scheme=scheme, bypass_csp=True) as page:
        page.locator(shown).first.wait_for()
        assert serious(page) == []


def test_a_phone_shows_all_without_scrolling_sideways(browser: Browser, gateway: Gateway) -> None:
    """The graph and tables scroll by themselves."""
    with opened(browser, gateway, f"&job={NAME}&show=operator:4", viewport=PHONE) as page:
        page.locator(".charts canvas").first.wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
