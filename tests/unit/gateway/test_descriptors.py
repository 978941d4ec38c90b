"""The shares of the file descriptors that connections may have."""

import resource

import pytest

from tidewheel.gateway.descriptors import leaves_room, most_silent


def limit_to(monkeypatch: pytest.MonkeyPatch, descriptors: int) -> None:
    """Let the process seem to have a limit."""
    monkeypatch.setattr(resource, "getrlimit", lambda which: (descriptors, descriptors))


@pytest.mark.parametrize(
    ("limit", "most"), [(10, 1), (256, 16), (1024, 64), (1 << 20, 128), (resource.RLIM_INFINITY, 128)]
)
def test_a_sixteenth_may_be_silent(limit: int, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """At least one connection, and no more than 128."""
    limit_to(monkeypatch, limit)
    assert most_silent() == most


@pytest.mark.parametrize(
    ("limit", "newest", "has_room"), [(256, 223, True), (256, 224, False), (resource.RLIM_INFINITY, 5000, True)]
)
def test_an_eighth_stays_free(limit: int, newest: int, has_room: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of a new descriptor tells."""
    limit_to(monkeypatch, limit)
    assert leaves_room(newest) is has_room
