"""The page of one job: what a browser receives gives the document, whatever it has missed."""

import asyncio
import json
import random
from typing import Any

import pytest

from tests.kit.telemetry.documents import BEGAN_AT, document, operator, views, worker
from tidewheel.console.page.job_page import JobPage
from tidewheel.display.merge_patch import merge


def _received(event: bytes, known: dict[str, Any]) -> dict[str, Any]:
    kind, data = event.decode().rstrip("\n").split("\n")
    content = json.loads(data.removeprefix("data: "))
    assert isinstance(content, dict)
    return merge(known, content) if kind == "event: patch" else content


@pytest.mark.parametrize("seed", range(20))
def test_a_browser_that_misses_moments_has_the_document_all_the_same(seed: int) -> None:
    """It receives the change if it has missed none, and else the whole document."""
    chance = random.Random(seed)
    page, known, number = JobPage("words-0badcafe"), dict[str, Any](), 0
    made = [
        document(
            at=BEGAN_AT + second,
            operators={
                str(n): operator("map", records_in=chance.randrange(9)) for n in range(3) if chance.random() < 0.8
            },
        )
        for second in range(30)
    ]
    for view in views(*made):
        page.receive(view)
        if chance.random() < 0.6:
            event = page.shown.event_after(number)
            assert event.startswith(b"event: patch") == (number == page.shown.number - 1 and number > 0)
            known, number = _received(event, known), page.shown.number
            assert known == json.loads(json.dumps(page.shown.document)), f"seed {seed}"


def test_a_job_that_has_ended_stays_as_it_was() -> None:
    """The end of its telemetry adds nothing."""
    page = JobPage("words-0badcafe")
    page.receive(views(document(state="complete"))[0])
    page.end()
    assert page.shown.is_last
    assert page.shown.document is not None
    assert page.shown.document["job"]["state"] == "complete"


def test_the_workers_of_a_lost_job_are_lost() -> None:
    """It is not known whether they run, nor whether inputs are open."""
    page = JobPage("words-0badcafe")
    port = {"batches": 1, "is_open": True}
    page.receive(views(document(workers={"0": worker()}, inputs={"lines": port}))[0])
    page.end("the driver is gone")
    assert page.shown.document is not None
    assert page.shown.document["workers"]["0"] == {**worker(), "state": "lost"}
    assert page.shown.document["inputs"] == {"lines": {"batches": 1}}


def test_a_job_that_cannot_be_followed_any_more_is_lost() -> None:
    """With the reason; unless it had ended before."""
    page, ended = JobPage("words-0badcafe"), JobPage("words-0badcafe")
    page.receive(views(document())[0])
    ended.receive(views(document(state="failed", job={"error": "ValueError: no"}))[0])
    for one in (page, ended):
        one.end("its publisher is gone")
        assert one.shown.document is not None
    assert page.summary()["state"] == "lost"
    assert page.summary()["error"] == "its publisher is gone"
    assert ended.summary()["state"] == "failed"


def test_the_summary_has_what_a_list_shows() -> None:
    """Before the first view it has the name alone."""
    page = JobPage("words-0badcafe")
    assert page.summary() == {"name": "words-0badcafe", "records": None, "operators": 0}
    page.receive(views(document())[0])
    summary = page.summary()
    assert (summary["state"], summary["workers"], summary["operators"]) == ("running", 1, 2)


def test_history_has_amounts_and_rates() -> None:
    """A queue is an amount; records are a rate, not known at first."""
    page = JobPage("words-0badcafe")
    for view in views(
        document(operators={"1": operator("map", records_in=0, queue=3)}),
        document(at=BEGAN_AT + 2, operators={"1": operator("map", records_in=8, queue=5)}),
    ):
        page.receive(view)
    found = page.history("1")
    assert found["queue"] == [3.0, 5.0]
    assert found["records_in"][1] == 4.0
    assert found["records_in"][0] != found["records_in"][0]  # not a number


def test_each_change_wakes_all_listeners() -> None:
    """From another thread, too; one that has left is not woken."""

    async def listen() -> None:
        page = JobPage("words-0badcafe")
        with page.listening() as one, page.listening() as other:
            assert page.listeners == 2
            await asyncio.to_thread(page.receive, views(document())[0])
            await asyncio.wait_for(asyncio.gather(one.wait(), other.wait()), 10)
        assert page.listeners == 0
        page.end()

    asyncio.run(listen())
