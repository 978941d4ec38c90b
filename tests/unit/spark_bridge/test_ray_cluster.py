"""What is asked of a Ray cluster before Spark runs on it."""

import pytest

from tidewheel.spark_bridge import session
from tidewheel.spark_bridge.errors import BridgeError


def test_ray_client_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """RayDP's conversions do not work through Ray Client, so a session says so instead of failing in the middle."""
    monkeypatch.setattr("ray.util.client.ray.is_connected", lambda: True)
    with pytest.raises(BridgeError, match="Ray Client"), session("refused"):
        pass


def test_a_refused_session_leaves_room_for_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a session that is open blocks another: after a failure the next attempt gets as far as the first."""
    monkeypatch.setattr("ray.util.client.ray.is_connected", lambda: True)
    for _ in range(2):
        with pytest.raises(BridgeError, match="Ray Client"), session("refused"):
            pass


@pytest.mark.parametrize("cores", [0, -1])
def test_an_executor_without_cores_is_refused(cores: int) -> None:
    """Nonsense is refused before anything starts."""
    with pytest.raises(BridgeError, match="one core or more"), session("refused", cores=cores):
        pass
