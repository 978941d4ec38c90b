"""The page of this process's own jobs."""

import json
import re
import sys
import urllib.request
from collections.abc import Iterator
from urllib.parse import parse_qs, urlsplit

import pytest

import tidewheel as tw
from tests.kit.messages import raises
from tests.waiting import eventually
from tidewheel.console.page import own_page
from tidewheel.gateway import GatewayError


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """No page is served before a test, and none after it."""
    started = vars(own_page)["_started"]
    started.cache_clear()
    yield
    if started.cache_info().currsize:
        started().gateway.stop()
    started.cache_clear()


def _flow() -> tw.Dataflow:
    flow = tw.Dataflow("paged")
    flow.input("words").capture("words")
    return flow


def _jobs(address: str) -> list[dict[str, object]]:
    split = urlsplit(address)
    (token,) = parse_qs(split.fragment)["token"]
    request = urllib.request.Request(f"http://{split.netloc}/jobs", headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(request, timeout=10) as response:
        found = json.load(response)
    assert isinstance(found, list)
    return found


def test_a_program_says_once_where_its_page_is(capsys: pytest.CaptureFixture[str]) -> None:
    """One page has all of its jobs, which stay when they have ended."""
    with tw.run(_flow(), engine="local", page=True) as first:
        first.stop()
    with tw.run(_flow(), engine="local", page=True) as second:
        said = capsys.readouterr()
        (address,) = re.findall(r"http://127\.0\.0\.1:\d+/#\S+", said.err)
        assert said.out == ""
        assert parse_qs(urlsplit(address).fragment)["job"] == [first.name]
        assert eventually(lambda: {job["name"] for job in _jobs(address)} == {first.name, second.name})
        second.stop()
    assert eventually(lambda: {job.get("state") for job in _jobs(address)} == {"stopped"})


def test_without_the_extra_nothing_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says what to install; no job runs."""
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    with raises(GatewayError):
        tw.run(_flow(), engine="local", page=True)
    assert vars(own_page)["_started"].cache_info().currsize == 0
