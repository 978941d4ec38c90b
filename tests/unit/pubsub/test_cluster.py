"""Getting to the cluster, with Ray played by the test."""

from types import SimpleNamespace

import pytest
import ray

from tidewheel.pubsub import DeliveryError
from tidewheel.pubsub.cluster import connect, namespace


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
    with pytest.raises(DeliveryError, match=r"no Ray cluster .*'127.0.0.1:1'.*set RAY_ADDRESS"):
        connect()


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
        with pytest.raises(DeliveryError, match="there is none"):
            connect()
    assert addresses == ["auto", "auto"]
