"""The widget of a notebook: what the browser has from the beginning, and its messages."""

import asyncio
import gc
import json
from collections.abc import Iterator
from functools import partial

import pytest

from tests.browser.demo import NAME, routes, run_for_two_seconds
from tests.kit.gateway.paged import HandJobs
from tests.kit.notebook.followed import Followed
from tests.kit.notebook.kernel import Kernel, events, feeds, kernel, wire
from tests.waiting import eventually
from tidewheel.console.notebook.live_widget import LiveWidget
from tidewheel.console.notebook.page_module import page_module
from tidewheel.console.page.job_page import JobPage


@pytest.fixture
def cell() -> Iterator[Kernel]:
    """The cell of a notebook."""
    with kernel() as made:
        yield made


@pytest.fixture
def jobs() -> HandJobs:
    """A job that has run for two seconds."""
    return run_for_two_seconds()


@pytest.fixture
def widget(cell: Kernel, jobs: HandJobs) -> LiveWidget:
    """A view of it."""
    made = LiveWidget(JobPage(NAME), partial(Followed, jobs, NAME), name=NAME, chosen=["probe", "done"])
    cell.widgets.append(made)
    return made


def test_the_browser_has_the_page_and_what_to_show(widget: LiveWidget) -> None:
    """From the message that opens the widget."""
    opened = wire(widget).sent[0]
    assert opened["type"] == "comm_open"
    state = opened["state"]
    assert state["_esm"] == page_module()
    assert {name: state[name] for name in ("kind", "name", "chosen")} == {
        "kind": "job",
        "name": NAME,
        "chosen": ["probe", "done"],
    }


def test_a_job_comes_by_messages(widget: LiveWidget, jobs: HandJobs) -> None:
    """Whole to a browser that has not spoken, then by changes, as a gateway sends them. A question is answered."""
    assert eventually(lambda: [event[:2] for event in events(widget)] == [(1, "whole"), (2, "whole")])
    assert json.loads(events(widget)[1][2])["live"]["operators"]["0"]["records_out"] == 1000
    wire(widget).hear({"here": "a", "whole": True})
    jobs.put(routes(3))
    assert eventually(lambda: [event[:2] for event in events(widget)][2:] == [(2, "whole"), (3, "patch")])
    assert json.loads(events(widget)[3][2])["operators"]["0"] == {
        "frontier": ["3"],
        "messages_in": 30,
        "messages_out": 30,
        "records_out": 3000,
    }
    wire(widget).hear({"ask": "q", "path": f"jobs/{NAME}/operators/4"})
    answer = wire(widget).sent[-1]["content"]
    assert answer["answer"] == "q"
    assert len(json.loads(answer["data"])["at"]) == 3


@pytest.mark.parametrize("how", ["leave", "comm_close", "close"])
def test_nothing_is_left_when_the_cell_is_closed(widget: LiveWidget, jobs: HandJobs, how: str) -> None:
    """Neither thread nor reader: the view leaves, the browser closes the model, or the program closes the widget."""
    assert eventually(lambda: jobs.readers == 1)
    wire(widget).hear({"here": "a", "whole": True})
    connection = wire(widget)
    if how == "leave":
        connection.hear({"leave": "a"})
    elif how == "comm_close":
        connection.handle_close({"content": {"data": {}}})
    else:
        widget.close()
    assert eventually(lambda: jobs.readers == 0 and not feeds())


def test_a_message_of_another_form_is_ignored(widget: LiveWidget) -> None:
    """Of a browser that is not ours."""
    connection = wire(widget)
    connection.hear({"unknown": 1})
    connection.handle_msg({"content": {"data": {"method": "custom", "content": [1]}}, "buffers": []})
    assert eventually(lambda: len(events(widget)) == 2)


def test_the_loop_of_the_kernel_tells_whether_it_runs_a_cell(cell: Kernel, jobs: HandJobs) -> None:
    """A kernel that is idle and has no browser ends the feed; the same kernel within a cell does not."""

    async def run() -> LiveWidget:
        made = LiveWidget(JobPage(NAME), partial(Followed, jobs, NAME), name=NAME)
        cell.widgets.append(made)
        for second in range(3, 200):
            jobs.put(routes(second))
        assert eventually(lambda: len(events(made)) == 199), "this cell runs, and the loop does nothing else"
        for second in range(200, 290):
            jobs.put(routes(second))
            await asyncio.sleep(0)
            seen = second
            assert eventually(lambda: not feeds() or len(events(made)) == seen)  # noqa: B023 - it is asked here
        return made

    made = asyncio.run(run())
    assert made.feed is not None
    assert eventually(lambda: not feeds())


def test_a_widget_that_is_forgotten_does_not_fail(cell: Kernel, jobs: HandJobs) -> None:
    """Ipywidgets closes it when it is collected, or keeps it."""
    made = LiveWidget(JobPage(NAME), partial(Followed, jobs, NAME), name=NAME)
    made.close()
    made.close()
    del made
    gc.collect()
    assert eventually(lambda: not feeds())
