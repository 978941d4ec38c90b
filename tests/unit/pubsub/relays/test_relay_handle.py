"""Handles of relays, with stand-ins for their actors."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from tidewheel.pubsub.relays import relay_handle
from tidewheel.pubsub.relays.relay_actor import RelayStatistics
from tidewheel.pubsub.relays.relay_handle import RelayHandle, RelayRegistry, TopicLife


def answering(answer: Any) -> Any:
    """Return a method of an actor that answers at once."""
    return SimpleNamespace(remote=lambda *_: answer)


def test_relays_go_on_to_the_next_parent_and_in_the_end_to_the_publishers(monkeypatch: pytest.MonkeyPatch) -> None:
    """They know which relays are above them, and which life of the topic they are for. Closed ones are left out."""
    info = SimpleNamespace(registration="life", delivery="exactly_once", partitions=("p", "q"))

    async def ask(_registry: RelayRegistry, *_: object, within_s: float) -> Any:
        return info

    def handle(name: str, namespace: str) -> str:
        if name == "closed":
            raise ValueError(name)
        return f"{name} in {namespace}"

    async def scenario() -> list[TopicLife | None]:
        registry = RelayRegistry("topic", ["upper", "closed", "other"], 1)
        lives = []
        for _ in range(4):
            lives.append(await registry.life(0.0))
            registry.leave_parent()
        return lives

    monkeypatch.setattr(RelayRegistry, "_ask", ask)
    monkeypatch.setattr("ray.get_actor", handle)
    monkeypatch.setattr(relay_handle, "namespace", lambda: "here")
    assert asyncio.run(scenario()) == [
        TopicLife("life", 2, ("upper in here",), is_below_relay=True),
        TopicLife("life", 2, ("other in here",), is_below_relay=True),
        *[TopicLife("life", 2, ("p", "q"))] * 2,
    ]


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
