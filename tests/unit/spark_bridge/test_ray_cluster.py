"""What is asked of a Ray cluster before Spark runs on it."""

import pytest

from tidewheel.spark_bridge import BridgeError, ray_cluster, session


def test_ray_client_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """RayDP's conversions do not work through Ray Client, so a session says so instead of failing in the middle."""
    monkeypatch.setattr("ray.util.client.ray.is_connected", lambda: True)
    with pytest.raises(BridgeError, match="Ray Client"):
        ray_cluster.connect()


@pytest.mark.parametrize("cores", [0, -1])
def test_an_executor_without_cores_is_refused(cores: int) -> None:
    """Nonsense is refused before anything starts."""
    with pytest.raises(BridgeError, match="one core or more"), session("refused", cores=cores):
        pass
