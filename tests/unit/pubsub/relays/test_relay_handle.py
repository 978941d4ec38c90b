"""Handles of relays, with stand-ins for their actors."""

from types import SimpleNamespace
from typing import Any

import pytest

from tidewheel.pubsub.relays import relay_handle
from tidewheel.pubsub.relays.relay_actor import RelayStatistics
from tidewheel.pubsub.relays.relay_handle import RelayHandle


def answering(answer: Any) -> Any:
    """Return a method of an actor that answers at once."""
    return SimpleNamespace(remote=lambda *_: answer)


def test_relays_that_are_closed_have_no_statistics(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray ends an actor some time after it is killed, and until then the actor still answers."""
    monkeypatch.setattr("ray.get", lambda call, timeout: call)
    statistics = RelayStatistics("node", *[0] * 8)
    actor = SimpleNamespace(serves=answering(True), statistics=answering(statistics), close=answering(None))
    handle = RelayHandle("topic", [("relay", actor)])
    assert handle.statistics() == [statistics]
    handle.close()
    assert handle not in relay_handle._RUNNING
    assert handle.statistics() == []
