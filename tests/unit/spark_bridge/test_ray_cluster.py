"""The questions to a Ray cluster before Spark runs on it, such as whether the executors of a session fit."""

import pytest

from tests.kit.messages import raises
from tidewheel.spark_bridge import BridgeError, ray_cluster, session
from tidewheel.spark_bridge.ray_cluster import ExecutorDemand, executor_demand

GIB = 2**30


def test_ray_client_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """RayDP's conversions do not work through Ray Client, so a session says so instead of failing in the middle."""
    monkeypatch.setattr("ray.util.client.ray.is_connected", lambda: True)
    with raises(BridgeError):
        ray_cluster.connect()


@pytest.mark.parametrize("cores", [0, -1])
def test_an_executor_without_cores_is_refused(cores: int) -> None:
    """Nonsense is refused before anything starts."""
    with raises(BridgeError), session("refused", cores=cores):
        pass


@pytest.mark.parametrize(
    ("demand", "nodes", "fits"),
    [
        (ExecutorDemand(1, 1, GIB), [{"CPU": 1, "memory": GIB}], True),
        (ExecutorDemand(2, 1, GIB), [{"CPU": 1, "memory": 9 * GIB}], False),
        (ExecutorDemand(2, 1, GIB), [{"CPU": 1, "memory": GIB}, {"CPU": 1, "memory": GIB}], True),
        (ExecutorDemand(1, 2, GIB), [{"CPU": 1, "memory": GIB}, {"CPU": 1, "memory": GIB}], False),
        (ExecutorDemand(1, 1, 2 * GIB), [{"CPU": 8, "memory": GIB}], False),
        (ExecutorDemand(4, 0.5, GIB), [{"CPU": 2, "memory": 4 * GIB}], True),
        (ExecutorDemand(1, 0, GIB), [{"memory": GIB}], False),
        (ExecutorDemand(1, 0, GIB), [{"CPU": 1, "memory": GIB}], True),
        (ExecutorDemand(1, 1, GIB), [], False),
    ],
)
def test_executors_fit_or_not(demand: ExecutorDemand, nodes: list[dict[str, float]], fits: bool) -> None:
    """An executor needs its CPUs and memory on one node, and RayDP's master one CPU to be placed."""
    assert (demand.shortage(nodes) is None) is fits


def test_a_shortage_says_what_is_wanted_and_what_there_is() -> None:
    """The numbers of the message are those that the user can change."""
    shortage = ExecutorDemand(3, 2, GIB).shortage([{"CPU": 4, "memory": 8 * GIB}])
    assert shortage is not None
    assert "3 executor(s) of 2 CPU(s) and 1024 MiB, 6 CPU(s) in all" in shortage
    assert "2 fit: there are 4 CPU(s) and 8192 MiB on 1 node(s)" in shortage


@pytest.mark.parametrize(
    ("memory", "size"), [("512m", 512 * 2**20), ("1g", GIB), ("2GB", 2 * GIB), (" 800k ", 800 * 1024)]
)
def test_memory_is_read_as_spark_writes_it(memory: str, size: int) -> None:
    """Amounts with a unit mean what Spark means by them."""
    assert executor_demand(1, 1, memory) == ExecutorDemand(1, 1, size)


@pytest.mark.parametrize(
    ("executors", "cpus", "memory"), [(0, 1, "1g"), (1, -1, "1g"), (1, 1, "1024"), (1, 1, "0g"), (1, 1, "big")]
)
def test_nonsense_is_refused(executors: int, cpus: float, memory: str) -> None:
    """An amount without a unit is refused too: Spark would read MiB and RayDP bytes."""
    with raises(BridgeError):
        executor_demand(executors, cpus, memory)
