"""The benchmark of substreams runs on Ray and on simulated workers: few messages, and memory that stays flat."""

import pytest

from tests.benchmarks.quick_run import Figures, quick_run
from tests.ray.leftovers import nothing_left

pytestmark = [pytest.mark.ray, pytest.mark.long]


@pytest.fixture(scope="module")
def figures(ray_cluster: str) -> Figures:
    """What one quick run has measured; nothing of its jobs is left in the end."""
    with nothing_left():
        return quick_run("substreams", RAY_ADDRESS=ray_cluster)


@pytest.mark.parametrize("name", ["together", "one by one"])
def test_ends_cost_three_messages_a_worker(figures: Figures, name: str) -> None:
    """The command, the report and the news, however many workers there are."""
    for workers in (2, 8):
        assert 0 < figures["expectations"][f"{workers} workers, {name}: messages a worker a batch of ends"] <= 3


@pytest.mark.parametrize("size", ["1", "10", "100", "10,000"])
def test_records_go_through(figures: Figures, size: str) -> None:
    """With and without substreams, all of them."""
    for name in ("tracked", "not tracked"):
        assert figures["rows"][f"substreams of {size} records, {name}"] > 100


def test_memory_is_flat(figures: Figures) -> None:
    """Of the workers, while substreams come and go."""
    assert figures["expectations"]["growth of the memory of the workers, MiB"] < 20
