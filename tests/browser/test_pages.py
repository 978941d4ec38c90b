"""The list of jobs, the token, phones, and what an audit of accessibility finds."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from tests.browser.chromium import SOON_MS, needs_chromium, opened, soon
from tests.browser.demo import NAME, routes
from tests.browser.test_job_view import HELD
from tests.kit.gateway.paged import HandJobs, paged
from tests.kit.gateway.served import published
from tests.kit.pubsub.local_job import send_epoch
from tests.kit.telemetry.documents import BEGAN_AT, document, operator, worker
from tests.waiting import WITHIN_S, eventually
from tidewheel.gateway import Gateway

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
        expect(page).to_have_title(f"{NAME} · tidewheel")
        page.get_by_role("link", name="Jobs").click()
        soon(page, "main", "data-view", "jobs")


def test_two_jobs_in_two_tabs_do_not_mix(browser: Browser, gateway: Gateway, jobs: HandJobs) -> None:
    """Each shows its own job, also one in which no operator is busy and no number changes."""
    with opened(browser, gateway, f"&job={NAME}") as one, opened(browser, gateway, "&job=words-1") as other:
        soon(one, "main", "data-moment", f"{BEGAN_AT + 5:.0f}")
        soon(other, "main", "data-moment", f"{BEGAN_AT:.0f}")
        jobs.put(document(name="words-1", at=BEGAN_AT + 1), routes(6))
        soon(other, "main", "data-moment", f"{BEGAN_AT + 1:.0f}")
        soon(one, "main", "data-moment", f"{BEGAN_AT + 6:.0f}")
        expect(other.locator("[data-row]")).to_have_count(2)
        expect(other.locator("[data-row='1']")).to_contain_text("0/s")
        assert other.locator("[data-heat], [data-finding]").count() == 0
        expect(one.locator("[data-row]")).to_have_count(8)
        assert (one.title(), other.title()) == (f"{NAME} · tidewheel", "words-1 · tidewheel")


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
        '<svg xmlns="http://www.w3.org/2000/svg" width="200" height="80" onload="document.title=1">\n'
        '<script>document.title=1</script>\n<a href="javascript:document.title=1"><text>no</text></a>\n'
        '<g data-operator="0" onclick="document.title=1"><rect x="5" y="5" width="160" height="64"/></g>\n</svg>'
    )
    waits = {"operator": "0", "frontier": [evil], "moved": 1.0, "explanation": evil, "holders": ["0"]}
    jobs.put(
        document(
            name=evil,
            picture=drawn,
            job={"error": evil, "notes": [evil], "host": evil},
            operators={
                "0": operator(evil, scope=evil, leaks=1, tokens=[{"time": evil, "count": 1, "worker": 0, "since": 1}])
            },
            probes={evil: {**waits, "kind": "probe"}, f"{evil}2": {**waits, "kind": "topic"}},
            topics={f"{evil}2": {"operator": "0", "delivery": evil, "partitions": {"0": {"records": 1}}}},
            loops={evil: {"rounds": {evil: 3}, "epochs": 1, "ended": {"2": 1}}},
            workers={"0": worker(node=evil, busy={"operator": "0", "seconds": 2.0, "time": evil})},
            snapshots={"folder": evil},
            log={"1": {"at": 1, "level": "error", "text": evil, "operator": evil, "logger": evil}},
        )
    )
    with opened(browser, gateway, may_say="Content Security Policy") as page:  # the policy refuses the handlers aloud
        page.get_by_role("link", name=evil).click()
        soon(page, "[data-operator='0']", "data-kind", "operator")
        page.locator("[data-operator='0']").click()
        expect(page.locator("[data-details='operator'] h2")).to_contain_text(evil)
        for _ in range(6):
            page.get_by_role("button", name="Zoom out").click()
        page.locator("[data-operator='0']").focus()
        expect(page.locator(".hint b")).to_have_text(evil)
        assert (
            page.locator("main img, main script, main a[href^='javascript'], svg a, [onload], [onclick]").count() == 0
        )
        expect(page).to_have_title(f"{evil} · tidewheel")


def test_a_topic_has_a_live_tail(browser: Browser, gateway: Gateway) -> None:
    """As the gateway streams it to any browser."""
    with published("ranks") as running, opened(browser, gateway, f"&job={NAME}&show=topic:ranks") as page:
        page.get_by_role("button", name="Show", exact=True).click()
        running.wait_for_subscribers(1, WITHIN_S)
        send_epoch(running, 0, [("a", 1)])
        expect(page.locator(".tail li").first).to_contain_text('0 ["a",1]', timeout=SOON_MS)
        page.get_by_role("button", name="Stop", exact=True).click()
        assert eventually(lambda: gateway.clients == 0)


@pytest.mark.parametrize(
    ("fragment", "shown", "scheme"),
    [
        ("", "[data-jobs]", "light"),
        pytest.param("", "[data-jobs]", "dark", marks=pytest.mark.long),
        (f"&job={NAME}&show=operator:4", ".charts", "dark"),
        pytest.param(f"&job={NAME}&show=operator:4", ".charts", "light", marks=pytest.mark.long),
        (f"&job={NAME}&show=topic:ranks", ".graph svg", "light"),
        pytest.param(f"&job={NAME}&show=topic:ranks", ".graph svg", "dark", marks=pytest.mark.long),
    ],
)
def test_the_audit_finds_nothing_serious(
    browser: Browser, gateway: Gateway, fragment: str, shown: str, scheme: str
) -> None:
    """In both colour schemes, with something to look at."""
    with opened(browser, gateway, fragment, color_scheme=scheme, bypass_csp=True) as page:
        page.locator(shown).first.wait_for()
        assert serious(page) == []


def test_a_server_that_starts_again_is_found_again(browser: Browser, jobs: HandJobs) -> None:
    """With its token the page goes on by itself, and meanwhile it shows what it had; with another one it asks."""
    token = "the-token-of-both-servers"
    with paged(jobs, token=token) as first:
        context = browser.new_context()
        page = context.new_page()
        page.goto(f"{first.page_url}&job={NAME}")
        soon(page, "main", "data-connection", "live")
    try:
        port = int(first.url.rpartition(":")[2])
        soon(page, "main", "data-connection", "waiting")
        expect(page.locator("[data-operator='4']")).to_have_attribute("data-holds", "done")
        jobs.end(NAME)
        jobs.put(routes(8))
        with paged(jobs, token=token, port=port):
            expect(page.locator("main")).to_have_attribute("data-connection", "live", timeout=5 * SOON_MS)
            expect(page.locator("main")).to_have_attribute("data-moment", f"{BEGAN_AT + 8:.0f}")
        with paged(jobs, token="another-token-than-before", port=port):
            expect(page.locator("main")).to_have_attribute("data-view", "token", timeout=5 * SOON_MS)
    finally:
        context.close()


def test_a_page_that_loads_says_so(browser: Browser, gateway: Gateway) -> None:
    """Before its scripts have come, and before the gateway has told of a job."""
    waiting: list[Route] = []

    def hold(route: Route) -> None:
        waiting.append(route)

    with opened(browser, gateway, "&job=unheard-of", may_say="404") as page:
        expect(page.get_by_role("status").first).to_contain_text("Loading unheard-of")
        page.route("**/page/main.js", hold)
        page.reload(wait_until="commit")
        expect(page.get_by_role("status")).to_have_text("Loading the page")
        expect(page.locator(".mark")).to_have_text("tidewheel")
        waiting.pop().continue_()
        expect(page.get_by_role("status").first).to_contain_text("Loading unheard-of")


def test_a_phone_shows_all_without_scrolling_sideways(browser: Browser, gateway: Gateway) -> None:
    """The graph and tables scroll by themselves."""
    with opened(browser, gateway, f"&job={NAME}&show=operator:4", viewport=PHONE) as page:
        page.locator(".charts canvas").first.wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
