"""`EagerPoll`: it finds what is readable, looks before it sleeps only after a short wait, and keeps its deadline."""

import os
import threading
from collections.abc import Iterator
from time import perf_counter

import pytest

from tidewheel.transport import socket_receiver
from tidewheel.transport.socket_receiver import EagerPoll

DEADLINE_MS = 30_000


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    """Both ends of a pipe."""
    ends = os.pipe()
    yield ends
    for end in ends:
        os.close(end)


@pytest.fixture
def yields(monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """One entry for each time that a poll has let other threads run, which it does between two looks."""
    found: list[None] = []
    monkeypatch.setattr(os, "sched_yield", lambda: found.append(None))
    return found


def polled(pipe: tuple[int, int]) -> EagerPoll:
    poll = EagerPoll()
    poll.register(pipe[0])
    return poll


def test_it_returns_the_readable_descriptors(pipe: tuple[int, int]) -> None:
    """At once if there are some, else as soon as there are, else none in time."""
    poll = polled(pipe)
    assert poll.poll(0) == []
    assert poll.poll(1) == []
    os.write(pipe[1], b"x")
    assert [descriptor for descriptor, _ in poll.poll(DEADLINE_MS)] == [pipe[0]]
    os.read(pipe[0], 1)
    threading.Timer(0.02, os.write, [pipe[1], b"x"]).start()
    assert [descriptor for descriptor, _ in poll.poll(DEADLINE_MS)] == [pipe[0]]


def test_after_a_long_wait_it_sleeps_at_once(pipe: tuple[int, int], yields: list[None]) -> None:
    """So an idle process does not poll."""
    poll = polled(pipe)
    for _ in range(3):
        assert poll.poll(2) == []
    assert yields == []


def test_after_a_short_wait_it_looks_before_it_sleeps(
    pipe: tuple[int, int], yields: list[None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And if nothing has come by then it sleeps, and does not look the next time."""
    monkeypatch.setattr(socket_receiver, "SHORT_S", 0.005)
    poll = polled(pipe)
    poll._last_wait_was_short = True
    began = perf_counter()
    assert poll.poll(20) == []
    assert perf_counter() - began >= 0.02
    assert yields
    yields.clear()
    assert poll.poll(2) == []
    assert yields == []


def test_what_comes_while_it_looks_is_found_and_keeps_it_eager(
    pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A peer that answers at once is found without sleeping."""
    monkeypatch.setattr(socket_receiver, "SHORT_S", 5.0)
    monkeypatch.setattr(os, "sched_yield", lambda: os.write(pipe[1], b"x"))
    poll = polled(pipe)
    poll._last_wait_was_short = True
    assert poll.poll(DEADLINE_MS)
    assert poll._last_wait_was_short
