"""What tests of the gateway share."""

import pytest


@pytest.fixture(autouse=True)
def no_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep them away from a Ray cluster that happens to run on this machine: nobody listens there."""
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
