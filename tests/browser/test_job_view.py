"""The page of a job in a browser shows each change within two seconds: attributes are compared, not pixels."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.chromium import SOON_MS, needs_chromium, opened, soon
from tests.browser.demo import EXPLANATION, NAME, RATE, routes
from tests.kit.gateway.paged import HandJobs, paged
from tests.kit.telemetry.documents import BEGAN_AT
from tidewheel.gateway import Gateway
from tidewheel.progress import TidewheelError

pytestmark = needs_chromium

HELD = {
    "operators": {
        "4": {"frontier": ["(3, 1)"], "tokens": [{"time": "3", "count": 2, "worker": 1, "since": BEGAN_AT + 1}]}
    },
    "probes": {
        "done": {"frontier": ["3"], "moved": BEGAN_AT + 1, "explanation": EXPLANATION, "holders": ["4"]},
    },
}
"""The change by which an operator of the inner loop keeps two tokens."""

COLOUR = "rectangle => getComputedStyle(rectangle).fill"


@pytest.fixture
def jobs() -> Iterator[HandJobs]:
    """A job that has run for two seconds."""
    made = HandJobs()
    made.put(routes(1), routes(2))
    yield made
    for name in made.find():
        made.end(name)


@pytest.fixture
def gateway(jobs: HandJobs) -> Iterator[Gateway]:
    """Its page."""
    with paged(jobs) as running:
        yield running


@pytest.fixture
def page(browser: Browser, gateway: Gateway) -> Iterator[Page]:
    """The page in a browser, once it shows the job."""
    with opened(browser, gateway, f"&job={NAME}", viewport={"width": 1400, "height": 1000}) as found:
        soon(found, "main", "data-moment", f"{BEGAN_AT + 2:.0f}")
        yield found


def put(jobs: HandJobs, second: int, changes: dict[str, Any] | None = None) -> None:
    jobs.put(routes(second, changes))


def test_a_rate_that_changes(page: Page, jobs: HandJobs) -> None:
    """At the operator, on its edge and in the table."""
    soon(page, "[data-operator='2']", "data-rate", f"{RATE / 2:.0f}")
    soon(page, "[data-edge='0']", "data-rate", f"{RATE}")
    assert page.locator(".frame").evaluate("frame => [frame.scrollLeft, frame.scrollTop]") == [0, 0]
    put(
        jobs,
        3,
        {"operators": {"2": {"records_in": RATE + 2200}}, "edges": {"0": {"records": 2 * RATE + 50, "fill": 0.95}}},
    )
    soon(page, "[data-operator='2']", "data-rate", "2200")
    soon(page, "[data-edge='0']", "data-rate", "50")
    soon(page, "[data-edge='0']", "data-level", "4")
    expect(page.locator("[data-row='2']")).to_contain_text("2.2k/s", timeout=SOON_MS)
    expect(page.locator("[data-operator='2'] .rate")).to_have_text("2.2k/s")


def test_sources_and_sinks(page: Page, jobs: HandJobs) -> None:
    """How far a source is behind, in its units, and what a sink has committed."""
    source = {"operator": "0", "partitions": 3, "records": 0, "lag_records": 1200, "lag_bytes": 5000}
    sink = {"operator": "7", "records": 0, "epochs": 7, "waiting": 2, "committed": BEGAN_AT - 2}
    changes = {"sources": {"tides": source}, "sinks": {"high": sink}}
    put(jobs, 3, changes)
    changes["sources"]["tides"]["records"] = 40
    put(jobs, 4, changes)
    expect(page.locator("[data-source='tides'] td")).to_have_text(
        ["tides", "3", "40/s", "1.2k records · 5 kB"], timeout=SOON_MS
    )
    expect(page.locator("[data-sink='high'] td")).to_have_text(["high", "0/s", "7", "2", "6 s ago"])


@pytest.mark.parametrize("state", ["complete", "failed"])
def test_after_the_end_nothing_runs(page: Page, jobs: HandJobs, state: str) -> None:
    """No worker, no input, and no rate is said to go on."""
    ended = {str(number): {"state": "ended"} for number in range(2)}
    put(jobs, 3, {"job": {"state": state}, "workers": ended, "inputs": {"edges": {"is_open": False}}})
    soon(page, "main", "data-state", state)
    soon(page, "[data-worker='0']", "data-state", "ended")
    soon(page, "[data-input='edges']", "data-open", "false")
    expect(page.locator("[data-input='edges'] td").last).to_have_text("closed")
    shown = page.locator("body").inner_text()
    assert "running" not in shown
    assert not re.search(r"\d/s", page.locator(".tables").inner_text())


def test_a_job_whose_driver_is_gone_is_lost_with_its_workers(page: Page, jobs: HandJobs) -> None:
    """What its inputs do is not known."""
    jobs.end(NAME, TidewheelError("the driver is gone"))
    soon(page, "main", "data-state", "lost")
    soon(page, "[data-worker='1']", "data-state", "lost")
    expect(page.locator("[data-input='edges'] td").last).to_have_text("not known")


@pytest.mark.parametrize("width", [1280, *(pytest.param(width, marks=pytest.mark.long) for width in (1440, 1920))])
def test_a_wide_page_is_used(page: Page, width: int) -> None:
    """No table but a narrow one scrolls sideways, the tables are as wide as the page, and the graph is in sight."""
    page.set_viewport_size({"width": width, "height": 900})
    page.reload()
    soon(page, "main", "data-moment", f"{BEGAN_AT + 2:.0f}")
    scrolling = "tables => tables.filter(t => t.scrollWidth > t.clientWidth + 1).map(t => t.ariaLabel)"
    assert page.locator(".scroll").evaluate_all(scrolling) == []
    right = "parts => Math.max(...parts.map(part => part.getBoundingClientRect().right))"
    assert page.locator(".tables > *").evaluate_all(right) == page.locator(".head").evaluate_all(right)
    frame, svg = (page.locator(f".frame{part}").bounding_box() for part in ("", " svg"))
    assert frame is not None
    assert svg is not None
    assert svg["y"] + svg["height"] <= frame["y"] + frame["height"] + 1 <= 900


def test_a_leaked_token(page: Page, jobs: HandJobs) -> None:
    """The operator is lit, and a click on the probe shows the words of `explain`."""
    put(jobs, 5, HELD)
    soon(page, "[data-operator='4']", "data-holds", "done")
    soon(page, "[data-operator='4']", "data-lag", "2")
    soon(page, "[data-finding='waits-done']", "data-level", "warn")
    page.get_by_role("button", name="done", exact=True).click()
    soon(page, "[data-operator='4']", "data-lit", "")
    soon(page, "[data-operator='7']", "data-lit", "")
    expect(page.locator("[data-details='probe'] [data-explanation]")).to_have_text(EXPLANATION)
    page.locator("[data-details='probe']").get_by_role("button", name="search").click()
    soon(page, "[data-token='3']", "data-awaited", "false")
    soon(page, "[data-operator='4']", "aria-pressed", "true")
    put(jobs, 6)
    expect(page.locator("[data-operator='4'][data-holds]")).to_have_count(0, timeout=SOON_MS)


def test_tokens_that_were_dropped(page: Page, jobs: HandJobs) -> None:
    """Tokens that the garbage collector found: a defect of the operator."""
    put(jobs, 3, {"operators": {"4": {"leaks": 2}}})
    soon(page, "[data-operator='4']", "data-leaks", "2")
    expect(page.locator("[data-finding='leak-4']")).to_have_text("search has leaked 2 tokens", timeout=SOON_MS)


def test_a_slow_subscriber(page: Page, jobs: HandJobs) -> None:
    """In the table of topics, and as something to look at."""
    soon(page, "[data-topic='ranks']", "data-lag", "0")
    behind = {"subscribers": 1, "lag_messages": 400, "lag_bytes": 3_000_000, "holders": 1}
    put(jobs, 3, {"topics": {"ranks": {"partitions": {"1": behind}}}})
    soon(page, "[data-topic='ranks']", "data-lag", "400")
    soon(page, "[data-finding='slow-ranks']", "data-level", "warn")
    page.locator("[data-finding='slow-ranks'] button").click()
    soon(page, "[data-details='topic'] [data-partition='1']", "data-lag", "400")


def test_a_worker_that_was_killed(page: Page, jobs: HandJobs) -> None:
    """Its row, and the job goes back."""
    soon(page, "[data-worker='1']", "data-state", "running")
    put(jobs, 3, {"workers": {"1": {"state": "dead"}}, "job": {"state": "going back"}})
    soon(page, "[data-worker='1']", "data-state", "dead")
    soon(page, "[data-finding='dead-1']", "data-level", "bad")
    soon(page, "main", "data-state", "going back")


def test_the_end_of_a_job(page: Page, jobs: HandJobs) -> None:
    """It stays to be looked at, with its error."""
    put(jobs, 3, {"job": {"state": "failed", "error": "ValueError in 'search' on worker 1 at time 3\n  traceback"}})
    jobs.end(NAME)
    soon(page, "main", "data-state", "failed")
    soon(page, "main", "data-connection", "ended")
    page.locator("[data-finding='job'] button").click()
    expect(page.locator("[data-details='error'] pre")).to_contain_text("traceback")
    page.reload()
    soon(page, "main", "data-state", "failed")


def test_an_operator_shows_its_history_tokens_and_edges(page: Page, jobs: HandJobs) -> None:
    """From the time before the browser came, and what comes meanwhile."""
    page.locator("[data-operator='4']").click()
    soon(page, "[data-details='operator']", "data-key", "4")
    soon(page, ".charts", "data-moments", "2")
    put(jobs, 3)
    soon(page, ".charts", "data-moments", "3")
    assert page.locator(".charts canvas").count() >= 3
    page.locator("[data-details='operator']").get_by_role("button", name="leave").click()
    soon(page, "[data-details='operator']", "data-key", "5")
    page.get_by_role("button", name="Close the details").click()
    expect(page.locator("[data-details]")).to_have_count(0)


def test_loops_show_rounds_and_how_many_epochs_took(page: Page, jobs: HandJobs) -> None:
    """Both loops, the inner one by its path."""
    soon(page, "[data-loop='outer'] [data-epoch='2']", "data-round", "4")
    soon(page, "[data-loop='outer'] [data-rounds='4']", "data-epochs", "12")
    soon(page, "[data-loop='outer/inner'] [data-rounds='1']", "data-epochs", "40")
    put(jobs, 3, {"loops": {"outer": {"rounds": {"2": 17}}}})
    soon(page, "[data-loop='outer'] [data-epoch='2']", "data-round", "17")
    soon(page, "[data-scope='outer']", "data-rounds", "17")


def test_the_keyboard_reaches_everything(page: Page) -> None:
    """The graph is one stop, in which arrows move; Enter selects, and the label says what is seen."""
    page.locator("[data-operator='0']").focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator("[data-operator='1']")).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(page.locator("[data-operator='5']")).to_be_focused()
    expect(page.locator("[data-operator='5']")).to_have_accessible_name(
        "leave, 200 records a second, busy 25 %, frontier (2, 1)"
    )
    page.keyboard.press("Enter")
    soon(page, "[data-details='operator']", "data-key", "5")
    assert page.locator("svg [tabindex='0']").count() == 1


def test_a_graph_that_is_far_away_has_colours_and_numbers_on_demand(page: Page, jobs: HandJobs) -> None:
    """Boxes are coloured by their busy share; the numbers of one appear where the pointer or the focus is."""
    hint = page.locator(".hint")
    put(jobs, 3, {"operators": {"4": {"seconds": 2.5}}})
    soon(page, "[data-operator='4']", "data-heat", "4")
    page.locator("[data-operator='4']").hover()
    expect(hint).to_be_hidden()  # the numbers are in the box
    for _ in range(6):
        page.get_by_role("button", name="Zoom out").click()
    assert page.locator(".frame svg").get_attribute("data-far") == "names"
    expect(page.locator("[data-operator='4'] .rate")).to_be_hidden()
    fills = [page.locator(f"[data-operator='{number}'] > rect").first.evaluate(COLOUR) for number in (0, 3, 4)]
    assert len(set(fills)) == 3, fills
    page.locator("[data-operator='4']").hover()
    expect(hint).to_contain_text("search")
    expect(hint).to_contain_text("records a second")
    expect(hint).to_contain_text("busy 85 %")
    put(jobs, 4, {"operators": {"4": {"seconds": 2.5, "frontier": ["(4, 7)"]}}})
    expect(hint).to_contain_text("frontier (4, 7)", timeout=SOON_MS)
    page.mouse.move(0, 0)
    expect(hint).to_be_hidden()


def test_the_keyboard_reads_and_zooms_a_graph_that_is_far_away(page: Page, jobs: HandJobs) -> None:
    """Arrows move on, the hint goes with the focus, Escape hides it, and + brings the operator near."""
    hint = page.locator(".hint")
    put(jobs, 3, {"operators": {"5": {"leaks": 2}}})
    soon(page, "[data-operator='5']", "data-leaks", "2")
    page.locator("[data-operator='4']").focus()
    page.keyboard.press("0")
    for _ in range(5):
        page.keyboard.press("-")
    expect(hint).to_have_attribute("data-of", "4")
    page.keyboard.press("ArrowRight")
    expect(hint).to_have_attribute("data-of", "5")
    expect(hint).to_contain_text("has leaked 2 tokens")
    expect(page.locator("[data-operator='5']")).to_have_accessible_name(re.compile("leave, .*has leaked 2 tokens"))
    page.keyboard.press("Escape")
    expect(hint).to_be_hidden()
    for _ in range(8):
        page.keyboard.press("+")
    expect(page.locator("[data-operator='5'] .rate")).to_be_visible()
    expect(page.locator("[data-operator='5']")).to_be_in_viewport()


def test_lines_of_the_log_say_where_they_are_from(page: Page, jobs: HandJobs) -> None:
    """An error that an operator has logged marks the operator."""
    line = {"at": BEGAN_AT, "level": "error", "text": "no <b>answer</b>", "logger": "my.program"}
    put(jobs, 3, {"log": {"7": {**line, "worker": "1", "operator": "relax > search"}}})
    soon(page, "[data-entry='7']", "data-level", "error")
    expect(page.locator("[data-entry='7']")).to_contain_text("no <b>answer</b>")
    expect(page.locator("[data-entry='7']")).to_contain_text("relax > search, worker 1, my.program")
    soon(page, "[data-operator='4']", "data-error", "")
    page.locator("[data-operator='4']").click()
    expect(page.locator("[data-details] .log")).to_contain_text("no <b>answer</b>")


def test_the_connection_is_made_again(browser: Browser, jobs: HandJobs, gateway: Gateway) -> None:
    """A browser whose connection breaks says so, and goes on with a whole document."""
    disconnected = "net::ERR_INTERNET_DISCONNECTED"  # said by the browser if the page tries again before it can
    with opened(browser, gateway, f"&job={NAME}", may_say=disconnected) as page:
        soon(page, "main", "data-connection", "live")
        page.context.set_offline(True)
        jobs.shown.page(NAME).stop()
        soon(page, "main", "data-connection", "waiting")
        jobs.shown.page(NAME).is_stopped = False
        put(jobs, 9)
        page.context.set_offline(False)
        expect(page.locator("main")).to_have_attribute("data-moment", f"{BEGAN_AT + 9:.0f}", timeout=3 * SOON_MS)


def test_operators_are_filtered_and_sorted(page: Page) -> None:
    """By name and scope, and by each column."""
    rows = page.locator("[data-row]")
    expect(rows).to_have_count(8)
    page.get_by_label("Filter operators").fill("outer/inner")
    expect(rows).to_have_count(2)
    page.get_by_label("Filter operators").fill("")
    page.get_by_role("columnheader", name="Busy").get_by_role("button").click()
    expect(rows.first).to_have_attribute("data-row", "7")
    page.get_by_role("columnheader", name="Busy").get_by_role("button").click()
    expect(rows.first).to_have_attribute("data-row", "0")
