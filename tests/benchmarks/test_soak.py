"""The benchmark that looks for growing memory runs on Ray for half a minute, and finds none."""

import pytest

from tests.benchmarks.quick_run import Figures, quick_run
from tests.ray.leftovers import nothing_left

pytestmark = [pytest.mark.ray, pytest.mark.long]

PROCESSES = ["driver", "worker 0", "worker 1", "publisher 0", "publisher 1"]


@pytest.fixture(scope="module")
def figures(ray_cluster: str) -> Figures:
    """What one quick run has measured; nothing of its jobs is left in the end."""
    with nothing_left():
        return quick_run("jobs.soak", RAY_ADDRESS=ray_cluster)


def test_it_runs_at_full_rate(figures: Figures) -> None:
    """Thousands of epochs have passed, each of which the subscriber has seen."""
    assert figures["rows"]["epochs at full rate"] > 30


@pytest.mark.parametrize("process", PROCESSES)
def test_memory_is_flat(figures: Figures, process: str) -> None:
    """After the warm-up, no process grows by more than a twentieth of what it has."""
    before = figures["rows"][f"{process}: memory, first half"]
    growth = figures["expectations"][f"{process}: growth of memory, MiB"]
    assert before > 10
    assert growth < min(20.0, before / 20)
