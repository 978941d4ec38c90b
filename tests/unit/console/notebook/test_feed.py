"""The feed of views in a notebook: what it sends when, and that nothing is left when they have gone."""

import json
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from typing import Any

import pytest

from tests.kit.notebook.kernel import feeds
from tests.waiting import eventually
from tidewheel.console.notebook.feed import MOST_QUIET, Feed
from tidewheel.console.page.job_page import Shown
from tidewheel.gateway.json_form import encode_json
from tidewheel.progress import TidewheelError


class Numbers:
    """A page that shows the last number."""

    def __init__(self) -> None:
        self.shown = Shown()

    def receive(self, number: int) -> None:
        self.shown = Shown(self.shown.number + 1, {"all": number}, encode_json({"last": number}))

    def end(self, problem: str | None = None) -> None:
        self.shown = Shown(self.shown.number + 1, {"problem": problem}, encode_json({"problem": problem}), is_last=True)

    def history(self, part: str) -> dict[str, Any]:
        return {"of": part}


class Reading:
    """What a test puts, until it is closed."""

    def __init__(self) -> None:
        self.news: SimpleQueue[int | Exception | None] = SimpleQueue()
        self.is_closed = False

    def __iter__(self) -> Iterator[int]:
        while (news := self.news.get()) is not None:
            if isinstance(news, Exception):
                raise news
            yield news

    def close(self) -> None:
        self.is_closed = True
        self.news.put(None)


class Bench:
    """A feed whose messages are kept."""

    def __init__(self, when_idle: Callable[[Callable[[], None]], Any] | None = None) -> None:
        self.readings: list[Reading] = []
        self.sent: list[dict[str, Any]] = []
        self.feed = Feed(Numbers(), self._read, lambda message: self.sent.append(dict(message)), when_idle)

    def _read(self) -> Reading:
        self.readings.append(Reading())
        return self.readings[-1]

    def put(self, *news: int | Exception | None) -> None:
        """Let the present reading have news; wait until they have arrived."""
        assert eventually(lambda: bool(self.readings) and not self.readings[-1].is_closed)
        reading = self.readings[-1]
        for one in news:
            reading.news.put(one)
        assert eventually(lambda: reading.is_closed or reading.news.empty())

    def has(self, *expected: str) -> bool:
        """Wait until the events of all messages are these: "whole 1", "patch 2", and so on."""
        return eventually(lambda: self.events == list(expected))

    @property
    def events(self) -> list[str]:
        """The events that were sent."""
        found = []
        for message in self.sent:
            if "event" in message:
                name, data = message["event"].strip().removeprefix("event: ").split("\ndata: ")
                content = json.loads(data)
                found.append(" ".join([name, *map(str, content.values())]))
        return found


@pytest.fixture
def bench() -> Iterator[Bench]:
    """A feed that has begun."""
    made = Bench()
    made.feed.start()
    yield made
    made.feed.stop()
    assert eventually(lambda: not feeds())


def test_before_a_view_has_come_everything_is_whole(bench: Bench) -> None:
    """The kernel may run a cell, and hear of no view; whenever one comes it can begin."""
    bench.put(1, 2)
    assert bench.has("whole 1", "whole 2")


def test_a_view_receives_all_and_then_changes(bench: Bench) -> None:
    """From the moment when it says that it is there."""
    bench.put(1)
    assert bench.has("whole 1")
    bench.feed.hear({"here": "a", "whole": True})
    assert bench.has("whole 1", "whole 1")
    bench.put(2, 3)
    assert bench.has("whole 1", "whole 1", "patch 2", "patch 3")
    bench.feed.hear({"here": "a", "whole": False})
    bench.put(4)
    assert bench.has("whole 1", "whole 1", "patch 2", "patch 3", "patch 4")
    assert [message["number"] for message in bench.sent] == [1, 1, 2, 3, 4]


def test_when_the_last_view_leaves_nothing_is_left(bench: Bench) -> None:
    """Neither a thread nor a reader; another view begins anew, on the page as it is."""
    bench.put(1)
    bench.feed.hear({"here": "a", "whole": True})
    bench.feed.hear({"here": "b", "whole": True})
    bench.feed.hear({"here": "a", "whole": False})
    bench.feed.hear({"leave": "a"})
    assert bench.feed.is_running
    bench.feed.hear({"leave": "b"})
    assert eventually(lambda: not bench.feed.is_running)
    assert bench.readings[0].is_closed
    bench.sent.clear()
    bench.feed.hear({"here": "c", "whole": True})
    assert bench.has("whole 1")
    assert eventually(lambda: len(bench.readings) == 2)
    bench.put(2)
    assert bench.has("whole 1", "patch 2")


def test_a_view_of_a_page_that_was_loaded_again_does_not_keep_the_feed(bench: Bench) -> None:
    """It cannot leave; the views that are there say so when they receive all of it."""
    bench.put(1)
    bench.feed.hear({"here": "before", "whole": True})
    bench.feed.hear({"here": "after", "whole": True})
    bench.feed.hear({"leave": "after"})
    assert eventually(lambda: not bench.feed.is_running)


def test_a_view_that_comes_as_another_leaves(bench: Bench) -> None:
    """The thread may still be about to end."""
    bench.put(1)
    for turn in range(50):
        bench.feed.hear({"here": f"{turn}", "whole": True})
        bench.feed.hear({"leave": f"{turn}"})
    bench.feed.hear({"here": "last", "whole": True})
    bench.sent.clear()
    assert eventually(lambda: not bench.readings[-1].is_closed)
    bench.put(2)
    assert bench.has("patch 2")
    assert feeds() == ["tidewheel-notebook"]


def test_the_end_is_told(bench: Bench) -> None:
    """And told again to a view that comes later; nothing is read any more."""
    bench.put(1, None)
    assert bench.has("whole 1", "whole None", "end")
    assert eventually(lambda: not bench.feed.is_running)
    bench.sent.clear()
    bench.feed.hear({"here": "late", "whole": True})
    assert bench.has("whole None", "end")
    assert not bench.feed.is_running
    assert len(bench.readings) == 1


@pytest.mark.parametrize("problem", [TidewheelError("it is gone"), ValueError("it is gone")])
def test_a_problem_is_told(bench: Bench, problem: Exception) -> None:
    """In its own words; an error that is none of tidewheel has its type before it, and is logged."""
    bench.put(problem)
    assert eventually(lambda: bench.events[-1:] == ["end"])
    assert bench.events[0].endswith("it is gone")


def test_a_question_is_answered(bench: Bench) -> None:
    """By the last part of its path, as the page's server does."""
    bench.feed.hear({"ask": "7x", "path": "jobs/sums/operators/12"})
    assert bench.sent == [{"answer": "7x", "data": '{"of":"12"}'}]


def test_a_browser_that_is_gone_ends_the_feed() -> None:
    """After some changes without a sign, of which those do not count for which the kernel was in a cell."""
    calls: list[Callable[[], None]] = []
    bench = Bench(calls.append)
    bench.feed.start()
    bench.put(*range(3 * MOST_QUIET))
    assert bench.feed.is_running
    assert len(calls) == 1
    calls.pop()()
    for number in range(MOST_QUIET):
        assert bench.feed.is_running
        bench.put(number)
        assert eventually(lambda: bool(calls) or not bench.feed.is_running)
        if calls:
            calls.pop()()
    assert eventually(lambda: not bench.feed.is_running)
    assert bench.readings[0].is_closed


def test_a_sign_keeps_the_feed() -> None:
    """Of a view that still shows it."""
    bench = Bench(lambda call: call())
    bench.feed.start()
    for _ in range(4):
        bench.put(*range(MOST_QUIET - 1))
        assert eventually(lambda: bench.sent[-1]["event"].endswith(f"{MOST_QUIET - 2}}}\n\n"))
        bench.feed.hear({"here": "a", "whole": False})
    assert bench.feed.is_running
    bench.feed.stop()
    assert eventually(lambda: not bench.feed.is_running)


def test_a_kernel_that_ends_ends_the_feed() -> None:
    """Its loop is closed, and refuses to call anything."""

    def refuse(call: Callable[[], None]) -> None:
        raise RuntimeError("the loop is closed")

    bench = Bench(refuse)
    bench.feed.start()
    bench.put(1)
    assert eventually(lambda: not bench.feed.is_running)
