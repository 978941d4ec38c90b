"""Joining the cluster; the test plays Ray."""

from types import SimpleNamespace

import pytest
import ray

from tidewheel.progress.errors import TidewheelError
from tidewheel.transport.ray_cluster import connect_to_running, namespace


@pytest.mark.parametrize(
    ("chosen", "expected"), [("mine", "mine"), ("8c2f8a3e-7c3b-4d4f-9a53-0c9f2f1f6f11", "tidewheel")]
)
def test_an_anonymous_namespace_is_nobodys(monkeypatch: pytest.MonkeyPatch, chosen: str, expected: str) -> None:
    """A namespace that the driver chose is kept; Ray's own, a UUID, gives way to the common one."""
    monkeypatch.setattr(ray, "get_runtime_context", lambda: SimpleNamespace(namespace=chosen))
    assert namespace() == expected


def test_an_address_where_nobody_listens_is_an_error_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the address and what to do."""
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    with pytest.raises(TidewheelError, match=r"no Ray cluster .*'127.0.0.1:1'.*set RAY_ADDRESS"):
        connect_to_running(TidewheelError)


def test_no_cluster_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even where ``RAY_ADDRESS`` says "local": it looks for one that runs."""
    addresses: list[str] = []

    def init(address: str, **options: object) -> None:
        addresses.append(address)
        raise ConnectionError("there is none")

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", init)
    for value in ("local", ""):
        monkeypatch.setenv("RAY_ADDRESS", value)
        with pytest.raises(TidewheelError, match="there is none"):
            connect_to_running(TidewheelError)
    assert addresses == ["auto", "auto"]
