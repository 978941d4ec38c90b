"""The view of a job, and of a chart, in the cell of a notebook: the module in a browser, with the widget's messages."""

import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.chromium import SOON_MS, needs_chromium
from tests.browser.demo import EXPLANATION, NAME, routes, run_for_two_seconds
from tests.browser.test_job_view import HELD
from tests.kit.gateway.paged import HandJobs
from tests.kit.notebook.followed import Followed
from tests.kit.notebook.kernel import feeds, kernel, wire
from tests.waiting import eventually
from tidewheel.console.notebook.live_widget import LiveWidget
from tidewheel.console.notebook.plot import PlotPage
from tidewheel.console.page.job_page import JobPage

pytestmark = needs_chromium

HOST = "http://notebook.test/"
BODY = """<!doctype html><title>notebook</title>
<style>button { background: rgb(1, 2, 3) !important; } body { margin: 20px; }</style>
<button id="theirs">Run</button><div id="cell"></div>"""
"""A notebook with a style of its own."""

OPEN = """async ({ state }) => {
  const url = URL.createObjectURL(new Blob([state._esm], { type: "text/javascript" }));
  const { default: made } = await import(url);
  const heard = new Set();
  window.told = [];
  window.tell = (message) => [...heard].forEach((hear) => hear(message));
  const model = {
    get: (name) => state[name],
    on: (_, hear) => heard.add(hear),
    off: (_, hear) => heard.delete(hear),
    send: (message) => window.told.push(message),
  };
  window.leave = made.render({ model, el: document.getElementById("cell") });
  window.hearers = heard;
}"""
"""The part of anywidget's work with a model that the module uses."""


class Notebook:
    """A widget whose messages go to a page, and back."""

    def __init__(self, page: Page, widget: LiveWidget) -> None:
        self.page, self.widget = page, widget
        self._passed = 1
        self.problems: list[str] = []
        self.requests: list[str] = []
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("request", lambda request: self.requests.append(request.url))
        page.route(HOST, lambda route: route.fulfill(body=BODY, content_type="text/html"))
        page.clock.install()
        page.goto(HOST)
        page.evaluate(OPEN, {"state": {**wire(widget).sent[0]["state"]}})

    def pass_on(self) -> None:
        """Pass on all messages of both sides."""
        connection = wire(self.widget)
        for message in connection.sent[self._passed :]:
            self._passed += 1
            if message.get("method") == "custom":
                self.page.evaluate("(message) => window.tell(message)", json.loads(json.dumps(message["content"])))
        for message in self.page.evaluate("window.told.splice(0)"):
            connection.hear(message)

    def until(self, condition: Callable[[], bool]) -> None:
        """Pass messages on until a condition holds."""

        def passed() -> bool:
            self.pass_on()
            return condition()

        assert eventually(passed)

    def has(self, selector: str, attribute: str, value: str) -> None:
        """Pass messages on until an element has an attribute."""
        found = self.page.locator(selector).first
        self.until(lambda: found.count() > 0 and found.get_attribute(attribute) == value)


@pytest.fixture
def jobs() -> HandJobs:
    """A job that has run for two seconds."""
    return run_for_two_seconds()


@pytest.fixture
def notebook(browser: Browser, jobs: HandJobs) -> Iterator[Callable[..., Notebook]]:
    """Opens a widget in a notebook; afterwards nothing was asked of any server, and nothing is left."""
    context = browser.new_context(viewport={"width": 1500, "height": 1000})
    opened: list[Notebook] = []
    with kernel() as cell:

        def open_(page: Any, read: Callable[[], Any], **state: Any) -> Notebook:
            cell.widgets.append(LiveWidget(page, read, **state))
            opened.append(Notebook(context.new_page(), cell.widgets[-1]))
            return opened[-1]

        yield open_
    context.close()
    for one in opened:
        assert one.problems == []
        assert {url for url in one.requests if not url.startswith("blob:")} == {HOST}


def test_a_job_is_drawn_by_the_page(notebook: Callable[..., Notebook], jobs: HandJobs) -> None:
    """With the graph, tables and charts; it changes as the job does, also before the kernel hears of the view."""
    cell = notebook(JobPage(NAME), partial(Followed, jobs, NAME), name=NAME)
    page = cell.page
    cell.has("main", "data-connection", "live")
    cell.has("[data-operator='2']", "data-rate", "500")
    expect(page.locator("[data-worker]")).to_have_count(2)
    jobs.put(routes(3, {"operators": {"2": {"records_in": 3200}}}))
    cell.has("[data-operator='2']", "data-rate", "2200")
    page.locator("[data-operator='4']").click()
    cell.has("[data-details='operator']", "data-key", "4")
    cell.has(".charts", "data-moments", "3")
    jobs.put(routes(4, HELD), routes(5, HELD))
    cell.has("[data-operator='4']", "data-holds", "done")
    jobs.put(routes(6, {"topics": {"ranks": {"partitions": {"1": {"subscribers": 1}}}}}))
    page.get_by_role("button", name="ranks", exact=True).first.click()
    cell.has("[data-details='topic']", "data-key", "ranks")
    expect(page.get_by_role("button", name="Show", exact=True)).to_have_count(0)
    jobs.put(routes(7, {"job": {"state": "complete"}}))
    jobs.end(NAME)
    cell.has("main", "data-state", "complete")
    cell.has("main", "data-connection", "ended")


def test_the_styles_of_notebook_and_view_are_apart(notebook: Callable[..., Notebook], jobs: HandJobs) -> None:
    """The view has the page's colours; the notebook's own buttons stay as they are."""
    cell = notebook(JobPage(NAME), partial(Followed, jobs, NAME), name=NAME)
    cell.has("main", "data-connection", "live")
    colour = "(element) => getComputedStyle(element).backgroundColor"
    assert cell.page.locator("#theirs").evaluate(colour) == "rgb(1, 2, 3)"
    assert cell.page.locator("[data-row] .choice").first.evaluate(colour) == "rgba(0, 0, 0, 0)"
    assert cell.page.locator("body").evaluate("(body) => getComputedStyle(body).margin") == "20px"
    assert cell.page.locator(".card").first.evaluate(colour) == "rgb(255, 255, 255)"


def test_an_explanation_is_brief(notebook: Callable[..., Notebook], jobs: HandJobs) -> None:
    """The probe with the words of `explain`, the graph with the operator lit, and no tables of operators."""
    jobs.put(routes(4, HELD), routes(5, HELD))
    cell = notebook(JobPage(NAME), partial(Followed, jobs, NAME), name=NAME, chosen=["probe", "done"])
    cell.has("[data-details='probe']", "data-key", "done")
    cell.has("[data-operator='4']", "data-lit", "")
    expect(cell.page.locator("[data-explanation]")).to_have_text(EXPLANATION)
    expect(cell.page.locator("[data-row], [data-worker]")).to_have_count(0)


def test_a_view_that_has_missed_a_change_asks_for_all(notebook: Callable[..., Notebook], jobs: HandJobs) -> None:
    """As one does that was shown late, or whose connection was lost."""
    cell = notebook(JobPage(NAME), partial(Followed, jobs, NAME), name=NAME)
    cell.has("[data-operator='2']", "data-rate", "500")
    cell.until(lambda: bool(cell.page.evaluate("window.hearers.size")))
    jobs.put(routes(3))
    assert eventually(lambda: '"number": 3' in json.dumps(wire(cell.widget).sent[-1]))
    wire(cell.widget).sent[-1]["content"]["number"] = 9
    jobs.put(routes(4))
    cell.has("main", "data-moment", f"{routes(4)['at']:.0f}")


def test_a_view_that_is_closed_leaves_nothing(notebook: Callable[..., Notebook], jobs: HandJobs) -> None:
    """It says so to the kernel, whose thread and reader end."""
    cell = notebook(JobPage(NAME), partial(Followed, jobs, NAME), name=NAME)
    cell.has("main", "data-connection", "live")
    cell.page.evaluate("window.leave()")
    cell.until(lambda: jobs.readers == 0 and not feeds())
    assert cell.page.evaluate("window.hearers.size") == 0
    assert cell.page.locator("main").count() == 0


def test_a_kernel_that_does_not_answer_is_asked_again(notebook: Callable[..., Notebook], jobs: HandJobs) -> None:
    """The view says so; when the connection is there again, it goes on."""
    cell = notebook(JobPage(NAME), partial(Followed, jobs, NAME), name=NAME)
    cell.has("main", "data-connection", "live")
    cell.pass_on()
    cell.page.clock.fast_forward(10_000)
    cell.page.clock.fast_forward(10_000)
    expect(cell.page.locator("main")).to_have_attribute("data-connection", "waiting", timeout=SOON_MS)
    cell.has("main", "data-connection", "live")


class Given:
    """Points that a test gives."""

    def __init__(self, *points: list[tuple[float, float]], problem: Exception | None = None) -> None:
        self._points, self._problem = points, problem

    def __iter__(self) -> Iterator[list[tuple[float, float]]]:
        yield from self._points
        if self._problem is not None:
            raise self._problem

    def close(self) -> None:
        self._points = ()


def test_a_chart_has_the_latest_points(notebook: Callable[..., Notebook]) -> None:
    """As a picture with a name for screen readers."""
    given = Given([(n, float(n)) for n in range(6)], [(6, -7.5)])
    cell = notebook(PlotPage(5), lambda: given, kind="plot", name="Topic ranks", label="mean of rank", most=5)
    cell.has(".plot", "data-last", "-7.5")
    cell.has(".plot", "data-points", "5")
    cell.has(".plot", "data-connection", "ended")
    expect(cell.page.locator(".plot canvas")).to_have_count(1)
    expect(cell.page.get_by_role("img")).to_have_accessible_name("mean of rank in 5 epochs; now \u22127.5")
    expect(cell.page.get_by_role("heading")).to_contain_text("Topic ranks")


def test_a_chart_says_why_it_has_ended(notebook: Callable[..., Notebook]) -> None:
    """In the words of the error."""
    given = Given([(1, 1.0)], problem=ValueError("no number"))
    cell = notebook(PlotPage(5), lambda: given, kind="plot", name="Topic ranks", label="n", most=5)
    cell.has(".plot", "data-points", "1")
    cell.until(lambda: cell.page.get_by_role("alert").count() == 1)
    expect(cell.page.get_by_role("alert")).to_have_text("ValueError: no number", timeout=SOON_MS)
