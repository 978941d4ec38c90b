"""What tests of topics share."""

import pytest

from tidewheel.progress import TidewheelError
from tidewheel.pubsub.catalog import catalog_actor
from tidewheel.pubsub.subscribers import subscribing


@pytest.fixture
def no_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have this process find no Ray cluster, though there may be one, or it may have joined one for other tests."""

    def connect(failure: type[TidewheelError], within_s: float = 0.0) -> None:
        raise failure("no Ray cluster runs on this machine")

    for module in (subscribing, catalog_actor):
        monkeypatch.setattr(module, "connect_to_running", connect)
