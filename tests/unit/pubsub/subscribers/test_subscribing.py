"""Finding a topic; the test plays the control store of a cluster."""

import socket

import pytest
import ray

from tidewheel.pubsub.errors import NoCluster
from tidewheel.pubsub.subscribers.subscribing import find_topic
from tidewheel.transport import ray_internals


def test_a_wrong_token_is_an_error_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A subscriber waits for a cluster that is not there yet. A token does not become right: it asks once."""
    asked: list[str] = []

    def refuse(address: str) -> None:
        asked.append(address)
        raise ray.exceptions.AuthenticationError("the token is wrong")

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray_internals, "joined_at", lambda: None)
    monkeypatch.setattr(ray_internals, "call_control_store", refuse)
    with socket.create_server(("127.0.0.2", 0)) as server:
        monkeypatch.setenv("RAY_ADDRESS", f"127.0.0.2:{server.getsockname()[1]}")
        with pytest.raises(NoCluster, match=r"the token is wrong.*the same RAY_AUTH_MODE and token"):
            find_topic("numbers", 60.0)
    assert len(asked) == 1
