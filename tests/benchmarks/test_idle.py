"""The benchmark of an idle job runs on Ray, and leaves nothing behind; an idle job costs little more than idle Ray."""

import pytest

from tests.benchmarks.quick_run import Figures, quick_run
from tests.ray.leftovers import nothing_left

pytestmark = [pytest.mark.ray, pytest.mark.long]

WORKERS = 4


@pytest.fixture(scope="module")
def figures(ray_cluster: str) -> Figures:
    """What one quick run has measured; nothing of its jobs is left in the end."""
    with nothing_left():
        return quick_run("jobs.idle", RAY_ADDRESS=ray_cluster)


def test_it_has_every_process(figures: Figures) -> None:
    """The share of each process, of the job's and of bare Ray's, and the sums."""
    kinds = {"bare Ray": ("threaded actor", "asynchronous actor"), "idle job": ("worker", "publisher")}
    expected = {f"{what}, {name}" for what in kinds for name in ("driver", "together")}
    expected |= {f"{what}, {kind} {n}" for what, of in kinds.items() for kind in of for n in range(WORKERS)}
    assert set(figures["rows"]) == {f"{name}: of one core" for name in expected}


def test_an_idle_job_sleeps(figures: Figures) -> None:
    """None of its processes polls: beyond what Ray takes, five seconds cost a few hundredths of a second in all."""
    beyond = figures["expectations"]["an idle job of 4 workers over 5 s, beyond bare Ray: % of one core"]
    assert beyond < 10
