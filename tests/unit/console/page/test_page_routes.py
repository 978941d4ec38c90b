"""The stream of a job for one browser, and the files of the page."""

import asyncio
import re
from pathlib import Path

import pytest

from tests.kit.telemetry.documents import BEGAN_AT, document, views
from tests.packaging.repository import ROOT
from tidewheel.console.page.job_page import JobPage
from tidewheel.console.page.page_routes import FILES, job_events

OURS = sorted(FILES.glob("*.*"))


def _kind(event: bytes) -> str:
    return event.split(b"\n", 1)[0].decode()


def test_a_slow_browser_receives_the_next_whole_document_instead_of_a_backlog() -> None:
    """It takes an event when it has sent the one before; what came meanwhile is one document."""

    async def read() -> None:
        page = JobPage("words-0badcafe")
        first, *others = views(*(document(at=BEGAN_AT + second) for second in range(50)))
        page.receive(first)
        events = job_events(page, keep_alive_s=10)
        assert _kind(await anext(events)).startswith(":")
        assert _kind(await anext(events)) == "event: whole"
        page.receive(others[0])
        assert _kind(await anext(events)) == "event: patch"
        for view in others[1:]:
            page.receive(view)
        whole = await anext(events)
        assert _kind(whole) == "event: whole"
        assert str(BEGAN_AT + 49).encode() in whole
        page.end()
        assert [_kind(event) async for event in events] == ["event: patch", "event: end"]
        assert page.listeners == 0

    asyncio.run(read())


def test_an_idle_stream_shows_that_it_lives() -> None:
    """So that a browser notices a broken connection, and the gateway a browser that has gone."""

    async def read() -> None:
        page = JobPage("words-0badcafe")
        events = job_events(page, keep_alive_s=0.01)
        assert [_kind(await anext(events)) for _ in range(3)] == [": the job lives"] * 3
        page.stop()
        assert [event async for event in events] == []

    asyncio.run(read())


@pytest.mark.parametrize("path", OURS, ids=lambda path: path.name)
def test_the_files_load_nothing_from_elsewhere(path: Path) -> None:
    """And have no script or style in the HTML, which the policy would refuse."""
    text = path.read_text()
    addresses = re.findall(r"(?:https?:)?//[\w.-]+\.\w+[^\s\"']*", text)
    assert [address for address in addresses if "www.w3.org" not in address] == []
    if path.suffix == ".html":
        assert re.findall(r"<script[^>]*>(?!</script>)|<style|\son\w+=\"", text) == []


def test_the_files_of_others_have_their_licences_beside_them() -> None:
    """As the licences ask for."""
    vendor = FILES / "vendor"
    assert {path.name for path in vendor.iterdir()} == {
        "LICENSE-htm",
        "LICENSE-preact",
        "LICENSE-uPlot",
        "preact.js",
        "uPlot.css",
        "uPlot.js",
    }
    assert sum(path.stat().st_size for path in vendor.iterdir()) < 100_000
    assert FILES.is_relative_to(ROOT)
